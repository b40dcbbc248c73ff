//! How an executor is started: plain data, the same for every cluster manager.

use std::collections::BTreeMap;
use std::fmt;

use firesteel_types::ExecutorId;
use serde::{Deserialize, Serialize};

use crate::{Address, AppId};

/// A program with its arguments, never through a shell.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// The executable's path, on the worker or on the driver that serves it. Of a cluster's drivers also a URL, from which the worker
    /// fetches it.
    pub program: String,
    pub arguments: Vec<String>,
    /// Its environment, beyond what the worker gives.
    pub environment: BTreeMap<String, String>,
    /// The executable's hash, when it must be this very one.
    pub hash: Option<[u8; 32]>,
    /// Where the worker gets the executable if it has no such one, and the files that go with it.
    pub served: Option<Served>,
}

impl fmt::Debug for Command {
    /// Without the values of variables and without the query of a URL: a secret is among them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Command { program, arguments, environment, hash: _, served } = self;
        let is_url = program.contains("://");
        let shown = program.split('?').next().filter(|_| is_url).unwrap_or(program);
        f.debug_struct("Command")
            .field("program", &shown)
            .field("arguments", arguments)
            .field("environment", &environment.keys())
            .field("served", served)
            .finish_non_exhaustive()
    }
}

/// What a driver serves to the workers that start its executors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    pub address: Address,
    /// The length of the executable.
    pub program_bytes: u64,
    /// What is to lie in an executor's working directory before it starts.
    pub files: Vec<ServedFile>,
}

/// A file for executors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedFile {
    /// Its name, without a directory.
    pub name: String,
    pub bytes: u64,
    /// Its hash, by which it is asked for.
    pub hash: [u8; 32],
}

/// Variables that tell an executor who it is.
pub mod variable {
    /// Its application, as [`AppId`](crate::AppId).
    pub const APP_ID: &str = "FIRESTEEL_APP_ID";
    /// Its [`ExecutorId`](firesteel_types::ExecutorId), in decimal.
    pub const EXECUTOR_ID: &str = "FIRESTEEL_EXECUTOR_ID";
    pub const CORES: &str = "FIRESTEEL_EXECUTOR_CORES";
    /// Its memory in MiB.
    pub const MEMORY_MB: &str = "FIRESTEEL_EXECUTOR_MEMORY_MB";
    /// The name that others reach it by: its node.
    pub const HOST: &str = "FIRESTEEL_EXECUTOR_HOST";
    /// The node it runs on, if that has another name: tasks are near to data on the node. Set in pods, which are told to end by
    /// `SIGTERM`: what runs may come to an end then.
    pub const NODE: &str = "FIRESTEEL_EXECUTOR_NODE";
    /// The address it listens at, if that is another.
    pub const BIND_ADDRESS: &str = "FIRESTEEL_EXECUTOR_BIND_ADDRESS";
    /// The worker it ends with, if a worker started it.
    pub const WORKER_URL: &str = "FIRESTEEL_WORKER_URL";
}

/// Who an executor is. Its cluster manager sets these [variables](Identity::variables) after those of its [`Command`].
#[derive(Clone, Debug)]
pub struct Identity {
    pub app: AppId,
    pub executor: ExecutorId,
    /// The name that others reach it by: its node.
    pub host: String,
    pub cores: u32,
    pub memory_mb: u64,
}

impl Identity {
    /// As environment variables of the executor's process, named as in [`variable`].
    pub fn variables(&self) -> [(&'static str, String); 5] {
        [
            (variable::APP_ID, self.app.to_string()),
            (variable::EXECUTOR_ID, self.executor.to_string()),
            (variable::CORES, self.cores.to_string()),
            (variable::MEMORY_MB, self.memory_mb.to_string()),
            (variable::HOST, self.host.clone()),
        ]
    }
}
