//! Every event and field of Spark's event log is carried by one of ours, or has a reason why not: none is forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::*;
use crate::{AccumulatorId, Determinism, JobId, MapAttempt, ShuffleId, StageId};

/// The events and fields of Spark's event log.
const FIELDS: &str = include_str!("spark_fields.txt");
/// Which of ours carries each.
const CARRIED: &str = include_str!("spark_fields_carried.txt");

/// Why a field of Spark's has none here.
const REASONS: [(&str, &str); 8] = [
    ("jvm", "a JVM's heap, garbage collector, classes or system properties"),
    ("push", "map outputs are not pushed to mergers"),
    ("barrier", "there are no barrier stages"),
    ("resources", "executors have no resources but cores and memory"),
    ("request", "executors are asked for by number, not one by one"),
    ("commit", "the driver commits files of tasks that count: no task asks whether it may"),
    (
        "driver-stack",
        "the driver's own calls tell nothing: the message names job, stage and failure",
    ),
    ("unschedulable", "tells an allocation of executors by load, which is not there"),
];

/// Field after event, and what stands behind it.
fn lines(text: &str) -> Vec<(&str, &str)> {
    let mut event = "";
    let mut found = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix("  ") {
            Some(field) => found.push((event, field)),
            None => event = line,
        }
    }
    found
}

#[test]
fn every_field_of_sparks_event_log_is_carried_or_has_a_reason_why_not() {
    let carried = lines(CARRIED).into_iter().map(|(event, line)| {
        let (field, by) = line.split_once(" = ").unwrap_or_else(|| panic!("{line}"));
        ((event, field), by)
    });
    let carried: BTreeMap<_, _> = carried.collect();
    let fields: BTreeSet<_> = lines(FIELDS).into_iter().collect();
    assert_eq!(fields, carried.keys().copied().collect());
    let events = samples_as_json();
    let (reasons, mut given) = (BTreeMap::from(REASONS), BTreeSet::new());
    for ((event, field), by) in carried {
        match by.strip_prefix('!') {
            Some(reason) => {
                assert!(
                    reasons.contains_key(reason),
                    "{event}, {field}: why is {reason} a reason?"
                );
                given.insert(reason);
            }
            None => by.split(" + ").for_each(|path| {
                let is_there = events.iter().any(|json| resolve(json, path));
                assert!(is_there, "{event}, {field}: nothing of ours is {path}");
            }),
        }
    }
    assert_eq!(given, reasons.into_keys().collect(), "reasons that nothing needs any more");
}

/// Whether the event has a value there: `Event.field.inner[].field`.
fn resolve(json: &Value, path: &str) -> bool {
    let mut names = path.split('.');
    if names.next() != json["Event"].as_str() {
        return false;
    }
    let found = names.try_fold(json, |at, name| match name.strip_suffix("[]") {
        Some(list) => at.get(list)?.get(0),
        None => at.get(name),
    });
    found.is_some_and(|found| !found.is_null())
}

#[test]
fn every_event_survives_a_round_trip_and_is_read_by_its_name() {
    let (mut seen, all) = (BTreeSet::new(), samples());
    for (event, json) in all.iter().zip(samples_as_json()) {
        assert_eq!(json["Event"], name(event));
        assert_eq!(serde_json::from_value::<Event>(json).unwrap(), *event);
        seen.insert(name(event));
    }
    assert_eq!(seen.len(), NAMES, "an event without a sample");
    let newer = r#"{"Event":"StageRetried","stage":3}"#;
    assert_eq!(serde_json::from_str::<Event>(newer).unwrap(), Event::Unknown);
}

fn samples_as_json() -> Vec<Value> {
    samples().iter().map(|event| serde_json::to_value(event).unwrap()).collect()
}

/// So many names has [`name`].
const NAMES: usize = 31;

/// Exhaustive: who adds an event is led here, and adds a sample.
fn name(event: &Event) -> &'static str {
    match event {
        Event::LogStart { .. } => "LogStart",
        Event::ApplicationStart { .. } => "ApplicationStart",
        Event::ApplicationEnd { .. } => "ApplicationEnd",
        Event::EnvironmentUpdate { .. } => "EnvironmentUpdate",
        Event::ResourceProfileAdded { .. } => "ResourceProfileAdded",
        Event::MiscellaneousProcessAdded { .. } => "MiscellaneousProcessAdded",
        Event::JobStart { .. } => "JobStart",
        Event::JobEnd { .. } => "JobEnd",
        Event::StageSubmitted { .. } => "StageSubmitted",
        Event::StageCompleted { .. } => "StageCompleted",
        Event::TaskStart { .. } => "TaskStart",
        Event::TaskGettingResult { .. } => "TaskGettingResult",
        Event::TaskEnd { .. } => "TaskEnd",
        Event::SpeculativeTaskSubmitted { .. } => "SpeculativeTaskSubmitted",
        Event::TaskResubmitted { .. } => "TaskResubmitted",
        Event::ExecutorAdded { .. } => "ExecutorAdded",
        Event::ExecutorRemoved { .. } => "ExecutorRemoved",
        Event::ExecutorsMissing { .. } => "ExecutorsMissing",
        Event::ExecutorExcluded { .. } => "ExecutorExcluded",
        Event::ExecutorUnexcluded { .. } => "ExecutorUnexcluded",
        Event::NodeExcluded { .. } => "NodeExcluded",
        Event::NodeUnexcluded { .. } => "NodeUnexcluded",
        Event::ExecutorMetricsUpdate { .. } => "ExecutorMetricsUpdate",
        Event::StageExecutorMetrics { .. } => "StageExecutorMetrics",
        Event::BlockManagerAdded { .. } => "BlockManagerAdded",
        Event::BlockManagerRemoved { .. } => "BlockManagerRemoved",
        Event::BlockUpdated { .. } => "BlockUpdated",
        Event::UnpersistRdd { .. } => "UnpersistRdd",
        Event::AccumulableUpdated { .. } => "AccumulableUpdated",
        Event::EventsLost { .. } => "EventsLost",
        Event::BroadcastRemoved { .. } => "BroadcastRemoved",
        Event::Unknown => "Unknown",
    }
}

const AT: Tick = Tick(1_700_000_000_000);
const EXECUTOR: ExecutorId = ExecutorId(1);
const STAGE: StageRef = StageRef { stage: StageId(3), attempt: 1 };

/// One of each, with a value in every field.
fn samples() -> Vec<Event> {
    [of_application(), of_jobs(), of_tasks(), of_executors(), of_blocks()].concat()
}

fn named(name: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(name.to_owned(), value.to_owned())])
}

fn of_application() -> Vec<Event> {
    let device = DeviceRequest { discovery_script: "s".to_owned(), vendor: "v".to_owned() };
    let profile = ResourceProfile {
        id: ResourceProfile::DEFAULT,
        executor: BTreeMap::from([("cores".to_owned(), 2), ("memory".to_owned(), 1024)]),
        task: BTreeMap::from([("cpus".to_owned(), 1.0)]),
        devices: BTreeMap::from([("gpu".to_owned(), device)]),
    };
    let info = ProcessInfo {
        address: "h:8042".to_owned(),
        cores: 1,
        log_urls: named("stdout", "http://h/out"),
    };
    vec![
        Event::LogStart { version: "0.1.0".to_owned() },
        Event::ApplicationStart {
            name: "n".to_owned(),
            app_id: "app-1".to_owned(),
            attempt_id: Some("1".to_owned()),
            user: "u".to_owned(),
            driver_log_urls: named("stdout", "file://h/out"),
            driver_attributes: named("ZONE", "z"),
            at: AT,
        },
        Event::EnvironmentUpdate {
            properties: vec![("spark.app.name".to_owned(), "n".to_owned())],
            runtime: named("Architecture", "x86_64"),
            resources: named("/bin/n", "Executable"),
            others: BTreeMap::from([(
                "System Properties".to_owned(),
                vec![("os.name".to_owned(), "Linux".to_owned())],
            )]),
        },
        Event::ResourceProfileAdded { profile },
        Event::MiscellaneousProcessAdded { id: "yarn-am".to_owned(), info, at: AT },
        Event::EventsLost { events: 3 },
        Event::ApplicationEnd { exit_code: Some(0), at: AT },
    ]
}

fn stage() -> StageInfo {
    let outer = RddScope { id: 6, name: "split".to_owned(), parent: None };
    let rdd = RddDescription {
        id: RddId(4),
        name: "words".to_owned(),
        scope: RddScope { id: 7, name: "map".to_owned(), parent: Some(Arc::new(outer)) },
        call_site: "map at x.rs:1".to_owned(),
        parents: vec![RddId(2)],
        partitions: 8,
        determinism: Determinism::Unordered,
    };
    StageInfo {
        stage: STAGE,
        name: "count at x.rs:2".into(),
        tasks: 8,
        parents: vec![StageId(2)],
        rdds: Arc::new([StageRdd { rdd: Arc::new(rdd), level: StorageLevel::MEMORY_ONLY }]),
        shuffle_map: true,
        submitted: Some(AT),
        completed: Some(AT),
        details: Some("count at x.rs:2".into()),
        resource_profile: ResourceProfile::DEFAULT,
    }
}

fn of_jobs() -> Vec<Event> {
    let (job, properties) = (JobId(1), Arc::new(Properties::default().with("k", "v")));
    let failure = TaskFailure::Error { message: "no".to_owned() };
    let stage_name = "count at x.rs:2".to_owned();
    let error =
        JobError::TaskFailed { job, stage: STAGE, stage_name, partition: 0, attempts: 4, failure };
    vec![
        Event::JobStart { job, properties: properties.clone(), stages: vec![stage()], at: AT },
        Event::JobEnd { job, result: Ok(()), at: AT },
        Event::JobEnd { job, result: Err(error), at: AT },
        Event::StageSubmitted { stage: stage(), properties, at: AT },
        Event::StageCompleted { stage: stage(), failure: Some("lost".to_owned()), at: AT },
    ]
}

fn failures() -> Vec<Option<TaskFailure>> {
    let text = || "x".to_owned();
    let all = [
        TaskFailure::Panicked { message: text(), location: text(), stack_trace: text() },
        TaskFailure::Error { message: text() },
        TaskFailure::Fatal { message: text() },
        TaskFailure::FetchFailed {
            shuffle: ShuffleId(1),
            map_partition: 2,
            reduce_partition: 3,
            location: EXECUTOR.into(),
            broken: vec![MapAttempt { map_partition: 2, task: TaskId(5) }],
            message: text(),
        },
        TaskFailure::Killed { reason: text() },
        TaskFailure::ExecutorLost { executor: EXECUTOR, caused_by_app: true, reason: text() },
    ];
    all.into_iter().map(Some).chain([None]).collect()
}

fn of_tasks() -> Vec<Event> {
    let task = TaskInfo {
        task: TaskId(9),
        stage: STAGE,
        partition: 2,
        index: 1,
        attempt: 0,
        executor: EXECUTOR,
        host: Host::new("h"),
        speculative: true,
        locality: Locality::NodeLocal,
        launched: AT,
    };
    let accumulable = Accumulable {
        id: AccumulatorId(1),
        name: "seen".to_owned(),
        update: "1".to_owned(),
        value: "2".to_owned(),
    };
    let (index, partition, at) = (1, 2, AT);
    let metrics = TaskMetrics {
        executor: Some(Box::default()),
        pushed: Some(Box::default()),
        ..TaskMetrics::default()
    };
    let metrics = Some(Box::new(metrics));
    let ended = failures().into_iter().map(|failure| Event::TaskEnd {
        task: task.clone(),
        failure,
        metrics: metrics.clone(),
        at,
    });
    let mut all: Vec<Event> = ended.collect();
    all.extend([
        Event::TaskStart { task: task.clone(), at },
        Event::TaskGettingResult { task, at },
        Event::SpeculativeTaskSubmitted { stage: STAGE, index, partition },
        Event::TaskResubmitted { stage: STAGE, index, partition, executor: EXECUTOR, at },
        Event::AccumulableUpdated { stage: STAGE, task: Some(TaskId(9)), accumulable, at },
    ]);
    all
}

fn of_executors() -> Vec<Event> {
    let (executor, host, metrics, at) = (EXECUTOR, Host::new("h"), ExecutorMetrics::default(), AT);
    let (stage, failures) = (Some(STAGE), 2);
    let info = ExecutorInfo {
        log_urls: named("stdout", "file://h/out"),
        attributes: named("ZONE", "z"),
        resources: BTreeMap::from([("gpu".to_owned(), vec!["0".to_owned()])]),
        ..ExecutorInfo::new(host.clone(), 2)
    };
    let running = RunningTask { task: TaskId(9), stage: STAGE, metrics: TaskMetrics::default() };
    vec![
        Event::ExecutorAdded { executor, info, at },
        Event::ExecutorRemoved { executor, reason: "gone".to_owned(), at },
        Event::ExecutorsMissing { shortage: Some("no node".to_owned()), at },
        Event::ExecutorExcluded { executor, stage, failures, at },
        Event::ExecutorUnexcluded { executor, at },
        Event::NodeExcluded { host: host.clone(), stage, failures, at },
        Event::NodeUnexcluded { host, at },
        Event::ExecutorMetricsUpdate {
            executor,
            metrics,
            stages: vec![StagePeak { stage: STAGE, metrics }],
            tasks: vec![running],
            at: None,
        },
        Event::StageExecutorMetrics { stage: STAGE, executor, metrics },
    ]
}

fn of_blocks() -> Vec<Event> {
    let id = BlockManagerId { executor: EXECUTOR, host: Host::new("h"), port: 7 };
    vec![
        Event::BlockManagerAdded {
            id: id.clone(),
            max_memory: 1 << 30,
            max_off_heap_memory: Some(0),
            at: AT,
        },
        Event::BlockManagerRemoved { id, at: AT },
        Event::BlockUpdated {
            block: "rdd_4_2".to_owned(),
            executor: EXECUTOR,
            memory_bytes: 3,
            disk_bytes: 4,
            level: StorageLevel::MEMORY_ONLY,
        },
        Event::UnpersistRdd { rdd: RddId(4) },
        Event::BroadcastRemoved { broadcast: BroadcastId(1) },
    ]
}
