//! The port between the driver's registry of executors and a cluster manager. A *provider* orders executors, starts them
//! or has them started, and says how they end; the registry says how many are wanted and which are not. Both are state machines
//! of their own, and speak in the plain data of this file.
//!
//! ```text
//!            SetTarget, Release, NodesExcluded, Registered, Stop
//!  registry ──────────────────────────────────────────────────► provider ──► cluster manager
//!           ◄──────────────────────────────────────────────────
//!            Accepted, Ordered, Started, Ended, Capacity, Warning, Failed
//! ```
//!
//! What a provider says twice, late or of executors that are over does no harm: it is dropped and counted.

use std::collections::BTreeSet;

use firesteel_types::{ExecutorId, Host};

use crate::AppId;
use crate::blame::End;

/// From a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderEvent {
    /// The cluster manager took the application in. Told again when its id changes.
    Accepted { app: AppId },
    /// An executor was ordered: it will register, or its end will be told.
    Ordered { executor: ExecutorId },
    /// Its process, or its pod, runs.
    Started { executor: ExecutorId, node: Host },
    /// It is over.
    Ended {
        executor: ExecutorId,
        /// How: this alone decides whose fault it is.
        end: End,
        /// For people.
        reason: String,
    },
    /// What can be had now.
    Capacity(Capacity),
    /// Something that the user should know.
    Warning { message: String },
    /// There will be no more executors: the application cannot go on.
    Failed { reason: String },
}

/// What a cluster manager can give now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Why executors that are wanted cannot be had, in one sentence; `None`: nothing stands in the way.
    pub shortage: Option<String>,
}

/// To a provider.
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
    /// The application is over: let go of everything.
    Stop,
}
