//! What can go wrong for a user of the driver, each with what to do about it.

use std::path::PathBuf;
use std::{fmt, io};

use firesteel_closure::WireError;
use firesteel_conf::ConfError;
use firesteel_types::{CallSite, JobError};

/// The result of everything that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed. Cloneable, because a wrong RDD tells every action the same.
///
/// Its `Debug` form is its message: a program whose `main` returns it ends with a sentence. A `place` is the call of the program
/// that failed, as `text_file (src/main.rs:7)`; `None` where there was none.
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
    #[error("{}accumulator {id} misses what a task of the job added: {reason}", At(.place))]
    Accumulator {
        /// The action whose tasks added.
        place: Option<String>,
        /// Its [`Accumulator::id`](firesteel_task::Accumulator::id).
        id: u64,
        /// What went wrong when it was merged.
        reason: String,
    },
    /// The context was stopped.
    #[error("{}the context is stopped; build a new one to run more jobs", At(.place))]
    ContextStopped {
        /// What was called on it.
        place: Option<String>,
    },
    /// The application lost its cluster.
    #[error("{}no more jobs can be run: {reason}", At(.place))]
    ApplicationEnded {
        /// The action that came too late.
        place: Option<String>,
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
    #[error("{}input path {pattern:?} does not exist or matches no file{hint}", At(.place))]
    NoInput {
        /// The call that names it.
        place: Option<String>,
        /// The path or pattern.
        pattern: String,
        /// Where it was looked for, if the path does not say that itself; else empty.
        hint: String,
    },
    /// An input path is not a valid pattern.
    #[error("{}input path {pattern:?} is not a valid pattern: {reason}", At(.place))]
    InputPattern {
        /// The call that names it.
        place: Option<String>,
        /// The path or pattern.
        pattern: String,
        /// The mistake, and where in the pattern it is.
        reason: String,
    },
    /// An input file is there but cannot be read.
    #[error("{}input file {path:?} cannot be read: {source}", At(.place))]
    UnreadableInput {
        /// The call that names it.
        place: Option<String>,
        /// The path, or the pattern if its store did not answer.
        path: PathBuf,
        /// The error of the system or of the store.
        source: std::sync::Arc<io::Error>,
    },
    /// The output directory is already there.
    #[error(
        "{}output directory {path:?} already exists; remove it or choose another, or replace it with SaveOptions::overwrite",
        At(.place)
    )]
    OutputExists {
        /// The call that was to write it.
        place: Option<String>,
        /// As it was given to the action.
        path: PathBuf,
    },
    /// The output could not be put in place.
    #[error("{}could not {action} {path:?}: {source}", At(.place))]
    Output {
        /// The call that writes it.
        place: Option<String>,
        /// A verb, such as `create`: what was tried with `path`.
        action: &'static str,
        /// The file or directory, or the URL in an object store.
        path: PathBuf,
        /// The error of the system or of the store.
        source: std::sync::Arc<io::Error>,
    },
    /// The RDD has no items, and the action needs one.
    #[error(
        "{operation} ({place}): it needs at least one item, but the RDD is empty; ask is_empty() first"
    )]
    Empty {
        /// The action that was called, such as `first`.
        operation: &'static str,
        /// Where it was called.
        place: String,
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
    #[error("{}{source}", At(.place))]
    Wire {
        /// The action that wanted it.
        place: Option<String>,
        /// Which type, why, and what to do.
        source: std::sync::Arc<WireError>,
    },
    /// A thread or child process could not be started.
    #[error("could not start {what}: {source}")]
    Start {
        /// What it is for, such as a worker thread.
        what: String,
        /// The error of the system.
        source: std::sync::Arc<io::Error>,
    },
    /// The program was built in a way that cannot work.
    #[error("{}{message}", At(.place))]
    Unsupported {
        /// The call that needs what was left out.
        place: Option<String>,
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

/// What comes before a message: the place, if it is known.
struct At<'a>(&'a Option<String>);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |place| write!(f, "{place}: "))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
            Engine::Accumulator { id, reason } => Error::Accumulator { place: None, id, reason },
            Engine::Stopped => Error::ContextStopped { place: None },
            Engine::ApplicationEnded { reason } => Error::ApplicationEnded { place: None, reason },
            Engine::Start { what, source } => Error::Start { what, source },
            Engine::Unsupported { message } => Error::Unsupported { place: None, message },
            Engine::Defect { message } => Error::Defect { message },
            other => Error::Defect { message: other.to_string() },
        }
    }
}

impl From<WireError> for Error {
    fn from(error: WireError) -> Self {
        Error::Wire { place: None, source: error.into() }
    }
}

impl Error {
    pub(crate) fn invalid(call_site: &CallSite, reason: impl Into<String>) -> Self {
        Error::InvalidArgument {
            operation: call_site.operation,
            place: format!("{}:{}", call_site.file, call_site.line),
            reason: reason.into(),
        }
    }

    pub(crate) fn empty(call_site: &CallSite) -> Self {
        let place = format!("{}:{}", call_site.file, call_site.line);
        Error::Empty { operation: call_site.operation, place }
    }

    /// The same, of this call, if it does not say yet of which it is.
    pub(crate) fn at(mut self, call_site: &CallSite) -> Self {
        if let Some(place) = self.place() {
            let of = || format!("{} ({}:{})", call_site.operation, call_site.file, call_site.line);
            place.get_or_insert_with(of);
        }
        self
    }

    /// What [`Error::at`] fills in.
    fn place(&mut self) -> Option<&mut Option<String>> {
        match self {
            Error::Accumulator { place, .. }
            | Error::ContextStopped { place }
            | Error::ApplicationEnded { place, .. }
            | Error::NoInput { place, .. }
            | Error::InputPattern { place, .. }
            | Error::UnreadableInput { place, .. }
            | Error::OutputExists { place, .. }
            | Error::Output { place, .. }
            | Error::Unsupported { place, .. }
            | Error::Wire { place, .. } => Some(place),
            // These have one of their own, or the job's.
            Error::InvalidArgument { .. }
            | Error::Empty { .. }
            | Error::UserCode { .. }
            | Error::Job(_) => None,
            // These are of no call: the start of a context, its settings, the system's threads.
            Error::Conf(_)
            | Error::Master { .. }
            | Error::EventLog { .. }
            | Error::Pages { .. }
            | Error::Traces { .. }
            | Error::Metrics { .. }
            | Error::AllocationFile { .. }
            | Error::File { .. }
            | Error::Start { .. }
            | Error::Defect { .. } => None,
        }
    }
}
