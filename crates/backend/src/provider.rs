//! The port between the driver's registry of executors and a cluster manager. A *provider* orders executors, starts them
//! or has them started, and says how they end; the registry says how many are wanted and which are not. Both are state machines
//! of their own, and speak in the plain data of this file.
//!
//! ```text
//!            SetTarget, Release, NodesExcluded, Named, Registered, Disconnected, Silent, Stop
//!  registry ──────────────────────────────────────────────────► provider ──► cluster manager
//!           ◄──────────────────────────────────────────────────
//!            Accepted, Ordered, Started, Preparing, Decommissioning, Ended, Capacity, Warning, Failed
//! ```
//!
//! What a provider says twice, late or of executors that are over does no harm: it is dropped and counted.

use std::collections::BTreeSet;
use std::fmt;

use firesteel_types::{ExecutorId, Host};
use serde::{Deserialize, Serialize};

use crate::AppId;
use crate::blame::End;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderEvent {
    /// The cluster manager took the application in. Told again when its id changes.
    Accepted { app: AppId },
    /// An executor was ordered: it will register, or its end will be told.
    Ordered { executor: ExecutorId },
    /// Its process, or its pod, runs.
    Started { executor: ExecutorId, node: Host },
    /// Its node makes ready what it needs, and is so far. Nothing to say as long as that makes no progress.
    Preparing { executor: ExecutorId, preparing: Preparing },
    /// The cluster manager ends it soon, or its node: it gets no more tasks. However the driver finds out that it is gone,
    /// that is nobody's fault.
    Decommissioning {
        executor: ExecutorId,
        /// Why, for people: what a sentence about the executor says of it.
        reason: String,
    },
    /// Its process, or its pod, is over, or never came to be.
    Ended {
        executor: ExecutorId,
        /// How: this alone decides whose fault it is.
        end: End,
        /// For logs and pages: nothing decides by it.
        reason: String,
    },
    /// What can be had now.
    Capacity(Capacity),
    /// Something that the user should know.
    Warning { message: String },
    /// There will be no more executors: the application cannot go on.
    Failed { reason: String },
}

/// How far a node is with what an executor needs before its process starts: its executable and its files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preparing {
    pub bytes: u64,
    /// How many there are in all.
    pub of: u64,
    /// How often it was told to wait for its turn.
    pub waits: u64,
}

impl Preparing {
    /// Whether something has happened since: bytes came, or it was told again that its turn will come.
    pub fn is_further_than(self, before: Preparing) -> bool {
        self.bytes > before.bytes || self.waits > before.waits
    }

    /// Whether there is something to wait for.
    pub fn is_under_way(self) -> bool {
        self.bytes < self.of
    }
}

impl fmt::Display for Preparing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes", self.bytes, self.of)
    }
}

/// What a cluster manager can give now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Why executors that are wanted cannot be had, in one sentence; `None`: nothing stands in the way.
    pub shortage: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderCommand {
    /// So many executors are wanted from now on.
    SetTarget(u32),
    /// These shall end, whatever they do; others may take their place. Told once: the provider says it as often as it takes
    /// until it can tell their end.
    Release(Vec<ExecutorId>),
    /// No executor shall be started on these nodes from now on; all others are welcome.
    NodesExcluded(BTreeSet<Host>),
    /// An executor registered with the driver.
    Registered(ExecutorId),
    /// An executor registered before the cluster manager's answer came, and says what that calls the application.
    Named(AppId),
    /// Its connection broke for good: it does no more work. Its end is still to be told, which may say why; [`Self::Release`] follows if
    /// that does not come soon.
    Disconnected(ExecutorId),
    /// No heartbeat of it came for too long: its node may be gone, before its cluster manager knows. [`Self::Release`] follows.
    Silent(ExecutorId),
    /// The application is over: let go of everything.
    Stop,
}
