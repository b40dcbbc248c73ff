//! The attempts that run: launched, and not ended.
//!
//! Invariants: no id is given out twice (S05), and a report counts only for an attempt that runs, from the executor
//! that it runs on (S06).

use std::collections::BTreeMap;

use firesteel_types::{ExecutorId, StageRef, TaskId, TaskInfo};

/// All that run, by id: in the order of their launches.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    running: BTreeMap<TaskId, TaskInfo>,
    next: u64,
    stale_reports: u64,
}

impl Attempts {
    /// An id for the next launch.
    pub(super) fn next_id(&mut self) -> TaskId {
        let task = TaskId(self.next);
        self.next += 1;
        task
    }

    /// The attempt was launched.
    pub(super) fn started(&mut self, info: TaskInfo) {
        self.running.insert(info.task, info);
    }

    /// Takes off the attempt whose end an executor reports; `None`, and counted, if it does not run there.
    pub(super) fn take_reported(&mut self, task: TaskId, by: ExecutorId) -> Option<TaskInfo> {
        let runs_there = self.running.get(&task).is_some_and(|info| info.executor == by);
        if !runs_there {
            self.stale_reports += 1;
            return None;
        }
        self.running.remove(&task)
    }

    /// Takes all attempts off an executor.
    pub(super) fn take_from(&mut self, executor: ExecutorId) -> Vec<TaskInfo> {
        let there = self.running.extract_if(.., |_, info| info.executor == executor);
        there.map(|(_, info)| info).collect()
    }

    pub(super) fn get(&self, task: TaskId) -> Option<&TaskInfo> {
        self.running.get(&task)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &TaskInfo> {
        self.running.values()
    }

    pub(super) fn of(&self, stage: StageRef) -> impl Iterator<Item = &TaskInfo> {
        self.iter().filter(move |info| info.stage == stage)
    }

    pub(super) fn count(&self) -> usize {
        self.running.len()
    }

    /// Reports that counted for nothing.
    pub(super) fn stale_reports(&self) -> u64 {
        self.stale_reports
    }
}
