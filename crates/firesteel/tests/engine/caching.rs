//! `cache` and `unpersist`: how often partitions are computed.

use firesteel::prelude::*;

use crate::rig::{context, context_over, wait_until};

/// An RDD that counts how often its items are computed.
fn counted(ctx: &Context, calls: &Accumulator<u64>) -> Rdd<u64> {
    ctx.range_in(4, 0..40u64, 1)
        .with(calls.clone())
        .map(|calls, n| {
            calls.add(1);
            n * n
        })
        .boxed()
}

#[test]
fn a_cached_rdd_is_computed_once_and_again_after_unpersist() {
    for transport in ["direct", "encoded"] {
        let ctx = context_over(transport, "local[2]");
        let calls = ctx.accumulator::<u64>();
        let cached = counted(&ctx, &calls).cache();
        assert_eq!(calls.value(), 0, "nothing is computed before it is asked for");
        let first = cached.collect().unwrap();
        assert_eq!(first, (0..40).map(|n| n * n).collect::<Vec<_>>());
        assert_eq!((cached.collect().unwrap(), cached.count().unwrap()), (first, 40));
        assert_eq!(cached.filter(|n| n % 2 == 0).count().unwrap(), 20);
        assert_eq!(calls.value(), 40, "{transport}");
        cached.unpersist();
        assert!(ctx.blocks().is_empty(), "{:?}", ctx.blocks());
        assert_eq!(cached.count().unwrap(), 40);
        assert_eq!(calls.value(), 80, "{transport}");
    }
}

#[test]
fn without_cache_every_action_computes() {
    let ctx = context();
    let calls = ctx.accumulator::<u64>();
    let rdd = counted(&ctx, &calls);
    assert_eq!(rdd.count().unwrap() + rdd.count().unwrap(), 80);
    assert_eq!(calls.value(), 80);
}

#[test]
fn only_the_partitions_that_were_asked_for_are_kept() {
    let ctx = context();
    let calls = ctx.accumulator::<u64>();
    let cached = counted(&ctx, &calls).cache();
    assert_eq!(cached.first().unwrap(), 0);
    // The whole partition is kept, not only what `first` looked at.
    assert_eq!((calls.value(), ctx.blocks().len()), (10, 1));
    assert_eq!(cached.count().unwrap(), 40);
    assert_eq!((calls.value(), ctx.blocks().len()), (40, 4));
}

#[test]
fn an_attempt_that_fails_keeps_nothing() {
    let ctx = context_over("direct", "local[2,2]");
    let cached = ctx
        .range_in(2, 0..20u64, 1)
        .map(|n| {
            assert!(n % 10 != 9 || TaskContext::current().unwrap().attempt() > 0, "first");
            n
        })
        .cache();
    assert_eq!(cached.sum().unwrap(), 190);
    assert_eq!(cached.sum().unwrap(), 190);
}

#[test]
fn cached_pairs_stay_partitioned_and_cached_shuffles_outlive_their_map_outputs() {
    let ctx = context();
    let pairs = ctx.range_in(3, 0..30u64, 1).map(|n| (n % 5, n)).partition_by(4).cache();
    let joined = pairs.join(&pairs.map_values(|n| n + 1));
    // The only shuffle is that of `partition_by`, which both sides share.
    assert_eq!(joined.to_debug_string().matches("+-").count(), 1, "{}", joined.to_debug_string());
    assert_eq!(joined.count().unwrap(), 180);
    assert_eq!(pairs.reduce_by_key(|a, b| a + b).count().unwrap(), 5);
    let shuffled = ctx.blocks().into_iter().filter(|block| block.starts_with("shuffle_"));
    assert_eq!(shuffled.filter(|block| ctx.lose_block(block)).count(), 3);
    assert_eq!(pairs.values().sum().unwrap(), 435);
}

#[test]
fn cached_partitions_in_child_processes_give_the_same_items() {
    let ctx = context_over("process", "local[2]");
    let calls = ctx.accumulator::<u64>();
    let cached = counted(&ctx, &calls).cache();
    let first = cached.collect().unwrap();
    for _ in 0..5 {
        assert_eq!(cached.collect().unwrap(), first);
    }
    // Each of two children keeps what it computed.
    assert!((40..=80).contains(&calls.value()), "{}", calls.value());
}

#[test]
fn a_cached_rdd_that_nobody_holds_any_more_is_forgotten() {
    let ctx = context();
    let cached = ctx.range_in(3, 0..30u64, 1).cache();
    let derived = cached.map(|n| n + 1);
    drop(cached);
    assert_eq!(derived.count().unwrap(), 30);
    assert_eq!(ctx.blocks().len(), 3);
    drop(derived);
    wait_until("nothing is left in memory", || ctx.blocks().is_empty());
}

#[test]
fn what_rdds_leave_in_memory_goes_with_them() {
    let ctx = context();
    let shuffled = ctx.range(0..30u64).map(|n| (n % 5, n)).reduce_by_key(|a, b| a + b);
    assert_eq!(shuffled.count().unwrap(), 5);
    assert_eq!(ctx.blocks().len(), 2, "{:?}", ctx.blocks());
    let derived = shuffled.map_values(|n| n + 1);
    drop(shuffled);
    assert_eq!(ctx.blocks().len(), 2, "an RDD that reads it is still there");
    drop(derived);
    wait_until("nothing is left in memory", || ctx.blocks().is_empty());
}
