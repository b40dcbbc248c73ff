//! The store: one map from block to shared value.
//!
//! Cached partitions of RDDs are on the memory manager's books: they are stored only if memory is free,
//! and evicted for newer ones of other RDDs and for running tasks, least recently used first. One that
//! is evicted goes to disk if it knows how, and is dropped otherwise. What lies on disk is a value like
//! any other, which occupies no memory worth counting: the store opens no file itself.
//!
//! Encoding, writing and dropping values happen without the lock.

mod map;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use firesteel_types::{BlockStatus, BroadcastId, RddId, ShuffleId, StorageLevel, TaskId};

use map::{BlockMap, Stored};

use crate::claims::Claims;
use crate::{BlockId, Claim, Evict, HeldBytes, MemoryManager};

/// A value of any type.
pub type AnyValue = Arc<dyn Any + Send + Sync>;

/// Brings a block to disk: the value that stands for it there and its bytes, or why that cannot be.
pub type Demote = Arc<dyn Fn() -> Result<(AnyValue, u64), String> + Send + Sync>;

/// Packs a value for another process: what it becomes, or why that cannot be.
pub type Pack = Arc<dyn Fn(&AnyValue) -> Result<AnyValue, String> + Send + Sync>;

/// A partition to be cached.
pub struct CachedBlock {
    /// Its items, or what they can be read from.
    pub value: AnyValue,
    /// What it occupies in memory.
    pub memory_bytes: u64,
    /// What it occupies on disk.
    pub disk_bytes: u64,
    /// The storage level that the user asked for.
    pub level: StorageLevel,
    /// How it gets from memory to disk; without, it is dropped when it is evicted.
    pub demote: Option<Demote>,
    /// How it is packed for another process; without, it goes as it is.
    pub pack: Option<Pack>,
    /// The epoch in which the task was launched that computed it.
    pub epoch: u64,
}

/// Hears that a cached partition came, moved or went. Called without the store's lock: what
/// [`MemoryStore::status`] says meanwhile may be newer.
pub trait Watch: Send + Sync {
    /// Something about this block is different now.
    fn block_changed(&self, id: BlockId);
}

/// Blocks that were taken out of the store; what they hold goes with this.
pub struct Removed {
    _blocks: Vec<Stored>,
}

#[derive(Default)]
struct Blocks {
    map: BlockMap,
    /// Broadcasts that are gone: tasks on their way to an end may still bring one.
    gone: BTreeSet<BroadcastId>,
    /// Partitions of these RDDs are refused if they are of an earlier epoch: late tasks and replicas may still bring one.
    outdated: BTreeMap<RddId, u64>,
    clock: u64,
}

/// So many broadcasts are remembered as gone, and RDDs as outdated, the latest.
const GONE_LIMIT: usize = 1 << 16;

impl Blocks {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Whether nobody would ever remove it, or nobody may read it.
    fn is_refused(&self, id: BlockId, epoch: u64) -> bool {
        match id {
            BlockId::Broadcast(id) | BlockId::BroadcastPiece(id, _) => self.gone.contains(&id),
            BlockId::Rdd(rdd, _) => {
                epoch < self.outdated_before(rdd)
                    || self.map.get(&id).is_some_and(|stored| epoch < stored.epoch)
            }
            BlockId::MapOutput(..) => false,
        }
    }

    fn outdated_before(&self, rdd: RddId) -> u64 {
        self.outdated.get(&rdd).copied().unwrap_or(0)
    }

    /// Takes a block out of memory and puts what lies on disk, if anything does, in its place.
    fn leave(
        &mut self,
        id: BlockId,
        number: u64,
        on_disk: &mut Option<(AnyValue, u64)>,
    ) -> Option<Stored> {
        let stored = self.map.get(&id).filter(|stored| stored.number == number)?;
        let (level, last_used, epoch) = (stored.level, stored.last_used, stored.epoch);
        let replaced = on_disk.take().map(|(value, disk_bytes)| Stored {
            value,
            memory_bytes: 0,
            disk_bytes,
            level,
            demote: None,
            pack: None,
            epoch,
            number,
            last_used,
            leaving: false,
            _held: None,
        });
        match replaced {
            Some(replaced) => self.map.insert(id, replaced),
            None => self.map.remove(&id),
        }
    }
}

/// Typed values by block id, shared between the threads of one process.
pub struct MemoryStore {
    blocks: Mutex<Blocks>,
    claims: Claims,
    memory: Arc<MemoryManager>,
    watch: OnceLock<Box<dyn Watch>>,
}

/// The block to be evicted next.
enum Leaver {
    /// It is out of the map.
    Dropped(BlockId, Stored),
    /// It is to be brought to disk.
    Demoted { id: BlockId, number: u64, demote: Demote },
}

impl MemoryStore {
    /// An empty one, within this budget.
    pub fn new(memory: Arc<MemoryManager>) -> Self {
        MemoryStore {
            blocks: Mutex::default(),
            claims: Claims::default(),
            memory,
            watch: OnceLock::new(),
        }
    }

    /// Tells `watch` of cached partitions from now on; the first one stays.
    pub fn set_watch(&self, watch: Box<dyn Watch>) {
        let _ = self.watch.set(watch);
    }

    /// Puts a block that is not on the books, replacing an older one of the same name.
    pub fn put<T: Any + Send + Sync>(&self, id: BlockId, value: Arc<T>) {
        let (level, demote, pack, epoch) = (StorageLevel::NONE, None, None, 0);
        let block =
            CachedBlock { value, memory_bytes: 0, disk_bytes: 0, level, demote, pack, epoch };
        self.insert(id, block);
    }

    /// Puts a block that stays until it is removed, with what it takes of memory.
    pub fn put_held<T: Any + Send + Sync>(&self, id: BlockId, value: Arc<T>, held: HeldBytes) {
        let (level, demote, pack, epoch) = (StorageLevel::NONE, None, None, 0);
        let block =
            CachedBlock { value, memory_bytes: 0, disk_bytes: 0, level, demote, pack, epoch };
        self.insert_held(id, block, Some(held));
    }

    /// Takes memory for a block that is being computed, pushing out those of other RDDs if need be;
    /// `false`: there is not enough, and nothing was taken.
    pub fn acquire(&self, id: BlockId, bytes: u64) -> bool {
        self.memory.acquire_storage(bytes) || self.make_room(id, bytes)
    }

    /// Gives back what [`MemoryStore::acquire`] took.
    pub fn release(&self, bytes: u64) {
        self.memory.release_storage(bytes);
    }

    /// Caches a partition, whose memory was acquired before, unless it is outdated or a newer one is here.
    pub fn put_cached(&self, id: BlockId, block: CachedBlock) {
        self.insert(id, block);
        self.tell(id);
    }

    /// Drops blocks of other RDDs until `bytes` more fit; whether they do, and are taken. Drops none if
    /// all of them would not do.
    fn make_room(&self, id: BlockId, bytes: u64) -> bool {
        let (storage, execution) = self.memory.used();
        let free = self.memory.budget().saturating_sub(storage + execution);
        let could_go = self.lock().map.bytes_beside(Some(id));
        if free + could_go < bytes {
            return false;
        }
        while let Some(dropped) = self.drop_oldest(Some(id)) {
            self.memory.release_storage(dropped);
            if self.memory.acquire_storage(bytes) {
                return true;
            }
        }
        // Others may have given something back meanwhile.
        self.memory.acquire_storage(bytes)
    }

    fn insert(&self, id: BlockId, block: CachedBlock) {
        self.insert_held(id, block, None);
    }

    fn insert_held(&self, id: BlockId, block: CachedBlock, held: Option<HeldBytes>) {
        let CachedBlock { value, memory_bytes, disk_bytes, level, demote, pack, epoch } = block;
        let mut blocks = self.lock();
        let number = blocks.tick();
        let stored = Stored {
            value,
            memory_bytes,
            disk_bytes,
            level,
            demote,
            pack,
            epoch,
            number,
            last_used: number,
            leaving: false,
            _held: held,
        };
        let replaced = match blocks.is_refused(id, epoch) {
            true => Some(stored),
            false => blocks.map.insert(id, stored),
        };
        drop(blocks); // a large value takes time to free
        self.forget(replaced);
    }

    /// The block, if it is here and of this type.
    pub fn get<T: Any + Send + Sync>(&self, id: BlockId) -> Option<Arc<T>> {
        self.get_any(id)?.0.downcast().ok()
    }

    /// The block, whatever its type, and its bytes in memory and on disk.
    pub fn get_any(&self, id: BlockId) -> Option<(AnyValue, u64)> {
        let mut blocks = self.lock();
        let now = blocks.tick();
        let stored = blocks.map.touch(id, now)?;
        Some((stored.value.clone(), stored.memory_bytes + stored.disk_bytes))
    }

    /// The block as it goes to another process, if it is here and of this epoch or a later one. Packing runs the
    /// user's code, without the lock.
    pub fn get_packed(&self, id: BlockId, epoch: u64) -> Option<Result<AnyValue, String>> {
        let (value, pack) = {
            let blocks = self.lock();
            let stored = blocks.map.get(&id).filter(|stored| stored.epoch >= epoch)?;
            (stored.value.clone(), stored.pack.clone())
        };
        let Some(pack) = pack else { return Some(Ok(value)) };
        let packed = std::panic::catch_unwind(AssertUnwindSafe(|| pack(&value)));
        Some(
            packed.unwrap_or_else(|_| Err("its items panicked while they were encoded".to_owned())),
        )
    }

    /// Where a cached partition lies, if it does.
    pub fn status(&self, id: BlockId) -> Option<BlockStatus> {
        self.lock().map.get(&id).map(|stored| BlockStatus {
            memory_bytes: stored.memory_bytes,
            disk_bytes: stored.disk_bytes,
            level: stored.level,
            epoch: stored.epoch,
        })
    }

    /// The right to compute a block that is not there, or another thread's turn to wait for.
    pub fn claim(&self, id: BlockId) -> Claim<'_> {
        self.claims.claim(id)
    }

    /// Drops one block and tells nobody.
    pub fn remove(&self, id: BlockId) -> bool {
        let removed = self.lock().map.remove(&id);
        let found = removed.is_some();
        self.forget(removed);
        found
    }

    /// Drops a cached partition that is of no use: broken, or computed for nobody.
    pub fn discard(&self, id: BlockId) {
        if self.remove(id) {
            self.tell(id);
        }
    }

    /// Drops all cached partitions of an RDD and tells nobody; more of them may come.
    pub fn remove_rdd(&self, rdd: RddId) -> usize {
        self.remove_range(BlockId::Rdd(rdd, 0), BlockId::Rdd(rdd, u32::MAX))
    }

    /// Takes all cached partitions of an RDD out that were computed by tasks launched before `epoch`, and refuses such from
    /// now on; nobody is told.
    pub fn take_outdated(&self, rdd: RddId, epoch: u64) -> Removed {
        let mut blocks = self.lock();
        if blocks.outdated_before(rdd) >= epoch {
            return Removed { _blocks: Vec::new() };
        }
        blocks.outdated.insert(rdd, epoch);
        if blocks.outdated.len() > GONE_LIMIT {
            blocks.outdated.pop_first();
        }
        let all = blocks.map.range(BlockId::Rdd(rdd, 0)..=BlockId::Rdd(rdd, u32::MAX));
        let outdated = all.filter(|(_, stored)| stored.epoch < epoch);
        let ids: Vec<_> = outdated.map(|(id, _)| *id).collect();
        let removed: Vec<_> = ids.iter().filter_map(|id| blocks.map.remove(id)).collect();
        drop(blocks);
        removed.iter().for_each(|stored| self.memory.release_storage(stored.memory_bytes));
        Removed { _blocks: removed }
    }

    /// Partitions of the RDD are outdated if they were computed by tasks launched before this epoch.
    pub fn outdated_before(&self, rdd: RddId) -> u64 {
        self.lock().outdated_before(rdd)
    }

    /// The map outputs of a shuffle that are here: map partition and the attempt that wrote it.
    pub fn map_outputs(&self, shuffle: ShuffleId) -> Vec<(u32, TaskId)> {
        let first = BlockId::MapOutput(shuffle, 0, TaskId(0));
        let last = BlockId::MapOutput(shuffle, u32::MAX, TaskId(u64::MAX));
        let blocks = self.lock();
        let outputs = blocks.map.range(first..=last).filter_map(|(id, _)| match id {
            BlockId::MapOutput(_, map, task) => Some((*map, *task)),
            _ => None,
        });
        outputs.collect()
    }

    /// Drops all map outputs of a shuffle.
    pub fn remove_shuffle(&self, shuffle: ShuffleId) -> usize {
        let first = BlockId::MapOutput(shuffle, 0, TaskId(0));
        self.remove_range(first, BlockId::MapOutput(shuffle, u32::MAX, TaskId(u64::MAX)))
    }

    /// Drops a broadcast value and its pieces, for good: what comes of it later is not cached.
    pub fn remove_broadcast(&self, id: BroadcastId) {
        let mut blocks = self.lock();
        blocks.gone.insert(id);
        if blocks.gone.len() > GONE_LIMIT {
            blocks.gone.pop_first();
        }
        drop(blocks);
        self.drop_broadcast(id);
    }

    /// Drops a broadcast value and its pieces; they may come again.
    pub fn drop_broadcast(&self, id: BroadcastId) {
        self.remove(BlockId::Broadcast(id));
        self.remove_range(BlockId::BroadcastPiece(id, 0), BlockId::BroadcastPiece(id, u32::MAX));
    }

    /// The names of all blocks.
    pub fn ids(&self) -> Vec<BlockId> {
        self.lock().map.ids().collect()
    }

    /// How many blocks are here.
    pub fn len(&self) -> usize {
        self.lock().map.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn clear(&self) {
        let all = std::mem::take(&mut self.lock().map);
        self.forget(all.into_values());
    }

    fn take_range(&self, first: BlockId, last: BlockId) -> Vec<Stored> {
        let mut blocks = self.lock();
        let ids: Vec<_> = blocks.map.range(first..=last).map(|(id, _)| *id).collect();
        ids.iter().filter_map(|id| blocks.map.remove(id)).collect()
    }

    fn remove_range(&self, first: BlockId, last: BlockId) -> usize {
        let removed = self.take_range(first, last);
        let count = removed.len();
        self.forget(removed);
        count
    }

    /// Takes removed blocks off the books and drops them, without the lock.
    fn forget(&self, removed: impl IntoIterator<Item = Stored>) {
        for stored in removed {
            self.memory.release_storage(stored.memory_bytes);
        }
    }

    /// Takes the least recently used block that is on the books out of memory, none of the same RDD as `beside`; the
    /// bytes that are free now.
    fn drop_oldest(&self, beside: Option<BlockId>) -> Option<u64> {
        match self.choose_leaver(beside)? {
            Leaver::Dropped(id, stored) => {
                let bytes = stored.memory_bytes;
                drop(stored);
                self.tell(id);
                Some(bytes)
            }
            Leaver::Demoted { id, number, demote } => Some(self.demote(id, number, &demote)),
        }
    }

    fn choose_leaver(&self, beside: Option<BlockId>) -> Option<Leaver> {
        let mut blocks = self.lock();
        let id = blocks.map.oldest_beside(beside)?;
        let stored = blocks.map.get(&id)?;
        if let Some(demote) = stored.demote.clone() {
            let number = stored.number;
            blocks.map.set_leaving(id);
            return Some(Leaver::Demoted { id, number, demote });
        }
        blocks.map.remove(&id).map(|stored| Leaver::Dropped(id, stored))
    }

    /// Brings a block to disk, or drops it if that cannot be; the bytes that are free now. Readers find
    /// it in memory until it is on disk.
    fn demote(&self, id: BlockId, number: u64, demote: &Demote) -> u64 {
        // It runs the user's Serialize in a task of somebody else, who is not to blame for it.
        let written = std::panic::catch_unwind(AssertUnwindSafe(|| demote()))
            .unwrap_or_else(|_| Err("its items panicked while they were encoded".to_owned()));
        let (mut on_disk, failure) = match written {
            Ok(on_disk) => (Some(on_disk), None),
            Err(reason) => (None, Some(reason)),
        };
        // Removed or replaced meanwhile: the thread that did so took it off the books.
        let Some(left) = self.lock().leave(id, number, &mut on_disk) else { return 0 };
        if let Some(reason) = failure {
            tracing::warn!(block = %id, reason, "cached partition could not be written to disk");
        }
        let freed = left.memory_bytes;
        drop(left);
        self.tell(id);
        freed
    }

    fn tell(&self, id: BlockId) {
        if let (Some(watch), BlockId::Rdd(..)) = (self.watch.get(), id) {
            watch.block_changed(id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Blocks> {
        self.blocks.lock().expect("no code that can panic runs under the block map's lock")
    }
}

impl Evict for MemoryStore {
    fn evict(&self, bytes: u64) -> u64 {
        let mut freed = 0;
        while freed < bytes {
            match self.drop_oldest(None) {
                Some(dropped) => freed += dropped,
                None => break,
            }
        }
        freed
    }
}

#[cfg(test)]
mod tests;
