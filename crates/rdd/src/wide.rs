//! The two sides of a shuffle: writers that sort a partition's records into buckets, and the pipe
//! that reads one bucket of every map output.

use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

use foldhash::fast::FixedState;

use firesteel_closure::{Data, Wire, wire};
use firesteel_shuffle::{Buckets, ReadError, Records, Slice};
use firesteel_task::{OrFail, ShuffleReader, TaskContext, fail_unreadable};
use firesteel_types::ShuffleId;

use crate::aggregate::{Combine, Values};
use crate::key::KeyOf;
use crate::table::Table;
use crate::{AnyPartitioner, Pipe};

/// The map side: puts every item of a partition into the bucket of its reader.
pub trait Writer<T>: Wire {
    /// Writes the items of one map partition.
    fn write(
        &self,
        items: impl Iterator<Item = T>,
        partition: u32,
        task: &TaskContext,
        buckets: &mut Buckets,
    );
}

wire! {
    /// Pairs, by key, as they are.
    pub struct ByKey[K: 'static] {
        partitioner: AnyPartitioner<K>,
    }

    pub fn new;
}

impl<K: Data, V: Data> Writer<(K, V)> for ByKey<K> {
    fn write(
        &self,
        items: impl Iterator<Item = (K, V)>,
        _: u32,
        _: &TaskContext,
        buckets: &mut Buckets,
    ) {
        items.for_each(|pair| buckets.push(self.partitioner.index(&pair.0), &pair).or_fail());
    }
}

wire! {
    /// Items, by a key that is not sent beside them.
    pub struct ByKeyOf[K: 'static, F: Wire] {
        partitioner: AnyPartitioner<K>,
        key: F,
    }

    /// Buckets by `partitioner` of the key.
    pub fn new;
}

impl<K: Ord + 'static, T: Data, F: KeyOf<T, K>> Writer<T> for ByKeyOf<K, F> {
    fn write(
        &self,
        items: impl Iterator<Item = T>,
        _: u32,
        _: &TaskContext,
        buckets: &mut Buckets,
    ) {
        items.for_each(|item| {
            let reader = self.key.with(&item, |key| self.partitioner.index(key));
            buckets.push(reader, &item).or_fail();
        });
    }
}

wire! {
    /// Pairs, combined by key before they are sent.
    pub struct Combined[K: 'static, V: 'static, C: 'static, M: Wire] {
        partitioner: AnyPartitioner<K>,
        combine: M;
        types: PhantomData<fn() -> (V, C)>,
    }

    /// Buckets by `partitioner` after combining with `combine`.
    pub fn new;
}

impl<K, V, C, M> Writer<(K, V)> for Combined<K, V, C, M>
where
    K: Data + Hash + Eq,
    V: 'static,
    C: Data,
    M: Combine<V, C>,
{
    fn write(
        &self,
        items: impl Iterator<Item = (K, V)>,
        _: u32,
        task: &TaskContext,
        buckets: &mut Buckets,
    ) {
        // Readers merge combiners anyway: a table that is full is sent as it is.
        let mut table = Table::new(Values(self.combine.clone()), task);
        let send = |table: &mut Table<K, V, C, Values<M>>, buckets: &mut Buckets| {
            task.check_killed();
            for pair in table.empty() {
                buckets.push_combined(self.partitioner.index(&pair.0), &pair).or_fail();
            }
        };
        // How often the table is sent depends on memory, and so do the combiners: what counts is which
        // keys came in.
        let (checksummed, mut keys) = (buckets.computes_checksum(), 0u64);
        items.for_each(|(key, value)| {
            if checksummed {
                keys = keys.wrapping_add(key_checksum(&key));
            }
            if !table.push(key, value) {
                send(&mut table, buckets);
            }
        });
        send(&mut table, buckets);
        buckets.add_to_checksum(keys);
    }
}

fn key_checksum<K: Hash>(key: &K) -> u64 {
    FixedState::with_seed(0x6b65_7973).hash_one(key)
}

/// Items distributed evenly, whatever they are (`repartition`). Starts at a reader that depends on the
/// map partition, so that small partitions do not all feed the first readers.
pub struct RoundRobin;

impl Wire for RoundRobin {
    fn encode(
        &self,
        _: &mut firesteel_closure::Encoder,
    ) -> Result<(), firesteel_closure::WireError> {
        Ok(())
    }

    fn decode(
        _: &mut firesteel_closure::Decoder<'_>,
    ) -> Result<Self, firesteel_closure::WireError> {
        Ok(RoundRobin)
    }
}

impl<T: Data> Writer<T> for RoundRobin {
    fn write(
        &self,
        items: impl Iterator<Item = T>,
        partition: u32,
        _: &TaskContext,
        buckets: &mut Buckets,
    ) {
        let readers = buckets.partitions();
        let mut next = fastrand::Rng::with_seed(u64::from(partition)).u32(..readers);
        items.for_each(|item| {
            buckets.push(next, &item).or_fail();
            next = if next + 1 == readers { 0 } else { next + 1 };
        });
    }
}

/// Items distributed by a hash of their encoded form and the map partition: about evenly if they differ, and to
/// the same readers in whatever order they come. For `repartition` over parents whose order may change.
pub struct ByContent;

impl Wire for ByContent {
    fn encode(
        &self,
        _: &mut firesteel_closure::Encoder,
    ) -> Result<(), firesteel_closure::WireError> {
        Ok(())
    }

    fn decode(
        _: &mut firesteel_closure::Decoder<'_>,
    ) -> Result<Self, firesteel_closure::WireError> {
        Ok(ByContent)
    }
}

impl<T: Data> Writer<T> for ByContent {
    fn write(
        &self,
        items: impl Iterator<Item = T>,
        partition: u32,
        _: &TaskContext,
        buckets: &mut Buckets,
    ) {
        items.for_each(|item| buckets.push_by_content(u64::from(partition), &item).or_fail());
    }
}

wire! {
    /// All items of a map partition to one reader, neighbours to the same one: order stays.
    pub struct InOrder[] {
        maps: u32,
    }

    /// Of this many map partitions.
    pub fn new;
}

impl<T: Data> Writer<T> for InOrder {
    fn write(
        &self,
        items: impl Iterator<Item = T>,
        partition: u32,
        _: &TaskContext,
        buckets: &mut Buckets,
    ) {
        let place = u64::from(partition) * u64::from(buckets.partitions());
        let reader = (place / u64::from(self.maps.max(1))) as u32;
        items.for_each(|item| buckets.push(reader, &item).or_fail());
    }
}

wire! {
    /// The reduce side: the records that all map outputs hold for this partition.
    pub struct ShuffleRecords[T: 'static] {
        shuffle: u32,
        maps: u32,
        item: PhantomData<fn() -> T>,
    }
}

impl<T> ShuffleRecords<T> {
    /// Reads `shuffle`, which has `maps` map partitions.
    pub fn new(shuffle: ShuffleId, maps: u32) -> Self {
        ShuffleRecords { shuffle: shuffle.0, maps, item: PhantomData }
    }
}

impl<T: Data> Pipe for ShuffleRecords<T> {
    type Item = T;

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = T> + use<T> + 'static {
        let shuffle = ShuffleId(self.shuffle);
        let reader = ShuffleReader::new(task, shuffle, self.maps, partition);
        SliceRecords::new(Slices::Shuffle { reader, shuffle, map: 0, reduce: partition }, task)
    }
}

/// The records of slices, one slice after the other. One type, so that what is made of them is compiled once, wherever
/// the slices come from.
pub(crate) struct SliceRecords<T> {
    records: Records<T>,
    until_check: u32,
    slices: Slices,
    task: TaskContext,
}

/// Where slices come from.
enum Slices {
    /// The map outputs of a shuffle; `map` is the partition of the last one.
    Shuffle { reader: ShuffleReader, shuffle: ShuffleId, map: u32, reduce: u32 },
    /// What this task has spilled: one slice.
    Spilled(Option<Slice>),
}

/// Records between two looks at the kill switch.
const CHECK_EVERY: u32 = 256;

impl<T: Data> SliceRecords<T> {
    fn new(slices: Slices, task: &TaskContext) -> Self {
        let records = Records::new(Slice::whole(Vec::new(), 0));
        SliceRecords { records, until_check: CHECK_EVERY, slices, task: task.clone() }
    }

    /// Of what this task has spilled.
    pub(crate) fn of(slice: Slice, task: &TaskContext) -> Self {
        SliceRecords::new(Slices::Spilled(Some(slice)), task)
    }
}

impl<T: Data> Iterator for SliceRecords<T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        self.until_check -= 1;
        if self.until_check == 0 {
            self.until_check = CHECK_EVERY;
            self.task.check_killed();
        }
        loop {
            match self.records.next() {
                Some(Ok(record)) => return Some(record),
                Some(Err(error)) => self.slices.fail(&self.task, error),
                None => self.records = Records::new(self.slices.next()?),
            }
        }
    }
}

impl Slices {
    #[cold]
    fn next(&mut self) -> Option<Slice> {
        match self {
            Slices::Spilled(slice) => slice.take(),
            Slices::Shuffle { reader, map, .. } => {
                let (next, slice) = reader.next()?;
                *map = next;
                Some(slice)
            }
        }
    }

    #[cold]
    fn fail(&self, task: &TaskContext, error: ReadError) -> ! {
        match self {
            Slices::Spilled(_) => Err(error).or_fail(),
            Slices::Shuffle { shuffle, map, reduce, .. } => {
                fail_unreadable(task, *shuffle, *map, *reduce, error)
            }
        }
    }
}
