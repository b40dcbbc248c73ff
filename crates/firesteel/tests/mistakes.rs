//! Mistakes that only show when a job runs, or not at all: each is a clear error, and nothing is
//! computed wrongly instead.

use std::fs;
use std::sync::OnceLock;

use firesteel::prelude::*;
use serde::{Deserialize, Serialize};

fn context() -> Context {
    Context::builder().master("local[2]").arguments([] as [&str; 0]).build().unwrap()
}

#[test]
fn rdds_of_two_contexts_cannot_be_mixed() {
    let (ours, theirs) = (context(), context());
    let a = ours.parallelize(0..10u32).map(|x| (x, 1u32)).reduce_by_key(|a, b| a + b);
    let b = theirs.parallelize(0..10u32).map(|x| (x, 2u32)).reduce_by_key(|a, b| a + b);
    for error in [
        a.union(&b).count().unwrap_err(),
        a.join(&b).count().unwrap_err(),
        a.zip(&b).count().unwrap_err(),
        a.cartesian(&b).count().unwrap_err(),
    ] {
        assert!(error.to_string().contains("same context"), "{error}");
    }
    assert_eq!(a.count().unwrap() + b.count().unwrap(), 20);
}

static SHARED: OnceLock<Context> = OnceLock::new();

#[test]
fn a_job_inside_a_task_is_refused_rather_than_waited_for_for_ever() {
    let ctx = SHARED.get_or_init(|| {
        let one = Context::builder().master("local[1]").arguments([] as [&str; 0]);
        one.build().unwrap()
    });
    let inner = ctx.parallelize(0..2u32).map(|_| {
        let result = SHARED.get().unwrap().range(0..3u32).count();
        result.unwrap_err().to_string()
    });
    let errors = inner.collect().unwrap();
    assert!(errors.iter().all(|error| error.contains("a task cannot run jobs")), "{errors:?}");
}

#[test]
fn a_chain_too_deep_for_the_stack_is_an_error_and_a_repartition_mends_it() {
    let ctx = context();
    let mut numbers: Rdd<u32> = ctx.range(0..10u32).boxed();
    for _ in 0..4_000 {
        numbers = numbers.map(|x| x).boxed();
    }
    assert_eq!(numbers.count().unwrap(), 10);
    let mended = numbers.repartition(2);
    for _ in 0..4_000 {
        numbers = numbers.map(|x| x).boxed();
    }
    let error = numbers.count().unwrap_err().to_string();
    assert!(error.contains("repartition"), "{error}");
    assert_eq!(mended.count().unwrap(), 10);
}

#[test]
fn a_chain_of_large_items_is_an_error_before_it_is_too_deep_for_the_stack() {
    fn deepest<const WORDS: usize>(ctx: &Context) -> usize {
        let mut items = ctx.range_in(1, 0..3u64, 1).map(|x| [x; WORDS]).boxed();
        let (mut steps, mut wanted) = (0, 40);
        loop {
            while steps < wanted {
                items = items.map(|item| item).boxed();
                steps += 1;
            }
            match items.count() {
                Ok(count) => assert_eq!(count, 3),
                Err(error) => {
                    let (error, size) = (error.to_string(), format!("{} bytes", WORDS * 8));
                    assert!(error.contains("put a repartition"), "{error}");
                    // Of small items so many steps fit that their number is the limit.
                    let many = error.contains("more than 5000 steps");
                    assert!(error.contains(&size) || many && WORDS <= 16, "{error}");
                    return steps;
                }
            }
            wanted = steps * 5 / 4;
        }
    }
    let ctx = context();
    let found =
        [deepest::<1>(&ctx), deepest::<16>(&ctx), deepest::<128>(&ctx), deepest::<2048>(&ctx)];
    assert!(found.is_sorted_by(|a, b| a >= b) && found[1] > found[2], "{found:?}");
    assert!(found[2] > found[3] && found[3] >= 50, "{found:?}");
}

#[test]
fn globs_and_directories_never_read_what_is_not_committed() {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("day1/part-00000", "a\n");
    write("day1/_SUCCESS", "");
    write("._temporary.day2.7/part-00000.attempt-3", "half\n");
    let ctx = context();
    let read = |pattern: &str| {
        let path = root.path().join(pattern).display().to_string();
        ctx.text_file(&path).and_then(|lines| lines.collect())
    };
    assert_eq!(read("*").unwrap(), ["a"]);
    assert_eq!(read("*/*").unwrap(), ["a"]);
    assert_eq!(read("day1").unwrap(), ["a"]);
    assert_eq!(read("._temporary.day2.7").unwrap(), ["half"], "asked for by name");
    write("day1/inner/part-00000", "b\n");
    let error = read("day1").unwrap_err().to_string();
    assert!(error.contains("directory inside an input directory"), "{error}");
}

#[test]
fn a_line_longer_than_its_splits_is_read_once() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("long.txt");
    let long = "x".repeat(5_000_000);
    fs::write(&path, format!("first\n{long}\nlast\n")).unwrap();
    let ctx = context();
    let options = TextOptions::new().max_split_bytes(10_000);
    let lines = ctx.text_file_with(&path.display().to_string(), &options).unwrap();
    assert!(lines.partition_count() > 400);
    let lengths = lines.map(|line| line.len()).collect().unwrap();
    assert_eq!(lengths, [5, 5_000_000, 4]);
}

#[test]
fn the_order_of_partitions_is_kept_by_every_way_to_reduce() {
    let ctx = context();
    let letters = ctx.parallelize_in(26, ('a'..='z').map(String::from));
    let alphabet: String = ('a'..='z').collect();
    assert_eq!(letters.reduce(|a, b| a + &b).unwrap(), alphabet);
    assert_eq!(letters.tree_reduce(|a, b| a + &b).unwrap(), alphabet);
    let tree = letters.tree_aggregate(String::new(), |a, b| a + &b, |a, b| a + &b);
    assert_eq!(tree.unwrap(), alphabet);
}

#[test]
fn pairs_in_ranges_are_in_the_order_of_partitions_and_can_be_joined_there() {
    let ctx = context();
    let pairs = ctx.range_in(4, 0..1000u32, 1).map(|x| (x * 7919 % 1000, x));
    let ranges = pairs.partition_by_range(5);
    let parts = ranges.keys().glom().collect().unwrap();
    assert_eq!(parts.len(), 5);
    for pair in parts.windows(2) {
        assert!(pair[0].iter().max() < pair[1].iter().min());
    }
    let joined = ranges.join(&ranges.map_values(|x| x + 1));
    assert!(!joined.to_debug_string().contains("+-(5)"), "no second shuffle");
    assert_eq!(joined.count().unwrap(), 1000);
}

/// Writes two numbers and reads one.
#[derive(Clone)]
struct Lopsided(u32);

impl Serialize for Lopsided {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.0, self.0).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Lopsided {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u32::deserialize(deserializer).map(Lopsided)
    }
}

#[test]
fn a_type_whose_serde_halves_disagree_is_found_out() {
    let ctx = context();
    let shuffled = ctx.range(0..100u32).map(Lopsided).repartition(2);
    let error = shuffled.count().unwrap_err().to_string();
    assert!(error.contains("Deserialize"), "{error}");
}

#[test]
fn an_environment_serves_every_kind_of_operation() {
    let ctx = context();
    let numbers = ctx.range_in(3, 0..100u32, 1);
    let ten = numbers.with(10u32);
    assert_eq!(ten.top_by(2, |ten, x| x % ten).unwrap(), [9, 19]);
    assert_eq!(ten.take_ordered_by(2, |ten, x| (x % ten, *x)).unwrap(), [0, 10]);
    assert_eq!(ten.fold(0, |ten, a, b| (a + b) % ten).unwrap(), 4950 % 10);
    let doubled = ten.zip_partitions(&numbers, |ten, a, b| {
        let ten = *ten;
        a.zip(b).map(move |(a, b)| a * ten + b)
    });
    assert_eq!(doubled.collect().unwrap(), (0..100).map(|x| x * 11).collect::<Vec<_>>());
    let pairs = numbers.map(|x| (x % 4, x)).boxed();
    let sums = pairs.with(1u32).aggregate_by_key(0, |one, a, x| a + x * one, |_, a, b| a + b);
    let folded = pairs.with(1u32).combine_by_key(|_, x| x, |_, a, x| a + x, |_, a, b| a + b);
    let reduced = pairs.reduce_by_key(|a, b| a + b).collect_as_map().unwrap();
    assert_eq!(sums.collect_as_map().unwrap(), reduced);
    assert_eq!(folded.collect_as_map().unwrap(), reduced);
}
