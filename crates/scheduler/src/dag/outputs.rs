//! Which executor holds which map output, per shuffle, and whether readers know the latest.
//!
//! Outputs outlive the jobs that made them. Nothing here decides to run anything again.

use std::collections::BTreeMap;

use firesteel_types::{ExecutorId, ShuffleId};

use crate::messages::DagEffect;

/// The map outputs of one shuffle.
#[derive(Debug)]
struct Shuffle {
    /// Executor by map partition; `None`: missing.
    locations: Vec<Option<ExecutorId>>,
    /// How many are missing, so that completeness costs nothing to ask.
    missing: usize,
    /// Whether the locations as they are now were published.
    published: bool,
}

impl Shuffle {
    fn new(partitions: u32) -> Self {
        let partitions = partitions as usize;
        Shuffle { locations: vec![None; partitions], missing: partitions, published: false }
    }

    /// Empties the slots that `lost` names; whether there were any.
    fn drop_where(&mut self, lost: impl Fn(ExecutorId) -> bool) -> bool {
        let before = self.missing;
        for slot in &mut self.locations {
            if slot.is_some_and(&lost) {
                *slot = None;
                self.missing += 1;
            }
        }
        let changed = self.missing > before;
        self.published &= !changed;
        changed
    }

    fn is_empty(&self) -> bool {
        self.missing == self.locations.len()
    }
}

/// The map outputs of every shuffle.
#[derive(Debug, Default)]
pub(super) struct MapOutputs {
    shuffles: BTreeMap<ShuffleId, Shuffle>,
}

impl MapOutputs {
    /// Makes room for a shuffle, keeping what is registered already.
    pub(super) fn ensure(&mut self, shuffle: ShuffleId, partitions: u32) {
        let entry = self.shuffles.entry(shuffle).or_insert_with(|| Shuffle::new(partitions));
        debug_assert_eq!(entry.locations.len(), partitions as usize, "shuffle {shuffle} changed");
    }

    /// Whether every output is registered. An unknown shuffle has none.
    pub(super) fn is_complete(&self, shuffle: ShuffleId) -> bool {
        self.shuffles.get(&shuffle).is_some_and(|s| s.missing == 0)
    }

    /// The map partitions without output.
    pub(super) fn missing(&self, shuffle: ShuffleId) -> Vec<u32> {
        let Some(shuffle) = self.shuffles.get(&shuffle) else { return Vec::new() };
        (0u32..).zip(&shuffle.locations).filter(|(_, l)| l.is_none()).map(|(p, _)| p).collect()
    }

    /// Registers an output unless the partition has one; whether it was taken.
    pub(super) fn register(&mut self, shuffle: ShuffleId, map: u32, at: ExecutorId) -> bool {
        let Some(shuffle) = self.shuffles.get_mut(&shuffle) else { return false };
        match shuffle.locations.get_mut(map as usize) {
            Some(slot @ None) => {
                *slot = Some(at);
                shuffle.missing -= 1;
                shuffle.published = false;
                true
            }
            _ => false,
        }
    }

    /// Forgets one output, if it is still the one on `executor`; whether it was.
    pub(super) fn unregister(&mut self, shuffle: ShuffleId, map: u32, at: ExecutorId) -> bool {
        let Some(shuffle) = self.shuffles.get_mut(&shuffle) else { return false };
        match shuffle.locations.get_mut(map as usize) {
            Some(slot) if *slot == Some(at) => {
                *slot = None;
                shuffle.missing += 1;
                shuffle.published = false;
                true
            }
            _ => false,
        }
    }

    /// Forgets every output on an executor; the shuffles that had some.
    pub(super) fn lose_executor(&mut self, executor: ExecutorId) -> Vec<ShuffleId> {
        let mut changed = Vec::new();
        for (id, shuffle) in &mut self.shuffles {
            if shuffle.drop_where(|at| at == executor) {
                changed.push(*id);
            }
        }
        changed
    }

    /// Forgets every output of a shuffle that some stage still writes or reads.
    pub(super) fn clear(&mut self, shuffle: ShuffleId) {
        if let Some(shuffle) = self.shuffles.get_mut(&shuffle) {
            shuffle.drop_where(|_| true);
        }
    }

    /// Forgets a shuffle.
    pub(super) fn remove(&mut self, shuffle: ShuffleId) {
        self.shuffles.remove(&shuffle);
    }

    /// Forgets a shuffle that has no outputs to remember.
    pub(super) fn remove_if_empty(&mut self, shuffle: ShuffleId) {
        if self.shuffles.get(&shuffle).is_some_and(Shuffle::is_empty) {
            self.remove(shuffle);
        }
    }

    /// What to tell readers, if they do not know it yet.
    pub(super) fn publication(&mut self, id: ShuffleId) -> Option<DagEffect> {
        let shuffle = self.shuffles.get_mut(&id).filter(|s| !s.published)?;
        shuffle.published = true;
        Some(DagEffect::PublishMapOutputs { shuffle: id, locations: shuffle.locations.clone() })
    }

    /// How many shuffles are remembered.
    pub(super) fn len(&self) -> usize {
        self.shuffles.len()
    }
}
