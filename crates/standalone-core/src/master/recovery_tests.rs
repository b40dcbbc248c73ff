//! Rules of leadership and recovery: these events, those effects.

use std::sync::Arc;

use firesteel_backend::{AppId, Peer};
use firesteel_types::ExecutorId;

use super::tests::{How, Scene, app, driver, key, worker};
use super::*;
use crate::description::{
    ApplicationDescription, DriverReport, DriverState, ExecutorReport, ExecutorState, WorkerState,
};
use crate::messages::{Follower, ToApplication, ToMaster, ToWorker};
use crate::{DriverId, Incarnation, Term, WorkerId};

fn elected() -> MasterOptions {
    MasterOptions { elected: true, ..MasterOptions::default() }
}

/// A worker registers again and tells that these executors of an application run there.
fn comes_back(scene: &mut Scene, from: u64, name: &str, newest: Term, app: &AppId, runs: &[u32]) {
    scene.number += 1;
    let report = |executor: &u32| ExecutorReport {
        key: key(app, *executor),
        cores: 1,
        memory_mb: 100,
        state: ExecutorState::Running,
        preparing: None,
        end: None,
    };
    let executors = runs.iter().map(report).collect();
    let apps = vec![app.clone()];
    let state = WorkerState { number: scene.number, executors, apps, ..WorkerState::default() };
    let worker = worker(name, 2, 1000);
    scene.hear(from, ToMaster::RegisterWorker { worker, state, newest });
}

/// A driver registers again; it has these executors.
fn registers_again(scene: &mut Scene, from: u64, newest: Term, id: &AppId, has: &[u32]) {
    scene.hear(
        from,
        ToMaster::RegisterApplication {
            description: Arc::new(app(2)),
            incarnation: Incarnation(20),
            previous: Some(id.clone()),
            first_executor: ExecutorId(10_000),
            newest,
            executors: has.iter().map(|id| ExecutorId(*id)).collect(),
        },
    );
}

fn heartbeat(scene: &mut Scene, from: u64, id: &AppId, has: &[u32]) {
    let message = ToMaster::ApplicationHeartbeat {
        app: id.clone(),
        limit: None,
        executors: has.iter().map(|id| ExecutorId(*id)).collect(),
        registrations: has.len() as u64,
        excluded: Vec::new(),
    };
    scene.hear(from, message);
}

fn kills(scene: &Scene) -> usize {
    let orders = scene.to_workers.iter().filter(|(_, message)| {
        matches!(message, ToWorker::KillExecutor { .. } | ToWorker::KillDriver { .. })
    });
    orders.count()
}

fn losses(scene: &Scene) -> usize {
    let told = scene.to_apps.iter().filter(|(_, message)| {
        matches!(message, ToApplication::ExecutorUpdated(update) if update.state.is_finished())
    });
    told.count()
}

/// A cluster of two workers with an application that has an executor on each, and what was persisted of it.
fn running(options: MasterOptions) -> (Scene, AppId) {
    let mut scene = Scene::standing_by(options);
    scene.elect(Records::default());
    let (a, b) = (scene.add_worker(10, "a", 2, 1000), scene.add_worker(11, "b", 2, 1000));
    let id = scene.add_app(20, app(2));
    assert_eq!(scene.launches().len(), 2);
    scene.report("a", a, &key(&id, 0), How::Runs);
    scene.report("b", b, &key(&id, 1), How::Runs);
    heartbeat(&mut scene, 20, &id, &[0, 1]);
    (scene, id)
}

/// Another master, elected with the records of this one.
fn successor(before: &Scene, options: MasterOptions) -> Scene {
    let mut scene = Scene::standing_by(options);
    scene.now = before.now.plus_ms(500);
    scene.elect(before.records.clone());
    scene
}

#[test]
fn a_new_leader_recovers_all_that_was_persisted_and_nobody_loses_an_executor() {
    let (before, id) = running(elected());
    let mut scene = successor(&before, elected());
    assert_eq!(scene.master.status(), RecoveryState::Recovering);
    let newest = before.master.term();
    assert_eq!(scene.master.term(), Term(newest.0 + 1), "beyond the term that was stored");
    comes_back(&mut scene, 30, "a", newest, &id, &[0]);
    registers_again(&mut scene, 40, newest, &id, &[0, 1]);
    assert_eq!(scene.launches(), [], "while it recovers");
    heartbeat(&mut scene, 40, &id, &[0, 1]);
    assert_eq!(scene.master.status(), RecoveryState::Recovering);
    comes_back(&mut scene, 31, "b", newest, &id, &[1]);
    assert_eq!(scene.master.status(), RecoveryState::Alive, "all have answered");
    assert_eq!((kills(&scene), losses(&scene)), (0, 0));
    let view = scene.master.view();
    assert_eq!(view.active_apps[0].app, id);
    assert_eq!(view.active_apps[0].executors.len(), 2);
    assert!(scene.terms.iter().all(|term| *term > newest), "S24");
}

#[test]
fn those_who_do_not_answer_a_new_leader_are_dropped_after_the_timeout() {
    let (before, id) = running(elected());
    let mut scene = successor(&before, elected());
    let newest = before.master.term();
    comes_back(&mut scene, 30, "a", newest, &id, &[0]);
    registers_again(&mut scene, 40, newest, &id, &[0]);
    scene.later(30_000);
    assert_eq!(scene.master.status(), RecoveryState::Recovering);
    heartbeat(&mut scene, 40, &id, &[0]);
    scene.number += 1;
    let registration = scene.registration();
    scene.heartbeat(30, "a", registration);
    scene.to_workers.clear();
    scene.later(30_000);
    assert_eq!(scene.master.status(), RecoveryState::Alive);
    assert_eq!(losses(&scene), 1, "the executor on b: {:?}", scene.to_apps);
    assert_eq!(scene.launches().len(), 1, "another one takes its place on a");
    assert!(scene.master.view().workers.iter().any(|w| w.status == WorkerStatus::Dead));
}

#[test]
fn applications_keep_their_place_in_the_queue_their_limits_and_their_numbers() {
    let mut before = Scene::standing_by(elected());
    before.elect(Records::default());
    let limited = ApplicationDescription { initial_executor_limit: Some(7), ..app(9) };
    let first = before.add_app(21, limited);
    let second = before.add_app(20, app(9));
    before.hear(21, ToMaster::RequestExecutors { app: first.clone(), total: 1 });
    before.add_worker(10, "a", 2, 1000);
    before.hear(1, driver(false));
    let scene = successor(&before, elected());
    let queue: Vec<AppId> = scene.master.view().active_apps.into_iter().map(|a| a.app).collect();
    assert_eq!(queue, [first.clone(), second]);
    assert_eq!(scene.records.apps[&first].limit, Some(1));
    assert_eq!(scene.records.apps[&first].next_executor, ExecutorId(1));
    assert_eq!(scene.master.view().active_drivers.len(), 1);
}

#[test]
fn a_master_that_starts_with_nothing_adopts_what_workers_and_drivers_tell() {
    for worker_first in [true, false] {
        let (before, id) = running(MasterOptions::default());
        let mut scene = Scene::standing_by(MasterOptions::default());
        scene.now = before.now.plus_ms(500);
        scene.elect(Records::default());
        let newest = before.master.term();
        if worker_first {
            comes_back(&mut scene, 30, "a", newest, &id, &[0]);
            registers_again(&mut scene, 40, newest, &id, &[0, 1]);
        } else {
            registers_again(&mut scene, 40, newest, &id, &[0, 1]);
            comes_back(&mut scene, 30, "a", newest, &id, &[0]);
        }
        heartbeat(&mut scene, 40, &id, &[0, 1]);
        assert_eq!(scene.launches(), [], "executor 1 may still come");
        comes_back(&mut scene, 31, "b", newest, &id, &[1]);
        heartbeat(&mut scene, 40, &id, &[0, 1]);
        assert_eq!((kills(&scene), losses(&scene), scene.launches().len()), (0, 0, 0));
        let view = scene.master.view();
        assert_eq!(view.active_apps[0].executors.len(), 2, "{worker_first}");
        assert!(scene.terms.iter().all(|term| *term > newest), "S24");
    }
}

#[test]
fn what_nobody_claims_is_killed_when_the_time_to_adopt_is_over() {
    let mut scene = Scene::standing_by(MasterOptions::default());
    scene.elect(Records::default());
    let gone = AppId::new("app-gone");
    comes_back(&mut scene, 30, "a", Term(0), &gone, &[0]);
    assert_eq!(kills(&scene), 0);
    let mut registration = scene.registration();
    for _ in 0..5 {
        scene.later(15_000);
        registration = scene.master.registration(&WorkerId::new("a")).unwrap().0.max(registration);
        scene.heartbeat(30, "a", registration);
    }
    assert_eq!(kills(&scene), 2, "for the executor, twice: {:?}", scene.to_workers);
}

#[test]
fn an_executor_that_its_driver_claims_in_vain_is_lost_when_the_time_to_adopt_is_over() {
    let (before, id) = running(MasterOptions::default());
    let mut scene = Scene::standing_by(MasterOptions::default());
    scene.now = before.now;
    scene.elect(Records::default());
    registers_again(&mut scene, 40, before.master.term(), &id, &[0]);
    for _ in 0..5 {
        heartbeat(&mut scene, 40, &id, &[0]);
        scene.later(15_000);
    }
    heartbeat(&mut scene, 40, &id, &[0]);
    assert!(losses(&scene) > 0);
}

#[test]
fn a_driver_of_a_master_before_is_adopted_with_its_description_and_one_that_was_killed_is_not() {
    let mut scene = Scene::standing_by(MasterOptions::default());
    scene.elect(Records::default());
    let ToMaster::RequestSubmitDriver { description } = driver(true) else { panic!() };
    let id = DriverId::new("driver-20260101000000-0007");
    let report = |state| DriverReport {
        driver: id.clone(),
        cores: 1,
        memory_mb: 100,
        state,
        description: Some(description.clone()),
        end: None,
    };
    let drivers = vec![report(DriverState::Running)];
    let state = WorkerState { number: 1, drivers, ..WorkerState::default() };
    scene.register_worker(30, worker("a", 2, 1000), state.clone());
    assert_eq!(scene.master.view().active_drivers[0].driver, id);
    assert_eq!(kills(&scene), 0);
    scene.hear(1, ToMaster::RequestKillDriver { driver: id.clone() });
    scene.number = 5;
    let (worker, registration) = (WorkerId::new("a"), scene.registration());
    let state = WorkerState { number: 6, ..state };
    scene.hear(30, ToMaster::Heartbeat { worker, registration, state });
    assert!(scene.master.view().active_drivers.is_empty());
    assert!(kills(&scene) >= 2, "it is told again: {:?}", scene.to_workers);
}

#[test]
fn a_driver_that_went_with_the_leader_keeps_no_other_waiting() {
    let (before, id) = running(elected());
    let mut scene = successor(&before, elected());
    let newest = before.master.term();
    let other = scene.add_app(41, app(1));
    comes_back(&mut scene, 30, "a", newest, &id, &[0]);
    assert_eq!(scene.launches(), [], "a worker has not told what it runs");
    comes_back(&mut scene, 31, "b", newest, &id, &[1]);
    assert_eq!(scene.master.status(), RecoveryState::Recovering, "one driver has not answered");
    let launched: Vec<AppId> = scene.launches().into_iter().map(|launch| launch.1.app).collect();
    assert_eq!(launched, [other]);
    assert_eq!((kills(&scene), losses(&scene)), (0, 0));
}

#[test]
fn a_broken_connection_costs_nothing_if_the_worker_comes_back_within_a_heartbeat() {
    let (mut scene, id) = running(MasterOptions::default());
    scene.to_workers.clear();
    scene.feed(MasterEvent::PeerDisconnected { peer: Peer(10) });
    assert_eq!(losses(&scene), 0);
    scene.later(10_000);
    let newest = scene.master.term();
    comes_back(&mut scene, 12, "a", newest, &id, &[0]);
    scene.later(10_000);
    assert_eq!((kills(&scene), losses(&scene)), (0, 0));
    scene.cut_off(12);
    assert_eq!(losses(&scene), 1, "and if it does not, it is lost");
}

#[test]
fn a_worker_that_dies_soon_after_a_failover_is_missed_as_soon_as_at_any_other_time() {
    let (before, id) = running(elected());
    let mut scene = successor(&before, elected());
    let newest = before.master.term();
    registers_again(&mut scene, 40, newest, &id, &[0, 1]);
    comes_back(&mut scene, 30, "a", newest, &id, &[0]);
    comes_back(&mut scene, 31, "b", newest, &id, &[1]);
    assert_eq!(scene.master.status(), RecoveryState::Alive);
    scene.to_workers.clear();
    scene.cut_off(30);
    assert_eq!(losses(&scene), 1, "within the recovery timeout");
    assert_eq!(scene.launches().len(), 1, "another one takes its place on b");
}

#[test]
fn a_worker_that_dies_while_a_driver_keeps_recovery_waiting_is_missed_all_the_same() {
    let (before, id) = running(elected());
    let mut scene = successor(&before, elected());
    let newest = before.master.term();
    let other = scene.add_app(41, app(1));
    comes_back(&mut scene, 30, "a", newest, &id, &[0]);
    comes_back(&mut scene, 31, "b", newest, &id, &[1]);
    let (peer, launched) = scene.launches().remove(0);
    assert_eq!(launched.app, other);
    scene.cut_off(peer.0);
    assert_eq!(scene.master.status(), RecoveryState::Recovering, "one driver has not answered");
    let again: Vec<AppId> = scene.launches().into_iter().map(|launch| launch.1.app).collect();
    assert_eq!(again, [other], "on the worker that is left");
    registers_again(&mut scene, 40, newest, &id, &[0, 1]);
    assert_eq!(scene.master.status(), RecoveryState::Alive);
    assert_eq!(losses(&scene), 2, "the driver hears of its own executor when it answers");
}

#[test]
fn a_master_that_stood_still_reads_what_came_before_it_misses_a_worker() {
    let (mut scene, id) = running(MasterOptions::default());
    scene.to_workers.clear();
    scene.feed(MasterEvent::PeerDisconnected { peer: Peer(10) });
    scene.later(16_000);
    assert_eq!(losses(&scene), 0, "it may have stood still: what came meanwhile is read first");
    let newest = scene.master.term();
    comes_back(&mut scene, 12, "a", newest, &id, &[0]);
    scene.later(4_000);
    assert_eq!((kills(&scene), losses(&scene)), (0, 0));
    scene.feed(MasterEvent::PeerDisconnected { peer: Peer(12) });
    scene.later(11_250);
    scene.later(3_750);
    assert_eq!(losses(&scene), 1, "one that looks in time waits no longer than before");
}

#[test]
fn a_leader_whose_lease_ran_out_does_nothing_but_step_down() {
    let mut scene = Scene::standing_by(elected());
    let lease = Some(scene.now.plus_ms(1000));
    scene.feed(MasterEvent::Elected { records: Records::default(), lease });
    scene.records = scene.master.records();
    scene.add_worker(10, "a", 2, 1000);
    scene.feed(MasterEvent::LeaseRenewed { until: scene.now.plus_ms(2000) });
    scene.now = scene.now.plus_ms(1500);
    scene.add_app(20, app(1));
    assert_eq!(scene.launches().len(), 1, "it was renewed");
    scene.now = scene.now.plus_ms(600);
    scene.hear(21, ToMaster::RequestReadyz);
    assert!(scene.stepped_down.as_ref().is_some_and(|why| why.contains("lease")));
    assert_eq!(scene.master.status(), RecoveryState::Standby);
    scene.to_workers.clear();
    heartbeat(&mut scene, 20, &AppId::new("any"), &[]);
    scene.add_app_asks(22);
    assert_eq!((scene.launches().len(), kills(&scene)), (0, 0), "S24");
    assert!(scene.master.view().workers.is_empty());
}

#[test]
fn a_leader_that_hears_of_a_later_term_steps_down_and_is_beyond_it_when_it_is_elected_again() {
    let mut scene = Scene::standing_by(elected());
    scene.elect(Records { term: Term(5), ..Records::default() });
    assert_eq!(scene.master.term(), Term(6));
    let (follower, newest) = (Follower::Worker, Term(9));
    scene.hear(10, ToMaster::Following { follower, newest: Term(4) });
    assert_eq!(scene.to_workers, [(Peer(10), ToWorker::ReconnectWorker)]);
    scene.hear(10, ToMaster::Following { follower, newest });
    assert!(scene.stepped_down.is_some());
    scene.to_workers.clear();
    scene.elect(Records { term: Term(7), ..Records::default() });
    assert_eq!(scene.master.term(), Term(10));
    let changed = matches!(&scene.to_workers[..], [(Peer(10), ToWorker::MasterChanged { .. })]);
    assert!(changed, "{:?}", scene.to_workers);
}

#[test]
fn a_master_that_cannot_persist_is_deposed_and_forgets_what_it_had_decided() {
    let (mut scene, _) = running(elected());
    scene.feed(MasterEvent::Deposed { reason: "the disk is full".into() });
    assert!(scene.stepped_down.is_some());
    assert_eq!(scene.master.totals(), (0, 0, 0, 0));
    let told = scene.to_workers.iter().filter(|(_, m)| *m == ToWorker::ReconnectWorker).count();
    assert_eq!(told, 2, "they look for another leader");
    scene.later(60_000);
    assert_eq!(kills(&scene), 0);
}

#[test]
fn a_clock_ahead_gives_the_first_term_and_no_other() {
    let mut ahead = Scene::standing_by(elected());
    ahead.now = ahead.now.plus_ms(3_600_000);
    ahead.elect(Records::default());
    let mut behind = Scene::standing_by(elected());
    behind.elect(ahead.records.clone());
    assert_eq!(behind.master.term(), Term(ahead.master.term().0 + 1));
}

/// A leader was elected, a standby has heard only of the one before it, and all that was stored is deleted.
#[test]
fn who_finds_the_store_empty_leaves_room_for_terms_of_which_it_has_not_heard() {
    let (before, _) = running(elected());
    let heard = before.master.term();
    let unheard = successor(&before, elected()).master.term();
    let hour = firesteel_types::Tick(3_600_000);
    let (ahead, behind) = (before.now.plus_ms(hour.0), firesteel_types::Tick(1));
    let mut terms = vec![unheard];
    for (now, first_number) in [(ahead, 0), (behind, 5), (behind, 6)] {
        let mut scene = Scene::standing_by(MasterOptions { first_number, ..elected() });
        scene.now = now;
        scene.hear(10, ToMaster::Following { follower: Follower::Worker, newest: heard });
        scene.elect(Records::default());
        assert!(scene.master.term() > unheard, "{now:?}");
        terms.push(scene.master.term());
    }
    let all = terms.len();
    terms.sort();
    terms.dedup();
    assert_eq!(terms.len(), all, "a term is one master's: {terms:?}");
}

/// In the very millisecond in which the one before it was elected: its clock was set back.
#[test]
fn a_master_with_a_clock_that_was_set_back_gives_out_no_id_twice() {
    let mut before = Scene::standing_by(elected());
    before.elect(Records::default());
    let app_of = |scene: &mut Scene, incarnation: u64| {
        scene.hear(
            incarnation,
            ToMaster::RegisterApplication {
                description: Arc::new(app(2)),
                incarnation: Incarnation(incarnation),
                previous: None,
                first_executor: ExecutorId(0),
                newest: Term(0),
                executors: Vec::new(),
            },
        );
    };
    before.hear(1, driver(false));
    app_of(&mut before, 20);
    let mut scene = Scene::standing_by(elected());
    assert_eq!(scene.now, before.now);
    scene.elect(before.records.clone());
    app_of(&mut scene, 21);
    registers_again(
        &mut scene,
        20,
        before.master.term(),
        &before.master.view().active_apps[0].app,
        &[],
    );
    scene.hear(1, driver(false));
    assert_eq!((scene.records.apps.len(), scene.records.drivers.len()), (2, 2));
}

#[test]
fn a_master_is_woken_for_its_looks_and_not_again_and_again_for_what_is_over() {
    let mut master = Master::new(MasterOptions::default());
    let mut now = firesteel_types::Tick(1_000_000);
    let elected = MasterEvent::Elected { records: Records::default(), lease: None };
    let mut next = Some(elected);
    let (mut wakes, end) = (0, now.plus_ms(600_000));
    while let Some(event) = next.take() {
        let mut out = Vec::new();
        master.handle(now, event, &mut out);
        let armed = out.iter().find_map(|effect| match effect {
            MasterEffect::ArmTimer(at) => Some(*at),
            _ => None,
        });
        if let Some(at) = armed.filter(|at| *at < end) {
            (now, wakes, next) = (at, wakes + 1, Some(MasterEvent::Ticked));
        }
    }
    assert!(wakes <= 600_000 / 15_000, "{wakes}");
    assert!(wakes >= 38, "{wakes}");
}

#[test]
fn an_executor_that_its_driver_released_is_not_adopted_when_its_worker_comes() {
    let (before, id) = running(MasterOptions::default());
    let mut scene = Scene::standing_by(MasterOptions::default());
    scene.now = before.now;
    scene.elect(Records::default());
    registers_again(&mut scene, 40, before.master.term(), &id, &[0]);
    scene.hear(40, ToMaster::KillExecutors { app: id.clone(), executors: vec![ExecutorId(1)] });
    comes_back(&mut scene, 31, "b", before.master.term(), &id, &[1]);
    assert_eq!(kills(&scene), 2, "{:?}", scene.to_workers);
    assert!(scene.master.view().active_apps[0].executors.is_empty());
}

#[test]
fn a_worker_whose_report_is_older_than_what_was_persisted_is_asked_again_and_loses_nothing() {
    let (mut before, id) = running(elected());
    let registration = before.master.registration(&WorkerId::new("a")).unwrap().0;
    before.report("a", registration, &key(&id, 0), How::Killed);
    assert_eq!(before.launches().len(), 1, "another one takes its place");
    let mut scene = successor(&before, elected());
    let newest = before.master.term();
    comes_back(&mut scene, 30, "a", newest, &id, &[7, 8]);
    let again = matches!(
        scene.to_workers.last(),
        Some((_, ToWorker::RegisterWorkerFailed { retry: true, .. }))
    );
    assert!(again, "{:?}", scene.to_workers);
    assert_eq!(scene.master.records().apps[&id].executors.len(), 2);
}

#[test]
fn a_master_that_stood_still_while_it_adopted_reads_what_came_before_it_kills() {
    let (before, id) = running(MasterOptions::default());
    let mut scene = Scene::standing_by(MasterOptions::default());
    scene.now = before.now;
    scene.elect(Records::default());
    scene.now = scene.now.plus_ms(200_000);
    comes_back(&mut scene, 30, "a", before.master.term(), &id, &[0]);
    scene.later(0);
    registers_again(&mut scene, 40, before.master.term(), &id, &[0]);
    heartbeat(&mut scene, 40, &id, &[0]);
    assert_eq!((kills(&scene), losses(&scene)), (0, 0));
}

#[test]
fn what_a_master_before_started_and_now_ends_does_not_fail_the_application() {
    let options = || MasterOptions { max_executor_retries: 1, ..elected() };
    let (before, id) = running(options());
    let mut scene = successor(&before, options());
    let newest = before.master.term();
    comes_back(&mut scene, 10, "a", newest, &id, &[0]);
    let a = scene.registration();
    comes_back(&mut scene, 10, "b", newest, &id, &[1]);
    let b = scene.registration();
    // Its driver lost both: they may have worked for hours.
    registers_again(&mut scene, 40, newest, &id, &[]);
    heartbeat(&mut scene, 40, &id, &[]);
    scene.report("a", a, &key(&id, 0), How::Exits(56));
    scene.report("b", b, &key(&id, 1), How::Exits(56));
    assert_eq!(scene.master.view().active_apps.len(), 1);
}

#[test]
fn nobody_hears_that_workers_are_too_small_while_one_has_not_answered_a_new_leader() {
    let mut before = Scene::standing_by(elected());
    before.elect(Records::default());
    before.add_worker(10, "a", 1, 10);
    before.add_worker(11, "b", 8, 8000);
    let mut scene = successor(&before, elected());
    let newest = before.master.term();
    let state = WorkerState { number: 90, ..WorkerState::default() };
    let worker = worker("a", 1, 10);
    scene.hear(30, ToMaster::RegisterWorker { worker, state, newest });
    let registration = scene.registration();
    scene.hear(1, driver(false));
    let driver = scene.master.view().active_drivers[0].driver.clone();
    scene.add_app(40, app(1));
    let starved = |scene: &Scene| {
        let said = scene.to_apps.iter();
        said.filter(|(_, it)| matches!(it, ToApplication::ApplicationStarved { .. })).count()
    };
    scene.later(15_000);
    scene.number = 90;
    scene.heartbeat(30, "a", registration);
    scene.later(15_000);
    assert_eq!(scene.master.status(), RecoveryState::Recovering);
    assert_eq!((scene.reason_of(&driver), starved(&scene)), (None, 0), "b may come");
    scene.heartbeat(30, "a", registration);
    scene.later(30_000);
    assert_eq!(scene.master.status(), RecoveryState::Alive);
    let reason = scene.reason_of(&driver).expect("b is gone");
    assert!(reason.contains("none has more than 1 core(s)"), "{reason}");
}
