//! Jobs on executors in processes of their own: `local-cluster[n,c,m]`, with everything moved between
//! processes, and with executors that die.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use firesteel::Listener;
use firesteel::prelude::*;
use firesteel::types::Event;
use firesteel_rpc::RpcOptions;
use firesteel_standalone::master::{self, MasterArgs};
use firesteel_standalone::worker::{self, WorkerArgs};

/// How long anything may take that happens at all.
const DEADLINE: Duration = Duration::from_secs(60);

fn builder() -> firesteel::Builder {
    let builder = Context::builder().master("local-cluster[2,1,256]").app_name("cluster test");
    builder.arguments([] as [&str; 0]).config("spark.ui.showConsoleProgress", false)
}

/// A context whose two executors are registered.
fn context() -> (Context, Executors) {
    started(builder())
}

fn started(builder: firesteel::Builder) -> (Context, Executors) {
    let executors = Executors::default();
    let ctx = builder.listener(executors.clone()).build().unwrap();
    executors.wait(|alive| alive.len() == 2);
    (ctx, executors)
}

/// Which executors came and went.
#[derive(Clone, Default)]
struct Executors(Arc<Mutex<(Vec<u32>, Vec<String>)>>);

impl Listener for Executors {
    fn on_event(&mut self, event: &Event) {
        let (alive, gone) = &mut *self.0.lock().unwrap();
        match event {
            Event::ExecutorAdded { executor, .. } => alive.push(executor.0),
            Event::ExecutorRemoved { executor, reason, .. } => {
                alive.retain(|id| *id != executor.0);
                gone.push(reason.clone());
            }
            _ => {}
        }
    }
}

impl Executors {
    fn wait(&self, until: impl Fn(&[u32]) -> bool) {
        let started = Instant::now();
        while !until(&self.0.lock().unwrap().0) {
            assert!(started.elapsed() < DEADLINE, "{:?}", self.0.lock().unwrap());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The processes that ran the partitions of a small job.
fn processes(ctx: &Context) -> Vec<u32> {
    let ids = ctx.parallelize_in(8, 0..8u32).map(|_| {
        // Long enough that no executor takes all of them.
        let until = Instant::now() + Duration::from_millis(20);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        std::process::id()
    });
    let mut ids = ids.collect().unwrap();
    ids.sort_unstable();
    ids.dedup();
    ids
}

fn kill(process: u32) {
    let status = std::process::Command::new("kill").args(["-9", &process.to_string()]).status();
    assert!(status.unwrap().success());
}

#[test]
fn tasks_run_in_other_processes_which_are_gone_when_the_context_has_stopped() {
    let (ctx, _) = context();
    let ids = processes(&ctx);
    assert_eq!(ids.len(), 2, "{ids:?}");
    assert!(!ids.contains(&std::process::id()));
    assert!(ctx.application_id().starts_with("app-"), "{}", ctx.application_id());
    ctx.stop();
    for id in ids {
        assert!(!std::path::Path::new(&format!("/proc/{id}")).exists(), "{id}");
    }
}

/// How many tasks were at executors at once, at most.
#[derive(Clone, Default)]
struct Crowd(Arc<Mutex<(i64, i64)>>);

impl Listener for Crowd {
    fn on_event(&mut self, event: &Event) {
        let (now, most) = &mut *self.0.lock().unwrap();
        match event {
            Event::TaskStart { .. } => *now += 1,
            Event::TaskEnd { .. } => *now -= 1,
            _ => {}
        }
        *most = *now.max(most);
    }
}

#[test]
fn short_tasks_are_pipelined_and_none_waits_for_a_long_one() {
    let directory = tempfile::tempdir().unwrap();
    let crowd = Crowd::default();
    let builder = builder().config("spark.task.maxFailures", 1).listener(crowd.clone());
    // Tasks that write files are short even where that takes long.
    let (ctx, _) = started(builder.config("spark.firesteel.task.pipelined", "50ms"));
    let done = directory.path().to_str().unwrap().to_owned();
    let numbers = ctx.parallelize_in(400, 0..400u32).with(done).map(|done, number| {
        // One of them ends after all others.
        let others = || std::fs::read_dir(done).unwrap().count();
        let started = Instant::now();
        while number == 200 && others() < 399 {
            assert!(started.elapsed() < DEADLINE, "only {} of 399 are done", others());
            std::thread::sleep(Duration::from_millis(1));
        }
        if number != 200 {
            std::fs::write(format!("{done}/{number}"), "").unwrap();
        }
        number
    });
    assert_eq!(numbers.collect().unwrap(), (0..400).collect::<Vec<_>>());
    ctx.stop();
    let (left, most) = *crowd.0.lock().unwrap();
    assert!(left == 0 && (3..=66).contains(&most), "{left} left, at most {most}");
}

#[test]
fn shuffles_move_records_between_executors() {
    let (ctx, _) = context();
    let words = ctx.parallelize_in(6, (0..6000u64).map(|n| format!("w{}", n % 700)));
    let counts = words.map(|word| (word, 1u64)).reduce_by_key_into(5, |a, b| a + b);
    let counted: BTreeMap<String, u64> = counts.collect().unwrap().into_iter().collect();
    assert_eq!(counted.len(), 700);
    assert_eq!(counted.values().sum::<u64>(), 6000);
    let other = ctx.parallelize_in(3, (0..700u64).map(|n| (format!("w{n}"), n)));
    let mut joined = counts.join(&other).collect().unwrap();
    joined.sort();
    let numbers = (0..700u64).map(|n| n.to_string()).collect::<Vec<_>>();
    assert_eq!(joined.len(), numbers.len());
    for (word, (count, number)) in joined {
        assert_eq!((word, count), (format!("w{number}"), counted[&format!("w{number}")]));
    }
    let shuffled = ctx.parallelize_in(4, (0..20_000u32).map(|n| n.wrapping_mul(2_654_435_761)));
    let sorted = shuffled.sort_by(|n| *n).collect().unwrap();
    assert!(sorted.is_sorted() && sorted.len() == 20_000);
    let groups = ctx.parallelize_in(4, 0..1000u32).map(|n| (n % 10, n)).group_by_key();
    assert!(groups.collect().unwrap().iter().all(|(_, group)| group.len() == 100));
}

#[test]
fn outputs_on_disk_and_larger_than_may_be_in_flight_arrive_whole() {
    let (ctx, _) = started(builder().config("spark.reducer.maxSizeInFlight", "1m"));
    let records = ctx.range_in(4, 0..400_000u64, 1).map(|n| (n % 3, format!("{n:0>40}")));
    let grouped = records.partition_by(3);
    let lengths = grouped.map(|(_, text)| text.len() as u64);
    assert_eq!(lengths.sum().unwrap(), 400_000 * 40);
}

#[test]
fn cached_partitions_broadcasts_and_accumulators_work_across_processes() {
    let (ctx, _) = context();
    let computed = ctx.accumulator::<u64>();
    let kept = ctx.parallelize_in(4, 0..400u64).with(computed.clone()).map(|computed, n| {
        computed.add(1);
        n * 2
    });
    let kept = kept.persist(StorageLevel::MEMORY_ONLY);
    assert_eq!(kept.sum().unwrap(), 159_600);
    assert_eq!(kept.count().unwrap(), 400);
    assert_eq!(computed.value(), 400, "the second job found all partitions where they are");
    kept.unpersist();
    assert_eq!(kept.count().unwrap(), 400);
    assert_eq!(computed.value(), 800);
    let table = ctx.broadcast((0..100_000u64).map(|n| n * n).collect::<Vec<_>>());
    let squares = ctx.parallelize_in(6, 0..600usize).with(table).map(|table, n| table[n]);
    assert_eq!(squares.sum().unwrap(), (0..600u64).map(|n| n * n).sum::<u64>());
}

#[test]
fn large_results_are_fetched_and_too_large_ones_refused() {
    let (ctx, _) = started(builder().config("spark.driver.maxResultSize", "40m"));
    let blobs = ctx.parallelize_in(2, 0..2u8).map(|n| vec![n; 5 << 20]);
    let blobs = blobs.collect().unwrap();
    assert!(blobs.iter().enumerate().all(|(n, blob)| *blob == vec![n as u8; 5 << 20]));
    let too_much = ctx.parallelize_in(10, 0..10u8).map(|n| vec![n; 5 << 20]);
    let error = too_much.collect().unwrap_err().to_string();
    assert!(error.contains("spark.driver.maxResultSize"), "{error}");
    assert_eq!(ctx.range(0..10u32).count().unwrap(), 10, "the context lives on");
}

#[test]
fn a_task_that_fails_is_tried_again_elsewhere_and_one_that_always_fails_ends_its_job() {
    let (ctx, _) = context();
    let sometimes = ctx.parallelize_in(4, 0..4u32).map(|n| {
        let attempt = firesteel::TaskContext::current().unwrap().attempt();
        assert!(n != 2 || attempt >= 2, "not yet");
        n
    });
    assert_eq!(sometimes.sum().unwrap(), 6);
    let always = ctx.parallelize_in(2, 0..2u32).map(|n| -> u32 { panic!("never with {n}") });
    let error = always.collect().unwrap_err().to_string();
    assert!(error.contains("failed 4 time(s)") && error.contains("never with"), "{error}");
}

#[test]
fn a_shuffle_goes_on_when_an_executor_is_killed_between_its_stages() {
    let (ctx, executors) = context();
    let runs = ctx.accumulator::<u64>();
    let pairs = ctx.parallelize_in(6, 0..6000u64).with(runs).map(|runs, n| {
        runs.add(1);
        (n % 100, n)
    });
    let sums = pairs.reduce_by_key_into(4, |a, b| a + b);
    let total = 6000 * 5999 / 2;
    assert_eq!(sums.map(|(_, sum)| sum).sum().unwrap(), total);
    kill(processes(&ctx)[0]);
    // The map outputs of the dead are missed when they are read, or before.
    assert_eq!(sums.map(|(_, sum)| sum).sum().unwrap(), total);
    executors.wait(|alive| alive.len() == 2 && alive.iter().any(|id| *id > 1));
    assert_eq!(processes(&ctx).len(), 2, "the new one gets tasks");
}

#[test]
fn an_executor_that_a_task_kills_is_replaced_and_the_job_ends_right() {
    let (ctx, executors) = context();
    let deadly = ctx.parallelize_in(6, 0..600u64).map(|n| {
        let attempt = firesteel::TaskContext::current().unwrap().attempt();
        if n == 250 && attempt == 0 {
            kill(std::process::id());
            std::thread::park();
        }
        (n % 7, n)
    });
    let sums = deadly.reduce_by_key_into(3, |a, b| a + b);
    assert_eq!(sums.map(|(_, sum)| sum).sum().unwrap(), 600 * 599 / 2);
    executors.wait(|alive| alive.len() == 2 && alive.iter().any(|id| *id > 1));
    assert!(!executors.0.lock().unwrap().1.is_empty(), "one was lost");
}

#[test]
fn a_cancelled_job_frees_its_executors() {
    let (ctx, _) = started(builder());
    let running = Arc::new(Mutex::new(0));
    let seen = running.clone();
    ctx.add_listener(move |event: &Event| {
        if let Event::TaskStart { .. } = event {
            *seen.lock().unwrap() += 1;
        }
    });
    ctx.set_job_group("endless", "never ends");
    let endless = ctx.range_in(2, 0..u64::MAX / 4, 1).filter(|n| *n == u64::MAX).count_async();
    let started = Instant::now();
    while *running.lock().unwrap() < 2 {
        assert!(started.elapsed() < DEADLINE);
        std::thread::yield_now();
    }
    ctx.cancel_job_group("endless");
    assert!(endless.wait().is_err());
    ctx.clear_job_group();
    assert_eq!(ctx.range(0..10u32).count().unwrap(), 10, "executors are free again");
}

#[test]
fn applications_join_a_cluster_that_is_there_one_after_the_other() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (conf, rpc) = (firesteel::conf::Conf::new(), RpcOptions::default());
    let (master, worker) = runtime.block_on(async {
        let master = master::start(MasterArgs::loopback(conf.clone(), rpc.clone())).await.unwrap();
        let masters = vec![master.address.clone()];
        let args = WorkerArgs::loopback(masters, directory.path().into(), conf, rpc);
        let worker = worker::start(args).await.unwrap();
        worker.registered().await;
        (master, worker)
    });
    let mut ids = Vec::new();
    for _ in 0..2 {
        // The worker's one core is free again when the application before has stopped.
        let ctx =
            builder().master(&master.url()).config("spark.authenticate", false).build().unwrap();
        let sums = ctx.parallelize_in(4, 0..100u64).map(|n| (n % 3, n)).reduce_by_key(|a, b| a + b);
        assert_eq!(sums.map(|(_, sum)| sum).sum().unwrap(), 4950);
        ids.push(ctx.application_id().to_owned());
        ctx.stop();
        assert!(ctx.range(0..3u32).count().is_err(), "it is stopped");
    }
    assert_ne!(ids[0], ids[1]);
    runtime.block_on(async {
        worker.stop().await;
        master.stop().await;
    });
}
