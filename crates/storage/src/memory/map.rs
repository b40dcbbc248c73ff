//! Blocks by name, and which of those in memory are the first to be evicted. Found without a look at the others: there
//! may be a hundred thousand, and one that is stored may evict many.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use firesteel_types::{RddId, StorageLevel};

use super::{AnyValue, Demote, Pack};
use crate::{BlockId, HeldBytes};

pub(super) struct Stored {
    pub(super) value: AnyValue,
    /// What it has on the manager's books.
    pub(super) memory_bytes: u64,
    pub(super) disk_bytes: u64,
    pub(super) level: StorageLevel,
    pub(super) demote: Option<Demote>,
    pub(super) pack: Option<Pack>,
    pub(super) epoch: u64,
    /// Tells it from another of the same name.
    pub(super) number: u64,
    pub(super) last_used: u64,
    /// On its way to disk.
    pub(super) leaving: bool,
    /// What it has on the books beside that, if it stays until it is removed.
    pub(super) _held: Option<HeldBytes>,
}

impl Stored {
    fn is_evictable(&self) -> bool {
        #[cfg(test)]
        tests::look();
        self.memory_bytes > 0 && !self.leaving
    }
}

/// Changes to what is in it go through here: the order of eviction depends on them.
#[derive(Default)]
pub(super) struct BlockMap {
    blocks: BTreeMap<BlockId, Stored>,
    /// Blocks on the books, by RDD: a block never evicts one of its own.
    in_memory: BTreeMap<Option<RddId>, InMemory>,
}

/// Blocks of one RDD that are on the books.
#[derive(Default)]
struct InMemory {
    /// Those on their way to disk too.
    bytes: u64,
    /// Those that can be evicted, by when they were last used.
    by_age: BTreeSet<(u64, BlockId)>,
}

fn rdd_of(id: BlockId) -> Option<RddId> {
    match id {
        BlockId::Rdd(rdd, _) => Some(rdd),
        _ => None,
    }
}

impl BlockMap {
    pub(super) fn get(&self, id: &BlockId) -> Option<&Stored> {
        self.blocks.get(id)
    }

    pub(super) fn range(
        &self,
        ids: RangeInclusive<BlockId>,
    ) -> impl Iterator<Item = (&BlockId, &Stored)> {
        self.blocks.range(ids)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = BlockId> {
        self.blocks.keys().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    pub(super) fn into_values(self) -> impl Iterator<Item = Stored> {
        self.blocks.into_values()
    }

    pub(super) fn insert(&mut self, id: BlockId, stored: Stored) -> Option<Stored> {
        let replaced = self.remove(&id);
        if stored.memory_bytes > 0 {
            let own = self.in_memory.entry(rdd_of(id)).or_default();
            own.bytes += stored.memory_bytes;
            if stored.is_evictable() {
                own.by_age.insert((stored.last_used, id));
            }
        }
        self.blocks.insert(id, stored);
        replaced
    }

    pub(super) fn remove(&mut self, id: &BlockId) -> Option<Stored> {
        let removed = self.blocks.remove(id)?;
        if let Some(own) = self.in_memory.get_mut(&rdd_of(*id)) {
            own.bytes -= removed.memory_bytes;
            own.by_age.remove(&(removed.last_used, *id));
            if own.bytes == 0 {
                self.in_memory.remove(&rdd_of(*id));
            }
        }
        Some(removed)
    }

    /// The block, which is used now.
    pub(super) fn touch(&mut self, id: BlockId, now: u64) -> Option<&Stored> {
        let stored = self.blocks.get_mut(&id)?;
        let before = std::mem::replace(&mut stored.last_used, now);
        if stored.is_evictable()
            && let Some(own) = self.in_memory.get_mut(&rdd_of(id))
        {
            own.by_age.remove(&(before, id));
            own.by_age.insert((now, id));
        }
        Some(stored)
    }

    /// The block goes to disk: nobody else is to evict it.
    pub(super) fn set_leaving(&mut self, id: BlockId) {
        let Some(stored) = self.blocks.get_mut(&id) else { return };
        stored.leaving = true;
        if let Some(own) = self.in_memory.get_mut(&rdd_of(id)) {
            own.by_age.remove(&(stored.last_used, id));
        }
    }

    /// Bytes in memory of blocks that may be evicted for the sake of this one.
    pub(super) fn bytes_beside(&self, id: Option<BlockId>) -> u64 {
        self.others(id).map(|own| own.bytes).sum()
    }

    /// The least recently used block that may be evicted for the sake of this one.
    pub(super) fn oldest_beside(&self, id: Option<BlockId>) -> Option<BlockId> {
        let oldest = self.others(id).filter_map(|own| own.by_age.first());
        oldest.min().map(|(_, id)| *id)
    }

    fn others(&self, id: Option<BlockId>) -> impl Iterator<Item = &InMemory> {
        let own = id.and_then(rdd_of);
        let is_other = move |rdd: Option<RddId>| {
            #[cfg(test)]
            tests::look();
            own.is_none() || rdd != own
        };
        self.in_memory.iter().filter(move |(rdd, _)| is_other(**rdd)).map(|(_, own)| own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::Arc;

    thread_local! {
        /// At how many blocks and RDDs the map has looked to find out what can be evicted.
        static LOOKS: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn look() {
        LOOKS.set(LOOKS.get() + 1);
    }

    fn stored(memory_bytes: u64, last_used: u64) -> Stored {
        let (level, number) = (StorageLevel::MEMORY_ONLY, last_used);
        Stored {
            value: Arc::new(()),
            memory_bytes,
            disk_bytes: 0,
            level,
            demote: None,
            pack: None,
            epoch: 0,
            number,
            last_used,
            leaving: false,
            _held: None,
        }
    }

    /// As a look at all blocks finds it.
    fn scan(map: &BlockMap, id: Option<BlockId>) -> (u64, Option<BlockId>) {
        let rdd = id.and_then(rdd_of);
        let others = || map.blocks.iter().filter(|(id, _)| rdd.is_none() || rdd_of(**id) != rdd);
        let evictable = others().filter(|(_, stored)| stored.is_evictable());
        let oldest = evictable.min_by_key(|(_, stored)| stored.last_used);
        (others().map(|(_, stored)| stored.memory_bytes).sum(), oldest.map(|(id, _)| *id))
    }

    #[test]
    fn whatever_happens_to_blocks_the_oldest_one_is_found_as_by_a_look_at_all() {
        let mut map = BlockMap::default();
        let mut random = 7u64;
        let mut draw = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % below
        };
        for now in 1..5000 {
            let id = match draw(10) {
                0 => BlockId::Broadcast(firesteel_types::BroadcastId(draw(3))),
                _ => BlockId::Rdd(RddId(draw(4) as u32), draw(20) as u32),
            };
            match draw(5) {
                0 | 1 => drop(map.insert(id, stored(draw(3) * 10, now))),
                2 => drop(map.remove(&id)),
                3 => drop(map.touch(id, now).map(|stored| stored.number)),
                _ => map.set_leaving(id),
            }
            for beside in [None, Some(id)] {
                let found = (map.bytes_beside(beside), map.oldest_beside(beside));
                assert_eq!(found, scan(&map, beside), "after {now} steps, beside {beside:?}");
            }
        }
        let ids: Vec<BlockId> = map.ids().collect();
        ids.iter().for_each(|id| drop(map.remove(id)));
        assert!(map.in_memory.is_empty(), "nothing is left of what is gone");
    }

    #[test]
    fn a_hundred_thousand_blocks_are_evicted_one_by_one_without_a_look_at_all() {
        let mut map = BlockMap::default();
        for n in 0..100_000u32 {
            let id = BlockId::Rdd(RddId(n % 10), n);
            map.insert(id, stored(1, u64::from(n) + 1));
            map.touch(id, 1_000_000 + u64::from(n));
        }
        let (rdds, mut evicted) = (10, 0);
        LOOKS.set(0);
        while let Some(id) = map.oldest_beside(None) {
            assert_eq!(id, BlockId::Rdd(RddId(evicted % 10), evicted));
            map.remove(&id);
            evicted += 1;
            let looks = LOOKS.replace(0);
            assert!((1..=rdds).contains(&looks), "{looks} looks for one of {}", 100_001 - evicted);
        }
        assert_eq!((evicted, map.bytes_beside(None)), (100_000, 0));
    }
}
