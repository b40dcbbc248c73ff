//! Rules of the master's core: these events, those effects.

use std::sync::Arc;

use firesteel_backend::blame::ExitStatus;
use firesteel_backend::command::{Command, Served};
use firesteel_backend::provider::Preparing;
use firesteel_backend::{Address, AppId, Peer};
use firesteel_types::{ExecutorId, Host, Tick};

use super::*;
use crate::description::{
    ApplicationDescription, DriverDescription, DriverReport, DriverState, ExecutorReport,
    ExecutorState, ProcessEnd, WorkerDescription, WorkerState,
};
use crate::messages::{MasterReply, ToApplication, ToMaster, ToWorker};
use crate::{DriverId, ExecutorKey, Incarnation, Registration, Term, WorkerId};

/// A master with what it said since last asked.
pub(super) struct Scene {
    pub(super) master: Master,
    pub(super) now: Tick,
    pub(super) number: u64,
    /// What a store would have.
    pub(super) records: Records,
    /// All that it was told to write.
    pub(super) written: Vec<Change>,
    pub(super) to_workers: Vec<(Peer, ToWorker)>,
    pub(super) to_apps: Vec<(Peer, ToApplication)>,
    pub(super) replies: Vec<MasterReply>,
    /// Of all that it said.
    pub(super) terms: Vec<Term>,
    pub(super) stepped_down: Option<String>,
}

pub(super) fn worker(name: &str, cores: u32, memory_mb: u64) -> WorkerDescription {
    WorkerDescription {
        id: WorkerId::new(name),
        incarnation: Incarnation(1),
        address: Address { host: Host::new(name), port: 7000 },
        web_ui: String::new(),
        cores,
        memory_mb,
    }
}

pub(super) fn app(max_cores: u32) -> ApplicationDescription {
    ApplicationDescription {
        name: "app".into(),
        user: "somebody".into(),
        max_cores: Some(max_cores),
        memory_per_executor_mb: 100,
        cores_per_executor: Some(1),
        initial_executor_limit: None,
        command: Command::default(),
        web_ui: String::new(),
    }
}

impl Scene {
    pub(super) fn new(options: MasterOptions) -> Self {
        let mut scene = Scene::standing_by(MasterOptions { recovery_timeout_ms: 0, ..options });
        scene.elect(Records::default());
        scene
    }

    pub(super) fn standing_by(options: MasterOptions) -> Self {
        Scene {
            master: Master::new(options),
            now: Tick(1_000_500),
            number: 0,
            records: Records::default(),
            written: Vec::new(),
            to_workers: Vec::new(),
            to_apps: Vec::new(),
            replies: Vec::new(),
            terms: Vec::new(),
            stepped_down: None,
        }
    }

    pub(super) fn elect(&mut self, records: Records) {
        self.records = records.clone();
        self.feed(MasterEvent::Elected { records, lease: None });
    }

    pub(super) fn feed(&mut self, event: MasterEvent) {
        let mut out = Vec::new();
        self.master.handle(self.now, event, &mut out);
        self.master.assert_invariants();
        for (at, effect) in out.into_iter().enumerate() {
            match effect {
                MasterEffect::SendWorker { to, stamped } => {
                    self.terms.push(stamped.term);
                    self.to_workers.push((to, stamped.message))
                }
                MasterEffect::SendApplication { to, stamped } => {
                    self.terms.push(stamped.term);
                    self.to_apps.push((to, stamped.message))
                }
                MasterEffect::Reply { stamped, .. } => self.replies.push(stamped.message),
                MasterEffect::Persist(changes) => {
                    assert_eq!(at, 0, "S15: what is persisted comes first");
                    self.written.extend(changes.iter().cloned());
                    changes.into_iter().for_each(|change| self.records.apply(change));
                }
                MasterEffect::StepDown { reason } => self.stepped_down = Some(reason),
                MasterEffect::ArmTimer(_) => {}
            }
        }
        if self.master.status() != RecoveryState::Standby {
            assert_eq!(self.master.records(), self.records, "S15");
        }
    }

    /// The connection breaks, and nobody comes back over another one.
    pub(super) fn cut_off(&mut self, peer: u64) {
        self.feed(MasterEvent::PeerDisconnected { peer: Peer(peer) });
        self.later(11_250);
        self.later(3_750);
    }

    pub(super) fn hear(&mut self, from: u64, message: ToMaster) {
        self.feed(MasterEvent::Received { from: Peer(from), message });
    }

    pub(super) fn later(&mut self, ms: u64) {
        self.now = self.now.plus_ms(ms);
        self.feed(MasterEvent::Ticked);
    }

    pub(super) fn register_worker(
        &mut self,
        from: u64,
        worker: WorkerDescription,
        state: WorkerState,
    ) {
        self.hear(from, ToMaster::RegisterWorker { worker, state, newest: Term(0) });
    }

    pub(super) fn add_worker(
        &mut self,
        from: u64,
        name: &str,
        cores: u32,
        memory_mb: u64,
    ) -> Registration {
        self.number += 1;
        let state = WorkerState { number: self.number, ..WorkerState::default() };
        self.register_worker(from, worker(name, cores, memory_mb), state);
        self.registration()
    }

    pub(super) fn registration(&self) -> Registration {
        let mut sent = self.to_workers.iter().rev();
        let found = sent.find_map(|(_, message)| match message {
            ToWorker::RegisteredWorker { registration, .. } => Some(*registration),
            _ => None,
        });
        found.expect("the worker is registered")
    }

    pub(super) fn add_app(&mut self, from: u64, description: ApplicationDescription) -> AppId {
        self.ask_for_app(from, description, None, 0);
        let mut sent = self.to_apps.iter().rev();
        let found = sent.find_map(|(_, message)| match message {
            ToApplication::RegisteredApplication { app, .. } => Some(app.clone()),
            _ => None,
        });
        found.expect("the application is registered")
    }

    pub(super) fn add_app_asks(&mut self, from: u64) {
        self.ask_for_app(from, app(1), None, 0);
    }

    pub(super) fn add_app_asks_with(&mut self, from: u64, command: Command) {
        self.ask_for_app(from, ApplicationDescription { command, ..app(1) }, None, 0);
    }

    fn ask_for_app(
        &mut self,
        from: u64,
        description: ApplicationDescription,
        previous: Option<AppId>,
        first: u32,
    ) {
        let message = ToMaster::RegisterApplication {
            description: Arc::new(description),
            incarnation: Incarnation(from),
            previous,
            first_executor: ExecutorId(first),
            newest: Term(0),
            executors: Vec::new(),
        };
        self.hear(from, message);
    }

    pub(super) fn report(
        &mut self,
        name: &str,
        registration: Registration,
        key: &ExecutorKey,
        how: How,
    ) {
        self.number += 1;
        let (state, status) = match how {
            How::Runs => (ExecutorState::Running, None),
            How::Exits(code) => (ExecutorState::Exited, Some(ExitStatus::Code(code))),
            How::Killed => (ExecutorState::Killed, Some(ExitStatus::Signal(9))),
        };
        let end = state.is_finished().then(|| ProcessEnd { message: "ended".into(), status });
        let preparing = None;
        let report =
            ExecutorReport { key: key.clone(), cores: 1, memory_mb: 100, state, preparing, end };
        let (worker, number) = (WorkerId::new(name), self.number);
        self.hear(10, ToMaster::ExecutorStateChanged { worker, registration, number, report });
    }

    /// The worker `a` tells of a driver's end.
    fn end_driver(
        &mut self,
        registration: Registration,
        driver: &DriverId,
        state: DriverState,
        end: Option<ProcessEnd>,
    ) {
        self.number += 1;
        let (driver, cores, memory_mb, description) = (driver.clone(), 1, 100, None);
        let report = DriverReport { driver, cores, memory_mb, state, description, end };
        let (worker, number) = (WorkerId::new("a"), self.number);
        self.hear(10, ToMaster::DriverStateChanged { worker, registration, number, report });
    }

    /// Why a driver ended, as its status says.
    pub(super) fn reason_of(&mut self, driver: &DriverId) -> Option<String> {
        self.hear(1, ToMaster::RequestDriverStatus { driver: driver.clone() });
        match self.replies.last() {
            Some(MasterReply::DriverStatusResponse { reason, .. }) => reason.clone(),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn heartbeat(&mut self, from: u64, name: &str, registration: Registration) {
        self.number += 1;
        let state = WorkerState { number: self.number, ..WorkerState::default() };
        let worker = WorkerId::new(name);
        self.hear(from, ToMaster::Heartbeat { worker, registration, state });
    }

    fn registration_of(&self, name: &str) -> Registration {
        self.master.registration(&WorkerId::new(name)).unwrap().0
    }

    fn heartbeat_of(&mut self, name: &str) {
        let registration = self.registration_of(name);
        self.heartbeat(10, name, registration);
    }

    fn worker_of(&self, key: &ExecutorKey) -> &'static str {
        let view = self.master.view();
        let mut executors = view.active_apps.iter().flat_map(|app| &app.executors);
        let found = executors.find(|executor| executor.executor == key.executor).unwrap();
        if found.worker == WorkerId::new("a") { "a" } else { "b" }
    }

    /// What was said last of missing executors since this was asked last.
    fn shortage(&mut self) -> Option<Option<String>> {
        let said = std::mem::take(&mut self.to_apps).into_iter().rev();
        let mut said = said.filter_map(|(_, message)| match message {
            ToApplication::ApplicationStarved { shortage } => Some(shortage),
            _ => None,
        });
        said.next()
    }

    pub(super) fn launches(&mut self) -> Vec<(Peer, ExecutorKey)> {
        let sent = std::mem::take(&mut self.to_workers);
        let launches = sent.into_iter().filter_map(|(to, message)| match message {
            ToWorker::LaunchExecutor { key, .. } => Some((to, key)),
            _ => None,
        });
        launches.collect()
    }
}

pub(super) enum How {
    Runs,
    Exits(i32),
    Killed,
}

pub(super) fn key(app: &AppId, executor: u32) -> ExecutorKey {
    ExecutorKey { app: app.clone(), executor: ExecutorId(executor) }
}

#[test]
fn a_worker_asking_twice_is_registered_once_and_another_process_with_its_name_is_refused() {
    let mut scene = Scene::new(MasterOptions::default());
    let first = scene.add_worker(10, "w", 4, 1000);
    assert_eq!(scene.add_worker(11, "w", 4, 1000), first, "the same process");
    let other = WorkerDescription { incarnation: Incarnation(2), ..worker("w", 4, 1000) };
    scene.register_worker(12, other, WorkerState::default());
    let refused = matches!(
        scene.to_workers.last(),
        Some((Peer(12), ToWorker::RegisterWorkerFailed { retry: false, .. }))
    );
    assert!(refused, "{:?}", scene.to_workers.last());
}

#[test]
fn a_worker_at_a_taken_address_may_ask_again_and_one_that_offers_nothing_may_not() {
    let mut scene = Scene::new(MasterOptions::default());
    scene.add_worker(10, "w", 4, 1000);
    let successor = WorkerDescription { id: WorkerId::new("w2"), ..worker("w", 4, 1000) };
    for (description, may_retry) in [(successor.clone(), true), (worker("x", 0, 1), false)] {
        scene.register_worker(11, description, WorkerState::default());
        let Some((_, ToWorker::RegisterWorkerFailed { retry, .. })) = scene.to_workers.last()
        else {
            panic!("not refused: {:?}", scene.to_workers.last());
        };
        assert_eq!(*retry, may_retry);
    }
    scene.feed(MasterEvent::PeerDisconnected { peer: Peer(10) });
    scene.register_worker(11, successor, WorkerState::default());
    let taken_in = matches!(scene.to_workers.last(), Some((_, ToWorker::RegisteredWorker { .. })));
    assert!(taken_in, "the old one was declared dead");
}

#[test]
fn executors_are_given_out_first_come_first_served_within_cores_memory_and_limits() {
    let mut scene = Scene::new(MasterOptions::default());
    scene.add_worker(10, "a", 4, 250);
    scene.add_worker(11, "b", 2, 1000);
    let limited = ApplicationDescription { initial_executor_limit: Some(1), ..app(9) };
    let first = scene.add_app(20, limited);
    assert_eq!(scene.launches(), [(Peer(10), key(&first, 0))]);
    let second = scene.add_app(21, app(9));
    let given = scene.launches();
    assert_eq!(given.len(), 3, "one more on a for its memory, two on b: {given:?}");
    assert!(given.iter().all(|(_, key)| key.app == second));
    scene.hear(20, ToMaster::RequestExecutors { app: first, total: 4 });
    assert_eq!(scene.launches(), [], "nothing is left");
}

#[test]
fn an_application_gets_no_executor_on_a_host_that_it_excludes_until_it_does_no_longer() {
    let mut scene = Scene::new(MasterOptions::default());
    scene.add_worker(10, "a", 2, 1000);
    let app = scene.add_app(20, app(9));
    assert_eq!(scene.launches().len(), 2);
    let heartbeat = |scene: &mut Scene, excluded: &[&str]| {
        let excluded = excluded.iter().copied().map(Host::new).collect();
        let (app, executors) = (app.clone(), Vec::new());
        let (limit, registrations) = (None, 0);
        let message =
            ToMaster::ApplicationHeartbeat { app, limit, executors, registrations, excluded };
        scene.hear(20, message);
    };
    heartbeat(&mut scene, &["b"]);
    scene.add_worker(11, "b", 1, 1000);
    assert_eq!(scene.launches(), []);
    scene.add_worker(12, "c", 1, 1000);
    assert_eq!(scene.launches(), [(Peer(12), key(&app, 2))]);
    heartbeat(&mut scene, &[]);
    assert_eq!(scene.launches(), [(Peer(11), key(&app, 3))]);
}

#[test]
fn an_application_has_no_more_executors_than_it_asked_for_and_lost_ones_are_replaced() {
    let mut scene = Scene::new(MasterOptions::default());
    let registration = scene.add_worker(10, "a", 4, 1000);
    let limited = || ApplicationDescription { initial_executor_limit: Some(2), ..app(9) };
    let app = scene.add_app(20, limited());
    let heartbeat = |scene: &mut Scene, executors: [u32; 2]| {
        let (executors, id) = (executors.map(ExecutorId).to_vec(), app.clone());
        let limit = Some(2);
        let message = ToMaster::ApplicationHeartbeat {
            app: id,
            limit,
            executors,
            registrations: 0,
            excluded: Vec::new(),
        };
        scene.hear(20, message);
    };
    assert_eq!(scene.launches(), [0, 1].map(|executor| (Peer(10), key(&app, executor))));
    heartbeat(&mut scene, [0, 1]);
    scene.add_worker(11, "b", 4, 1000);
    assert_eq!(scene.launches(), [], "more capacity is not more executors");
    scene.report("a", registration, &key(&app, 0), How::Killed);
    let replaced = scene.launches();
    assert!(matches!(&replaced[..], [(_, one)] if *one == key(&app, 2)), "{replaced:?}");
    heartbeat(&mut scene, [1, 2]);
    scene.cut_off(replaced[0].0.0);
    assert!(scene.launches().len() <= 2);
    scene.cut_off(10);
    scene.launches();
    let executors = |scene: &Scene| scene.master.view().active_apps[0].executors.len();
    scene.add_worker(12, "c", 4, 1000);
    assert_eq!(executors(&scene), 2, "as soon as there is capacity again");
    let newest = scene.launches().last().map(|(_, key)| key.executor.0).unwrap();
    heartbeat(&mut scene, [newest - 1, newest]);
    let executors_to_end = vec![ExecutorId(newest)];
    scene.hear(20, ToMaster::KillExecutors { app: app.clone(), executors: executors_to_end });
    assert_eq!((scene.launches().len(), executors(&scene)), (1, 2));
}

#[test]
fn the_limit_of_executors_counts_with_a_master_that_follows_another() {
    let mut scene = Scene::new(MasterOptions::default());
    let each = ApplicationDescription { cores_per_executor: None, ..app(9) };
    let limited = ApplicationDescription { initial_executor_limit: Some(1), ..each };
    scene.ask_for_app(20, limited, Some(AppId::new("app-of-before")), 7);
    for (peer, name) in [(10, "a"), (11, "b"), (12, "c")] {
        scene.add_worker(peer, name, 4, 1000);
    }
    let view = scene.master.view();
    let given: Vec<_> = view.active_apps[0].executors.iter().map(|given| given.cores).collect();
    assert_eq!(given, [4], "one executor, with all cores of its worker");
}

#[test]
fn what_a_killed_executor_held_is_free_when_its_end_is_reported_and_not_before() {
    let mut scene = Scene::new(MasterOptions::default());
    let registration = scene.add_worker(10, "a", 1, 1000);
    let first = scene.add_app(20, app(1));
    let second = scene.add_app(21, app(1));
    scene.launches();
    scene.report("a", registration, &key(&first, 0), How::Runs);
    scene.hear(20, ToMaster::UnregisterApplication { app: first.clone() });
    assert_eq!(scene.launches(), [], "its process may still be there");
    scene.report("a", registration, &key(&first, 0), How::Killed);
    assert_eq!(scene.launches(), [(Peer(10), key(&second, 0))]);
}

#[test]
fn executors_that_start_and_end_at_once_fail_the_application_with_the_cause() {
    let mut scene = Scene::new(MasterOptions { max_executor_retries: 3, ..Default::default() });
    let registration = scene.add_worker(10, "a", 1, 1000);
    let app = scene.add_app(20, app(1));
    for executor in 0..3 {
        scene.later(200);
        assert_eq!(scene.launches(), [(Peer(10), key(&app, executor))]);
        scene.report("a", registration, &key(&app, executor), How::Runs);
        scene.report("a", registration, &key(&app, executor), How::Exits(1));
        assert_eq!(scene.launches(), [], "it waits before it tries again");
    }
    let Some((_, ToApplication::ApplicationRemoved { message })) = scene.to_apps.last() else {
        panic!("it goes on: {:?}", scene.to_apps.last());
    };
    assert!(message.contains("3 executors in a row") && message.contains("ended"), "{message}");
    let view = scene.master.view();
    assert_eq!(view.completed_apps[0].state, ApplicationState::Failed);
}

#[test]
fn an_executor_at_work_keeps_an_application_alive_whose_other_executors_fail() {
    let options = MasterOptions { max_executor_retries: 2, ..Default::default() };
    let mut scene = Scene::new(options);
    let registration = scene.add_worker(10, "a", 2, 1000);
    let app = scene.add_app(20, app(2));
    scene.report("a", registration, &key(&app, 0), How::Runs);
    let executors = vec![ExecutorId(0)];
    scene.hear(
        20,
        ToMaster::ApplicationHeartbeat {
            app: app.clone(),
            limit: None,
            executors,
            registrations: 0,
            excluded: Vec::new(),
        },
    );
    for executor in 1..3 {
        scene.report("a", registration, &key(&app, executor), How::Exits(1));
    }
    assert_eq!(scene.master.view().active_apps.len(), 1);
    scene.launches();
    scene.report("a", registration, &key(&app, 3), How::Exits(1));
    assert_eq!(scene.launches(), [], "it waits before it tries again");
}

#[test]
fn executors_that_worked_and_ended_do_not_end_the_application_and_many_of_them_make_it_wait() {
    let mut scene = Scene::new(MasterOptions { max_executor_retries: 1, ..Default::default() });
    let registration = scene.add_worker(10, "a", 1, 1000);
    let app = scene.add_app(20, app(1));
    scene.report("a", registration, &key(&app, 0), How::Killed);
    for (executor, code) in [(1, 0), (2, 56), (3, 60), (4, 61), (5, 62)] {
        let (id, executors) = (app.clone(), vec![ExecutorId(executor)]);
        scene.hear(
            20,
            ToMaster::ApplicationHeartbeat {
                app: id,
                limit: None,
                executors,
                registrations: 0,
                excluded: Vec::new(),
            },
        );
        scene.launches();
        scene.report("a", registration, &key(&app, executor), How::Exits(code));
    }
    assert_eq!(scene.master.view().active_apps.len(), 1);
    assert_eq!(scene.launches(), [], "five crashes in a row");
    scene.later(100);
    assert_eq!(scene.launches(), [(Peer(10), key(&app, 6))]);
}

/// Workers `a`, good, and `b`, bad, and an application that wants one core of each.
fn one_bad_worker() -> (Scene, Registration, AppId) {
    let options = MasterOptions { max_executor_retries: 3, ..Default::default() };
    let mut scene = Scene::new(options);
    scene.add_worker(10, "a", 1, 1000);
    let bad = scene.add_worker(11, "b", 1, 1000);
    let app = scene.add_app(20, app(2));
    assert_eq!(scene.launches().len(), 2);
    (scene, bad, app)
}

#[test]
fn one_bad_worker_beside_one_that_starts_its_executor_ends_no_application() {
    let (mut scene, bad, app) = one_bad_worker();
    // The good one takes its time; the bad one fails as often as it is asked.
    let mut failed = 0;
    let mut executor = ExecutorId(1);
    for _ in 0..40 {
        scene.report("b", bad, &key(&app, executor.0), How::Exits(1));
        failed += 1;
        assert_eq!(scene.launches(), [], "it is avoided");
        scene.later(1000);
        scene.heartbeat_of("a");
        let Some((_, key)) = scene.launches().pop() else { break };
        executor = key.executor;
    }
    assert_eq!((failed, scene.master.view().active_apps.len()), (40, 1));
    let executors = vec![ExecutorId(0)];
    scene.hear(
        20,
        ToMaster::ApplicationHeartbeat {
            app: app.clone(),
            limit: None,
            executors,
            registrations: 0,
            excluded: Vec::new(),
        },
    );
    scene.report("b", bad, &key(&app, executor.0), How::Exits(1));
    scene.later(30_000);
    assert_eq!(scene.launches(), [], "with an executor at work it is avoided for longer");
}

#[test]
fn an_application_ends_when_every_worker_has_failed_it_and_hears_what_each_of_them_said() {
    let (mut scene, bad, app) = one_bad_worker();
    let good = scene.registration_of("a");
    let mut launched = vec![("a", good, 0), ("b", bad, 1)];
    while !launched.is_empty() {
        for (worker, registration, executor) in std::mem::take(&mut launched) {
            scene.report(worker, registration, &key(&app, executor), How::Exits(1));
        }
        scene.later(1000);
        for (_, key) in scene.launches() {
            let worker = scene.worker_of(&key);
            launched.push((worker, scene.registration_of(worker), key.executor.0));
        }
    }
    let Some((_, ToApplication::ApplicationRemoved { message })) = scene.to_apps.last() else {
        panic!("it goes on: {:?}", scene.to_apps.last());
    };
    assert!(message.contains(" on a, ") && message.contains(" on b, "), "{message}");
}

#[test]
fn a_worker_that_is_full_and_has_not_failed_it_is_waited_for() {
    let mut scene = Scene::new(MasterOptions { max_executor_retries: 1, ..Default::default() });
    scene.add_worker(10, "a", 1, 1000);
    scene.add_app(20, app(1));
    let bad = scene.add_worker(11, "b", 1, 1000);
    let waits = scene.add_app(21, app(1));
    for executor in 0..5 {
        scene.launches();
        scene.report("b", bad, &key(&waits, executor), How::Exits(1));
        scene.later(1000);
    }
    assert_eq!(scene.master.view().active_apps.len(), 2);
}

#[test]
fn launches_of_which_a_silent_worker_never_spoke_do_not_end_an_application() {
    let mut scene = Scene::new(MasterOptions { max_executor_retries: 3, ..Default::default() });
    scene.add_worker(10, "a", 4, 1000);
    let app = scene.add_app(20, app(4));
    let executors: Vec<_> = scene.launches().iter().map(|(_, key)| key.executor).collect();
    assert_eq!(executors.len(), 4);
    scene.later(1000);
    scene.hear(20, ToMaster::KillExecutors { app, executors });
    assert_eq!(scene.master.view().active_apps.len(), 1, "{:?}", scene.to_apps.last());
}

#[test]
fn a_master_that_stood_still_reads_what_came_meanwhile_before_it_judges_silence() {
    let mut scene = Scene::new(MasterOptions::default());
    scene.later(0);
    let registration = scene.add_worker(10, "a", 1, 1000);
    scene.add_worker(11, "b", 1, 1000);
    scene.later(90_000);
    scene.heartbeat(10, "a", registration);
    scene.later(15_000);
    let status = |name| scene.master.worker_status(&WorkerId::new(name)).unwrap().0;
    assert_eq!((status("a"), status("b")), (WorkerStatus::Alive, WorkerStatus::Dead));
}

#[test]
fn a_silent_worker_is_declared_dead_its_executors_are_lost_and_it_may_come_back_anew() {
    let mut scene = Scene::new(MasterOptions::default());
    let old = scene.add_worker(10, "a", 1, 1000);
    let app = scene.add_app(20, app(1));
    scene.launches();
    for _ in 0..5 {
        scene.hear(
            20,
            ToMaster::ApplicationHeartbeat {
                app: app.clone(),
                limit: None,
                executors: Vec::new(),
                registrations: 0,
                excluded: Vec::new(),
            },
        );
        scene.later(15_000);
    }
    let lost = scene.to_apps.iter().any(|(_, message)| {
        matches!(message, ToApplication::ExecutorUpdated(update)
            if update.state == ExecutorState::Lost && update.executor == ExecutorId(0))
    });
    assert!(lost, "{:?}", scene.to_apps);
    scene.heartbeat(10, "a", old);
    assert_eq!(scene.to_workers.last(), Some(&(Peer(10), ToWorker::ReconnectWorker)));
    scene.number += 1;
    let running = ExecutorReport {
        key: key(&app, 0),
        cores: 1,
        memory_mb: 100,
        state: ExecutorState::Running,
        preparing: None,
        end: None,
    };
    let state =
        WorkerState { number: scene.number, executors: vec![running], ..WorkerState::default() };
    scene.register_worker(10, worker("a", 1, 1000), state);
    let new = scene.registration();
    assert_ne!(new, old);
    let kill = ToWorker::KillExecutor { registration: new, key: key(&app, 0) };
    assert!(scene.to_workers.contains(&(Peer(10), kill)), "{:?}", scene.to_workers);
    assert_eq!(scene.launches(), [], "its core is taken until then");
    scene.report("a", new, &key(&app, 0), How::Killed);
    assert_eq!(scene.launches(), [(Peer(10), key(&app, 1))]);
}

#[test]
fn a_worker_that_comes_back_is_booked_with_what_runs_and_not_with_what_waits_for_capacity() {
    let mut scene = Scene::new(MasterOptions::default());
    // It adopts nothing any more.
    scene.later(1);
    let report = |executor, state| ExecutorReport {
        key: key(&AppId::new("gone"), executor),
        cores: 1,
        memory_mb: 100,
        state,
        preparing: None,
        end: None,
    };
    let executors = vec![report(0, ExecutorState::Running), report(1, ExecutorState::Launching)];
    let state = WorkerState { number: 1, executors, ..WorkerState::default() };
    scene.register_worker(10, worker("a", 1, 1000), state);
    let killed = scene
        .to_workers
        .iter()
        .filter(|(_, message)| matches!(message, ToWorker::KillExecutor { .. }));
    assert!(killed.count() >= 2, "{:?}", scene.to_workers);
    let (_, cores, ..) = scene.master.totals();
    assert_eq!(cores, 1, "S01");
}

#[test]
fn a_launch_that_the_worker_never_heard_of_is_repeated() {
    let mut scene = Scene::new(MasterOptions::default());
    let registration = scene.add_worker(10, "a", 1, 1000);
    let app = scene.add_app(20, app(1));
    assert_eq!(scene.launches().len(), 1);
    scene.heartbeat(10, "a", registration);
    assert_eq!(scene.launches(), [], "it may be on its way");
    scene.now = scene.now.plus_ms(15_000);
    scene.heartbeat(10, "a", registration);
    assert_eq!(scene.launches(), [(Peer(10), key(&app, 0))]);
}

#[test]
fn a_driver_whose_connection_breaks_may_come_back_for_a_while() {
    let mut scene = Scene::new(MasterOptions::default());
    let app = scene.add_app(20, app(1));
    scene.feed(MasterEvent::PeerDisconnected { peer: Peer(20) });
    scene.later(1);
    assert_eq!(scene.master.view().active_apps.len(), 1, "not at once");
    let heartbeat = || ToMaster::ApplicationHeartbeat {
        app: app.clone(),
        limit: None,
        executors: Vec::new(),
        registrations: 0,
        excluded: Vec::new(),
    };
    scene.hear(21, heartbeat());
    let told = scene.to_apps.last();
    assert_eq!(
        told,
        Some(&(Peer(21), ToApplication::ReconnectApplication)),
        "anybody could say so"
    );
    let again = ToMaster::RegisterApplication {
        description: Arc::new(super::tests::app(1)),
        incarnation: Incarnation(20),
        previous: Some(app.clone()),
        first_executor: ExecutorId(0),
        newest: Term(0),
        executors: Vec::new(),
    };
    scene.hear(21, again);
    scene.hear(21, heartbeat());
    scene.later(15_000);
    assert_eq!(scene.master.view().active_apps.len(), 1, "it came back");
    scene.feed(MasterEvent::PeerDisconnected { peer: Peer(21) });
    scene.later(15_000);
    let left = scene.master.view().active_apps.len();
    assert_eq!(left, 1, "this master may have stood still: what came meanwhile is read first");
    scene.later(15_000);
    assert_eq!(scene.master.view().active_apps.len(), 0, "it did not");
    scene.hear(22, heartbeat());
    assert_eq!(scene.to_apps.last(), Some(&(Peer(22), ToApplication::ReconnectApplication)));
    scene.ask_for_app(20, super::tests::app(1), Some(app.clone()), 7);
    assert_eq!(scene.master.view().active_apps[0].app, app, "it is the same application");
}

#[test]
fn an_id_of_somebody_else_is_not_given_to_an_application_that_claims_it() {
    let mut scene = Scene::new(MasterOptions::default());
    let taken = scene.add_app(20, app(1));
    scene.ask_for_app(21, app(1), Some(taken.clone()), 0);
    let view = scene.master.view();
    assert!(view.active_apps.len() == 2 && view.active_apps[1].app != taken);
}

#[test]
fn completed_applications_are_remembered_up_to_the_limit() {
    let mut scene = Scene::new(MasterOptions { retained_applications: 2, ..Default::default() });
    for from in 20..25 {
        let app = scene.add_app(from, app(1));
        scene.hear(from, ToMaster::UnregisterApplication { app });
    }
    assert_eq!(scene.master.view().completed_apps.len(), 2);
}

#[test]
fn an_application_without_executors_hears_what_is_missing() {
    let mut scene = Scene::new(MasterOptions::default());
    scene.add_worker(10, "a", 4, 50);
    scene.add_app(20, app(1));
    scene.later(15_000);
    let message = scene.shortage().flatten().expect("it is said");
    assert!(message.contains("100 MB") && message.contains("50 MB"), "{message}");
    let name = "a".to_owned();
    scene.add_worker(11, "b", 2, 70);
    scene.hear(1, ToMaster::RequestDecommissionWorkers { name });
    scene.add_app(21, app(1));
    scene.heartbeat_of("a");
    scene.heartbeat_of("b");
    scene.later(15_000);
    let message = scene.shortage().flatten().expect("it is said");
    let expected = "of 1 live worker(s) none has more than 2 core(s) and none more than 70 MB";
    assert!(message.contains(expected), "a decommissioned worker gives nothing: {message}");
}

#[test]
fn a_shortage_stands_as_long_as_executors_are_missing() {
    let mut scene = Scene::new(MasterOptions::default());
    let app = scene.add_app(20, app(3));
    scene.later(15_000);
    let told = scene.shortage().flatten().expect("there is no worker");
    assert!(told.starts_with("no executor can be had"), "{told}");
    let a = scene.add_worker(10, "a", 1, 1000);
    assert_eq!(scene.launches().len(), 1);
    let told = scene.shortage().flatten().expect("two are missing");
    scene.heartbeat(10, "a", a);
    scene.later(15_000);
    assert_eq!(scene.shortage(), Some(Some(told.clone())), "and still are");
    assert!(told.starts_with("2 of 3 executors are missing: an executor takes 1 core"), "{told}");
    assert!(told.contains("no live worker has that free"), "{told}");
    scene.add_worker(11, "b", 2, 1000);
    assert_eq!(scene.launches().len(), 2);
    assert_eq!(scene.shortage(), Some(None), "it has all");
    scene.report("a", a, &key(&app, 0), How::Runs);
    for from in ["a", "b"] {
        scene.heartbeat_of(from);
    }
    scene.later(15_000);
    assert_eq!(scene.shortage(), None);
}

#[test]
fn an_application_that_takes_what_there_is_lacks_nothing_with_one_executor_and_cores_are_counted_where_executors_have_no_size()
 {
    let of = |max_cores: Option<u32>, cores_per_executor: Option<u32>, limit: Option<u32>| {
        let initial_executor_limit = limit;
        ApplicationDescription { max_cores, cores_per_executor, initial_executor_limit, ..app(1) }
    };
    for (asked, told) in [
        (of(None, None, None), None),
        (of(None, Some(1), None), None),
        // What is left is less than an executor: no worker helps.
        (of(Some(5), Some(4), None), None),
        (of(Some(6), None, None), Some("2 of 6 cores are missing")),
        (of(Some(8), Some(4), None), Some("1 of 2 executors are missing")),
        (of(None, Some(2), Some(5)), Some("3 of 5 executors are missing")),
        (of(None, None, Some(3)), Some("2 of 3 executors are missing")),
    ] {
        let mut scene = Scene::new(MasterOptions::default());
        scene.add_worker(10, "a", 4, 1000);
        scene.add_app(20, asked.clone());
        scene.heartbeat_of("a");
        scene.later(15_000);
        let said = scene.shortage().flatten();
        match told {
            None => assert_eq!(said, None, "{asked:?}"),
            Some(told) => {
                assert!(said.as_ref().is_some_and(|said| said.starts_with(told)), "{said:?}")
            }
        }
    }
}

pub(super) fn driver(supervise: bool) -> ToMaster {
    let description = DriverDescription {
        name: "driver".into(),
        cores: 1,
        memory_mb: 100,
        supervise,
        command: Command::default(),
    };
    ToMaster::RequestSubmitDriver { description: Arc::new(description) }
}

#[test]
fn drivers_go_first_and_supervised_ones_move_when_their_worker_goes() {
    let mut scene = Scene::new(MasterOptions::default());
    scene.hear(1, driver(true));
    scene.hear(1, driver(false));
    scene.add_app(20, app(9));
    scene.add_worker(10, "a", 2, 1000);
    assert_eq!(scene.launches(), [], "the drivers took the cores");
    assert_eq!(scene.master.view().active_drivers.len(), 2);
    scene.cut_off(10);
    let view = scene.master.view();
    let states: Vec<_> = view.completed_drivers.iter().map(|driver| driver.state).collect();
    assert_eq!(states, [DriverState::Relaunching, DriverState::Error]);
    assert_eq!(view.active_drivers.len(), 1);
    assert_ne!(view.active_drivers[0].driver, view.completed_drivers[0].driver, "a new id");
    assert_eq!(scene.reason_of(&view.completed_drivers[0].driver), None);
    let reason = scene.reason_of(&view.completed_drivers[1].driver).unwrap();
    assert!(reason.contains("worker a on a was declared dead: its connection broke"), "{reason}");
}

#[test]
fn the_status_of_a_driver_says_why_it_ended_unless_it_was_to() {
    let ends = [
        (DriverState::Failed, Some("its process ended with exit code 3")),
        (DriverState::Error, Some("its process could not be started: no such file")),
        (DriverState::Killed, None),
        (DriverState::Finished, None),
    ];
    for (state, reason) in ends {
        let mut scene = Scene::new(MasterOptions::default());
        let registration = scene.add_worker(10, "a", 1, 1000);
        scene.hear(1, driver(false));
        let driver = scene.master.view().active_drivers[0].driver.clone();
        assert_eq!(scene.reason_of(&driver), None, "it runs");
        let message = reason.unwrap_or("its process ended with signal 9").to_owned();
        let end = Some(ProcessEnd { message, status: None });
        scene.end_driver(registration, &driver, state, end);
        assert_eq!(scene.reason_of(&driver).as_deref(), reason, "{state:?}");
    }
}

#[test]
fn a_driver_that_no_worker_can_ever_run_says_so_and_one_that_waits_for_its_turn_does_not() {
    let mut scene = Scene::new(MasterOptions::default());
    scene.hear(1, driver(false));
    let large = scene.master.view().active_drivers[0].driver.clone();
    assert_eq!(scene.reason_of(&large), None, "it waits for the first worker");
    scene.add_worker(10, "a", 4, 1);
    let reason = scene.reason_of(&large).unwrap();
    assert!(reason.contains("none has more than 4 core(s) and none more than 1 MB"), "{reason}");
    scene.add_worker(11, "b", 1, 1000);
    assert_eq!(scene.reason_of(&large), None, "it runs");
    scene.hear(1, driver(false));
    let next = scene.master.view().active_drivers[1].driver.clone();
    assert_eq!(scene.reason_of(&next), None, "it will have its turn");
}

#[test]
fn what_a_store_could_not_take_in_one_piece_is_refused_whatever_it_is() {
    let mut scene = Scene::new(MasterOptions::default());
    let long = "x".repeat(2 << 20);
    let named = |name: &str| ApplicationDescription { name: name.to_owned(), ..app(1) };
    let of = |user: &str| ApplicationDescription { user: user.to_owned(), ..app(1) };
    let shown = |web_ui: &str| ApplicationDescription { web_ui: web_ui.to_owned(), ..app(1) };
    let mut asked = Command::default();
    let address = Address { host: Host::new(&long), port: 1 };
    asked.served = Some(Served { address, program_bytes: 1, files: Vec::new() });
    let served = ApplicationDescription { command: asked, ..app(1) };
    for (from, description) in (20..).zip([named(&long), of(&long), shown(&long), served]) {
        scene.ask_for_app(from, description, None, 0);
        match scene.to_apps.pop() {
            Some((_, ToApplication::ApplicationRemoved { message })) => {
                assert!(message.contains("and a master takes 16384"), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }
    scene.ask_for_app(30, app(1), Some(AppId::new(&long)), 0);
    assert!(matches!(scene.to_apps.pop(), Some((_, ToApplication::ApplicationRemoved { .. }))));
    let web_ui = long.clone();
    scene.register_worker(
        10,
        WorkerDescription { web_ui, ..worker("a", 1, 1000) },
        WorkerState::default(),
    );
    match scene.to_workers.pop() {
        Some((_, ToWorker::RegisterWorkerFailed { reason, retry: false, .. })) => {
            assert!(reason.contains("2097154 bytes"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    let ToMaster::RequestSubmitDriver { description } = driver(false) else { unreachable!() };
    let description = Arc::new(DriverDescription { name: long, ..(*description).clone() });
    scene.hear(1, ToMaster::RequestSubmitDriver { description });
    match scene.replies.pop() {
        Some(MasterReply::SubmitDriverResponse { result: Err(why) }) => {
            assert!(why.contains("2097152 bytes of name"), "{why}");
        }
        other => panic!("{other:?}"),
    }
    assert!(scene.records.apps.is_empty() && scene.records.drivers.is_empty());
}

#[test]
fn drivers_wait_up_to_a_bound_and_the_next_one_is_refused() {
    let mut master = Master::new(MasterOptions::default());
    let mut out = Vec::new();
    master.handle(
        Tick(1),
        MasterEvent::Elected { records: Records::default(), lease: None },
        &mut out,
    );
    let mut submit = |at: u64| {
        let mut out = Vec::new();
        let message = driver(false);
        master.handle(Tick(at), MasterEvent::Received { from: Peer(1), message }, &mut out);
        let reply = out.into_iter().find_map(|effect| match effect {
            MasterEffect::Reply { stamped, .. } => Some(stamped.message),
            _ => None,
        });
        match reply {
            Some(MasterReply::SubmitDriverResponse { result }) => result,
            other => panic!("{other:?}"),
        }
    };
    for at in 0..super::drivers::MOST_WAITING as u64 {
        submit(2 + at).unwrap();
    }
    let why = submit(20_000).unwrap_err();
    assert!(why.contains("10000 drivers wait for a worker already"), "{why}");
}

#[test]
fn a_driver_that_ends_frees_its_place_and_unknown_ones_are_said_to_be_unknown() {
    let mut scene = Scene::new(MasterOptions::default());
    let registration = scene.add_worker(10, "a", 1, 1000);
    scene.hear(1, driver(false));
    scene.add_app(20, app(1));
    assert_eq!(scene.launches(), []);
    let driver = scene.master.view().active_drivers[0].driver.clone();
    scene.end_driver(registration, &driver, DriverState::Finished, None);
    assert_eq!(scene.launches().len(), 1);
    scene.hear(1, ToMaster::RequestKillDriver { driver });
    let Some(MasterReply::KillDriverResponse { result: Err(reason), .. }) = scene.replies.last()
    else {
        panic!("{:?}", scene.replies);
    };
    assert!(reason.contains("not running"), "{reason}");
}

#[test]
fn an_application_that_an_operator_kills_ends_and_stays_out() {
    let mut scene = Scene::new(MasterOptions::default());
    scene.add_worker(10, "a", 4, 1000);
    let (killed, other) = (scene.add_app(20, app(1)), scene.add_app(21, app(1)));
    scene.to_apps.clear();
    scene.hear(99, ToMaster::RequestKillApplication { app: killed.clone() });
    let Some(MasterReply::KillApplicationResponse { app: told, result: Ok(_) }) =
        scene.replies.last()
    else {
        panic!("{:?}", scene.replies);
    };
    assert_eq!(*told, killed);
    let view = scene.master.view();
    assert_eq!(view.active_apps.iter().map(|it| &it.app).collect::<Vec<_>>(), [&other]);
    assert_eq!(view.completed_apps[0].state, ApplicationState::Killed);
    let told = |scene: &Scene| match &scene.to_apps[..] {
        [(Peer(20), ToApplication::ApplicationRemoved { message }), ..] => {
            message.contains("killed")
        }
        _ => false,
    };
    assert!(told(&scene), "{:?}", scene.to_apps);
    // Its driver tries to get in again.
    scene.to_apps.clear();
    scene.add_app_asks(20);
    assert!(told(&scene), "{:?}", scene.to_apps);
    scene.hear(99, ToMaster::RequestKillApplication { app: killed });
    let Some(MasterReply::KillApplicationResponse { result: Err(why), .. }) = scene.replies.last()
    else {
        panic!("{:?}", scene.replies);
    };
    assert!(why.contains("not running"), "{why}");
}

#[test]
fn a_standby_takes_nobody_in() {
    let mut master = Master::new(MasterOptions::default());
    let mut out = Vec::new();
    let (worker, state) = (worker("a", 1, 1), WorkerState::default());
    let message = ToMaster::RegisterWorker { worker, state, newest: Term(0) };
    master.handle(Tick(1), MasterEvent::Received { from: Peer(1), message }, &mut out);
    let [MasterEffect::SendWorker { stamped, .. }] = &out[..] else { panic!("{out:?}") };
    assert_eq!(stamped.message, ToWorker::MasterInStandby { leader: None });
}

/// The terms with which a master answers who wants to register.
fn answers(master: &mut Master, message: ToMaster) -> Vec<Term> {
    let mut out = Vec::new();
    master.handle(Tick(51), MasterEvent::Received { from: Peer(1), message }, &mut out);
    let terms = out.iter().filter_map(|effect| match effect {
        MasterEffect::SendWorker { stamped, .. } => Some(stamped.term),
        MasterEffect::SendApplication { stamped, .. } => Some(stamped.term),
        _ => None,
    });
    terms.collect()
}

#[test]
fn a_master_whose_clock_was_set_back_is_later_than_those_before_it_all_the_same() {
    let register = |newest| {
        let state = WorkerState { number: 1, ..WorkerState::default() };
        ToMaster::RegisterWorker { worker: worker("a", 1, 1000), state, newest: Term(newest) }
    };
    let ask = |newest| ToMaster::RegisterApplication {
        description: Arc::new(app(1)),
        incarnation: Incarnation(9),
        previous: None,
        first_executor: ExecutorId(0),
        newest: Term(newest),
        executors: Vec::new(),
    };
    let begun = || {
        let mut master = Master::new(MasterOptions::default());
        let elected = MasterEvent::Elected { records: Records::default(), lease: None };
        master.handle(Tick(50), elected, &mut Vec::new());
        master
    };
    // What they know of masters before, and the term of the answer.
    for (newest, expected) in [(0, 50), (49, 50), (50, 51), (3_600_000, 3_600_001)] {
        for message in [register(newest), ask(newest)] {
            let mut master = begun();
            let first = answers(&mut master, message.clone());
            assert_eq!(first.first(), Some(&Term(expected)), "{message:?}");
        }
    }
    let mut master = begun();
    assert_eq!(answers(&mut master, register(0))[0], Term(50));
    assert_eq!(answers(&mut master, register(50))[0], Term(50), "that was this master");
    let hostile = answers(&mut master, register(u64::MAX))[0];
    assert_eq!(hostile.0 << 20 >> 20, hostile.0, "its registrations have numbers of their own");
}

#[test]
fn two_hundred_workers_and_fifty_applications_are_all_served() {
    let mut scene = Scene::new(MasterOptions::default());
    for number in 0..200 {
        scene.add_worker(1000 + number, &format!("w{number}"), 16, 16_000);
    }
    for number in 0..50 {
        scene.add_app(5000 + number, app(100));
    }
    assert_eq!(scene.launches().len(), 3200, "every core is given out");
    let (workers, cores, _, executors) = scene.master.totals();
    assert_eq!((workers, cores, executors), (200, 3200, 3200));
}

fn served(max_cores: u32) -> ApplicationDescription {
    let address = Address { host: Host::new("driver"), port: 1 };
    let served = Some(Served { address, program_bytes: 1000, files: Vec::new() });
    let command = Command { served, ..Command::default() };
    ApplicationDescription { command, ..app(max_cores) }
}

impl Scene {
    fn prepares(&mut self, name: &str, key: &ExecutorKey, bytes: u64) {
        self.number += 1;
        let (worker, number) = (WorkerId::new(name), self.number);
        let registration = self.registration_of(name);
        let report = ExecutorReport {
            key: key.clone(),
            cores: 1,
            memory_mb: 100,
            state: ExecutorState::Running,
            preparing: Some(Preparing { bytes, of: 1000, waits: 0 }),
            end: None,
        };
        self.hear(10, ToMaster::ExecutorStateChanged { worker, registration, number, report });
    }

    fn told_of_preparing(&self) -> Vec<u64> {
        let told = self.to_apps.iter().filter_map(|(_, message)| match message {
            ToApplication::ExecutorPreparing { preparing, .. } => Some(preparing.bytes),
            _ => None,
        });
        told.collect()
    }
}

#[test]
fn a_driver_hears_of_each_step_once_and_an_executor_that_ends_on_its_way_is_no_failure() {
    let options = || MasterOptions { max_executor_retries: 1, ..Default::default() };
    // A worker that says nothing at all is silent, which says nothing of the executor.
    for (stands_still_ms, speaks, goes_on) in
        [(1000, true, true), (60_000, true, false), (60_000, false, true)]
    {
        let mut scene = Scene::new(options());
        scene.add_worker(10, "a", 1, 1000);
        let id = scene.add_app(20, served(1));
        for bytes in [10, 20, 20, 30] {
            scene.prepares("a", &key(&id, 0), bytes);
        }
        assert_eq!(scene.told_of_preparing(), [10, 20, 30]);
        scene.now = scene.now.plus_ms(stands_still_ms);
        if speaks {
            scene.prepares("a", &key(&id, 0), 30);
        }
        let (app, limit, excluded) = (id.clone(), None, Vec::new());
        let (executors, registrations) = (Vec::new(), 0);
        let heartbeat =
            ToMaster::ApplicationHeartbeat { app, limit, executors, registrations, excluded };
        scene.hear(20, heartbeat);
        let executors = vec![ExecutorId(0)];
        scene.hear(20, ToMaster::KillExecutors { app: id.clone(), executors });
        assert_eq!(
            scene.master.view().active_apps.len() == 1,
            goes_on,
            "{stands_still_ms} {speaks}"
        );
    }
}

#[test]
fn a_worker_is_told_which_others_may_serve_what_its_executor_needs() {
    let mut scene = Scene::new(MasterOptions::default());
    for (from, name) in [(10, "a"), (11, "b"), (12, "c")] {
        scene.add_worker(from, name, 1, 1000);
    }
    scene.add_app(20, served(3));
    let peers = scene.to_workers.iter().filter_map(|(_, message)| match message {
        ToWorker::LaunchExecutor { peers, .. } => {
            Some(peers.iter().map(|peer| peer.host.to_string()).collect::<Vec<_>>())
        }
        _ => None,
    });
    let peers: Vec<Vec<String>> = peers.collect();
    assert_eq!(peers.iter().map(Vec::len).collect::<Vec<_>>(), [0, 1, 2], "{peers:?}");
    scene.to_workers.clear();
    scene.add_worker(13, "d", 1, 1000);
    scene.add_app(21, app(1));
    let named = |message: &ToWorker| matches!(message, ToWorker::LaunchExecutor { peers, .. } if !peers.is_empty());
    assert!(!scene.to_workers.iter().any(|(_, message)| named(message)), "nothing is served");
}
