//! One task set: what is left to do, what runs, and whether it still may.
//!
//! Invariant S10: a partition has at most one live attempt, two when one of them is a speculative
//! copy. A set is dropped once it is over and nothing of it runs (S17).

use std::collections::BTreeSet;

use firesteel_types::{ExecutorId, StageRef, TaskId, Tick};

use super::ahead::Pace;
use super::exclusion::SetExclusion;
use super::locality::{Answer, Offer, Waiting};
use super::pool::Member;
use super::speculation::Median;
use super::state::Executors;
use crate::messages::{TaskSet, TaskSetKind};

/// Whether a set may launch, and what the ends of its attempts mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Launching.
    Active,
    /// Every partition is dealt with.
    Finished,
    /// A newer attempt takes over; what runs may end and is reported.
    Retired,
    /// It was given up; what runs was told to stop and its end is reported.
    Failed,
    /// Nobody wants it; what runs was told to stop and its end is not reported.
    Cancelled {
        /// Why.
        reason: String,
    },
}

/// How far a partition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Its success is still to come.
    Open,
    /// It succeeded, on this executor.
    Succeeded(ExecutorId),
    /// It cannot be had in this set (fetch failure).
    GivenUp,
}

/// One task of the set.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) partition: u32,
    /// Attempts launched so far.
    pub(super) attempts: u32,
    /// Failures that count.
    pub(super) failures: u32,
    pub(super) progress: Progress,
    live: [Option<TaskId>; 2],
}

impl Slot {
    pub(super) fn live(&self) -> impl Iterator<Item = TaskId> {
        self.live.iter().copied().flatten()
    }

    pub(super) fn live_count(&self) -> usize {
        self.live().count()
    }

    pub(super) fn attempt_started(&mut self, task: TaskId) {
        let place = self.live.iter_mut().find(|place| place.is_none());
        *place.expect("S10: a third live attempt") = Some(task);
        self.attempts += 1;
    }

    fn attempt_left(&mut self, task: TaskId) {
        let place = self.live.iter_mut().find(|place| **place == Some(task));
        *place.expect("S10: an attempt left that was not live") = None;
    }
}

/// One task set.
#[derive(Debug)]
pub(super) struct SetState {
    pub(super) stage: StageRef,
    pub(super) kind: TaskSetKind,
    pub(super) phase: Phase,
    pub(super) slots: Vec<Slot>,
    pub(super) waiting: Waiting,
    pub(super) member: Member,
    /// Tasks that want a speculative copy.
    pub(super) copies: BTreeSet<u32>,
    /// Durations of successful attempts, if anybody asks.
    pub(super) durations: Median,
    pub(super) pace: Pace,
    pub(super) exclusion: Option<SetExclusion>,
    /// The moment for which a look at the set is booked, because a locality level opens.
    pub(super) opening: Option<Tick>,
    pub(super) succeeded: u32,
    given_up: u32,
}

impl SetState {
    pub(super) fn new(
        set: &TaskSet,
        waiting: Waiting,
        member: Member,
        exclusion: Option<SetExclusion>,
    ) -> Self {
        let slot = |partition| Slot {
            partition,
            attempts: 0,
            failures: 0,
            progress: Progress::Open,
            live: [None; 2],
        };
        SetState {
            stage: set.stage,
            kind: set.kind,
            phase: Phase::Active,
            slots: set.tasks.iter().map(|task| slot(task.partition)).collect(),
            waiting,
            member,
            copies: BTreeSet::new(),
            durations: Median::default(),
            pace: Pace::default(),
            exclusion,
            opening: None,
            succeeded: 0,
            given_up: 0,
        }
    }

    pub(super) fn is_active(&self) -> bool {
        self.phase == Phase::Active
    }

    pub(super) fn wants_slots(&self) -> bool {
        self.is_active() && (self.waiting.count() > 0 || !self.copies.is_empty())
    }

    pub(super) fn is_over(&self) -> bool {
        !self.is_active() && self.member.running() == 0
    }

    /// Failures of the partition's own that count.
    pub(super) fn failures_of(&self, partition: u32) -> u32 {
        self.slot_of(partition).map_or(0, |slot| slot.failures)
    }

    fn slot_of(&self, partition: u32) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.partition == partition)
    }

    /// Whether somebody waits for this partition, of this set or of one that will take over.
    pub(super) fn waits_for(&self, partition: u32) -> bool {
        let slot = self.slot_of(partition);
        let open = slot.is_some_and(|slot| slot.progress == Progress::Open);
        self.counts() && open
    }

    /// Whether what becomes of its tasks matters to anybody.
    pub(super) fn counts(&self) -> bool {
        matches!(self.phase, Phase::Active | Phase::Retired)
    }

    /// Whether every partition succeeded.
    pub(super) fn is_complete(&self) -> bool {
        self.succeeded as usize == self.slots.len()
    }

    pub(super) fn slot(&mut self, index: u32) -> &mut Slot {
        &mut self.slots[index as usize]
    }

    /// Answers a free executor's offer.
    pub(super) fn answer(
        &mut self,
        offer: &Offer<'_>,
        executors: &Executors,
        originals: impl Fn(TaskId) -> ExecutorId,
    ) -> Answer {
        let exclusion = self.exclusion.as_ref();
        if exclusion.is_some_and(|set| set.excludes(offer.executor, offer.host).is_some()) {
            return Answer::Nothing;
        }
        let allowed = |index| {
            exclusion
                .is_none_or(|set| set.excludes_task(index, offer.executor, offer.host).is_none())
        };
        let answer = self.waiting.answer(offer, allowed);
        if self.copies.is_empty() || matches!(answer, Answer::Launch { .. } | Answer::Later) {
            return answer;
        }
        let fits = |index: &&u32| {
            let original = self.slots[**index as usize].live().next().map(&originals);
            allowed(**index) && original.is_some_and(|id| copy_fits(id, offer, executors))
        };
        match self.copies.iter().find(fits) {
            Some(&index) => Answer::Launch {
                index,
                locality: self.waiting.locality_of(index, offer.executor, offer.host),
                speculative: true,
            },
            None => answer,
        }
    }

    /// Takes an attempt that ended off its slot.
    pub(super) fn attempt_left(&mut self, index: u32, task: TaskId) {
        self.copies.remove(&index);
        self.slot(index).attempt_left(task);
    }

    /// The partition's first success. It does not wait: one of its attempts just lived.
    pub(super) fn succeed(&mut self, index: u32, executor: ExecutorId) {
        if self.slot(index).progress == Progress::GivenUp {
            self.given_up -= 1;
        }
        self.slot(index).progress = Progress::Succeeded(executor);
        self.succeeded += 1;
        self.finish_if_done();
    }

    /// A fetch failure: a newer attempt of the stage will see to the partition.
    pub(super) fn give_up(&mut self, index: u32) {
        if self.slot(index).progress == Progress::Open {
            self.slot(index).progress = Progress::GivenUp;
            self.given_up += 1;
        }
        self.retire();
    }

    /// Launch nothing more.
    pub(super) fn retire(&mut self) {
        if self.is_active() {
            self.phase = Phase::Retired;
        }
    }

    fn finish_if_done(&mut self) {
        if self.is_active() && (self.succeeded + self.given_up) as usize == self.slots.len() {
            self.phase = Phase::Finished;
        }
    }

    /// Lets the task wait again if it must still be run and no attempt of it lives. True if so.
    pub(super) fn requeue(&mut self, index: u32) -> bool {
        let slot = &self.slots[index as usize];
        let wanted = self.is_active() && slot.progress == Progress::Open && slot.live_count() == 0;
        if wanted {
            self.waiting.push(index);
        }
        wanted
    }

    /// Recounts what [`super::TaskScheduler::assert_invariants`] asks of a set.
    pub(super) fn assert_consistent(&self) {
        assert!(!self.is_over(), "S17: set {} is over and was kept", self.stage);
        let (mut live, mut succeeded, mut given_up) = (0, 0, 0);
        for (index, slot) in self.slots.iter().enumerate() {
            live += slot.live_count();
            succeeded += u32::from(matches!(slot.progress, Progress::Succeeded(_)));
            given_up += u32::from(slot.progress == Progress::GivenUp);
            let waits = self.waiting.contains(index as u32);
            let stands_still = slot.progress == Progress::Open && slot.live_count() == 0;
            assert!(
                !self.is_active() || waits == stands_still,
                "L04: task {index} of set {} waits: {waits}, must: {stands_still}",
                self.stage
            );
        }
        assert_eq!(live, self.member.running() as usize, "set {} miscounts", self.stage);
        assert_eq!((succeeded, given_up), (self.succeeded, self.given_up), "set {}", self.stage);
        for index in &self.copies {
            let slot = &self.slots[*index as usize];
            assert!(slot.progress == Progress::Open && slot.live_count() == 1, "S10: a third copy");
        }
    }

    /// The outputs on an executor are gone: its map tasks must run again. Which these are.
    pub(super) fn lose_outputs(&mut self, executor: ExecutorId) -> Vec<u32> {
        if !self.is_active() || !matches!(self.kind, TaskSetKind::ShuffleMap(_)) {
            return Vec::new();
        }
        let mut lost = Vec::new();
        for index in 0..self.slots.len() as u32 {
            if self.slot(index).progress == Progress::Succeeded(executor) {
                self.slot(index).progress = Progress::Open;
                self.succeeded -= 1;
                self.requeue(index);
                lost.push(index);
            }
        }
        lost
    }
}

/// A copy runs on another host than the original if there is one, else on another executor.
fn copy_fits(original: ExecutorId, offer: &Offer<'_>, executors: &Executors) -> bool {
    let Some(host) = executors.get(original).map(|executor| &executor.host) else { return true };
    original != offer.executor && (host != offer.host || !executors.has_other_host(host))
}
