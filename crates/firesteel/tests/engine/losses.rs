//! Map outputs that go missing behind the scheduler's back.

use std::sync::Mutex;

use firesteel::prelude::*;
use firesteel::types::{Event, TaskFailure};

use crate::rig::{Heard, TRANSPORTS, builder};

fn fetch_failures(ctx: &Context, heard: &Heard) -> usize {
    heard.count(ctx, |event| {
        matches!(event, Event::TaskEnd { failure: Some(TaskFailure::FetchFailed { .. }), .. })
    })
}

fn map_outputs(ctx: &Context) -> Vec<String> {
    ctx.blocks().into_iter().filter(|block| block.starts_with("shuffle_")).collect()
}

#[test]
fn a_lost_map_output_is_computed_again_and_only_that_one() {
    for transport in TRANSPORTS {
        let over = builder("local[2]").config("spark.firesteel.local.transport", transport);
        let (ctx, heard) = Heard::attach(over);
        let pairs = ctx.range_in(4, 0..100u64, 1).map(|n| (n % 5, n));
        let sums = pairs.reduce_by_key(|a, b| a + b);
        assert_eq!(sums.values().sum().unwrap(), 4950);
        let blocks = map_outputs(&ctx);
        assert_eq!(blocks.len(), 4);
        assert!(ctx.lose_block(&blocks[2]) && !ctx.lose_block(&blocks[2]));
        assert_eq!(sums.values().sum().unwrap(), 4950, "{transport}");
        assert!(fetch_failures(&ctx, &heard) >= 1);
        assert_eq!(heard.map_stages(&ctx), 2, "the map stage ran again, once");
        let again = heard.count(&ctx, |event| {
            matches!(event, Event::StageSubmitted { stage, .. }
                if stage.shuffle_map && stage.stage.attempt == 0 && stage.tasks == 1)
        });
        assert_eq!(again, 1, "with one task");
    }
}

#[test]
fn all_map_outputs_of_a_chain_of_shuffles_are_computed_again() {
    let (ctx, heard) = Heard::attach(builder("local[2]"));
    let first = ctx.range_in(3, 0..90u64, 1).map(|n| (n % 9, n)).reduce_by_key(|a, b| a + b);
    let second = first.map(|(key, sum)| (key % 3, sum)).reduce_by_key(|a, b| a + b);
    let wanted = second.collect_as_map().unwrap();
    let blocks = map_outputs(&ctx);
    assert_eq!(blocks.len(), 6);
    assert!(blocks.iter().all(|block| ctx.lose_block(block)));
    assert_eq!(second.collect_as_map().unwrap(), wanted);
    assert!(fetch_failures(&ctx, &heard) >= 2);
    assert_eq!(map_outputs(&ctx).len(), 6);
    assert_eq!(heard.count(&ctx, |event| matches!(event, Event::JobEnd { .. })), 2);
}

/// Reads a shuffle record by record after its first map output was taken away, as long as the reading
/// stage has had fewer than `thefts` attempts.
fn robbed(ctx: &Context, thefts: u32) -> Rdd<u64> {
    static VICTIMS: Mutex<Vec<Context>> = Mutex::new(Vec::new());
    let mut victims = VICTIMS.lock().unwrap();
    victims.push(ctx.clone());
    let victim = victims.len() - 1;
    let placed = ctx.range_in(3, 0..30u64, 1).map(|n| (n % 5, n)).partition_by(2);
    let thieves = ctx.range_in(2, 0..2u64, 1).with((victim, thefts)).map(|(victim, thefts), n| {
        if n == 0 && TaskContext::current().unwrap().stage().attempt < *thefts {
            let victim = VICTIMS.lock().unwrap()[*victim].clone();
            map_outputs(&victim).first().map(|block| victim.lose_block(block));
        }
    });
    let robbed = |thieves: Partition<()>, placed: Partition<(u64, u64)>| {
        thieves.for_each(drop);
        placed.map(|(_, n)| n)
    };
    thieves.zip_partitions(&placed, robbed).boxed()
}

#[test]
fn outputs_lost_in_the_middle_of_a_job_are_computed_again() {
    let (ctx, heard) = Heard::attach(builder("local[2]"));
    assert_eq!(robbed(&ctx, 3).sum().unwrap(), 435);
    assert!(fetch_failures(&ctx, &heard) >= 3);
    assert_eq!(heard.count(&ctx, |event| matches!(event, Event::JobEnd { .. })), 1);
    ctx.stop();
}

#[test]
fn outputs_that_vanish_every_time_end_the_job() {
    let (ctx, heard) = Heard::attach(builder("local[2]"));
    let error = robbed(&ctx, u32::MAX).sum().unwrap_err().to_string();
    assert!(error.contains("4 attempt(s) in a row failed to fetch"), "{error}");
    assert!(error.contains("the block is not there"), "{error}");
    assert!(fetch_failures(&ctx, &heard) >= 4);
    assert_eq!(ctx.range(0..10u64).count().unwrap(), 10);
    ctx.stop();
}
