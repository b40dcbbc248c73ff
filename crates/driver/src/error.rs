//! What can go wrong for a user of the driver, each with what to do about it.

use std::io;
use std::path::PathBuf;

use firesteel_closure::WireError;
use firesteel_conf::ConfError;
use firesteel_types::JobError;

/// The result of everything that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed. Cloneable, because a wrong RDD tells every action the same.
///
/// Its `Debug` form is its message: a program whose `main` returns it ends with a sentence.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is wrong.
    #[error(transparent)]
    Conf(std::sync::Arc<ConfError>),
    /// The master names a cluster manager that this build cannot reach.
    #[error("master {master} is not available: {reason}")]
    Master {
        /// What was asked for.
        master: String,
        /// Why not, and what is.
        reason: String,
    },
    /// The application shall write an event log and cannot.
    #[error("no event log can be written: {reason}")]
    EventLog {
        /// Why not, and what to do.
        reason: String,
    },
    /// The application shall show its pages to some and cannot tell who asks.
    #[error("pages cannot be shown: {reason}")]
    Pages {
        /// Why not, and what to do.
        reason: String,
    },
    /// The application shall tell a collector of its jobs and cannot.
    #[error("no traces can be told: {reason}")]
    Traces {
        /// Why not, and what to do.
        reason: String,
    },
    /// The application shall report metrics and cannot.
    #[error("metrics cannot be reported: {reason}")]
    Metrics {
        /// Why not, and what to do.
        reason: String,
    },
    /// The file with the pools of the `FAIR` mode cannot be used.
    #[error("spark.scheduler.allocation.file {path:?} cannot be used: {reason}")]
    AllocationFile {
        /// As `spark.scheduler.allocation.file` names it.
        path: PathBuf,
        /// What is wrong with it, and in which line.
        reason: String,
    },
    /// A file that executors shall get cannot be used.
    #[error("spark.files (--files) {file}: {reason}")]
    File {
        /// As the user wrote it.
        file: String,
        /// Why not, and what to do.
        reason: String,
    },
    /// The job ran and failed, or was cancelled.
    #[error(transparent)]
    Job(#[from] JobError),
    /// A job's additions to an accumulator could not be merged.
    #[error("accumulator {id} misses what a task of the job added: {reason}")]
    Accumulator {
        /// Its [`Accumulator::id`](firesteel_task::Accumulator::id).
        id: u64,
        /// What went wrong when it was merged.
        reason: String,
    },
    /// The context was stopped.
    #[error("the context is stopped; build a new one to run more jobs")]
    ContextStopped,
    /// The application lost its cluster.
    #[error("no more jobs can be run: {reason}")]
    ApplicationEnded {
        /// Why the cluster is lost, as the master or the driver found it.
        reason: String,
    },
    /// An argument of a transformation or action is out of its range.
    #[error("{operation} ({place}): {reason}")]
    InvalidArgument {
        /// The method that was called, such as `repartition`.
        operation: &'static str,
        /// Where it was called.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An input path matches nothing.
    #[error("input path {pattern:?} does not exist or matches no file")]
    NoInput {
        /// The path or pattern.
        pattern: String,
    },
    /// An input path is not a valid pattern.
    #[error("input path {pattern:?} is not a valid pattern: {reason}")]
    InputPattern {
        /// The path or pattern.
        pattern: String,
        /// The mistake, and where in the pattern it is.
        reason: String,
    },
    /// An input file is there but cannot be read.
    #[error("input file {path:?} cannot be read: {source}")]
    UnreadableInput {
        /// The path, or the pattern if its store did not answer.
        path: PathBuf,
        /// The error of the system or of the store.
        source: std::sync::Arc<io::Error>,
    },
    /// The output directory is already there.
    #[error(
        "output directory {path:?} already exists; remove it or choose another, or replace it with SaveOptions::overwrite"
    )]
    OutputExists {
        /// As it was given to the action.
        path: PathBuf,
    },
    /// The output could not be put in place.
    #[error("could not {action} {path:?}: {source}")]
    Output {
        /// A verb, such as `create`: what was tried with `path`.
        action: &'static str,
        /// The file or directory, or the URL in an object store.
        path: PathBuf,
        /// The error of the system or of the store.
        source: std::sync::Arc<io::Error>,
    },
    /// The RDD has no items, and the action needs one.
    #[error("{operation} needs at least one item, but the RDD is empty")]
    Empty {
        /// The action that was called, such as `first`.
        operation: &'static str,
    },
    /// Code of the program that an action runs on the driver panicked: an `Ord`, `Hash`, `Deserialize` or `Drop` of an item, a
    /// function that merges results.
    #[error(
        "{operation} ({place}): code of the program panicked on the driver: {message}, at {location}"
    )]
    UserCode {
        /// The action that was called, such as `collect`.
        operation: &'static str,
        /// Where it was called.
        place: String,
        /// The panic's message.
        message: String,
        /// `file:line:column` of the panic, or `unknown location`.
        location: String,
    },
    /// A value could not be encoded or decoded.
    #[error(transparent)]
    Wire(std::sync::Arc<WireError>),
    /// A thread or child process could not be started.
    #[error("could not start {what}: {source}")]
    Start {
        /// What it is for, such as a worker thread.
        what: String,
        /// The error of the system.
        source: std::sync::Arc<io::Error>,
    },
    /// The program was built in a way that cannot work.
    #[error("{message}")]
    Unsupported {
        /// What the program has to change.
        message: String,
    },
    /// A defect of Firesteel itself.
    #[error("firesteel has a defect, please report it: {message}")]
    Defect {
        /// For the report: what was expected, and what was found.
        message: String,
    },
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl From<ConfError> for Error {
    fn from(error: ConfError) -> Self {
        Error::Conf(error.into())
    }
}

impl From<firesteel_engine::Error> for Error {
    fn from(error: firesteel_engine::Error) -> Self {
        use firesteel_engine::Error as Engine;
        match error {
            Engine::Conf(error) => Error::Conf(error),
            Engine::Master { master, reason } => Error::Master { master, reason },
            Engine::AllocationFile { path, reason } => Error::AllocationFile { path, reason },
            Engine::File { file, reason } => Error::File { file, reason },
            Engine::Job(error) => Error::Job(error),
            Engine::Accumulator { id, reason } => Error::Accumulator { id, reason },
            Engine::Stopped => Error::ContextStopped,
            Engine::ApplicationEnded { reason } => Error::ApplicationEnded { reason },
            Engine::Start { what, source } => Error::Start { what, source },
            Engine::Unsupported { message } => Error::Unsupported { message },
            Engine::Defect { message } => Error::Defect { message },
            other => Error::Defect { message: other.to_string() },
        }
    }
}

impl From<WireError> for Error {
    fn from(error: WireError) -> Self {
        Error::Wire(error.into())
    }
}

impl Error {
    pub(crate) fn invalid(
        call_site: &firesteel_types::CallSite,
        reason: impl Into<String>,
    ) -> Self {
        Error::InvalidArgument {
            operation: call_site.operation,
            place: format!("{}:{}", call_site.file, call_site.line),
            reason: reason.into(),
        }
    }
}
