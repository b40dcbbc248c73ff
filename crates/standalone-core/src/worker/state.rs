//! How far a process is, and what a worker remembers of what it ran.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use firesteel_backend::AppId;
use firesteel_types::{ExecutorId, Tick};

use crate::{DriverId, ExecutorKey};

/// Applications that are over and whose executors' numbers are still remembered.
const FINISHED_APPS: usize = 64;
/// Numbers remembered one by one; all below count as seen.
const REMEMBERED: usize = 1024;

/// How far a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The worker has no cores or memory free for it yet.
    Waiting,
    Running,
    /// Its process was told to end.
    Killing,
    /// Its process ended and is started again at this moment.
    Pausing(Tick),
}

impl Phase {
    /// Whether a process may be there, which holds cores and memory.
    pub(super) fn holds_capacity(self) -> bool {
        matches!(self, Phase::Running | Phase::Killing)
    }
}

/// Numbers that were seen: the latest one by one, all older ones by a border.
#[derive(Debug, Default)]
struct Seen {
    below: u32,
    above: BTreeSet<u32>,
}

impl Seen {
    /// True the first time.
    fn insert(&mut self, number: u32) -> bool {
        let new = number >= self.below && self.above.insert(number);
        if self.above.len() > REMEMBERED {
            self.below = self.above.pop_first().map_or(self.below, |first| first + 1);
        }
        new
    }
}

/// Executors and drivers that were ever ordered, so that an order repeated starts nothing twice (S05).
#[derive(Debug, Default)]
pub(super) struct Memory {
    executors: BTreeMap<AppId, Seen>,
    finished: VecDeque<AppId>,
    drivers: VecDeque<DriverId>,
}

impl Memory {
    /// True the first time.
    pub(super) fn first_executor(&mut self, key: &ExecutorKey) -> bool {
        let ExecutorKey { app, executor: ExecutorId(number) } = key;
        self.executors.entry(app.clone()).or_default().insert(*number)
    }

    /// An executor is to run: its application is not over, even if the master told so before.
    pub(super) fn reopen(&mut self, app: &AppId) {
        self.finished.retain(|finished| finished != app);
    }

    /// True the first time.
    pub(super) fn first_driver(&mut self, id: &DriverId) -> bool {
        if self.drivers.contains(id) {
            return false;
        }
        self.drivers.push_back(id.clone());
        if self.drivers.len() > REMEMBERED {
            self.drivers.pop_front();
        }
        true
    }

    /// The application is over: true the first time.
    pub(super) fn finish(&mut self, app: &AppId) -> bool {
        if !self.executors.contains_key(app) || self.finished.contains(app) {
            return false;
        }
        self.finished.push_back(app.clone());
        if self.finished.len() > FINISHED_APPS {
            let oldest = self.finished.pop_front().expect("there are many");
            self.executors.remove(&oldest);
        }
        true
    }

    pub(super) fn is_finished(&self, app: &AppId) -> bool {
        self.finished.contains(app)
    }

    /// Applications that are not over, as far as the worker knows.
    pub(super) fn open_apps(&self) -> Vec<AppId> {
        self.executors.keys().filter(|app| !self.finished.contains(app)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_new_once_and_old_ones_are_never_new() {
        let mut seen = Seen::default();
        assert!(seen.insert(5) && !seen.insert(5) && seen.insert(3) && !seen.insert(3));
        for number in 10..10 + 3 * REMEMBERED as u32 {
            assert!(seen.insert(number));
        }
        assert!(!seen.insert(4) && !seen.insert(12) && seen.above.len() <= REMEMBERED);
    }
}
