//! The sort benchmark in miniature: makes records, sorts them, checks the result.
//!
//! ```sh
//! cargo run --release --example terasort -- gen 1000000 records
//! cargo run --release --example terasort -- sort records sorted
//! cargo run --release --example terasort -- validate sorted records
//! ```
//!
//! A record is a line of 100 bytes: a random printable key of 10, the row's number, filler. Shows
//! functions in place of closures (`map(record)`), `sort_by`, which samples the keys and cuts them
//! into ranges, `save_as_text_file`, and `aggregate` with a type of our own.
//!
//! `gen` and `sort` refuse an output directory that exists. `validate` checks the order of keys within
//! files and from each file to the next, and prints the number of records and a checksum that does not
//! depend on their order; given the input as well, it checks that both are the same. It exits with 1
//! if something is wrong.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::ExitCode;

use firesteel::prelude::*;
use serde::{Deserialize, Serialize};

type Key = [u8; 10];

fn main() -> Result<ExitCode> {
    let arguments = firesteel::arguments()?;
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ctx = Context::builder().app_name("terasort").build()?;
    match words[..] {
        ["gen", rows, output] => {
            let Ok(rows) = rows.parse() else { usage(&format!("{rows:?} is not a number")) };
            ctx.range(0..rows).map(record).save_as_text_file(output)?;
        }
        ["sort", input, output] => {
            ctx.text_file(input)?.sort_by(|line| key(line)).save_as_text_file(output)?;
        }
        ["validate", output] => return validate(summarize(&ctx, output)?, None),
        ["validate", output, input] => {
            return validate(summarize(&ctx, output)?, Some(summarize(&ctx, input)?));
        }
        _ => usage("cannot make sense of the arguments"),
    }
    Ok(ExitCode::SUCCESS)
}

/// The record of a row: 99 bytes, and the end of the line.
fn record(row: u64) -> String {
    let mut rng = fastrand::Rng::with_seed(row);
    let key: String = (0..10).map(|_| char::from(rng.u8(b'!'..=b'~'))).collect();
    format!("{key} {row:032x} {:.>55}", "")
}

fn key(line: &str) -> Key {
    let key = line.as_bytes().first_chunk();
    *key.unwrap_or_else(|| panic!("a record of less than 10 bytes: {line:?}"))
}

/// What `validate` knows about the records of one partition, or of several in a row.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Summary {
    records: u64,
    checksum: u64,
    /// How often a record has a smaller key than the one before it.
    misplaced: u64,
    ends: Option<(Key, Key)>,
}

impl Summary {
    fn of(line: &str) -> Summary {
        let mut hasher = DefaultHasher::new();
        line.hash(&mut hasher);
        let ends = Some((key(line), key(line)));
        Summary { records: 1, checksum: hasher.finish(), misplaced: 0, ends }
    }

    /// This one's records, then `next`'s.
    fn then(self, next: Summary) -> Summary {
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

fn validate(output: Summary, input: Option<Summary>) -> Result<ExitCode> {
    println!("{} records, checksum {:016x}", output.records, output.checksum);
    let content = |summary: &Summary| (summary.records, summary.checksum);
    if output.misplaced > 0 {
        println!("NOT SORTED: {} record(s) are smaller than the one before", output.misplaced);
    } else if input.is_some_and(|input| content(&input) != content(&output)) {
        println!("NOT THE SAME RECORDS as in the input");
    } else {
        println!("sorted");
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::FAILURE)
}

fn usage(problem: &str) -> ! {
    eprintln!("{problem}");
    eprintln!("usage: terasort gen ROWS OUTPUT");
    eprintln!("       terasort sort INPUT OUTPUT");
    eprintln!("       terasort validate OUTPUT [INPUT]");
    std::process::exit(2)
}
