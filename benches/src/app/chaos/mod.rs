//! Applications for `./chaos` with answers that are known: what Firesteel computes (`jobs`) and what loops in one thread
//! compute (`plain`), from the same data.
//!
//! `chaos run` computes its answer several times over and prints a `RESULT` each time; so it is there long enough for something
//! to happen to it. It also tells which application it is, and which executors come and go. `chaos expect` prints the
//! answer once, and writes the inputs that jobs read.

mod jobs;
mod plain;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use firesteel::prelude::*;
use firesteel::types::Event;

use crate::Failure;
use crate::generated::mix;
use crate::on_firesteel::builder;

/// How often a job computes its answer.
const ROUNDS: usize = 3;

/// One job on one input.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    job: String,
    variant: u64,
    inputs: PathBuf,
}

impl Task {
    pub(crate) fn new(job: &str, variant: u64, inputs: &str) -> Self {
        Self { job: job.to_owned(), variant, inputs: PathBuf::from(inputs) }
    }

    /// The text that wordcount reads.
    fn words(&self) -> PathBuf {
        self.inputs.join(format!("words-{}.txt", self.variant))
    }
}

/// What a job computed: how much, and a sum over all of it that does not depend on the order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    items: u64,
    digest: u64,
}

impl Answer {
    fn of(items: impl IntoIterator<Item = u64>) -> Self {
        items.into_iter().fold(Self::default(), |all, item| Self {
            items: all.items + 1,
            digest: all.digest.wrapping_add(mix(item)),
        })
    }

    fn of_pairs(pairs: impl IntoIterator<Item = (u64, u64)>) -> Self {
        Self::of(pairs.into_iter().map(|(key, value)| mix(key) ^ value))
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n={} digest={:016x}", self.items, self.digest)
    }
}

/// Computes the answer on Firesteel; what the job writes goes into the directory `own`. With `spoil`, one answer of several
/// is printed wrong: the check has to notice.
pub(crate) fn run(task: &Task, own: &str, spoil: bool) -> Result<(), Failure> {
    let ctx = builder(&task.job).listener(tell).build()?;
    println!("APPLICATION {}", ctx.application_id());
    for round in 1..=ROUNDS {
        let mut answer = jobs::answer(&ctx, task, Path::new(own))?;
        answer.digest ^= u64::from(spoil && round == ROUNDS);
        println!("RESULT {} {answer}", task.job);
    }
    Ok(())
}

/// Computes the answer without Firesteel, and writes the input for it.
pub(crate) fn expect(task: &Task) -> Result<(), Failure> {
    let words = plain::words(task.variant);
    fs::write(task.words(), words.join("\n") + "\n")
        .map_err(|error| file(&task.words(), &error))?;
    println!("RESULT {} {}", task.job, plain::answer(task)?);
    Ok(())
}

fn file(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Usage(format!("{}: {error}", path.display()))
}

fn unknown(job: &str) -> Failure {
    Failure::Usage(format!("no job of chaos is called `{job}`"))
}

/// Now and then a record takes long: so tasks last, without taking a core all the while.
fn pace(item: u64) {
    if mix(item).is_multiple_of(64) {
        std::thread::sleep(Duration::from_millis(8));
    }
}

/// A number for a text.
fn hashed(text: &str) -> u64 {
    text.bytes().fold(text.len() as u64, |hash, byte| mix(hash ^ u64::from(byte)))
}

fn tell(event: &Event) {
    match event {
        Event::ExecutorAdded { executor, .. } => println!("EXECUTOR added {executor}"),
        Event::ExecutorRemoved { executor, .. } => println!("EXECUTOR removed {executor}"),
        _ => {}
    }
}
