//! An application and its masters.

use std::collections::BTreeSet;

use firesteel_backend::AppId;
use firesteel_backend::mutant::Mutant;
use firesteel_backend::provider::ProviderEvent;
use firesteel_types::Tick;

use super::core::{AppClient, Turn};
use crate::Term;
use crate::leaders::Leaders;
use crate::messages::{Follower, Stamped, ToApplication, ToMaster};

/// How things stand with the masters.
#[derive(Clone, Copy, Debug)]
enum Link {
    /// It asks all masters, again and again: next then, after so long a pause, until the attempt ends.
    Registering { attempts: u32, next: Tick, pause_ms: u64, ends: Tick },
    /// One of them answered.
    Registered { master: usize, heartbeat_ms: u64, next_heartbeat: Tick },
    /// The application is over.
    Over,
}

impl Link {
    /// It begins to ask then.
    fn first_attempt(next: Tick) -> Self {
        Link::Registering { attempts: 0, next, pause_ms: 0, ends: next }
    }
}

/// The masters as a driver knows them.
#[derive(Debug)]
pub(super) struct Masters {
    link: Link,
    /// The newest master that took it in.
    newest: Term,
    /// Masters that will never take it in.
    hopeless: BTreeSet<usize>,
    leaders: Leaders,
    /// Why a master could not be reached, since the last one that answered.
    unreachable: Option<String>,
}

impl Masters {
    pub(super) fn new() -> Self {
        Masters {
            link: Link::first_attempt(Tick(0)),
            newest: Term(0),
            hopeless: BTreeSet::new(),
            leaders: Leaders::default(),
            unreachable: None,
        }
    }

    /// When it has something to say next.
    pub(super) fn due(&self) -> Option<Tick> {
        match self.link {
            Link::Registering { next, .. } => Some(next),
            Link::Registered { next_heartbeat, .. } => Some(next_heartbeat),
            Link::Over => None,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.link, Link::Over)
    }
}

impl AppClient {
    /// Says what is due: another attempt to register, or a heartbeat.
    pub(super) fn keep_in_touch(&mut self, turn: &mut Turn<'_>) {
        if self.masters.due().is_none_or(|due| due > turn.now) {
            return;
        }
        match self.masters.link {
            Link::Registering { .. } => self.try_to_register(turn),
            Link::Registered { .. } => self.send_heartbeat(turn),
            Link::Over => {}
        }
    }

    /// Asks all masters. While executors work, for as long as it takes. A master that restarts is back within seconds: during the
    /// first attempt it asks more often, with growing pauses.
    fn try_to_register(&mut self, turn: &mut Turn<'_>) {
        let Link::Registering { attempts, pause_ms, ends, .. } = self.masters.link else { return };
        let is_next = ends <= turn.now;
        let is_last = attempts >= self.options.registration_attempts;
        if is_next && is_last && !self.executors.any_registered() {
            let cause =
                self.masters.unreachable.take().map_or_else(String::new, |why| format!(" ({why})"));
            let reason = format!(
                "all masters are unresponsive, giving up after {attempts} attempts: check that one \
                 runs at the address in spark.master{cause}"
            );
            return self.fail(turn, reason);
        }
        let (attempts, pause_ms, ends) = match is_next {
            true => {
                let wait = self.jitter.around_ms(self.options.registration_wait_ms).max(1);
                let ends = turn.now.plus_ms(wait);
                (attempts.saturating_add(1), self.options.first_wait_ms, ends)
            }
            false => (attempts, pause_ms.saturating_mul(2), ends),
        };
        let soon = turn.now.plus_ms(self.jitter.around_ms(pause_ms).max(1));
        let next = if attempts == 1 { soon.min(ends) } else { ends };
        self.masters.link = Link::Registering { attempts, next, pause_ms, ends };
        // A master that is not heard any more may have had executors started.
        let previous = self.app.clone().or_else(|| self.hearsay.clone());
        let first_executor = self.executors.first_number(previous.is_some(), self.options.planted);
        for master in 0..self.options.masters {
            let message = ToMaster::RegisterApplication {
                description: self.options.description.clone(),
                incarnation: self.options.incarnation,
                previous: previous.clone(),
                first_executor,
                newest: self.masters.newest,
                executors: self.executors.registered(),
            };
            turn.tell(master, message);
        }
    }

    /// Tells the master what it has and wants, at once and from then on regularly.
    pub(super) fn send_heartbeat(&mut self, turn: &mut Turn<'_>) {
        let Link::Registered { master, heartbeat_ms, .. } = self.masters.link else { return };
        let next_heartbeat = turn.now.plus_ms(heartbeat_ms.max(1));
        self.masters.link = Link::Registered { master, heartbeat_ms, next_heartbeat };
        let Some(app) = self.app.clone() else { return };
        let messages = self.executors.heartbeat(app).into_iter().flatten();
        messages.for_each(|message| turn.tell(master, message));
        // Another master may lead by now, and this one be unable to say so.
        for other in (0..self.options.masters).filter(|other| *other != master) {
            let (follower, newest) = (Follower::Application, self.masters.newest);
            turn.tell(other, ToMaster::Following { follower, newest });
        }
    }

    pub(super) fn tell_master(&mut self, turn: &mut Turn<'_>, message: ToMaster) {
        if let Link::Registered { master, .. } = self.masters.link {
            turn.tell(master, message);
        }
    }

    /// A master's word counts unless a newer master took the application in (S06).
    pub(super) fn received(
        &mut self,
        turn: &mut Turn<'_>,
        master: usize,
        stamped: Stamped<ToApplication>,
    ) {
        let Stamped { term, message } = stamped;
        if let ToApplication::RegisteredApplication { url, elected, .. } = &message
            && let Some(message) = self.masters.leaders.hear(master, url, *elected)
        {
            turn.report(ProviderEvent::Warning { message });
        }
        if term < self.masters.newest {
            self.stale += 1;
            return;
        }
        match message {
            ToApplication::RegisteredApplication { app, heartbeat_ms, .. } => {
                self.registered(turn, (master, heartbeat_ms), term, app);
            }
            ToApplication::MasterInStandby { .. } => {}
            ToApplication::ReconnectApplication | ToApplication::MasterChanged { .. } => {
                self.reconnect(turn);
            }
            ToApplication::ExecutorPreparing { executor, preparing } => {
                turn.report(ProviderEvent::Preparing { executor, preparing });
            }
            ToApplication::ExecutorAdded { executor, host, .. } => {
                self.ordered(turn, executor, host);
            }
            ToApplication::ExecutorUpdated(update) => self.updated(turn, update),
            // What lay there is reported executor by executor.
            ToApplication::WorkerRemoved { .. } => {}
            ToApplication::ApplicationStarved { shortage } => self.starved(turn, shortage),
            ToApplication::ApplicationRemoved { message } => {
                self.fail(turn, format!("the master ended the application: {message}"));
            }
        }
    }

    fn registered(
        &mut self,
        turn: &mut Turn<'_>,
        (master, heartbeat_ms): (usize, u64),
        term: Term,
        app: AppId,
    ) {
        match self.masters.link {
            Link::Over => {
                let message = ToMaster::UnregisterApplication { app };
                turn.tell(master, message);
            }
            Link::Registered { .. } if term == self.masters.newest => {}
            _ => {
                if term > self.masters.newest {
                    self.forget_shortage(turn);
                }
                self.masters.newest = term;
                self.masters.unreachable = None;
                let ignores = self.options.planted.is(Mutant::IgnoresMastersTimeout);
                let heartbeat_ms = if ignores { 15_000 } else { heartbeat_ms };
                self.masters.link =
                    Link::Registered { master, heartbeat_ms, next_heartbeat: turn.now };
                if self.app.as_ref() != Some(&app) {
                    self.app = Some(app.clone());
                    turn.report(ProviderEvent::Accepted { app });
                }
                self.send_heartbeat(turn);
            }
        }
    }

    fn reconnect(&mut self, turn: &mut Turn<'_>) {
        if !self.is_over() {
            self.masters.link = Link::first_attempt(turn.now);
            self.try_to_register(turn);
        }
    }

    /// Jobs go on with the executors there are; a master is looked for.
    pub(super) fn disconnected(&mut self, turn: &mut Turn<'_>, broken: usize) {
        self.masters.leaders.forget(broken);
        match self.masters.link {
            Link::Registered { master, .. } if master == broken => {
                let soon = self.jitter.below(self.options.first_wait_ms);
                self.masters.link = Link::first_attempt(turn.now.plus_ms(soon));
            }
            _ => {}
        }
    }

    /// An application that no master will ever take in ends at once. Else the user hears of it once, long
    /// before the attempts are over. Jobs that run go on.
    pub(super) fn unreachable(
        &mut self,
        turn: &mut Turn<'_>,
        master: usize,
        reason: String,
        lasting: bool,
    ) {
        self.disconnected(turn, master);
        let Link::Registering { .. } = self.masters.link else { return };
        if lasting {
            self.masters.hopeless.insert(master);
        } else {
            self.masters.hopeless.remove(&master);
        }
        if self.app.is_none() && self.masters.hopeless.len() >= self.options.masters {
            return self.fail(turn, reason);
        }
        if self.masters.unreachable.is_none() {
            let (attempts, wait) =
                (self.options.registration_attempts, self.options.registration_wait_ms);
            let seconds = wait.saturating_mul(attempts.into()) / 1000;
            let message = match self.app {
                None => {
                    format!("no master has answered yet ({reason}): trying for about {seconds} s")
                }
                Some(_) => {
                    format!("no master answers ({reason}): jobs go on, and one is looked for")
                }
            };
            turn.report(ProviderEvent::Warning { message });
        }
        self.masters.unreachable = Some(reason);
    }

    /// There will be no more executors, for this reason.
    fn fail(&mut self, turn: &mut Turn<'_>, reason: String) {
        if !self.is_over() {
            turn.report(ProviderEvent::Failed { reason });
            self.stop(turn);
        }
    }

    /// Lets the masters go.
    pub(super) fn stop(&mut self, turn: &mut Turn<'_>) {
        if let Some(app) = self.app.clone() {
            self.tell_master(turn, ToMaster::UnregisterApplication { app });
        }
        self.masters.link = Link::Over;
    }
}
