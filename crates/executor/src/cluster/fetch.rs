//! What a task sees of the cluster: map outputs and broadcasts, from here or from elsewhere.
//!
//! Map outputs of another executor are asked for many at a time, within a bound of bytes for all that
//! this task holds; one that lies in a file comes by itself, and through a temporary file if it is
//! larger than the bound. All are checked when they come.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::{Arc, Mutex};

use tokio::io::AsyncReadExt;

use firesteel_rdd::Environment;
use firesteel_rpc::{RpcAddress, StreamError};
use firesteel_shuffle::{MapOutput, Scratch, Slice};
use firesteel_storage::MemoryStore;
use firesteel_types::{BroadcastId, ExecutorId, ShuffleId, TaskFailure};

use super::node::{Node, lock};
use super::protocol::{BlockMasterReply, MapOutputLocations, StreamId, ToBlockMaster, read_parts};

/// So many outputs are asked for at once: their numbers fit into a stream's name.
const OUTPUTS_AT_ONCE: usize = 300;
/// An answer may be longer than it should be by one output that is small, and its framing.
const SLACK: u64 = 4 << 20;

/// What one task sees.
pub(super) struct TaskEnvironment {
    node: Arc<Node>,
    /// Where map outputs lie must be known at least as of this.
    epoch: u64,
    ahead: Mutex<Ahead>,
}

/// What came with something else and was not asked for yet.
#[derive(Default)]
struct Ahead {
    slices: BTreeMap<Wanted, Slice>,
    bytes: u64,
    /// Those that are to be read by themselves.
    alone: BTreeSet<Wanted>,
}

/// One reader's part of one map output.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted {
    shuffle: ShuffleId,
    reduce: u32,
    map: u32,
}

impl Wanted {
    fn failed(self, executor: ExecutorId, message: impl ToString) -> TaskFailure {
        TaskFailure::FetchFailed {
            shuffle: self.shuffle,
            map_partition: self.map,
            reduce_partition: self.reduce,
            executor,
            message: message.to_string(),
        }
    }

    fn stream(self) -> StreamId {
        let Wanted { shuffle, reduce, map } = self;
        StreamId::Slice { shuffle, reduce, map }
    }
}

impl Ahead {
    fn take(&mut self, wanted: Wanted) -> Option<Slice> {
        let slice = self.slices.remove(&wanted)?;
        self.bytes -= slice.bytes();
        Some(slice)
    }

    fn put(&mut self, wanted: Wanted, slice: Slice) {
        self.bytes += slice.bytes();
        self.slices.insert(wanted, slice);
    }
}

impl TaskEnvironment {
    pub(super) fn new(node: Arc<Node>, epoch: u64) -> Self {
        TaskEnvironment { node, epoch, ahead: Mutex::default() }
    }

    /// Where the outputs of a shuffle lie, asked of the driver once per change.
    fn locate(&self, shuffle: ShuffleId) -> Result<Arc<MapOutputLocations>, TaskFailure> {
        let known = || {
            let known = lock(&self.node.locations).get(&shuffle).cloned();
            known.filter(|known| known.epoch >= self.epoch)
        };
        if let Some(known) = known() {
            return Ok(known);
        }
        let _asking = lock(&self.node.asking);
        if let Some(known) = known() {
            return Ok(known);
        }
        let asked = self.node.block_master.ask(ToBlockMaster::LocateMapOutputs(shuffle));
        match self.node.env.runtime().block_on(asked) {
            Ok(BlockMasterReply::MapOutputs(Some(found))) => {
                let found = Arc::new(found);
                lock(&self.node.locations).insert(shuffle, found.clone());
                Ok(found)
            }
            Ok(_) => Err(TaskFailure::Error {
                message: format!("the driver knows nothing of shuffle {shuffle}"),
            }),
            Err(error) => Err(TaskFailure::Error { message: error.to_string() }),
        }
    }

    fn fetch(&self, wanted: Wanted) -> Result<Slice, TaskFailure> {
        let located = self.locate(wanted.shuffle)?;
        let holder = located.locations.get(wanted.map as usize).copied().flatten();
        let holder = holder.ok_or_else(|| {
            wanted.failed(ExecutorId::DRIVER, "no executor is known to have it any more")
        })?;
        if holder == self.node.executor {
            let here = self.node.slice(wanted.shuffle, wanted.map, wanted.reduce);
            return here.ok_or_else(|| wanted.failed(holder, "the block is not there"));
        }
        let address = located.executors.iter().find(|(executor, _)| *executor == holder);
        let Some((_, address)) = address else {
            return Err(wanted.failed(holder, "that executor is lost"));
        };
        let is_alone = lock(&self.ahead).alone.remove(&wanted);
        if !is_alone {
            self.fetch_with_more(wanted, holder, address, &located)?;
            let arrived = lock(&self.ahead).take(wanted);
            if let Some(slice) = arrived {
                return Ok(slice);
            }
        }
        self.fetch_alone(wanted, holder, address)
    }

    /// Reads this part, and those that will be wanted next from the same executor.
    fn fetch_with_more(
        &self,
        wanted: Wanted,
        holder: ExecutorId,
        address: &RpcAddress,
        located: &MapOutputLocations,
    ) -> Result<(), TaskFailure> {
        let held = lock(&self.ahead).bytes;
        let limit = self.node.max_in_flight.saturating_sub(held);
        let rest = located.locations.iter().enumerate().skip(wanted.map as usize);
        let same = rest.filter(|(_, place)| **place == Some(holder)).map(|(map, _)| map as u32);
        let maps: Vec<u32> = same.take(OUTPUTS_AT_ONCE).collect();
        let Wanted { shuffle, reduce, .. } = wanted;
        let id = StreamId::Slices { shuffle, reduce, limit, maps }.to_string();
        let reading = self.node.env.streams().read(address, &id, limit.saturating_add(SLACK));
        let answer = self.node.env.runtime().block_on(reading);
        let answer = answer.map_err(|error| wanted.failed(holder, error))?;
        let parts = read_parts(&answer)
            .ok_or_else(|| wanted.failed(holder, "its answer cannot be read"))?;
        for (map, blocks) in parts {
            let part = Wanted { map, ..wanted };
            let Some(blocks) = blocks else {
                lock(&self.ahead).alone.insert(part);
                continue;
            };
            let slice = Slice::received(blocks).map_err(|error| part.failed(holder, error))?;
            lock(&self.ahead).put(part, slice);
        }
        Ok(())
    }

    /// Reads a part that lies in a file over there.
    fn fetch_alone(
        &self,
        wanted: Wanted,
        holder: ExecutorId,
        address: &RpcAddress,
    ) -> Result<Slice, TaskFailure> {
        let id = wanted.stream().to_string();
        let held = lock(&self.ahead).bytes;
        let limit = self.node.max_in_flight.saturating_sub(held);
        let node = &self.node;
        let failed = |error: StreamError| wanted.failed(holder, error);
        node.env.runtime().block_on(async {
            let stream = node.env.streams().open(address, &id, u64::MAX).await.map_err(failed)?;
            if stream.length() <= limit {
                let mut blocks = Vec::new();
                stream.copy_to(&mut blocks).await.map_err(failed)?;
                return Slice::received(blocks).map_err(|error| wanted.failed(holder, error));
            }
            let file = to_file(stream, &node.scratch).await;
            let file = file.map_err(|error| match error.get_ref() {
                Some(inner) if inner.is::<StreamError>() => wanted.failed(holder, error),
                _ => TaskFailure::Error { message: error.to_string() },
            })?;
            Slice::received_in_file(file).map_err(|error| wanted.failed(holder, error))
        })
    }

    /// Reads something of the driver's.
    pub(super) fn read_from_driver(&self, id: &StreamId) -> Result<Vec<u8>, StreamError> {
        let (env, id) = (&self.node.env, id.to_string());
        env.runtime().block_on(env.streams().read(&self.node.driver, &id, u64::MAX))
    }
}

/// On the task's own thread, which may wait for a disk.
async fn to_file(
    mut stream: impl tokio::io::AsyncRead + Unpin,
    scratch: &Scratch,
) -> std::io::Result<firesteel_storage::TempFile> {
    let file = scratch.file_for_received()?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(file),
            read => file.file().write_all(&buffer[..read])?,
        }
    }
}

impl Environment for TaskEnvironment {
    fn executor(&self) -> ExecutorId {
        self.node.executor
    }

    fn blocks(&self) -> &MemoryStore {
        &self.node.blocks
    }

    fn scratch(&self) -> &Scratch {
        &self.node.scratch
    }

    fn put_map_output(
        &self,
        shuffle: ShuffleId,
        map: u32,
        output: MapOutput,
    ) -> Result<(), TaskFailure> {
        self.node.put_map_output(shuffle, map, output);
        Ok(())
    }

    fn fetch_map_output(
        &self,
        shuffle: ShuffleId,
        map: u32,
        reduce: u32,
    ) -> Result<Slice, TaskFailure> {
        let wanted = Wanted { shuffle, reduce, map };
        let ahead = lock(&self.ahead).take(wanted);
        ahead.map_or_else(|| self.fetch(wanted), Ok)
    }

    fn fetch_broadcast(&self, id: BroadcastId) -> Result<Vec<u8>, TaskFailure> {
        self.read_from_driver(&StreamId::Broadcast(id)).map_err(|error| match error {
            StreamError::Missing { .. } => TaskFailure::Fatal {
                message: format!("broadcast {id} is gone: keep its handle as long as jobs use it"),
            },
            other => TaskFailure::Error { message: other.to_string() },
        })
    }
}
