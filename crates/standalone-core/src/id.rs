//! Names of a standalone cluster's parts, and the numbers that tell one incarnation of a part from the next.

use std::fmt;

use firesteel_backend::{AppId, named_id, numbered_id};
use firesteel_types::ExecutorId;
use serde::{Deserialize, Serialize};

named_id!(
    /// A worker process: `worker-20261115175124-127.0.0.1-43477`. Another process has another name.
    WorkerId
);
named_id!(
    /// A driver that the cluster runs: `driver-20261115175308-0001`.
    DriverId
);
numbered_id!(
    /// A fencing term: one leadership of one master. Each is larger than all before it, whatever clocks show.
    Term
);
numbered_id!(
    /// One registration of a worker with a master. Messages of an older one are dropped.
    Registration
);
numbered_id!(
    /// One incarnation of a process, drawn at its start: tells a message that came twice from two messages.
    Incarnation
);

/// An executor of an application.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExecutorKey {
    pub app: AppId,
    pub executor: ExecutorId,
}

impl fmt::Display for ExecutorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.app, self.executor)
    }
}
