//! Memory that runs short for a while: small map outputs leave memory to running tasks, and a task waits for
//! what others hold instead of failing its job. And what results take on the driver.

mod scratch;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use firesteel::prelude::*;

fn context(master: &str, memory: &str, local_dir: &scratch::Scratch) -> Context {
    let builder = scratch::builder().master(master).config("spark.driver.memory", memory);
    let builder = builder.config("spark.memory.fraction", "0.5");
    builder.config("spark.local.dir", local_dir.path("")).build().unwrap()
}

fn text(n: u64) -> String {
    format!("{n:0>90}")
}

#[test]
fn small_map_outputs_leave_memory_to_tasks_and_to_cached_partitions() {
    let directory = scratch::Scratch::new();
    // 32 MiB; cached partitions keep 16 of them.
    let ctx = context("local[1]", "64m", &directory);
    let cached = ctx.range_in(8, 0..50_000u64, 1).map(text).cache();
    assert_eq!(cached.count().unwrap(), 50_000);
    let of_cached = |blocks: Vec<String>| blocks.iter().filter(|it| it.starts_with("rdd_")).count();
    assert_eq!(of_cached(ctx.blocks()), 8);
    // 70 outputs of 700 KB: more than all memory.
    let noise = |n: u64| (n, "x".repeat(70 << 10));
    let small = ctx.range_in(70, 0..700u64, 1).map(noise).repartition(2);
    assert_eq!(small.count().unwrap(), 700);
    let (storage, _) = ctx.memory_used();
    assert!(storage < 20 << 20, "{storage}");
    // A group of 4 MB, which nobody can spill for good, while the outputs are there.
    let groups = ctx.range_in(2, 0..40_000u64, 1).map(|n| (7u64, text(n))).group_by_key();
    let lengths = groups.map(|(_, group)| group.len() as u64).collect().unwrap();
    assert_eq!(lengths, [40_000]);
    assert_eq!(of_cached(ctx.blocks()), 8, "nothing was evicted for nothing");
    assert_eq!(small.count().unwrap(), 700);
}

#[test]
fn a_group_that_fits_waits_for_a_task_that_holds_the_memory() {
    static HELD: AtomicBool = AtomicBool::new(false);
    static READ: AtomicBool = AtomicBool::new(false);
    let directory = scratch::Scratch::new();
    let ctx = context("local[2]", "40m", &directory);
    // The first key has 8 MB, which take all memory while they grow; the second has 5.
    let by = HashPartitioner::new(2);
    let second = (1u64..).find(|key| by.index(key) != by.index(&0u64)).unwrap();
    let pairs = ctx.range_in(4, 0..130_000u64, 1).with(second);
    let pairs = pairs.map(|second, n| (if n < 80_000 { 0 } else { *second }, text(n)));
    let apart = pairs.partition_by(by);
    let gated = apart.map_values(|value| {
        let number: u64 = value.trim_start_matches('0').parse().unwrap_or(0);
        let deadline = Instant::now() + scratch::DEADLINE;
        while number >= 80_000 && !HELD.load(Ordering::Acquire) && Instant::now() < deadline {
            std::thread::yield_now();
        }
        if number == 129_999 {
            READ.store(true, Ordering::Release);
        }
        value
    });
    let counts = gated.group_by_key().map(|(key, group)| {
        if key == 0 {
            HELD.store(true, Ordering::Release);
            let deadline = Instant::now() + scratch::DEADLINE;
            while !READ.load(Ordering::Acquire) && Instant::now() < deadline {
                std::thread::yield_now();
            }
            // The other one has read everything and needs memory. This one takes its time.
            let until = Instant::now() + Duration::from_secs(2);
            while Instant::now() < until {
                std::hint::spin_loop();
            }
        }
        (key, group.len() as u64)
    });
    let mut counts = counts.collect().unwrap();
    counts.sort_unstable();
    assert_eq!(counts, [(0, 80_000), (second, 50_000)]);
    assert_eq!(ctx.memory_used().1, 0);
}

/// Results of a job may take one megabyte in all.
fn with_small_results(transport: &str) -> Context {
    let builder = scratch::builder().master("local[2]").config("spark.driver.maxResultSize", "1m");
    builder.config("spark.firesteel.local.transport", transport).build().unwrap()
}

#[test]
fn results_beyond_the_limit_end_the_job_in_one_process_too() {
    for transport in ["direct", "encoded"] {
        let ctx = with_small_results(transport);
        let texts = ctx.range_in(8, 0..20_000u64, 1).map(text);
        let error = texts.collect().unwrap_err().to_string();
        assert!(error.contains("spark.driver.maxResultSize"), "{transport}: {error}");
        assert_eq!(texts.count().unwrap(), 20_000);
        assert_eq!(texts.take(10).unwrap().len(), 10);
        // Each is half of the limit: what is merged counts too.
        let large = ctx.range_in(4, 0..4u64, 1).map(|_| "x".repeat(500_000));
        assert!(large.reduce(|a, _| a).is_err());
    }
}

#[test]
fn a_count_by_key_brings_each_key_to_the_driver_once() {
    let ctx = with_small_results("direct");
    // 64 times all keys would be two megabytes.
    let numbers = ctx.range_in(64, 0..64 * 2_000u64, 1).map(|n| n % 2_000);
    let counts = numbers.count_by_value().unwrap();
    assert!(counts.len() == 2_000 && counts.values().all(|count| *count == 64));
    let counts = numbers.map(|n| (n, ())).count_by_key().unwrap();
    assert!(counts.len() == 2_000 && counts.values().all(|count| *count == 64));
}

#[test]
fn results_are_merged_while_the_job_still_runs() {
    static MERGED: AtomicBool = AtomicBool::new(false);
    static SEEN: AtomicBool = AtomicBool::new(false);
    let directory = scratch::Scratch::new();
    let ctx = context("local[2]", "64m", &directory);
    let numbers = ctx.range_in(4, 0..4u64, 1).map(|n| {
        let deadline = Instant::now() + scratch::DEADLINE;
        while n == 3 && !MERGED.load(Ordering::Acquire) && Instant::now() < deadline {
            std::thread::yield_now();
        }
        SEEN.fetch_or(n == 3 && MERGED.load(Ordering::Acquire), Ordering::Release);
        n
    });
    // One item per partition: only the driver merges.
    let sum = numbers.reduce(|a, b| {
        MERGED.store(true, Ordering::Release);
        a + b
    });
    assert_eq!(sum.unwrap(), 6);
    assert!(SEEN.load(Ordering::Acquire), "the first results were merged after the last task");
}

#[test]
fn a_panic_while_results_are_merged_cancels_the_job_that_still_runs() {
    let directory = scratch::Scratch::new();
    let ctx = context("local[2]", "64m", &directory);
    let endless = ctx.range_in(4, 0..4u64, 1).map(|n| {
        let deadline = Instant::now() + scratch::DEADLINE;
        while n == 3 && Instant::now() < deadline {
            TaskContext::current().unwrap().check_killed();
            std::thread::yield_now();
        }
        n
    });
    let started = Instant::now();
    let merged = endless.reduce(|a, b| if a + b > 0 { panic!("not today") } else { a });
    let error = merged.unwrap_err().to_string();
    assert!(error.contains("not today"), "{error}");
    assert_eq!(ctx.range(0..10u64).count().unwrap(), 10);
    ctx.stop();
    assert!(started.elapsed() < scratch::DEADLINE / 2, "the task was not killed");
}

#[test]
fn a_cartesian_product_with_a_side_that_does_not_fit_reads_it_from_disk() {
    let directory = scratch::Scratch::new();
    let ctx = context("local[1]", "8m", &directory);
    let right = ctx.range_in(1, 0..80_000u64, 1).map(text);
    let pairs = ctx.range_in(1, 0..3u64, 1).cartesian(&right);
    let numbers = pairs.map(|(n, text)| (n + 1) * text.trim_start_matches('0').len() as u64);
    let lengths: u64 = (0..80_000u64).map(|n| text(n).trim_start_matches('0').len() as u64).sum();
    assert_eq!(numbers.sum().unwrap(), 6 * lengths);
    assert_eq!(ctx.memory_used().1, 0);
}
