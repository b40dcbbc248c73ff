//! What listeners hear: Spark's listener events, typed. The UI, the event log, metrics, the status and the
//! console progress live on these and on nothing else.
//!
//! Moments are milliseconds since 1970. As JSON, an event is an object whose `Event` is its name; one that this
//! version does not know is read as [`Event::Unknown`].

mod executor;
mod stage;
mod task;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use executor::{
    BlockManagerId, DeviceRequest, ExecutorInfo, ExecutorMetrics, ManagedMemory, ProcessInfo,
    ResourceProfile, StagePeak,
};
pub use stage::{RddDescription, RddScope, StageInfo, StageRdd};
pub use task::{Accumulable, Locality, PushedShuffleMetrics, RunningTask, TaskInfo, TaskMetrics};

use crate::{
    BroadcastId, ExecutorId, Host, JobError, JobId, Properties, RddId, StageRef, StorageLevel,
    TaskFailure, TaskId, Tick,
};

/// A thing that happened. Names follow Spark's `SparkListener*` events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "Event")]
#[non_exhaustive]
pub enum Event {
    /// Before anything else: who tells all this.
    LogStart {
        /// The version of the engine.
        version: String,
    },
    /// The application is up.
    ApplicationStart {
        /// Name of the application.
        name: String,
        app_id: String,
        /// Which attempt of it this is, where a cluster manager counts them.
        attempt_id: Option<String>,
        /// The user that the driver runs as.
        user: String,
        /// Where the driver's output can be read, by name (`stdout`, `stderr`).
        driver_log_urls: BTreeMap<String, String>,
        /// What the driver's cluster manager tells of it.
        driver_attributes: BTreeMap<String, String>,
        at: Tick,
    },
    /// The application stops; nothing follows.
    ApplicationEnd {
        /// What the program ends with, as far as the application knows.
        exit_code: Option<i32>,
        at: Tick,
    },
    /// The settings in force, what the program runs on, and what was handed to it.
    EnvironmentUpdate {
        /// Key and value, secrets redacted.
        properties: Vec<(String, String)>,
        /// The machine, the executable, the version of the engine.
        runtime: BTreeMap<String, String>,
        /// The executable, and the files of `spark.files`: who handed them over.
        resources: BTreeMap<String, String>,
        /// Further lists of settings, by the name that Spark's log has for them (`System Properties`).
        others: BTreeMap<String, Vec<(String, String)>>,
    },
    /// What executors and tasks of a profile ask for.
    ResourceProfileAdded { profile: ResourceProfile },
    /// A process of the application that is neither its driver nor an executor: of Spark on YARN only.
    MiscellaneousProcessAdded { id: String, info: ProcessInfo, at: Tick },
    /// A job was accepted.
    JobStart {
        job: JobId,
        /// Group, description, call site, tags and what else was set for it.
        properties: Arc<Properties>,
        /// Every stage it may need, parents first.
        stages: Vec<StageInfo>,
        at: Tick,
    },
    /// A job ended: exactly once per job.
    JobEnd { job: JobId, result: Result<(), JobError>, at: Tick },
    /// A stage attempt began.
    StageSubmitted {
        stage: StageInfo,
        /// Of the first job that needs it.
        properties: Arc<Properties>,
        at: Tick,
    },
    /// A stage attempt ended.
    StageCompleted {
        stage: StageInfo,
        /// Why it failed, if it did.
        failure: Option<String>,
        at: Tick,
    },
    /// A task attempt was handed to an executor.
    TaskStart { task: TaskInfo, at: Tick },
    /// A task has ended, and its result is long enough to be fetched from its executor.
    TaskGettingResult { task: TaskInfo, at: Tick },
    /// A task attempt ended.
    TaskEnd {
        task: TaskInfo,
        /// Why it failed, if it did.
        failure: Option<TaskFailure>,
        /// What it cost, where the executor told.
        metrics: Option<Box<TaskMetrics>>,
        at: Tick,
    },
    /// The scheduler submitted a speculative copy of a slow task.
    SpeculativeTaskSubmitted {
        stage: StageRef,
        /// The task's place among those of the stage attempt.
        index: u32,
        partition: u32,
    },
    /// A task that had succeeded is run again: the map output that it wrote was lost with its executor.
    TaskResubmitted {
        stage: StageRef,
        /// The task's place among those of the stage attempt.
        index: u32,
        partition: u32,
        /// The executor that was lost.
        executor: ExecutorId,
        at: Tick,
    },
    ExecutorAdded {
        executor: ExecutorId,
        /// Where it runs, and with what.
        info: ExecutorInfo,
        at: Tick,
    },
    /// An executor is gone. Its tasks end after this.
    ExecutorRemoved { executor: ExecutorId, reason: String, at: Tick },
    /// Executors that are wanted cannot be had, or not for the same reason as before, or all are there again.
    ExecutorsMissing {
        /// Why, in one sentence; `None`: none is missing any more.
        shortage: Option<String>,
        at: Tick,
    },
    /// An executor gets no tasks of a stage, or of the application, because of failures on it.
    ExecutorExcluded {
        executor: ExecutorId,
        /// The stage, or all of them.
        stage: Option<StageRef>,
        /// Failures counted.
        failures: u32,
        at: Tick,
    },
    /// The exclusion of an executor ran out.
    ExecutorUnexcluded { executor: ExecutorId, at: Tick },
    /// Like [`Event::ExecutorExcluded`], for a whole node.
    NodeExcluded {
        host: Host,
        /// The stage, or all of them.
        stage: Option<StageRef>,
        /// Failures counted.
        failures: u32,
        at: Tick,
    },
    /// The exclusion of a node ran out.
    NodeUnexcluded { host: Host, at: Tick },
    /// With a heartbeat: the most that an executor, or the driver, used since the last one, and what its running
    /// tasks cost so far.
    ExecutorMetricsUpdate {
        executor: ExecutorId,
        /// The most that it used.
        metrics: ExecutorMetrics,
        /// The same for each stage attempt whose tasks it ran meanwhile.
        stages: Vec<StagePeak>,
        /// Its running tasks, where they tell what they cost before they end.
        tasks: Vec<RunningTask>,
        /// `None`: nobody tells, as in Spark's logs.
        at: Option<Tick>,
    },
    /// A stage attempt ends: the most that one executor used while it ran tasks of it. Posted before
    /// [`Event::StageCompleted`], of executors that were looked at meanwhile.
    StageExecutorMetrics {
        stage: StageRef,
        executor: ExecutorId,
        /// The most that it used.
        metrics: ExecutorMetrics,
    },
    /// A process can hold blocks.
    BlockManagerAdded {
        id: BlockManagerId,
        /// Bytes of memory for blocks and running tasks together.
        max_memory: u64,
        /// How much of it is not on a JVM's heap, where the log tells.
        max_off_heap_memory: Option<u64>,
        at: Tick,
    },
    /// The blocks that a process held are gone with it.
    BlockManagerRemoved { id: BlockManagerId, at: Tick },
    /// A block came, moved or went.
    BlockUpdated {
        /// Its name as Spark spells it, e.g. `broadcast_0`.
        block: String,
        executor: ExecutorId,
        /// Bytes in memory; 0 and 0 on disk: it is gone.
        memory_bytes: u64,
        disk_bytes: u64,
        /// How it is stored; [`StorageLevel::NONE`] when it is gone.
        level: StorageLevel,
    },
    /// An RDD's cached partitions were dropped by the user.
    UnpersistRdd { rdd: RddId },
    /// A task that counts added to an accumulator that has a name. Follows the task's end.
    AccumulableUpdated {
        stage: StageRef,
        /// `None`: a log tells what it came to at the end of the stage.
        task: Option<TaskId>,
        /// What it added, and what came of it.
        accumulable: Accumulable,
        at: Tick,
    },
    /// A log is incomplete: the thread that writes it was too slow for so many events.
    EventsLost { events: u64 },
    /// A broadcast's blocks were dropped.
    BroadcastRemoved { broadcast: BroadcastId },
    /// An event that this version does not know: written by a newer one.
    #[serde(other)]
    Unknown,
}
