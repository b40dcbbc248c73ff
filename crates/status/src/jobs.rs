//! Jobs: those that run, and those that ran last.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use firesteel_types::{
    JobError, JobId, Properties, StageId, StageInfo, StageRef, TaskFailure, TaskInfo, Tick,
};

use crate::page::{Order, Page, Paging};
use crate::stages::TaskCounts;
use crate::{AppStatus, StageStatus};

/// How a job stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    Running,
    Succeeded,
    Failed { reason: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobStatus {
    pub job: JobId,
    /// Group, description, call site, tags and what else was set for it.
    pub properties: Arc<Properties>,
    pub submitted: Tick,
    /// When it ended, if it has.
    pub completed: Option<Tick>,
    pub state: JobState,
    /// Every stage it may need, parents first.
    pub stages: Vec<StageId>,
    /// Tasks of all stages it may need.
    pub tasks_total: u32,
    /// Its tasks, attempts counted one by one.
    pub tasks: TaskCounts,
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
}

impl JobStatus {
    fn is_active(&self) -> bool {
        self.state == JobState::Running
    }
}

/// A log may say anything: sums of it stay in range.
fn total(tasks: impl Iterator<Item = u32>) -> u32 {
    tasks.fold(0, u32::saturating_add)
}

/// Sets of 64 numbers from this one on are looked for: a log may name any partition.
const FAR: usize = 1 << 14;

/// A set of numbers, most of them near others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Bits {
    near: Vec<u64>,
    far: BTreeMap<usize, u64>,
}

impl Bits {
    /// Whether it is new.
    fn insert(&mut self, number: u32) -> bool {
        let (index, bit) = (number as usize / 64, 1 << (number % 64));
        let word = match index < FAR {
            true => {
                if self.near.len() <= index {
                    self.near.resize(index + 1, 0);
                }
                &mut self.near[index]
            }
            false => self.far.entry(index).or_default(),
        };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Whether it was there.
    fn remove(&mut self, number: u32) -> bool {
        let (index, bit) = (number as usize / 64, 1 << (number % 64));
        let word = match index < FAR {
            true => self.near.get_mut(index),
            false => self.far.get_mut(&index),
        };
        let Some(word) = word else { return false };
        let was_there = *word & bit != 0;
        *word &= !bit;
        was_there
    }
}

/// All jobs that are remembered.
#[derive(Clone, Debug, PartialEq)]
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
        let status = JobStatus {
            job,
            properties: properties.clone(),
            submitted: at,
            completed: None,
            state: JobState::Running,
            stages: stages.iter().map(|stage| stage.stage.stage).collect(),
            tasks_total: total(stages.iter().map(|stage| stage.tasks)),
            tasks: TaskCounts::default(),
            skipped_tasks: 0,
            completed_indices: 0,
            active_stages: 0,
            completed_stages: 0,
            failed_stages: 0,
            skipped_stages: 0,
            computed: BTreeMap::new(),
        };
        self.all.insert(job, status);
        self.active.insert(job);
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
            if failure.is_none() && job.is_active() {
                let computed = job.computed.entry(task.stage.stage).or_default();
                job.completed_indices += u32::from(computed.insert(task.partition));
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

#[cfg(test)]
mod tests {
    use super::Bits;

    #[test]
    fn every_number_is_new_once() {
        let mut bits = Bits::default();
        for number in [0, 1, 63, 64, 1 << 19, (1 << 20) - 1, 1 << 20, u32::MAX] {
            assert!(!bits.remove(number), "{number}");
            assert!(bits.insert(number) && !bits.insert(number), "{number}");
            assert!(bits.remove(number) && bits.insert(number), "{number}");
        }
        assert!(bits.near.len() <= 1 << 14);
    }
}
