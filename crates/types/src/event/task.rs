//! Tasks as listeners see them.

use serde::{Deserialize, Serialize};

use super::ExecutorMetrics;
use crate::{AccumulatorId, ExecutorId, Host, StageRef, TaskId, Tick};

/// A task attempt as listeners see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskInfo {
    /// Unique in the application, across attempts.
    pub task: TaskId,
    pub stage: StageRef,
    pub partition: u32,
    /// Its place among the tasks of the stage attempt.
    pub index: u32,
    /// Attempt at this partition, from 0.
    pub attempt: u32,
    pub executor: ExecutorId,
    pub host: Host,
    /// A copy of a slow task.
    pub speculative: bool,
    /// How near to its data it was placed.
    pub locality: Locality,
    pub launched: Tick,
}

/// What a task cost that is not over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningTask {
    pub task: TaskId,
    pub stage: StageRef,
    /// What it has cost so far.
    pub metrics: TaskMetrics,
}

impl TaskInfo {
    /// The partition of a task whose log names none.
    pub const NO_PARTITION: u32 = u32::MAX;

    /// What tells it apart within its stage: the partition, or the index where that is not known.
    pub fn partition_or_index(&self) -> u32 {
        if self.partition == Self::NO_PARTITION { self.index } else { self.partition }
    }
}

/// How near a task runs to its data, nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Locality {
    /// In the process that holds it.
    ProcessLocal,
    /// On the same host.
    NodeLocal,
    /// The task does not care.
    NoPref,
    /// In the same rack.
    RackLocal,
    Any,
}

impl Locality {
    /// Spark's spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Locality::ProcessLocal => "PROCESS_LOCAL",
            Locality::NodeLocal => "NODE_LOCAL",
            Locality::NoPref => "NO_PREF",
            Locality::RackLocal => "RACK_LOCAL",
            Locality::Any => "ANY",
        }
    }
}

/// What one task cost, as its executor measured it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskMetrics {
    /// Time in the task's own code, microseconds.
    pub run_time_us: u64,
    /// Processor time of that, nanoseconds.
    pub cpu_time_ns: u64,
    /// Time to decode the task, microseconds.
    pub deserialize_time_us: u64,
    /// Processor time of that, nanoseconds.
    pub deserialize_cpu_time_ns: u64,
    /// Time to encode the result, microseconds.
    pub result_serialize_time_us: u64,
    /// Size of the result, if it was encoded.
    pub result_bytes: u64,
    /// Time the driver took to fetch the result from the executor, milliseconds; 0: it came with the report.
    pub getting_result_time_ms: u64,
    /// The most memory it held at once, of that which has to be asked for.
    pub peak_memory_bytes: u64,
    /// Records read from sources and from cached partitions.
    pub input_records: u64,
    /// Bytes read from sources and from cached partitions.
    pub input_bytes: u64,
    /// Records written to sinks.
    pub output_records: u64,
    /// Bytes written to sinks.
    pub output_bytes: u64,
    pub shuffle_read_records: u64,
    /// Bytes of map outputs read from this executor.
    pub shuffle_local_bytes: u64,
    /// Map outputs read from this executor.
    pub shuffle_local_blocks: u64,
    /// Bytes of map outputs read from other executors.
    pub shuffle_remote_bytes: u64,
    /// Map outputs read from other executors.
    pub shuffle_remote_blocks: u64,
    /// Bytes of map outputs of other executors that went to disk first.
    pub shuffle_remote_bytes_to_disk: u64,
    /// Time waited for map outputs, microseconds.
    pub shuffle_fetch_wait_us: u64,
    /// Time that requests to other executors took, one by one, though several are under way at once; microseconds.
    pub shuffle_remote_requests_us: u64,
    pub shuffle_write_records: u64,
    pub shuffle_write_bytes: u64,
    /// Time to finish map outputs and to store them, nanoseconds.
    pub shuffle_write_time_ns: u64,
    /// Bytes that records held in memory before they were spilled.
    pub memory_bytes_spilled: u64,
    /// Bytes written to disk instead.
    pub disk_bytes_spilled: u64,
    /// Time that a JVM collected garbage meanwhile, milliseconds: of Spark's tasks only.
    pub gc_time_ms: u64,
    /// What it read of map outputs that were pushed and merged: of Spark's tasks only.
    pub pushed: Option<Box<PushedShuffleMetrics>>,
    /// The most that its executor used while it ran, if that was looked at meanwhile.
    pub executor: Option<Box<ExecutorMetrics>>,
}

/// Reads of map outputs that Spark's external shuffle service merged before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushedShuffleMetrics {
    pub corrupt_chunks: u64,
    pub fallbacks: u64,
    pub remote_blocks: u64,
    pub local_blocks: u64,
    pub remote_chunks: u64,
    pub local_chunks: u64,
    pub remote_bytes: u64,
    pub local_bytes: u64,
    pub remote_requests_ms: u64,
}

impl TaskMetrics {
    pub fn shuffle_read_bytes(&self) -> u64 {
        self.shuffle_local_bytes.saturating_add(self.shuffle_remote_bytes)
    }
}

/// An accumulator that has a name, as people read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accumulable {
    pub id: AccumulatorId,
    pub name: String,
    /// What one task added.
    pub update: String,
    /// What it has come to, with that.
    pub value: String,
}
