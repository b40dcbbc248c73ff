//! One reader's map outputs on their way from other executors: while the reader works on some, the next
//! are under way, from several executors at once, as the plan says.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;

use firesteel_rdd::KillSwitch;
use firesteel_rpc::RpcAddress;
use firesteel_shuffle::Slice;
use firesteel_types::{ExecutorId, ShuffleId, TaskFailure};

use super::node::{Node, lock};
use super::plan::{Plan, Question};
use super::protocol::{MapOutputLocations, StreamId, read_parts};
use super::transfer::TransferError;

/// An answer may be longer than it should be by one output that is small, and its framing.
const SLACK: u64 = 4 << 20;
/// Between two looks at the kill switch.
const POLL: Duration = Duration::from_millis(50);

/// One reader of one shuffle.
#[derive(Clone, Copy)]
pub(super) struct Reader {
    pub(super) shuffle: ShuffleId,
    pub(super) reduce: u32,
}

impl Reader {
    fn failed(self, map: u32, executor: ExecutorId, message: impl ToString) -> TaskFailure {
        TaskFailure::FetchFailed {
            shuffle: self.shuffle,
            map_partition: map,
            reduce_partition: self.reduce,
            executor,
            message: message.to_string(),
        }
    }
}

/// The outputs of a range of map partitions, one after the other. Dropping it lets go of the rest.
pub(super) struct Outputs {
    reader: Reader,
    maps: Range<u32>,
    node: Arc<Node>,
    kill: Arc<KillSwitch>,
    located: Arc<MapOutputLocations>,
    flow: Arc<Flow>,
}

impl Outputs {
    pub(super) fn new(
        node: Arc<Node>,
        kill: Arc<KillSwitch>,
        reader: Reader,
        maps: Range<u32>,
        located: Arc<MapOutputLocations>,
    ) -> Self {
        let flow = Flow::new(&node, reader, maps.clone(), &located);
        Outputs { reader, maps, node, kill, located, flow: Arc::new(flow) }
    }

    fn fetch(&self, map: u32) -> Result<Slice, TaskFailure> {
        let Reader { shuffle, reduce } = self.reader;
        let failed = |executor, message: &str| Err(self.reader.failed(map, executor, message));
        let holder = self.located.locations.get(map as usize).copied().flatten();
        let Some(holder) = holder else {
            return failed(ExecutorId::DRIVER, "no executor is known to have it any more");
        };
        if holder == self.node.executor {
            let here = self.node.slice(shuffle, map, reduce);
            return here.map_or_else(|| failed(holder, "the block is not there"), Ok);
        }
        if !self.located.executors.iter().any(|(executor, _)| *executor == holder) {
            return failed(holder, "that executor is lost");
        }
        self.flow.wait_for(map, &self.kill)
    }
}

impl Iterator for Outputs {
    type Item = Result<Slice, TaskFailure>;

    fn next(&mut self) -> Option<Self::Item> {
        let map = self.maps.next()?;
        Some(self.fetch(map))
    }
}

impl Drop for Outputs {
    fn drop(&mut self) {
        let mut state = self.flow.state();
        state.ended = true;
        state.here.clear();
    }
}

struct Flow {
    node: Arc<Node>,
    reader: Reader,
    lanes: Vec<(ExecutorId, RpcAddress)>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    plan: Plan,
    here: BTreeMap<u32, Slice>,
    /// What the reader waits for.
    wanted: Option<u32>,
    failed: Option<TaskFailure>,
    /// Nobody reads any more.
    ended: bool,
}

impl Flow {
    fn new(
        node: &Arc<Node>,
        reader: Reader,
        maps: Range<u32>,
        located: &MapOutputLocations,
    ) -> Self {
        let elsewhere = located.executors.iter().filter(|(holder, _)| *holder != node.executor);
        let lanes: Vec<_> = elsewhere.cloned().collect();
        let mut waiting: BTreeMap<ExecutorId, BTreeSet<u32>> =
            lanes.iter().map(|(holder, _)| (*holder, BTreeSet::new())).collect();
        for map in maps {
            let holder = located.locations.get(map as usize).copied().flatten();
            if let Some(waiting) = holder.and_then(|holder| waiting.get_mut(&holder)) {
                waiting.insert(map);
            }
        }
        let of_lanes = lanes.iter().map(|(holder, _)| waiting.remove(holder).unwrap_or_default());
        let plan = Plan::new(of_lanes.collect::<Vec<_>>(), node.max_in_flight);
        let (here, wanted, failed, ended) = (BTreeMap::new(), None, None, false);
        let state = Mutex::new(State { plan, here, wanted, failed, ended });
        Flow { node: node.clone(), reader, lanes, state, changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn wait_for(self: &Arc<Self>, map: u32, kill: &KillSwitch) -> Result<Slice, TaskFailure> {
        let mut state = self.state();
        loop {
            if let Some(slice) = state.here.remove(&map) {
                state.wanted = None;
                state.plan.was_read(map);
                self.ask(&mut state);
                return Ok(slice);
            }
            if let Some(failure) = &state.failed {
                return Err(failure.clone());
            }
            if let Some(reason) = kill.thrown() {
                return Err(TaskFailure::Killed { reason });
            }
            state.wanted = Some(map);
            self.ask(&mut state);
            let waited = self.changed.wait_timeout(state, POLL);
            state = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }

    /// Asks for as much as may be asked for now.
    fn ask(self: &Arc<Self>, state: &mut State) {
        while let (None, Some(question)) = (&state.failed, state.plan.next(state.wanted)) {
            let flow = self.clone();
            self.node.env.runtime().spawn(async move { flow.bring(question).await });
        }
    }

    async fn bring(self: Arc<Self>, question: Question) {
        let brought = match question {
            Question::Several { lane, maps, limit } => self.several(lane, maps, limit).await,
            Question::Alone { lane, map, bytes, to_file } => {
                self.alone(lane, map, bytes, to_file).await
            }
        };
        let mut state = self.state();
        if let Err(failure) = brought {
            state.failed.get_or_insert(failure);
        }
        if !state.ended {
            self.ask(&mut state);
        }
        drop(state);
        self.changed.notify_all();
    }

    fn is_wanted(&self) -> bool {
        !self.state().ended
    }

    async fn several(&self, lane: usize, maps: Vec<u32>, limit: u64) -> Result<(), TaskFailure> {
        let (holder, address) = &self.lanes[lane];
        let Reader { shuffle, reduce } = self.reader;
        let first = maps.first().copied().unwrap_or_default();
        let failed = |error: &dyn std::fmt::Display| self.reader.failed(first, *holder, error);
        let id = StreamId::Slices { shuffle, reduce, limit, maps };
        let bound = limit.saturating_add(SLACK);
        let transfer = || self.node.receive(address, &id, bound);
        let answer = self.node.retrying(*holder, || self.is_wanted(), transfer).await;
        let answer = Bytes::from(answer.map_err(|error| failed(&error))?);
        let bytes = answer.len() as u64;
        let parts = read_parts(&answer).ok_or_else(|| failed(&"its answer cannot be read"))?;
        let (mut came, mut slices, mut alone) = (Vec::new(), Vec::new(), Vec::new());
        for (map, part) in parts {
            match part {
                Err(length) => alone.push((map, length)),
                Ok(blocks) => {
                    let slice = Slice::received(blocks);
                    let broken = |error| self.reader.failed(map, *holder, error);
                    slices.push((map, slice.map_err(broken)?));
                    came.push(map);
                }
            }
        }
        if came.is_empty() && alone.is_empty() {
            return Err(failed(&"its answer is empty"));
        }
        let mut state = self.state();
        state.plan.several_came(lane, bytes, &came, &alone);
        if !state.ended {
            state.here.extend(slices);
        }
        Ok(())
    }

    async fn alone(
        &self,
        lane: usize,
        map: u32,
        bytes: u64,
        to_file: bool,
    ) -> Result<(), TaskFailure> {
        let (holder, address) = &self.lanes[lane];
        let Reader { shuffle, reduce } = self.reader;
        let id = StreamId::Slice { shuffle, reduce, map };
        let limit = if to_file { 0 } else { bytes };
        let transfer = || self.node.receive_slice(address, &id, limit);
        let slice = self.node.retrying(*holder, || self.is_wanted(), transfer).await;
        let slice = slice.map_err(|error| match error {
            TransferError::Disk(_) => TaskFailure::Error { message: error.to_string() },
            other => self.reader.failed(map, *holder, other),
        })?;
        let mut state = self.state();
        state.plan.one_came(lane, map, bytes, to_file);
        if !state.ended {
            state.here.insert(map, slice);
        }
        Ok(())
    }
}
