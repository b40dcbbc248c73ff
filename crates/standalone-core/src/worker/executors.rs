//! Executors' processes: started when there is capacity, ended on order, reported until that is acknowledged.

use std::sync::Arc;

use firesteel_backend::blame::ExitStatus;
use firesteel_backend::mutant::Mutant;
use firesteel_backend::provider::Preparing;
use firesteel_backend::{Address, AppId};

use super::core::{Turn, Worker, WorkerEffect};
use super::registration::Link;
use super::state::Phase;
use crate::ExecutorKey;
use crate::description::{ApplicationDescription, ExecutorReport, ExecutorState, ProcessEnd};
use crate::messages::ToMaster;

impl Worker {
    /// Takes an order once, however often it is given.
    pub(super) fn launch_executor(
        &mut self,
        turn: &mut Turn<'_>,
        key: ExecutorKey,
        description: Arc<ApplicationDescription>,
        size: (u32, u64),
        peers: Vec<Address>,
    ) {
        if !self.memory.first_executor(&key) {
            self.dropped_stale();
            return;
        }
        self.memory.reopen(&key.app);
        self.executors.add(key, description, size, peers);
        self.start_waiting(turn);
    }

    /// Starts what the free capacity allows, in the order of names.
    pub(super) fn start_waiting(&mut self, turn: &mut Turn<'_>) {
        for (key, cores, memory_mb) in self.executors.waiting() {
            if self.has_capacity(cores, memory_mb) {
                self.start_executor(turn, &key);
            }
        }
        self.start_waiting_drivers(turn);
    }

    fn start_executor(&mut self, turn: &mut Turn<'_>, key: &ExecutorKey) {
        let executor = self.executors.start(key);
        turn.out.push(WorkerEffect::SpawnExecutor {
            key: key.clone(),
            description: executor.description.clone(),
            cores: executor.cores,
            memory_mb: executor.memory_mb,
            peers: executor.peers.clone(),
        });
        let report = executor.report(key);
        self.report_executor(turn, report);
    }

    /// What an executor needs comes: its driver waits for it as long as that goes on.
    pub(super) fn executor_prepares(
        &mut self,
        turn: &mut Turn<'_>,
        key: &ExecutorKey,
        preparing: Preparing,
    ) {
        let report = self.executors.prepares(key, preparing).map(|executor| executor.report(key));
        if let Some(report) = report {
            self.report_executor(turn, report);
        }
    }

    /// Ends an executor. One that never was is reported as ended too: the master waits for that.
    pub(super) fn kill_executor(&mut self, turn: &mut Turn<'_>, key: ExecutorKey) {
        self.memory.first_executor(&key);
        match self.executors.phase(&key) {
            Some(Phase::Waiting) => {
                let end = ended("it never started", None);
                self.executor_over(turn, &key, ExecutorState::Killed, end);
            }
            Some(_) => {
                if self.executors.kill(&key) {
                    turn.out.push(WorkerEffect::KillExecutor { key });
                }
            }
            None => {
                let end = Some(ended("it is not running", None));
                let state = ExecutorState::Killed;
                let (cores, memory_mb, preparing) = (0, 0, None);
                let unknown = ExecutorReport { key, cores, memory_mb, state, preparing, end };
                let report = self.executors.ended_or(unknown);
                self.report_executor(turn, report);
            }
        }
    }

    pub(super) fn executor_exited(
        &mut self,
        turn: &mut Turn<'_>,
        key: &ExecutorKey,
        status: ExitStatus,
    ) {
        let Some(phase) = self.executors.phase(key) else { return };
        let killed = phase == Phase::Killing;
        let state = if killed { ExecutorState::Killed } else { ExecutorState::Exited };
        let end = ended(&format!("its process ended with {status}"), Some(status));
        self.executor_over(turn, key, state, end);
    }

    pub(super) fn executor_spawn_failed(
        &mut self,
        turn: &mut Turn<'_>,
        key: &ExecutorKey,
        message: String,
    ) {
        let end = ended(&format!("its process could not be started: {message}"), None);
        self.executor_over(turn, key, ExecutorState::Failed, end);
    }

    fn executor_over(
        &mut self,
        turn: &mut Turn<'_>,
        key: &ExecutorKey,
        state: ExecutorState,
        end: ProcessEnd,
    ) {
        let Some(report) = self.executors.end(key, state, end) else { return };
        if self.options.planted.is(Mutant::ReportsEndsOnce) {
            self.executors.acknowledge(key);
        }
        self.report_executor(turn, report);
        self.remove_if_over(turn, &key.app);
        self.start_waiting(turn);
    }

    /// At once if a master listens; otherwise the next registration tells it.
    fn report_executor(&mut self, turn: &mut Turn<'_>, report: ExecutorReport) {
        let Link::Registered { master, .. } = self.link else { return };
        let (worker, registration) = self.signature();
        let number = self.next_number();
        let message = ToMaster::ExecutorStateChanged { worker, registration, number, report };
        turn.out.push(WorkerEffect::Send { master, message });
    }

    pub(super) fn application_finished(&mut self, turn: &mut Turn<'_>, app: &AppId) {
        if self.memory.finish(app) {
            self.remove_if_over(turn, app);
        }
    }

    fn remove_if_over(&mut self, turn: &mut Turn<'_>, app: &AppId) {
        let runs = self.executors.apps().any(|running| running == app);
        let runs = runs && !self.options.planted.is(Mutant::RemovesFilesInUse);
        if !runs && self.memory.is_finished(app) {
            turn.out.push(WorkerEffect::RemoveApplication { app: app.clone() });
        }
    }
}

fn ended(message: &str, status: Option<ExitStatus>) -> ProcessEnd {
    ProcessEnd { message: message.to_owned(), status }
}
