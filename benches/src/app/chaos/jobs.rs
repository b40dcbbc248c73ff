//! The jobs of `./chaos` on Firesteel.

use std::fs;
use std::path::Path;

use firesteel::prelude::*;

use super::plain::{
    ITERATIONS, NODES, ONE, PAIRS, STATES, STEPS, damped, pair, rows, step, targets,
};
use super::{Answer, Task, file, hashed, pace, unknown};
use crate::Failure;
use crate::generated::mix;
use crate::terasort::{Summary, key, record};

/// Partitions of maps and of shuffles.
const MAPS: usize = 9;
const REDUCES: usize = 6;

/// How many steps of the iterative job there are from one checkpoint to the next.
const CHECKPOINT: usize = 4;

pub(super) fn answer(ctx: &Context, task: &Task, own: &Path) -> Result<Answer, Failure> {
    match task.job.as_str() {
        "wordcount" => Ok(wordcount(ctx, task)?),
        "terasort" => terasort(ctx, task.variant, own),
        "pagerank" => Ok(pagerank(ctx, task.variant)?),
        "repartition" => Ok(repartition(ctx, task.variant)?),
        "iterate" => iterate(ctx, task.variant, own),
        other => Err(unknown(other)),
    }
}

fn wordcount(ctx: &Context, task: &Task) -> Result<Answer> {
    let options = TextOptions::new().min_partitions(MAPS);
    let lines = ctx.text_file_with(&task.words().display().to_string(), &options)?;
    let counts = lines
        .flat_map_to(|line, words| {
            pace(hashed(line));
            words.extend(line.split(' ').map(|word| (word.to_owned(), 1u64)))
        })
        .reduce_by_key_into(REDUCES, |a, b| a + b)
        .map(|(word, count)| {
            pace(hashed(&word));
            (hashed(&word), count)
        });
    Ok(Answer::of_pairs(counts.collect()?))
}

/// Sorted into files, which are read without Firesteel.
fn terasort(ctx: &Context, variant: u64, own: &Path) -> Result<Answer, Failure> {
    let output = own.join("sorted");
    let records = ctx.range_in(MAPS, rows(variant), 1).map(|row| {
        pace(row);
        record(row)
    });
    records.sort_by(|line| key(line)).save_as_text_file(output.display().to_string())?;
    let sorted = read(&output).map_err(|error| file(&output, &error))?;
    fs::remove_dir_all(&output).map_err(|error| file(&output, &error))?;
    if sorted.misplaced > 0 {
        return Err(Failure::Wrong(format!("{} record(s) out of order", sorted.misplaced)));
    }
    Ok(Answer { items: sorted.records, digest: sorted.checksum })
}

fn read(output: &Path) -> std::io::Result<Summary> {
    let names = fs::read_dir(output)?.map(|entry| Ok(entry?.path()));
    let mut parts: Vec<_> = names.collect::<std::io::Result<_>>()?;
    parts.retain(|part| {
        part.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"part-"))
    });
    parts.sort();
    let mut all = Summary::default();
    for part in parts {
        all = fs::read_to_string(part)?.lines().map(Summary::of).fold(all, Summary::then);
    }
    Ok(all)
}

fn pagerank(ctx: &Context, variant: u64) -> Result<Answer> {
    let links = ctx
        .range_in(MAPS, 0..NODES, 1)
        .with(variant)
        .flat_map(|variant, node| {
            pace(node);
            targets(*variant, node).into_iter().map(move |target| (node, target))
        })
        .group_by_key_into(REDUCES)
        .persist(StorageLevel::MEMORY_AND_DISK);
    let mut ranks: Rdd<(u64, u64)> = links.map_values(|_| ONE).boxed();
    for _ in 0..ITERATIONS {
        ranks = links
            .join_into(REDUCES, &ranks)
            .flat_map(|(node, (targets, rank))| {
                pace(node);
                let share = rank / targets.len() as u64;
                targets.into_iter().map(move |target| (target, share))
            })
            .reduce_by_key_into(REDUCES, |a, b| a + b)
            .map_values(damped)
            .boxed();
    }
    Ok(Answer::of_pairs(ranks.collect()?))
}

/// The case in which records were lost: what comes out of an aggregation has no order of its own.
fn repartition(ctx: &Context, variant: u64) -> Result<Answer> {
    let sums = ctx
        .range_in(MAPS, 0..PAIRS, 1)
        .with(variant)
        .map(|variant, row| {
            pace(row);
            pair(*variant, row)
        })
        .reduce_by_key_into(3, u64::wrapping_add)
        .repartition(REDUCES)
        .map(|(key, sum)| {
            pace(key);
            (key, sum)
        });
    Ok(Answer::of_pairs(sums.collect()?))
}

/// Each step is cached, every fourth one written to files; the one before is let go of.
fn iterate(ctx: &Context, variant: u64, own: &Path) -> Result<Answer, Failure> {
    let checkpoints = own.join("checkpoints");
    ctx.set_checkpoint_dir(&checkpoints.display().to_string())?;
    let level = match variant % 3 {
        0 => StorageLevel::MEMORY_AND_DISK,
        1 => StorageLevel::DISK_ONLY,
        _ => StorageLevel::MEMORY_AND_DISK_2,
    };
    let fresh = ctx.range_in(REDUCES, 0..STATES, 1);
    let mut states: Rdd<(u64, u64)> =
        fresh.with(variant).map(|variant, key| (key, mix(variant ^ key))).boxed();
    let mut before: Option<Rdd<(u64, u64)>> = None;
    for number in 1..=STEPS {
        let nobody = fresh.map(|key| (key, None)).boxed();
        let next = states.map(step).map(|(key, value)| (key, Some(value))).boxed().union(&nobody);
        let next = next
            .reduce_by_key_into(REDUCES, sum)
            .map(|(key, value)| {
                pace(key);
                (key, value.unwrap_or(key))
            })
            .persist(level);
        let next = if number % CHECKPOINT == 0 { next.checkpoint() } else { next };
        next.count()?;
        if let Some(before) = before.replace(next.clone()) {
            before.unpersist();
        }
        states = next;
    }
    let answer = Answer::of_pairs(states.collect()?);
    drop((states, before));
    fs::remove_dir_all(&checkpoints).map_err(|error| file(&checkpoints, &error))?;
    Ok(answer)
}

fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.wrapping_add(other)),
        (one, other) => one.or(other),
    }
}
