//! What listeners hear, in which order and how often; pools; many small tasks.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use firesteel::types::{Event, ExecutorId, JobId, StageRef};

use crate::rig::{Heard, builder, context, sorted, wait_until};

fn of_stage(event: &Event) -> Option<StageRef> {
    match event {
        Event::StageSubmitted { stage, .. } | Event::StageCompleted { stage, .. } => {
            Some(stage.stage)
        }
        Event::TaskStart { task, .. } | Event::TaskEnd { task, .. } => Some(task.stage),
        _ => None,
    }
}

/// One word per event; stages as they are numbered. Heartbeats come when they come.
fn trace(events: &[Event]) -> Vec<String> {
    let word = |event: &Event| match event {
        Event::JobStart { job, .. } => format!("job {job} starts"),
        Event::JobEnd { job, result, .. } => format!("job {job} ends: {}", result.is_ok()),
        Event::StageSubmitted { stage, .. } => format!("stage {} starts", stage.stage),
        Event::StageCompleted { stage, failure, .. } => {
            format!("stage {} ends: {}", stage.stage, failure.is_none())
        }
        Event::TaskStart { task, .. } => format!("task {}/{} starts", task.stage, task.partition),
        Event::TaskEnd { task, failure, .. } => {
            format!("task {}/{} ends: {}", task.stage, task.partition, failure.is_none())
        }
        other => format!("{other:?}").split([' ', '{']).next().unwrap_or_default().to_owned(),
    };
    let is_beat = |event: &&Event| matches!(event, Event::ExecutorMetricsUpdate { .. });
    events.iter().filter(|event| !is_beat(event)).map(word).collect()
}

#[test]
fn one_core_tells_a_job_step_by_step() {
    let (ctx, heard) = Heard::attach(builder("local[1]"));
    let sums = ctx.range_in(2, 0..4u64, 1).map(|n| (n, n)).reduce_by_key_into(1, |a, b| a + b);
    sums.count().unwrap();
    assert!(ctx.range_in(1, 0..1u64, 1).map(|n| 1 / n).count().is_err());
    ctx.stop();
    let wanted = [
        "LogStart",
        "ApplicationStart",
        "ResourceProfileAdded",
        "EnvironmentUpdate",
        "BlockManagerAdded",
        "ExecutorAdded",
        "job 0 starts",
        "stage 0.0 starts",
        "task 0.0/0 starts",
        "task 0.0/0 ends: true",
        "task 0.0/1 starts",
        "task 0.0/1 ends: true",
        "stage 0.0 ends: true",
        "stage 1.0 starts",
        "task 1.0/0 starts",
        "task 1.0/0 ends: true",
        "stage 1.0 ends: true",
        "job 0 ends: true",
        "job 1 starts",
        "stage 2.0 starts",
        "task 2.0/0 starts",
        "task 2.0/0 ends: false",
        "stage 2.0 ends: false",
        "job 1 ends: false",
        "ApplicationEnd",
    ];
    assert_eq!(trace(&heard.events()), wanted);
}

#[test]
fn everything_begins_before_it_ends_and_each_thing_ends_once() {
    let (ctx, heard) = Heard::attach(builder("local[4]"));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let pairs = ctx.range_in(8, 0..800u64, 1).map(|n| (n % 10, n));
                let sums = pairs.reduce_by_key(|a, b| a + b);
                assert_eq!(sums.sort_by_key().count().unwrap(), 10);
                assert_eq!(sums.join(&pairs).count().unwrap(), 800);
            });
        }
    });
    ctx.wait_for_listeners();
    let (mut jobs, mut stages, mut tasks) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut stage_of_job: BTreeMap<StageRef, JobId> = BTreeMap::new();
    for event in heard.events() {
        match &event {
            Event::JobStart { job, stages: all, .. } => {
                assert!(jobs.insert(*job, false).is_none());
                all.iter().for_each(|stage| {
                    stage_of_job.entry(stage.stage).or_insert(*job);
                });
            }
            Event::JobEnd { job, result, .. } => {
                assert_eq!(*result, Ok(()));
                assert_eq!(jobs.insert(*job, true), Some(false));
            }
            Event::StageSubmitted { stage, .. } => {
                assert!(stage_of_job.contains_key(&stage.stage), "its job came first");
                assert!(stages.insert(stage.stage, false).is_none());
            }
            Event::StageCompleted { stage, .. } => {
                assert_eq!(stages.insert(stage.stage, true), Some(false));
            }
            Event::TaskStart { task, .. } => {
                assert_eq!(stages.get(&task.stage), Some(&false), "its stage runs");
                assert!(tasks.insert(task.task, false).is_none());
            }
            Event::TaskEnd { task, metrics, .. } => {
                assert!(metrics.is_some());
                assert_eq!(tasks.insert(task.task, true), Some(false));
            }
            other => assert!(of_stage(other).is_none()),
        }
    }
    assert!(jobs.values().chain(stages.values()).chain(tasks.values()).all(|ended| *ended));
    // Four threads: a sampling job, the sort, the join.
    assert_eq!(jobs.len(), 12);
}

#[test]
fn metrics_count_what_tasks_read_and_wrote() {
    let (ctx, heard) = Heard::attach(builder("local[2]"));
    let pairs = ctx.range_in(4, 0..1000u64, 1).map(|n| (n, n));
    assert_eq!(pairs.group_by_key().count().unwrap(), 1000);
    ctx.wait_for_listeners();
    let (mut read, mut written, mut shuffled) = (0, 0, 0);
    for event in heard.events() {
        if let Event::TaskEnd { metrics: Some(metrics), .. } = event {
            read += metrics.input_records;
            written += metrics.shuffle_write_records;
            shuffled += metrics.shuffle_read_records;
            assert_eq!(metrics.shuffle_write_records > 0, metrics.shuffle_write_bytes > 0);
        }
    }
    assert_eq!((read, written, shuffled), (1000, 1000, 1000));
}

#[test]
fn what_the_process_uses_is_told_with_heartbeats_tasks_and_stages() {
    let often = builder("local[2]").config("spark.executor.heartbeatInterval", "20ms");
    let (ctx, heard) = Heard::attach(often.config("spark.executor.metrics.pollingInterval", "5ms"));
    let stage_of = |event: &Event| match event {
        Event::ExecutorMetricsUpdate { stages, .. } => stages.first().map(|peak| peak.stage),
        _ => None,
    };
    let job = ctx.range_in(1, 0..u64::MAX, 1).in_background(|rdd| rdd.count());
    wait_until("a heartbeat tells of the stage", || {
        heard.count(&ctx, |event| stage_of(event).is_some()) > 0
    });
    job.cancel();
    assert!(job.wait().is_err());
    let is_end = |event: &Event| matches!(event, Event::TaskEnd { .. });
    wait_until("the task ends", || heard.count(&ctx, is_end) == 1);
    let events = heard.events();
    let stage = events.iter().find_map(stage_of).unwrap();
    let peak = events.iter().find_map(|event| match event {
        Event::TaskEnd { metrics: Some(metrics), .. } => metrics.executor.clone(),
        _ => None,
    });
    assert!(peak.is_some_and(|peak| peak.resident_memory > 1 << 20));
    let told = events.iter().position(|event| {
        matches!(event, Event::StageExecutorMetrics { stage: of, executor, metrics }
            if (*of, *executor) == (stage, ExecutorId::DRIVER) && metrics.virtual_memory > 0)
    });
    let ended = events.iter().position(|event| matches!(event, Event::StageCompleted { .. }));
    assert_eq!(told.map(|told| told + 1), ended, "the peak is told right before the stage's end");
    let status = ctx.status_reader()();
    let peak = status.stage(stage).unwrap().peak.unwrap();
    assert!(peak.resident_memory > 1 << 20, "{peak:?}");
    assert!(
        status.executor(ExecutorId::DRIVER).unwrap().peak.unwrap().resident_memory
            >= peak.resident_memory
    );
}

#[test]
fn jobs_are_told_with_the_place_of_their_action() {
    let (ctx, heard) = Heard::attach(builder("local[2]"));
    ctx.range(0..10u64).zip_with_index().count().unwrap();
    ctx.range(0..10u64).sort_by(|n| *n).first().unwrap();
    ctx.wait_for_listeners();
    for event in heard.events() {
        if let Event::JobStart { properties, .. } = event {
            let call_site = properties.call_site();
            assert!(call_site.contains("listening.rs:"), "{call_site}");
        }
    }
}

#[test]
fn rdds_are_told_with_the_call_that_made_them_and_the_scope_around_it() {
    let (ctx, heard) = Heard::attach(builder("local[2]"));
    let numbers = ctx.range_in(2, 0..10u64, 1);
    let sums = ctx.with_scope("sums", || numbers.map(|n| (n % 3, n)).reduce_by_key(|a, b| a + b));
    let both: Vec<_> = (0..2).map(|_| sums.map(|(_, sum)| sum)).collect();
    assert_eq!(both[0].union(&both[1]).count().unwrap(), 6);
    ctx.wait_for_listeners();
    let mut scopes = BTreeMap::new();
    for event in heard.events() {
        if let Event::JobStart { stages, .. } = event {
            let rdds = stages.iter().flat_map(|stage| stage.rdds.iter());
            scopes.extend(rdds.map(|rdd| (rdd.rdd.id, rdd.rdd.scope.clone())));
        }
    }
    let of = |name: &str| -> Vec<_> {
        scopes.values().filter(|scope| scope.name == name && scope.parent.is_none()).collect()
    };
    let maps = of("map");
    assert_eq!(maps.len(), 2, "{scopes:?}");
    assert_ne!(maps[0].id, maps[1].id, "one line, two calls");
    assert_eq!((of("range_in").len(), of("union").len()), (1, 1), "{scopes:?}");
    let inner = scopes.values().filter_map(|scope| Some((&scope.name, scope.parent.as_ref()?)));
    let inner: Vec<_> = inner.collect();
    assert!(inner.iter().any(|(name, _)| *name == "reduce_by_key"), "{scopes:?}");
    assert!(inner.iter().all(|(_, outer)| outer.name == "sums" && outer.id == inner[0].1.id));
}

#[test]
fn the_application_is_told_with_its_version_its_executable_and_the_code_it_ends_with() {
    let attempt = builder("local[1]").config("spark.app.attempt.id", 2);
    let (ctx, heard) = Heard::attach(attempt);
    ctx.stop_with_exit_code(3);
    ctx.stop();
    let status = ctx.status_reader()();
    let application = status.application();
    assert_eq!((application.exit_code, application.attempt_id.as_deref()), (Some(3), Some("2")));
    assert!(application.version.starts_with("0."), "{}", application.version);
    assert!(application.resources.values().any(|whose| whose == "Executable"));
    let ends = |event: &Event| matches!(event, Event::ApplicationEnd { .. });
    assert_eq!(heard.events().iter().filter(|event| ends(event)).count(), 1);
}

#[test]
fn a_listener_that_comes_late_hears_what_happens_from_then_on() {
    let ctx = context();
    ctx.range(0..10u64).count().unwrap();
    let (sender, heard) = std::sync::mpsc::channel();
    ctx.add_listener(move |event: &Event| {
        if let Event::JobStart { job, .. } = event {
            sender.send(*job).unwrap();
        }
    });
    ctx.range(0..10u64).count().unwrap();
    ctx.wait_for_listeners();
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [JobId(1)]);
}

#[test]
fn ten_thousand_tiny_tasks_all_run_once() {
    let (ctx, heard) = Heard::attach(builder("local[2]"));
    let runs = ctx.accumulator::<u64>();
    let rdd = ctx.range_in(10_000, 0..10_000u64, 1).with(runs.clone()).map(|runs, n| {
        runs.add(1);
        n
    });
    assert_eq!(rdd.sum().unwrap(), 49_995_000);
    assert_eq!((runs.value(), heard.tasks(&ctx)), (10_000, 10_000));
}

const POOLS: &str = r#"<?xml version="1.0"?>
<allocations>
  <pool name="large"><schedulingMode>FAIR</schedulingMode><weight>3</weight><minShare>2</minShare></pool>
  <pool name="small"><weight>1</weight><minShare>1</minShare></pool>
</allocations>"#;

/// The pools of the first four tasks of two jobs on four cores, which hold them until all are there.
fn first_by_pool(run: usize, mode: &str) -> Vec<char> {
    static OPEN: AtomicUsize = AtomicUsize::new(0);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(POOLS.as_bytes()).unwrap();
    let (ctx, heard) = Heard::attach(
        builder("local[4]")
            .config("spark.scheduler.mode", mode)
            .config("spark.scheduler.allocation.file", file.path().display()),
    );
    // Holds all cores until both jobs are submitted.
    let gate = ctx.range_in(4, 0..u64::MAX, 1).in_background(|rdd| rdd.count());
    let started = |event: &Event| matches!(event, Event::TaskStart { .. });
    wait_until("the cores are taken", || heard.count(&ctx, started) == 4);
    std::thread::scope(|scope| {
        let jobs = ["large", "small"].map(|pool| {
            let thread = scope.spawn({
                let ctx = &ctx;
                move || {
                    ctx.set_pool(Some(pool));
                    ctx.set_job_group(pool, "");
                    let waiting = ctx.range_in(30, 0..30u64, 1).with(run).map(|run, _| {
                        wait_until("the tasks may end", || OPEN.load(Ordering::Acquire) >= *run);
                    });
                    waiting.count().unwrap()
                }
            });
            let submitted = |e: &Event| {
                matches!(e, Event::JobStart { properties, .. } if properties.group() == Some(pool))
            };
            wait_until("the job is submitted", || heard.count(&ctx, submitted) == 1);
            thread
        });
        gate.cancel();
        wait_until("the cores are taken again", || heard.count(&ctx, started) == 8);
        OPEN.store(run, Ordering::Release);
        jobs.into_iter().for_each(|job| assert_eq!(job.join().unwrap(), 30));
    });
    ctx.wait_for_listeners();
    let mut pool_of = BTreeMap::new();
    let mut order = Vec::new();
    for event in heard.events() {
        match event {
            Event::JobStart { properties, stages, .. } => {
                let pool = properties.group().and_then(|group| group.chars().next());
                pool_of.extend(pool.map(|pool| (stages[0].stage.stage, pool)));
            }
            Event::TaskStart { task, .. } => order.extend(pool_of.get(&task.stage.stage)),
            _ => {}
        }
    }
    assert_eq!(order.len(), 60, "both pools ran all their tasks");
    order.truncate(4);
    sorted(order)
}

#[test]
fn fair_pools_share_the_cores_by_weight_and_fifo_gives_them_to_the_first_job() {
    assert_eq!(first_by_pool(1, "FAIR"), ['l', 'l', 'l', 's']);
    assert_eq!(first_by_pool(2, "FIFO"), ['l', 'l', 'l', 'l']);
}

#[test]
fn jobs_of_threads_that_choose_no_pool_run_in_that_of_the_settings() {
    let settings = builder("local[1]").config("spark.scheduler.mode", "FAIR");
    let (ctx, heard) = Heard::attach(settings.config("spark.scheduler.pool", "small"));
    for pool in [None, Some("large"), None] {
        ctx.set_pool(pool);
        assert_eq!(ctx.range(0..3u32).count().unwrap(), 3);
    }
    ctx.wait_for_listeners();
    let pools: Vec<String> = heard
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::JobStart { properties, .. } => properties.pool().map(str::to_owned),
            _ => None,
        })
        .collect();
    assert_eq!(pools, ["small", "large", "small"]);
}
