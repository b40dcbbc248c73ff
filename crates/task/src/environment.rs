//! What an executor offers to the tasks in it.

use std::path::PathBuf;
use std::time::Duration;

use firesteel_shuffle::{MapOutput, Scratch, Slice};
use firesteel_storage::{BlockId, MemoryStore};
use firesteel_types::{BroadcastId, ExecutorId, ShuffleId, TaskFailure, TaskId, TaskMetrics};

/// One reader's part of a map output.
pub struct FetchedSlice {
    /// The records of this reader, encoded.
    pub slice: Slice,
    /// Whether another executor holds the output.
    pub is_remote: bool,
    /// What requests to other executors took that were answered since the last one was handed out.
    pub requests: Duration,
}

/// One reader's parts of map outputs, in the order of map partitions; nothing follows a failure.
pub type MapOutputs = Box<dyn Iterator<Item = Result<FetchedSlice, TaskFailure>>>;

/// What an executor offers to the tasks in it.
pub trait Environment: Send + Sync {
    /// The executor that runs the task; [`ExecutorId::DRIVER`] in local mode.
    fn executor(&self) -> ExecutorId {
        ExecutorId::DRIVER
    }
    /// Blocks of this process.
    fn blocks(&self) -> &MemoryStore;
    /// Memory by grant and temporary files.
    fn scratch(&self) -> &Scratch;
    /// Keeps what an attempt of a map task wrote.
    fn put_map_output(
        &self,
        shuffle: ShuffleId,
        map: u32,
        task: TaskId,
        output: MapOutput,
    ) -> Result<(), TaskFailure>;
    /// One reader's part of one map output; `FetchFailed` when it cannot be had.
    fn fetch_map_output(
        &self,
        shuffle: ShuffleId,
        map: u32,
        reduce: u32,
    ) -> Result<Slice, TaskFailure>;
    /// A map output of this executor was there but could not be read: the failure, with all the others of
    /// the shuffle that this executor cannot serve either.
    fn unreadable(
        &self,
        shuffle: ShuffleId,
        map: u32,
        reduce: u32,
        message: String,
    ) -> TaskFailure {
        TaskFailure::FetchFailed {
            shuffle,
            map_partition: map,
            reduce_partition: reduce,
            location: self.executor().into(),
            broken: Vec::new(),
            message,
        }
    }
    /// Where the files of `spark.files` are, if not where the whole process has them.
    fn files_root(&self) -> Option<PathBuf> {
        None
    }
    /// One reader's parts of all map outputs of a shuffle, in order, where prefetching pays; else they
    /// are to be fetched one by one.
    fn prefetch(&self, _: ShuffleId, _maps: u32, _reduce: u32) -> Option<MapOutputs> {
        None
    }
    /// Hears what a task cost so far, whenever that changes.
    fn publish(&self, _: &TaskMetrics) {}
    /// A cached partition that is not in `blocks`, if another executor has it.
    fn fetch_cached(&self, _: BlockId) -> Option<Slice> {
        None
    }
    /// Replicates a partition that was just cached here to other executors, as its level says.
    fn replicate(&self, _: BlockId) {}
    /// The encoded items of one partition of a source that the task's code was sent without.
    fn fetch_items(&self, source: u32, partition: u32) -> Result<Vec<u8>, TaskFailure> {
        let message = format!("partition {partition} of source {source} was not sent along");
        Err(TaskFailure::Fatal { message })
    }
    /// The encoded value of a broadcast that is not in `blocks` yet.
    fn fetch_broadcast(&self, id: BroadcastId) -> Result<Vec<u8>, TaskFailure>;
}
