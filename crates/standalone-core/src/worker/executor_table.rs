//! The executors of a worker: those that wait for cores and memory, those whose process may be there, and ends that no
//! master has acknowledged.
//!
//! Invariant: an executor that is over is reported until its end is acknowledged, and holds nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use firesteel_backend::provider::Preparing;
use firesteel_backend::{Address, AppId};

use super::state::Phase;
use crate::ExecutorKey;
use crate::description::{ApplicationDescription, ExecutorReport, ExecutorState, ProcessEnd};

/// An executor that has not ended. Only its table changes it.
#[derive(Debug)]
pub(super) struct Executor {
    pub(super) description: Arc<ApplicationDescription>,
    pub(super) cores: u32,
    pub(super) memory_mb: u64,
    /// Workers that may serve what it needs.
    pub(super) peers: Vec<Address>,
    pub(super) phase: Phase,
    preparing: Option<Preparing>,
}

impl Executor {
    pub(super) fn report(&self, key: &ExecutorKey) -> ExecutorReport {
        let running = self.phase.holds_capacity();
        ExecutorReport {
            key: key.clone(),
            cores: self.cores,
            memory_mb: self.memory_mb,
            state: if running { ExecutorState::Running } else { ExecutorState::Launching },
            preparing: self.preparing,
            end: None,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Executors {
    live: BTreeMap<ExecutorKey, Executor>,
    ended: BTreeMap<ExecutorKey, ExecutorReport>,
}

impl Executors {
    /// Takes an order; it waits to be started.
    pub(super) fn add(
        &mut self,
        key: ExecutorKey,
        description: Arc<ApplicationDescription>,
        (cores, memory_mb): (u32, u64),
        peers: Vec<Address>,
    ) {
        let (phase, preparing) = (Phase::Waiting, None);
        let executor = Executor { description, cores, memory_mb, peers, phase, preparing };
        self.live.insert(key, executor);
    }

    /// What it needs is so far. Gives it back if that is further than before and it is to run.
    pub(super) fn prepares(
        &mut self,
        key: &ExecutorKey,
        preparing: Preparing,
    ) -> Option<&Executor> {
        let executor = self.live.get_mut(key)?;
        let further = preparing.is_further_than(executor.preparing.unwrap_or_default());
        if !further || executor.phase != Phase::Running {
            return None;
        }
        executor.preparing = Some(preparing);
        Some(executor)
    }

    /// Those that wait, in the order of names, with their cores and memory.
    pub(super) fn waiting(&self) -> Vec<(ExecutorKey, u32, u64)> {
        let waiting = self.live.iter().filter(|(_, e)| e.phase == Phase::Waiting);
        waiting.map(|(key, e)| (key.clone(), e.cores, e.memory_mb)).collect()
    }

    /// Starts one that waits.
    pub(super) fn start(&mut self, key: &ExecutorKey) -> &Executor {
        let executor = self.live.get_mut(key).expect("a waiting executor");
        executor.phase = Phase::Running;
        executor
    }

    pub(super) fn phase(&self, key: &ExecutorKey) -> Option<Phase> {
        self.live.get(key).map(|executor| executor.phase)
    }

    /// Its process is told to end. True if it was not told before.
    pub(super) fn kill(&mut self, key: &ExecutorKey) -> bool {
        let running = self.live.get_mut(key).filter(|executor| executor.phase == Phase::Running);
        running.map(|executor| executor.phase = Phase::Killing).is_some()
    }

    /// An executor is over: the report of its end. `None` if there is no such executor.
    pub(super) fn end(
        &mut self,
        key: &ExecutorKey,
        state: ExecutorState,
        end: ProcessEnd,
    ) -> Option<ExecutorReport> {
        let Executor { cores, memory_mb, preparing, .. } = self.live.remove(key)?;
        let (key_, end) = (key.clone(), Some(end));
        let report = ExecutorReport { key: key_, cores, memory_mb, state, preparing, end };
        self.ended.insert(key.clone(), report.clone());
        Some(report)
    }

    /// The end of an executor that is not live: as it was, or else this one.
    pub(super) fn ended_or(&mut self, report: ExecutorReport) -> ExecutorReport {
        self.ended.entry(report.key.clone()).or_insert(report).clone()
    }

    /// A master knows of the end.
    pub(super) fn acknowledge(&mut self, key: &ExecutorKey) {
        self.ended.remove(key);
    }

    /// Ends that no master has acknowledged.
    pub(super) fn untold(&self) -> usize {
        self.ended.len()
    }

    /// Of all, live or ended.
    pub(super) fn reports(&self) -> Vec<ExecutorReport> {
        let live = self.live.iter().map(|(key, executor)| executor.report(key));
        live.chain(self.ended.values().cloned()).collect()
    }

    /// Cores and memory of the processes that may be there.
    pub(super) fn used(&self) -> impl Iterator<Item = (u32, u64)> {
        let there = self.live.values().filter(|executor| executor.phase.holds_capacity());
        there.map(|executor| (executor.cores, executor.memory_mb))
    }

    /// The applications of live ones, as often as each has some.
    pub(super) fn apps(&self) -> impl Iterator<Item = &AppId> {
        self.live.keys().map(|key| &key.app)
    }
}
