//! Who gets how much of one budget of memory: what tasks keep while they run (execution) and what is kept between tasks
//! (storage). A pure core: locks, waiting, clocks and the dropping of blocks are its caller's.
//!
//! ```text
//!   budget = pinned, held | cached up to its floor | cached beyond it, which execution may evict | execution | free
//!            ╰────── nobody can take this ────────────╯╰──────────────── attainable for execution ─────────────╯
//! ```
//!
//! With N tasks, each may have up to 1/N of what is attainable, and is sure of 1/2N of it: one that asks for no
//! more than that, while others hold more than their share from a time when they were fewer, waits for them, for
//! a bounded time (L12). Refused, it spills what it holds. What is granted and what is cached are never more than the
//! budget (S26).
//!
//! What cannot be spilled, because it belongs to one key, is asked for as a last resort: by one task at a time, whatever its
//! share, for as long as others that hold memory run. Nobody waits for ever: a task in its last resort reads only what it
//! spilled itself, so the others end without it, unless they wait for a block that it computes ([`Grants::blocked`]); then it
//! is refused.

use std::collections::BTreeMap;
use std::time::Duration;

use firesteel_types::TaskId;

use crate::mutant::{Mutant, Planted};

/// How long a task waits in all for others to give back what they hold beyond their share, where it can spill
/// instead.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// How long all who hold memory may wait for each other before one of them is refused.
pub const STANDSTILL: Duration = Duration::from_secs(10);
/// Map outputs in memory may take so much of the budget: 1 / 10.
const PINNED_PART: u64 = 10;
/// Broadcast values, code and results that wait may take so much of it: 1 / 2.
const HELD_PART: u64 = 2;

/// A task's question for more memory, asked until it is answered with yes or no.
#[derive(Clone, Debug)]
pub struct Asked {
    task: TaskId,
    bytes: u64,
    /// Whether blocks can still be dropped for it.
    evicts: bool,
}

impl Asked {
    /// So many bytes more.
    pub fn new(task: TaskId, bytes: u64) -> Self {
        Asked { task, bytes, evicts: true }
    }

    pub fn task(&self) -> TaskId {
        self.task
    }

    /// Blocks of so many bytes were dropped for it, where so many were lacking.
    pub fn evicted(&mut self, lacking: u64, freed: u64) {
        self.evicts = freed >= lacking;
    }
}

/// What a task is told that asks for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Granted,
    /// There is enough once blocks of so many bytes were dropped: ask again then.
    Evict(u64),
    /// Others hold it: ask again when something was given back ([`Wake`]), at the latest after this.
    Wait(Duration),
    /// No, and nothing has changed.
    Refused,
}

/// Something was given back: whether those who wait have to ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Wake(pub bool);

/// What a value that is there in any case takes on the books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// So much of it is counted.
    pub bytes: u64,
    /// Blocks of so many bytes have to go for it.
    pub evict: u64,
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

/// What is kept between tasks.
#[derive(Debug, Default)]
struct Kept {
    /// Blocks, pinned ones among them.
    bytes: u64,
    /// Blocks that nobody can evict.
    pinned: u64,
    /// Other values that stay, which are among the blocks' bytes too.
    held: u64,
}

impl Kept {
    fn cached(&self) -> u64 {
        self.bytes - (self.pinned + self.held).min(self.bytes)
    }
}

/// The task in its last resort.
#[derive(Debug)]
struct Resorting {
    task: TaskId,
    /// In how many places.
    depth: u32,
    /// Since when nobody runs who could give something back.
    standstill: Option<Duration>,
}

/// The books, and the rules by which they change.
#[derive(Debug)]
pub struct Grants {
    budget: u64,
    /// What storage keeps even if execution wants it.
    storage_floor: u64,
    kept: Kept,
    execution: u64,
    tasks: BTreeMap<TaskId, Holder>,
    last_resort: Option<Resorting>,
    /// How many wait for something to be given back.
    waiting: usize,
    peak: u64,
    planted: Planted,
}

impl Grants {
    /// A budget in bytes, of which storage keeps `storage_floor` against execution.
    pub fn new(budget: u64, storage_floor: u64, planted: Planted) -> Self {
        Grants {
            budget,
            storage_floor,
            kept: Kept::default(),
            execution: 0,
            tasks: BTreeMap::new(),
            last_resort: None,
            waiting: 0,
            peak: 0,
            planted,
        }
    }

    /// What is granted now, to storage and to execution.
    pub fn used(&self) -> (u64, u64) {
        (self.kept.bytes, self.execution)
    }

    /// The most that was ever granted at once.
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// What the task holds.
    pub fn granted(&self, task: TaskId) -> u64 {
        self.tasks.get(&task).map_or(0, |holder| holder.bytes)
    }

    /// How many tasks wait for memory.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Bytes that neither tasks nor blocks hold.
    pub fn free(&self) -> u64 {
        self.budget.saturating_sub(self.taken())
    }

    fn taken(&self) -> u64 {
        let execution = if self.is(Mutant::GrantsTwice) { 0 } else { self.execution };
        self.kept.bytes + execution
    }

    /// What each of the tasks that run may have at most.
    pub fn share(&self) -> u64 {
        let kept = self.kept.pinned + self.kept.held + self.kept.cached().min(self.storage_floor);
        self.budget.saturating_sub(kept) / self.tasks.len().max(1) as u64
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.planted.is(mutant)
    }

    /// A task begins: it has its share from now on.
    pub fn begin_task(&mut self, task: TaskId) {
        self.holder(task);
    }

    fn holder(&mut self, task: TaskId) -> &mut Holder {
        let new = Holder { bytes: 0, peak: 0, patience: PATIENCE, blocked: 0 };
        self.tasks.entry(task).or_insert(new)
    }

    /// The task is over: its share is the others' again, and what it forgot to give back. The most that it held at once.
    pub fn end_task(&mut self, task: TaskId) -> (u64, Wake) {
        let left = self.tasks.remove(&task);
        let (bytes, peak) = left.map_or((0, 0), |left| (left.bytes, left.peak));
        self.execution -= bytes;
        if !self.is(Mutant::KeepsLastResorts) {
            self.last_resort.take_if(|resorting| resorting.task == task);
        }
        (peak, self.wake())
    }

    /// Asks for memory for a task. After [`Answer::Wait`] comes [`Grants::waited`].
    pub fn ask(&mut self, asked: &Asked) -> Answer {
        let Asked { task, bytes, evicts } = *asked;
        let (share, wanted) = (self.share(), self.granted(task) + bytes);
        if wanted > share && !self.is(Mutant::GrantsBeyondShares) {
            return Answer::Refused;
        }
        match self.find(bytes, evicts) {
            Found::Free => self.grant(task, bytes),
            Found::Evictable(lacking) => Answer::Evict(lacking),
            Found::Nowhere if wanted <= share / 2 => self.wait_for_others(task),
            Found::Nowhere => Answer::Refused,
        }
    }

    fn find(&self, bytes: u64, evicts: bool) -> Found {
        if bytes <= self.free() {
            return Found::Free;
        }
        let lacking = self.taken() + bytes - self.budget;
        let floor = if self.is(Mutant::EvictsBelowTheFloor) { 0 } else { self.storage_floor };
        match lacking <= self.kept.cached().saturating_sub(floor) {
            true if evicts => Found::Evictable(lacking),
            _ => Found::Nowhere,
        }
    }

    fn grant(&mut self, task: TaskId, bytes: u64) -> Answer {
        let holder = self.holder(task);
        holder.bytes += bytes;
        holder.peak = holder.peak.max(holder.bytes);
        self.execution += bytes;
        self.note_peak();
        Answer::Granted
    }

    fn note_peak(&mut self) {
        self.peak = self.peak.max(self.kept.bytes + self.execution);
    }

    /// A task that is sure of what it asks for waits, unless it has waited long enough, or would wait for nobody.
    fn wait_for_others(&mut self, task: TaskId) -> Answer {
        let patience = self.tasks.get(&task).map_or(Duration::ZERO, |holder| holder.patience);
        if patience.is_zero() || !self.others_run(task) || self.is(Mutant::NeverWaits) {
            return Answer::Refused;
        }
        self.waiting += 1;
        Answer::Wait(patience)
    }

    /// A task that was told to wait has done so, for so long. It asks again.
    pub fn waited(&mut self, asked: &mut Asked, waited: Duration) {
        self.waiting -= 1;
        asked.evicts = true;
        let waits_again = self.is(Mutant::WaitsAgain);
        if let Some(holder) = self.tasks.get_mut(&asked.task).filter(|_| !waits_again) {
            holder.patience = holder.patience.saturating_sub(waited);
        }
    }

    /// Whether others hold memory, and some of them do not wait for anybody.
    pub fn others_run(&self, task: TaskId) -> bool {
        let mut others = self.tasks.iter().filter(|(id, _)| **id != task);
        others.any(|(_, holder)| holder.bytes > 0 && holder.blocked == 0)
    }

    /// A task gives something back. What it does not have, because it is over, it cannot.
    pub fn release(&mut self, task: TaskId, bytes: u64) -> Wake {
        let Some(holder) = self.tasks.get_mut(&task) else { return Wake(false) };
        let given_back = bytes.min(holder.bytes);
        holder.bytes -= given_back;
        self.execution -= given_back;
        self.wake()
    }

    fn wake(&self) -> Wake {
        Wake(self.waiting > 0 && !self.is(Mutant::NeverWakes))
    }

    /// The task waits for another one from now on: nobody is to wait for what it holds. `false`: it holds nothing.
    pub fn blocked(&mut self, task: TaskId) -> bool {
        self.tasks.get_mut(&task).map(|holder| holder.blocked += 1).is_some()
    }

    /// It does not wait any more.
    pub fn unblocked(&mut self, task: TaskId) -> Wake {
        if let Some(holder) = self.tasks.get_mut(&task) {
            holder.blocked = holder.blocked.saturating_sub(1);
        }
        self.wake()
    }

    /// Panics if the books do not balance (S26).
    pub fn assert_invariants(&self) {
        let granted: u64 = self.tasks.values().map(|holder| holder.bytes).sum();
        assert!(
            granted == self.execution,
            "S26: tasks hold {granted} bytes, {} are granted to execution",
            self.execution
        );
        let cached = self.kept.cached();
        assert!(
            granted + cached <= self.budget,
            "S26: {granted} bytes are granted and {cached} cached, of {}",
            self.budget
        );
    }
}

/// Storage.
impl Grants {
    /// Takes memory for a block; `false` when there is not enough that is not in use.
    pub fn store(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.free();
        if fits {
            self.kept.bytes += bytes;
            self.note_peak();
        }
        fits
    }

    /// A block is gone.
    pub fn release_stored(&mut self, bytes: u64) -> Wake {
        self.kept.bytes -= bytes;
        self.wake()
    }

    /// Cached blocks of so many bytes were dropped.
    pub fn evicted(&mut self, bytes: u64) -> Wake {
        self.kept.bytes -= bytes.min(self.kept.cached());
        // Nobody is woken for nothing: two who find nothing to evict would wake each other for ever.
        Wake(bytes > 0 && self.wake().0)
    }

    /// Takes memory for a block that stays until its owner drops it, out of a small part of the budget.
    pub fn pin(&mut self, bytes: u64) -> bool {
        let few = self.kept.pinned + bytes <= self.budget / PINNED_PART;
        let fits = (few || self.is(Mutant::PinsWithoutLimit)) && bytes <= self.free();
        if fits {
            self.pin_at_any_rate(bytes);
        }
        fits
    }

    /// Counts pinned memory that is needed whatever the budget: everybody else has less.
    pub fn pin_at_any_rate(&mut self, bytes: u64) {
        self.kept.pinned += bytes;
        self.kept.bytes += bytes;
        self.note_peak();
    }

    /// A pinned block is gone.
    pub fn release_pinned(&mut self, bytes: u64) -> Wake {
        self.kept.pinned -= bytes;
        self.kept.bytes -= bytes;
        self.wake()
    }

    /// Counts a value that stays in memory. More than a half of the budget is never counted: tasks could not run any more.
    pub fn hold(&mut self, bytes: u64) -> Counted {
        let bytes = bytes.min((self.budget / HELD_PART).saturating_sub(self.kept.held));
        let evict = bytes.saturating_sub(self.free()).min(self.kept.cached());
        self.kept.held += bytes;
        self.kept.bytes += bytes;
        Counted { bytes, evict }
    }

    /// Blocks made room for what is held, as far as they could: now it counts for the peak.
    pub fn made_room(&mut self) {
        self.note_peak();
    }

    /// What was held is gone.
    pub fn release_held(&mut self, bytes: u64) -> Wake {
        self.kept.held -= bytes;
        self.kept.bytes -= bytes;
        self.wake()
    }
}

/// Last resorts.
impl Grants {
    /// The right to a last resort, if no other task has it.
    pub fn take_last_resort(&mut self, task: TaskId) -> bool {
        match &mut self.last_resort {
            Some(resorting) if resorting.task != task => false,
            Some(resorting) => {
                resorting.depth += 1;
                true
            }
            free => {
                *free = Some(Resorting { task, depth: 1, standstill: None });
                true
            }
        }
    }

    /// Another task has it: this one waits for that, and nobody is to wait for what it holds meanwhile.
    pub fn wait_for_last_resort(&mut self, task: TaskId) -> Wake {
        self.holder(task).blocked += 1;
        let wake = self.wake();
        self.waiting += 1;
        wake
    }

    /// The wait of [`Grants::wait_for_last_resort`] is over.
    pub fn waited_for_last_resort(&mut self, task: TaskId) {
        self.waiting -= 1;
        if let Some(holder) = self.tasks.get_mut(&task) {
            holder.blocked = holder.blocked.saturating_sub(1);
        }
    }

    /// The task needs its last resort no more.
    pub fn end_last_resort(&mut self, task: TaskId) -> Wake {
        if let Some(resorting) = self.last_resort.as_mut().filter(|it| it.task == task) {
            resorting.depth -= 1;
        }
        self.last_resort.take_if(|resorting| resorting.depth == 0);
        self.wake()
    }

    /// Asks as the one that is in its last resort: whatever its share. `now` is the time since anything. After
    /// [`Answer::Wait`] comes [`Grants::waited_as_last_resort`].
    pub fn ask_last(&mut self, now: Duration, asked: &Asked) -> Answer {
        let Asked { task, bytes, evicts } = *asked;
        match self.find(bytes, evicts) {
            Found::Free => {
                self.set_standstill(task, None);
                self.grant(task, bytes)
            }
            Found::Evictable(lacking) => Answer::Evict(lacking),
            Found::Nowhere => self.wait_as_last_resort(now, task),
        }
    }

    fn wait_as_last_resort(&mut self, now: Duration, task: TaskId) -> Answer {
        let others = self.tasks.iter().any(|(id, holder)| *id != task && holder.bytes > 0);
        let since = match (&self.last_resort, self.others_run(task)) {
            (_, true) => None,
            (Some(Resorting { standstill: Some(since), .. }), false) => Some(*since),
            _ => Some(now),
        };
        self.set_standstill(task, since);
        let stands = since.is_some_and(|since| !others || now.saturating_sub(since) >= STANDSTILL);
        if stands {
            return Answer::Refused;
        }
        self.waiting += 1;
        Answer::Wait(STANDSTILL)
    }

    /// It has waited, which costs it no patience.
    pub fn waited_as_last_resort(&mut self) {
        self.waiting -= 1;
    }

    fn set_standstill(&mut self, task: TaskId, since: Option<Duration>) {
        if let Some(resorting) = self.last_resort.as_mut().filter(|it| it.task == task) {
            resorting.standstill = since;
        }
    }
}

/// Where so many bytes are.
enum Found {
    Free,
    /// Once blocks of so many bytes are gone.
    Evictable(u64),
    Nowhere,
}

#[cfg(test)]
mod tests;
