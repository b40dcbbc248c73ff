//! Sorting: globally ordered, stable, both ways.

use std::cmp::Reverse;

use firesteel::prelude::*;

use crate::rig::on_every_transport;

/// Few keys, many of them equal, each item with its position.
fn items() -> Vec<(u32, usize)> {
    (0..500usize).map(|position| ((position * 7919 % 23) as u32, position)).collect()
}

#[test]
fn sort_by_is_global_and_stable_in_both_directions() {
    on_every_transport(|ctx| {
        for partitions in [1, 2, 8, 40] {
            let rdd = ctx.parallelize_in(partitions, items());
            let mut wanted = items();
            wanted.sort_by_key(|item| item.0);
            assert_eq!(rdd.sort_by(|item| item.0).collect().unwrap(), wanted);
            assert_eq!(rdd.sort_by_into(5, |item| item.0).collect().unwrap(), wanted);
            assert_eq!(rdd.sort_by_key().collect().unwrap(), wanted);
            assert_eq!(rdd.sort_by_key_into(3).collect().unwrap(), wanted);
            wanted.sort_by_key(|item| Reverse(item.0));
            assert_eq!(rdd.sort_by_desc(|item| item.0).collect().unwrap(), wanted);
            assert_eq!(rdd.sort_by_key_desc().collect().unwrap(), wanted);
        }
    });
}

#[test]
fn sorted_partitions_are_about_equally_large() {
    on_every_transport(|ctx| {
        let numbers =
            ctx.range_in(6, 0..20_000u64, 1).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let parts = numbers.sort_by_into(4, |n| *n).glom().collect().unwrap();
        let sizes: Vec<usize> = parts.iter().map(Vec::len).collect();
        assert!(sizes.iter().all(|size| (2500..10_000).contains(size)), "{sizes:?}");
        assert!(parts.concat().is_sorted());
    });
}

#[test]
fn texts_tuples_and_total_floats_sort_by_their_own_order() {
    on_every_transport(|ctx| {
        let texts = ["ä", "a", "", "Z", "z", "日", "🦀", "a a"].map(str::to_owned);
        let mut wanted = texts.to_vec();
        wanted.sort();
        let rdd = ctx.parallelize_in(3, texts);
        assert_eq!(rdd.sort_by(|text| text.clone()).collect().unwrap(), wanted);
        let by_length = rdd.sort_by_desc(|text| (text.len(), text.clone())).first().unwrap();
        assert_eq!(by_length, "🦀");
        let floats = ctx.parallelize_in(2, [1.5, f64::NAN, -0.0, 0.0, f64::INFINITY, -3.0]);
        let found = floats.sort_by(|x| Total(*x)).collect().unwrap();
        assert_eq!(found[..5], [-3.0, -0.0, 0.0, 1.5, f64::INFINITY]);
        assert!(found[1].is_sign_negative() && found[5].is_nan());
    });
}

#[test]
fn nothing_and_equal_keys_sort_too() {
    on_every_transport(|ctx| {
        assert!(ctx.empty::<u32>().sort_by(|n| *n).collect().unwrap().is_empty());
        let none = ctx.parallelize_in(5, Vec::<u32>::new());
        assert!(none.sort_by_desc(|n| *n).collect().unwrap().is_empty());
        let same = ctx.parallelize_in(5, (0..50u32).map(|n| (7u8, n)));
        let sorted = same.sort_by_key().values().collect().unwrap();
        assert_eq!(sorted, (0..50).collect::<Vec<_>>());
        assert!(same.sort_by_into(0, |pair| pair.0).count().is_err());
    });
}

#[test]
fn a_sort_of_a_sort_and_a_sort_after_a_filter_are_right() {
    on_every_transport(|ctx| {
        let rdd = ctx.range_in(4, 0..300i64, 1).map(|n| (n * 37 % 101, n));
        let twice = rdd.sort_by(|pair| pair.1).sort_by_desc(|pair| pair.0 % 10);
        let mut wanted: Vec<_> = (0..300i64).map(|n| (n * 37 % 101, n)).collect();
        wanted.sort_by_key(|pair| Reverse(pair.0 % 10));
        assert_eq!(twice.collect().unwrap(), wanted);
        // Most partitions of a sorted RDD are empty after this filter.
        let few = twice.filter(|pair| pair.0 % 10 == 9).sort_by_key().collect().unwrap();
        assert!(few.is_sorted_by_key(|pair| pair.0) && few.len() > 20);
    });
}

#[test]
fn one_partition_that_holds_nearly_everything_is_sampled_for_what_it_holds() {
    on_every_transport(|ctx| {
        // Without a second sample of the large one, 30 keys would stand for it: too few for 50 ranges.
        let items = ctx.range_in(100, 0..100u64, 1).flat_map(|n| {
            let count = if n == 50 { 20_000 } else { 1 };
            (0..count).map(|i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15))
        });
        let parts = items.sort_by_into(50, |n| *n).glom().collect().unwrap();
        assert!(parts.iter().all(|part| (1..2000).contains(&part.len())), "{:?}", sizes(&parts));
        assert!(parts.concat().is_sorted());
    });
}

fn sizes(parts: &[Vec<u64>]) -> Vec<usize> {
    parts.iter().map(Vec::len).collect()
}
