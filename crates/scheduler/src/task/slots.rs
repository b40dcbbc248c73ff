//! The tasks of one set: which attempts of each live, and how far its partition is.
//!
//! Invariant S10: a partition has at most two live attempts. What is counted over all tasks is counted here alone.

use firesteel_types::{ExecutorId, TaskId, Tick};

/// How far a partition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Its success is still to come.
    Open,
    /// It succeeded, on this executor.
    Succeeded(ExecutorId),
    /// It cannot be had in this set (fetch failure).
    Abandoned,
}

/// One task of the set.
#[derive(Debug)]
struct Slot {
    partition: u32,
    /// Attempts launched so far.
    attempts: u32,
    /// Failures that count against `spark.task.maxFailures`.
    failures: u32,
    /// Where it failed last, and until when others are preferred to it.
    avoided: Option<(ExecutorId, Tick)>,
    progress: Progress,
    live: [Option<TaskId>; 2],
}

impl Slot {
    fn new(partition: u32) -> Self {
        let progress = Progress::Open;
        Slot { partition, attempts: 0, failures: 0, avoided: None, progress, live: [None; 2] }
    }

    fn live(&self) -> impl Iterator<Item = TaskId> {
        self.live.iter().copied().flatten()
    }
}

/// All tasks of a set.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    succeeded: u32,
    abandoned: u32,
}

impl Slots {
    /// One task for each of these partitions.
    pub(super) fn new(partitions: impl Iterator<Item = u32>) -> Self {
        Slots { slots: partitions.map(Slot::new).collect(), succeeded: 0, abandoned: 0 }
    }

    pub(super) fn count(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn partition(&self, index: u32) -> u32 {
        self.slot(index).partition
    }

    pub(super) fn is_open(&self, index: u32) -> bool {
        self.slot(index).progress == Progress::Open
    }

    pub(super) fn has_succeeded(&self, index: u32) -> bool {
        matches!(self.slot(index).progress, Progress::Succeeded(_))
    }

    pub(super) fn live(&self, index: u32) -> impl Iterator<Item = TaskId> {
        self.slot(index).live()
    }

    /// Whether the task must still be run, and no attempt of it lives.
    pub(super) fn stands_still(&self, index: u32) -> bool {
        self.is_open(index) && self.live(index).next().is_none()
    }

    /// Whether a second attempt of the task may be launched.
    pub(super) fn may_have_copy(&self, index: u32) -> bool {
        self.is_open(index) && self.live(index).count() == 1
    }

    /// Whether the success of this partition is still to come.
    pub(super) fn is_partition_open(&self, partition: u32) -> bool {
        self.find(partition).is_some_and(|slot| slot.progress == Progress::Open)
    }

    /// Failures of the partition's own that count.
    pub(super) fn failures_of(&self, partition: u32) -> u32 {
        self.find(partition).map_or(0, |slot| slot.failures)
    }

    /// How many partitions have succeeded.
    pub(super) fn succeeded(&self) -> u32 {
        self.succeeded
    }

    /// Whether every partition has succeeded or cannot be had here.
    pub(super) fn are_dealt_with(&self) -> bool {
        (self.succeeded + self.abandoned) as usize == self.slots.len()
    }

    /// Puts a new attempt on its task; its number among the task's attempts.
    pub(super) fn attempt_started(&mut self, index: u32, task: TaskId) -> u32 {
        let slot = self.slot_mut(index);
        let place = slot.live.iter_mut().find(|place| place.is_none());
        *place.expect("S10: a third live attempt") = Some(task);
        slot.attempts += 1;
        slot.attempts - 1
    }

    /// Takes an attempt that ended off its task.
    pub(super) fn attempt_left(&mut self, index: u32, task: TaskId) {
        let place = self.slot_mut(index).live.iter_mut().find(|place| **place == Some(task));
        *place.expect("S10: an attempt left that was not live") = None;
    }

    /// A failure that counts, and the executor that is to be avoided until then because of it.
    pub(super) fn note_failure(&mut self, index: u32, avoided: Option<(ExecutorId, Tick)>) {
        let slot = self.slot_mut(index);
        slot.failures += 1;
        slot.avoided = avoided;
    }

    /// Until when the task is to be run on another executor, if that is still to come.
    pub(super) fn avoids(&self, index: u32, executor: ExecutorId, now: Tick) -> Option<Tick> {
        let (avoided, until) = self.slot(index).avoided?;
        (avoided == executor && until > now).then_some(until)
    }

    /// The partition's first success.
    pub(super) fn succeed(&mut self, index: u32, executor: ExecutorId) {
        let before = self.change(index, Progress::Succeeded(executor));
        assert!(!matches!(before, Progress::Succeeded(_)), "a partition succeeds twice");
    }

    /// The partition cannot be had in this set, unless it was already.
    pub(super) fn abandon(&mut self, index: u32) {
        if self.is_open(index) {
            self.change(index, Progress::Abandoned);
        }
    }

    /// What succeeded on this executor has to succeed again: those tasks.
    pub(super) fn reopen(&mut self, executor: ExecutorId) -> Vec<u32> {
        let was_there = |slot: &Slot| slot.progress == Progress::Succeeded(executor);
        let lost = (0..self.slots.len() as u32).filter(|index| was_there(self.slot(*index)));
        let lost: Vec<u32> = lost.collect();
        for index in &lost {
            self.change(*index, Progress::Open);
        }
        lost
    }

    /// The one way to change how far a partition is: keeps the counts true.
    fn change(&mut self, index: u32, to: Progress) -> Progress {
        let before = std::mem::replace(&mut self.slot_mut(index).progress, to);
        self.succeeded -= u32::from(matches!(before, Progress::Succeeded(_)));
        self.succeeded += u32::from(matches!(to, Progress::Succeeded(_)));
        self.abandoned -= u32::from(before == Progress::Abandoned);
        self.abandoned += u32::from(to == Progress::Abandoned);
        before
    }

    fn find(&self, partition: u32) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.partition == partition)
    }

    fn slot(&self, index: u32) -> &Slot {
        &self.slots[index as usize]
    }

    fn slot_mut(&mut self, index: u32) -> &mut Slot {
        &mut self.slots[index as usize]
    }

    /// Recounts; how many attempts live.
    pub(super) fn assert_consistent(&self) -> usize {
        let succeeded = |slot: &&Slot| matches!(slot.progress, Progress::Succeeded(_));
        let abandoned = |slot: &&Slot| slot.progress == Progress::Abandoned;
        assert_eq!(self.slots.iter().filter(succeeded).count(), self.succeeded as usize);
        assert_eq!(self.slots.iter().filter(abandoned).count(), self.abandoned as usize);
        self.slots.iter().map(|slot| slot.live().count()).sum()
    }
}
