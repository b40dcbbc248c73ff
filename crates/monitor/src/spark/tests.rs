//! Our events survive a log, and logs of Spark are understood.

use std::collections::BTreeMap;
use std::sync::Arc;

use firesteel_status::{AppStatus, Retention};
use firesteel_types::event::{Locality, RddDescription, RddScope, StageRdd};
use firesteel_types::*;

use super::*;
use crate::Replay;

const AT: Tick = Tick(1_700_000_000_000);
const STAGE: StageRef = StageRef { stage: StageId(3), attempt: 1 };
const EXECUTOR: ExecutorId = ExecutorId(1);
const RETENTION: Retention = Retention { jobs: 100, stages: 100, tasks: 100, dead_executors: 100 };

fn named(name: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(name.to_owned(), value.to_owned())])
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
        completed: None,
        details: None,
        resource_profile: 0,
    }
}

fn task(id: u64) -> TaskInfo {
    TaskInfo {
        task: TaskId(id),
        stage: STAGE,
        partition: id as u32,
        index: 1,
        attempt: 0,
        executor: EXECUTOR,
        host: Host::new("h"),
        speculative: true,
        locality: Locality::NodeLocal,
        launched: AT,
    }
}

/// Every number another one, none of them whole milliseconds.
fn metrics() -> TaskMetrics {
    let json = serde_json::to_value(TaskMetrics::default()).unwrap();
    let fields = json.as_object().unwrap().iter().zip(1u64..);
    let numbers = fields.map(|((name, value), number)| match value.is_number() {
        true => (name.clone(), (number * 1001 + 7).into()),
        false => (name.clone(), value.clone()),
    });
    serde_json::from_value(serde_json::Value::Object(numbers.collect())).unwrap()
}

fn failures() -> Vec<TaskFailure> {
    let text = || "a \"quoted\"\ntext".to_owned();
    vec![
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
    ]
}

fn of_application() -> Vec<Event> {
    let device = DeviceRequest { discovery_script: "s".to_owned(), vendor: "v".to_owned() };
    let profile = ResourceProfile {
        id: 0,
        executor: BTreeMap::from([("cores".to_owned(), 2), ("gpu".to_owned(), 1)]),
        task: BTreeMap::from([("cpus".to_owned(), 1.0)]),
        devices: BTreeMap::from([("gpu".to_owned(), device)]),
    };
    let (address, log_urls) = ("h:8042".to_owned(), named("stdout", "http://h/out"));
    let info = ProcessInfo { address, cores: 1, log_urls };
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
            runtime: named("Firesteel Version", "1.2.3"),
            resources: named("/bin/n", "Executable"),
            others: BTreeMap::new(),
        },
        Event::ResourceProfileAdded { profile },
        Event::MiscellaneousProcessAdded { id: "yarn-am".to_owned(), info, at: AT },
    ]
}

fn of_executors() -> Vec<Event> {
    let (executor, host, at) = (EXECUTOR, Host::new("h"), AT);
    let managed = event::ManagedMemory { heap: 3, ..Default::default() };
    let metrics = ExecutorMetrics {
        resident_memory: 9,
        peak_resident_memory: 11,
        managed,
        ..Default::default()
    };
    let info = ExecutorInfo {
        log_urls: named("stdout", "file://h/out"),
        attributes: named("ZONE", "z"),
        resources: BTreeMap::from([("gpu".to_owned(), vec!["0".to_owned()])]),
        ..ExecutorInfo::new(host.clone(), 2)
    };
    let id = BlockManagerId { executor, host: host.clone(), port: 7 };
    let level = StorageLevel::MEMORY_ONLY;
    let (stage, failures) = (Some(STAGE), 2);
    let running = RunningTask { task: TaskId(1), stage: STAGE, metrics: self::metrics() };
    vec![
        Event::ExecutorAdded { executor, info, at },
        Event::BlockManagerAdded { id, max_memory: 1 << 30, max_off_heap_memory: Some(0), at },
        Event::ExecutorExcluded { executor, stage, failures, at },
        Event::ExecutorExcluded { executor, stage: None, failures, at },
        Event::NodeExcluded { host: host.clone(), stage, failures, at },
        Event::NodeExcluded { host: host.clone(), stage: None, failures, at },
        Event::ExecutorUnexcluded { executor, at },
        Event::NodeUnexcluded { host, at },
        Event::ExecutorMetricsUpdate {
            executor,
            metrics,
            stages: vec![StagePeak { stage: STAGE, metrics }],
            tasks: vec![running],
            at: Some(at),
        },
        Event::StageExecutorMetrics { stage: STAGE, executor, metrics },
        Event::BlockUpdated {
            block: "rdd_4_2".to_owned(),
            executor,
            memory_bytes: 3,
            disk_bytes: 4,
            level,
        },
    ]
}

fn of_jobs() -> Vec<Event> {
    let job = JobId(1);
    let mut properties = Properties::default().with("k", "v").with(Properties::POOL, "p");
    properties.tags_mut().extend(["a".to_owned(), "b".to_owned()]);
    let properties = Arc::new(properties);
    let failure = TaskFailure::Error { message: "no".to_owned() };
    let error = JobError::TaskFailed {
        job,
        stage: STAGE,
        stage_name: "count".to_owned(),
        partition: 0,
        attempts: 4,
        failure,
    };
    let accumulable = |value: &str| Accumulable {
        id: AccumulatorId(1),
        name: "seen".to_owned(),
        update: "1".to_owned(),
        value: value.to_owned(),
    };
    let mut all = vec![
        Event::JobStart { job, properties: properties.clone(), stages: vec![stage()], at: AT },
        Event::StageSubmitted { stage: stage(), properties, at: AT },
    ];
    all.extend(of_executors());
    for (id, failure) in (1..).zip(failures().into_iter().map(Some).chain([None])) {
        let metrics = Some(Box::new(TaskMetrics { executor: None, ..metrics() }));
        let (stage, at) = (STAGE, Tick(AT.0 + 90_000_000));
        all.push(Event::TaskStart { task: task(id), at: AT });
        all.push(Event::TaskGettingResult { task: task(id), at: AT });
        all.push(Event::TaskEnd { task: task(id), failure, metrics, at });
        let accumulable = accumulable(&id.to_string());
        all.push(Event::AccumulableUpdated { stage, task: Some(TaskId(id)), accumulable, at });
    }
    all.extend([
        Event::SpeculativeTaskSubmitted { stage: STAGE, index: 1, partition: 2 },
        // Late: another task has ended meanwhile.
        Event::AccumulableUpdated {
            stage: STAGE,
            task: Some(TaskId(7)),
            accumulable: Accumulable { id: AccumulatorId(2), ..accumulable("late") },
            at: AT,
        },
        Event::TaskResubmitted { stage: STAGE, index: 1, partition: 7, executor: EXECUTOR, at: AT },
        Event::StageCompleted { stage: stage(), failure: Some("lost".to_owned()), at: AT },
        Event::JobEnd { job, result: Err(error), at: AT },
        Event::UnpersistRdd { rdd: RddId(9) },
        Event::ExecutorRemoved { executor: EXECUTOR, reason: "gone".to_owned(), at: AT },
        Event::ExecutorsMissing { shortage: Some("no \"node\"".to_owned()), at: AT },
        Event::ApplicationEnd { exit_code: Some(3), at: AT },
    ]);
    all
}

fn events() -> Vec<Event> {
    [of_application(), of_jobs()].concat()
}

fn written(events: &[Event]) -> Vec<u8> {
    let mut encoder = Encoder::new(Extent { block_updates: true, executor_metrics: true });
    let mut log = Vec::new();
    events.iter().for_each(|event| encoder.encode(event, &mut log));
    encoder.finish(&mut log);
    log
}

fn replayed(log: &[u8]) -> Replay {
    let mut replay = Replay::new(RETENTION);
    log.split(|byte| *byte == b'\n').for_each(|line| replay.line(line));
    replay
}

#[test]
fn the_log_of_our_events_gives_the_status_that_the_events_gave() {
    let (events, mut live) = (events(), AppStatus::new(RETENTION));
    events.iter().for_each(|event| live.apply(event));
    let replay = replayed(&written(&events));
    assert_eq!(replay.unreadable(), 0);
    assert_eq!(format!("{:#?}", replay.status()), format!("{live:#?}"));
    assert_eq!(*replay.status(), live);
}

#[test]
fn a_log_has_what_readers_of_spark_end_without() {
    let id = BlockManagerId { executor: ExecutorId(0), host: Host::new("h"), port: 0 };
    let unreached = Event::BlockManagerRemoved { id, at: AT };
    let log = String::from_utf8(written(&[events(), vec![unreached]].concat())).unwrap();
    // `BlockManagerId` asserts that its port is more than 0, and nobody catches that.
    assert!(log.contains("\"Port\":1}") && !log.contains("\"Port\":0"), "{log}");
    let runtime = log.lines().find(|line| line.contains("JVM Information")).unwrap();
    let names = ["Java Version", "Java Home", "Scala Version"];
    assert!(names.iter().all(|name| runtime.contains(&format!("\"{name}\":"))), "{runtime}");
}

#[test]
fn events_come_back_as_they_were() {
    let events = events();
    let log = written(&events);
    let (mut decoder, mut back) = (Decoder::default(), Vec::new());
    for line in log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        decoder.decode(line, &mut back).unwrap();
    }
    // What accumulators came to is told with the stage as well.
    back.retain(|event| !matches!(event, Event::AccumulableUpdated { task: None, .. }));
    assert_eq!(back.len(), events.len());
    for (back, event) in back.iter().zip(&events) {
        assert_eq!(back, event);
    }
}

#[test]
fn hostile_lines_are_counted_and_change_nothing() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let lines = [
        "not json".to_owned(),
        "{\"Event\":\"SparkListenerTaskStart\",\"Task Info\":\"x\"}".to_owned(),
        "{\"Event\":\"SparkListenerTaskEnd\",\"Task Info\":{\"Task ID\":{}}}".to_owned(),
        "{\"Event\":\"SparkListenerJobStart\",\"Job ID\":1,\"Stage IDs\":".to_owned(),
        format!("{{\"Event\":\"SparkListenerJobEnd\",\"Job Result\":{deep}}}"),
        "{\"Event\":\"SparkListenerJobEnd\"} trailing".to_owned(),
        "\u{1}\u{2}".to_owned(),
    ];
    let mut replay = Replay::new(RETENTION);
    lines.iter().for_each(|line| replay.line(line.as_bytes()));
    replay.line(&[0xff, 0xfe, b'{']);
    // Nesting is read over, however deep it is.
    assert_eq!(replay.unreadable(), 7);
    assert_eq!(*replay.status(), AppStatus::new(RETENTION));
    replay.line(b"{\"Timestamp\":5,\"Event\":\"SparkListenerApplicationEnd\"}");
    replay.line(b"{\"Event\":\"org.example.Custom\",\"x\":{\"y\":[1,2]}}");
    assert_eq!(replay.status().application().ended, Some(Tick(5)), "whatever the order");
    assert_eq!((replay.unreadable(), replay.status().unknown_events()), (7, 1));
}

#[test]
fn numbers_beyond_all_bounds_stay_in_range() {
    let huge = "99999999999999999999999999";
    let line = format!(
        "{{\"Event\":\"SparkListenerTaskStart\",\"Stage ID\":{huge},\"Stage Attempt ID\":-7,\"Task \
         Info\":{{\"Task ID\":{huge},\"Index\":-1,\"Launch Time\":{huge},\"Executor ID\":7}}}}"
    );
    let mut events = Vec::new();
    Decoder::default().decode(line.as_bytes(), &mut events).unwrap();
    let Event::TaskStart { task, .. } = &events[0] else { panic!("{events:?}") };
    assert_eq!((task.stage.stage.0, task.stage.attempt, task.index), (u32::MAX, 0, 0));
    assert_eq!((task.task.0, task.executor), (i64::MAX as u64, ExecutorId(7)));
}

#[test]
fn executors_whose_names_are_not_numbers_keep_their_names() {
    let mut replay = Replay::new(RETENTION);
    for name in ["localhost", "4294967294", "007", "3", "localhost"] {
        let line = format!(
            "{{\"Event\":\"SparkListenerExecutorAdded\",\"Executor ID\":\"{name}\",\"Executor Info\":{{}}}}"
        );
        replay.line(line.as_bytes());
    }
    let status = replay.status();
    let mut names: Vec<String> =
        status.executors().map(|it| status.executor_name(it.executor)).collect();
    names.sort();
    assert_eq!(names, ["007", "3", "4294967294", "localhost"]);
}

#[test]
fn a_long_line_of_objects_with_nothing_in_them_is_not_read() {
    let mut replay = Replay::new(RETENTION);
    let line = |event: &str, list: &str, object: &str, count: usize| {
        let objects = vec![object; count].join(",");
        format!("{{\"Event\":\"{event}\",\"{list}\":[{objects}]}}")
    };
    replay.line(line("SparkListenerJobStart", "Stage Infos", "{}", 1 << 19).as_bytes());
    replay.line(
        line("SparkListenerExecutorMetricsUpdate", "Executor Metrics Updated", "{}", 1 << 19)
            .as_bytes(),
    );
    assert_eq!(replay.unreadable(), 2);
    assert_eq!(*replay.status(), AppStatus::new(RETENTION));
    // A stage of Spark's has more in it; of very many of one job, some are read.
    let stage = "{\"Stage ID\":1,\"Stage Name\":\"count at Main.scala:7\"}";
    replay.line(line("SparkListenerJobStart", "Stage Infos", stage, 1 << 15).as_bytes());
    let job = replay.status().job(JobId(0)).unwrap();
    assert_eq!((replay.unreadable(), job.stages.len()), (2, 10_000));
}

#[test]
fn names_are_cut_and_of_very_many_executors_some_are_told_apart() {
    let (mut decoder, mut events) = (Decoder::default(), Vec::new());
    let mut added = |executor: &str, host: &str| {
        let line = format!(
            "{{\"Event\":\"SparkListenerExecutorAdded\",\"Executor ID\":\"{executor}\",\"Executor Info\":{{\"Host\":\"{host}\"}}}}"
        );
        events.clear();
        decoder.decode(line.as_bytes(), &mut events).unwrap();
        let Some(Event::ExecutorAdded { executor, info, .. }) = events.pop() else { panic!() };
        (executor, info.host.0.len(), decoder.take_names())
    };
    // In the middle of a letter of two bytes.
    let (_, host, names) = added(&"é".repeat(200), &"é".repeat(200));
    assert_eq!((host, names[0].1.len()), (254, 254));
    let ids: Vec<ExecutorId> =
        (0..25_000).map(|n| added(&format!("e{n}"), &format!("h{n}")).0).collect();
    let apart: std::collections::BTreeSet<ExecutorId> = ids.iter().copied().collect();
    assert_eq!(apart.len(), 20_000);
    assert_eq!((ids[24_000], added("e7", "h7").0), (ids[24_999], ids[7]));
}
