//! With whom a worker is registered, and how it gets there again.

use firesteel_backend::mutant::Mutant;
use firesteel_types::Tick;

use super::core::WorkerEffect;
use super::core::{Turn, Worker};
use super::options::WorkerOptions;
use crate::description::WorkerState;
use crate::messages::{Follower, ToMaster, ToWorker};
use crate::{Registration, Term};

/// How things stand with the masters.
#[derive(Clone, Debug)]
pub(super) enum Link {
    /// It asks all masters, again and again.
    Registering {
        attempts: u32,
        /// When it asks next, and how long it waited for that.
        next: Tick,
        pause_ms: u64,
        /// When the attempt is over. Until then it may ask more than once.
        ends: Tick,
        /// Why the last attempt was refused, if it was.
        refusal: Option<String>,
        /// Whether a master answered it that does not lead: one will again.
        answered: bool,
    },
    /// One of them answered.
    Registered { master: usize, heartbeat_ms: u64, next_heartbeat: Tick },
}

impl Link {
    pub(super) fn starting() -> Self {
        Link::registering_at(Tick(0))
    }

    /// It asks from then on.
    fn registering_at(next: Tick) -> Self {
        let (attempts, pause_ms, refusal, answered) = (0, 0, None, false);
        Link::Registering { attempts, next, pause_ms, ends: next, refusal, answered }
    }

    /// When it has something to say next.
    pub(super) fn due(&self) -> Tick {
        match self {
            Link::Registering { next, .. } => *next,
            Link::Registered { next_heartbeat, .. } => *next_heartbeat,
        }
    }
}

impl Worker {
    /// Says what is due: another attempt to register, or a heartbeat.
    pub(super) fn keep_in_touch(&mut self, turn: &mut Turn<'_>) {
        if self.link.due() > turn.now {
            return;
        }
        match self.link {
            Link::Registering { .. } => self.try_to_register(turn),
            Link::Registered { master, heartbeat_ms, .. } => {
                let next_heartbeat = turn.now.plus_ms(heartbeat_ms.max(1));
                self.link = Link::Registered { master, heartbeat_ms, next_heartbeat };
                let (worker, registration) = self.signature();
                let state = self.state();
                self.lease.sends(state.number, turn.now);
                let message = ToMaster::Heartbeat { worker, registration, state };
                turn.out.push(WorkerEffect::Send { master, message });
                self.ask_others(turn, master);
            }
        }
    }

    /// Another master may lead by now, and this worker's be unable to say so.
    fn ask_others(&self, turn: &mut Turn<'_>, own: usize) {
        for master in (0..self.options.masters).filter(|master| *master != own) {
            let (follower, newest) = (Follower::Worker, self.newest.0);
            let message = ToMaster::Following { follower, newest };
            turn.out.push(WorkerEffect::Send { master, message });
        }
    }

    pub(super) fn signature(&self) -> (crate::WorkerId, Registration) {
        (self.options.description.id.clone(), self.newest.1)
    }

    /// Asks all masters; first in quick succession, then slowly, and not for ever, unless something runs here that a master may come back
    /// for, or one answers. A master that restarts is back within seconds: during the first attempt it asks more often, with growing
    /// pauses.
    fn try_to_register(&mut self, turn: &mut Turn<'_>) {
        let has_nothing = self.used() == (0, 0);
        let Link::Registering { attempts, next, pause_ms, ends, refusal, answered } =
            &mut self.link
        else {
            return;
        };
        if *ends <= turn.now {
            if *attempts >= self.options.max_attempts && has_nothing && !*answered {
                let reason = refusal.take().unwrap_or_else(|| {
                    "no master answered: check that one runs at the given address".to_owned()
                });
                return self.stop(turn, 1, reason);
            }
            *attempts = attempts.saturating_add(1);
            *answered = false;
            let fast = *attempts <= self.options.fast_attempts;
            let wait = if fast { self.options.fast_wait_ms } else { self.options.slow_wait_ms };
            *ends = turn.now.plus_ms(self.jitter.around_ms(wait).max(1));
            *pause_ms = if *attempts == 1 { self.options.first_wait_ms } else { wait };
        } else {
            *pause_ms = pause_ms.saturating_mul(2);
        }
        // Pauses as long as an attempt are the attempt's own.
        *next = match *attempts == 1 && *pause_ms < self.options.fast_wait_ms {
            true => turn.now.plus_ms(self.jitter.around_ms(*pause_ms).max(1)).min(*ends),
            false => *ends,
        };
        let drivers = self.drivers.introductions();
        let state = WorkerState { drivers, ..self.state() };
        for master in 0..self.options.masters {
            let (worker, state) = (self.options.description.clone(), state.clone());
            let message = ToMaster::RegisterWorker { worker, state, newest: self.newest.0 };
            turn.out.push(WorkerEffect::Send { master, message });
        }
    }

    /// A master that takes it in leads, also if this worker obeys another one.
    pub(super) fn hear_leader(&mut self, turn: &mut Turn<'_>, master: usize, message: &ToWorker) {
        let ToWorker::RegisteredWorker { url, elected, .. } = message else { return };
        let warning = self.leaders.hear(master, url, *elected);
        turn.out.extend(warning.map(|message| WorkerEffect::Warn { message }));
    }

    /// A master took it in. An answer older than the newest one is void.
    pub(super) fn registered(
        &mut self,
        turn: &mut Turn<'_>,
        (master, heartbeat_ms, driver_lease_ms): (usize, u64, u64),
        given: (Term, Registration),
    ) {
        let confirmed = given == self.newest && self.is_registered();
        if given < self.newest || confirmed {
            if !confirmed {
                self.dropped_stale();
            }
            return;
        }
        self.newest = given;
        self.lease.set_length(driver_lease_ms);
        let next_heartbeat = turn.now.plus_ms(heartbeat_ms.max(1));
        self.link = Link::Registered { master, heartbeat_ms, next_heartbeat };
        let (worker, registration) = self.signature();
        let state = self.state();
        self.lease.sends(state.number, turn.now);
        let message = ToMaster::WorkerLatestState { worker, registration, state };
        turn.out.push(WorkerEffect::Send { master, message });
    }

    /// The master heard a report: supervised drivers may go on for so long after it was sent.
    pub(super) fn heartbeat_known(&mut self, turn: &mut Turn<'_>, number: u64) {
        let Some(until) = self.lease.is_answered(number) else { return };
        if !self.options.planted.is(Mutant::RunsDriversWithoutLease) {
            turn.out.push(WorkerEffect::GuardDrivers { until });
        }
        self.start_waiting_drivers(turn);
    }

    pub(super) fn register_failed(&mut self, turn: &mut Turn<'_>, reason: String, retry: bool) {
        let Link::Registering { refusal, .. } = &mut self.link else { return };
        if retry {
            *refusal = Some(reason);
        } else {
            self.stop(turn, 1, format!("the master refused this worker: {reason}"));
        }
    }

    /// A master is there that does not lead now.
    pub(super) fn master_is_standby(&mut self) {
        if let Link::Registering { answered, .. } = &mut self.link {
            *answered = true;
        }
    }

    /// A master does not know this worker any more: register, at once.
    pub(super) fn reconnect(&mut self, turn: &mut Turn<'_>) {
        if self.is_registered() {
            self.look_for_leader(turn);
        }
    }

    /// A master leads that did not before: register, at once.
    pub(super) fn look_for_leader(&mut self, turn: &mut Turn<'_>) {
        self.link = Link::registering_at(turn.now);
        self.try_to_register(turn);
    }

    /// What runs goes on; a master is looked for, not all workers of a cluster at the same moment.
    pub(super) fn master_disconnected(&mut self, turn: &mut Turn<'_>, broken: usize) {
        self.leave(turn, broken);
        // A master that was asked over that connection may have taken this worker in, and waits for it for a heartbeat only.
        if let Link::Registering { next, .. } = &mut self.link {
            let soon = self.jitter.around_ms(self.options.fast_wait_ms / 8).max(1);
            *next = turn.now.plus_ms(soon).min(*next);
        }
    }

    fn leave(&mut self, turn: &mut Turn<'_>, left: usize) {
        self.leaders.forget(left);
        match self.link {
            Link::Registered { master, .. } if master == left => {
                let WorkerOptions { first_wait_ms, fast_wait_ms, .. } = self.options;
                let soon = self.jitter.below(first_wait_ms.min(fast_wait_ms / 8));
                self.link = Link::registering_at(turn.now.plus_ms(soon));
            }
            _ => {}
        }
    }

    /// A worker that no master will ever take in ends at once. One that was taken in before has something
    /// to lose, and goes on asking for as long as others do.
    pub(super) fn master_unreachable(
        &mut self,
        turn: &mut Turn<'_>,
        master: usize,
        reason: String,
        lasting: bool,
    ) {
        self.leave(turn, master);
        let Link::Registering { refusal, .. } = &mut self.link else { return };
        *refusal = Some(format!("no master answered: {reason}"));
        if lasting {
            self.hopeless.insert(master);
        } else {
            self.hopeless.remove(&master);
        }
        let was_never_taken_in = self.newest == (Term(0), Registration(0));
        if was_never_taken_in && self.hopeless.len() >= self.options.masters {
            self.stop(turn, 1, reason);
        }
    }
}
