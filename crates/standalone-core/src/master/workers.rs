//! Workers come, report and go.

use firesteel_backend::mutant::Mutant;
use firesteel_backend::{AppId, Peer};
use firesteel_types::Tick;

use super::core::{Master, Turn};
use super::drivers::too_long;
use super::state::WorkerStatus;
use super::worker_table::{Slot, Worker};
use crate::description::{
    DriverReport, DriverState, ExecutorReport, ExecutorState, WorkerDescription, WorkerState,
};
use crate::messages::{ToApplication, ToWorker};
use crate::{DriverId, ExecutorKey, Registration, WorkerId};

/// Why a worker may not join, and whether asking again may help.
struct Objection {
    reason: String,
    retry: bool,
}

impl Master {
    /// A worker wants to join. The same process asking again gets the same answer; one that was declared dead
    /// starts anew, and what it still runs is booked until it is gone.
    pub(super) fn register_worker(
        &mut self,
        turn: &mut Turn<'_>,
        from: Peer,
        worker: WorkerDescription,
        state: WorkerState,
    ) {
        for gone in self.workers.gone_from(&worker.address, &worker.id) {
            self.lose_worker(turn, &gone, "another worker is at its address");
        }
        if let Some(Objection { reason, retry }) = self.objection(&worker, &state) {
            let incarnation = worker.incarnation;
            let failed = ToWorker::RegisterWorkerFailed { incarnation, reason, retry };
            return turn.tell_worker(from, failed);
        }
        let id = worker.id.clone();
        let known = self.workers.get(&id).is_some_and(Worker::is_alive);
        if !known {
            self.admit(turn, from, worker, &state);
        }
        let entry = self.workers.get_mut(&id).expect("just admitted");
        entry.heard(turn.now, from);
        let registered = ToWorker::RegisteredWorker {
            registration: entry.registration(),
            url: self.options.url.clone(),
            web_ui: self.options.web_ui.clone(),
            heartbeat_ms: self.options.heartbeat_ms(),
            driver_lease_ms: self.options.driver_lease_ms,
            elected: self.options.elected,
        };
        turn.tell_worker(from, registered);
        if entry.is_new(state.number) {
            self.reconcile(turn, &id, state);
        }
        self.agenda.reschedule();
    }

    fn objection(&self, worker: &WorkerDescription, state: &WorkerState) -> Option<Objection> {
        let id = &worker.id;
        if worker.cores == 0 || worker.memory_mb == 0 {
            let reason = format!("{id} offers nothing: give it at least 1 core and 1 MB of memory");
            return Some(Objection { reason, retry: false });
        }
        let texts = [&*id.0, &*worker.address.host.0, &worker.web_ui];
        if let Some(why) = too_long("name and addresses", &texts) {
            let reason = format!("this worker cannot join, as {why}");
            return Some(Objection { reason, retry: false });
        }
        let known = self.workers.get(id).filter(|known| known.is_alive() || known.is_unknown());
        if known.is_some_and(|known| known.description().incarnation != worker.incarnation) {
            let reason =
                format!("the name {id} is taken by another worker: start it under another");
            return Some(Objection { reason, retry: false });
        }
        if self.is_outdated(worker, state) {
            let reason = format!("{id} runs more than this master knows of: register again");
            return Some(Objection { reason, retry: true });
        }
        let taken = self.workers.alive_at(&worker.address, id)?;
        let (address, other) = (&worker.address, taken.id());
        let reason =
            format!("{address} is still taken by {other}, which has not been declared dead yet");
        Some(Objection { reason, retry: true })
    }

    fn admit(
        &mut self,
        turn: &mut Turn<'_>,
        from: Peer,
        worker: WorkerDescription,
        state: &WorkerState,
    ) {
        let before = self.workers.get(&worker.id);
        let registration = match before.map(Worker::registration) {
            Some(before) if self.options.planted.is(Mutant::ReusesRegistrations) => before,
            _ => self.ids.next_registration(),
        };
        turn.touch_worker(&worker.id);
        let mut entry = Worker::new(worker, from, registration, turn.now);
        // An executor that waits for capacity there holds none.
        let running = |report: &&ExecutorReport| report.state == ExecutorState::Running;
        for report in state.executors.iter().filter(running) {
            let slot = Slot { cores: report.cores, memory_mb: report.memory_mb };
            entry.book_executor(report.key.clone(), slot);
        }
        let running = |report: &&DriverReport| report.state == DriverState::Running;
        for report in state.drivers.iter().filter(running) {
            let slot = Slot { cores: report.cores, memory_mb: report.memory_mb };
            entry.book_driver(report.driver.clone(), slot);
        }
        self.rebook(entry);
    }

    /// What is counted on there and was not mentioned stays booked: its order is repeated. There is capacity for it.
    fn rebook(&mut self, mut entry: Worker) {
        if let Some(before) = self.workers.get(entry.id()) {
            entry.succeed(before);
            for (key, slot) in before.executor_slots() {
                if !entry.holds_executor(key) {
                    entry.book_executor(key.clone(), slot);
                }
            }
            for (driver, slot) in before.driver_slots() {
                if !entry.holds_driver(driver) {
                    entry.book_driver(driver.clone(), slot);
                }
            }
        }
        self.workers.insert(entry);
    }

    /// Whether what a worker says it runs leaves no capacity for what was ordered there since: it said so before that, or what
    /// was there is still ending.
    fn is_outdated(&self, worker: &WorkerDescription, state: &WorkerState) -> bool {
        let Some(before) = self.workers.get(&worker.id).filter(|known| known.is_unknown()) else {
            return false;
        };
        let running = |state: ExecutorState| state == ExecutorState::Running;
        let executors = state.executors.iter().filter(|report| running(report.state));
        let executors: Vec<_> = executors.map(|r| (&r.key, r.cores, r.memory_mb)).collect();
        let drivers = state.drivers.iter().filter(|report| report.state == DriverState::Running);
        let drivers: Vec<_> = drivers.map(|r| (&r.driver, r.cores, r.memory_mb)).collect();
        let missing = before.executor_slots();
        let missing = missing.filter(|(key, _)| !executors.iter().any(|(other, ..)| other == key));
        let waiting = before.driver_slots();
        let waiting = waiting.filter(|(id, _)| !drivers.iter().any(|(other, ..)| other == id));
        let told = executors.iter().map(|(_, cores, mb)| (*cores, *mb));
        let told = told.chain(drivers.iter().map(|(_, cores, mb)| (*cores, *mb)));
        let slots = missing.map(|(_, slot)| slot).chain(waiting.map(|(_, slot)| slot));
        let all = told.chain(slots.map(|slot| (slot.cores, slot.memory_mb)));
        let (cores, memory_mb) = all.fold((0, 0), |(c, m), (cores, mb)| (c + cores, m + mb));
        cores > worker.cores || memory_mb > worker.memory_mb
    }

    /// A worker that is registered tells what it runs.
    pub(super) fn worker_reported(
        &mut self,
        turn: &mut Turn<'_>,
        from: Peer,
        (id, registration): (WorkerId, Registration),
        state: WorkerState,
    ) {
        let number = state.number;
        if self.is_new(turn, from, (&id, registration), number) {
            let live = state.drivers.iter().filter(|report| !report.state.is_finished());
            let live: Vec<_> = live.map(|report| report.driver.clone()).collect();
            self.move_fences(turn, &id, &live);
            self.reconcile(turn, &id, state);
            turn.tell_worker(from, ToWorker::HeartbeatKnown { registration, number });
        }
    }

    /// A worker ends: nobody has to wait until it is missed. It says so once more when its drivers are gone.
    pub(super) fn worker_ends(
        &mut self,
        turn: &mut Turn<'_>,
        (id, registration): (&WorkerId, Registration),
        drivers: &[DriverId],
    ) {
        if self.workers.get(id).is_none_or(|worker| worker.registration() != registration) {
            return self.dropped_stale();
        }
        self.lose_worker(turn, id, "it was told to end");
        self.move_fences(turn, id, drivers);
    }

    /// Whether a message of a worker counts: it is registered under that number, and has not said
    /// anything later (S06). One that is not registered is asked to register.
    pub(super) fn is_new(
        &mut self,
        turn: &mut Turn<'_>,
        from: Peer,
        (id, registration): (&WorkerId, Registration),
        number: u64,
    ) -> bool {
        let Some(worker) = self.workers.registered(id, registration) else {
            self.dropped_stale();
            turn.tell_worker(from, ToWorker::ReconnectWorker);
            return false;
        };
        let is_new = worker.is_new(number);
        if is_new {
            worker.heard(turn.now, from);
        } else {
            self.dropped_stale();
        }
        is_new
    }

    /// Compares what a worker says with what is booked, and repeats what it has not heard.
    fn reconcile(&mut self, turn: &mut Turn<'_>, id: &WorkerId, state: WorkerState) {
        let knows_its_end = state.decommissioned;
        let known: Vec<ExecutorKey> = state.executors.iter().map(|r| r.key.clone()).collect();
        for report in state.executors {
            self.executor_reported(turn, id, report);
        }
        self.repeat_orders(turn, id, &known);
        self.reconcile_drivers(turn, id, state.drivers);
        let worker = &self.workers[id];
        let adopts = self.adopts();
        let is_over =
            |app: &AppId| self.apps.get(app).is_none() && (!adopts || self.apps.is_taken(app));
        for app in state.apps.into_iter().filter(is_over) {
            turn.tell_worker(worker.peer(), ToWorker::ApplicationFinished { app });
        }
        self.reconcile_decommission(turn, id, knows_its_end);
    }

    /// Repeats launches that the worker does not know, and kills that it has not confirmed.
    fn repeat_orders(&mut self, turn: &mut Turn<'_>, id: &WorkerId, known: &[ExecutorKey]) {
        let worker = &self.workers[id];
        let (peer, registration) = (worker.peer(), worker.registration());
        for key in worker.executor_keys() {
            let app = self.apps.get(&key.app);
            let executor = app.and_then(|app| app.executor(key.executor));
            match (app, executor) {
                (Some(app), Some(executor)) => {
                    let waited = turn.now.since_ms(executor.ordered);
                    let late = waited >= self.options.heartbeat_ms() && !known.contains(key);
                    let forgets = self.options.planted.is(Mutant::ForgetsLostLaunches);
                    if executor.state == ExecutorState::Launching && late && !forgets {
                        let launch = ToWorker::LaunchExecutor {
                            registration,
                            key: key.clone(),
                            description: app.description().clone(),
                            cores: executor.cores,
                            memory_mb: executor.memory_mb,
                            peers: self.peers_for(app, id),
                        };
                        turn.tell_worker(peer, launch);
                    }
                }
                (None, _) if self.adopts() && !self.apps.is_taken(&key.app) => {}
                _ => {
                    let kill = ToWorker::KillExecutor { registration, key: key.clone() };
                    turn.tell_worker(peer, kill);
                }
            }
        }
    }

    /// Declares a worker dead, and removes all that runs on it. The one way to lose a worker.
    pub(super) fn lose_worker(&mut self, turn: &mut Turn<'_>, id: &WorkerId, why: &str) {
        let counted = |worker: &&mut Worker| worker.is_alive() || worker.is_unknown();
        let Some(worker) = self.workers.get_mut(id).filter(counted) else {
            return;
        };
        let (executors, drivers) = worker.declare_dead();
        let (host, heard) = (worker.host().clone(), worker.last_heartbeat());
        let message = format!("worker {id} on {host} was declared dead: {why}");
        turn.touch_worker(id);
        for key in executors {
            self.executor_ended(turn, &key, ExecutorState::Lost, None, &message);
        }
        for driver in drivers {
            self.driver_lost(turn, &driver, heard, &message);
        }
        for app in self.apps.iter() {
            let (worker, host, message) = (id.clone(), host.clone(), message.clone());
            turn.tell_app(app.peer(), ToApplication::WorkerRemoved { worker, host, message });
        }
        self.agenda.reschedule();
    }

    pub(super) fn remove_silent_workers(&mut self, turn: &mut Turn<'_>) {
        let timeout = self.options.worker_timeout_ms;
        for id in self.workers.silent(turn.now, timeout) {
            self.lose_worker(turn, &id, &format!("it was silent for more than {timeout} ms"));
        }
        let rounds = u64::from(self.options.dead_worker_persistence) + 1;
        self.workers.forget_dead(turn.now, rounds.saturating_mul(timeout));
    }

    /// Workers whose connection broke one heartbeat ago: they would have come back by now.
    pub(super) fn remove_cut_off_workers(&mut self, turn: &mut Turn<'_>) {
        if self.spares_the_cut_off() {
            return;
        }
        for id in self.workers.cut_off(turn.now, self.options.heartbeat_ms()) {
            self.lose_worker(turn, &id, "its connection broke, and it did not come back");
        }
    }

    /// Never, without a mistake in it.
    pub(super) fn spares_the_cut_off(&self) -> bool {
        self.options.planted.is(Mutant::SparesTheCutOff) && self.leadership.is_recovering()
    }

    /// The application is over: workers need nothing of it any more.
    pub(super) fn tell_workers_of_end(&self, turn: &mut Turn<'_>, app: &AppId) {
        for worker in self.workers.alive() {
            turn.tell_worker(worker.peer(), ToWorker::ApplicationFinished { app: app.clone() });
        }
    }

    /// Whether a worker counts as alive, and since when it was last heard. For the simulator.
    pub fn worker_status(&self, id: &WorkerId) -> Option<(WorkerStatus, Tick)> {
        self.workers.get(id).map(|worker| (worker.status(), worker.last_heartbeat()))
    }
}
