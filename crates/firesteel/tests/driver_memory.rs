//! What the driver of a cluster holds and sends: reports of tasks wait at executors while it is busy, a task gets its own
//! part of a collection, results that nobody wants stay where they are, and nothing is told twice.

mod executors;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use executors::*;
use firesteel::Accumulate;
use firesteel::prelude::*;
use firesteel::types::Event;
use serde::{Deserialize, Serialize};

const MEGABYTE: u64 = 1 << 20;

/// One whose merge takes until the test says so.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Gated {
    text: String,
    merged: u64,
}

static OPEN: AtomicBool = AtomicBool::new(false);

impl Accumulate for Gated {
    type Input = String;

    fn add(&mut self, text: String) {
        self.text = text;
    }

    fn merge(&mut self, other: Gated) {
        wait_until(|| OPEN.load(Ordering::Relaxed));
        self.merged += other.text.len() as u64;
    }
}

#[test]
fn reports_wait_at_executors_while_the_driver_merges_and_nobody_is_lost() {
    const TASKS: u64 = 200;
    const BYTES: u64 = MEGABYTE / 10 * 9;
    const TIMEOUT: Duration = Duration::from_secs(3);
    // Who has not reported gets no more tasks: it takes many at a time to bring much.
    let builder = builder(2)
        .master("local-cluster[2,60,1024]")
        .config("spark.network.timeout", "3s")
        .config("spark.executor.heartbeatInterval", "300ms");
    let (ctx, seen) = started(builder, 2);
    let gated = ctx.accumulator::<Gated>();
    let tasks = ctx.parallelize_in(TASKS as usize, 0..TASKS).with(gated.clone());
    let job = tasks.map(|gated, n| {
        gated.add("x".repeat(BYTES as usize));
        n
    });
    let job = job.count_async();
    // More than the driver takes. From then on it is silent for longer than anybody may be.
    wait_until(|| ctx.most_queued_bytes() > 32 * MEGABYTE);
    let full = Instant::now();
    wait_until(|| full.elapsed() > 3 * TIMEOUT);
    OPEN.store(true, Ordering::Relaxed);
    assert_eq!(job.wait().unwrap(), TASKS);
    assert_eq!(gated.value().merged, TASKS * BYTES);
    let most = ctx.most_queued_bytes();
    // What is queued before anybody has to wait, and the windows of two executors.
    assert!(most < (32 + 2 * 8 + 4) * MEGABYTE, "{most} bytes were queued at once");
    let seen = seen.0.lock().unwrap();
    assert!(!seen.iter().any(|event| matches!(event, Event::ExecutorRemoved { .. })));
}

/// A text of 100 KB.
fn text(n: u64) -> String {
    format!("{n:05}{}", "x".repeat(99_995))
}

fn texts(count: u64) -> Vec<String> {
    (0..count).map(text).collect()
}

#[test]
fn a_task_gets_its_own_part_of_a_collection() {
    let (ctx, _) = started(builder(1), 1);
    let items = ctx.parallelize_in(100, texts(100));
    let before = ctx.sent_task_bytes();
    assert_eq!(items.first().unwrap(), text(0));
    let served = ctx.served_item_bytes();
    assert!((100_000..110_000).contains(&served), "{served} bytes for one of 100 partitions");
    assert!(ctx.sent_task_bytes() - before < 100_000, "not along with the task either");
    let few = ctx.parallelize_in(100, 0..100u64);
    assert_eq!(few.sum().unwrap(), 4950);
    assert_eq!(ctx.served_item_bytes(), served, "few items go along with the code");
}

#[test]
fn tasks_wait_for_their_turn_to_read_their_part_of_a_collection() {
    let many = builder(1).master("local-cluster[1,64,2048]").config("spark.task.maxFailures", 1);
    let (ctx, _) = started(many, 1);
    let large = (0..64u8).map(|n| vec![n; 2_000_000]).collect::<Vec<_>>();
    let items = ctx.parallelize_in(64, large);
    let sum = items.map(|bytes| bytes.iter().map(|n| u64::from(*n)).sum::<u64>()).sum();
    assert_eq!(sum.unwrap(), (0..64).sum::<u64>() * 2_000_000);
}

#[test]
fn parts_of_collections_come_wherever_they_are_read() {
    let (ctx, _) = started(builder(2), 2);
    let lengths = |rdd: &Rdd<String, _>| rdd.map(|text| text.len() as u64).sum().unwrap();
    let (left, right) = (ctx.parallelize_in(4, texts(20)), ctx.parallelize_in(3, texts(9)));
    assert_eq!(lengths(&left), 2_000_000);
    let both = left.union(&right).union(&left);
    assert_eq!(both.map(|text| text.len() as u64).sum().unwrap(), 4_900_000);
    let pairs = left.cartesian(&right).map(|(a, b)| (a.len() + b.len()) as u64);
    assert_eq!(pairs.sum().unwrap(), 180 * 200_000);
    let zipped = left.zip(&left.map(|text| text.len())).map(|(text, n)| (text.len() == n) as u64);
    assert_eq!(zipped.sum().unwrap(), 20);
    let cached = left.map(|text| (text.len(), text)).cache();
    assert_eq!(cached.coalesce(1).count().unwrap(), 20);
    assert_eq!(cached.reduce_by_key(|a, b| a.max(b)).count().unwrap(), 1);
    let found = left.collect().unwrap();
    assert_eq!(found, texts(20), "in their order");
}

#[derive(Clone, Serialize, Deserialize)]
struct Unwilling(#[serde(serialize_with = "refuse_large")] String);

fn refuse_large<S: serde::Serializer>(text: &str, to: S) -> std::result::Result<S::Ok, S::Error> {
    match text.len() > 200_000 {
        true => Err(serde::ser::Error::custom("a text that does not travel")),
        false => to.serialize_str(text),
    }
}

#[test]
fn an_item_that_cannot_be_sent_fails_the_job_once_and_says_why() {
    let (ctx, seen) = started(builder(1), 1);
    let large = [100_000, 100_000, 300_000].map(|length| Unwilling("x".repeat(length)));
    let items = ctx.parallelize_in(3, large);
    let error = items.map(|text| text.0.len()).collect().unwrap_err().to_string();
    assert!(error.contains("a text that does not travel"), "{error}");
    let failed = |event: &&Event| matches!(event, Event::TaskEnd { failure: Some(_), .. });
    wait_until(|| seen.0.lock().unwrap().iter().any(|event| failed(&event)));
    let failures = seen.0.lock().unwrap().iter().filter(failed).count();
    assert_eq!(failures, 1, "another attempt would not help");
}

#[test]
fn results_that_nobody_wants_are_not_fetched() {
    const LIMIT: u64 = 40 * MEGABYTE;
    let builder = Context::builder()
        .master("local-cluster[2,4,512]")
        .app_name("results")
        .arguments([""; 0])
        .config("spark.ui.showConsoleProgress", false)
        .config("spark.driver.maxResultSize", LIMIT);
    let (ctx, seen) = started(builder, 2);
    let texts = ctx.parallelize_in(8, 0..8u32).map(|_| {
        work();
        "x".repeat((10 * MEGABYTE) as usize)
    });
    let error = texts.collect().unwrap_err().to_string();
    assert!(error.contains("spark.driver.maxResultSize"), "{error}");
    let ended = |event: &&Event| matches!(event, Event::TaskEnd { .. });
    let started = |event: &&Event| matches!(event, Event::TaskStart { .. });
    seen.wait(|events| {
        events.iter().filter(ended).count() == events.iter().filter(started).count()
    });
    assert!(seen.0.lock().unwrap().iter().filter(started).count() > 4, "several ran");
    let fetched = ctx.fetched_result_bytes();
    assert!(fetched <= LIMIT, "{fetched} bytes were fetched");
    assert_eq!(ctx.parallelize_in(2, 0..10u64).sum().unwrap(), 45);
}

#[test]
fn tasks_do_not_carry_every_rdd_that_was_ever_unpersisted() {
    let (ctx, _) = started(builder(1), 1);
    let numbers = ctx.range(0..10u64);
    let unpersisted: Vec<_> = (0..500)
        .map(|_| {
            let cached = numbers.map(|n| n + 1).cache();
            cached.unpersist();
            cached
        })
        .collect();
    let job = numbers.repartition(1).map(|n| n + 1);
    assert_eq!(job.sum().unwrap(), 55, "they are told with the first task");
    let before = ctx.sent_task_bytes();
    const TASKS: u64 = 20;
    assert_eq!(ctx.parallelize_in(TASKS as usize, 0..TASKS).sum().unwrap(), 190);
    let each = (ctx.sent_task_bytes() - before) / TASKS;
    assert!(each < 1000, "{each} bytes for a task");
    drop(unpersisted);
}
