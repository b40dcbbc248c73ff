//! Transformations of one partition at a time.

use firesteel::prelude::*;

use crate::rig::{Heard, builder, context, on_every_transport, sorted};

const WORDS: [&str; 6] = ["stahl und feuer", "", "ß 𝄞", "a b c d", "日本 語", "ende"];

fn words() -> Vec<String> {
    WORDS.map(str::to_owned).to_vec()
}

#[test]
fn map_filter_and_flat_map_do_as_their_iterators_do() {
    on_every_transport(|ctx| {
        let rdd = ctx.parallelize_in(4, words());
        let mapped = rdd.map(|text| text.chars().rev().collect::<String>()).collect().unwrap();
        assert_eq!(mapped, WORDS.map(|text| text.chars().rev().collect::<String>()));
        let kept = rdd.filter(|text| text.len() > 4).collect().unwrap();
        assert_eq!(kept, words().into_iter().filter(|text| text.len() > 4).collect::<Vec<_>>());
        let flat: Vec<char> = rdd.flat_map(|t| t.chars().collect::<Vec<_>>()).collect().unwrap();
        assert_eq!(flat, WORDS.concat().chars().collect::<Vec<_>>());
        let split: Vec<String> =
            WORDS.iter().flat_map(|t| t.split_whitespace()).map(str::to_owned).collect();
        let pushed = rdd.flat_map_to(|t, out| out.extend(t.split_whitespace().map(str::to_owned)));
        assert_eq!(pushed.collect().unwrap(), split);
        // `take` asks the same adapter item by item instead of folding it.
        assert_eq!(pushed.take(5).unwrap(), split[..5]);
        assert_eq!(pushed.coalesce(1).take(100).unwrap(), split);
    });
}

#[test]
fn an_environment_reaches_every_adapter() {
    on_every_transport(|ctx| {
        let rdd = ctx.range_in(3, 0..20u64, 1);
        let env = (7u64, "é".to_owned());
        assert_eq!(
            rdd.with(env.clone()).map(|(n, text), x| format!("{text}{}", x * n)).take(2).unwrap(),
            ["é0", "é7"]
        );
        assert_eq!(rdd.with(7u64).filter(|n, x| x % n == 0).collect().unwrap(), [0, 7, 14]);
        assert_eq!(rdd.with(2usize).flat_map(|n, x| vec![x; *n]).count().unwrap(), 40);
        let pushed = rdd.with(1u64).flat_map_to(|n, x, out| out.push(x + n));
        assert_eq!(pushed.collect().unwrap(), (1..21).collect::<Vec<_>>());
        let sums = rdd.with(100u64).map_partitions(|n, items| [items.sum::<u64>() + n]);
        assert_eq!(sums.collect().unwrap().iter().sum::<u64>(), 190 + 300);
        let indexed =
            rdd.with(10usize).map_partitions_with_index(|n, i, items| [(i + n, items.count())]);
        assert_eq!(indexed.keys().collect().unwrap(), [10, 11, 12]);
        assert_eq!(rdd.with(3u64).key_by(|n, x| x % n).count_by_key().unwrap()[&0], 7);
        assert_eq!(rdd.with(3u64).group_by(|n, x| x % n).count().unwrap(), 3);
        let sorted = rdd.with(5u64).sort_by(|n, x| (x % n, *x)).take(4).unwrap();
        assert_eq!(sorted, [0, 5, 10, 15]);
        assert_eq!(rdd.with(5u64).sort_by_desc(|n, x| (x % n, *x)).first().unwrap(), 19);
        assert_eq!(rdd.with(2u64).reduce(|n, a, b| (a + b) % n).unwrap(), 0);
        let total = rdd.with(2u64).aggregate(0, |n, sum, x| sum + x * n, |_, a, b| a + b);
        assert_eq!(total.unwrap(), 380);
        let pairs = rdd.map(|x| (x % 2, x));
        assert_eq!(pairs.with(1u64).map_values(|n, x| x + n).values().sum().unwrap(), 210);
        assert_eq!(pairs.with(3usize).flat_map_values(|n, x| vec![x; *n]).count().unwrap(), 60);
        let capped = pairs.with(50u64).reduce_by_key(|cap, a, b| (a + b).min(*cap));
        assert_eq!(sorted_pairs(capped.collect().unwrap()), [(0, 50), (1, 50)]);
    });
}

fn sorted_pairs(pairs: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    sorted(pairs)
}

#[test]
fn map_partitions_sees_whole_partitions_and_their_numbers() {
    on_every_transport(|ctx| {
        let rdd = ctx.range_in(4, 0..10u64, 1);
        let sums = rdd.map_partitions(|items| [items.sum::<u64>()]).collect().unwrap();
        let parts = rdd.glom().collect().unwrap();
        assert_eq!(sums, parts.iter().map(|part| part.iter().sum()).collect::<Vec<u64>>());
        assert_eq!(parts.concat(), (0..10).collect::<Vec<_>>());
        let numbered = rdd.map_partitions_with_index(|i, items| items.map(move |x| (i, x)));
        let wanted: Vec<_> = parts
            .iter()
            .enumerate()
            .flat_map(|(i, part)| part.iter().map(move |x| (i, *x)))
            .collect();
        assert_eq!(numbered.collect().unwrap(), wanted);
        let none = ctx.parallelize_in(3, Vec::<u64>::new());
        assert_eq!(none.map_partitions(|items| [items.count()]).collect().unwrap(), [0, 0, 0]);
    });
}

#[test]
fn union_puts_partitions_one_after_the_other() {
    on_every_transport(|ctx| {
        let (a, b) = (ctx.range_in(2, 0..5u32, 1), ctx.parallelize_in(3, [7u32, 7, 8]));
        let both = a.union(&b);
        assert_eq!(both.partition_count(), 5);
        assert_eq!(both.collect().unwrap(), [0, 1, 2, 3, 4, 7, 7, 8]);
        let empty = ctx.empty::<u32>().boxed();
        let all = ctx.union(&[empty.clone(), a.boxed(), empty.clone(), a.boxed(), empty]);
        assert_eq!(all.collect().unwrap(), [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]);
        let none: [Rdd<u8>; 0] = [];
        assert!(ctx.union(&none).collect().unwrap().is_empty());
    });
}

#[test]
fn cartesian_pairs_everything_with_everything() {
    on_every_transport(|ctx| {
        let (a, b) =
            (ctx.range_in(2, 0..4u32, 1), ctx.parallelize_in(3, ["x", "y"].map(String::from)));
        let pairs = a.cartesian(&b);
        assert_eq!(pairs.partition_count(), 6);
        let wanted: Vec<_> =
            (0..4).flat_map(|n| ["x", "y"].map(|text| (n, text.to_owned()))).collect();
        assert_eq!(sorted(pairs.collect().unwrap()), wanted);
        assert_eq!(a.cartesian(&ctx.empty::<u8>()).count().unwrap(), 0);
        assert_eq!(ctx.empty::<u8>().cartesian(&a).count().unwrap(), 0);
    });
}

#[test]
fn zip_pairs_by_position_and_refuses_unequal_sides() {
    on_every_transport(|ctx| {
        let a = ctx.range_in(3, 0..10u32, 1);
        let pairs = a.zip(&a.map(|x| x * x)).collect().unwrap();
        assert_eq!(pairs, (0..10).map(|x| (x, x * x)).collect::<Vec<_>>());
        let error = a.zip(&ctx.range_in(2, 0..10u32, 1)).count().unwrap_err().to_string();
        assert!(error.contains("left has 3 and the right 2"), "{error}");
        for (left, right, more) in [(10, 13, "right"), (13, 10, "left")] {
            let (left, right) =
                (ctx.range_in(3, 0..left, 1), ctx.range_in(3, 0..right, 1u32 as i64));
            let error = left.zip(&right).count().unwrap_err().to_string();
            assert!(error.contains("zip needs equally many items"), "{error}");
            assert!(error.contains(&format!("the {more} side has more")), "{error}");
        }
    });
}

#[test]
fn zip_partitions_sees_both_sides_of_each_index() {
    on_every_transport(|ctx| {
        let (a, b) = (ctx.range_in(3, 0..9u32, 1), ctx.range_in(3, 0..3u32, 1));
        let zipped = a.zip_partitions(&b, |left, right| [(left.count(), right.sum::<u32>())]);
        assert_eq!(zipped.collect().unwrap(), [(3, 0), (3, 1), (3, 2)]);
        let error = a.zip_partitions(&ctx.range(0..3u32), |left, _| left).count().unwrap_err();
        assert!(error.to_string().contains("equally many partitions"), "{error}");
    });
}

#[test]
fn indices_run_through_all_partitions_and_unique_ids_are_unique() {
    on_every_transport(|ctx| {
        for (partitions, items) in [(1, 5u64), (3, 10), (7, 3), (4, 0)] {
            let rdd = ctx.range_in(partitions, 0..items, 1).filter(|x| x % 3 != 1);
            let wanted: Vec<_> = (0..items).filter(|x| x % 3 != 1).zip(0u64..).collect();
            assert_eq!(rdd.zip_with_index().collect().unwrap(), wanted);
            let ids = sorted(rdd.zip_with_unique_id().values().collect().unwrap());
            assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
            assert_eq!(ids.len(), wanted.len());
        }
        assert_eq!(ctx.empty::<u8>().zip_with_index().count().unwrap(), 0);
    });
}

#[test]
fn coalesce_reads_neighbours_and_never_makes_more_partitions() {
    on_every_transport(|ctx| {
        let rdd = ctx.range_in(10, 0..100u32, 1);
        for (wanted, partitions) in [(1, 1), (3, 3), (10, 10), (50, 10)] {
            let fewer = rdd.coalesce(wanted);
            assert_eq!(fewer.partition_count(), partitions);
            assert_eq!(fewer.collect().unwrap(), (0..100).collect::<Vec<_>>());
        }
        let counted = rdd.coalesce(3).map_partitions(|items| [items.count()]).collect().unwrap();
        assert!(counted.iter().all(|count| *count >= 30), "{counted:?}");
        assert!(rdd.coalesce(0).count().unwrap_err().to_string().contains("partitions"));
    });
}

#[test]
fn key_by_and_the_adapters_of_pairs_keep_what_they_do_not_change() {
    on_every_transport(|ctx| {
        let pairs = ctx.parallelize_in(3, words()).key_by(|text| text.len());
        assert_eq!(pairs.keys().collect().unwrap(), WORDS.map(str::len));
        assert_eq!(pairs.values().collect().unwrap(), words());
        let shouted = pairs.map_values(|text| text.to_uppercase()).collect().unwrap();
        assert_eq!(shouted, WORDS.map(|text| (text.len(), text.to_uppercase())));
        let letters = pairs.flat_map_values(|text| text.chars().collect::<Vec<_>>());
        let wanted: Vec<(usize, char)> =
            WORDS.iter().flat_map(|text| text.chars().map(|c| (text.len(), c))).collect();
        assert_eq!(letters.collect().unwrap(), wanted);
    });
}

#[test]
fn nothing_runs_before_an_action() {
    let (ctx, heard) = Heard::attach(builder("local[2]"));
    let calls = ctx.accumulator::<u64>();
    let rdd = ctx.range(0..100u64).with(calls.clone()).map(|calls, x| {
        calls.add(1);
        (x % 10, x)
    });
    let lazy = rdd.group_by_key().map_values(|values| values.len()).sort_by_key();
    let more = lazy.join(&rdd).distinct().union(&lazy.join(&rdd)).repartition(2);
    let indexed = more.zip_with_index();
    assert_eq!((heard.stages(&ctx), calls.value()), (0, 0));
    assert_eq!(indexed.count().unwrap(), 200);
    assert!(calls.value() >= 100);
}

#[test]
fn a_long_chain_of_boxed_steps_runs_and_is_dropped() {
    let ctx = context();
    let mut rdd: Rdd<u64> = ctx.range_in(2, 0..10u64, 1).boxed();
    for _ in 0..500 {
        rdd = rdd.map(|x| x + 1).boxed();
    }
    assert_eq!(rdd.sum().unwrap(), 45 + 5000);
}

#[test]
fn ranges_may_have_their_end_and_any_width() {
    on_every_transport(|ctx| {
        assert_eq!(ctx.range(250..=u8::MAX).collect().unwrap(), (250..=255).collect::<Vec<u8>>());
        assert_eq!(ctx.range(i8::MIN..=i8::MAX).count().unwrap(), 256);
        assert_eq!(ctx.range(5..5u16).count().unwrap() + ctx.range(5..=5i16).count().unwrap(), 1);
        let (first, last) = (9i32, 0);
        assert_eq!(ctx.range_in(2, first..=last, -3).collect().unwrap(), [9, 6, 3, 0]);
        let error = ctx.range(0..=u64::MAX).count().unwrap_err().to_string();
        assert!(error.contains("holds 2^64 numbers or more"), "{error}");
    });
}

#[test]
fn rdds_of_one_type_are_united_as_they_are() {
    let ctx = context();
    let parts = [ctx.range(0..2u64), ctx.range(5..7u64)];
    assert_eq!(ctx.union(&parts).collect().unwrap(), [0, 1, 5, 6]);
}

#[test]
fn a_loop_of_unions_is_as_deep_as_one_and_boxing_twice_is_boxing_once() {
    let ctx = crate::rig::context();
    let mut all = ctx.range_in(1, 0..1u32, 1).boxed();
    for n in 1..200u32 {
        all = all.union(&ctx.range_in(1, n..n + 1, 1)).boxed();
    }
    let text = all.to_debug_string();
    assert_eq!((text.lines().count(), text.matches("UnionRDD").count()), (201, 1), "{text}");
    assert_eq!(all.collect().unwrap(), (0..200).collect::<Vec<_>>());
    let (cached, one) = (all.cache(), ctx.range_in(1, 0..1u32, 1));
    let text = cached.union(&one).to_debug_string();
    assert_eq!(text.matches("UnionRDD").count(), 2, "the cached one is read: {text}");
}
