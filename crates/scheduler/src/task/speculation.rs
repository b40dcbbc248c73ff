//! Speculation: a second copy for tasks that run much longer than their siblings did.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use firesteel_types::{Event, Tick};

use super::core::TaskScheduler;
use super::set::{Progress, SetState};
use super::state::Attempt;
use crate::messages::{SpeculationOptions, TaskEffect};

/// The median of numbers that come one by one: the lower half and the upper half, each with its
/// innermost number on top.
#[derive(Debug, Default)]
pub(super) struct Median {
    lower: BinaryHeap<u64>,
    upper: BinaryHeap<Reverse<u64>>,
}

impl Median {
    pub(super) fn insert(&mut self, value: u64) {
        match self.lower.peek() {
            Some(top) if value > *top => self.upper.push(Reverse(value)),
            _ => self.lower.push(value),
        }
        if self.upper.len() > self.lower.len() {
            self.lower.extend(self.upper.pop().map(|Reverse(value)| value));
        } else if self.lower.len() > self.upper.len() + 1 {
            self.upper.extend(self.lower.pop().map(Reverse));
        }
    }

    pub(super) fn get(&self) -> Option<u64> {
        let low = *self.lower.peek()?;
        match self.upper.peek() {
            Some(Reverse(high)) if self.upper.len() == self.lower.len() => {
                Some(low + (high - low) / 2)
            }
            _ => Some(low),
        }
    }
}

impl SetState {
    /// How long an attempt may run before it gets a copy; none before enough siblings succeeded.
    fn patience_ms(&self, options: &SpeculationOptions) -> Option<u64> {
        let needed = (self.slots.len() as u64 * options.quantile_milli / 1000).max(1);
        if u64::from(self.succeeded) < needed {
            return None;
        }
        let multiple = self.durations.get()?.saturating_mul(options.multiplier_milli) / 1000;
        Some(multiple.max(options.min_task_runtime_ms))
    }

    fn wants_copy(&self, attempt: &Attempt, now: Tick, options: &SpeculationOptions) -> bool {
        let slot = &self.slots[attempt.index as usize];
        slot.progress == Progress::Open
            && slot.live_count() == 1
            && !self.copies.contains(&attempt.index)
            && self
                .patience_ms(options)
                .is_some_and(|patience| now.since_ms(attempt.info.launched) > patience)
    }
}

impl TaskScheduler {
    /// If the time has come, asks for copies of slow tasks; books the next look while tasks run
    /// that could still get one.
    pub(super) fn speculate(&mut self, now: Tick, out: &mut Vec<TaskEffect>) {
        let Some(options) = &self.options.speculation else { return };
        if self.next_check.is_none_or(|check| now < check) {
            return;
        }
        let mut found = Vec::new();
        let mut go_on = false;
        for attempt in self.running.values() {
            let set = &self.sets[&attempt.info.stage];
            go_on |= set.is_active();
            let possible = self.executors.has_other_executor(attempt.info.executor);
            if set.is_active() && possible && set.wants_copy(attempt, now, options) {
                found.push((set.stage, attempt.index));
            }
        }
        self.next_check = go_on.then(|| now.plus_ms(options.interval_ms.max(1)));
        for (stage, index) in found {
            let set = self.sets.get_mut(&stage).expect("an attempt's set exists");
            set.copies.insert(index);
            let partition = set.slot(index).partition;
            let copy = Event::SpeculativeTaskSubmitted { stage, index, partition };
            out.push(TaskEffect::Post(copy));
            self.offer_all = true;
            self.settle(now, stage, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Median;

    #[test]
    fn the_median_is_the_middle_of_what_came() {
        let cases: [(&[u64], Option<u64>); 6] = [
            (&[], None),
            (&[7], Some(7)),
            (&[9, 1], Some(5)),
            (&[9, 1, 4], Some(4)),
            (&[5, 5, 5, 100], Some(5)),
            (&[1, 2, 3, 4, 5, 6, 7, 8, 9], Some(5)),
        ];
        for (numbers, expected) in cases {
            for order in [numbers.to_vec(), numbers.iter().rev().copied().collect()] {
                let mut median = Median::default();
                order.iter().for_each(|number| median.insert(*number));
                assert_eq!(median.get(), expected, "{order:?}");
            }
        }
    }
}
