//! What executors hold beside cached partitions and what running tasks sort and group: broadcast values, and map outputs on
//! their way. All of it is on the books.

mod executors;

use executors::*;
use firesteel::prelude::*;
use firesteel::types::Event;

const MEGABYTE: u64 = 1 << 20;

#[test]
fn broadcast_values_are_on_the_books_until_they_are_gone() {
    let (ctx, _) = started(builder(1), 1);
    let table = ctx.broadcast("x".repeat((20 * MEGABYTE) as usize));
    let lengths = ctx.parallelize_in(1, [1u64]).with(table.clone()).map(|table, _| {
        let used = TaskContext::current().unwrap().scratch().memory().used().0;
        (table.len() as u64, used)
    });
    let (length, used) = lengths.collect().unwrap()[0];
    assert!(length == 20 * MEGABYTE && used >= length, "{used} bytes are on the books");
    drop((table, lengths));
    wait_until(|| books(&ctx) < MEGABYTE);
}

#[test]
fn a_part_of_a_collection_is_on_the_books_as_it_lies_in_memory() {
    const ITEMS: u64 = 1_000_000;
    let (ctx, _) = started(builder(1), 1);
    // A byte each on the way to the executor.
    let numbers = ctx.parallelize_in(2, vec![1u64; 2 * ITEMS as usize]);
    let read = numbers.map_partitions(|items| {
        let used = TaskContext::current().unwrap().scratch().memory().used().1;
        std::iter::once((items.count() as u64, used))
    });
    for (count, used) in read.collect().unwrap() {
        assert!(count == ITEMS && used >= 8 * ITEMS, "{used} bytes for {count} numbers");
    }
}

/// Bytes of storage on the books of the executor, as its tasks see them.
fn books(ctx: &Context) -> u64 {
    let used = ctx.parallelize_in(1, [1u64]);
    used.map(|_| TaskContext::current().unwrap().scratch().memory().used().0).collect().unwrap()[0]
}

#[test]
fn map_outputs_on_their_way_are_within_the_tasks_share() {
    let (ctx, seen) = started(builder(2).config("spark.shuffle.compress", false), 2);
    let budget = ctx.parallelize_in(1, [1u64]);
    let budget =
        budget.map(|_| TaskContext::current().unwrap().scratch().memory().budget()).collect();
    let budget = budget.unwrap()[0];
    let pairs = ctx.parallelize_in(20, 0..40u64).map(|n| (n, "x".repeat(2 << 20)));
    let lengths = pairs.partition_by(2).map(|(_, text)| text.len() as u64);
    assert_eq!(lengths.sum().unwrap(), 40 * 2 * MEGABYTE);
    // Listeners hear of tasks later than who waits for their job, and of the end of the job after them.
    let ended =
        |events: &[Event]| events.iter().filter(|e| matches!(e, Event::JobEnd { .. })).count();
    seen.wait(|events| ended(events) == 2);
    let seen = seen.0.lock().unwrap();
    let peaks = seen.iter().filter_map(|event| match event {
        Event::TaskEnd { metrics: Some(metrics), .. } => {
            (metrics.shuffle_remote_bytes > 4 * MEGABYTE).then_some(metrics.peak_memory_bytes)
        }
        _ => None,
    });
    let most = peaks.max().unwrap();
    assert!((MEGABYTE..budget / 2).contains(&most), "{most} of {budget}");
}
