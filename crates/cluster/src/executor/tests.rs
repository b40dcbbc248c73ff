//! Rules of the executor's core: these events, those effects.

use std::sync::Arc;

use firesteel_types::{ExecutorId, Host, TaskId, TaskOutcome, Tick};

use super::*;
use crate::AppId;
use crate::jitter::Jitter;
use crate::messages::{Refusal, ToDriver, ToExecutor};
use crate::mutant::Planted;

fn started() -> Executor {
    let options = ExecutorOptions {
        app: AppId::new("app"),
        executor: ExecutorId(3),
        host: Host::new("h"),
        cores: 1,
        hash: None,
        heartbeat_ms: 10,
        timeout_ms: 100,
        planted: Planted::default(),
    };
    let mut executor = Executor::new(options, Jitter::new(1));
    let out = feed(&mut executor, 1000, Event::Ticked);
    assert!(matches!(out[0], Effect::Send(ToDriver::RegisterExecutor { .. })), "{out:?}");
    executor
}

fn feed(executor: &mut Executor, now: u64, event: Event) -> Vec<Effect> {
    let mut out = Vec::new();
    executor.handle(Tick(now), event, &mut out);
    out
}

fn exit_code(out: &[Effect]) -> Option<i32> {
    out.iter().find_map(|effect| match effect {
        Effect::Exit { code, .. } => Some(*code),
        _ => None,
    })
}

#[test]
fn it_ends_with_a_code_that_says_why() {
    let refused = |refusal| {
        Event::Received(ToExecutor::RegisterExecutorFailed { refusal, message: "no".into() })
    };
    for (event, code) in [
        (Event::DriverDisconnected, exit::DRIVER_LOST),
        (Event::WorkerGone, exit::WORKER_LOST),
        (Event::Received(ToExecutor::StopExecutor), exit::STOPPED),
        (refused(Refusal::Lost), exit::REFUSED),
        (refused(Refusal::OtherExecutable), exit::UNFIT),
    ] {
        let mut executor = started();
        let out = feed(&mut executor, 1001, event.clone());
        assert_eq!(exit_code(&out), Some(code), "{event:?}");
        assert!(feed(&mut executor, 2000, Event::Ticked).is_empty(), "it is over");
    }
}

#[test]
fn a_driver_that_is_silent_for_too_long_is_given_up() {
    let mut executor = started();
    feed(&mut executor, 1050, Event::Received(ToExecutor::RegisteredExecutor));
    assert_eq!(exit_code(&feed(&mut executor, 1150, Event::Ticked)), None);
    let out = feed(&mut executor, 1151, Event::Ticked);
    assert_eq!(exit_code(&out), Some(exit::HEARTBEAT_FAILURE));
}

#[test]
fn tasks_run_once_registered_and_each_reports_its_end_once() {
    let mut executor = started();
    let (task, data): (TaskId, Arc<[u8]>) = (TaskId(1), Arc::from([]));
    let launch = || Event::Received(ToExecutor::LaunchTask { task, data: data.clone() });
    assert!(feed(&mut executor, 1001, launch()).is_empty(), "not registered");
    feed(&mut executor, 1002, Event::Received(ToExecutor::RegisteredExecutor));
    assert!(matches!(feed(&mut executor, 1003, launch())[..], [Effect::RunTask { .. }]));
    assert!(feed(&mut executor, 1003, launch()).is_empty(), "it runs already");
    let ended = || Event::TaskEnded { task, outcome: TaskOutcome::Success, data: data.clone() };
    assert_eq!(feed(&mut executor, 1004, ended()).len(), 1);
    assert!(feed(&mut executor, 1005, ended()).is_empty());
}
