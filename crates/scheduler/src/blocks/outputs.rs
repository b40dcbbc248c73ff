//! Where map outputs lie, per shuffle, and whether readers know the latest.
//!
//! Outputs outlive the jobs that made them. Nothing here decides to run anything again.
//!
//! What readers have to know is *published*, and each publication begins an *epoch*. A task says in which epoch it was
//! launched: its executor asks again if it heard of the shuffle in an earlier one. Losses are published at once, new outputs when
//! somebody is about to read them.
//!
//! A shuffle has a *generation*. It grows when what readers find there is no longer what earlier
//! readers found: an output came out with other records when it was computed again, or all of them
//! were dropped to be computed anew. A stage that read an older generation must not be mixed
//! with readers of a newer one (invariant S20).

use std::collections::BTreeMap;

use firesteel_types::{
    BlockLocation, MapAttempt, MapOutputLocation, MapOutputSizes, MapStatus, ShuffleId,
};

use crate::SchedulerEffect;
use crate::mutant::{Mutant, Planted};

/// The map outputs of one shuffle.
#[derive(Debug)]
struct Shuffle {
    /// Location by map partition; `None`: missing.
    locations: Vec<Option<MapOutputLocation>>,
    /// How many are missing, so that completeness costs nothing to ask.
    missing: usize,
    /// Whether the locations as they are now were published.
    published: bool,
    /// Of the last output of each partition.
    sizes: BTreeMap<u32, MapOutputSizes>,
    /// Of the last output of each partition that had a checksum; kept when the output is lost.
    checksums: BTreeMap<u32, u64>,
    generation: u64,
    /// Whether readers may have found an output of this generation, though it may be lost since.
    begun: bool,
    /// The generations of the shuffles that those outputs were computed from.
    computed_from: Generations,
}

/// Generations of shuffles; the first is 0 and not listed.
pub(crate) type Generations = BTreeMap<ShuffleId, u64>;

/// What became of an output that a task brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registered {
    /// It is the partition's output now.
    Yes,
    /// So it is, and its records differ from those of the output before: the generation grew.
    Changed,
    /// It is the partition's output already.
    Already,
    /// The partition has another one, or nobody knows the shuffle.
    No,
}

impl Shuffle {
    fn new(partitions: u32) -> Self {
        Shuffle {
            locations: vec![None; partitions as usize],
            missing: partitions as usize,
            published: false,
            sizes: BTreeMap::new(),
            checksums: BTreeMap::new(),
            generation: 0,
            begun: false,
            computed_from: Generations::new(),
        }
    }

    /// Empties the slots that `lost` names; their partitions and what was there.
    fn take_where(&mut self, lost: impl Fn(u32, MapOutputLocation) -> bool) -> Vec<Dropped> {
        let mut dropped = Vec::new();
        for (map_partition, slot) in (0u32..).zip(&mut self.locations) {
            if let Some(at) = slot.filter(|at| lost(map_partition, *at)) {
                *slot = None;
                dropped.push((at.location, MapAttempt { map_partition, task: at.task }));
            }
        }
        self.missing += dropped.len();
        self.published &= dropped.is_empty();
        dropped
    }

    fn is_empty(&self) -> bool {
        self.missing == self.locations.len()
    }
}

/// An output that is no longer registered, and who holds it.
pub(crate) type Dropped = (BlockLocation, MapAttempt);

/// The map outputs of every shuffle.
#[derive(Debug)]
pub(crate) struct MapOutputs {
    shuffles: BTreeMap<ShuffleId, Shuffle>,
    /// How often something was published.
    epoch: u64,
    /// Whether a shuffle ever came to its second generation: until then there is nothing to compare.
    changed: bool,
    planted: Planted,
}

impl MapOutputs {
    pub(super) fn new(planted: Planted) -> Self {
        MapOutputs { shuffles: BTreeMap::new(), epoch: 0, changed: false, planted }
    }

    /// Makes room for a shuffle, keeping what is registered already.
    pub(crate) fn ensure(&mut self, shuffle: ShuffleId, partitions: u32) {
        let entry = self.shuffles.entry(shuffle).or_insert_with(|| Shuffle::new(partitions));
        assert_eq!(entry.locations.len(), partitions as usize, "shuffle {shuffle} changed");
    }

    /// Whether every output is registered. An unknown shuffle has none.
    pub(crate) fn is_complete(&self, shuffle: ShuffleId) -> bool {
        self.shuffles.get(&shuffle).is_some_and(|s| s.missing == 0)
    }

    /// The map partitions without output.
    pub(crate) fn missing(&self, shuffle: ShuffleId) -> Vec<u32> {
        let Some(shuffle) = self.shuffles.get(&shuffle) else { return Vec::new() };
        (0u32..).zip(&shuffle.locations).filter(|(_, l)| l.is_none()).map(|(p, _)| p).collect()
    }

    /// Whether this is the partition's output.
    pub(crate) fn is_registered(
        &self,
        shuffle: ShuffleId,
        map: u32,
        at: MapOutputLocation,
    ) -> bool {
        let known = self.shuffles.get(&shuffle).and_then(|s| s.locations.get(map as usize));
        known.is_some_and(|slot| *slot == Some(at))
    }

    /// Registers an output unless the partition has one. Its checksum is 0 where it makes no difference
    /// which attempt is read.
    pub(crate) fn register(
        &mut self,
        shuffle: ShuffleId,
        map: u32,
        at: MapOutputLocation,
        MapStatus { checksum, sizes }: MapStatus,
    ) -> Registered {
        let Some(shuffle) = self.shuffles.get_mut(&shuffle) else { return Registered::No };
        let Some(slot @ None) = shuffle.locations.get_mut(map as usize) else {
            return Registered::No;
        };
        *slot = Some(at);
        shuffle.sizes.insert(map, sizes);
        shuffle.begun = true;
        shuffle.missing -= 1;
        shuffle.published = false;
        if checksum == 0 || shuffle.checksums.insert(map, checksum).is_none_or(|c| c == checksum) {
            return Registered::Yes;
        }
        shuffle.generation += 1;
        self.changed = true;
        Registered::Changed
    }

    /// How much all outputs together have for each of so many readers, about.
    pub(crate) fn bytes_by_reader(&self, shuffle: ShuffleId, readers: u32) -> Vec<u64> {
        let sizes = self.shuffles.get(&shuffle).map(|shuffle| &shuffle.sizes);
        let of = |reader| {
            let each = sizes.into_iter().flat_map(BTreeMap::values);
            each.map(|sizes| sizes.get(reader)).sum()
        };
        (0..readers).map(of).collect()
    }

    /// Forgets these outputs of a holder, if they are still the ones registered; those that were.
    pub(crate) fn unregister(
        &mut self,
        shuffle: ShuffleId,
        location: BlockLocation,
        broken: &[MapAttempt],
    ) -> Vec<Dropped> {
        let Some(shuffle) = self.shuffles.get_mut(&shuffle) else { return Vec::new() };
        let is_broken = |map_partition, at: MapOutputLocation| {
            at.location == location && broken.contains(&MapAttempt { map_partition, task: at.task })
        };
        // Most failures name one of many outputs.
        match broken {
            [] => Vec::new(),
            _ => shuffle.take_where(is_broken),
        }
    }

    /// Forgets every output that a holder has; the shuffles that had some.
    pub(crate) fn lose(&mut self, location: BlockLocation) -> Vec<ShuffleId> {
        let mut changed = Vec::new();
        for (id, shuffle) in &mut self.shuffles {
            if !shuffle.take_where(|_, at| at.location == location).is_empty() {
                changed.push(*id);
            }
        }
        changed
    }

    /// Forgets every output of a shuffle that some stage still writes or reads.
    pub(crate) fn clear(&mut self, shuffle: ShuffleId) {
        if let Some(shuffle) = self.shuffles.get_mut(&shuffle) {
            shuffle.take_where(|_, _| true);
        }
    }

    /// Forgets every output of a shuffle, because what takes their place is another generation; those
    /// there were.
    pub(crate) fn start_over(&mut self, shuffle: ShuffleId) -> Vec<Dropped> {
        let Some(shuffle) = self.shuffles.get_mut(&shuffle) else { return Vec::new() };
        let dropped = shuffle.take_where(|_, _| true);
        shuffle.checksums.clear();
        shuffle.begun = false;
        shuffle.generation += 1;
        self.changed = true;
        dropped
    }

    pub(crate) fn remove(&mut self, shuffle: ShuffleId) {
        self.shuffles.remove(&shuffle);
    }

    /// Forgets a shuffle that has nothing to remember. What readers made of its outputs may be cached, also if all outputs were
    /// lost since: what they were computed from is remembered.
    pub(crate) fn remove_if_empty(&mut self, shuffle: ShuffleId) {
        let nothing = |s: &Shuffle| s.is_empty() && s.generation == 0 && !s.begun;
        if self.shuffles.get(&shuffle).is_some_and(nothing) {
            self.remove(shuffle);
        }
    }

    /// Whether a shuffle ever came to its second generation.
    pub(crate) fn ever_changed(&self) -> bool {
        self.changed
    }

    /// The generations of these shuffles as they are now.
    pub(crate) fn generations(&self, of: impl Iterator<Item = ShuffleId>) -> Generations {
        if !self.changed {
            return Generations::new();
        }
        let known = of.filter_map(|id| Some((id, self.shuffles.get(&id)?.generation)));
        known.filter(|(_, generation)| *generation > 0).collect()
    }

    /// Whether the outputs that readers found were computed from other generations than these.
    pub(crate) fn is_computed_from_others(&self, shuffle: ShuffleId, now: &Generations) -> bool {
        let known = self.shuffles.get(&shuffle);
        known.is_some_and(|shuffle| shuffle.begun && shuffle.computed_from != *now)
    }

    /// Notes what the outputs that come from now on are computed from. Those of later generations are
    /// of a later one themselves: that there were others may have been forgotten when all were lost.
    pub(crate) fn compute_from(&mut self, shuffle: ShuffleId, generations: &Generations) {
        let Some(shuffle) = self.shuffles.get_mut(&shuffle) else { return };
        shuffle.computed_from.clone_from(generations);
        if !generations.is_empty() {
            shuffle.generation = shuffle.generation.max(1);
        }
    }

    /// What to tell readers, if they do not know it yet.
    pub(crate) fn publication(&mut self, id: ShuffleId) -> Option<SchedulerEffect> {
        let shuffle = self.shuffles.get_mut(&id).filter(|s| !s.published)?;
        shuffle.published = true;
        self.epoch += u64::from(!self.planted.is(Mutant::KeepsEpoch));
        Some(SchedulerEffect::PublishMapOutputs {
            shuffle: id,
            locations: shuffle.locations.clone(),
        })
    }

    /// Begins an epoch: no task was launched in it yet.
    pub(super) fn begin_epoch(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch
    }

    /// The epoch of what was published last.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Where the outputs of a shuffle lie: at least what was published. Losses never wait for their publication longer
    /// than the event that tells of them.
    pub(super) fn locations(&self, shuffle: ShuffleId) -> Option<&[Option<MapOutputLocation>]> {
        Some(&self.shuffles.get(&shuffle)?.locations)
    }

    /// How many shuffles are remembered.
    pub(crate) fn len(&self) -> usize {
        self.shuffles.len()
    }
}
