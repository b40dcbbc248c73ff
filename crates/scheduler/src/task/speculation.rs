//! Speculation: a second copy for tasks that run much longer than their siblings did.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use firesteel_types::{Event, Tick};

use super::core::TaskScheduler;
use crate::messages::{SpeculationOptions, TaskEffect};

/// The median of numbers that come one by one: the lower half and the upper half, each with its
/// innermost number on top.
#[derive(Debug, Default)]
struct Median {
    lower: BinaryHeap<u64>,
    upper: BinaryHeap<Reverse<u64>>,
}

impl Median {
    fn insert(&mut self, value: u64) {
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

    fn get(&self) -> Option<u64> {
        let low = *self.lower.peek()?;
        match self.upper.peek() {
            Some(Reverse(high)) if self.upper.len() == self.lower.len() => {
                Some(low + (high - low) / 2)
            }
            _ => Some(low),
        }
    }
}

/// Which tasks of a set want a speculative copy, and how long its tasks take.
#[derive(Debug, Default)]
pub(super) struct Copies {
    wanted: BTreeSet<u32>,
    /// Of successful attempts, if anybody asks.
    durations: Median,
}

impl Copies {
    /// A successful attempt took so long.
    pub(super) fn note_duration(&mut self, ms: u64) {
        self.durations.insert(ms);
    }

    /// How long an attempt may run before it gets a copy; none before enough siblings succeeded.
    pub(super) fn patience_ms(
        &self,
        tasks: usize,
        succeeded: u32,
        options: &SpeculationOptions,
    ) -> Option<u64> {
        let needed = (tasks as u64 * options.quantile_milli / 1000).max(1);
        if u64::from(succeeded) < needed {
            return None;
        }
        let multiple = self.durations.get()?.saturating_mul(options.multiplier_milli) / 1000;
        Some(multiple.max(options.min_task_runtime_ms))
    }

    pub(super) fn want(&mut self, index: u32) {
        self.wanted.insert(index);
    }

    /// The task has a copy, or needs none any more.
    pub(super) fn settle(&mut self, index: u32) {
        self.wanted.remove(&index);
    }

    pub(super) fn is_wanted(&self, index: u32) -> bool {
        self.wanted.contains(&index)
    }

    pub(super) fn wanted(&self) -> impl Iterator<Item = u32> {
        self.wanted.iter().copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }
}

impl TaskScheduler {
    /// Asks for copies of slow tasks. True while tasks run that could still get one.
    pub(super) fn speculate(&mut self, now: Tick, out: &mut Vec<TaskEffect>) -> bool {
        let Some(options) = &self.options.speculation else { return false };
        let mut found = Vec::new();
        let mut go_on = false;
        for attempt in self.attempts.iter() {
            let set = &self.sets[attempt.stage];
            go_on |= set.is_active();
            let possible = self.executors.has_other_executor(attempt.executor);
            if set.is_active() && possible && set.wants_copy(attempt, now, options) {
                found.push((attempt.stage, attempt.index));
            }
        }
        for (stage, index) in found {
            let set = self.sets.get_mut(stage).expect("an attempt's set exists");
            let partition = set.want_copy(index);
            let copy = Event::SpeculativeTaskSubmitted { stage, index, partition };
            out.push(TaskEffect::Post(copy));
            self.round.offer_all();
            self.settle(now, stage, out);
        }
        go_on
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
