//! The program that `./bench` measures: one job per process, by hand or on Firesteel.
//!
//! Prints `BENCH name seconds s` and `RESULT name value` like `spark/Lab.scala`, so that one harness reads all sides. Exits
//! with 1 when a job fails or computes something wrong, with 2 when the arguments make no sense.

#[cfg(not(feature = "system-allocator"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod adversarial;
mod bounded;
mod by_hand;
mod chaos;
mod generated;
mod knock;
mod on_firesteel;
mod rdd;
mod survive;
mod terasort;
mod timing;
mod told;

use std::{fmt, process::ExitCode, str::FromStr};

const USAGE: &str = "usage: firesteel-bench-app JOB
  by-hand pipelines | by-hand chain10 | by-hand longs PARTITIONS
  shown SECONDS PORT
  knock ADDRESS | idle
  trivial | collect WORD | hold | survive TASKS MILLISECONDS | tasks | status | pagerank FILE | longs PARTITIONS | pipelines
  chain10
  wordcount FILE | sort RECORDS PARTITIONS | join ROWS PARTITIONS
  group PAIRS PARTITIONS | distinct STRINGS PARTITIONS | guarantees PAIRS PARTITIONS
  told well|badly|many|never
  bounded group_by_key|join|cogroup|distinct|cache|one_group BYTES
  bounded wide|hot_key|long_texts|small_partitions|many_tasks BYTES
  terasort generate FIRST END OUTPUT | terasort sort INPUT OUTPUT | terasort validate INPUT OUTPUT
  chaos expect JOB VARIANT INPUTS | chaos run JOB VARIANT INPUTS DIRECTORY [spoil]
    with JOB one of wordcount|terasort|pagerank|repartition|iterate";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("firesteel-bench-app: {failure}");
            ExitCode::from(if matches!(failure, Failure::Usage(_)) { 2 } else { 1 })
        }
    }
}

/// Why a job did not end well.
#[derive(Debug)]
enum Failure {
    Usage(String),
    Job(firesteel::Error),
    /// It ended, with a wrong result.
    Wrong(String),
}

impl From<firesteel::Error> for Failure {
    fn from(error: firesteel::Error) -> Self {
        Self::Job(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(problem) => write!(f, "{problem}\n{USAGE}"),
            Self::Job(error) => error.fmt(f),
            Self::Wrong(what) => write!(f, "a wrong result: {what}"),
        }
    }
}

/// Runs the job that the words name.
fn run(words: &[&str]) -> Result<(), Failure> {
    match *words {
        ["by-hand", ref job @ ..] => by_hand(job),
        ["bounded", job, bytes] => bounded(job, number(bytes)?),
        ["terasort", "generate", first, end, output] => {
            terasort::generate(number(first)?, number(end)?, output)
        }
        ["terasort", "sort", input, output] => terasort::sort(input, output),
        ["terasort", "validate", input, output] => terasort::validate(input, output),
        ["chaos", "expect", job, variant, inputs] => {
            chaos::expect(&chaos::Task::new(job, number(variant)?, inputs))
        }
        ["chaos", "run", job, variant, inputs, own] => {
            chaos::run(&chaos::Task::new(job, number(variant)?, inputs), own, false)
        }
        ["chaos", "run", job, variant, inputs, own, "spoil"] => {
            chaos::run(&chaos::Task::new(job, number(variant)?, inputs), own, true)
        }
        ["knock", address] => Ok(knock::knock(address)?),
        ["idle"] => Ok(knock::idle()?),
        ["trivial"] => Ok(on_firesteel::trivial()?),
        ["collect", word] => Ok(on_firesteel::collect(word)?),
        ["hold"] => Ok(survive::hold()?),
        ["survive", tasks, millis] => Ok(survive::survive(number(tasks)?, number(millis)?)?),
        ["tasks"] => Ok(on_firesteel::tasks()?),
        ["status"] => Ok(on_firesteel::status()?),
        ["shown", seconds, port] => Ok(on_firesteel::shown(number(seconds)?, number(port)?)?),
        ["pagerank", file] => Ok(on_firesteel::pagerank(file)?),
        ["longs", partitions] => Ok(on_firesteel::longs(number(partitions)?)?),
        ["pipelines"] => Ok(on_firesteel::pipelines()?),
        ["chain10"] => Ok(on_firesteel::chain10()?),
        ["wordcount", file] => Ok(rdd::wordcount(file)?),
        ["sort", records, partitions] => Ok(rdd::sort(number(records)?, number(partitions)?)?),
        ["join", rows, partitions] => Ok(rdd::join(number(rows)?, number(partitions)?)?),
        ["group", pairs, partitions] => Ok(rdd::group(number(pairs)?, number(partitions)?)?),
        ["guarantees", pairs, partitions] => {
            Ok(rdd::guarantees(number(pairs)?, number(partitions)?)?)
        }
        ["told", ending] => Ok(told::told(ending).ok_or_else(|| nonsense(words))??),
        ["distinct", count, partitions] => Ok(rdd::distinct(number(count)?, number(partitions)?)?),
        _ => Err(nonsense(words)),
    }
}

fn by_hand(words: &[&str]) -> Result<(), Failure> {
    let Ok(()) = match *words {
        ["pipelines"] => by_hand::pipelines(),
        ["chain10"] => by_hand::chain10(),
        ["longs", _partitions] => by_hand::longs(),
        _ => return Err(nonsense(words)),
    };
    Ok(())
}

fn bounded(job: &str, bytes: u64) -> Result<(), Failure> {
    match job {
        "group_by_key" => bounded::group_by_key(bytes),
        "join" => bounded::join(bytes),
        "cogroup" => bounded::cogroup(bytes),
        "distinct" => bounded::distinct(bytes),
        "cache" => bounded::cache(bytes),
        "one_group" => bounded::one_group(bytes),
        "wide" => adversarial::wide(bytes),
        "hot_key" => adversarial::hot_key(bytes),
        "long_texts" => adversarial::long_texts(bytes),
        "small_partitions" => adversarial::small_partitions(bytes),
        "many_tasks" => adversarial::many_tasks(bytes),
        _ => Err(nonsense(&["bounded", job])),
    }
}

fn number<T: FromStr>(word: &str) -> Result<T, Failure> {
    word.parse().map_err(|_| Failure::Usage(format!("`{word}` is not a number that fits here")))
}

fn nonsense(words: &[&str]) -> Failure {
    Failure::Usage(format!("cannot make sense of `{}`", words.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::{Failure, run};

    #[test]
    fn arguments_that_make_no_sense_are_refused_with_the_usage() {
        for line in [
            "",
            "sort",
            "sort ten 2",
            "sort 10 -1",
            "by-hand sort",
            "bounded nap 1",
            "terasort sort a",
            "chaos run wordcount x a b",
            "chaos run wordcount 1 a b spoilt",
        ] {
            let words: Vec<&str> = line.split_whitespace().collect();
            let failure = run(&words).unwrap_err();
            assert!(matches!(failure, Failure::Usage(_)), "{line}: {failure}");
            assert!(failure.to_string().contains("usage: firesteel-bench-app"), "{line}");
        }
    }
}
