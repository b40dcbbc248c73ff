//! What becomes of executors: news of them, failures in a row, their end.

use firesteel_types::{ExecutorId, Tick};

use super::core::{Master, Turn};
use super::state::{ApplicationState, Executor};
use crate::description::{ExecutorReport, ExecutorState, ExecutorUpdate, ExitStatus, ProcessEnd};
use crate::executor::exit;
use crate::messages::{ToApplication, ToWorker};
use crate::mutant::Mutant;
use crate::{AppId, ExecutorKey, WorkerId};

impl Master {
    /// A worker tells of an executor. One that nobody counts on is to end.
    pub(super) fn executor_reported(
        &mut self,
        turn: &mut Turn<'_>,
        worker: &WorkerId,
        report: ExecutorReport,
    ) {
        let ExecutorReport { key, state, end, .. } = report;
        if state.is_finished() {
            return self.executor_end_reported(turn, worker, &key, state, end);
        }
        let executor = self.executor_on(worker, &key);
        match executor {
            Some(executor) if executor.state < state => {
                executor.state = state;
                self.executor_started(turn, &key);
            }
            Some(_) => {}
            None => {
                let entry = &self.workers[worker];
                let kill = ToWorker::KillExecutor { registration: entry.registration, key };
                turn.tell_worker(entry.peer, kill);
            }
        }
    }

    /// The executor, if its application counts on it and it is this worker's.
    fn executor_on(&mut self, worker: &WorkerId, key: &ExecutorKey) -> Option<&mut Executor> {
        let app = self.apps.get_mut(&key.app)?;
        app.executors.get_mut(&key.executor).filter(|executor| executor.worker == *worker)
    }

    fn executor_started(&mut self, turn: &mut Turn<'_>, key: &ExecutorKey) {
        let Some(app) = self.apps.get_mut(&key.app) else { return };
        if self.options.planted.is(Mutant::ForgivesOnStart) {
            app.failures = 0;
        }
        let state = ExecutorState::Running;
        let update = ExecutorUpdate { executor: key.executor, state, end: None };
        turn.tell_app(app.peer, ToApplication::ExecutorUpdated(update));
    }

    /// A worker says that an executor's process is no more: what it held is free again.
    fn executor_end_reported(
        &mut self,
        turn: &mut Turn<'_>,
        worker: &WorkerId,
        key: &ExecutorKey,
        state: ExecutorState,
        end: Option<ProcessEnd>,
    ) {
        let entry = self.workers.get_mut(worker).expect("a registered worker reports");
        entry.free_executor(key);
        let known =
            ToWorker::ExecutorEndKnown { registration: entry.registration, key: key.clone() };
        turn.tell_worker(entry.peer, known);
        self.reschedule = true;
        if self.executor_on(worker, key).is_some() {
            self.executor_ended(turn, key, state, end, "");
        }
    }

    /// The application does not count on the executor any more. The one way to lose an executor; what it
    /// holds on its worker is another matter.
    pub(super) fn executor_ended(
        &mut self,
        turn: &mut Turn<'_>,
        key: &ExecutorKey,
        state: ExecutorState,
        end: Option<ProcessEnd>,
        message: &str,
    ) {
        let Some(app) = self.apps.get_mut(&key.app) else { return };
        let Some(executor) = app.remove(key.executor, turn.now) else { return };
        let end = end.unwrap_or(ProcessEnd { message: message.to_owned(), status: None });
        let status = end.status;
        let story = format!("{} on {}: {}", key.executor, executor.worker, end.message);
        let update = ExecutorUpdate { executor: key.executor, state, end: Some(end) };
        turn.tell_app(app.peer, ToApplication::ExecutorUpdated(update));
        self.reschedule = true;
        if counts(&executor, state, status) {
            self.executor_failed(turn, key, &executor, &story);
        }
    }

    /// An executor ended by itself. So many in a row, and none that works: the application cannot run.
    fn executor_failed(
        &mut self,
        turn: &mut Turn<'_>,
        key: &ExecutorKey,
        executor: &Executor,
        story: &str,
    ) {
        let (limit, proven_ms) = (self.options.max_executor_retries, self.options.proven_ms);
        let Some(app) = self.apps.get_mut(&key.app) else { return };
        let proven = |since: Tick| turn.now.since_ms(since) >= proven_ms;
        if executor.registered.is_some_and(proven) {
            app.failures = 0;
        }
        app.failures += 1;
        let Ok(limit) = u32::try_from(limit) else { return };
        if app.failures < limit.max(1) {
            return;
        }
        if app.executors.values().any(|other| other.registered.is_some()) {
            app.resting_until = turn.now.plus_ms(proven_ms);
            return;
        }
        let failures = app.failures;
        let message = format!(
            "{failures} executors in a row ended before they could be used; the last one was \
             {story}. Its stderr on that worker tells more"
        );
        self.end_application(turn, &key.app, ApplicationState::Failed, &message, false);
    }

    /// A driver wants some of its executors ended.
    pub(super) fn kill_executors(
        &mut self,
        turn: &mut Turn<'_>,
        app: &AppId,
        executors: &[ExecutorId],
    ) {
        for executor in executors {
            let key = ExecutorKey { app: app.clone(), executor: *executor };
            self.kill_executor(turn, &key, "its driver asked for it");
        }
    }

    /// The executor shall end, and its application counts on it no longer.
    pub(super) fn kill_executor(&mut self, turn: &mut Turn<'_>, key: &ExecutorKey, why: &str) {
        let app = self.apps.get(&key.app);
        let Some(executor) = app.and_then(|app| app.executors.get(&key.executor)) else { return };
        let worker = self.workers.get(&executor.worker).expect("executors lie on workers");
        let kill = ToWorker::KillExecutor { registration: worker.registration, key: key.clone() };
        turn.tell_worker(worker.peer, kill);
        self.executor_ended(turn, key, ExecutorState::Killed, None, why);
    }
}

/// Whether an executor's end is a failure of the application: it ended by itself or could not start,
/// and not because its driver or worker went.
fn counts(executor: &Executor, state: ExecutorState, status: Option<ExitStatus>) -> bool {
    match state {
        ExecutorState::Failed => true,
        ExecutorState::Exited if executor.registered.is_none() => {
            status != Some(ExitStatus::Code(exit::REFUSED))
        }
        ExecutorState::Exited => match status {
            Some(ExitStatus::Code(code)) => !exit::BY_SURROUNDINGS.contains(&code),
            _ => true,
        },
        _ => false,
    }
}
