//! The answers of `./chaos`, computed by loops in one thread. Nothing of Firesteel is in here.

use std::collections::BTreeMap;

use super::{Answer, Task, hashed, unknown};
use crate::Failure;
use crate::generated::mix;
use crate::terasort::{Summary, record};

/// Lines of the text, and words in each.
const LINES: u64 = 6000;
const WORDS: u64 = 12;

/// Rows of the sort.
pub(super) const ROWS: u64 = 20_000;

/// Nodes of the graph, and rounds of PageRank over it.
pub(super) const NODES: u64 = 3000;
pub(super) const ITERATIONS: usize = 4;

/// Rows that are aggregated, and their keys.
pub(super) const PAIRS: u64 = 60_000;
pub(super) const KEYS: u64 = 24_000;

/// Keys of the iterative job, and how often they all change.
pub(super) const STATES: u64 = 3000;
pub(super) const STEPS: usize = 10;

pub(super) fn answer(task: &Task) -> Result<Answer, Failure> {
    match task.job.as_str() {
        "wordcount" => Ok(wordcount(task.variant)),
        "terasort" => Ok(terasort(task.variant)),
        "pagerank" => Ok(pagerank(task.variant)),
        "repartition" => Ok(repartition(task.variant)),
        "iterate" => Ok(iterate(task.variant)),
        other => Err(unknown(other)),
    }
}

/// The lines of the text.
pub(super) fn words(variant: u64) -> Vec<String> {
    let word = |line: u64, place: u64| {
        let random = mix(variant ^ mix(line * WORDS + place));
        format!("w{}", random % (1 + mix(random) % 4000))
    };
    let line = |line| (0..WORDS).map(|place| word(line, place)).collect::<Vec<_>>().join(" ");
    (0..LINES).map(line).collect()
}

fn wordcount(variant: u64) -> Answer {
    let mut counts = BTreeMap::<String, u64>::new();
    for line in words(variant) {
        for word in line.split(' ') {
            *counts.entry(word.to_owned()).or_default() += 1;
        }
    }
    Answer::of_pairs(counts.iter().map(|(word, count)| (hashed(word), *count)))
}

/// The rows of the sort.
pub(super) fn rows(variant: u64) -> std::ops::Range<u64> {
    variant * ROWS..(variant + 1) * ROWS
}

fn terasort(variant: u64) -> Answer {
    let records = rows(variant).map(|row| Summary::of(&record(row)));
    let unsorted = records.fold(Summary::default(), Summary::then);
    Answer { items: unsorted.records, digest: unsorted.checksum }
}

/// Where the links of a node lead.
pub(super) fn targets(variant: u64, node: u64) -> Vec<u64> {
    let random = |link| mix(mix(variant) ^ mix(node * 16 + link));
    (0..1 + random(15) % 6).map(|link| random(link) % NODES).collect()
}

/// In thousandths of a millionth: whole numbers add up to the same in any order.
pub(super) const ONE: u64 = 1_000_000_000;

pub(super) fn damped(sum: u64) -> u64 {
    ONE / 100 * 15 + sum / 100 * 85
}

fn pagerank(variant: u64) -> Answer {
    let links: Vec<Vec<u64>> = (0..NODES).map(|node| targets(variant, node)).collect();
    let mut ranks: BTreeMap<u64, u64> = (0..NODES).map(|node| (node, ONE)).collect();
    for _ in 0..ITERATIONS {
        let mut sums = BTreeMap::<u64, u64>::new();
        for (node, rank) in &ranks {
            let targets = &links[*node as usize];
            for target in targets {
                *sums.entry(*target).or_default() += rank / targets.len() as u64;
            }
        }
        ranks = sums.into_iter().map(|(node, sum)| (node, damped(sum))).collect();
    }
    Answer::of_pairs(ranks)
}

/// A row that is aggregated.
pub(super) fn pair(variant: u64, row: u64) -> (u64, u64) {
    (mix(variant ^ row) % KEYS, mix(row))
}

fn repartition(variant: u64) -> Answer {
    let mut sums = BTreeMap::<u64, u64>::new();
    for (key, value) in (0..PAIRS).map(|row| pair(variant, row)) {
        let sum = sums.entry(key).or_default();
        *sum = sum.wrapping_add(value);
    }
    Answer::of_pairs(sums)
}

/// What becomes of a pair in one step: several keys become one, which a shuffle puts together.
pub(super) fn step((key, value): (u64, u64)) -> (u64, u64) {
    ((key * 7 + value % 5) % STATES, mix(value))
}

fn iterate(variant: u64) -> Answer {
    let mut states: BTreeMap<u64, u64> = (0..STATES).map(|key| (key, mix(variant ^ key))).collect();
    for _ in 0..STEPS {
        let mut next = BTreeMap::<u64, u64>::new();
        for (key, value) in states.into_iter().map(step) {
            let sum = next.entry(key).or_default();
            *sum = sum.wrapping_add(value);
        }
        // No key is ever gone: those that nobody became start anew.
        (0..STATES).for_each(|key| {
            next.entry(key).or_insert(key);
        });
        states = next;
    }
    Answer::of_pairs(states)
}
