//! Executors: those that live, and those that were lost last.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use firesteel_types::{
    BlockManagerId, ExecutorId, ExecutorInfo, ExecutorMetrics, Host, StageRef, TaskFailure,
    TaskInfo, TaskMetrics, Tick,
};

use crate::AppStatus;
use crate::load::{Load, LoadStep};
use crate::metrics;
use crate::stages::{TaskCounts, rise};
use crate::storage::Change;
use crate::usage::Usage;
use crate::weight::{self, Excess};

/// One executor, or the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ExecutorStatus {
    pub executor: ExecutorId,
    /// Where it runs, and with what. The driver has no cores unless it runs tasks itself.
    pub info: ExecutorInfo,
    /// Where it holds blocks.
    pub block_manager: Option<BlockManagerId>,
    /// Bytes of memory for blocks and running tasks.
    pub max_memory: u64,
    pub added: Tick,
    /// When it was lost, and why.
    pub removed: Option<(Tick, String)>,
    pub tasks: TaskCounts,
    /// From launch to end, milliseconds; of those that have ended.
    pub task_time_ms: u64,
    /// When the tasks that run were launched, added up: how long they have run so far needs no look at each of them.
    launched_ms: u128,
    /// What its tasks that have ended cost.
    pub metrics: TaskMetrics,
    /// Bytes of blocks in memory.
    pub memory_used: u64,
    /// Bytes of blocks on disk.
    pub disk_used: u64,
    /// How many cached partitions it has.
    pub rdd_blocks: u32,
    /// How much of that is not on a JVM's heap, where the log tells.
    pub max_off_heap_memory: Option<u64>,
    /// The most it used; `None` until one of its tasks ends or it tells.
    pub peak: Option<ExecutorMetrics>,
    /// What it used over time, as it and its tasks told.
    pub usage: Usage,
    /// Whether it gets no tasks of the application.
    pub is_excluded: bool,
    /// Stage attempts whose tasks it does not get.
    pub excluded_in: BTreeSet<StageRef>,
}

impl ExecutorStatus {
    fn new(executor: ExecutorId, info: ExecutorInfo, added: Tick) -> Self {
        ExecutorStatus {
            executor,
            info,
            block_manager: None,
            max_memory: 0,
            added,
            removed: None,
            tasks: TaskCounts::default(),
            task_time_ms: 0,
            launched_ms: 0,
            metrics: TaskMetrics::default(),
            memory_used: 0,
            disk_used: 0,
            rdd_blocks: 0,
            max_off_heap_memory: None,
            peak: None,
            usage: Usage::default(),
            is_excluded: false,
            excluded_in: BTreeSet::new(),
        }
    }

    /// How long the tasks that run have run until `now`, all together, milliseconds.
    pub fn running_ms(&self, now: Tick) -> u64 {
        let most = u128::from(self.tasks.active) * u128::from(now.0);
        u64::try_from(most.saturating_sub(self.launched_ms)).unwrap_or(u64::MAX)
    }

    fn weight(&self) -> usize {
        let info = &self.info;
        let texts = weight::texts(&info.log_urls) + weight::texts(&info.attributes);
        let devices = info.resources.iter().map(|(name, addresses)| {
            let addresses = addresses.iter().map(|it| it.len() + size_of::<String>());
            name.len() + weight::ENTRY + addresses.sum::<usize>()
        });
        let reason = self.removed.as_ref().map_or(0, |(_, reason)| reason.len());
        let used = size_of_val(self.usage.samples());
        let excluded = self.excluded_in.len() * weight::ENTRY;
        size_of::<Self>() + texts + devices.sum::<usize>() + reason + used + excluded
    }

    /// Whether it was not lost.
    pub fn is_active(&self) -> bool {
        self.removed.is_none()
    }
}

/// All executors that are remembered.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Executors {
    all: BTreeMap<ExecutorId, ExecutorStatus>,
    /// In the order they were lost.
    dead: VecDeque<ExecutorId>,
    retained: usize,
    forgotten: ForgottenExecutors,
    load: Load,
}

/// What executors did that are not remembered, added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ForgottenExecutors {
    pub executors: u64,
    /// What their tasks cost.
    pub metrics: TaskMetrics,
    /// From launch to end of their tasks, milliseconds.
    pub task_time_ms: u64,
    /// How long each of their cores was there, milliseconds.
    pub core_time_ms: u64,
}

impl ForgottenExecutors {
    fn add(&mut self, executor: &ExecutorStatus, at: Tick) {
        let gone = executor.removed.as_ref().map_or(at, |(at, _)| *at);
        let core_ms = gone.since_ms(executor.added).saturating_mul(u64::from(executor.info.cores));
        self.executors += 1;
        metrics::add(&mut self.metrics, &executor.metrics);
        self.task_time_ms = self.task_time_ms.saturating_add(executor.task_time_ms);
        self.core_time_ms = self.core_time_ms.saturating_add(core_ms);
    }
}

impl Executors {
    pub(crate) fn new(retained: usize) -> Self {
        Executors {
            all: BTreeMap::new(),
            dead: VecDeque::new(),
            retained,
            forgotten: ForgottenExecutors::default(),
            load: Load::default(),
        }
    }

    pub(crate) fn added(&mut self, executor: ExecutorId, info: &ExecutorInfo, at: Tick) {
        let new = ExecutorStatus::new(executor, info.clone(), at);
        let is_new = !self.all.contains_key(&executor);
        let status = self.all.entry(executor).or_insert(new);
        let before = if is_new { 0 } else { i64::from(status.info.cores) };
        status.info = info.clone();
        if status.is_active() {
            self.load.cores(at, i64::from(info.cores) - before);
        }
    }

    pub(crate) fn block_manager_added(
        &mut self,
        id: &BlockManagerId,
        max_memory: u64,
        max_off_heap_memory: Option<u64>,
        at: Tick,
    ) {
        let info = ExecutorInfo::new(id.host.clone(), 0);
        let new = ExecutorStatus::new(id.executor, info, at);
        let status = self.all.entry(id.executor).or_insert(new);
        status.block_manager = Some(id.clone());
        (status.max_memory, status.max_off_heap_memory) = (max_memory, max_off_heap_memory);
    }

    pub(crate) fn removed(&mut self, executor: ExecutorId, reason: &str, at: Tick) {
        let Some(status) = self.all.get_mut(&executor) else { return };
        if status.removed.replace((at, reason.to_owned())).is_none() {
            self.dead.push_back(executor);
            self.load.cores(at, -i64::from(status.info.cores));
            // The ends of its tasks come later, or never.
            self.load.tasks(at, -i64::from(status.tasks.active));
        }
        (status.memory_used, status.disk_used, status.rdd_blocks) = (0, 0, 0);
        while self.dead.len() > self.retained {
            self.forget_first_dead();
        }
    }

    /// How many bytes it took.
    fn forget_first_dead(&mut self) -> usize {
        let Some(oldest) = self.dead.pop_front() else { return 0 };
        let Some(executor) = self.all.remove(&oldest) else { return 0 };
        self.forgotten.add(&executor, executor.added);
        executor.weight()
    }

    pub(crate) fn weight(&self) -> usize {
        self.all.values().map(ExecutorStatus::weight).sum()
    }

    /// Forgets executors that were lost, the first one first.
    pub(crate) fn forget_dead(&mut self, excess: &mut Excess) {
        while excess.is_left() && !self.dead.is_empty() {
            excess.freed(self.forget_first_dead());
        }
    }

    /// Forgets executors of which no end is known, but not the driver.
    pub(crate) fn forget_living(&mut self, excess: &mut Excess, latest: Tick) {
        let driver = self.all.remove(&ExecutorId::DRIVER);
        while excess.is_left() {
            let Some((_, first)) = self.all.pop_first() else { break };
            self.forgotten.add(&first, latest);
            if first.is_active() {
                self.load.cores(latest, -i64::from(first.info.cores));
                self.load.tasks(latest, -i64::from(first.tasks.active));
            }
            excess.freed(first.weight());
        }
        self.all.extend(driver.map(|driver| (ExecutorId::DRIVER, driver)));
    }

    /// Where the driver's output can be read, and what else is told of it.
    pub(crate) fn driver_told(
        &mut self,
        log_urls: &BTreeMap<String, String>,
        attributes: &BTreeMap<String, String>,
    ) {
        self.change(ExecutorId::DRIVER, |driver| {
            driver.info.log_urls.clone_from(log_urls);
            driver.info.attributes.clone_from(attributes);
        });
    }

    fn change(&mut self, executor: ExecutorId, change: impl FnOnce(&mut ExecutorStatus)) {
        self.all.get_mut(&executor).map(change);
    }

    pub(crate) fn task_started(&mut self, task: &TaskInfo) {
        let Some(executor) = self.all.get_mut(&task.executor) else { return };
        executor.tasks.active += 1;
        executor.launched_ms = executor.launched_ms.saturating_add(task.launched.0.into());
        if executor.is_active() {
            self.load.tasks(task.launched, 1);
        }
    }

    pub(crate) fn task_ended(
        &mut self,
        task: &TaskInfo,
        failure: Option<&TaskFailure>,
        cost: Option<&TaskMetrics>,
        at: Tick,
    ) {
        let runs =
            self.all.get(&task.executor).is_some_and(|it| it.is_active() && it.tasks.active > 0);
        if runs {
            self.load.tasks(at, -1);
        }
        self.change(task.executor, |executor| {
            executor.tasks.ended(failure);
            let launched = executor.launched_ms.saturating_sub(task.launched.0.into());
            // A log may have lost the start of a task.
            executor.launched_ms = if executor.tasks.active == 0 { 0 } else { launched };
            executor.task_time_ms =
                executor.task_time_ms.saturating_add(at.since_ms(task.launched));
            if let Some(cost) = cost {
                metrics::add(&mut executor.metrics, cost);
            }
            let peak = cost.and_then(|cost| cost.executor.as_deref());
            rise(&mut executor.peak, peak);
            if let Some(peak) = peak {
                executor.usage.add(at, peak, executor.metrics.cpu_time_ns);
            }
        });
    }

    /// What an executor told of itself, and the processor time of its running tasks so far.
    pub(crate) fn used(
        &mut self,
        executor: ExecutorId,
        metrics: &ExecutorMetrics,
        running_ns: u64,
        at: Tick,
    ) {
        self.change(executor, |executor| {
            let cpu_ns = executor.metrics.cpu_time_ns.saturating_add(running_ns);
            executor.usage.add(at, metrics, cpu_ns);
        });
    }

    pub(crate) fn excluded(&mut self, executor: ExecutorId, stage: Option<StageRef>) {
        self.change(executor, |executor| match stage {
            None => executor.is_excluded = true,
            Some(stage) => drop(executor.excluded_in.insert(stage)),
        });
    }

    /// A stage attempt is over: nobody is excluded from it any more.
    pub(crate) fn stage_completed(&mut self, stage: StageRef) {
        for executor in self.all.values_mut() {
            executor.excluded_in.remove(&stage);
        }
    }

    pub(crate) fn unexcluded(&mut self, executor: ExecutorId) {
        self.change(executor, |executor| executor.is_excluded = false);
    }

    pub(crate) fn on_node(&self, host: &Host) -> Vec<ExecutorId> {
        let there = self.all.values().filter(|executor| executor.info.host == *host);
        there.map(|executor| executor.executor).collect()
    }

    /// A driver on the node runs no tasks: nothing is kept from it.
    pub(crate) fn node_excluded(&mut self, host: &Host, stage: Option<StageRef>) {
        let there = self.on_node(host).into_iter().filter(|it| *it != ExecutorId::DRIVER);
        there.for_each(|executor| self.excluded(executor, stage));
    }

    pub(crate) fn node_unexcluded(&mut self, host: &Host) {
        self.on_node(host).into_iter().for_each(|executor| self.unexcluded(executor));
    }

    pub(crate) fn metrics(&mut self, executor: ExecutorId, metrics: ExecutorMetrics) {
        self.change(executor, |executor| rise(&mut executor.peak, Some(&metrics)));
    }

    pub(crate) fn block_changed(&mut self, executor: ExecutorId, change: Change) {
        self.change(executor, |executor| {
            executor.memory_used = executor.memory_used.saturating_add_signed(change.memory);
            executor.disk_used = executor.disk_used.saturating_add_signed(change.disk);
            executor.rdd_blocks = executor.rdd_blocks.saturating_add_signed(change.rdd_blocks);
        });
    }
}

impl AppStatus {
    /// One executor, or the driver.
    pub fn executor(&self, executor: ExecutorId) -> Option<&ExecutorStatus> {
        self.executors.all.get(&executor)
    }

    /// What executors did that are not remembered any more.
    pub fn forgotten_executors(&self) -> &ForgottenExecutors {
        &self.executors.forgotten
    }

    /// How many tasks ran and how many cores there were, from the first executor until a moment, whatever of it is forgotten.
    pub fn load(&self, until: Tick) -> Vec<LoadStep> {
        self.executors.load.until(until)
    }

    /// All that are remembered, the driver last.
    pub fn executors(&self) -> impl Iterator<Item = &ExecutorStatus> {
        self.executors.all.values()
    }
}
