//! The jobs of `./bench memory` whose records are of shapes that books of memory get wrong: records of a megabyte, one key
//! with nearly all of them, texts of very different lengths, thousands of partitions, many tasks at once.
//!
//! As in [`bounded`](mod@crate::bounded), every record carries its row number, and a wrong sum of those is an error.

use firesteel::prelude::*;

use crate::Failure;
use crate::bounded::{numbers, rows, sum_below, verify};
use crate::generated::{mix, number_of, numbered};
use crate::on_firesteel::{builder, context};
use crate::timing;

const PARTITIONS: usize = 16;

/// Numbers in a record of a megabyte. They are small: encoded, they take an eighth of it.
const WIDE: usize = 1 << 17;

/// Input partitions, where they are many.
const MANY: usize = 10_000;

/// Of ten rows, nine have the frequent key.
fn hot(row: u64) -> u64 {
    if row.is_multiple_of(10) { 1 + row } else { 0 }
}

/// Between 16 bytes and a megabyte, each power of two as often as any other.
fn long_text(row: u64) -> String {
    let length = 16usize << (mix(row) % 17);
    format!("{row:016x}{}", "x".repeat(length - 16))
}

/// Records of a megabyte: sorted, then one of each key.
pub(crate) fn wide(bytes: u64) -> Result<(), Failure> {
    let (ctx, rows) = (context("wide")?, (bytes >> 20).max(16));
    let records = ctx.range_in(PARTITIONS, 0..rows, 1).map(|row| (mix(row), vec![row % 100; WIDE]));
    let found = timing::timed("wide", || {
        let sorted = records.sort_by_key_into(PARTITIONS);
        let once = sorted.reduce_by_key_into(PARTITIONS, |a, _| a);
        let checked = once.map(|(_, record)| (1u64, record.len() == WIDE, u128::from(record[0])));
        checked.reduce(|a, b| (a.0 + b.0, a.1 && b.1, a.2 + b.2))
    })?;
    let sum = (0..rows).map(|row| u128::from(row % 100)).sum();
    verify("wide", found, (rows, true, sum))
}

/// Nine of ten pairs have one key: sorted by it, and counted.
pub(crate) fn hot_key(bytes: u64) -> Result<(), Failure> {
    let (ctx, rows) = (context("hot_key")?, rows(bytes));
    let pairs = ctx.range_in(PARTITIONS, 0..rows, 1).map(|row| (hot(row), numbered(row)));
    let found = timing::timed("hot_key", || {
        let sorted = pairs.sort_by_key_into(PARTITIONS);
        let checked = sorted.map(|(key, text)| {
            let row = number_of(&text);
            (1u64, hot(row) == key, u128::from(row))
        });
        checked.reduce(|a, b| (a.0 + b.0, a.1 && b.1, a.2 + b.2))
    })?;
    verify("hot_key", found, (rows, true, sum_below(rows)))
}

/// Texts of very different lengths, grouped.
pub(crate) fn long_texts(bytes: u64) -> Result<(), Failure> {
    // Seventeen powers of two make an average of 123 KiB.
    let (ctx, rows) = (context("long_texts")?, (bytes / (123 << 10)).max(20) / 20 * 20);
    let keys = rows / 20;
    let pairs = ctx
        .range_in(PARTITIONS, 0..rows, 1)
        .with(keys)
        .map(|keys, row| (row % keys, long_text(row)));
    let found = timing::timed("long_texts", || {
        let groups = pairs.group_by_key_into(PARTITIONS).with(keys);
        let checked = groups.map(|keys, (key, texts)| {
            let row = |text: &String| u64::from_str_radix(&text[..16], 16).unwrap_or(u64::MAX);
            let right =
                texts.iter().all(|text| row(text) % keys == key && *text == long_text(row(text)));
            (1u64, right && texts.len() == 20, texts.iter().map(|text| u128::from(row(text))).sum())
        });
        checked.reduce(|a, b| (a.0 + b.0, a.1 && b.1, a.2 + b.2))
    })?;
    verify("long_texts", found, (keys, true, sum_below(rows)))
}

/// Thousands of partitions, none of which is large.
pub(crate) fn small_partitions(bytes: u64) -> Result<(), Failure> {
    let (ctx, rows) = (context("small_partitions")?, rows(bytes));
    let keys = rows / 20;
    let pairs =
        ctx.range_in(MANY, 0..rows, 1).with(keys).map(|keys, row| (row % keys, numbered(row)));
    let found = timing::timed("small_partitions", || {
        let groups = pairs.group_by_key_into(PARTITIONS * 4).with(keys);
        let checked = groups.map(|keys, (key, texts)| {
            let rows = numbers(&texts);
            let right = texts.len() == 20 && rows.iter().all(|row| row % keys == key);
            (1u64, right, rows.into_iter().map(u128::from).sum::<u128>())
        });
        checked.reduce(|a, b| (a.0 + b.0, a.1 && b.1, a.2 + b.2))
    })?;
    verify("small_partitions", found, (keys, true, sum_below(rows)))
}

/// Sixteen tasks at once, each with a table, then with a sort.
pub(crate) fn many_tasks(bytes: u64) -> Result<(), Failure> {
    let (ctx, rows) = (builder("many_tasks").master("local[16]").build()?, rows(bytes));
    let keys = rows / 20;
    let pairs = ctx
        .range_in(PARTITIONS, 0..rows, 1)
        .with(keys)
        .map(|keys, row| (row % keys, numbered(row)));
    let found = timing::timed("many_tasks", || {
        let groups = pairs.group_by_key_into(PARTITIONS).map_values(|texts| numbers(&texts));
        let sorted = groups.flat_map_values(|rows| rows).sort_by_key_into(PARTITIONS).with(keys);
        let checked = sorted.map(|keys, (key, row)| (1u64, row % keys == key, u128::from(row)));
        checked.reduce(|a, b| (a.0 + b.0, a.1 && b.1, a.2 + b.2))
    })?;
    verify("many_tasks", found, (rows, true, sum_below(rows)))
}
