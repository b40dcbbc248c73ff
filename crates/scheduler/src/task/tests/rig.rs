//! Drives a scheduler and writes its effects as short lines.

use firesteel_types::event::Locality;
use firesteel_types::{
    Event, ExecutorId, Host, JobId, Location, RddId, ShuffleId, StageId, StageRef, TaskFailure,
    TaskId, TaskInfo, TaskMetrics, TaskOutcome, Tick,
};

use crate::messages::{
    TaskEffect, TaskEvent, TaskOptions, TaskSet, TaskSetFailure, TaskSetKind, TaskSpec,
};
use crate::task::TaskScheduler;

pub(super) struct Rig {
    pub(super) scheduler: TaskScheduler,
    pub(super) now: Tick,
    pub(super) effects: Vec<TaskEffect>,
    lines: Vec<String>,
}

impl Rig {
    pub(super) fn new(options: TaskOptions) -> Self {
        let scheduler = TaskScheduler::new(options);
        Rig { scheduler, now: Tick(0), effects: Vec::new(), lines: Vec::new() }
    }

    /// With default options and executors `(id, host, cores)`.
    pub(super) fn with(executors: &[(u32, &str, u32)]) -> Self {
        Self::with_options(TaskOptions::default(), executors)
    }

    pub(super) fn with_options(options: TaskOptions, executors: &[(u32, &str, u32)]) -> Self {
        let mut rig = Self::new(options);
        for (id, host, cores) in executors {
            rig.add(*id, host, *cores);
        }
        rig
    }

    pub(super) fn send(&mut self, event: TaskEvent) {
        let mut out = Vec::new();
        self.scheduler.handle(self.now, event, &mut out);
        self.scheduler.assert_invariants();
        assert_eq!(self.scheduler.forgotten_launches(self.now), 0, "L04: an offer was forgotten");
        self.lines.extend(out.iter().filter_map(line));
        self.effects.append(&mut out);
    }

    pub(super) fn at(&mut self, now: u64) -> &mut Self {
        self.now = Tick(now);
        self
    }

    pub(super) fn tick(&mut self, now: u64) {
        self.at(now).send(TaskEvent::Ticked);
    }

    pub(super) fn add(&mut self, id: u32, host: &str, cores: u32) {
        let (executor, host) = (ExecutorId(id), Host::new(host));
        self.send(TaskEvent::ExecutorAdded { executor, host, cores });
    }

    pub(super) fn lose(&mut self, id: u32, caused_by_app: bool, outputs_lost: bool) {
        let executor = ExecutorId(id);
        let reason = "gone".into();
        self.send(TaskEvent::ExecutorLost { executor, caused_by_app, outputs_lost, reason });
    }

    pub(super) fn submit(&mut self, set: TaskSet) {
        self.send(TaskEvent::TaskSetSubmitted(set));
    }

    pub(super) fn cancel(&mut self, stage: StageRef) {
        self.send(TaskEvent::TaskSetCancelled { stage, reason: "cancelled".into() });
    }

    pub(super) fn report(&mut self, task: u64, executor: u32, outcome: TaskOutcome) {
        let (task, executor) = (TaskId(task), ExecutorId(executor));
        self.send(TaskEvent::TaskReported {
            task,
            executor,
            outcome,
            metrics: None,
            written: None,
        });
    }

    pub(super) fn succeed(&mut self, task: u64, executor: u32) {
        self.report(task, executor, TaskOutcome::Success);
    }

    /// A success that took so long.
    pub(super) fn succeed_in(&mut self, task: u64, executor: u32, run_time_us: u64) {
        let (task, executor) = (TaskId(task), ExecutorId(executor));
        let metrics = TaskMetrics { run_time_us, ..TaskMetrics::default() };
        let metrics = Some(Box::new(metrics));
        let outcome = TaskOutcome::Success;
        self.send(TaskEvent::TaskReported { task, executor, outcome, metrics, written: None });
    }

    pub(super) fn fail(&mut self, task: u64, executor: u32) {
        self.report(task, executor, TaskOutcome::Failed(error()));
    }

    /// The lines since the last call.
    pub(super) fn lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    #[track_caller]
    pub(super) fn expect(&mut self, expected: &[&str]) {
        assert_eq!(self.lines(), expected);
    }

    /// Events posted so far, of those `pick` picks.
    pub(super) fn posted<T>(&self, pick: impl Fn(&Event) -> Option<T>) -> Vec<T> {
        let posts = self.effects.iter().filter_map(|effect| match effect {
            TaskEffect::Post(event) => Some(event),
            _ => None,
        });
        posts.filter_map(pick).collect()
    }
}

pub(super) fn stage(stage: u32, attempt: u32) -> StageRef {
    StageRef { stage: StageId(stage), attempt }
}

/// A set of `tasks` tasks without preference, job 0, results.
pub(super) fn set(id: u32, tasks: u32) -> TaskSet {
    TaskSet {
        stage: stage(id, 0),
        kind: TaskSetKind::Result(JobId(0)),
        priority: JobId(0),
        pool: None,
        rdd: RddId(0),
        tasks: (0..tasks).map(|partition| TaskSpec { partition, preferred: vec![] }).collect(),
    }
}

pub(super) fn map_set(id: u32, tasks: u32) -> TaskSet {
    TaskSet { kind: TaskSetKind::ShuffleMap(ShuffleId(id)), ..set(id, tasks) }
}

/// A set with one task per entry; each entry lists places as `host` or `host/executor`.
pub(super) fn set_preferring(id: u32, places: &[&[&str]]) -> TaskSet {
    let specs = places.iter().enumerate().map(|(partition, places)| TaskSpec {
        partition: partition as u32,
        preferred: places.iter().map(|place| location(place)).collect(),
    });
    TaskSet { tasks: specs.collect(), ..set(id, 0) }
}

fn location(place: &str) -> Location {
    match place.split_once('/') {
        Some((host, id)) => {
            let executor = Some(ExecutorId(id.parse().expect("an executor's number")));
            Location { host: Host::new(host), executor }
        }
        None => Location { host: Host::new(place), executor: None },
    }
}

pub(super) fn error() -> TaskFailure {
    TaskFailure::Error { message: "boom".into() }
}

pub(super) fn killed() -> TaskOutcome {
    TaskOutcome::Failed(TaskFailure::Killed { reason: "asked to".into() })
}

pub(super) fn fetch_failed() -> TaskOutcome {
    TaskOutcome::Failed(TaskFailure::FetchFailed {
        shuffle: ShuffleId(0),
        map_partition: 0,
        reduce_partition: 0,
        location: ExecutorId(1).into(),
        broken: Vec::new(),
        message: "refused".into(),
    })
}

fn line(effect: &TaskEffect) -> Option<String> {
    Some(match effect {
        TaskEffect::LaunchTask(info) => launch_line(info),
        TaskEffect::KillTask { task, executor, reason } => {
            format!("kill t{task} on {executor}: {reason}")
        }
        TaskEffect::TaskEnded { task, outcome, .. } => {
            format!("ended t{} p{}: {}", task.task, task.partition, outcome_word(outcome))
        }
        TaskEffect::DiscardTask { task, .. } => format!("discard t{task}"),
        TaskEffect::TaskSetFailed { stage, cause } => match cause {
            TaskSetFailure::TaskFailed { partition, attempts, failure } => {
                format!("set {stage} failed: p{partition} {attempts} times, {failure}")
            }
            TaskSetFailure::Unschedulable { partition, .. } => {
                format!("set {stage} unschedulable: p{partition}")
            }
        },
        TaskEffect::ArmTimer(at) => format!("wake at {}", at.0),
        TaskEffect::Post(_) => return None,
    })
}

fn launch_line(info: &TaskInfo) -> String {
    let locality = match info.locality {
        Locality::NoPref => String::new(),
        other => format!(" {}", other.as_str()),
    };
    let copy = if info.speculative { " copy" } else { "" };
    format!(
        "launch t{} s{} p{}.{} on {}{locality}{copy}",
        info.task, info.stage, info.partition, info.attempt, info.executor
    )
}

fn outcome_word(outcome: &TaskOutcome) -> &'static str {
    match outcome {
        TaskOutcome::Success => "success",
        TaskOutcome::Failed(TaskFailure::Killed { .. }) => "killed",
        TaskOutcome::Failed(TaskFailure::FetchFailed { .. }) => "fetch failed",
        TaskOutcome::Failed(TaskFailure::ExecutorLost { .. }) => "executor lost",
        TaskOutcome::Failed(_) => "failed",
    }
}
