//! Stage attempts: those that may run, those that run, and those that ran last.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;

use firesteel_types::{
    Accumulable, AccumulatorId, ExecutorId, ExecutorMetrics, JobId, Properties, RunningTask,
    StageId, StageInfo, StageRef, TaskFailure, TaskId, TaskInfo, TaskMetrics, Tick,
};

use crate::AppStatus;
use crate::bits::Bits;
use crate::metrics;
use crate::page::{Order, Page, Paging};
use crate::tasks::{TaskSort, TaskState, TaskStatus, Tasks};
use crate::weight::{self, Excess};

/// How a stage attempt stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum StageState {
    /// A running job may need it.
    Pending,
    Active,
    Complete,
    Failed,
    /// Nobody needed it: what it would have computed was there.
    Skipped,
}

/// So many accumulators of one stage are remembered.
const ACCUMULABLES_AT_MOST: usize = 1000;

/// How many tasks stand how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TaskCounts {
    pub active: u32,
    pub completed: u32,
    pub failed: u32,
    pub killed: u32,
}

impl TaskCounts {
    pub(crate) fn ended(&mut self, failure: Option<&TaskFailure>) {
        self.active = self.active.saturating_sub(1);
        *match failure {
            None => &mut self.completed,
            Some(TaskFailure::Killed { .. }) => &mut self.killed,
            Some(_) => &mut self.failed,
        } += 1;
    }
}

/// Of so many reasons at most is counted how many tasks were killed for them.
const REASONS_AT_MOST: usize = 100;

/// Counts a task that was killed under its reason.
pub(crate) fn count_killed(killed: &mut BTreeMap<String, u32>, failure: Option<&TaskFailure>) {
    let Some(TaskFailure::Killed { reason }) = failure else { return };
    if let Some(count) = killed.get_mut(reason) {
        *count += 1;
    } else if killed.len() < REASONS_AT_MOST {
        killed.insert(reason.clone(), 1);
    }
}

/// What the tasks of a stage attempt on one executor have come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ExecutorTotals {
    pub tasks: TaskCounts,
    /// From launch to end, milliseconds.
    pub task_time_ms: u64,
    /// What tasks that have ended cost.
    pub metrics: TaskMetrics,
    /// The most that the executor used while they ran; `None` until the first of them ends or the executor tells.
    pub peak: Option<ExecutorMetrics>,
    /// Whether it gets no more tasks of this stage attempt.
    pub is_excluded: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StageStatus {
    /// What was said of it last.
    pub info: StageInfo,
    /// Of the first job that needed it.
    pub properties: Arc<Properties>,
    /// The jobs that may need it.
    pub jobs: BTreeSet<JobId>,
    pub state: StageState,
    /// When its first task was launched.
    pub first_task: Option<Tick>,
    /// When the last thing happened to one of its tasks, as far as that is known.
    pub last_task: Option<Tick>,
    /// When it ended; `None` while it runs.
    pub completed: Option<Tick>,
    pub failure: Option<String>,
    pub tasks: TaskCounts,
    /// How many were killed, by what they were killed for.
    pub killed: BTreeMap<String, u32>,
    /// Speculative copies that were launched, among all tasks.
    pub copies: TaskCounts,
    /// Speculative copies of slow tasks that the scheduler submitted.
    pub speculative: u32,
    /// Tasks that had succeeded and were run again, because what they wrote was lost.
    pub resubmitted: u32,
    /// What tasks that have ended cost.
    pub metrics: TaskMetrics,
    /// What [`TaskMetrics::peak_memory_bytes`] of its tasks add up to.
    pub peak_memory_sum: u64,
    /// The most that an executor used while it ran tasks of it, number by number; `None` as in [`ExecutorTotals`].
    pub peak: Option<ExecutorMetrics>,
    pub executors: BTreeMap<ExecutorId, ExecutorTotals>,
    /// Accumulators with names that its tasks added to, as the last of these left them.
    pub accumulables: BTreeMap<AccumulatorId, Accumulable>,
    computed: Bits,
    table: Tasks,
    /// Bytes that its description and properties take.
    described: usize,
    /// Bytes that its accumulators take.
    accumulated: usize,
}

impl StageStatus {
    fn pending(info: &StageInfo, retained_tasks: usize) -> Self {
        let mut pending = StageStatus {
            info: info.clone(),
            properties: Arc::default(),
            jobs: BTreeSet::new(),
            state: StageState::Pending,
            first_task: None,
            last_task: None,
            completed: None,
            failure: None,
            tasks: TaskCounts::default(),
            speculative: 0,
            resubmitted: 0,
            metrics: TaskMetrics::default(),
            killed: BTreeMap::new(),
            copies: TaskCounts::default(),
            peak_memory_sum: 0,
            peak: None,
            computed: Bits::default(),
            executors: BTreeMap::new(),
            accumulables: BTreeMap::new(),
            table: Tasks::new(retained_tasks),
            described: 0,
            accumulated: 0,
        };
        pending.describe();
        pending
    }

    /// How many of its partitions were computed.
    pub fn completed_indices(&self) -> u32 {
        self.computed.len()
    }

    fn is_over(&self) -> bool {
        matches!(self.state, StageState::Complete | StageState::Failed | StageState::Skipped)
    }

    fn describe(&mut self) {
        self.described = weight::stage(&self.info) + weight::properties(&self.properties);
    }

    fn weight(&self) -> usize {
        let executors = self.executors.len() * (size_of::<ExecutorTotals>() + weight::ENTRY);
        let jobs = self.jobs.len() * weight::ENTRY;
        let failure = self.failure.as_ref().map_or(0, String::len);
        let (killed, computed) = (weight::reasons(&self.killed), self.computed.weight());
        let told = self.described + self.accumulated + failure + killed + computed;
        size_of::<StageStatus>() + executors + jobs + told + self.table.weight()
    }

    /// One task, if it is remembered.
    pub fn task(&self, task: TaskId) -> Option<&TaskStatus> {
        self.table.get(task)
    }

    /// How many tasks are remembered.
    pub fn remembered_tasks(&self) -> usize {
        self.table.len()
    }

    /// All tasks that are remembered, mostly in the order they were launched.
    pub fn every_task(&self) -> impl Iterator<Item = &TaskStatus> {
        self.table.iter()
    }

    /// The tasks that `wanted` says.
    pub fn tasks(
        &self,
        wanted: impl Fn(&TaskStatus) -> bool,
        sort: TaskSort,
        order: Order,
        paging: Paging,
    ) -> Page<&TaskStatus> {
        self.table.page(wanted, sort, order, paging)
    }
}

/// The higher of both, number by number. That nothing was looked at is something as well: the task ended.
pub(crate) fn rise(peak: &mut Option<ExecutorMetrics>, seen: Option<&ExecutorMetrics>) {
    *peak = Some(peak.unwrap_or_default().max(seen.copied().unwrap_or_default()));
}

fn attempts(stage: StageId) -> RangeInclusive<StageRef> {
    StageRef { stage, attempt: 0 }..=StageRef { stage, attempt: u32::MAX }
}

/// The jobs of a stage attempt that is not remembered.
static NOBODY: BTreeSet<JobId> = BTreeSet::new();

/// All stage attempts that are remembered.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Stages {
    all: BTreeMap<StageRef, StageStatus>,
    /// In the order they ended.
    ended: VecDeque<StageRef>,
    retained: usize,
    retained_tasks: usize,
}

impl Stages {
    pub(crate) fn new(retained: usize, retained_tasks: usize) -> Self {
        Stages { all: BTreeMap::new(), ended: VecDeque::new(), retained, retained_tasks }
    }

    pub(crate) fn job_started(&mut self, job: JobId, stages: &[StageInfo]) {
        for info in stages {
            let entry = self.all.entry(info.stage);
            let stage = match entry {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(StageStatus::pending(info, self.retained_tasks)),
            };
            stage.jobs.insert(job);
        }
    }

    /// The stages that the job did not need, with their tasks.
    pub(crate) fn job_ended(&mut self, job: JobId, stages: &[StageId]) -> Vec<(StageRef, u32)> {
        let mut skipped = Vec::new();
        for id in stages {
            let last = self.all.range_mut(attempts(*id)).next_back();
            let Some((_, stage)) = last else { continue };
            if stage.state != StageState::Pending || !stage.jobs.contains(&job) {
                continue;
            }
            skipped.push((stage.info.stage, stage.info.tasks));
            stage.jobs.remove(&job);
            if stage.jobs.is_empty() {
                stage.state = StageState::Skipped;
                self.ended.push_back(stage.info.stage);
            }
        }
        self.retain();
        skipped
    }

    pub(crate) fn submitted(
        &mut self,
        info: &StageInfo,
        properties: &Arc<Properties>,
        jobs: BTreeSet<JobId>,
        at: Tick,
    ) {
        let mut new = StageStatus::pending(info, self.retained_tasks);
        new.properties = properties.clone();
        new.info.submitted = new.info.submitted.or(Some(at));
        (new.jobs, new.state) = (jobs, StageState::Active);
        new.describe();
        let before = self.all.insert(info.stage, new);
        if before.is_some_and(|before| before.is_over()) {
            // One job skipped it, another one runs it: what runs is not forgotten.
            self.ended.retain(|ended| *ended != info.stage);
        }
    }

    /// The jobs that may need it.
    pub(crate) fn completed(
        &mut self,
        info: &StageInfo,
        failure: Option<&str>,
        at: Tick,
    ) -> BTreeSet<JobId> {
        let Some(stage) = self.all.get_mut(&info.stage) else { return BTreeSet::new() };
        stage.info = info.clone();
        stage.describe();
        stage.completed = Some(at);
        stage.failure = failure.map(str::to_owned);
        let over = if failure.is_some() { StageState::Failed } else { StageState::Complete };
        let was_over = stage.is_over();
        stage.state = over;
        let jobs = stage.jobs.clone();
        if !was_over {
            self.ended.push_back(info.stage);
            self.retain();
        }
        jobs
    }

    fn retain(&mut self) {
        while self.ended.len() > self.retained {
            let oldest = self.ended.pop_front();
            oldest.map(|oldest| self.all.remove(&oldest));
        }
    }

    pub(crate) fn task_started(&mut self, task: TaskInfo) -> &BTreeSet<JobId> {
        let Some(stage) = self.all.get_mut(&task.stage) else { return &NOBODY };
        let first = stage.first_task.map_or(task.launched, |first| first.min(task.launched));
        stage.first_task = Some(first);
        stage.last_task = stage.last_task.max(Some(task.launched));
        stage.copies.active += u32::from(task.speculative);
        stage.tasks.active += 1;
        stage.executors.entry(task.executor).or_default().tasks.active += 1;
        stage.table.started(task);
        &stage.jobs
    }

    pub(crate) fn getting_result(&mut self, task: &TaskInfo) {
        if let Some(stage) = self.all.get_mut(&task.stage) {
            stage.table.change(task.task, |task| {
                if !task.state.is_over() {
                    task.state = TaskState::GettingResult;
                }
            });
        }
    }

    pub(crate) fn running(&mut self, running: &RunningTask) {
        if let Some(stage) = self.all.get_mut(&running.stage) {
            stage.table.change(running.task, |task| {
                if !task.state.is_over() {
                    task.set_metrics(&running.metrics);
                }
            });
        }
    }

    pub(crate) fn task_ended(
        &mut self,
        task: &TaskInfo,
        failure: Option<&TaskFailure>,
        cost: Option<&TaskMetrics>,
        at: Tick,
    ) -> &BTreeSet<JobId> {
        let Some(stage) = self.all.get_mut(&task.stage) else { return &NOBODY };
        stage.last_task = stage.last_task.max(Some(at));
        stage.tasks.ended(failure);
        count_killed(&mut stage.killed, failure);
        if task.speculative {
            stage.copies.ended(failure);
        }
        if failure.is_none() {
            stage.computed.insert(task.partition_or_index());
        }
        let executor = stage.executors.entry(task.executor).or_default();
        executor.tasks.ended(failure);
        executor.task_time_ms = executor.task_time_ms.saturating_add(at.since_ms(task.launched));
        if let Some(cost) = cost {
            metrics::add(&mut stage.metrics, cost);
            metrics::add(&mut executor.metrics, cost);
            stage.peak_memory_sum = stage.peak_memory_sum.saturating_add(cost.peak_memory_bytes);
        }
        let peak = cost.and_then(|cost| cost.executor.as_deref());
        rise(&mut executor.peak, peak);
        rise(&mut stage.peak, peak);
        stage.table.ended(task, failure, cost, at);
        &stage.jobs
    }

    /// An executor told the most that it used while it ran tasks of a stage attempt.
    pub(crate) fn peaked(&mut self, stage: StageRef, executor: ExecutorId, peak: ExecutorMetrics) {
        let Some(stage) = self.all.get_mut(&stage) else { return };
        let totals = stage.executors.entry(executor).or_default();
        rise(&mut totals.peak, Some(&peak));
        rise(&mut stage.peak, Some(&peak));
    }

    /// An executor gets no more tasks of a stage attempt.
    pub(crate) fn excluded(&mut self, stage: StageRef, executor: ExecutorId) {
        if let Some(stage) = self.all.get_mut(&stage) {
            stage.executors.entry(executor).or_default().is_excluded = true;
        }
    }

    /// An accumulator of a name came to a value. Beyond so many of one stage no more are remembered.
    pub(crate) fn accumulated(
        &mut self,
        stage: StageRef,
        task: Option<TaskId>,
        accumulable: &Accumulable,
    ) {
        let Some(stage) = self.all.get_mut(&stage) else { return };
        if let Some(task) = task {
            stage.table.change(task, |task| task.accumulated(accumulable));
        }
        let known = stage.accumulables.contains_key(&accumulable.id);
        if known || stage.accumulables.len() < ACCUMULABLES_AT_MOST {
            let of_stage = Accumulable { update: String::new(), ..accumulable.clone() };
            stage.accumulated += weight::accumulable(&of_stage);
            let before = stage.accumulables.insert(accumulable.id, of_stage);
            stage.accumulated -= before.as_ref().map_or(0, weight::accumulable);
        }
    }

    /// The jobs that may need it.
    pub(crate) fn resubmitted(&mut self, stage: StageRef, partition: u32) -> &BTreeSet<JobId> {
        let Some(stage) = self.all.get_mut(&stage) else { return &NOBODY };
        stage.resubmitted += 1;
        stage.computed.remove(partition);
        &stage.jobs
    }

    pub(crate) fn speculated(&mut self, stage: StageRef) {
        if let Some(stage) = self.all.get_mut(&stage) {
            stage.speculative += 1;
        }
    }

    pub(crate) fn weight(&self) -> usize {
        self.all.values().map(StageStatus::weight).sum()
    }

    /// Forgets tasks of the stage attempts that are over, the oldest first. Their sums stay.
    pub(crate) fn forget_tasks_of_ended(&mut self, excess: &mut Excess) {
        for oldest in &self.ended {
            if !excess.is_left() {
                return;
            }
            let stage = self.all.get_mut(oldest);
            excess.freed(stage.map_or(0, |stage| stage.table.forget()));
        }
    }

    /// Forgets stage attempts that are over, the oldest first.
    pub(crate) fn forget_ended(&mut self, excess: &mut Excess) {
        while excess.is_left() {
            let Some(oldest) = self.ended.pop_front() else { return };
            excess.freed(self.all.remove(&oldest).map_or(0, |stage| stage.weight()));
        }
    }

    /// Forgets tasks of the stage attempts that are not over, then these themselves, the oldest first.
    pub(crate) fn forget_running(&mut self, excess: &mut Excess) {
        for stage in self.all.values_mut() {
            if excess.is_left() {
                excess.freed(stage.table.forget());
            }
        }
        while excess.is_left() {
            let Some((first, stage)) = self.all.pop_first() else { return };
            self.ended.retain(|ended| *ended != first);
            excess.freed(stage.weight());
        }
    }
}

impl AppStatus {
    /// What is equal and was shared is shared again, after the status was stored and read.
    pub fn share(&mut self) {
        let mut hosts = BTreeSet::new();
        self.stages.all.values_mut().for_each(|stage| stage.table.share_hosts(&mut hosts));
    }

    /// `None`: unknown, or forgotten by now.
    pub fn stage(&self, stage: StageRef) -> Option<&StageStatus> {
        self.stages.all.get(&stage)
    }

    /// The latest attempt of a stage.
    pub fn last_attempt(&self, stage: StageId) -> Option<&StageStatus> {
        self.attempts(stage).next_back()
    }

    /// All attempts of a stage that are remembered, the first one first.
    pub fn attempts(&self, stage: StageId) -> impl DoubleEndedIterator<Item = &StageStatus> {
        self.stages.all.range(attempts(stage)).map(|(_, stage)| stage)
    }

    /// The stage attempts that `wanted` says, by their ids.
    pub fn stages(
        &self,
        wanted: impl Fn(&StageStatus) -> bool,
        order: Order,
        paging: Paging,
    ) -> Page<&StageStatus> {
        let all = self.stages.all.values().filter(|stage| wanted(stage)).collect();
        Page::cut(all, |a, b| a.info.stage.cmp(&b.info.stage), order, paging)
    }

    /// How many of the stage attempts that are remembered stand so.
    pub fn count_stages(&self, is: impl Fn(StageState) -> bool) -> u64 {
        self.stages.all.values().filter(|stage| is(stage.state)).count() as u64
    }

    /// The stage attempts that run.
    pub fn active_stages(&self) -> impl Iterator<Item = &StageStatus> {
        self.stages.all.values().filter(|stage| stage.state == StageState::Active)
    }
}
