//! The lines of Spark's event log, field for field, as they are read and written. Fields that a version of Spark lacks
//! have defaults; fields that we do not know are read over, as Spark reads over ours.

use firesteel_types::StorageLevel;
use serde::{Deserialize, Serialize};

pub(crate) use super::holders::*;
use super::metrics::{Cost, Peaks};
use super::text::{Int, Pairs, Str};

/// Any event, for its name.
#[derive(Deserialize)]
pub(crate) struct Named<'a> {
    #[serde(borrow, rename = "Event")]
    pub(crate) event: Str<'a>,
}

/// An event with its name before its fields.
#[derive(Serialize)]
pub(crate) struct Line<'a, T> {
    #[serde(rename = "Event")]
    pub(crate) event: &'a str,
    #[serde(flatten)]
    pub(crate) fields: T,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LogStart<'a> {
    #[serde(borrow, rename = "Spark Version")]
    pub(crate) version: Str<'a>,
    /// Ours: that this is a log of Firesteel, and of which version.
    #[serde(borrow, rename = "Firesteel Version", skip_serializing_if = "Option::is_none")]
    pub(crate) own_version: Option<Str<'a>>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ApplicationStart<'a> {
    #[serde(borrow, rename = "App Name")]
    pub(crate) name: Str<'a>,
    #[serde(borrow, rename = "App ID", skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<Str<'a>>,
    #[serde(rename = "Timestamp")]
    pub(crate) at: Int,
    #[serde(borrow, rename = "User")]
    pub(crate) user: Str<'a>,
    #[serde(borrow, rename = "App Attempt ID", skip_serializing_if = "Option::is_none")]
    pub(crate) attempt: Option<Str<'a>>,
    #[serde(borrow, rename = "Driver Logs", skip_serializing_if = "Option::is_none")]
    pub(crate) logs: Option<Pairs<'a>>,
    #[serde(borrow, rename = "Driver Attributes", skip_serializing_if = "Option::is_none")]
    pub(crate) attributes: Option<Pairs<'a>>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ApplicationEnd {
    #[serde(rename = "Timestamp")]
    pub(crate) at: Int,
    #[serde(rename = "ExitCode", skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code: Option<Int>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Environment<'a> {
    #[serde(borrow, rename = "JVM Information")]
    pub(crate) runtime: Pairs<'a>,
    #[serde(borrow, rename = "Spark Properties")]
    pub(crate) properties: Pairs<'a>,
    #[serde(borrow, rename = "Hadoop Properties")]
    pub(crate) hadoop: Pairs<'a>,
    #[serde(borrow, rename = "System Properties")]
    pub(crate) system: Pairs<'a>,
    #[serde(borrow, rename = "Metrics Properties")]
    pub(crate) metrics: Pairs<'a>,
    #[serde(borrow, rename = "Classpath Entries")]
    pub(crate) resources: Pairs<'a>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ProfileAdded<'a> {
    #[serde(rename = "Resource Profile Id")]
    pub(crate) id: Int,
    #[serde(borrow, rename = "Executor Resource Requests")]
    pub(crate) executor: std::collections::BTreeMap<Key<'a>, ExecutorRequest<'a>>,
    #[serde(borrow, rename = "Task Resource Requests")]
    pub(crate) task: std::collections::BTreeMap<Key<'a>, TaskRequest<'a>>,
}

/// Only applications on YARN have such processes.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ProcessAdded<'a> {
    #[serde(rename = "time")]
    pub(crate) at: Int,
    #[serde(borrow, rename = "processId")]
    pub(crate) id: Str<'a>,
    #[serde(borrow)]
    pub(crate) info: Process<'a>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Process<'a> {
    #[serde(borrow, rename = "hostPort")]
    pub(crate) address: Str<'a>,
    pub(crate) cores: Int,
    #[serde(borrow, rename = "logUrlInfo")]
    pub(crate) logs: Pairs<'a>,
}

/// The name of a resource, as the key of a map.
pub(crate) type Key<'a> = std::borrow::Cow<'a, str>;

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ExecutorRequest<'a> {
    #[serde(borrow, rename = "Resource Name")]
    pub(crate) name: Str<'a>,
    #[serde(rename = "Amount")]
    pub(crate) amount: Int,
    #[serde(borrow, rename = "Discovery Script")]
    pub(crate) script: Str<'a>,
    #[serde(borrow, rename = "Vendor")]
    pub(crate) vendor: Str<'a>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TaskRequest<'a> {
    #[serde(borrow, rename = "Resource Name")]
    pub(crate) name: Str<'a>,
    #[serde(rename = "Amount")]
    pub(crate) amount: f64,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct JobStart<'a> {
    #[serde(rename = "Job ID")]
    pub(crate) job: Int,
    #[serde(rename = "Submission Time")]
    pub(crate) at: Int,
    #[serde(borrow, rename = "Stage Infos")]
    pub(crate) stages: Vec<Stage<'a>>,
    #[serde(rename = "Stage IDs")]
    pub(crate) ids: Vec<Int>,
    #[serde(borrow, rename = "Properties")]
    pub(crate) properties: Pairs<'a>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct JobEnd<'a> {
    #[serde(rename = "Job ID")]
    pub(crate) job: Int,
    #[serde(rename = "Completion Time")]
    pub(crate) at: Int,
    #[serde(borrow, rename = "Job Result")]
    pub(crate) result: JobResult<'a>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct JobResult<'a> {
    #[serde(borrow, rename = "Result")]
    pub(crate) result: Str<'a>,
    #[serde(borrow, rename = "Exception", skip_serializing_if = "Option::is_none")]
    pub(crate) exception: Option<Exception<'a>>,
    /// Ours: the error as it was.
    #[serde(rename = "Firesteel", skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<firesteel_types::JobError>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Exception<'a> {
    #[serde(borrow, rename = "Message")]
    pub(crate) message: Str<'a>,
    #[serde(rename = "Stack Trace", skip_deserializing)]
    pub(crate) stack: [(); 0],
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct StageEvent<'a> {
    #[serde(borrow, rename = "Stage Info")]
    pub(crate) stage: Stage<'a>,
    #[serde(borrow, rename = "Properties", skip_serializing_if = "Option::is_none")]
    pub(crate) properties: Option<Pairs<'a>>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Stage<'a> {
    #[serde(rename = "Stage ID")]
    pub(crate) id: Int,
    #[serde(rename = "Stage Attempt ID")]
    pub(crate) attempt: Int,
    #[serde(borrow, rename = "Stage Name")]
    pub(crate) name: Str<'a>,
    #[serde(rename = "Number of Tasks")]
    pub(crate) tasks: Int,
    #[serde(borrow, rename = "RDD Info")]
    pub(crate) rdds: Vec<Rdd<'a>>,
    #[serde(rename = "Parent IDs")]
    pub(crate) parents: Vec<Int>,
    #[serde(borrow, rename = "Details")]
    pub(crate) details: Str<'a>,
    #[serde(rename = "Submission Time", skip_serializing_if = "Option::is_none")]
    pub(crate) submitted: Option<Int>,
    #[serde(rename = "Completion Time", skip_serializing_if = "Option::is_none")]
    pub(crate) completed: Option<Int>,
    #[serde(borrow, rename = "Failure Reason", skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<Str<'a>>,
    #[serde(borrow, rename = "Accumulables")]
    pub(crate) accumulables: Vec<Accumulated<'a>>,
    #[serde(rename = "Resource Profile Id")]
    pub(crate) profile: Int,
    #[serde(rename = "Shuffle Push Enabled")]
    pub(crate) push_enabled: bool,
    #[serde(rename = "Shuffle Push Mergers Count")]
    pub(crate) mergers: Int,
    /// An addition to Spark's format, which Spark ignores.
    #[serde(rename = "Shuffle Map", skip_serializing_if = "std::ops::Not::not")]
    pub(crate) shuffle_map: bool,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Rdd<'a> {
    #[serde(default, rename = "RDD ID")]
    pub(crate) id: Int,
    #[serde(borrow, default, rename = "Name")]
    pub(crate) name: Str<'a>,
    /// JSON within a text.
    #[serde(borrow, default, rename = "Scope", skip_serializing_if = "Option::is_none")]
    pub(crate) scope: Option<Str<'a>>,
    #[serde(borrow, default, rename = "Callsite")]
    pub(crate) call_site: Str<'a>,
    #[serde(default, rename = "Parent IDs")]
    pub(crate) parents: Vec<Int>,
    #[serde(default = "not_cached", rename = "Storage Level")]
    pub(crate) level: Level,
    #[serde(default, rename = "Barrier")]
    pub(crate) barrier: bool,
    #[serde(borrow, default, rename = "DeterministicLevel")]
    pub(crate) determinism: Str<'a>,
    #[serde(default, rename = "Number of Partitions")]
    pub(crate) partitions: Int,
    #[serde(default, rename = "Number of Cached Partitions")]
    pub(crate) cached: Int,
    #[serde(default, rename = "Memory Size")]
    pub(crate) memory: Int,
    #[serde(default, rename = "Disk Size")]
    pub(crate) disk: Int,
}

fn not_cached() -> Level {
    Level::from(StorageLevel::NONE)
}

/// A storage level. Spark 1 has no `Use Off Heap`, but Tachyon's.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Level {
    #[serde(rename = "Use Disk")]
    disk: bool,
    #[serde(rename = "Use Memory")]
    memory: bool,
    #[serde(rename = "Use Off Heap")]
    off_heap: bool,
    #[serde(rename = "Deserialized")]
    deserialized: bool,
    #[serde(rename = "Replication")]
    replication: Int,
}

impl From<StorageLevel> for Level {
    fn from(level: StorageLevel) -> Self {
        Level {
            disk: level.use_disk,
            memory: level.use_memory,
            off_heap: level.use_off_heap,
            deserialized: level.deserialized,
            replication: Int::of(level.replication.into()),
        }
    }
}

impl From<Level> for StorageLevel {
    fn from(level: Level) -> Self {
        StorageLevel {
            use_disk: level.disk,
            use_memory: level.memory,
            use_off_heap: level.off_heap,
            deserialized: level.deserialized,
            replication: level.replication.u32(),
        }
    }
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Accumulated<'a> {
    #[serde(rename = "ID")]
    pub(crate) id: Int,
    #[serde(borrow, rename = "Name", skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<Str<'a>>,
    #[serde(borrow, rename = "Update", skip_serializing_if = "Option::is_none")]
    pub(crate) update: Option<Str<'a>>,
    #[serde(borrow, rename = "Value", skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<Str<'a>>,
    #[serde(rename = "Internal")]
    pub(crate) internal: bool,
    #[serde(rename = "Count Failed Values")]
    pub(crate) count_failed: bool,
    #[serde(borrow, rename = "Metadata", skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<Str<'a>>,
}

/// Start and end of a task, and the fetching of its result.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TaskEvent<'a> {
    #[serde(rename = "Stage ID")]
    pub(crate) stage: Int,
    #[serde(rename = "Stage Attempt ID")]
    pub(crate) attempt: Int,
    #[serde(borrow, rename = "Task Type", skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<Str<'a>>,
    #[serde(borrow, rename = "Task End Reason", skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<Reason<'a>>,
    #[serde(borrow, rename = "Task Info")]
    pub(crate) task: Task<'a>,
    #[serde(rename = "Task Executor Metrics", skip_serializing_if = "Option::is_none")]
    pub(crate) peaks: Option<Peaks>,
    #[serde(rename = "Task Metrics", skip_serializing_if = "Option::is_none")]
    pub(crate) cost: Option<Cost>,
}

/// Only the task: what Spark logs when the driver fetches a result.
#[derive(Default, Serialize)]
pub(crate) struct OnlyTask<'a> {
    #[serde(rename = "Task Info")]
    pub(crate) task: Task<'a>,
    /// Ours: a reader needs them.
    #[serde(rename = "Stage ID")]
    pub(crate) stage: Int,
    #[serde(rename = "Stage Attempt ID")]
    pub(crate) attempt: Int,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Task<'a> {
    #[serde(rename = "Task ID")]
    pub(crate) id: Int,
    #[serde(rename = "Index")]
    pub(crate) index: Int,
    #[serde(rename = "Attempt")]
    pub(crate) attempt: Int,
    #[serde(rename = "Partition ID")]
    pub(crate) partition: Option<Int>,
    #[serde(rename = "Launch Time")]
    pub(crate) launched: Int,
    #[serde(borrow, rename = "Executor ID")]
    pub(crate) executor: Str<'a>,
    #[serde(borrow, rename = "Host")]
    pub(crate) host: Str<'a>,
    #[serde(borrow, rename = "Locality")]
    pub(crate) locality: Str<'a>,
    #[serde(rename = "Speculative")]
    pub(crate) speculative: bool,
    #[serde(rename = "Getting Result Time")]
    pub(crate) getting_result: Int,
    #[serde(rename = "Finish Time")]
    pub(crate) finished: Int,
    #[serde(rename = "Failed")]
    pub(crate) failed: bool,
    #[serde(rename = "Killed")]
    pub(crate) killed: bool,
    #[serde(borrow, rename = "Accumulables")]
    pub(crate) accumulables: Vec<Accumulated<'a>>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Reason<'a> {
    #[serde(borrow, rename = "Reason")]
    pub(crate) reason: Str<'a>,
    #[serde(borrow, rename = "Class Name", skip_serializing_if = "Option::is_none")]
    pub(crate) class: Option<Str<'a>>,
    #[serde(borrow, rename = "Description", skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<Str<'a>>,
    #[serde(borrow, rename = "Stack Trace", skip_serializing_if = "Option::is_none")]
    pub(crate) stack: Option<Vec<Frame<'a>>>,
    #[serde(borrow, rename = "Full Stack Trace", skip_serializing_if = "Option::is_none")]
    pub(crate) full_stack: Option<Str<'a>>,
    #[serde(
        rename = "Accumulator Updates",
        skip_serializing_if = "Option::is_none",
        skip_deserializing
    )]
    pub(crate) updates: Option<[(); 0]>,
    #[serde(borrow, rename = "Block Manager Address", skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<ManagerId<'a>>,
    #[serde(rename = "Shuffle ID", skip_serializing_if = "Option::is_none")]
    pub(crate) shuffle: Option<Int>,
    #[serde(rename = "Map ID", skip_serializing_if = "Option::is_none")]
    pub(crate) map: Option<Int>,
    #[serde(rename = "Map Index", skip_serializing_if = "Option::is_none")]
    pub(crate) map_index: Option<Int>,
    #[serde(rename = "Reduce ID", skip_serializing_if = "Option::is_none")]
    pub(crate) reduce: Option<Int>,
    #[serde(borrow, rename = "Message", skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<Str<'a>>,
    #[serde(borrow, rename = "Kill Reason", skip_serializing_if = "Option::is_none")]
    pub(crate) kill_reason: Option<Str<'a>>,
    #[serde(rename = "Job ID", skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<Int>,
    #[serde(rename = "Partition ID", skip_serializing_if = "Option::is_none")]
    pub(crate) partition: Option<Int>,
    #[serde(rename = "Attempt Number", skip_serializing_if = "Option::is_none")]
    pub(crate) attempt: Option<Int>,
    #[serde(borrow, rename = "Executor ID", skip_serializing_if = "Option::is_none")]
    pub(crate) executor: Option<Str<'a>>,
    #[serde(rename = "Exit Caused By App", skip_serializing_if = "Option::is_none")]
    pub(crate) caused_by_app: Option<bool>,
    #[serde(borrow, rename = "Loss Reason", skip_serializing_if = "Option::is_none")]
    pub(crate) loss: Option<Str<'a>>,
    /// Ours: the failure as it was.
    #[serde(rename = "Firesteel", skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<firesteel_types::TaskFailure>,
}

/// A line of a stack trace.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Frame<'a> {
    #[serde(borrow, rename = "Declaring Class")]
    pub(crate) class: Str<'a>,
    #[serde(borrow, rename = "Method Name")]
    pub(crate) method: Str<'a>,
    #[serde(borrow, rename = "File Name")]
    pub(crate) file: Option<Str<'a>>,
    #[serde(rename = "Line Number")]
    pub(crate) line: Int,
}
