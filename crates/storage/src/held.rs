//! Values that stay in memory as long as somebody needs them as they are: broadcast values, the code of stages, results
//! that wait to be fetched. Nobody can evict them, so they are counted: cached blocks make room for them, and tasks share
//! what they leave.

use std::sync::Arc;

use crate::MemoryManager;

/// What such a value takes, on the books until this is dropped.
pub struct HeldBytes {
    manager: Arc<MemoryManager>,
    bytes: u64,
}

impl HeldBytes {
    /// Counts so many bytes of `what`, which is there in any case. Warns if that is more than may be counted.
    pub fn count(manager: &Arc<MemoryManager>, bytes: u64, what: &str) -> Self {
        let counted = manager.count_held(bytes);
        if counted < bytes {
            tracing::warn!(
                bytes,
                counted,
                budget = manager.budget(),
                "{what} takes more memory than is left for what cannot be evicted: give executors more, or make it smaller"
            );
        }
        HeldBytes { manager: manager.clone(), bytes: counted }
    }

    /// How much is on the books.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.manager.release_held(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use firesteel_types::TaskId;

    use super::*;
    use crate::Evict;

    struct Blocks(AtomicU64);

    impl Evict for Blocks {
        fn evict(&self, bytes: u64) -> u64 {
            let freed = bytes.min(self.0.load(Ordering::Relaxed));
            self.0.fetch_sub(freed, Ordering::Relaxed);
            freed
        }
    }

    #[test]
    fn cached_blocks_make_room_and_tasks_share_what_is_left() {
        let manager = Arc::new(MemoryManager::new(1000, 0.5));
        let blocks: Arc<dyn Evict> = Arc::new(Blocks(AtomicU64::new(900)));
        manager.set_evictor(Arc::downgrade(&blocks));
        assert!(manager.acquire_storage(900));
        let held = HeldBytes::count(&manager, 300, "a value");
        assert_eq!((held.bytes(), manager.used()), (300, (1000, 0)), "200 were evicted");
        let mut task = manager.reserve(TaskId(1));
        assert!(
            task.resize(200) && !task.resize(201),
            "neither the value nor the floor is evicted"
        );
        drop(task);
        drop(held);
        assert_eq!(manager.used(), (500, 0));
    }

    #[test]
    fn a_value_larger_than_the_budget_leaves_tasks_a_half() {
        let manager = Arc::new(MemoryManager::new(1000, 0.5));
        let (first, second) =
            (HeldBytes::count(&manager, 5000, "a value"), HeldBytes::count(&manager, 1, "another"));
        assert_eq!((first.bytes(), second.bytes(), manager.share()), (500, 0, 500));
        let mut task = manager.reserve(TaskId(1));
        assert!(task.resize(500));
        drop((first, second));
        assert!(task.resize(1000));
    }
}
