//! The task as its own code sees it: identity, kill switch, metrics, what its executor offers.
//!
//! Failures inside a pipeline travel by unwinding with a typed payload ([`fail`]): iterators stay
//! iterators of plain items, and the loop they fuse into carries no error checks.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use firesteel_closure::WireError;
use firesteel_shuffle::{Buckets, MapOutput, ReadError, Scratch, Slice, SpillError};
use firesteel_storage::{BlockId, MemoryStore, Reservation};
use firesteel_types::{
    AccumulatorId, BroadcastId, ExecutorId, ShuffleId, StageRef, StorageLevel, TaskFailure, TaskId,
    TaskMetrics,
};

use crate::accumulator::Update;

/// One reader's parts of map outputs, in the order of map partitions; nothing follows a failure.
pub type MapOutputs = Box<dyn Iterator<Item = Result<Slice, TaskFailure>>>;

/// What an executor offers to the tasks in it.
pub trait Environment: Send + Sync {
    /// Which executor this is.
    fn executor(&self) -> ExecutorId {
        ExecutorId::DRIVER
    }
    /// Blocks of this process.
    fn blocks(&self) -> &MemoryStore;
    /// Memory by grant and temporary files.
    fn scratch(&self) -> &Scratch;
    /// Keeps what an attempt of a map task wrote.
    fn put_map_output(
        &self,
        shuffle: ShuffleId,
        map: u32,
        task: TaskId,
        output: MapOutput,
    ) -> Result<(), TaskFailure>;
    /// One reader's part of one map output; `FetchFailed` when it cannot be had.
    fn fetch_map_output(
        &self,
        shuffle: ShuffleId,
        map: u32,
        reduce: u32,
    ) -> Result<Slice, TaskFailure>;
    /// A map output of this executor was there but could not be read: the failure, with all the others of
    /// the shuffle that this executor cannot serve either.
    fn unreadable(
        &self,
        shuffle: ShuffleId,
        map: u32,
        reduce: u32,
        message: String,
    ) -> TaskFailure {
        TaskFailure::FetchFailed {
            shuffle,
            map_partition: map,
            reduce_partition: reduce,
            executor: self.executor(),
            broken: Vec::new(),
            message,
        }
    }
    /// Where the files of `spark.files` are, if not where the whole process has them.
    fn files_root(&self) -> Option<PathBuf> {
        None
    }
    /// One reader's parts of all map outputs of a shuffle, in order, where reading ahead pays; else they
    /// are to be fetched one by one.
    fn read_ahead(&self, _: ShuffleId, _maps: u32, _reduce: u32) -> Option<MapOutputs> {
        None
    }
    /// Hears what a task cost so far, whenever that changes.
    fn publish(&self, _: &TaskMetrics) {}
    /// A kept partition that is not in `blocks`, if another executor has it.
    fn fetch_kept(&self, _: BlockId) -> Option<Slice> {
        None
    }
    /// Copies a partition that was just kept here to other executors, as its level says.
    fn replicate(&self, _: BlockId, _: StorageLevel) {}
    /// The encoded value of a broadcast that is not in `blocks` yet.
    fn fetch_broadcast(&self, id: BroadcastId) -> Result<Vec<u8>, TaskFailure>;
}

/// Ends the task at its next step, from any thread.
#[derive(Debug, Default)]
pub struct KillSwitch {
    thrown: AtomicBool,
    reason: Mutex<Option<String>>,
}

impl KillSwitch {
    /// Asks the task to end. The first reason stays.
    pub fn throw(&self, reason: &str) {
        let mut kept = self.reason.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        kept.get_or_insert_with(|| reason.to_owned());
        self.thrown.store(true, Ordering::Release);
    }

    /// The reason, if the task was asked to end.
    pub fn thrown(&self) -> Option<String> {
        if !self.thrown.load(Ordering::Relaxed) {
            return None;
        }
        self.reason.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}

/// Which task this is.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct TaskIdentity {
    /// Unique id of this attempt.
    pub task: TaskId,
    /// Stage attempt.
    pub stage: StageRef,
    /// The partition computed.
    pub partition: u32,
    /// Attempt at this partition, from 0.
    pub attempt: u32,
}

/// The running task. Cheap to clone; belongs to the task's thread.
#[derive(Clone)]
pub struct TaskContext(Rc<Inner>);

struct Inner {
    identity: TaskIdentity,
    kill: Arc<KillSwitch>,
    environment: Arc<dyn Environment>,
    metrics: Cell<TaskMetrics>,
    updates: RefCell<Vec<(AccumulatorId, Box<dyn Update>)>>,
}

thread_local! {
    static CURRENT: RefCell<Option<TaskContext>> = const { RefCell::new(None) };
}

impl TaskContext {
    /// A context for one attempt.
    pub fn new(
        identity: TaskIdentity,
        kill: Arc<KillSwitch>,
        environment: Arc<dyn Environment>,
    ) -> Self {
        TaskContext(Rc::new(Inner {
            identity,
            kill,
            environment,
            metrics: Cell::default(),
            updates: RefCell::default(),
        }))
    }

    /// The task this thread runs; `None` outside of tasks.
    pub fn current() -> Option<TaskContext> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Runs `work` as this task: [`TaskContext::current`] finds it meanwhile.
    pub fn enter<R>(&self, work: impl FnOnce() -> R) -> R {
        struct Leave(Option<TaskContext>);
        impl Drop for Leave {
            fn drop(&mut self) {
                CURRENT.set(self.0.take());
            }
        }
        let _leave = Leave(CURRENT.replace(Some(self.clone())));
        work()
    }

    /// The partition this task computes.
    pub fn partition(&self) -> u32 {
        self.0.identity.partition
    }

    /// How often this partition was tried before, in this stage attempt.
    pub fn attempt(&self) -> u32 {
        self.0.identity.attempt
    }

    /// The stage attempt.
    pub fn stage(&self) -> StageRef {
        self.0.identity.stage
    }

    /// Unique id of this attempt.
    pub fn task(&self) -> TaskId {
        self.0.identity.task
    }

    /// What the executor offers.
    pub fn environment(&self) -> &Arc<dyn Environment> {
        &self.0.environment
    }

    /// Memory by grant and temporary files.
    pub fn scratch(&self) -> &Scratch {
        self.0.environment.scratch()
    }

    /// An account for memory that this task is going to hold.
    pub(crate) fn reserve(&self) -> Reservation {
        self.scratch().reserve(self.task())
    }

    /// Buckets to sort records into, within this task's memory.
    pub(crate) fn buckets(&self, partitions: u32) -> Buckets {
        Buckets::new(partitions, self.scratch(), self.task())
    }

    /// Ends the task here if it was asked to end. Sources call it every so many records; long
    /// computations of the user may call it too.
    #[inline]
    pub fn check_killed(&self) {
        if self.0.kill.thrown.load(Ordering::Relaxed) {
            self.end_killed();
        }
    }

    #[cold]
    fn end_killed(&self) -> ! {
        let reason = self.0.kill.thrown().unwrap_or_else(|| "no reason given".to_owned());
        fail(TaskFailure::Killed { reason })
    }

    /// Whether the task was asked to end.
    pub fn is_killed(&self) -> bool {
        self.0.kill.thrown.load(Ordering::Relaxed)
    }

    /// For a thread that helps the task and must end with it.
    pub(crate) fn kill_switch(&self) -> Arc<KillSwitch> {
        self.0.kill.clone()
    }

    /// Changes the task's metrics.
    pub fn count(&self, change: impl FnOnce(&mut TaskMetrics)) {
        let mut metrics = self.0.metrics.take();
        change(&mut metrics);
        self.0.environment.publish(&metrics);
        self.0.metrics.set(metrics);
    }

    /// Takes the metrics at the task's end.
    pub fn take_metrics(&self) -> TaskMetrics {
        self.0.metrics.take()
    }

    pub(crate) fn take_update(&self, accumulator: AccumulatorId) -> Option<Box<dyn Update>> {
        let mut updates = self.0.updates.borrow_mut();
        let position = updates.iter().position(|(id, _)| *id == accumulator)?;
        Some(updates.swap_remove(position).1)
    }

    pub(crate) fn put_update(&self, accumulator: AccumulatorId, update: Box<dyn Update>) {
        self.0.updates.borrow_mut().push((accumulator, update));
    }

    /// The same items, with a look at the kill switch every so often.
    pub(crate) fn interruptible<I: Iterator + 'static>(
        &self,
        items: I,
    ) -> impl Iterator<Item = I::Item> + use<I> + 'static {
        let (task, mut until_check) = (self.clone(), CHECK_EVERY);
        items.inspect(move |_| {
            until_check -= 1;
            if until_check == 0 {
                until_check = CHECK_EVERY;
                task.check_killed();
            }
        })
    }

    /// Fails if an update could not be sent: also where none is.
    pub(crate) fn check_updates(&self) {
        self.0.updates.borrow().iter().for_each(|(_, update)| update.check().or_fail());
    }

    /// Takes the accumulator updates at the task's end.
    pub fn take_updates(&self) -> Vec<(AccumulatorId, Box<dyn Update>)> {
        self.0.updates.take()
    }
}

/// Items between two looks at the kill switch, where items are quick to come by.
const CHECK_EVERY: u32 = 256;

/// Ends the running task with a typed failure.
#[cold]
pub fn fail(failure: TaskFailure) -> ! {
    std::panic::resume_unwind(Box::new(failure))
}

/// Ends the running task because something outside of it failed; the scheduler tries again.
#[cold]
pub fn fail_with(message: impl Into<String>) -> ! {
    fail(TaskFailure::Error { message: message.into() })
}

/// Ends the running task and its job: trying again cannot help.
#[cold]
pub fn fail_for_good(message: impl Into<String>) -> ! {
    fail(TaskFailure::Fatal { message: message.into() })
}

/// A value that does not encode or decode will not do so next time either.
pub(crate) trait OrFail<T> {
    fn or_fail(self) -> T;
}

impl<T> OrFail<T> for Result<T, WireError> {
    #[inline]
    fn or_fail(self) -> T {
        self.unwrap_or_else(|error| fail_for_good(error.to_string()))
    }
}

/// A record that cannot be encoded never can; a full disk may have room next time.
impl<T> OrFail<T> for Result<T, SpillError> {
    #[inline]
    fn or_fail(self) -> T {
        self.unwrap_or_else(|error| match error {
            SpillError::Wire(error) => fail_for_good(error.to_string()),
            other => fail_with(other.to_string()),
        })
    }
}

/// What a task put aside itself and cannot read back: try again from the start, unless the type is why.
impl<T> OrFail<T> for Result<T, ReadError> {
    #[inline]
    fn or_fail(self) -> T {
        self.unwrap_or_else(|error| match error {
            ReadError::Wire(error) => fail_for_good(error.to_string()),
            other => fail_with(other.to_string()),
        })
    }
}

impl<T> OrFail<T> for Result<T, TaskFailure> {
    #[inline]
    fn or_fail(self) -> T {
        self.unwrap_or_else(|failure| fail(failure))
    }
}
