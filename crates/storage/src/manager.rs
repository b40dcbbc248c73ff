//! One budget of memory for everything that tasks keep while they run (execution) and for what is
//! kept between tasks (storage).
//!
//! ```text
//!   budget = pinned, held | cached up to its floor | cached beyond it, which execution may evict | execution | free
//!            ╰────── nobody can take this ────────────╯╰──────────────── attainable for execution ─────────────╯
//! ```
//!
//! With N tasks, each may have up to 1/N of what is attainable, and is sure of 1/2N of it: one that asks for no
//! more than that, while others hold more than their share from a time when they were fewer, waits for them, for
//! a bounded time. Refused, it spills what it holds.
//!
//! What cannot be spilled, because it belongs to one key, is asked for as a last resort ([`LastResort`]): by one
//! task at a time, whatever its share, for as long as others that hold memory run. Nobody waits for ever: a
//! task in its last resort reads only what it spilled itself, so the others end without it, unless they wait
//! for a block that it computes ([`MemoryManager::blocked`]); then it is refused.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use firesteel_types::TaskId;

/// How long a task waits in all for others to give back what they hold beyond their share, where it can spill
/// instead.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long all who hold memory may wait for each other before one of them is refused.
const STANDSTILL: Duration = Duration::from_secs(10);
/// Map outputs in memory may take so much of the budget: 1 / 10.
const PINNED_PART: u64 = 10;
/// Broadcast values, code and results that wait may take so much of it: 1 / 2.
const HELD_PART: u64 = 2;

/// What is kept between tasks and can be dropped.
pub trait Evict: Send + Sync {
    /// Drops blocks of at least `bytes` in all, if there are so many; how many bytes it dropped. The
    /// caller takes them off the books.
    fn evict(&self, bytes: u64) -> u64;
}

/// What a task holds.
#[derive(Debug)]
struct Holder {
    bytes: u64,
    peak: u64,
    patience: Duration,
    /// In how many ways it waits for other tasks.
    blocked: u32,
}

/// The books.
#[derive(Debug, Default)]
struct Pools {
    /// Blocks, pinned ones among them.
    storage: u64,
    /// Blocks that nobody can evict.
    pinned: u64,
    /// Other values that stay, which are among the blocks' bytes too (`HeldBytes`).
    held: u64,
    execution: u64,
    tasks: BTreeMap<TaskId, Holder>,
    /// The task that is in its last resort, and in how many places.
    last_resort: Option<(TaskId, u32)>,
    waiting: usize,
    /// How often something was given back.
    releases: u64,
    peak: u64,
}

impl Pools {
    fn used(&self) -> u64 {
        self.storage + self.execution
    }

    fn cached(&self) -> u64 {
        self.storage - (self.pinned + self.held).min(self.storage)
    }

    fn granted(&self, task: TaskId) -> u64 {
        self.tasks.get(&task).map_or(0, |holder| holder.bytes)
    }

    fn grant(&mut self, task: TaskId, bytes: u64) {
        let holder = self.holder(task);
        holder.bytes += bytes;
        holder.peak = holder.peak.max(holder.bytes);
        self.execution += bytes;
        self.peak = self.peak.max(self.used());
    }

    fn holder(&mut self, task: TaskId) -> &mut Holder {
        let new = Holder { bytes: 0, peak: 0, patience: PATIENCE, blocked: 0 };
        self.tasks.entry(task).or_insert(new)
    }

    /// Whether others hold memory, and some of them do not wait for anybody.
    fn others_run(&self, task: TaskId) -> bool {
        let others = self.tasks.iter().filter(|(id, _)| **id != task);
        others.into_iter().any(|(_, holder)| holder.bytes > 0 && holder.blocked == 0)
    }
}

/// Grants memory to tasks and to storage out of one budget.
pub struct MemoryManager {
    budget: u64,
    /// What storage keeps even if execution wants it.
    storage_floor: u64,
    pools: Mutex<Pools>,
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
            pools: Mutex::default(),
            released: Condvar::new(),
            evictor: Mutex::default(),
        }
    }

    /// Whom to ask to evict cached blocks.
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
        self.lock().holder(task);
        Reservation { manager: self.clone(), task, bytes: 0 }
    }

    /// The task is over: its share is the others' again. The most that it held at once.
    pub fn end_task(&self, task: TaskId) -> u64 {
        let mut pools = self.lock();
        let left = pools.tasks.remove(&task);
        pools.execution -= left.as_ref().map_or(0, |left| left.bytes);
        pools.last_resort = pools.last_resort.filter(|(other, _)| *other != task);
        self.notify(&mut pools);
        left.map_or(0, |left| left.peak)
    }

    /// Takes memory for a block; `false` when there is not enough that is not in use by execution.
    pub fn acquire_storage(&self, bytes: u64) -> bool {
        let mut pools = self.lock();
        if bytes > self.free(&pools) {
            return false;
        }
        pools.storage += bytes;
        pools.peak = pools.peak.max(pools.used());
        true
    }

    pub fn release_storage(&self, bytes: u64) {
        let mut pools = self.lock();
        pools.storage -= bytes;
        self.notify(&mut pools);
    }

    /// Takes memory for a block that stays until its owner drops it, out of a small part of the budget.
    pub fn acquire_pinned(&self, bytes: u64) -> bool {
        let mut pools = self.lock();
        if pools.pinned + bytes > self.budget / PINNED_PART || bytes > self.free(&pools) {
            return false;
        }
        pools.pinned += bytes;
        pools.storage += bytes;
        pools.peak = pools.peak.max(pools.used());
        true
    }

    /// Counts pinned memory that is needed whatever the budget: everybody else has less.
    pub fn pin_at_any_rate(&self, bytes: u64) {
        let mut pools = self.lock();
        pools.pinned += bytes;
        pools.storage += bytes;
        pools.peak = pools.peak.max(pools.used());
    }

    /// A pinned block is gone.
    pub fn release_pinned(&self, bytes: u64) {
        let mut pools = self.lock();
        pools.pinned -= bytes;
        pools.storage -= bytes;
        self.notify(&mut pools);
    }

    /// Counts a value that stays in memory, evicting cached blocks for it; how much of it is on the books. More than a half of the
    /// budget is never counted: tasks could not run any more.
    pub(crate) fn count_held(&self, bytes: u64) -> u64 {
        let (lacking, most) = {
            let pools = self.lock();
            let most = bytes.min((self.budget / HELD_PART).saturating_sub(pools.held));
            (most.saturating_sub(self.free(&pools)).min(pools.cached()), most)
        };
        if lacking > 0 {
            self.evict(lacking);
        }
        let mut pools = self.lock();
        pools.held += most;
        pools.storage += most;
        pools.peak = pools.peak.max(pools.used());
        most
    }

    pub(crate) fn release_held(&self, bytes: u64) {
        let mut pools = self.lock();
        pools.held -= bytes;
        pools.storage -= bytes;
        self.notify(&mut pools);
    }

    /// What each of the tasks that run may have at most.
    pub fn share(&self) -> u64 {
        self.share_of(&self.lock())
    }

    fn share_of(&self, pools: &Pools) -> u64 {
        let kept = pools.pinned + pools.held + pools.cached().min(self.storage_floor);
        (self.budget - kept.min(self.budget)) / pools.tasks.len().max(1) as u64
    }

    /// The task waits for another one from now on, until this is dropped: nobody is to wait for the memory
    /// it holds.
    pub fn blocked(self: &Arc<Self>, task: TaskId) -> Blocked {
        let mut pools = self.lock();
        let is_holder = pools.tasks.get_mut(&task).map(|holder| holder.blocked += 1).is_some();
        Blocked { manager: self.clone(), task: is_holder.then_some(task) }
    }

    fn free(&self, pools: &Pools) -> u64 {
        self.budget - pools.used().min(self.budget)
    }

    fn acquire_execution(&self, task: TaskId, bytes: u64) -> bool {
        let mut evicted = true;
        loop {
            match self.try_execution(task, bytes, false) {
                Grant::Granted => return true,
                Grant::Evict(lacking) if evicted => evicted = self.evict(lacking) >= lacking,
                Grant::Short(releases) if self.wait_patiently(task, releases) => evicted = true,
                Grant::Evict(_) | Grant::Short(_) | Grant::OverShare => return false,
            }
        }
    }

    /// `at_any_rate`: whatever its share.
    fn try_execution(&self, task: TaskId, bytes: u64, at_any_rate: bool) -> Grant {
        let mut pools = self.lock();
        let share = self.share_of(&pools);
        let wanted = pools.granted(task) + bytes;
        if wanted > share && !at_any_rate {
            return Grant::OverShare;
        }
        let free = self.free(&pools);
        if bytes <= free {
            pools.grant(task, bytes);
            return Grant::Granted;
        }
        let evictable = pools.cached().saturating_sub(self.storage_floor);
        match bytes - free {
            lacking if lacking <= evictable => Grant::Evict(lacking),
            _ if wanted <= share / 2 => Grant::Short(pools.releases),
            _ => Grant::OverShare,
        }
    }

    /// Waits until something is given back; `false`: the task has waited long enough, or for nobody.
    fn wait_patiently(&self, task: TaskId, releases: u64) -> bool {
        let pools = self.lock();
        if pools.releases != releases {
            return true;
        }
        let patience = pools.tasks.get(&task).map_or(Duration::ZERO, |holder| holder.patience);
        if patience.is_zero() || !pools.others_run(task) {
            return false;
        }
        let started = Instant::now();
        let mut pools = self.wait(pools, patience);
        pools.holder(task).patience = patience.saturating_sub(started.elapsed());
        true
    }

    fn wait<'a>(&self, mut pools: MutexGuard<'a, Pools>, most: Duration) -> MutexGuard<'a, Pools> {
        pools.waiting += 1;
        let waited = self.released.wait_timeout(pools, most);
        let (mut pools, _) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        pools.waiting -= 1;
        pools
    }

    fn notify(&self, pools: &mut Pools) {
        pools.releases += 1;
        if pools.waiting > 0 {
            self.released.notify_all();
        }
    }

    fn evict(&self, bytes: u64) -> u64 {
        // Asked without the lock held: the evictor's own lock comes first where both are needed.
        let evictor = self.evictor.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        let freed =
            evictor.and_then(|weak| weak.upgrade()).map_or(0, |evictor| evictor.evict(bytes));
        let mut pools = self.lock();
        pools.storage -= freed.min(pools.cached());
        self.notify(&mut pools);
        freed
    }

    fn release_execution(&self, task: TaskId, bytes: u64) {
        let mut pools = self.lock();
        let Some(holder) = pools.tasks.get_mut(&task) else { return };
        let given_back = bytes.min(holder.bytes);
        holder.bytes -= given_back;
        pools.execution -= given_back;
        self.notify(&mut pools);
    }

    fn lock(&self) -> MutexGuard<'_, Pools> {
        self.pools.lock().expect("nothing panics under the memory manager's lock")
    }
}

enum Grant {
    Granted,
    /// There is enough once so much was evicted.
    Evict(u64),
    /// It is sure of so much, but others hold it; how often something was given back before.
    Short(u64),
    OverShare,
}

/// A task that waits for another one.
pub struct Blocked {
    manager: Arc<MemoryManager>,
    task: Option<TaskId>,
}

impl Drop for Blocked {
    fn drop(&mut self) {
        let Some(task) = self.task else { return };
        let mut pools = self.manager.lock();
        if let Some(holder) = pools.tasks.get_mut(&task) {
            holder.blocked -= 1;
        }
        self.manager.notify(&mut pools);
    }
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
    /// Since when nobody runs who could give something back.
    standstill: Option<Instant>,
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
        let mut pools = manager.lock();
        if pools.last_resort.is_some_and(|(other, _)| other != task) {
            pools.holder(task).blocked += 1;
            manager.notify(&mut pools);
            pools = manager.wait(pools, most);
            if let Some(holder) = pools.tasks.get_mut(&task) {
                holder.blocked -= 1;
            }
        }
        let depth = match pools.last_resort {
            Some((other, _)) if other != task => return None,
            Some((_, depth)) => depth + 1,
            None => 1,
        };
        pools.last_resort = Some((task, depth));
        drop(pools);
        Some(LastResort { manager: manager.clone(), task, standstill: None })
    }

    /// Asks for so much in all, whatever the task's share; waits for it no longer than `most`.
    pub fn resize(&mut self, held: &mut Reservation, bytes: u64, most: Duration) -> Resort {
        let more = bytes.saturating_sub(held.bytes);
        let mut grant = self.manager.try_execution(self.task, more, true);
        if let Grant::Evict(lacking) = grant {
            self.manager.evict(lacking);
            grant = self.manager.try_execution(self.task, more, true);
        }
        if let Grant::Granted = grant {
            held.bytes += more;
            self.standstill = None;
            return Resort::Granted;
        }
        let pools = self.manager.lock();
        match pools.others_run(self.task) {
            true => self.standstill = None,
            false => {
                let others = pools.tasks.iter().any(|(id, it)| *id != self.task && it.bytes > 0);
                let since = *self.standstill.get_or_insert_with(Instant::now);
                if !others || since.elapsed() >= STANDSTILL {
                    return Resort::Refused;
                }
            }
        }
        drop(self.manager.wait(pools, most));
        Resort::NotYet
    }
}

impl Drop for LastResort {
    fn drop(&mut self) {
        let mut pools = self.manager.lock();
        pools.last_resort = match pools.last_resort {
            Some((task, depth)) if task == self.task => (depth > 1).then_some((task, depth - 1)),
            other => other,
        };
        self.manager.notify(&mut pools);
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
            while manager.lock().waiting == 0 {
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
