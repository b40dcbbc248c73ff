//! The store, with values small enough to see through.

use super::*;

fn store(budget: u64) -> (Arc<MemoryStore>, Arc<MemoryManager>) {
    let memory = Arc::new(MemoryManager::new(budget, 0.0));
    (Arc::new(MemoryStore::new(memory.clone())), memory)
}

fn block(rdd: u32, part: u32) -> BlockId {
    BlockId::Rdd(RddId(rdd), part)
}

/// Keeps a block of so many bytes, if memory is free.
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
        let (memory_bytes, disk_bytes, pack, epoch) = (bytes, 0, None, 0);
        store.put_cached(
            id,
            CachedBlock { value, memory_bytes, disk_bytes, level, demote, pack, epoch },
        );
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
    drop(store.take_outdated(RddId(1), 1));
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
    drop(store.take_outdated(RddId(3), 1));
    assert_eq!(memory.used(), (0, 0));
}

#[test]
fn running_tasks_push_out_cached_partitions() {
    let (store, memory) = store(1000);
    memory.set_evictor(Arc::downgrade(&(store.clone() as Arc<dyn Evict>)));
    assert!(keep(&store, block(1, 0), 1, 900));
    let mut held = memory.reserve(firesteel_types::TaskId(1));
    assert!(held.resize(800));
    assert!(store.is_empty());
    assert_eq!(memory.used(), (0, 800));
}

#[test]
fn what_is_evicted_goes_to_disk_if_it_can_and_is_dropped_if_that_fails() {
    let (store, memory) = store(1000);
    let to_disk: Demote = Arc::new(|| Ok((Arc::new(OnDisk), 77)));
    let full: Demote = Arc::new(|| Err("no space left".to_owned()));
    let panics: Demote = Arc::new(|| panic!("on purpose"));
    for (rdd, demote) in [to_disk, full, panics].into_iter().enumerate() {
        assert!(keep_at(&store, block(rdd as u32, 0), 1, 300, Some(demote)));
    }
    assert!(keep(&store, block(9, 0), 9, 1000), "all others are evicted");
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
        drop(store.take_outdated(RddId(1), 1));
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
        let (demote, epoch) = (None, 3);
        let cached =
            CachedBlock { value, memory_bytes: 0, disk_bytes: 0, level, demote, pack, epoch };
        store.put_cached(block(rdd as u32, 0), cached);
    }
    let packed = |rdd| store.get_packed(block(rdd, 0), 3).unwrap();
    assert!(packed(0).unwrap().is::<u8>());
    assert_eq!(packed(1).unwrap().downcast_ref::<String>().unwrap(), "7");
    assert!(packed(2).is_err() && store.get_packed(block(3, 0), 3).is_none());
    assert!(store.get_packed(block(0, 0), 4).is_none(), "it is of an earlier epoch");
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
fn watchers_hear_of_cached_partitions_and_of_nothing_else() {
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

fn keep_in(store: &MemoryStore, id: BlockId, value: u8, epoch: u64) {
    assert!(store.acquire(id, 10));
    let (value, level) = (Arc::new(value), StorageLevel::MEMORY_ONLY);
    let (memory_bytes, disk_bytes, demote, pack) = (10, 0, None, None);
    store.put_cached(
        id,
        CachedBlock { value, memory_bytes, disk_bytes, level, demote, pack, epoch },
    );
}

#[test]
fn outdated_partitions_go_and_come_back_never_more() {
    let (store, memory) = store(1000);
    keep_in(&store, block(1, 0), 1, 4);
    keep_in(&store, block(1, 1), 2, 6);
    keep_in(&store, block(2, 0), 3, 4);
    drop(store.take_outdated(RddId(1), 5));
    let values = || {
        [block(1, 0), block(1, 1), block(2, 0)].map(|id| store.get::<u8>(id).as_deref().copied())
    };
    assert_eq!(values(), [None, Some(2), Some(3)], "only what was computed before");
    keep_in(&store, block(1, 0), 9, 4);
    assert_eq!(values()[0], None, "a late task or replica brings it");
    drop(store.take_outdated(RddId(1), 3));
    keep_in(&store, block(1, 0), 9, 4);
    assert_eq!(
        (values()[0], store.outdated_before(RddId(1))),
        (None, 5),
        "messages may come in any order"
    );
    keep_in(&store, block(1, 0), 7, 5);
    assert_eq!(values()[0], Some(7));
    keep_in(&store, block(1, 1), 8, 5);
    assert_eq!(values()[1], Some(2), "a newer one is here");
    assert_eq!(memory.used().0, 30, "what was refused is off the books");
}
