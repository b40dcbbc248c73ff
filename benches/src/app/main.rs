//! The program that `./bench` measures: one job per process, by hand or on Firesteel.
//!
//! Prints `BENCH name seconds s` and `RESULT name value` like `spark/Lab.scala`, so that one harness reads all sides.
//!
//! ```text
//! firesteel-bench-app by-hand pipelines | chain10 | longs PARTITIONS
//! firesteel-bench-app trivial | tasks | pagerank FILE | longs PARTITIONS | pipelines | chain10
//! ```

mod by_hand;
mod timing;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["by-hand", "pipelines"] => by_hand::pipelines(),
        ["by-hand", "chain10"] => by_hand::chain10(),
        ["by-hand", "longs", _partitions] => by_hand::longs(),
        ["trivial" | "tasks" | "pipelines" | "chain10"] | ["pagerank" | "longs", _] => {
            eprintln!("this job does not run on Firesteel yet");
            return ExitCode::from(3);
        }
        _ => {
            eprintln!("firesteel-bench-app: cannot make sense of `{}`", words.join(" "));
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
