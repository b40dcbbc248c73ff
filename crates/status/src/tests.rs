//! Events in, status out.

use std::collections::BTreeMap;
use std::sync::Arc;

use firesteel_types::event::{Locality, RddDescription, RddScope, StageRdd};
use firesteel_types::{
    BlockManagerId, Determinism, Event, ExecutorId, ExecutorInfo, ExecutorMetrics, Host, JobError,
    JobId, Properties, RddId, RunningTask, StageId, StageInfo, StagePeak, StageRef, StorageLevel,
    TaskFailure, TaskId, TaskInfo, TaskMetrics, Tick,
};

use crate::{
    AppStatus, JobState, Order, Paging, Retention, StageState, TaskCounts, TaskSort, TaskState,
};

const RETENTION: Retention = Retention { jobs: 3, stages: 4, tasks: 5, dead_executors: 1 };

fn status() -> AppStatus {
    AppStatus::new(RETENTION)
}

fn attempt(stage: u32, attempt: u32) -> StageRef {
    StageRef { stage: StageId(stage), attempt }
}

fn stage_info(stage: u32, tasks: u32) -> StageInfo {
    StageInfo {
        stage: attempt(stage, 0),
        name: format!("stage {stage}").into(),
        tasks,
        parents: Vec::new(),
        rdds: Arc::from([]),
        shuffle_map: false,
        submitted: None,
        completed: None,
        details: None,
        resource_profile: 0,
    }
}

fn job(job: u32, stages: Vec<StageInfo>) -> Event {
    let properties = Arc::new(Properties::default().with(Properties::GROUP, "g"));
    Event::JobStart { job: JobId(job), properties, stages, at: Tick(u64::from(job)) }
}

fn end(job: u32, result: Result<(), JobError>) -> Event {
    Event::JobEnd { job: JobId(job), result, at: Tick(100) }
}

fn submitted(stage: StageInfo) -> Event {
    Event::StageSubmitted { stage, properties: Arc::default(), at: Tick(7) }
}

fn completed(stage: StageInfo, failure: Option<&str>) -> Event {
    Event::StageCompleted { stage, failure: failure.map(str::to_owned), at: Tick(9) }
}

fn task(id: u64, stage: StageRef, partition: u32) -> TaskInfo {
    TaskInfo {
        task: TaskId(id),
        stage,
        partition,
        index: partition,
        attempt: 0,
        executor: ExecutorId(1),
        host: Host::new("a"),
        speculative: false,
        locality: Locality::Any,
        launched: Tick(10),
    }
}

fn start(task: &TaskInfo) -> Event {
    Event::TaskStart { task: task.clone(), at: task.launched }
}

fn finish(task: &TaskInfo, failure: Option<TaskFailure>, at: u64, records: u64) -> Event {
    let metrics =
        TaskMetrics { input_records: records, peak_memory_bytes: records, ..Default::default() };
    Event::TaskEnd { task: task.clone(), failure, metrics: Some(Box::new(metrics)), at: Tick(at) }
}

fn killed() -> Option<TaskFailure> {
    Some(TaskFailure::Killed { reason: "enough".to_owned() })
}

fn failed() -> Option<TaskFailure> {
    Some(TaskFailure::Error { message: "broken".to_owned() })
}

fn apply(status: &mut AppStatus, events: impl IntoIterator<Item = Event>) {
    events.into_iter().for_each(|event| status.apply(&event));
}

#[test]
fn a_stage_that_one_job_skipped_and_another_one_runs_is_not_forgotten() {
    let mut status = AppStatus::new(Retention { stages: 1, ..RETENTION });
    apply(&mut status, [job(0, vec![stage_info(0, 8)]), end(0, Ok(()))]);
    assert_eq!(status.stage(attempt(0, 0)).unwrap().state, StageState::Skipped);
    apply(&mut status, [job(1, vec![stage_info(0, 8)]), submitted(stage_info(0, 8))]);
    apply(&mut status, [job(2, vec![stage_info(1, 1)]), submitted(stage_info(1, 1))]);
    apply(&mut status, [completed(stage_info(1, 1), None)]);
    let runs = status.stage(attempt(0, 0)).map(|stage| stage.state);
    assert_eq!(runs, Some(StageState::Active));
}

#[test]
fn a_job_counts_its_tasks_stages_and_what_it_did_not_need() {
    let mut status = status();
    let (first, second) = (task(1, attempt(1, 0), 0), task(2, attempt(1, 0), 1));
    let again = TaskInfo { attempt: 1, ..task(3, attempt(1, 0), 1) };
    apply(
        &mut status,
        [job(0, vec![stage_info(0, 8), stage_info(1, 2)]), submitted(stage_info(1, 2))],
    );
    apply(&mut status, [start(&first), start(&second)]);
    let running = status.job(JobId(0)).unwrap();
    assert_eq!((running.tasks.active, running.active_stages, running.tasks_total), (2, 1, 10));
    assert_eq!(status.active_stages().count(), 1);
    apply(&mut status, [finish(&first, None, 12, 5), finish(&second, failed(), 13, 0)]);
    apply(&mut status, [start(&again), finish(&again, None, 15, 7)]);
    apply(&mut status, [completed(stage_info(1, 2), None), end(0, Ok(()))]);
    let over = status.job(JobId(0)).unwrap();
    assert_eq!(over.state, JobState::Succeeded);
    assert_eq!(over.tasks, TaskCounts { active: 0, completed: 2, failed: 1, killed: 0 });
    assert_eq!((over.completed_indices, over.completed_stages, over.failed_stages), (2, 1, 0));
    assert_eq!((over.skipped_stages, over.skipped_tasks), (1, 8));
    let stages = status.stages_of(JobId(0));
    assert_eq!(stages[0].state, StageState::Skipped);
    assert_eq!((stages[1].state, stages[1].metrics.input_records), (StageState::Complete, 12));
    assert_eq!(stages[1].metrics.peak_memory_bytes, 7, "of peaks the highest");
    assert_eq!(stages[1].executors[&ExecutorId(1)].task_time_ms, 2 + 3 + 5);
}

#[test]
fn a_partition_whose_output_was_lost_is_not_complete_until_it_is_computed_again() {
    let (mut status, stage) = (status(), attempt(0, 0));
    let (first, again) = (task(1, stage, 0), task(2, stage, 0));
    apply(&mut status, [job(0, vec![stage_info(0, 2)]), submitted(stage_info(0, 2))]);
    apply(&mut status, [start(&first), finish(&first, None, 12, 0)]);
    let (executor, at) = (ExecutorId(1), Tick(13));
    let lost = Event::TaskResubmitted { stage, index: 0, partition: 0, executor, at };
    let completed = |status: &AppStatus| status.job(JobId(0)).unwrap().completed_indices;
    assert_eq!(completed(&status), 1);
    apply(&mut status, [lost]);
    assert_eq!((completed(&status), status.stage(stage).unwrap().resubmitted), (0, 1));
    apply(&mut status, [start(&again), finish(&again, None, 14, 0)]);
    assert_eq!(completed(&status), 1);
}

#[test]
fn a_stage_that_two_jobs_share_and_its_second_attempt_count_for_both() {
    let mut status = status();
    apply(
        &mut status,
        [
            job(0, vec![stage_info(0, 1)]),
            job(1, vec![stage_info(0, 1)]),
            submitted(stage_info(0, 1)),
        ],
    );
    apply(&mut status, [completed(stage_info(0, 1), Some("lost"))]);
    let second = StageInfo { stage: attempt(0, 1), ..stage_info(0, 1) };
    let only = task(1, attempt(0, 1), 0);
    apply(&mut status, [submitted(second.clone()), start(&only), finish(&only, None, 12, 0)]);
    apply(&mut status, [completed(second, None), end(1, Ok(()))]);
    for job in [0, 1] {
        let job = status.job(JobId(job)).unwrap();
        assert_eq!((job.failed_stages, job.completed_stages, job.completed_indices), (1, 1, 1));
    }
    let states: Vec<_> = status.attempts(StageId(0)).map(|stage| stage.state).collect();
    assert_eq!(states, [StageState::Failed, StageState::Complete]);
    assert_eq!(status.active_jobs().count(), 1);
}

#[test]
fn what_is_over_is_forgotten_beyond_its_limit_and_what_runs_never_is() {
    let mut status = status();
    for id in 0..20 {
        apply(&mut status, [job(id, vec![stage_info(id, 1)]), submitted(stage_info(id, 1))]);
        if id % 2 == 0 {
            apply(&mut status, [completed(stage_info(id, 1), None), end(id, Ok(()))]);
        }
    }
    let jobs = status.jobs(|_| true, Order::Descending, Paging::ALL);
    let over = jobs.items.iter().filter(|job| job.completed.is_some());
    let over: Vec<_> = over.map(|job| job.job.0).collect();
    assert_eq!((over, jobs.total), (vec![18, 16, 14], 13));
    let stages =
        status.stages(|stage| stage.state == StageState::Complete, Order::Ascending, Paging::ALL);
    let stages: Vec<_> = stages.items.iter().map(|stage| stage.info.stage.stage.0).collect();
    assert_eq!(stages, [12, 14, 16, 18]);
    assert_eq!(status.active_stages().count(), 10);
    let tasks: Vec<_> = (0..9).map(|id| task(id, attempt(19, 0), id as u32)).collect();
    apply(&mut status, tasks.iter().map(start));
    apply(&mut status, tasks[1..8].iter().map(|task| finish(task, None, 20, 0)));
    let stage = status.stage(attempt(19, 0)).unwrap();
    let left = stage.tasks(|_| true, TaskSort::Id, Order::Ascending, Paging::ALL);
    let left: Vec<_> = left.items.iter().map(|task| task.info.task.0).collect();
    assert_eq!(left, [0, 3, 4, 5, 6, 7, 8], "five that are over, and two that run");
    assert_eq!((stage.tasks.completed, stage.tasks.active), (7, 2), "but all are counted");
}

#[test]
fn tasks_are_sorted_by_what_is_asked_for_and_cut_into_pages() {
    let mut status = AppStatus::new(Retention { tasks: 100, ..RETENTION });
    apply(&mut status, [job(0, vec![stage_info(0, 50)]), submitted(stage_info(0, 50))]);
    let tasks: Vec<_> = (0..50).map(|id| task(id, attempt(0, 0), 49 - id as u32)).collect();
    apply(&mut status, tasks.iter().map(start));
    let ended = tasks[..40].iter().map(|task| {
        let failure = if task.task.0 % 10 == 0 { killed() } else { None };
        finish(task, failure, 10 + task.task.0 * 7 % 40, task.task.0 * 3 % 50)
    });
    apply(&mut status, ended);
    let stage = status.stage(attempt(0, 0)).unwrap();
    let ids = |sort, order, offset| {
        let paging = Paging { offset, length: 3 };
        let page = stage.tasks(|task| task.state == TaskState::Success, sort, order, paging);
        assert_eq!(page.total, 36);
        page.items.iter().map(|task| task.info.task.0).collect::<Vec<_>>()
    };
    assert_eq!(ids(TaskSort::Index, Order::Ascending, 0), [39, 38, 37]);
    assert_eq!(ids(TaskSort::Id, Order::Ascending, 34), [38, 39]);
    assert_eq!(ids(TaskSort::Duration, Order::Descending, 0), [17, 34, 11]);
    let records = TaskSort::Metric(|metrics| metrics.input_records);
    assert_eq!(ids(records, Order::Descending, 0), [33, 16, 32]);
    let running = stage.tasks(
        |_| true,
        TaskSort::Duration,
        Order::Ascending,
        Paging { offset: 40, length: 100 },
    );
    assert!(running.items.iter().all(|task| task.state == TaskState::Running));
    assert_eq!(running.items.len(), 10);
}

#[test]
fn executors_count_tasks_blocks_and_exclusions_until_they_are_lost() {
    let mut status = status();
    let executor = ExecutorId(1);
    let manager = BlockManagerId { executor, host: Host::new("a"), port: 7 };
    let rdd = RddDescription {
        id: RddId(3),
        name: "cached".to_owned(),
        scope: RddScope { id: 0, name: "map".to_owned(), parent: None },
        call_site: "map at x.rs:1".to_owned(),
        parents: Vec::new(),
        partitions: 2,
        determinism: Determinism::Determinate,
    };
    let rdds: Arc<[StageRdd]> =
        Arc::new([StageRdd { rdd: Arc::new(rdd), level: StorageLevel::MEMORY_ONLY }]);
    let stage = StageInfo { rdds, ..stage_info(0, 2) };
    let block = |partition: u32, memory_bytes: u64| Event::BlockUpdated {
        block: format!("rdd_3_{partition}"),
        executor,
        memory_bytes,
        disk_bytes: 0,
        level: StorageLevel::MEMORY_ONLY,
    };
    let first = task(1, attempt(0, 0), 0);
    let metrics = ExecutorMetrics { resident_memory: 9, ..Default::default() };
    let stages = vec![StagePeak { stage: attempt(0, 0), metrics }];
    let so_far = TaskMetrics { input_records: 77, ..Default::default() };
    let running = RunningTask { task: TaskId(1), stage: attempt(0, 0), metrics: so_far };
    apply(
        &mut status,
        [
            Event::BlockManagerAdded {
                id: manager.clone(),
                max_memory: 1000,
                max_off_heap_memory: Some(0),
                at: Tick(1),
            },
            Event::ExecutorAdded {
                executor,
                info: ExecutorInfo::new(Host::new("a"), 2),
                at: Tick(1),
            },
            job(0, vec![stage.clone()]),
            submitted(stage),
            start(&first),
            Event::ExecutorMetricsUpdate {
                executor,
                metrics,
                stages,
                tasks: vec![running],
                at: None,
            },
            block(0, 100),
            block(1, 50),
            block(0, 120),
            Event::NodeExcluded { host: Host::new("a"), stage: None, failures: 2, at: Tick(2) },
        ],
    );
    let it = status.executor(executor).unwrap();
    assert_eq!((it.memory_used, it.rdd_blocks, it.max_memory), (170, 2, 1000));
    assert_eq!((it.tasks.active, it.peak.unwrap().resident_memory, it.is_excluded), (1, 9, true));
    assert_eq!((it.info.cores, it.block_manager.as_ref()), (2, Some(&manager)));
    let task = status.stage(attempt(0, 0)).unwrap().task(TaskId(1)).unwrap();
    assert_eq!(task.metrics().unwrap().input_records, 77, "so far");
    let rdd = status.rdd(RddId(3)).unwrap();
    assert_eq!((rdd.memory_bytes(), rdd.partitions.len()), (170, 2));
    apply(&mut status, [block(1, 0), Event::NodeUnexcluded { host: Host::new("a"), at: Tick(3) }]);
    let it = status.executor(executor).unwrap();
    assert_eq!((it.memory_used, it.rdd_blocks, it.is_excluded), (120, 1, false));
    let reason = "gone".to_owned();
    apply(&mut status, [Event::ExecutorRemoved { executor, reason, at: Tick(4) }]);
    let lost = TaskFailure::ExecutorLost { executor, caused_by_app: false, reason: "gone".into() };
    apply(
        &mut status,
        [
            finish(&first, Some(lost), 12, 0),
            Event::BlockManagerRemoved { id: manager, at: Tick(5) },
        ],
    );
    let it = status.executor(executor).unwrap();
    assert_eq!((it.is_active(), it.tasks.failed, it.memory_used), (false, 1, 0));
    assert!(status.rdd(RddId(3)).unwrap().partitions.is_empty());
    apply(&mut status, [Event::UnpersistRdd { rdd: RddId(3) }]);
    assert_eq!(status.rdds().count(), 0);
}

#[test]
fn of_what_executors_use_the_most_stays_by_stage_executor_and_task() {
    let (mut status, stage, executor) = (status(), attempt(0, 0), ExecutorId(1));
    let uses = |resident_memory| ExecutorMetrics { resident_memory, ..Default::default() };
    let info = ExecutorInfo::new(Host::new("a"), 1);
    let (short, long) = (task(1, stage, 0), task(2, stage, 1));
    let seen = TaskMetrics { executor: Some(Box::new(uses(7))), ..Default::default() };
    apply(
        &mut status,
        [
            Event::ExecutorAdded { executor, info, at: Tick(1) },
            job(0, vec![stage_info(0, 2)]),
            submitted(stage_info(0, 2)),
            start(&short),
            start(&long),
            finish(&short, None, 12, 0),
            Event::TaskEnd {
                task: long,
                failure: None,
                metrics: Some(Box::new(seen)),
                at: Tick(9),
            },
        ],
    );
    let peaks = |status: &AppStatus| {
        let it = status.stage(stage).unwrap();
        let resident = |peak: Option<ExecutorMetrics>| peak.unwrap().resident_memory;
        let of_stage = (resident(it.peak), resident(it.executors[&executor].peak));
        (of_stage, resident(status.executor(executor).unwrap().peak))
    };
    assert_eq!(peaks(&status), ((7, 7), 7));
    let tasks = |task| status.stage(stage)?.task(TaskId(task))?.metrics()?.executor;
    assert_eq!((tasks(1), tasks(2)), (None, Some(Box::new(uses(7)))));
    apply(
        &mut status,
        [
            Event::StageExecutorMetrics { stage, executor, metrics: uses(6) },
            Event::StageExecutorMetrics { stage, executor, metrics: uses(9) },
            Event::StageExecutorMetrics { stage: attempt(5, 0), executor, metrics: uses(11) },
        ],
    );
    assert_eq!(peaks(&status), ((9, 9), 11));
}

#[test]
fn numbers_out_of_all_proportion_and_exclusions_of_stages_that_are_over_leave_nothing_behind() {
    let mut status = status();
    let executor = ExecutorId(1);
    let info = ExecutorInfo::new(Host::new("a"), 1);
    let (failures, at) = (1, Tick(2));
    apply(
        &mut status,
        [
            Event::ExecutorAdded { executor, info, at },
            job(0, vec![stage_info(0, u32::MAX), stage_info(1, u32::MAX)]),
            submitted(stage_info(0, u32::MAX)),
            Event::ExecutorExcluded { executor, stage: Some(attempt(0, 0)), failures, at },
        ],
    );
    let huge = task(1, attempt(0, 0), u32::MAX);
    apply(&mut status, [start(&huge), finish(&huge, None, u64::MAX, u64::MAX)]);
    let running = status.job(JobId(0)).unwrap();
    assert_eq!((running.tasks_total, running.completed_indices), (u32::MAX, 1));
    assert_eq!(status.executor(executor).unwrap().excluded_in.len(), 1);
    apply(&mut status, [completed(stage_info(0, u32::MAX), None), end(0, Ok(()))]);
    assert!(status.executor(executor).unwrap().excluded_in.is_empty());
}

#[test]
fn events_of_what_is_not_there_and_of_unknown_kinds_are_skipped_and_counted() {
    let mut status = status();
    let stranger = task(1, attempt(9, 0), 0);
    apply(
        &mut status,
        [
            start(&stranger),
            finish(&stranger, None, 12, 0),
            completed(stage_info(8, 1), None),
            end(5, Ok(())),
            Event::ExecutorRemoved { executor: ExecutorId(7), reason: "?".into(), at: Tick(1) },
            Event::UnpersistRdd { rdd: RddId(3) },
            Event::Unknown,
            Event::Unknown,
        ],
    );
    assert_eq!(status.unknown_events(), 2);
    assert_eq!(status.jobs(|_| true, Order::Ascending, Paging::ALL).total, 0);
    let of_application = Event::EnvironmentUpdate {
        properties: vec![("spark.app.name".into(), "x".into())],
        runtime: BTreeMap::new(),
        resources: BTreeMap::from([("/bin/x".into(), "Executable".into())]),
        others: BTreeMap::new(),
    };
    let name = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
    let start = Event::ApplicationStart {
        name: "x".into(),
        app_id: "app-1".into(),
        attempt_id: Some("2".into()),
        user: "u".into(),
        driver_log_urls: name("stdout", "file://h/out"),
        driver_attributes: name("zone", "z"),
        at: Tick(3),
    };
    let end = Event::ApplicationEnd { exit_code: Some(101), at: Tick(9) };
    let version = "1.2.3".to_owned();
    apply(&mut status, [Event::LogStart { version }, start, of_application, end]);
    let it = status.application();
    assert_eq!((it.started, it.ended, it.exit_code), (Tick(3), Some(Tick(9)), Some(101)));
    assert_eq!((it.properties.len(), it.resources.len(), it.version.as_str()), (1, 1, "1.2.3"));
    assert_eq!((it.id.as_str(), it.attempt_id.as_deref()), ("app-1", Some("2")));
    assert_eq!(it.driver_log_urls["stdout"], "file://h/out");
    assert_eq!(it.driver_attributes["zone"], "z");
}

#[test]
fn totals_count_what_is_forgotten_and_no_end_of_what_never_began() {
    let mut status = AppStatus::new(Retention { jobs: 0, stages: 0, tasks: 0, dead_executors: 0 });
    for number in 0..3 {
        let one = task(u64::from(number), attempt(number, 0), 0);
        let stages = vec![stage_info(number, 1), stage_info(number + 10, 5)];
        apply(&mut status, [job(number, stages), submitted(stage_info(number, 1)), start(&one)]);
        apply(&mut status, [finish(&one, None, 12, 5), completed(stage_info(number, 1), None)]);
        apply(&mut status, [end(number, Ok(())), end(number, Ok(()))]);
    }
    let totals = status.totals();
    assert_eq!((totals.jobs_started, totals.jobs_succeeded, totals.jobs_failed), (3, 3, 0));
    assert_eq!((totals.stages_completed, totals.stages_skipped, totals.tasks_skipped), (3, 3, 15));
    assert_eq!((totals.tasks_completed, totals.metrics.input_records), (3, 15));
    assert_eq!((totals.last_job_ms, status.job(JobId(0))), (98, None));
}

#[test]
fn the_driver_is_listed_with_what_the_application_tells_of_it_whichever_came_first() {
    let url = BTreeMap::from([("stderr".to_owned(), "http://h/e".to_owned())]);
    let zone = BTreeMap::from([("ZONE".to_owned(), "north".to_owned())]);
    let application = Event::ApplicationStart {
        name: "n".to_owned(),
        app_id: "a".to_owned(),
        attempt_id: None,
        user: "u".to_owned(),
        driver_log_urls: url.clone(),
        driver_attributes: zone.clone(),
        at: Tick(1),
    };
    let id = BlockManagerId { executor: ExecutorId::DRIVER, host: Host::new("h"), port: 1 };
    let manager =
        Event::BlockManagerAdded { id, max_memory: 1, max_off_heap_memory: None, at: Tick(2) };
    for events in [[&application, &manager], [&manager, &application]] {
        let mut status = status();
        events.into_iter().for_each(|event| status.apply(event));
        let driver = &status.executor(ExecutorId::DRIVER).unwrap().info;
        assert_eq!((&driver.log_urls, &driver.attributes), (&url, &zone));
    }
}

/// Much is remembered of what is over: what does not end, or is long, has other bounds.
const MUCH: Retention =
    Retention { jobs: 100_000, stages: 100_000, tasks: 100_000, dead_executors: 100_000 };

/// What grows, and the events of a number that have it grow.
type Endless = (&'static str, fn(u32) -> Vec<Event>);

/// Events of which an application may have any number, and that take memory.
fn endless() -> [Endless; 13] {
    fn executor(number: u32) -> Event {
        let mut info = ExecutorInfo::new(Host::new("h"), 1);
        info.log_urls.insert("stdout".to_owned(), "x".repeat(200));
        Event::ExecutorAdded { executor: ExecutorId(number), info, at: Tick(1) }
    }
    fn on_executor(number: u32) -> TaskInfo {
        TaskInfo { executor: ExecutorId(number), ..task(1, attempt(0, 0), 0) }
    }
    fn long_failure() -> Option<TaskFailure> {
        Some(TaskFailure::Error { message: "x".repeat(500) })
    }
    fn long_properties(number: u32) -> Event {
        let properties = Properties::default().with("key", &"x".repeat(500));
        let stage = StageInfo { stage: attempt(1, number), ..stage_info(1, 1) };
        Event::StageSubmitted { stage, properties: Arc::new(properties), at: Tick(7) }
    }
    fn block(number: u32) -> Event {
        Event::BlockUpdated {
            block: format!("rdd_7_{}", number / 3),
            executor: ExecutorId(number % 3),
            level: StorageLevel::MEMORY_ONLY,
            memory_bytes: 1,
            disk_bytes: 0,
        }
    }
    fn cached(number: u32) -> Event {
        submitted(StageInfo { rdds: cached_rdds(number + 10), ..stage_info(0, 9) })
    }
    [
        ("jobs that run", |n| vec![job(n, vec![stage_info(n, 1)])]),
        ("jobs that ended", |n| vec![job(n, Vec::new()), end(n, Ok(()))]),
        ("stage attempts that run", |n| vec![long_properties(n)]),
        ("stages that ended", |n| {
            vec![submitted(stage_info(n, 1)), completed(stage_info(n, 1), Some("why"))]
        }),
        ("jobs of a stage", |n| vec![job(n, vec![stage_info(0, 9)])]),
        ("tasks that run", |n| vec![start(&task(n.into(), attempt(0, 0), n))]),
        ("tasks that failed", |n| {
            vec![finish(&task(n.into(), attempt(0, 0), 0), long_failure(), 9, 1)]
        }),
        ("executors", |n| vec![executor(n)]),
        ("executors that were lost", |n| {
            let reason = "x".repeat(500);
            let at = Tick(2);
            vec![executor(n), Event::ExecutorRemoved { executor: ExecutorId(n), reason, at }]
        }),
        ("executors of a stage", |n| vec![start(&on_executor(n))]),
        ("partitions far from each other", |n| {
            let far = TaskInfo { partition: n * 64, ..task(1, attempt(0, 0), 0) };
            vec![finish(&far, None, 9, 1)]
        }),
        ("cached blocks", |n| vec![block(n)]),
        ("cached RDDs", |n| vec![cached(n)]),
    ]
}

fn cached_rdds(id: u32) -> Arc<[StageRdd]> {
    let scope = RddScope { id: 0, name: "map".to_owned(), parent: None };
    let rdd = RddDescription {
        id: RddId(id),
        name: "x".repeat(100),
        scope,
        call_site: String::new(),
        parents: Vec::new(),
        partitions: 1,
        determinism: Determinism::Determinate,
    };
    Arc::from([StageRdd { rdd: Arc::new(rdd), level: StorageLevel::MEMORY_ONLY }])
}

#[test]
fn a_status_takes_no_more_memory_than_it_may_whatever_has_no_end() {
    const LIMIT: usize = 1 << 19;
    for (what, events) in endless() {
        let fed = |limit: usize| {
            let mut status = AppStatus::new(MUCH);
            status.set_limit(limit);
            let first = StageInfo { rdds: cached_rdds(7), ..stage_info(0, 9) };
            apply(&mut status, [job(0, vec![first.clone()]), submitted(first)]);
            (1..15_000).for_each(|number| apply(&mut status, events(number)));
            status
        };
        let mut status = fed(LIMIT);
        // It looks every ten thousand events.
        assert!(status.weight() < fed(usize::MAX).weight(), "{what}: nothing was forgotten");
        status.trim();
        assert!(status.weight() <= LIMIT, "{what}: {}", status.weight());
        assert!(fed(usize::MAX).weight() > 2 * LIMIT, "{what} take no memory");
        // What comes next is taken in.
        apply(&mut status, [job(99_999, vec![stage_info(99_999, 1)])]);
        assert!(status.job(JobId(99_999)).is_some(), "{what}");
    }
}

#[test]
fn of_too_many_tasks_those_of_the_stage_that_ended_first_go_and_their_sums_stay() {
    let mut status = AppStatus::new(MUCH);
    for stage in 0..3 {
        apply(&mut status, [job(stage, vec![stage_info(stage, 1000)])]);
        apply(&mut status, [submitted(stage_info(stage, 1000))]);
        let tasks = (0..1000).map(|n| task(u64::from(stage * 1000 + n), attempt(stage, 0), n));
        tasks.for_each(|task| apply(&mut status, [start(&task), finish(&task, None, 20, 5)]));
        apply(&mut status, [completed(stage_info(stage, 1000), None), end(stage, Ok(()))]);
    }
    let (before, weight) = (status.clone(), status.weight());
    status.set_limit(weight);
    status.trim();
    assert!(status == before, "it takes what it may");
    status.set_limit(weight - 1);
    status.trim();
    let remembered = |stage| status.stage(attempt(stage, 0)).unwrap().remembered_tasks();
    assert_eq!([0, 1, 2].map(remembered), [0, 1000, 1000]);
    let first = status.stage(attempt(0, 0)).unwrap();
    assert_eq!((first.tasks.completed, first.metrics.input_records), (1000, 5000));
    assert_eq!((first.completed_indices(), status.totals()), (1000, before.totals()));
}

#[test]
fn a_profile_or_a_process_of_absurd_size_is_not_remembered() {
    let mut status = status();
    let long = "x".repeat(1 << 17);
    for id in 0..3000u32 {
        let name = if id % 2 == 0 { long.as_str() } else { "cpus" };
        let profile = firesteel_types::ResourceProfile {
            id,
            executor: BTreeMap::new(),
            task: BTreeMap::from([(name.to_owned(), 1.0)]),
            devices: BTreeMap::new(),
        };
        apply(&mut status, [Event::ResourceProfileAdded { profile }]);
        let info = firesteel_types::ProcessInfo {
            address: name.to_owned(),
            cores: 1,
            log_urls: BTreeMap::new(),
        };
        let added = Event::MiscellaneousProcessAdded { id: id.to_string(), info, at: Tick(1) };
        apply(&mut status, [added]);
        status.name_executor(ExecutorId(id), "one");
    }
    let application = status.application();
    assert_eq!((application.profiles.len(), application.processes.len()), (1000, 1000));
    assert!(application.profiles.keys().all(|id| id % 2 == 1));
    assert!(status.weight() < 1 << 20, "{}", status.weight());
}
