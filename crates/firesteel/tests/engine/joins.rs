//! Joins, cogroups and set operations.

use std::collections::BTreeMap;

use firesteel::prelude::*;

use crate::rig::{on_every_transport, sorted};

type Pairs<V> = Vec<(u32, V)>;
type Outer = (Option<String>, Option<i64>);

/// Keys that only one side has, that both have, and that one side has often.
fn sides() -> (Pairs<String>, Pairs<i64>) {
    let left = (0..60u32).map(|n| (if n < 30 { 1 } else { n % 20 }, format!("l{n}"))).collect();
    let right = (0..40u32).map(|n| (n % 15 + 10, -i64::from(n))).chain([(1, 5), (1, 6)]).collect();
    (left, right)
}

type Groups = BTreeMap<u32, (Vec<String>, Vec<i64>)>;

fn groups() -> Groups {
    let (left, right) = sides();
    let mut groups = Groups::new();
    left.into_iter().for_each(|(key, value)| groups.entry(key).or_default().0.push(value));
    right.into_iter().for_each(|(key, value)| groups.entry(key).or_default().1.push(value));
    groups
}

/// All pairs of both sides; a missing side is `None` where it may be.
fn outer(left_may_miss: bool, right_may_miss: bool) -> Pairs<Outer> {
    let mut pairs = Vec::new();
    for (key, (left, right)) in groups() {
        let some = |values: Vec<String>, may| match (values.is_empty(), may) {
            (true, true) => vec![None],
            _ => values.into_iter().map(Some).collect(),
        };
        let right: Vec<Option<i64>> = match (right.is_empty(), right_may_miss) {
            (true, true) => vec![None],
            _ => right.into_iter().map(Some).collect(),
        };
        for v in some(left, left_may_miss) {
            right.iter().for_each(|w| pairs.push((key, (v.clone(), *w))));
        }
    }
    sorted(pairs)
}

#[test]
fn every_join_pairs_what_its_name_says() {
    on_every_transport(|ctx| {
        let (left, right) = sides();
        for (a, b) in [(1, 1), (3, 4), (40, 2)] {
            let (left, right) =
                (ctx.parallelize_in(a, left.clone()), ctx.parallelize_in(b, right.clone()));
            let inner = left.join(&right).map_values(|(v, w)| (Some(v), Some(w)));
            assert_eq!(sorted(inner.collect().unwrap()), outer(false, false));
            let into = left.join_into(6, &right);
            assert_eq!(into.partition_count(), 6);
            assert_eq!(into.count().unwrap() as usize, outer(false, false).len());
            let left_outer = left.left_outer_join(&right).map_values(|(v, w)| (Some(v), w));
            assert_eq!(sorted(left_outer.collect().unwrap()), outer(false, true));
            let right_outer = left.right_outer_join(&right).map_values(|(v, w)| (v, Some(w)));
            assert_eq!(sorted(right_outer.collect().unwrap()), outer(true, false));
            let full = left.full_outer_join(&right);
            assert_eq!(sorted(full.collect().unwrap()), outer(true, true));
        }
    });
}

#[test]
fn cogroup_gathers_all_values_of_both_sides() {
    on_every_transport(|ctx| {
        let (left, right) = sides();
        let (left, right) = (ctx.parallelize_in(3, left), ctx.parallelize_in(5, right));
        let found: Groups = left.cogroup(&right).collect().unwrap().into_iter().collect();
        assert_eq!(found, groups());
        let into = left.cogroup_into(2, &right);
        assert_eq!((into.partition_count(), into.count().unwrap()), (2, groups().len() as u64));
        let itself = left.cogroup(&left).collect().unwrap();
        assert!(itself.iter().all(|(_, (a, b))| a == b));
    });
}

#[test]
fn joins_with_nothing_are_empty_or_one_sided() {
    on_every_transport(|ctx| {
        let (left, _) = sides();
        let count = left.len() as u64;
        let left = ctx.parallelize_in(3, left);
        let nothing = ctx.empty::<(u32, u8)>();
        assert_eq!(left.join(&nothing).count().unwrap(), 0);
        assert_eq!(nothing.join(&left).count().unwrap(), 0);
        assert_eq!(left.left_outer_join(&nothing).count().unwrap(), count);
        assert_eq!(left.right_outer_join(&nothing).count().unwrap(), 0);
        assert_eq!(nothing.right_outer_join(&left).count().unwrap(), count);
        assert_eq!(nothing.full_outer_join(&left).count().unwrap(), count);
        assert_eq!(nothing.cogroup(&nothing).count().unwrap(), 0);
        assert_eq!(left.subtract_by_key(&nothing).count().unwrap(), count);
    });
}

#[test]
fn subtract_by_key_keeps_pairs_whose_key_the_other_lacks() {
    on_every_transport(|ctx| {
        let (left, right) = sides();
        let keys: Vec<u32> = right.iter().map(|(key, _)| *key).collect();
        let wanted: Vec<_> = left.iter().filter(|(key, _)| !keys.contains(key)).cloned().collect();
        let found = ctx.parallelize_in(4, left).subtract_by_key(&ctx.parallelize_in(2, right));
        assert_eq!(sorted(found.collect().unwrap()), sorted(wanted));
    });
}

#[test]
fn sets_are_united_intersected_and_subtracted() {
    on_every_transport(|ctx| {
        let (a, b) = ([3, 1, 4, 1, 5, 9, 2, 6, 5], [5, 3, 5, 8, 9, 7, 9]);
        let words = |numbers: &[u32]| -> Vec<String> {
            numbers.iter().map(|n| "ö".repeat(*n as usize)).collect()
        };
        let (left, right) = (ctx.parallelize_in(4, words(&a)), ctx.parallelize_in(2, words(&b)));
        assert_eq!(sorted(left.distinct().collect().unwrap()), words(&[1, 2, 3, 4, 5, 6, 9]));
        let both = left.intersection(&right).collect().unwrap();
        assert_eq!(sorted(both), words(&[3, 5, 9]));
        let kept = left.subtract(&right).collect().unwrap();
        assert_eq!(sorted(kept), words(&[1, 1, 2, 4, 6]));
        let all = left.union(&right).collect().unwrap();
        assert_eq!(all, [words(&a), words(&b)].concat());
        let nothing = ctx.empty::<String>();
        assert_eq!(left.intersection(&nothing).count().unwrap(), 0);
        assert_eq!(left.subtract(&nothing).count().unwrap(), 9);
        assert_eq!(nothing.distinct().count().unwrap(), 0);
        assert_eq!(left.distinct_into(3).partition_count(), 3);
    });
}

/// Ranks by a plain loop.
fn ranks_of(links: &BTreeMap<u32, Vec<u32>>, rounds: usize) -> BTreeMap<u32, f64> {
    let mut ranks: BTreeMap<u32, f64> = links.keys().map(|page| (*page, 1.0)).collect();
    for _ in 0..rounds {
        let mut next = BTreeMap::new();
        for (page, targets) in links {
            let Some(rank) = ranks.get(page) else { continue };
            for target in targets {
                *next.entry(*target).or_insert(0.0) += rank / targets.len() as f64;
            }
        }
        ranks = next.into_iter().map(|(page, sum)| (page, 0.15 + 0.85 * sum)).collect();
    }
    ranks
}

#[test]
fn a_loop_like_pagerank_type_checks_and_is_right() {
    let links: BTreeMap<u32, Vec<u32>> = (0..50)
        .map(|page| (page, (1..=page % 5 + 1).map(|n| (page * 7 + n * n) % 50).collect()))
        .collect();
    let wanted = ranks_of(&links, 6);
    on_every_transport(|ctx| {
        let links = ctx.parallelize_in(3, links.clone()).partition_by(3).cache();
        let mut ranks: Rdd<(u32, f64)> = links.map_values(|_| 1.0).boxed();
        for _ in 0..6 {
            ranks = links
                .join(&ranks)
                .values()
                .flat_map(|(targets, rank): (Vec<u32>, f64)| {
                    let share = rank / targets.len() as f64;
                    targets.into_iter().map(move |target| (target, share))
                })
                .reduce_by_key(|a, b| a + b)
                .map_values(|sum| 0.15 + 0.85 * sum)
                .boxed();
        }
        let found: BTreeMap<u32, f64> = ranks.collect().unwrap().into_iter().collect();
        assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
        assert!(found.iter().all(|(page, rank)| (rank - wanted[page]).abs() < 1e-9));
        links.unpersist();
    });
}
