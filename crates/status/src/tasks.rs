//! The tasks of one stage attempt: those that run, and those that ran last.

use std::cmp::Ordering;
use std::collections::{BTreeSet, VecDeque};

use firesteel_types::{Accumulable, Host, TaskFailure, TaskId, TaskInfo, TaskMetrics, Tick};

use crate::metrics::{CostReader, Packed, TaskCost};
use crate::page::{Order, Page, Paging};
use crate::weight;

/// How a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum TaskState {
    Running,
    /// It has ended, and its result is being fetched.
    GettingResult,
    Success,
    Failed,
    Killed,
}

impl TaskState {
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

#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TaskStatus {
    pub info: TaskInfo,
    pub state: TaskState,
    /// When it ended; `None` while it runs.
    pub ended: Option<Tick>,
    pub failure: Option<Box<TaskFailure>>,
    /// What it added to accumulators that have names, and what they came to.
    pub accumulables: Vec<Accumulable>,
    metrics: Option<Packed>,
}

/// So many accumulators of one task are remembered.
const ACCUMULABLES_AT_MOST: usize = 100;

impl TaskStatus {
    fn new(info: TaskInfo) -> Self {
        let state = TaskState::Running;
        TaskStatus {
            info,
            state,
            ended: None,
            failure: None,
            accumulables: Vec::new(),
            metrics: None,
        }
    }

    /// What it cost, so far, if somebody told.
    pub fn metrics(&self) -> Option<TaskMetrics> {
        self.metrics.as_ref().map(Packed::unpack)
    }

    /// Writes what it cost so far over `into`, but for what was pushed and what its executor used: cheaper than
    /// [`TaskStatus::metrics`] for many tasks. `false`: nobody told.
    pub fn read_metrics(&self, into: &mut TaskMetrics) -> bool {
        self.metrics.as_ref().map(|packed| packed.unpack_into(into)).is_some()
    }

    /// The few numbers of its metrics that pictures show; `None`: nobody told. For every task of a stage.
    pub fn cost(&self, reader: &mut CostReader) -> Option<TaskCost> {
        self.metrics.as_ref().map(|packed| reader.read(packed))
    }

    pub(crate) fn set_metrics(&mut self, metrics: &TaskMetrics) {
        self.metrics = Some(Packed::new(metrics));
    }

    /// Bytes that it takes besides its own, roughly.
    fn heap(&self) -> usize {
        let metrics = self.metrics.as_ref().map_or(0, Packed::weight);
        let failure = self.failure.as_deref().map_or(0, weight::failure);
        let accumulables = self.accumulables.iter().map(weight::accumulable);
        metrics + failure + accumulables.sum::<usize>()
    }

    pub(crate) fn accumulated(&mut self, accumulable: &Accumulable) {
        if self.accumulables.len() < ACCUMULABLES_AT_MOST {
            self.accumulables.push(accumulable.clone());
        }
    }

    /// From launch to end, if it has ended.
    pub fn duration_ms(&self) -> Option<u64> {
        Some(self.ended?.since_ms(self.info.launched))
    }
}

/// What tasks are sorted by. Equal ones are in the order of their ids.
#[derive(Clone, Copy, Debug)]
pub enum TaskSort {
    Id,
    /// Their place in the stage, then the attempt.
    Index,
    State,
    /// How near to their data they were placed.
    Locality,
    Executor,
    Launched,
    /// From launch to end; those that run come last.
    Duration,
    /// A number of their metrics.
    Metric(fn(&TaskMetrics) -> u64),
}

impl TaskSort {
    /// A number, or two, that sorts as the task does. `metrics` are what it cost, where somebody told.
    fn key(self, task: &TaskStatus, metrics: Option<&TaskMetrics>) -> (u64, u64) {
        match self {
            TaskSort::Id => (0, 0),
            TaskSort::Index => (task.info.index.into(), task.info.attempt.into()),
            TaskSort::State => (task.state as u64, 0),
            TaskSort::Locality => (task.info.locality as u64, 0),
            TaskSort::Executor => (task.info.executor.0.into(), 0),
            TaskSort::Launched => (task.info.launched.0, 0),
            TaskSort::Duration => (task.duration_ms().unwrap_or(u64::MAX), 0),
            TaskSort::Metric(metric) => (metrics.map_or(0, metric), 0),
        }
    }
}

/// A task whose place is farther than this from both ends is not taken in: a log may name tasks in any order, and moving the others is not
/// free.
const REACH: usize = 10_000;

/// A task that something happens to is mostly among so many that were launched last.
const RECENT: usize = 8;

/// The tasks of a stage attempt that are remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Tasks {
    /// By their ids: mostly in the order they were launched.
    all: VecDeque<TaskStatus>,
    /// In the order they ended.
    ended: VecDeque<TaskId>,
    retained: usize,
    /// What [`TaskStatus::heap`] of all of them come to.
    heap: usize,
}

impl Tasks {
    pub(crate) fn new(retained: usize) -> Self {
        Tasks { all: VecDeque::new(), ended: VecDeque::new(), retained, heap: 0 }
    }

    /// Where it is, or belongs.
    fn find(&self, task: TaskId) -> Result<usize, usize> {
        let len = self.all.len();
        for (back, other) in self.all.iter().rev().take(RECENT).enumerate() {
            match other.info.task.cmp(&task) {
                Ordering::Less => return Err(len - back),
                Ordering::Equal => return Ok(len - back - 1),
                Ordering::Greater => {}
            }
        }
        self.all.binary_search_by_key(&task, |other| other.info.task)
    }

    pub(crate) fn get(&self, task: TaskId) -> Option<&TaskStatus> {
        self.find(task).ok().and_then(|index| self.all.get(index))
    }

    pub(crate) fn started(&mut self, task: TaskInfo) {
        match self.find(task.task) {
            Ok(index) => self.change_at(index, |known| *known = TaskStatus::new(task)),
            Err(index) => {
                self.insert(index, task);
            }
        }
    }

    /// Where it is now; `None`: its place is too far from both ends.
    fn insert(&mut self, index: usize, task: TaskInfo) -> Option<usize> {
        let is_near = index.min(self.all.len() - index) <= REACH;
        is_near.then(|| {
            self.all.insert(index, TaskStatus::new(task));
            index
        })
    }

    pub(crate) fn change(&mut self, task: TaskId, change: impl FnOnce(&mut TaskStatus)) {
        if let Ok(index) = self.find(task) {
            self.change_at(index, change);
        }
    }

    fn change_at(&mut self, index: usize, change: impl FnOnce(&mut TaskStatus)) {
        let task = &mut self.all[index];
        let before = task.heap();
        change(task);
        self.heap = self.heap + task.heap() - before;
    }

    pub(crate) fn ended(
        &mut self,
        task: &TaskInfo,
        failure: Option<&TaskFailure>,
        metrics: Option<&TaskMetrics>,
        at: Tick,
    ) {
        let found =
            self.find(task.task).or_else(|index| self.insert(index, task.clone()).ok_or(()));
        let Ok(index) = found else { return };
        let was_over = self.all[index].state.is_over();
        self.change_at(index, |status| {
            status.state = TaskState::of(failure);
            status.ended = Some(at);
            status.failure = failure.cloned().map(Box::new);
            status.metrics = metrics.map(Packed::new);
        });
        if !was_over {
            self.ended.push_back(task.task);
        }
        while self.ended.len() > self.retained {
            // Only tasks that run are before the one that ended first.
            let oldest = self.ended.pop_front().map(|oldest| self.find(oldest));
            let removed = oldest.and_then(Result::ok).and_then(|index| self.all.remove(index));
            self.heap -= removed.map_or(0, |removed| removed.heap());
        }
    }

    /// Forgets all of them, those that run as well. What they took.
    pub(crate) fn forget(&mut self) -> usize {
        let weight = self.weight();
        *self = Tasks::new(self.retained);
        weight
    }

    /// Tasks on one host share its name, which they do not when they were stored and read again.
    pub(crate) fn share_hosts(&mut self, hosts: &mut BTreeSet<Host>) {
        for task in &mut self.all {
            match hosts.get(&task.info.host) {
                Some(known) => task.info.host = known.clone(),
                None => drop(hosts.insert(task.info.host.clone())),
            }
        }
    }

    /// Roughly how many bytes of memory it takes.
    pub(crate) fn weight(&self) -> usize {
        self.all.capacity() * size_of::<TaskStatus>()
            + self.ended.capacity() * size_of::<TaskId>()
            + self.heap
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &TaskStatus> {
        self.all.iter()
    }

    pub(crate) fn page(
        &self,
        wanted: impl Fn(&TaskStatus) -> bool,
        sort: TaskSort,
        order: Order,
        paging: Paging,
    ) -> Page<&TaskStatus> {
        let mut selection = TaskSelection::new(sort, order, paging);
        let mut metrics = TaskMetrics::default();
        for task in self.all.iter().filter(|task| wanted(task)) {
            let is_told = selection.sorts_by_metrics() && task.read_metrics(&mut metrics);
            selection.add(task, is_told.then_some(&metrics));
        }
        selection.page()
    }
}

type Keyed<'a> = ((u64, u64), TaskId, &'a TaskStatus);

fn compare(a: &Keyed<'_>, b: &Keyed<'_>) -> Ordering {
    (a.0, a.1).cmp(&(b.0, b.1))
}

/// A page of tasks that are looked at one after the other: holds about as many as the pages up to this one have, not all of them.
#[derive(Debug)]
pub struct TaskSelection<'a> {
    sort: TaskSort,
    order: Order,
    paging: Paging,
    /// So many can be on this page or before it.
    wanted: usize,
    best: Vec<Keyed<'a>>,
    /// What comes behind this one is on a later page.
    last: Option<Keyed<'a>>,
    total: usize,
}

impl<'a> TaskSelection<'a> {
    pub fn new(sort: TaskSort, order: Order, paging: Paging) -> Self {
        let wanted = paging.offset.saturating_add(paging.length);
        TaskSelection { sort, order, paging, wanted, best: Vec::new(), last: None, total: 0 }
    }

    /// Whether it looks at the metrics of tasks.
    pub fn sorts_by_metrics(&self) -> bool {
        matches!(self.sort, TaskSort::Metric(_))
    }

    fn compare(&self, a: &Keyed<'_>, b: &Keyed<'_>) -> Ordering {
        match self.order {
            Order::Ascending => compare(a, b),
            Order::Descending => compare(b, a),
        }
    }

    /// Takes one more. `metrics`, of [`TaskStatus::read_metrics`], are looked at only where they sort.
    pub fn add(&mut self, task: &'a TaskStatus, metrics: Option<&TaskMetrics>) {
        self.total += 1;
        let keyed = (self.sort.key(task, metrics), task.info.task, task);
        let is_later = |last| self.compare(&keyed, last).is_gt();
        if self.wanted == 0 || self.last.as_ref().is_some_and(is_later) {
            return;
        }
        self.best.push(keyed);
        if self.best.len() > self.wanted.saturating_mul(2).saturating_add(SPARE) {
            self.drop_later();
        }
    }

    fn drop_later(&mut self) {
        let (mut best, at) = (std::mem::take(&mut self.best), self.wanted - 1);
        best.select_nth_unstable_by(at, |a, b| self.compare(a, b));
        best.truncate(self.wanted);
        self.last = best.last().copied();
        self.best = best;
    }

    pub fn page(self) -> Page<&'a TaskStatus> {
        let Page { items, .. } = Page::cut(self.best, compare, self.order, self.paging);
        Page { items: items.into_iter().map(|(_, _, task)| task).collect(), total: self.total }
    }
}

/// So many more are held, so that few are sorted often.
const SPARE: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use firesteel_types::event::Locality;
    use firesteel_types::{ExecutorId, StageId, StageRef};

    fn info(task: u64) -> TaskInfo {
        TaskInfo {
            task: TaskId(task),
            stage: StageRef { stage: StageId(0), attempt: 0 },
            partition: 0,
            index: 0,
            attempt: 0,
            executor: ExecutorId(0),
            host: Host::new("localhost"),
            speculative: false,
            locality: Locality::Any,
            launched: Tick(0),
        }
    }

    fn ids(tasks: &Tasks) -> Vec<u64> {
        tasks.all.iter().map(|task| task.info.task.0).collect()
    }

    #[test]
    fn tasks_are_found_whatever_the_order_they_came_in() {
        let mut tasks = Tasks::new(100);
        let mixed = || (0..40).map(|n| n * 17 % 40);
        mixed().for_each(|id| tasks.started(info(id)));
        assert_eq!(ids(&tasks), (0..40).collect::<Vec<_>>());
        for id in mixed() {
            tasks.ended(&info(id), None, None, Tick(id));
            assert_eq!(tasks.get(TaskId(id)).and_then(|task| task.ended), Some(Tick(id)));
        }
        assert!(tasks.get(TaskId(40)).is_none());
    }

    #[test]
    fn a_task_whose_place_is_far_from_both_ends_is_not_taken_in() {
        let mut tasks = Tasks::new(usize::MAX);
        let last = 5 * REACH as u64;
        (0..last).step_by(2).for_each(|id| tasks.started(info(id)));
        let count = tasks.len();
        tasks.started(info(last / 2 + 1));
        tasks.ended(&info(last / 2 + 1), None, None, Tick(1));
        assert_eq!((tasks.len(), tasks.ended.len()), (count, 0));
        [1, last - 1].iter().for_each(|id| tasks.started(info(*id)));
        tasks.ended(&info(last / 2), None, None, Tick(1));
        assert_eq!((tasks.len(), tasks.ended.len()), (count + 2, 1));
    }

    #[test]
    fn what_tasks_take_is_counted_as_they_come_change_and_go() {
        let mut tasks = Tasks::new(2);
        let failure = TaskFailure::Error { message: "x".repeat(5000) };
        let value = "y".repeat(3000);
        let accumulable = Accumulable {
            id: firesteel_types::AccumulatorId(1),
            name: "n".to_owned(),
            update: String::new(),
            value,
        };
        for id in 0..9 {
            tasks.started(info(id));
            tasks.change(TaskId(id), |task| task.accumulated(&accumulable));
            tasks.ended(&info(id), Some(&failure), Some(&TaskMetrics::default()), Tick(1));
            tasks.ended(&info(id), Some(&failure), None, Tick(1));
            let heap: usize = tasks.iter().map(TaskStatus::heap).sum();
            assert_eq!(tasks.heap, heap);
            assert!(heap >= 8000 * tasks.len());
        }
        assert_eq!(tasks.len(), 2);
        assert!(tasks.forget() > 16_000);
        assert_eq!((tasks.len(), tasks.heap, tasks.retained), (0, 0, 2));
    }

    #[test]
    fn a_page_of_tasks_is_what_sorting_all_of_them_would_give() {
        let mut tasks = Tasks::new(usize::MAX);
        for id in 0..2000u64 {
            let info = TaskInfo { index: (id * 7919 % 400) as u32, ..info(id) };
            tasks.started(info.clone());
            let metrics = TaskMetrics { input_bytes: id * 31 % 97, ..TaskMetrics::default() };
            tasks.ended(&info, None, Some(&metrics), Tick(id * 131 % 50));
        }
        let by_input = TaskSort::Metric(|metrics| metrics.input_bytes);
        for sort in [TaskSort::Id, TaskSort::Index, TaskSort::Duration, by_input] {
            let keyed =
                |task: &TaskStatus| (sort.key(task, task.metrics().as_ref()), task.info.task);
            let mut sorted: Vec<&TaskStatus> = tasks.iter().collect();
            sorted.sort_by_key(|task| keyed(task));
            for order in [Order::Ascending, Order::Descending] {
                for (offset, length) in
                    [(0, 0), (0, 1), (0, 50), (50, 50), (1950, 100), (5000, 9), (0, usize::MAX)]
                {
                    let page = tasks.page(|_| true, sort, order, Paging { offset, length });
                    let wanted: Vec<&TaskStatus> = match order {
                        Order::Ascending => {
                            sorted.iter().copied().skip(offset).take(length).collect()
                        }
                        Order::Descending => {
                            sorted.iter().rev().copied().skip(offset).take(length).collect()
                        }
                    };
                    assert!(
                        page.items == wanted && page.total == 2000,
                        "{sort:?} {order:?} {offset} {length}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_first_that_ended_is_forgotten_first_and_what_runs_never() {
        let mut tasks = Tasks::new(2);
        (0..20).for_each(|id| tasks.started(info(id)));
        [7, 3, 15, 1, 25].iter().for_each(|id| tasks.ended(&info(*id), None, None, Tick(9)));
        let forgotten = [7, 3, 15];
        let left: Vec<u64> = (0..20).chain([25]).filter(|id| !forgotten.contains(id)).collect();
        assert_eq!(ids(&tasks), left);
    }
}
