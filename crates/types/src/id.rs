//! Newtype ids. An id is never reused within an application (invariant S05).

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// One action, from submission to its single end.
    JobId(u32)
);
id!(
    /// A stage: a set of tasks that run one fused pipeline; keeps its id over attempts.
    StageId(u32)
);
id!(
    /// A node of the lineage graph.
    RddId(u32)
);
id!(
    /// One exchange of data between a map stage and its readers.
    ShuffleId(u32)
);
id!(
    /// One attempt of one task; unique within the application.
    TaskId(u64)
);
id!(
    /// A broadcast value; unique within the application.
    BroadcastId(u64)
);
id!(
    /// An accumulator; unique within the application.
    AccumulatorId(u64)
);

/// An executor of the application. The driver's own process, which runs the tasks in local mode,
/// is [`ExecutorId::DRIVER`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExecutorId(pub u32);

impl ExecutorId {
    /// The driver's own process.
    pub const DRIVER: ExecutorId = ExecutorId(u32::MAX);
}

impl fmt::Display for ExecutorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::DRIVER { f.write_str("driver") } else { self.0.fmt(f) }
    }
}

impl fmt::Debug for ExecutorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExecutorId({self})")
    }
}

/// A host name or address, cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Host(pub Arc<str>);

impl Host {
    /// A host by name.
    pub fn new(name: &str) -> Self {
        Host(name.into())
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A point in time as the cores see it: milliseconds since an origin the shell chose, which in running programs is
/// the beginning of 1970. Cores never read a clock; every event brings its tick.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Tick(pub u64);

impl Tick {
    /// This moment plus `ms` milliseconds.
    pub fn plus_ms(self, ms: u64) -> Tick {
        Tick(self.0.saturating_add(ms))
    }

    /// Milliseconds since `earlier`, zero if that lies ahead.
    pub fn since_ms(self, earlier: Tick) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
