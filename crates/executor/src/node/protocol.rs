//! What a driver and the executors of a cluster say to each other beyond the cores' messages: what a
//! task is, what it brought, where blocks lie. Both sides run the same executable, so that the format
//! needs no version.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use firesteel_backend::command::ServedFile;
use firesteel_closure::{ExecutableHash, Taker, WireError, to_bytes};
use firesteel_rpc::{Message, RpcAddress};
use firesteel_task::{TaskIdentity, TaskReport};
use firesteel_types::{
    AccumulatorId, BlockLocation, BlockStatus, BroadcastId, ExecutorId, ExecutorMetrics,
    MapAttempt, MapOutputLocation, RddBlock, RddId, RunningTask, ShuffleId, StagePeak, TaskFailure,
    TaskId, ThreadInfo,
};

use crate::Forgotten;

/// The name of the driver's endpoint that knows where blocks lie.
pub const BLOCK_MASTER: &str = "BlockManagerMaster";
/// The name of an executor's endpoint that is told what is to become of its blocks.
pub const BLOCKS: &str = "BlockManagerEndpoint";

/// The name of an executor's endpoint that tells what its threads do.
pub const THREADS: &str = "ThreadDump";

/// The driver's address for a new executor: `spark://driver@host:port`.
pub const DRIVER_URL: &str = "FIRESTEEL_DRIVER_URL";
/// The driver's settings for a new executor, as properties text.
pub const SETTINGS: &str = "FIRESTEEL_CONF";

/// A task to be run: the data of a `LaunchTask`.
#[derive(Debug, Serialize, Deserialize)]
pub struct TaskOrder {
    /// The attempt, and what it computes.
    pub identity: TaskIdentity,
    /// The name of its stage's code.
    pub code: u64,
    /// The code, if this executor has not been sent it before; otherwise it is fetched if need be.
    pub body: Option<Vec<u8>>,
    /// How often the driver has added a file: the task finds all of them, up to this one.
    pub files: u64,
}

/// Cached partitions of these RDDs must not be read if they were computed before that epoch.
pub(super) type Outdated = Vec<(RddId, u64)>;

impl TaskOrder {
    /// The data of a `LaunchTask`. What is outdated comes first and is heeded as it comes, before any task that comes later:
    /// so it is told once, though tasks run in another order than they come, or not at all.
    pub fn to_data(&self, outdated: &Vec<(RddId, u64)>) -> Vec<u8> {
        let mut data = to_bytes(outdated).expect(PLAIN);
        data.extend(to_bytes(self).expect(PLAIN));
        data
    }

    /// What stands first in the data, and the rest: the order.
    pub(super) fn split(data: &[u8]) -> Result<(Outdated, &[u8]), WireError> {
        let (outdated, length) = Taker::of::<Outdated>().take(data)?;
        Ok((outdated, &data[length..]))
    }
}

const PLAIN: &str = "it consists of numbers and bytes";

/// What a task brought: the data of a `StatusUpdate`, whose outcome is the registry's.
pub type TaskData = TaskReport<TaskOutput, Vec<u8>, ()>;

/// A task's encoded result.
#[derive(Debug, Serialize, Deserialize)]
pub enum TaskOutput {
    /// It is small enough to come along.
    Here(Vec<u8>),
    /// It waits on its executor to be fetched.
    There {
        /// How long it is.
        bytes: u64,
    },
    /// It waits there together with the accumulator updates, which are too long to come along: a [`Bundle`].
    Bundled {
        /// How long both are.
        bytes: u64,
    },
}

/// What a task brought when its accumulator updates are long.
#[derive(Debug, Serialize, Deserialize)]
pub struct Bundle {
    /// Its encoded result; `None` after a failure.
    pub output: Option<Vec<u8>>,
    /// What it added to accumulators, encoded.
    pub updates: Vec<(AccumulatorId, Vec<u8>)>,
}

/// To the driver's [`BLOCK_MASTER`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToBlockMaster {
    /// First: where the executor at the other end of this connection serves its blocks.
    Introduce {
        /// Where others connect to read its blocks.
        address: RpcAddress,
        /// Bytes of memory for blocks and running tasks.
        max_memory: u64,
    },
    /// Where do the map outputs of a shuffle lie?
    LocateMapOutputs(ShuffleId),
    /// Does the executor that serves blocks there count?
    IsAlive(BlockLocation),
    /// Where does a cached partition lie?
    LocateCached(RddBlock),
    /// Who is to hold a replica of a cached partition, the best first?
    LocatePeers {
        /// The executor that has it and asks.
        holder: BlockLocation,
        /// The cached partition that is to be replicated.
        block: RddBlock,
    },
    /// Which files has the driver added since it started?
    ListFiles,
    /// Which piece of a broadcast value to get next, and where?
    NextPiece {
        /// The executor that reads the value.
        reader: BlockLocation,
        /// The value it reads.
        broadcast: BroadcastId,
        /// Pieces that came since it asked last, and whether it serves them to others.
        came: Vec<(u32, bool)>,
        /// Those it misses; `None`: all.
        missing: Option<Vec<u32>>,
        /// Others did not serve it: the driver shall.
        from_driver: bool,
    },
    /// With a heartbeat: what its running tasks cost so far, and what it caches.
    Heartbeat {
        /// The executor that sends it.
        executor: ExecutorId,
        /// The most that it used since the last one.
        metrics: Box<ExecutorMetrics>,
        /// The same while it ran tasks of these stage attempts.
        stages: Vec<StagePeak>,
        /// Its running tasks, and what each has cost so far.
        tasks: Vec<RunningTask>,
        /// All partitions it caches, unless they are too many to be told each time.
        cached: Option<Vec<(RddBlock, BlockStatus)>>,
    },
    /// A cached partition came, moved or went.
    BlockUpdated {
        /// The executor that holds or held it.
        location: BlockLocation,
        /// The cached partition that came, moved or went.
        block: RddBlock,
        /// How it is stored there; `None`: it is gone.
        status: Option<BlockStatus>,
    },
}

/// The answer of [`BLOCK_MASTER`].
#[derive(Debug, Serialize, Deserialize)]
pub enum BlockMasterReply {
    /// To `Introduce`: which executable the driver runs.
    Welcome(ExecutableHash),
    /// To `LocateMapOutputs`; `None`: there is no such shuffle.
    MapOutputs(Option<MapOutputLocations>),
    /// To `LocateCached`: who holds it, and where they serve their blocks.
    Holders(Vec<(BlockLocation, RpcAddress)>),
    /// To `LocatePeers`: how many replicas there are, and who could hold another.
    Peers {
        /// So many others hold it already.
        replicas: u32,
        /// Those that do not, and where they are asked.
        peers: Vec<(BlockLocation, RpcAddress)>,
    },
    /// To `ListFiles`: all of them, each to be read as a stream that is named by its hash.
    Files {
        /// How often the driver has added one.
        version: u64,
        /// By name, each as it was added last.
        files: Vec<ServedFile>,
    },
    /// To `NextPiece`: the piece, or to ask again.
    Piece(NextPiece),
    /// To `IsAlive`: false if the driver has declared it dead.
    Alive(bool),
    /// To messages that ask nothing.
    Noted,
}

/// Which piece of a broadcast value to get next.
#[derive(Debug, Serialize, Deserialize)]
pub enum NextPiece {
    /// The value is gone.
    Gone(String),
    /// It is so small that this is all of it.
    Whole(Vec<u8>),
    /// Get this one from `from`.
    Piece {
        /// Its number, from 0.
        piece: u32,
        /// How many there are.
        of: u32,
        /// Its length.
        bytes: u64,
        /// The CRC-32 of its bytes.
        checksum: u32,
        /// From the executor there; `None`: from the driver.
        from: Option<RpcAddress>,
    },
    /// All that are missing are under way to others: ask again soon.
    Wait,
}

/// Where the map outputs of one shuffle lie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapOutputLocations {
    /// The epoch of map outputs in which the driver answered: it grows with each change.
    pub epoch: u64,
    /// Where those that hold them serve their blocks, as far as they live.
    pub addresses: Vec<(BlockLocation, RpcAddress)>,
    /// By map partition; `None`: it is lost or not computed yet.
    pub locations: Vec<Option<MapOutputLocation>>,
}

impl Message for ToBlockMaster {
    type Reply = BlockMasterReply;
}

/// To an executor's [`BLOCKS`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToBlocks {
    /// Drop what nobody needs any more.
    Forget(Forgotten),
    /// These cached partitions have fewer replicas than their level asks for: have them replicated.
    Replicate(Vec<RddBlock>),
}

impl Message for ToBlocks {
    type Reply = ();
}

/// To an executor's [`THREADS`]: what do its threads do?
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct TellThreads;

impl Message for TellThreads {
    type Reply = Vec<ThreadInfo>;
}

/// What can be read as a stream, from a driver or an executor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamId {
    /// From a driver: a stage's code.
    Code(u64),
    /// From a driver: one partition of a source that a stage's code was sent without, as `read_items` reads it.
    Items {
        /// The number of the stage's code, as in [`StreamId::Code`].
        code: u64,
        /// The source's number in that code.
        source: u32,
        /// The source's partition, from 0.
        partition: u32,
    },
    /// From a driver or an executor: a piece of an encoded broadcast value.
    Piece {
        /// The value that it is a piece of.
        broadcast: BroadcastId,
        /// Its number, from 0.
        piece: u32,
    },
    /// From an executor: a task's result.
    Result(TaskId),
    /// From an executor: a cached partition, as blocks.
    Cached {
        /// The RDD that it is a partition of.
        rdd: RddId,
        /// The partition, from 0.
        partition: u32,
        /// Of this epoch or a later one.
        epoch: u64,
    },
    /// From an executor: one reader's part of one map output, as blocks.
    Slice {
        /// The shuffle that is read.
        shuffle: ShuffleId,
        /// The reader's partition, from 0.
        reduce: u32,
        /// Of this map partition and attempt.
        output: MapAttempt,
    },
    /// From an executor: which outputs of a shuffle it can serve, as [`MapAttempt`]s.
    Survey(ShuffleId),
    /// From an executor: one reader's parts of several map outputs, as `read_parts` reads them.
    Slices {
        /// The shuffle that is read.
        shuffle: ShuffleId,
        /// The reader's partition, from 0.
        reduce: u32,
        /// So many bytes, and at least the first.
        limit: u64,
        /// Of these map partitions and attempts.
        outputs: Vec<MapAttempt>,
    },
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamId::Code(code) => write!(f, "code/{code}"),
            StreamId::Items { code, source, partition } => {
                write!(f, "items/{code}/{source}/{partition}")
            }
            StreamId::Piece { broadcast, piece } => write!(f, "piece/{broadcast}/{piece}"),
            StreamId::Result(task) => write!(f, "result/{task}"),
            StreamId::Cached { rdd, partition, epoch } => {
                write!(f, "cached/{rdd}/{partition}/{epoch}")
            }
            StreamId::Slice { shuffle, reduce, output: MapAttempt { map_partition, task } } => {
                write!(f, "slice/{shuffle}/{reduce}/{map_partition}/{task}")
            }
            StreamId::Survey(shuffle) => write!(f, "survey/{shuffle}"),
            StreamId::Slices { shuffle, reduce, limit, outputs } => {
                write!(f, "slices/{shuffle}/{reduce}/{limit}")?;
                outputs.iter().try_for_each(|MapAttempt { map_partition, task }| {
                    write!(f, "/{map_partition}/{task}")
                })
            }
        }
    }
}

impl StreamId {
    /// Reads what `Display` wrote; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once('/')?;
        let numbers: Option<Vec<u64>> = rest.split('/').map(|part| part.parse().ok()).collect();
        let narrow = |number: u64| u32::try_from(number).ok();
        Some(match (kind, &numbers?[..]) {
            ("code", [code]) => StreamId::Code(*code),
            ("items", [code, source, partition]) => {
                let (source, partition) = (narrow(*source)?, narrow(*partition)?);
                StreamId::Items { code: *code, source, partition }
            }
            ("piece", [id, piece]) => {
                StreamId::Piece { broadcast: BroadcastId(*id), piece: narrow(*piece)? }
            }
            ("result", [task]) => StreamId::Result(TaskId(*task)),
            ("cached", [rdd, partition, epoch]) => {
                let (rdd, partition) = (RddId(narrow(*rdd)?), narrow(*partition)?);
                StreamId::Cached { rdd, partition, epoch: *epoch }
            }
            ("slice", [shuffle, reduce, map, task]) => StreamId::Slice {
                shuffle: ShuffleId(narrow(*shuffle)?),
                reduce: narrow(*reduce)?,
                output: MapAttempt { map_partition: narrow(*map)?, task: TaskId(*task) },
            },
            ("survey", [shuffle]) => StreamId::Survey(ShuffleId(narrow(*shuffle)?)),
            ("slices", [shuffle, reduce, limit, outputs @ ..]) => StreamId::Slices {
                shuffle: ShuffleId(narrow(*shuffle)?),
                reduce: narrow(*reduce)?,
                limit: *limit,
                outputs: pairs(outputs)?,
            },
            _ => return None,
        })
    }
}

/// The last byte of an answer with items, and of one that says why they cannot be encoded.
const ITEMS: u8 = 0;
const NO_ITEMS: u8 = 1;

/// The answer to a request for items, which `encode` appends.
pub fn items_answer(encode: impl FnOnce(&mut Vec<u8>) -> Result<(), TaskFailure>) -> Vec<u8> {
    let mut answer = Vec::new();
    let kind = match encode(&mut answer) {
        Ok(()) => ITEMS,
        Err(failure) => {
            answer = failure.to_string().into_bytes();
            NO_ITEMS
        }
    };
    answer.push(kind);
    answer
}

/// The items in an answer; else why there are none, which another attempt would not change.
pub(super) fn read_items(mut answer: Vec<u8>) -> Result<Vec<u8>, TaskFailure> {
    let message = match answer.pop() {
        Some(ITEMS) => return Ok(answer),
        Some(NO_ITEMS) => String::from_utf8_lossy(&answer).into_owned(),
        _ => "the driver sent items that are none".to_owned(),
    };
    Err(TaskFailure::Fatal { message })
}

fn pairs(numbers: &[u64]) -> Option<Vec<MapAttempt>> {
    let (pairs, []) = numbers.as_chunks::<2>() else { return None };
    let output = |[map, task]: &[u64; 2]| {
        Some(MapAttempt { map_partition: u32::try_from(*map).ok()?, task: TaskId(*task) })
    };
    pairs.iter().map(output).collect()
}

/// One map output's part for one reader: its blocks, or how long they are if they are to be read by
/// themselves.
pub(super) type Part = (u32, Result<Bytes, u64>);

/// In the length of a part: it is to be read by itself.
const BY_ITSELF: u64 = 1 << 63;

/// Appends the head of a part to the answer to [`StreamId::Slices`], which is read by itself.
pub(super) fn append_reference(map: u32, length: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&map.to_le_bytes());
    out.extend_from_slice(&(length | BY_ITSELF).to_le_bytes());
}

/// Appends a part to the answer to [`StreamId::Slices`]; `write` appends its blocks.
pub(super) fn append_part<E>(
    map: u32,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    out.extend_from_slice(&map.to_le_bytes());
    let start = out.len() + 8;
    out.extend_from_slice(&[0; 8]);
    write(out)?;
    let length = (out.len() - start) as u64;
    out[start - 8..start].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

/// Reads the answer to [`StreamId::Slices`]; `None` if it is none.
pub(super) fn read_parts(answer: &Bytes) -> Option<Vec<Part>> {
    let (mut parts, mut place) = (Vec::new(), 0);
    while place < answer.len() {
        let (map, rest) = answer[place..].split_first_chunk::<4>()?;
        let (length, rest) = rest.split_first_chunk::<8>()?;
        let (map, length) = (u32::from_le_bytes(*map), u64::from_le_bytes(*length));
        place += 12;
        if length & BY_ITSELF != 0 {
            parts.push((map, Err(length & !BY_ITSELF)));
            continue;
        }
        let length = usize::try_from(length).ok().filter(|length| *length <= rest.len())?;
        parts.push((map, Ok(answer.slice(place..place + length))));
        place += length;
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_as_they_are_written_and_cut_short_they_are_none() {
        let mut bytes = Vec::new();
        let append = |map, part: &[u8], out: &mut Vec<u8>| {
            append_part(map, out, |out| {
                out.extend_from_slice(part);
                Ok::<_, ()>(())
            })
            .unwrap();
        };
        append(1, &[7, 8], &mut bytes);
        append_reference(2, 99, &mut bytes);
        append(3, &[], &mut bytes);
        let part = |bytes: &'static [u8]| Ok(Bytes::from_static(bytes));
        let parts = vec![(1, part(&[7, 8])), (2, Err(99)), (3, part(&[]))];
        let bytes = Bytes::from(bytes);
        assert_eq!(read_parts(&bytes), Some(parts));
        assert!((1..12).all(|cut| read_parts(&bytes.slice(..bytes.len() - cut)).is_none()));
    }

    #[test]
    fn names_of_streams_are_read_as_they_are_written_and_nothing_else_is() {
        let shuffle = ShuffleId(7);
        let output = |map_partition| MapAttempt { map_partition, task: TaskId(u64::MAX) };
        for id in [
            StreamId::Code(u64::MAX),
            StreamId::Piece { broadcast: BroadcastId(3), piece: 4 },
            StreamId::Result(TaskId(9)),
            StreamId::Cached { rdd: RddId(2), partition: 5, epoch: 3 },
            StreamId::Slice { shuffle, reduce: 1, output: output(u32::MAX) },
            StreamId::Survey(shuffle),
            StreamId::Slices { shuffle, reduce: 1, limit: 2, outputs: vec![output(3), output(4)] },
        ] {
            assert_eq!(StreamId::parse(&id.to_string()), Some(id));
        }
        for text in [
            "",
            "code",
            "code/",
            "code/x",
            "code/1/2",
            "slice/1/2/3",
            "slice/1/2/4294967296/0",
            "slices/1/2/3/4",
        ] {
            assert_eq!(StreamId::parse(text), None, "{text}");
        }
    }
}
