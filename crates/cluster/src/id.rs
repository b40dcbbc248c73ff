//! Names of the cluster's parts, and the numbers that tell one life of a part from the next.

use std::fmt;
use std::sync::Arc;

use firesteel_types::{ExecutorId, Host};
use serde::{Deserialize, Serialize};

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Arc<str>);

        impl $name {
            /// By this name.
            pub fn new(name: &str) -> Self {
                $name(name.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

name!(
    /// A worker process: `worker-20261115175124-127.0.0.1-43477`. Another process has another name.
    WorkerId
);
name!(
    /// An application: `app-20261115175340-0000`.
    AppId
);
name!(
    /// A driver that the cluster runs: `driver-20261115175308-0001`.
    DriverId
);
number!(
    /// One life of a master. A later one has a larger number: the time it was elected at will do.
    Epoch
);
number!(
    /// One registration of a worker with a master. What was said under an older one is void.
    Registration
);
number!(
    /// One life of a process, drawn at its start: tells a message said twice from two that say it.
    Incarnation
);
number!(
    /// A connection as its shell numbers it; the same peer comes back under another number.
    Peer
);

/// An executor of an application.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExecutorKey {
    /// Whose.
    pub app: AppId,
    /// Its number.
    pub executor: ExecutorId,
}

impl fmt::Display for ExecutorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.app, self.executor)
    }
}

/// Where a process listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Address {
    /// The host.
    pub host: Host,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}
