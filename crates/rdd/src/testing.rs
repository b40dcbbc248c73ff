//! A task for tests, with memory of its own and files in a directory that goes with it.

use std::sync::Arc;

use firesteel_shuffle::{Codec, MapOutput, Scratch, Slice};
use firesteel_storage::{LocalDirs, MemoryManager, MemoryStore};
use firesteel_task::{Environment, KillSwitch, TaskContext, TaskIdentity};
use firesteel_types::{BroadcastId, ShuffleId, StageId, StageRef, TaskFailure, TaskId};

pub(crate) struct TestTask {
    pub(crate) task: TaskContext,
    _directory: tempfile::TempDir,
}

impl TestTask {
    /// Tasks share `budget` bytes of memory.
    pub(crate) fn new(budget: u64) -> Self {
        TestTask::sharing(Arc::new(MemoryManager::new(budget, 0.5)), TaskId(1))
    }

    /// One of several tasks.
    pub(crate) fn sharing(memory: Arc<MemoryManager>, task: TaskId) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let dirs = Arc::new(LocalDirs::new(vec![directory.path().to_owned()]));
        let scratch = Scratch::new(memory.clone(), dirs, Codec::Lz4);
        let environment = Arc::new(Alone { blocks: MemoryStore::new(memory), scratch });
        let stage = StageRef { stage: StageId(0), attempt: 0 };
        let identity = TaskIdentity { task, stage, partition: 0, attempt: 0, epoch: 0 };
        let task = TaskContext::new(identity, Arc::new(KillSwitch::default()), environment);
        TestTask { task, _directory: directory }
    }

    pub(crate) fn memory(&self) -> &Arc<MemoryManager> {
        self.task.scratch().memory()
    }
}

/// An executor that has nothing from others.
struct Alone {
    blocks: MemoryStore,
    scratch: Scratch,
}

fn nothing<T>() -> Result<T, TaskFailure> {
    Err(TaskFailure::Error { message: "there is nothing to fetch here".to_owned() })
}

impl Environment for Alone {
    fn blocks(&self) -> &MemoryStore {
        &self.blocks
    }

    fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    fn put_map_output(
        &self,
        _: ShuffleId,
        _: u32,
        _: TaskId,
        _: MapOutput,
    ) -> Result<(), TaskFailure> {
        nothing()
    }

    fn fetch_map_output(&self, _: ShuffleId, _: u32, _: u32) -> Result<Slice, TaskFailure> {
        nothing()
    }

    fn fetch_broadcast(&self, _: BroadcastId) -> Result<Vec<u8>, TaskFailure> {
        nothing()
    }
}
