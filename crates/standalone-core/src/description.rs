//! What the parts of a cluster know about each other: plain data, as it travels and as it is kept.

use std::sync::Arc;

use firesteel_backend::blame::{End, ExitStatus};
use firesteel_backend::command::Command;
use firesteel_backend::provider::Preparing;
use firesteel_backend::{Address, AppId};
use firesteel_types::ExecutorId;
use serde::{Deserialize, Serialize};

use crate::{DriverId, ExecutorKey, Incarnation, WorkerId};

/// What an application asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationDescription {
    pub name: String,
    /// The user that the driver runs as.
    pub user: String,
    /// `spark.cores.max`; `None`: the cluster's default.
    pub max_cores: Option<u32>,
    /// `spark.executor.memory`.
    pub memory_per_executor_mb: u64,
    /// `spark.executor.cores`; `None`: one executor takes all it is given on a worker.
    pub cores_per_executor: Option<u32>,
    /// How many executors at first, when their number is limited.
    pub initial_executor_limit: Option<u32>,
    /// How an executor is started.
    pub command: Command,
    pub web_ui: String,
}

/// A driver that the cluster shall run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverDescription {
    /// The executable it was submitted as; `mainclass` on the master's page.
    pub name: String,
    pub cores: u32,
    pub memory_mb: u64,
    /// Whether it is started again when it fails.
    pub supervise: bool,
    pub command: Command,
}

/// A worker as it introduces itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerDescription {
    pub id: WorkerId,
    /// Which process bears it.
    pub incarnation: Incarnation,
    pub address: Address,
    pub web_ui: String,
    /// Cores it may give out.
    pub cores: u32,
    /// Memory it may give out.
    pub memory_mb: u64,
}

/// How far an executor is. Spark's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ExecutorState {
    /// Ordered; its process is not known to run.
    Launching,
    Running,
    /// Runs on a worker that was decommissioned: it ends what it does, and another one takes its place.
    Decommissioned,
    /// Ended on order.
    Killed,
    /// Could not be started.
    Failed,
    /// Gone with its worker.
    Lost,
    /// Its process ended by itself.
    Exited,
}

impl ExecutorState {
    pub fn is_finished(self) -> bool {
        use ExecutorState::*;
        !matches!(self, Launching | Running | Decommissioned)
    }

    /// How one in this state ended.
    pub fn end(self, status: Option<ExitStatus>) -> End {
        match self {
            ExecutorState::Exited => End::Exited(status),
            ExecutorState::Failed => End::LaunchFailed,
            ExecutorState::Killed => End::Told,
            ExecutorState::Lost
            | ExecutorState::Launching
            | ExecutorState::Running
            | ExecutorState::Decommissioned => End::NodeLost,
        }
    }

    /// As Spark writes it.
    pub fn name(self) -> &'static str {
        match self {
            ExecutorState::Launching => "LAUNCHING",
            ExecutorState::Running => "RUNNING",
            ExecutorState::Decommissioned => "DECOMMISSIONED",
            ExecutorState::Killed => "KILLED",
            ExecutorState::Failed => "FAILED",
            ExecutorState::Lost => "LOST",
            ExecutorState::Exited => "EXITED",
        }
    }
}

/// How an executor's or a driver's process ended, as its worker tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessEnd {
    /// What is known, for people.
    pub message: String,
    /// Its status, if the process ran.
    pub status: Option<ExitStatus>,
}

/// An executor in a worker's report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutorReport {
    pub key: ExecutorKey,
    pub cores: u32,
    pub memory_mb: u64,
    pub state: ExecutorState,
    /// How far its worker is with what it needs, if that takes a while.
    pub preparing: Option<Preparing>,
    /// How it ended, if it did.
    pub end: Option<ProcessEnd>,
}

/// How far a driver is. Spark's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DriverState {
    /// Waits for a worker.
    Submitted,
    /// Runs on a worker.
    Running,
    /// Ended with success.
    Finished,
    /// Its worker went; another one of it takes its place.
    Relaunching,
    /// Nobody knows, after a change of masters.
    Unknown,
    /// Ended on order.
    Killed,
    /// Ended without success.
    Failed,
    /// Could not be run, or went with its worker.
    Error,
}

impl DriverState {
    pub fn is_finished(self) -> bool {
        !matches!(self, DriverState::Submitted | DriverState::Running | DriverState::Unknown)
    }

    /// As Spark writes it.
    pub fn name(self) -> &'static str {
        match self {
            DriverState::Submitted => "SUBMITTED",
            DriverState::Running => "RUNNING",
            DriverState::Finished => "FINISHED",
            DriverState::Relaunching => "RELAUNCHING",
            DriverState::Unknown => "UNKNOWN",
            DriverState::Killed => "KILLED",
            DriverState::Failed => "FAILED",
            DriverState::Error => "ERROR",
        }
    }
}

/// A driver in a worker's report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverReport {
    pub driver: DriverId,
    pub cores: u32,
    pub memory_mb: u64,
    pub state: DriverState,
    /// What it was ordered with, when the worker registers: a master that knows nothing of it adopts it.
    pub description: Option<Arc<DriverDescription>>,
    /// How it ended, if it did.
    pub end: Option<ProcessEnd>,
}

/// All a worker has to tell. A report with a smaller number is older and says nothing new.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerState {
    /// Grows with every message of this worker's process.
    pub number: u64,
    /// Its executors; the ended ones until their end is acknowledged.
    pub executors: Vec<ExecutorReport>,
    /// Its drivers, likewise.
    pub drivers: Vec<DriverReport>,
    /// Applications it keeps something of.
    pub apps: Vec<AppId>,
    /// It was decommissioned: a master that does not know that learns it.
    pub decommissioned: bool,
}

/// How an executor was lost, as a driver needs to know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutorUpdate {
    pub executor: ExecutorId,
    pub state: ExecutorState,
    /// How it ended, if it did.
    pub end: Option<ProcessEnd>,
}

/// A shared description: it is the same for every executor.
pub type SharedDescription = Arc<ApplicationDescription>;
