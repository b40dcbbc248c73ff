//! What this process offers to tasks in its threads: blocks, map outputs, broadcasts.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use firesteel_closure::{Data, WireError, to_bytes};
use firesteel_shuffle::{MapOutput, Scratch, Slice};
use firesteel_storage::{BlockId, Evict, MemoryStore, Removed};
use firesteel_task::Environment;
use firesteel_types::{
    BlockLocation, BroadcastId, MapAttempt, MapOutputLocation, RddId, ShuffleId, TaskFailure,
    TaskId,
};

use crate::survey::Survey;
use crate::{Forgotten, ToChild, write_frame};

type EncodeValue = Arc<dyn Fn() -> Result<Vec<u8>, WireError> + Send + Sync>;

/// A broadcast that has handles.
#[derive(Clone)]
enum Offer {
    Value(EncodeValue),
    /// For this reason nobody can have it any more.
    Destroyed(Arc<str>),
}

/// Everything in this process's memory.
pub struct LocalEnvironment {
    blocks: Arc<MemoryStore>,
    scratch: Scratch,
    broadcasts: Mutex<BTreeMap<BroadcastId, Offer>>,
    files: OnceLock<PathBuf>,
    /// The shuffles that somebody can read: which attempt's output counts, by map partition.
    shuffles: Mutex<BTreeMap<ShuffleId, Vec<Option<TaskId>>>>,
    survey: Survey,
    /// Of the child processes that live.
    inboxes: Mutex<Vec<Weak<Inbox>>>,
}

/// What a child process is to be told before its next task.
pub struct Inbox {
    waiting: Mutex<Vec<Forgotten>>,
    /// The way to the child; a thread that writes a message holds the lock meanwhile.
    stream: Mutex<UnixStream>,
}

/// A child that is told this much drops everything instead: it is all a cache.
const INBOX_LIMIT: usize = 10_000;

impl Inbox {
    fn push(&self, forgotten: Forgotten) {
        let mut waiting = self.waiting.lock().expect(UNBROKEN);
        if waiting.len() >= INBOX_LIMIT {
            *waiting = vec![Forgotten::Everything];
        }
        waiting.push(forgotten);
    }

    /// Tells the child at once, if nobody else is telling it something: it may get no more tasks. A child that
    /// is lost is noticed by its next task.
    fn tell(&self, forgotten: Forgotten) {
        if let Ok(mut stream) = self.stream.try_lock() {
            let _ = write_frame(&mut *stream, &ToChild::Forget(vec![forgotten]));
        }
    }

    /// Tells the child something, after what it has to forget.
    pub fn send(&self, message: &ToChild) -> io::Result<()> {
        let forgotten = std::mem::take(&mut *self.waiting.lock().expect(UNBROKEN));
        let mut stream = self.stream.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if !forgotten.is_empty() {
            write_frame(&mut *stream, &ToChild::Forget(forgotten))?;
        }
        write_frame(&mut *stream, message)
    }
}

const UNBROKEN: &str = "nothing panics under this lock";

impl LocalEnvironment {
    /// An empty one, with this memory and these directories.
    pub fn new(scratch: Scratch) -> Self {
        let blocks = Arc::new(MemoryStore::new(scratch.memory().clone()));
        let evictor: Arc<dyn Evict> = blocks.clone();
        scratch.memory().set_evictor(Arc::downgrade(&evictor));
        LocalEnvironment {
            blocks,
            scratch,
            broadcasts: Mutex::default(),
            files: OnceLock::new(),
            shuffles: Mutex::default(),
            survey: Survey::default(),
            inboxes: Mutex::default(),
        }
    }

    /// Says where the files of `spark.files` are; the first word counts.
    pub fn set_files_root(&self, root: PathBuf) {
        let _ = self.files.set(root);
    }

    /// Tells a child process from now on what nobody needs any more.
    pub fn new_inbox(&self, stream: UnixStream) -> Arc<Inbox> {
        let inbox = Arc::new(Inbox { waiting: Mutex::default(), stream: Mutex::new(stream) });
        let mut inboxes = self.inboxes.lock().expect(UNBROKEN);
        inboxes.retain(|inbox| inbox.strong_count() > 0);
        inboxes.push(Arc::downgrade(&inbox));
        inbox
    }

    fn tell_children(&self, forgotten: Forgotten) {
        let inboxes: Vec<_> = self.inboxes.lock().expect(UNBROKEN).clone();
        for inbox in inboxes.iter().filter_map(Weak::upgrade) {
            inbox.push(forgotten);
            // A task may still bring partitions of an RDD that is gone; broadcasts it cannot bring back.
            if let Forgotten::Broadcast(_) | Forgotten::BroadcastCopies(_) = forgotten {
                inbox.tell(forgotten);
            }
        }
    }

    /// Offers a value to the tasks of this process as it is, and to others encoded.
    pub fn put_broadcast<T: Data>(&self, id: BroadcastId, value: Arc<T>) {
        self.blocks.put(BlockId::Broadcast(id), value.clone());
        let encode: EncodeValue = Arc::new(move || to_bytes(&*value));
        self.broadcasts.lock().expect(UNBROKEN).insert(id, Offer::Value(encode));
    }

    /// Has child processes drop their copies of a value.
    pub fn unpersist_broadcast(&self, id: BroadcastId) {
        self.tell_children(Forgotten::BroadcastCopies(id));
    }

    /// Takes the value back, for this reason.
    pub fn destroy_broadcast(&self, id: BroadcastId, reason: &str) {
        self.blocks.remove_broadcast(id);
        let destroyed = Offer::Destroyed(reason.into());
        let replaced = self.broadcasts.lock().expect(UNBROKEN).insert(id, destroyed);
        drop(replaced);
        self.tell_children(Forgotten::Broadcast(id));
    }

    /// Takes the offer back.
    pub fn remove_broadcast(&self, id: BroadcastId) {
        self.blocks.remove_broadcast(id);
        let removed = self.broadcasts.lock().expect(UNBROKEN).remove(&id);
        drop(removed);
        self.tell_children(Forgotten::Broadcast(id));
    }

    /// Takes all cached partitions of an RDD out that were computed before an epoch, also those of child processes.
    pub fn take_outdated(&self, rdd: RddId, epoch: u64) -> Removed {
        self.tell_children(Forgotten::Outdated(rdd, epoch));
        self.blocks.take_outdated(rdd, epoch)
    }

    /// Keeps map outputs of this shuffle from now on.
    pub fn add_shuffle(&self, shuffle: ShuffleId) {
        self.shuffles().insert(shuffle, Vec::new());
    }

    /// Readers find these outputs from now on.
    pub fn publish(&self, shuffle: ShuffleId, locations: &[Option<MapOutputLocation>]) {
        if let Some(known) = self.shuffles().get_mut(&shuffle) {
            *known = locations.iter().map(|at| at.map(|at| at.task)).collect();
        }
    }

    /// Drops map outputs that nobody will read.
    pub fn drop_map_output(&self, shuffle: ShuffleId, output: MapAttempt) {
        self.blocks.remove(BlockId::MapOutput(shuffle, output.map_partition, output.task));
    }

    /// The attempt whose output of a map partition counts.
    fn registered(&self, shuffle: ShuffleId, map: u32) -> Option<TaskId> {
        self.shuffles().get(&shuffle)?.get(map as usize).copied().flatten()
    }

    /// Drops the map outputs of a shuffle, and those that tasks on their way to an end still bring.
    pub fn remove_shuffle(&self, shuffle: ShuffleId) {
        let mut shuffles = self.shuffles();
        shuffles.remove(&shuffle);
        self.blocks.remove_shuffle(shuffle);
    }

    fn shuffles(&self) -> MutexGuard<'_, BTreeMap<ShuffleId, Vec<Option<TaskId>>>> {
        self.shuffles.lock().expect(UNBROKEN)
    }
}

impl Environment for LocalEnvironment {
    fn blocks(&self) -> &MemoryStore {
        &self.blocks
    }

    fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    fn put_map_output(
        &self,
        shuffle: ShuffleId,
        map: u32,
        task: TaskId,
        output: MapOutput,
    ) -> Result<(), TaskFailure> {
        // Of a child process it comes in memory, whatever its size.
        let output = output.stored(&self.scratch);
        let output = output.map_err(|error| TaskFailure::Error { message: error.to_string() })?;
        let shuffles = self.shuffles();
        if shuffles.contains_key(&shuffle) {
            self.blocks.put(BlockId::MapOutput(shuffle, map, task), Arc::new(output));
        }
        Ok(())
    }

    fn fetch_map_output(
        &self,
        shuffle: ShuffleId,
        map: u32,
        reduce: u32,
    ) -> Result<Slice, TaskFailure> {
        let registered = self.registered(shuffle, map);
        let block = registered.map(|task| BlockId::MapOutput(shuffle, map, task));
        let output = block.and_then(|block| self.blocks.get::<MapOutput>(block));
        let slice = output.and_then(|output| output.slice(reduce));
        let gone = || self.unreadable(shuffle, map, reduce, "the block is not there".to_owned());
        slice.ok_or_else(gone)
    }

    fn unreadable(
        &self,
        shuffle: ShuffleId,
        map: u32,
        reduce: u32,
        message: String,
    ) -> TaskFailure {
        let readable = self.survey.readable(&self.blocks, shuffle);
        let registered = self.shuffles().get(&shuffle).cloned().unwrap_or_default();
        let known = (0u32..).zip(registered);
        let known = known
            .filter_map(|(map_partition, task)| Some(MapAttempt { map_partition, task: task? }));
        let broken =
            |output: &MapAttempt| output.map_partition == map || !readable.contains(output);
        TaskFailure::FetchFailed {
            shuffle,
            map_partition: map,
            reduce_partition: reduce,
            location: BlockLocation::DRIVER,
            broken: known.filter(broken).collect(),
            message,
        }
    }

    fn files_root(&self) -> Option<PathBuf> {
        self.files.get().cloned()
    }

    fn fetch_broadcast(&self, id: BroadcastId) -> Result<Vec<u8>, TaskFailure> {
        let offer = self.broadcasts.lock().expect(UNBROKEN).get(&id).cloned();
        let encoded = match offer {
            Some(Offer::Value(encode)) => encode().map_err(|error| error.to_string()),
            Some(Offer::Destroyed(reason)) => Err(reason.to_string()),
            None => Err(format!(
                "broadcast {id} is gone, or of another context: keep its handle as long as jobs use it"
            )),
        };
        encoded.map_err(|message| TaskFailure::Fatal { message })
    }
}
