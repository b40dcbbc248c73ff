//! What becomes of executors: reports of them, their end, and what follows from it.

use firesteel_backend::AppId;
use firesteel_backend::blame::{Blame, End, blame};
use firesteel_backend::mutant::Mutant;
use firesteel_backend::provider::Preparing;
use firesteel_types::ExecutorId;

use super::application::{Application, Executor};
use super::core::{Master, Turn};
use super::recovery::Unknown;
use super::state::ApplicationState;
use crate::description::{
    ExecutorReport, ExecutorState, ExecutorUpdate, ProcessEnd, WorkerDescription,
};
use crate::messages::{ToApplication, ToWorker};
use crate::{ExecutorKey, WorkerId};

impl Master {
    /// A worker tells of an executor. One that nobody counts on is to end.
    pub(super) fn executor_reported(
        &mut self,
        turn: &mut Turn<'_>,
        worker: &WorkerId,
        report: ExecutorReport,
    ) {
        let (key, state, preparing) = (report.key.clone(), report.state, report.preparing);
        if state.is_finished() {
            return self.executor_end_reported(turn, worker, &key, state, report.end);
        }
        let app = self.apps.get_mut(&key.app);
        match app.and_then(|app| app.advance(worker, key.executor, state)) {
            Some(started) => {
                if started {
                    self.executor_started(turn, &key);
                }
                self.executor_prepares(turn, &key, preparing);
            }
            None => self.unknown_executor_reported(turn, worker, &report),
        }
    }

    fn unknown_executor_reported(
        &mut self,
        turn: &mut Turn<'_>,
        worker: &WorkerId,
        report: &ExecutorReport,
    ) {
        match self.adopt_executor(turn, worker, report) {
            Unknown::Adopted => {
                if report.state == ExecutorState::Running {
                    self.executor_started(turn, &report.key);
                }
            }
            Unknown::Waits => {}
            Unknown::Unwanted => {
                let entry = &self.workers[worker];
                let (registration, key) = (entry.registration(), report.key.clone());
                turn.tell_worker(entry.peer(), ToWorker::KillExecutor { registration, key });
            }
        }
    }

    fn executor_started(&mut self, turn: &mut Turn<'_>, key: &ExecutorKey) {
        let Some(app) = self.apps.get_mut(&key.app) else { return };
        if self.options.planted.is(Mutant::ForgivesOnStart) {
            app.launches_mut().some_registered();
        }
        let state = ExecutorState::Running;
        let update = ExecutorUpdate { executor: key.executor, state, end: None };
        turn.tell_app(app.peer(), ToApplication::ExecutorUpdated(update));
    }

    /// What an executor needs is on its way to its worker: its driver hears of every step.
    fn executor_prepares(
        &mut self,
        turn: &mut Turn<'_>,
        key: &ExecutorKey,
        preparing: Option<Preparing>,
    ) {
        let (Some(app), Some(preparing)) = (self.apps.get_mut(&key.app), preparing) else { return };
        if app.prepares(turn.now, key.executor, preparing) {
            let executor = key.executor;
            turn.tell_app(app.peer(), ToApplication::ExecutorPreparing { executor, preparing });
        }
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
            ToWorker::ExecutorEndKnown { registration: entry.registration(), key: key.clone() };
        turn.tell_worker(entry.peer(), known);
        self.agenda.reschedule();
        let app = self.apps.get(&key.app);
        if app.is_some_and(|app| app.executor_on(worker, key.executor).is_some()) {
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
        let Some(executor) = app.remove(key.executor) else { return };
        turn.touch_app(&key.app);
        let end = end.unwrap_or(ProcessEnd { message: message.to_owned(), status: None });
        let how = state.end(end.status);
        let cause = format!("executor {}: {}", key.executor, end.message);
        let update = ExecutorUpdate { executor: key.executor, state, end: Some(end) };
        turn.tell_app(app.peer(), ToApplication::ExecutorUpdated(update));
        self.agenda.reschedule();
        self.note_end(turn, key, &executor, how, &cause);
    }

    /// Whose fault it was decides when, and where, the next one is started.
    fn note_end(
        &mut self,
        turn: &mut Turn<'_>,
        key: &ExecutorKey,
        executor: &Executor,
        end: End,
        cause: &str,
    ) {
        // Whatever becomes of one that was to end is nobody's fault (S12).
        if executor.state == ExecutorState::Decommissioned {
            return;
        }
        let memory_ms = self.options.crash_memory_ms;
        let Some(app) = self.apps.get_mut(&key.app) else { return };
        // Nobody here knows whether it was used: that it ended says nothing of its node, unless its process never began.
        if executor.inherited && executor.registered.is_none() && end != End::LaunchFailed {
            return;
        }
        match blame(end, executor.registered.is_some()) {
            Blame::Nobody => {}
            Blame::RunningTasks => app.launches_mut().crashed(turn.now, memory_ms),
            Blame::Node => {
                let ran = end != End::LaunchFailed;
                app.launches_mut().failed(turn.now, &executor.worker, ran, cause);
                self.end_if_hopeless(turn, &key.app);
            }
        }
    }

    /// An application that has had so many executors in a row which came to nothing, has none under way and finds no
    /// worker that has not failed it, cannot run.
    fn end_if_hopeless(&mut self, turn: &mut Turn<'_>, id: &AppId) {
        let Ok(limit) = u32::try_from(self.options.max_executor_retries) else { return };
        let Some(app) = self.apps.get_mut(id) else { return };
        app.launches_mut().keep_workers(|worker| self.workers.get(worker).is_some());
        let app = &self.apps[id];
        let globally = self.options.planted.is(Mutant::CountsLaunchesGlobally);
        // A driver that is not heard may know of executors that did work.
        let unheard = app.is_silent(turn.now, 2 * self.options.heartbeat_ms());
        let under_way = app.executors().len() > 0 || unheard || self.may_still_run(app, limit);
        if app.launches().useless() < limit.max(1) || under_way && !globally {
            return;
        }
        let message = format!(
            "{} executors in a row ended before they could be used, and no other worker has capacity for one: {}. \
             Their stderr on those workers may tell more",
            app.launches().useless(),
            app.launches().history(),
        );
        self.end_application(turn, id, ApplicationState::Failed, &message, false);
    }

    /// Whether there is a worker, free or not, on which its executors have not come to nothing again and again.
    fn may_still_run(&self, app: &Application, limit: u32) -> bool {
        let cores = app.description().cores_per_executor.unwrap_or(1);
        let memory_mb = app.description().memory_per_executor_mb;
        self.workers.alive().any(|worker| {
            let WorkerDescription { id, cores: has_cores, memory_mb: has_mb, .. } =
                worker.description();
            let large = *has_cores >= cores && *has_mb >= memory_mb;
            large && !worker.is_decommissioned() && !app.launches().is_hopeless(id, limit)
        })
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
            let Some(app) = self.apps.get_mut(app) else { return };
            let known = app.executor(*executor).cloned();
            if known.is_none() {
                if !self.options.planted.is(Mutant::AdoptsTheReleased) {
                    app.will_not_adopt(*executor);
                }
                let message = "it is over".to_owned();
                let end = Some(ProcessEnd { message, status: None });
                let state = ExecutorState::Killed;
                let update = ExecutorUpdate { executor: *executor, state, end };
                turn.tell_app(app.peer(), ToApplication::ExecutorUpdated(update));
                continue;
            }
            self.kill_executor(turn, &key, "its driver asked for it");
            // A driver that does not know it has waited for it in vain. One whose worker never spoke of it, or of nothing at all for
            // some time, says nothing of its launches: that worker is silent, and is declared dead for that.
            let started = |executor: &Executor| executor.state != ExecutorState::Launching;
            // Nor does one whose worker was still fetching what it needs, and had just heard of more of it.
            let patience_ms = 2 * self.options.heartbeat_ms();
            let (now, workers) = (turn.now, &self.workers);
            let is_heard = |executor: &Executor| {
                let worker = workers.get(&executor.worker);
                worker.is_some_and(|it| now.since_ms(it.last_heartbeat()) <= patience_ms)
            };
            let useless = |executor: &Executor| {
                let preparing = executor.was_preparing(now, patience_ms) || !is_heard(executor);
                executor.registered.is_none() && started(executor) && !preparing
            };
            if let Some(executor) = known.filter(useless) {
                let fetched = executor.preparing.map(|(preparing, _)| preparing);
                let fetched = fetched.filter(|preparing| preparing.is_under_way());
                let fetched = fetched
                    .map(|preparing| format!(", and its worker has {preparing} of what it needs"));
                let fetched = fetched.unwrap_or_default();
                let cause = format!("executor {}: it never registered{fetched}", key.executor);
                self.note_end(turn, &key, &executor, End::NeverRegistered, &cause);
            }
        }
    }

    /// The executor shall end, and its application counts on it no longer.
    pub(super) fn kill_executor(&mut self, turn: &mut Turn<'_>, key: &ExecutorKey, why: &str) {
        let app = self.apps.get(&key.app);
        let Some(executor) = app.and_then(|app| app.executor(key.executor)) else { return };
        let worker = self.workers.get(&executor.worker).expect("executors lie on workers");
        let kill = ToWorker::KillExecutor { registration: worker.registration(), key: key.clone() };
        turn.tell_worker(worker.peer(), kill);
        self.executor_ended(turn, key, ExecutorState::Killed, None, why);
    }
}
