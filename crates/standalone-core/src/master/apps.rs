//! Applications register, send heartbeats, and end.

use std::sync::Arc;

use firesteel_backend::mutant::Mutant;
use firesteel_backend::{AppId, Peer};
use firesteel_types::{ExecutorId, Host, Tick};

use super::app_table::Ending;
use super::application::Missing;
use super::core::{Master, Turn};
use super::drivers::{too_large, too_long};
use super::records::ApplicationRecord;
use super::state::ApplicationState;
use super::worker_table::Workers;
use crate::Incarnation;
use crate::description::{ApplicationDescription, ExecutorState, ExecutorUpdate, ProcessEnd};
use crate::messages::{MasterReply, ToApplication};

/// What a driver registers with.
pub(super) struct Asked {
    pub(super) description: Arc<ApplicationDescription>,
    pub(super) incarnation: Incarnation,
    pub(super) previous: Option<AppId>,
    pub(super) first_executor: ExecutorId,
    /// Those that are registered with it.
    pub(super) executors: Vec<ExecutorId>,
}

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
        let known = self.apps.of(asked.incarnation).map(|app| app.id().clone());
        let ApplicationDescription { name, user, web_ui, .. } = &*asked.description;
        let previous = asked.previous.as_ref().map_or("", |id| &*id.0);
        let too_large = too_large(&asked.description.command)
            .or_else(|| too_long("name, user and address", &[name, user, web_ui, previous]));
        if let Some(why) = self.apps.why_over(asked.incarnation).map(str::to_owned).or(too_large) {
            return turn.tell_app(from, ToApplication::ApplicationRemoved { message: why });
        }
        let (executors, description) = (asked.executors.clone(), asked.description.clone());
        let is_new = known.is_none();
        let id = known.unwrap_or_else(|| self.admit_application(turn, from, asked));
        self.heard_of(turn, from, &id);
        let (url, heartbeat_ms) = (self.options.url.clone(), self.options.heartbeat_ms());
        let (app, elected) = (id.clone(), self.options.elected);
        let registered = ToApplication::RegisteredApplication { app, url, heartbeat_ms, elected };
        turn.tell_app(from, registered);
        if let Some(app) = self.apps.get_mut(&id) {
            app.renew(description);
        }
        if is_new && self.adopts() {
            self.adopt_executors_of(turn, &id);
            let app = self.apps.get_mut(&id).expect("just admitted");
            app.claim(executors);
        }
        self.agenda.reschedule();
    }

    /// A clock that was set back shows a second once more.
    fn unused_app(&mut self, now: Tick) -> AppId {
        loop {
            let id = self.ids.next_app(now);
            if !self.apps.is_taken(&id) {
                return id;
            }
        }
    }

    fn admit_application(&mut self, turn: &mut Turn<'_>, from: Peer, asked: Asked) -> AppId {
        let returned = self.apps.take_returned(asked.incarnation);
        let previous = returned.as_ref().map(|app| app.app.clone()).or(asked.previous);
        let previous = previous.filter(|id| !self.apps.is_taken(id));
        let id = previous.unwrap_or_else(|| self.unused_app(turn.now));
        let taken = returned.as_ref().map_or(ExecutorId(0), |app| app.next_executor);
        let limit = asked.description.initial_executor_limit;
        let record = ApplicationRecord {
            app: id.clone(),
            incarnation: asked.incarnation,
            description: asked.description,
            submitted: returned.map_or(turn.now, |app| app.submitted),
            next_executor: taken.max(asked.first_executor),
            order: 0,
            limit,
            executors: Vec::new(),
        };
        turn.touch_app(&id);
        self.apps.admit(record, from, turn.now);
        id
    }

    /// Whether a message about an application is of its own driver: it came over the connection over which that registered. The
    /// driver of another application, or one that made a new connection, has to register first (S27).
    pub(super) fn speaks_for(&mut self, turn: &mut Turn<'_>, from: Peer, id: &AppId) -> bool {
        let trusts = self.options.planted.is(Mutant::TrustsAnyApplication);
        if self.apps.get(id).is_none_or(|app| app.peer() != from && !trusts) {
            self.dropped_stale();
            turn.tell_app(from, ToApplication::ReconnectApplication);
            return false;
        }
        self.heard_of(turn, from, id);
        true
    }

    /// A message of the driver came over this connection.
    fn heard_of(&mut self, turn: &mut Turn<'_>, from: Peer, app: &AppId) {
        let Some(app) = self.apps.get_mut(app) else { return };
        self.agenda.reschedule_if(app.heard(turn.now, from));
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
        let adopts = self.adopts();
        let Some(app) = self.apps.get_mut(id) else { return };
        self.agenda.reschedule_if(app.set_excluded(excluded));
        let unknown = app.note_registered(turn.now, &registered, registrations);
        let (mut unknown, claimed): (Vec<_>, Vec<_>) =
            unknown.into_iter().partition(|id| !adopts || !app.may_adopt(*id));
        self.agenda.reschedule_if(app.has_claims() && claimed.is_empty());
        app.claim(claimed);
        for executor in unknown.drain(..) {
            let message = "the master knows no such executor".to_owned();
            let end = Some(ProcessEnd { message, status: None });
            let update = ExecutorUpdate { executor, state: ExecutorState::Lost, end };
            turn.tell_app(from, ToApplication::ExecutorUpdated(update));
        }
        self.tell_decommissioned(turn, id, &registered);
        self.set_limit(turn, id, limit);
    }

    pub(super) fn set_limit(&mut self, turn: &mut Turn<'_>, id: &AppId, limit: Option<u32>) {
        if self.apps.get_mut(id).is_some_and(|app| app.set_limit(limit)) {
            turn.touch_app(id);
            self.agenda.reschedule();
        }
    }

    pub(super) fn unregister(&mut self, turn: &mut Turn<'_>, id: &AppId) {
        self.end_application(turn, id, ApplicationState::Finished, "it is finished", false);
    }

    /// An operator ends an application: its driver hears why, and does not get in again.
    pub(super) fn kill_application(&mut self, turn: &mut Turn<'_>, from: Peer, id: AppId) {
        let result = match self.apps.get(&id) {
            None => Err(format!("{id} is not running: it has ended, or its id is wrong")),
            Some(_) => {
                let message = "it was killed from the master's page";
                self.end_application(turn, &id, ApplicationState::Killed, message, false);
                Ok(format!("{id} is killed"))
            }
        };
        turn.reply(from, MasterReply::KillApplicationResponse { app: id, result });
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
        let cores = app.cores_granted();
        turn.touch_app(id);
        let executors: Vec<_> = app.executors().map(|(executor, _)| app.key(executor)).collect();
        if state != ApplicationState::Finished {
            let message = message.to_owned();
            turn.tell_app(app.peer(), ToApplication::ApplicationRemoved { message });
        }
        for key in executors {
            self.kill_executor(turn, &key, "its application ended");
        }
        self.tell_workers_of_end(turn, id);
        let message = message.to_owned();
        self.apps.complete(id, Ending { at: turn.now, state, cores, message, may_return });
        self.agenda.reschedule();
    }

    /// Drivers whose connection broke, or that were silent for too long.
    pub(super) fn remove_silent_applications(&mut self, turn: &mut Turn<'_>) {
        if self.options.planted.is(Mutant::KeepsSilentApplications) {
            return;
        }
        let (timeout, grace) = (self.options.worker_timeout_ms, self.options.heartbeat_ms());
        let now = turn.now;
        let gone = self.apps.iter_mut().filter_map(|app| {
            let is_gone = app.is_cut_off(now, grace) || app.is_silent(now, timeout);
            is_gone.then(|| app.id().clone())
        });
        let silent: Vec<AppId> = gone.collect();
        for id in silent {
            let message = "its driver is gone";
            self.end_application(turn, &id, ApplicationState::Finished, message, true);
        }
    }

    /// Applications that were told that executors are missing hear when none is any more, or when some have come.
    pub(super) fn end_shortages(&mut self, turn: &mut Turn<'_>) {
        let default_cores = self.options.default_cores;
        let mut room = None;
        for app in self.apps.iter_mut().filter(|app| !app.is_unknown()) {
            let Some(missing) = app.note_missing(turn.now, default_cores) else { continue };
            let room = room.get_or_insert_with(|| Room::of(&self.workers));
            let shortage = missing.map(|missing| room.shortage(missing, app.description()));
            turn.tell_app(app.peer(), ToApplication::ApplicationStarved { shortage });
        }
    }

    /// Tells applications that have lacked executors for long what there is too little of. Not while workers of the master before this
    /// one have not answered: they may have it.
    pub(super) fn warn_starving(&mut self, turn: &mut Turn<'_>) {
        if self.workers.unknown().next().is_some() {
            return;
        }
        self.end_shortages(turn);
        let (patience, default_cores) = (self.options.starvation_ms, self.options.default_cores);
        let room = Room::of(&self.workers);
        for app in self.apps.iter_mut().filter(|app| !app.is_unknown()) {
            if let Some(missing) = app.starves(turn.now, patience, default_cores) {
                let shortage = Some(room.shortage(missing, app.description()));
                turn.tell_app(app.peer(), ToApplication::ApplicationStarved { shortage });
            }
        }
    }
}

/// What workers have free.
struct Room {
    /// Cores and memory of each.
    free: Vec<(u32, u64)>,
}

impl Room {
    fn of(workers: &Workers) -> Self {
        let usable = workers.alive().filter(|worker| !worker.is_decommissioned());
        let free = usable.map(|worker| (worker.free_cores(), worker.free_memory_mb()));
        Room { free: free.collect() }
    }

    /// Why an application lacks what it lacks, and what to do. What others leave free changes all the time: only an application that
    /// has nothing at all is told of it.
    fn shortage(&self, missing: Missing, asked: &ApplicationDescription) -> String {
        let cores = asked.cores_per_executor.unwrap_or(1);
        let memory_mb = asked.memory_per_executor_mb;
        let what = match missing {
            Missing::All => return self.none_at_all(cores, memory_mb),
            Missing::Executors { missing, of } => format!("{missing} of {of} executors"),
            Missing::Cores { missing, of } => format!("{missing} of {of} cores"),
        };
        let fits = |(free, free_mb): &(u32, u64)| *free >= cores && *free_mb >= memory_mb;
        let why = match self.free.iter().any(fits) {
            false => "no live worker has that free",
            true => "those workers that have that free are excluded, or its executors failed there",
        };
        format!(
            "{what} are missing: an executor takes {cores} core(s) and {memory_mb} MB, and {why}. It goes on with what it has; start \
             workers, wait, or ask for less with spark.cores.max, spark.executor.instances, spark.executor.cores and \
             spark.executor.memory"
        )
    }

    fn none_at_all(&self, wanted: u32, wanted_mb: u64) -> String {
        let workers = self.free.len();
        let cores = self.free.iter().map(|(cores, _)| *cores).max().unwrap_or(0);
        let memory_mb = self.free.iter().map(|(_, memory_mb)| *memory_mb).max().unwrap_or(0);
        format!(
            "no executor can be had: one takes {wanted} core(s) and {wanted_mb} MB, and of {workers} live worker(s) none has more than \
             {cores} core(s) and none more than {memory_mb} MB free. Start workers, wait, or ask for less with spark.executor.cores and \
             spark.executor.memory"
        )
    }
}
