//! How attempts end, and what follows from it.
//!
//! Every end goes through [`TaskScheduler::end_attempt`], whether the executor reported it or was
//! lost, so cores are given back and listeners told exactly once per attempt. Reports of attempts
//! that have ended, or from an executor they do not run on, change nothing (S06).

use firesteel_types::{
    Event, ExecutorId, MapStatus, StageRef, TaskFailure, TaskId, TaskInfo, TaskMetrics,
    TaskOutcome, Tick,
};

use super::core::TaskScheduler;
use super::losses::Suspect;
use crate::messages::{TaskEffect, TaskSetFailure};
use crate::mutant::Mutant;

const LOST_THE_RACE: &str = "another attempt succeeded";
/// How long a task that failed is for other executors than the one it failed on, if there are any. What fails at once, on a disk
/// that is full, would else use up all its attempts there while the others are busy.
const ELSEWHERE_MS: u64 = 1000;

/// A report of a task's end, by the executor that ran it.
pub(super) struct Report {
    pub(super) task: TaskId,
    pub(super) executor: ExecutorId,
    pub(super) outcome: TaskOutcome,
    pub(super) metrics: Option<Box<TaskMetrics>>,
    pub(super) written: Option<MapStatus>,
}

/// What came with the end of an attempt.
#[derive(Default)]
struct Brought {
    metrics: Option<Box<TaskMetrics>>,
    written: Option<MapStatus>,
}

/// The loss of an executor.
pub(super) struct Loss {
    pub(super) executor: ExecutorId,
    pub(super) caused_by_app: bool,
    pub(super) outputs_lost: bool,
    pub(super) reason: String,
}

/// What the end of an attempt means for its set.
enum Verdict {
    /// Nobody wants the set any more.
    Unwanted(String),
    /// The partition's first success.
    Won,
    /// A success after another attempt's.
    LateSuccess,
    Failed(TaskFailure),
}

impl TaskScheduler {
    pub(super) fn task_reported(&mut self, now: Tick, report: Report, out: &mut Vec<TaskEffect>) {
        let task = report.task;
        let Some(attempt) = self.attempts.take_reported(task, report.executor) else {
            if report.outcome == TaskOutcome::Success {
                out.push(TaskEffect::DiscardTask { task, ran: None });
            }
            return;
        };
        if self.options.pipeline_us > 0 {
            let set = self.sets.of(&attempt);
            match (&report.outcome, &report.metrics) {
                (TaskOutcome::Success, Some(metrics)) => {
                    set.note_pace(metrics);
                    self.round.task_succeeded(report.executor);
                }
                // Perhaps given back: what was seen till now tells nothing any more.
                (TaskOutcome::Failed(TaskFailure::Killed { .. }), _) => set.forget_pace(),
                _ => {}
            }
        }
        // A process that served this task alone is gone: nobody else hears of it.
        if let TaskOutcome::Failed(TaskFailure::ExecutorLost { caused_by_app: true, .. }) =
            report.outcome
            && self.sets.wait_for(&attempt)
        {
            self.losses.add([(attempt.stage.stage, attempt.partition)]);
        }
        let brought = Brought { metrics: report.metrics, written: report.written };
        self.end_attempt(now, attempt, report.outcome, brought, out);
        self.losses.settle();
    }

    pub(super) fn executor_lost(&mut self, now: Tick, loss: Loss, out: &mut Vec<TaskEffect>) {
        let Loss { executor, caused_by_app, outputs_lost, reason } = loss;
        if !self.executors.condemn(executor) {
            return;
        }
        self.usability_changed(now, executor);
        let there = self.attempts.take_from(executor);
        // They run in their order there: those behind have not begun, and it is not their doing.
        let on_cores = self.executors.get(executor).map_or(0, |executor| executor.on_cores());
        if caused_by_app {
            let on_cores = on_cores.min(there.len());
            self.suspect(&there[..on_cores]);
        }
        for (position, attempt) in there.into_iter().enumerate() {
            let caused_by_app = caused_by_app && position < on_cores;
            let reason = reason.clone();
            let failure = TaskFailure::ExecutorLost { executor, caused_by_app, reason };
            self.end_attempt(now, attempt, TaskOutcome::Failed(failure), Brought::default(), out);
        }
        self.losses.settle();
        if outputs_lost {
            self.lose_outputs(now, executor, out);
        }
        self.executors.remove(executor);
        self.exclusions.executor_lost(executor);
    }

    /// Counts the loss against all of these.
    fn suspect(&mut self, attempts: &[TaskInfo]) {
        let suspects = attempts.iter().filter_map(|info| {
            self.sets.wait_for(info).then_some((info.stage.stage, info.partition))
        });
        let suspects: Vec<Suspect> = suspects.collect();
        self.losses.add(suspects);
    }

    fn lose_outputs(&mut self, now: Tick, executor: ExecutorId, out: &mut Vec<TaskEffect>) {
        for stage in self.sets.stages() {
            if let Some(set) = self.sets.get_mut(stage) {
                for (index, partition) in set.lose_outputs(executor) {
                    let again =
                        Event::TaskResubmitted { stage, index, partition, executor, at: now };
                    out.push(TaskEffect::Post(again));
                }
            }
            self.settle(now, stage, out);
        }
    }

    fn end_attempt(
        &mut self,
        now: Tick,
        attempt: TaskInfo,
        outcome: TaskOutcome,
        brought: Brought,
        out: &mut Vec<TaskEffect>,
    ) {
        let stage = attempt.stage;
        self.executors.release(attempt.executor);
        self.round.task_left(attempt.executor);
        let set = self.sets.of(&attempt);
        set.end(&attempt, &mut self.pools);
        let verdict = match (set.why_cancelled(), outcome) {
            (Some(reason), outcome) => {
                if outcome == TaskOutcome::Success {
                    out.push(discarded(&attempt));
                }
                Verdict::Unwanted(reason.to_owned())
            }
            (None, TaskOutcome::Failed(failure)) => Verdict::Failed(failure),
            (None, TaskOutcome::Success) if set.slots().has_succeeded(attempt.index) => {
                Verdict::LateSuccess
            }
            (None, TaskOutcome::Success) => Verdict::Won,
        };
        self.carry_out(now, &attempt, verdict, brought, out);
        self.settle(now, stage, out);
    }

    fn carry_out(
        &mut self,
        now: Tick,
        attempt: &TaskInfo,
        verdict: Verdict,
        Brought { metrics, written }: Brought,
        out: &mut Vec<TaskEffect>,
    ) {
        let task = attempt.clone();
        let failure = match &verdict {
            Verdict::Won => None,
            Verdict::LateSuccess => Some(TaskFailure::Killed { reason: LOST_THE_RACE.into() }),
            Verdict::Unwanted(reason) => Some(TaskFailure::Killed { reason: reason.clone() }),
            Verdict::Failed(failure) => Some(failure.clone()),
        };
        let heard = failure.clone();
        out.push(TaskEffect::Post(Event::TaskEnd { task, failure: heard, metrics, at: now }));
        if !matches!(verdict, Verdict::Unwanted(_)) {
            let outcome = failure.map_or(TaskOutcome::Success, TaskOutcome::Failed);
            out.push(TaskEffect::TaskEnded { task: attempt.clone(), outcome, written });
        }
        match verdict {
            Verdict::Won => self.partition_won(now, attempt, out),
            Verdict::LateSuccess => {
                out.push(discarded(attempt));
            }
            Verdict::Failed(failure) => self.attempt_failed(now, attempt, failure, out),
            Verdict::Unwanted(_) => {}
        }
    }

    fn partition_won(&mut self, now: Tick, attempt: &TaskInfo, out: &mut Vec<TaskEffect>) {
        let set = self.sets.of(attempt);
        set.succeed(attempt.index, attempt.executor);
        if self.options.speculation.is_some() {
            set.note_duration(now.since_ms(attempt.launched));
        }
        for other in set.slots().live(attempt.index) {
            let other = self.attempts.get(other).expect("a live attempt runs");
            kill(other, &self.executors, LOST_THE_RACE, out);
        }
    }

    fn attempt_failed(
        &mut self,
        now: Tick,
        attempt: &TaskInfo,
        failure: TaskFailure,
        out: &mut Vec<TaskEffect>,
    ) {
        let (stage, index) = (attempt.stage, attempt.index);
        let set = self.sets.of(attempt);
        if matches!(failure, TaskFailure::FetchFailed { .. }) {
            set.abandon(index);
            return;
        }
        // The loser of a race may fail as it likes, and so may what runs of a retired set (S12), unless it takes its
        // executor along: the next attempt would do so again (L06).
        let lost = matches!(failure, TaskFailure::ExecutorLost { .. });
        let active = set.is_active() && set.slots().is_open(index);
        let matters = if lost { self.sets.wait_for(attempt) } else { active };
        if matters && failure.counts() {
            let elsewhere = self.executors.has_other_executor(attempt.executor);
            let set = self.sets.of(attempt);
            if !lost {
                let avoided = (attempt.executor, now.plus_ms(ELSEWHERE_MS));
                set.note_failure(index, elsewhere.then_some(avoided));
            }
            if set.record_exclusion(now, attempt, out) {
                self.exclusions.look_again();
            }
        }
        let (partition, newest) = (attempt.partition, self.sets.newest_attempt(stage));
        let suspect = (stage.stage, partition);
        let own = self.sets.get(newest).map_or(0, |set| set.slots().failures_of(partition));
        let by_attempt = self.options.planted.is(Mutant::CountsLossesByAttempt);
        let losses = if by_attempt { u32::from(lost) } else { self.losses.count(suspect) };
        let attempts = own + losses;
        let fatal = matches!(failure, TaskFailure::Fatal { .. });
        if matters && (fatal || attempts >= self.options.max_failures && failure.counts()) {
            let cause = TaskSetFailure::TaskFailed { partition, attempts, failure };
            // One that failed otherwise too explains nothing: another one may have done it.
            if lost && own == 0 {
                self.losses.convict(suspect);
            } else {
                self.losses.forget(stage.stage);
            }
            self.fail_set(newest, cause, out);
            self.settle(now, newest, out);
        } else {
            self.round.offer_all_if(self.sets.of(attempt).requeue(index));
            // It waits again, maybe where all were excluded while it ran.
            self.exclusions.look_again();
        }
    }

    /// Gives the set up: tells the DAG scheduler and stops what runs.
    pub(super) fn fail_set(
        &mut self,
        stage: StageRef,
        cause: TaskSetFailure,
        out: &mut Vec<TaskEffect>,
    ) {
        self.sets.get_mut(stage).expect("only a known set fails").fail();
        out.push(TaskEffect::TaskSetFailed { stage, cause });
        self.kill_attempts(stage, "the task set failed", out);
    }

    pub(super) fn kill_attempts(&self, stage: StageRef, reason: &str, out: &mut Vec<TaskEffect>) {
        for attempt in self.attempts.of(stage) {
            kill(attempt, &self.executors, reason, out);
        }
    }

    pub(super) fn kill_requested(&self, task: TaskId, reason: &str, out: &mut Vec<TaskEffect>) {
        if let Some(attempt) = self.attempts.get(task) {
            kill(attempt, &self.executors, reason, out);
        }
    }
}

fn discarded(attempt: &TaskInfo) -> TaskEffect {
    TaskEffect::DiscardTask { task: attempt.task, ran: Some(attempt.clone()) }
}

fn kill(
    attempt: &TaskInfo,
    executors: &super::executors::Executors,
    reason: &str,
    out: &mut Vec<TaskEffect>,
) {
    let (task, executor) = (attempt.task, attempt.executor);
    if executors.get(executor).is_some_and(|executor| !executor.is_condemned()) {
        out.push(TaskEffect::KillTask { task, executor, reason: reason.into() });
    }
}
