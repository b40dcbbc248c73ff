//! Which of a reader's map outputs to ask for next, from whom and how many bytes at once.
//!
//! ```text
//!   lane of executor 1: [0 3 6 9 ..]      one question at a time per lane; the lane whose next output
//!   lane of executor 2: [1 4 7 ..]        is read first goes first; what is under way or was not read
//!   lane of executor 3: [2 5 8 ..]        yet stays within `spark.reducer.maxSizeInFlight`
//! ```
//!
//! The output that its reader waits for is asked for in any case: whatever else is held is read later.

use std::collections::{BTreeMap, BTreeSet};

use crate::mutant::{Mutant, Planted};

/// So many outputs are asked for at once: their names fit into a stream's, however large the numbers are.
const OUTPUTS_AT_ONCE: usize = 120;
/// So many questions of one reader are under way at once.
const QUESTIONS: usize = 16;
/// At least so many can be held beside each other, so that reading and waiting overlap.
const SHARES: u64 = 5;
/// What a stream occupies that goes to a file.
const FILE_BUFFER: u64 = 256 << 10;

/// A question to the executor of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// A first few of these outputs, of so many bytes in all.
    Several { lane: usize, maps: Vec<u32>, limit: u64 },
    /// One that lies in a file there; through a file here if it is larger than may be held.
    Alone { lane: usize, map: u32, bytes: u64, to_file: bool },
}

impl Question {
    /// The output to blame when there is no answer: holders serve the first few of those asked for, up to the first that they
    /// cannot read.
    pub fn first(&self) -> u32 {
        match self {
            Question::Several { maps, .. } => maps.first().copied().unwrap_or_default(),
            Question::Alone { map, .. } => *map,
        }
    }
}

#[derive(Debug, Default)]
struct Lane {
    /// Not asked for, in the order they are read.
    waiting: BTreeSet<u32>,
    /// To be asked for alone, with their lengths.
    alone: BTreeMap<u32, u64>,
    busy: bool,
}

impl Lane {
    fn first(&self) -> Option<u32> {
        let alone = self.alone.keys().next();
        self.waiting.first().into_iter().chain(alone).min().copied()
    }
}

/// What came with one answer, as long as any of it was not read.
#[derive(Debug)]
struct Batch {
    bytes: u64,
    unread: usize,
}

/// One reader's questions: those under way, and those to come.
#[derive(Debug)]
pub struct Plan {
    lanes: Vec<Lane>,
    limit: u64,
    share: u64,
    /// Bytes under way or not read.
    held: u64,
    under_way: usize,
    batches: Vec<Batch>,
    batch_of: BTreeMap<u32, usize>,
    planted: Planted,
}

impl Plan {
    /// Reads the outputs of each lane, and holds no more than `limit` bytes of them.
    pub fn new(
        lanes: impl IntoIterator<Item = BTreeSet<u32>>,
        limit: u64,
        planted: Planted,
    ) -> Self {
        let lane = |waiting| Lane { waiting, ..Lane::default() };
        let lanes: Vec<Lane> = lanes.into_iter().map(lane).collect();
        // One that is read and one under way, for each.
        let share = limit / SHARES.max(2 * lanes.len() as u64);
        Plan {
            lanes,
            limit,
            share: share.max(1),
            held: 0,
            under_way: 0,
            batches: Vec::new(),
            batch_of: BTreeMap::new(),
            planted,
        }
    }

    /// Whether somebody was asked who has not answered.
    pub fn is_under_way(&self) -> bool {
        self.under_way > 0
    }

    /// Bytes under way or not read.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Holds no more than this from now on.
    pub fn limit_to(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// The next question that may be asked now; `wanted` is the output that its reader waits for.
    pub fn next(&mut self, wanted: Option<u32>) -> Option<Question> {
        if self.under_way >= QUESTIONS {
            return None;
        }
        let free = self.lanes.iter().enumerate().filter(|(_, lane)| !lane.busy);
        let first = free.filter_map(|(index, lane)| Some((lane.first()?, index))).min()?;
        let (map, index) = first;
        let lane = &mut self.lanes[index];
        let alone = lane.alone.get(&map).copied();
        let to_file = alone.is_some_and(|bytes| bytes > self.limit);
        let cost = cost(alone, self.share, to_file);
        if self.held.saturating_add(cost) > self.limit && wanted != Some(map) {
            return None;
        }
        lane.busy = true;
        self.held += cost;
        self.under_way += 1;
        Some(match alone {
            Some(bytes) => {
                lane.alone.remove(&map);
                Question::Alone { lane: index, map, bytes, to_file }
            }
            None => {
                let maps = lane.waiting.iter().copied().take(OUTPUTS_AT_ONCE).collect();
                Question::Several { lane: index, maps, limit: self.share }
            }
        })
    }

    /// Notes the answer to [`Question::Several`]: so many bytes came, with these outputs, and those are
    /// to be asked for alone. Outputs that were not mentioned are asked for again.
    pub fn several_came(&mut self, lane: usize, bytes: u64, came: &[u32], alone: &[(u32, u64)]) {
        self.answered(lane, self.share);
        let waiting = &mut self.lanes[lane].waiting;
        came.iter().chain(alone.iter().map(|(map, _)| map)).for_each(|map| {
            waiting.remove(map);
        });
        if self.planted.is(Mutant::ForgetsWhatDidNotCome) {
            waiting.clear();
        }
        self.lanes[lane].alone.extend(alone.iter().copied());
        self.hold(bytes, came);
    }

    /// Notes the answer to [`Question::Alone`].
    pub fn one_came(&mut self, lane: usize, map: u32, bytes: u64, to_file: bool) {
        let occupied = cost(Some(bytes), self.share, to_file);
        self.answered(lane, occupied);
        self.hold(if to_file { 0 } else { bytes }, &[map]);
    }

    /// Notes that an output was read: what came with it goes when all of that was.
    pub fn was_read(&mut self, map: u32) {
        let Some(index) = self.batch_of.remove(&map) else { return };
        let batch = &mut self.batches[index];
        batch.unread -= 1;
        if batch.unread == 0 {
            self.held -= batch.bytes;
        }
    }

    fn answered(&mut self, lane: usize, occupied: u64) {
        self.lanes[lane].busy = false;
        self.held -= occupied;
        self.under_way -= 1;
    }

    fn hold(&mut self, bytes: u64, maps: &[u32]) {
        if maps.is_empty() {
            return;
        }
        self.held += bytes;
        self.batches.push(Batch { bytes, unread: maps.len() });
        let index = self.batches.len() - 1;
        self.batch_of.extend(maps.iter().map(|map| (*map, index)));
    }
}

/// What a question occupies until it is answered.
fn cost(alone: Option<u64>, share: u64, to_file: bool) -> u64 {
    match alone {
        None => share,
        Some(_) if to_file => FILE_BUFFER,
        Some(bytes) => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(lanes: &[&[u32]], limit: u64) -> Plan {
        let lanes = lanes.iter().map(|maps| maps.iter().copied().collect());
        Plan::new(lanes, limit, Planted::default())
    }

    fn several(lane: usize, maps: &[u32], limit: u64) -> Option<Question> {
        Some(Question::Several { lane, maps: maps.to_vec(), limit })
    }

    #[test]
    fn all_executors_are_asked_at_once_and_each_for_one_thing_at_a_time() {
        let mut plan = plan(&[&[0, 3], &[1, 2]], 1000);
        assert_eq!(plan.next(Some(0)), several(0, &[0, 3], 200));
        assert_eq!(plan.next(Some(0)), several(1, &[1, 2], 200));
        assert_eq!(plan.next(Some(0)), None);
        plan.several_came(1, 100, &[1], &[]);
        assert_eq!(plan.next(Some(0)), several(1, &[2], 200), "what did not come with it");
        plan.several_came(1, 100, &[2], &[]);
        plan.several_came(0, 100, &[0, 3], &[]);
        assert_eq!((plan.next(None), plan.held), (None, 300));
        (0..4).for_each(|map| plan.was_read(map));
        assert_eq!(plan.held, 0);
    }

    #[test]
    fn no_more_is_held_than_may_be_but_what_is_waited_for_is_asked_for_all_the_same() {
        let mut plan = plan(&[&[0], &[1]], 100);
        assert!(plan.next(Some(0)).is_some() && plan.next(Some(0)).is_some());
        plan.several_came(1, 90, &[1], &[]);
        plan.several_came(0, 1, &[], &[(0, 60)]);
        assert_eq!(plan.next(None), None, "60 and 90 are more than 100");
        let alone = Question::Alone { lane: 0, map: 0, bytes: 60, to_file: false };
        assert_eq!(plan.next(Some(0)), Some(alone));
        plan.one_came(0, 0, 60, false);
        plan.was_read(0);
        plan.was_read(1);
        assert_eq!(plan.held, 0);
    }

    #[test]
    fn what_is_larger_than_may_be_held_goes_through_a_file() {
        let mut plan = plan(&[&[0]], 100);
        plan.next(Some(0));
        plan.several_came(0, 12, &[], &[(0, 101)]);
        let alone = Question::Alone { lane: 0, map: 0, bytes: 101, to_file: true };
        assert_eq!(plan.next(Some(0)), Some(alone));
        plan.one_came(0, 0, 101, true);
        assert_eq!(plan.held, 0);
    }

    /// Whatever sizes come, every output is asked for, none twice, and the bound is exceeded only by what
    /// its reader waits for.
    #[test]
    fn random_readers_get_everything_once_within_their_bound() {
        for seed in 0..300 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (maps, lanes) = (random.u32(1..60), random.usize(1..25));
            let mut holders = vec![BTreeSet::new(); lanes];
            for map in 0..maps {
                holders[random.usize(..lanes)].insert(map);
            }
            let limit = random.u64(100..2000);
            let mut plan = Plan::new(holders, limit, Planted::default());
            let (mut under_way, mut here, mut read) = (Vec::new(), BTreeSet::new(), 0);
            while read < maps {
                if here.remove(&read) {
                    plan.was_read(read);
                    read += 1;
                    continue;
                }
                while let Some(question) = plan.next(Some(read)) {
                    under_way.push(question);
                }
                assert!(!under_way.is_empty(), "seed {seed}: nothing comes any more");
                match under_way.swap_remove(random.usize(..under_way.len())) {
                    Question::Several { lane, maps, limit } => {
                        let count = random.usize(1..=maps.len());
                        let (came, alone): (Vec<u32>, Vec<u32>) =
                            maps[..count].iter().partition(|_| random.bool());
                        came.iter().for_each(|map| assert!(here.insert(*map), "seed {seed}"));
                        let alone: Vec<_> =
                            alone.iter().map(|map| (*map, random.u64(1..limit * 20))).collect();
                        plan.several_came(lane, random.u64(..=limit), &came, &alone);
                    }
                    Question::Alone { lane, map, bytes, to_file } => {
                        assert!(here.insert(map), "seed {seed}");
                        plan.one_came(lane, map, bytes, to_file);
                    }
                }
            }
            assert_eq!((plan.held, plan.under_way), (0, 0), "seed {seed}");
        }
    }
}
