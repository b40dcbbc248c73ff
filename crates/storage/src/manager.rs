//! One budget of memory for everything that tasks keep while they run (execution) and for what is
//! kept between tasks (storage).
//!
//! Nobody waits for memory. A task that asks for more than its fair share, or than there is, is
//! refused, and then spills what it holds: so memory never deadlocks. Storage may use what execution
//! does not need; when execution needs it, storage above its floor is asked to give way.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use firesteel_types::TaskId;

/// What is kept between tasks and can be dropped.
pub trait Evict: Send + Sync {
    /// Drops blocks of at least `bytes` in all, if there are so many; how many bytes it dropped. The
    /// caller takes them off the books.
    fn evict(&self, bytes: u64) -> u64;
}

/// The books.
#[derive(Debug, Default)]
struct Pools {
    storage: u64,
    execution: u64,
    tasks: BTreeMap<TaskId, u64>,
    peak: u64,
}

impl Pools {
    fn used(&self) -> u64 {
        self.storage + self.execution
    }
}

/// Grants memory to tasks and to storage out of one budget.
pub struct MemoryManager {
    budget: u64,
    /// What storage keeps even if execution wants it.
    storage_floor: u64,
    pools: Mutex<Pools>,
    evictor: Mutex<Option<Weak<dyn Evict>>>,
}

impl MemoryManager {
    /// A budget in bytes, and the fraction of it that storage keeps against execution
    /// (`spark.memory.storageFraction`).
    pub fn new(budget: u64, storage_fraction: f64) -> Self {
        let storage_floor = (budget as f64 * storage_fraction.clamp(0.0, 1.0)) as u64;
        MemoryManager { budget, storage_floor, pools: Mutex::default(), evictor: Mutex::default() }
    }

    /// Whom to ask when storage must give way.
    pub fn set_evictor(&self, evictor: Weak<dyn Evict>) {
        *self.evictor.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(evictor);
    }

    /// The whole budget.
    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// The part of the budget that storage keeps even if execution wants it.
    pub fn storage_fraction(&self) -> f64 {
        self.storage_floor as f64 / self.budget.max(1) as f64
    }

    /// What is granted now, to storage and to execution.
    pub fn used(&self) -> (u64, u64) {
        let pools = self.lock();
        (pools.storage, pools.execution)
    }

    /// The most that was ever granted at once.
    pub fn peak(&self) -> u64 {
        self.lock().peak
    }

    /// An account for one holder of memory in a task.
    pub fn reserve(self: &Arc<Self>, task: TaskId) -> Reservation {
        self.lock().tasks.entry(task).or_insert(0);
        Reservation { manager: self.clone(), task, bytes: 0 }
    }

    /// The task is over: its share is the others' again.
    pub fn end_task(&self, task: TaskId) {
        let mut pools = self.lock();
        if let Some(left) = pools.tasks.remove(&task) {
            pools.execution -= left;
        }
    }

    /// Takes memory for a block; `false` when there is not enough that is not in use by execution.
    pub fn acquire_storage(&self, bytes: u64) -> bool {
        let mut pools = self.lock();
        let free = self.budget - pools.used().min(self.budget);
        if bytes > free {
            return false;
        }
        pools.storage += bytes;
        pools.peak = pools.peak.max(pools.used());
        true
    }

    /// A block is gone.
    pub fn release_storage(&self, bytes: u64) {
        let mut pools = self.lock();
        pools.storage -= bytes;
    }

    fn acquire_execution(&self, task: TaskId, bytes: u64) -> bool {
        let lacking = match self.try_execution(task, bytes) {
            Grant::Granted => return true,
            Grant::OverShare => return false,
            Grant::Lacking(lacking) => lacking,
        };
        // Asked without the lock held: the evictor's own lock comes first where both are needed.
        if self.evict(lacking) < lacking {
            return false;
        }
        matches!(self.try_execution(task, bytes), Grant::Granted)
    }

    fn try_execution(&self, task: TaskId, bytes: u64) -> Grant {
        let mut pools = self.lock();
        let share = self.budget / pools.tasks.len().max(1) as u64;
        let held = pools.tasks.get(&task).copied().unwrap_or(0);
        if held + bytes > share {
            return Grant::OverShare;
        }
        let free = self.budget - pools.used().min(self.budget);
        if bytes <= free {
            *pools.tasks.entry(task).or_insert(0) += bytes;
            pools.execution += bytes;
            pools.peak = pools.peak.max(pools.used());
            return Grant::Granted;
        }
        let evictable = pools.storage.saturating_sub(self.storage_floor);
        match bytes - free {
            lacking if lacking <= evictable => Grant::Lacking(lacking),
            _ => Grant::OverShare,
        }
    }

    fn evict(&self, bytes: u64) -> u64 {
        let evictor = self.evictor.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        let freed =
            evictor.and_then(|weak| weak.upgrade()).map_or(0, |evictor| evictor.evict(bytes));
        let mut pools = self.lock();
        pools.storage -= freed.min(pools.storage);
        freed
    }

    fn release_execution(&self, task: TaskId, bytes: u64) {
        let mut pools = self.lock();
        let Some(held) = pools.tasks.get_mut(&task) else { return };
        let given_back = bytes.min(*held);
        *held -= given_back;
        pools.execution -= given_back;
    }

    fn lock(&self) -> MutexGuard<'_, Pools> {
        self.pools.lock().expect("nothing panics under the memory manager's lock")
    }
}

enum Grant {
    Granted,
    OverShare,
    Lacking(u64),
}

/// What one holder in a task has been granted; given back when it is dropped.
pub struct Reservation {
    manager: Arc<MemoryManager>,
    task: TaskId,
    bytes: u64,
}

impl Reservation {
    /// What is granted.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Asks for so much in all; `false`: it is refused, and nothing changes. Asking for less gives
    /// the rest back.
    pub fn resize(&mut self, bytes: u64) -> bool {
        if bytes <= self.bytes {
            self.manager.release_execution(self.task, self.bytes - bytes);
        } else if !self.manager.acquire_execution(self.task, bytes - self.bytes) {
            return false;
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.manager.release_execution(self.task, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn a_task_alone_gets_everything_and_two_get_half_each() {
        let manager = Arc::new(MemoryManager::new(1000, 0.5));
        let mut first = manager.reserve(TaskId(1));
        assert!(first.resize(1000));
        assert!(!first.resize(1001));
        assert!(first.resize(400));
        let mut second = manager.reserve(TaskId(2));
        assert!(second.resize(500));
        assert!(!second.resize(501));
        assert!(!first.resize(501));
        drop(second);
        manager.end_task(TaskId(2));
        assert!(first.resize(1000));
        assert_eq!(manager.used(), (0, 1000));
    }

    #[test]
    fn what_a_task_forgets_is_given_back_at_its_end() {
        let manager = Arc::new(MemoryManager::new(1000, 0.5));
        let mut held = manager.reserve(TaskId(1));
        assert!(held.resize(700));
        manager.end_task(TaskId(1));
        assert_eq!(manager.used(), (0, 0));
        drop(held);
        assert_eq!(manager.used(), (0, 0));
        assert_eq!(manager.peak(), 700);
    }

    struct Blocks(AtomicU64);

    impl Evict for Blocks {
        fn evict(&self, bytes: u64) -> u64 {
            let freed = bytes.min(self.0.load(Ordering::Relaxed));
            self.0.fetch_sub(freed, Ordering::Relaxed);
            freed
        }
    }

    #[test]
    fn storage_borrows_and_gives_way_down_to_its_floor() {
        let manager = Arc::new(MemoryManager::new(1000, 0.3));
        let blocks: Arc<dyn Evict> = Arc::new(Blocks(AtomicU64::new(900)));
        manager.set_evictor(Arc::downgrade(&blocks));
        assert!(manager.acquire_storage(900));
        assert!(!manager.acquire_storage(101));
        let mut held = manager.reserve(TaskId(1));
        assert!(held.resize(700), "storage gives way");
        assert_eq!(manager.used(), (300, 700));
        assert!(!held.resize(701), "but not below its floor");
        assert!(!manager.acquire_storage(1));
    }
}
