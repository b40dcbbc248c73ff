//! `./bench`: measures, prints a table and one line per bar, and exits non-zero when a bar is short.
//!
//! ```text
//! main ── engine ──┬── spark    finds or installs Spark, compiles the jobs in Scala
//!   │              ├── data     writes the inputs, once
//!   │              ├── job      what runs on both sides and which number counts
//!   │              │    └── process, output   runs a child, reads what it printed
//!   │              └── table
//!   └── bars                    `bar NAME VALUE TARGET ok|short` and the exit code
//! ```
//!
//! Nothing is measured inside this process: Spark, Firesteel and the hand-written loops all run as children, in turns,
//! because the machines are noisy and only ratios from one run mean anything.

mod bars;
mod cache;
mod data;
mod engine;
mod job;
mod output;
mod process;
mod spark;
mod table;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match parse(&arguments) {
        Ok(rounds) => run(rounds),
        Err(problem) => {
            eprintln!("bench: {problem}; `./bench` alone tells how to use it");
            ExitCode::from(2)
        }
    }
}

fn run(rounds: usize) -> ExitCode {
    match engine::run(rounds) {
        Ok(bars) => {
            print!("{bars}");
            if bars.all_met() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The number of rounds of `engine`, or what is wrong with the arguments.
fn parse(arguments: &[String]) -> Result<usize, String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["engine"] => Ok(3),
        ["engine", "--rounds", rounds] => match rounds.parse() {
            Ok(rounds) if rounds > 0 => Ok(rounds),
            _ => Err(format!("--rounds wants a number from 1 up, not `{rounds}`")),
        },
        _ => Err(format!("cannot make sense of `{}`", words.join(" "))),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    fn parsed(line: &str) -> Result<usize, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn engine_runs_three_rounds_unless_told() {
        assert_eq!(parsed("engine"), Ok(3));
        assert_eq!(parsed("engine --rounds 5"), Ok(5));
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for line in ["", "motor", "engine --rounds", "engine --rounds 0", "engine --rounds many"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
