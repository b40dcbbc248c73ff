//! The messages between driver and executor. Closed enums: there are no others.

use std::collections::BTreeMap;
use std::sync::Arc;

use firesteel_types::{ExecutorId, Host, TaskId, TaskOutcome};
use serde::{Deserialize, Serialize};

use crate::AppId;

/// From an executor to its driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToDriver {
    /// Its first message over a connection, and again when [`ToExecutor::HeartbeatResponse`] asks for it.
    RegisterExecutor {
        app: AppId,
        executor: ExecutorId,
        host: Host,
        cores: u32,
        /// The hash of its executable.
        hash: Option<[u8; 32]>,
        /// Where its output can be read, by name (`stdout`, `stderr`).
        log_urls: BTreeMap<String, String>,
        /// What its cluster manager tells of it.
        attributes: BTreeMap<String, String>,
    },
    /// Sent every heartbeat interval, with the whole state of the executor: a lost message heals.
    ExecutorHeartbeat { executor: ExecutorId, running: Vec<TaskId> },
    StatusUpdate {
        executor: ExecutorId,
        task: TaskId,
        outcome: TaskOutcome,
        /// Its result and what it cost, as the shell encodes it; empty if it never ran.
        data: Arc<[u8]>,
    },
}

/// Why a driver does not take an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// It was declared dead before.
    Lost,
    /// Another process has this id.
    Duplicate,
    /// The application ends.
    Stopping,
    /// It is of another application.
    OtherApplication,
    /// Its executable is not the driver's.
    OtherExecutable,
    /// The executor has not told over this connection where it serves its blocks.
    NoAddress,
}

/// From a driver to an executor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToExecutor {
    /// The executor may run tasks from now on.
    RegisteredExecutor,
    /// The executor ends; its provider may be ordered another.
    RegisterExecutorFailed {
        refusal: Refusal,
        /// For the executor's log: `refusal` decides.
        message: String,
    },
    /// Its heartbeat was heard.
    HeartbeatResponse {
        /// Whether it has to register again.
        reregister: bool,
    },
    LaunchTask {
        task: TaskId,
        /// What, as the shell encodes it.
        data: Arc<[u8]>,
    },
    KillTask {
        task: TaskId,
        reason: String,
    },
    StopExecutor,
}
