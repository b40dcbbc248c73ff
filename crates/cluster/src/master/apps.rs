//! Applications register, send heartbeats, and end.

use std::sync::Arc;

use firesteel_backend::mutant::Mutant;
use firesteel_backend::{AppId, Peer};
use firesteel_types::{ExecutorId, Host};

use super::core::{Master, Turn};
use super::records::Change;
use super::state::{Application, ApplicationState, CompletedApplication};
use super::worker_table::Worker;
use crate::Incarnation;
use crate::description::{ApplicationDescription, ExecutorState, ExecutorUpdate, ProcessEnd};
use crate::messages::ToApplication;

/// What a driver registers with.
pub(super) struct Asked {
    pub(super) description: Arc<ApplicationDescription>,
    pub(super) incarnation: Incarnation,
    pub(super) previous: Option<AppId>,
    pub(super) first_executor: ExecutorId,
}

/// So many hosts an application may exclude.
const EXCLUDED_AT_MOST: usize = 10_000;

/// What a driver has and wants.
pub(super) struct Report {
    pub(super) limit: Option<u32>,
    pub(super) executors: Vec<ExecutorId>,
    pub(super) registrations: u64,
    pub(super) excluded: Vec<Host>,
}

impl Master {
    /// A driver wants to register. The same process asking again gets the same answer.
    pub(super) fn register_application(&mut self, turn: &mut Turn<'_>, from: Peer, asked: Asked) {
        let mut apps = self.apps.values();
        let known = apps.find(|app| app.incarnation == asked.incarnation).map(|app| app.id.clone());
        let mut completed = self.completed_apps.iter();
        let over = completed.find(|app| app.incarnation == asked.incarnation && !app.may_return);
        if let Some(over) = over {
            let message = over.message.clone();
            return turn.tell_app(from, ToApplication::ApplicationRemoved { message });
        }
        let id = known.unwrap_or_else(|| self.admit_application(turn, from, asked));
        self.heard_of(turn, from, &id);
        let (url, heartbeat_ms) = (self.options.url.clone(), self.options.heartbeat_ms());
        turn.tell_app(from, ToApplication::RegisteredApplication { app: id, url, heartbeat_ms });
        self.agenda.reschedule();
    }

    fn admit_application(&mut self, turn: &mut Turn<'_>, from: Peer, asked: Asked) -> AppId {
        let returned =
            self.completed_apps.iter().position(|app| app.incarnation == asked.incarnation);
        let returned = returned.and_then(|at| self.completed_apps.remove(at));
        let previous = returned.as_ref().map(|app| app.id.clone()).or(asked.previous);
        let previous = previous.filter(|id| !self.is_taken(id));
        let id = previous.unwrap_or_else(|| self.ids.next_app(turn.now));
        let taken = returned.as_ref().map_or(ExecutorId(0), |app| app.next_executor);
        let app = Application {
            id: id.clone(),
            incarnation: asked.incarnation,
            limit: asked.description.initial_executor_limit,
            description: asked.description,
            peer: from,
            order: self.next_order,
            submitted: returned.map_or(turn.now, |app| app.submitted),
            last_seen: turn.now,
            disconnected: None,
            next_executor: taken.max(asked.first_executor),
            executors: Default::default(),
            cores_granted: 0,
            launches: Default::default(),
            registrations: 0,
            excluded: Default::default(),
            starving_since: turn.now,
        };
        self.next_order += 1;
        turn.persist(Change::PutApplication(app.record()));
        self.queue.insert(app.order, id.clone());
        self.apps.insert(id.clone(), app);
        id
    }

    /// Whether another application has, or had, this id.
    fn is_taken(&self, id: &AppId) -> bool {
        self.apps.contains_key(id) || self.completed_apps.iter().any(|app| app.id == *id)
    }

    /// The driver lives, and this is how to reach it.
    pub(super) fn heard_of(&mut self, turn: &mut Turn<'_>, from: Peer, app: &AppId) {
        let Some(app) = self.apps.get_mut(app) else {
            self.dropped_stale();
            return turn.tell_app(from, ToApplication::ReconnectApplication);
        };
        (app.peer, app.last_seen) = (from, turn.now);
        self.agenda.reschedule_if(app.disconnected.take().is_some());
    }

    /// A driver tells what it wants and has: what it counts on in vain it hears again.
    pub(super) fn application_reported(
        &mut self,
        turn: &mut Turn<'_>,
        from: Peer,
        id: &AppId,
        report: Report,
    ) {
        let Report { limit, executors: registered, registrations, excluded } = report;
        self.heard_of(turn, from, id);
        let Some(app) = self.apps.get_mut(id) else { return };
        let excluded = excluded.into_iter().take(EXCLUDED_AT_MOST).collect();
        self.agenda.reschedule_if(app.excluded != excluded);
        app.excluded = excluded;
        let mut unseen = registrations.saturating_sub(app.registrations);
        app.registrations = app.registrations.max(registrations);
        for executor in &registered {
            match app.executors.get_mut(executor) {
                Some(known) => {
                    if known.registered.is_none() {
                        known.registered = Some(turn.now);
                        app.launches.registered(&known.worker);
                        unseen = unseen.saturating_sub(1);
                    }
                }
                None => {
                    let message = "the master knows no such executor".to_owned();
                    let end = Some(ProcessEnd { message, status: None });
                    let state = ExecutorState::Lost;
                    let update = ExecutorUpdate { executor: *executor, state, end };
                    turn.tell_app(from, ToApplication::ExecutorUpdated(update));
                }
            }
        }
        if unseen > 0 {
            app.launches.some_came_and_went();
        }
        self.set_limit(id, limit);
    }

    pub(super) fn limit_changed(
        &mut self,
        turn: &mut Turn<'_>,
        from: Peer,
        id: &AppId,
        total: u32,
    ) {
        self.heard_of(turn, from, id);
        self.set_limit(id, Some(total));
    }

    fn set_limit(&mut self, id: &AppId, limit: Option<u32>) {
        let Some(app) = self.apps.get_mut(id) else { return };
        if app.limit != limit {
            app.limit = limit;
            self.agenda.reschedule();
        }
    }

    pub(super) fn unregister(&mut self, turn: &mut Turn<'_>, id: &AppId) {
        self.end_application(turn, id, ApplicationState::Finished, "it is finished", false);
    }

    /// Ends an application: its executors are to go, and it joins the completed ones.
    pub(super) fn end_application(
        &mut self,
        turn: &mut Turn<'_>,
        id: &AppId,
        state: ApplicationState,
        message: &str,
        may_return: bool,
    ) {
        let Some(app) = self.apps.get(id) else {
            self.dropped_stale();
            return;
        };
        let cores = app.cores_granted;
        turn.persist(Change::RemoveApplication(id.clone()));
        let executors: Vec<_> = app.executors.keys().map(|executor| app.key(*executor)).collect();
        if state != ApplicationState::Finished {
            let message = message.to_owned();
            turn.tell_app(app.peer, ToApplication::ApplicationRemoved { message });
        }
        for key in executors {
            self.kill_executor(turn, &key, "its application ended");
        }
        self.tell_workers_of_end(turn, id);
        let app = self.apps.remove(id).expect("just looked at");
        self.queue.remove(&app.order);
        self.completed_apps.push_back(CompletedApplication {
            id: app.id,
            incarnation: app.incarnation,
            description: app.description,
            submitted: app.submitted,
            ended: turn.now,
            state,
            cores,
            next_executor: app.next_executor,
            message: message.to_owned(),
            may_return,
        });
        while self.completed_apps.len() > self.options.retained_applications {
            self.completed_apps.pop_front();
        }
        self.agenda.reschedule();
    }

    /// Drivers whose connection broke, or that were silent for too long.
    pub(super) fn give_up_silent_applications(&mut self, turn: &mut Turn<'_>) {
        if self.options.planted.is(Mutant::KeepsSilentApplications) {
            return;
        }
        let (timeout, grace) = (self.options.worker_timeout_ms, self.options.heartbeat_ms());
        let now = turn.now;
        let silent = self.apps.values().filter(|app| {
            let cut = app.disconnected.is_some_and(|since| now.since_ms(since) >= grace);
            cut || now.since_ms(app.last_seen) > timeout
        });
        let silent: Vec<AppId> = silent.map(|app| app.id.clone()).collect();
        for id in silent {
            let message = "its driver is gone";
            self.end_application(turn, &id, ApplicationState::Finished, message, true);
        }
    }

    /// Tells applications that have had no executor for long what there is too little of.
    pub(super) fn warn_starving(&mut self, turn: &mut Turn<'_>) {
        let patience = self.options.starvation_ms;
        let cores = self.workers.alive().map(Worker::free_cores).max().unwrap_or(0);
        let memory = self.workers.alive().map(Worker::free_memory_mb).max().unwrap_or(0);
        let workers = self.workers.alive().count();
        for app in self.apps.values_mut().filter(|app| app.executors.is_empty()) {
            if turn.now.since_ms(app.starving_since) < patience || app.limit == Some(0) {
                continue;
            }
            app.starving_since = turn.now;
            let wanted = app.description.cores_per_executor.unwrap_or(1);
            let wanted_memory = app.description.memory_per_executor_mb;
            let message = format!(
                "no executor can be had: one takes {wanted} core(s) and {wanted_memory} MB, and of \
                 {workers} live worker(s) none has more than {cores} core(s) and none more than \
                 {memory} MB free. Start workers, wait, or ask for less with spark.executor.cores and \
                 spark.executor.memory"
            );
            turn.tell_app(app.peer, ToApplication::ApplicationStarved { message });
        }
    }
}
