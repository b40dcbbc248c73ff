//! Drivers' processes: as executors', and started again when they fail and are supervised.

use std::sync::Arc;

use firesteel_backend::blame::ExitStatus;
use firesteel_backend::mutant::Mutant;

use super::core::{Turn, Worker, WorkerEffect};
use super::registration::Link;
use super::state::Phase;
use crate::DriverId;
use crate::description::{DriverDescription, DriverReport, DriverState, ProcessEnd};
use crate::messages::ToMaster;

impl Worker {
    /// Takes an order once, however often it is given.
    pub(super) fn launch_driver(
        &mut self,
        turn: &mut Turn<'_>,
        id: DriverId,
        description: Arc<DriverDescription>,
    ) {
        if !self.memory.first_driver(&id) {
            self.dropped_stale();
            return;
        }
        self.drivers.add(id, description, turn.now);
        self.start_waiting_drivers(turn);
    }

    pub(super) fn start_waiting_drivers(&mut self, turn: &mut Turn<'_>) {
        for (id, description) in self.drivers.waiting() {
            let ignores = self.options.planted.is(Mutant::RunsDriversWithoutLease);
            let may_run = !description.supervise || ignores || self.lease.holds(turn.now);
            if may_run && self.has_capacity(description.cores, description.memory_mb) {
                let report = self.drivers.start(&id, turn.now);
                turn.out.push(WorkerEffect::SpawnDriver { driver: id, description });
                self.report_driver(turn, report);
            }
        }
    }

    pub(super) fn kill_driver(&mut self, turn: &mut Turn<'_>, id: DriverId) {
        self.memory.first_driver(&id);
        match self.drivers.phase(&id) {
            Some(Phase::Running) => {
                self.drivers.kill(&id);
                turn.out.push(WorkerEffect::KillDriver { driver: id });
            }
            Some(Phase::Killing) => {}
            Some(_) => self.driver_over(turn, &id, DriverState::Killed, "it was not running", None),
            None => {
                let (state, end) = (DriverState::Killed, None);
                let (cores, memory_mb, description) = (0, 0, None);
                let unknown =
                    DriverReport { driver: id, cores, memory_mb, state, description, end };
                let report = self.drivers.ended_or(unknown);
                self.report_driver(turn, report);
            }
        }
    }

    pub(super) fn driver_exited(&mut self, turn: &mut Turn<'_>, id: &DriverId, status: ExitStatus) {
        let Some(phase) = self.drivers.phase(id) else { return };
        let killed = phase == Phase::Killing;
        let success = status == ExitStatus::Code(0);
        if !killed && !success && self.drivers.pause(id, turn.now) {
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
        may_pass: bool,
    ) {
        let is_running = self.drivers.phase(id) == Some(Phase::Running);
        if is_running
            && may_pass
            && let Some(is_first) = self.drivers.retry(id, turn.now)
        {
            if is_first {
                let message =
                    format!("{id} could not be started yet, and is tried again: {message}");
                turn.out.push(WorkerEffect::Warn { message });
            }
            return self.start_waiting(turn);
        }
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
        let end = ProcessEnd { message: message.to_owned(), status };
        let Some(report) = self.drivers.end(id, state, end) else { return };
        self.report_driver(turn, report);
        self.start_waiting(turn);
    }

    /// Drivers whose wait is over want to run again.
    pub(super) fn restart_drivers(&mut self, turn: &mut Turn<'_>) {
        self.drivers.end_pauses(turn.now);
        self.start_waiting_drivers(turn);
    }

    fn report_driver(&mut self, turn: &mut Turn<'_>, report: DriverReport) {
        let Link::Registered { master, .. } = self.link else { return };
        let (worker, registration) = self.signature();
        let number = self.next_number();
        let message = ToMaster::DriverStateChanged { worker, registration, number, report };
        turn.out.push(WorkerEffect::Send { master, message });
    }
}
