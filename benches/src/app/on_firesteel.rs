//! The same jobs on Firesteel, in `local[2]`.
//!
//! What a real program only knows at run time (sizes, captured values) passes through `black_box`, as
//! in the hand-written loops.

use std::hint::black_box;

use firesteel::prelude::*;

use crate::by_hand::{FACTOR, NUMBERS};
use crate::timing;

fn context(name: &str) -> Result<Context> {
    Context::builder().app_name(name).master("local[2]").arguments([] as [&str; 0]).build()
}

/// Start, one tiny job, exit.
pub(crate) fn trivial() -> Result<()> {
    let ctx = context("trivial")?;
    println!("RESULT trivial {}", ctx.parallelize_in(2, 1..=1000u32).count()?);
    Ok(())
}

/// 10,000 empty tasks, four times; the first run is the cold one.
pub(crate) fn tasks() -> Result<()> {
    let ctx = context("tasks")?;
    let numbers = ctx.parallelize_in(10_000, 1..=10_000u32);
    for run in 1..=4 {
        let count = timing::timed(&format!("tasks10000 run{run}"), || numbers.count())?;
        if run == 4 {
            println!("RESULT tasks10000 {count}");
        }
    }
    Ok(())
}

/// Ten iterations over the edges in `file`.
pub(crate) fn pagerank(file: &str) -> Result<()> {
    let ctx = context("pagerank")?;
    let top = timing::timed("pagerank10", || -> Result<_> {
        let links = ctx
            .text_file_with(file, &TextOptions::new().min_partitions(4))?
            .map(|line| {
                let (from, to) = line.split_once(' ').expect("two numbers");
                (from.parse::<u32>().expect("a node"), to.parse::<u32>().expect("a node"))
            })
            .distinct_into(4)
            .group_by_key_into(4)
            .cache();
        let mut ranks: Rdd<(u32, f64)> = links.map_values(|_| 1.0).boxed();
        for _ in 0..10 {
            ranks = links
                .join_into(4, &ranks)
                .flat_map(|(_, (targets, rank))| {
                    let share = rank / targets.len() as f64;
                    targets.into_iter().map(move |target| (target, share))
                })
                .reduce_by_key_into(4, |a, b| a + b)
                .map_values(|sum| 0.15 + 0.85 * sum)
                .boxed();
        }
        ranks.top_by(5, |(_, rank)| Total(*rank))
    })?;
    let top: Vec<String> = top.iter().map(|(node, rank)| format!("{node}={rank:.6}")).collect();
    println!("RESULT pagerank10 {}", top.join(" "));
    Ok(())
}

/// 100 M signed numbers: `3 x + 1`, the even ones, their sum.
pub(crate) fn longs(partitions: usize) -> Result<()> {
    let ctx = context("longs")?;
    let numbers = ctx.range_in(partitions, 0..black_box(NUMBERS) as i64, 1);
    timing::several("longs100M", || {
        numbers.map(|x| x * 3 + 1).filter(|x| x & 1 == 0).reduce(|a, b| a + b)
    })
}

/// 100 M numbers: xor, multiply with a captured value, filter, sum.
pub(crate) fn pipelines() -> Result<()> {
    let ctx = context("pipelines")?;
    let numbers = ctx.range(0..black_box(NUMBERS));
    let factor = black_box(FACTOR);
    timing::several("pipelines", || {
        numbers
            .map(|x| x ^ 0x5555)
            .with(factor)
            .map(|factor, x| x.wrapping_mul(*factor))
            .filter(|x| x & 3 != 0)
            .reduce(u64::wrapping_add)
    })
}

/// 100 M numbers through ten steps.
pub(crate) fn chain10() -> Result<()> {
    let ctx = context("chain10")?;
    let numbers = ctx.range(0..black_box(NUMBERS));
    let factor = black_box(FACTOR);
    timing::several("chain10", || {
        numbers
            .map(|x| x ^ 0x5555)
            .map(|x| x.wrapping_add(0x1234_5678))
            .with(factor)
            .map(|factor, x| x.wrapping_mul(*factor))
            .map(|x| x.rotate_left(13))
            .filter(|x| x & 7 != 0)
            .map(|x| x ^ 0x00ff_00ff)
            .map(|x| x.wrapping_add(0x0fed_cba9))
            .map(|x| x.wrapping_mul(0x9e37_79b9))
            .map(|x| x.rotate_left(31))
            .filter(|x| x & 24 != 0)
            .reduce(u64::wrapping_add)
    })
}

/// Words of a file, counted; the twenty most frequent.
pub(crate) fn wordcount(file: &str) -> Result<()> {
    let ctx = context("wordcount")?;
    let top = timing::timed("wordcount", || {
        ctx.text_file(file)?
            .flat_map_to(|line, words| {
                words.extend(line.split_ascii_whitespace().map(str::to_owned))
            })
            .map(|word| (word, 1u64))
            .reduce_by_key(|a, b| a + b)
            .top_by(20, |(word, count)| (*count, word.clone()))
    })?;
    let top: Vec<String> = top.iter().map(|(word, count)| format!("{word}={count}")).collect();
    println!("RESULT wordcount {}", top.join(" "));
    Ok(())
}

/// Records of an 8-byte key and a 90-character value, generated in the first stage; order is checked.
pub(crate) fn sort(records: u64, partitions: usize) -> Result<()> {
    let ctx = context("sort")?;
    let unsorted = ctx.range_in(partitions, 0..records, 1).map(|i| {
        let key = mix(i);
        (key as i64, padded(key))
    });
    let checks = timing::timed("sort", || {
        unsorted
            .sort_by_key_into(partitions)
            .map_partitions(|sorted| {
                let mut check = (0u64, true, 0i64);
                let mut previous = i64::MIN;
                for (key, value) in sorted {
                    check.1 &= previous <= key;
                    previous = key;
                    check.0 += 1;
                    check.2 ^= key.wrapping_add(value.len() as i64);
                }
                std::iter::once(check)
            })
            .collect()
    })?;
    let (count, sorted, digest) =
        checks.into_iter().fold((0, true, 0), |a, b| (a.0 + b.0, a.1 && b.1, a.2 ^ b.2));
    println!("RESULT sort n={count} sorted={sorted} xor={digest}");
    Ok(())
}

/// splitmix64
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const PADDING: &str =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abcdefghijklmnopqrstuvwxyz";

fn padded(key: u64) -> String {
    let mut text = format!("{key:x}");
    text.push_str(&PADDING[..90 - text.len()]);
    text
}

/// Pairs on both sides, most keys once on the left and, of the right's, a tenth on one key in a hundred.
pub(crate) fn join(rows: u64, partitions: usize) -> Result<()> {
    let ctx = context("join")?;
    let left = ctx.range_in(partitions, 0..rows, 1).map(|i| (i, mix(i) as i64));
    let right = ctx.range_in(partitions, 0..rows, 1).with(rows).map(|rows, i| {
        let random = mix(i ^ 0x5bd1_e995);
        (skewed(random, *rows), i as i64)
    });
    let (count, digest) = timing::timed("join", || {
        left.join_into(partitions, &right)
            .map(|(key, (a, b))| (1u64, (key as i64).wrapping_mul(31).wrapping_add(a ^ b)))
            .reduce(|a, b| (a.0 + b.0, a.1.wrapping_add(b.1)))
    })?;
    println!("RESULT join n={count} sum={digest}");
    Ok(())
}

/// Half of the keys evenly from all, half from the first thousandth, the lower the more often.
fn skewed(random: u64, rows: u64) -> u64 {
    let position = random >> 1;
    if random & 1 == 0 { position % rows } else { position % (1 + position % (rows / 1000)) }
}

/// Pairs by key into groups.
pub(crate) fn group(pairs: u64, partitions: usize) -> Result<()> {
    let ctx = context("group")?;
    let pairs = ctx
        .range_in(partitions, 0..pairs, 1)
        .with(pairs / 20)
        .map(|keys, i| ((mix(i) >> 1) % keys, i));
    let (groups, largest, digest) = timing::timed("group", || {
        pairs
            .group_by_key_into(partitions)
            .map(|(key, values)| {
                let sum = values.iter().fold(0u64, |sum, value| sum.wrapping_add(*value));
                (1u64, values.len(), key.wrapping_mul(sum) as i64)
            })
            .reduce(|a, b| (a.0 + b.0, a.1.max(b.1), a.2.wrapping_add(b.2)))
    })?;
    println!("RESULT group groups={groups} largest={largest} sum={digest}");
    Ok(())
}

/// Strings, half of them twice.
pub(crate) fn distinct(strings: u64, partitions: usize) -> Result<()> {
    let ctx = context("distinct")?;
    let strings = ctx
        .range_in(partitions, 0..strings, 1)
        .with(strings / 2)
        .map(|different, i| format!("{:016x}", mix((mix(i) >> 1) % different)));
    let count = timing::timed("distinct", || strings.distinct_into(partitions).count())?;
    println!("RESULT distinct {count}");
    Ok(())
}
