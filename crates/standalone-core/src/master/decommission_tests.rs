//! Rules of workers that get nothing more to do.

use firesteel_backend::AppId;
use firesteel_types::ExecutorId;

use super::tests::{How, Scene, app, driver, key, worker};
use super::*;
use crate::description::{ExecutorReport, ExecutorState, WorkerState};
use crate::messages::{MasterReply, ToApplication, ToMaster, ToWorker};
use crate::{Registration, WorkerId};

fn decommission(scene: &mut Scene, name: &str) -> (usize, u32) {
    scene.hear(1, ToMaster::RequestDecommissionWorkers { name: name.to_owned() });
    match scene.replies.pop() {
        Some(MasterReply::DecommissionResponse { workers, running }) => (workers.len(), running),
        other => panic!("{other:?}"),
    }
}

/// Updates that the application heard of this kind.
fn told(scene: &Scene, state: ExecutorState) -> Vec<ExecutorId> {
    let updates = scene.to_apps.iter().filter_map(|(_, message)| match message {
        ToApplication::ExecutorUpdated(update) if update.state == state => Some(update.executor),
        _ => None,
    });
    updates.collect()
}

fn orders(scene: &Scene, name: &str) -> usize {
    let orders = scene.to_workers.iter().filter(|(to, message)| match message {
        ToWorker::DecommissionWorker { .. } => to.0 == if name == "a" { 10 } else { 11 },
        _ => false,
    });
    orders.count()
}

/// An executor on `a`, which has place for two; `b` is empty.
fn running() -> (Scene, AppId, Registration) {
    let mut scene = Scene::new(MasterOptions::default());
    let a = scene.add_worker(10, "a", 2, 1000);
    let id = scene.add_app(20, app(1));
    assert_eq!(scene.launches().len(), 1);
    scene.report("a", a, &key(&id, 0), How::Runs);
    scene.add_worker(11, "b", 2, 1000);
    scene.to_apps.clear();
    (scene, id, a)
}

/// `a` registers again, with its executor.
fn comes_back(scene: &mut Scene, id: &AppId, decommissioned: bool) {
    let (cores, memory_mb, state) = (1, 100, ExecutorState::Running);
    let (preparing, end) = (None, None);
    let executor = ExecutorReport { key: key(id, 0), cores, memory_mb, state, preparing, end };
    let (executors, apps) = (vec![executor], vec![id.clone()]);
    let state =
        WorkerState { number: 90, executors, apps, decommissioned, ..WorkerState::default() };
    scene.register_worker(10, worker("a", 2, 1000), state);
}

#[test]
fn executors_of_a_decommissioned_worker_are_told_and_replaced_elsewhere() {
    let (mut scene, id, a) = running();
    assert_eq!(decommission(&mut scene, "nobody"), (0, 0));
    assert_eq!(decommission(&mut scene, "a"), (1, 1));
    assert_eq!(told(&scene, ExecutorState::Decommissioned), [ExecutorId(0)]);
    let launches = scene.launches();
    assert_eq!(launches.len(), 1, "another one, though the first has the application's only core");
    assert_eq!(launches[0].0.0, 11);
    let view = scene.master.view();
    assert_eq!(view.workers[0].status, WorkerStatus::Decommissioned);
    assert_eq!(view.active_apps[0].executors[0].state, ExecutorState::Decommissioned);
    scene.report("a", a, &key(&id, 0), How::Runs);
    assert_eq!(decommission(&mut scene, "a:7000"), (1, 1), "once more changes nothing");
    assert_eq!(told(&scene, ExecutorState::Decommissioned).len(), 1);
    let heartbeat = ToMaster::ApplicationHeartbeat {
        app: id.clone(),
        limit: None,
        executors: vec![ExecutorId(0)],
        registrations: 1,
        excluded: Vec::new(),
    };
    scene.hear(20, heartbeat);
    let again = told(&scene, ExecutorState::Decommissioned);
    assert_eq!(again, [ExecutorId(0); 2], "its driver counts on it: it may not have heard");
    // However it ends, that is nobody's fault.
    scene.report("a", a, &key(&id, 0), How::Exits(1));
    assert_eq!(decommission(&mut scene, "a"), (1, 0), "nothing is left there");
    assert_eq!(scene.launches().len(), 0);
    assert_eq!(scene.master.totals().3, 1);
}

#[test]
fn a_decommissioned_worker_gets_no_executor_and_no_driver_and_what_was_not_running_is_killed() {
    let mut scene = Scene::new(MasterOptions::default());
    scene.add_worker(10, "a", 2, 1000);
    let id = scene.add_app(20, app(1));
    assert_eq!(scene.launches().len(), 1);
    assert_eq!(decommission(&mut scene, "a"), (1, 1));
    assert_eq!(told(&scene, ExecutorState::Killed), [ExecutorId(0)]);
    scene.hear(1, driver(false));
    scene.add_app(21, app(1));
    scene.later(15_000);
    let ordered = scene.to_workers.iter().filter(|(_, message)| {
        matches!(message, ToWorker::LaunchExecutor { .. } | ToWorker::LaunchDriver { .. })
    });
    assert_eq!(ordered.count(), 0);
    assert!(scene.master.view().active_drivers[0].worker.is_none());
    assert_eq!(scene.master.view().active_apps[0].app, id);
    scene.add_worker(11, "b", 4, 1000);
    assert!(
        scene.to_workers.iter().any(|(to, message)| {
            to.0 == 11 && matches!(message, ToWorker::LaunchDriver { .. })
        })
    );
}

#[test]
fn a_worker_hears_it_until_it_says_so_and_tells_it_a_master_that_knows_nothing() {
    let (mut scene, id, a) = running();
    decommission(&mut scene, "a");
    assert_eq!(orders(&scene, "a"), 1);
    scene.heartbeat(10, "a", a);
    assert_eq!(orders(&scene, "a"), 2, "it has not heard it");
    let mut next = Scene::standing_by(MasterOptions::default());
    next.now = scene.now;
    next.elect(Records::default());
    comes_back(&mut next, &id, true);
    assert!(next.master.is_decommissioned(&WorkerId::new("a")));
    assert!(orders(&next, "a") <= 1, "it knows");
}

#[test]
fn a_master_that_takes_over_knows_what_was_decommissioned_before_the_worker_has_heard_it() {
    let (mut scene, id, _) = running();
    decommission(&mut scene, "a");
    let options = || MasterOptions { elected: true, ..MasterOptions::default() };
    let mut next = Scene::standing_by(options());
    next.now = scene.now.plus_ms(500);
    next.elect(scene.records.clone());
    comes_back(&mut next, &id, false);
    assert!(next.master.is_decommissioned(&WorkerId::new("a")));
    assert_eq!(orders(&next, "a"), 1);
    assert_eq!(told(&next, ExecutorState::Decommissioned), [ExecutorId(0)]);
    let mut other = worker("a", 2, 1000);
    other.incarnation = crate::Incarnation(7);
    next.cut_off(10);
    (0..10).for_each(|_| next.later(15_000));
    next.register_worker(12, other, WorkerState { number: 1, ..WorkerState::default() });
    assert!(!next.master.is_decommissioned(&WorkerId::new("a")), "it is another process");
}
