//! The world around the scheduler as the rules have it, and a judge of every effect.

use std::collections::{BTreeMap, BTreeSet};

use firesteel_types::{
    Event, ExecutorId, Host, JobId, Location, RddId, ShuffleId, StageId, StageRef, TaskFailure,
    TaskId, TaskInfo, TaskMetrics, TaskOutcome, Tick,
};

use super::properties::Step;
use crate::messages::{
    TaskEffect, TaskEvent, TaskOptions, TaskSet, TaskSetFailure, TaskSetKind, TaskSpec,
};
use crate::task::TaskScheduler;

/// How often each kind of trouble really happened.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults(BTreeMap<&'static str, u64>);

const KINDS: [&str; 18] = [
    "pipelined",
    "counted failure",
    "fatal failure",
    "fetch failure",
    "kill",
    "stale report",
    "wrong executor",
    "executor lost with tasks",
    "output lost",
    "lost executor came back",
    "decommission",
    "cancel with tasks",
    "retire with tasks",
    "newer attempt",
    "set failed",
    "set unschedulable",
    "speculative copy",
    "late success",
];

impl Faults {
    fn fired(&mut self, kind: &'static str) {
        assert!(KINDS.contains(&kind));
        *self.0.entry(kind).or_insert(0) += 1;
    }

    pub(super) fn add(&mut self, other: &Faults) {
        for (kind, count) in &other.0 {
            *self.0.entry(kind).or_insert(0) += count;
        }
    }

    pub(super) fn assert_all_fired(&self) {
        for kind in KINDS {
            assert!(self.0.get(kind).is_some_and(|count| *count > 0), "no {kind} in {self:?}");
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Active,
    Retired,
    Failed,
    Cancelled,
}

#[derive(Debug)]
struct ModelSet {
    set: TaskSet,
    fate: Fate,
    done: BTreeMap<u32, ExecutorId>,
    launches: BTreeMap<u32, u32>,
    failures: BTreeMap<u32, u32>,
}

#[derive(Debug)]
struct ModelExecutor {
    host: Host,
    cores: u32,
    decommissioned: bool,
}

pub(super) struct Model {
    scheduler: TaskScheduler,
    options: TaskOptions,
    now: Tick,
    timers: BTreeSet<Tick>,
    sets: BTreeMap<StageRef, ModelSet>,
    executors: BTreeMap<ExecutorId, ModelExecutor>,
    lost: Vec<ExecutorId>,
    /// Executors that a task may have ended, at most.
    lost_with: BTreeMap<(StageId, u32), u32>,
    live: BTreeMap<TaskId, TaskInfo>,
    ended: Vec<TaskInfo>,
    next_task: u64,
    next_executor: u32,
    next_stage: u32,
    started: u64,
    heard_ends: u64,
    pub(super) faults: Faults,
    pub(super) audit: bool,
    pub(super) keep_trace: bool,
    pub(super) trace: Vec<String>,
}

/// What the scheduler is being told, as far as it bears on what it may answer.
struct Cause {
    reported: Option<(TaskInfo, TaskOutcome)>,
    lost: Option<ExecutorId>,
}

impl Model {
    pub(super) fn new(options: TaskOptions) -> Self {
        Model {
            scheduler: TaskScheduler::new(options.clone()),
            options,
            now: Tick(0),
            timers: BTreeSet::new(),
            sets: BTreeMap::new(),
            executors: BTreeMap::new(),
            lost: Vec::new(),
            lost_with: BTreeMap::new(),
            live: BTreeMap::new(),
            ended: Vec::new(),
            next_task: 0,
            next_executor: 0,
            next_stage: 0,
            started: 0,
            heard_ends: 0,
            faults: Faults::default(),
            audit: true,
            keep_trace: false,
            trace: Vec::new(),
        }
    }

    pub(super) fn take(&mut self, step: &Step) {
        match *step {
            Step::Submit { tasks, places, map, pool } => self.submit(tasks, places, map, pool),
            Step::SubmitNewer { set } => self.submit_newer(set),
            Step::Succeed { task } => {
                if let Some(info) = pick(self.live.values(), task).cloned() {
                    self.report(info, TaskOutcome::Success);
                }
            }
            Step::Fail { task, how } => self.fail(task, how),
            Step::StaleReport { task, success } => self.stale_report(task, success),
            Step::WrongExecutor { task, success } => self.wrong_executor(task, success),
            Step::AddExecutor { host, cores } => self.add_executor(&format!("h{host}"), cores),
            Step::AddKnown { executor } => {
                if let Some(executor) = pick(self.executors.keys(), executor).copied() {
                    let host = Host::new("elsewhere");
                    self.send(TaskEvent::ExecutorAdded { executor, host, cores: 9 });
                }
            }
            Step::AddLost { executor } => {
                if let Some(executor) = pick(self.lost.iter(), executor).copied() {
                    self.faults.fired("lost executor came back");
                    let host = Host::new("h0");
                    self.send(TaskEvent::ExecutorAdded { executor, host, cores: 9 });
                }
            }
            Step::Lose { executor, by_app, outputs } => self.lose(executor, by_app, outputs),
            Step::Decommission { executor } => {
                if let Some(executor) = pick(self.executors.keys(), executor).copied() {
                    self.faults.fired("decommission");
                    self.executors.get_mut(&executor).expect("picked").decommissioned = true;
                    self.send(TaskEvent::ExecutorDecommissioned { executor });
                }
            }
            Step::Cancel { set } => self.end_set(set, Fate::Cancelled),
            Step::Retire { set } => self.end_set(set, Fate::Retired),
            Step::KillTask { task } => {
                if let Some(task) = pick(self.live.keys(), task).copied() {
                    self.send(TaskEvent::TaskKillRequested { task, reason: "by hand".into() });
                }
            }
            Step::Pass { ms } => self.pass(u64::from(ms)),
        }
    }

    fn submit(&mut self, tasks: u8, places: u32, map: bool, pool: u8) {
        let stage = StageRef { stage: StageId(self.next_stage), attempt: 0 };
        self.next_stage += 1;
        let specs = (0..u32::from(tasks)).map(|partition| TaskSpec {
            partition: partition * 3,
            preferred: preferred(places.rotate_left(partition * 5)),
        });
        let kind = match map {
            true => TaskSetKind::ShuffleMap(ShuffleId(stage.stage.0)),
            false => TaskSetKind::Result(JobId(stage.stage.0)),
        };
        self.submit_set(TaskSet {
            stage,
            kind,
            priority: JobId(places % 3),
            pool: (pool > 0).then(|| format!("pool{pool}")),
            rdd: RddId(0),
            tasks: specs.collect(),
        });
    }

    pub(super) fn submit_plain(&mut self, stage: StageRef, tasks: u32) {
        let specs = (0..tasks).map(|partition| TaskSpec { partition, preferred: Vec::new() });
        self.submit_set(TaskSet {
            stage,
            kind: TaskSetKind::Result(JobId(0)),
            priority: JobId(0),
            pool: None,
            rdd: RddId(0),
            tasks: specs.collect(),
        });
    }

    fn submit_set(&mut self, set: TaskSet) {
        for (stage, older) in &mut self.sets {
            if stage.stage == set.stage.stage && older.fate == Fate::Active {
                older.fate = Fate::Retired;
            }
        }
        let (done, launches, failures) = Default::default();
        let model = ModelSet { set: set.clone(), fate: Fate::Active, done, launches, failures };
        self.sets.insert(set.stage, model);
        self.send(TaskEvent::TaskSetSubmitted(set));
    }

    fn submit_newer(&mut self, which: u8) {
        let Some(stage) = pick(self.sets.keys(), which).copied() else { return };
        let newest = self.sets.keys().filter(|other| other.stage == stage.stage).max().copied();
        let newest = newest.expect("the stage has a set");
        let mut set = self.sets[&newest].set.clone();
        set.stage.attempt += 1;
        self.faults.fired("newer attempt");
        self.submit_set(set);
    }

    fn fail(&mut self, task: u8, how: u8) {
        let Some(info) = pick(self.live.values(), task).cloned() else { return };
        let message = String::from("drawn");
        let failure = match how {
            0..8 => TaskFailure::Fatal { message },
            8..30 => TaskFailure::FetchFailed {
                shuffle: ShuffleId(0),
                map_partition: 0,
                reduce_partition: info.partition,
                location: info.executor.into(),
                broken: Vec::new(),
                message,
            },
            30..90 => TaskFailure::Killed { reason: message },
            _ => TaskFailure::Error { message },
        };
        self.faults.fired(match &failure {
            TaskFailure::Fatal { .. } => "fatal failure",
            TaskFailure::FetchFailed { .. } => "fetch failure",
            TaskFailure::Killed { .. } => "kill",
            _ => "counted failure",
        });
        self.report(info, TaskOutcome::Failed(failure));
    }

    fn stale_report(&mut self, task: u8, success: bool) {
        let Some(info) = pick(self.ended.iter(), task).cloned() else { return };
        self.faults.fired("stale report");
        self.send_stale(info.task, info.executor, success);
    }

    fn wrong_executor(&mut self, task: u8, success: bool) {
        let Some(info) = pick(self.live.values(), task).cloned() else { return };
        self.faults.fired("wrong executor");
        self.send_stale(info.task, ExecutorId(info.executor.0 + 1), success);
    }

    fn send_stale(&mut self, task: TaskId, executor: ExecutorId, success: bool) {
        let failed = TaskOutcome::Failed(TaskFailure::Error { message: "stale".into() });
        let outcome = if success { TaskOutcome::Success } else { failed };
        let before = self.live.len();
        let out = self.send(TaskEvent::TaskReported {
            task,
            executor,
            outcome,
            metrics: None,
            written: None,
        });
        let discards =
            count(&out, |e| matches!(e, TaskEffect::DiscardTask { task: t, .. } if *t == task));
        assert_eq!(discards, usize::from(success), "S06: a stale success is dropped");
        assert_eq!(self.live.len(), before, "S06: a stale report changes nothing");
    }

    fn add_executor(&mut self, host: &str, cores: u8) {
        let (executor, cores) = (ExecutorId(self.next_executor), u32::from(cores));
        self.next_executor += 1;
        let host = Host::new(host);
        let model = ModelExecutor { host: host.clone(), cores, decommissioned: false };
        self.executors.insert(executor, model);
        self.send(TaskEvent::ExecutorAdded { executor, host, cores });
    }

    fn lose(&mut self, which: u8, caused_by_app: bool, outputs_lost: bool) {
        let Some(executor) = pick(self.executors.keys(), which).copied() else { return };
        self.executors.remove(&executor);
        self.lost.push(executor);
        if self.live.values().any(|info| info.executor == executor) {
            self.faults.fired("executor lost with tasks");
        }
        let reason = "drawn".into();
        let lost = TaskEvent::ExecutorLost { executor, caused_by_app, outputs_lost, reason };
        let mut out = Vec::new();
        self.scheduler.handle(self.now, lost, &mut out);
        // The ends of its tasks come first; then its outputs are gone; then sets that can run
        // nowhere fail and tasks are launched.
        let first_later = out.iter().position(is_after_losses);
        let later = out.split_off(first_later.unwrap_or(out.len()));
        let cause = Cause { reported: None, lost: Some(executor) };
        self.judge(&cause, &out);
        if outputs_lost {
            self.lose_outputs(executor);
        }
        self.judge(&cause, &later);
        self.check();
    }

    fn lose_outputs(&mut self, executor: ExecutorId) {
        for set in self.sets.values_mut() {
            let map = matches!(set.set.kind, TaskSetKind::ShuffleMap(_));
            let finished = set.done.len() == set.set.tasks.len();
            if map && set.fate == Fate::Active && !finished {
                let before = set.done.len();
                set.done.retain(|_, on| *on != executor);
                if set.done.len() < before {
                    self.faults.fired("output lost");
                }
            }
        }
    }

    fn end_set(&mut self, which: u8, fate: Fate) {
        let Some(stage) = pick(self.sets.keys(), which).copied() else { return };
        let running = self.live.values().any(|info| info.stage == stage);
        let set = self.sets.get_mut(&stage).expect("picked");
        let reason = "drawn".into();
        let event = match fate {
            Fate::Cancelled => {
                if running {
                    self.faults.fired("cancel with tasks");
                }
                set.fate = fate;
                TaskEvent::TaskSetCancelled { stage, reason }
            }
            _ => {
                if running {
                    self.faults.fired("retire with tasks");
                }
                if set.fate == Fate::Active {
                    set.fate = Fate::Retired;
                }
                TaskEvent::TaskSetRetired { stage }
            }
        };
        self.send(event);
    }

    fn pass(&mut self, ms: u64) {
        let until = self.now.plus_ms(ms);
        while let Some(at) = self.timers.first().copied().filter(|at| *at <= until) {
            self.timers.remove(&at);
            self.now = at.max(self.now);
            self.send(TaskEvent::Ticked);
        }
        self.now = until;
    }

    fn report(&mut self, info: TaskInfo, outcome: TaskOutcome) {
        let (task, executor) = (info.task, info.executor);
        if let TaskOutcome::Failed(TaskFailure::FetchFailed { .. }) = outcome {
            let set = self.sets.get_mut(&info.stage).expect("launched sets are known");
            if set.fate == Fate::Active && set.done.len() < set.set.tasks.len() {
                set.fate = Fate::Retired;
            }
        }
        let cause = Cause { reported: Some((info, outcome.clone())), lost: None };
        let mut out = Vec::new();
        let run_time_us = task.0 * 7919 % 2000;
        let metrics = TaskMetrics { run_time_us, ..TaskMetrics::default() };
        let metrics = Some(Box::new(metrics));
        let event = TaskEvent::TaskReported { task, executor, outcome, metrics, written: None };
        self.scheduler.handle(self.now, event, &mut out);
        self.judge(&cause, &out);
        assert!(!self.live.contains_key(&task), "a reported attempt has ended");
        self.check();
    }

    fn send(&mut self, event: TaskEvent) -> Vec<TaskEffect> {
        let mut out = Vec::new();
        self.scheduler.handle(self.now, event, &mut out);
        self.judge(&Cause { reported: None, lost: None }, &out);
        self.check();
        out
    }

    fn check(&mut self) {
        assert_eq!(self.scheduler.running_tasks(), self.live.len());
        assert_eq!(self.scheduler.executors(), self.executors.len());
        assert_eq!(
            self.started - self.heard_ends,
            self.live.len() as u64,
            "each end is heard once"
        );
        if self.audit {
            self.scheduler.assert_invariants();
            assert_eq!(self.scheduler.forgotten_launches(self.now), 0, "L04: a forgotten offer");
        }
    }

    fn judge(&mut self, cause: &Cause, out: &[TaskEffect]) {
        if self.keep_trace {
            self.trace.extend(out.iter().map(|effect| format!("{:?} {effect:?}", self.now)));
        }
        for effect in out {
            match effect {
                TaskEffect::LaunchTask(info) => self.judge_launch(cause, info),
                TaskEffect::KillTask { task, executor, .. } => {
                    assert_eq!(self.live[task].executor, *executor, "kills reach live attempts");
                    assert!(self.executors.contains_key(executor), "no kill to the dead");
                }
                TaskEffect::TaskEnded { task, outcome, .. } => self.judge_end(cause, task, outcome),
                TaskEffect::TaskSetFailed { stage, cause } => self.judge_failure(*stage, cause),
                TaskEffect::ArmTimer(at) => {
                    assert!(*at > self.now, "timers lie ahead");
                    self.timers.insert(*at);
                }
                TaskEffect::DiscardTask { .. } => {}
                TaskEffect::Post(event) => self.judge_post(event),
            }
        }
        self.judge_discards(cause, out);
    }

    fn judge_launch(&mut self, cause: &Cause, info: &TaskInfo) {
        assert_eq!(info.task, TaskId(self.next_task), "S05: ids count up");
        self.next_task += 1;
        assert_eq!(info.launched, self.now);
        assert!(!self.lost.contains(&info.executor), "S04: a lost executor got a task");
        let executor = &self.executors[&info.executor];
        assert!(!executor.decommissioned, "S13: a decommissioned executor got a task");
        let there = self.live.values().filter(|other| other.executor == info.executor).count();
        let slots = (executor.cores / self.options.cpus_per_task) as usize;
        if there >= slots {
            self.faults.fired("pipelined");
            assert!(self.options.pipeline_us > 0, "S03: more tasks than cores");
            assert!(there < 33 * slots, "too many tasks are pipelined");
            let there = |(task, outcome): &(TaskInfo, TaskOutcome)| {
                task.executor == info.executor && *outcome == TaskOutcome::Success
            };
            assert!(
                cause.reported.as_ref().is_some_and(there),
                "only a success brings pipelined tasks"
            );
        }
        let copies: Vec<_> = self
            .live
            .values()
            .filter(|other| other.stage == info.stage && other.partition == info.partition)
            .collect();
        assert_eq!(copies.len(), usize::from(info.speculative), "S10: live attempts");
        for original in copies {
            self.faults.fired("speculative copy");
            assert_ne!(original.executor, info.executor, "a copy runs elsewhere");
            let cpus = self.options.cpus_per_task;
            let fits = |other: &&ModelExecutor| !other.decommissioned && other.cores >= cpus;
            let usable = self.executors.values().filter(fits);
            let host = &self.executors[&original.executor].host;
            let elsewhere = usable.filter(|other| other.host != *host).count();
            let excluding = self.options.exclusion.is_some();
            assert!(excluding || elsewhere == 0 || executor.host != *host, "a copy changes hosts");
        }
        let set = self.sets.get_mut(&info.stage).expect("launched sets are known");
        assert_eq!(set.fate, Fate::Active, "only active sets launch");
        assert!(!set.done.contains_key(&info.partition), "a finished partition runs again");
        let launches = set.launches.entry(info.partition).or_insert(0);
        assert_eq!(info.attempt, *launches, "attempts count up");
        *launches += 1;
        self.live.insert(info.task, info.clone());
    }

    fn judge_end(&mut self, cause: &Cause, info: &TaskInfo, outcome: &TaskOutcome) {
        let set = self.sets.get_mut(&info.stage).expect("launched sets are known");
        assert_ne!(set.fate, Fate::Cancelled, "a cancelled set says nothing");
        match outcome {
            TaskOutcome::Success => {
                let before = set.done.insert(info.partition, info.executor);
                assert_eq!(before, None, "S08: a second success of a partition");
                assert!(cause.reported.as_ref().is_some_and(|(reported, _)| reported == info));
            }
            TaskOutcome::Failed(TaskFailure::ExecutorLost { executor, .. }) => {
                assert_eq!(cause.lost, Some(*executor));
                self.count_failure(info, outcome);
            }
            TaskOutcome::Failed(_) => self.count_failure(info, outcome),
        }
    }

    fn count_failure(&mut self, info: &TaskInfo, outcome: &TaskOutcome) {
        let set = self.sets.get_mut(&info.stage).expect("launched sets are known");
        let TaskOutcome::Failed(failure) = outcome else { return };
        let open = !set.done.contains_key(&info.partition);
        if matches!(failure, TaskFailure::ExecutorLost { .. }) {
            if failure.counts() {
                *self.lost_with.entry((info.stage.stage, info.partition)).or_insert(0) += 1;
            }
            return;
        }
        let matters = set.fate == Fate::Active && open;
        if failure.counts() && matters {
            let failures = set.failures.entry(info.partition).or_insert(0);
            *failures += 1;
            assert!(*failures <= self.options.max_failures, "S12: more retries than allowed");
        }
    }

    fn judge_failure(&mut self, stage: StageRef, cause: &TaskSetFailure) {
        let set = self.sets.get_mut(&stage).expect("failed sets are known");
        let lost = |failure: &TaskFailure| matches!(failure, TaskFailure::ExecutorLost { .. });
        let by_loss = matches!(cause, TaskSetFailure::TaskFailed { failure, .. } if lost(failure));
        let may = set.fate == Fate::Active || by_loss && set.fate == Fate::Retired;
        assert!(may, "a set fails once, and only while somebody waits for it: {:?}", set.fate);
        set.fate = Fate::Failed;
        match cause {
            TaskSetFailure::TaskFailed { partition, attempts, failure } => {
                self.faults.fired("set failed");
                // Losses that another task explains count against nobody else.
                let own = set.failures.get(partition).copied().unwrap_or(0);
                let lost = self.lost_with.get(&(stage.stage, *partition)).copied().unwrap_or(0);
                assert!((own..=own + lost).contains(attempts), "S12: {attempts} of {own} + {lost}");
                let fatal = matches!(failure, TaskFailure::Fatal { .. });
                assert!(
                    fatal || *attempts == self.options.max_failures,
                    "S12: failed after {attempts}"
                );
            }
            TaskSetFailure::Unschedulable { reason, .. } => {
                self.faults.fired("set unschedulable");
                assert!(self.options.exclusion.is_some() && !self.executors.is_empty());
                assert!(reason.contains("spark.excludeOnFailure."));
            }
        }
    }

    fn judge_post(&mut self, event: &Event) {
        match event {
            Event::TaskStart { .. } => self.started += 1,
            Event::TaskEnd { task, .. } => {
                self.heard_ends += 1;
                let known = self.live.remove(&task.task);
                assert_eq!(known.as_ref(), Some(task), "an attempt ends once");
                self.ended.push(task.clone());
            }
            _ => {}
        }
    }

    /// The output of a reported success is either used or dropped.
    fn judge_discards(&mut self, cause: &Cause, out: &[TaskEffect]) {
        let Some((info, TaskOutcome::Success)) = &cause.reported else { return };
        let used = count(
            out,
            |effect| matches!(effect, TaskEffect::TaskEnded { task, outcome: TaskOutcome::Success, .. } if task == info),
        );
        let dropped = count(
            out,
            |effect| matches!(effect, TaskEffect::DiscardTask { task, .. } if *task == info.task),
        );
        assert_eq!(used + dropped, 1, "an output is used or dropped");
        if dropped == 1 && self.sets[&info.stage].fate != Fate::Cancelled {
            self.faults.fired("late success");
        }
    }

    /// Peace: a new executor on a new host, every task succeeds, timers fire. All must end.
    pub(super) fn calm_down(&mut self) {
        self.add_executor("peace", self.options.cpus_per_task as u8 * 2);
        let limit = 100 + 10 * self.sets.values().map(|set| set.set.tasks.len()).sum::<usize>();
        let mut steps = 0;
        while !self.scheduler.is_idle() {
            steps += 1;
            assert!(steps < limit, "L04: {} tasks wait", self.scheduler.waiting_tasks());
            match self.live.values().next().cloned() {
                Some(info) => self.report(info, TaskOutcome::Success),
                None => {
                    let at =
                        self.timers.pop_first().expect("L04: nothing runs and no timer is set");
                    self.now = at.max(self.now);
                    self.send(TaskEvent::Ticked);
                }
            }
        }
        self.pass(10_000);
        assert!(self.live.is_empty());
        for (stage, set) in self.sets.iter().filter(|(_, set)| set.fate == Fate::Active) {
            assert_eq!(set.done.len(), set.set.tasks.len(), "set {stage} is not complete");
        }
    }
}

fn is_after_losses(effect: &TaskEffect) -> bool {
    match effect {
        TaskEffect::TaskSetFailed { cause, .. } => {
            matches!(cause, TaskSetFailure::Unschedulable { .. })
        }
        effect => matches!(effect, TaskEffect::LaunchTask(_)),
    }
}

fn preferred(bits: u32) -> Vec<Location> {
    let host = Host(format!("h{}", bits >> 4 & 3).into());
    let executor = ExecutorId(bits >> 8 & 7);
    match bits & 7 {
        0..3 => Vec::new(),
        3 | 4 => vec![Location { host, executor: None }],
        5 | 6 => vec![Location { host, executor: Some(executor) }],
        _ => vec![
            Location { host, executor: Some(executor) },
            Location { host: Host::new("h1"), executor: None },
        ],
    }
}

fn pick<T>(mut from: impl ExactSizeIterator<Item = T>, which: u8) -> Option<T> {
    match from.len() {
        0 => None,
        len => from.nth(usize::from(which) % len),
    }
}

fn count(out: &[TaskEffect], which: impl Fn(&TaskEffect) -> bool) -> usize {
    out.iter().filter(|effect| which(effect)).count()
}
