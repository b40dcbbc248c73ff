//! What a task sees of the cluster: map outputs and broadcasts, from here or from elsewhere.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use firesteel_rpc::StreamError;
use firesteel_shuffle::{MapOutput, Scratch, Slice};
use firesteel_storage::{BlockId, MemoryStore};
use firesteel_task::{Environment, KillSwitch, MapOutputs, TaskIdentity};
use firesteel_types::{BroadcastId, ExecutorId, ShuffleId, TaskFailure, TaskId, TaskMetrics};

use super::block_manager::{BlockManager, lock};
use super::flow::{Outputs, Reader};
use super::protocol::{
    BlockMasterReply, MapOutputLocations, StreamId, TaskOrder, ToBlockMaster, read_items,
};

/// How long a task waits for its turn to read of the driver.
const TURN: Duration = Duration::from_secs(120);

/// What one task sees.
pub(super) struct TaskEnvironment {
    manager: Arc<BlockManager>,
    /// The number of its stage's code, as [`StreamId::Code`] has it.
    code: u64,
    task: TaskId,
    /// Where map outputs lie must be known at least as of this.
    epoch: u64,
    kill: Arc<KillSwitch>,
    /// What it cost so far.
    metrics: Arc<Mutex<TaskMetrics>>,
}

impl TaskEnvironment {
    pub(super) fn new(
        manager: Arc<BlockManager>,
        order: &TaskOrder,
        kill: Arc<KillSwitch>,
        metrics: Arc<Mutex<TaskMetrics>>,
    ) -> Self {
        let TaskIdentity { task, epoch, .. } = order.identity;
        TaskEnvironment { manager, code: order.code, task, epoch, kill, metrics }
    }

    fn outputs(&self, reader: Reader, maps: Range<u32>) -> MapOutputs {
        let (manager, kill) = (self.manager.clone(), self.kill.clone());
        match manager.locate(reader.shuffle, self.epoch) {
            Ok(located) => {
                Box::new(Outputs::new(manager, (self.task, kill), reader, maps, located))
            }
            Err(failure) => Box::new(std::iter::once(Err(failure))),
        }
    }

    /// Reads something of the driver's.
    pub(super) fn read_from_driver(&self, id: &StreamId) -> Result<Vec<u8>, StreamError> {
        let (env, id) = (&self.manager.env, id.to_string());
        env.runtime().block_on(env.streams().read(&self.manager.driver, &id, u64::MAX))
    }
}

impl BlockManager {
    /// Where the outputs of a shuffle lie, asked of the driver once per change.
    fn locate(
        &self,
        shuffle: ShuffleId,
        epoch: u64,
    ) -> Result<Arc<MapOutputLocations>, TaskFailure> {
        let known = || lock(&self.locations).known(shuffle, epoch);
        if let Some(known) = known() {
            return Ok(known);
        }
        let _asking = lock(&self.asking);
        if let Some(known) = known() {
            return Ok(known);
        }
        let asked = self.ask_driver(ToBlockMaster::LocateMapOutputs(shuffle));
        match self.env.runtime().block_on(asked) {
            Ok(BlockMasterReply::MapOutputs(Some(found))) => {
                let found = Arc::new(found);
                lock(&self.locations).hear(shuffle, found.epoch, found.clone());
                Ok(found)
            }
            Ok(_) => Err(TaskFailure::Error {
                message: format!("the driver knows nothing of shuffle {shuffle}"),
            }),
            Err(error) => Err(TaskFailure::Error { message: error.to_string() }),
        }
    }
}

impl Environment for TaskEnvironment {
    fn executor(&self) -> ExecutorId {
        self.manager.executor
    }

    fn blocks(&self) -> &MemoryStore {
        &self.manager.blocks
    }

    fn scratch(&self) -> &Scratch {
        &self.manager.scratch
    }

    fn put_map_output(
        &self,
        shuffle: ShuffleId,
        map: u32,
        task: TaskId,
        output: MapOutput,
    ) -> Result<(), TaskFailure> {
        self.manager.put_map_output(shuffle, map, task, output);
        Ok(())
    }

    fn unreadable(
        &self,
        shuffle: ShuffleId,
        map: u32,
        reduce: u32,
        message: String,
    ) -> TaskFailure {
        match self.manager.locate(shuffle, self.epoch) {
            Ok(located) => {
                self.manager.unreadable(Reader { shuffle, reduce }, map, &located, message)
            }
            Err(failure) => failure,
        }
    }

    fn fetch_map_output(
        &self,
        shuffle: ShuffleId,
        map: u32,
        reduce: u32,
    ) -> Result<Slice, TaskFailure> {
        let mut outputs = self.outputs(Reader { shuffle, reduce }, map..map + 1);
        outputs.next().expect("one for each map partition").map(|fetched| fetched.slice)
    }

    fn prefetch(&self, shuffle: ShuffleId, maps: u32, reduce: u32) -> Option<MapOutputs> {
        Some(self.outputs(Reader { shuffle, reduce }, 0..maps))
    }

    fn publish(&self, metrics: &TaskMetrics) {
        lock(&self.metrics).clone_from(metrics);
    }

    fn fetch_cached(&self, block: BlockId) -> Option<Slice> {
        let BlockId::Rdd(rdd, partition) = block else { return None };
        self.manager.env.runtime().block_on(self.manager.fetch_cached(rdd, partition))
    }

    fn replicate(&self, block: BlockId) {
        let BlockId::Rdd(rdd, partition) = block else { return };
        if let Some(status) = self.manager.blocks.status(block) {
            self.manager.env.runtime().block_on(self.manager.replicate(rdd, partition, status));
        }
    }

    fn fetch_items(&self, source: u32, partition: u32) -> Result<Vec<u8>, TaskFailure> {
        let id = StreamId::Items { code: self.code, source, partition };
        let (begun, mut pause) = (Instant::now(), Duration::from_millis(5));
        let answer = loop {
            match self.read_from_driver(&id) {
                Err(StreamError::Busy { .. }) if begun.elapsed() < TURN => {
                    if let Some(reason) = self.kill.thrown() {
                        return Err(TaskFailure::Killed { reason });
                    }
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(200));
                }
                answer => break answer,
            }
        };
        let answer = answer.map_err(|error| {
            let message = format!("partition {partition} of a parallelized collection: {error}");
            TaskFailure::Error { message }
        })?;
        read_items(answer)
    }

    fn fetch_broadcast(&self, id: BroadcastId) -> Result<Vec<u8>, TaskFailure> {
        self.manager.env.runtime().block_on(self.manager.fetch_broadcast(id))
    }
}
