//! Hands out memory by the rules of [`Grants`]: the lock around its books, the waiting, the clock.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use firesteel_types::TaskId;

use crate::grants::{Answer, Asked, Counted, Grants, Wake};
use crate::mutant::Planted;

/// What is kept between tasks and can be dropped.
pub trait Evict: Send + Sync {
    /// Drops blocks of at least `bytes` in all, if there are so many; how many bytes it dropped. The
    /// caller takes them off the books.
    fn evict(&self, bytes: u64) -> u64;
}

/// Grants memory to tasks and to storage out of one budget.
pub struct MemoryManager {
    budget: u64,
    storage_floor: u64,
    started: Instant,
    grants: Mutex<Grants>,
    /// Something was given back, or nobody waits any more for what it waited for.
    released: Condvar,
    evictor: Mutex<Option<Weak<dyn Evict>>>,
}

impl MemoryManager {
    /// A budget in bytes, and the fraction of it that storage keeps against execution
    /// (`spark.memory.storageFraction`).
    pub fn new(budget: u64, storage_fraction: f64) -> Self {
        let storage_floor = (budget as f64 * storage_fraction.clamp(0.0, 1.0)) as u64;
        MemoryManager {
            budget,
            storage_floor,
            started: Instant::now(),
            grants: Mutex::new(Grants::new(budget, storage_floor, Planted::default())),
            released: Condvar::new(),
            evictor: Mutex::default(),
        }
    }

    /// Whom to ask to evict cached blocks.
    pub fn set_evictor(&self, evictor: Weak<dyn Evict>) {
        *self.evictor.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(evictor);
    }

    pub fn budget(&self) -> u64 {
        self.budget
    }

    /// The part of the budget that storage keeps even if execution wants it.
    pub fn storage_fraction(&self) -> f64 {
        self.storage_floor as f64 / self.budget.max(1) as f64
    }

    /// What is granted now, to storage and to execution.
    pub fn used(&self) -> (u64, u64) {
        self.lock().used()
    }

    /// The most that was ever granted at once.
    pub fn peak(&self) -> u64 {
        self.lock().peak()
    }

    /// What each of the tasks that run may have at most.
    pub fn share(&self) -> u64 {
        self.lock().share()
    }

    /// An account for one holder of memory in a task.
    pub fn reserve(self: &Arc<Self>, task: TaskId) -> Reservation {
        self.lock().begin_task(task);
        Reservation { manager: self.clone(), task, bytes: 0 }
    }

    /// The task is over: its share is the others' again. The most that it held at once.
    pub fn end_task(&self, task: TaskId) -> u64 {
        let (peak, wake) = self.lock().end_task(task);
        self.notify(wake);
        peak
    }

    /// Takes memory for a block; `false` when there is not enough that is not in use by execution.
    pub fn acquire_storage(&self, bytes: u64) -> bool {
        self.lock().store(bytes)
    }

    pub fn release_storage(&self, bytes: u64) {
        let wake = self.lock().release_stored(bytes);
        self.notify(wake);
    }

    /// Takes memory for a block that stays until its owner drops it, out of a small part of the budget.
    pub fn acquire_pinned(&self, bytes: u64) -> bool {
        self.lock().pin(bytes)
    }

    /// Counts pinned memory that is needed whatever the budget: everybody else has less.
    pub fn pin_at_any_rate(&self, bytes: u64) {
        self.lock().pin_at_any_rate(bytes);
    }

    /// A pinned block is gone.
    pub fn release_pinned(&self, bytes: u64) {
        let wake = self.lock().release_pinned(bytes);
        self.notify(wake);
    }

    /// Counts a value that stays in memory, evicting cached blocks for it; how much of it is on the books. More than a half of the
    /// budget is never counted: tasks could not run any more.
    pub(crate) fn count_held(&self, bytes: u64) -> u64 {
        let Counted { bytes, evict } = self.lock().hold(bytes);
        if evict > 0 {
            self.evict(evict);
        }
        self.lock().made_room();
        bytes
    }

    pub(crate) fn release_held(&self, bytes: u64) {
        let wake = self.lock().release_held(bytes);
        self.notify(wake);
    }

    /// The task waits for another one from now on, until this is dropped: nobody is to wait for the memory
    /// it holds.
    pub fn blocked(self: &Arc<Self>, task: TaskId) -> Blocked {
        let is_holder = self.lock().blocked(task);
        Blocked { manager: self.clone(), task: is_holder.then_some(task) }
    }

    fn acquire_execution(&self, task: TaskId, bytes: u64) -> bool {
        let mut asked = Asked::new(task, bytes);
        let mut grants = self.lock();
        loop {
            match grants.ask(&asked) {
                Answer::Granted => return true,
                Answer::Refused => return false,
                Answer::Evict(lacking) => {
                    drop(grants);
                    asked.evicted(lacking, self.evict(lacking));
                    grants = self.lock();
                }
                Answer::Wait(most) => {
                    let started = Instant::now();
                    grants = self.wait(grants, most);
                    grants.waited(&mut asked, started.elapsed());
                }
            }
        }
    }

    fn wait<'a>(&self, grants: MutexGuard<'a, Grants>, most: Duration) -> MutexGuard<'a, Grants> {
        let waited = self.released.wait_timeout(grants, most);
        waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0
    }

    fn notify(&self, Wake(wake): Wake) {
        if wake {
            self.released.notify_all();
        }
    }

    fn evict(&self, bytes: u64) -> u64 {
        // Asked without the lock held: the evictor's own lock comes first where both are needed.
        let evictor = self.evictor.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        let freed =
            evictor.and_then(|weak| weak.upgrade()).map_or(0, |evictor| evictor.evict(bytes));
        let wake = self.lock().evicted(freed);
        self.notify(wake);
        freed
    }

    fn release_execution(&self, task: TaskId, bytes: u64) {
        let wake = self.lock().release(task, bytes);
        self.notify(wake);
    }

    fn lock(&self) -> MutexGuard<'_, Grants> {
        self.grants.lock().expect("nothing panics under the memory manager's lock")
    }
}

/// A task that waits for another one.
pub struct Blocked {
    manager: Arc<MemoryManager>,
    task: Option<TaskId>,
}

impl Drop for Blocked {
    fn drop(&mut self) {
        let Some(task) = self.task else { return };
        let wake = self.manager.lock().unblocked(task);
        self.manager.notify(wake);
    }
}

/// What one holder in a task has been granted; given back when it is dropped.
pub struct Reservation {
    manager: Arc<MemoryManager>,
    task: TaskId,
    bytes: u64,
}

impl Reservation {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Asks for so much in all; `false`: it is refused, and nothing changes. Asking for less gives
    /// the rest back.
    pub fn resize(&mut self, bytes: u64) -> bool {
        if bytes == self.bytes {
            return true;
        }
        if bytes < self.bytes {
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

/// The right to memory beyond a task's share, for what cannot be spilled. One task has it at a time; while it
/// waits for it, it should hold as little as it can.
pub struct LastResort {
    manager: Arc<MemoryManager>,
    task: TaskId,
}

/// What became of a last resort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resort {
    Granted,
    /// Not yet: others that run hold memory.
    NotYet,
    /// Nobody that runs holds memory: it is not there.
    Refused,
}

impl LastResort {
    /// The right, if it is free or becomes free within `most`.
    pub fn take(manager: &Arc<MemoryManager>, task: TaskId, most: Duration) -> Option<Self> {
        let mut grants = manager.lock();
        let mut taken = grants.take_last_resort(task);
        if !taken {
            manager.notify(grants.wait_for_last_resort(task));
            grants = manager.wait(grants, most);
            grants.waited_for_last_resort(task);
            taken = grants.take_last_resort(task);
        }
        taken.then(|| LastResort { manager: manager.clone(), task })
    }

    /// Asks for so much in all, whatever the task's share; waits for it no longer than `most`.
    pub fn resize(&mut self, held: &mut Reservation, bytes: u64, most: Duration) -> Resort {
        let manager = &self.manager;
        let mut asked = Asked::new(self.task, bytes.saturating_sub(held.bytes));
        loop {
            let mut grants = manager.lock();
            match grants.ask_last(manager.started.elapsed(), &asked) {
                Answer::Granted => {
                    held.bytes = held.bytes.max(bytes);
                    return Resort::Granted;
                }
                Answer::Refused => return Resort::Refused,
                Answer::Evict(lacking) => {
                    drop(grants);
                    manager.evict(lacking);
                    // Once: others may cache what makes room meanwhile.
                    asked.evicted(lacking, 0);
                }
                Answer::Wait(longest) => {
                    manager.wait(grants, most.min(longest)).waited_as_last_resort();
                    return Resort::NotYet;
                }
            }
        }
    }
}

impl Drop for LastResort {
    fn drop(&mut self) {
        let wake = self.manager.lock().end_last_resort(self.task);
        self.manager.notify(wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grants::PATIENCE;
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
    fn storage_borrows_and_is_evicted_down_to_its_floor() {
        let manager = Arc::new(MemoryManager::new(1000, 0.3));
        let blocks: Arc<dyn Evict> = Arc::new(Blocks(AtomicU64::new(900)));
        manager.set_evictor(Arc::downgrade(&blocks));
        assert!(manager.acquire_storage(900));
        assert!(!manager.acquire_storage(101));
        let mut held = manager.reserve(TaskId(1));
        assert!(held.resize(700), "storage is evicted");
        assert_eq!(manager.used(), (300, 700));
        assert!(!held.resize(701), "but not below its floor");
        assert!(!manager.acquire_storage(1));
    }

    #[test]
    fn a_task_within_its_guarantee_waits_for_others_that_hold_more_than_their_share() {
        let manager = Arc::new(MemoryManager::new(1000, 0.5));
        let mut first = manager.reserve(TaskId(1));
        assert!(first.resize(1000));
        let mut second = manager.reserve(TaskId(2));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| second.resize(250));
            while manager.lock().waiting() == 0 {
                std::thread::yield_now();
            }
            // Over its share now, it is refused, and spills.
            assert!(!first.resize(1001) && first.resize(0));
            assert!(waiting.join().unwrap());
        });
        assert!(first.resize(500));
        assert!(!second.resize(501), "beyond its share nobody waits");
    }

    #[test]
    fn patience_ends_and_nobody_waits_for_himself_or_for_those_who_wait() {
        let manager = Arc::new(MemoryManager::new(1000, 0.5));
        let mut first = manager.reserve(TaskId(1));
        let mut second = manager.reserve(TaskId(2));
        assert!(first.resize(500));
        assert!(manager.acquire_storage(500));
        assert!(!first.resize(501));
        let blocked = manager.blocked(TaskId(1));
        assert!(!second.resize(100), "at once");
        drop(blocked);
        let started = Instant::now();
        assert!(!second.resize(100) && !second.resize(100));
        assert!((PATIENCE..PATIENCE * 10).contains(&started.elapsed()), "{:?}", started.elapsed());
    }

    #[test]
    fn pinned_blocks_have_a_small_part_and_cost_no_cached_one_its_place() {
        let manager = Arc::new(MemoryManager::new(1000, 0.5));
        let blocks: Arc<dyn Evict> = Arc::new(Blocks(AtomicU64::new(500)));
        manager.set_evictor(Arc::downgrade(&blocks));
        assert!(manager.acquire_pinned(60) && manager.acquire_pinned(40));
        assert!(!manager.acquire_pinned(1), "a tenth is enough");
        assert!(manager.acquire_storage(500), "up to the floor");
        let mut held = manager.reserve(TaskId(1));
        assert!(held.resize(400), "tasks get all the rest");
        assert!(!held.resize(401));
        assert_eq!(manager.used(), (600, 400), "nothing was evicted for nothing");
        manager.release_pinned(100);
        assert!(held.resize(500));
        assert_eq!(manager.used(), (500, 500));
    }

    #[test]
    fn what_storage_keeps_is_no_part_of_the_shares() {
        let manager = Arc::new(MemoryManager::new(1000, 0.5));
        assert!(manager.acquire_storage(500));
        let (mut first, mut second) = (manager.reserve(TaskId(1)), manager.reserve(TaskId(2)));
        assert!(first.resize(250) && !first.resize(251));
        assert!(second.resize(250));
    }

    #[test]
    fn the_last_resort_is_one_tasks_at_a_time_whatever_its_share() {
        let manager = Arc::new(MemoryManager::new(1000, 0.5));
        let (mut first, mut second) = (manager.reserve(TaskId(1)), manager.reserve(TaskId(2)));
        assert!(second.resize(300) && !first.resize(501));
        let mut right = LastResort::take(&manager, TaskId(1), Duration::ZERO).unwrap();
        assert!(LastResort::take(&manager, TaskId(2), Duration::ZERO).is_none());
        let nested = LastResort::take(&manager, TaskId(1), Duration::ZERO);
        drop(nested.unwrap());
        assert_eq!(right.resize(&mut first, 700, Duration::ZERO), Resort::Granted);
        assert_eq!(right.resize(&mut first, 900, Duration::ZERO), Resort::NotYet);
        second.resize(0);
        assert_eq!(right.resize(&mut first, 900, Duration::ZERO), Resort::Granted);
        assert_eq!(right.resize(&mut first, 1001, Duration::ZERO), Resort::Refused);
        drop(right);
        assert!(LastResort::take(&manager, TaskId(2), Duration::ZERO).is_some());
        assert_eq!(manager.used(), (0, 900));
    }
}
