//! An application and its masters.

use firesteel_types::{ExecutorId, Tick};

use super::core::{Backend, Effect, Turn};
use crate::messages::{Said, ToApplication, ToMaster};
use crate::mutant::Mutant;
use crate::{AppId, Epoch};

/// How far beyond all executors it has heard of a driver asks to begin, each time it asks to be taken in
/// again: whoever heard it before may have ordered executors that it never heard of, even if the
/// answer was lost, and numbers are not used twice (S05).
const NUMBERS_LEFT_OUT: u32 = 10_000;

/// How things stand with the masters.
#[derive(Clone, Copy, Debug)]
pub(super) enum Link {
    /// It asks all masters, again and again.
    Registering { attempts: u32, next: Tick },
    /// One of them answered.
    Registered { master: usize, heartbeat_ms: u64, next_heartbeat: Tick },
    /// The application is over.
    Over,
}

impl Link {
    pub(super) fn starting() -> Self {
        Link::Registering { attempts: 0, next: Tick(0) }
    }

    /// When it has something to say next.
    pub(super) fn due(self) -> Option<Tick> {
        match self {
            Link::Registering { next, .. } => Some(next),
            Link::Registered { next_heartbeat, .. } => Some(next_heartbeat),
            Link::Over => None,
        }
    }
}

impl Backend {
    /// Says what is due: another attempt to register, or a sign of life.
    pub(super) fn keep_in_touch(&mut self, turn: &mut Turn<'_>) {
        if self.link.due().is_none_or(|due| due > turn.now) {
            return;
        }
        match self.link {
            Link::Registering { attempts, .. } => self.try_to_register(turn, attempts),
            Link::Registered { .. } => self.show_life(turn),
            Link::Over => {}
        }
    }

    /// Asks all masters. While executors work, for as long as it takes.
    fn try_to_register(&mut self, turn: &mut Turn<'_>, attempts: u32) {
        if attempts >= self.options.registration_attempts && self.executors.is_empty() {
            let cause = self.unreachable.take().map_or_else(String::new, |why| format!(" ({why})"));
            let reason = format!(
                "all masters are unresponsive, giving up after {attempts} attempts: check that one \
                 runs at the address in spark.master{cause}"
            );
            return self.fail(turn, reason);
        }
        let wait = self.jitter.around_ms(self.options.registration_wait_ms).max(1);
        let attempts = attempts.saturating_add(1);
        self.link = Link::Registering { attempts, next: turn.now.plus_ms(wait) };
        if self.app.is_some() {
            self.next_executor = self.next_executor.saturating_add(NUMBERS_LEFT_OUT);
        }
        for master in 0..self.options.masters {
            let message = ToMaster::RegisterApplication {
                description: self.options.description.clone(),
                incarnation: self.options.incarnation,
                previous: self.app.clone(),
                first_executor: ExecutorId(self.next_executor),
            };
            turn.out.push(Effect::SendMaster { master, message });
        }
    }

    /// Tells the master what it has and wants, at once and from then on regularly.
    pub(super) fn show_life(&mut self, turn: &mut Turn<'_>) {
        let Link::Registered { master, heartbeat_ms, .. } = self.link else { return };
        let next_heartbeat = turn.now.plus_ms(heartbeat_ms.max(1));
        self.link = Link::Registered { master, heartbeat_ms, next_heartbeat };
        let Some(app) = self.app.clone() else { return };
        let (id, executors) = (app.clone(), self.executors.keys().copied().collect());
        let (limit, registrations) = (self.limit, self.registrations);
        let message = ToMaster::ApplicationHeartbeat { app: id, limit, executors, registrations };
        turn.out.push(Effect::SendMaster { master, message });
        // It may have been lost, and nobody else would free what such an executor holds.
        if !self.unconfirmed.is_empty() {
            let executors = self.unconfirmed.iter().copied().collect();
            let message = ToMaster::KillExecutors { app, executors };
            turn.out.push(Effect::SendMaster { master, message });
        }
    }

    pub(super) fn tell_master(&mut self, turn: &mut Turn<'_>, message: ToMaster) {
        if let Link::Registered { master, .. } = self.link {
            turn.out.push(Effect::SendMaster { master, message });
        }
    }

    /// A master's word counts unless a newer master took the application in (S06).
    pub(super) fn received_master(
        &mut self,
        turn: &mut Turn<'_>,
        master: usize,
        said: Said<ToApplication>,
    ) {
        let Said { epoch, message } = said;
        if epoch < self.newest {
            self.stale += 1;
            return;
        }
        match message {
            ToApplication::RegisteredApplication { app, heartbeat_ms, .. } => {
                self.registered(turn, (master, heartbeat_ms), epoch, app);
            }
            ToApplication::MasterInStandby => {}
            ToApplication::ReconnectApplication | ToApplication::MasterChanged { .. } => {
                self.reconnect(turn);
            }
            ToApplication::ExecutorAdded { executor, .. } => self.executor_ordered(turn, executor),
            ToApplication::ExecutorUpdated(update) => self.executor_updated(turn, update),
            // What lay there is reported executor by executor.
            ToApplication::WorkerRemoved { .. } => {}
            ToApplication::ApplicationStarved { message } => {
                turn.out.push(Effect::Warn { message })
            }
            ToApplication::ApplicationRemoved { message } => {
                self.fail(turn, format!("the master ended the application: {message}"));
            }
        }
    }

    fn registered(
        &mut self,
        turn: &mut Turn<'_>,
        (master, heartbeat_ms): (usize, u64),
        epoch: Epoch,
        app: AppId,
    ) {
        match self.link {
            Link::Over => {
                let message = ToMaster::UnregisterApplication { app };
                turn.out.push(Effect::SendMaster { master, message });
            }
            Link::Registered { .. } if epoch == self.newest => {}
            _ => {
                self.newest = epoch;
                self.unreachable = None;
                let ignores = self.options.planted.is(Mutant::IgnoresMastersTimeout);
                let heartbeat_ms = if ignores { 15_000 } else { heartbeat_ms };
                self.link = Link::Registered { master, heartbeat_ms, next_heartbeat: turn.now };
                if self.app.as_ref() != Some(&app) {
                    self.app = Some(app.clone());
                    turn.out.push(Effect::Registered { app: app.clone() });
                }
                self.show_life(turn);
            }
        }
    }

    fn reconnect(&mut self, turn: &mut Turn<'_>) {
        if let Link::Registered { .. } = self.link {
            self.try_to_register(turn, 0);
        }
    }

    /// Jobs go on with the executors there are; a master is looked for.
    pub(super) fn master_disconnected(&mut self, turn: &mut Turn<'_>, broken: usize) {
        match self.link {
            Link::Registered { master, .. } if master == broken => {
                let soon = self.jitter.below(self.options.registration_wait_ms / 16);
                self.link = Link::Registering { attempts: 0, next: turn.now.plus_ms(soon) };
            }
            _ => {}
        }
    }

    /// An application that no master will ever take in ends at once. Else the user hears of it once, long
    /// before the attempts are over. Jobs that run go on.
    pub(super) fn master_unreachable(
        &mut self,
        turn: &mut Turn<'_>,
        master: usize,
        reason: String,
        lasting: bool,
    ) {
        self.master_disconnected(turn, master);
        let Link::Registering { .. } = self.link else { return };
        if lasting {
            self.hopeless.insert(master);
        } else {
            self.hopeless.remove(&master);
        }
        if self.app.is_none() && self.hopeless.len() >= self.options.masters {
            return self.fail(turn, reason);
        }
        if self.unreachable.is_none() {
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
            turn.out.push(Effect::Warn { message });
        }
        self.unreachable = Some(reason);
    }
}
