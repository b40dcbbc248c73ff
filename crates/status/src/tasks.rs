//! The tasks of one stage attempt: those that run, and those that ran last.

use std::collections::{BTreeMap, VecDeque};

use firesteel_types::{TaskFailure, TaskId, TaskInfo, TaskMetrics, Tick};

use crate::page::{Order, Page, Paging};

/// How a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskState {
    /// It runs.
    Running,
    /// It has ended, and its result is being fetched.
    GettingResult,
    /// It ended well.
    Success,
    /// It failed.
    Failed,
    /// It was killed.
    Killed,
}

impl TaskState {
    /// Whether it has ended.
    pub fn is_over(self) -> bool {
        !matches!(self, TaskState::Running | TaskState::GettingResult)
    }

    fn of(failure: Option<&TaskFailure>) -> Self {
        match failure {
            None => TaskState::Success,
            Some(TaskFailure::Killed { .. }) => TaskState::Killed,
            Some(_) => TaskState::Failed,
        }
    }
}

/// One task attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskStatus {
    /// Which, where, since when.
    pub info: TaskInfo,
    /// How it stands.
    pub state: TaskState,
    /// When it ended.
    pub ended: Option<Tick>,
    /// Why it failed.
    pub failure: Option<Box<TaskFailure>>,
    /// What it cost, so far.
    pub metrics: Option<Box<TaskMetrics>>,
}

impl TaskStatus {
    fn new(info: &TaskInfo) -> Self {
        let (info, state) = (info.clone(), TaskState::Running);
        TaskStatus { info, state, ended: None, failure: None, metrics: None }
    }

    /// From launch to end, if it has ended.
    pub fn duration_ms(&self) -> Option<u64> {
        Some(self.ended?.since_ms(self.info.launched))
    }
}

/// What tasks are sorted by. Equal ones are in the order of their ids.
#[derive(Clone, Copy, Debug)]
pub enum TaskSort {
    /// Their ids.
    Id,
    /// Their place in the stage, then the attempt.
    Index,
    /// How they stand.
    State,
    /// How near to their data they were placed.
    Locality,
    /// Where they run.
    Executor,
    /// When they were launched.
    Launched,
    /// From launch to end; those that run come last.
    Duration,
    /// A number of their metrics.
    Metric(fn(&TaskMetrics) -> u64),
}

impl TaskSort {
    /// A number, or two, that sorts as the task does.
    fn key(self, task: &TaskStatus) -> (u64, u64) {
        match self {
            TaskSort::Id => (0, 0),
            TaskSort::Index => (task.info.index.into(), task.info.attempt.into()),
            TaskSort::State => (task.state as u64, 0),
            TaskSort::Locality => (task.info.locality as u64, 0),
            TaskSort::Executor => (task.info.executor.0.into(), 0),
            TaskSort::Launched => (task.info.launched.0, 0),
            TaskSort::Duration => (task.duration_ms().unwrap_or(u64::MAX), 0),
            TaskSort::Metric(metric) => (task.metrics.as_deref().map_or(0, metric), 0),
        }
    }
}

/// The tasks of a stage attempt that are remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tasks {
    all: BTreeMap<TaskId, TaskStatus>,
    /// In the order they ended.
    ended: VecDeque<TaskId>,
    retained: usize,
}

impl Tasks {
    pub(crate) fn new(retained: usize) -> Self {
        Tasks { all: BTreeMap::new(), ended: VecDeque::new(), retained }
    }

    pub(crate) fn get(&self, task: TaskId) -> Option<&TaskStatus> {
        self.all.get(&task)
    }

    pub(crate) fn started(&mut self, task: &TaskInfo) {
        self.all.insert(task.task, TaskStatus::new(task));
    }

    pub(crate) fn change(&mut self, task: TaskId, change: impl FnOnce(&mut TaskStatus)) {
        self.all.get_mut(&task).map(change);
    }

    pub(crate) fn ended(
        &mut self,
        task: &TaskInfo,
        failure: Option<&TaskFailure>,
        metrics: Option<&TaskMetrics>,
        at: Tick,
    ) {
        let status = self.all.entry(task.task).or_insert_with(|| TaskStatus::new(task));
        let was_over = status.state.is_over();
        status.state = TaskState::of(failure);
        status.ended = Some(at);
        status.failure = failure.cloned().map(Box::new);
        status.metrics = metrics.cloned().map(Box::new);
        if !was_over {
            self.ended.push_back(task.task);
        }
        while self.ended.len() > self.retained {
            let oldest = self.ended.pop_front();
            oldest.map(|oldest| self.all.remove(&oldest));
        }
    }

    pub(crate) fn page(
        &self,
        wanted: impl Fn(&TaskStatus) -> bool,
        sort: TaskSort,
        order: Order,
        paging: Paging,
    ) -> Page<&TaskStatus> {
        let all = self.all.values().filter(|task| wanted(task));
        let keyed = all.map(|task| (sort.key(task), task.info.task, task)).collect();
        let compare = |a: &Keyed<'_>, b: &Keyed<'_>| (a.0, a.1).cmp(&(b.0, b.1));
        let Page { items, total } = Page::cut(keyed, compare, order, paging);
        Page { items: items.into_iter().map(|(_, _, task)| task).collect(), total }
    }
}

type Keyed<'a> = ((u64, u64), TaskId, &'a TaskStatus);

/// Adds up what tasks cost; of peaks the highest stays.
pub(crate) fn add_metrics(sum: &mut TaskMetrics, one: &TaskMetrics) {
    let peak_memory_bytes = sum.peak_memory_bytes.max(one.peak_memory_bytes);
    let pairs: [(&mut u64, u64); 23] = [
        (&mut sum.run_time_us, one.run_time_us),
        (&mut sum.cpu_time_us, one.cpu_time_us),
        (&mut sum.deserialize_time_us, one.deserialize_time_us),
        (&mut sum.deserialize_cpu_time_us, one.deserialize_cpu_time_us),
        (&mut sum.result_serialize_time_us, one.result_serialize_time_us),
        (&mut sum.result_bytes, one.result_bytes),
        (&mut sum.getting_result_time_ms, one.getting_result_time_ms),
        (&mut sum.input_records, one.input_records),
        (&mut sum.input_bytes, one.input_bytes),
        (&mut sum.output_records, one.output_records),
        (&mut sum.output_bytes, one.output_bytes),
        (&mut sum.shuffle_read_records, one.shuffle_read_records),
        (&mut sum.shuffle_local_bytes, one.shuffle_local_bytes),
        (&mut sum.shuffle_local_blocks, one.shuffle_local_blocks),
        (&mut sum.shuffle_remote_bytes, one.shuffle_remote_bytes),
        (&mut sum.shuffle_remote_blocks, one.shuffle_remote_blocks),
        (&mut sum.shuffle_remote_bytes_to_disk, one.shuffle_remote_bytes_to_disk),
        (&mut sum.shuffle_fetch_wait_us, one.shuffle_fetch_wait_us),
        (&mut sum.shuffle_write_records, one.shuffle_write_records),
        (&mut sum.shuffle_write_bytes, one.shuffle_write_bytes),
        (&mut sum.shuffle_write_time_us, one.shuffle_write_time_us),
        (&mut sum.memory_bytes_spilled, one.memory_bytes_spilled),
        (&mut sum.disk_bytes_spilled, one.disk_bytes_spilled),
    ];
    for (sum, one) in pairs {
        *sum = sum.saturating_add(one);
    }
    sum.peak_memory_bytes = peak_memory_bytes;
}
