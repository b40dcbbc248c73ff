//! Executors' processes: started when there is room, ended on order, reported until that is acknowledged.

use std::sync::Arc;

use firesteel_backend::AppId;
use firesteel_backend::blame::ExitStatus;
use firesteel_backend::mutant::Mutant;

use super::core::{Effect, Turn, Worker};
use super::registration::Link;
use super::state::{Executor, Phase};
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
        cores: u32,
        memory_mb: u64,
    ) {
        if !self.memory.first_executor(&key) {
            self.stale += 1;
            return;
        }
        self.memory.reopen(&key.app);
        let executor = Executor { description, cores, memory_mb, phase: Phase::Waiting };
        self.executors.insert(key, executor);
        self.start_waiting(turn);
    }

    /// Starts what there is room for, in the order of names.
    pub(super) fn start_waiting(&mut self, turn: &mut Turn<'_>) {
        let waiting = self.executors.iter().filter(|(_, e)| e.phase == Phase::Waiting);
        let waiting: Vec<ExecutorKey> = waiting.map(|(key, _)| key.clone()).collect();
        for key in waiting {
            let Executor { cores, memory_mb, .. } = self.executors[&key];
            if self.has_room(cores, memory_mb) {
                self.start_executor(turn, &key);
            }
        }
        self.start_waiting_drivers(turn);
    }

    fn start_executor(&mut self, turn: &mut Turn<'_>, key: &ExecutorKey) {
        let executor = self.executors.get_mut(key).expect("a waiting executor");
        executor.phase = Phase::Running;
        turn.out.push(Effect::SpawnExecutor {
            key: key.clone(),
            description: executor.description.clone(),
            cores: executor.cores,
            memory_mb: executor.memory_mb,
        });
        let report = executor.report(key);
        self.report_executor(turn, report);
    }

    /// Ends an executor. One that never was is reported as ended too: the master waits for that.
    pub(super) fn kill_executor(&mut self, turn: &mut Turn<'_>, key: ExecutorKey) {
        self.memory.first_executor(&key);
        match self.executors.get_mut(&key) {
            Some(executor) if executor.phase == Phase::Waiting => {
                self.executor_over(
                    turn,
                    &key,
                    ExecutorState::Killed,
                    ended("it never started", None),
                );
            }
            Some(executor) => {
                if executor.phase == Phase::Running {
                    executor.phase = Phase::Killing;
                    turn.out.push(Effect::KillExecutor { key });
                }
            }
            None => {
                let unknown = || ExecutorReport {
                    key: key.clone(),
                    cores: 0,
                    memory_mb: 0,
                    state: ExecutorState::Killed,
                    end: Some(ended("it is not running", None)),
                };
                let report = self.ended.entry(key.clone()).or_insert_with(unknown).clone();
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
        let Some(executor) = self.executors.get(key) else { return };
        let killed = executor.phase == Phase::Killing;
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
        let Some(executor) = self.executors.remove(key) else { return };
        let (cores, memory_mb) = (executor.cores, executor.memory_mb);
        let report = ExecutorReport { key: key.clone(), cores, memory_mb, state, end: Some(end) };
        if !self.options.planted.is(Mutant::ReportsEndsOnce) {
            self.ended.insert(key.clone(), report.clone());
        }
        self.report_executor(turn, report);
        self.remove_if_over(turn, &key.app);
        self.start_waiting(turn);
    }

    /// At once if a master listens; otherwise the next registration tells it.
    fn report_executor(&mut self, turn: &mut Turn<'_>, report: ExecutorReport) {
        let Link::Registered { master, .. } = self.link else { return };
        self.number += 1;
        let (worker, registration) = self.signature();
        let number = self.number;
        let message = ToMaster::ExecutorStateChanged { worker, registration, number, report };
        turn.out.push(Effect::Send { master, message });
    }

    pub(super) fn application_finished(&mut self, turn: &mut Turn<'_>, app: &AppId) {
        if self.memory.finish(app) {
            self.remove_if_over(turn, app);
        }
    }

    fn remove_if_over(&mut self, turn: &mut Turn<'_>, app: &AppId) {
        let runs = self.executors.keys().any(|key| key.app == *app);
        if !runs && self.memory.is_finished(app) {
            turn.out.push(Effect::RemoveApplication { app: app.clone() });
        }
    }
}

fn ended(message: &str, status: Option<ExitStatus>) -> ProcessEnd {
    ProcessEnd { message: message.to_owned(), status }
}
