//! The store: one map from block to shared value.
//!
//! Kept partitions of RDDs are on the memory manager's books: they are stored only if there is room,
//! give way to newer ones of other RDDs and to running tasks, least recently used first. One that
//! gives way goes to disk if it knows how, and is dropped otherwise. What lies on disk is a value like
//! any other, which occupies no memory worth counting: the store opens no file itself.
//!
//! Encoding, writing and dropping values happen without the lock.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use firesteel_types::{BlockStatus, BroadcastId, RddId, ShuffleId, StorageLevel, TaskId};

use crate::claims::Claims;
use crate::{BlockId, Claim, Evict, MemoryManager};

/// A value of any type.
pub type AnyValue = Arc<dyn Any + Send + Sync>;

/// Brings a block to disk: the value that stands for it there and its bytes, or why that cannot be.
pub type Demote = Arc<dyn Fn() -> Result<(AnyValue, u64), String> + Send + Sync>;

/// Packs a value for another process: what it becomes, or why that cannot be.
pub type Pack = Arc<dyn Fn(&AnyValue) -> Result<AnyValue, String> + Send + Sync>;

/// A partition to be kept.
pub struct KeptBlock {
    /// Its items, or what they can be read from.
    pub value: AnyValue,
    /// What it occupies in memory.
    pub memory_bytes: u64,
    /// What it occupies on disk.
    pub disk_bytes: u64,
    /// How the user wants it kept.
    pub level: StorageLevel,
    /// How it gets from memory to disk; without, it is dropped when it must give way.
    pub demote: Option<Demote>,
    /// How it is packed for another process; without, it goes as it is.
    pub pack: Option<Pack>,
}

/// Hears that a kept partition came, moved or went. Called without the store's lock: what
/// [`MemoryStore::status`] says meanwhile may be newer.
pub trait Watch: Send + Sync {
    /// Something about this block is different now.
    fn block_changed(&self, id: BlockId);
}

/// Blocks that were taken out of the store; what they hold goes with this.
pub struct Removed {
    _blocks: Vec<Stored>,
}

struct Stored {
    value: AnyValue,
    /// What it has on the manager's books.
    memory_bytes: u64,
    disk_bytes: u64,
    level: StorageLevel,
    demote: Option<Demote>,
    pack: Option<Pack>,
    /// Tells it from another of the same name.
    number: u64,
    last_used: u64,
    /// On its way to disk.
    leaving: bool,
}

#[derive(Default)]
struct Blocks {
    map: BTreeMap<BlockId, Stored>,
    /// Broadcasts that are gone: tasks on their way to an end may still bring one.
    gone: BTreeSet<BroadcastId>,
    clock: u64,
}

/// So many broadcasts are remembered as gone, the latest.
const GONE_LIMIT: usize = 1 << 16;

impl Blocks {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Whether nobody would ever remove it.
    fn is_gone(&self, id: BlockId) -> bool {
        match id {
            BlockId::Broadcast(id) | BlockId::BroadcastPiece(id, _) => self.gone.contains(&id),
            BlockId::Rdd(..) | BlockId::MapOutput(..) => false,
        }
    }

    /// Takes a block out of memory and puts what lies on disk, if anything does, in its place.
    fn leave(
        &mut self,
        id: BlockId,
        number: u64,
        on_disk: &mut Option<(AnyValue, u64)>,
    ) -> Option<Stored> {
        let stored = self.map.get(&id).filter(|stored| stored.number == number)?;
        let (level, last_used) = (stored.level, stored.last_used);
        let replaced = on_disk.take().map(|(value, disk_bytes)| Stored {
            value,
            memory_bytes: 0,
            disk_bytes,
            level,
            demote: None,
            pack: None,
            number,
            last_used,
            leaving: false,
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

/// The block that has to give way next.
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

    /// Tells `watch` of kept partitions from now on; the first one stays.
    pub fn set_watch(&self, watch: Box<dyn Watch>) {
        let _ = self.watch.set(watch);
    }

    /// Puts a block that is not on the books, replacing an older one of the same name.
    pub fn put<T: Any + Send + Sync>(&self, id: BlockId, value: Arc<T>) {
        let (level, demote, pack) = (StorageLevel::NONE, None, None);
        let block = KeptBlock { value, memory_bytes: 0, disk_bytes: 0, level, demote, pack };
        self.insert(id, block);
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

    /// Keeps a partition, whose memory was acquired before.
    pub fn keep(&self, id: BlockId, block: KeptBlock) {
        self.insert(id, block);
        self.tell(id);
    }

    /// Drops blocks of other RDDs until `bytes` more fit; whether they do, and are taken. Drops none if
    /// all of them would not do.
    fn make_room(&self, id: BlockId, bytes: u64) -> bool {
        let may_go = |other| !same_rdd(id, other);
        let (storage, execution) = self.memory.used();
        let free = self.memory.budget().saturating_sub(storage + execution);
        let leaving = |(other, stored): (&BlockId, &Stored)| match may_go(*other) {
            true => stored.memory_bytes,
            false => 0,
        };
        let could_go: u64 = self.lock().map.iter().map(leaving).sum();
        if free + could_go < bytes {
            return false;
        }
        while let Some(dropped) = self.drop_oldest(may_go) {
            self.memory.release_storage(dropped);
            if self.memory.acquire_storage(bytes) {
                return true;
            }
        }
        // Others may have given something back meanwhile.
        self.memory.acquire_storage(bytes)
    }

    fn insert(&self, id: BlockId, block: KeptBlock) {
        let KeptBlock { value, memory_bytes, disk_bytes, level, demote, pack } = block;
        let mut blocks = self.lock();
        let number = blocks.tick();
        let stored = Stored {
            value,
            memory_bytes,
            disk_bytes,
            level,
            demote,
            pack,
            number,
            last_used: number,
            leaving: false,
        };
        let replaced = match blocks.is_gone(id) {
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
        let stored = blocks.map.get_mut(&id)?;
        stored.last_used = now;
        Some((stored.value.clone(), stored.memory_bytes + stored.disk_bytes))
    }

    /// The block as it goes to another process, if it is here. Packing runs the user's code, without
    /// the lock.
    pub fn get_packed(&self, id: BlockId) -> Option<Result<AnyValue, String>> {
        let (value, pack) = {
            let blocks = self.lock();
            let stored = blocks.map.get(&id)?;
            (stored.value.clone(), stored.pack.clone())
        };
        let Some(pack) = pack else { return Some(Ok(value)) };
        let packed = std::panic::catch_unwind(AssertUnwindSafe(|| pack(&value)));
        Some(
            packed.unwrap_or_else(|_| Err("its items panicked while they were encoded".to_owned())),
        )
    }

    /// Where a kept partition lies, if it does.
    pub fn status(&self, id: BlockId) -> Option<BlockStatus> {
        self.lock().map.get(&id).map(|stored| BlockStatus {
            memory_bytes: stored.memory_bytes,
            disk_bytes: stored.disk_bytes,
            level: stored.level,
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

    /// Drops a kept partition that is of no use: broken, or computed for nobody.
    pub fn discard(&self, id: BlockId) {
        if self.remove(id) {
            self.tell(id);
        }
    }

    /// Drops all kept partitions of an RDD and tells nobody.
    pub fn remove_rdd(&self, rdd: RddId) -> usize {
        self.remove_range(BlockId::Rdd(rdd, 0), BlockId::Rdd(rdd, u32::MAX))
    }

    /// Takes all kept partitions of an RDD out and tells nobody; for whoever must not drop them here and
    /// now.
    pub fn take_rdd(&self, rdd: RddId) -> Removed {
        let removed = self.take_range(BlockId::Rdd(rdd, 0), BlockId::Rdd(rdd, u32::MAX));
        removed.iter().for_each(|stored| self.memory.release_storage(stored.memory_bytes));
        Removed { _blocks: removed }
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

    /// Drops a broadcast value and its pieces, for good: what comes of it later is not kept.
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
        self.lock().map.keys().copied().collect()
    }

    /// How many blocks are here.
    pub fn len(&self) -> usize {
        self.lock().map.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops everything.
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

    /// Takes the least recently used block that is on the books and that `may_go` out of memory; the
    /// bytes that are free now.
    fn drop_oldest(&self, may_go: impl Fn(BlockId) -> bool) -> Option<u64> {
        match self.choose_leaver(may_go)? {
            Leaver::Dropped(id, stored) => {
                let bytes = stored.memory_bytes;
                drop(stored);
                self.tell(id);
                Some(bytes)
            }
            Leaver::Demoted { id, number, demote } => Some(self.demote(id, number, &demote)),
        }
    }

    fn choose_leaver(&self, may_go: impl Fn(BlockId) -> bool) -> Option<Leaver> {
        let mut blocks = self.lock();
        let candidates = blocks
            .map
            .iter()
            .filter(|(id, stored)| stored.memory_bytes > 0 && !stored.leaving && may_go(**id));
        let id = candidates.min_by_key(|(_, stored)| stored.last_used).map(|(id, _)| *id)?;
        let stored = blocks.map.get_mut(&id)?;
        if let Some(demote) = stored.demote.clone() {
            stored.leaving = true;
            return Some(Leaver::Demoted { id, number: stored.number, demote });
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
        // Removed or replaced meanwhile: whoever did that took it off the books.
        let Some(left) = self.lock().leave(id, number, &mut on_disk) else { return 0 };
        if let Some(reason) = failure {
            tracing::warn!(block = %id, reason, "kept partition could not be written to disk");
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
            match self.drop_oldest(|_| true) {
                Some(dropped) => freed += dropped,
                None => break,
            }
        }
        freed
    }
}

fn same_rdd(a: BlockId, b: BlockId) -> bool {
    matches!((a, b), (BlockId::Rdd(a, _), BlockId::Rdd(b, _)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(budget: u64) -> (Arc<MemoryStore>, Arc<MemoryManager>) {
        let memory = Arc::new(MemoryManager::new(budget, 0.0));
        (Arc::new(MemoryStore::new(memory.clone())), memory)
    }

    fn block(rdd: u32, part: u32) -> BlockId {
        BlockId::Rdd(RddId(rdd), part)
    }

    /// Keeps a block of so many bytes, if there is room.
    fn keep(store: &MemoryStore, id: BlockId, value: u8, bytes: u64) -> bool {
        keep_at(store, id, value, bytes, None)
    }

    fn keep_at(
        store: &MemoryStore,
        id: BlockId,
        value: u8,
        bytes: u64,
        demote: Option<Demote>,
    ) -> bool {
        let (value, level) = (Arc::new(value), StorageLevel::MEMORY_ONLY);
        let fits = store.acquire(id, bytes);
        if fits {
            let (memory_bytes, disk_bytes, pack) = (bytes, 0, None);
            store.keep(id, KeptBlock { value, memory_bytes, disk_bytes, level, demote, pack });
        }
        fits
    }

    /// What stands for a block on disk.
    struct OnDisk;

    #[test]
    fn blocks_are_found_by_name_and_type() {
        let (store, _) = store(1000);
        let id = BlockId::Rdd(RddId(3), 1);
        store.put(id, Arc::new(vec![1u8, 2]));
        assert_eq!(store.get::<Vec<u8>>(id).as_deref(), Some(&vec![1, 2]));
        assert!(store.get::<String>(id).is_none());
        assert_eq!(id.to_string(), "rdd_3_1");
    }

    #[test]
    fn removing_an_rdd_or_a_shuffle_leaves_the_others() {
        let (store, _) = store(1000);
        for n in 0..3 {
            for part in 0..4 {
                store.put(BlockId::Rdd(RddId(n), part), Arc::new(0u8));
                store.put(BlockId::MapOutput(ShuffleId(n), part, TaskId(7)), Arc::new(0u8));
            }
        }
        assert_eq!(store.remove_rdd(RddId(1)), 4);
        assert_eq!(store.remove_shuffle(ShuffleId(2)), 4);
        assert_eq!(store.len(), 16);
        assert!(store.get::<u8>(BlockId::Rdd(RddId(2), 3)).is_some());
    }

    #[test]
    fn new_partitions_push_out_the_least_recently_used_of_other_rdds_only() {
        let (store, memory) = store(1000);
        assert!(keep(&store, block(1, 0), 1, 400));
        assert!(keep(&store, block(2, 0), 2, 400));
        store.get::<u8>(block(1, 0));
        assert!(!keep(&store, block(3, 0), 3, 1001));
        assert_eq!(store.len(), 2, "what can never fit pushes nothing out");
        assert!(keep(&store, block(3, 0), 3, 400), "pushes out 2");
        assert!(store.get::<u8>(block(2, 0)).is_none() && store.get::<u8>(block(1, 0)).is_some());
        assert!(keep(&store, block(3, 1), 3, 600), "pushes out 1");
        assert!(!keep(&store, block(3, 2), 3, 100), "never its own RDD's");
        assert_eq!(memory.used(), (1000, 0));
        store.remove_rdd(RddId(3));
        assert_eq!(memory.used(), (0, 0));
    }

    #[test]
    fn running_tasks_push_out_kept_partitions() {
        let (store, memory) = store(1000);
        memory.set_evictor(Arc::downgrade(&(store.clone() as Arc<dyn Evict>)));
        assert!(keep(&store, block(1, 0), 1, 900));
        let mut held = memory.reserve(firesteel_types::TaskId(1));
        assert!(held.resize(800));
        assert!(store.is_empty());
        assert_eq!(memory.used(), (0, 800));
    }

    #[test]
    fn what_gives_way_goes_to_disk_if_it_can_and_is_dropped_if_that_fails() {
        let (store, memory) = store(1000);
        let to_disk: Demote = Arc::new(|| Ok((Arc::new(OnDisk), 77)));
        let full: Demote = Arc::new(|| Err("no space left".to_owned()));
        let panics: Demote = Arc::new(|| panic!("on purpose"));
        for (rdd, demote) in [to_disk, full, panics].into_iter().enumerate() {
            assert!(keep_at(&store, block(rdd as u32, 0), 1, 300, Some(demote)));
        }
        assert!(keep(&store, block(9, 0), 9, 1000), "all others give way");
        let status = store.status(block(0, 0)).unwrap();
        assert_eq!((status.memory_bytes, status.disk_bytes), (0, 77));
        assert!(store.get::<OnDisk>(block(0, 0)).is_some());
        assert_eq!(store.ids(), [block(0, 0), block(9, 0)]);
        assert_eq!(memory.used(), (1000, 0));
        store.clear();
        assert_eq!(memory.used(), (0, 0));
    }

    #[test]
    fn a_block_that_is_removed_while_it_goes_to_disk_stays_removed_and_is_counted_once() {
        let (store, memory) = store(1000);
        let other = Arc::downgrade(&store);
        let removing: Demote = Arc::new(move || {
            let store = other.upgrade().unwrap();
            assert!(store.get::<u8>(block(1, 0)).is_some(), "readers find it meanwhile");
            assert_eq!(store.remove_rdd(RddId(1)), 1);
            Ok((Arc::new(OnDisk), 77))
        });
        assert!(keep_at(&store, block(1, 0), 1, 600, Some(removing)));
        assert!(keep(&store, block(2, 0), 2, 600));
        assert_eq!(store.ids(), [block(2, 0)]);
        assert_eq!(memory.used(), (600, 0));
        store.clear();
        assert_eq!(memory.used(), (0, 0));
    }

    #[test]
    fn blocks_are_packed_for_others_as_they_know_how_and_a_panic_is_an_error() {
        let (store, _) = store(1000);
        let number = |value: &AnyValue| -> Result<AnyValue, String> {
            let value = value.downcast_ref::<u8>().ok_or("another type")?;
            Ok(Arc::new(value.to_string()))
        };
        let broken = |_: &AnyValue| -> Result<AnyValue, String> { panic!("on purpose") };
        let packs: [Option<Pack>; 3] = [None, Some(Arc::new(number)), Some(Arc::new(broken))];
        for (rdd, pack) in packs.into_iter().enumerate() {
            let (value, level) = (Arc::new(7u8), StorageLevel::MEMORY_ONLY);
            let kept =
                KeptBlock { value, memory_bytes: 0, disk_bytes: 0, level, demote: None, pack };
            store.keep(block(rdd as u32, 0), kept);
        }
        let packed = |rdd| store.get_packed(block(rdd, 0)).unwrap();
        assert!(packed(0).unwrap().is::<u8>());
        assert_eq!(packed(1).unwrap().downcast_ref::<String>().unwrap(), "7");
        assert!(packed(2).is_err() && store.get_packed(block(3, 0)).is_none());
    }

    #[test]
    fn a_broadcast_goes_with_its_pieces_and_does_not_come_back() {
        let (store, memory) = store(1000);
        for id in [BroadcastId(1), BroadcastId(2)] {
            store.put(BlockId::Broadcast(id), Arc::new(0u8));
            (0..3).for_each(|n| store.put(BlockId::BroadcastPiece(id, n), Arc::new(0u8)));
        }
        store.drop_broadcast(BroadcastId(1));
        store.put(BlockId::Broadcast(BroadcastId(1)), Arc::new(0u8));
        assert_eq!(store.len(), 5, "it may come again");
        store.remove_broadcast(BroadcastId(1));
        // A task that was on its way brings it.
        store.put(BlockId::Broadcast(BroadcastId(1)), Arc::new(0u8));
        assert!(keep(&store, BlockId::BroadcastPiece(BroadcastId(1), 0), 0, 100));
        assert_eq!(memory.used(), (0, 0));
        assert_eq!(store.len(), 4);
        assert!(store.ids().iter().all(|id| id.to_string().starts_with("broadcast_2")));
    }

    #[test]
    fn watchers_hear_of_kept_partitions_and_of_nothing_else() {
        struct Log(Arc<Mutex<Vec<BlockId>>>);
        impl Watch for Log {
            fn block_changed(&self, id: BlockId) {
                self.0.lock().unwrap().push(id);
            }
        }
        let (store, log) = (store(1000).0, Arc::default());
        store.set_watch(Box::new(Log(Arc::clone(&log))));
        store.put(BlockId::MapOutput(ShuffleId(1), 0, TaskId(7)), Arc::new(0u8));
        keep(&store, block(1, 0), 1, 900);
        keep(&store, block(2, 0), 2, 900);
        store.discard(block(2, 0));
        store.discard(block(2, 0));
        let heard = log.lock().unwrap().clone();
        assert_eq!(heard, [block(1, 0), block(1, 0), block(2, 0), block(2, 0)]);
    }
}
