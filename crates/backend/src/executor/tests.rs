//! Rules of the executor's core: these events, those effects.

use std::collections::BTreeMap;
use std::sync::Arc;

use firesteel_types::{ExecutorId, Host, TaskId, TaskOutcome, Tick};

use super::*;
use crate::AppId;
use crate::jitter::Jitter;
use crate::mutant::Planted;
use crate::protocol::{Refusal, ToDriver, ToExecutor};

fn started() -> Executor {
    let options = ExecutorOptions {
        app: AppId::new("app"),
        executor: ExecutorId(3),
        host: Host::new("h"),
        cores: 1,
        slots: 1,
        hash: None,
        log_urls: BTreeMap::new(),
        attributes: BTreeMap::new(),
        heartbeat_ms: 10,
        timeout_ms: 100,
        planted: Planted::default(),
    };
    let mut executor = Executor::new(options, Jitter::new(1));
    let out = feed(&mut executor, 1000, ExecutorEvent::Ticked);
    assert!(matches!(out[0], ExecutorEffect::Send(ToDriver::RegisterExecutor { .. })), "{out:?}");
    executor
}

fn feed(executor: &mut Executor, now: u64, event: ExecutorEvent) -> Vec<ExecutorEffect> {
    let mut out = Vec::new();
    executor.handle(Tick(now), event, &mut out);
    out
}

fn exit_code(out: &[ExecutorEffect]) -> Option<i32> {
    out.iter().find_map(|effect| match effect {
        ExecutorEffect::Exit { code, .. } => Some(*code),
        _ => None,
    })
}

#[test]
fn it_ends_with_a_code_that_says_why() {
    let refused = |refusal| {
        ExecutorEvent::Received(ToExecutor::RegisterExecutorFailed {
            refusal,
            message: "no".into(),
        })
    };
    for (event, code) in [
        (ExecutorEvent::DriverDisconnected, exit::DRIVER_LOST),
        (ExecutorEvent::WorkerGone, exit::WORKER_LOST),
        (ExecutorEvent::Received(ToExecutor::StopExecutor), exit::STOPPED),
        (refused(Refusal::Lost), exit::REFUSED),
        (refused(Refusal::OtherExecutable), exit::UNFIT),
    ] {
        let mut executor = started();
        let out = feed(&mut executor, 1001, event.clone());
        assert_eq!(exit_code(&out), Some(code), "{event:?}");
        assert!(feed(&mut executor, 2000, ExecutorEvent::Ticked).is_empty(), "it is over");
    }
}

#[test]
fn an_executor_ends_when_its_driver_is_silent_for_too_long() {
    let mut executor = started();
    feed(&mut executor, 1050, ExecutorEvent::Received(ToExecutor::RegisteredExecutor));
    assert_eq!(exit_code(&feed(&mut executor, 1150, ExecutorEvent::Ticked)), None);
    let out = feed(&mut executor, 1151, ExecutorEvent::Ticked);
    assert_eq!(exit_code(&out), Some(exit::HEARTBEAT_FAILURE));
}

#[test]
fn tasks_run_once_registered_and_each_reports_its_end_once() {
    let mut executor = started();
    let (task, data): (TaskId, Arc<[u8]>) = (TaskId(1), Arc::from([]));
    let launch = || ExecutorEvent::Received(ToExecutor::LaunchTask { task, data: data.clone() });
    assert!(feed(&mut executor, 1001, launch()).is_empty(), "not registered");
    feed(&mut executor, 1002, ExecutorEvent::Received(ToExecutor::RegisteredExecutor));
    assert!(matches!(feed(&mut executor, 1003, launch())[..], [ExecutorEffect::RunTask { .. }]));
    assert!(feed(&mut executor, 1003, launch()).is_empty(), "it runs already");
    let ended =
        || ExecutorEvent::TaskEnded { task, outcome: TaskOutcome::Success, data: data.clone() };
    assert_eq!(told(&feed(&mut executor, 1004, ended())), ["1 succeeded"]);
    assert!(told(&feed(&mut executor, 1015, ended())).is_empty());
}

/// What happens to tasks, in words.
fn told(out: &[ExecutorEffect]) -> Vec<String> {
    let word = |effect: &ExecutorEffect| match effect {
        ExecutorEffect::RunTask { task, .. } => Some(format!("run {task}")),
        ExecutorEffect::KillTask { task, .. } => Some(format!("kill {task}")),
        ExecutorEffect::Send(ToDriver::StatusUpdate { task, outcome, data, .. }) => {
            Some(match outcome {
                TaskOutcome::Success => format!("{task} succeeded"),
                TaskOutcome::Failed(failure) if data.is_empty() => {
                    format!("{task} back: {failure}")
                }
                TaskOutcome::Failed(failure) => format!("{task} failed: {failure}"),
            })
        }
        ExecutorEffect::Send(_) | ExecutorEffect::ArmTimer(_) | ExecutorEffect::Exit { .. } => None,
    };
    out.iter().filter_map(word).collect()
}

fn launch(task: u64) -> ExecutorEvent {
    ExecutorEvent::Received(ToExecutor::LaunchTask { task: TaskId(task), data: Arc::from([]) })
}

fn ended(task: u64) -> ExecutorEvent {
    let (task, outcome) = (TaskId(task), TaskOutcome::Success);
    ExecutorEvent::TaskEnded { task, outcome, data: Arc::from([1]) }
}

#[test]
fn tasks_beyond_its_cores_wait_and_follow_one_another() {
    let mut executor = started();
    feed(&mut executor, 1002, ExecutorEvent::Received(ToExecutor::RegisteredExecutor));
    assert_eq!(told(&feed(&mut executor, 1003, launch(1))), ["run 1"]);
    assert!(told(&feed(&mut executor, 1003, launch(2))).is_empty());
    assert!(told(&feed(&mut executor, 1004, launch(3))).is_empty());
    assert!(feed(&mut executor, 1004, launch(3)).is_empty(), "it waits already");
    assert_eq!((executor.running().count(), executor.waiting()), (1, 2));
    assert_eq!(told(&feed(&mut executor, 1005, ended(1))), ["1 succeeded", "run 2"]);
    assert_eq!(told(&feed(&mut executor, 1006, ended(2))), ["2 succeeded", "run 3"]);
    assert_eq!(told(&feed(&mut executor, 1007, ended(3))), ["3 succeeded"]);
}

#[test]
fn what_waits_for_too_long_is_given_back_and_a_killed_task_at_once() {
    let mut executor = started();
    feed(&mut executor, 1002, ExecutorEvent::Received(ToExecutor::RegisteredExecutor));
    for task in 1..=4 {
        feed(&mut executor, 1003 + task, launch(task));
    }
    let reason = "unwanted".to_owned();
    let kill = ExecutorEvent::Received(ToExecutor::KillTask { task: TaskId(3), reason });
    let out = told(&feed(&mut executor, 1020, kill));
    assert_eq!(out.len(), 1, "{out:?}");
    assert!(out[0].starts_with("3 back: ") && out[0].contains("unwanted"), "{out:?}");
    let out = feed(&mut executor, 1104, ExecutorEvent::Ticked);
    assert!(told(&out).is_empty(), "too early: {out:?}");
    assert!(matches!(out.last(), Some(ExecutorEffect::ArmTimer(Tick(1105)))), "{out:?}");
    let out = told(&feed(&mut executor, 1105, ExecutorEvent::Ticked));
    let back: Vec<&str> =
        out.iter().filter_map(|told| told.split_once(" back: ")).map(|it| it.0).collect();
    assert_eq!(back, ["2", "4"], "{out:?}");
    assert!(out.iter().any(|told| told.contains(WAITED_TOO_LONG)), "{out:?}");
    assert_eq!(executor.running().collect::<Vec<_>>(), [TaskId(1)], "what runs goes on");
    assert_eq!(told(&feed(&mut executor, 1106, ended(1))), ["1 succeeded"]);
}

#[test]
fn an_executor_that_is_told_to_end_finishes_what_it_runs_and_takes_nothing_more() {
    let mut idle = started();
    let out = feed(&mut idle, 1001, ExecutorEvent::ToldToEnd);
    assert_eq!(exit_code(&out), Some(exit::TERMINATED), "it has nothing to finish");
    let mut executor = started();
    feed(&mut executor, 1001, ExecutorEvent::Received(ToExecutor::RegisteredExecutor));
    feed(&mut executor, 1002, launch(1));
    feed(&mut executor, 1002, launch(2));
    let out = feed(&mut executor, 1003, ExecutorEvent::ToldToEnd);
    assert_eq!((told(&out).len(), exit_code(&out)), (1, None), "what waits is given back: {out:?}");
    let out = feed(&mut executor, 1004, launch(3));
    assert_eq!(told(&out).len(), 1, "{out:?}");
    let out = feed(&mut executor, 1005, ended(1));
    assert_eq!((told(&out).len(), exit_code(&out)), (1, None), "its report goes out first");
    let heard = ToExecutor::HeartbeatResponse { reregister: false };
    for now in (1010..2000).step_by(10) {
        feed(&mut executor, now, ExecutorEvent::Received(heard.clone()));
        let out = feed(&mut executor, now, ExecutorEvent::Ticked);
        if let Some(code) = exit_code(&out) {
            assert_eq!((code, now), (exit::TERMINATED, 1510));
            return;
        }
    }
    panic!("it never ends");
}
