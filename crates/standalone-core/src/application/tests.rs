//! Rules of the application's client: these events, those effects.

use std::sync::Arc;

use firesteel_backend::AppId;
use firesteel_backend::blame::{End, ExitStatus};
use firesteel_backend::command::Command;
use firesteel_backend::jitter::Jitter;
use firesteel_backend::provider::{ProviderCommand, ProviderEvent};
use firesteel_types::{ExecutorId, Host, Tick};

use super::*;
use crate::description::{ApplicationDescription, ExecutorState, ExecutorUpdate, ProcessEnd};
use crate::messages::{Stamped, ToApplication, ToMaster};
use crate::{Incarnation, Term, WorkerId};

struct Scene {
    client: AppClient,
    now: Tick,
}

fn received(term: u64, message: ToApplication) -> AppClientEvent {
    AppClientEvent::ReceivedMaster { master: 0, stamped: Stamped { term: Term(term), message } }
}

fn registered(term: u64) -> AppClientEvent {
    received(term, taken_in(String::new(), 15_000))
}

/// By a master that nobody elected.
fn taken_in(url: String, heartbeat_ms: u64) -> ToApplication {
    let app = AppId::new("app");
    ToApplication::RegisteredApplication { app, url, heartbeat_ms, elected: false }
}

fn ended(executor: u32, state: ExecutorState, status: Option<ExitStatus>) -> AppClientEvent {
    let end = status.map(|status| ProcessEnd { message: "ended".into(), status: Some(status) });
    let update = ExecutorUpdate { executor: ExecutorId(executor), state, end };
    received(5, ToApplication::ExecutorUpdated(update))
}

fn added(executor: u32) -> AppClientEvent {
    let (executor, worker) = (ExecutorId(executor), WorkerId::new("w"));
    let (host, cores, memory_mb) = (Host::new("h"), 1, 100);
    received(5, ToApplication::ExecutorAdded { executor, worker, host, cores, memory_mb })
}

fn comes(executor: u32) -> AppClientEvent {
    AppClientEvent::Command(ProviderCommand::Registered(ExecutorId(executor)))
}

fn release(executor: u32) -> AppClientEvent {
    AppClientEvent::Command(ProviderCommand::Release(vec![ExecutorId(executor)]))
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
        let options = AppClientOptions::new(Arc::new(description), Incarnation(1), 2);
        Scene { client: AppClient::new(options, Jitter::new(1)), now: Tick(1000) }
    }

    fn ready() -> Self {
        let mut scene = Scene::new();
        scene.feed(AppClientEvent::Ticked);
        scene.feed(registered(5));
        scene
    }

    fn feed(&mut self, event: AppClientEvent) -> Vec<AppClientEffect> {
        let mut out = Vec::new();
        self.client.handle(self.now, event, &mut out);
        out
    }

    fn tick_after(&mut self, ms: u64) -> Vec<AppClientEffect> {
        self.now = self.now.plus_ms(ms);
        self.feed(AppClientEvent::Ticked)
    }

    /// Time passes, and it is awake.
    fn wait(&mut self, ms: u64) -> Vec<AppClientEffect> {
        (0..ms / 1000).flat_map(|_| self.tick_after(1000)).collect()
    }
}

fn reports(out: &[AppClientEffect]) -> Vec<ProviderEvent> {
    let reports = out.iter().filter_map(|effect| match effect {
        AppClientEffect::Report(event) => Some(event.clone()),
        _ => None,
    });
    reports.collect()
}

fn failure(out: &[AppClientEffect]) -> Option<String> {
    reports(out).into_iter().find_map(|event| match event {
        ProviderEvent::Failed { reason } => Some(reason),
        _ => None,
    })
}

fn to_master(out: &[AppClientEffect]) -> Vec<ToMaster> {
    let sent = out.iter().filter_map(|effect| match effect {
        AppClientEffect::SendMaster { message, .. } => Some(message.clone()),
        _ => None,
    });
    sent.collect()
}

fn killed(out: &[AppClientEffect]) -> Vec<ExecutorId> {
    let killed = to_master(out).into_iter().filter_map(|message| match message {
        ToMaster::KillExecutors { executors, .. } => Some(executors),
        _ => None,
    });
    killed.flatten().collect()
}

/// Registered executors, registrations and excluded hosts of the last heartbeat.
fn heartbeat(out: &[AppClientEffect]) -> Option<(Vec<ExecutorId>, u64, Vec<Host>)> {
    to_master(out).into_iter().rev().find_map(|message| match message {
        ToMaster::ApplicationHeartbeat { executors, registrations, excluded, .. } => {
            Some((executors, registrations, excluded))
        }
        _ => None,
    })
}

fn unreachable(master: usize, lasting: bool) -> AppClientEvent {
    AppClientEvent::MasterUnreachable { master, reason: "the door is shut".to_owned(), lasting }
}

fn warnings(out: &[AppClientEffect]) -> Vec<String> {
    let warnings = reports(out).into_iter().filter_map(|event| match event {
        ProviderEvent::Warning { message } => Some(message),
        _ => None,
    });
    warnings.collect()
}

#[test]
fn without_an_answer_of_any_master_the_application_ends_with_a_clear_error() {
    let mut scene = Scene::new();
    for _ in 0..3 {
        let asked = scene.tick_after(100_000);
        assert_eq!(failure(&asked), None);
    }
    let out = scene.tick_after(100_000);
    let reason = failure(&out).expect("it gives up");
    assert!(reason.contains("all masters are unresponsive"), "{reason}");
}

#[test]
fn a_master_out_of_reach_is_told_of_at_once_and_once_and_its_reason_is_in_the_error() {
    let mut scene = Scene::new();
    scene.tick_after(0);
    let out = scene.feed(unreachable(0, false));
    let [warning] = &warnings(&out)[..] else { panic!("{out:?}") };
    assert!(warning.contains("the door is shut") && warning.contains("60 s"), "{warning}");
    assert_eq!(warnings(&scene.feed(unreachable(0, false))), [""; 0]);
    let out: Vec<AppClientEffect> = (0..4).flat_map(|_| scene.tick_after(100_000)).collect();
    let reason = failure(&out).expect("it gives up");
    assert!(reason.contains("unresponsive") && reason.contains("the door is shut"), "{reason}");
}

#[test]
fn a_master_that_will_never_take_it_in_ends_a_new_application_at_once_and_no_other() {
    let mut scene = Scene::new();
    scene.tick_after(0);
    assert_eq!(failure(&scene.feed(unreachable(0, true))), None, "there is another one");
    let out = scene.feed(unreachable(1, true));
    assert_eq!(failure(&out).as_deref(), Some("the door is shut"));
    let mut scene = Scene::ready();
    scene.feed(comes(0));
    scene.feed(AppClientEvent::MasterDisconnected { master: 0 });
    let mut out = scene.feed(unreachable(0, true));
    out.extend(scene.feed(unreachable(1, true)));
    assert_eq!(failure(&out), None, "it has executors");
    assert_eq!(warnings(&out).len(), 1);
}

#[test]
fn with_executors_at_work_it_looks_for_a_master_for_as_long_as_it_takes() {
    let mut scene = Scene::ready();
    scene.feed(comes(0));
    scene.feed(AppClientEvent::MasterDisconnected { master: 0 });
    for _ in 0..20 {
        let out = scene.tick_after(30_000);
        assert_eq!(failure(&out), None);
    }
    let mut asks = || {
        let out = scene.tick_after(30_000);
        out.into_iter().find_map(|effect| match effect {
            AppClientEffect::SendMaster {
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
fn a_driver_asks_a_master_that_comes_back_after_seconds_within_about_as_many() {
    let mut scene = Scene::ready();
    scene.feed(comes(0));
    scene.feed(AppClientEvent::MasterDisconnected { master: 0 });
    let mut asks = |after: u64| {
        let asked = |effect: &AppClientEffect| match effect {
            AppClientEffect::SendMaster { master: 0, message } => {
                matches!(message, ToMaster::RegisterApplication { .. })
            }
            _ => false,
        };
        let steps = (0..after / 100).filter(|_| scene.tick_after(100).iter().any(asked));
        steps.count()
    };
    let mut asked = 0;
    for (after, elapsed, least) in
        [(600, 600, 1), (1000, 1600, 2), (3000, 4600, 3), (6000, 10_600, 4)]
    {
        asked += asks(after);
        assert!(asked >= least, "asked {asked} times after {elapsed} ms");
    }
    let (before, later) = (asks(100_000), asks(100_000));
    assert!(before <= 12 && later <= 10, "and then every 20 s: {before}, {later}");
}

#[test]
fn a_driver_that_two_masters_take_in_says_so_once_whichever_of_them_it_obeys() {
    for terms in [[5, 6, 7], [5, 4, 5]] {
        let mut scene = Scene::new();
        let events = [0, 1, 0].into_iter().zip(terms).map(|(master, term)| {
            let message = taken_in(format!("spark://{master}:7077"), 15_000);
            AppClientEvent::ReceivedMaster {
                master,
                stamped: Stamped { term: Term(term), message },
            }
        });
        let out: Vec<_> = events.flat_map(|event| scene.feed(event)).collect();
        let [warning] = &warnings(&out)[..] else { panic!("{out:?}") };
        assert!(warning.contains("spark.deploy.recoveryMode"), "{warning}");
    }
}

#[test]
fn the_driver_is_heard_as_often_as_its_master_wants() {
    let mut scene = Scene::new();
    scene.feed(AppClientEvent::Ticked);
    scene.feed(received(5, taken_in(String::new(), 1250)));
    let beats = scene.wait(10_000).into_iter().filter(|effect| {
        let beat = |message: &ToMaster| matches!(message, ToMaster::ApplicationHeartbeat { .. });
        matches!(effect, AppClientEffect::SendMaster { message, .. } if beat(message))
    });
    assert_eq!(beats.count(), 5, "every 1.25 s, by a clock that ticks once a second");
}

#[test]
fn what_was_released_without_a_master_is_told_to_the_next_one_until_it_is_over() {
    let mut scene = Scene::ready();
    scene.feed(comes(0));
    scene.feed(AppClientEvent::MasterDisconnected { master: 0 });
    assert_eq!(killed(&scene.feed(release(0))), [], "nobody hears it");
    let out = scene.feed(registered(6));
    assert_eq!(killed(&out), [ExecutorId(0)]);
    assert_eq!(heartbeat(&out), Some((vec![], 1, vec![])));
    let message = ToApplication::ExecutorUpdated(ExecutorUpdate {
        executor: ExecutorId(0),
        state: ExecutorState::Killed,
        end: None,
    });
    scene.feed(received(6, message));
    assert_eq!(killed(&scene.wait(60_000)), []);
}

#[test]
fn what_an_older_master_says_changes_nothing() {
    let mut scene = Scene::ready();
    scene.feed(comes(0));
    scene.feed(AppClientEvent::MasterDisconnected { master: 0 });
    scene.feed(registered(6));
    let message = "gone".to_owned();
    assert!(scene.feed(received(5, ToApplication::ApplicationRemoved { message })).is_empty());
    assert!(scene.feed(ended(0, ExecutorState::Lost, None)).is_empty(), "S06");
    assert_eq!(scene.client.stale_messages(), 2);
}

#[test]
fn an_application_that_its_master_ended_is_over_and_says_why() {
    let mut scene = Scene::ready();
    let message = "10 executors in a row".to_owned();
    let out = scene.feed(received(5, ToApplication::ApplicationRemoved { message }));
    assert!(failure(&out).is_some_and(|reason| reason.contains("in a row")), "{out:?}");
    assert!(scene.client.is_over());
    assert!(scene.feed(AppClientEvent::Command(ProviderCommand::Stop)).is_empty());
    let late = to_master(&scene.feed(registered(6)));
    assert_eq!(late, [ToMaster::UnregisterApplication { app: AppId::new("app") }]);
}

#[test]
fn each_state_of_an_executor_is_reported_and_the_master_hears_who_registered() {
    let mut scene = Scene::ready();
    let executor = ExecutorId(3);
    assert_eq!(reports(&scene.feed(added(3))), [ProviderEvent::Ordered { executor }]);
    let node = Host::new("h");
    let running = scene.feed(ended(3, ExecutorState::Running, None));
    assert_eq!(reports(&running), [ProviderEvent::Started { executor, node }]);
    assert_eq!(heartbeat(&scene.feed(comes(3))), Some((vec![executor], 1, vec![])));
    for (state, status, end) in [
        (ExecutorState::Exited, Some(ExitStatus::Code(1)), End::Exited(Some(ExitStatus::Code(1)))),
        (ExecutorState::Failed, None, End::LaunchFailed),
        (ExecutorState::Killed, None, End::Told),
        (ExecutorState::Lost, None, End::NodeLost),
    ] {
        let out = scene.feed(ended(3, state, status));
        let [ProviderEvent::Ended { end: told, .. }] = &reports(&out)[..] else {
            panic!("{out:?}");
        };
        assert_eq!(*told, end);
    }
    let nodes = ["a", "b"].map(Host::new);
    let excluded = ProviderCommand::NodesExcluded(nodes.clone().into());
    let out = scene.feed(AppClientEvent::Command(excluded));
    assert_eq!(heartbeat(&out), Some((vec![], 1, nodes.to_vec())));
}

#[test]
fn a_shortage_stands_until_its_master_says_that_it_is_over_or_another_one_leads() {
    let shortage = |out: &[AppClientEffect]| {
        reports(out).into_iter().find_map(|event| match event {
            ProviderEvent::Capacity(capacity) => Some(capacity.shortage),
            _ => None,
        })
    };
    let starved = |words: Option<&str>| {
        let shortage = words.map(str::to_owned);
        received(5, ToApplication::ApplicationStarved { shortage })
    };
    let told = Some(Some("2 of 3 executors are missing".to_owned()));
    let mut scene = Scene::ready();
    assert_eq!(shortage(&scene.feed(starved(Some("2 of 3 executors are missing")))), told);
    assert_eq!(shortage(&scene.feed(added(1))), None, "others are missing still");
    assert_eq!(shortage(&scene.feed(starved(None))), Some(None));
    assert_eq!(shortage(&scene.feed(starved(Some("2 of 3 executors are missing")))), told);
    let lost = AppClientEvent::MasterDisconnected { master: 0 };
    assert_eq!(shortage(&scene.feed(lost)), None);
    assert_eq!(shortage(&scene.feed(registered(5))), None, "the same one, which told it");
    scene.feed(AppClientEvent::MasterDisconnected { master: 0 });
    assert_eq!(shortage(&scene.feed(registered(6))), Some(None));
    assert_eq!(shortage(&scene.feed(registered(7))), None, "once");
}

#[test]
fn executors_tell_the_name_under_which_a_master_that_is_gone_took_the_application_in() {
    let mut scene = Scene::new();
    scene.feed(AppClientEvent::Ticked);
    let named = ProviderCommand::Named(AppId::new("app"));
    assert!(scene.feed(AppClientEvent::Command(named)).is_empty());
    scene.feed(comes(0));
    let out = scene.wait(60_000);
    let previous = to_master(&out).into_iter().find_map(|message| match message {
        ToMaster::RegisterApplication { previous, .. } => Some(previous),
        _ => None,
    });
    assert_eq!(previous, Some(Some(AppId::new("app"))));
    let accepted = ProviderEvent::Accepted { app: AppId::new("app") };
    assert!(reports(&scene.feed(registered(5))).contains(&accepted), "it is told all the same");
}
