//! One event in, effects out.

use firesteel_backend::AppId;
use firesteel_backend::jitter::Jitter;
use firesteel_backend::provider::{ProviderCommand, ProviderEvent};
use firesteel_types::Tick;

use super::executors::Executors;
use super::masters::Masters;
use super::options::AppClientOptions;
use crate::messages::{Stamped, ToApplication, ToMaster};

/// Into a client.
#[derive(Clone, Debug)]
pub enum Event {
    /// A master said something.
    ReceivedMaster {
        /// Which of its masters.
        master: usize,
        /// What.
        said: Stamped<ToApplication>,
    },
    /// The connection to a master broke, or could not be made.
    MasterDisconnected {
        /// Which of its masters.
        master: usize,
    },
    /// A connection to a master could not be made.
    MasterUnreachable {
        /// Which of its masters.
        master: usize,
        /// Why, for people.
        reason: String,
        /// Whether it never will be: the two have different secrets, for example.
        lasting: bool,
    },
    /// The driver's registry said something.
    Command(ProviderCommand),
    /// A moment asked for by [`Effect::ArmTimer`] has come; the first one starts the client.
    Ticked,
}

/// Out of a client, in order.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Tell a master.
    SendMaster {
        /// Which of its masters.
        master: usize,
        /// What.
        message: ToMaster,
    },
    /// Tell the driver's registry.
    Report(ProviderEvent),
    /// Feed `Ticked` at this moment.
    ArmTimer(Tick),
}

/// One call of [`AppClient::handle`]: its moment and its effects.
pub(super) struct Turn<'a> {
    pub(super) now: Tick,
    pub(super) out: &'a mut Vec<Effect>,
}

impl Turn<'_> {
    pub(super) fn tell(&mut self, master: usize, message: ToMaster) {
        self.out.push(Effect::SendMaster { master, message });
    }

    pub(super) fn report(&mut self, event: ProviderEvent) {
        self.out.push(Effect::Report(event));
    }
}

/// The state machine of an application's client.
#[derive(Debug)]
pub struct AppClient {
    pub(super) options: AppClientOptions,
    pub(super) jitter: Jitter,
    pub(super) masters: Masters,
    pub(super) app: Option<AppId>,
    pub(super) executors: Executors,
    armed: Option<Tick>,
    pub(super) stale: u64,
}

impl AppClient {
    /// A client that has not said anything yet.
    pub fn new(options: AppClientOptions, jitter: Jitter) -> Self {
        AppClient {
            executors: Executors::new(options.description.initial_executor_limit),
            options,
            jitter,
            masters: Masters::new(),
            app: None,
            armed: None,
            stale: 0,
        }
    }

    /// Takes one event and appends what is to be done about it, in order.
    pub fn handle(&mut self, now: Tick, event: Event, out: &mut Vec<Effect>) {
        let turn = &mut Turn { now, out };
        match event {
            Event::ReceivedMaster { master, said } => self.received(turn, master, said),
            Event::MasterDisconnected { master } => self.disconnected(turn, master),
            Event::MasterUnreachable { master, reason, lasting } => {
                self.unreachable(turn, master, reason, lasting);
            }
            Event::Command(command) => self.commanded(turn, command),
            Event::Ticked => {
                if self.armed.is_some_and(|at| at <= now) {
                    self.armed = None;
                }
                self.keep_in_touch(turn);
            }
        }
        self.arm(turn);
    }

    fn arm(&mut self, turn: &mut Turn<'_>) {
        let Some(wake) = self.masters.due() else { return };
        if self.armed.is_none_or(|armed| wake < armed || armed <= turn.now) {
            self.armed = Some(wake);
            turn.out.push(Effect::ArmTimer(wake));
        }
    }

    /// Whether it has let go of its masters.
    pub fn is_over(&self) -> bool {
        self.masters.is_over()
    }

    /// Messages that were dropped because an older master said them.
    pub fn stale_messages(&self) -> u64 {
        self.stale
    }
}
