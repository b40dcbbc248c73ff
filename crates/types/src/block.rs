//! Blocks as driver and executors speak of them: where one lies, which cached partition it is, how it is cached.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ExecutorId, RddId, StorageLevel, TaskId};

/// Where blocks lie: who serves them to readers. An executor today; not every holder has to be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum BlockLocation {
    /// The process of an executor: its blocks go with it.
    Executor(ExecutorId),
}

impl BlockLocation {
    /// The driver's own process.
    pub const DRIVER: BlockLocation = BlockLocation::Executor(ExecutorId::DRIVER);

    /// The executor that this is, if it is one.
    pub fn executor(self) -> Option<ExecutorId> {
        let BlockLocation::Executor(executor) = self;
        Some(executor)
    }
}

impl From<ExecutorId> for BlockLocation {
    fn from(executor: ExecutorId) -> Self {
        BlockLocation::Executor(executor)
    }
}

impl fmt::Display for BlockLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BlockLocation::Executor(executor) = self;
        write!(f, "executor {executor}")
    }
}

/// Where one map output lies, and which attempt wrote it: outputs of two attempts may differ, and one
/// never stands in for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MapOutputLocation {
    /// The executor that serves it.
    pub location: BlockLocation,
    /// The map task that wrote it.
    pub task: TaskId,
}

/// The output that one attempt wrote for one map partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MapAttempt {
    pub map_partition: u32,
    /// The map task that wrote it.
    pub task: TaskId,
}

/// A cached partition of an RDD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RddBlock {
    pub rdd: RddId,
    pub partition: u32,
}

/// Spark's name for it.
impl fmt::Display for RddBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rdd_{}_{}", self.rdd, self.partition)
    }
}

/// How a block is stored by one of its holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockStatus {
    pub memory_bytes: u64,
    pub disk_bytes: u64,
    /// The storage level that the user asked for.
    pub level: StorageLevel,
    /// The epoch of map outputs in which the task was launched that computed it: what it read may be outdated later.
    pub epoch: u64,
}
