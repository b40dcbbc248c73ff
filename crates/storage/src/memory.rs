//! The memory store: one map from block to shared value.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use firesteel_types::{RddId, ShuffleId};

use crate::BlockId;

type Stored = Arc<dyn Any + Send + Sync>;

/// Typed values by block id, shared between the threads of one process.
#[derive(Default)]
pub struct MemoryStore {
    blocks: Mutex<BTreeMap<BlockId, Stored>>,
}

impl MemoryStore {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a block, replacing an older one of the same name.
    pub fn put<T: Any + Send + Sync>(&self, id: BlockId, value: Arc<T>) {
        let replaced = self.lock().insert(id, value);
        drop(replaced); // outside the lock: a large value takes time to free
    }

    /// The block, if it is here and of this type.
    pub fn get<T: Any + Send + Sync>(&self, id: BlockId) -> Option<Arc<T>> {
        let stored = self.lock().get(&id).cloned()?;
        stored.downcast().ok()
    }

    /// Drops one block.
    pub fn remove(&self, id: BlockId) -> bool {
        let removed = self.lock().remove(&id);
        removed.is_some()
    }

    /// Drops all kept partitions of an RDD.
    pub fn remove_rdd(&self, rdd: RddId) -> usize {
        self.remove_range(BlockId::Rdd(rdd, 0), BlockId::Rdd(rdd, u32::MAX))
    }

    /// Drops all map outputs of a shuffle.
    pub fn remove_shuffle(&self, shuffle: ShuffleId) -> usize {
        self.remove_range(BlockId::MapOutput(shuffle, 0), BlockId::MapOutput(shuffle, u32::MAX))
    }

    /// The names of all blocks, in order.
    pub fn ids(&self) -> Vec<BlockId> {
        self.lock().keys().copied().collect()
    }

    /// How many blocks are here.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops everything.
    pub fn clear(&self) {
        let all = std::mem::take(&mut *self.lock());
        drop(all);
    }

    fn remove_range(&self, first: BlockId, last: BlockId) -> usize {
        let mut removed = Vec::new();
        let mut blocks = self.lock();
        let ids: Vec<_> = blocks.range(first..=last).map(|(id, _)| *id).collect();
        removed.extend(ids.iter().filter_map(|id| blocks.remove(id)));
        drop(blocks);
        removed.len()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<BlockId, Stored>> {
        self.blocks.lock().expect("no code that can panic runs under the block map's lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_by_name_and_type() {
        let store = MemoryStore::new();
        let id = BlockId::Rdd(RddId(3), 1);
        store.put(id, Arc::new(vec![1u8, 2]));
        assert_eq!(store.get::<Vec<u8>>(id).as_deref(), Some(&vec![1, 2]));
        assert!(store.get::<String>(id).is_none());
        assert_eq!(id.to_string(), "rdd_3_1");
    }

    #[test]
    fn removing_an_rdd_or_a_shuffle_leaves_the_others() {
        let store = MemoryStore::new();
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
}
