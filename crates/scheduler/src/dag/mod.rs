//! The DAG scheduler: jobs into stages, stages into task sets.
//!
//! It owns the living jobs and stages, and decides by the one [`BlockMaster`] which outputs and cached
//! partitions are there. It places no task, retries no single task, holds no result: outputs of tasks wait
//! with the shell under the task's id until [`SchedulerEffect::ReleaseTask`].
//!
//! | file | owns |
//! |---|---|
//! | `core` | cutting a job into stages, submitting them, parents first |
//! | `completion` | what a task's success means, the end of stages and jobs |
//! | `failure` | fetch failures, lost executors, aborts, cancellation, the resubmission timer |
//! | `rollback` | readers of map outputs that came out different when they were computed again |
//! | `graph` | walks of the lineage |
//! | `state` | jobs and stages as data |
//! | `executors` | lost executors |
//!
//! Architecture Invariant: a stage's set of jobs contains that of each of its children, because a
//! job takes part in every stage of its lineage, kept or skipped. So whatever ends the jobs of a
//! stage ends those of all that wait for it, and nothing waits for a stage that is gone.
//!
//! Architecture Invariant: nothing waits for an idle stage. The handler that completes a
//! stage tells its children; a waiting stage looks at all its parents again before it is submitted, so losses
//! in the meantime need no bookkeeping.
//!
//! Architecture Invariant: an attempt's end is decided by task ends alone. That the task scheduler
//! runs a lost executor's finished map tasks again is welcome but never waited for.

mod completion;
mod core;
mod executors;
mod failure;
mod graph;
mod rollback;
mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use firesteel_types::{Event, JobId, ShuffleId, StageId, TaskFailure, TaskOutcome, Tick};

use crate::SchedulerEffect;
use crate::blocks::BlockMaster;
use crate::messages::{DagEffect, DagEvent, DagOptions};
use executors::LostExecutors;
use state::{Job, Stage};

/// The DAG scheduler's state machine.
pub struct DagScheduler {
    options: DagOptions,
    next_stage: u32,
    jobs: BTreeMap<JobId, Job>,
    stages: BTreeMap<StageId, Stage>,
    /// The living map stage of a shuffle.
    shuffle_stages: BTreeMap<ShuffleId, StageId>,
    blocks: BlockMaster,
    lost: LostExecutors,
    /// When resting stages are submitted again; set while there are any.
    resubmit_at: Option<Tick>,
}

/// How much the scheduler remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DagCounts {
    /// Jobs that have not ended.
    pub jobs: usize,
    /// Stages living jobs may need.
    pub stages: usize,
    /// Of these, stages that wait for parents.
    pub waiting: usize,
    /// Of these, stages with a task set out.
    pub running: usize,
    /// Of these, stages that wait for the resubmission timer.
    pub resting: usize,
    /// Shuffles with map outputs, or about to have some.
    pub shuffles: usize,
    /// RDDs with cached partitions.
    pub cached_rdds: usize,
    /// Executors lost while jobs ran.
    pub lost_executors: usize,
}

/// One call of [`DagScheduler::handle`]: its moment and its effects.
struct Turn<'a> {
    now: Tick,
    out: &'a mut Vec<DagEffect>,
}

impl Turn<'_> {
    fn emit(&mut self, effect: impl Into<DagEffect>) {
        self.out.push(effect.into());
    }

    fn post(&mut self, event: Event) {
        self.emit(SchedulerEffect::Post(event));
    }
}

impl DagScheduler {
    /// A scheduler without jobs.
    pub fn new(options: DagOptions) -> Self {
        DagScheduler {
            blocks: BlockMaster::new(options.proactive_replication, options.planted),
            options,
            next_stage: 0,
            jobs: BTreeMap::new(),
            stages: BTreeMap::new(),
            shuffle_stages: BTreeMap::new(),
            lost: LostExecutors::default(),
            resubmit_at: None,
        }
    }

    /// Takes one event and appends what is to be done about it, in order.
    pub fn handle(&mut self, now: Tick, event: DagEvent, out: &mut Vec<DagEffect>) {
        let turn = &mut Turn { now, out };
        match event {
            DagEvent::JobSubmitted(spec) => self.on_job_submitted(turn, spec),
            DagEvent::MapStageSubmitted(spec) => self.on_map_stage_submitted(turn, spec),
            DagEvent::JobCancelled { job, reason } => self.cancel(turn, vec![job], &reason),
            DagEvent::JobGroupCancelled { group, reason } => {
                let jobs = self.jobs_where(|job| job.group() == Some(&group));
                self.cancel(turn, jobs, &reason);
            }
            DagEvent::JobTagCancelled { tag, reason } => {
                self.cancel(turn, self.jobs_where(|job| job.tags().contains(&tag)), &reason);
            }
            DagEvent::AllJobsCancelled { reason } => {
                self.cancel(turn, self.jobs.keys().copied().collect(), &reason);
            }
            DagEvent::StageCancelled { stage, reason } => {
                self.cancel(turn, self.jobs_of_stage(stage), &reason);
            }
            DagEvent::TaskEnded { task, outcome: TaskOutcome::Success, written } => {
                self.on_success(turn, &task, written.unwrap_or_default());
            }
            DagEvent::TaskEnded {
                task,
                outcome: TaskOutcome::Failed(failure @ TaskFailure::FetchFailed { .. }),
                ..
            } => self.on_fetch_failed(turn, task.stage, &failure),
            // The task scheduler tries again, or says that the set failed.
            DagEvent::TaskEnded { outcome: TaskOutcome::Failed(_), .. } => {}
            DagEvent::TaskSetFailed { stage, cause } => self.on_task_set_failed(turn, stage, cause),
            DagEvent::ExecutorAdded { executor, host } => {
                self.lost.added(executor);
                self.blocks.add_holder(executor.into(), host);
            }
            DagEvent::ExecutorLost { executor, outputs_lost } => {
                self.on_executor_lost(turn, executor, outputs_lost);
            }
            DagEvent::RddPersisted { rdd } => self.blocks.persist(rdd),
            DagEvent::RddRemoved { rdd } => {
                let epoch = self.blocks.remove_rdd(rdd);
                turn.emit(SchedulerEffect::DropCachedPartitions { at: None, rdd, epoch });
            }
            DagEvent::RddUnpersisted { rdd } => {
                let epoch = self.blocks.unpersist(rdd);
                turn.emit(SchedulerEffect::DropCachedPartitions { at: None, rdd, epoch });
            }
            DagEvent::ShuffleRemoved { shuffle } => self.on_shuffle_removed(turn, shuffle),
            DagEvent::Ticked => self.on_ticked(turn),
        }
    }

    pub fn blocks(&self) -> &BlockMaster {
        &self.blocks
    }

    pub(crate) fn blocks_mut(&mut self) -> &mut BlockMaster {
        &mut self.blocks
    }

    /// Whether nothing is left of any job (invariant S17). Map outputs and places of cached
    /// partitions outlive jobs and do not count.
    pub fn is_idle(&self) -> bool {
        self.jobs.is_empty()
            && self.stages.is_empty()
            && self.shuffle_stages.is_empty()
            && self.lost.len() == 0
            && self.resubmit_at.is_none()
    }

    /// How much is remembered, for tests and metrics.
    pub fn counts(&self) -> DagCounts {
        let stages = |is: fn(&Stage) -> bool| self.stages.values().filter(|s| is(s)).count();
        DagCounts {
            jobs: self.jobs.len(),
            stages: self.stages.len(),
            waiting: stages(Stage::is_waiting),
            running: stages(Stage::is_running),
            resting: stages(Stage::is_resting),
            shuffles: self.blocks.outputs().len(),
            cached_rdds: self.blocks.cached_rdds(),
            lost_executors: self.lost.len(),
        }
    }
}

/// Its counts only: the lineage is a graph that may be too deep to print.
impl fmt::Debug for DagScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DagScheduler").field("counts", &self.counts()).finish_non_exhaustive()
    }
}
