//! What of a master's state outlives it: persisted before messages that follow from it are sent.
//!
//! [`Records`] is that state as a whole. A store holds one; [`Records::apply`] says what a [`Change`] does to it, for every
//! store and for the simulator.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firesteel_backend::AppId;
use firesteel_types::{ExecutorId, Tick};
use serde::{Deserialize, Serialize};

use crate::description::{ApplicationDescription, DriverDescription, WorkerDescription};
use crate::{DriverId, Incarnation, Term, WorkerId};

/// A worker as it is persisted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerRecord {
    /// As it introduced itself.
    pub worker: WorkerDescription,
    /// It gets nothing more to do.
    pub decommissioned: bool,
}

/// An executor as it is persisted, with its application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutorRecord {
    pub executor: ExecutorId,
    pub worker: WorkerId,
    pub cores: u32,
    pub memory_mb: u64,
}

/// An application as it is persisted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationRecord {
    pub app: AppId,
    /// Tells this driver process from others of the same application.
    pub incarnation: Incarnation,
    pub description: Arc<ApplicationDescription>,
    pub submitted: Tick,
    /// The first number its executors may have.
    pub next_executor: ExecutorId,
    /// Its place in the queue: smaller ones came earlier.
    pub order: u64,
    /// How many executors it wants, when that is limited.
    pub limit: Option<u32>,
    /// Those that it counts on.
    pub executors: Vec<ExecutorRecord>,
}

/// A driver that may still run elsewhere, on a worker that was declared dead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    pub driver: DriverId,
    pub worker: WorkerId,
}

/// A driver as it is persisted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverRecord {
    pub driver: DriverId,
    pub description: Arc<DriverDescription>,
    pub submitted: Tick,
    /// Where it runs, if it does.
    pub worker: Option<WorkerId>,
    /// The one whose place it takes, while that may still run.
    pub fence: Option<Fence>,
    /// Its description is as it was submitted. A store that cannot seal what it holds leaves secrets out: then only its worker
    /// knows the rest.
    pub whole: bool,
}

/// One change of what is persisted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// A term began, or a leader's term grew.
    PutTerm(Term),
    PutWorker(WorkerRecord),
    RemoveWorker(WorkerId),
    /// An application came, or changed.
    PutApplication(ApplicationRecord),
    RemoveApplication(AppId),
    /// A driver came, or was given a worker.
    PutDriver(DriverRecord),
    RemoveDriver(DriverId),
}

/// All that is persisted. Empty, with term 0: nothing ever was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// Of the last leader.
    pub term: Term,
    pub workers: BTreeMap<WorkerId, WorkerRecord>,
    pub apps: BTreeMap<AppId, ApplicationRecord>,
    pub drivers: BTreeMap<DriverId, DriverRecord>,
}

impl Records {
    /// Nothing was ever persisted there.
    pub fn is_new(&self) -> bool {
        self.term == Term(0)
    }

    pub fn apply(&mut self, change: Change) {
        match change {
            Change::PutTerm(term) => self.term = term,
            Change::PutWorker(record) => {
                self.workers.insert(record.worker.id.clone(), record);
            }
            Change::RemoveWorker(id) => {
                self.workers.remove(&id);
            }
            Change::PutApplication(record) => {
                self.apps.insert(record.app.clone(), record);
            }
            Change::RemoveApplication(id) => {
                self.apps.remove(&id);
            }
            Change::PutDriver(record) => {
                self.drivers.insert(record.driver.clone(), record);
            }
            Change::RemoveDriver(id) => {
                self.drivers.remove(&id);
            }
        }
    }

    /// As so many changes of nothing.
    pub fn into_changes(self) -> impl Iterator<Item = Change> {
        let workers = self.workers.into_values().map(Change::PutWorker);
        let apps = self.apps.into_values().map(Change::PutApplication);
        let drivers = self.drivers.into_values().map(Change::PutDriver);
        let term = (self.term > Term(0)).then_some(Change::PutTerm(self.term));
        term.into_iter().chain(workers).chain(apps).chain(drivers)
    }
}

/// What one event changed. The records are made when all of it is known, each once.
#[derive(Debug, Default)]
pub(super) struct Touched {
    pub(super) term: bool,
    pub(super) workers: BTreeSet<WorkerId>,
    pub(super) apps: BTreeSet<AppId>,
    pub(super) drivers: BTreeSet<DriverId>,
}
