//! What of a master's state outlives it, when a recovery mode is set: persisted before messages that follow from it are sent.

use std::sync::Arc;

use firesteel_backend::AppId;
use firesteel_types::{ExecutorId, Tick};
use serde::{Deserialize, Serialize};

use crate::description::{ApplicationDescription, DriverDescription, WorkerDescription};
use crate::{DriverId, Incarnation, WorkerId};

/// A worker as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerRecord {
    /// As it introduced itself.
    pub worker: WorkerDescription,
}

/// An application as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationRecord {
    pub app: AppId,
    /// Which driver process.
    pub incarnation: Incarnation,
    pub description: Arc<ApplicationDescription>,
    pub submitted: Tick,
    /// The first number its executors may have.
    pub next_executor: ExecutorId,
}

/// A driver as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverRecord {
    pub driver: DriverId,
    pub description: Arc<DriverDescription>,
    pub submitted: Tick,
    /// Where it runs, if it does.
    pub worker: Option<WorkerId>,
}

/// One change of what is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// A worker came.
    PutWorker(WorkerRecord),
    /// A worker went.
    RemoveWorker(WorkerId),
    /// An application came, or took more executor numbers.
    PutApplication(ApplicationRecord),
    RemoveApplication(AppId),
    /// A driver came, or was given a worker.
    PutDriver(DriverRecord),
    RemoveDriver(DriverId),
}
