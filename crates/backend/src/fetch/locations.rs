//! Where map outputs lie, as an executor heard, and what that means for those who read them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use firesteel_types::{BlockLocation, MapAttempt, MapOutputLocation, ShuffleId};

use crate::mutant::{Mutant, Planted};

/// The driver's last answer for each shuffle. It is asked again only for a task that was launched in a later epoch (S21).
#[derive(Debug)]
pub struct Heard<L> {
    answers: BTreeMap<ShuffleId, (u64, L)>,
    planted: Planted,
}

impl<L: Clone> Heard<L> {
    pub fn new(planted: Planted) -> Self {
        Heard { answers: BTreeMap::new(), planted }
    }

    /// The last answer, if it is as new as that epoch.
    pub fn known(&self, shuffle: ShuffleId, epoch: u64) -> Option<L> {
        let answer = self.answers.get(&shuffle);
        let new = |known: u64| known >= epoch || self.planted.is(Mutant::KeepsOldLocations);
        answer.filter(|(known, _)| new(*known)).map(|(_, answer)| answer.clone())
    }

    /// The driver answered in that epoch.
    pub fn hear(&mut self, shuffle: ShuffleId, epoch: u64, answer: L) {
        self.answers.insert(shuffle, (epoch, answer));
    }

    /// Nobody reads the shuffle any more.
    pub fn forget(&mut self, shuffle: ShuffleId) {
        self.answers.remove(&shuffle);
    }
}

/// The outputs of a shuffle, by map partition; `None`: it is lost or not computed yet.
#[derive(Clone, Copy, Debug)]
pub struct Located<'a>(pub &'a [Option<MapOutputLocation>]);

/// Where a reader gets one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Among the blocks of its own executor.
    Here(MapAttempt),
    /// Its holder is to be asked, as the plan says.
    Elsewhere,
    /// Its holder is lost, with all that it had of the shuffle.
    Lost { holder: BlockLocation, broken: Vec<MapAttempt> },
    /// No executor is known to have it any more.
    Nowhere,
}

impl Located<'_> {
    /// The output of a map partition, and who holds it.
    pub fn output(self, map: u32) -> Option<(BlockLocation, MapAttempt)> {
        let at = self.0.get(map as usize).copied().flatten()?;
        Some((at.location, MapAttempt { map_partition: map, task: at.task }))
    }

    /// Where a reader of the executor `here` gets an output; `serves`: whether a holder can be asked.
    pub fn source(
        self,
        map: u32,
        here: BlockLocation,
        serves: impl FnOnce(BlockLocation) -> bool,
    ) -> Source {
        match self.output(map) {
            None => Source::Nowhere,
            Some((holder, output)) if holder == here => Source::Here(output),
            Some((holder, _)) if serves(holder) => Source::Elsewhere,
            Some((holder, _)) => Source::Lost { holder, broken: self.broken(holder, map, &[]) },
        }
    }

    /// Those of a range that each of these holders has.
    pub fn lanes(self, maps: Range<u32>, holders: &[BlockLocation]) -> Vec<BTreeSet<u32>> {
        let mut lanes: BTreeMap<BlockLocation, BTreeSet<u32>> =
            holders.iter().map(|holder| (*holder, BTreeSet::new())).collect();
        for map in maps {
            let holder = self.output(map).map(|(holder, _)| holder);
            if let Some(lane) = holder.and_then(|holder| lanes.get_mut(&holder)) {
                lane.insert(map);
            }
        }
        holders.iter().map(|holder| lanes.remove(holder).unwrap_or_default()).collect()
    }

    /// What to blame when `map`'s output could not be had of its holder: that one, and whatever the holder does not say that it
    /// can serve. One that gave no answer can serve nothing.
    pub fn broken(
        self,
        holder: BlockLocation,
        map: u32,
        readable: &[MapAttempt],
    ) -> Vec<MapAttempt> {
        let all = (0..self.0.len() as u32).filter_map(|map| self.output(map));
        let there = all.filter(|(location, _)| *location == holder).map(|(_, output)| output);
        there.filter(|output| output.map_partition == map || !readable.contains(output)).collect()
    }
}

#[cfg(test)]
mod tests {
    use firesteel_types::{ExecutorId, TaskId};

    use super::*;

    fn at(executor: u32, task: u64) -> Option<MapOutputLocation> {
        Some(MapOutputLocation { location: ExecutorId(executor).into(), task: TaskId(task) })
    }

    fn output(map_partition: u32, task: u64) -> MapAttempt {
        MapAttempt { map_partition, task: TaskId(task) }
    }

    #[test]
    fn an_answer_counts_for_tasks_that_were_launched_before_it() {
        let mut heard = Heard::new(Planted::default());
        assert_eq!(heard.known(ShuffleId(1), 0), None);
        heard.hear(ShuffleId(1), 5, 'a');
        assert_eq!([heard.known(ShuffleId(1), 5), heard.known(ShuffleId(1), 6)], [Some('a'), None]);
        heard.hear(ShuffleId(1), 7, 'b');
        assert_eq!(heard.known(ShuffleId(1), 6), Some('b'));
        heard.forget(ShuffleId(1));
        assert_eq!(heard.known(ShuffleId(1), 6), None);
    }

    #[test]
    fn every_output_comes_from_here_from_a_lane_or_is_known_to_be_gone() {
        let outputs = [at(1, 10), at(2, 11), at(3, 12), None, at(2, 14), at(3, 15)];
        let (located, here, two) = (Located(&outputs), ExecutorId(1).into(), ExecutorId(2).into());
        let source = |map| located.source(map, here, |holder| holder == two);
        assert_eq!(source(0), Source::Here(output(0, 10)));
        assert_eq!([source(1), source(3)], [Source::Elsewhere, Source::Nowhere]);
        let broken = vec![output(2, 12), output(5, 15)];
        assert_eq!(source(2), Source::Lost { holder: ExecutorId(3).into(), broken });
        assert_eq!(located.lanes(0..5, &[two]), [BTreeSet::from([1, 4])]);
        assert_eq!(located.lanes(2..6, &[ExecutorId(3).into(), two])[0], BTreeSet::from([2, 5]));
    }

    #[test]
    fn what_a_holder_cannot_serve_is_told_at_once_and_what_it_can_is_not_blamed() {
        let outputs = [at(2, 10), at(2, 11), at(3, 12), at(2, 13)];
        let located = Located(&outputs);
        let two = ExecutorId(2).into();
        assert_eq!(located.broken(two, 1, &[output(0, 10)]), [output(1, 11), output(3, 13)]);
        // Another attempt's output is none of these.
        assert_eq!(located.broken(two, 1, &[output(3, 99), output(0, 10)]).len(), 2);
        assert_eq!(located.broken(two, 1, &[]).len(), 3);
    }
}
