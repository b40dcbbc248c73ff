//! Our events as lines of Spark's event log: the writer's half of Spark's `JsonProtocol`.
//!
//! Spark tells accumulators with the end of a task and of a stage; ours follow the task's end one by one. So the end of a
//! task waits for the next event. [`Encoder::finish`] writes what waits.

use std::collections::BTreeMap;

use firesteel_types::event::{RddScope, StageRdd};
use firesteel_types::{
    Accumulable, AccumulatorId, BlockManagerId, Determinism, Event, ExecutorInfo, ExecutorMetrics,
    JobError, JobId, ProcessInfo, Properties, ResourceProfile, StageInfo, StageRef, TaskFailure,
    TaskInfo, TaskMetrics, Tick,
};
use serde::Serialize;

use super::decode::{ACCUMULATED, JVM_NAMES, LOST, MISSING, OWN_VERSION, RESUBMITTED};
use super::failure;
use super::metrics::{Cost, Peaks};
use super::model::{self, Line};
use super::port_of;
use super::text::{Int, Pairs, Str};

/// What goes into a log besides what always does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// `spark.eventLog.logBlockUpdates.enabled`
    pub block_updates: bool,
    /// `spark.eventLog.logStageExecutorMetrics`
    pub executor_metrics: bool,
}

/// Writes the lines of one log.
#[derive(Debug, Default)]
pub struct Encoder {
    extent: Extent,
    /// The end of a task whose accumulators may follow.
    waiting: Option<Waiting>,
    /// What accumulators have come to, by the stage attempts that run.
    totals: BTreeMap<StageRef, BTreeMap<AccumulatorId, Accumulable>>,
    /// Whether tasks of a stage attempt write map outputs.
    kinds: BTreeMap<StageRef, bool>,
}

#[derive(Debug)]
struct Waiting {
    end: Event,
    accumulables: Vec<Accumulable>,
}

impl Encoder {
    /// Of a log with these extras.
    pub fn new(extent: Extent) -> Self {
        Encoder { extent, ..Encoder::default() }
    }

    /// Adds the lines of an event to `out`, with their ends. Some events only wait, and some have no line.
    pub fn encode(&mut self, event: &Event, out: &mut Vec<u8>) {
        if let Event::AccumulableUpdated { stage, task, accumulable, at } = event {
            self.accumulated(*stage, *task, accumulable, *at, out);
            return;
        }
        self.finish(out);
        match event {
            Event::TaskEnd { .. } => {
                self.waiting = Some(Waiting { end: event.clone(), accumulables: Vec::new() });
            }
            Event::StageSubmitted { stage, properties, at } => {
                self.kinds.insert(stage.stage, stage.shuffle_map);
                let properties = Some(properties_of(properties));
                let mut stage = stage_of(stage, Vec::new());
                stage.submitted = stage.submitted.or(Some(Int::of(at.0)));
                put("SparkListenerStageSubmitted", model::StageEvent { stage, properties }, out);
            }
            Event::StageCompleted { stage, failure, at } => {
                self.kinds.remove(&stage.stage);
                let totals = self.totals.remove(&stage.stage).unwrap_or_default();
                let totals: Vec<_> =
                    totals.values().map(|total| accumulated(total, false)).collect();
                let mut stage = stage_of(stage, totals);
                stage.completed = Some(Int::of(at.0));
                stage.failure = failure.as_deref().map(Str::new);
                let properties = None;
                put("SparkListenerStageCompleted", model::StageEvent { stage, properties }, out);
            }
            other => write(other, self.extent, out),
        }
    }

    /// Writes what waits for the next event.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let Some(Waiting { end, accumulables }) = self.waiting.take() else { return };
        if let Event::TaskEnd { task, failure, metrics, at } = &end {
            let shuffle_map = self.kinds.get(&task.stage).copied().unwrap_or(false);
            task_end(
                (task, shuffle_map),
                failure.as_ref(),
                metrics.as_deref(),
                &accumulables,
                *at,
                out,
            );
        }
    }

    fn accumulated(
        &mut self,
        stage: StageRef,
        task: Option<firesteel_types::TaskId>,
        accumulable: &Accumulable,
        at: Tick,
        out: &mut Vec<u8>,
    ) {
        if self.kinds.contains_key(&stage) {
            self.totals.entry(stage).or_default().insert(accumulable.id, accumulable.clone());
        }
        let ended = match &self.waiting {
            Some(Waiting { end: Event::TaskEnd { task, .. }, .. }) => Some(task.task),
            _ => None,
        };
        match &mut self.waiting {
            Some(waiting) if ended == task => waiting.accumulables.push(accumulable.clone()),
            // The end of the task is written already: several tasks end at once.
            _ => {
                self.finish(out);
                late(stage, task, accumulable, at, out);
            }
        }
    }
}

fn late(
    stage: StageRef,
    task: Option<firesteel_types::TaskId>,
    accumulable: &Accumulable,
    at: Tick,
    out: &mut Vec<u8>,
) {
    // Without a task it is the total of a stage, which is told with the stage.
    let Some(task) = task else { return };
    let (stage, attempt) = stage_numbers(stage);
    let (task, at, accumulable) = (Int::of(task.0), Int::of(at.0), accumulated(accumulable, true));
    put_by_class(
        ACCUMULATED,
        model::LateAccumulated { stage, attempt, task, accumulable, at },
        out,
    );
}

fn put<T: Serialize>(name: &str, fields: T, out: &mut Vec<u8>) {
    let before = out.len();
    match serde_json::to_writer(&mut *out, &Line { event: name, fields }) {
        Ok(()) => out.push(b'\n'),
        Err(error) => {
            out.truncate(before);
            tracing::error!(%error, event = name, "an event could not be written as JSON");
        }
    }
}

/// In the package of Spark's own events: only there it looks for events that it does not know by name, and reads
/// over those that are not there.
fn put_by_class<T: Serialize>(name: &str, fields: T, out: &mut Vec<u8>) {
    put(&format!("org.apache.spark.scheduler.{name}"), fields, out);
}

fn write(event: &Event, extent: Extent, out: &mut Vec<u8>) {
    match event {
        Event::LogStart { version } => {
            let (version, own_version) = (Str::new(version), Some(Str::new(version)));
            put("SparkListenerLogStart", model::LogStart { version, own_version }, out);
        }
        Event::ApplicationStart { .. } => application_start(event, out),
        Event::ApplicationEnd { exit_code, at } => {
            let exit_code = exit_code.map(|code| Int(code.into()));
            let end = model::ApplicationEnd { at: Int::of(at.0), exit_code };
            put("SparkListenerApplicationEnd", end, out);
        }
        Event::EnvironmentUpdate { properties, runtime, resources, others } => {
            let list = |name: &str| of_list(others.get(name));
            let is_ours = runtime.contains_key(OWN_VERSION);
            let of_jvm = JVM_NAMES.iter().filter(|_| is_ours);
            let of_jvm = of_jvm.map(|(name, ours)| (*name, runtime.get(*ours).map_or("", |it| it)));
            let environment = model::Environment {
                runtime: Pairs::of(runtime.iter().map(borrowed).chain(of_jvm)),
                properties: of_list(Some(properties)),
                hadoop: list("Hadoop Properties"),
                system: list("System Properties"),
                metrics: list("Metrics Properties"),
                resources: Pairs::of(resources.iter().map(borrowed)),
            };
            put("SparkListenerEnvironmentUpdate", environment, out);
        }
        Event::ResourceProfileAdded { profile } => {
            put("SparkListenerResourceProfileAdded", profile_of(profile), out);
        }
        Event::MiscellaneousProcessAdded { id, info, at } => process_added(id, info, *at, out),
        Event::JobStart { job, properties, stages, at } => {
            let start = model::JobStart {
                job: Int::of(job.0.into()),
                at: Int::of(at.0),
                stages: stages.iter().map(|stage| stage_of(stage, Vec::new())).collect(),
                ids: stages.iter().map(|stage| Int::of(stage.stage.stage.0.into())).collect(),
                properties: properties_of(properties),
            };
            put("SparkListenerJobStart", start, out);
        }
        Event::JobEnd { job, result, at } => job_end(*job, result, *at, out),
        Event::TaskStart { task, .. } => {
            let (stage, attempt) = stage_numbers(task.stage);
            let task = task_of(task);
            let start = model::TaskEvent { stage, attempt, task, ..Default::default() };
            put("SparkListenerTaskStart", start, out);
        }
        Event::TaskGettingResult { task, at } => {
            let (stage, attempt) = stage_numbers(task.stage);
            let task = model::Task { getting_result: Int::of(at.0), ..task_of(task) };
            put("SparkListenerTaskGettingResult", model::OnlyTask { task, stage, attempt }, out);
        }
        Event::SpeculativeTaskSubmitted { stage, index, partition } => {
            let (stage, attempt) = stage_numbers(*stage);
            let (index, partition) = (Int::of((*index).into()), Int::of((*partition).into()));
            let copy = model::Speculated { stage, attempt, index, partition };
            put_by_class("SparkListenerSpeculativeTaskSubmitted", copy, out);
        }
        Event::TaskResubmitted { stage, index, partition, executor, at } => {
            let (stage, attempt) = stage_numbers(*stage);
            let (index, partition) = (Int::of((*index).into()), Int::of((*partition).into()));
            let (executor, at) = (Str::owned(executor.to_string()), Int::of(at.0));
            let again = model::Resubmitted { stage, attempt, index, partition, executor, at };
            put_by_class(RESUBMITTED, again, out);
        }
        other => write_of_executors(other, extent, out),
    }
}

fn write_of_executors(event: &Event, extent: Extent, out: &mut Vec<u8>) {
    match event {
        Event::ExecutorAdded { executor, info, at } => {
            let (executor, at) = (Str::owned(executor.to_string()), Int::of(at.0));
            let added = model::ExecutorAdded { at, executor, info: info_of(info, at) };
            put("SparkListenerExecutorAdded", added, out);
        }
        Event::ExecutorRemoved { executor, reason, at } => {
            let (executor, at) = (Str::owned(executor.to_string()), Int::of(at.0));
            let removed = model::ExecutorRemoved { at, executor, reason: Str::new(reason) };
            put("SparkListenerExecutorRemoved", removed, out);
        }
        Event::ExecutorExcluded { .. }
        | Event::ExecutorUnexcluded { .. }
        | Event::NodeExcluded { .. }
        | Event::NodeUnexcluded { .. } => exclusion(event, out),
        Event::ExecutorMetricsUpdate { .. } if extent.executor_metrics => {
            metrics_update(event, out)
        }
        Event::StageExecutorMetrics { stage, executor, metrics } if extent.executor_metrics => {
            let (stage, attempt) = stage_numbers(*stage);
            let executor = Str::owned(executor.to_string());
            let peak =
                model::StageExecutorMetrics { executor, stage, attempt, metrics: metrics.into() };
            put("SparkListenerStageExecutorMetrics", peak, out);
        }
        Event::BlockManagerAdded { id, max_memory, max_off_heap_memory, at } => {
            let off_heap = max_off_heap_memory.map(Int::of);
            let on_heap = max_off_heap_memory.map(|off| Int::of(max_memory.saturating_sub(off)));
            let (id, memory, at) = (manager_of(id), Int::of(*max_memory), Int::of(at.0));
            let added = model::ManagerAdded { id, memory, at, on_heap, off_heap };
            put("SparkListenerBlockManagerAdded", added, out);
        }
        Event::BlockManagerRemoved { id, at } => {
            let removed = model::ManagerRemoved { id: manager_of(id), at: Int::of(at.0) };
            put("SparkListenerBlockManagerRemoved", removed, out);
        }
        Event::BlockUpdated { block, executor, memory_bytes, disk_bytes, level }
            if extent.block_updates =>
        {
            let executor = Str::owned(executor.to_string());
            let info = model::BlockInfo {
                manager: model::ManagerId { executor, host: Str::new(""), port: port_of(0) },
                block: Str::new(block),
                level: (*level).into(),
                memory: Int::of(*memory_bytes),
                disk: Int::of(*disk_bytes),
            };
            put("SparkListenerBlockUpdated", model::BlockUpdated { info }, out);
        }
        Event::UnpersistRdd { rdd } => {
            let unpersisted = model::Unpersist { rdd: Int::of(rdd.0.into()) };
            put("SparkListenerUnpersistRDD", unpersisted, out);
        }
        Event::ExecutorsMissing { shortage, at } => {
            let shortage = shortage.as_deref().map(Str::new);
            put_by_class(MISSING, model::Missing { shortage, at: Int::of(at.0) }, out);
        }
        Event::EventsLost { events } => {
            put_by_class(LOST, model::Lost { events: Int::of(*events) }, out);
        }
        // Spark knows nothing of the end of a broadcast, and nobody of an event that is unknown.
        _ => {}
    }
}

fn metrics_update(event: &Event, out: &mut Vec<u8>) {
    let Event::ExecutorMetricsUpdate { executor, metrics, stages, tasks, at } = event else {
        return;
    };
    let of_all = (Int(-1), Int(-1), metrics);
    let of_stages = stages.iter().map(|peak| {
        let (stage, attempt) = stage_numbers(peak.stage);
        (stage, attempt, &peak.metrics)
    });
    let all = std::iter::once(of_all).chain(of_stages);
    let peaks = all.map(|(stage, attempt, metrics)| {
        let metrics = metrics.into();
        model::StagePeaks { stage, attempt, metrics }
    });
    let update = model::MetricsUpdate {
        executor: Str::owned(executor.to_string()),
        accumulators: [],
        peaks: peaks.collect(),
        running: tasks.clone(),
        at: *at,
    };
    put("SparkListenerExecutorMetricsUpdate", update, out);
}

fn exclusion(event: &Event, out: &mut Vec<u8>) {
    let none = model::Excluded::default;
    let numbers = |stage: &Option<StageRef>| {
        let numbers = stage.map(stage_numbers);
        (numbers.map(|(stage, _)| stage), numbers.map(|(_, attempt)| attempt))
    };
    let suffix = |stage: &Option<StageRef>| if stage.is_some() { "ForStage" } else { "" };
    let (name, fields) = match event {
        Event::ExecutorExcluded { executor, stage, failures, at } => {
            let executor = Some(Str::owned(executor.to_string()));
            let task_failures = Some(Int::of((*failures).into()));
            let ((of, attempt), at) = (numbers(stage), Int::of(at.0));
            let name = format!("SparkListenerExecutorExcluded{}", suffix(stage));
            (name, model::Excluded { at, executor, task_failures, stage: of, attempt, ..none() })
        }
        Event::ExecutorUnexcluded { executor, at } => {
            let executor = Some(Str::owned(executor.to_string()));
            let fields = model::Excluded { at: Int::of(at.0), executor, ..none() };
            ("SparkListenerExecutorUnexcluded".to_owned(), fields)
        }
        Event::NodeExcluded { host, stage, failures, at } => {
            let host = Some(Str::new(&host.0));
            let executor_failures = Some(Int::of((*failures).into()));
            let ((of, attempt), at) = (numbers(stage), Int::of(at.0));
            let name = format!("SparkListenerNodeExcluded{}", suffix(stage));
            (name, model::Excluded { at, host, executor_failures, stage: of, attempt, ..none() })
        }
        Event::NodeUnexcluded { host, at } => {
            let host = Some(Str::new(&host.0));
            let fields = model::Excluded { at: Int::of(at.0), host, ..none() };
            ("SparkListenerNodeUnexcluded".to_owned(), fields)
        }
        _ => return,
    };
    put_by_class(&name, fields, out);
}

fn application_start(event: &Event, out: &mut Vec<u8>) {
    let Event::ApplicationStart {
        name,
        app_id,
        attempt_id,
        user,
        driver_log_urls,
        driver_attributes,
        at,
    } = event
    else {
        return;
    };
    let told = |map: &BTreeMap<String, String>| !map.is_empty();
    let logs = told(driver_log_urls).then(|| Pairs::of(driver_log_urls.iter().map(borrowed)));
    let attributes =
        told(driver_attributes).then(|| Pairs::of(driver_attributes.iter().map(borrowed)));
    let start = model::ApplicationStart {
        name: Str::new(name),
        id: Some(Str::new(app_id)),
        at: Int::of(at.0),
        user: Str::new(user),
        attempt: attempt_id.as_deref().map(Str::new),
        logs,
        attributes,
    };
    put("SparkListenerApplicationStart", start, out);
}

fn job_end(job: JobId, result: &Result<(), JobError>, at: Tick, out: &mut Vec<u8>) {
    let result = match result {
        Ok(()) => model::JobResult { result: Str::new("JobSucceeded"), ..Default::default() },
        Err(error) => model::JobResult {
            result: Str::new("JobFailed"),
            exception: Some(model::Exception { message: Str::owned(error.to_string()), stack: [] }),
            error: Some(error.clone()),
        },
    };
    let end = model::JobEnd { job: Int::of(job.0.into()), at: Int::of(at.0), result };
    put("SparkListenerJobEnd", end, out);
}

fn task_end(
    (task, shuffle_map): (&TaskInfo, bool),
    failure: Option<&TaskFailure>,
    metrics: Option<&TaskMetrics>,
    accumulables: &[Accumulable],
    at: Tick,
    out: &mut Vec<u8>,
) {
    let (stage, attempt) = stage_numbers(task.stage);
    let getting = metrics.map_or(0, |metrics| metrics.getting_result_time_ms);
    let killed = matches!(failure, Some(TaskFailure::Killed { .. }));
    let peaks = metrics.and_then(|metrics| metrics.executor.as_deref()).copied();
    let end = model::TaskEvent {
        stage,
        attempt,
        kind: Some(Str::new(if shuffle_map { "ShuffleMapTask" } else { "ResultTask" })),
        reason: Some(failure::reason(failure)),
        task: model::Task {
            finished: Int::of(at.0),
            getting_result: Int::of(if getting > 0 { at.0.saturating_sub(getting) } else { 0 }),
            failed: failure.is_some() && !killed,
            killed,
            accumulables: accumulables.iter().map(|of| accumulated(of, true)).collect(),
            ..task_of(task)
        },
        peaks: Some(Peaks::from(&peaks.unwrap_or_else(ExecutorMetrics::default))),
        cost: metrics.map(Cost::from),
    };
    put("SparkListenerTaskEnd", end, out);
}

fn stage_numbers(stage: StageRef) -> (Int, Int) {
    (Int::of(stage.stage.0.into()), Int::of(stage.attempt.into()))
}

fn borrowed<'a>((name, value): (&'a String, &'a String)) -> (&'a str, &'a str) {
    (name, value)
}

fn of_list(list: Option<&Vec<(String, String)>>) -> Pairs<'_> {
    Pairs::of(list.into_iter().flatten().map(|(name, value)| (name.as_str(), value.as_str())))
}

fn properties_of(properties: &Properties) -> Pairs<'_> {
    let mut pairs = Pairs::of(properties.iter());
    if !properties.tags().is_empty() {
        let tags: Vec<&str> = properties.tags().iter().map(String::as_str).collect();
        pairs.0.push((Str::new(Properties::TAGS), Str::owned(tags.join(","))));
    }
    pairs
}

fn process_added(id: &str, info: &ProcessInfo, at: Tick, out: &mut Vec<u8>) {
    let info = model::Process {
        address: Str::new(&info.address),
        cores: Int::of(info.cores.into()),
        logs: Pairs::of(info.log_urls.iter().map(borrowed)),
    };
    let added = model::ProcessAdded { at: Int::of(at.0), id: Str::new(id), info };
    put_by_class("SparkListenerMiscellaneousProcessAdded", added, out);
}

fn profile_of(profile: &ResourceProfile) -> model::ProfileAdded<'_> {
    let executor = profile.executor.iter().map(|(name, amount)| {
        let device = profile.devices.get(name);
        let script = Str::new(device.map_or("", |device| &device.discovery_script));
        let vendor = Str::new(device.map_or("", |device| &device.vendor));
        let amount = Int::of(*amount);
        let request = model::ExecutorRequest { name: Str::new(name), amount, script, vendor };
        (name.into(), request)
    });
    let task = profile.task.iter().map(|(name, amount)| {
        (name.into(), model::TaskRequest { name: Str::new(name), amount: *amount })
    });
    model::ProfileAdded {
        id: Int::of(profile.id.into()),
        executor: executor.collect(),
        task: task.collect(),
    }
}

fn info_of(info: &ExecutorInfo, at: Int) -> model::Info<'_> {
    let resources = info.resources.iter().map(|(name, addresses)| {
        let addresses = addresses.iter().map(|address| Str::new(address)).collect();
        (name.into(), model::Addresses { name: Str::new(name), addresses })
    });
    model::Info {
        host: Str::new(&info.host.0),
        cores: Int::of(info.cores.into()),
        logs: Pairs::of(info.log_urls.iter().map(borrowed)),
        attributes: Pairs::of(info.attributes.iter().map(borrowed)),
        resources: resources.collect(),
        profile: Int::of(info.resource_profile.into()),
        registered: Some(at),
    }
}

fn manager_of(id: &BlockManagerId) -> model::ManagerId<'_> {
    model::ManagerId {
        executor: Str::owned(id.executor.to_string()),
        host: Str::new(&id.host.0),
        port: port_of(id.port),
    }
}

fn accumulated(of: &Accumulable, with_update: bool) -> model::Accumulated<'_> {
    model::Accumulated {
        id: Int::of(of.id.0),
        name: Some(Str::new(&of.name)),
        update: with_update.then(|| Str::new(&of.update)),
        value: Some(Str::new(&of.value)),
        ..Default::default()
    }
}

fn task_of(task: &TaskInfo) -> model::Task<'_> {
    let partition = (task.partition != TaskInfo::NO_PARTITION).then(|| Int(task.partition.into()));
    model::Task {
        id: Int::of(task.task.0),
        index: Int::of(task.index.into()),
        attempt: Int::of(task.attempt.into()),
        partition: Some(partition.unwrap_or(Int(-1))),
        launched: Int::of(task.launched.0),
        executor: Str::owned(task.executor.to_string()),
        host: Str::new(&task.host.0),
        locality: Str::new(task.locality.as_str()),
        speculative: task.speculative,
        ..Default::default()
    }
}

fn stage_of<'a>(
    stage: &'a StageInfo,
    accumulables: Vec<model::Accumulated<'a>>,
) -> model::Stage<'a> {
    let (id, attempt) = stage_numbers(stage.stage);
    model::Stage {
        id,
        attempt,
        name: Str::new(&stage.name),
        tasks: Int::of(stage.tasks.into()),
        rdds: stage.rdds.iter().map(rdd_of).collect(),
        parents: stage.parents.iter().map(|parent| Int::of(parent.0.into())).collect(),
        details: Str::new(stage.details.as_deref().unwrap_or(&stage.name)),
        submitted: stage.submitted.map(|at| Int::of(at.0)),
        completed: stage.completed.map(|at| Int::of(at.0)),
        failure: None,
        accumulables,
        profile: Int::of(stage.resource_profile.into()),
        push_enabled: false,
        mergers: Int(0),
        shuffle_map: stage.shuffle_map,
    }
}

fn rdd_of(of: &StageRdd) -> model::Rdd<'_> {
    let rdd = &*of.rdd;
    model::Rdd {
        id: Int::of(rdd.id.0.into()),
        name: Str::new(&rdd.name),
        scope: serde_json::to_string(&Scope::from(&rdd.scope)).ok().map(Str::owned),
        call_site: Str::new(&rdd.call_site),
        parents: rdd.parents.iter().map(|parent| Int::of(parent.0.into())).collect(),
        level: of.level.into(),
        barrier: false,
        determinism: Str::new(match rdd.determinism {
            Determinism::Determinate => "DETERMINATE",
            Determinism::Unordered => "UNORDERED",
            Determinism::Indeterminate => "INDETERMINATE",
        }),
        partitions: Int::of(rdd.partitions.into()),
        cached: Int(0),
        memory: Int(0),
        disk: Int(0),
    }
}

/// A scope, whose number is a text in Spark's JSON.
#[derive(Serialize)]
struct Scope<'a> {
    id: String,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<Box<Scope<'a>>>,
}

impl<'a> From<&'a RddScope> for Scope<'a> {
    fn from(scope: &'a RddScope) -> Self {
        let parent = scope.parent.as_deref().map(|parent| Box::new(Scope::from(parent)));
        Scope { id: scope.id.to_string(), name: &scope.name, parent }
    }
}
