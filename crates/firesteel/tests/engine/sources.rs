//! Sources: collections, ranges, text files.

use firesteel::prelude::*;
use serde::{Deserialize, Serialize};

use crate::rig::{context, on_every_transport};

#[test]
fn parallelize_keeps_items_and_their_order_in_any_number_of_partitions() {
    on_every_transport(|ctx| {
        let items: Vec<u32> = (0..100).collect();
        assert_eq!(ctx.parallelize(items.clone()).collect().unwrap(), items);
        for partitions in [1, 2, 3, 7, 100, 150] {
            let rdd = ctx.parallelize_in(partitions, items.clone());
            assert_eq!(rdd.partition_count(), partitions);
            assert_eq!(rdd.collect().unwrap(), items, "{partitions} partitions");
            assert_eq!(rdd.glom().collect().unwrap().len(), partitions);
        }
    });
}

#[test]
fn no_items_in_partitions_and_no_partitions_at_all_are_both_empty() {
    on_every_transport(|ctx| {
        assert!(ctx.parallelize_in(4, Vec::<u8>::new()).collect().unwrap().is_empty());
        assert_eq!(ctx.parallelize_in(4, Vec::<u8>::new()).count().unwrap(), 0);
        let nothing = ctx.empty::<String>();
        assert_eq!(nothing.partition_count(), 0);
        assert_eq!(nothing.collect().unwrap(), [] as [String; 0]);
        assert!(nothing.is_empty().unwrap());
        assert_eq!(nothing.map(|text| text.len()).glom().collect().unwrap().len(), 0);
    });
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
enum Shape {
    Point,
    Circle(u32),
    Polygon { corners: Vec<(i32, i32)>, name: Option<String> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Record {
    id: u64,
    shapes: Vec<Shape>,
    nested: (Option<Option<i8>>, Result<char, String>, [u8; 3]),
    weight: f64,
}

fn records() -> Vec<Record> {
    let shape = |n: u64| match n % 3 {
        0 => Shape::Point,
        1 => Shape::Circle(n as u32),
        _ => Shape::Polygon {
            corners: vec![(n as i32, -1), (i32::MIN, i32::MAX)],
            name: n.is_multiple_of(2).then(|| format!("näme {n} ☃ 𝄞")),
        },
    };
    let record = |id: u64| Record {
        id,
        shapes: (0..id % 4).map(|n| shape(n + id)).collect(),
        nested: (
            [None, Some(None), Some(Some(-3))][id as usize % 3],
            if id.is_multiple_of(2) { Ok('ß') } else { Err("🦀".to_owned()) },
            [id as u8; 3],
        ),
        weight: id as f64 / 3.0,
    };
    (0..30).map(record).collect()
}

#[test]
fn records_of_users_types_pass_sources_shuffles_and_results_unchanged() {
    on_every_transport(|ctx| {
        let rdd = ctx.parallelize_in(4, records());
        assert_eq!(rdd.collect().unwrap(), records());
        let sorted = rdd.repartition(3).sort_by(|record| record.id).collect().unwrap();
        assert_eq!(sorted, records());
        let by_shape = rdd.flat_map(|record| record.shapes).map(|shape| (shape, 1u32));
        let mut counts = std::collections::BTreeMap::new();
        for shape in records().into_iter().flat_map(|record| record.shapes) {
            *counts.entry(shape).or_insert(0u32) += 1;
        }
        let found = by_shape.reduce_by_key(|a, b| a + b).sort_by_key().collect().unwrap();
        assert_eq!(found, counts.into_iter().collect::<Vec<_>>());
    });
}

#[test]
fn items_without_size_are_counted_like_others() {
    #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    struct Nothing;
    on_every_transport(|ctx| {
        let nothings = ctx.parallelize_in(3, vec![Nothing; 10]);
        assert_eq!(nothings.collect().unwrap(), vec![Nothing; 10]);
        assert_eq!(nothings.repartition(4).count().unwrap(), 10);
        assert_eq!(nothings.distinct().collect().unwrap(), [Nothing]);
        let units = ctx.range(0..10u32).map(|_| ());
        assert_eq!(
            units.map(|()| ((), ())).group_by_key().collect().unwrap(),
            [((), vec![(); 10])]
        );
    });
}

#[test]
fn records_of_a_megabyte_pass_shuffles_and_results() {
    on_every_transport(|ctx| {
        let large = ctx.range_in(3, 0..6u64, 1).map(|n| (n % 2, n.to_string().repeat(1 << 20)));
        let grouped = large.group_by_key().sort_by_key().collect().unwrap();
        let lengths: Vec<_> = grouped
            .iter()
            .map(|(key, texts)| (*key, texts.iter().map(String::len).sum()))
            .collect();
        assert_eq!(lengths, [(0, 3usize << 20), (1, 3 << 20)]);
        assert!(grouped[1].1.iter().any(|text| text.starts_with("555")));
    });
}

#[test]
#[allow(clippy::reversed_empty_ranges)] // down is a direction, too
fn ranges_count_up_and_down_in_steps() {
    on_every_transport(|ctx| {
        assert_eq!(ctx.range(-3..4i32).collect().unwrap(), (-3..4).collect::<Vec<_>>());
        let steps = ctx.range_in(3, 0..20u64, 6).collect().unwrap();
        assert_eq!(steps, (0..20).step_by(6).collect::<Vec<_>>());
        let down = ctx.range_in(4, 10..-10i64, -5).glom().collect().unwrap();
        assert_eq!(down.len(), 4);
        assert_eq!(down.concat(), [10, 5, 0, -5]);
        assert_eq!(ctx.range(5..5u32).count().unwrap(), 0);
        let backwards = ctx.range(5..2i64);
        assert_eq!(backwards.count().unwrap(), 0);
        let top = ctx.range_in(2, u64::MAX - 3..u64::MAX, 1).collect().unwrap();
        assert_eq!(top, [u64::MAX - 3, u64::MAX - 2, u64::MAX - 1]);
    });
}

#[test]
fn a_step_of_zero_and_no_partitions_are_mistakes_that_actions_report() {
    let ctx = context();
    let error = ctx.range_in(2, 0..10u32, 0).count().unwrap_err().to_string();
    assert!(error.contains("range_in") && error.contains("step"), "{error}");
    assert!(error.contains("sources.rs"), "{error}");
    let error = ctx.parallelize_in(0, [1u8]).collect().unwrap_err().to_string();
    assert!(error.contains("partitions must be between 1"), "{error}");
}

/// Lines that end in all ways, some longer than several splits.
fn awkward_text() -> String {
    let long = "langer Zeilenwurm ".repeat(20);
    format!("\nfirst\r\n\n{long}\nüñîçødé 🦀\n{long}\r\nlast without an end")
}

#[test]
fn text_is_split_by_size_and_every_line_is_read_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lines.txt");
    std::fs::write(&path, awkward_text()).unwrap();
    let wanted: Vec<String> =
        awkward_text().lines().map(|line| line.trim_end_matches('\r').to_owned()).collect();
    on_every_transport(|ctx| {
        for bytes in [1, 2, 3, 7, 50, 100_000] {
            let options = TextOptions::new().max_split_bytes(bytes);
            let lines = ctx.text_file_with(path.to_str().unwrap(), &options).unwrap();
            assert_eq!(lines.collect().unwrap(), wanted, "splits of {bytes}");
        }
        let options = TextOptions::new().min_partitions(5);
        let lines = ctx.text_file_with(path.to_str().unwrap(), &options).unwrap();
        assert!(lines.partition_count() >= 5);
        assert_eq!(lines.collect().unwrap(), wanted);
    });
}

#[test]
fn text_comes_from_directories_globs_alternatives_and_lists() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().to_str().unwrap();
    for (name, text) in [("a.txt", "1\n2"), ("b.txt", "3\n"), ("c.log", "4\n"), ("empty.txt", "")] {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    std::fs::write(directory.path().join("_SUCCESS"), "no data\n").unwrap();
    std::fs::write(directory.path().join(".hidden"), "no data\n").unwrap();
    on_every_transport(|ctx| {
        let read = |paths: &str| ctx.text_file(paths).unwrap().collect().unwrap();
        assert_eq!(read(root), ["1", "2", "3", "4"]);
        assert_eq!(read(&format!("{root}/*.txt")), ["1", "2", "3"]);
        assert_eq!(read(&format!("{root}/{{b,c}}.*")), ["3", "4"]);
        assert_eq!(read(&format!("{root}/c.log,{root}/a.txt")), ["4", "1", "2"]);
        assert_eq!(read(&format!("file://{root}/c.log")), ["4"]);
        assert_eq!(read(&format!("{root}/empty.txt")), [] as [&str; 0]);
    });
}
