//! Jobs: those that run, and those that ran last.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use firesteel_types::{
    JobError, JobId, Properties, StageId, StageInfo, StageRef, TaskFailure, TaskInfo, Tick,
};

use crate::bits::Bits;
use crate::page::{Order, Page, Paging};
use crate::stages::{TaskCounts, count_killed};
use crate::weight::{self, Excess};
use crate::{AppStatus, StageStatus};

/// How a job stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum JobState {
    Running,
    Succeeded,
    Failed { reason: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct JobStatus {
    pub job: JobId,
    /// The name of its last stage: operation and place.
    pub name: Arc<str>,
    /// Group, description, call site, tags and what else was set for it.
    pub properties: Arc<Properties>,
    pub submitted: Tick,
    /// When it ended, if it has.
    pub completed: Option<Tick>,
    pub state: JobState,
    /// Every stage it may need, parents first.
    pub stages: Vec<StageId>,
    /// Tasks of all stages it may need and that were not complete before.
    pub tasks_total: u32,
    /// Its tasks, attempts counted one by one.
    pub tasks: TaskCounts,
    /// How many were killed, by what they were killed for.
    pub killed: BTreeMap<String, u32>,
    /// Tasks of stages that it did not need to run.
    pub skipped_tasks: u32,
    /// Partitions that were computed, whatever stage attempt did.
    pub completed_indices: u32,
    pub active_stages: u32,
    /// Stages that ended well.
    pub completed_stages: u32,
    /// Stage attempts that did not.
    pub failed_stages: u32,
    /// Stages that it did not need to run.
    pub skipped_stages: u32,
    /// Which partitions of which stages were computed, while it runs.
    computed: BTreeMap<StageId, Bits>,
    /// Bytes that it takes with its properties and stages.
    bytes: usize,
}

impl JobStatus {
    fn is_active(&self) -> bool {
        self.state == JobState::Running
    }

    fn weight(&self) -> usize {
        let failure = match &self.state {
            JobState::Failed { reason } => reason.len(),
            JobState::Running | JobState::Succeeded => 0,
        };
        let computed = self.computed.values().map(|bits| weight::ENTRY + bits.weight());
        self.bytes + failure + weight::reasons(&self.killed) + computed.sum::<usize>()
    }
}

/// So many jobs run at once: no more threads of a program wait for one. Of more, the first has an end that its log lacks.
const RUNNING_AT_MOST: usize = 10_000;

/// What the job computes, as its last stage is named.
fn last_name(stages: &[StageInfo]) -> Arc<str> {
    let last = stages.iter().max_by_key(|stage| stage.stage.stage);
    last.map_or_else(|| "(Unknown Stage Name)".into(), |stage| stage.name.clone())
}

/// A log may say anything: sums of it stay in range.
fn total(tasks: impl Iterator<Item = u32>) -> u32 {
    tasks.fold(0, u32::saturating_add)
}

/// All jobs that are remembered.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Jobs {
    all: BTreeMap<JobId, JobStatus>,
    active: BTreeSet<JobId>,
    /// In the order they ended.
    ended: VecDeque<JobId>,
    retained: usize,
}

impl Jobs {
    pub(crate) fn new(retained: usize) -> Self {
        Jobs { all: BTreeMap::new(), active: BTreeSet::new(), ended: VecDeque::new(), retained }
    }

    pub(crate) fn started(
        &mut self,
        job: JobId,
        properties: &Arc<Properties>,
        stages: &[StageInfo],
        at: Tick,
    ) {
        let missing = stages.iter().filter(|stage| stage.completed.is_none());
        let status = JobStatus {
            job,
            properties: properties.clone(),
            submitted: at,
            completed: None,
            state: JobState::Running,
            stages: stages.iter().map(|stage| stage.stage.stage).collect(),
            name: last_name(stages),
            killed: BTreeMap::new(),
            tasks_total: total(missing.map(|stage| stage.tasks)),
            tasks: TaskCounts::default(),
            skipped_tasks: 0,
            completed_indices: 0,
            active_stages: 0,
            completed_stages: 0,
            failed_stages: 0,
            skipped_stages: 0,
            computed: BTreeMap::new(),
            bytes: size_of::<JobStatus>()
                + weight::ENTRY
                + weight::properties(properties)
                + size_of::<StageId>() * stages.len(),
        };
        self.all.insert(job, status);
        self.active.insert(job);
        if self.active.len() > RUNNING_AT_MOST {
            self.active.pop_first().map(|first| self.all.remove(&first));
        }
    }

    pub(crate) fn weight(&self) -> usize {
        self.all.values().map(JobStatus::weight).sum()
    }

    /// Forgets jobs that are over, the oldest first.
    pub(crate) fn forget_ended(&mut self, excess: &mut Excess) {
        while excess.is_left() {
            let Some(oldest) = self.ended.pop_front() else { return };
            excess.freed(self.all.remove(&oldest).map_or(0, |job| job.weight()));
        }
    }

    /// Forgets jobs that run, the oldest first.
    pub(crate) fn forget_running(&mut self, excess: &mut Excess) {
        while excess.is_left() {
            let Some(oldest) = self.active.pop_first() else { return };
            excess.freed(self.all.remove(&oldest).map_or(0, |job| job.weight()));
        }
    }

    /// When a job began that has not ended.
    pub(crate) fn running_since(&self, job: JobId) -> Option<Tick> {
        self.active.get(&job).and_then(|job| self.all.get(job)).map(|job| job.submitted)
    }

    /// Every stage that the job may need.
    pub(crate) fn stages_of(&self, job: JobId) -> &[StageId] {
        self.all.get(&job).map_or(&[], |job| &job.stages)
    }

    /// `skipped` are the stages of the job that never ran, with their tasks.
    pub(crate) fn ended(
        &mut self,
        job: JobId,
        result: &Result<(), JobError>,
        skipped: &[(StageRef, u32)],
        at: Tick,
    ) {
        let Some(status) = self.all.get_mut(&job) else { return };
        if !self.active.remove(&job) {
            return;
        }
        status.completed = Some(at);
        status.state = match result {
            Ok(()) => JobState::Succeeded,
            Err(error) => JobState::Failed { reason: error.to_string() },
        };
        status.skipped_stages = skipped.len() as u32;
        status.skipped_tasks = total(skipped.iter().map(|(_, tasks)| *tasks));
        status.active_stages = 0;
        status.computed = BTreeMap::new();
        self.ended.push_back(job);
        while self.ended.len() > self.retained {
            let oldest = self.ended.pop_front();
            oldest.map(|oldest| self.all.remove(&oldest));
        }
    }

    /// The running jobs that may need a stage.
    pub(crate) fn active_with(&self, stage: StageId) -> BTreeSet<JobId> {
        let needs = |job: &&JobId| self.stages_of(**job).contains(&stage);
        self.active.iter().filter(needs).copied().collect()
    }

    pub(crate) fn stage_submitted(&mut self, jobs: &BTreeSet<JobId>) {
        self.each(jobs, |job| job.active_stages += 1);
    }

    pub(crate) fn stage_completed(&mut self, jobs: &BTreeSet<JobId>, failed: bool) {
        self.each(jobs, |job| {
            job.active_stages = job.active_stages.saturating_sub(1);
            *(if failed { &mut job.failed_stages } else { &mut job.completed_stages }) += 1;
        });
    }

    pub(crate) fn task_started(&mut self, jobs: &BTreeSet<JobId>) {
        self.each(jobs, |job| job.tasks.active += 1);
    }

    pub(crate) fn task_ended(
        &mut self,
        jobs: &BTreeSet<JobId>,
        task: &TaskInfo,
        failure: Option<&TaskFailure>,
    ) {
        self.each(jobs, |job| {
            job.tasks.ended(failure);
            count_killed(&mut job.killed, failure);
            if failure.is_none() && job.is_active() {
                let computed = job.computed.entry(task.stage.stage).or_default();
                job.completed_indices += u32::from(computed.insert(task.partition_or_index()));
            }
        });
    }

    /// A partition that was computed is missing again.
    pub(crate) fn task_resubmitted(
        &mut self,
        jobs: &BTreeSet<JobId>,
        stage: StageId,
        partition: u32,
    ) {
        self.each(jobs, |job| {
            let computed = job.computed.get_mut(&stage);
            let lost = computed.is_some_and(|computed| computed.remove(partition));
            job.completed_indices -= u32::from(lost);
        });
    }

    fn each(&mut self, jobs: &BTreeSet<JobId>, mut change: impl FnMut(&mut JobStatus)) {
        for job in jobs {
            if let Some(job) = self.all.get_mut(job) {
                change(job);
            }
        }
    }
}

impl AppStatus {
    pub fn job(&self, job: JobId) -> Option<&JobStatus> {
        self.jobs.all.get(&job)
    }

    /// The jobs that `wanted` says, by their ids.
    pub fn jobs(
        &self,
        wanted: impl Fn(&JobStatus) -> bool,
        order: Order,
        paging: Paging,
    ) -> Page<&JobStatus> {
        let all = self.jobs.all.values().filter(|job| wanted(job)).collect();
        Page::cut(all, |a, b| a.job.cmp(&b.job), order, paging)
    }

    pub fn active_jobs(&self) -> impl Iterator<Item = &JobStatus> {
        self.jobs.active.iter().filter_map(|job| self.jobs.all.get(job))
    }

    /// The latest attempts of a job's stages, as far as they are remembered, parents first.
    pub fn stages_of(&self, job: JobId) -> Vec<&StageStatus> {
        self.jobs.stages_of(job).iter().filter_map(|stage| self.last_attempt(*stage)).collect()
    }
}
