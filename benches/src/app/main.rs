//! The program that `./bench` measures: one job per process, by hand or on Firesteel.
//!
//! Prints `BENCH name seconds s` and `RESULT name value` like `spark/Lab.scala`, so that one harness reads all sides.
//!
//! ```text
//! firesteel-bench-app by-hand pipelines | chain10 | longs PARTITIONS
//! firesteel-bench-app trivial | tasks | pagerank FILE | longs PARTITIONS | pipelines | chain10
//! ```

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod by_hand;
mod on_firesteel;
mod timing;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("firesteel-bench-app: cannot make sense of `{}`", words.join(" "));
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("firesteel-bench-app: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the job that the words name, if they name one.
fn run(words: &[&str]) -> firesteel::Result<bool> {
    match *words {
        ["by-hand", "pipelines"] => by_hand::pipelines().unwrap_or_else(|never| match never {}),
        ["by-hand", "chain10"] => by_hand::chain10().unwrap_or_else(|never| match never {}),
        ["by-hand", "longs", _partitions] => {
            by_hand::longs().unwrap_or_else(|never| match never {})
        }
        ["trivial"] => on_firesteel::trivial()?,
        ["tasks"] => on_firesteel::tasks()?,
        ["pagerank", file] => on_firesteel::pagerank(file)?,
        ["longs", partitions] => match partitions.parse() {
            Ok(partitions) => on_firesteel::longs(partitions)?,
            Err(_) => return Ok(false),
        },
        ["wordcount", file] => on_firesteel::wordcount(file)?,
        ["sort", n, p] => on_firesteel::sort(n.parse().unwrap(), p.parse().unwrap())?,
        ["join", n, p] => on_firesteel::join(n.parse().unwrap(), p.parse().unwrap())?,
        ["group", n, p] => on_firesteel::group(n.parse().unwrap(), p.parse().unwrap())?,
        ["distinct", n, p] => on_firesteel::distinct(n.parse().unwrap(), p.parse().unwrap())?,
        ["pipelines"] => on_firesteel::pipelines()?,
        ["chain10"] => on_firesteel::chain10()?,
        _ => return Ok(false),
    }
    Ok(true)
}
