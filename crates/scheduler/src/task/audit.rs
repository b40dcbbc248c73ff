//! The books, audited: everything that is counted along the way is counted again from scratch.
//!
//! For tests and the simulator, after every event; costs time in proportion to all tasks.

use firesteel_types::{ExecutorId, Tick};

use super::core::TaskScheduler;
use super::set::SetState;

impl TaskScheduler {
    /// Panics, naming the invariant, if what the scheduler believes does not hold together.
    pub fn assert_invariants(&self) {
        self.executors.assert_consistent(self.attempts.iter().map(|info| info.executor));
        self.pools.assert_consistent(self.sets.iter().map(SetState::member));
        self.sets.assert_consistent(&self.executors);
        for info in self.attempts.iter() {
            let set = self.sets.get(info.stage).expect("S17: an attempt outlived its set");
            let mut live = set.slots().live(info.index);
            assert!(
                live.any(|id| id == info.task),
                "S10: attempt {} is not on its slot",
                info.task
            );
        }
        self.openings.assert_consistent(|stage| self.sets.get(stage).is_some());
        assert!(self.round.is_empty(), "S17: leftovers");
    }

    /// Whether a task waits although an executor is free that it need not avoid (L04). Where tasks wait to be near their data, or
    /// executors are excluded, that may be right.
    pub fn waits_needlessly(&self, now: Tick) -> bool {
        let free: Vec<ExecutorId> = self.executors.with_a_free_slot().collect();
        let fits = |set: &SetState, index| {
            free.iter().any(|id| set.slots().avoids(index, *id, now).is_none())
        };
        let mut waiting =
            self.sets.iter().filter(|set| set.is_active() && set.waiting().count() > 0);
        !self.is_overdue(now)
            && waiting.any(|set| {
                let mut indexes = 0..set.slots().count() as u32;
                indexes.any(|index| set.waiting().contains(index) && fits(set, index))
            })
    }

    /// Offers every free core once more and gives back how many tasks that launches: none, after
    /// any event, or an offer was forgotten (L04).
    #[cfg(test)]
    pub(super) fn forgotten_launches(&mut self, now: Tick) -> usize {
        let before = self.attempts.count();
        self.round.offer_all();
        self.offer(now, &mut Vec::new());
        self.attempts.count() - before
    }
}
