//! The lines of Spark's event log that tell of executors and of the blocks they hold. The rest is in `model`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::metrics::Peaks;
use super::model::{Accumulated, Key, Level};
use super::text::{Int, Pairs, Str};

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ManagerId<'a> {
    #[serde(borrow, rename = "Executor ID")]
    pub(crate) executor: Str<'a>,
    #[serde(borrow, rename = "Host")]
    pub(crate) host: Str<'a>,
    #[serde(rename = "Port")]
    pub(crate) port: Int,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ExecutorAdded<'a> {
    #[serde(rename = "Timestamp")]
    pub(crate) at: Int,
    #[serde(borrow, rename = "Executor ID")]
    pub(crate) executor: Str<'a>,
    #[serde(borrow, rename = "Executor Info")]
    pub(crate) info: Info<'a>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Info<'a> {
    #[serde(borrow, rename = "Host")]
    pub(crate) host: Str<'a>,
    #[serde(rename = "Total Cores")]
    pub(crate) cores: Int,
    #[serde(borrow, rename = "Log Urls")]
    pub(crate) logs: Pairs<'a>,
    #[serde(borrow, rename = "Attributes")]
    pub(crate) attributes: Pairs<'a>,
    #[serde(borrow, rename = "Resources")]
    pub(crate) resources: BTreeMap<Key<'a>, Addresses<'a>>,
    #[serde(rename = "Resource Profile Id")]
    pub(crate) profile: Int,
    #[serde(rename = "Registration Time", skip_serializing_if = "Option::is_none")]
    pub(crate) registered: Option<Int>,
}

/// A device, or several of one kind.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Addresses<'a> {
    #[serde(borrow)]
    pub(crate) name: Str<'a>,
    #[serde(borrow)]
    pub(crate) addresses: Vec<Str<'a>>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ExecutorRemoved<'a> {
    #[serde(rename = "Timestamp")]
    pub(crate) at: Int,
    #[serde(borrow, rename = "Executor ID")]
    pub(crate) executor: Str<'a>,
    #[serde(borrow, rename = "Removed Reason")]
    pub(crate) reason: Str<'a>,
}

/// Exclusions, which Spark writes by the names of its own classes' fields.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Excluded<'a> {
    #[serde(rename = "time")]
    pub(crate) at: Int,
    #[serde(borrow, rename = "executorId", skip_serializing_if = "Option::is_none")]
    pub(crate) executor: Option<Str<'a>>,
    #[serde(borrow, rename = "hostId", skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<Str<'a>>,
    #[serde(rename = "taskFailures", skip_serializing_if = "Option::is_none")]
    pub(crate) task_failures: Option<Int>,
    #[serde(rename = "executorFailures", skip_serializing_if = "Option::is_none")]
    pub(crate) executor_failures: Option<Int>,
    #[serde(rename = "stageId", skip_serializing_if = "Option::is_none")]
    pub(crate) stage: Option<Int>,
    #[serde(rename = "stageAttemptId", skip_serializing_if = "Option::is_none")]
    pub(crate) attempt: Option<Int>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Speculated {
    #[serde(rename = "stageId")]
    pub(crate) stage: Int,
    #[serde(rename = "stageAttemptId")]
    pub(crate) attempt: Int,
    #[serde(rename = "taskIndex")]
    pub(crate) index: Int,
    #[serde(rename = "partitionId")]
    pub(crate) partition: Int,
}

/// Ours: Spark tells it by another end of the task.
#[derive(Serialize, Deserialize)]
pub(crate) struct Resubmitted<'a> {
    pub(crate) stage: Int,
    pub(crate) attempt: Int,
    pub(crate) index: Int,
    pub(crate) partition: Int,
    #[serde(borrow)]
    pub(crate) executor: Str<'a>,
    pub(crate) at: Int,
}

/// Ours: why executors are missing, or that none is any more.
#[derive(Serialize, Deserialize)]
pub(crate) struct Missing<'a> {
    #[serde(borrow, default)]
    pub(crate) shortage: Option<Str<'a>>,
    pub(crate) at: Int,
}

/// Ours: the log is incomplete.
#[derive(Serialize, Deserialize)]
pub(crate) struct Lost {
    pub(crate) events: Int,
}

/// Ours: what a task added to an accumulator, after other events than the task's end were written.
#[derive(Serialize, Deserialize)]
pub(crate) struct LateAccumulated<'a> {
    pub(crate) stage: Int,
    pub(crate) attempt: Int,
    pub(crate) task: Int,
    #[serde(borrow)]
    pub(crate) accumulable: Accumulated<'a>,
    pub(crate) at: Int,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct MetricsUpdate<'a> {
    #[serde(borrow, rename = "Executor ID")]
    pub(crate) executor: Str<'a>,
    #[serde(rename = "Metrics Updated", skip_deserializing)]
    pub(crate) accumulators: [(); 0],
    #[serde(rename = "Executor Metrics Updated")]
    pub(crate) peaks: Vec<StagePeaks>,
    /// Ours: what running tasks cost so far. Spark tells it by updates of internal accumulators.
    #[serde(rename = "Firesteel", skip_serializing_if = "Vec::is_empty")]
    pub(crate) running: Vec<firesteel_types::RunningTask>,
    /// Ours: when it was told, in milliseconds since 1970.
    #[serde(rename = "Firesteel Timestamp", skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<firesteel_types::Tick>,
}

/// Of a stage attempt, or of all (-1).
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StagePeaks {
    #[serde(rename = "Stage ID")]
    pub(crate) stage: Int,
    #[serde(rename = "Stage Attempt ID")]
    pub(crate) attempt: Int,
    #[serde(rename = "Executor Metrics")]
    pub(crate) metrics: Peaks,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StageExecutorMetrics<'a> {
    #[serde(borrow, rename = "Executor ID")]
    pub(crate) executor: Str<'a>,
    #[serde(rename = "Stage ID")]
    pub(crate) stage: Int,
    #[serde(rename = "Stage Attempt ID")]
    pub(crate) attempt: Int,
    #[serde(rename = "Executor Metrics")]
    pub(crate) metrics: Peaks,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ManagerAdded<'a> {
    #[serde(borrow, rename = "Block Manager ID")]
    pub(crate) id: ManagerId<'a>,
    #[serde(rename = "Maximum Memory")]
    pub(crate) memory: Int,
    #[serde(rename = "Timestamp")]
    pub(crate) at: Int,
    #[serde(rename = "Maximum Onheap Memory", skip_serializing_if = "Option::is_none")]
    pub(crate) on_heap: Option<Int>,
    #[serde(rename = "Maximum Offheap Memory", skip_serializing_if = "Option::is_none")]
    pub(crate) off_heap: Option<Int>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ManagerRemoved<'a> {
    #[serde(borrow, rename = "Block Manager ID")]
    pub(crate) id: ManagerId<'a>,
    #[serde(rename = "Timestamp")]
    pub(crate) at: Int,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Unpersist {
    #[serde(rename = "RDD ID")]
    pub(crate) rdd: Int,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct BlockUpdated<'a> {
    #[serde(borrow, rename = "Block Updated Info")]
    pub(crate) info: BlockInfo<'a>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct BlockInfo<'a> {
    #[serde(borrow, rename = "Block Manager ID")]
    pub(crate) manager: ManagerId<'a>,
    #[serde(borrow, rename = "Block ID")]
    pub(crate) block: Str<'a>,
    #[serde(rename = "Storage Level")]
    pub(crate) level: Level,
    #[serde(rename = "Memory Size")]
    pub(crate) memory: Int,
    #[serde(rename = "Disk Size")]
    pub(crate) disk: Int,
}
