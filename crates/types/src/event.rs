//! What listeners hear: Spark's listener events, typed. The UI, the event log, metrics and the
//! console progress live on these and on nothing else.

use std::sync::Arc;

use crate::{
    BroadcastId, ExecutorId, Host, JobError, JobId, Properties, RddId, StageId, StageRef,
    StorageLevel, TaskFailure, TaskId, Tick,
};

/// A thing that happened. Names follow Spark's `SparkListener*` events.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The context is up.
    ApplicationStart {
        /// Name of the application.
        name: String,
        /// Its id.
        app_id: String,
        /// When.
        at: Tick,
    },
    /// The context stops; nothing follows.
    ApplicationEnd {
        /// When.
        at: Tick,
    },
    /// The settings in force.
    EnvironmentUpdate {
        /// Key and value, secrets redacted.
        properties: Vec<(String, String)>,
    },
    /// A job was accepted.
    JobStart {
        /// The job.
        job: JobId,
        /// Group, description, call site, tags and what else was set for it.
        properties: Properties,
        /// Every stage it may need, parents first.
        stages: Vec<StageInfo>,
        /// When.
        at: Tick,
    },
    /// A job ended: said exactly once per job.
    JobEnd {
        /// The job.
        job: JobId,
        /// How.
        result: Result<(), JobError>,
        /// When.
        at: Tick,
    },
    /// A stage attempt began.
    StageSubmitted {
        /// The stage attempt.
        stage: StageInfo,
        /// When.
        at: Tick,
    },
    /// A stage attempt ended.
    StageCompleted {
        /// The stage attempt.
        stage: StageInfo,
        /// Why it failed, if it did.
        failure: Option<String>,
        /// When.
        at: Tick,
    },
    /// A task attempt was handed to an executor.
    TaskStart {
        /// The attempt.
        task: TaskInfo,
        /// When.
        at: Tick,
    },
    /// A task attempt ended.
    TaskEnd {
        /// The attempt.
        task: TaskInfo,
        /// Why it failed, if it did.
        failure: Option<TaskFailure>,
        /// What it cost, where the executor told.
        metrics: Option<TaskMetrics>,
        /// When.
        at: Tick,
    },
    /// A second copy of a slow task was asked for.
    SpeculativeTaskSubmitted {
        /// The stage attempt.
        stage: StageRef,
        /// The partition.
        partition: u32,
    },
    /// An executor registered.
    ExecutorAdded {
        /// The executor.
        executor: ExecutorId,
        /// Where it runs.
        host: Host,
        /// How many tasks at once.
        cores: u32,
        /// When.
        at: Tick,
    },
    /// An executor is gone.
    ExecutorRemoved {
        /// The executor.
        executor: ExecutorId,
        /// Why.
        reason: String,
        /// When.
        at: Tick,
    },
    /// An executor gets no tasks of a stage, or of the application, because of failures on it.
    ExecutorExcluded {
        /// The executor.
        executor: ExecutorId,
        /// The stage, or all of them.
        stage: Option<StageRef>,
        /// Failures counted.
        failures: u32,
        /// When.
        at: Tick,
    },
    /// The exclusion of an executor ran out.
    ExecutorUnexcluded {
        /// The executor.
        executor: ExecutorId,
        /// When.
        at: Tick,
    },
    /// Like [`Event::ExecutorExcluded`], for a whole node.
    NodeExcluded {
        /// The node.
        host: Host,
        /// The stage, or all of them.
        stage: Option<StageRef>,
        /// Failures counted.
        failures: u32,
        /// When.
        at: Tick,
    },
    /// The exclusion of a node ran out.
    NodeUnexcluded {
        /// The node.
        host: Host,
        /// When.
        at: Tick,
    },
    /// An executor of a cluster told, with a heartbeat, what its running tasks cost so far.
    ExecutorMetricsUpdate {
        /// The executor.
        executor: ExecutorId,
        /// Its running tasks.
        tasks: Vec<RunningTask>,
    },
    /// A block came, moved or went.
    BlockUpdated {
        /// Its name as Spark spells it, e.g. `broadcast_0`.
        block: String,
        /// The executor that holds it.
        executor: ExecutorId,
        /// Bytes in memory; 0 and 0 on disk: it is gone.
        memory_bytes: u64,
        /// Bytes on disk.
        disk_bytes: u64,
        /// How it is kept; [`StorageLevel::NONE`] when it is gone.
        level: StorageLevel,
    },
    /// An RDD's kept partitions were dropped by the user.
    UnpersistRdd {
        /// The RDD.
        rdd: RddId,
    },
    /// A broadcast's blocks were dropped.
    BroadcastRemoved {
        /// The broadcast.
        broadcast: BroadcastId,
    },
}

/// A stage attempt as listeners see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageInfo {
    /// Stage and attempt.
    pub stage: StageRef,
    /// Operation and place: of the action, or of the RDD whose map outputs it writes.
    pub name: Arc<str>,
    /// Tasks of this attempt.
    pub tasks: u32,
    /// The stages it reads.
    pub parents: Vec<StageId>,
    /// The RDDs it computes, its own first.
    pub rdds: Vec<RddId>,
    /// Whether it writes map outputs (as against results).
    pub shuffle_map: bool,
}

/// A task attempt as listeners see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskInfo {
    /// Unique id.
    pub task: TaskId,
    /// Stage attempt.
    pub stage: StageRef,
    /// Partition computed.
    pub partition: u32,
    /// Attempt at this partition, from 0.
    pub attempt: u32,
    /// Where it runs.
    pub executor: ExecutorId,
    /// A copy of a slow task.
    pub speculative: bool,
    /// How near to its data it was placed.
    pub locality: Locality,
    /// When it was launched.
    pub launched: Tick,
}

/// What a task cost that is not over.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RunningTask {
    /// The attempt.
    pub task: TaskId,
    /// Its stage attempt.
    pub stage: StageRef,
    /// So far.
    pub metrics: TaskMetrics,
}

/// How near a task runs to its data, nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Locality {
    /// In the process that holds it.
    ProcessLocal,
    /// On the same host.
    NodeLocal,
    /// The task does not care.
    NoPref,
    /// In the same rack.
    RackLocal,
    /// Anywhere.
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
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TaskMetrics {
    /// Time in the task's own code, microseconds.
    pub run_time_us: u64,
    /// Time to decode the task, microseconds.
    pub deserialize_time_us: u64,
    /// Size of the result, if it was encoded.
    pub result_bytes: u64,
    /// Records read from sources and from kept partitions.
    pub input_records: u64,
    /// Bytes read from sources and from kept partitions.
    pub input_bytes: u64,
    /// Records written to sinks.
    pub output_records: u64,
    /// Bytes written to sinks.
    pub output_bytes: u64,
    /// Records read from shuffles.
    pub shuffle_read_records: u64,
    /// Bytes read from shuffles.
    pub shuffle_read_bytes: u64,
    /// Records written to shuffles.
    pub shuffle_write_records: u64,
    /// Bytes written to shuffles.
    pub shuffle_write_bytes: u64,
    /// A checksum of the records written to a shuffle, whatever their order, if they may differ when the
    /// task runs again; else 0.
    pub shuffle_write_checksum: u64,
    /// Bytes of memory given up for want of it.
    pub memory_bytes_spilled: u64,
    /// Bytes written to disk instead.
    pub disk_bytes_spilled: u64,
}
