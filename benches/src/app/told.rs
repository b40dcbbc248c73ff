//! An application whose event log tells of much: cached RDDs, shuffles, accumulators, tasks and jobs that fail. For `./bench history`, which
//! has it end in several ways.

use std::thread;
use std::time::Duration;

use firesteel::StorageLevel;
use firesteel::prelude::*;
use firesteel::types::Event;

use crate::on_firesteel::builder;

/// Jobs of every kind, one after the other.
fn jobs(ctx: &Context) -> Result<()> {
    let seen = ctx.named_accumulator::<u64>("seen");
    let pairs = ctx.range_in(4, 0..100_000u64, 1).with(seen).map(|seen, n| {
        seen.add(1);
        (n % 100, n)
    });
    let cached = pairs.persist(StorageLevel::MEMORY_ONLY);
    cached.count()?;
    ctx.set_job_group("group", "sums");
    cached.reduce_by_key_into(3, |a, b| a + b).sort_by_key().take(5)?;
    ctx.clear_job_group();
    ctx.set_job_description(Some("retried"));
    let flaky = ctx.range_in(4, 0..8u64, 1).map(|n| {
        let task = TaskContext::current().expect("a task runs it");
        assert!(task.partition() != 2 || task.attempt() > 0, "fails once");
        n
    });
    flaky.count()?;
    ctx.set_job_description(None);
    let disk = cached.map_values(|n| n * 2).persist(StorageLevel::DISK_ONLY);
    disk.count()?;
    disk.unpersist();
    Ok(())
}

/// A job that fails for good.
fn fail(ctx: &Context) -> Result<()> {
    let failing = ctx.range_in(2, 0..4u64, 1).map(|n| {
        assert!(n != 2, "always fails");
        n
    });
    failing.count().map(drop)
}

/// Runs the jobs, and ends as the word says: `well`, `badly` (with the error of a job), after `many` tasks, or `never` (it is killed when it
/// has printed `RUNNING`). `None`: there is no such word.
pub(crate) fn told(ending: &str) -> Option<Result<()>> {
    Some(match ending {
        "well" => run(|ctx| fail(ctx).or(Ok(()))),
        "badly" => run(fail),
        "many" => run(|ctx| ctx.parallelize_in(8000, 0..8000u32).count().map(drop)),
        "never" => run(hang),
        _ => return None,
    })
}

fn run(end: impl FnOnce(&Context) -> Result<()>) -> Result<()> {
    let ctx = builder("told").build()?;
    jobs(&ctx)?;
    end(&ctx)
}

/// A job of which one task ends and the other does not.
fn hang(ctx: &Context) -> Result<()> {
    ctx.add_listener(|event: &Event| {
        if matches!(event, Event::TaskEnd { .. }) {
            println!("RUNNING");
        }
    });
    let slow = ctx.range_in(2, 0..2u64, 1).map(|n| {
        thread::sleep(Duration::from_secs(n * 3600));
        n
    });
    slow.count().map(drop)
}
