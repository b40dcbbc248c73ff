//! The jobs of `./bench memory` on generated data: wide operations on more records than the budget holds.
//!
//! Each takes the size of its data, as it would lie in memory, and checks what comes out against what arithmetic says: every
//! record carries its row number, so the sum of the numbers tells whether each record came out as often as it should. A wrong
//! result is an error. The budget and the place for temporary files are settings, from the environment.

use firesteel::prelude::*;

use crate::Failure;
use crate::generated::{TEXT, number_of, numbered};
use crate::on_firesteel::context;
use crate::timing;

/// Partitions on both sides of a shuffle.
const PARTITIONS: usize = 16;

/// A pair of a number and a text in memory.
const PAIR: u64 = (size_of::<(u64, String)>() + TEXT) as u64;

/// How many rows of pairs are `bytes` in memory; a multiple of what the checks below divide by.
pub(crate) fn rows(bytes: u64) -> u64 {
    bytes / PAIR / 20 * 20 + 20
}

/// The sum of the numbers below `rows`.
pub(crate) fn sum_below(rows: u64) -> u128 {
    u128::from(rows) * u128::from(rows - 1) / 2
}

/// Twenty values per key.
pub(crate) fn group_by_key(bytes: u64) -> Result<(), Failure> {
    let (ctx, rows) = (context("group_by_key")?, rows(bytes));
    let keys = rows / 20;
    let pairs =
        ctx.range_in(PARTITIONS, 0..rows, 1).with(keys).map(|keys, i| (i % keys, numbered(i)));
    let found = timing::timed("group_by_key", || {
        let groups = pairs.group_by_key_into(PARTITIONS).with(keys);
        let checked = groups.map(|keys, (key, texts)| {
            let numbers = texts.iter().map(|text| number_of(text));
            let belong = texts.len() == 20 && numbers.clone().all(|i| i % keys == key);
            (1u64, belong, numbers.map(u128::from).sum::<u128>())
        });
        checked.reduce(|a, b| (a.0 + b.0, a.1 && b.1, a.2 + b.2))
    })?;
    verify("group_by_key", found, (keys, true, sum_below(rows)))
}

/// Each key once on the left; a quarter of the keys four times each on the right. Both sides together are `bytes`.
pub(crate) fn join(bytes: u64) -> Result<(), Failure> {
    let (ctx, rows) = (context("join")?, rows(bytes / 2));
    let keys = rows / 4;
    let left = ctx.range_in(PARTITIONS, 0..rows, 1).map(|i| (i, numbered(i)));
    let right =
        ctx.range_in(PARTITIONS, 0..rows, 1).with(keys).map(|keys, i| (i % keys, numbered(i)));
    let found = timing::timed("join", || {
        let joined = left.join_into(PARTITIONS, &right).with(keys);
        let checked = joined.map(|keys, (key, (one, other))| {
            let (one, other) = (number_of(&one), number_of(&other));
            (1u64, one == key && other % keys == key, u128::from(other))
        });
        checked.reduce(|a, b| (a.0 + b.0, a.1 && b.1, a.2 + b.2))
    })?;
    verify("join", found, (rows, true, sum_below(rows)))
}

/// A quarter of the rows as keys on the left, half of them on the right: half of the keys have no values on the left.
pub(crate) fn cogroup(bytes: u64) -> Result<(), Failure> {
    let (ctx, rows) = (context("cogroup")?, rows(bytes / 2));
    let keys = (rows / 4, rows / 2);
    let left =
        ctx.range_in(PARTITIONS, 0..rows, 1).with(keys).map(|keys, i| (i % keys.0, numbered(i)));
    let right =
        ctx.range_in(PARTITIONS, 0..rows, 1).with(keys).map(|keys, i| (i % keys.1, numbered(i)));
    let found = timing::timed("cogroup", || {
        let groups = left.cogroup_into(PARTITIONS, &right).with(keys);
        let checked = groups.map(|keys, (key, (ones, others))| {
            let (ones, others) = (numbers(&ones), numbers(&others));
            let belong = ones.iter().all(|i| i % keys.0 == key)
                && others.iter().all(|i| i % keys.1 == key)
                && ones.len() == if key < keys.0 { 4 } else { 0 }
                && others.len() == 2;
            let sum = ones.iter().chain(&others).map(|i| u128::from(*i)).sum::<u128>();
            (1u64, belong, sum)
        });
        checked.reduce(|a, b| (a.0 + b.0, a.1 && b.1, a.2 + b.2))
    })?;
    verify("cogroup", found, (rows / 2, true, 2 * sum_below(rows)))
}

pub(crate) fn numbers(texts: &[String]) -> Vec<u64> {
    texts.iter().map(|text| number_of(text)).collect()
}

/// Texts; a quarter of them is there a second time.
pub(crate) fn distinct(bytes: u64) -> Result<(), Failure> {
    let rows = rows(bytes);
    let (ctx, different) = (context("distinct")?, rows / 4 * 3);
    let texts = ctx
        .range_in(PARTITIONS, 0..rows, 1)
        .with(different)
        .map(|different, i| numbered(i % different));
    let found = timing::timed("distinct", || {
        let distinct = texts.distinct_into(PARTITIONS);
        let checked = distinct.map(|text| (1u64, true, u128::from(number_of(&text))));
        checked.reduce(|a, b| (a.0 + b.0, a.1 && b.1, a.2 + b.2))
    })?;
    verify("distinct", found, (different, true, sum_below(different)))
}

/// Texts that are kept as far as they fit, read twice.
pub(crate) fn cache(bytes: u64) -> Result<(), Failure> {
    let (ctx, rows) = (context("cache")?, rows(bytes));
    let kept = ctx.range_in(PARTITIONS * 4, 0..rows, 1).map(numbered).cache();
    let read = || {
        let checked = kept.map(|text| (1u64, true, u128::from(number_of(&text))));
        checked.reduce(|a, b| (a.0 + b.0, a.1 && b.1, a.2 + b.2))
    };
    let (first, second) = timing::timed("cache", || Ok::<_, Error>((read()?, read()?)))?;
    verify("cache", first, (rows, true, sum_below(rows)))?;
    verify("cache", second, first)
}

/// All pairs have one key: the group does not fit into the budget, which has to end in an error that says so.
pub(crate) fn one_group(bytes: u64) -> Result<(), Failure> {
    let (ctx, rows) = (context("one_group")?, rows(bytes));
    let pairs = ctx.range_in(PARTITIONS, 0..rows, 1).map(|i| (0u64, numbered(i)));
    let length = timing::timed("one_group", || {
        pairs.group_by_key_into(PARTITIONS).map(|(_, texts)| texts.len() as u64).reduce(u64::max)
    })?;
    println!("RESULT one_group {length}");
    Ok(())
}

/// Number of results, whether each is what it should be, the sum of all row numbers in them.
pub(crate) type Checked = (u64, bool, u128);

pub(crate) fn verify(name: &str, found: Checked, expected: Checked) -> Result<(), Failure> {
    println!("RESULT {name} n={} right={} sum={}", found.0, found.1, found.2);
    if found == expected {
        return Ok(());
    }
    let words = |(n, right, sum): Checked| format!("n={n} right={right} sum={sum}");
    Err(Failure::Wrong(format!("{name}: {} instead of {}", words(found), words(expected))))
}
