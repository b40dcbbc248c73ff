//! The task scheduler's state machine: events in, effects out.
//!
//! [`TaskScheduler::handle`] applies the event, does what has fallen due, offers free cores, and asks
//! for the next moment it must be woken. Retries, kills and losses are in `ending`, offers in
//! `offer`.

use firesteel_types::{ExecutorId, Host, StageId, StageRef, Tick};

use super::attempts::Attempts;
use super::ending::{Loss, Report};
use super::exclusion::Exclusions;
use super::executors::Executors;
use super::locality::{Waiting, Waits};
use super::losses::Losses;
use super::openings::Openings;
use super::pool::Pools;
use super::round::Round;
use super::set::SetState;
use super::set_table::Sets;
use super::timer::Timer;
use crate::messages::{TaskEffect, TaskEvent, TaskOptions, TaskSet};
use crate::mutant::Mutant;

/// Decides which task runs where. Pure: the same events at the same ticks give the same effects.
///
/// ```
/// use firesteel_scheduler::messages::{TaskEffect, TaskEvent, TaskOptions, TaskSet, TaskSetKind, TaskSpec};
/// use firesteel_scheduler::task::TaskScheduler;
/// use firesteel_types::{ExecutorId, Host, JobId, RddId, StageId, StageRef, Tick};
///
/// let mut scheduler = TaskScheduler::new(TaskOptions::default());
/// let mut effects = Vec::new();
/// let added = TaskEvent::ExecutorAdded { executor: ExecutorId(1), host: Host::new("a"), cores: 2 };
/// scheduler.handle(Tick(0), added, &mut effects);
/// let set = TaskSet {
///     stage: StageRef { stage: StageId(0), attempt: 0 },
///     kind: TaskSetKind::Result(JobId(0)),
///     priority: JobId(0),
///     pool: None,
///     rdd: RddId(0),
///     tasks: (0..3).map(|partition| TaskSpec { partition, preferred: Vec::new() }).collect(),
/// };
/// scheduler.handle(Tick(1), TaskEvent::TaskSetSubmitted(set), &mut effects);
/// let launched = effects.iter().filter(|effect| matches!(effect, TaskEffect::LaunchTask(_)));
/// assert_eq!(launched.count(), 2);
/// assert_eq!((scheduler.running_tasks(), scheduler.free_cores()), (2, 0));
/// ```
#[derive(Debug)]
pub struct TaskScheduler {
    pub(super) options: TaskOptions,
    pub(super) executors: Executors,
    pub(super) pools: Pools,
    pub(super) sets: Sets,
    pub(super) attempts: Attempts,
    pub(super) round: Round,
    pub(super) openings: Openings,
    timer: Timer,
    pub(super) exclusions: Exclusions,
    /// Executors lost through what ran on them.
    pub(super) losses: Losses,
}

impl TaskScheduler {
    /// A scheduler without executors or work.
    pub fn new(mut options: TaskOptions) -> Self {
        options.cpus_per_task = options.cpus_per_task.max(1);
        TaskScheduler {
            executors: Executors::new(options.cpus_per_task),
            pools: Pools::new(options.mode, options.pools.clone()),
            sets: Sets::default(),
            attempts: Attempts::default(),
            round: Round::default(),
            openings: Openings::default(),
            timer: Timer::default(),
            exclusions: Exclusions::new(options.exclusion.clone()),
            losses: Losses::default(),
            options,
        }
    }

    /// Takes one event in and appends what is to be done, in order.
    pub fn handle(&mut self, now: Tick, event: TaskEvent, out: &mut Vec<TaskEffect>) {
        self.timer.passed(now, matches!(event, TaskEvent::Ticked));
        self.apply(now, event, out);
        self.round.offer_all_if(self.openings.take_due(now));
        self.expire_exclusions(now, out);
        if self.timer.take_check(now) && self.speculate(now, out) {
            self.book_speculation(now);
        }
        self.fail_unschedulable(now, out);
        self.offer(now, out);
        self.arm(out);
    }

    /// Takes one event in and offers no cores: another one follows at once, to [`TaskScheduler::handle`] in the end.
    pub fn note(&mut self, now: Tick, event: TaskEvent, out: &mut Vec<TaskEffect>) {
        self.timer.passed(now, matches!(event, TaskEvent::Ticked));
        self.apply(now, event, out);
    }

    fn apply(&mut self, now: Tick, event: TaskEvent, out: &mut Vec<TaskEffect>) {
        match event {
            TaskEvent::TaskSetSubmitted(set) => self.submit(now, set, out),
            TaskEvent::TaskSetCancelled { stage, reason } => self.cancel(now, stage, reason, out),
            TaskEvent::TaskSetRetired { stage } => self.retire(now, stage, out),
            TaskEvent::ExecutorAdded { executor, host, cores } => {
                self.add_executor(now, executor, host, cores);
            }
            TaskEvent::ExecutorLost { executor, caused_by_app, outputs_lost, reason } => {
                let loss = Loss { executor, caused_by_app, outputs_lost, reason };
                self.executor_lost(now, loss, out);
            }
            TaskEvent::ExecutorDecommissioned { .. }
                if self.options.planted.is(Mutant::UsesDecommissionedExecutors) => {}
            TaskEvent::ExecutorDecommissioned { executor } => {
                self.executors.decommission(executor);
                self.usability_changed(now, executor);
            }
            TaskEvent::TaskReported { task, executor, outcome, metrics, written } => {
                self.task_reported(now, Report { task, executor, outcome, metrics, written }, out);
            }
            TaskEvent::TaskKillRequested { task, reason } => {
                self.kill_requested(task, &reason, out);
            }
            TaskEvent::Ticked => {}
        }
    }

    fn submit(&mut self, now: Tick, set: TaskSet, out: &mut Vec<TaskEffect>) {
        let stage = set.stage;
        if set.tasks.is_empty() || self.sets.has_reached(stage) {
            return;
        }
        for older in self.sets.older_than(stage) {
            self.retire(now, older, out);
        }
        let waits = Waits::of(&self.options);
        let waiting = Waiting::new(&set.tasks, &self.executors, waits, now);
        let member = self.pools.join(set.pool.as_deref(), stage, set.priority);
        let exclusion = self.exclusions.of_set(stage);
        self.sets.insert(SetState::new(&set, waiting, member, exclusion));
        self.settle(now, stage, out);
        self.round.offer_all();
        self.exclusions.look_again();
    }

    fn cancel(&mut self, now: Tick, stage: StageRef, reason: String, out: &mut Vec<TaskEffect>) {
        let Some(set) = self.sets.get_mut(stage) else { return };
        if set.cancel(&reason) {
            self.kill_attempts(stage, &reason, out);
        }
        self.settle(now, stage, out);
    }

    fn retire(&mut self, now: Tick, stage: StageRef, out: &mut Vec<TaskEffect>) {
        if let Some(set) = self.sets.get_mut(stage) {
            set.retire();
        }
        self.settle(now, stage, out);
    }

    fn add_executor(&mut self, now: Tick, id: ExecutorId, host: Host, cores: u32) {
        let excluded = self.exclusions.excludes(id, &host).is_some();
        if self.executors.add(id, host, cores, excluded) {
            self.usability_changed(now, id);
        }
    }

    /// An executor came, went, or may now get tasks or none: the sets look at their levels anew.
    pub(super) fn usability_changed(&mut self, now: Tick, id: ExecutorId) {
        let Some(executor) = self.executors.get(id) else { return };
        let host = (executor.host(), self.executors.is_host_usable(executor.host()));
        for set in self.sets.iter_mut() {
            set.update_place(now, (id, executor.usable()), host);
        }
        self.round.offer_all();
        self.exclusions.look_again();
    }

    /// After a set changed: lists it for offers or not, and drops it when it is over.
    pub(super) fn settle(&mut self, now: Tick, stage: StageRef, out: &mut Vec<TaskEffect>) {
        let Some(set) = self.sets.get_mut(stage) else { return };
        set.list(&mut self.pools);
        if !set.is_over() {
            return;
        }
        let set = self.sets.remove(stage).expect("just looked at");
        if set.is_finished() {
            self.losses.forget(stage.stage);
        }
        self.openings.cancel(stage);
        self.note_failures(now, &set, out);
        set.leave(&mut self.pools);
    }

    /// Begins to look out for slow tasks, when tasks run.
    pub(super) fn book_speculation(&mut self, now: Tick) {
        if let Some(options) = &self.options.speculation {
            self.timer.book_check(now.plus_ms(options.interval_ms.max(1)));
        }
    }

    /// Asks to be woken when something falls due before the timer that is set already.
    fn arm(&mut self, out: &mut Vec<TaskEffect>) {
        let due = [self.openings.next(), self.exclusions.next_expiry()].into_iter().flatten();
        out.extend(self.timer.arm(due).map(TaskEffect::ArmTimer));
    }

    /// Whether nothing runs and nothing is left to run.
    pub fn is_idle(&self) -> bool {
        self.sets.count() == 0 && self.attempts.count() == 0
    }

    /// Whether the executor registered and is not lost.
    pub(crate) fn has_executor(&self, executor: ExecutorId) -> bool {
        self.executors.get(executor).is_some()
    }

    /// Forgets who is suspected of stages that nobody needs any more. A stage that is only rolled back keeps its own.
    pub fn forget_losses(&mut self, is_needed: impl Fn(StageId) -> bool) {
        self.losses.retain(is_needed);
    }

    /// Whether no task is suspected of having ended an executor.
    pub fn has_no_suspects(&self) -> bool {
        self.losses.is_empty()
    }

    /// How many executors are registered.
    pub fn executors(&self) -> usize {
        self.executors.count()
    }

    /// Free cores over all registered executors.
    pub fn free_cores(&self) -> u64 {
        self.executors.free_cores()
    }

    /// Whether the moment that the shell was asked for has passed and it has not come yet.
    pub(super) fn is_overdue(&self, now: Tick) -> bool {
        self.timer.is_overdue(now)
    }

    /// Attempts that were launched and have not ended.
    pub fn running_tasks(&self) -> usize {
        self.attempts.count()
    }

    /// Tasks that wait for a slot, over all sets that may launch.
    pub fn waiting_tasks(&self) -> usize {
        let active = self.sets.iter().filter(|set| set.is_active());
        active.map(|set| set.waiting().count() as usize).sum()
    }

    /// Task sets that are not over.
    pub fn task_sets(&self) -> usize {
        self.sets.count()
    }

    /// Reports that were ignored because their attempt had ended or never ran there.
    pub fn stale_reports(&self) -> u64 {
        self.attempts.stale_reports()
    }
}
