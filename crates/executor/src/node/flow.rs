//! One reader's map outputs on their way from other executors: while the reader works on some, the next
//! are under way, from several executors at once, as the plan says.

use std::collections::BTreeMap;
use std::mem::take;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;

use firesteel_backend::fetch::{Located, Plan, Question, Source};
use firesteel_backend::mutant::Planted;
use firesteel_rpc::RpcAddress;
use firesteel_shuffle::Slice;
use firesteel_storage::Reservation;
use firesteel_task::{FetchedSlice, KillSwitch};
use firesteel_types::{BlockLocation, MapAttempt, ShuffleId, TaskFailure, TaskId};

use super::block_manager::{BlockManager, lock};
use super::protocol::{MapOutputLocations, StreamId, read_parts};
use super::transfer::TransferError;

/// An answer may be longer than it should be by one output that is small, and its framing.
const SLACK: u64 = 4 << 20;
/// A reader may hold so much of its task's share: 1 / 4.
const IN_FLIGHT_PART: u64 = 4;
/// Smaller changes of what it holds are not told to the books.
const ACCOUNTED_BYTES: u64 = 64 << 10;
/// Between two looks at the kill switch.
const POLL: Duration = Duration::from_millis(50);

/// One reader of one shuffle.
#[derive(Clone, Copy)]
pub(super) struct Reader {
    pub(super) shuffle: ShuffleId,
    pub(super) reduce: u32,
}

impl Reader {
    pub(super) fn failed(
        self,
        map: u32,
        location: BlockLocation,
        broken: Vec<MapAttempt>,
        message: impl ToString,
    ) -> TaskFailure {
        TaskFailure::FetchFailed {
            shuffle: self.shuffle,
            map_partition: map,
            reduce_partition: self.reduce,
            location,
            broken,
            message: message.to_string(),
        }
    }
}

impl MapOutputLocations {
    pub(super) fn located(&self) -> Located<'_> {
        Located(&self.locations)
    }
}

/// Why an output did not come from its holder.
struct FetchError {
    lane: usize,
    map: u32,
    message: String,
    /// Whether the holder answered: if not, nothing of what it holds can be had.
    answered: bool,
}

/// How a question ended that was not answered as hoped.
enum Failure {
    /// With an output that cannot be had.
    Fetch(FetchError),
    /// For another reason.
    Task(TaskFailure),
}

/// The outputs of a range of map partitions, one after the other. Dropping it lets go of the rest.
pub(super) struct Outputs {
    reader: Reader,
    maps: Range<u32>,
    manager: Arc<BlockManager>,
    kill: Arc<KillSwitch>,
    located: Arc<MapOutputLocations>,
    flow: Arc<Flow>,
    /// What is under way or was not read, on the task's books.
    held: Reservation,
    /// How much that may be.
    most: u64,
}

impl Outputs {
    pub(super) fn new(
        manager: Arc<BlockManager>,
        (task, kill): (TaskId, Arc<KillSwitch>),
        reader: Reader,
        maps: Range<u32>,
        located: Arc<MapOutputLocations>,
    ) -> Self {
        let held = manager.scratch.reserve(task);
        let share = manager.scratch.memory().share() / IN_FLIGHT_PART;
        let most = manager.max_in_flight.min(share).max(1);
        let flow = Arc::new(Flow::new(&manager, reader, maps.clone(), &located, most));
        Outputs { reader, maps, manager, kill, located, flow, held, most }
    }

    /// Counts what is held now. If that is refused, no more is asked for than was granted; what its reader waits for comes
    /// in any case.
    fn account(&mut self) {
        let holds = self.flow.state().plan.held();
        if holds.abs_diff(self.held.bytes()) < ACCOUNTED_BYTES && holds > 0 {
            return;
        }
        let granted = self.held.resize(holds);
        let most = if granted { self.most } else { self.held.bytes().max(1) };
        self.flow.state().plan.limit_to(most);
    }

    fn fetch(&self, map: u32) -> Result<Slice, TaskFailure> {
        let Reader { shuffle, reduce } = self.reader;
        let failed = |location, broken, message: &str| {
            Err(self.reader.failed(map, location, broken, message))
        };
        let serves = |holder| self.located.addresses.iter().any(|(known, _)| *known == holder);
        match self.located.located().source(map, self.manager.location(), serves) {
            Source::Nowhere => {
                let message = "no executor is known to have it any more";
                failed(BlockLocation::DRIVER, Vec::new(), message)
            }
            Source::Here(output) => {
                let here = self.manager.slice(shuffle, output, reduce);
                let message = || "the block is not there".to_owned();
                here.ok_or_else(|| {
                    self.manager.unreadable(self.reader, map, &self.located, message())
                })
            }
            Source::Lost { holder, broken } => failed(holder, broken, "that executor is lost"),
            Source::Elsewhere => self.flow.wait_for(map, &self.kill),
        }
    }
}

impl Iterator for Outputs {
    type Item = Result<FetchedSlice, TaskFailure>;

    fn next(&mut self) -> Option<Self::Item> {
        let map = self.maps.next()?;
        let holder = self.located.located().output(map).map(|(holder, _)| holder);
        let is_remote = holder != Some(self.manager.location());
        let fetched = self.fetch(map);
        self.account();
        let requests = take(&mut self.flow.state().requests);
        Some(fetched.map(|slice| FetchedSlice { slice, is_remote, requests }))
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
    manager: Arc<BlockManager>,
    reader: Reader,
    lanes: Vec<(BlockLocation, RpcAddress)>,
    located: Arc<MapOutputLocations>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    plan: Plan,
    here: BTreeMap<u32, Slice>,
    /// What requests took that were answered and not told of yet.
    requests: Duration,
    /// What the reader waits for.
    wanted: Option<u32>,
    failed: Option<TaskFailure>,
    /// Nobody reads any more.
    ended: bool,
}

impl Flow {
    fn new(
        manager: &Arc<BlockManager>,
        reader: Reader,
        maps: Range<u32>,
        located: &Arc<MapOutputLocations>,
        most: u64,
    ) -> Self {
        let elsewhere =
            located.addresses.iter().filter(|(holder, _)| *holder != manager.location());
        let lanes: Vec<_> = elsewhere.cloned().collect();
        let holders: Vec<BlockLocation> = lanes.iter().map(|(holder, _)| *holder).collect();
        let of_lanes = located.located().lanes(maps, &holders);
        let plan = Plan::new(of_lanes, most, Planted::default());
        let (here, requests, wanted) = (BTreeMap::new(), Duration::ZERO, None);
        let state = State { plan, here, requests, wanted, failed: None, ended: false };
        let state = Mutex::new(state);
        let located = located.clone();
        Flow { manager: manager.clone(), reader, lanes, located, state, changed: Condvar::new() }
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
            self.manager.env.runtime().spawn(async move { flow.bring(question).await });
        }
    }

    async fn bring(self: Arc<Self>, question: Question) {
        let asked = Instant::now();
        let first = question.first();
        let brought = match question {
            Question::Several { lane, maps, limit } => {
                self.several(lane, (first, maps), limit).await
            }
            Question::Alone { lane, map, bytes, to_file } => {
                self.alone(lane, map, bytes, to_file).await
            }
        };
        let failure = match brought {
            Ok(()) => None,
            Err(Failure::Task(failure)) => Some(failure),
            Err(Failure::Fetch(error)) => Some(self.explain(error).await),
        };
        let mut state = self.state();
        state.requests += asked.elapsed();
        if let Some(failure) = failure {
            state.failed.get_or_insert(failure);
        }
        if !state.ended {
            self.ask(&mut state);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Finds out what else the holder cannot serve: it is all told in one failure.
    async fn explain(&self, error: FetchError) -> TaskFailure {
        let FetchError { lane, map, message, answered } = error;
        let (holder, address) = &self.lanes[lane];
        let readable = match answered {
            true => self.manager.survey(address, self.reader.shuffle).await,
            false => Vec::new(),
        };
        let broken = self.located.located().broken(*holder, map, &readable);
        self.reader.failed(map, *holder, broken, message)
    }

    fn is_wanted(&self) -> bool {
        !self.state().ended
    }

    async fn several(
        &self,
        lane: usize,
        (first, maps): (u32, Vec<u32>),
        limit: u64,
    ) -> Result<(), Failure> {
        let (holder, address) = &self.lanes[lane];
        let Reader { shuffle, reduce } = self.reader;
        let failed = |map: u32, message: String| {
            Failure::Fetch(FetchError { lane, map, message, answered: true })
        };
        let outputs = maps.iter().filter_map(|map| Some(self.located.located().output(*map)?.1));
        let outputs = outputs.collect();
        let id = StreamId::Slices { shuffle, reduce, limit, outputs };
        let bound = limit.saturating_add(SLACK);
        let transfer = || self.manager.receive(address, &id, bound);
        let answer = self.manager.retrying(*holder, || self.is_wanted(), transfer).await;
        let answer = answer.map_err(|error| {
            let (message, answered) = (error.to_string(), error.was_answered());
            Failure::Fetch(FetchError { lane, map: first, message, answered })
        })?;
        let answer = Bytes::from(answer);
        let bytes = answer.len() as u64;
        let unread = || failed(first, "its answer cannot be read".to_owned());
        let parts = read_parts(&answer).ok_or_else(unread)?;
        let (mut came, mut slices, mut alone) = (Vec::new(), Vec::new(), Vec::new());
        for (map, part) in parts {
            match part {
                Err(length) => alone.push((map, length)),
                Ok(blocks) => {
                    let slice = Slice::received(blocks);
                    let slice = slice.map_err(|error| failed(map, error.to_string()))?;
                    slices.push((map, slice));
                    came.push(map);
                }
            }
        }
        if came.is_empty() && alone.is_empty() {
            return Err(failed(first, "its answer is empty".to_owned()));
        }
        let mut state = self.state();
        state.plan.several_came(lane, bytes, &came, &alone);
        if !state.ended {
            state.here.extend(slices);
        }
        Ok(())
    }

    async fn alone(&self, lane: usize, map: u32, bytes: u64, to_file: bool) -> Result<(), Failure> {
        let (holder, address) = &self.lanes[lane];
        let Reader { shuffle, reduce } = self.reader;
        let output = self.located.located().output(map);
        let (_, output) = output.expect("only what is located is asked for");
        let id = StreamId::Slice { shuffle, reduce, output };
        let limit = if to_file { 0 } else { bytes };
        let transfer = || self.manager.receive_slice(address, &id, limit);
        let slice = self.manager.retrying(*holder, || self.is_wanted(), transfer).await;
        let slice = slice.map_err(|error| match error {
            TransferError::Disk(_) => {
                Failure::Task(TaskFailure::Error { message: error.to_string() })
            }
            other => {
                let (message, answered) = (other.to_string(), other.was_answered());
                Failure::Fetch(FetchError { lane, map, message, answered })
            }
        })?;
        let mut state = self.state();
        state.plan.one_came(lane, map, bytes, to_file);
        if !state.ended {
            state.here.insert(map, slice);
        }
        Ok(())
    }
}
