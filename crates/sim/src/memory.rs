//! An executor's memory: its tasks ask for it, wait for each other, spill, and give it back, or end with it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use firesteel_storage::grants::{Answer, Asked, Grants, PATIENCE, Wake};
use firesteel_types::{ShuffleId, TaskId};

use crate::PlantedMemory;
use crate::world::{Body, Event, ProcId, World};

const BUDGET: u64 = 1000;
/// What cached partitions keep against tasks.
const FLOOR: u64 = 300;
/// What a cached partition takes.
const PARTITION: u64 = 60;
/// What a map output in memory takes.
const OUTPUT: u64 = 40;
/// What map outputs leave to others: all but 1 / 10.
const UNPINNED: u64 = BUDGET - BUDGET / 10;
/// How long a task in its last resort waits before it looks again.
const POLL_MS: u64 = 50;

/// A question that waits for its answer.
#[derive(Debug)]
struct Waiting {
    asked: Asked,
    bytes: u64,
    /// In its last resort.
    last: bool,
    since: u64,
    until: u64,
}

/// The books of an executor, and what they are held against.
pub(crate) struct Memory {
    grants: Grants,
    granted: BTreeMap<TaskId, u64>,
    waiting: BTreeMap<TaskId, Waiting>,
    /// How long tasks have waited within their guarantee.
    waited: BTreeMap<TaskId, u64>,
    last_resort: Option<TaskId>,
    /// Bytes of cached partitions.
    cached: u64,
    /// Map outputs that lie in memory.
    outputs: BTreeSet<Output>,
}

/// A map output, by shuffle, map partition and the attempt that wrote it.
type Output = (ShuffleId, u32, TaskId);

impl Memory {
    pub(crate) fn new(planted: PlantedMemory) -> Self {
        Memory {
            grants: Grants::new(BUDGET, FLOOR, planted),
            granted: BTreeMap::new(),
            waiting: BTreeMap::new(),
            waited: BTreeMap::new(),
            last_resort: None,
            cached: 0,
            outputs: BTreeSet::new(),
        }
    }

    /// A map output stays in memory, if it may; else it is written to disk.
    pub(crate) fn keep_output(&mut self, output: Output) {
        if self.grants.pin(OUTPUT) {
            self.outputs.insert(output);
        }
    }

    /// Outputs that are there no more give back what they took.
    fn drop_outputs(&mut self, is_there: impl Fn(&Output) -> bool) -> Wake {
        let before = self.outputs.len();
        self.outputs.retain(is_there);
        match before - self.outputs.len() {
            0 => Wake(false),
            gone => self.grants.release_pinned(gone as u64 * OUTPUT),
        }
    }

    /// What each task is sure to have, if it waits for it, and the most that it may have: by who runs, and not by the books.
    fn bounds(&self) -> (u64, u64) {
        let tasks = self.granted.len().max(1) as u64;
        ((UNPINNED - FLOOR) / tasks, BUDGET / tasks)
    }

    fn begin(&mut self, task: TaskId) {
        self.grants.begin_task(task);
        self.granted.insert(task, 0);
    }

    /// The task is over; what it held is there again.
    fn end(&mut self, task: TaskId) -> Wake {
        self.granted.remove(&task);
        self.waited.remove(&task);
        self.last_resort.take_if(|other| *other == task);
        self.grants.end_task(task).1
    }

    fn spill(&mut self, task: TaskId) -> Wake {
        self.granted.insert(task, 0);
        self.grants.release(task, BUDGET)
    }

    /// A question is answered, or waits. Tells what it needs first: so many bytes of blocks dropped.
    fn ask(&mut self, now: u64, mut waiting: Waiting) -> Result<Asking, String> {
        let (task, bytes) = (waiting.asked.task(), waiting.bytes);
        let (share, free) = (self.grants.share(), self.grants.free());
        let (least, most) = self.bounds();
        if share < least {
            return Err(format!("L12: each task may have {share} bytes, and is to have {least}"));
        }
        let waited = self.waited.get(&task).copied().unwrap_or(0);
        let others = self.grants.others_run(task);
        let answer = match waiting.last {
            true => self.grants.ask_last(Duration::from_millis(now), &waiting.asked),
            false => self.grants.ask(&waiting.asked),
        };
        let granted = self.granted.get_mut(&task).ok_or("S26: a task asks that is over")?;
        match answer {
            Answer::Granted => {
                *granted += bytes;
                if *granted > most && !waiting.last {
                    return Err(format!(
                        "L12: task {task} gets {granted} bytes, which others need"
                    ));
                }
                Ok(Asking::Granted)
            }
            Answer::Evict(lacking) if lacking > self.cached.saturating_sub(FLOOR) => {
                let cached = self.cached;
                Err(format!("S26: {lacking} bytes of {cached} cached ones are to go for a task"))
            }
            Answer::Evict(lacking) => Ok(Asking::Evict(lacking, waiting)),
            Answer::Wait(_) if !waiting.last && waited >= PATIENCE.as_millis() as u64 => {
                Err(format!("L12: task {task} is to wait again, after {waited} ms"))
            }
            Answer::Wait(most) => {
                let most = if waiting.last { POLL_MS } else { most.as_millis() as u64 };
                (waiting.since, waiting.until) = (now, now + most);
                let until = waiting.until;
                self.waiting.insert(task, waiting);
                Ok(Asking::Waits(until))
            }
            Answer::Refused => {
                let sure = !waiting.last && *granted + bytes <= share / 2;
                if sure && others && waited < PATIENCE.as_millis() as u64 {
                    return Err(format!(
                        "L12: task {task} is refused {bytes} bytes of its {share} after {waited} ms, {free} are free"
                    ));
                }
                Ok(Asking::Refused)
            }
        }
    }

    /// A question that waited is asked again.
    fn waited(&mut self, now: u64, mut waiting: Waiting) -> Waiting {
        let task = waiting.asked.task();
        if waiting.last {
            self.grants.waited_as_last_resort();
        } else {
            let waited = now - waiting.since;
            *self.waited.entry(task).or_default() += waited;
            self.grants.waited(&mut waiting.asked, Duration::from_millis(waited));
        }
        waiting
    }

    /// S26: no grant is lost, and there are no more than there is memory. L12: nobody waits for what is free.
    fn check(&self) -> Result<(), String> {
        self.grants.assert_invariants();
        let (kept, execution) = self.grants.used();
        let granted: u64 = self.granted.values().sum();
        let blocks = self.cached + self.outputs.len() as u64 * OUTPUT;
        if granted != execution || kept != blocks {
            return Err(format!(
                "S26: tasks hold {granted} bytes and blocks {blocks}, the books say {execution} and {kept}"
            ));
        }
        for (task, waiting) in &self.waiting {
            let fits = waiting.last || self.granted[task] + waiting.bytes <= self.grants.share();
            if fits && waiting.bytes <= self.grants.free() {
                return Err(format!("L12: task {task} waits for memory that is free"));
            }
        }
        Ok(())
    }
}

/// What became of a question.
enum Asking {
    Granted,
    Evict(u64, Waiting),
    Waits(u64),
    Refused,
}

impl World {
    fn memory(&mut self, proc: ProcId) -> Option<&mut Memory> {
        match &mut self.procs[proc].body {
            Some(Body::Executor(node)) => Some(&mut node.memory),
            _ => None,
        }
    }

    /// A task begins, and will ask for memory now and then.
    pub(crate) fn begin_with_memory(&mut self, proc: ProcId, task: TaskId, ends: u64) {
        let Some(Body::Executor(node)) = &mut self.procs[proc].body else { return };
        node.memory.begin(task);
        let driver = node.driver;
        let Some(Body::Driver(node)) = &self.procs[driver].body else { return };
        if self.plan.apps[node.app].hungry {
            for _ in 0..self.aside.u8(1..4) {
                let at = self.now + self.aside.u64(..ends - self.now);
                self.push(at, Event::TaskAsks { executor: proc, task });
            }
        }
    }

    /// A task asks for more, or as its last resort; what it does not get it makes up for by spilling.
    pub(crate) fn ask_for_memory(&mut self, proc: ProcId, task: TaskId) -> Result<(), String> {
        let (now, drawn, last) = (self.now, self.aside.u64(1..BUDGET), self.aside.u8(..8) == 0);
        let Some(memory) = self.memory(proc) else { return Ok(()) };
        if !memory.granted.contains_key(&task) || memory.waiting.contains_key(&task) {
            return Ok(());
        }
        if last && !self.takes_last_resort(proc, task)? {
            return Ok(());
        }
        let Some(memory) = self.memory(proc) else { return Ok(()) };
        let modest = drawn % (memory.grants.share() / 2).max(1);
        let bytes = if drawn % 3 == 0 || last { drawn } else { modest };
        let asked = Asked::new(task, bytes);
        self.ask_memory(proc, Waiting { asked, bytes, last, since: now, until: now })?;
        self.check_memory(proc)
    }

    /// L12: the right to a last resort is there for the task that asks first after it is free.
    fn takes_last_resort(&mut self, proc: ProcId, task: TaskId) -> Result<bool, String> {
        let Some(memory) = self.memory(proc) else { return Ok(false) };
        let taken = memory.grants.take_last_resort(task);
        if !taken && memory.last_resort.is_none() {
            return Err(format!("L12: task {task} cannot have the last resort that nobody has"));
        }
        if !taken {
            self.push(self.now + POLL_MS, Event::TaskAsks { executor: proc, task });
            return Ok(false);
        }
        memory.last_resort = Some(task);
        self.counters.last_resorts += 1;
        Ok(true)
    }

    fn ask_memory(&mut self, proc: ProcId, waiting: Waiting) -> Result<(), String> {
        let now = self.now;
        let (task, last) = (waiting.asked.task(), waiting.last);
        let Some(memory) = self.memory(proc) else { return Ok(()) };
        match memory.ask(now, waiting)? {
            Asking::Granted => {
                self.counters.memory_granted += 1;
                Ok(())
            }
            Asking::Evict(lacking, mut waiting) => {
                let freed = self.evict_for_tasks(proc, lacking)?;
                waiting.asked.evicted(lacking, freed);
                self.ask_memory(proc, waiting)
            }
            Asking::Waits(until) => {
                self.counters.memory_waits += u64::from(!last);
                self.push(until, Event::PatienceEnds { executor: proc, task });
                Ok(())
            }
            Asking::Refused => {
                let wake = memory.spill(task);
                self.counters.memory_spills += 1;
                self.wake_for_memory(proc, wake)
            }
        }
    }

    /// Cached partitions make room, but for those in use.
    fn evict_for_tasks(&mut self, proc: ProcId, lacking: u64) -> Result<u64, String> {
        let in_use = self.aside.u8(..6) == 0;
        let Some(memory) = self.memory(proc) else { return Ok(0) };
        let wanted = lacking.next_multiple_of(PARTITION).min(memory.cached);
        let freed = if in_use { 0 } else { wanted };
        memory.cached -= freed;
        let wake = memory.grants.evicted(freed);
        if self.faulty() && freed > 0 {
            self.evict_some(proc);
        }
        self.wake_for_memory(proc, wake)?;
        Ok(freed)
    }

    /// A cached partition takes memory, if there is some; else it goes to disk.
    pub(crate) fn store_partition(&mut self, proc: ProcId) {
        let Some(memory) = self.memory(proc) else { return };
        if memory.grants.store(PARTITION) {
            memory.cached += PARTITION;
        }
    }

    /// Something was given back: those who wait ask again.
    fn wake_for_memory(&mut self, proc: ProcId, Wake(wake): Wake) -> Result<(), String> {
        let Some(memory) = self.memory(proc).filter(|_| wake) else { return Ok(()) };
        let waiting: Vec<TaskId> = memory.waiting.keys().copied().collect();
        waiting.into_iter().try_for_each(|task| self.ask_again(proc, task))
    }

    /// The task has waited long enough, if it still waits for what it waited for then.
    pub(crate) fn patience_ends(&mut self, proc: ProcId, task: TaskId) -> Result<(), String> {
        let now = self.now;
        let Some(memory) = self.memory(proc) else { return Ok(()) };
        if memory.waiting.get(&task).is_some_and(|waiting| waiting.until <= now) {
            self.ask_again(proc, task)?;
        }
        self.check_memory(proc)
    }

    fn ask_again(&mut self, proc: ProcId, task: TaskId) -> Result<(), String> {
        let now = self.now;
        let Some(memory) = self.memory(proc) else { return Ok(()) };
        let Some(waiting) = memory.waiting.remove(&task) else { return Ok(()) };
        let waiting = memory.waited(now, waiting);
        self.ask_memory(proc, waiting)
    }

    /// Until when the task waits for memory: it does not end before.
    pub(crate) fn waits_for_memory(&mut self, proc: ProcId, task: TaskId) -> Option<u64> {
        self.memory(proc)?.waiting.get(&task).map(|waiting| waiting.until)
    }

    /// The task is over, whatever it held.
    pub(crate) fn end_with_memory(&mut self, proc: ProcId, task: TaskId) -> Result<(), String> {
        let Some(Body::Executor(node)) = &mut self.procs[proc].body else { return Ok(()) };
        let (blocks, memory) = (&node.blocks, &mut node.memory);
        let Wake(dropped) = memory.drop_outputs(|output| blocks.contains_key(output));
        let Wake(ended) = memory.end(task);
        self.wake_for_memory(proc, Wake(dropped || ended))?;
        self.check_memory(proc)
    }

    fn check_memory(&mut self, proc: ProcId) -> Result<(), String> {
        self.memory(proc).map_or(Ok(()), |memory| memory.check())
    }
}
