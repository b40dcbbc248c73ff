//! The books, audited: everything that is counted along the way is counted again from scratch.
//!
//! For tests and the simulator, after every event; costs time in proportion to all tasks.

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

    /// Offers every free core once more and gives back how many tasks that launches: none, after
    /// any event, or an offer was forgotten (L04).
    #[cfg(test)]
    pub(super) fn forgotten_launches(&mut self, now: firesteel_types::Tick) -> usize {
        let before = self.attempts.count();
        self.round.offer_all();
        self.offer(now, &mut Vec::new());
        self.attempts.count() - before
    }
}
