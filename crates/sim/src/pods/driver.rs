//! A driver: the production registry and the production allocator, and how the world carries out what they decide.
//! In a real driver each has a thread of its own: what one says to the other comes in order, and sometimes late.

use std::collections::{BTreeMap, VecDeque};

use firesteel_backend::Peer;
use firesteel_backend::jitter::Jitter;
use firesteel_backend::provider::{ProviderCommand, ProviderEvent};
use firesteel_backend::registry::{Registry, RegistryEffect, RegistryEvent, RegistryOptions};
use firesteel_backend::timer::Timer;
use firesteel_kubernetes_core::PodUid;
use firesteel_kubernetes_core::allocator::{Allocator, AllocatorEffect, AllocatorEvent};
use firesteel_scheduler::SchedulerInput;

use super::plan::{NETWORK_TIMEOUT_MS, REASON_WAIT_MS};
use super::requests::{Request, Stream};
use super::{Event, World};

/// What was said between registry and allocator and not heard yet.
#[derive(Debug)]
enum Word {
    ToAllocator(ProviderCommand),
    ToRegistry(ProviderEvent),
}

#[derive(Debug)]
pub(super) struct Driver {
    pub(super) generation: u64,
    pub(super) registry: Registry,
    pub(super) allocator: Allocator,
    registry_timer: Timer,
    allocator_timer: Timer,
    pub(super) stream: Option<Stream>,
    port: VecDeque<Word>,
    port_waits_until: u64,
    peers: BTreeMap<Peer, PodUid>,
    /// Why the application ended, if it did not by itself.
    pub(super) failed: Option<String>,
}

impl Driver {
    /// A connection of an executor.
    pub(super) fn connect(&mut self, uid: &PodUid) -> Peer {
        let peer = Peer(self.peers.len() as u64 + 1);
        self.peers.insert(peer, uid.clone());
        peer
    }
}

impl World {
    pub(super) fn start_driver(&mut self) -> Result<(), String> {
        self.generation += 1;
        let generation = self.generation;
        let options = RegistryOptions {
            target: Some(self.target),
            network_timeout_ms: NETWORK_TIMEOUT_MS,
            reason_wait_ms: REASON_WAIT_MS,
            ..RegistryOptions::default()
        };
        let jitter = Jitter::new(self.rng.u64(..));
        self.driver = Some(Driver {
            generation,
            registry: Registry::new(options),
            allocator: Allocator::new(self.plan.options(generation, self.planted), jitter),
            registry_timer: Timer::default(),
            allocator_timer: Timer::default(),
            stream: None,
            port: VecDeque::new(),
            port_waits_until: 0,
            peers: BTreeMap::new(),
            failed: None,
        });
        self.book.driver_started();
        self.feed_allocator(generation, AllocatorEvent::Ticked)?;
        self.feed_registry(generation, RegistryEvent::Ticked)?;
        self.after(500, Event::Bookmark(generation));
        Ok(())
    }

    /// A moment that the allocator asked for has come; another one may count by now.
    pub(super) fn ring_allocator(&mut self, of: u64) -> Result<(), String> {
        let now = self.tick();
        match self.driver_of(of).is_some_and(|driver| driver.allocator_timer.rings(now)) {
            true => self.feed_allocator(of, AllocatorEvent::Ticked),
            false => Ok(()),
        }
    }

    /// So for the registry.
    pub(super) fn ring_registry(&mut self, of: u64) -> Result<(), String> {
        let now = self.tick();
        match self.driver_of(of).is_some_and(|driver| driver.registry_timer.rings(now)) {
            true => self.feed_registry(of, RegistryEvent::Ticked),
            false => Ok(()),
        }
    }

    /// The driver process of this generation, if it is there.
    fn driver_of(&mut self, of: u64) -> Option<&mut Driver> {
        self.driver.as_mut().filter(|driver| driver.generation == of)
    }

    pub(super) fn feed_allocator(&mut self, of: u64, event: AllocatorEvent) -> Result<(), String> {
        let now = self.tick();
        if self.driver_of(of).is_some() {
            self.book.hears(&event);
        }
        let Some(driver) = self.driver_of(of) else { return Ok(()) };
        let mut out = Vec::new();
        let stale = driver.allocator.stale_messages();
        driver.allocator.handle(now, event, &mut out);
        let stale = driver.allocator.stale_messages() - stale;
        self.counters.stale_for_allocators += stale;
        for effect in out {
            self.carry_out(of, effect)?;
        }
        self.hear(of)
    }

    fn carry_out(&mut self, of: u64, effect: AllocatorEffect) -> Result<(), String> {
        match effect {
            AllocatorEffect::CreatePod(request) => self.send(of, Request::Create(request)),
            AllocatorEffect::DeletePod { name, uid, grace_ms } => {
                self.send(of, Request::Delete { name, uid, grace_ms })
            }
            AllocatorEffect::KeepPod { uid, .. } => {
                self.counters.pods_kept += 1;
                self.book.kept(&uid);
                self.send(of, Request::Keep(uid))
            }
            AllocatorEffect::ListPods { number } => self.send(of, Request::List(number)),
            AllocatorEffect::FetchLog { executor, .. } => {
                self.counters.logs_fetched += 1;
                let event = AllocatorEvent::LogFetched { executor, text: "it failed".to_owned() };
                self.after(7, Event::AnswerArrives(of, event));
                Ok(())
            }
            AllocatorEffect::ListClaims { number } => self.send(of, Request::ListClaims(number)),
            AllocatorEffect::DeleteClaim { name } => self.send(of, Request::DeleteClaim(name)),
            AllocatorEffect::WatchPods { number, from } => {
                if let Some(driver) = self.driver_of(of) {
                    driver.stream = None;
                }
                self.send(of, Request::Watch(number, from))
            }
            AllocatorEffect::RefreshCredentials => {
                self.server.faults().credentials_expired = false;
                Ok(())
            }
            AllocatorEffect::Report(event) => {
                self.check_report(&event)?;
                self.say(of, Word::ToRegistry(event));
                Ok(())
            }
            AllocatorEffect::ArmTimer(at) => {
                if let Some(driver) = self.driver_of(of) {
                    driver.allocator_timer.arm(at);
                }
                self.push(at.0.saturating_sub(1_000_000), Event::AllocatorWakes(of));
                Ok(())
            }
            AllocatorEffect::Finish => self.check_finish(of),
        }
    }

    pub(super) fn feed_registry(&mut self, of: u64, event: RegistryEvent) -> Result<(), String> {
        let now = self.tick();
        let Some(driver) = self.driver_of(of) else { return Ok(()) };
        let mut out = Vec::new();
        driver.registry.handle(now, event, &mut out);
        for effect in out {
            self.carry_out_for_registry(of, effect)?;
        }
        self.hear(of)
    }

    fn carry_out_for_registry(&mut self, of: u64, effect: RegistryEffect) -> Result<(), String> {
        match effect {
            RegistryEffect::Provider(command) => self.say(of, Word::ToAllocator(command)),
            RegistryEffect::SendExecutor { to, message } => {
                let delay = self.rng.u64(1..20);
                let uid = self.driver_of(of).and_then(|driver| driver.peers.get(&to).cloned());
                if let Some(uid) = uid {
                    self.after(delay, Event::ToProcess(uid, message));
                }
            }
            RegistryEffect::Schedule(SchedulerInput::ExecutorAdded { .. }) => {
                self.counters.executors_registered += 1;
            }
            RegistryEffect::Schedule(SchedulerInput::ExecutorLost { .. }) => {
                self.counters.executors_lost += 1;
            }
            RegistryEffect::EndApplication { reason } => {
                self.counters.apps_failed += 1;
                if let Some(driver) = self.driver_of(of) {
                    driver.failed = Some(reason);
                }
            }
            RegistryEffect::TellShortage { shortage: Some(_) } => self.counters.shortages_told += 1,
            RegistryEffect::ArmTimer(at) => {
                if let Some(driver) = self.driver_of(of) {
                    driver.registry_timer.arm(at);
                }
                self.push(at.0.saturating_sub(1_000_000), Event::RegistryWakes(of))
            }
            RegistryEffect::Drain => return self.feed_registry(of, RegistryEvent::Drained),
            RegistryEffect::Schedule(_)
            | RegistryEffect::ReportTask { .. }
            | RegistryEffect::Warn { .. }
            | RegistryEffect::TellShortage { shortage: None }
            | RegistryEffect::Accepted { .. } => {}
        }
        Ok(())
    }

    fn say(&mut self, of: u64, word: Word) {
        let late = self.rng.u8(..20) == 0;
        let (now, at) = (self.now, self.now + self.rng.u64(1..30));
        let Some(driver) = self.driver_of(of) else { return };
        driver.port.push_back(word);
        if late && driver.port_waits_until <= now {
            driver.port_waits_until = at;
            self.counters.words_late += 1;
            self.push(at, Event::PortSpeaks(of));
        }
    }

    /// Everything that was said is heard, unless it takes its time.
    pub(super) fn hear(&mut self, of: u64) -> Result<(), String> {
        loop {
            let now = self.now;
            let Some(driver) = self.driver_of(of) else { return Ok(()) };
            if driver.port_waits_until > now {
                return Ok(());
            }
            match driver.port.pop_front() {
                None => return Ok(()),
                Some(Word::ToAllocator(command)) => {
                    self.book.commanded(&command);
                    self.feed_allocator(of, AllocatorEvent::Command(command))?;
                }
                Some(Word::ToRegistry(event)) => {
                    self.feed_registry(of, RegistryEvent::Provider(event))?
                }
            }
        }
    }
}
