//! A partition that is computed once per process and cached: as values or encoded in memory, or on disk,
//! as its storage level says.
//!
//! ```text
//!   is it cached? ── yes ──► read it (what is broken on disk is dropped, then: no)
//!       │ no
//!   does another task compute it? ── yes ──► wait for that one, then ask again
//!       │ no
//!   does another executor cache it? ── yes ──► read it from there
//!       │ no
//!   compute it within memory ── fits ──► cache it, read it
//!       │ does not fit
//!   go on to disk, if the level has one; else hand it on uncached
//! ```

use std::sync::{Arc, Mutex};
use std::time::Duration;

use firesteel_closure::{Data, Decoder, Encoder, Wire, WireError, check, wire};
use firesteel_shuffle::{Codec, PackedWriter, Records, RunWriter, Scratch, Slice, SpillError};
use firesteel_storage::{
    AnyValue, BlockId, CachedBlock, Claim, Claimed, Demote, Outcome, Pack, Waiting,
};
use firesteel_task::{OrFail, TaskContext, fail_for_good, fail_with};
use firesteel_types::{RddId, StorageLevel};

use crate::Pipe;
use crate::checkpoint::Link;
use crate::memory::{UnrollMemory, Unrolled};

/// How often the kill switch is looked at while another task computes the partition.
const POLL: Duration = Duration::from_millis(20);

/// Values that take more go to another process through a file.
const PACKED_IN_MEMORY: u64 = 1 << 20;

/// A storage level that the driver may change; a task sees the one it was sent with.
#[derive(Debug)]
pub struct SharedLevel(Mutex<StorageLevel>);

impl SharedLevel {
    pub fn new(level: StorageLevel) -> Arc<Self> {
        Arc::new(SharedLevel(Mutex::new(level)))
    }

    /// The level in force now.
    pub fn get(&self) -> StorageLevel {
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Changes it if `change` says to what; the level before.
    pub fn update(
        &self,
        change: impl FnOnce(StorageLevel) -> Option<StorageLevel>,
    ) -> StorageLevel {
        let mut level = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let before = *level;
        *level = change(before).unwrap_or(before);
        before
    }
}

impl Wire for SharedLevel {
    fn encode(&self, out: &mut Encoder) -> Result<(), WireError> {
        out.put(&self.get())
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Self, WireError> {
        Ok(SharedLevel(Mutex::new(input.take()?)))
    }
}

wire! {
    /// `persist` and `cache`
    pub struct Cached[P: Wire] {
        parent: Arc<Link<P>>,
        rdd: u32,
        level: Arc<SharedLevel>,
    }
}

impl<P> Cached<P> {
    /// Caches `parent`'s partitions under `rdd`'s name.
    pub fn new(parent: Arc<Link<P>>, rdd: RddId, level: Arc<SharedLevel>) -> Self {
        Cached { parent, rdd: rdd.0, level }
    }
}

impl<P: Pipe<Item: Data + Clone>> Pipe for Cached<P> {
    type Item = P::Item;

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = P::Item> + use<P> + 'static {
        let block = BlockId::Rdd(RddId(self.rdd), partition);
        let Some(parent) = self.parent.get() else {
            let cached = find(block, task).or_else(|| find_elsewhere(block, task));
            return task.interruptible(cached.unwrap_or_else(|| checkpoint_lost(block)));
        };
        let computed = || parent.compute(partition, task);
        let level = self.level.get();
        let items = match level.is_valid() {
            true => Caching { block, level, shared: &self.level, task, computed }.items(),
            false => Items::Through(computed()),
        };
        task.interruptible(items)
    }
}

/// After `local_checkpoint`, what was cached is all there is.
#[cold]
fn checkpoint_lost<R>(block: BlockId) -> R {
    fail_for_good(format!(
        "checkpoint block {block} is not there: it was unpersisted, or could not be read back. \
         local_checkpoint keeps no lineage to compute it from; checkpoint() is for data that must \
         survive"
    ))
}

/// One partition on its way to be found or cached.
struct Caching<'a, F> {
    block: BlockId,
    level: StorageLevel,
    shared: &'a SharedLevel,
    task: &'a TaskContext,
    computed: F,
}

impl<T: Data + Clone, I: Iterator<Item = T>, F: Fn() -> I> Caching<'_, F> {
    fn items(&self) -> Items<T, I> {
        let blocks = self.task.environment().blocks();
        loop {
            if let Some(items) = find(self.block, self.task) {
                return items;
            }
            match blocks.claim(self.block) {
                Claim::Mine(claim) => return self.compute(claim),
                Claim::Theirs(other) => {
                    if self.wait_for(&other) == Outcome::NotCached {
                        // Memory is short: trying again would only take longer.
                        return Items::Through((self.computed)());
                    }
                }
            }
        }
    }

    fn wait_for(&self, other: &Waiting) -> Outcome {
        let _blocked = self.task.scratch().memory().blocked(self.task.task());
        loop {
            self.task.check_killed();
            if let Some(outcome) = other.wait(POLL) {
                return outcome;
            }
        }
    }

    fn compute(&self, claim: Claimed<'_>) -> Items<T, I> {
        // Cached between the look and the claim.
        if let Some(items) = find(self.block, self.task) {
            claim.end(Outcome::Cached);
            return items;
        }
        if let Some(items) = find_elsewhere(self.block, self.task) {
            // Tasks that wait for this claim read it from there too.
            claim.end(Outcome::Cached);
            return items;
        }
        let (outcome, items) = match self.level {
            StorageLevel { use_memory: true, deserialized: true, .. } => self.cache_values(),
            StorageLevel { use_memory: true, .. } => self.cache_packed(),
            _ => {
                let mut rest = (self.computed)();
                self.write_out(Box::new(move |writer| push_all(writer, &mut rest)))
            }
        };
        claim.end(outcome);
        items
    }

    /// As values in memory.
    fn cache_values(&self) -> (Outcome, Items<T, I>) {
        let mut rest = (self.computed)();
        let mut unrolled = Unrolled::new(self.block, self.task);
        let mut unchecked = true;
        for item in rest.by_ref() {
            if std::mem::take(&mut unchecked) {
                // It may be encoded later: for a disk, or for another executor.
                check(&item).or_fail();
            }
            if !unrolled.push(item) {
                let (items, memory) = unrolled.into_parts();
                if !self.level.use_disk {
                    let passing = Items::Passing(items.into_iter().chain(rest), memory);
                    return (Outcome::NotCached, passing);
                }
                return self.write_out(Box::new(move |writer| {
                    push_all(writer, &mut items.into_iter())?;
                    drop(memory);
                    push_all(writer, &mut rest)
                }));
            }
        }
        let (items, memory) = unrolled.into_fitting_parts();
        let items = Arc::new(items);
        let demote = self.level.use_disk.then(|| {
            let (scratch, name) = (self.task.scratch().clone(), self.block.to_string());
            let items = Arc::downgrade(&items);
            let demote: Demote = Arc::new(move || {
                let items = items.upgrade().ok_or("it is gone already")?;
                demoted(&scratch, &name, Box::new(|writer| push_slice(writer, &items)))
            });
            demote
        });
        let memory_bytes = memory.into_bytes();
        let (scratch, name) = (self.task.scratch().clone(), self.block.to_string());
        let pack: Pack = Arc::new(move |value| {
            let items = value.downcast_ref::<Vec<T>>().ok_or("it holds items of another type")?;
            pack(items, memory_bytes, &scratch, &name).map_err(|error| error.to_string())
        });
        self.store(CachedBlock {
            value: items.clone(),
            memory_bytes,
            disk_bytes: 0,
            level: self.level,
            demote,
            pack: Some(pack),
            epoch: self.task.epoch(),
        });
        (Outcome::Cached, Items::Cached(items, 0))
    }

    /// Caches the partition encoded in memory.
    fn cache_packed(&self) -> (Outcome, Items<T, I>) {
        let mut rest = (self.computed)();
        let mut writer = PackedWriter::new(self.task.scratch().cache_codec());
        let mut memory = UnrollMemory::new(self.block, self.task);
        for item in rest.by_ref() {
            if writer.push(&item).or_fail() && !memory.allows(writer.bytes()) {
                let packed = writer.finish().or_fail();
                if !self.level.use_disk {
                    let reading = Reading::new(packed, self, Some((rest, memory)));
                    return (Outcome::NotCached, Items::Read(reading));
                }
                return self.write_out(Box::new(move |writer| {
                    writer.push_all(packed)?;
                    drop(memory);
                    push_all(writer, &mut rest)
                }));
            }
        }
        let packed = writer.finish().or_fail();
        let items = Items::Read(Reading::new(packed.clone(), self, None));
        if !memory.allows(packed.bytes()) {
            return match self.level.use_disk {
                true => self.write_out(Box::new(|writer| writer.push_all(packed))),
                false => (Outcome::NotCached, items),
            };
        }
        let demote = self.level.use_disk.then(|| {
            let (scratch, name, copy) =
                (self.task.scratch().clone(), self.block.to_string(), packed.clone());
            let demote: Demote = Arc::new(move || {
                demoted(&scratch, &name, Box::new(|writer| writer.push_all(copy.clone())))
            });
            demote
        });
        self.store(CachedBlock {
            value: Arc::new(packed),
            memory_bytes: memory.into_bytes(),
            disk_bytes: 0,
            level: self.level,
            demote,
            pack: None,
            epoch: self.task.epoch(),
        });
        (Outcome::Cached, items)
    }

    /// On disk. When the disk does not take it, the partition is computed again and not cached.
    fn write_out(&self, records: WriteRecords<'_>) -> (Outcome, Items<T, I>) {
        let slice = match write(self.task.scratch(), &self.block.to_string(), records) {
            Ok(slice) => slice,
            Err(error @ SpillError::Wire(_)) => Err(error).or_fail(),
            Err(error) => {
                tracing::warn!(block = %self.block, %error, "partition could not be cached on disk");
                return (Outcome::NotCached, Items::Through((self.computed)()));
            }
        };
        let items = Items::Read(Reading::new(slice.clone(), self, None));
        self.store(CachedBlock {
            memory_bytes: 0,
            disk_bytes: slice.bytes(),
            value: Arc::new(slice),
            level: self.level,
            demote: None,
            pack: None,
            epoch: self.task.epoch(),
        });
        (Outcome::Cached, items)
    }

    fn store(&self, cached: CachedBlock) {
        let blocks = self.task.environment().blocks();
        blocks.put_cached(self.block, cached);
        if self.task.is_killed() || !self.shared.get().is_valid() {
            // Nobody may be left who would drop it.
            blocks.discard(self.block);
        } else if self.level.replication > 1 {
            self.task.environment().replicate(self.block);
        }
    }
}

/// Writes the records of a partition, whatever their type is.
type WriteRecords<'a> = Box<dyn FnOnce(&mut RunWriter) -> Result<(), SpillError> + 'a>;

fn push_all<T: Data>(
    writer: &mut RunWriter,
    items: &mut impl Iterator<Item = T>,
) -> Result<(), SpillError> {
    items.try_for_each(|item| writer.push(&item))
}

fn push_slice<T: Data>(writer: &mut RunWriter, items: &[T]) -> Result<(), SpillError> {
    items.iter().try_for_each(|item| writer.push(item))
}

fn write(scratch: &Scratch, name: &str, records: WriteRecords<'_>) -> Result<Slice, SpillError> {
    let mut writer = RunWriter::create(scratch, name)?;
    records(&mut writer)?;
    writer.finish()
}

/// Writes a partition that has to leave memory.
fn demoted(
    scratch: &Scratch,
    name: &str,
    records: WriteRecords<'_>,
) -> Result<(AnyValue, u64), String> {
    let slice = write(scratch, name, records).map_err(|error| error.to_string())?;
    let bytes = slice.bytes();
    Ok((Arc::new(slice), bytes))
}

/// The partition, if it is cached and can be read.
pub(crate) fn find<T: Data, I: Iterator<Item = T>>(
    block: BlockId,
    task: &TaskContext,
) -> Option<Items<T, I>> {
    let blocks = task.environment().blocks();
    let (value, bytes) = blocks.get_any(block)?;
    let (records, items) = match value.downcast::<Vec<T>>() {
        Ok(items) => (items.len() as u64, Items::Cached(items, 0)),
        Err(value) => {
            let mut slice = Arc::unwrap_or_clone(value.downcast::<Slice>().ok()?);
            if let Err(error) = slice.hold_open().and_then(|()| slice.verify()) {
                tracing::warn!(%block, %error, "cached partition is dropped and computed again");
                blocks.discard(block);
                return None;
            }
            let (records, task) = (slice.records(), task.clone());
            let reading = Reading { records: Records::new(slice), block, task, rest: None };
            (records, Items::Read(reading))
        }
    };
    task.count(|metrics| {
        metrics.input_records += records;
        metrics.input_bytes += bytes;
    });
    Some(items)
}

/// The partition, if another executor caches it.
fn find_elsewhere<T: Data, I: Iterator<Item = T>>(
    block: BlockId,
    task: &TaskContext,
) -> Option<Items<T, I>> {
    let slice = task.environment().fetch_cached(block)?;
    task.count(|metrics| {
        metrics.input_records += slice.records();
        metrics.input_bytes += slice.bytes();
    });
    let (records, task) = (Records::new(slice), task.clone());
    Some(Items::Read(Reading { records, block, task, rest: None }))
}

/// Items that are cached as values, for another process: encoded in memory if they are small, else in a file, which
/// takes nothing of the memory that others count on.
fn pack<T: Data>(
    items: &[T],
    memory_bytes: u64,
    scratch: &Scratch,
    name: &str,
) -> Result<AnyValue, SpillError> {
    let slice = if memory_bytes > PACKED_IN_MEMORY {
        write(scratch, name, Box::new(|writer| push_slice(writer, items)))?
    } else {
        let mut writer = PackedWriter::new(Codec::None);
        items.iter().try_for_each(|item| writer.push(item).map(drop))?;
        writer.finish()?
    };
    Ok(Arc::new(slice))
}

/// The items of a partition, from wherever they come.
pub(crate) enum Items<T, I: Iterator<Item = T>> {
    /// Cached as values.
    Cached(Arc<Vec<T>>, usize),
    /// Cached encoded.
    Read(Reading<T, I>),
    /// Not cached: those that were held until memory ran short, then the others.
    Passing(std::iter::Chain<std::vec::IntoIter<T>, I>, #[allow(dead_code)] UnrollMemory),
    /// Not cached.
    Through(I),
}

/// Items that are decoded one after the other, then those that did not fit.
pub(crate) struct Reading<T, I> {
    records: Records<T>,
    block: BlockId,
    task: TaskContext,
    rest: Option<(I, UnrollMemory)>,
}

impl<T: Data, I: Iterator<Item = T>> Reading<T, I> {
    fn new<F>(slice: Slice, caching: &Caching<'_, F>, rest: Option<(I, UnrollMemory)>) -> Self {
        let (block, task) = (caching.block, caching.task.clone());
        Reading { records: Records::new(slice), block, task, rest }
    }

    #[inline]
    fn next(&mut self) -> Option<T> {
        match self.records.next() {
            Some(Ok(item)) => Some(item),
            Some(Err(error)) => self.broken(&error),
            None => self.rest.as_mut()?.0.next(),
        }
    }

    /// It was in order when it was looked through: the next attempt computes it.
    #[cold]
    fn broken(&self, error: &firesteel_shuffle::ReadError) -> ! {
        self.task.environment().blocks().discard(self.block);
        if let firesteel_shuffle::ReadError::Wire(error) = error {
            fail_for_good(error.to_string());
        }
        fail_with(format!("cached partition {}: {error}", self.block))
    }
}

impl<T: Data, I: Iterator<Item = T>> Items<T, I> {
    /// Apart from [`Items::next`], which is to be short: behind a boxed pipeline it is called for every
    /// item.
    #[inline(never)]
    fn next_other(&mut self) -> Option<T> {
        match self {
            Items::Cached(..) => None,
            Items::Read(reading) => reading.next(),
            Items::Passing(items, _) => items.next(),
            Items::Through(items) => items.next(),
        }
    }
}

impl<T: Data + Clone, I: Iterator<Item = T>> Iterator for Items<T, I> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        match self {
            Items::Cached(items, next) => {
                *next += 1;
                items.get(*next - 1).cloned()
            }
            other => other.next_other(),
        }
    }

    fn fold<A, F: FnMut(A, T) -> A>(self, init: A, mut f: F) -> A {
        match self {
            Items::Cached(items, next) => {
                items[next.min(items.len())..].iter().cloned().fold(init, f)
            }
            Items::Read(mut reading) => {
                let mut total = init;
                while let Some(item) = reading.next() {
                    total = f(total, item);
                }
                total
            }
            Items::Passing(items, _memory) => items.fold(init, f),
            Items::Through(items) => items.fold(init, f),
        }
    }
}
