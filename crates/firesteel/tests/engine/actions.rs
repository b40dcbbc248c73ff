//! Actions: what comes back to the driver, and what is written.

use std::collections::HashMap;

use firesteel::prelude::*;

use crate::rig::{Heard, builder, context, on_every_transport, sorted};

#[test]
fn counting_taking_and_looking_find_the_first_items_first() {
    on_every_transport(|ctx| {
        let rdd = ctx.range_in(20, 0..100u32, 1);
        assert_eq!(rdd.count().unwrap(), 100);
        assert_eq!(rdd.first().unwrap(), 0);
        for n in [0, 1, 5, 6, 60, 100, 1000] {
            assert_eq!(rdd.take(n).unwrap(), (0..n.min(100) as u32).collect::<Vec<_>>());
        }
        // The first hit lies behind many empty partitions.
        let late = rdd.filter(|n| *n >= 97);
        assert_eq!((late.first().unwrap(), late.take(2).unwrap()), (97, vec![97, 98]));
        assert!(!late.is_empty().unwrap());
        let none = rdd.filter(|_| false);
        assert!(none.is_empty().unwrap());
        assert!(matches!(none.first(), Err(Error::Empty { operation: "first", .. })));
        assert!(none.take(3).unwrap().is_empty());
    });
}

#[test]
fn the_smallest_and_largest_are_found_in_order() {
    on_every_transport(|ctx| {
        let items: Vec<(u32, usize)> = (0..200usize).map(|i| ((i * 7919 % 31) as u32, i)).collect();
        let rdd = ctx.parallelize_in(7, items.clone());
        let ascending = sorted(items.clone());
        assert_eq!(rdd.take_ordered(10).unwrap(), ascending[..10]);
        let descending: Vec<_> = ascending.iter().rev().copied().collect();
        assert_eq!(rdd.top(10).unwrap(), descending[..10]);
        let mut by_key = items.clone();
        by_key.sort_by_key(|item| item.0);
        assert_eq!(rdd.take_ordered_by(12, |item| item.0).unwrap(), by_key[..12]);
        by_key.sort_by_key(|item| std::cmp::Reverse(item.0));
        assert_eq!(rdd.top_by(12, |item| item.0).unwrap(), by_key[..12]);
        assert!(rdd.top(0).unwrap().is_empty());
        assert_eq!(rdd.take_ordered(999).unwrap(), ascending);
        assert!(ctx.empty::<u8>().top(3).unwrap().is_empty());
    });
}

#[test]
fn folds_go_through_partitions_in_order() {
    on_every_transport(|ctx| {
        let text = "Die Wärme zieht von Ort zu Ort";
        for partitions in [1, 4, 50] {
            let letters = ctx.parallelize_in(partitions, text.chars().map(String::from));
            assert_eq!(letters.reduce(|a, b| a + &b).unwrap(), text);
            assert_eq!(letters.fold(String::new(), |a, b| a + &b).unwrap(), text);
            let counted = letters.aggregate(0usize, |n, letter| n + letter.len(), |a, b| a + b);
            assert_eq!(counted.unwrap(), text.len());
            let tree = letters.map(|text| text.len()).tree_reduce(|a, b| a + b).unwrap();
            assert_eq!(tree, text.len());
            let deep = letters.tree_aggregate(0, |n, letter| n + letter.len(), |a, b| a + b);
            assert_eq!(deep.unwrap(), text.len());
        }
        // The zero counts once per partition and once on the driver.
        assert_eq!(ctx.range_in(3, 0..3u64, 1).fold(10, |a, b| a + b).unwrap(), 43);
        let many = ctx.range_in(130, 0..1000u64, 1);
        assert_eq!(many.tree_reduce(|a, b| a + b).unwrap(), 499_500);
        assert_eq!(many.tree_aggregate(0u64, |n, _| n + 1, |a, b| a + b).unwrap(), 1000);
    });
}

#[test]
fn folds_of_nothing_are_their_zero_or_a_clear_error() {
    on_every_transport(|ctx| {
        for rdd in [ctx.empty::<u64>().boxed(), ctx.parallelize_in(5, Vec::<u64>::new()).boxed()] {
            assert!(matches!(
                rdd.reduce(|a, b| a + b),
                Err(Error::Empty { operation: "reduce", .. })
            ));
            assert!(matches!(rdd.tree_reduce(|a, b| a + b), Err(Error::Empty { .. })));
            assert_eq!(rdd.fold(0, |a, b| a + b).unwrap(), 0);
            assert_eq!(rdd.aggregate(7, |n, _| n, |a, _| a).unwrap(), 7);
            assert_eq!(rdd.tree_aggregate(7, |n, _| n, |a, _| a).unwrap(), 7);
        }
    });
}

#[test]
fn for_each_reaches_every_item_and_every_partition() {
    on_every_transport(|ctx| {
        let (items, partitions) = (ctx.accumulator::<u64>(), ctx.accumulator::<u64>());
        let rdd = ctx.range_in(6, 0..100u64, 1);
        rdd.with(items.clone()).for_each(|items, n| items.add(n)).unwrap();
        rdd.with((items.clone(), partitions.clone()))
            .for_each_partition(|(items, partitions), part| {
                partitions.add(1);
                part.for_each(|n| items.add(n));
            })
            .unwrap();
        assert_eq!((items.value(), partitions.value()), (9900, 6));
        rdd.for_each(|n| assert!(n < 100)).unwrap();
        rdd.for_each_partition(|part| assert!(part.count() > 10)).unwrap();
    });
}

#[test]
fn values_are_counted_exactly_and_about() {
    on_every_transport(|ctx| {
        let rdd = ctx.range_in(5, 0..30_000u64, 1).map(|n| n % 3000);
        let counts = rdd.map(|n| n.to_string().len()).count_by_value().unwrap();
        assert_eq!(counts, HashMap::from([(1, 100), (2, 900), (3, 9000), (4, 20_000)]));
        let about = rdd.count_approx_distinct(0.02).unwrap();
        assert!((2700..3300).contains(&about), "{about}");
        assert_eq!(ctx.empty::<u8>().count_approx_distinct(0.05).unwrap(), 0);
        assert!(rdd.count_approx_distinct(0.0).is_err());
        assert_eq!(
            ctx.parallelize(vec!["ü".to_owned(); 9]).count_approx_distinct(0.05).unwrap(),
            1
        );
    });
}

#[test]
fn a_local_iterator_runs_one_job_per_partition_it_reaches() {
    let (ctx, heard) = Heard::attach(builder("local[2]"));
    let rdd = ctx.range_in(10, 0..100u32, 1);
    let first: Result<Vec<u32>> = rdd.to_local_iterator().take(25).collect();
    assert_eq!(first.unwrap(), (0..25).collect::<Vec<_>>());
    assert_eq!(heard.tasks(&ctx), 3);
    on_every_transport(|ctx| {
        let rdd = ctx.range_in(4, 0..100u32, 1).map(|n| n.to_string());
        let all: Result<Vec<String>> = rdd.to_local_iterator().collect();
        assert_eq!(all.unwrap(), (0..100).map(|n| n.to_string()).collect::<Vec<_>>());
        let mut broken = ctx.range_in(4, 0..4u32, 1).map(|n| 3 / (n % 2)).to_local_iterator();
        assert!(broken.next().unwrap().is_err());
        assert!(broken.next().is_none());
    });
}

#[test]
fn actions_on_some_partitions_answer_in_the_order_asked_for() {
    on_every_transport(|ctx| {
        let rdd = ctx.range_in(5, 0..50u32, 1);
        let found = rdd.run_on_partitions(&[4, 0, 2], |part| part.sum::<u32>()).unwrap();
        assert_eq!(found, [445, 45, 245]);
        let error = rdd.run_on_partitions(&[5], |part| part.count()).unwrap_err().to_string();
        assert!(error.contains("partition 5 is out of range"), "{error}");
        let error = rdd.run_on_partitions(&[1, 1], |part| part.count()).unwrap_err().to_string();
        assert!(error.contains("named twice"), "{error}");
        assert!(rdd.run_on_partitions(&[], |part| part.count()).unwrap().is_empty());
    });
}

fn lines_of(directory: &std::path::Path) -> Vec<(String, String)> {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    sorted(files.map(|file| {
        let text = std::fs::read_to_string(file.path()).unwrap();
        (file.file_name().into_string().unwrap(), text)
    }))
}

#[test]
fn text_is_written_as_one_file_per_partition_and_only_as_a_whole() {
    on_every_transport(|ctx| {
        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("out/of/nowhere");
        let rdd = ctx.parallelize_in(3, ["eins", "zwei", "drei ☃"].map(str::to_owned));
        rdd.save_as_text_file(&target).unwrap();
        let owned = |(name, text): (&str, &str)| (name.to_owned(), text.to_owned());
        let wanted = [
            ("_SUCCESS", ""),
            ("part-00000", "eins\n"),
            ("part-00001", "zwei\n"),
            ("part-00002", "drei ☃\n"),
        ];
        assert_eq!(lines_of(&target), wanted.map(owned));
        let read = ctx.text_file(target.to_str().unwrap()).unwrap().collect().unwrap();
        assert_eq!(read, ["eins", "zwei", "drei ☃"]);
        assert!(matches!(rdd.save_as_text_file(&target), Err(Error::OutputExists { .. })));
        let broken = ctx.range_in(3, 0..3u32, 1).map(|n| 1 / (n % 2));
        assert!(broken.save_as_text_file(parent.path().join("broken")).is_err());
        let names = std::fs::read_dir(parent.path()).unwrap().map(|e| e.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["out"], "nothing else is left");
    });
}

#[test]
fn a_retried_attempt_leaves_its_output_once() {
    let ctx = builder("local[2,3]").build().unwrap();
    let parent = tempfile::tempdir().unwrap();
    let target = parent.path().join("out");
    let rdd = ctx.range_in(4, 0..40u32, 1).map(|n| {
        let task = TaskContext::current().unwrap();
        assert!(n % 10 != 7 || task.attempt() > 0, "the first attempt fails in its middle");
        n
    });
    rdd.save_as_text_file(&target).unwrap();
    assert_eq!(lines_of(&target).len(), 5);
    let read = ctx.text_file(target.to_str().unwrap()).unwrap().map(|n| n.parse::<u32>().unwrap());
    assert_eq!(read.collect().unwrap(), (0..40).collect::<Vec<_>>());
}

#[test]
fn asynchronous_forms_give_what_their_actions_give() {
    let ctx = context();
    let rdd = ctx.range_in(4, 0..40u32, 1);
    let (all, count, some) = (rdd.collect_async(), rdd.count_async(), rdd.take_async(3));
    assert_eq!(all.wait().unwrap(), (0..40).collect::<Vec<_>>());
    assert_eq!((count.wait().unwrap(), some.wait().unwrap()), (40, vec![0, 1, 2]));
    rdd.for_each_async(|n| assert!(n < 40)).wait().unwrap();
    assert!(rdd.for_each_partition_async(|part| assert_eq!(part.count(), 9)).wait().is_err());
    assert_eq!(rdd.in_background(|rdd| rdd.max()).wait().unwrap(), 39);
}

#[test]
fn a_sum_that_its_type_cannot_hold_is_an_error_that_says_so() {
    on_every_transport(|ctx| {
        let error = ctx.parallelize_in(2, [200u8, 100]).sum().unwrap_err().to_string();
        assert!(
            error.contains("the sum does not fit u8: map the items to a wider type"),
            "{error}"
        );
        assert_eq!(ctx.parallelize_in(2, [200u8, 100]).map(u32::from).sum().unwrap(), 300);
        let (most, least) = (ctx.parallelize([u64::MAX, 1]), ctx.parallelize([i64::MIN, -1]));
        assert!(most.sum().is_err() && least.sum().is_err());
        // On the way it may be more, if the total fits.
        let there_and_back = ctx.parallelize_in(3, [i32::MAX, i32::MAX, 5, -i32::MAX, -i32::MAX]);
        assert_eq!(there_and_back.sum().unwrap(), 5);
        assert_eq!(ctx.parallelize([0.5f64, 0.25]).sum().unwrap(), 0.75);
        assert_eq!(ctx.empty::<u8>().sum().unwrap(), 0);
    });
}

#[test]
fn actions_of_an_rdd_with_an_environment_are_those_of_the_rdd() {
    on_every_transport(|ctx| {
        let rdd = ctx.range_in(5, 1..=20u64, 1);
        let with = || rdd.with(7u64);
        assert_eq!(with().reduce(|m, a, b| (a + b) % m).unwrap(), 210 % 7);
        assert_eq!(with().fold(0, |m, a, b| (a + b) % m).unwrap(), 0);
        assert_eq!(with().aggregate(0, |m, a, x| a + x * m, |_, a, b| a + b).unwrap(), 1470);
        assert_eq!(with().tree_reduce(|_, a, b| a.max(b)).unwrap(), 20);
        assert_eq!(with().tree_aggregate(0, |m, a, x| a + x * m, |_, a, b| a + b).unwrap(), 1470);
        assert_eq!(with().top_by(3, |m, x| x % m).unwrap(), [6, 13, 20]);
        assert_eq!(with().take_ordered_by(3, |m, x| x % m).unwrap(), [7, 14, 1]);
        assert_eq!(with().run_on_partitions(&[1], |m, items| items.sum::<u64>() % m).unwrap(), [5]);
        let (sums, pairs) = (ctx.accumulator::<u64>(), rdd.map(|n| (n % 2, n)));
        rdd.with((sums.clone(), 3)).for_each(|(sums, by), n| sums.add(n * by)).unwrap();
        assert_eq!(sums.value(), 630);
        let folded = pairs.with(2u64).fold_by_key(1, |by, a, b| a + b * by).count().unwrap();
        let into = pairs.with(2u64).reduce_by_key_into(3, |by, a, b| a.max(b) + by - by);
        assert_eq!((folded, sorted(into.collect().unwrap())), (2, vec![(0, 20), (1, 19)]));
    });
}
