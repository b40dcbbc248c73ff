//! The blocks of this executor: cached for its tasks, served to other executors, forgotten when told.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use bytes::Bytes;

use firesteel_backend::fetch::{Heard, Offered, Part, Serving};
use firesteel_backend::mutant::Planted;
use firesteel_closure::to_bytes;
use firesteel_conf::entries;
use firesteel_rpc::{
    Caller, Context, Endpoint, EndpointRef, HandlerError, OpenError, Peer, RpcAddress, RpcEnv,
    StreamBody, StreamSource,
};
use firesteel_shuffle::{MapOutput, ReadError, Scratch, Slice};
use firesteel_storage::{BlockId, Evict, HeldBytes, MemoryStore, Watch};
use firesteel_task::TaskBody;
use firesteel_types::{
    BlockLocation, ExecutorId, MapAttempt, RddBlock, RddId, ShuffleId, TaskFailure, TaskId,
};

use super::code::CodeCache;
use super::files::AddedFiles;
use super::flow::Reader;
use super::heartbeat::RunningTasks;
use super::protocol::{
    BLOCK_MASTER, MapOutputLocations, StreamId, ToBlockMaster, ToBlocks, append_part,
    append_reference,
};
use super::settings::{Settings, StartError};
use super::transfer::Retries;
use crate::Forgotten;
use crate::survey::Survey;

/// So many shuffles are remembered as removed, for tasks on their way to an end that still bring outputs.
const REMOVED_LIMIT: usize = 1 << 16;

/// What the tasks of this process share.
pub(super) struct BlockManager {
    pub(super) executor: ExecutorId,
    pub(super) blocks: Arc<MemoryStore>,
    pub(super) scratch: Scratch,
    pub(super) code: CodeCache<dyn TaskBody>,
    pub(super) env: RpcEnv,
    /// Where it serves its blocks.
    pub(super) address: RpcAddress,
    pub(super) driver: RpcAddress,
    pub(super) block_master: EndpointRef<ToBlockMaster>,
    /// How many bytes of other executors' outputs a task may hold.
    pub(super) max_in_flight: u64,
    pub(super) retries: Retries,
    /// Where map outputs lie, as last heard.
    pub(super) locations: Mutex<Heard<Arc<MapOutputLocations>>>,
    /// One task at a time asks where map outputs lie.
    pub(super) asking: Mutex<()>,
    removed: Mutex<BTreeSet<ShuffleId>>,
    survey: Survey,
    results: Mutex<BTreeMap<TaskId, (Bytes, HeldBytes)>>,
    pub(super) telling: Mutex<()>,
    pub(super) running: RunningTasks,
    /// Partitions that are being copied to others.
    pub(super) copying: Mutex<BTreeSet<BlockId>>,
    /// Partitions that the driver wants replicated, and whether somebody is at it.
    pub(super) wanted_replicas: Mutex<(BTreeSet<RddBlock>, bool)>,
    pub(super) files: AddedFiles,
}

/// Whatever panicked under a lock, what it protects is whole: each change is one step.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl BlockManager {
    /// One whose blocks others can read at the port of `env`.
    pub(super) fn new(
        settings: &Settings,
        env: RpcEnv,
        address: RpcAddress,
    ) -> Result<Arc<Self>, StartError> {
        let scratch = settings.scratch()?;
        let blocks = Arc::new(MemoryStore::new(scratch.memory().clone()));
        let evictor: Arc<dyn Evict> = blocks.clone();
        scratch.memory().set_evictor(Arc::downgrade(&evictor));
        let manager = Arc::new(BlockManager {
            executor: settings.executor,
            blocks,
            code: CodeCache::new(scratch.memory().clone()),
            scratch,
            block_master: env.endpoint_ref(&settings.driver.endpoint(BLOCK_MASTER))?,
            env,
            address,
            driver: settings.driver.clone(),
            max_in_flight: settings.bytes(&entries::REDUCER_MAX_SIZE_IN_FLIGHT)?,
            retries: settings.retries()?,
            locations: Mutex::new(Heard::new(Planted::default())),
            asking: Mutex::default(),
            removed: Mutex::default(),
            survey: Survey::default(),
            results: Mutex::default(),
            telling: Mutex::default(),
            running: RunningTasks::default(),
            copying: Mutex::default(),
            wanted_replicas: Mutex::default(),
            files: AddedFiles::default(),
        });
        manager.blocks.set_watch(Box::new(BlockWatch(Arc::downgrade(&manager))));
        Ok(manager)
    }

    /// This executor as readers of its blocks are told of it.
    pub(super) fn location(&self) -> BlockLocation {
        self.executor.into()
    }

    /// Keeps a map output, unless nobody can read it any more.
    pub(super) fn put_map_output(
        &self,
        shuffle: ShuffleId,
        map: u32,
        task: TaskId,
        output: MapOutput,
    ) {
        let removed = lock(&self.removed);
        if !removed.contains(&shuffle) {
            self.blocks.put(BlockId::MapOutput(shuffle, map, task), Arc::new(output));
        }
    }

    /// Keeps a result until the driver has fetched it.
    pub(super) fn keep_result(&self, task: TaskId, result: Vec<u8>) {
        let bytes = result.len() as u64;
        let held = HeldBytes::count(self.scratch.memory(), bytes, "a result that waits");
        lock(&self.results).insert(task, (result.into(), held));
    }

    /// One reader's part of a map output of this executor.
    pub(super) fn slice(
        &self,
        shuffle: ShuffleId,
        output: MapAttempt,
        reduce: u32,
    ) -> Option<Slice> {
        let block = BlockId::MapOutput(shuffle, output.map_partition, output.task);
        self.blocks.get::<MapOutput>(block)?.slice(reduce)
    }

    /// The outputs of a shuffle that this executor can serve.
    pub(super) fn readable(&self, shuffle: ShuffleId) -> Vec<MapAttempt> {
        self.survey.readable(&self.blocks, shuffle)
    }

    /// An output of this executor cannot be read by a task of its own.
    pub(super) fn unreadable(
        &self,
        reader: Reader,
        map: u32,
        located: &MapOutputLocations,
        message: String,
    ) -> TaskFailure {
        let readable = self.readable(reader.shuffle);
        let broken = located.located().broken(self.location(), map, &readable);
        reader.failed(map, self.location(), broken, message)
    }

    pub(super) fn forget(&self, forgotten: Forgotten) {
        match forgotten {
            Forgotten::Outdated(rdd, epoch) => drop(self.blocks.take_outdated(rdd, epoch)),
            Forgotten::Broadcast(id) => self.blocks.remove_broadcast(id),
            Forgotten::BroadcastCopies(id) => {
                self.blocks.drop_broadcast(id);
                // Code that was decoded holds the values of its broadcasts.
                self.code.clear();
            }
            Forgotten::Code(code) => self.code.remove(code),
            Forgotten::Result(task) => drop(lock(&self.results).remove(&task)),
            Forgotten::Shuffle(shuffle) => self.forget_shuffle(shuffle),
            Forgotten::MapOutput(shuffle, MapAttempt { map_partition, task }) => {
                self.blocks.remove(BlockId::MapOutput(shuffle, map_partition, task));
            }
            Forgotten::Everything => self.blocks.clear(),
        }
    }

    fn forget_shuffle(&self, shuffle: ShuffleId) {
        let mut removed = lock(&self.removed);
        removed.insert(shuffle);
        if removed.len() > REMOVED_LIMIT {
            removed.pop_first();
        }
        self.blocks.remove_shuffle(shuffle);
        lock(&self.locations).forget(shuffle);
    }

    fn open_slice(
        &self,
        shuffle: ShuffleId,
        output: MapAttempt,
        reduce: u32,
    ) -> Result<StreamBody, OpenError> {
        body(&self.slice(shuffle, output, reduce).ok_or(OpenError::Missing)?)
    }

    fn open_survey(&self, shuffle: ShuffleId) -> Result<StreamBody, OpenError> {
        let encoded = to_bytes(&self.readable(shuffle));
        let encoded = encoded.map_err(|error| OpenError::Failed(io::Error::other(error)))?;
        Ok(StreamBody::Bytes(encoded.into()))
    }

    fn open_cached(&self, rdd: RddId, partition: u32, epoch: u64) -> Result<StreamBody, OpenError> {
        let packed = self.blocks.get_packed(BlockId::Rdd(rdd, partition), epoch);
        let packed = packed.ok_or(OpenError::Missing)?;
        let packed = packed.map_err(|reason| OpenError::Failed(io::Error::other(reason)))?;
        body(packed.downcast_ref::<Slice>().ok_or(OpenError::Missing)?)
    }

    /// As many of the parts asked for as an answer has.
    fn open_slices(
        &self,
        shuffle: ShuffleId,
        reduce: u32,
        limit: u64,
        outputs: &[MapAttempt],
    ) -> Result<StreamBody, OpenError> {
        let serving = Serving::new(limit, Planted::default());
        let mut all = Vec::new();
        for output in outputs {
            let (map, before) = (output.map_partition, all.len());
            let Some(slice) = self.slice(shuffle, *output, reduce) else {
                match serving.part(before as u64, None) {
                    Part::Nothing => return Err(OpenError::Missing),
                    _ => break,
                }
            };
            let offered = Offered { bytes: slice.bytes(), is_on_disk: slice.is_on_disk() };
            match serving.part(before as u64, Some(offered)) {
                Part::Length => append_reference(map, offered.bytes, &mut all),
                Part::Blocks => {
                    let appended = append_part(map, &mut all, |out| slice.write_blocks(out));
                    let Err(error) = appended else { continue };
                    all.truncate(before);
                    match serving.part(before as u64, None) {
                        Part::Nothing => return Err(unreadable(error)),
                        _ => break,
                    }
                }
                Part::End | Part::Nothing => break,
            }
        }
        if all.is_empty() { Err(OpenError::Missing) } else { Ok(StreamBody::Bytes(all.into())) }
    }
}

/// From its file, or as blocks.
fn body(slice: &Slice) -> Result<StreamBody, OpenError> {
    match slice.file_range() {
        Some(range) => {
            let (file, offset, length) = range?;
            Ok(StreamBody::File { file, offset, length })
        }
        None => Ok(StreamBody::Parts(slice.blocks().map_err(unreadable)?)),
    }
}

fn unreadable(error: ReadError) -> OpenError {
    OpenError::Failed(io::Error::other(error.to_string()))
}

impl StreamSource for BlockManager {
    fn open(&self, id: &str, _: &Peer) -> Result<StreamBody, OpenError> {
        match StreamId::parse(id).ok_or(OpenError::Missing)? {
            StreamId::Slice { shuffle, reduce, output } => self.open_slice(shuffle, output, reduce),
            StreamId::Survey(shuffle) => self.open_survey(shuffle),
            StreamId::Slices { shuffle, reduce, limit, outputs } => {
                self.open_slices(shuffle, reduce, limit, &outputs)
            }
            StreamId::Cached { rdd, partition, epoch } => self.open_cached(rdd, partition, epoch),
            StreamId::Result(task) => {
                let result = lock(&self.results).get(&task).map(|(result, _)| result.clone());
                result.map(StreamBody::Bytes).ok_or(OpenError::Missing)
            }
            StreamId::Piece { broadcast, piece } => {
                let piece = self.blocks.get::<Bytes>(BlockId::BroadcastPiece(broadcast, piece));
                piece.map(|bytes| StreamBody::Bytes((*bytes).clone())).ok_or(OpenError::Missing)
            }
            StreamId::Code(_) | StreamId::Items { .. } => Err(OpenError::Missing),
        }
    }
}

/// Tells the driver of cached partitions.
struct BlockWatch(Weak<BlockManager>);

impl Watch for BlockWatch {
    /// Looks and tells under one lock: of two changes, the one told last is how it ended.
    fn block_changed(&self, id: BlockId) {
        let (Some(manager), BlockId::Rdd(rdd, partition)) = (self.0.upgrade(), id) else { return };
        let _telling = lock(&manager.telling);
        let (location, block) = (manager.location(), RddBlock { rdd, partition });
        let status = manager.blocks.status(id);
        let updated = ToBlockMaster::BlockUpdated { location, block, status };
        if let Err(error) = manager.block_master.try_send(updated) {
            tracing::warn!(%id, %error, "the driver was not told of a cached partition");
        }
    }
}

/// Hears what is to become of blocks.
pub(super) struct Blocks(pub(super) Arc<BlockManager>);

impl Endpoint for Blocks {
    type Message = ToBlocks;

    async fn receive(
        &mut self,
        message: ToBlocks,
        _: Caller<()>,
        context: &Context<ToBlocks>,
    ) -> Result<(), HandlerError> {
        match message {
            ToBlocks::Forget(forgotten) => self.0.forget(forgotten),
            ToBlocks::Replicate(blocks) => {
                if self.0.want_replicas(blocks) {
                    let manager = self.0.clone();
                    context.env().runtime().spawn(async move { manager.make_replicas().await });
                }
            }
        }
        Ok(())
    }
}
