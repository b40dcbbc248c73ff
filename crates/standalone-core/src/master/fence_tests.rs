//! Rules of what ends and who may end it: workers that say goodbye, drivers that may still run, applications that are not one's own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firesteel_backend::command::Command;
use firesteel_types::ExecutorId;

use super::tests::{Scene, app, driver, worker};
use super::*;
use crate::description::{DriverDescription, DriverReport, DriverState, WorkerState};
use crate::messages::{MasterReply, ToApplication, ToMaster, ToWorker};
use crate::{DriverId, Registration, WorkerId};

/// Workers to which a driver was given, in this order.
fn launched(scene: &Scene) -> Vec<u64> {
    let launches = scene
        .to_workers
        .iter()
        .filter(|(_, message)| matches!(message, ToWorker::LaunchDriver { .. }));
    launches.map(|(to, _)| to.0).collect()
}

fn goodbye(name: &str, registration: Registration, drivers: &[DriverId]) -> ToMaster {
    let (worker, drivers) = (WorkerId::new(name), drivers.to_vec());
    ToMaster::UnregisterWorker { worker, registration, drivers }
}

/// A registered worker tells that it runs these drivers.
fn heartbeat(
    scene: &mut Scene,
    from: u64,
    name: &str,
    registration: Registration,
    runs: &[DriverId],
) {
    scene.number += 1;
    let report = |driver: &DriverId| DriverReport {
        driver: driver.clone(),
        cores: 1,
        memory_mb: 100,
        state: DriverState::Running,
        description: None,
        end: None,
    };
    let drivers = runs.iter().map(report).collect();
    let state = WorkerState { number: scene.number, drivers, ..WorkerState::default() };
    let worker = WorkerId::new(name);
    scene.hear(from, ToMaster::Heartbeat { worker, registration, state });
}

/// A supervised driver runs on `a`; `b` could run it too.
fn supervised() -> (Scene, DriverId, Registration) {
    let mut scene = Scene::new(MasterOptions::default());
    let registration = scene.add_worker(10, "a", 2, 1000);
    scene.hear(1, driver(true));
    let id = scene.master.view().active_drivers[0].driver.clone();
    heartbeat(&mut scene, 10, "a", registration, std::slice::from_ref(&id));
    scene.add_worker(11, "b", 4, 1000);
    assert_eq!(launched(&scene), [10]);
    (scene, id, registration)
}

/// Time passes in which `b` is heard.
fn later_with_b(scene: &mut Scene, b: Registration, ms: u64) {
    for _ in 0..ms / 15_000 {
        heartbeat(scene, 11, "b", b, &[]);
        scene.later(15_000);
    }
}

#[test]
fn a_supervised_driver_of_a_lost_worker_is_started_elsewhere_only_when_it_has_surely_ended() {
    let (mut scene, ..) = supervised();
    let b = scene.registration();
    scene.cut_off(10);
    assert_eq!(scene.master.view().completed_drivers[0].state, DriverState::Relaunching);
    later_with_b(&mut scene, b, 105_000);
    assert_eq!(launched(&scene), [10], "the worker may only be cut off: its lease is not over");
    later_with_b(&mut scene, b, 30_000);
    assert_eq!(launched(&scene), [10, 11]);
    let options = MasterOptions { driver_lease_ms: 0, ..MasterOptions::default() };
    let mut at_once = Scene::new(options);
    at_once.add_worker(10, "a", 2, 1000);
    at_once.hear(1, driver(true));
    at_once.add_worker(11, "b", 2, 1000);
    at_once.cut_off(10);
    assert_eq!(launched(&at_once), [10, 11], "nobody asked for a lease");
}

#[test]
fn a_worker_that_comes_back_tells_whether_the_driver_still_runs() {
    let (mut scene, id, _) = supervised();
    let b = scene.registration();
    scene.cut_off(10);
    later_with_b(&mut scene, b, 105_000);
    let a = scene.add_worker(10, "a", 1, 1000);
    heartbeat(&mut scene, 10, "a", a, std::slice::from_ref(&id));
    assert!(
        scene.to_workers.iter().any(|(_, message)| matches!(message, ToWorker::KillDriver { .. }))
    );
    scene.cut_off(10);
    later_with_b(&mut scene, b, 90_000);
    assert_eq!(launched(&scene), [10], "it was heard of once more, so its lease is longer");
    let a = scene.add_worker(10, "a", 1, 1000);
    heartbeat(&mut scene, 10, "a", a, &[]);
    assert_eq!(launched(&scene).len(), 2, "it is gone: nobody has to wait");
}

#[test]
fn a_master_that_takes_over_goes_on_waiting_for_a_driver_that_may_still_run() {
    let (mut before, ..) = supervised();
    before.cut_off(10);
    let mut scene = Scene::standing_by(MasterOptions::default());
    scene.now = before.now;
    scene.elect(before.records.clone());
    scene.number = before.number;
    let b = scene.add_worker(11, "b", 2, 1000);
    later_with_b(&mut scene, b, 105_000);
    assert_eq!(launched(&scene), [0; 0]);
    later_with_b(&mut scene, b, 45_000);
    assert_eq!(launched(&scene), [11]);
}

/// A store that takes a write in parts took the part in which the worker was removed, and the master was gone.
#[test]
fn a_driver_whose_workers_end_was_written_and_its_own_was_not_never_runs_twice() {
    for supervise in [true, false] {
        let mut before = Scene::new(MasterOptions::default());
        before.add_worker(10, "a", 2, 1000);
        before.hear(1, driver(supervise));
        let mut records = before.records.clone();
        records.workers.clear();
        let mut scene = Scene::standing_by(MasterOptions::default());
        (scene.now, scene.number) = (before.now, before.number);
        scene.elect(records);
        let b = scene.add_worker(11, "b", 2, 1000);
        later_with_b(&mut scene, b, 120_000);
        assert_eq!(launched(&scene), [0; 0], "{supervise}: it may run on a");
        later_with_b(&mut scene, b, 30_000);
        let again = if supervise { vec![11] } else { vec![] };
        assert_eq!(launched(&scene), again, "{supervise}");
    }
}

/// The same in a write of which any part may be the last that was taken.
#[test]
fn supervised_drivers_that_went_with_their_worker_each_run_once_wherever_their_write_was_cut() {
    let mut before = Scene::new(MasterOptions::default());
    before.add_worker(10, "a", 4, 1000);
    (0..3).for_each(|_| before.hear(1, driver(true)));
    let (stored, written) = (before.records.clone(), before.written.len());
    before.cut_off(10);
    let changes = &before.written[written..];
    assert!(changes.len() > 6, "a worker, three drivers and three in their places: {changes:?}");
    for cut in 0..=changes.len() {
        let mut records = stored.clone();
        changes[..cut].iter().cloned().for_each(|change| records.apply(change));
        let mut scene = Scene::standing_by(MasterOptions::default());
        (scene.now, scene.number) = (before.now, before.number);
        scene.elect(records);
        assert_eq!(scene.records.drivers.len(), 3, "{cut} of {changes:?}");
        let b = scene.add_worker(11, "b", 4, 1000);
        later_with_b(&mut scene, b, 300_000);
        let orders = scene.to_workers.iter().filter_map(|(_, message)| match message {
            ToWorker::LaunchDriver { driver, .. } => Some(driver),
            _ => None,
        });
        let drivers: BTreeSet<&DriverId> = orders.collect();
        assert_eq!(drivers.len(), 3, "{cut} of {changes:?}");
    }
}

#[test]
fn a_driver_that_has_no_place_on_its_worker_waits_until_that_says_that_it_does_not_run_it() {
    let mut before = Scene::new(MasterOptions::default());
    before.add_worker(10, "a", 2, 1000);
    before.hear(1, driver(false));
    let id = before.master.view().active_drivers[0].driver.clone();
    let mut records = before.records.clone();
    let worker = records.workers.get_mut(&WorkerId::new("a")).unwrap();
    worker.worker.memory_mb = 1;
    let mut scene = Scene::standing_by(MasterOptions::default());
    (scene.now, scene.number) = (before.now, before.number);
    scene.elect(records);
    let a = scene.add_worker(10, "a", 1, 1);
    scene.add_worker(11, "b", 2, 1000);
    assert_eq!(launched(&scene), [0; 0]);
    heartbeat(&mut scene, 10, "a", a, &[]);
    assert_eq!(launched(&scene), [11]);
    assert_eq!(scene.master.view().active_drivers[0].driver, id, "it is still the same");
}

/// Where records are not sealed, they have no secrets: its worker, which has, is gone.
#[test]
fn a_driver_of_which_not_all_is_known_is_not_started_without_the_rest() {
    let (before, id, _) = supervised();
    let mut records = before.records.clone();
    records.drivers.get_mut(&id).unwrap().whole = false;
    let mut scene = Scene::standing_by(MasterOptions::default());
    (scene.now, scene.number) = (before.now, before.number);
    scene.elect(records.clone());
    let b = scene.add_worker(11, "b", 4, 1000);
    later_with_b(&mut scene, b, 240_000);
    assert_eq!(launched(&scene), [0; 0]);
    assert_eq!(scene.master.view().completed_drivers[0].state, DriverState::Error);

    let mut scene = Scene::standing_by(MasterOptions::default());
    (scene.now, scene.number) = (before.now, before.number + 1);
    scene.elect(records);
    let b = scene.add_worker(11, "b", 4, 1000);
    let ToMaster::RequestSubmitDriver { description } = driver(true) else { panic!() };
    let (state, description) = (DriverState::Running, Some(description));
    let (cores, memory_mb, end) = (1, 100, None);
    let report = DriverReport { driver: id, cores, memory_mb, state, description, end };
    let state = WorkerState { number: 99, drivers: vec![report], ..WorkerState::default() };
    scene.register_worker(10, worker("a", 2, 1000), state);
    scene.cut_off(10);
    later_with_b(&mut scene, b, 240_000);
    assert_eq!(launched(&scene)[..1], [11], "its worker told all of it");
}

#[test]
fn a_worker_that_says_goodbye_is_missed_by_nobody() {
    let (mut scene, id, registration) = supervised();
    scene.add_app(20, app(2));
    let executors = scene.launches().len();
    assert!(executors > 0);
    scene.hear(10, goodbye("a", Registration(99), &[]));
    assert_eq!(scene.master.totals().0, 2, "of another registration");
    scene.hear(10, goodbye("a", registration, &[id]));
    let lost = scene.to_apps.iter().filter(|(_, message)| {
        matches!(message, ToApplication::ExecutorUpdated(update) if update.state.is_finished())
    });
    assert!(lost.count() > 0, "its executors are lost at once");
    assert_eq!(scene.master.totals().0, 1);
    assert_eq!(launched(&scene), [0; 0], "its driver is still ending");
    scene.hear(10, goodbye("a", registration, &[]));
    assert_eq!(launched(&scene), [11]);
}

#[test]
fn an_application_can_change_only_itself() {
    let mut scene = Scene::new(MasterOptions::default());
    scene.add_worker(10, "a", 2, 1000);
    let first = scene.add_app(20, app(1));
    scene.add_app(21, app(1));
    let totals = scene.master.totals();
    let executors = vec![ExecutorId(0)];
    for message in [
        ToMaster::KillExecutors { app: first.clone(), executors },
        ToMaster::RequestExecutors { app: first.clone(), total: 0 },
        ToMaster::UnregisterApplication { app: first.clone() },
    ] {
        scene.hear(21, message.clone());
        assert_eq!(scene.master.totals(), totals, "{message:?}");
        let told = scene.to_apps.last().cloned();
        assert!(matches!(told, Some((to, ToApplication::ReconnectApplication)) if to.0 == 21));
    }
    assert_eq!(scene.master.view().active_apps.len(), 2);
    scene.hear(20, ToMaster::UnregisterApplication { app: first });
    assert_eq!(scene.master.view().active_apps.len(), 1);
}

#[test]
fn what_no_store_could_take_is_refused_with_what_to_do() {
    let mut scene = Scene::new(MasterOptions::default());
    let environment = BTreeMap::from([("X".to_owned(), "x".repeat(300 << 10))]);
    let command = Command { environment, ..Command::default() };
    let (name, cores, memory_mb, supervise) = ("driver".to_owned(), 1, 1, false);
    let description =
        DriverDescription { name, cores, memory_mb, supervise, command: command.clone() };
    scene.hear(1, ToMaster::RequestSubmitDriver { description: Arc::new(description) });
    let Some(MasterReply::SubmitDriverResponse { result: Err(reason) }) = scene.replies.last()
    else {
        panic!("{:?}", scene.replies);
    };
    assert!(reason.contains("--files"), "{reason}");
    scene.add_app_asks_with(20, command);
    let told = scene.to_apps.last();
    assert!(matches!(told, Some((_, ToApplication::ApplicationRemoved { .. }))), "{told:?}");
    assert!(scene.master.view().active_apps.is_empty());
}

#[test]
fn a_standby_names_the_leader() {
    let mut scene = Scene::standing_by(MasterOptions::default());
    let leader = Some("spark://other:7077".to_owned());
    scene.feed(MasterEvent::LeaderKnown { url: leader.clone() });
    scene.hear(1, driver(false));
    assert_eq!(scene.replies, [MasterReply::MasterInStandby { leader: leader.clone() }]);
    scene.register_worker(10, worker("a", 1, 1), WorkerState::default());
    scene.add_app_asks(20);
    assert_eq!(scene.to_workers[0].1, ToWorker::MasterInStandby { leader: leader.clone() });
    assert_eq!(scene.to_apps[0].1, ToApplication::MasterInStandby { leader: leader.clone() });
    assert_eq!(scene.master.view().leader, leader);
    scene.elect(Records::default());
    assert_eq!(scene.master.view().leader, None, "it does, itself");
}
