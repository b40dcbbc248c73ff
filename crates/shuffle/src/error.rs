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
    Write { source: io::Error },
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
    TooManyFiles { path: PathBuf, source: io::Error },
    /// The file cannot be read.
    #[error("could not read {path:?} at offset {offset}: {source}")]
    Io { path: PathBuf, offset: u64, source: io::Error },
    /// The file holds something else than what was written.
    #[error("{path:?} is corrupt: the block at offset {offset} has {what}")]
    Corrupt { path: PathBuf, offset: u64, what: &'static str },
}
