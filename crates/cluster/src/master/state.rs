//! What a master knows: workers with what is taken of them, and applications. Data and its books,
//! no decisions.
//!
//! Invariant S01: what is used of a worker is the sum of what is booked on it, and never more than it has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firesteel_backend::{AppId, Peer};
use firesteel_types::{ExecutorId, Host, Tick};

use super::launches::Launches;
use super::records::ApplicationRecord;
use crate::description::{ApplicationDescription, ExecutorState, WorkerDescription};
use crate::{DriverId, ExecutorKey, Incarnation, Registration, WorkerId};

/// What a master is doing. Spark's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryState {
    /// Another one acts.
    Standby,
    /// It acts.
    Alive,
    /// It learns what its predecessor knew.
    Recovering,
    /// It gives up what did not answer.
    CompletingRecovery,
}

impl RecoveryState {
    /// As Spark writes it.
    pub fn name(self) -> &'static str {
        match self {
            RecoveryState::Standby => "STANDBY",
            RecoveryState::Alive => "ALIVE",
            RecoveryState::Recovering => "RECOVERING",
            RecoveryState::CompletingRecovery => "COMPLETING_RECOVERY",
        }
    }
}

/// What a worker is to the master. Spark's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerStatus {
    /// It gets work.
    Alive,
    /// It was given up.
    Dead,
    /// It was known to the master before this one and has not answered.
    Unknown,
}

impl WorkerStatus {
    /// As Spark writes it.
    pub fn name(self) -> &'static str {
        match self {
            WorkerStatus::Alive => "ALIVE",
            WorkerStatus::Dead => "DEAD",
            WorkerStatus::Unknown => "UNKNOWN",
        }
    }
}

/// Where an application is in its life. Spark's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplicationState {
    /// It has no executor.
    Waiting,
    /// It has executors.
    Running,
    /// It said that it is over, or its driver is gone.
    Finished,
    /// Its executors failed too often.
    Failed,
    /// Somebody ended it.
    Killed,
}

impl ApplicationState {
    /// As Spark writes it.
    pub fn name(self) -> &'static str {
        match self {
            ApplicationState::Waiting => "WAITING",
            ApplicationState::Running => "RUNNING",
            ApplicationState::Finished => "FINISHED",
            ApplicationState::Failed => "FAILED",
            ApplicationState::Killed => "KILLED",
        }
    }
}

/// What is booked on a worker for one executor or driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) cores: u32,
    pub(super) memory_mb: u64,
}

/// A worker.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) description: WorkerDescription,
    pub(super) peer: Peer,
    pub(super) registration: Registration,
    pub(super) status: WorkerStatus,
    pub(super) last_heartbeat: Tick,
    /// The largest number of its reports.
    reported: u64,
    executors: BTreeMap<ExecutorKey, Slot>,
    drivers: BTreeMap<DriverId, Slot>,
    cores_used: u32,
    memory_used_mb: u64,
}

impl Worker {
    pub(super) fn new(
        description: WorkerDescription,
        peer: Peer,
        registration: Registration,
        now: Tick,
    ) -> Self {
        Worker {
            description,
            peer,
            registration,
            status: WorkerStatus::Alive,
            last_heartbeat: now,
            reported: 0,
            executors: BTreeMap::new(),
            drivers: BTreeMap::new(),
            cores_used: 0,
            memory_used_mb: 0,
        }
    }

    pub(super) fn is_alive(&self) -> bool {
        self.status == WorkerStatus::Alive
    }

    /// Whether a report with this number says something new.
    pub(super) fn is_news(&mut self, number: u64) -> bool {
        let news = number > self.reported;
        self.reported = self.reported.max(number);
        news
    }

    pub(super) fn cores_used(&self) -> u32 {
        self.cores_used
    }

    pub(super) fn memory_used_mb(&self) -> u64 {
        self.memory_used_mb
    }

    pub(super) fn free_cores(&self) -> u32 {
        self.description.cores.saturating_sub(self.cores_used)
    }

    pub(super) fn free_memory_mb(&self) -> u64 {
        self.description.memory_mb.saturating_sub(self.memory_used_mb)
    }

    pub(super) fn fits(&self, cores: u32, memory_mb: u64) -> bool {
        self.is_alive() && self.free_cores() >= cores && self.free_memory_mb() >= memory_mb
    }

    pub(super) fn book_executor(&mut self, key: ExecutorKey, slot: Slot) {
        let taken = self.executors.insert(key, slot);
        assert!(taken.is_none(), "S01: an executor is booked twice");
        self.take(slot);
    }

    pub(super) fn book_driver(&mut self, driver: DriverId, slot: Slot) {
        let taken = self.drivers.insert(driver, slot);
        assert!(taken.is_none(), "S01: a driver is booked twice");
        self.take(slot);
    }

    fn take(&mut self, slot: Slot) {
        self.cores_used += slot.cores;
        self.memory_used_mb += slot.memory_mb;
    }

    /// Gives back what the executor held; false if it held nothing.
    pub(super) fn free_executor(&mut self, key: &ExecutorKey) -> bool {
        let slot = self.executors.remove(key);
        slot.map(|slot| self.give(slot)).is_some()
    }

    /// Gives back what the driver held; false if it held nothing.
    pub(super) fn free_driver(&mut self, driver: &DriverId) -> bool {
        let slot = self.drivers.remove(driver);
        slot.map(|slot| self.give(slot)).is_some()
    }

    fn give(&mut self, slot: Slot) {
        self.cores_used = self.cores_used.checked_sub(slot.cores).expect("S01: cores below zero");
        let memory = self.memory_used_mb.checked_sub(slot.memory_mb);
        self.memory_used_mb = memory.expect("S01: memory below zero");
    }

    pub(super) fn holds_executor(&self, key: &ExecutorKey) -> bool {
        self.executors.contains_key(key)
    }

    pub(super) fn executor_keys(&self) -> impl Iterator<Item = &ExecutorKey> {
        self.executors.keys()
    }

    pub(super) fn driver_ids(&self) -> impl Iterator<Item = &DriverId> {
        self.drivers.keys()
    }

    /// Frees everything: the worker is given up.
    pub(super) fn clear(&mut self) -> (Vec<ExecutorKey>, Vec<DriverId>) {
        (self.cores_used, self.memory_used_mb) = (0, 0);
        let executors = std::mem::take(&mut self.executors).into_keys().collect();
        (executors, std::mem::take(&mut self.drivers).into_keys().collect())
    }

    pub(super) fn assert_consistent(&self) {
        let slots = || self.executors.values().chain(self.drivers.values());
        let id = &self.description.id;
        let cores: u32 = slots().map(|slot| slot.cores).sum();
        assert_eq!(cores, self.cores_used, "S01: cores of {id}");
        let memory: u64 = slots().map(|slot| slot.memory_mb).sum();
        assert_eq!(memory, self.memory_used_mb, "S01: memory of {id}");
        assert!(cores <= self.description.cores, "S01: {id} gave {cores} cores");
        assert!(memory <= self.description.memory_mb, "S01: {id} gave {memory} MB");
    }
}

/// An executor that its application counts on.
#[derive(Clone, Debug)]
pub(super) struct Executor {
    pub(super) worker: WorkerId,
    pub(super) cores: u32,
    pub(super) memory_mb: u64,
    pub(super) state: ExecutorState,
    pub(super) ordered: Tick,
    /// Since when its driver counts on it.
    pub(super) registered: Option<Tick>,
}

/// An application that is not over.
#[derive(Debug)]
pub(super) struct Application {
    pub(super) id: AppId,
    pub(super) incarnation: Incarnation,
    pub(super) description: Arc<ApplicationDescription>,
    pub(super) peer: Peer,
    pub(super) order: u64,
    pub(super) submitted: Tick,
    pub(super) last_seen: Tick,
    /// Since when its connection is broken.
    pub(super) disconnected: Option<Tick>,
    pub(super) limit: Option<u32>,
    pub(super) next_executor: ExecutorId,
    pub(super) executors: BTreeMap<ExecutorId, Executor>,
    pub(super) cores_granted: u32,
    pub(super) launches: Launches,
    /// How many of its executors have ever registered with its driver, as far as that told.
    pub(super) registrations: u64,
    /// Hosts on which it wants no more executors.
    pub(super) excluded: BTreeSet<Host>,
    /// Since when it has no executor, or when that was said last.
    pub(super) starving_since: Tick,
}

impl Application {
    pub(super) fn key(&self, executor: ExecutorId) -> ExecutorKey {
        ExecutorKey { app: self.id.clone(), executor }
    }

    /// Whether its driver counts on one of its executors.
    pub(super) fn works(&self) -> bool {
        self.executors.values().any(|executor| executor.registered.is_some())
    }

    pub(super) fn state(&self) -> ApplicationState {
        if self.executors.is_empty() {
            ApplicationState::Waiting
        } else {
            ApplicationState::Running
        }
    }

    pub(super) fn add(&mut self, executor: Executor) -> ExecutorId {
        let id = self.next_executor;
        self.next_executor = ExecutorId(id.0 + 1);
        self.cores_granted += executor.cores;
        self.executors.insert(id, executor);
        id
    }

    pub(super) fn remove(&mut self, executor: ExecutorId, now: Tick) -> Option<Executor> {
        let removed = self.executors.remove(&executor)?;
        self.cores_granted -= removed.cores;
        self.starving_since = now;
        Some(removed)
    }

    pub(super) fn record(&self) -> ApplicationRecord {
        ApplicationRecord {
            app: self.id.clone(),
            incarnation: self.incarnation,
            description: self.description.clone(),
            submitted: self.submitted,
            next_executor: self.next_executor,
        }
    }
}

/// An application that is over.
#[derive(Clone, Debug)]
pub(super) struct CompletedApplication {
    pub(super) id: AppId,
    pub(super) incarnation: Incarnation,
    pub(super) description: Arc<ApplicationDescription>,
    pub(super) submitted: Tick,
    pub(super) ended: Tick,
    pub(super) state: ApplicationState,
    pub(super) cores: u32,
    pub(super) next_executor: ExecutorId,
    pub(super) message: String,
    /// Its driver may come back: it only went silent.
    pub(super) may_return: bool,
}
