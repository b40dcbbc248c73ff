//! The status of an application: [`AppStatus`], a pure function of its events. Pages, REST, the console and the history
//! server read it and nothing else, so that a running application and its log look the same.
//!
//! | file | owns |
//! |---|---|
//! | `jobs`, `stages`, `tasks` | what runs and what ran, within [`Retention`] |
//! | `executors`, `usage`, `storage` | who runs it, what they use over time, what they hold |
//! | `load` | how many cores ran tasks over time |
//! | `metrics` | what tasks cost, added up and packed |
//! | `totals` | what happened since the application began, whatever of it is forgotten |
//! | `page` | a part of a long list, sorted |
//! | `weight` | how much memory all of it takes, what is forgotten when that is too much |
//! | `insights` | what could be better, in words |
//!
//! What is over is forgotten, the oldest first, beyond `spark.ui.retainedJobs` and its like; what runs is not, unless the status would take
//! more memory than it may. Events
//! that were lost on the way leave gaps, never a panic: whatever an event refers to that is not there is skipped.

mod bits;
mod executors;
mod insights;
mod jobs;
mod load;
mod metrics;
mod page;
mod retention;
mod stages;
mod storage;
mod tasks;
#[cfg(test)]
mod tests;
mod totals;
mod usage;
mod weight;

use std::collections::BTreeMap;
use std::sync::Arc;

use firesteel_types::{Event, ExecutorId, ProcessInfo, ResourceProfile, TaskInfo, Tick};

use executors::Executors;
use jobs::Jobs;
use stages::Stages;
use storage::Storage;
use weight::Limit;

pub use executors::{ExecutorStatus, ForgottenExecutors};
pub use insights::{Insight, InsightKind};
pub use jobs::{JobState, JobStatus};
pub use load::LoadStep;
pub use metrics::{CostReader, TaskCost};
pub use page::{Order, Page, Paging};
pub use retention::Retention;
pub use stages::{ExecutorTotals, StageState, StageStatus, TaskCounts};
pub use storage::{CachedBlock, RddStatus};
pub use tasks::{TaskSelection, TaskSort, TaskState, TaskStatus};
pub use totals::Totals;
pub use usage::{Usage, UsageSample};

/// What is known of the application itself.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Application {
    /// The version of the engine that runs it.
    pub version: String,
    pub id: String,
    /// Which attempt of it this is, where a cluster manager counts them.
    pub attempt_id: Option<String>,
    pub name: String,
    /// The user that the driver runs as.
    pub user: String,
    /// Where the driver's output can be read, by name.
    pub driver_log_urls: BTreeMap<String, String>,
    /// What the driver's cluster manager tells of it.
    pub driver_attributes: BTreeMap<String, String>,
    pub started: Tick,
    /// Until when, if it is over.
    pub ended: Option<Tick>,
    /// What the program ended with, if it is over and somebody knew.
    pub exit_code: Option<i32>,
    /// Its settings, secrets redacted.
    pub properties: Vec<(String, String)>,
    /// What it runs on.
    pub runtime: BTreeMap<String, String>,
    /// The executable and files: who handed them over.
    pub resources: BTreeMap<String, String>,
    /// Further lists of settings by their names: those of a JVM, of Hadoop, of metrics.
    pub others: BTreeMap<String, Vec<(String, String)>>,
    /// What its executors and tasks ask for.
    pub profiles: BTreeMap<u32, ResourceProfile>,
    /// Processes that are neither its driver nor executors, and since when they are there. The first thousand.
    pub processes: BTreeMap<String, (ProcessInfo, Tick)>,
}

/// More processes are not remembered: an application has one.
const PROCESSES: usize = 1000;
/// Nor more profiles, or names of executors.
const PROFILES: usize = 1000;
const NAMES: usize = 100_000;
/// Nor a process or profile that takes more bytes.
const DESCRIPTION: usize = 4 << 10;

/// The status of an application.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct AppStatus {
    application: Application,
    jobs: Jobs,
    stages: Stages,
    executors: Executors,
    storage: Storage,
    totals: Totals,
    /// When the last thing happened to a task.
    latest: Tick,
    names: BTreeMap<ExecutorId, Arc<str>>,
    unknown_events: u64,
    lost_events: u64,
    /// Why executors are missing.
    shortage: Option<String>,
    #[cfg_attr(feature = "serde", serde(skip))]
    limit: Limit,
}

impl AppStatus {
    /// Of an application without events so far.
    pub fn new(retention: Retention) -> Self {
        AppStatus {
            application: Application::default(),
            jobs: Jobs::new(retention.jobs),
            stages: Stages::new(retention.stages, retention.tasks),
            executors: Executors::new(retention.dead_executors),
            storage: Storage::default(),
            totals: Totals::default(),
            latest: Tick(0),
            names: BTreeMap::new(),
            unknown_events: 0,
            lost_events: 0,
            shortage: None,
            limit: Limit::default(),
        }
    }

    /// Takes one event that nobody else needs.
    pub fn take(&mut self, event: Event) {
        match event {
            Event::TaskStart { task, .. } => self.task_started(task),
            other => self.apply(&other),
        }
    }

    fn task_started(&mut self, task: TaskInfo) {
        self.trim_now_and_then();
        self.latest = self.latest.max(task.launched);
        self.executors.task_started(&task);
        let jobs = self.stages.task_started(task);
        self.jobs.task_started(jobs);
    }

    /// Events come in the order in which they happened; one of an unknown thing changes nothing.
    pub fn apply(&mut self, event: &Event) {
        self.trim_now_and_then();
        self.totals.apply(event);
        match event {
            Event::LogStart { .. }
            | Event::ApplicationStart { .. }
            | Event::ApplicationEnd { .. }
            | Event::EnvironmentUpdate { .. }
            | Event::ResourceProfileAdded { .. }
            | Event::MiscellaneousProcessAdded { .. } => {
                self.application.apply(event);
                self.tell_driver();
            }
            Event::JobStart { job, properties, stages, at } => {
                self.stages.job_started(*job, stages);
                self.storage.stages_made(stages);
                self.jobs.started(*job, properties, stages, *at);
            }
            Event::JobEnd { job, result, at } => {
                let skipped = self.stages.job_ended(*job, self.jobs.stages_of(*job));
                if let Some(begin) = self.jobs.running_since(*job) {
                    self.totals.job_ended(result.is_ok(), at.since_ms(begin), &skipped);
                }
                self.jobs.ended(*job, result, &skipped, *at);
            }
            Event::StageSubmitted { stage, properties, at } => {
                let jobs = self.jobs.active_with(stage.stage.stage);
                self.storage.stages_made(std::slice::from_ref(stage));
                self.stages.submitted(stage, properties, jobs.clone(), *at);
                self.jobs.stage_submitted(&jobs);
            }
            Event::StageCompleted { stage, failure, at } => {
                let jobs = self.stages.completed(stage, failure.as_deref(), *at);
                self.jobs.stage_completed(&jobs, failure.is_some());
                self.executors.stage_completed(stage.stage);
            }
            Event::TaskStart { task, .. } => self.task_started(task.clone()),
            Event::TaskGettingResult { task, .. } => self.stages.getting_result(task),
            Event::TaskEnd { task, failure, metrics, at } => {
                self.latest = self.latest.max(*at);
                let jobs = self.stages.task_ended(task, failure.as_ref(), metrics.as_deref(), *at);
                self.jobs.task_ended(jobs, task, failure.as_ref());
                self.executors.task_ended(task, failure.as_ref(), metrics.as_deref(), *at);
            }
            Event::SpeculativeTaskSubmitted { stage, .. } => self.stages.speculated(*stage),
            Event::TaskResubmitted { stage, partition, .. } => {
                let jobs = self.stages.resubmitted(*stage, *partition);
                self.jobs.task_resubmitted(jobs, stage.stage, *partition);
            }
            Event::AccumulableUpdated { stage, task, accumulable, .. } => {
                self.stages.accumulated(*stage, *task, accumulable);
            }
            other => self.apply_to_executors(other),
        }
    }

    fn apply_to_executors(&mut self, event: &Event) {
        match event {
            Event::ExecutorAdded { executor, info, at } => {
                self.executors.added(*executor, info, *at);
                self.tell_driver();
            }
            Event::ExecutorRemoved { executor, reason, at } => {
                self.executors.removed(*executor, reason, *at);
                self.storage.executor_removed(*executor);
            }
            Event::ExecutorsMissing { shortage, .. } => self.shortage.clone_from(shortage),
            Event::ExecutorExcluded { executor, stage, .. } => {
                self.executors.excluded(*executor, *stage);
                stage.iter().for_each(|stage| self.stages.excluded(*stage, *executor));
            }
            Event::ExecutorUnexcluded { executor, .. } => self.executors.unexcluded(*executor),
            Event::NodeExcluded { host, stage, .. } => {
                self.executors.node_excluded(host, *stage);
                let Some(stage) = stage else { return };
                let there = self.executors.on_node(host).into_iter();
                there
                    .filter(|executor| *executor != ExecutorId::DRIVER)
                    .for_each(|executor| self.stages.excluded(*stage, executor));
            }
            Event::NodeUnexcluded { host, .. } => self.executors.node_unexcluded(host),
            Event::ExecutorMetricsUpdate { executor, metrics, stages, tasks, at } => {
                self.executors.metrics(*executor, *metrics);
                let running = tasks.iter().map(|task| task.metrics.cpu_time_ns);
                let running = running.fold(0u64, u64::saturating_add);
                let at = at.unwrap_or(self.latest);
                self.executors.used(*executor, metrics, running, at);
                for peak in stages {
                    self.stages.peaked(peak.stage, *executor, peak.metrics);
                }
                tasks.iter().for_each(|task| self.stages.running(task));
            }
            Event::StageExecutorMetrics { stage, executor, metrics } => {
                self.executors.metrics(*executor, *metrics);
                self.stages.peaked(*stage, *executor, *metrics);
            }
            Event::BlockManagerAdded { id, max_memory, max_off_heap_memory, at } => {
                self.executors.block_manager_added(id, *max_memory, *max_off_heap_memory, *at);
                self.tell_driver();
            }
            Event::BlockManagerRemoved { id, .. } => self.storage.executor_removed(id.executor),
            Event::BlockUpdated { block, executor, memory_bytes, disk_bytes, .. } => {
                let sizes = (*memory_bytes, *disk_bytes);
                let change = self.storage.block_updated(block, *executor, sizes);
                self.executors.block_changed(*executor, change);
            }
            Event::UnpersistRdd { rdd } => {
                for (executor, change) in self.storage.unpersisted(*rdd) {
                    self.executors.block_changed(executor, change);
                }
            }
            Event::BroadcastRemoved { .. } => {}
            Event::EventsLost { events } => {
                self.lost_events = self.lost_events.saturating_add(*events);
            }
            _ => self.unknown_events += 1,
        }
    }

    /// What the application tells of its driver is told among the executors too, whichever of both came first.
    fn tell_driver(&mut self) {
        let Application { driver_log_urls, driver_attributes, .. } = &self.application;
        if !driver_log_urls.is_empty() || !driver_attributes.is_empty() {
            self.executors.driver_told(driver_log_urls, driver_attributes);
        }
    }

    /// Why executors are missing, in one sentence, if the driver has waited for some for a while.
    pub fn shortage(&self) -> Option<&str> {
        self.shortage.as_deref()
    }

    /// What happened since the application began.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    pub fn application(&self) -> &Application {
        &self.application
    }

    /// The latest moment that it knows of: until when an application ran whose log just ends.
    pub fn last_moment(&self) -> Tick {
        let stages = self.stages(|_| true, Order::Ascending, Paging::ALL).items;
        let of_stages = stages.iter().filter_map(|stage| stage.completed.or(stage.last_task));
        let of_executors =
            self.executors().map(|it| it.removed.as_ref().map_or(it.added, |(at, _)| *at));
        let of_jobs = self.jobs(|_| true, Order::Ascending, Paging::ALL).items;
        let of_jobs = of_jobs.iter().map(|job| job.completed.unwrap_or(job.submitted));
        let last = of_stages.chain(of_executors).chain(of_jobs).max();
        last.unwrap_or(self.application.started).max(self.latest)
    }

    /// Tells what another engine calls an executor whose name is not a number.
    pub fn name_executor(&mut self, executor: ExecutorId, name: &str) {
        if self.names.len() < NAMES {
            self.names.insert(executor, name.into());
        }
    }

    /// What an executor is called.
    pub fn executor_name(&self, executor: ExecutorId) -> String {
        let name = self.names.get(&executor);
        name.map_or_else(|| executor.to_string(), |name| name.to_string())
    }

    /// Events that a log lacks because it was written too slowly: the status has gaps.
    pub fn lost_events(&self) -> u64 {
        self.lost_events
    }

    /// Events that this version knows nothing of.
    pub fn unknown_events(&self) -> u64 {
        self.unknown_events
    }
}

impl Application {
    fn apply(&mut self, event: &Event) {
        match event {
            Event::LogStart { version } => self.version.clone_from(version),
            Event::ApplicationStart {
                name,
                app_id,
                attempt_id,
                user,
                driver_log_urls,
                driver_attributes,
                at,
            } => {
                (self.id, self.name, self.user) = (app_id.clone(), name.clone(), user.clone());
                self.attempt_id.clone_from(attempt_id);
                self.driver_log_urls.clone_from(driver_log_urls);
                self.driver_attributes.clone_from(driver_attributes);
                self.started = *at;
            }
            Event::ApplicationEnd { exit_code, at } => {
                (self.exit_code, self.ended) = (*exit_code, Some(*at));
            }
            Event::EnvironmentUpdate { properties, runtime, resources, others } => {
                self.others.clone_from(others);
                self.properties.clone_from(properties);
                self.runtime.clone_from(runtime);
                self.resources.clone_from(resources);
            }
            Event::ResourceProfileAdded { profile }
                if self.profiles.len() < PROFILES && weight::profile(profile) < DESCRIPTION =>
            {
                self.profiles.insert(profile.id, profile.clone());
            }
            Event::MiscellaneousProcessAdded { id, info, at }
                if (self.processes.len() < PROCESSES || self.processes.contains_key(id))
                    && id.len() + weight::process(info) < DESCRIPTION =>
            {
                self.processes.insert(id.clone(), (info.clone(), *at));
            }
            _ => {}
        }
    }
}
