//! When the next locality level of a set may open, or an executor is avoided no longer, and offers are due because of it.
//!
//! Never late (L04); early is harmless. A set has at most one moment booked.

use std::collections::{BTreeMap, BTreeSet};

use firesteel_types::{StageRef, Tick};

/// Booked looks at sets, in the order they fall due.
#[derive(Debug, Default)]
pub(super) struct Openings {
    by_set: BTreeMap<StageRef, Tick>,
    in_order: BTreeSet<(Tick, StageRef)>,
}

impl Openings {
    /// Books a look at the set, unless one is booked that comes no later.
    pub(super) fn book(&mut self, stage: StageRef, at: Tick) {
        if self.by_set.get(&stage).is_some_and(|booked| *booked <= at) {
            return;
        }
        self.cancel(stage);
        self.by_set.insert(stage, at);
        self.in_order.insert((at, stage));
    }

    /// No look at the set any more.
    pub(super) fn cancel(&mut self, stage: StageRef) {
        if let Some(at) = self.by_set.remove(&stage) {
            self.in_order.remove(&(at, stage));
        }
    }

    /// Takes what has fallen due. True if anything has.
    pub(super) fn take_due(&mut self, now: Tick) -> bool {
        let mut any = false;
        while let Some((at, stage)) = self.in_order.first().copied().filter(|(at, _)| *at <= now) {
            self.in_order.remove(&(at, stage));
            self.by_set.remove(&stage);
            any = true;
        }
        any
    }

    pub(super) fn next(&self) -> Option<Tick> {
        self.in_order.first().map(|(at, _)| *at)
    }

    /// Recounts what [`super::TaskScheduler::assert_invariants`] asks of looks, given whether a set is there.
    pub(super) fn assert_consistent(&self, is_known: impl Fn(StageRef) -> bool) {
        assert_eq!(self.by_set.len(), self.in_order.len(), "L04: a look is booked twice");
        for (stage, at) in &self.by_set {
            let booked = self.in_order.contains(&(*at, *stage));
            assert!(booked, "L04: the look at set {stage} is not booked");
            assert!(is_known(*stage), "S17: a look is booked for set {stage}, which left");
        }
    }
}

#[cfg(test)]
mod tests {
    use firesteel_types::StageId;

    use super::*;

    #[test]
    fn the_earliest_look_at_a_set_counts_and_one_that_left_gets_none() {
        let [a, b] = [0, 1].map(|stage| StageRef { stage: StageId(stage), attempt: 0 });
        let mut openings = Openings::default();
        openings.book(a, Tick(30));
        openings.book(b, Tick(20));
        openings.book(a, Tick(10));
        openings.book(a, Tick(40));
        assert_eq!(openings.next(), Some(Tick(10)));
        assert!(!openings.take_due(Tick(9)) && openings.take_due(Tick(10)));
        assert_eq!(openings.next(), Some(Tick(20)));
        openings.cancel(b);
        assert!(openings.next().is_none() && !openings.take_due(Tick(50)));
        openings.assert_consistent(|_| false);
    }
}
