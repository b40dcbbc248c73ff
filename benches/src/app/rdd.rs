//! The jobs of `./bench rdd` on Firesteel: each makes or reads its data, shuffles it and looks at every record that comes out.

use firesteel::Pipe;
use firesteel::prelude::*;

use crate::generated::{mix, padded, skewed};
use crate::on_firesteel::context;
use crate::timing;

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

/// As many rows on both sides: each key once on the left, keys drawn with [`skewed`] on the right. So every row of the right
/// finds exactly one of the left, and the most frequent keys find theirs ten thousand times.
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

/// Pairs into groups, twenty pairs per key on average.
pub(crate) fn group(pairs: u64, partitions: usize) -> Result<()> {
    let ctx = context("group")?;
    let pairs = keyed(&ctx, pairs, partitions);
    let found = timing::timed("group", || grouped(&pairs, partitions))?;
    println!("RESULT group {found}");
    Ok(())
}

/// The same in turns: of pairs that come out the same every time as far as the engine knows, and of pairs that need not, whose map
/// outputs it therefore compares.
pub(crate) fn guarantees(pairs: u64, partitions: usize) -> Result<()> {
    const TURNS: usize = 40;
    let ctx = context("guarantees")?;
    let unguarded = keyed(&ctx, pairs, partitions).boxed();
    let guarded = keyed(&ctx, pairs, partitions).indeterminate();
    let mut both = [("unguarded", unguarded), ("guarded", guarded)];
    for turn in 1..=TURNS {
        for (name, pairs) in &both {
            let found = timing::timed(&format!("{name} run{turn}"), || grouped(pairs, partitions))?;
            if turn == TURNS {
                println!("RESULT {name} {found}");
            }
        }
        // Who comes second finds warmer caches, or a hotter processor.
        both.reverse();
    }
    Ok(())
}

fn keyed(
    ctx: &Context,
    pairs: u64,
    partitions: usize,
) -> Rdd<(u64, u64), impl Pipe<Item = (u64, u64)> + use<>> {
    let numbers = ctx.range_in(partitions, 0..pairs, 1).with((pairs / 20).max(1));
    numbers.map(|keys, i| ((mix(i) >> 1) % keys, i))
}

/// How many groups, the largest, and a sum over all.
fn grouped<P: Pipe<Item = (u64, u64)>>(
    pairs: &Rdd<(u64, u64), P>,
    partitions: usize,
) -> Result<String> {
    let groups = pairs.group_by_key_into(partitions).map(|(key, values)| {
        let sum = values.iter().fold(0u64, |sum, value| sum.wrapping_add(*value));
        (1u64, values.len(), key.wrapping_mul(sum) as i64)
    });
    let (groups, largest, digest) =
        groups.reduce(|a, b| (a.0 + b.0, a.1.max(b.1), a.2.wrapping_add(b.2)))?;
    Ok(format!("groups={groups} largest={largest} sum={digest}"))
}

/// Strings of 16 characters, each drawn from half as many different ones; how many were drawn at all.
pub(crate) fn distinct(strings: u64, partitions: usize) -> Result<()> {
    let ctx = context("distinct")?;
    let strings = ctx
        .range_in(partitions, 0..strings, 1)
        .with((strings / 2).max(1))
        .map(|different, i| format!("{:016x}", mix((mix(i) >> 1) % different)));
    let count = timing::timed("distinct", || strings.distinct_into(partitions).count())?;
    println!("RESULT distinct {count}");
    Ok(())
}
