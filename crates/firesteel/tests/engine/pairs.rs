//! Aggregation by key, partitioning by key, and the actions of pairs.

use std::collections::{BTreeMap, HashMap};

use firesteel::prelude::*;
use serde::{Deserialize, Serialize};

use crate::rig::{context, on_every_transport, sorted};

/// Half of all values under one key, the others under keys of their own.
fn skewed() -> Vec<(String, u64)> {
    let key =
        |n: u64| if n.is_multiple_of(2) { "heiß".to_owned() } else { format!("k{}", n % 40) };
    (0..400).map(|n| (key(n), n)).collect()
}

fn grouped() -> BTreeMap<String, Vec<u64>> {
    let mut groups: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    skewed().into_iter().for_each(|(key, value)| groups.entry(key).or_default().push(value));
    groups
}

#[test]
fn every_aggregation_by_key_folds_all_values_of_each_key_once() {
    on_every_transport(|ctx| {
        for partitions in [1, 4, 900] {
            let pairs = ctx.parallelize_in(partitions.min(60), skewed());
            let sums: Vec<(String, u64)> =
                grouped().into_iter().map(|(key, values)| (key, values.iter().sum())).collect();
            assert_eq!(sorted(pairs.reduce_by_key(|a, b| a + b).collect().unwrap()), sums);
            let into = pairs.reduce_by_key_into(partitions.min(60), |a, b| a + b);
            assert_eq!(into.partition_count(), partitions.min(60));
            assert_eq!(sorted(into.collect().unwrap()), sums);
            assert_eq!(sorted(pairs.fold_by_key(0, |a, b| a + b).collect().unwrap()), sums);
            let counted = pairs.aggregate_by_key(
                (0u64, 0u64),
                |(n, sum), x| (n + 1, sum + x),
                |a, b| (a.0 + b.0, a.1 + b.1),
            );
            let wanted: Vec<_> = grouped()
                .into_iter()
                .map(|(key, values)| (key, (values.len() as u64, values.iter().sum::<u64>())))
                .collect();
            assert_eq!(sorted(counted.collect().unwrap()), wanted);
            let longest = pairs.combine_by_key(
                |x| vec![x],
                |mut all, x| {
                    all.push(x);
                    all
                },
                |mut a, mut b| {
                    a.append(&mut b);
                    a
                },
            );
            let found = longest.map_values(sorted_values).collect().unwrap();
            assert_eq!(sorted(found), grouped().into_iter().collect::<Vec<_>>());
        }
    });
}

fn sorted_values(values: Vec<u64>) -> Vec<u64> {
    sorted(values)
}

#[test]
fn fold_by_key_starts_from_its_zero_in_each_map_partition() {
    on_every_transport(|ctx| {
        let pairs = ctx.parallelize_in(2, [('a', 1u64), ('a', 2), ('a', 3), ('a', 4)]);
        // One key in two map partitions: the zero counts twice.
        assert_eq!(pairs.fold_by_key(100, |a, b| a + b).collect().unwrap(), [('a', 210)]);
        let wide = pairs.combine_by_key_into(5, |x| x, |a, b| a + b, |a, b| a + b);
        assert_eq!((wide.partition_count(), wide.collect().unwrap()), (5, vec![('a', 10)]));
    });
}

#[test]
fn groups_hold_all_values_in_the_order_of_partitions() {
    on_every_transport(|ctx| {
        let pairs = ctx.parallelize_in(7, skewed());
        let found: BTreeMap<_, _> = pairs.group_by_key().collect().unwrap().into_iter().collect();
        assert_eq!(found, grouped());
        let into = pairs.group_by_key_into(3);
        assert_eq!((into.partition_count(), into.count().unwrap()), (3, 21));
        let by_length = pairs.keys().group_by(|key| key.len());
        let lengths: BTreeMap<usize, usize> =
            by_length.map_values(|keys| keys.len()).collect().unwrap().into_iter().collect();
        let mut wanted = BTreeMap::new();
        skewed().iter().for_each(|(key, _)| *wanted.entry(key.len()).or_insert(0) += 1);
        assert_eq!(lengths, wanted);
    });
}

#[test]
fn pairs_come_to_the_driver_as_maps_counts_and_lookups() {
    on_every_transport(|ctx| {
        let pairs = ctx.parallelize_in(5, skewed());
        let counts = pairs.count_by_key().unwrap();
        let wanted: HashMap<String, u64> =
            grouped().into_iter().map(|(key, values)| (key, values.len() as u64)).collect();
        assert_eq!(counts, wanted);
        let last: HashMap<String, u64> = skewed().into_iter().collect();
        assert_eq!(pairs.collect_as_map().unwrap(), last);
        let sums = pairs.reduce_by_key_locally(|a, b| a + b).unwrap();
        assert_eq!(sums["k1"], grouped()["k1"].iter().sum::<u64>());
        assert_eq!(pairs.lookup(&"k3".to_owned()).unwrap(), grouped()["k3"]);
        assert!(pairs.lookup(&"nobody".to_owned()).unwrap().is_empty());
        let placed = pairs.partition_by(4);
        assert_eq!(placed.lookup(&"heiß".to_owned()).unwrap(), grouped()["heiß"]);
        assert!(placed.lookup(&"nobody".to_owned()).unwrap().is_empty());
        let ranged = pairs.sort_by_key();
        assert_eq!(ranged.lookup(&"k7".to_owned()).unwrap(), grouped()["k7"]);
        let none = ctx.empty::<(u8, u8)>();
        assert_eq!(none.count_by_key().unwrap(), HashMap::new());
        assert!(none.lookup(&1).unwrap().is_empty());
        assert!(none.reduce_by_key(|a, _| a).collect().unwrap().is_empty());
        assert!(none.group_by_key().collect().unwrap().is_empty());
    });
}

/// Puts words by their length, all long ones last.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ByLength {
    partitions: usize,
    shift: usize,
}

impl Partitioner<String> for ByLength {
    fn partitions(&self) -> usize {
        self.partitions
    }

    fn partition(&self, key: &String) -> usize {
        (key.chars().count() - 1).min(self.partitions - 1) + self.shift
    }
}

#[test]
fn users_partitioners_decide_where_keys_go() {
    on_every_transport(|ctx| {
        let words = ["a", "bb", "cc", "ddd", "eeeeee", "ß"].map(|word| (word.to_owned(), 1u8));
        let pairs = ctx.parallelize_in(3, words);
        let by_length = || By(ByLength { partitions: 3, shift: 0 });
        let placed = pairs.partition_by(by_length()).keys().glom().collect().unwrap();
        assert_eq!(placed, [vec!["a", "ß"], vec!["bb", "cc"], vec!["ddd", "eeeeee"]]);
        let sorted_within = pairs
            .map(|(word, n)| (word, n))
            .repartition_and_sort_within_partitions(by_length())
            .keys()
            .glom()
            .collect()
            .unwrap();
        assert_eq!(sorted_within, placed);
        let reduced = pairs.union(&pairs).reduce_by_key_into(by_length(), |a, b| a + b);
        assert_eq!(reduced.partition_count(), 3);
        assert!(reduced.values().collect().unwrap().iter().all(|n| *n == 2));
        assert_eq!(pairs.group_by_key_into(by_length()).keys().count().unwrap(), 6);
        let distinct = pairs.keys().union(&pairs.keys()).distinct_into(by_length());
        assert_eq!((distinct.partition_count(), distinct.count().unwrap()), (3, 6));
    });
}

#[test]
fn a_partitioner_that_names_a_partition_that_is_not_there_ends_the_job_clearly() {
    on_every_transport(|ctx| {
        let pairs = ctx.parallelize_in(2, [("abc".to_owned(), 1u8)]);
        let wrong = pairs.partition_by(By(ByLength { partitions: 3, shift: 1 }));
        for error in [wrong.count().unwrap_err(), wrong.lookup(&"abc".to_owned()).unwrap_err()] {
            let error = error.to_string();
            assert!(
                error.contains("ByLength") && error.contains("returned partition 3"),
                "{error}"
            );
        }
        let none = pairs.partition_by(By(ByLength { partitions: 0, shift: 0 }));
        assert!(none.count().unwrap_err().to_string().contains("at least 1"));
        assert!(pairs.partition_by(0).count().unwrap_err().to_string().contains("at least 1"));
    });
}

#[test]
fn repartition_and_sort_within_partitions_sorts_each_partition_by_key() {
    on_every_transport(|ctx| {
        let pairs = ctx.parallelize_in(4, (0..200u64).map(|n| (n * 7919 % 201, n)));
        let sorted_within = pairs.repartition_and_sort_within_partitions(5);
        let parts = sorted_within.glom().collect().unwrap();
        assert_eq!(parts.len(), 5);
        assert!(parts.iter().all(|part| part.is_sorted_by_key(|pair| pair.0) && part.len() > 10));
        assert_eq!(sorted(parts.concat()), sorted((0..200u64).map(|n| (n * 7919 % 201, n))));
    });
}

#[test]
fn a_hash_partitioner_counts_its_partitions_and_agrees_with_itself() {
    let ctx = context();
    let pairs = ctx.range(0..1000u64).map(|n| (n, n));
    let placed = pairs.partition_by(HashPartitioner::new(8));
    let here = placed.map_partitions_with_index(|i, items| items.map(move |(key, _)| (key, i)));
    for (key, index) in here.collect().unwrap() {
        assert_eq!(HashPartitioner::new(8).index(&key) as usize, index);
    }
}
