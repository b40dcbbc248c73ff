//! The drivers that a cluster runs: those that wait for a worker, those that have one, those that ended.
//!
//! Invariant: a driver waits, in the order of submission, exactly while no worker has been ordered to start it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use firesteel_types::Tick;

use super::records::DriverRecord;
use super::view::DriverView;
use crate::description::{DriverDescription, DriverState};
use crate::{DriverId, WorkerId};

/// A driver that the cluster runs, or shall run.
#[derive(Debug)]
pub(super) struct Driver {
    record: DriverRecord,
    state: DriverState,
    ordered: Tick,
    /// It was heard of from its worker.
    started: bool,
    /// When the one whose place it takes has surely ended.
    fenced_until: Tick,
    /// How it ended, for people. Not persisted, as nothing of drivers that are over is.
    end: Option<String>,
}

impl Driver {
    /// As it was submitted, as it was persisted, or as its worker tells.
    fn new(record: DriverRecord, now: Tick, fence_ms: u64) -> Self {
        let placed = record.worker.is_some();
        let state = if placed { DriverState::Running } else { DriverState::Submitted };
        let fenced_until = now.plus_ms(fence_ms);
        Driver { record, state, ordered: now, started: false, fenced_until, end: None }
    }

    pub(super) fn record(&self) -> DriverRecord {
        self.record.clone()
    }

    pub(super) fn description(&self) -> &Arc<DriverDescription> {
        &self.record.description
    }

    pub(super) fn state(&self) -> DriverState {
        self.state
    }

    pub(super) fn worker(&self) -> Option<&WorkerId> {
        self.record.worker.as_ref()
    }

    /// Why it ended without success. `None` too for one that was told to end.
    pub(super) fn reason(&self) -> Option<&String> {
        let failed = matches!(self.state, DriverState::Failed | DriverState::Error);
        self.end.as_ref().filter(|_| failed)
    }

    /// Until when the one whose place it takes may still run.
    pub(super) fn fenced_until(&self) -> Option<Tick> {
        self.record.fence.as_ref().map(|_| self.fenced_until)
    }

    /// Its worker has it. One that registers brings what was not persisted: secrets. True if not all was known before.
    pub(super) fn started(&mut self, description: Option<Arc<DriverDescription>>) -> bool {
        self.started = true;
        let Some(description) = description else { return false };
        self.record.description = description;
        !std::mem::replace(&mut self.record.whole, true)
    }

    /// Whether all is known that it takes to start it.
    pub(super) fn is_whole(&self) -> bool {
        self.record.whole
    }

    /// Whether its worker has not told of it for so long after the order.
    pub(super) fn is_overdue(&self, now: Tick, patience_ms: u64) -> bool {
        !self.started && now.since_ms(self.ordered) >= patience_ms
    }

    pub(super) fn view(&self) -> DriverView {
        DriverView {
            driver: self.record.driver.clone(),
            description: self.record.description.clone(),
            state: self.state,
            submitted: self.record.submitted,
            worker: self.record.worker.clone(),
        }
    }
}

#[derive(Debug)]
pub(super) struct Drivers {
    active: BTreeMap<DriverId, Driver>,
    waiting: Vec<DriverId>,
    completed: VecDeque<Driver>,
    /// So many completed ones are listed.
    retained: usize,
    /// The position of the live worker that the next driver is offered to first.
    turn: usize,
}

impl Drivers {
    /// None; of those that end, `retained` stay listed.
    pub(super) fn new(retained: usize) -> Self {
        let (active, waiting) = (BTreeMap::new(), Vec::new());
        Drivers { active, waiting, completed: VecDeque::new(), retained, turn: 0 }
    }

    /// A driver that is not over.
    pub(super) fn get(&self, id: &DriverId) -> Option<&Driver> {
        self.active.get(id)
    }

    /// A driver, over or not.
    pub(super) fn find(&self, id: &DriverId) -> Option<&Driver> {
        let completed = || self.completed.iter().find(|driver| driver.record.driver == *id);
        self.active.get(id).or_else(completed)
    }

    /// The driver, if it was given to this worker.
    pub(super) fn on(&self, worker: &WorkerId, id: &DriverId) -> Option<&Driver> {
        self.active.get(id).filter(|driver| driver.worker() == Some(worker))
    }

    /// The same, to change.
    pub(super) fn on_mut(&mut self, worker: &WorkerId, id: &DriverId) -> Option<&mut Driver> {
        self.active.get_mut(id).filter(|driver| driver.worker() == Some(worker))
    }

    pub(super) fn active(&self) -> impl Iterator<Item = (&DriverId, &Driver)> {
        self.active.iter()
    }

    /// The last one last.
    pub(super) fn completed(&self) -> impl Iterator<Item = &Driver> {
        self.completed.iter()
    }

    /// In the order they came.
    pub(super) fn waiting(&self) -> &[DriverId] {
        &self.waiting
    }

    /// Takes a driver in: new, or one that was submitted to a master before this one. One without a worker waits for one; the
    /// one whose place it takes may run for so long, if there is one.
    pub(super) fn insert(&mut self, record: DriverRecord, now: Tick, fence_ms: u64) {
        let id = record.driver.clone();
        if record.worker.is_none() {
            self.waiting.push(id.clone());
        }
        self.active.insert(id, Driver::new(record, now, fence_ms));
    }

    /// Only these may still run on this worker, until then: those that take their places wait for that, and others no longer.
    /// Gives back whose record changed.
    pub(super) fn move_fences(
        &mut self,
        worker: &WorkerId,
        running: &[DriverId],
        until: Tick,
    ) -> Vec<DriverId> {
        let mut lifted = Vec::new();
        for (id, driver) in &mut self.active {
            let fence = &mut driver.record.fence;
            let Some(found) = fence.as_ref().filter(|fence| fence.worker == *worker) else {
                continue;
            };
            if running.contains(&found.driver) {
                driver.fenced_until = driver.fenced_until.max(until);
            } else {
                *fence = None;
                lifted.push(id.clone());
            }
        }
        lifted
    }

    /// Drivers that are not over are another master's.
    pub(super) fn forget_active(&mut self) {
        self.active.clear();
        self.waiting.clear();
    }

    /// Positions of live workers, in the order in which a driver is offered to them.
    pub(super) fn offers(&self, workers: usize, spread_out: bool) -> impl Iterator<Item = usize> {
        let start = if spread_out { self.turn } else { 0 };
        (0..workers).map(move |at| (start + at) % workers)
    }

    /// The live worker at this position is ordered to start a waiting driver.
    pub(super) fn place(&mut self, id: &DriverId, at: usize, worker: &WorkerId, now: Tick) {
        self.turn = at + 1;
        self.waits_no_more(id);
        let driver = self.active.get_mut(id).expect("a waiting driver");
        (driver.record.worker, driver.record.fence) = (Some(worker.clone()), None);
        (driver.state, driver.ordered, driver.started) = (DriverState::Running, now, false);
    }

    /// The driver is over, as `end` says; false if there is none such.
    pub(super) fn end(&mut self, id: &DriverId, state: DriverState, end: Option<String>) -> bool {
        let Some(mut driver) = self.active.remove(id) else { return false };
        if driver.record.worker.is_none() {
            self.waits_no_more(id);
        }
        (driver.state, driver.end) = (state, end);
        self.completed.push_back(driver);
        while self.completed.len() > self.retained {
            self.completed.pop_front();
        }
        true
    }

    fn waits_no_more(&mut self, id: &DriverId) {
        if let Some(at) = self.waiting.iter().position(|waiting| waiting == id) {
            self.waiting.remove(at);
        }
    }

    pub(super) fn clear_completed(&mut self) {
        self.completed.clear();
    }

    /// Panics if a driver waits that has a worker, or has none and does not wait.
    pub(super) fn assert_consistent(&self) {
        let placed = |id: &&DriverId| self.active[*id].record.worker.is_none();
        assert!(self.waiting.iter().all(|id| placed(&id)), "a driver waits that has a worker");
        let unplaced = self.active.keys().filter(placed).count();
        assert_eq!(unplaced, self.waiting.len(), "a driver without a worker does not wait");
    }
}
