//! One task set: what is left to do, what runs, and whether it still may.
//!
//! Invariant S10: a partition has at most one live attempt, two when one of them is a speculative
//! copy. A set is dropped once it is over and nothing of it runs (S17).

use std::cell::Cell;

use firesteel_types::event::Locality;
use firesteel_types::{ExecutorId, Host, StageRef, TaskId, TaskInfo, TaskMetrics, Tick};

use super::exclusion::SetExclusion;
use super::executors::Executors;
use super::locality::{Answer, Offer, Waiting};
use super::pipelining::Pace;
use super::pool::{Member, Pools};
use super::slots::Slots;
use super::speculation::Copies;
use crate::messages::{SpeculationOptions, TaskEffect, TaskSet, TaskSetKind};

/// Whether a set may launch, and what the ends of its attempts mean.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// Tasks of it may be launched.
    Active,
    /// Every partition is dealt with.
    Finished,
    /// A newer attempt takes over; what runs may end and is reported.
    Retired,
    /// It failed; running attempts were told to stop, and their ends are reported.
    Failed,
    /// Nobody wants it; what runs was told to stop and its end is not reported.
    Cancelled { reason: String },
}

/// A task for an executor, found in a set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) stage: StageRef,
    pub(super) index: u32,
    pub(super) locality: Locality,
    pub(super) speculative: bool,
}

/// What the set tells of a launch.
pub(super) struct Started {
    pub(super) partition: u32,
    /// Its number among the partition's attempts.
    pub(super) attempt: u32,
    /// A locality level lost its last task by it, so that others may open.
    pub(super) drained: bool,
}

#[derive(Debug)]
pub(super) struct SetState {
    stage: StageRef,
    kind: TaskSetKind,
    phase: Phase,
    slots: Slots,
    waiting: Waiting,
    member: Member,
    copies: Copies,
    pace: Pace,
    exclusion: Option<SetExclusion>,
}

impl SetState {
    pub(super) fn new(
        set: &TaskSet,
        waiting: Waiting,
        member: Member,
        exclusion: Option<SetExclusion>,
    ) -> Self {
        SetState {
            stage: set.stage,
            kind: set.kind,
            phase: Phase::Active,
            slots: Slots::new(set.tasks.iter().map(|task| task.partition)),
            waiting,
            member,
            copies: Copies::default(),
            pace: Pace::default(),
            exclusion,
        }
    }

    pub(super) fn stage(&self) -> StageRef {
        self.stage
    }

    pub(super) fn slots(&self) -> &Slots {
        &self.slots
    }

    pub(super) fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    pub(super) fn member(&self) -> &Member {
        &self.member
    }

    pub(super) fn pace(&self) -> &Pace {
        &self.pace
    }

    pub(super) fn exclusion(&self) -> Option<&SetExclusion> {
        self.exclusion.as_ref()
    }

    pub(super) fn is_active(&self) -> bool {
        self.phase == Phase::Active
    }

    pub(super) fn is_finished(&self) -> bool {
        self.phase == Phase::Finished
    }

    pub(super) fn wants_slots(&self) -> bool {
        self.is_active() && (self.waiting.count() > 0 || !self.copies.is_empty())
    }

    pub(super) fn is_over(&self) -> bool {
        !self.is_active() && self.member.running() == 0
    }

    /// Why nobody wants it, if so.
    pub(super) fn why_cancelled(&self) -> Option<&str> {
        match &self.phase {
            Phase::Cancelled { reason } => Some(reason),
            _ => None,
        }
    }

    /// Whether somebody waits for this partition, of this set or of one that will take over.
    pub(super) fn waits_for(&self, partition: u32) -> bool {
        self.counts() && self.slots.is_partition_open(partition)
    }

    /// Whether what becomes of its tasks matters to anybody.
    pub(super) fn counts(&self) -> bool {
        matches!(self.phase, Phase::Active | Phase::Retired)
    }

    /// Whether every partition succeeded.
    pub(super) fn is_complete(&self) -> bool {
        self.slots.succeeded() as usize == self.slots.count()
    }

    /// Nobody wants it any more. True if what runs has not been told to stop yet.
    pub(super) fn cancel(&mut self, reason: &str) -> bool {
        let told_to_stop = matches!(self.phase, Phase::Failed | Phase::Cancelled { .. });
        self.phase = Phase::Cancelled { reason: reason.to_owned() };
        !told_to_stop
    }

    /// It fails; the caller kills what runs.
    pub(super) fn fail(&mut self) {
        self.phase = Phase::Failed;
    }

    /// Nothing more of it is launched; what runs may end.
    pub(super) fn retire(&mut self) {
        if self.is_active() {
            self.phase = Phase::Retired;
        }
    }

    /// Says in its pool whether it wants a slot.
    pub(super) fn list(&mut self, pools: &mut Pools) {
        let wants_slots = self.wants_slots();
        pools.set_runnable(&mut self.member, wants_slots);
    }

    /// Takes it out of its pool: it is over.
    pub(super) fn leave(self, pools: &mut Pools) {
        pools.leave(self.member);
    }

    /// An executor, and with it perhaps its host, can or cannot be had any more.
    pub(super) fn update_place(
        &mut self,
        now: Tick,
        executor: (ExecutorId, bool),
        host: (&Host, bool),
    ) {
        self.waiting.update_place(now, executor, host);
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
        let avoided = Cell::new(None::<Tick>);
        let allowed = |index| {
            let excluded = exclusion
                .is_some_and(|set| set.excludes_task(index, offer.executor, offer.host).is_some());
            let until = self.slots.avoids(index, offer.executor, offer.now);
            if !excluded {
                avoided.set(avoided.get().into_iter().chain(until).min());
            }
            !excluded && until.is_none()
        };
        let answer = self.waiting.answer(offer, allowed);
        if matches!(answer, Answer::Launch { .. } | Answer::Later) {
            return answer;
        }
        let fits = |index: &u32| {
            let original = self.slots.live(*index).next().map(&originals);
            allowed(*index) && original.is_some_and(|id| copy_fits(id, offer, executors))
        };
        match self.copies.wanted().find(fits) {
            Some(index) => Answer::Launch {
                index,
                locality: self.waiting.locality_of(index, offer.executor, offer.host),
                speculative: true,
            },
            None => match (answer, avoided.get()) {
                (Answer::Held { until }, Some(other)) => Answer::Held { until: until.min(other) },
                (Answer::Nothing, Some(until)) => Answer::Held { until },
                (answer, _) => answer,
            },
        }
    }

    /// A task that was found here is launched.
    pub(super) fn start(&mut self, found: &Found, task: TaskId, pools: &mut Pools) -> Started {
        let Found { index, locality, speculative, .. } = *found;
        let mut drained = false;
        if speculative {
            self.copies.settle(index);
        } else {
            drained = self.waiting.remove(index);
            self.waiting.note_launch(locality);
        }
        let attempt = self.slots.attempt_started(index, task);
        pools.started(&mut self.member);
        self.list(pools);
        Started { partition: self.slots.partition(index), attempt, drained }
    }

    /// It may be sent more tasks: counts those that are at the executor.
    pub(super) fn count_there(&mut self, executor: ExecutorId) {
        self.pace.came(executor);
    }

    /// An attempt ended, however.
    pub(super) fn end(&mut self, attempt: &TaskInfo, pools: &mut Pools) {
        self.copies.settle(attempt.index);
        self.slots.attempt_left(attempt.index, attempt.task);
        self.pace.left(attempt.executor);
        pools.ended(&mut self.member);
    }

    /// How long a task took tells how many more may be pipelined.
    pub(super) fn note_pace(&mut self, metrics: &TaskMetrics) {
        self.pace.note(metrics);
    }

    /// What was seen till now tells nothing any more.
    pub(super) fn forget_pace(&mut self) {
        self.pace.forget();
    }

    /// All offers of this moment were made.
    pub(super) fn end_offers(&mut self, now: Tick) {
        self.waiting.end_offers(now);
    }

    /// The partition's first success. It does not wait: one of its attempts just lived.
    pub(super) fn succeed(&mut self, index: u32, executor: ExecutorId) {
        self.slots.succeed(index, executor);
        if self.is_active() && self.slots.are_dealt_with() {
            self.phase = Phase::Finished;
        }
    }

    /// How long a successful attempt took, for speculation.
    pub(super) fn note_duration(&mut self, ms: u64) {
        self.copies.note_duration(ms);
    }

    /// A fetch failure: a newer attempt of the stage will see to the partition.
    pub(super) fn abandon(&mut self, index: u32) {
        self.slots.abandon(index);
        self.retire();
    }

    /// A failure that counts against the task, and the executor that is to be avoided until then because of it.
    pub(super) fn note_failure(&mut self, index: u32, avoided: Option<(ExecutorId, Tick)>) {
        self.slots.note_failure(index, avoided);
    }

    /// A failure that counts against its executor. False if nobody excludes any.
    pub(super) fn record_exclusion(
        &mut self,
        now: Tick,
        attempt: &TaskInfo,
        out: &mut Vec<TaskEffect>,
    ) -> bool {
        let Some(exclusion) = &mut self.exclusion else { return false };
        exclusion.record(now, attempt.index, attempt.executor, &attempt.host, out);
        true
    }

    /// Lets the task wait again if it must still be run and no attempt of it lives. True if so.
    pub(super) fn requeue(&mut self, index: u32) -> bool {
        let wanted = self.is_active() && self.slots.stands_still(index);
        if wanted {
            self.waiting.push(index);
        }
        wanted
    }

    /// Whether the attempt is so slow that it shall get a copy.
    pub(super) fn wants_copy(
        &self,
        attempt: &TaskInfo,
        now: Tick,
        options: &SpeculationOptions,
    ) -> bool {
        let (tasks, succeeded) = (self.slots.count(), self.slots.succeeded());
        let patience = || self.copies.patience_ms(tasks, succeeded, options);
        self.slots.may_have_copy(attempt.index)
            && !self.copies.is_wanted(attempt.index)
            && patience().is_some_and(|patience| now.since_ms(attempt.launched) > patience)
    }

    /// The task shall get a copy; its partition.
    pub(super) fn want_copy(&mut self, index: u32) -> u32 {
        self.copies.want(index);
        self.slots.partition(index)
    }

    /// The outputs on an executor are gone: its map tasks must run again. Which these are, with their partitions.
    pub(super) fn lose_outputs(&mut self, executor: ExecutorId) -> Vec<(u32, u32)> {
        if !self.is_active() || !matches!(self.kind, TaskSetKind::ShuffleMap(_)) {
            return Vec::new();
        }
        let lost = self.slots.reopen(executor);
        for index in &lost {
            self.requeue(*index);
        }
        lost.into_iter().map(|index| (index, self.slots.partition(index))).collect()
    }

    /// Recounts what [`super::TaskScheduler::assert_invariants`] asks of a set.
    pub(super) fn assert_consistent(&self, executors: &Executors) {
        let stage = self.stage;
        assert!(!self.is_over(), "S17: set {stage} is over and was kept");
        let live = self.slots.assert_consistent();
        assert_eq!(live, self.member.running() as usize, "set {stage} miscounts");
        for index in 0..self.slots.count() as u32 {
            let (waits, must) = (self.waiting.contains(index), self.slots.stands_still(index));
            let right = !self.is_active() || waits == must;
            assert!(right, "L04: task {index} of set {stage} waits: {waits}, must: {must}");
        }
        let once = self.copies.wanted().all(|index| self.slots.may_have_copy(index));
        assert!(once, "S10: a third copy");
        self.waiting.assert_consistent(executors);
    }
}

/// A copy runs on another host than the original if there is one, else on another executor.
fn copy_fits(original: ExecutorId, offer: &Offer<'_>, executors: &Executors) -> bool {
    let Some(host) = executors.get(original).map(|executor| executor.host()) else { return true };
    original != offer.executor && (host != offer.host || !executors.has_other_host(host))
}
