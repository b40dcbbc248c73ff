//! The task as its own code sees it: identity, kill switch, metrics, accumulator updates.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use firesteel_shuffle::{Buckets, Scratch};
use firesteel_storage::Reservation;
use firesteel_types::{AccumulatorId, MapStatus, StageRef, TaskFailure, TaskId, TaskMetrics};

use crate::{Environment, KillSwitch, OrFail, Update, fail};

/// An attempt of a task, and where it belongs.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct TaskIdentity {
    /// Unique id of this attempt.
    pub task: TaskId,
    /// The stage, and which attempt of it.
    pub stage: StageRef,
    /// The partition that it computes, from 0.
    pub partition: u32,
    /// Attempt at this partition, from 0.
    pub attempt: u32,
    /// The epoch of map outputs in which it was launched: it must read none that were withdrawn before.
    pub epoch: u64,
}

/// The running task. Cheap to clone; belongs to the task's thread.
#[derive(Clone)]
pub struct TaskContext(Rc<Inner>);

struct Inner {
    identity: TaskIdentity,
    kill: Arc<KillSwitch>,
    environment: Arc<dyn Environment>,
    metrics: RefCell<TaskMetrics>,
    updates: RefCell<Vec<(AccumulatorId, Box<dyn Update>)>>,
    written: RefCell<Option<MapStatus>>,
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
            metrics: RefCell::default(),
            updates: RefCell::default(),
            written: RefCell::default(),
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

    /// The epoch of map outputs in which this task was launched.
    pub fn epoch(&self) -> u64 {
        self.0.identity.epoch
    }

    /// The partition this task computes.
    pub fn partition(&self) -> u32 {
        self.0.identity.partition
    }

    /// How often this partition was tried before, in this stage attempt.
    pub fn attempt(&self) -> u32 {
        self.0.identity.attempt
    }

    /// The stage that it belongs to, and which attempt of it.
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
    pub fn reserve(&self) -> Reservation {
        self.scratch().reserve(self.task())
    }

    /// Buckets to sort records into, within this task's memory.
    pub fn buckets(&self, partitions: u32) -> Buckets {
        Buckets::new(partitions, self.scratch(), self.task())
    }

    /// Ends the task here if it was asked to end. Sources call it every so many records; long
    /// computations of the user may call it too.
    #[inline]
    pub fn check_killed(&self) {
        if self.0.kill.is_thrown() {
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
        self.0.kill.is_thrown()
    }

    /// For a thread that helps the task and must end with it.
    pub fn kill_switch(&self) -> Arc<KillSwitch> {
        self.0.kill.clone()
    }

    /// Changes the task's metrics.
    pub fn count(&self, change: impl FnOnce(&mut TaskMetrics)) {
        let mut metrics = self.0.metrics.borrow_mut();
        change(&mut metrics);
        self.0.environment.publish(&metrics);
    }

    pub(crate) fn note_written(&self, status: MapStatus) {
        self.0.written.replace(Some(status));
    }

    /// Takes what it told of the map output it wrote, at the task's end.
    pub fn take_written(&self) -> Option<MapStatus> {
        self.0.written.take()
    }

    /// Takes the metrics at the task's end.
    pub fn take_metrics(&self) -> Box<TaskMetrics> {
        Box::new(self.0.metrics.take())
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
    pub fn interruptible<I: Iterator + 'static>(
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
    pub fn check_updates(&self) {
        self.0.updates.borrow().iter().for_each(|(_, update)| update.check().or_fail());
    }

    /// Takes the accumulator updates at the task's end.
    pub fn take_updates(&self) -> Vec<(AccumulatorId, Box<dyn Update>)> {
        self.0.updates.take()
    }
}

/// Items between two looks at the kill switch, where items are quick to come by.
const CHECK_EVERY: u32 = 256;
