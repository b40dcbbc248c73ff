//! What an event changed, and so to whom offers are made when it is dealt with.

use firesteel_types::{ExecutorId, StageRef};

/// The offers that one event calls for. Empty between events.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// More may be launchable than on the freed executors.
    all: bool,
    /// Executors that a task left.
    freed: Vec<ExecutorId>,
    /// Where a task succeeded, if tasks are pipelined.
    succeeded_on: Option<ExecutorId>,
    /// Sets that launched a task with a preference.
    launched_near: Vec<StageRef>,
    /// Walks over all executors so far, in all events.
    sweeps: u64,
}

impl Round {
    /// More may be launchable now, wherever.
    pub(super) fn offer_all(&mut self) {
        self.all = true;
    }

    /// The same, if so.
    pub(super) fn offer_all_if(&mut self, changed: bool) {
        self.all |= changed;
    }

    pub(super) fn task_left(&mut self, executor: ExecutorId) {
        self.freed.push(executor);
    }

    /// A task succeeded there: others may be pipelined.
    pub(super) fn task_succeeded(&mut self, executor: ExecutorId) {
        self.succeeded_on = Some(executor);
    }

    /// The set launched a task with a preference.
    pub(super) fn launched_near(&mut self, stage: StageRef) {
        if self.launched_near.last() != Some(&stage) {
            self.launched_near.push(stage);
        }
    }

    pub(super) fn take_all(&mut self) -> bool {
        std::mem::take(&mut self.all)
    }

    pub(super) fn take_freed(&mut self) -> Vec<ExecutorId> {
        std::mem::take(&mut self.freed)
    }

    pub(super) fn take_succeeded(&mut self) -> Option<ExecutorId> {
        self.succeeded_on.take()
    }

    /// A number that no walk over all executors has had.
    pub(super) fn next_sweep(&mut self) -> u64 {
        self.sweeps += 1;
        self.sweeps
    }

    /// All offers were made. Gives back a set that launched near its data; ask again for the next.
    pub(super) fn pop_launched_near(&mut self) -> Option<StageRef> {
        self.launched_near.pop()
    }

    /// All offers were made, to what is left of the freed executors, too: forgets the rest, and keeps the space.
    pub(super) fn end_offers(&mut self, mut freed: Vec<ExecutorId>) {
        freed.clear();
        (self.all, self.succeeded_on, self.freed) = (false, None, freed);
    }

    pub(super) fn is_empty(&self) -> bool {
        let nobody = self.freed.is_empty() && self.succeeded_on.is_none();
        nobody && self.launched_near.is_empty() && !self.all
    }
}
