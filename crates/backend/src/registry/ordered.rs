//! Executors between order and registration, and what a provider's word about one means.

use std::collections::BTreeMap;

use firesteel_types::{ExecutorId, Tick};

use super::core::{Registry, Turn};
use crate::blame::End;

/// Executors that were ordered and have not registered, with the moment of the last word about them.
#[derive(Debug, Default)]
pub(super) struct Ordered(BTreeMap<ExecutorId, Tick>);

impl Ordered {
    pub(super) fn remove(&mut self, executor: ExecutorId) {
        self.0.remove(&executor);
    }

    /// Those of which nothing was heard for longer than this.
    pub(super) fn late(&self, now: Tick, timeout_ms: u64) -> impl Iterator<Item = ExecutorId> {
        let late = self.0.iter().filter(move |(_, since)| now.since_ms(**since) > timeout_ms);
        late.map(|(executor, _)| *executor)
    }
}

impl Registry {
    pub(super) fn executor_ordered(&mut self, turn: &mut Turn<'_>, executor: ExecutorId) {
        if self.is_over() || self.is_lost(executor) {
            self.stale += 1;
        } else if !self.executors.contains_key(&executor) {
            self.ordered.0.entry(executor).or_insert(turn.now);
        }
    }

    /// It has as long from now on as it had to start.
    pub(super) fn executor_started(&mut self, turn: &mut Turn<'_>, executor: ExecutorId) {
        match self.ordered.0.get_mut(&executor) {
            Some(since) => *since = turn.now,
            None if self.executors.contains_key(&executor) => {}
            None => self.stale += 1,
        }
    }

    /// How it ended says whose fault that was. One that was never heard of may still come, and is refused then.
    pub(super) fn executor_ended(
        &mut self,
        turn: &mut Turn<'_>,
        executor: ExecutorId,
        end: End,
        reason: &str,
    ) {
        let known =
            self.executors.contains_key(&executor) || self.ordered.0.contains_key(&executor);
        self.stale += u64::from(!known);
        self.lose(turn, executor, end, reason);
    }
}
