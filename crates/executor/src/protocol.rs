//! What a driver and an executor in a child process say to each other, over a socket of their own.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use firesteel_closure::{Data, ExecutableHash, from_bytes, to_bytes};
use firesteel_shuffle::{MapOutput, ScratchSettings};
use firesteel_task::{TaskIdentity, TaskReport};
use firesteel_types::{BroadcastId, MapAttempt, RddId, ShuffleId, TaskFailure, TaskId};

/// No frame is larger: a length beyond it is a broken stream.
const FRAME_LIMIT: u64 = 4 << 30;

/// From the driver to a child process.
#[derive(Debug, Serialize, Deserialize)]
pub enum ToChild {
    /// First: which executable the driver runs, and what the child may use.
    Hello(ExecutableHash, ScratchSettings),
    /// Drop what nobody needs any more.
    Forget(Vec<Forgotten>),
    /// Run a task; the child runs one at a time.
    Run {
        /// The attempt, and what it computes.
        identity: TaskIdentity,
        /// Its body as [`TaskBody`](firesteel_task::TaskBody) encodes itself.
        body: Vec<u8>,
        /// Where it finds the files of `spark.files` and of `add_file`, if there are any.
        files: Option<PathBuf>,
    },
    /// Stop the task, if it still runs.
    Kill {
        /// Ignored unless it is the one that runs.
        task: TaskId,
        /// For the failure that it ends with.
        reason: String,
    },
    /// Answer to `PutMapOutput`: whether the driver has it.
    Stored(Result<(), TaskFailure>),
    /// Answer to `FetchMapOutput`: bytes and number of records.
    Slice(Result<(Vec<u8>, u64), TaskFailure>),
    /// Answer to `FetchBroadcast`: the encoded value.
    Broadcast(Result<Vec<u8>, TaskFailure>),
}

/// Something that nobody needs any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Forgotten {
    /// The cached partitions of an RDD that tasks computed which were launched before an epoch.
    Outdated(RddId, u64),
    /// A broadcast value, for good.
    Broadcast(BroadcastId),
    /// The copies of a broadcast value, which may be fetched again.
    BroadcastCopies(BroadcastId),
    /// The code of a stage.
    Code(u64),
    /// The map outputs of a shuffle.
    Shuffle(ShuffleId),
    /// One map output, which was written by an attempt that does not count, or could not be read.
    MapOutput(ShuffleId, MapAttempt),
    /// The result of a task, which waited to be fetched.
    Result(TaskId),
    /// So much that it is not worth telling apart.
    Everything,
}

/// From a child process to the driver.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromChild {
    /// First: which executable the child runs.
    Hello(ExecutableHash),
    /// Keep a map output.
    PutMapOutput {
        /// The shuffle that it is written for.
        shuffle: ShuffleId,
        /// Of this map partition.
        map: u32,
        /// Written by this attempt.
        task: TaskId,
        /// Travels as the encoded records of each reader.
        output: MapOutput,
    },
    /// Give one reader's part of a map output.
    FetchMapOutput {
        /// The shuffle that is read.
        shuffle: ShuffleId,
        /// Of this map partition.
        map: u32,
        /// The reader's partition, from 0.
        reduce: u32,
    },
    /// Give a broadcast's value.
    FetchBroadcast(BroadcastId),
    /// The task ended, well or not.
    Done(Box<TaskReport<Vec<u8>>>),
}

/// Writes one message, with its length in front: 8 bytes, little endian.
pub fn write_frame<T: Serialize>(stream: &mut impl Write, message: &T) -> io::Result<()> {
    let bytes = to_bytes(message).map_err(io::Error::other)?;
    stream.write_all(&(bytes.len() as u64).to_le_bytes())?;
    stream.write_all(&bytes)?;
    stream.flush()
}

/// Reads one message; `UnexpectedEof` when the peer is gone.
pub fn read_frame<T: Data>(stream: &mut impl Read) -> io::Result<T> {
    let mut length = [0; 8];
    stream.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > FRAME_LIMIT {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("frame of {length} bytes")));
    }
    let mut bytes = Vec::new();
    stream.take(length).read_to_end(&mut bytes)?;
    if (bytes.len() as u64) < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    from_bytes(&bytes).map_err(io::Error::other)
}
