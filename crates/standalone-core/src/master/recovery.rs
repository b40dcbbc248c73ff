//! How a master comes to lead, takes over what those before it knew, and stops leading.
//!
//! With records, workers and applications are UNKNOWN until they register again; when all have, or after
//! `spark.deploy.recoveryTimeout`, the rest is declared dead by the one way in which everything is. Without records (no
//! recovery mode, a lost store) it adopts for as long what workers and drivers report, and kills nothing for being unknown.
//!
//! Invariants: terms only grow, and a master that does not lead, or not surely, launches and kills nothing (S24). A leader's
//! state is what is persisted (S15).

use std::collections::BTreeMap;

use firesteel_backend::mutant::Mutant;
use firesteel_backend::{AppId, Peer};
use firesteel_types::{ExecutorId, Tick};

use super::application::Application;
use super::core::{Master, MasterEffect, Turn};
use super::ids::LARGEST_TERM;
use super::records::{ApplicationRecord, DriverRecord, ExecutorRecord, Fence, Records};
use super::state::ApplicationState;
use super::worker_table::{Slot, Worker};
use crate::description::{DriverDescription, DriverReport, ExecutorReport, ExecutorState};
use crate::messages::{Follower, ToApplication, ToWorker};
use crate::{DriverId, ExecutorKey, Term, WorkerId};

/// What a master without records makes of an executor that it does not know.
pub(super) enum Unknown {
    /// It counts on it from now on.
    Adopted,
    /// Its driver may still come.
    Waits,
    /// Nobody counts on it.
    Unwanted,
}

impl Master {
    /// It leads, in a term beyond all that it or the store know.
    pub(super) fn elected(&mut self, turn: &mut Turn<'_>, records: Records, lease: Option<Tick>) {
        self.forget_everything();
        let known = self.known_term(turn.now, &records);
        match self.options.planted.is(Mutant::KeepsItsTerm) {
            true => self.ids.begin_again(turn.now, known),
            false => self.ids.begin(turn.now, known),
        }
        turn.term = self.ids.term();
        turn.touch_term();
        self.leadership.hear(turn.term);
        let recovers = !records.is_new();
        let until = turn.now.plus_ms(self.options.recovery_timeout_ms);
        self.leadership.begin(recovers, until, lease);
        self.agenda.begin(turn.now, self.options.heartbeat_ms());
        self.restore(turn, records);
        for (peer, follower) in self.leadership.followers() {
            let (worker, app) = (self.options.url.clone(), self.options.url.clone());
            let changed = ToWorker::MasterChanged { url: worker };
            turn.tell(peer, follower, (changed, ToApplication::MasterChanged { url: app }));
        }
    }

    /// The largest term there was. Where a store has lost what it had, nobody tells of leaders that were elected since this master heard of one:
    /// it leaves room for their terms, by the clock, and by a number of its own for those whose clocks were ahead.
    fn known_term(&self, now: Tick, records: &Records) -> Term {
        let heard = self.leadership.heard();
        let lost = records.is_new() && heard > Term(0);
        if !lost || self.options.planted.is(Mutant::LeavesNoRoomForTerms) {
            return records.term.max(heard);
        }
        let room = 1 + u64::from(self.options.first_number);
        Term(heard.0.saturating_add(room).max(now.0))
    }

    fn forget_everything(&mut self) {
        self.workers.clear();
        self.apps.forget_active();
        self.drivers.forget_active();
        self.agenda.end();
    }

    /// What was persisted, as it was: nobody has answered yet.
    fn restore(&mut self, turn: &mut Turn<'_>, records: Records) {
        let Records { workers, apps, drivers, .. } = records;
        for record in workers.into_values() {
            let registration = self.ids.next_registration();
            self.workers.insert(Worker::unknown(record, registration, turn.now));
        }
        let mut apps: Vec<ApplicationRecord> = apps.into_values().collect();
        apps.sort_by_key(|app| app.order);
        if self.options.planted.is(Mutant::ForgetsTheQueue) {
            apps.reverse();
            apps.iter_mut().zip(0..).for_each(|(app, order)| app.order = order);
        }
        apps.into_iter().for_each(|app| self.restore_application(turn, app));
        let mut drivers = self.without_replaced(turn, drivers);
        drivers.sort_by(|a, b| (a.submitted, &a.driver).cmp(&(b.submitted, &b.driver)));
        drivers.into_iter().for_each(|driver| self.restore_driver(turn, driver));
    }

    fn restore_application(&mut self, turn: &mut Turn<'_>, mut record: ApplicationRecord) {
        let (id, all) = (record.app.clone(), std::mem::take(&mut record.executors));
        let mut executors = all.clone();
        executors.retain(|executor| {
            let key = ExecutorKey { app: id.clone(), executor: executor.executor };
            self.book_executor(&executor.worker, key, slot_of(executor))
        });
        if executors.len() < all.len() {
            turn.touch_app(&id);
        }
        self.apps.restore(record, executors, turn.now);
    }

    /// A store that takes a write in several parts may have taken only the first of them: a driver whose place another one takes is over.
    fn without_replaced(
        &self,
        turn: &mut Turn<'_>,
        mut drivers: BTreeMap<DriverId, DriverRecord>,
    ) -> Vec<DriverRecord> {
        let replaced = |record: &DriverRecord| {
            let fence = record.fence.as_ref()?;
            (fence.driver != record.driver).then(|| fence.driver.clone())
        };
        let replaced: Vec<DriverId> = drivers.values().filter_map(replaced).collect();
        for id in replaced {
            if drivers.remove(&id).is_some() {
                turn.touch_driver(&id);
            }
        }
        drivers.into_values().collect()
    }

    /// A store that takes a write in several parts may have taken only the first of them: a driver whose worker is not there was
    /// lost with it, and one that has no place on its worker is not to run twice.
    fn restore_driver(&mut self, turn: &mut Turn<'_>, record: DriverRecord) {
        let DriverDescription { cores, memory_mb, .. } = *record.description;
        let (id, slot, fence_ms) =
            (record.driver.clone(), Slot { cores, memory_mb }, self.options.fence_ms());
        let place = record.worker.clone().map(|worker| (self.workers.get_mut(&worker), worker));
        match place {
            None => self.drivers.insert(record, turn.now, fence_ms),
            Some((Some(entry), _)) if entry.has_capacity(slot) => {
                entry.book_driver(id, slot);
                self.drivers.insert(record, turn.now, fence_ms);
            }
            Some((Some(_), worker)) => {
                turn.touch_driver(&id);
                let fence = Some(Fence { driver: id, worker });
                let record = DriverRecord { worker: None, fence, ..record };
                self.drivers.insert(record, turn.now, fence_ms);
            }
            Some((None, _)) => {
                self.drivers.insert(record, turn.now, fence_ms);
                let why = "that one was gone when this master began to lead";
                self.driver_lost(turn, &id, turn.now, why);
            }
        }
    }

    /// False if there is no such worker, or it has too little.
    fn book_executor(&mut self, worker: &WorkerId, key: ExecutorKey, slot: Slot) -> bool {
        let worker = self.workers.get_mut(worker).filter(|worker| worker.has_capacity(slot));
        worker.map(|worker| worker.book_executor(key, slot)).is_some()
    }

    /// All that were to answer have: this master is ALIVE.
    pub(super) fn complete_if_all_answered(&mut self, turn: &mut Turn<'_>) {
        let hasty = self.options.planted.is(Mutant::DropsTheUnknown);
        if self.leadership.is_recovering() && (hasty || !self.anybody_unknown()) {
            self.complete_recovery(turn);
        }
    }

    fn anybody_unknown(&self) -> bool {
        self.workers.unknown().next().is_some() || self.apps.iter().any(Application::is_unknown)
    }

    /// Those who have not answered are gone.
    pub(super) fn complete_recovery(&mut self, turn: &mut Turn<'_>) {
        if self.options.planted.is(Mutant::WaitsForTheUnknown) && self.anybody_unknown() {
            return;
        }
        self.leadership.completes();
        let workers: Vec<WorkerId> = self.workers.unknown().map(|w| w.id().clone()).collect();
        for id in workers {
            self.lose_worker(turn, &id, "it did not register with the new master");
        }
        let unknown = self.apps.iter().filter(|app| app.is_unknown());
        let apps: Vec<AppId> = unknown.map(|app| app.id().clone()).collect();
        for id in apps {
            let message = "its driver did not register with the new master";
            self.end_application(turn, &id, ApplicationState::Finished, message, true);
        }
        self.leadership.is_alive();
        self.agenda.reschedule();
    }

    /// Before anything else: a master that stood still for longer than its lease may not be the leader any more (S24).
    pub(super) fn check_lease(&mut self, turn: &mut Turn<'_>) {
        let ignores = self.options.planted.is(Mutant::IgnoresItsLease);
        if self.leadership.has_run_out(turn.now) && !ignores {
            self.step_down(turn, "its lease ran out before the store answered".to_owned());
        }
    }

    pub(super) fn deposed(&mut self, turn: &mut Turn<'_>, reason: String) {
        if !self.options.planted.is(Mutant::IgnoresDeposition) {
            self.step_down(turn, reason);
        }
    }

    /// It leads no longer, and knows nothing. Those who followed it look for another leader.
    fn step_down(&mut self, turn: &mut Turn<'_>, reason: String) {
        if !self.leadership.leads() {
            return;
        }
        self.leadership.end();
        self.forget_everything();
        turn.untouch();
        turn.out.push(MasterEffect::StepDown { reason });
        for (peer, follower) in self.leadership.followers() {
            let reconnect = (ToWorker::ReconnectWorker, ToApplication::ReconnectApplication);
            turn.tell(peer, follower, reconnect);
        }
    }

    pub(super) fn note_follower(&mut self, peer: Peer, follower: Follower, newest: Term) {
        self.leadership.note(peer, follower);
        let newest = newest.min(LARGEST_TERM);
        if !self.options.planted.is(Mutant::TrustsItsClock) {
            self.leadership.hear(newest);
        }
    }

    /// Somebody wants to register who obeys masters of this term and later ones. False if this one does not lead any more.
    pub(super) fn is_leader_for(
        &mut self,
        turn: &mut Turn<'_>,
        (peer, follower): (Peer, Follower),
        newest: Term,
        known: bool,
    ) -> bool {
        self.note_follower(peer, follower, newest);
        self.leads_beyond(turn, newest, known)
    }

    /// Somebody obeys masters of this term and later ones. Where masters are elected, another one leads, or the store has
    /// lost its term: this one stands for election again, and will be beyond it. Else it is beyond it at once, and
    /// persists that. False if it does not lead any more.
    pub(super) fn leads_beyond(&mut self, turn: &mut Turn<'_>, newest: Term, known: bool) -> bool {
        let (elected, newest) = (self.options.elected, newest.min(LARGEST_TERM));
        let later = newest > turn.term || newest == turn.term && !known && !elected;
        let planted = self.options.planted;
        if !later || planted.is(Mutant::TrustsItsClock) {
            return true;
        }
        if elected {
            let term = turn.term;
            self.step_down(turn, format!("{newest} is known, and this master's is {term}"));
            return false;
        }
        self.ids.outdo(newest);
        turn.term = self.ids.term();
        self.leadership.hear(turn.term);
        turn.touch_term();
        true
    }

    /// Somebody is registered with another master: the one with the larger term is to be followed.
    pub(super) fn followed(
        &mut self,
        turn: &mut Turn<'_>,
        from: Peer,
        follower: Follower,
        newest: Term,
    ) {
        self.note_follower(from, follower, newest);
        if self.options.elected && !self.leads_beyond(turn, newest, true) {
            return;
        }
        if newest < turn.term {
            let reconnect = (ToWorker::ReconnectWorker, ToApplication::ReconnectApplication);
            turn.tell(from, follower, reconnect);
        }
    }

    /// Whether what is not known may have been ordered by a master before this one.
    pub(super) fn adopts(&self) -> bool {
        self.leadership.adopts() && !self.options.planted.is(Mutant::KillsTheUnknown)
    }

    /// A worker tells of an executor that its application does not count on there.
    pub(super) fn adopt_executor(
        &mut self,
        turn: &mut Turn<'_>,
        worker: &WorkerId,
        report: &ExecutorReport,
    ) -> Unknown {
        let key = &report.key;
        if !self.adopts() {
            return Unknown::Unwanted;
        }
        let Some(app) = self.apps.get(&key.app) else {
            let over = self.apps.is_taken(&key.app);
            return if over { Unknown::Unwanted } else { Unknown::Waits };
        };
        let slot = Slot { cores: report.cores, memory_mb: report.memory_mb };
        let booked = self.workers[worker].holds_executor(key);
        if !app.may_adopt(key.executor) || !booked && !self.book_executor(worker, key.clone(), slot)
        {
            return Unknown::Unwanted;
        }
        self.count_on(turn, worker, key, slot, report.state);
        Unknown::Adopted
    }

    /// Executors of an application that registered again, on workers that came back before it.
    pub(super) fn adopt_executors_of(&mut self, turn: &mut Turn<'_>, id: &AppId) {
        let of_app = |worker: &Worker| {
            let own = worker.executor_slots().filter(|(key, _)| key.app == *id);
            own.map(|(key, slot)| (worker.id().clone(), key.clone(), slot)).collect::<Vec<_>>()
        };
        let found: Vec<_> = self.workers.alive().flat_map(of_app).collect();
        for (worker, key, slot) in found {
            self.count_on(turn, &worker, &key, slot, ExecutorState::Running);
        }
    }

    fn count_on(
        &mut self,
        turn: &mut Turn<'_>,
        worker: &WorkerId,
        key: &ExecutorKey,
        slot: Slot,
        state: ExecutorState,
    ) {
        turn.touch_app(&key.app);
        let host = self.workers[worker].host().clone();
        let Some(app) = self.apps.get_mut(&key.app) else { return };
        let Slot { cores, memory_mb } = slot;
        let (executor, worker) = (key.executor, worker.clone());
        let record = ExecutorRecord { executor, worker: worker.clone(), cores, memory_mb };
        // A driver that has it needs no word of it; one that does not may never have heard of the order.
        if app.adopt(record, state, turn.now) {
            let added = ToApplication::ExecutorAdded { executor, worker, host, cores, memory_mb };
            turn.tell_app(app.peer(), added);
        }
    }

    /// A worker that registers tells of a driver that nobody here submitted. True if this master counts on it now.
    pub(super) fn adopt_driver(
        &mut self,
        turn: &mut Turn<'_>,
        worker: &WorkerId,
        report: &DriverReport,
    ) -> Unknown {
        let id = &report.driver;
        if !self.adopts() || self.drivers.find(id).is_some() {
            return Unknown::Unwanted;
        }
        let Some(description) = report.description.clone() else { return Unknown::Waits };
        let slot = Slot { cores: description.cores, memory_mb: description.memory_mb };
        let entry = self.workers.get_mut(worker).expect("a registered worker reports");
        if !entry.holds_driver(id) {
            if !entry.has_capacity(slot) {
                return Unknown::Unwanted;
            }
            entry.book_driver(id.clone(), slot);
        }
        let (submitted, worker) = (turn.now, Some(worker.clone()));
        let record = DriverRecord {
            driver: id.clone(),
            description,
            submitted,
            worker,
            fence: None,
            whole: true,
        };
        self.drivers.insert(record, turn.now, 0);
        turn.touch_driver(id);
        Unknown::Adopted
    }

    /// What is persisted of an application.
    pub(super) fn record_of(&self, app: &Application) -> ApplicationRecord {
        let mut record = app.record();
        if self.options.planted.is(Mutant::PersistsNoExecutors) {
            record.executors.clear();
        }
        if self.options.planted.is(Mutant::PersistsNoLimits) {
            record.limit = None;
        }
        record
    }

    /// All that has to outlive it. For the simulator (S15).
    pub fn records(&self) -> Records {
        let mut records = Records { term: self.ids.term(), ..Records::default() };
        for record in self.workers.iter().filter_map(Worker::record) {
            records.workers.insert(record.worker.id.clone(), record);
        }
        for record in self.apps.iter().map(Application::record) {
            records.apps.insert(record.app.clone(), record);
        }
        for record in self.drivers.active().map(|(_, driver)| driver.record()) {
            records.drivers.insert(record.driver.clone(), record);
        }
        records
    }
}

fn slot_of(executor: &ExecutorRecord) -> Slot {
    Slot { cores: executor.cores, memory_mb: executor.memory_mb }
}

/// A number that no executor has.
pub(super) fn after(executor: ExecutorId) -> ExecutorId {
    ExecutorId(executor.0.saturating_add(1))
}
