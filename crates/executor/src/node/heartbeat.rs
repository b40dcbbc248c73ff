//! What goes to the driver beside a heartbeat of the core: what this executor uses, what running tasks cost so far, and
//! the cached partitions. The driver does not decide by it whether this executor is dead.

use std::collections::BTreeMap;
use std::mem::take;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use firesteel_storage::BlockId;
use firesteel_task::TaskIdentity;
use firesteel_types::{
    BlockStatus, ExecutorMetrics, RddBlock, RunningTask, StagePeak, StageRef, TaskId, TaskMetrics,
};

use super::block_manager::{BlockManager, lock};
use super::protocol::ToBlockMaster;
use crate::usage;

/// More cached partitions than this are not told each time: single changes are.
const CACHED_LIMIT: usize = 10_000;

/// The tasks that run here, and the most that this executor used meanwhile.
#[derive(Default)]
pub(super) struct RunningTasks(Mutex<Books>);

#[derive(Default)]
struct Books {
    tasks: BTreeMap<TaskId, Running>,
    /// Since the last heartbeat.
    peak: ExecutorMetrics,
    /// Since the last heartbeat, while tasks of a stage attempt ran.
    stages: BTreeMap<StageRef, ExecutorMetrics>,
}

struct Running {
    stage: StageRef,
    since: Instant,
    metrics: Arc<Mutex<TaskMetrics>>,
    /// Since it began, if anybody looked.
    peak: Option<Box<ExecutorMetrics>>,
}

impl RunningTasks {
    /// Where the task is to put what it cost so far, until [`RunningTasks::ended`].
    pub(super) fn started(&self, identity: &TaskIdentity) -> Arc<Mutex<TaskMetrics>> {
        let metrics = Arc::<Mutex<TaskMetrics>>::default();
        let (stage, since) = (identity.stage, Instant::now());
        let running = Running { stage, since, metrics: metrics.clone(), peak: None };
        lock(&self.0).tasks.insert(identity.task, running);
        metrics
    }

    /// The most that this executor used while it ran, if anybody looked.
    pub(super) fn ended(&self, task: TaskId) -> Option<Box<ExecutorMetrics>> {
        lock(&self.0).tasks.remove(&task)?.peak
    }

    /// Takes note of what this executor uses now.
    fn note(&self, usage: ExecutorMetrics) {
        let Books { tasks, peak, stages } = &mut *lock(&self.0);
        *peak = peak.max(usage);
        for running in tasks.values_mut() {
            let of_task = running.peak.get_or_insert_default();
            **of_task = of_task.max(usage);
            let of_stage = stages.entry(running.stage).or_default();
            *of_stage = of_stage.max(usage);
        }
    }

    /// The most since the last time, of all and by stage, and what running tasks cost so far.
    fn so_far(&self) -> (ExecutorMetrics, Vec<StagePeak>, Vec<RunningTask>) {
        let mut books = lock(&self.0);
        let tasks = books.tasks.iter().map(|(task, running)| {
            let mut metrics = lock(&running.metrics).clone();
            metrics.run_time_us = running.since.elapsed().as_micros() as u64;
            metrics.executor.clone_from(&running.peak);
            RunningTask { task: *task, stage: running.stage, metrics }
        });
        let tasks = tasks.collect();
        let stages = take(&mut books.stages).into_iter();
        let stages = stages.map(|(stage, metrics)| StagePeak { stage, metrics }).collect();
        (take(&mut books.peak), stages, tasks)
    }
}

impl BlockManager {
    /// Looks at what this executor uses.
    pub(super) fn poll_usage(&self) {
        self.running.note(usage(&self.scratch));
    }

    /// Tells the driver. Never waits: the next one says the same and more.
    pub(super) fn tell_state(&self) {
        self.poll_usage();
        // As with single changes: what is told last is how it is.
        let _telling = lock(&self.telling);
        let (metrics, stages, tasks) = self.running.so_far();
        let (executor, cached) = (self.executor, self.cached_blocks());
        let metrics = Box::new(metrics);
        let told = ToBlockMaster::Heartbeat { executor, metrics, stages, tasks, cached };
        if let Err(error) = self.block_master.try_send(told) {
            tracing::debug!(%error, "the driver was not told what tasks cost so far");
        }
    }

    fn cached_blocks(&self) -> Option<Vec<(RddBlock, BlockStatus)>> {
        let ids = self.blocks.ids();
        let cached = ids.into_iter().filter_map(|id| {
            let BlockId::Rdd(rdd, partition) = id else { return None };
            Some((RddBlock { rdd, partition }, self.blocks.status(id)?))
        });
        let cached: Vec<_> = cached.take(CACHED_LIMIT + 1).collect();
        (cached.len() <= CACHED_LIMIT).then_some(cached)
    }
}

#[cfg(test)]
mod tests {
    use firesteel_types::StageId;

    use super::*;

    fn uses(resident_memory: u64) -> ExecutorMetrics {
        ExecutorMetrics { resident_memory, ..ExecutorMetrics::default() }
    }

    fn identity(task: u64, stage: u32) -> TaskIdentity {
        let stage = StageRef { stage: StageId(stage), attempt: 0 };
        TaskIdentity { task: TaskId(task), stage, partition: 0, attempt: 0, epoch: 0 }
    }

    #[test]
    fn peaks_are_those_of_the_time_since_the_last_heartbeat_and_of_each_tasks_own() {
        let running = RunningTasks::default();
        running.started(&identity(1, 7));
        running.note(uses(10));
        running.started(&identity(2, 8));
        running.note(uses(5));
        let (peak, stages, tasks) = running.so_far();
        let by_stage: Vec<_> = stages.iter().map(|peak| peak.metrics.resident_memory).collect();
        assert_eq!((peak, by_stage), (uses(10), vec![10, 5]));
        assert_eq!(tasks[1].metrics.executor.as_deref(), Some(&uses(5)));
        assert_eq!(running.ended(TaskId(1)).as_deref(), Some(&uses(10)));
        running.note(uses(3));
        let (peak, stages, _) = running.so_far();
        assert_eq!((peak, stages.len(), stages[0].metrics), (uses(3), 1, uses(3)));
        running.started(&identity(3, 8));
        assert_eq!(running.ended(TaskId(3)), None, "nobody looked while it ran");
    }
}
