//! Why records could not be spilled or read back.

use std::io;
use std::path::PathBuf;

use firesteel_closure::WireError;

/// Why records could not be spilled.
#[derive(Debug, thiserror::Error)]
pub enum SpillError {
    /// A record cannot be encoded.
    #[error(transparent)]
    Wire(WireError),
    /// A temporary file cannot be written.
    #[error("could not write a temporary file: {source}")]
    Write {
        /// Why not.
        source: io::Error,
    },
}

/// Why records could not be brought back.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The bytes are not records.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// Packed records in memory cannot be unpacked.
    #[error("packed records in memory cannot be unpacked: {0}")]
    Memory(io::Error),
    /// The file is there, but this process has too many open.
    #[error("could not open {path:?}: {source}; raise the limit with `ulimit -n`")]
    TooManyFiles {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file cannot be read.
    #[error("could not read {path:?} at offset {offset}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// Why not.
        source: io::Error,
    },
    /// The file holds something else than what was written.
    #[error("{path:?} is corrupt: the block at offset {offset} has {what}")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
}
