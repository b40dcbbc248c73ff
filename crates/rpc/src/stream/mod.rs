//! Bulk bytes (blocks, files) over connections of their own, beside messages.
//!
//! ```text
//! client                         server
//!   frame: id                ─►
//!   ◄─  frame: Found{length} │ Missing │ Busy │ Failed
//!   ◄─  u8 kind, u32 length, bytes        as often as it takes
//! ```
//!
//! One stream at a time has a connection to itself, so TCP's own flow control is its back-pressure, and a
//! slow reader holds up nobody else. Connections are used again. A stream that is dropped before its
//! end takes its connection with it, which is how it is cancelled.

mod client;
mod server;

use std::any::Any;
use std::fs::File;
use std::io;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub use client::{IncomingStream, StreamClient};
pub(crate) use server::serve;

use crate::RpcError;
use crate::address::RpcAddress;
use crate::endpoint::Peer;

/// The longest id, in bytes.
pub const MAX_STREAM_ID: usize = 4096;
/// The largest frame of either side that is not bytes of a stream.
const MAX_CONTROL: usize = MAX_STREAM_ID + 1024;
/// Kind and length before each piece.
const PIECE_HEAD: usize = 5;
/// How many bytes at most stand behind one head.
const PIECE: usize = 1 << 20;
const DATA: u8 = 0;
const FAILED: u8 = 1;

/// Where streams come from. An id is the caller's text: resolve it by lookup, never as a path.
pub trait StreamSource: Send + Sync + 'static {
    /// Opens what `id` names for this peer, whose identity is proved. Runs on a thread that may block.
    fn open(&self, id: &str, peer: &Peer) -> Result<StreamBody, OpenError>;
}

/// What a stream consists of.
#[derive(Debug)]
pub enum StreamBody {
    /// One piece of memory.
    Bytes(Bytes),
    /// These, one after the other.
    Parts(Vec<Bytes>),
    /// A range of a file.
    File {
        /// Open for reading.
        file: File,
        /// Where the range starts.
        offset: u64,
        /// How long it is.
        length: u64,
    },
    /// One of these, with something that is dropped when the stream has ended, however it ends.
    Held {
        /// What the stream consists of.
        body: Box<StreamBody>,
        /// Such as a place among the streams that are served at once.
        held: Box<dyn Any + Send>,
    },
}

impl StreamBody {
    /// The same, and `held` is dropped when the stream has ended.
    #[must_use]
    pub fn holding(self, held: impl Any + Send) -> Self {
        Self::Held { body: Box::new(self), held: Box::new(held) }
    }

    /// All bytes that the file has now.
    pub fn whole(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self::File { file, offset: 0, length })
    }

    fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Parts(parts) => parts.iter().map(|part| part.len() as u64).sum(),
            Self::File { length, .. } => *length,
            Self::Held { body, .. } => body.length(),
        }
    }
}

/// Why a source opens nothing.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no such id, or not for this peer.
    #[error("there is no such stream")]
    Missing,
    /// There is, and as many read it now as may at once.
    #[error("as many read it now as may at once")]
    Busy,
    /// There is, but it cannot be read.
    #[error(transparent)]
    Failed(#[from] io::Error),
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request<'a> {
    pub(crate) id: &'a str,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Response {
    Found { length: u64 },
    Missing,
    Busy,
    Failed { reason: String },
}

/// Why a stream was not read to its end.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The other side has nothing of this id: trying again does not help.
    #[error("{address} has no stream {id}: it was removed, or never was there")]
    Missing {
        /// The id as the reader gave it.
        id: String,
        /// The process that was asked.
        address: RpcAddress,
    },
    /// The other side has it and serves it to as many others as it may: later, or from somebody else.
    #[error(
        "{address} serves its stream {id} to as many others as it may at once: ask again later, or elsewhere"
    )]
    Busy {
        /// The id as the reader gave it.
        id: String,
        /// The process that was asked.
        address: RpcAddress,
    },
    /// The other side has it and cannot read it.
    #[error("{address} could not read its stream {id}: {reason}")]
    Failed {
        /// The id as the reader gave it.
        id: String,
        /// The process that was asked.
        address: RpcAddress,
        /// The error that it met, as text.
        reason: String,
    },
    /// It is longer than the reader wants.
    #[error(
        "the stream {id} of {address} has {length} bytes, and {limit} are allowed: raise the limit or read it in parts"
    )]
    TooLarge {
        /// The id as the reader gave it.
        id: String,
        /// The process that was asked.
        address: RpcAddress,
        /// Of the stream, in bytes.
        length: u64,
        /// In bytes, as the reader set it.
        limit: u64,
    },
    /// An id that cannot be asked for.
    #[error("an id of {length} bytes is too long for a stream: {MAX_STREAM_ID} at most")]
    LongId {
        /// Of the id, in bytes.
        length: usize,
    },
    /// No connection could be made.
    #[error(transparent)]
    Connect(#[from] RpcError),
    /// The connection broke: trying again may help.
    #[error(
        "the connection to {address} broke in the stream {id}: {source}; ask again, there or elsewhere"
    )]
    Broken {
        /// The id as the reader gave it.
        id: String,
        /// The process that was asked.
        address: RpcAddress,
        /// The error of the system.
        source: io::Error,
    },
    /// Where the bytes went to took no more.
    #[error("the stream {id} could not be written on this side: {source}")]
    Write {
        /// The id as the reader gave it.
        id: String,
        /// The error of the writer that the reader passed.
        source: io::Error,
    },
}

impl StreamError {
    /// Whether asking again may help: the connection was in trouble, not the stream. So is a peer that is
    /// paused: the system takes the connection, and nobody answers the handshake.
    pub fn may_pass(&self) -> bool {
        use RpcError::{Disconnected, Handshake, Timeout, Unreachable};
        match self {
            Self::Broken { .. } | Self::Busy { .. } => true,
            Self::Connect(error @ Handshake { .. }) => !error.is_lasting(),
            Self::Connect(Unreachable { .. } | Disconnected { .. } | Timeout { .. }) => true,
            _ => false,
        }
    }
}
