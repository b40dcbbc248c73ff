//! Random data and random pipelines against plain Rust.

use std::collections::{BTreeMap, BTreeSet};

use firesteel::prelude::*;
use proptest::prelude::*;

use crate::rig::{on_every_transport, sorted};

type Pair = (u8, i32);
type Both = (Vec<i32>, Vec<i32>);

/// Items and the number of partitions to cut them into; few keys, so that they meet.
fn pairs() -> impl Strategy<Value = (Vec<Pair>, usize)> {
    (prop::collection::vec((0u8..12, -50i32..50), 0..60), 1usize..9)
}

fn groups(pairs: &[Pair]) -> BTreeMap<u8, Vec<i32>> {
    let mut groups: BTreeMap<u8, Vec<i32>> = BTreeMap::new();
    pairs.iter().for_each(|(key, value)| groups.entry(*key).or_default().push(*value));
    groups
}

/// One step of a pipeline, with its oracle.
#[derive(Clone, Debug)]
enum Step {
    Add(i32),
    KeepDivisible(i32),
    Twice,
    Swap,
    Repartition(usize),
    Coalesce(usize),
    SortByKey,
    SortByValueDescending,
    SumByKey,
    Distinct,
    UnionSelf,
    Cache,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (-5i32..5).prop_map(Step::Add),
        (1i32..4).prop_map(Step::KeepDivisible),
        Just(Step::Twice),
        Just(Step::Swap),
        (1usize..7).prop_map(Step::Repartition),
        (1usize..7).prop_map(Step::Coalesce),
        Just(Step::SortByKey),
        Just(Step::SortByValueDescending),
        Just(Step::SumByKey),
        Just(Step::Distinct),
        Just(Step::UnionSelf),
        Just(Step::Cache),
    ]
}

fn swapped((key, value): Pair) -> Pair {
    (value.rem_euclid(12) as u8, i32::from(key))
}

impl Step {
    fn on_rdd(&self, rdd: &Rdd<Pair>) -> Rdd<Pair> {
        match *self {
            Step::Add(n) => rdd.with(n).map_values(|n, x| x.wrapping_add(*n)).boxed(),
            Step::KeepDivisible(n) => rdd.with(n).filter(|n, pair| pair.1 % n == 0).boxed(),
            Step::Twice => rdd.flat_map(|pair| [pair, pair]).boxed(),
            Step::Swap => rdd.map(swapped).boxed(),
            Step::Repartition(n) => rdd.repartition(n),
            Step::Coalesce(n) => rdd.coalesce(n).boxed(),
            Step::SortByKey => rdd.sort_by_key(),
            Step::SortByValueDescending => rdd.sort_by_desc(|pair| pair.1),
            Step::SumByKey => rdd.reduce_by_key(|a, b| a.wrapping_add(b)),
            Step::Distinct => rdd.distinct(),
            Step::UnionSelf => rdd.union(rdd),
            Step::Cache => rdd.cache(),
        }
    }

    fn on_items(&self, items: Vec<Pair>) -> Vec<Pair> {
        match *self {
            Step::Add(n) => items.into_iter().map(|(k, x)| (k, x.wrapping_add(n))).collect(),
            Step::KeepDivisible(n) => items.into_iter().filter(|pair| pair.1 % n == 0).collect(),
            Step::Twice => items.into_iter().flat_map(|pair| [pair, pair]).collect(),
            Step::Swap => items.into_iter().map(swapped).collect(),
            Step::SumByKey => groups(&items)
                .into_iter()
                .map(|(key, values)| (key, values.into_iter().fold(0, i32::wrapping_add)))
                .collect(),
            Step::Distinct => items.into_iter().collect::<BTreeSet<_>>().into_iter().collect(),
            Step::UnionSelf => items.iter().chain(&items).copied().collect(),
            _ => items,
        }
    }
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn any_pipeline_computes_what_plain_vectors_compute(
        (items, partitions) in pairs(),
        steps in prop::collection::vec(step(), 1..7),
    ) {
        let wanted = steps.iter().fold(items.clone(), |items, step| step.on_items(items));
        on_every_transport(|ctx| {
            let source = ctx.parallelize_in(partitions, items.clone()).boxed();
            let rdd = steps.iter().fold(source, |rdd, step| step.on_rdd(&rdd));
            let found = rdd.collect().unwrap();
            match steps.last() {
                Some(Step::SortByKey) => assert!(found.is_sorted_by_key(|pair| pair.0)),
                Some(Step::SortByValueDescending) => {
                    assert!(found.is_sorted_by_key(|pair| std::cmp::Reverse(pair.1)));
                }
                _ => {}
            }
            assert_eq!(sorted(found), sorted(wanted.clone()));
            assert_eq!(rdd.count().unwrap() as usize, wanted.len());
        });
    }

    #[test]
    fn any_two_sides_are_brought_together_as_nested_loops_would(
        (left, left_partitions) in pairs(),
        (right, right_partitions) in pairs(),
        placed in 0usize..4,
    ) {
        let (a, b) = (groups(&left), groups(&right));
        let keys: BTreeSet<u8> = a.keys().chain(b.keys()).copied().collect();
        let values = |side: &BTreeMap<u8, Vec<i32>>, key: &u8| -> Vec<i32> {
            side.get(key).cloned().unwrap_or_default()
        };
        let cogrouped: Vec<(u8, Both)> =
            keys.iter().map(|key| (*key, (values(&a, key), values(&b, key)))).collect();
        let product = |left_may_miss: bool, right_may_miss: bool| {
            let side = |values: &[i32], may_miss: bool| -> Vec<Option<i32>> {
                if values.is_empty() && may_miss {
                    return vec![None];
                }
                values.iter().copied().map(Some).collect()
            };
            let pairs = cogrouped.iter().flat_map(|(key, (v, w))| {
                let (v, w) = (side(v, left_may_miss), side(w, right_may_miss));
                v.into_iter().flat_map(move |v| w.clone().into_iter().map(move |w| (*key, (v, w))))
            });
            sorted(pairs)
        };
        on_every_transport(|ctx| {
            let mut l = ctx.parallelize_in(left_partitions, left.clone()).boxed();
            let mut r = ctx.parallelize_in(right_partitions, right.clone()).boxed();
            if placed & 1 != 0 {
                l = l.partition_by(3);
            }
            if placed & 2 != 0 {
                r = r.sort_by_key();
            }
            let order = |(mut v, mut w): Both| {
                v.sort();
                w.sort();
                (v, w)
            };
            let found = l.cogroup(&r).map_values(order).collect().unwrap();
            let wanted = cogrouped.iter().cloned().map(|(key, both)| (key, order(both)));
            assert_eq!(sorted(found), wanted.collect::<Vec<_>>());
            let inner = l.join(&r).map_values(|(v, w)| (Some(v), Some(w)));
            assert_eq!(sorted(inner.collect().unwrap()), product(false, false));
            let outer = l.left_outer_join(&r).map_values(|(v, w)| (Some(v), w));
            assert_eq!(sorted(outer.collect().unwrap()), product(false, true));
            let outer = l.right_outer_join(&r).map_values(|(v, w)| (v, Some(w)));
            assert_eq!(sorted(outer.collect().unwrap()), product(true, false));
            assert_eq!(sorted(l.full_outer_join(&r).collect().unwrap()), product(true, true));
            let lacking = left.iter().filter(|(key, _)| !b.contains_key(key)).copied();
            assert_eq!(sorted(l.subtract_by_key(&r).collect().unwrap()), sorted(lacking));
        });
    }

    #[test]
    fn any_two_collections_are_sets_and_multisets(
        (left, left_partitions) in pairs(),
        (right, right_partitions) in pairs(),
        reshaped in 1usize..9,
    ) {
        let set = |items: &[Pair]| items.iter().copied().collect::<BTreeSet<Pair>>();
        let (a, b) = (set(&left), set(&right));
        on_every_transport(|ctx| {
            let l = ctx.parallelize_in(left_partitions, left.clone());
            let r = ctx.parallelize_in(right_partitions, right.clone());
            let both = a.intersection(&b).copied().collect::<Vec<_>>();
            assert_eq!(sorted(l.intersection(&r).collect().unwrap()), both);
            let kept = left.iter().filter(|pair| !b.contains(pair)).copied();
            assert_eq!(sorted(l.subtract(&r).collect().unwrap()), sorted(kept));
            assert_eq!(l.union(&r).collect().unwrap(), [left.clone(), right.clone()].concat());
            assert_eq!(sorted(l.distinct().collect().unwrap()), a.iter().copied().collect::<Vec<_>>());
            assert_eq!(sorted(l.repartition(reshaped).collect().unwrap()), sorted(left.clone()));
            assert_eq!(l.coalesce(reshaped).collect().unwrap(), left);
            let grouped = l.group_by_key_into(reshaped).collect().unwrap();
            assert_eq!(grouped.into_iter().collect::<BTreeMap<_, _>>(), groups(&left));
            let mut wanted = left.clone();
            wanted.sort_by_key(|pair| pair.1);
            assert_eq!(l.sort_by_into(reshaped, |pair| pair.1).collect().unwrap(), wanted);
        });
    }
}
