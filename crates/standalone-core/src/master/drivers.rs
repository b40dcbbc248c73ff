//! Drivers that the cluster runs: submitted, placed, ended, and started elsewhere when their worker goes.

use std::sync::Arc;

use firesteel_backend::Peer;

use super::core::{Master, Turn};
use super::driver_table::Driver;
use super::recovery::Unknown;
use crate::description::{DriverDescription, DriverReport, DriverState};
use crate::messages::{MasterReply, ToWorker};
use crate::{DriverId, WorkerId};

impl Master {
    pub(super) fn submit_driver(
        &mut self,
        turn: &mut Turn<'_>,
        from: Peer,
        description: Arc<DriverDescription>,
    ) {
        let result = if description.cores == 0 || description.memory_mb == 0 {
            let name = &description.name;
            Err(format!(
                "{name} asks for nothing: a driver takes at least 1 core and 1 MB of memory"
            ))
        } else {
            Ok(self.add_driver(turn, description))
        };
        turn.reply(from, MasterReply::SubmitDriverResponse { result });
    }

    fn add_driver(&mut self, turn: &mut Turn<'_>, description: Arc<DriverDescription>) -> DriverId {
        let id = self.ids.next_driver(turn.now);
        self.drivers.submit(id.clone(), description, turn.now);
        turn.touch_driver(&id);
        self.agenda.reschedule();
        id
    }

    /// Ends a driver. What it holds on its worker is free when the worker says so.
    pub(super) fn kill_driver(&mut self, turn: &mut Turn<'_>, from: Peer, id: DriverId) {
        let result = match self.end_running_driver(turn, &id) {
            false => Err(format!("{id} is not running: it has ended, or its id is wrong")),
            true => Ok(format!("kill request for {id} submitted")),
        };
        turn.reply(from, MasterReply::KillDriverResponse { driver: id, result });
    }

    pub(super) fn kill_all_drivers(&mut self, turn: &mut Turn<'_>) {
        let all: Vec<DriverId> = self.drivers.active().map(|(id, _)| id.clone()).collect();
        for id in all {
            self.end_running_driver(turn, &id);
        }
    }

    /// Whether there was such a driver.
    fn end_running_driver(&mut self, turn: &mut Turn<'_>, id: &DriverId) -> bool {
        let Some(driver) = self.drivers.get(id) else { return false };
        let worker = driver.worker();
        if let Some(worker) = worker.and_then(|worker| self.workers.get(worker)) {
            let registration = worker.registration();
            let kill = ToWorker::KillDriver { registration, driver: id.clone() };
            turn.tell_worker(worker.peer(), kill);
        }
        self.end_driver(turn, id, DriverState::Killed);
        true
    }

    pub(super) fn driver_status(&mut self, turn: &mut Turn<'_>, from: Peer, id: DriverId) {
        let driver = self.drivers.find(&id);
        let worker = driver.and_then(Driver::worker);
        let worker = worker
            .and_then(|worker| self.workers.get(worker))
            .map(|worker| (worker.id().clone(), worker.description().address.clone()));
        let state = driver.map(Driver::state);
        turn.reply(from, MasterReply::DriverStatusResponse { driver: id, state, worker });
    }

    /// A worker tells of a driver. One that nobody counts on there is to end.
    pub(super) fn driver_reported(
        &mut self,
        turn: &mut Turn<'_>,
        worker: &WorkerId,
        report: DriverReport,
    ) {
        let (id, state) = (report.driver.clone(), report.state);
        let entry = self.workers.get_mut(worker).expect("a registered worker reports");
        let (peer, registration) = (entry.peer(), entry.registration());
        let driver = self.drivers.on_mut(worker, &id);
        if state.is_finished() {
            entry.free_driver(&id);
            turn.tell_worker(peer, ToWorker::DriverEndKnown { registration, driver: id.clone() });
            self.agenda.reschedule();
            if driver.is_some() {
                self.end_driver(turn, &id, state);
            }
            return;
        }
        if let Some(driver) = driver {
            return driver.started(report.description);
        }
        match self.adopt_driver(turn, worker, &report) {
            Unknown::Adopted => {
                self.drivers.on_mut(worker, &id).expect("just adopted").started(None);
            }
            Unknown::Waits => {}
            Unknown::Unwanted => {
                turn.tell_worker(peer, ToWorker::KillDriver { registration, driver: id });
            }
        }
    }

    /// As with executors: orders that did not reach the worker are repeated.
    pub(super) fn reconcile_drivers(
        &mut self,
        turn: &mut Turn<'_>,
        worker: &WorkerId,
        reports: Vec<DriverReport>,
    ) {
        let known: Vec<DriverId> = reports.iter().map(|report| report.driver.clone()).collect();
        for report in reports {
            self.driver_reported(turn, worker, report);
        }
        let entry = &self.workers[worker];
        let (peer, registration) = (entry.peer(), entry.registration());
        for id in entry.driver_ids() {
            let Some(driver) = self.drivers.on(worker, id) else {
                if self.adopts() && self.drivers.find(id).is_none() {
                    continue;
                }
                turn.tell_worker(peer, ToWorker::KillDriver { registration, driver: id.clone() });
                continue;
            };
            let overdue = driver.is_overdue(turn.now, self.options.heartbeat_ms());
            if overdue && !known.contains(id) {
                let (driver, description) = (id.clone(), driver.description().clone());
                let launch = ToWorker::LaunchDriver { registration, driver, description };
                turn.tell_worker(peer, launch);
            }
        }
    }

    /// Its worker is gone: another one of it takes its place, if it is supervised.
    pub(super) fn driver_lost(&mut self, turn: &mut Turn<'_>, id: &DriverId) {
        let Some(driver) = self.drivers.get(id) else { return };
        let description = driver.description().clone();
        if description.supervise {
            self.end_driver(turn, id, DriverState::Relaunching);
            self.add_driver(turn, description);
        } else {
            self.end_driver(turn, id, DriverState::Error);
        }
    }

    fn end_driver(&mut self, turn: &mut Turn<'_>, id: &DriverId, state: DriverState) {
        if self.drivers.end(id, state) {
            turn.touch_driver(id);
        }
    }
}
