//! Rules of the worker's core: these events, those effects.

use std::sync::Arc;

use firesteel_backend::blame::ExitStatus;
use firesteel_backend::command::Command;
use firesteel_backend::jitter::Jitter;
use firesteel_backend::{Address, AppId};
use firesteel_types::{ExecutorId, Host, Tick};

use super::*;
use crate::description::{
    ApplicationDescription, DriverDescription, DriverState, ExecutorState, WorkerDescription,
};
use crate::messages::{Stamped, ToMaster, ToWorker};
use crate::{DriverId, ExecutorKey, Incarnation, Registration, Term, WorkerId};

struct Scene {
    worker: Worker,
    now: Tick,
}

fn options() -> WorkerOptions {
    let description = WorkerDescription {
        id: WorkerId::new("w"),
        incarnation: Incarnation(7),
        address: Address { host: Host::new("h"), port: 1 },
        web_ui: String::new(),
        cores: 2,
        memory_mb: 1000,
    };
    WorkerOptions::new(description, 2)
}

fn key(executor: u32) -> ExecutorKey {
    ExecutorKey { app: AppId::new("app"), executor: ExecutorId(executor) }
}

fn received(message: ToWorker) -> WorkerEvent {
    WorkerEvent::Received { master: 0, stamped: Stamped { term: Term(5), message } }
}

fn registered(registration: u64) -> WorkerEvent {
    registered_for(registration, 0)
}

/// With a master that lets supervised drivers run for so long after a heartbeat.
fn registered_for(registration: u64, driver_lease_ms: u64) -> WorkerEvent {
    let registration = Registration(registration);
    let (url, web_ui) = (String::new(), String::new());
    received(ToWorker::RegisteredWorker {
        registration,
        url,
        web_ui,
        heartbeat_ms: 15_000,
        driver_lease_ms,
        elected: false,
    })
}

/// A master takes it in.
fn taken_in(master: usize, term: u64, elected: bool) -> WorkerEvent {
    let message = ToWorker::RegisteredWorker {
        registration: Registration(1),
        url: format!("spark://{master}:7077"),
        web_ui: String::new(),
        heartbeat_ms: 15_000,
        driver_lease_ms: 0,
        elected,
    };
    WorkerEvent::Received { master, stamped: Stamped { term: Term(term), message } }
}

fn launch(registration: u64, executor: u32, cores: u32) -> WorkerEvent {
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
    received(ToWorker::LaunchExecutor {
        registration: Registration(registration),
        key: key(executor),
        description: Arc::new(description),
        cores,
        memory_mb: 100,
        peers: Vec::new(),
    })
}

fn kill(registration: u64, executor: u32) -> WorkerEvent {
    received(ToWorker::KillExecutor {
        registration: Registration(registration),
        key: key(executor),
    })
}

impl Scene {
    fn new() -> Self {
        Scene { worker: Worker::new(options(), Jitter::new(1)), now: Tick(1000) }
    }

    fn ready() -> Self {
        let mut scene = Scene::new();
        scene.feed(WorkerEvent::Ticked);
        scene.feed(registered(1));
        scene
    }

    fn feed(&mut self, event: WorkerEvent) -> Vec<WorkerEffect> {
        let mut out = Vec::new();
        self.worker.handle(self.now, event, &mut out);
        let (cores, memory) = self.worker.used();
        assert!(cores <= 2 && memory <= 1000, "S02: {cores} cores, {memory} MB");
        out
    }

    fn tick_after(&mut self, ms: u64) -> Vec<WorkerEffect> {
        self.now = self.now.plus_ms(ms);
        self.feed(WorkerEvent::Ticked)
    }
}

fn spawned(out: &[WorkerEffect]) -> Vec<u32> {
    let spawned = out.iter().filter_map(|effect| match effect {
        WorkerEffect::SpawnExecutor { key, .. } => Some(key.executor.0),
        _ => None,
    });
    spawned.collect()
}

fn reported(out: &[WorkerEffect]) -> Vec<ExecutorState> {
    let reports = out.iter().filter_map(|effect| match effect {
        WorkerEffect::Send { message: ToMaster::ExecutorStateChanged { report, .. }, .. } => {
            Some(report.state)
        }
        _ => None,
    });
    reports.collect()
}

fn exits(executor: u32) -> WorkerEvent {
    WorkerEvent::ExecutorExited { key: key(executor), status: ExitStatus::Code(3) }
}

fn unreachable(master: usize, lasting: bool) -> WorkerEvent {
    WorkerEvent::MasterUnreachable { master, reason: format!("door {master} is shut"), lasting }
}

fn exit(effects: &[WorkerEffect]) -> Option<&str> {
    effects.iter().find_map(|effect| match effect {
        WorkerEffect::Exit { code: 1, reason } => Some(reason.as_str()),
        _ => None,
    })
}

#[test]
fn a_worker_that_two_masters_take_in_says_so_once_whichever_of_them_it_obeys() {
    let warnings = |events: &[WorkerEvent]| {
        let mut scene = Scene::new();
        let out: Vec<_> = events.iter().flat_map(|event| scene.feed(event.clone())).collect();
        out.iter().filter(|effect| matches!(effect, WorkerEffect::Warn { .. })).count()
    };
    let gone = |master| WorkerEvent::MasterDisconnected { master };
    assert_eq!(warnings(&[taken_in(0, 5, false), taken_in(1, 6, false), taken_in(0, 7, false)]), 1);
    assert_eq!(warnings(&[taken_in(0, 5, false), taken_in(1, 4, false)]), 1, "the older term");
    assert_eq!(warnings(&[taken_in(0, 5, true), taken_in(1, 6, true)]), 0, "one was elected");
    assert_eq!(warnings(&[taken_in(0, 5, false), gone(0), taken_in(1, 6, false)]), 0);
    let away = unreachable(0, false);
    assert_eq!(warnings(&[taken_in(0, 5, false), away, taken_in(1, 6, false)]), 0);
}

#[test]
fn clean_up_spares_the_directories_of_executors_and_drivers_that_run() {
    let clean_up = Some(CleanUp { interval_ms: 60_000, age_ms: 1 });
    let worker = Worker::new(WorkerOptions { clean_up, ..options() }, Jitter::new(1));
    let mut scene = Scene { worker, now: Tick(1000) };
    scene.feed(WorkerEvent::Ticked);
    scene.feed(registered(1));
    scene.feed(launch(1, 0, 1));
    scene.feed(launch_driver(true));
    scene.now = scene.now.plus_ms(60_000);
    let out = scene.feed(WorkerEvent::Ticked);
    let kept = out.iter().find_map(|effect| match effect {
        WorkerEffect::CleanWorkDirectories { keep, .. } => Some(keep.clone()),
        _ => None,
    });
    assert_eq!(kept, Some(vec!["app".into(), "d".into()]));
}

#[test]
fn an_order_counts_though_its_masters_term_has_grown_since_it_took_the_worker_in() {
    let mut scene = Scene::ready();
    let WorkerEvent::Received { master, mut stamped } = launch(1, 0, 1) else { unreachable!() };
    stamped.term = Term(6);
    let out = scene.feed(WorkerEvent::Received { master, stamped });
    assert!(matches!(out[..], [WorkerEffect::SpawnExecutor { .. }, ..]), "{out:?}");
}

#[test]
fn a_worker_that_no_master_will_ever_take_in_ends_at_once_and_one_that_was_taken_in_does_not() {
    let mut scene = Scene::new();
    scene.feed(WorkerEvent::Ticked);
    assert_eq!(exit(&scene.feed(unreachable(0, true))), None, "there is another one");
    assert_eq!(exit(&scene.feed(unreachable(1, false))), None, "that one may come");
    assert_eq!(exit(&scene.feed(unreachable(1, true))), Some("door 1 is shut"));
    let mut scene = Scene::new();
    scene.feed(registered(1));
    scene.feed(WorkerEvent::MasterDisconnected { master: 0 });
    for master in [0, 1] {
        assert_eq!(exit(&scene.feed(unreachable(master, true))), None);
    }
}

#[test]
fn it_asks_all_masters_and_gives_up_after_as_many_attempts_as_it_may() {
    let mut scene = Scene::new();
    let mut attempts = 0;
    loop {
        let out = scene.tick_after(100_000);
        if let Some(WorkerEffect::Exit { code, reason }) = out.last() {
            assert!(*code == 1 && reason.contains("no master answered"), "{reason}");
            break;
        }
        let asked = out.iter().filter(|effect| {
            matches!(effect, WorkerEffect::Send { message: ToMaster::RegisterWorker { .. }, .. })
        });
        assert_eq!(asked.count(), 2, "both masters: {out:?}");
        attempts += 1;
    }
    assert_eq!(attempts, 16);
    assert!(scene.feed(WorkerEvent::Ticked).is_empty(), "it is over");
}

/// How long nobody takes it in until it ends, if it does: in hours.
fn hours_until_it_ends(scene: &mut Scene, hours: u32, answer: Option<&WorkerEvent>) -> Option<u32> {
    (1..=hours).find(|_| {
        (0..60).any(|_| {
            let ended = exit(&scene.tick_after(60_000)).is_some();
            answer.into_iter().for_each(|answer| drop(scene.feed(answer.clone())));
            ended
        })
    })
}

#[test]
fn it_gives_up_only_with_nothing_to_lose_and_nobody_who_answers() {
    // It has not led for long, or never.
    let message = ToWorker::MasterInStandby { leader: None };
    let standby = WorkerEvent::Received { master: 1, stamped: Stamped { term: Term(0), message } };
    for (runs, answer, ends) in [
        (None, None, true),
        (Some(launch(1, 0, 1)), None, false),
        (Some(launch_driver(true)), None, false),
        (None, Some(&standby), false),
    ] {
        let mut scene = Scene::ready();
        let what = format!("{runs:?}, {answer:?}");
        runs.into_iter().for_each(|order| drop(scene.feed(order)));
        scene.feed(WorkerEvent::MasterDisconnected { master: 0 });
        assert_eq!(hours_until_it_ends(&mut scene, 10, answer).is_some(), ends, "{what}");
    }
    let mut scene = Scene::ready();
    scene.feed(launch(1, 0, 1));
    scene.feed(WorkerEvent::MasterDisconnected { master: 0 });
    assert_eq!(hours_until_it_ends(&mut scene, 1, None), None);
    scene.feed(exits(0));
    assert_eq!(hours_until_it_ends(&mut scene, 1, None), Some(1), "nothing is left to lose");
}

#[test]
fn a_master_that_comes_back_after_seconds_is_asked_within_about_as_many() {
    let mut scene = Scene::new();
    scene.feed(WorkerEvent::Ticked);
    scene.feed(registered(1));
    scene.feed(WorkerEvent::MasterDisconnected { master: 0 });
    let is_asked = |effect: &WorkerEffect| {
        matches!(effect, WorkerEffect::Send { message: ToMaster::RegisterWorker { .. }, .. })
    };
    let mut asked = vec![0];
    for now in (100..30_000).step_by(100) {
        if scene.tick_after(100).iter().any(is_asked) {
            let (last, most) = (asked.last().copied().unwrap_or(0), 15_000);
            assert!(now - last <= (3 * last + 900).min(most), "after {asked:?} at {now}");
            asked.push(now);
        }
    }
    // It asks four or five times in the first ten seconds, and about every ten seconds then.
    assert!((6..=12).contains(&asked.len()), "{asked:?}");
}

#[test]
fn a_refusal_for_good_ends_it_and_one_for_now_does_not() {
    for (retry, ends) in [(true, false), (false, true)] {
        let mut scene = Scene::new();
        scene.feed(WorkerEvent::Ticked);
        let incarnation = Incarnation(7);
        let reason = "taken".to_owned();
        let out =
            scene.feed(received(ToWorker::RegisterWorkerFailed { incarnation, reason, retry }));
        assert_eq!(matches!(out.last(), Some(WorkerEffect::Exit { .. })), ends, "{out:?}");
    }
}

#[test]
fn an_order_repeated_starts_one_process_and_one_under_another_registration_none() {
    let mut scene = Scene::ready();
    assert_eq!(spawned(&scene.feed(launch(1, 0, 1))), [0]);
    assert_eq!(spawned(&scene.feed(launch(1, 0, 1))), [0_u32; 0]);
    scene.feed(registered(2));
    assert_eq!(spawned(&scene.feed(launch(1, 1, 1))), [0_u32; 0], "S06: under the old one");
    assert_eq!(spawned(&scene.feed(launch(2, 2, 1))), [2]);
    assert_eq!(scene.worker.stale_messages(), 2);
}

#[test]
fn an_order_without_capacity_waits_until_something_ends() {
    let mut scene = Scene::ready();
    scene.feed(launch(1, 0, 2));
    assert_eq!(spawned(&scene.feed(launch(1, 1, 1))), [0_u32; 0]);
    assert_eq!(spawned(&scene.feed(kill(1, 0))), [0_u32; 0], "its process may still be there");
    let out = scene.feed(exits(0));
    assert_eq!(reported(&out), [ExecutorState::Killed, ExecutorState::Running]);
    assert_eq!(spawned(&out), [1]);
}

#[test]
fn an_executor_killed_before_its_order_came_is_never_started_and_reported_as_ended() {
    let mut scene = Scene::ready();
    assert_eq!(reported(&scene.feed(kill(1, 0))), [ExecutorState::Killed]);
    assert_eq!(spawned(&scene.feed(launch(1, 0, 1))), [0_u32; 0]);
}

#[test]
fn an_end_is_told_with_every_heartbeat_until_it_is_known() {
    let mut scene = Scene::ready();
    scene.feed(launch(1, 0, 1));
    assert_eq!(reported(&scene.feed(exits(0))), [ExecutorState::Exited]);
    let told = |out: &[WorkerEffect]| {
        out.iter().any(|effect| match effect {
            WorkerEffect::Send { message: ToMaster::Heartbeat { state, .. }, .. } => {
                state.executors.iter().any(|report| report.state == ExecutorState::Exited)
            }
            _ => false,
        })
    };
    assert!(told(&scene.tick_after(15_000)));
    let registration = Registration(1);
    scene.feed(received(ToWorker::ExecutorEndKnown { registration, key: key(0) }));
    assert!(!told(&scene.tick_after(15_000)));
    assert_eq!(scene.worker.untold_ends(), 0);
}

#[test]
fn without_a_master_processes_go_on_and_the_next_registration_tells_of_them() {
    let mut scene = Scene::ready();
    scene.feed(launch(1, 0, 1));
    scene.feed(WorkerEvent::MasterDisconnected { master: 0 });
    assert_eq!(reported(&scene.feed(exits(0))), [], "nobody listens");
    let out = scene.tick_after(10_000);
    let tells = out.iter().any(|effect| match effect {
        WorkerEffect::Send { message: ToMaster::RegisterWorker { state, .. }, .. } => {
            state.executors.len() == 1
        }
        _ => false,
    });
    assert!(tells, "{out:?}");
}

#[test]
fn directories_go_when_the_application_is_over_and_nothing_of_it_runs() {
    let mut scene = Scene::ready();
    scene.feed(launch(1, 0, 1));
    let removes = |out: Vec<WorkerEffect>| {
        out.iter().any(|effect| matches!(effect, WorkerEffect::RemoveApplication { .. }))
    };
    let app = AppId::new("app");
    let finished = received(ToWorker::ApplicationFinished { app });
    assert!(!removes(scene.feed(finished.clone())));
    assert!(removes(scene.feed(exits(0))));
    assert!(!removes(scene.feed(finished)), "once");
}

#[test]
fn work_directories_of_what_runs_or_will_run_again_are_kept() {
    let mut scene = Scene::ready();
    let hour = 3_600_000;
    scene.worker.options.clean_up = Some(CleanUp { interval_ms: hour, age_ms: 1 });
    let kept = |scene: &mut Scene| {
        let out = scene.tick_after(hour);
        let clean_up = out.into_iter().find_map(|effect| match effect {
            WorkerEffect::CleanWorkDirectories { keep, .. } => Some(keep),
            _ => None,
        });
        clean_up.expect("it is due")
    };
    scene.feed(launch(1, 0, 1));
    scene.feed(launch_driver(true));
    let driver = DriverId::new("d");
    assert_eq!(kept(&mut scene), ["app".into(), "d".into()]);
    scene.feed(exits(0));
    let status = ExitStatus::Code(1);
    scene.feed(WorkerEvent::DriverExited { driver: driver.clone(), status });
    assert_eq!(kept(&mut scene), ["d".into()], "it is started again");
    let (registration, killed) = (Registration(1), driver.clone());
    scene.feed(received(ToWorker::KillDriver { registration, driver: killed }));
    scene.feed(WorkerEvent::DriverExited { driver, status });
    assert!(kept(&mut scene).is_empty());
}

fn launch_driver(supervise: bool) -> WorkerEvent {
    let description = DriverDescription {
        name: String::new(),
        cores: 1,
        memory_mb: 100,
        supervise,
        command: Command::default(),
    };
    let (registration, driver) = (Registration(1), DriverId::new("d"));
    received(ToWorker::LaunchDriver { registration, driver, description: Arc::new(description) })
}

#[test]
fn a_driver_that_fails_is_started_again_only_if_it_is_supervised() {
    for supervise in [true, false] {
        let mut scene = Scene::ready();
        scene.feed(launch_driver(supervise));
        let driver = DriverId::new("d");
        let status = ExitStatus::Code(1);
        let out = scene.feed(WorkerEvent::DriverExited { driver, status });
        let failed = out.iter().any(|effect| match effect {
            WorkerEffect::Send { message: ToMaster::DriverStateChanged { report, .. }, .. } => {
                report.state == DriverState::Failed
            }
            _ => false,
        });
        assert_eq!(failed, !supervise, "{out:?}");
        let again = scene.tick_after(1000);
        let again = again.iter().any(|effect| matches!(effect, WorkerEffect::SpawnDriver { .. }));
        assert_eq!(again, supervise);
    }
}

fn not_fetched(may_pass: bool) -> WorkerEvent {
    let (driver, message) = (DriverId::new("d"), "the server answers 503".to_owned());
    WorkerEvent::DriverSpawnFailed { driver, message, may_pass }
}

/// Whether the end of a driver is told as an error.
fn tells_error(out: &[WorkerEffect]) -> bool {
    out.iter().any(|effect| match effect {
        WorkerEffect::Send { message: ToMaster::DriverStateChanged { report, .. }, .. } => {
            report.state == DriverState::Error
        }
        _ => false,
    })
}

#[test]
fn a_driver_that_could_not_be_fetched_is_tried_again_with_longer_pauses_and_not_for_ever() {
    for (supervise, patience_ms) in [(false, 120_000), (true, 600_000)] {
        let mut scene = Scene::ready();
        scene.feed(launch_driver(supervise));
        let (began, mut tries, mut warned) = (scene.now, 0, 0);
        loop {
            let out = scene.feed(not_fetched(true));
            warned += out.iter().filter(|it| matches!(it, WorkerEffect::Warn { .. })).count();
            if tells_error(&out) {
                break;
            }
            tries += 1;
            let before = scene.now;
            while !starts_driver(&scene.tick_after(500)) {
                assert!(scene.now.since_ms(before) <= 60_000, "it is forgotten");
            }
        }
        let lasted = scene.now.since_ms(began);
        assert!((patience_ms..patience_ms + 60_000).contains(&lasted), "{supervise}: {lasted}");
        assert!((6..20).contains(&tries) && warned == 1, "{tries} tries, {warned} warnings");
    }
}

#[test]
fn a_driver_that_cannot_be_fetched_at_all_or_is_killed_while_it_waits_is_not_tried_again() {
    let mut scene = Scene::ready();
    scene.feed(launch_driver(true));
    assert!(tells_error(&scene.feed(not_fetched(false))), "404");
    assert!(!starts_driver(&scene.tick_after(60_000)));
    let mut scene = Scene::ready();
    scene.feed(launch_driver(true));
    assert!(!tells_error(&scene.feed(not_fetched(true))));
    let (registration, driver) = (Registration(1), DriverId::new("d"));
    scene.feed(received(ToWorker::KillDriver { registration, driver }));
    assert!(!starts_driver(&scene.tick_after(60_000)));
}

/// The number of the last report that was sent.
fn last_number(out: &[WorkerEffect]) -> u64 {
    let number = out.iter().rev().find_map(|effect| match effect {
        WorkerEffect::Send { message: ToMaster::WorkerLatestState { state, .. }, .. }
        | WorkerEffect::Send { message: ToMaster::Heartbeat { state, .. }, .. } => {
            Some(state.number)
        }
        _ => None,
    });
    number.expect("it reports")
}

fn answered(registration: u64, number: u64) -> WorkerEvent {
    received(ToWorker::HeartbeatKnown { registration: Registration(registration), number })
}

fn starts_driver(out: &[WorkerEffect]) -> bool {
    out.iter().any(|effect| matches!(effect, WorkerEffect::SpawnDriver { .. }))
}

#[test]
fn supervised_drivers_are_started_while_a_master_answers_and_not_after() {
    let mut scene = Scene::ready();
    let out = scene.feed(received(ToWorker::ReconnectWorker));
    assert!(!out.is_empty());
    let out = scene.feed(registered_for(2, 20_000));
    let (sent, number) = (scene.now, last_number(&out));
    let order = |supervise| match launch_driver(supervise) {
        WorkerEvent::Received { stamped, .. } => match stamped.message {
            ToWorker::LaunchDriver { driver, description, .. } => {
                let registration = Registration(2);
                received(ToWorker::LaunchDriver { registration, driver, description })
            }
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    assert!(!starts_driver(&scene.feed(order(true))), "nobody has answered yet");
    scene.now = scene.now.plus_ms(3_000);
    assert!(!starts_driver(&scene.feed(answered(1, number))), "another registration's");
    let out = scene.feed(answered(2, number));
    assert!(starts_driver(&out), "{out:?}");
    let until = sent.plus_ms(20_000);
    let guards = |effect: &WorkerEffect| matches!(effect, WorkerEffect::GuardDrivers { until: at } if *at == until);
    assert!(out.iter().any(guards), "it counts from when the report was sent: {out:?}");
    scene.now = until;
    let (driver, status) = (DriverId::new("d"), ExitStatus::Signal(9));
    assert!(!starts_driver(&scene.feed(WorkerEvent::DriverExited { driver, status })));
    let out = scene.tick_after(60_000);
    assert!(!starts_driver(&out), "another worker may have it by now: {out:?}");
    let out = scene.feed(answered(2, last_number(&out)));
    assert!(starts_driver(&out), "its master counts on it again: {out:?}");
}

#[test]
fn a_worker_that_is_told_to_end_says_so_at_once_and_when_its_drivers_are_gone() {
    let mut scene = Scene::ready();
    scene.feed(launch_driver(false));
    let goodbyes = |out: &[WorkerEffect]| -> Vec<usize> {
        let found = out.iter().filter_map(|effect| match effect {
            WorkerEffect::Send { message: ToMaster::UnregisterWorker { drivers, .. }, .. } => {
                Some(drivers.len())
            }
            _ => None,
        });
        found.collect()
    };
    let out = scene.feed(WorkerEvent::StopRequested);
    assert_eq!(goodbyes(&out), [1]);
    assert!(out.iter().any(|effect| matches!(effect, WorkerEffect::Exit { code: 0, .. })));
    assert_eq!(goodbyes(&scene.feed(WorkerEvent::ProcessesGone)), [0]);
    let mut nowhere = Scene::new();
    assert!(goodbyes(&nowhere.feed(WorkerEvent::StopRequested)).is_empty(), "it has no master");
}

#[test]
fn a_connection_that_breaks_before_the_answer_came_is_followed_by_another_question_soon() {
    let asks = |out: &[WorkerEffect]| {
        let asked = out.iter().filter(|effect| {
            matches!(effect, WorkerEffect::Send { message: ToMaster::RegisterWorker { .. }, .. })
        });
        asked.count() > 0
    };
    let mut scene = Scene::ready();
    scene.feed(WorkerEvent::MasterDisconnected { master: 0 });
    (0..120).for_each(|_| drop(scene.tick_after(1000)));
    while !asks(&scene.tick_after(1000)) {}
    scene.feed(unreachable(0, false));
    assert!(!asks(&scene.tick_after(2000)), "nobody is there: it asks at its pace");
    scene.feed(WorkerEvent::MasterDisconnected { master: 0 });
    assert!(asks(&scene.tick_after(2000)), "that master may have taken it in");
}
