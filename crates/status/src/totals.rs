//! What happened since the application began: numbers that only rise, whatever is forgotten of what they count.

use firesteel_types::{Event, TaskFailure, TaskMetrics};

use crate::metrics;

/// What happened since the application began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Totals {
    pub jobs_started: u64,
    pub jobs_succeeded: u64,
    pub jobs_failed: u64,
    /// How long the job took that ended last.
    pub last_job_ms: u64,
    pub stages_completed: u64,
    pub stages_failed: u64,
    pub stages_skipped: u64,
    pub tasks_completed: u64,
    pub tasks_failed: u64,
    pub tasks_killed: u64,
    pub tasks_skipped: u64,
    /// Tasks that had succeeded and were run again, because what they wrote was lost.
    pub tasks_resubmitted: u64,
    pub tasks_speculative: u64,
    pub executors_added: u64,
    pub executors_removed: u64,
    /// For the application, not for single stages.
    pub executors_excluded: u64,
    pub executors_unexcluded: u64,
    /// What tasks that have ended cost.
    pub metrics: TaskMetrics,
}

impl Totals {
    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::TaskEnd { failure, metrics, .. } => {
                *match failure {
                    None => &mut self.tasks_completed,
                    Some(TaskFailure::Killed { .. }) => &mut self.tasks_killed,
                    Some(_) => &mut self.tasks_failed,
                } += 1;
                if let Some(metrics) = metrics {
                    metrics::add(&mut self.metrics, metrics);
                }
            }
            Event::JobStart { .. } => self.jobs_started += 1,
            Event::StageCompleted { failure: None, .. } => self.stages_completed += 1,
            Event::StageCompleted { .. } => self.stages_failed += 1,
            Event::TaskResubmitted { .. } => self.tasks_resubmitted += 1,
            Event::SpeculativeTaskSubmitted { .. } => self.tasks_speculative += 1,
            Event::ExecutorAdded { .. } => self.executors_added += 1,
            Event::ExecutorRemoved { .. } => self.executors_removed += 1,
            Event::ExecutorExcluded { stage: None, .. } => self.executors_excluded += 1,
            Event::ExecutorUnexcluded { .. } => self.executors_unexcluded += 1,
            _ => {}
        }
    }

    /// A job ended, well or not, after so long, and did not need these stages with their tasks.
    pub(crate) fn job_ended<T>(&mut self, is_ok: bool, took_ms: u64, skipped: &[(T, u32)]) {
        *(if is_ok { &mut self.jobs_succeeded } else { &mut self.jobs_failed }) += 1;
        self.last_job_ms = took_ms;
        self.stages_skipped += skipped.len() as u64;
        self.tasks_skipped += skipped.iter().map(|(_, tasks)| u64::from(*tasks)).sum::<u64>();
    }
}
