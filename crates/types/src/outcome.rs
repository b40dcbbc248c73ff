//! How tasks and jobs end. How a failure is treated is decided by its variant, never by its text.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{BlockLocation, ExecutorId, JobId, MapAttempt, ShuffleId, StageId};

/// One attempt of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StageRef {
    pub stage: StageId,
    /// Its attempt, from 0.
    pub attempt: u32,
}

impl fmt::Display for StageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.stage, self.attempt)
    }
}

/// How one task attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskOutcome {
    /// It ran to its end; its output waits with the shell under the task's id.
    Success,
    Failed(TaskFailure),
}

/// Why a task attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum TaskFailure {
    /// User code panicked. Counts against the task.
    #[error("panicked at {location}: {message}")]
    Panicked {
        /// What the panic said.
        message: String,
        /// `file:line:column` of the panic, or `unknown location`.
        location: String,
        /// The calls that led there, the innermost first, as text; empty where `RUST_BACKTRACE` is not set.
        stack_trace: String,
    },
    /// Reading, writing or running a program failed. Counts against the task.
    #[error("{message}")]
    Error {
        /// What failed and what to do.
        message: String,
    },
    /// Trying again cannot help (a value that cannot be encoded, an index out of range): the job is
    /// aborted at once.
    #[error("{message}")]
    Fatal {
        /// What failed and what to do.
        message: String,
    },
    /// A map output could not be read. Does not count; the map stage is run again.
    #[error(
        "could not fetch map output {map_partition} of shuffle {shuffle} from {location}: {message}"
    )]
    FetchFailed {
        shuffle: ShuffleId,
        /// The map partition whose output is missing.
        map_partition: u32,
        /// The reduce partition that wanted it.
        reduce_partition: u32,
        /// Who was to serve it.
        location: BlockLocation,
        /// Every output of the shuffle that is not served there, as far as could be found out;
        /// empty when nobody was known to hold the output.
        broken: Vec<MapAttempt>,
        /// For people: how the fetch failed.
        message: String,
    },
    /// Killed on purpose. Does not count.
    #[error("killed: {reason}")]
    Killed {
        /// By whom or why.
        reason: String,
    },
    /// Its executor went away. Counts only if the application made it go.
    #[error("executor {executor} lost: {reason}")]
    ExecutorLost {
        executor: ExecutorId,
        /// Whether the application itself ended it (a crash), rather than the platform.
        caused_by_app: bool,
        /// What is known of the cause.
        reason: String,
    },
}

impl TaskFailure {
    /// Whether this failure counts towards `spark.task.maxFailures`.
    pub fn counts(&self) -> bool {
        match self {
            TaskFailure::Panicked { .. }
            | TaskFailure::Error { .. }
            | TaskFailure::Fatal { .. } => true,
            TaskFailure::ExecutorLost { caused_by_app, .. } => *caused_by_app,
            TaskFailure::FetchFailed { .. } | TaskFailure::Killed { .. } => false,
        }
    }
}

/// Why a job ended without success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum JobError {
    /// One task failed as often as it may.
    #[error(
        "{job} aborted: partition {partition} of stage {stage} ({stage_name}) failed {attempts} time(s), most recently: {failure}",
        job = JobName(*job)
    )]
    TaskFailed {
        job: JobId,
        stage: StageRef,
        /// The stage's name, operation and place, and those of the steps that it computes.
        stage_name: String,
        partition: u32,
        /// How many attempts failed.
        attempts: u32,
        /// Of its attempts, the one that ended last.
        failure: TaskFailure,
    },
    /// A stage could not be completed for a reason that is not one task's.
    #[error("{job} aborted: stage {stage} ({stage_name}): {reason}", job = JobName(*job))]
    StageAborted {
        job: JobId,
        stage: StageId,
        /// The stage's name, operation and place, and those of the steps that it computes.
        stage_name: String,
        reason: String,
    },
    /// As the log of another engine tells it.
    #[error("{message}")]
    Told { message: String },
    /// The user, or the end of the application, cancelled it.
    #[error("{job}{action} cancelled: {reason}", job = JobName(*job), action = Of(action))]
    Cancelled {
        job: JobId,
        /// The action that ran it: operation and place; empty if it is not known.
        #[serde(default)]
        action: String,
        /// By whom or why.
        reason: String,
    },
}

struct JobName(JobId);

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {}", self.0)
    }
}

/// Behind a job's name: what ran it.
struct Of<'a>(&'a str);

impl fmt::Display for Of<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " ({})", self.0) }
    }
}
