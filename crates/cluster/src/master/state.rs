//! What a master knows of applications. Data and its books, no decisions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firesteel_backend::{AppId, Peer};
use firesteel_types::{ExecutorId, Host, Tick};

use super::launches::Launches;
use super::records::ApplicationRecord;
use crate::description::{ApplicationDescription, ExecutorState};
use crate::{ExecutorKey, Incarnation, WorkerId};

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
