//! When data moves and when it need not: stages counted from outside.

use firesteel::prelude::*;

use crate::rig::{Heard, builder, on_every_transport, sorted};

#[test]
fn repartition_deals_items_out_evenly() {
    on_every_transport(|ctx| {
        let rdd = ctx.range_in(3, 0..1000u32, 1);
        for partitions in [1, 4, 16] {
            let parts = rdd.repartition(partitions).glom().collect().unwrap();
            assert_eq!(parts.len(), partitions);
            let sizes: Vec<usize> = parts.iter().map(Vec::len).collect();
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 3, "{sizes:?}");
            assert_eq!(sorted(parts.concat()), (0..1000).collect::<Vec<_>>());
        }
        assert!(rdd.repartition(0).count().unwrap_err().to_string().contains("repartition"));
        assert_eq!(ctx.empty::<u8>().repartition(3).glom().count().unwrap(), 3);
    });
}

#[test]
fn inputs_that_are_partitioned_alike_are_not_shuffled_again() {
    let (ctx, heard) = Heard::attach(builder("local[2]"));
    let pairs = ctx.range_in(4, 0..100u64, 1).map(|n| (n % 10, n));
    let placed = pairs.partition_by(3);
    let other = pairs.map_values(|n| n * 2).partition_by(HashPartitioner::new(3));
    let before = heard.map_stages(&ctx);
    let joined = placed
        .filter(|(_, n)| n % 2 == 0)
        .map_values(|n| n + 1)
        .join(&other)
        .reduce_by_key(|a, _| a)
        .group_by_key()
        .partition_by(3);
    assert_eq!(joined.partition_count(), 3);
    assert_eq!(joined.count().unwrap(), 5);
    assert_eq!(heard.map_stages(&ctx) - before, 2, "{}", joined.to_debug_string());
    assert_eq!(joined.to_debug_string().matches("+-").count(), 2, "{}", joined.to_debug_string());
    // Keys may change in map, so that its result is shuffled.
    let mapped = placed.map(|pair| pair).reduce_by_key(|a, b| a + b);
    assert_eq!(mapped.to_debug_string().matches("+-").count(), 2, "{}", mapped.to_debug_string());
    let elsewhere = placed.join_into(5, &other);
    assert_eq!(elsewhere.to_debug_string().matches("+-").count(), 4);
    assert_eq!(elsewhere.count().unwrap(), 1000);
}

#[test]
fn a_join_takes_over_the_partitioner_of_one_side_and_shuffles_the_other_only() {
    on_every_transport(|ctx| {
        let left = ctx.range_in(4, 0..100u64, 1).map(|n| (n % 10, n));
        let ranged = left.sort_by_key();
        let right = ctx.range_in(2, 0..20u64, 1).map(|n| (n, ()));
        let joined = ranged.join(&right);
        assert_eq!(joined.to_debug_string().matches("+-").count(), 2);
        assert_eq!(joined.count().unwrap(), 100);
        assert!(joined.keys().collect().unwrap().chunk_by(|a, b| a == b).count() <= 10 * 4);
    });
}

#[test]
fn a_second_action_skips_the_map_stage() {
    let (ctx, heard) = Heard::attach(builder("local[2]"));
    let calls = ctx.accumulator::<u64>();
    let counted = ctx.range_in(4, 0..100u64, 1).with(calls.clone()).map(|calls, n| {
        calls.add(1);
        (n % 7, n)
    });
    let sums = counted.reduce_by_key(|a, b| a + b);
    assert_eq!(sums.count().unwrap(), 7);
    assert_eq!((heard.map_stages(&ctx), heard.stages(&ctx)), (1, 2));
    assert_eq!(sums.values().sum().unwrap(), 4950);
    assert_eq!(sums.sort_by_key().collect().unwrap().len(), 7);
    // The sort has a map stage of its own; the first one ran once.
    assert_eq!(heard.map_stages(&ctx), 2);
    assert_eq!(calls.value(), 100);
}

#[test]
fn two_branches_of_one_job_share_a_shuffle() {
    let (ctx, heard) = Heard::attach(builder("local[2]"));
    let sums = ctx.range_in(3, 0..90u64, 1).map(|n| (n % 9, n)).reduce_by_key(|a, b| a + b);
    let both = sums.map_values(|sum| sum * 2).union(&sums.filter(|(key, _)| key % 2 == 0));
    assert_eq!(both.count().unwrap(), 14);
    assert_eq!(heard.map_stages(&ctx), 1);
}

#[test]
fn many_maps_and_many_reducers_meet() {
    on_every_transport(|ctx| {
        // 200 by 200 in the test's own process; children take 40,000 questions over their sockets.
        let side = 200;
        let pairs = ctx.range_in(side, 0..20_000u64, 1).map(|n| (n % 1000, n));
        let sums = pairs.reduce_by_key_into(side, |a, b| a + b);
        assert_eq!(sums.count().unwrap(), 1000);
        assert_eq!(sums.values().sum().unwrap(), 19_999 * 10_000);
    });
}

#[test]
fn chains_of_shuffles_run_and_are_dropped_in_any_order() {
    on_every_transport(|ctx| {
        let mut rdd: Rdd<(u64, u64)> = ctx.range_in(3, 0..60u64, 1).map(|n| (n % 6, n)).boxed();
        let mut kept = Vec::new();
        for round in 0..8 {
            rdd = rdd.map(|(key, n)| (key + 1, n)).reduce_by_key_into(2 + round, |a, b| a + b);
            kept.push(rdd.clone());
        }
        assert_eq!(rdd.values().sum().unwrap(), 1770);
        kept.drain(..).step_by(2).for_each(drop);
        assert_eq!(rdd.count().unwrap(), 6);
        drop(rdd);
    });
}

#[test]
fn lineage_reads_as_sparks_does() {
    let (ctx, _) = Heard::attach(builder("local[2]"));
    let counts = ctx.range_in(3, 0..9u64, 1).map(|n| (n, 1)).reduce_by_key_into(2, |a, b| a + b);
    let text = counts.to_debug_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].starts_with("(2) ShuffledRDD["), "{text}");
    assert!(lines[1].starts_with(" +-(3) MapPartitionsRDD["), "{text}");
    assert!(lines[2].starts_with("    |  RangeRDD["), "{text}");
    assert!(lines.iter().all(|line| line.contains("shuffles.rs:")), "{text}");
}

#[test]
fn items_are_sorted_by_themselves_or_by_what_lies_in_them() {
    on_every_transport(|ctx| {
        let words: Vec<String> = (0..500u64).map(|n| format!("{:03}", n * 7919 % 500)).collect();
        let (rdd, expected) = (ctx.parallelize_in(4, words.clone()), sorted(words));
        assert_eq!(rdd.sort().collect().unwrap(), expected);
        let descending: Vec<String> = expected.iter().rev().cloned().collect();
        assert_eq!(rdd.sort_desc().collect().unwrap(), descending);
        // Stable: of equal names, the order in which they come.
        let people = rdd.zip_with_unique_id().map(|(word, n)| (word[2..].to_owned(), n));
        let mut by_name = people.collect().unwrap();
        by_name.sort_by(|left, right| left.0.cmp(&right.0));
        assert_eq!(people.sort_by_ref(|person| &person.0).collect().unwrap(), by_name);
        by_name.sort_by(|left, right| right.0.cmp(&left.0));
        assert_eq!(people.sort_by_ref_desc(|person| &person.0).collect().unwrap(), by_name);
        let picked = people.with(1u8).sort_by_ref(|_, person| &person.1).first().unwrap();
        assert_eq!(picked.1, 0);
    });
}

#[test]
fn a_lineage_that_meets_itself_again_and_again_is_told_once() {
    let (ctx, _) = Heard::attach(builder("local[2]"));
    let mut pairs = ctx.range_in(2, 0..4u64, 1).map(|n| (n, 1u64)).boxed();
    for _ in 0..40 {
        let both = pairs.join_into(2, &pairs);
        pairs = both.map(|(key, (a, b))| (key, a.min(b))).boxed();
    }
    let text = pairs.to_debug_string();
    assert!(text.lines().count() < 400 && text.contains("(as above)"), "{}", text.lines().count());
    assert_eq!(text.matches("RangeRDD").count(), 1, "{text}");
}
