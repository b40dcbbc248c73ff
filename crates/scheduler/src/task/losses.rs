//! Executors that were lost through what ran on them, and who may have done it.
//!
//! Every task that had a core there is a suspect, and each loss counts against each suspect: over all attempts of
//! its stage, since a lost executor takes map outputs along and the stage that read them is submitted again. A suspect
//! that reaches its limit explains its losses, and they count against nobody else any more: a task that happened to
//! run beside another one now and then starts over. Two that were there each time cannot be told apart, and both
//! reach it.

use std::collections::{BTreeMap, BTreeSet};

use firesteel_types::StageId;

/// A task over all its attempts.
pub(super) type Suspect = (StageId, u32);

#[derive(Debug, Default)]
pub(super) struct Losses {
    seen: u64,
    by_suspect: BTreeMap<Suspect, BTreeSet<u64>>,
    /// Suspects of the last loss that have reached their limit.
    convicted: Vec<Suspect>,
}

impl Losses {
    /// An executor is lost, and one of these did it.
    pub(super) fn add(&mut self, suspects: impl IntoIterator<Item = Suspect>) {
        self.seen += 1;
        for suspect in suspects {
            self.by_suspect.entry(suspect).or_default().insert(self.seen);
        }
    }

    /// How many losses count against it.
    pub(super) fn count(&self, suspect: Suspect) -> u32 {
        self.by_suspect.get(&suspect).map_or(0, |losses| losses.len() as u32)
    }

    /// It has reached its limit with the last loss.
    pub(super) fn convict(&mut self, suspect: Suspect) {
        self.convicted.push(suspect);
    }

    /// All suspects of the last loss were looked at: what those explain who reached their limit is no one else's.
    pub(super) fn settle(&mut self) {
        let convicted = std::mem::take(&mut self.convicted);
        let losses = |suspect| self.by_suspect.get(suspect).into_iter().flatten().copied();
        let explained: BTreeSet<u64> = convicted.iter().flat_map(losses).collect();
        if explained.is_empty() {
            return;
        }
        self.by_suspect.retain(|_, losses| {
            losses.retain(|loss| !explained.contains(loss));
            !losses.is_empty()
        });
        convicted.into_iter().for_each(|(stage, _)| self.forget(stage));
    }

    /// Nobody waits for this stage any more.
    pub(super) fn forget(&mut self, stage: StageId) {
        self.by_suspect.retain(|(suspected, _), _| *suspected != stage);
    }

    /// Only these stages are waited for.
    pub(super) fn retain(&mut self, is_needed: impl Fn(StageId) -> bool) {
        self.by_suspect.retain(|(stage, _), _| is_needed(*stage));
    }

    /// Whether nobody is suspected of anything.
    pub(super) fn is_empty(&self) -> bool {
        self.by_suspect.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_suspect_explains_counts_against_nobody_else() {
        let (poison, beside, other) = ((StageId(1), 7), (StageId(1), 3), (StageId(2), 0));
        let mut losses = Losses::default();
        losses.add([poison, beside]);
        losses.add([poison, beside, other]);
        losses.add([other]);
        assert_eq!([poison, beside, other].map(|suspect| losses.count(suspect)), [2, 2, 2]);
        losses.convict(poison);
        losses.settle();
        assert_eq!([poison, beside, other].map(|suspect| losses.count(suspect)), [0, 0, 1]);
        losses.forget(StageId(2));
        assert!(losses.is_empty());
    }
}
