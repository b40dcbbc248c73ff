//! One event in, effects out.

use firesteel_backend::AppId;
use firesteel_backend::jitter::Jitter;
use firesteel_backend::provider::{ProviderCommand, ProviderEvent};
use firesteel_types::Tick;

use super::executors::Executors;
use super::masters::Masters;
use super::options::AppClientOptions;
use crate::messages::{Stamped, ToApplication, ToMaster};

#[derive(Clone, Debug)]
pub enum AppClientEvent {
    /// A message from a master.
    ReceivedMaster {
        /// Its index among the masters to dial.
        master: usize,
        stamped: Stamped<ToApplication>,
    },
    /// The connection to a master broke, or could not be made.
    MasterDisconnected {
        /// Its index among the masters to dial.
        master: usize,
    },
    /// A connection to a master could not be made.
    MasterUnreachable {
        /// Its index among the masters to dial.
        master: usize,
        /// For the log: nothing decides by it.
        reason: String,
        /// Whether it never will be: the two have different secrets, for example.
        lasting: bool,
    },
    /// A command of the driver's registry.
    Command(ProviderCommand),
    /// A moment asked for by [`AppClientEffect::ArmTimer`] has come; the first one starts the client.
    Ticked,
}

/// Out of a client, in order.
#[derive(Clone, Debug)]
pub enum AppClientEffect {
    SendMaster {
        /// Its index among the masters to dial.
        master: usize,
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
    pub(super) out: &'a mut Vec<AppClientEffect>,
}

impl Turn<'_> {
    pub(super) fn tell(&mut self, master: usize, message: ToMaster) {
        self.out.push(AppClientEffect::SendMaster { master, message });
    }

    pub(super) fn report(&mut self, event: ProviderEvent) {
        self.out.push(AppClientEffect::Report(event));
    }
}

/// The state machine of an application's client.
#[derive(Debug)]
pub struct AppClient {
    pub(super) options: AppClientOptions,
    pub(super) jitter: Jitter,
    pub(super) masters: Masters,
    pub(super) app: Option<AppId>,
    /// What executors say that a master calls it, whose answer has not come.
    pub(super) hearsay: Option<AppId>,
    pub(super) executors: Executors,
    armed: Option<Tick>,
    pub(super) stale: u64,
}

impl AppClient {
    /// A client that has not sent a message yet.
    pub fn new(options: AppClientOptions, jitter: Jitter) -> Self {
        AppClient {
            executors: Executors::new(options.description.initial_executor_limit),
            options,
            jitter,
            masters: Masters::new(),
            app: None,
            hearsay: None,
            armed: None,
            stale: 0,
        }
    }

    /// Takes one event and appends what is to be done about it, in order.
    pub fn handle(&mut self, now: Tick, event: AppClientEvent, out: &mut Vec<AppClientEffect>) {
        let turn = &mut Turn { now, out };
        match event {
            AppClientEvent::ReceivedMaster { master, stamped } => {
                self.received(turn, master, stamped)
            }
            AppClientEvent::MasterDisconnected { master } => self.disconnected(turn, master),
            AppClientEvent::MasterUnreachable { master, reason, lasting } => {
                self.unreachable(turn, master, reason, lasting);
            }
            AppClientEvent::Command(command) => self.commanded(turn, command),
            AppClientEvent::Ticked => {
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
            turn.out.push(AppClientEffect::ArmTimer(wake));
        }
    }

    /// Whether it has let go of its masters.
    pub fn is_over(&self) -> bool {
        self.masters.is_over()
    }

    /// Messages that were dropped because an older master sent them.
    pub fn stale_messages(&self) -> u64 {
        self.stale
    }
}
