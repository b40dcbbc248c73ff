//! Rules of the driver's backend: these events, those effects.

use std::sync::Arc;

use firesteel_scheduler::engine::Input;
use firesteel_types::{ExecutorId, Host, Tick};

use super::*;
use crate::description::{
    ApplicationDescription, Command, ExecutorState, ExecutorUpdate, ExitStatus, ProcessEnd,
};
use crate::jitter::Jitter;
use crate::messages::{Refusal, Said, ToApplication, ToDriver, ToExecutor, ToMaster};
use crate::{AppId, Epoch, Incarnation, Peer};

struct Scene {
    backend: Backend,
    now: Tick,
}

fn said(epoch: u64, message: ToApplication) -> Event {
    Event::ReceivedMaster { master: 0, said: Said { epoch: Epoch(epoch), message } }
}

fn registered(epoch: u64) -> Event {
    let (app, url) = (AppId::new("app"), String::new());
    said(epoch, ToApplication::RegisteredApplication { app, url, heartbeat_ms: 15_000 })
}

fn introduces(from: u64, executor: u32) -> Event {
    introduces_with(from, executor, Some([1; 32]))
}

fn introduces_with(from: u64, executor: u32, hash: Option<[u8; 32]>) -> Event {
    let message = ToDriver::RegisterExecutor {
        app: AppId::new("app"),
        executor: ExecutorId(executor),
        host: Host::new("h"),
        cores: 1,
        hash,
    };
    Event::ReceivedExecutor { from: Peer(from), has_address: true, message }
}

fn ended(executor: u32, state: ExecutorState, status: Option<ExitStatus>) -> Event {
    let end = Some(ProcessEnd { message: "ended".into(), status });
    let update = ExecutorUpdate { executor: ExecutorId(executor), state, end };
    said(5, ToApplication::ExecutorUpdated(update))
}

impl Scene {
    fn new() -> Self {
        let description = ApplicationDescription {
            name: String::new(),
            user: String::new(),
            max_cores: None,
            memory_per_executor_mb: 100,
            cores_per_executor: None,
            initial_executor_limit: None,
            command: Command::default(),
            web_ui: String::new(),
        };
        let options = BackendOptions::new(Arc::new(description), Incarnation(1), 2);
        let options = BackendOptions { hash: Some([1; 32]), ..options };
        Scene { backend: Backend::new(options, Jitter::new(1)), now: Tick(1000) }
    }

    fn ready() -> Self {
        let mut scene = Scene::new();
        scene.feed(Event::Ticked);
        scene.feed(registered(5));
        scene
    }

    fn feed(&mut self, event: Event) -> Vec<Effect> {
        let mut out = Vec::new();
        self.backend.handle(self.now, event, &mut out);
        out
    }

    fn tick_after(&mut self, ms: u64) -> Vec<Effect> {
        self.now = self.now.plus_ms(ms);
        let mut out = self.feed(Event::Ticked);
        if out.iter().any(|effect| matches!(effect, Effect::Drain)) {
            out.extend(self.feed(Event::Drained));
        }
        out
    }

    /// Time passes, and it is awake.
    fn wait(&mut self, ms: u64) -> Vec<Effect> {
        (0..ms / 1000).flat_map(|_| self.tick_after(1000)).collect()
    }
}

fn refusal(out: &[Effect]) -> Option<Refusal> {
    out.iter().find_map(|effect| match effect {
        Effect::SendExecutor {
            message: ToExecutor::RegisterExecutorFailed { refusal, .. },
            ..
        } => Some(*refusal),
        _ => None,
    })
}

fn lost(out: &[Effect]) -> Option<bool> {
    out.iter().find_map(|effect| match effect {
        Effect::Schedule(Input::ExecutorLost { caused_by_app, .. }) => Some(*caused_by_app),
        _ => None,
    })
}

fn end_of_application(out: &[Effect]) -> Option<&str> {
    out.iter().find_map(|effect| match effect {
        Effect::EndApplication { reason } => Some(reason.as_str()),
        _ => None,
    })
}

#[test]
fn without_an_answer_of_any_master_the_application_ends_with_a_clear_error() {
    let mut scene = Scene::new();
    for _ in 0..3 {
        let asked = scene.tick_after(100_000);
        assert_eq!(end_of_application(&asked), None);
    }
    let out = scene.tick_after(100_000);
    let reason = end_of_application(&out).expect("it gives up");
    assert!(reason.contains("all masters are unresponsive"), "{reason}");
}

fn unreachable(master: usize, lasting: bool) -> Event {
    Event::MasterUnreachable { master, reason: "the door is shut".to_owned(), lasting }
}

fn warnings(effects: &[Effect]) -> Vec<&str> {
    let warnings = effects.iter().filter_map(|effect| match effect {
        Effect::Warn { message } => Some(message.as_str()),
        _ => None,
    });
    warnings.collect()
}

#[test]
fn a_master_out_of_reach_is_told_of_at_once_and_once_and_its_reason_is_in_the_error() {
    let mut scene = Scene::new();
    scene.tick_after(0);
    let out = scene.feed(unreachable(0, false));
    let [warning] = warnings(&out)[..] else { panic!("{out:?}") };
    assert!(warning.contains("the door is shut") && warning.contains("60 s"), "{warning}");
    assert_eq!(warnings(&scene.feed(unreachable(0, false))), [""; 0]);
    let out: Vec<Effect> = (0..4).flat_map(|_| scene.tick_after(100_000)).collect();
    let reason = end_of_application(&out).expect("it gives up");
    assert!(reason.contains("unresponsive") && reason.contains("the door is shut"), "{reason}");
}

#[test]
fn a_master_that_will_never_take_it_in_ends_a_new_application_at_once_and_no_other() {
    let mut scene = Scene::new();
    scene.tick_after(0);
    assert_eq!(end_of_application(&scene.feed(unreachable(0, true))), None, "there is another one");
    let out = scene.feed(unreachable(1, true));
    assert_eq!(end_of_application(&out), Some("the door is shut"));
    let mut scene = Scene::ready();
    scene.feed(introduces(9, 0));
    scene.feed(Event::MasterDisconnected { master: 0 });
    let mut out = scene.feed(unreachable(0, true));
    out.extend(scene.feed(unreachable(1, true)));
    assert_eq!(end_of_application(&out), None, "it has executors");
    assert_eq!(warnings(&out).len(), 1);
}

#[test]
fn with_executors_at_work_it_looks_for_a_master_for_as_long_as_it_takes() {
    let mut scene = Scene::ready();
    scene.feed(introduces(9, 0));
    scene.feed(Event::MasterDisconnected { master: 0 });
    for _ in 0..20 {
        let out = scene.tick_after(30_000);
        assert_eq!(end_of_application(&out), None);
        let heartbeat = ToDriver::ExecutorHeartbeat { executor: ExecutorId(0), running: vec![] };
        scene.feed(Event::ReceivedExecutor {
            from: Peer(9),
            has_address: true,
            message: heartbeat,
        });
    }
    let mut asks = || {
        let out = scene.tick_after(30_000);
        out.into_iter().find_map(|effect| match effect {
            Effect::SendMaster {
                message: ToMaster::RegisterApplication { previous, first_executor, .. },
                ..
            } => Some((previous, first_executor.0)),
            _ => None,
        })
    };
    let ((Some(app), first), (_, second)) = (asks().unwrap(), asks().unwrap()) else {
        panic!("it keeps its name");
    };
    assert_eq!((app, first % 10_000, second - first), (AppId::new("app"), 1, 10_000), "S05");
}

#[test]
fn executors_are_refused_for_what_they_are() {
    let mut scene = Scene::ready();
    assert_eq!(refusal(&scene.feed(introduces(9, 0))), None);
    assert_eq!(refusal(&scene.feed(introduces(9, 0))), None, "it may say it twice");
    assert_eq!(refusal(&scene.feed(introduces(8, 0))), Some(Refusal::Duplicate));
    let other = scene.feed(introduces_with(7, 1, Some([2; 32])));
    assert_eq!(refusal(&other), Some(Refusal::OtherExecutable));
    scene.feed(ended(2, ExecutorState::Lost, None));
    assert_eq!(refusal(&scene.feed(introduces(6, 2))), Some(Refusal::Lost), "S04");
    scene.feed(Event::Stopped);
    assert_eq!(refusal(&scene.feed(introduces(5, 3))), Some(Refusal::Stopping));
}

#[test]
fn how_an_executor_ended_says_whose_fault_it_was() {
    for (state, status, by_app) in [
        (ExecutorState::Exited, Some(ExitStatus::Code(134)), true),
        (ExecutorState::Exited, Some(ExitStatus::Signal(9)), true),
        (ExecutorState::Exited, Some(ExitStatus::Code(0)), true),
        (ExecutorState::Exited, Some(ExitStatus::Code(60)), true),
        (ExecutorState::Exited, Some(ExitStatus::Code(56)), true),
        (ExecutorState::Killed, Some(ExitStatus::Signal(9)), false),
        (ExecutorState::Lost, None, false),
    ] {
        let mut scene = Scene::ready();
        scene.feed(introduces(9, 0));
        let out = scene.feed(ended(0, state, status));
        assert_eq!(lost(&out), Some(by_app), "{state:?} {status:?}");
        assert_eq!(lost(&scene.feed(ended(0, state, status))), None, "once");
    }
}

#[test]
fn a_broken_connection_bars_the_executor_and_waits_for_the_reason() {
    let mut scene = Scene::ready();
    scene.feed(introduces(9, 0));
    scene.feed(introduces(8, 1));
    for peer in [9, 8] {
        let out = scene.feed(Event::ExecutorDisconnected { peer: Peer(peer) });
        assert!(matches!(out[0], Effect::Schedule(Input::Task(_))) && lost(&out).is_none());
    }
    let crashed = ended(0, ExecutorState::Exited, Some(ExitStatus::Code(1)));
    assert_eq!(lost(&scene.feed(crashed)), Some(true), "the reason came");
    let out = scene.wait(2000);
    assert_eq!(lost(&out), Some(true), "no reason came");
    let kill = out.iter().any(|effect| match effect {
        Effect::SendMaster { message: ToMaster::KillExecutors { executors, .. }, .. } => {
            executors == &[ExecutorId(1)]
        }
        _ => false,
    });
    assert!(kill, "{out:?}");
}

#[test]
fn an_executor_that_is_silent_or_never_comes_is_given_up_and_replaced() {
    let mut scene = Scene::ready();
    scene.feed(introduces(9, 0));
    let (executor, worker) = (ExecutorId(1), crate::WorkerId::new("w"));
    let (host, cores, memory_mb) = (Host::new("h"), 1, 100);
    let added = ToApplication::ExecutorAdded { executor, worker, host, cores, memory_mb };
    scene.feed(said(5, added));
    assert_eq!(lost(&scene.wait(120_000)), None);
    let out = scene.wait(15_000);
    assert_eq!(lost(&out), Some(true), "what it ran silenced it");
    let killed: Vec<_> = out
        .iter()
        .filter_map(|effect| match effect {
            Effect::SendMaster { message: ToMaster::KillExecutors { executors, .. }, .. } => {
                Some(executors[0])
            }
            _ => None,
        })
        .collect();
    assert_eq!(killed, [ExecutorId(0), ExecutorId(1)]);
    assert!(scene.backend.is_lost(ExecutorId(1)), "S04: it is too late for it");
}

#[test]
fn what_was_given_up_while_no_master_heard_is_told_to_the_next_one() {
    let mut scene = Scene::ready();
    scene.feed(introduces(9, 0));
    scene.feed(Event::MasterDisconnected { master: 0 });
    assert!(lost(&scene.wait(135_000)).is_some());
    let out = scene.feed(registered(6));
    let told = out.iter().any(|effect| match effect {
        Effect::SendMaster { message: ToMaster::KillExecutors { executors, .. }, .. } => {
            executors == &[ExecutorId(0)]
        }
        _ => false,
    });
    assert!(told, "{out:?}");
}

#[test]
fn what_an_older_master_says_changes_nothing() {
    let mut scene = Scene::ready();
    scene.feed(introduces(9, 0));
    scene.feed(Event::MasterDisconnected { master: 0 });
    scene.feed(registered(6));
    let message = "gone".to_owned();
    assert!(scene.feed(said(5, ToApplication::ApplicationRemoved { message })).is_empty());
    assert!(scene.feed(ended(0, ExecutorState::Lost, None)).is_empty(), "S06");
    assert_eq!(scene.backend.stale_messages(), 2);
}

#[test]
fn when_the_master_ends_the_application_every_job_hears_why() {
    let mut scene = Scene::ready();
    scene.feed(introduces(9, 0));
    let message = "10 executors in a row".to_owned();
    let out = scene.feed(said(5, ToApplication::ApplicationRemoved { message }));
    let position = |is: fn(&Effect) -> bool| out.iter().position(is);
    let told = position(|effect| matches!(effect, Effect::Schedule(Input::Dag(_))));
    let refuses = position(|effect| matches!(effect, Effect::EndApplication { .. }));
    assert!(refuses < told, "a job that comes between the two would wait for ever: {out:?}");
    let stopped = out.iter().any(|effect| {
        matches!(effect, Effect::SendExecutor { message: ToExecutor::StopExecutor, .. })
    });
    assert!(told.is_some() && stopped, "{out:?}");
    assert!(end_of_application(&out).is_some_and(|reason| reason.contains("in a row")));
    assert!(scene.backend.is_over());
}

#[test]
fn a_driver_that_stood_still_reads_what_came_meanwhile_before_it_judges_silence() {
    let mut scene = Scene::ready();
    scene.feed(introduces(9, 0));
    scene.feed(introduces(8, 1));
    let out = scene.tick_after(300_000);
    assert!(lost(&out).is_none() && !out.iter().any(|effect| matches!(effect, Effect::Drain)));
    let heartbeat = ToDriver::ExecutorHeartbeat { executor: ExecutorId(0), running: vec![] };
    scene.feed(Event::ReceivedExecutor { from: Peer(9), has_address: true, message: heartbeat });
    scene.wait(15_000);
    assert!(!scene.backend.is_lost(ExecutorId(0)), "it was only the driver that was silent");
    assert!(scene.backend.is_lost(ExecutorId(1)), "nothing of it had come");
}

#[test]
fn silence_is_judged_after_all_that_had_arrived_was_read() {
    let mut scene = Scene::ready();
    scene.feed(introduces(9, 0));
    scene.wait(119_000);
    scene.now = scene.now.plus_ms(14_000);
    let out = scene.feed(Event::Ticked);
    assert!(out.iter().any(|effect| matches!(effect, Effect::Drain)), "{out:?}");
    let heartbeat = ToDriver::ExecutorHeartbeat { executor: ExecutorId(0), running: vec![] };
    scene.feed(Event::ReceivedExecutor { from: Peer(9), has_address: true, message: heartbeat });
    assert_eq!(lost(&scene.feed(Event::Drained)), None);
}

#[test]
fn the_driver_is_heard_as_often_as_its_master_wants() {
    let mut scene = Scene::new();
    scene.feed(Event::Ticked);
    let (app, url) = (AppId::new("app"), String::new());
    scene.feed(said(5, ToApplication::RegisteredApplication { app, url, heartbeat_ms: 1250 }));
    let beats = scene.wait(10_000).into_iter().filter(|effect| {
        let beat = |message: &ToMaster| matches!(message, ToMaster::ApplicationHeartbeat { .. });
        matches!(effect, Effect::SendMaster { message, .. } if beat(message))
    });
    assert_eq!(beats.count(), 5, "every 1.25 s, by a clock that ticks once a second");
}

#[test]
fn an_executor_that_did_not_say_where_it_serves_its_blocks_is_refused() {
    let mut scene = Scene::ready();
    let Event::ReceivedExecutor { from, message, .. } = introduces(9, 0) else {
        panic!("another one")
    };
    let out = scene.feed(Event::ReceivedExecutor { from, has_address: false, message });
    assert_eq!(refusal(&out), Some(Refusal::NoAddress));
    assert_eq!(scene.backend.executors().count(), 0);
}
