//! Exclusion: executors and nodes on which too much failed get no more of it.
//!
//! Three circles, as in Spark's `excludeOnFailure`: a task on an executor or node; a stage on an
//! executor or node; the application on an executor or node, for a time. Failures reach the last
//! circle only when their set succeeded in the end: a set that fails everywhere has itself to blame.

use std::collections::{BTreeMap, BTreeSet};

use firesteel_types::{Event, ExecutorId, Host, StageRef, Tick};

use super::core::TaskScheduler;
use super::set::SetState;
use crate::messages::{ExclusionOptions, TaskEffect, TaskSetFailure};
use crate::mutant::Mutant;

const TASK_EXECUTOR: &str = "spark.excludeOnFailure.task.maxTaskAttemptsPerExecutor";
const TASK_NODE: &str = "spark.excludeOnFailure.task.maxTaskAttemptsPerNode";
const STAGE_EXECUTOR: &str = "spark.excludeOnFailure.stage.maxFailedTasksPerExecutor";
const STAGE_NODE: &str = "spark.excludeOnFailure.stage.maxFailedExecutorsPerNode";
const APPLICATION_EXECUTOR: &str = "spark.excludeOnFailure.application.maxFailedTasksPerExecutor";
const APPLICATION_NODE: &str = "spark.excludeOnFailure.application.maxFailedExecutorsPerNode";

/// The name of the setting that keeps a task off an executor.
pub(super) type Setting = &'static str;

#[derive(Debug)]
struct ExecutorFailures {
    host: Host,
    /// How often each task failed here, and when last.
    tasks: BTreeMap<u32, (u32, Tick)>,
}

/// What failed where in one task set.
#[derive(Debug)]
pub(super) struct SetExclusion {
    stage: StageRef,
    limits: ExclusionOptions,
    failures: BTreeMap<ExecutorId, ExecutorFailures>,
    task_nodes: BTreeMap<u32, BTreeSet<Host>>,
    executors: BTreeSet<ExecutorId>,
    nodes: BTreeSet<Host>,
}

impl SetExclusion {
    fn new(stage: StageRef, limits: ExclusionOptions) -> Self {
        SetExclusion {
            stage,
            limits,
            failures: BTreeMap::new(),
            task_nodes: BTreeMap::new(),
            executors: BTreeSet::new(),
            nodes: BTreeSet::new(),
        }
    }

    /// Takes note of a failure that counts.
    pub(super) fn record(
        &mut self,
        now: Tick,
        index: u32,
        executor: ExecutorId,
        host: &Host,
        out: &mut Vec<TaskEffect>,
    ) {
        let here = self
            .failures
            .entry(executor)
            .or_insert_with(|| ExecutorFailures { host: host.clone(), tasks: BTreeMap::new() });
        let (count, last) = here.tasks.entry(index).or_insert((0, now));
        *count += 1;
        *last = now;
        let failed_tasks = here.tasks.len() as u32;
        if self.failures_on_node(index, host) >= self.limits.max_task_attempts_per_node {
            self.task_nodes.entry(index).or_default().insert(host.clone());
        }
        if failed_tasks >= self.limits.max_failed_tasks_per_executor_stage
            && self.executors.insert(executor)
        {
            self.executor_excluded(now, executor, failed_tasks, host, out);
        }
    }

    fn failures_on_node(&self, index: u32, host: &Host) -> u32 {
        let on_node = self.failures.values().filter(|failures| failures.host == *host);
        on_node.filter_map(|failures| failures.tasks.get(&index)).map(|(count, _)| count).sum()
    }

    fn executor_excluded(
        &mut self,
        at: Tick,
        executor: ExecutorId,
        failures: u32,
        host: &Host,
        out: &mut Vec<TaskEffect>,
    ) {
        let stage = Some(self.stage);
        out.push(TaskEffect::Post(Event::ExecutorExcluded { executor, stage, failures, at }));
        let on_node = |id: &&ExecutorId| self.failures[id].host == *host;
        let failures = self.executors.iter().filter(on_node).count() as u32;
        if failures >= self.limits.max_failed_executors_per_node_stage
            && self.nodes.insert(host.clone())
        {
            let host = host.clone();
            out.push(TaskEffect::Post(Event::NodeExcluded { host, stage, failures, at }));
        }
    }

    /// Why the executor gets no task of the set, if so.
    pub(super) fn excludes(&self, executor: ExecutorId, host: &Host) -> Option<Setting> {
        if self.executors.contains(&executor) {
            Some(STAGE_EXECUTOR)
        } else {
            self.nodes.contains(host).then_some(STAGE_NODE)
        }
    }

    /// Why the executor does not get this task, if so.
    pub(super) fn excludes_task(
        &self,
        index: u32,
        executor: ExecutorId,
        host: &Host,
    ) -> Option<Setting> {
        let failures = self.failures.get(&executor).and_then(|here| here.tasks.get(&index));
        if failures.is_some_and(|(n, _)| *n >= self.limits.max_task_attempts_per_executor) {
            return Some(TASK_EXECUTOR);
        }
        let on_node = self.task_nodes.get(&index).is_some_and(|hosts| hosts.contains(host));
        on_node.then_some(TASK_NODE)
    }

    fn failed_tasks(&self) -> impl Iterator<Item = u32> {
        self.failures.values().flat_map(|failures| failures.tasks.keys().copied())
    }
}

/// What is excluded from the whole application, and until when.
#[derive(Debug)]
struct ApplicationExclusion {
    limits: ExclusionOptions,
    /// When each failure ceases to count.
    failures: BTreeMap<ExecutorId, Vec<Tick>>,
    executors: BTreeMap<ExecutorId, (Host, Tick)>,
    nodes: BTreeMap<Host, Tick>,
}

impl ApplicationExclusion {
    fn new(limits: ExclusionOptions) -> Self {
        ApplicationExclusion {
            limits,
            failures: BTreeMap::new(),
            executors: BTreeMap::new(),
            nodes: BTreeMap::new(),
        }
    }

    /// A set succeeded in spite of failures: they count against the executors. True if one is
    /// excluded by it.
    fn set_succeeded(&mut self, now: Tick, set: &SetExclusion, out: &mut Vec<TaskEffect>) -> bool {
        if !set.failures.is_empty() {
            self.forget_old_failures(now);
        }
        let mut changed = false;
        for (executor, here) in &set.failures {
            let expiries = self.failures.entry(*executor).or_default();
            let timeout_ms = self.limits.timeout_ms;
            let new = here.tasks.values().map(|(_, last)| last.plus_ms(timeout_ms));
            expiries.extend(new.filter(|expiry| *expiry > now));
            let failures = expiries.len() as u32;
            if failures >= self.limits.max_failed_tasks_per_executor
                && !self.executors.contains_key(executor)
            {
                self.exclude(now, *executor, &here.host, failures, out);
                changed = true;
            }
        }
        changed
    }

    fn forget_old_failures(&mut self, now: Tick) {
        self.failures.retain(|_, expiries| {
            expiries.retain(|expiry| *expiry > now);
            !expiries.is_empty()
        });
    }

    fn exclude(
        &mut self,
        at: Tick,
        executor: ExecutorId,
        host: &Host,
        failures: u32,
        out: &mut Vec<TaskEffect>,
    ) {
        let until = at.plus_ms(self.limits.timeout_ms);
        self.executors.insert(executor, (host.clone(), until));
        out.push(TaskEffect::Post(Event::ExecutorExcluded { executor, stage: None, failures, at }));
        let failures = self.executors.values().filter(|(node, _)| node == host).count() as u32;
        if failures >= self.limits.max_failed_executors_per_node && !self.nodes.contains_key(host) {
            self.nodes.insert(host.clone(), until);
            let host = host.clone();
            out.push(TaskEffect::Post(Event::NodeExcluded { host, stage: None, failures, at }));
        }
    }

    /// Lets exclusions run out. True if any did.
    fn expire(&mut self, at: Tick, out: &mut Vec<TaskEffect>) -> bool {
        let before = out.len();
        self.executors.retain(|executor, (_, until)| {
            let stays = *until > at;
            if !stays {
                let executor = *executor;
                out.push(TaskEffect::Post(Event::ExecutorUnexcluded { executor, at }));
            }
            stays
        });
        self.nodes.retain(|host, until| {
            let stays = *until > at;
            if !stays {
                let host = host.clone();
                out.push(TaskEffect::Post(Event::NodeUnexcluded { host, at }));
            }
            stays
        });
        out.len() > before
    }

    fn next_expiry(&self) -> Option<Tick> {
        let executors = self.executors.values().map(|(_, until)| *until);
        executors.chain(self.nodes.values().copied()).min()
    }

    /// The executor is gone: its failures are of no use any more.
    fn executor_lost(&mut self, executor: ExecutorId) {
        self.failures.remove(&executor);
    }

    /// Why the executor gets no task at all, if so.
    fn excludes(&self, executor: ExecutorId, host: &Host) -> Option<Setting> {
        if self.executors.contains_key(&executor) {
            Some(APPLICATION_EXECUTOR)
        } else {
            self.nodes.contains_key(host).then_some(APPLICATION_NODE)
        }
    }
}

/// The circles, if anything is excluded at all.
#[derive(Debug)]
pub(super) struct Exclusions {
    all: Option<ApplicationExclusion>,
    /// A task may have become unschedulable.
    changed: bool,
}

impl Exclusions {
    /// Within these limits; without any, nothing is ever excluded.
    pub(super) fn new(limits: Option<ExclusionOptions>) -> Self {
        Exclusions { all: limits.map(ApplicationExclusion::new), changed: false }
    }

    /// For a new set.
    pub(super) fn of_set(&self, stage: StageRef) -> Option<SetExclusion> {
        self.all.as_ref().map(|all| SetExclusion::new(stage, all.limits.clone()))
    }

    /// Something failed or changed: a task may have become unschedulable.
    pub(super) fn look_again(&mut self) {
        self.changed = true;
    }

    /// Whether a task may have become unschedulable since this was asked last.
    fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed) && self.all.is_some()
    }

    /// Why the executor gets no task at all, if so.
    pub(super) fn excludes(&self, executor: ExecutorId, host: &Host) -> Option<Setting> {
        self.all.as_ref()?.excludes(executor, host)
    }

    pub(super) fn executor_lost(&mut self, executor: ExecutorId) {
        if let Some(all) = &mut self.all {
            all.executor_lost(executor);
        }
    }

    pub(super) fn next_expiry(&self) -> Option<Tick> {
        self.all.as_ref()?.next_expiry()
    }
}

impl TaskScheduler {
    /// Lets the exclusions of the application that have run out go.
    pub(super) fn expire_exclusions(&mut self, now: Tick, out: &mut Vec<TaskEffect>) {
        let expired = self.exclusions.all.as_mut().is_some_and(|all| all.expire(now, out));
        if expired {
            self.apply_exclusions(now);
        }
    }

    /// A set left: if it succeeded, its failures count against their executors.
    pub(super) fn note_failures(&mut self, now: Tick, set: &SetState, out: &mut Vec<TaskEffect>) {
        let (Some(all), Some(failures)) = (&mut self.exclusions.all, set.exclusion()) else {
            return;
        };
        if set.is_complete() && all.set_succeeded(now, failures, out) {
            self.apply_exclusions(now);
        }
    }

    /// Brings the executors in line with what the application excludes.
    fn apply_exclusions(&mut self, now: Tick) {
        if self.options.planted.is(Mutant::UsesExcludedExecutors) {
            return;
        }
        let wanted = |(id, executor): (ExecutorId, &super::executors::Executor)| {
            let excluded = self.exclusions.excludes(id, executor.host()).is_some();
            (excluded != executor.is_excluded()).then_some((id, excluded))
        };
        let changes: Vec<_> = self.executors.iter().filter_map(wanted).collect();
        for (id, excluded) in changes {
            self.executors.set_excluded(id, excluded);
            self.usability_changed(now, id);
        }
    }

    /// Fails sets with a task that every executor is excluded for. A set waits as long as there is no
    /// executor at all: one may come.
    pub(super) fn fail_unschedulable(&mut self, now: Tick, out: &mut Vec<TaskEffect>) {
        if !self.exclusions.take_changed() {
            return;
        }
        let active = self.sets.iter().filter(|set| set.wants_slots());
        let stuck: Vec<_> = active
            .filter_map(|set| self.stuck_task(set).map(|(index, why)| (set.stage(), index, why)))
            .collect();
        for (stage, index, settings) in stuck {
            let partition = self.sets[stage].slots().partition(index);
            let reason = format!(
                "every executor is excluded for partition {partition} of stage {stage} by {}; \
                 raise it, or set spark.excludeOnFailure.enabled=false",
                settings.into_iter().collect::<Vec<_>>().join(", ")
            );
            self.fail_set(stage, TaskSetFailure::Unschedulable { partition, reason }, out);
            self.settle(now, stage, out);
        }
    }

    /// A waiting task of the set that can run nowhere, with the settings that say so.
    fn stuck_task(&self, set: &SetState) -> Option<(u32, BTreeSet<Setting>)> {
        let failures = set.exclusion()?;
        if let Some(settings) = self.settings_against(failures, None) {
            return Some((set.waiting().first()?, settings));
        }
        let mut failed = failures.failed_tasks().filter(|index| set.waiting().contains(*index));
        failed.find_map(|index| Some((index, self.settings_against(failures, Some(index))?)))
    }

    /// The settings that keep the set, or one task of it, off every executor there is.
    fn settings_against(
        &self,
        failures: &SetExclusion,
        index: Option<u32>,
    ) -> Option<BTreeSet<Setting>> {
        let settings: Option<BTreeSet<Setting>> = self
            .executors
            .candidates()
            .map(|(id, executor)| {
                let host = executor.host();
                self.exclusions
                    .excludes(id, host)
                    .or_else(|| failures.excludes(id, host))
                    .or_else(|| failures.excludes_task(index?, id, host))
            })
            .collect();
        settings.filter(|settings| !settings.is_empty())
    }
}
