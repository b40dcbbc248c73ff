//! A driver's registry of executors, its provider, and the port between them. In a real driver each has a thread of its own: what one
//! says to the other comes in order, and sometimes late.

use std::collections::VecDeque;

use firesteel_backend::AppId;
use firesteel_backend::provider::{ProviderCommand, ProviderEvent};
use firesteel_backend::registry::{RegistryEffect, RegistryEvent};
use firesteel_standalone_core::application::{AppClientEffect, AppClientEvent};
use firesteel_standalone_core::messages::ToMaster;
use firesteel_types::ExecutorId;

use crate::network::Message;
use crate::world::{Body, Core, Event, ProcId, World};

/// What was said over the port and not heard yet.
#[derive(Debug)]
pub(crate) enum Word {
    ToProvider(ProviderCommand),
    ToRegistry(ProviderEvent),
}

impl World {
    /// Something for the driver's client of the masters.
    pub(crate) fn feed_client(
        &mut self,
        proc: ProcId,
        event: AppClientEvent,
    ) -> Result<(), String> {
        let now = self.tick_of(proc);
        let Some(Body::Driver(node)) = &mut self.procs[proc].body else { return Ok(()) };
        let mut out = Vec::new();
        node.client.handle(now, event, &mut out);
        for effect in out {
            match effect {
                AppClientEffect::SendMaster { master, message } => {
                    let server = self.masters[master];
                    let speaks = matches!(message, ToMaster::ApplicationHeartbeat { .. });
                    self.send_to(proc, server, master, Message::ToMaster(message));
                    if speaks && self.faulty() && self.aside.u8(..64) == 0 {
                        self.impersonate(proc, master);
                    }
                }
                AppClientEffect::Report(event) => self.say(proc, Word::ToRegistry(event)),
                AppClientEffect::ArmTimer(at) => self.arm(proc, Core::Client, at),
            }
        }
        self.hear(proc)
    }

    /// A driver speaks for an application that is not its own.
    fn impersonate(&mut self, proc: ProcId, master: usize) {
        let others = self.app_ids.iter().filter(|(_, driver)| **driver != proc);
        let others: Vec<AppId> = others.map(|(app, _)| app.clone()).collect();
        let Some(app) = self.aside.choice(others) else { return };
        self.counters.impostors += 1;
        let executors = (0..8).map(ExecutorId).collect();
        let message = match self.aside.bool() {
            true => ToMaster::UnregisterApplication { app },
            false => ToMaster::KillExecutors { app, executors },
        };
        let server = self.masters[master];
        self.send_to(proc, server, master, Message::ToMaster(message));
    }

    /// Something for the driver's registry.
    pub(crate) fn feed_driver(&mut self, proc: ProcId, event: RegistryEvent) -> Result<(), String> {
        let now = self.tick_of(proc);
        let Some(Body::Driver(node)) = &mut self.procs[proc].body else { return Ok(()) };
        let mut out = Vec::new();
        node.registry.handle(now, event, &mut out);
        let mut inputs = Vec::new();
        for effect in out {
            match effect {
                RegistryEffect::Provider(command) => {
                    self.check_declared_dead(proc, &command)?;
                    self.say(proc, Word::ToProvider(command));
                }
                effect => self.carry_out_for_driver(proc, effect, &mut inputs)?,
            }
        }
        self.feed_schedulers(proc, inputs)?;
        self.hear(proc)
    }

    /// Both ends of the port have a clock.
    pub(crate) fn wake_driver(&mut self, proc: ProcId) -> Result<(), String> {
        self.feed_client(proc, AppClientEvent::Ticked)?;
        self.feed_driver(proc, RegistryEvent::Ticked)
    }

    fn say(&mut self, proc: ProcId, word: Word) {
        let late = self.rng.u8(..16) == 0;
        let at = self.now + self.rng.u64(1..30);
        let Some(Body::Driver(node)) = &mut self.procs[proc].body else { return };
        node.port.push_back(word);
        if late && node.port_waits_until <= self.now {
            node.port_waits_until = at;
            self.counters.words_late += 1;
            self.push(at, Event::PortSpeaks(proc));
        }
    }

    /// Everything that was said is heard, unless it takes its time.
    pub(crate) fn hear(&mut self, proc: ProcId) -> Result<(), String> {
        while let Some(word) = self.next_word(proc) {
            match word {
                Word::ToProvider(command) => {
                    self.feed_client(proc, AppClientEvent::Command(command))?;
                }
                Word::ToRegistry(event) => {
                    self.feed_driver(proc, RegistryEvent::Provider(event))?
                }
            }
        }
        Ok(())
    }

    /// When everything that was said is heard: a driver that ends waits for that.
    pub(crate) fn port_is_heard(&self, proc: ProcId) -> u64 {
        match &self.procs[proc].body {
            Some(Body::Driver(node)) => node.port_waits_until.max(self.now),
            _ => self.now,
        }
    }

    fn next_word(&mut self, proc: ProcId) -> Option<Word> {
        let Some(Body::Driver(node)) = &mut self.procs[proc].body else { return None };
        match node.port_waits_until > self.now {
            true => None,
            false => node.port.pop_front(),
        }
    }
}

/// Words between registry and provider, oldest first.
pub(crate) type Port = VecDeque<Word>;
