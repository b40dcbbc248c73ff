//! Terasort on Firesteel: records into files, sorted into other files, both compared.
//!
//! A record is a line of 100 bytes with its end: a key of ten printable characters, the row's number, filler.

use std::hash::{DefaultHasher, Hash, Hasher};

use firesteel::prelude::*;
use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::generated::mix;
use crate::on_firesteel::context;
use crate::timing;

/// Bytes of a record with the end of its line.
const RECORD: u64 = 100;

/// Input files have about this many bytes: each is one partition of the sort.
const FILE: u64 = 128 << 20;

type Key = [u8; 10];

/// Writes the records of the rows from `first` up to `end` into the new directory `output`.
pub(crate) fn generate(first: u64, end: u64, output: &str) -> Result<(), Failure> {
    let ctx = context("terasort-generate")?;
    let bytes = end.saturating_sub(first) * RECORD;
    let files = bytes.div_ceil(FILE).max(1) as usize;
    Ok(ctx.range_in(files, first..end, 1).map(record).save_as_text_file(output)?)
}

/// Sorts the records of `input` (directories with commas between them) into the new directory `output`.
pub(crate) fn sort(input: &str, output: &str) -> Result<(), Failure> {
    let ctx = context("terasort")?;
    timing::timed("terasort", || {
        ctx.text_file(input)?.sort_by(|line| key(line)).save_as_text_file(output)
    })?;
    println!("RESULT terasort written");
    Ok(())
}

/// Checks that `output` has the records of `input`, in the order of their keys.
pub(crate) fn validate(input: &str, output: &str) -> Result<(), Failure> {
    let ctx = context("terasort-validate")?;
    let (unsorted, sorted) = (summarize(&ctx, input)?, summarize(&ctx, output)?);
    println!("RESULT validate n={} checksum={:016x}", sorted.records, sorted.checksum);
    if sorted.misplaced > 0 {
        let misplaced = sorted.misplaced;
        Err(Failure::Wrong(format!("{misplaced} record(s) are smaller than the one before")))
    } else if (sorted.records, sorted.checksum) != (unsorted.records, unsorted.checksum) {
        let (had, has) = (unsorted.records, sorted.records);
        Err(Failure::Wrong(format!("{had} records went in, {has} or others came out")))
    } else {
        Ok(())
    }
}

/// The record of a row: 99 bytes, and the end of the line.
pub(crate) fn record(row: u64) -> String {
    let mut digits = mix(row);
    let key: String = (0..10)
        .map(|_| {
            let digit = (digits % 94) as u8;
            digits /= 94;
            char::from(b'!' + digit)
        })
        .collect();
    format!("{key} {row:032x} {:.>55}", "")
}

pub(crate) fn key(line: &str) -> Key {
    let key = line.as_bytes().first_chunk();
    *key.unwrap_or_else(|| panic!("a record of less than 10 bytes: {line:?}"))
}

/// What is known about the records of one partition, or of several in a row.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) records: u64,
    /// Does not depend on the order of the records.
    pub(crate) checksum: u64,
    /// How often a record has a smaller key than the one before it.
    pub(crate) misplaced: u64,
    ends: Option<(Key, Key)>,
}

impl Summary {
    pub(crate) fn of(line: &str) -> Summary {
        let mut hasher = DefaultHasher::new();
        line.hash(&mut hasher);
        let ends = Some((key(line), key(line)));
        Summary { records: 1, checksum: hasher.finish(), misplaced: 0, ends }
    }

    /// This one's records, then `next`'s.
    pub(crate) fn then(self, next: Summary) -> Summary {
        let (ends, misplaced) = match (self.ends, next.ends) {
            (Some((first, end)), Some((start, last))) => (Some((first, last)), start < end),
            (one, other) => (one.or(other), false),
        };
        Summary {
            records: self.records + next.records,
            checksum: self.checksum.wrapping_add(next.checksum),
            misplaced: self.misplaced + next.misplaced + u64::from(misplaced),
            ends,
        }
    }
}

/// Partitions are cut from the files in the order of their names, and summed up in their order.
fn summarize(ctx: &Context, path: &str) -> Result<Summary> {
    let lines = ctx.text_file(path)?;
    lines.aggregate(Summary::default(), |all, line| all.then(Summary::of(&line)), Summary::then)
}

#[cfg(test)]
mod tests {
    use super::{RECORD, Summary, key, record};

    #[test]
    fn a_record_with_the_end_of_its_line_has_100_bytes() {
        for row in [0, 1, 80_000_000] {
            assert_eq!(record(row).len() as u64 + 1, RECORD);
        }
        assert_ne!(key(&record(1)), key(&record(2)));
    }

    #[test]
    fn a_summary_counts_what_is_out_of_order_across_borders_and_nothing_else() {
        let of = |keys: &[&str]| {
            let records = keys.iter().map(|key| Summary::of(&format!("{key:!<10} and more")));
            records.fold(Summary::default(), Summary::then)
        };
        assert_eq!(of(&["a", "b", "b"]).then(of(&["b", "c"])).misplaced, 0);
        assert_eq!(of(&["a", "c"]).then(of(&[])).then(of(&["b", "a"])).misplaced, 2);
        assert_eq!(of(&["a", "b"]).checksum, of(&["b", "a"]).checksum);
        assert_ne!(of(&["a", "b"]).checksum, of(&["a", "c"]).checksum);
    }
}
