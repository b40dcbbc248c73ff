//! One event in, effects out: where a master's messages go, and when it looks at the clock.

use firesteel_backend::Peer;
use firesteel_backend::mutant::Mutant;
use firesteel_types::Tick;

use super::agenda::{Agenda, Look};
use super::app_table::Applications;
use super::driver_table::Drivers;
use super::ids::Ids;
use super::options::MasterOptions;
use super::records::Change;
use super::state::RecoveryState;
use super::worker_table::Workers;
use crate::Epoch;
use crate::messages::{MasterReply, Stamped, ToApplication, ToMaster, ToWorker};

/// Into a master.
#[derive(Clone, Debug)]
pub enum MasterEvent {
    /// A message from a worker, a driver or a client.
    Received {
        /// Over which connection.
        from: Peer,
        message: ToMaster,
    },
    /// A connection is broken, for good.
    PeerDisconnected { peer: Peer },
    /// A moment asked for by [`MasterEffect::ArmTimer`] has come; the first one starts the master.
    Ticked,
}

/// Out of a master, in order.
#[derive(Clone, Debug)]
pub enum MasterEffect {
    /// Keep this, before anything that follows is done.
    Persist(Change),
    SendWorker {
        /// Over which connection.
        to: Peer,
        stamped: Stamped<ToWorker>,
    },
    /// Tell a driver.
    SendApplication {
        /// Over which connection.
        to: Peer,
        stamped: Stamped<ToApplication>,
    },
    /// Answer a request.
    Reply {
        /// Over which connection.
        to: Peer,
        stamped: Stamped<MasterReply>,
    },
    /// Feed `Ticked` at this moment.
    ArmTimer(Tick),
}

/// One call of [`Master::handle`]: its moment and its effects.
pub(super) struct Turn<'a> {
    pub(super) now: Tick,
    pub(super) epoch: Epoch,
    pub(super) out: &'a mut Vec<MasterEffect>,
}

impl Turn<'_> {
    pub(super) fn tell_worker(&mut self, to: Peer, message: ToWorker) {
        let stamped = Stamped { epoch: self.epoch, message };
        self.out.push(MasterEffect::SendWorker { to, stamped });
    }

    pub(super) fn tell_app(&mut self, to: Peer, message: ToApplication) {
        let stamped = Stamped { epoch: self.epoch, message };
        self.out.push(MasterEffect::SendApplication { to, stamped });
    }

    pub(super) fn reply(&mut self, to: Peer, message: MasterReply) {
        let stamped = Stamped { epoch: self.epoch, message };
        self.out.push(MasterEffect::Reply { to, stamped });
    }

    pub(super) fn persist(&mut self, change: Change) {
        self.out.push(MasterEffect::Persist(change));
    }
}

/// The master's state machine.
#[derive(Debug)]
pub struct Master {
    pub(super) options: MasterOptions,
    status: RecoveryState,
    pub(super) ids: Ids,
    pub(super) agenda: Agenda,
    pub(super) workers: Workers,
    pub(super) apps: Applications,
    pub(super) drivers: Drivers,
    stale: u64,
}

impl Master {
    /// A master without workers. `epoch` is the moment it began to act, in milliseconds since 1970: larger than that of
    /// any master before it, unless a clock was wrong. Then those who know a later one tell it.
    pub fn new(options: MasterOptions, epoch: Epoch, status: RecoveryState) -> Self {
        Master {
            status,
            ids: Ids::new(epoch, options.first_number),
            agenda: Agenda::default(),
            workers: Workers::default(),
            apps: Applications::new(options.retained_applications),
            drivers: Drivers::new(options.retained_drivers),
            stale: 0,
            options,
        }
    }

    /// Takes one event and appends what is to be done about it, in order.
    pub fn handle(&mut self, now: Tick, event: MasterEvent, out: &mut Vec<MasterEffect>) {
        let turn = &mut Turn { now, epoch: self.ids.epoch(), out };
        match event {
            MasterEvent::Received { from, message } if self.status == RecoveryState::Standby => {
                self.decline(turn, from, &message);
            }
            MasterEvent::Received { from, message } => self.received(turn, from, message),
            MasterEvent::PeerDisconnected { peer } => self.peer_disconnected(turn, peer),
            MasterEvent::Ticked => self.ticked(turn),
        }
        if self.agenda.take_reschedule() && self.status == RecoveryState::Alive {
            self.schedule(turn);
        }
        turn.out.extend(self.agenda.arm(now).map(MasterEffect::ArmTimer));
    }

    /// Another master leads: workers and drivers have to register there.
    fn decline(&mut self, turn: &mut Turn<'_>, from: Peer, message: &ToMaster) {
        match message {
            ToMaster::RegisterWorker { .. } => turn.tell_worker(from, ToWorker::MasterInStandby),
            ToMaster::RegisterApplication { .. } => {
                turn.tell_app(from, ToApplication::MasterInStandby);
            }
            ToMaster::RequestSubmitDriver { .. }
            | ToMaster::RequestKillDriver { .. }
            | ToMaster::RequestDriverStatus { .. }
            | ToMaster::RequestKillAllDrivers
            | ToMaster::RequestClearCompletedDriversAndApps
            | ToMaster::RequestReadyz => {
                turn.reply(from, MasterReply::MasterInStandby);
            }
            _ => self.dropped_stale(),
        }
    }

    fn received(&mut self, turn: &mut Turn<'_>, from: Peer, message: ToMaster) {
        match message {
            ToMaster::RegisterWorker { worker, state, newest } => {
                let known = self.workers.get(&worker.id).map(|known| known.description());
                let known = known.is_some_and(|known| known.incarnation == worker.incarnation);
                self.outdo(turn, newest, known);
                self.register_worker(turn, from, worker, state);
            }
            ToMaster::WorkerLatestState { worker, registration, state }
            | ToMaster::Heartbeat { worker, registration, state } => {
                self.worker_reported(turn, from, (worker, registration), state);
            }
            ToMaster::ExecutorStateChanged { worker, registration, number, report } => {
                if self.is_new(turn, from, (&worker, registration), number) {
                    self.executor_reported(turn, &worker, report);
                }
            }
            ToMaster::DriverStateChanged { worker, registration, number, report } => {
                if self.is_new(turn, from, (&worker, registration), number) {
                    self.driver_reported(turn, &worker, report);
                }
            }
            ToMaster::RegisterApplication {
                description,
                incarnation,
                previous,
                first_executor,
                newest,
            } => {
                self.outdo(turn, newest, self.apps.of(incarnation).is_some());
                let asked =
                    super::apps::Asked { description, incarnation, previous, first_executor };
                self.register_application(turn, from, asked);
            }
            ToMaster::ApplicationHeartbeat { app, limit, executors, registrations, excluded } => {
                let report = super::apps::Report { limit, executors, registrations, excluded };
                self.application_reported(turn, from, &app, report);
            }
            ToMaster::RequestExecutors { app, total } => {
                self.limit_changed(turn, from, &app, total)
            }
            ToMaster::KillExecutors { app, executors } => {
                self.kill_executors(turn, &app, &executors);
            }
            ToMaster::UnregisterApplication { app } => self.unregister(turn, &app),
            ToMaster::MasterChangeAcknowledged { app } => self.heard_of(turn, from, &app),
            ToMaster::RequestSubmitDriver { description } => {
                self.submit_driver(turn, from, description);
            }
            ToMaster::RequestKillDriver { driver } => self.kill_driver(turn, from, driver),
            ToMaster::RequestDriverStatus { driver } => self.driver_status(turn, from, driver),
            ToMaster::RequestKillAllDrivers => {
                self.kill_all_drivers(turn);
                turn.reply(from, MasterReply::Done);
            }
            ToMaster::RequestClearCompletedDriversAndApps => {
                self.apps.clear_completed();
                self.drivers.clear_completed();
                turn.reply(from, MasterReply::Done);
            }
            ToMaster::RequestReadyz => turn.reply(from, MasterReply::Done),
        }
    }

    /// A worker or driver that comes from another master obeys none before it: this one's epoch is larger from now on, whatever the
    /// clocks of both showed when they began (S06).
    fn outdo(&mut self, turn: &mut Turn<'_>, newest: Epoch, is_known: bool) {
        let later = newest > turn.epoch || newest == turn.epoch && !is_known;
        if later && !self.options.planted.is(Mutant::TrustsItsClock) {
            self.ids.outdo(newest);
            turn.epoch = self.ids.epoch();
        }
    }

    fn peer_disconnected(&mut self, turn: &mut Turn<'_>, peer: Peer) {
        let gone = self.workers.alive_behind(peer).map(|worker| worker.id().clone());
        if let Some(id) = gone {
            self.lose_worker(turn, &id, "its connection broke");
        }
        self.apps.iter_mut().for_each(|app| app.peer_disconnected(turn.now, peer));
    }

    fn ticked(&mut self, turn: &mut Turn<'_>) {
        let look = self.agenda.ticked(turn.now, self.options.heartbeat_ms());
        if look == Look::Early {
            return;
        }
        // Late: what came while this process stood still is read before anybody is judged.
        let deaf = self.options.planted.is(Mutant::JudgesWorkersBacklog);
        if look != Look::Late || deaf {
            self.remove_silent_workers(turn);
            self.remove_silent_applications(turn);
        }
        self.warn_starving(turn);
    }

    /// A message was dropped because what it speaks of is over.
    pub(super) fn dropped_stale(&mut self) {
        self.stale += 1;
    }

    /// What this master is doing.
    pub fn status(&self) -> RecoveryState {
        self.status
    }

    /// Messages that were dropped because what they spoke of is over.
    pub fn stale_messages(&self) -> u64 {
        self.stale
    }

    /// Panics, naming the invariant, if the books do not add up. For tests and the simulator.
    pub fn assert_invariants(&self) {
        self.workers.assert_consistent();
        self.drivers.assert_consistent();
        self.apps.assert_consistent();
        for app in self.apps.iter() {
            for (id, executor) in app.executors() {
                let worker = self.workers.get(&executor.worker);
                let booked = worker.is_some_and(|worker| worker.holds_executor(&app.key(id)));
                assert!(booked, "S01: executor {}/{id} is not booked", app.id());
            }
        }
    }
}
