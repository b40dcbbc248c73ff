//! One event in, effects out: where a master's messages go, and when it looks at the clock.

use firesteel_backend::Peer;
use firesteel_backend::mutant::Mutant;
use firesteel_types::Tick;

use super::agenda::{Agenda, Look};
use super::app_table::Applications;
use super::apps::{Asked, Report};
use super::driver_table::Drivers;
use super::ids::Ids;
use super::leadership::Leadership;
use super::options::MasterOptions;
use super::records::{Change, Records, Touched};
use super::state::RecoveryState;
use super::worker_table::Workers;
use crate::messages::{Follower, MasterReply, Stamped, ToApplication, ToMaster, ToWorker};
use crate::{DriverId, Term, WorkerId};
use firesteel_backend::AppId;

#[derive(Clone, Debug)]
pub enum MasterEvent {
    /// A message from a worker, a driver or a client.
    Received {
        /// The connection it came over.
        from: Peer,
        message: ToMaster,
    },
    /// A connection is broken, for good.
    PeerDisconnected { peer: Peer },
    /// A moment asked for by [`MasterEffect::ArmTimer`] has come.
    Ticked,
    /// This master is to lead: nobody else writes to the store from now on.
    Elected {
        /// What the masters before it persisted.
        records: Records,
        /// Until when that holds, unless it is renewed; `None`: for ever.
        lease: Option<Tick>,
    },
    /// The store answered: it is sure that nobody else leads before this moment.
    LeaseRenewed { until: Tick },
    /// Another master leads, or it is not known which.
    LeaderKnown { url: Option<String> },
    /// This master leads no longer: a write failed, or its store says so.
    Deposed {
        /// For the log: nothing decides by it.
        reason: String,
    },
}

/// Out of a master, in order.
#[derive(Clone, Debug)]
pub enum MasterEffect {
    /// Write these changes, all or none, before anything that follows is done. If that fails, nothing that follows is
    /// done, and the master is [`Deposed`](MasterEvent::Deposed).
    Persist(Vec<Change>),
    /// It leads no longer: resign, and stand for election again.
    StepDown {
        /// For the log: nothing decides by it.
        reason: String,
    },
    SendWorker {
        to: Peer,
        stamped: Stamped<ToWorker>,
    },
    /// To a driver.
    SendApplication {
        to: Peer,
        stamped: Stamped<ToApplication>,
    },
    /// Answers a request; the connection may be gone.
    Reply {
        to: Peer,
        stamped: Stamped<MasterReply>,
    },
    /// Feed `Ticked` at this moment.
    ArmTimer(Tick),
}

/// One call of [`Master::handle`]: its moment and its effects.
pub(super) struct Turn<'a> {
    pub(super) now: Tick,
    pub(super) term: Term,
    touched: Touched,
    pub(super) out: &'a mut Vec<MasterEffect>,
}

impl Turn<'_> {
    /// To those who are reached through a master.
    pub(super) fn tell(
        &mut self,
        to: Peer,
        follower: Follower,
        (worker, app): (ToWorker, ToApplication),
    ) {
        match follower {
            Follower::Worker => self.tell_worker(to, worker),
            Follower::Application => self.tell_app(to, app),
        }
    }

    pub(super) fn tell_worker(&mut self, to: Peer, message: ToWorker) {
        let stamped = Stamped { term: self.term, message };
        self.out.push(MasterEffect::SendWorker { to, stamped });
    }

    pub(super) fn tell_app(&mut self, to: Peer, message: ToApplication) {
        let stamped = Stamped { term: self.term, message };
        self.out.push(MasterEffect::SendApplication { to, stamped });
    }

    pub(super) fn reply(&mut self, to: Peer, message: MasterReply) {
        let stamped = Stamped { term: self.term, message };
        self.out.push(MasterEffect::Reply { to, stamped });
    }

    /// Its term has changed.
    pub(super) fn touch_term(&mut self) {
        self.touched.term = true;
    }

    /// Nothing is to be persisted: it does not lead.
    pub(super) fn untouch(&mut self) {
        self.touched = Touched::default();
    }

    /// What is persisted of the worker has changed.
    pub(super) fn touch_worker(&mut self, id: &WorkerId) {
        self.touched.workers.insert(id.clone());
    }

    /// The same for an application, or one of its executors.
    pub(super) fn touch_app(&mut self, id: &AppId) {
        self.touched.apps.insert(id.clone());
    }

    pub(super) fn touch_driver(&mut self, id: &DriverId) {
        self.touched.drivers.insert(id.clone());
    }
}

/// The master's state machine.
#[derive(Debug)]
pub struct Master {
    pub(super) options: MasterOptions,
    pub(super) leadership: Leadership,
    pub(super) ids: Ids,
    pub(super) agenda: Agenda,
    pub(super) workers: Workers,
    pub(super) apps: Applications,
    pub(super) drivers: Drivers,
    stale: u64,
}

impl Master {
    /// A master that is a standby until it is [`Elected`](MasterEvent::Elected).
    pub fn new(options: MasterOptions) -> Self {
        Master {
            leadership: Leadership::standing_by(),
            ids: Ids::new(options.first_number),
            agenda: Agenda::default(),
            workers: Workers::default(),
            apps: Applications::new(options.retained_applications),
            drivers: Drivers::new(options.retained_drivers),
            stale: 0,
            options,
        }
    }

    /// Takes one event and appends what is to be done about it, in order: first what is to be persisted.
    pub fn handle(&mut self, now: Tick, event: MasterEvent, out: &mut Vec<MasterEffect>) {
        let begin = out.len();
        let (term, touched) = (self.ids.term(), Touched::default());
        let turn = &mut Turn { now, term, touched, out };
        self.check_lease(turn);
        match event {
            MasterEvent::Received { from, message } if !self.leadership.leads() => {
                self.decline(turn, from, &message);
            }
            MasterEvent::Received { from, message } => self.received(turn, from, message),
            MasterEvent::PeerDisconnected { peer } => self.peer_disconnected(turn, peer),
            MasterEvent::Ticked => self.ticked(turn),
            MasterEvent::Elected { records, lease } => self.elected(turn, records, lease),
            MasterEvent::LeaseRenewed { until } => self.leadership.renew(until),
            MasterEvent::LeaderKnown { url } => self.leadership.follow(url),
            MasterEvent::Deposed { reason } => self.deposed(turn, reason),
        }
        self.complete_if_all_answered(turn);
        if self.agenda.take_reschedule() && self.schedules() {
            self.schedule(turn);
            self.end_shortages(turn);
        }
        let changes = self.changes(&turn.touched);
        if !changes.is_empty() {
            let last = self.options.planted.is(Mutant::PersistsLast);
            let at = if last { turn.out.len() } else { begin };
            turn.out.insert(at, MasterEffect::Persist(changes));
        }
        let due = self.due();
        turn.out.extend(self.agenda.arm(now, due).map(MasterEffect::ArmTimer));
    }

    /// When something falls due beside the regular looks.
    fn due(&self) -> Option<Tick> {
        let cut_off = self.workers.next_cut_off(self.options.heartbeat_ms());
        let cut_off = cut_off.filter(|_| !self.spares_the_cut_off());
        self.leadership.due().into_iter().chain(cut_off).min()
    }

    /// While it recovers, from when on all workers have answered: what they run is known, and applications that have not answered
    /// get nothing before they do.
    fn schedules(&self) -> bool {
        match self.leadership.status() {
            RecoveryState::Alive => true,
            RecoveryState::Recovering => self.workers.unknown().next().is_none(),
            RecoveryState::Standby | RecoveryState::CompletingRecovery => false,
        }
    }

    /// Another master leads, or none does: workers and drivers have to register there. They hear when this one does.
    fn decline(&mut self, turn: &mut Turn<'_>, from: Peer, message: &ToMaster) {
        let leader = self.leadership.leader().cloned();
        match message {
            ToMaster::RegisterWorker { newest, .. } => {
                self.note_follower(from, Follower::Worker, *newest);
                turn.tell_worker(from, ToWorker::MasterInStandby { leader });
            }
            ToMaster::RegisterApplication { newest, .. } => {
                self.note_follower(from, Follower::Application, *newest);
                turn.tell_app(from, ToApplication::MasterInStandby { leader });
            }
            ToMaster::Following { follower, newest } => {
                self.note_follower(from, *follower, *newest);
            }
            // It was registered here, and has not heard that this is over.
            ToMaster::Heartbeat { .. } | ToMaster::WorkerLatestState { .. } => {
                turn.tell_worker(from, ToWorker::ReconnectWorker);
            }
            ToMaster::ApplicationHeartbeat { .. } => {
                turn.tell_app(from, ToApplication::ReconnectApplication);
            }
            ToMaster::RequestSubmitDriver { .. }
            | ToMaster::RequestKillDriver { .. }
            | ToMaster::RequestDriverStatus { .. }
            | ToMaster::RequestKillAllDrivers
            | ToMaster::RequestDecommissionWorkers { .. }
            | ToMaster::RequestClearCompletedDriversAndApps
            | ToMaster::RequestKillApplication { .. }
            | ToMaster::RequestReadyz => {
                turn.reply(from, MasterReply::MasterInStandby { leader });
            }
            _ => self.dropped_stale(),
        }
    }

    fn received(&mut self, turn: &mut Turn<'_>, from: Peer, message: ToMaster) {
        match message {
            ToMaster::RegisterWorker { worker, state, newest } => {
                let known = self.workers.get(&worker.id).map(|known| known.description());
                let known = known.is_some_and(|known| known.incarnation == worker.incarnation);
                match self.is_leader_for(turn, (from, Follower::Worker), newest, known) {
                    true => self.register_worker(turn, from, worker, state),
                    false => turn.tell_worker(from, ToWorker::MasterInStandby { leader: None }),
                }
            }
            ToMaster::WorkerLatestState { worker, registration, state }
            | ToMaster::Heartbeat { worker, registration, state } => {
                self.worker_reported(turn, from, (worker, registration), state);
            }
            ToMaster::UnregisterWorker { worker, registration, drivers } => {
                self.worker_ends(turn, (&worker, registration), &drivers);
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
                executors,
            } => {
                let known = self.apps.of(incarnation).is_some();
                let asked = Asked { description, incarnation, previous, first_executor, executors };
                match self.is_leader_for(turn, (from, Follower::Application), newest, known) {
                    true => self.register_application(turn, from, asked),
                    false => turn.tell_app(from, ToApplication::MasterInStandby { leader: None }),
                }
            }
            ToMaster::Following { follower, newest } => {
                self.followed(turn, from, follower, newest);
            }
            ToMaster::ApplicationHeartbeat { app, limit, executors, registrations, excluded } => {
                let report = Report { limit, executors, registrations, excluded };
                if self.speaks_for(turn, from, &app) {
                    self.application_reported(turn, from, &app, report);
                }
            }
            ToMaster::RequestExecutors { app, total } => {
                if self.speaks_for(turn, from, &app) {
                    self.set_limit(turn, &app, Some(total));
                }
            }
            ToMaster::KillExecutors { app, executors } => {
                if self.speaks_for(turn, from, &app) {
                    self.kill_executors(turn, &app, &executors);
                }
            }
            ToMaster::UnregisterApplication { app } => {
                if self.speaks_for(turn, from, &app) {
                    self.unregister(turn, &app);
                }
            }
            ToMaster::RequestSubmitDriver { description } => {
                self.submit_driver(turn, from, description);
            }
            ToMaster::RequestKillDriver { driver } => self.kill_driver(turn, from, driver),
            ToMaster::RequestDriverStatus { driver } => self.driver_status(turn, from, driver),
            ToMaster::RequestKillAllDrivers => {
                self.kill_all_drivers(turn);
                turn.reply(from, MasterReply::Done);
            }
            ToMaster::RequestDecommissionWorkers { name } => {
                self.decommission_workers(turn, from, &name);
            }
            ToMaster::RequestClearCompletedDriversAndApps => {
                self.apps.clear_completed();
                self.drivers.clear_completed();
                turn.reply(from, MasterReply::Done);
            }
            ToMaster::RequestReadyz => turn.reply(from, MasterReply::Done),
            ToMaster::RequestKillApplication { app } => self.kill_application(turn, from, app),
        }
    }

    /// A connection is broken. The worker behind it has one heartbeat to come back over another one, and a driver as long.
    fn peer_disconnected(&mut self, turn: &mut Turn<'_>, peer: Peer) {
        self.leadership.forget(peer);
        let at_once = self.options.planted.is(Mutant::LosesWorkersAtOnce);
        match self.workers.alive_behind(peer).map(|worker| worker.id().clone()) {
            Some(id) if at_once => self.lose_worker(turn, &id, "its connection broke"),
            Some(id) => self.workers.disconnected(&id, turn.now),
            None => {}
        }
        self.apps.iter_mut().for_each(|app| app.peer_disconnected(turn.now, peer));
    }

    fn ticked(&mut self, turn: &mut Turn<'_>) {
        if !self.leadership.leads() {
            return self.agenda.rang(turn.now);
        }
        let look = self.agenda.ticked(turn.now, self.options.heartbeat_ms());
        // Late: what came while this process stood still is read before anybody is judged.
        if look == Look::Late {
            self.leadership.postpone(turn.now.plus_ms(self.options.heartbeat_ms()));
        }
        if self.leadership.is_recovery_over(turn.now) {
            self.complete_recovery(turn);
        }
        let judges = look != Look::Late && !self.leadership.is_recovering();
        // A worker that has answered this leader and is cut off since is missed as at any other time: a driver that does not answer
        // may make recovery last.
        if look != Look::Late {
            self.leadership.adopts_no_longer(turn.now);
            self.remove_cut_off_workers(turn);
        }
        if look == Look::Early {
            return;
        }
        let deaf = self.options.planted.is(Mutant::JudgesWorkersBacklog);
        if judges || deaf {
            self.remove_silent_workers(turn);
            self.remove_silent_applications(turn);
        }
        self.warn_starving(turn);
    }

    /// The changes of what is persisted, each thing once.
    fn changes(&self, touched: &Touched) -> Vec<Change> {
        let mut changes = Vec::new();
        changes.extend(touched.term.then(|| Change::PutTerm(self.ids.term())));
        for id in &touched.workers {
            let worker = self.workers.get(id).and_then(|worker| worker.record());
            changes.push(worker.map_or(Change::RemoveWorker(id.clone()), Change::PutWorker));
        }
        for id in &touched.apps {
            let app = self.apps.get(id).map(|app| self.record_of(app));
            changes.push(app.map_or(Change::RemoveApplication(id.clone()), Change::PutApplication));
        }
        // Those that take the place of others come before these go: of a write that is cut off between them, both are left.
        let drivers = || touched.drivers.iter().map(|id| (id, self.drivers.get(id)));
        let put = drivers().filter_map(|(_, driver)| Some(Change::PutDriver(driver?.record())));
        changes.extend(put);
        let over = drivers().filter(|(_, driver)| driver.is_none());
        changes.extend(over.map(|(id, _)| Change::RemoveDriver(id.clone())));
        changes
    }

    /// A message was dropped because what it speaks of is over.
    pub(super) fn dropped_stale(&mut self) {
        self.stale += 1;
    }

    /// What this master is doing.
    pub fn status(&self) -> RecoveryState {
        self.leadership.status()
    }

    /// The master that leads instead, where that is known.
    pub fn leader(&self) -> Option<&String> {
        self.leadership.leader()
    }

    /// Its term, or the last one it led in.
    pub fn term(&self) -> Term {
        self.ids.term()
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
