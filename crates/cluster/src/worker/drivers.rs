//! Drivers' processes: as executors', and started again when they fail and are supervised.

use std::sync::Arc;

use firesteel_backend::blame::ExitStatus;
use firesteel_types::Tick;

use super::core::{Effect, Turn, Worker};
use super::registration::Link;
use super::state::{Driver, Phase};
use crate::DriverId;
use crate::description::{DriverDescription, DriverReport, DriverState, ProcessEnd};
use crate::messages::ToMaster;

/// The first wait before a supervised driver is started again; each further one is twice as long.
const PAUSE_MS: u64 = 1000;
/// The longest wait.
const MAX_PAUSE_MS: u64 = 60_000;
/// A driver that ran so long starts again without a longer wait.
const HEALTHY_MS: u64 = 5000;

impl Worker {
    /// Takes an order once, however often it is given.
    pub(super) fn launch_driver(
        &mut self,
        turn: &mut Turn<'_>,
        id: DriverId,
        description: Arc<DriverDescription>,
    ) {
        if !self.memory.first_driver(&id) {
            self.stale += 1;
            return;
        }
        let (phase, started) = (Phase::Waiting, turn.now);
        self.drivers.insert(id, Driver { description, phase, started, pause_ms: PAUSE_MS });
        self.start_waiting_drivers(turn);
    }

    pub(super) fn start_waiting_drivers(&mut self, turn: &mut Turn<'_>) {
        let waiting = self.drivers.iter().filter(|(_, driver)| driver.phase == Phase::Waiting);
        let waiting: Vec<DriverId> = waiting.map(|(id, _)| id.clone()).collect();
        for id in waiting {
            let description = self.drivers[&id].description.clone();
            if self.has_room(description.cores, description.memory_mb) {
                let driver = self.drivers.get_mut(&id).expect("a waiting driver");
                (driver.phase, driver.started) = (Phase::Running, turn.now);
                let report = driver.report(&id);
                turn.out.push(Effect::SpawnDriver { driver: id, description });
                self.report_driver(turn, report);
            }
        }
    }

    pub(super) fn kill_driver(&mut self, turn: &mut Turn<'_>, id: DriverId) {
        self.memory.first_driver(&id);
        match self.drivers.get_mut(&id) {
            Some(driver) if driver.phase == Phase::Running => {
                driver.phase = Phase::Killing;
                turn.out.push(Effect::KillDriver { driver: id });
            }
            Some(driver) if driver.phase == Phase::Killing => {}
            Some(_) => self.driver_over(turn, &id, DriverState::Killed, "it was not running", None),
            None => {
                let unknown = || DriverReport {
                    driver: id.clone(),
                    cores: 0,
                    memory_mb: 0,
                    state: DriverState::Killed,
                    end: None,
                };
                let report = self.ended_drivers.entry(id.clone()).or_insert_with(unknown).clone();
                self.report_driver(turn, report);
            }
        }
    }

    pub(super) fn driver_exited(&mut self, turn: &mut Turn<'_>, id: &DriverId, status: ExitStatus) {
        let Some(driver) = self.drivers.get_mut(id) else { return };
        let killed = driver.phase == Phase::Killing;
        let success = status == ExitStatus::Code(0);
        if !killed && !success && driver.description.supervise {
            if turn.now.since_ms(driver.started) >= HEALTHY_MS {
                driver.pause_ms = PAUSE_MS;
            }
            driver.phase = Phase::Pausing(turn.now.plus_ms(driver.pause_ms));
            driver.pause_ms = (driver.pause_ms * 2).min(MAX_PAUSE_MS);
            return self.start_waiting(turn);
        }
        let state = match (killed, success) {
            (true, _) => DriverState::Killed,
            (false, true) => DriverState::Finished,
            (false, false) => DriverState::Failed,
        };
        let message = format!("its process ended with {status}");
        self.driver_over(turn, id, state, &message, Some(status));
    }

    pub(super) fn driver_spawn_failed(
        &mut self,
        turn: &mut Turn<'_>,
        id: &DriverId,
        message: String,
    ) {
        let message = format!("its process could not be started: {message}");
        self.driver_over(turn, id, DriverState::Error, &message, None);
    }

    fn driver_over(
        &mut self,
        turn: &mut Turn<'_>,
        id: &DriverId,
        state: DriverState,
        message: &str,
        status: Option<ExitStatus>,
    ) {
        let Some(driver) = self.drivers.remove(id) else { return };
        let end = Some(ProcessEnd { message: message.to_owned(), status });
        let report = DriverReport { state, end, ..driver.report(id) };
        self.ended_drivers.insert(id.clone(), report.clone());
        self.report_driver(turn, report);
        self.start_waiting(turn);
    }

    /// Drivers whose wait is over want to run again.
    pub(super) fn restart_drivers(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now;
        for driver in self.drivers.values_mut() {
            if matches!(driver.phase, Phase::Pausing(until) if until <= now) {
                driver.phase = Phase::Waiting;
            }
        }
        self.start_waiting_drivers(turn);
    }

    pub(super) fn driver_due(&self) -> Option<Tick> {
        let pauses = self.drivers.values().filter_map(|driver| match driver.phase {
            Phase::Pausing(until) => Some(until),
            _ => None,
        });
        pauses.min()
    }

    fn report_driver(&mut self, turn: &mut Turn<'_>, report: DriverReport) {
        let Link::Registered { master, .. } = self.link else { return };
        self.number += 1;
        let (worker, registration) = self.signature();
        let number = self.number;
        let message = ToMaster::DriverStateChanged { worker, registration, number, report };
        turn.out.push(Effect::Send { master, message });
    }
}
