//! The memory store: one map from block to shared value.
//!
//! Kept partitions of RDDs are on the memory manager's books: they are stored only if there is room,
//! give way to newer ones of other RDDs and to running tasks, least recently used first.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use firesteel_types::{RddId, ShuffleId};

use crate::{BlockId, Evict, MemoryManager};

struct Stored {
    value: Arc<dyn Any + Send + Sync>,
    /// What it has on the manager's books.
    bytes: u64,
    last_used: u64,
}

#[derive(Default)]
struct Blocks {
    map: BTreeMap<BlockId, Stored>,
    clock: u64,
}

/// Typed values by block id, shared between the threads of one process.
pub struct MemoryStore {
    blocks: Mutex<Blocks>,
    memory: Arc<MemoryManager>,
}

impl MemoryStore {
    /// An empty one, within this budget.
    pub fn new(memory: Arc<MemoryManager>) -> Self {
        MemoryStore { blocks: Mutex::default(), memory }
    }

    /// Puts a block that is not on the books, replacing an older one of the same name.
    pub fn put<T: Any + Send + Sync>(&self, id: BlockId, value: Arc<T>) {
        self.insert(id, value, 0);
    }

    /// Puts a block of so many bytes, if there is room or room can be made; whether it did.
    pub fn put_if_fits<T: Any + Send + Sync>(
        &self,
        id: BlockId,
        value: Arc<T>,
        bytes: u64,
    ) -> bool {
        let fits = self.memory.acquire_storage(bytes) || self.make_room(id, bytes);
        if fits {
            self.insert(id, value, bytes);
        }
        fits
    }

    /// Drops blocks of other RDDs until `bytes` more fit; whether they do, and are taken.
    fn make_room(&self, id: BlockId, bytes: u64) -> bool {
        while let Some(dropped) = self.drop_oldest(|other| !same_rdd(id, other)) {
            self.memory.release_storage(dropped);
            if self.memory.acquire_storage(bytes) {
                return true;
            }
        }
        false
    }

    fn insert(&self, id: BlockId, value: Arc<dyn Any + Send + Sync>, bytes: u64) {
        let mut blocks = self.lock();
        blocks.clock += 1;
        let last_used = blocks.clock;
        let replaced = blocks.map.insert(id, Stored { value, bytes, last_used });
        drop(blocks); // a large value takes time to free
        self.forget(replaced);
    }

    /// The block, if it is here and of this type.
    pub fn get<T: Any + Send + Sync>(&self, id: BlockId) -> Option<Arc<T>> {
        let mut blocks = self.lock();
        blocks.clock += 1;
        let now = blocks.clock;
        let stored = blocks.map.get_mut(&id)?;
        stored.last_used = now;
        stored.value.clone().downcast().ok()
    }

    /// Drops one block.
    pub fn remove(&self, id: BlockId) -> bool {
        let removed = self.lock().map.remove(&id);
        let found = removed.is_some();
        self.forget(removed);
        found
    }

    /// Drops all kept partitions of an RDD.
    pub fn remove_rdd(&self, rdd: RddId) -> usize {
        self.remove_range(BlockId::Rdd(rdd, 0), BlockId::Rdd(rdd, u32::MAX))
    }

    /// Drops all map outputs of a shuffle.
    pub fn remove_shuffle(&self, shuffle: ShuffleId) -> usize {
        self.remove_range(BlockId::MapOutput(shuffle, 0), BlockId::MapOutput(shuffle, u32::MAX))
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

    fn remove_range(&self, first: BlockId, last: BlockId) -> usize {
        let mut blocks = self.lock();
        let ids: Vec<_> = blocks.map.range(first..=last).map(|(id, _)| *id).collect();
        let removed: Vec<Stored> = ids.iter().filter_map(|id| blocks.map.remove(id)).collect();
        drop(blocks);
        let count = removed.len();
        self.forget(removed);
        count
    }

    /// Takes removed blocks off the books and drops them, without the lock.
    fn forget(&self, removed: impl IntoIterator<Item = Stored>) {
        for stored in removed {
            self.memory.release_storage(stored.bytes);
        }
    }

    /// Drops the least recently used block that is on the books and that `may_go`; its bytes.
    fn drop_oldest(&self, may_go: impl Fn(BlockId) -> bool) -> Option<u64> {
        let mut blocks = self.lock();
        let candidates = blocks.map.iter().filter(|(id, stored)| stored.bytes > 0 && may_go(**id));
        let oldest = candidates.min_by_key(|(_, stored)| stored.last_used).map(|(id, _)| *id)?;
        let dropped = blocks.map.remove(&oldest)?;
        drop(blocks);
        Some(dropped.bytes)
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
                store.put(BlockId::MapOutput(ShuffleId(n), part), Arc::new(0u8));
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
        let block = |rdd, part| BlockId::Rdd(RddId(rdd), part);
        assert!(store.put_if_fits(block(1, 0), Arc::new(1u8), 400));
        assert!(store.put_if_fits(block(2, 0), Arc::new(2u8), 400));
        store.get::<u8>(block(1, 0));
        assert!(store.put_if_fits(block(3, 0), Arc::new(3u8), 400), "pushes out 2");
        assert!(store.get::<u8>(block(2, 0)).is_none() && store.get::<u8>(block(1, 0)).is_some());
        assert!(store.put_if_fits(block(3, 1), Arc::new(3u8), 600), "pushes out 1");
        assert!(!store.put_if_fits(block(3, 2), Arc::new(3u8), 100), "never its own RDD's");
        assert_eq!(memory.used(), (1000, 0));
        store.remove_rdd(RddId(3));
        assert_eq!(memory.used(), (0, 0));
    }

    #[test]
    fn running_tasks_push_out_kept_partitions() {
        let (store, memory) = store(1000);
        memory.set_evictor(Arc::downgrade(&(store.clone() as Arc<dyn Evict>)));
        assert!(store.put_if_fits(BlockId::Rdd(RddId(1), 0), Arc::new(1u8), 900));
        let mut held = memory.reserve(firesteel_types::TaskId(1));
        assert!(held.resize(800));
        assert!(store.is_empty());
        assert_eq!(memory.used(), (0, 800));
    }
}
