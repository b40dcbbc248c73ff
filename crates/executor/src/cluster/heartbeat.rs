//! What goes to the driver beside a heartbeat of the core: what running tasks cost so far, and the
//! cached partitions. Nobody decides by it whether this executor lives.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use firesteel_storage::BlockId;
use firesteel_task::TaskIdentity;
use firesteel_types::{
    BlockStatus, ExecutorMetrics, RddBlock, RunningTask, StageRef, TaskId, TaskMetrics,
};

use super::node::{Node, lock};
use super::protocol::ToBlockMaster;

/// More cached partitions than this are not told each time: single changes are.
const CACHED_LIMIT: usize = 10_000;

/// The tasks that run here.
#[derive(Default)]
pub(super) struct RunningTasks(Mutex<BTreeMap<TaskId, Running>>);

struct Running {
    stage: StageRef,
    since: Instant,
    metrics: Arc<Mutex<TaskMetrics>>,
}

impl RunningTasks {
    /// Where the task is to put what it cost so far, until [`RunningTasks::ended`].
    pub(super) fn started(&self, identity: &TaskIdentity) -> Arc<Mutex<TaskMetrics>> {
        let metrics = Arc::<Mutex<TaskMetrics>>::default();
        let (stage, since) = (identity.stage, Instant::now());
        let running = Running { stage, since, metrics: metrics.clone() };
        lock(&self.0).insert(identity.task, running);
        metrics
    }

    pub(super) fn ended(&self, task: TaskId) {
        lock(&self.0).remove(&task);
    }

    fn so_far(&self) -> Vec<RunningTask> {
        let running = lock(&self.0);
        let so_far = running.iter().map(|(task, running)| {
            let mut metrics = lock(&running.metrics).clone();
            metrics.run_time_us = running.since.elapsed().as_micros() as u64;
            RunningTask { task: *task, stage: running.stage, metrics }
        });
        so_far.collect()
    }
}

impl Node {
    /// Tells the driver. Never waits: the next one says the same and more.
    pub(super) fn tell_state(&self) {
        // As with single changes: what is told last is how it is.
        let _telling = lock(&self.telling);
        let (executor, tasks) = (self.executor, self.running.so_far());
        let (metrics, cached) = (self.metrics(), self.cached_blocks());
        let told = ToBlockMaster::Heartbeat { executor, metrics, tasks, cached };
        if let Err(error) = self.block_master.try_send(told) {
            tracing::debug!(%error, "the driver was not told what tasks cost so far");
        }
    }

    /// What this executor uses.
    fn metrics(&self) -> ExecutorMetrics {
        let (storage_memory, execution_memory) = self.scratch.memory().used();
        let (virtual_memory, resident_memory) = process_memory().unwrap_or_default();
        ExecutorMetrics { execution_memory, storage_memory, resident_memory, virtual_memory }
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

/// Address space and resident memory of this process, in bytes, where the system tells.
fn process_memory() -> Option<(u64, u64)> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = pages.split(' ').map_while(|pages| pages.parse::<u64>().ok());
    let size = rustix::param::page_size() as u64;
    Some((pages.next()? * size, pages.next()? * size))
}
