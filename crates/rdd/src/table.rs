//! Combiners by key, within the task's memory.
//!
//! Most of the time of an aggregation goes into waiting for memory: every input asks for a random place
//! of a large table. So inputs are collected in small batches, and a batch is looked up in stages, each
//! a loop of loads that do not depend on each other: the processor waits for many at once.
//!
//! ```text
//!   index    hash, number | hash, number | -            probed linearly by the hash's upper bits
//!   entries  key, combiner | key, combiner | ...        in the order in which keys first came
//! ```
//!
//! Frequent keys tend to come early, so their entries lie close together.

use std::hash::{BuildHasher, Hash};
use std::hint::black_box;

use firesteel_closure::Data;
use firesteel_task::TaskContext;
use foldhash::fast::FixedState;

use crate::aggregate::Fold;
use crate::growth::{Growth, More};
use crate::memory::{Account, CHECK_BYTES, CombinerMeter, FREE_BYTES, Meter};

/// Inputs that are looked up together.
const BATCH: usize = 64;
/// So many inputs pass between two looks at the memory, or [`CHECK_BYTES`] where inputs are large.
const CHECK_EVERY: usize = 256;
/// The index of a new table: 2^8 places.
const FIRST_BITS: u32 = 8;
/// An index with fewer places is in the cache anyway.
const STAGED_FROM: usize = 1 << 12;

const FULL: &str = "a slot is only empty during its own merge";

/// A hash map whose keys are numbered in the order in which they first came.
pub(crate) struct KeyMap<K, C> {
    /// The hash in the upper half, the entry's number plus one in the lower; zero: nothing here.
    index: Vec<u64>,
    /// The index has 2^bits places.
    bits: u32,
    entries: Entries<K, C>,
}

/// Entries by number. Those of a full piece never move: while a large table grows there are no two of
/// it, and its memory is given back piece by piece while it is emptied.
struct Entries<K, C> {
    /// All but the last have [`CHUNK`] entries. A slot is empty only while user code merges its combiner.
    chunks: Vec<Vec<(K, Option<C>)>>,
    len: usize,
}

/// Entries in one piece of memory.
const CHUNK: usize = 1 << CHUNK_BITS;
const CHUNK_BITS: u32 = 12;
const CHUNK_BYTES: usize = 256 << 10;

impl<K, C> Entries<K, C> {
    /// Large entries are not asked for by the thousand.
    const AT_ONCE: usize = {
        let fit = CHUNK_BYTES / (size_of::<(K, Option<C>)>() + 1);
        if fit < CHUNK { fit } else { CHUNK }
    };

    fn new() -> Self {
        Entries { chunks: vec![Vec::new()], len: 0 }
    }

    #[inline]
    fn at(&self, number: usize) -> &(K, Option<C>) {
        &self.chunks[number >> CHUNK_BITS][number & (CHUNK - 1)]
    }

    #[inline]
    fn at_mut(&mut self, number: usize) -> &mut (K, Option<C>) {
        &mut self.chunks[number >> CHUNK_BITS][number & (CHUNK - 1)]
    }

    #[inline]
    fn push(&mut self, key: K, combiner: C) {
        if self.len & (CHUNK - 1) == 0 && self.len > 0 {
            self.chunks.push(Vec::with_capacity(Self::AT_ONCE));
        }
        let last = self.chunks.last_mut().expect("there is always a chunk");
        last.push((key, Some(combiner)));
        self.len += 1;
    }

    /// Entries that there is memory for.
    fn capacity(&self) -> usize {
        let last = self.chunks.last().map_or(0, Vec::capacity);
        (self.chunks.len() - 1) * CHUNK + last
    }
}

/// The part of a key's hash that the index knows.
#[inline]
fn hash_of<K: Hash>(key: &K) -> u32 {
    (mixed(FixedState::default().hash_one(key)) >> 32) as u32
}

/// A hash whose upper bits have nothing to do with those of another `depth`, of the index or of the
/// partitioner.
///
/// Hashes of small numbers under two seeds differ by little more than a constant: what one puts
/// together the other would hardly take apart. So the hash is mixed, and not the seed changed.
pub(crate) fn mixed_hash<K: Hash>(key: &K, depth: u32) -> u64 {
    let hash = FixedState::default().hash_one(key) ^ ((1 + u64::from(depth)) << 17);
    mixed(mixed(hash))
}

#[inline]
fn mixed(hash: u64) -> u64 {
    (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

impl<K: Hash + Eq, C> KeyMap<K, C> {
    fn new() -> Self {
        KeyMap { index: vec![0; 1 << FIRST_BITS], bits: FIRST_BITS, entries: Entries::new() }
    }

    /// How many keys it can take before the index has to grow.
    fn room(&self) -> usize {
        (self.index.len() / 4 * 3).saturating_sub(self.entries.len)
    }

    fn bytes_of(places: usize, entries: usize) -> u64 {
        (places * size_of::<u64>() + entries * size_of::<(K, Option<C>)>()) as u64
    }

    fn bytes(&self) -> u64 {
        Self::bytes_of(self.index.len(), self.entries.capacity())
    }

    /// What there is for a moment while the index grows: the old one besides the new.
    fn bytes_while_growing(&self) -> u64 {
        Self::bytes_of(self.index.len() * 3, self.entries.capacity())
    }

    /// Places are by the hash's upper bits: the new index is written from its start to its end.
    fn widen_index(&mut self) {
        self.bits += 1;
        let old = std::mem::replace(&mut self.index, vec![0; 1 << self.bits]);
        for slot in old.into_iter().filter(|slot| *slot != 0) {
            let mut place = self.place((slot >> 32) as u32);
            while self.index[place] != 0 {
                place = self.after(place);
            }
            self.index[place] = slot;
        }
    }

    #[inline]
    fn place(&self, hash: u32) -> usize {
        (hash >> (32 - self.bits)) as usize
    }

    #[inline]
    fn after(&self, place: usize) -> usize {
        (place + 1) & (self.index.len() - 1)
    }

    /// Numbers, plus one, of the keys of a batch that are here; zero for those that are not, and for the
    /// few whose hash is also another's.
    #[inline]
    fn find_batch<I>(&self, hashes: &[u32; BATCH], batch: &[(K, I)]) -> [u32; BATCH] {
        // Three loops, so that no load waits for another key's.
        let firsts = hashes.map(|hash| self.index[self.place(hash)]);
        let mut numbers = [0; BATCH];
        let mut entries = [None; BATCH];
        let mut here = 0;
        for (at, (hash, first)) in hashes.iter().zip(firsts).enumerate() {
            numbers[at] = self.candidate(*hash, first);
            if let Some(number) = numbers[at].checked_sub(1) {
                let entry = self.entries.at(number as usize);
                here += usize::from(entry.1.is_some());
                entries[at] = Some(entry);
            }
        }
        // Without a use of what was read the loads would move to where the keys are compared.
        black_box(here);
        for (at, (key, _)) in batch.iter().enumerate() {
            if entries[at].is_none_or(|entry| entry.0 != *key) {
                numbers[at] = 0;
            }
        }
        numbers
    }

    /// The number, plus one, of the first key with this hash; zero if there is none.
    #[inline]
    fn candidate(&self, hash: u32, first: u64) -> u32 {
        let mut slot = first;
        let mut place = self.place(hash);
        while slot != 0 && (slot >> 32) as u32 != hash {
            place = self.after(place);
            slot = self.index[place];
        }
        slot as u32
    }

    /// The number of a key, or the place in the index where it would be.
    #[inline]
    fn probe(&self, hash: u32, key: &K) -> Result<usize, usize> {
        let mut place = self.place(hash);
        loop {
            let slot = self.index[place];
            if slot == 0 {
                return Err(place);
            }
            let number = (slot as u32).wrapping_sub(1) as usize;
            if (slot >> 32) as u32 == hash && self.entries.at(number).0 == *key {
                return Ok(number);
            }
            place = self.after(place);
        }
    }

    /// The number of a key that is here.
    #[inline]
    pub(crate) fn find(&self, key: &K) -> Option<usize> {
        self.probe(hash_of(key), key).ok()
    }

    /// The combiner of a key by its number.
    #[inline]
    pub(crate) fn get(&self, number: usize) -> &C {
        self.entries.at(number).1.as_ref().expect(FULL)
    }

    #[inline]
    fn insert(&mut self, place: usize, hash: u32, key: K, combiner: C) {
        self.entries.push(key, combiner);
        self.index[place] = u64::from(hash) << 32 | self.entries.len as u64;
    }
}

/// The pairs of a table, in the order in which their keys first came.
pub(crate) struct TablePairs<K, C> {
    chunks: std::vec::IntoIter<Vec<(K, Option<C>)>>,
    chunk: std::vec::IntoIter<(K, Option<C>)>,
}

impl<K, C> Iterator for TablePairs<K, C> {
    type Item = (K, C);

    #[inline]
    fn next(&mut self) -> Option<(K, C)> {
        loop {
            if let Some((key, slot)) = self.chunk.next() {
                return Some((key, slot.expect(FULL)));
            }
            self.chunk = self.chunks.next()?.into_iter();
        }
    }
}

/// A table that inputs are folded into.
pub(crate) struct Table<K, I, C, F> {
    map: KeyMap<K, C>,
    fold: F,
    /// Inputs that are not in the map yet, and the hashes of their keys.
    batch: Vec<(K, I)>,
    hashes: [u32; BATCH],
    /// How many inputs make a batch: fewer where they are large, as they are not on the books yet.
    batch_len: usize,
    /// Entries as they came; of growing combiners, their keys.
    entries: Meter,
    /// Entries as they are, where combiners change.
    combiners: CombinerMeter,
    inputs: Meter,
    /// Bytes that entries, as they came, and the values in growing combiners own on the heap.
    heap: f64,
    /// Bytes of memory for those values themselves, as it is allocated.
    slots: u64,
    /// What was asked for last, in all.
    asked: u64,
    until_check: usize,
    /// Bytes that came, or may have changed, since the last look at the memory.
    unchecked: f64,
    account: Account,
}

impl<K: Data + Hash + Eq, I, C: Data, F: Fold<I, C>> Table<K, I, C, F> {
    pub(crate) fn new(fold: F, task: &TaskContext) -> Self {
        Table {
            map: KeyMap::new(),
            fold,
            batch: Vec::with_capacity(BATCH),
            hashes: [0; BATCH],
            batch_len: 1,
            entries: Meter::of::<(K, C)>(),
            combiners: CombinerMeter::new(),
            inputs: F::Growth::meter(),
            heap: 0.0,
            slots: 0,
            asked: 0,
            until_check: CHECK_EVERY,
            unchecked: 0.0,
            account: Account::new(task),
        }
    }

    /// Folds an input in; `false` when the table has outgrown its memory and must be emptied.
    #[inline]
    pub(crate) fn push(&mut self, key: K, input: I) -> bool {
        self.weigh(&input);
        self.hashes[self.batch.len()] = hash_of(&key);
        self.batch.push((key, input));
        let heavy = F::Growth::GROWS && self.unchecked > CHECK_BYTES;
        let full = self.batch.len() >= self.batch_len || heavy;
        !full || self.fold_batch()
    }

    #[inline]
    fn weigh(&mut self, input: &I) {
        if F::Growth::GROWS {
            let heap = self.fold.weigh(input, &mut self.inputs);
            self.heap += heap;
            self.unchecked += heap + self.fold.slots(input) as f64;
        }
    }

    /// Folds in what waits; `false` as [`Table::push`].
    pub(crate) fn fold_batch(&mut self) -> bool {
        self.until_check = self.until_check.saturating_sub(self.batch.len());
        if !self.settle() {
            return false;
        }
        // Inputs are about as large as what they are folded into.
        let each = match F::Growth::GROWS {
            true => 0.0,
            false => self.entries.heap_each().max(self.combiners.heap_each()),
        };
        self.batch_len = ((CHECK_BYTES / (1.0 + each)) as usize).clamp(1, BATCH);
        let due = self.until_check == 0 || self.unchecked > CHECK_BYTES;
        (!due || self.check()) && (self.map.room() >= BATCH || self.may_grow())
    }

    /// Puts the batch into the map; `false` when a combiner had no memory to grow by an input. That one
    /// and those after it wait for the next map.
    pub(crate) fn settle(&mut self) -> bool {
        let mut batch = std::mem::take(&mut self.batch);
        let staged = self.map.index.len() >= STAGED_FROM && batch.len() == BATCH;
        let numbers = if staged { self.map.find_batch(&self.hashes, &batch) } else { [0; BATCH] };
        let mut inputs = batch.drain(..).enumerate();
        let refused = inputs.find_map(|(at, (key, input))| {
            let refused = match numbers[at].checked_sub(1) {
                Some(number) => self.merge(number as usize, input).map(|input| (key, input)),
                None => self.put(self.hashes[at], key, input),
            };
            refused.map(|pair| (at, pair))
        });
        let settled = refused.is_none();
        if let Some((at, pair)) = refused {
            self.hashes.copy_within(at.., 0);
            self.batch.push(pair);
            self.batch.extend(inputs.map(|(_, pair)| pair));
        } else {
            drop(inputs);
            self.batch = batch;
        }
        settled
    }

    /// Folds an input in, or gives it back.
    #[inline]
    fn put(&mut self, hash: u32, key: K, input: I) -> Option<(K, I)> {
        match self.map.probe(hash, &key) {
            Ok(number) => self.merge(number, input).map(|input| (key, input)),
            Err(place) => {
                let created = self.fold.create(input);
                self.weigh_new(&key, &created);
                self.slots += F::Growth::slots(&created);
                self.map.insert(place, hash, key, created);
                None
            }
        }
    }

    /// Folds an input into a combiner, or gives it back if there is no memory to grow by it.
    #[inline]
    fn merge(&mut self, number: usize, input: I) -> Option<I> {
        if F::Growth::GROWS {
            let more = self.fold.values(&input);
            let slot = &mut self.map.entries.at_mut(number).1;
            if !F::Growth::has_room(slot.as_ref().expect(FULL), more) {
                return self.stretch_and_merge(number, more, input);
            }
            *slot = Some(self.fold.merge(slot.take().expect(FULL), input));
            return None;
        }
        let (key, slot) = self.map.entries.at_mut(number);
        let merged = self.fold.merge(slot.take().expect(FULL), input);
        if std::mem::needs_drop::<C>() {
            self.combiners.see(&(&*key, &merged));
            self.unchecked += self.combiners.heap_each();
        }
        *slot = Some(merged);
        None
    }

    #[inline]
    fn weigh_new(&mut self, key: &K, created: &C) {
        let heap = match F::Growth::GROWS {
            true => self.entries.see(key),
            false => self.entries.see(&(key, created)),
        };
        if !F::Growth::GROWS && std::mem::needs_drop::<(K, C)>() {
            self.combiners.see(&(key, created));
        }
        self.heap += heap;
        self.unchecked += heap;
    }

    #[cold]
    fn stretch_and_merge(&mut self, number: usize, more: More, input: I) -> Option<I> {
        let combiner = self.map.entries.at_mut(number).1.as_mut().expect(FULL);
        let before = F::Growth::slots(combiner);
        let has_room = F::Growth::stretch_small(combiner, more);
        self.slots += F::Growth::slots(combiner) - before;
        if !has_room && !self.stretch(number, more) {
            return Some(input);
        }
        let slot = &mut self.map.entries.at_mut(number).1;
        *slot = Some(self.fold.merge(slot.take().expect(FULL), input));
        None
    }

    /// Makes room in a large combiner, if the memory for it is granted.
    fn stretch(&mut self, number: usize, more: More) -> bool {
        let held = self.bytes();
        let Table { map, account, asked, slots, .. } = self;
        let combiner = map.entries.at_mut(number).1.as_mut().expect(FULL);
        let before = F::Growth::slots(combiner);
        let stretched = F::Growth::stretch(combiner, more, &mut |bytes| {
            *asked = held + bytes;
            account.allows(*asked)
        });
        *slots += F::Growth::slots(combiner) - before;
        stretched
    }

    /// Makes room for another batch, if the memory for it is granted.
    #[cold]
    fn may_grow(&mut self) -> bool {
        let entries = self.map.entries.len;
        // Numbers of entries have 32 bits, hashes too.
        let allowed = entries < 1 << 30 && {
            self.asked = self.map.bytes_while_growing() + self.heap_bytes();
            self.account.allows(self.asked)
        };
        if allowed {
            self.map.widen_index();
        }
        allowed
    }

    #[cold]
    fn check(&mut self) -> bool {
        self.until_check = CHECK_EVERY;
        self.unchecked = 0.0;
        self.asked = self.bytes();
        self.account.allows(self.asked)
    }

    fn bytes(&self) -> u64 {
        self.map.bytes() + self.heap_bytes()
    }

    fn heap_bytes(&self) -> u64 {
        let combiners = self.map.entries.len as f64 * self.combiners.heap_each();
        self.heap.max(combiners) as u64 + self.slots
    }

    /// What was asked for last, in all.
    pub(crate) fn asked(&self) -> u64 {
        self.asked
    }

    pub(crate) fn account(&mut self) -> &mut Account {
        &mut self.account
    }

    /// Whether nothing is in it, nor waits to be.
    pub(crate) fn is_empty(&self) -> bool {
        self.map.entries.len == 0 && self.batch.is_empty()
    }

    /// Whether it asked for more than `budget` for the sake of one key: no other table would hold that
    /// key's values either.
    pub(crate) fn is_one_key_beyond(&self, budget: u64) -> bool {
        F::Growth::GROWS && self.map.entries.len == 1 && self.asked > budget.max(FREE_BYTES)
    }

    /// Takes everything out, except for inputs of the last batch that found no room: they are in the next
    /// map. The memory is given back at once, before the pairs are consumed: the buckets they go into ask
    /// for theirs meanwhile, and what is left here shrinks as those grow.
    pub(crate) fn empty(&mut self) -> TablePairs<K, C> {
        self.settle();
        self.heap = 0.0;
        self.entries.forget();
        self.inputs.forget();
        self.slots = 0;
        self.asked = 0;
        self.unchecked = 0.0;
        self.until_check = CHECK_EVERY;
        self.account.clear();
        let batch = std::mem::take(&mut self.batch);
        batch.iter().for_each(|(_, input)| self.weigh(input));
        self.batch = batch;
        let full = std::mem::replace(&mut self.map, KeyMap::new());
        self.settle();
        full.into_pairs()
    }

    /// The map, and the account of the memory it holds. Everything has been settled.
    pub(crate) fn into_map(self) -> (KeyMap<K, C>, Account) {
        assert!(self.batch.is_empty(), "inputs that were not settled would be lost");
        (self.map, self.account)
    }
}

impl<K, C> KeyMap<K, C> {
    pub(crate) fn into_pairs(self) -> TablePairs<K, C> {
        let mut chunks = self.entries.chunks.into_iter();
        let chunk = chunks.next().unwrap_or_default().into_iter();
        TablePairs { chunks, chunk }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::{Grouping, ReduceWith, Values};
    use crate::testing::TestTask;
    use firesteel_closure::Pure;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Counts keys the way a table does, batch by batch.
    fn count<K: Hash + Eq + Clone>(keys: &[K], hash: impl Fn(&K) -> u32) -> KeyMap<K, u64> {
        let mut map = KeyMap::new();
        for chunk in keys.chunks(BATCH) {
            let batch: Vec<(K, ())> = chunk.iter().map(|key| (key.clone(), ())).collect();
            let mut hashes = [0; BATCH];
            batch.iter().zip(&mut hashes).for_each(|((key, ()), slot)| *slot = hash(key));
            let numbers = map.find_batch(&hashes, &batch);
            for (at, (key, ())) in batch.into_iter().enumerate() {
                match numbers[at].checked_sub(1) {
                    Some(number) => *map.entries.at_mut(number as usize).1.as_mut().unwrap() += 1,
                    None => match map.probe(hashes[at], &key) {
                        Ok(number) => *map.entries.at_mut(number).1.as_mut().unwrap() += 1,
                        Err(place) => map.insert(place, hashes[at], key, 1),
                    },
                }
            }
            while map.room() < BATCH {
                map.widen_index();
            }
        }
        map
    }

    fn expected<K: Ord + Clone>(keys: &[K]) -> BTreeMap<K, u64> {
        let mut counts = BTreeMap::new();
        keys.iter().for_each(|key| *counts.entry(key.clone()).or_default() += 1);
        counts
    }

    proptest! {
        #[test]
        fn every_key_is_found_however_hashes_meet(
            keys in prop::collection::vec(0u32..5000, 0..4000),
            kept_bits in 0u32..=32,
        ) {
            // From all hashes equal to all different, and crowded at the index's end.
            let hash = |key: &u32| hash_of(key) | u32::MAX.checked_shr(kept_bits).unwrap_or(0);
            let map = count(&keys, hash);
            for (key, n) in expected(&keys) {
                let number = map.probe(hash(&key), &key);
                prop_assert_eq!(number.map(|number| *map.get(number)), Ok(n));
            }
            prop_assert!(map.probe(hash(&5000), &5000).is_err());
            prop_assert_eq!(map.into_pairs().collect::<BTreeMap<_, _>>(), expected(&keys));
        }
    }

    #[test]
    fn hashes_of_one_purpose_spread_what_another_put_together() {
        let partitioner = crate::HashPartitioner::new(8);
        let mut keys: Vec<u64> = (0..400_000).filter(|key| partitioner.index(key) == 3).collect();
        let index = |key: &u64| hash_of(key) >> 28;
        let hashes: [&dyn Fn(&u64) -> u32; 3] =
            [&index, &|key| (mixed_hash(key, 0) >> 60) as u32, &|key| {
                (mixed_hash(key, 1) >> 60) as u32
            }];
        for (purpose, hash) in hashes.iter().enumerate() {
            let mut parts = vec![Vec::new(); 16];
            keys.iter().for_each(|key| parts[hash(key) as usize].push(*key));
            let even = keys.len() / 16;
            let sizes: Vec<usize> = parts.iter().map(Vec::len).collect();
            assert!(
                sizes.iter().all(|n| (even / 2..=even * 2).contains(n)),
                "{purpose}: {sizes:?}"
            );
            keys = parts.swap_remove(5);
        }
    }

    #[test]
    fn pairs_come_in_the_order_of_their_keys_first_appearance() {
        let keys: Vec<String> = (0..100_000).map(|n| format!("{}", n % 30_000)).collect();
        let map = count(&keys, hash_of);
        assert!(map.index.len() >= STAGED_FROM);
        assert_eq!(map.find(&"29999".to_owned()), Some(29_999));
        let pairs: Vec<(String, u64)> = map.into_pairs().collect();
        assert!(pairs.iter().map(|(key, _)| key).eq(&keys[..30_000]));
        assert!(
            pairs.iter().all(|(key, n)| *n == 3 + u64::from(key.parse::<u64>().unwrap() < 10_000))
        );
    }

    #[test]
    fn wide_values_of_different_keys_ask_for_memory_before_it_is_exceeded() {
        let test = TestTask::new(64 << 20);
        let fold = Values(ReduceWith(Pure::new(|a: String, _: String| a)));
        let mut table = Table::new(fold, &test.task);
        let refused = (0u64..1000).find(|n| !table.push(*n, "x".repeat(1 << 20)));
        assert!((60..=66).contains(&refused.unwrap()), "{refused:?}");
        table.empty().for_each(drop);
        let refused = (0u64..1000).find(|n| !table.push(*n, "x".repeat(1 << 20)));
        assert!((60..=66).contains(&refused.unwrap()), "{refused:?}, emptied");
    }

    #[test]
    fn a_group_is_on_the_books_with_all_its_slots_and_asks_before_it_grows() {
        let test = TestTask::new(32 << 20);
        let mut table = Table::new(Grouping, &test.task);
        let mut most = 0;
        let refused = (0u64..).find(|n| {
            let kept = table.push(0u8, *n);
            let slots = match table.map.entries.len {
                0 => 0,
                _ => table.map.get(0).capacity() as u64 * 8,
            };
            assert!(slots <= test.memory().used().1 + FREE_BYTES, "{slots} after {n}");
            most = most.max(slots);
            !kept
        });
        // Where the last step was not granted, old and new slots would have been more than the budget.
        assert!((14 << 20..=16 << 20).contains(&most), "{most}");
        assert!(table.is_one_key_beyond(32 << 20));
        let mut values = Vec::new();
        while !table.is_empty() {
            table.empty().for_each(|(_, group)| values.extend(group));
        }
        assert!(values.into_iter().eq(0..=refused.unwrap()), "those that found no room come later");
    }
}
