//! Map outputs on their way to a task, as the core of the executors' fetches plans it: one question after the other to each
//! holder, and between two of them outputs rot or move, and holders pause, die and answer in part. In two runs of three a
//! task reads everything in one moment instead.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use firesteel_backend::fetch::{Located, Offered, Part, Plan, Question, Serving, Source, Tries};
use firesteel_types::{
    BlockLocation, MapAttempt, MapOutputLocation, ShuffleId, TaskFailure, TaskId, TaskInfo,
};

use crate::lineage::Computed;
use crate::reading::Missing;
use crate::world::{Body, Event, ProcId, World};

/// How often a holder is asked again that gives no answer.
const RETRIES: u32 = 3;
const RETRY_MS: u64 = 250;
/// What a reader may hold is between this and 16 times as much.
const LEAST_IN_FLIGHT: u64 = 1 << 20;
/// No reader's part of an output is longer.
const LONGEST: u64 = 320 << 10;
/// A name and a length in an answer.
const REFERENCE_BYTES: u64 = 16;

/// What a task reads of other tasks' outputs.
#[derive(Debug)]
pub(crate) struct Fetches {
    /// Shuffles that it reads after this one.
    left: VecDeque<(ShuffleId, u32)>,
    flow: Option<Flow>,
    values: BTreeMap<(ShuffleId, u32), Computed>,
    failure: Option<TaskFailure>,
    /// It has nothing else to do.
    is_waited_for: bool,
}

/// One reader of one shuffle.
#[derive(Debug)]
struct Flow {
    shuffle: ShuffleId,
    outputs: Arc<[Option<MapOutputLocation>]>,
    holders: Vec<BlockLocation>,
    plan: Plan,
    /// By lane, with how often it was put.
    asked: BTreeMap<usize, (Question, Tries, u32)>,
    /// The output that is read next.
    next: u32,
    /// Those that came and were not read.
    came: BTreeSet<u32>,
}

/// What becomes of a reader.
enum Step {
    Waits,
    Done,
    Fails(u32, BlockLocation, Vec<MapAttempt>),
}

/// What came with an answer.
#[derive(Default)]
struct Came {
    bytes: u64,
    values: Vec<(u32, Computed)>,
    alone: Vec<(u32, u64)>,
}

impl Fetches {
    /// What came of an output, at the moment at which its holder answered.
    pub(crate) fn value(&self, shuffle: ShuffleId, map: u32) -> Option<&Computed> {
        self.values.get(&(shuffle, map))
    }

    fn is_over(&self) -> bool {
        self.flow.is_none() && self.left.is_empty()
    }

    fn fail(&mut self, failure: TaskFailure) {
        (self.flow, self.failure) = (None, Some(failure));
        self.left.clear();
    }
}

impl World {
    /// A task starts, and asks for what it reads.
    pub(crate) fn begin_fetching(&mut self, proc: ProcId, task: TaskId) -> Result<(), String> {
        let Some((driver, info)) = self.info_of(proc, task) else { return Ok(()) };
        let left = match self.shuffles_to_read(proc, driver, &info) {
            Ok(left) => left,
            Err(Missing::Violation(broken)) => return Err(broken),
            // Its driver stands still: it reads everything at its end.
            Err(_) => return Ok(()),
        };
        if left.is_empty() {
            return Ok(());
        }
        self.counters.tasks_stepwise += 1;
        let fetches = Fetches {
            left,
            flow: None,
            values: BTreeMap::new(),
            failure: None,
            is_waited_for: false,
        };
        self.fetch_on(proc, &info, fetches)
    }

    fn info_of(&self, proc: ProcId, task: TaskId) -> Option<(ProcId, TaskInfo)> {
        let Some(Body::Executor(executor)) = &self.procs[proc].body else { return None };
        let Some(Body::Driver(node)) = &self.procs[executor.driver].body else { return None };
        Some((executor.driver, node.tasks.get(&task)?.0.clone()))
    }

    /// Reads on, and notes how far it came.
    fn fetch_on(
        &mut self,
        proc: ProcId,
        info: &TaskInfo,
        mut fetches: Fetches,
    ) -> Result<(), String> {
        while !fetches.is_over() {
            if fetches.flow.is_none() && !self.begin_flow(proc, info, &mut fetches)? {
                break;
            }
            match self.advance(proc, info.task, &mut fetches)? {
                Step::Waits => break,
                Step::Done => fetches.flow = None,
                Step::Fails(map, holder, broken) => {
                    let failure = fetches.failed(map, info.partition, holder, broken);
                    fetches.fail(failure);
                }
            }
        }
        if fetches.is_over() && fetches.is_waited_for {
            self.push(self.now, Event::TaskEnds { executor: proc, task: info.task });
        }
        if let Some(Body::Executor(executor)) = &mut self.procs[proc].body {
            executor.fetches.insert(info.task, fetches);
        }
        Ok(())
    }

    /// The next shuffle, from where its outputs lie. False: its driver stands still, and the rest is read at the task's end.
    fn begin_flow(
        &mut self,
        proc: ProcId,
        info: &TaskInfo,
        fetches: &mut Fetches,
    ) -> Result<bool, String> {
        let Some((shuffle, maps)) = fetches.left.pop_front() else { return Ok(false) };
        let outputs = match self.locate_for(proc, info, shuffle) {
            Ok(outputs) => outputs,
            Err(Missing::Violation(broken)) => return Err(broken),
            Err(_) => {
                fetches.left.clear();
                return Ok(false);
            }
        };
        let Some(here) = self.location_of(proc) else { return Ok(false) };
        let located = Located(&outputs);
        let all = (0..maps).filter_map(|map| located.output(map).map(|(holder, _)| holder));
        let mut holders: Vec<_> = all.collect::<BTreeSet<_>>().into_iter().collect();
        holders.retain(|holder| *holder != here && self.is_served(proc, *holder));
        let limit = LEAST_IN_FLIGHT << self.aside.u8(..5);
        let plan = Plan::new(located.lanes(0..maps, &holders), limit, self.settings.planted);
        let (asked, came) = (BTreeMap::new(), BTreeSet::new());
        fetches.flow = Some(Flow { shuffle, outputs, holders, plan, asked, next: 0, came });
        Ok(true)
    }

    /// Whether the driver could say where that executor serves its blocks.
    fn is_served(&self, reader: ProcId, holder: BlockLocation) -> bool {
        let Some(Body::Executor(executor)) = &self.procs[reader].body else { return false };
        self.holder(&executor.key, holder).is_some_and(|holder| self.can_be_reached(holder))
    }

    /// Reads what is there, and asks for what is not.
    fn advance(
        &mut self,
        proc: ProcId,
        task: TaskId,
        fetches: &mut Fetches,
    ) -> Result<Step, String> {
        let (Some(flow), Some(here)) = (&mut fetches.flow, self.location_of(proc)) else {
            return Ok(Step::Done);
        };
        while flow.next < flow.outputs.len() as u32 {
            let (located, map) = (Located(&flow.outputs), flow.next);
            match located.source(map, here, |holder| flow.holders.contains(&holder)) {
                Source::Nowhere => {
                    return Ok(Step::Fails(map, BlockLocation::DRIVER, Vec::new()));
                }
                Source::Lost { holder, broken } => return Ok(Step::Fails(map, holder, broken)),
                Source::Here(output) => {
                    self.check_attempt(proc, task, flow.shuffle, output)?;
                    let Some(value) = self.block(proc, flow.shuffle, output) else {
                        let readable = self.survey(Some(proc), flow.shuffle, true);
                        return Ok(Step::Fails(map, here, located.broken(here, map, &readable)));
                    };
                    fetches.values.insert((flow.shuffle, map), value);
                }
                Source::Elsewhere if flow.came.remove(&map) => flow.plan.was_read(map),
                Source::Elsewhere => return self.ask_holders(proc, task, flow),
            }
            flow.next += 1;
        }
        self.note_moved(proc, flow.shuffle, &flow.outputs);
        Ok(Step::Done)
    }

    /// Asks for as much as may be asked for now. L07: nobody waits for what nobody was asked for.
    fn ask_holders(&mut self, proc: ProcId, task: TaskId, flow: &mut Flow) -> Result<Step, String> {
        while let Some(question) = flow.plan.next(Some(flow.next)) {
            let (Question::Several { lane, .. } | Question::Alone { lane, .. }) = question;
            let tries = Tries::new(RETRIES, self.settings.planted);
            flow.asked.insert(lane, (question, tries, 1));
            let most = if self.aside.u8(..16) == 0 { 1500 } else { 50 };
            let at = self.now + 1 + self.aside.u64(..most);
            self.counters.outputs_asked += 1;
            self.push(at, Event::HolderAnswers { executor: proc, task, lane });
        }
        match flow.plan.is_under_way() {
            true => Ok(Step::Waits),
            false => Err(format!(
                "L07: task {task} waits for output {} of shuffle {}, and has asked nobody for it",
                flow.next, flow.shuffle
            )),
        }
    }

    /// A holder answers, or does not.
    pub(crate) fn holder_answers(
        &mut self,
        proc: ProcId,
        task: TaskId,
        lane: usize,
    ) -> Result<(), String> {
        let Some((driver, info)) = self.info_of(proc, task) else { return Ok(()) };
        let Some(Body::Executor(executor)) = &mut self.procs[proc].body else { return Ok(()) };
        let Some(mut fetches) = executor.fetches.remove(&task) else { return Ok(()) };
        let asked = fetches.flow.as_mut().and_then(|flow| flow.asked.remove(&lane));
        let (Some(flow), Some((question, tries, times))) = (&mut fetches.flow, asked) else {
            executor.fetches.insert(task, fetches);
            return Ok(());
        };
        let location = flow.holders[lane];
        let holder = self.serving(proc, location);
        let map = question.first();
        let Some(holder) = holder else {
            return self.no_answer((proc, driver), &info, fetches, (lane, question, tries, times));
        };
        match self.answer(proc, task, holder, flow, &question)? {
            Some(came) => flow.take(lane, question, came, &mut fetches.values),
            None => {
                let in_time = self.aside.u8(..4) > 0;
                let readable = self.survey(Some(holder), flow.shuffle, in_time);
                let broken = Located(&flow.outputs).broken(location, map, &readable);
                if in_time {
                    self.check_blamed(holder, flow.shuffle, &broken)?;
                }
                let failure = fetches.failed(map, info.partition, location, broken);
                fetches.fail(failure);
            }
        }
        self.fetch_on(proc, &info, fetches)
    }

    /// The process that answers for a holder now.
    fn serving(&self, reader: ProcId, holder: BlockLocation) -> Option<ProcId> {
        let Some(Body::Executor(executor)) = &self.procs[reader].body else { return None };
        let holder = self.holder(&executor.key, holder)?;
        let awake = self.procs[holder].alive && self.procs[holder].paused_until <= self.now;
        awake.then_some(holder)
    }

    /// The question is put again, unless the driver says that the holder is lost or it was put often enough.
    fn no_answer(
        &mut self,
        (proc, driver): (ProcId, ProcId),
        info: &TaskInfo,
        mut fetches: Fetches,
        (lane, question, mut tries, times): (usize, Question, Tries, u32),
    ) -> Result<(), String> {
        let Some(flow) = &mut fetches.flow else { return Ok(()) };
        let holder = flow.holders[lane];
        let lost = self.says_lost(driver, holder);
        let map = question.first();
        if !lost && tries.again(true, true) {
            self.counters.outputs_asked_again += 1;
            flow.asked.insert(lane, (question, tries, times + 1));
            let at = self.now + RETRY_MS;
            self.push(at, Event::HolderAnswers { executor: proc, task: info.task, lane });
        } else if !lost && times <= RETRIES {
            return Err(format!("L07: {holder} is given up after {times} question(s)"));
        } else {
            let broken = Located(&flow.outputs).broken(holder, map, &[]);
            let failure = fetches.failed(map, info.partition, holder, broken);
            fetches.fail(failure);
        }
        self.fetch_on(proc, info, fetches)
    }

    /// Whether a driver that is asked says so.
    fn says_lost(&self, driver: ProcId, holder: BlockLocation) -> bool {
        let awake = self.procs[driver].alive && self.procs[driver].paused_until <= self.now;
        match (&self.procs[driver].body, holder.executor()) {
            (Some(Body::Driver(node)), Some(executor)) if awake => node.book.is_lost(executor),
            _ => false,
        }
    }

    /// What a holder has of that; `None`: it cannot serve the first of it.
    fn answer(
        &mut self,
        reader: ProcId,
        task: TaskId,
        holder: ProcId,
        flow: &Flow,
        question: &Question,
    ) -> Result<Option<Came>, String> {
        let (located, mut came) = (Located(&flow.outputs), Came::default());
        let serving = match question {
            Question::Several { limit, .. } => Serving::new(*limit, self.settings.planted),
            Question::Alone { .. } => Serving::new(u64::MAX, self.settings.planted),
        };
        let (maps, alone): (&[u32], bool) = match question {
            Question::Several { maps, .. } => (maps, false),
            Question::Alone { map, .. } => (std::slice::from_ref(map), true),
        };
        for map in maps.iter().copied() {
            let Some((_, output)) = located.output(map) else { return Ok(None) };
            self.check_attempt(reader, task, flow.shuffle, output)?;
            let value = self.block(holder, flow.shuffle, output);
            let offered = value
                .as_ref()
                .map(|_| offered(output))
                .map(|offered| Offered { is_on_disk: offered.is_on_disk && !alone, ..offered });
            match (serving.part(came.bytes, offered), offered, value) {
                (Part::Blocks, Some(offered), Some(value)) => {
                    came.bytes += offered.bytes;
                    came.values.push((map, value));
                }
                (Part::Length, Some(offered), _) => {
                    came.bytes += REFERENCE_BYTES;
                    came.alone.push((map, offered.bytes));
                }
                (Part::Nothing, ..) => return Ok(None),
                _ => break,
            }
        }
        self.counters.answers_in_part += u64::from(came.values.len() < maps.len());
        Ok(Some(came))
    }

    /// L07: what its holder could serve in that moment is not blamed.
    fn check_blamed(
        &self,
        holder: ProcId,
        shuffle: ShuffleId,
        broken: &[MapAttempt],
    ) -> Result<(), String> {
        match broken.iter().find(|output| self.block(holder, shuffle, **output).is_some()) {
            Some(output) => {
                Err(format!("L07: {output:?} of shuffle {shuffle} is blamed and can be read"))
            }
            None => Ok(()),
        }
    }

    /// S21, of one output.
    fn check_attempt(
        &self,
        reader: ProcId,
        task: TaskId,
        shuffle: ShuffleId,
        output: MapAttempt,
    ) -> Result<(), String> {
        let Some(Body::Executor(executor)) = &self.procs[reader].body else { return Ok(()) };
        let Some(Body::Driver(node)) = &self.procs[executor.driver].body else { return Ok(()) };
        node.book.check_read(task, shuffle, output.map_partition, output.task)
    }

    fn block(&self, holder: ProcId, shuffle: ShuffleId, output: MapAttempt) -> Option<Computed> {
        let Some(Body::Executor(holder)) = &self.procs[holder].body else { return None };
        holder.blocks.get(&(shuffle, output.map_partition, output.task)).cloned()
    }

    /// Counts readers under whose hands outputs were lost or computed again.
    fn note_moved(&mut self, proc: ProcId, shuffle: ShuffleId, read: &[Option<MapOutputLocation>]) {
        let Some(Body::Executor(executor)) = &self.procs[proc].body else { return };
        let Some(Body::Driver(node)) = &self.procs[executor.driver].body else { return };
        let moved = node.book.outputs(shuffle).is_some_and(|outputs| outputs != read);
        self.counters.outputs_moved += u64::from(moved);
    }

    /// Whether the task's outputs are still on their way: then it ends when they are there.
    pub(crate) fn waits_for_outputs(&mut self, proc: ProcId, task: TaskId) -> bool {
        let Some(Body::Executor(executor)) = &mut self.procs[proc].body else { return false };
        let Some(fetches) = executor.fetches.get_mut(&task) else { return false };
        fetches.is_waited_for = true;
        !fetches.is_over()
    }

    /// Why it could not have all of them.
    pub(crate) fn failed_to_fetch(&mut self, proc: ProcId, task: TaskId) -> Option<TaskFailure> {
        let Some(Body::Executor(executor)) = &mut self.procs[proc].body else { return None };
        executor.fetches.get_mut(&task)?.failure.take()
    }
}

impl Fetches {
    fn failed(
        &self,
        map_partition: u32,
        reduce_partition: u32,
        location: BlockLocation,
        broken: Vec<MapAttempt>,
    ) -> TaskFailure {
        let shuffle = self.flow.as_ref().map_or(ShuffleId(0), |flow| flow.shuffle);
        let message = "it did not come".to_owned();
        TaskFailure::FetchFailed {
            shuffle,
            map_partition,
            reduce_partition,
            location,
            broken,
            message,
        }
    }
}

impl Flow {
    fn take(
        &mut self,
        lane: usize,
        question: Question,
        came: Came,
        values: &mut BTreeMap<(ShuffleId, u32), Computed>,
    ) {
        let maps: Vec<u32> = came.values.iter().map(|(map, _)| *map).collect();
        match question {
            Question::Several { .. } => {
                self.plan.several_came(lane, came.bytes, &maps, &came.alone);
            }
            Question::Alone { map, bytes, to_file, .. } => {
                self.plan.one_came(lane, map, bytes, to_file);
            }
        }
        self.came.extend(maps);
        let shuffle = self.shuffle;
        values.extend(came.values.into_iter().map(|(map, value)| ((shuffle, map), value)));
    }
}

/// How long a reader's part of an output is, and whether it lies in a file: always the same of one output.
fn offered(output: MapAttempt) -> Offered {
    let mixed = output.task.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    Offered { bytes: 1 + mixed % LONGEST, is_on_disk: mixed.is_multiple_of(4) }
}
