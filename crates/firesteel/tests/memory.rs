//! Memory that runs short for a while: small map outputs leave memory to running tasks, and a task waits for
//! what others hold instead of failing its job.

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
