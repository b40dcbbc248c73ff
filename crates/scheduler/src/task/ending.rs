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
use super::set::{Phase, Progress, SetState};
use super::state::Attempt;
use crate::messages::{TaskEffect, TaskSetFailure};

const LOST_THE_RACE: &str = "another attempt succeeded";

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
    /// No success.
    Failed(TaskFailure),
}

impl TaskScheduler {
    pub(super) fn task_reported(&mut self, now: Tick, report: Report, out: &mut Vec<TaskEffect>) {
        let task = report.task;
        let known = self.running.get(&task).is_some_and(|a| a.info.executor == report.executor);
        let attempt = if known { self.running.remove(&task) } else { None };
        let Some(attempt) = attempt else {
            self.stale_reports += 1;
            if report.outcome == TaskOutcome::Success {
                out.push(TaskEffect::DiscardTask { task });
            }
            return;
        };
        if self.options.ahead_us > 0 {
            let set = self.sets.get_mut(&attempt.info.stage).expect("a set outlives its attempts");
            match (&report.outcome, &report.metrics) {
                (TaskOutcome::Success, Some(metrics)) => {
                    set.pace.note(metrics);
                    self.succeeded_on = Some(report.executor);
                }
                // Perhaps given back: what was seen till now tells nothing any more.
                (TaskOutcome::Failed(TaskFailure::Killed { .. }), _) => set.pace.forget(),
                _ => {}
            }
        }
        // A process that served this task alone is gone: nobody else hears of it.
        if let TaskOutcome::Failed(TaskFailure::ExecutorLost { caused_by_app: true, .. }) =
            report.outcome
            && self.is_waited_for(&attempt.info)
        {
            self.losses.add([(attempt.info.stage.stage, attempt.info.partition)]);
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
        let there = self.running.values().filter(|attempt| attempt.info.executor == executor);
        let tasks: Vec<TaskId> = there.map(|attempt| attempt.info.task).collect();
        // They run in their order there: those behind have not begun, and it is not their doing.
        let on_cores = self.executors.get(executor).map_or(0, |executor| executor.on_cores());
        if caused_by_app {
            let on_cores = on_cores.min(tasks.len());
            self.suspect(&tasks[..on_cores]);
        }
        for (position, task) in tasks.into_iter().enumerate() {
            let attempt = self.running.remove(&task).expect("just found among the running");
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
        if let Some(all) = &mut self.exclusion {
            all.executor_lost(executor);
        }
    }

    /// Counts the loss against all of these.
    fn suspect(&mut self, tasks: &[TaskId]) {
        let suspects = tasks.iter().filter_map(|task| {
            let info = &self.running[task].info;
            self.is_waited_for(info).then_some((info.stage.stage, info.partition))
        });
        let suspects: Vec<Suspect> = suspects.collect();
        self.losses.add(suspects);
    }

    fn lose_outputs(&mut self, now: Tick, executor: ExecutorId, out: &mut Vec<TaskEffect>) {
        let stages: Vec<StageRef> = self.sets.keys().copied().collect();
        for stage in stages {
            if let Some(set) = self.sets.get_mut(&stage) {
                for index in set.lose_outputs(executor) {
                    let partition = set.slot(index).partition;
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
        attempt: Attempt,
        outcome: TaskOutcome,
        brought: Brought,
        out: &mut Vec<TaskEffect>,
    ) {
        let stage = attempt.info.stage;
        self.executors.release(attempt.info.executor);
        self.freed.push(attempt.info.executor);
        let set = self.sets.get_mut(&stage).expect("a set outlives its attempts");
        set.attempt_left(attempt.index, attempt.info.task);
        set.pace.left(attempt.info.executor);
        self.pools.ended(&mut set.member);
        let progress = set.slot(attempt.index).progress;
        let verdict = match (&set.phase, outcome) {
            (Phase::Cancelled { reason }, TaskOutcome::Success) => {
                out.push(TaskEffect::DiscardTask { task: attempt.info.task });
                Verdict::Unwanted(reason.clone())
            }
            (Phase::Cancelled { reason }, TaskOutcome::Failed(_)) => {
                Verdict::Unwanted(reason.clone())
            }
            (_, TaskOutcome::Failed(failure)) => Verdict::Failed(failure),
            (_, TaskOutcome::Success) if matches!(progress, Progress::Succeeded(_)) => {
                Verdict::LateSuccess
            }
            (_, TaskOutcome::Success) => Verdict::Won,
        };
        self.carry_out(now, &attempt, verdict, brought, out);
        self.settle(now, stage, out);
    }

    fn carry_out(
        &mut self,
        now: Tick,
        attempt: &Attempt,
        verdict: Verdict,
        Brought { metrics, written }: Brought,
        out: &mut Vec<TaskEffect>,
    ) {
        let task = attempt.info.clone();
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
            out.push(TaskEffect::TaskEnded { task: attempt.info.clone(), outcome, written });
        }
        match verdict {
            Verdict::Won => self.partition_won(now, attempt, out),
            Verdict::LateSuccess => {
                out.push(TaskEffect::DiscardTask { task: attempt.info.task });
            }
            Verdict::Failed(failure) => self.attempt_failed(now, attempt, failure, out),
            Verdict::Unwanted(_) => {}
        }
    }

    fn partition_won(&mut self, now: Tick, attempt: &Attempt, out: &mut Vec<TaskEffect>) {
        let set = self.sets.get_mut(&attempt.info.stage).expect("a set outlives its attempts");
        set.succeed(attempt.index, attempt.info.executor);
        if self.options.speculation.is_some() {
            set.durations.insert(now.since_ms(attempt.info.launched));
        }
        let others = set.slots[attempt.index as usize].live();
        for other in others {
            kill(&self.running[&other], &self.executors, LOST_THE_RACE, out);
        }
    }

    fn attempt_failed(
        &mut self,
        now: Tick,
        attempt: &Attempt,
        failure: TaskFailure,
        out: &mut Vec<TaskEffect>,
    ) {
        let (stage, index) = (attempt.info.stage, attempt.index);
        let set = self.sets.get_mut(&stage).expect("a set outlives its attempts");
        if matches!(failure, TaskFailure::FetchFailed { .. }) {
            set.give_up(index);
            return;
        }
        // The loser of a race may fail as it likes, and so may what runs of a retired set (S12), unless it takes its
        // executor along: the next attempt would do so again (L06).
        let lost = matches!(failure, TaskFailure::ExecutorLost { .. });
        let active = set.is_active() && set.slot(index).progress == Progress::Open;
        let matters = if lost { self.is_waited_for(&attempt.info) } else { active };
        let set = self.sets.get_mut(&stage).expect("a set outlives its attempts");
        if matters && failure.counts() {
            set.slot(index).failures += u32::from(!lost);
            self.record_exclusion(now, attempt, out);
        }
        let (partition, newest) = (attempt.info.partition, self.newest_attempt(stage));
        let suspect = (stage.stage, partition);
        let own = self.sets.get(&newest).map_or(0, |set| set.failures_of(partition));
        let attempts = own + self.losses.count(suspect);
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
            let set = self.sets.get_mut(&stage).expect("a set outlives its attempts");
            self.offer_all |= set.requeue(index);
        }
    }

    fn record_exclusion(&mut self, now: Tick, attempt: &Attempt, out: &mut Vec<TaskEffect>) {
        let set = self.sets.get_mut(&attempt.info.stage).expect("a set outlives its attempts");
        let Some(exclusion) = &mut set.exclusion else { return };
        let id = attempt.info.executor;
        let executor = self.executors.get(id).expect("an executor outlives its attempts");
        exclusion.record(now, attempt.index, id, &executor.host, out);
        self.exclusion_changed = true;
    }

    /// Whether the partition is still to come: from the task's own set, or from the one that took over.
    fn is_waited_for(&self, task: &TaskInfo) -> bool {
        let newest = self.newest_attempt(task.stage);
        let counts = self.sets.get(&task.stage).is_some_and(SetState::counts);
        counts && self.sets.get(&newest).is_some_and(|set| set.waits_for(task.partition))
    }

    /// The set of the stage that somebody waits for.
    fn newest_attempt(&self, stage: StageRef) -> StageRef {
        let last = StageRef { stage: stage.stage, attempt: u32::MAX };
        self.sets.range(stage..=last).next_back().map_or(stage, |(newest, _)| *newest)
    }

    /// Gives the set up: tells the DAG scheduler and stops what runs.
    pub(super) fn fail_set(
        &mut self,
        stage: StageRef,
        cause: TaskSetFailure,
        out: &mut Vec<TaskEffect>,
    ) {
        let set = self.sets.get_mut(&stage).expect("only a known set fails");
        set.phase = Phase::Failed;
        out.push(TaskEffect::TaskSetFailed { stage, cause });
        self.kill_attempts(stage, "the task set failed", out);
    }

    pub(super) fn kill_attempts(&self, stage: StageRef, reason: &str, out: &mut Vec<TaskEffect>) {
        for attempt in self.running.values().filter(|attempt| attempt.info.stage == stage) {
            kill(attempt, &self.executors, reason, out);
        }
    }

    pub(super) fn kill_requested(&self, task: TaskId, reason: &str, out: &mut Vec<TaskEffect>) {
        if let Some(attempt) = self.running.get(&task) {
            kill(attempt, &self.executors, reason, out);
        }
    }
}

fn kill(
    attempt: &Attempt,
    executors: &super::state::Executors,
    reason: &str,
    out: &mut Vec<TaskEffect>,
) {
    let (task, executor) = (attempt.info.task, attempt.info.executor);
    if executors.get(executor).is_some_and(|executor| !executor.condemned) {
        out.push(TaskEffect::KillTask { task, executor, reason: reason.into() });
    }
}
