//! Why the engine refused or failed something.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use firesteel_conf::ConfError;
use firesteel_types::JobError;

/// The result of everything that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the engine refused or failed something, with what to do about it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is wrong.
    #[error(transparent)]
    Conf(Arc<ConfError>),
    /// The master names a cluster manager that this build cannot reach.
    #[error("master {master} is not available: {reason}")]
    Master {
        /// What was asked for.
        master: String,
        /// Why not, and what is.
        reason: String,
    },
    /// The file with the pools of the `FAIR` mode cannot be used.
    #[error("spark.scheduler.allocation.file {path:?} cannot be used: {reason}")]
    AllocationFile { path: PathBuf, reason: String },
    /// A file that executors shall get cannot be used.
    #[error("spark.files (--files) {file}: {reason}")]
    File {
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
        id: u64,
        /// What went wrong when it was merged.
        reason: String,
    },
    /// The engine was stopped.
    #[error("the context is stopped; build a new one to run more jobs")]
    Stopped,
    /// The application lost its cluster.
    #[error("no more jobs can be run: {reason}")]
    ApplicationEnded { reason: String },
    /// A thread or child process could not be started.
    #[error("could not start {what}: {source}")]
    Start { what: String, source: Arc<io::Error> },
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

impl From<ConfError> for Error {
    fn from(error: ConfError) -> Self {
        Error::Conf(error.into())
    }
}
