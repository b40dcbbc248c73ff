//! `./bench rdd`: jobs that shuffle, against Spark and against programs written by hand for this machine.
//!
//! One table: a line per job and side. What could not be measured is named with its reason, and its bars are short; the rest
//! is measured all the same.

use anyhow::Result;

use crate::{
    bars::{Bar, Bars, Target},
    contest::{Contest, Runs},
    data,
    engine::{machine, times_as_much, times_faster},
    job::{Job, Sample, Side},
    process,
    spark::Spark,
    table::{Table, Unit},
};

/// Bytes of text in wordcount's file.
const WORDS: usize = 1_000_000_000;

/// How much of Spark's peak memory a job may take.
const MEMORY: Target = Target::AtMost(0.25);

/// A job by name, how many times faster than Spark it has to be, and how many times slower than by hand it may be.
struct Wanted {
    name: &'static str,
    faster_than_spark: f64,
    slower_than_limit: Option<f64>,
}

const WANTED: [Wanted; 6] = [
    Wanted { name: "wordcount", faster_than_spark: 5.0, slower_than_limit: Some(1.3) },
    Wanted { name: "sort", faster_than_spark: 4.0, slower_than_limit: Some(1.5) },
    Wanted { name: "longs", faster_than_spark: 20.0, slower_than_limit: None },
    Wanted { name: "join", faster_than_spark: 4.0, slower_than_limit: None },
    Wanted { name: "group", faster_than_spark: 4.0, slower_than_limit: None },
    Wanted { name: "distinct", faster_than_spark: 4.0, slower_than_limit: None },
];

/// The names that `--only` takes.
pub(crate) const NAMES: [&str; 6] = ["wordcount", "sort", "longs", "join", "group", "distinct"];

impl Wanted {
    fn job(&self) -> Result<Job> {
        Ok(match self.name {
            "wordcount" => Job::WordCount(data::words(WORDS)?),
            "sort" => Job::Sort { records: 10_000_000, partitions: 16 },
            "longs" => Job::Longs,
            "join" => Job::Join { rows: 5_000_000, partitions: 8 },
            "group" => Job::Group { pairs: 20_000_000, partitions: 8 },
            "distinct" => Job::Distinct { strings: 20_000_000, partitions: 8 },
            other => unreachable!("no job is called {other}"),
        })
    }

    /// What `contest` has to show; without a contest nothing was measured.
    fn bars(&self, contest: Option<&Contest>) -> Vec<Bar> {
        let ratio = |side, value: fn(&Sample) -> f64, ratio: fn(f64, f64) -> f64| {
            let contest = contest?;
            Some(ratio(contest.median(side, value)?, contest.median(Side::OURS, value)?))
        };
        let (spark, limit, seconds) = (Side::SPARK, Side::LIMIT, |sample: &Sample| sample.seconds);
        let mut bars = vec![
            Bar {
                name: format!("{}_vs_spark", self.name),
                value: ratio(spark, seconds, times_faster),
                target: Target::AtLeast(self.faster_than_spark),
            },
            Bar {
                name: format!("{}_rss_vs_spark", self.name),
                value: ratio(spark, Sample::megabytes, times_as_much),
                target: MEMORY,
            },
        ];
        bars.extend(self.slower_than_limit.map(|most| Bar {
            name: format!("{}_vs_limit", self.name),
            value: ratio(limit, seconds, times_as_much),
            target: Target::AtMost(most),
        }));
        bars
    }
}

/// Measures the jobs named in `only`, or all, in `rounds` turns and prints the table; the bars are for the caller to print.
pub(crate) fn run(rounds: usize, only: &[String]) -> Result<Bars> {
    let app = Side::Firesteel(process::sibling("firesteel-bench-app")?);
    let limit = Side::Limit(process::sibling("firesteel-limit")?);
    println!("machine: {}", machine());
    let spark = Spark::prepare();
    let spark_side = spark.as_ref().map_or(Side::NoSpark, Side::Spark);
    let mut problems: Vec<String> = spark
        .as_ref()
        .err()
        .map(|error| format!("anything on Spark: {error:#}"))
        .into_iter()
        .collect();
    let (mut table, mut bars) = (Table::new(&HEAD), Bars::default());
    for wanted in
        WANTED.iter().filter(|wanted| only.is_empty() || only.iter().any(|n| n == wanted.name))
    {
        let contest =
            wanted.job().map(|job| Contest::hold(&job, &[&spark_side, &limit, &app], rounds));
        match &contest {
            Ok(contest) => {
                problems.extend(contest.problems.iter().cloned());
                rows(contest).into_iter().for_each(|row| table.push(row));
            }
            Err(error) => problems.push(format!("{}: {error:#}", wanted.name)),
        }
        wanted.bars(contest.as_ref().ok()).into_iter().for_each(|bar| bars.push(bar));
    }
    println!("\n{table}");
    for problem in &problems {
        println!("not measured: {problem}");
    }
    Ok(bars)
}

const HEAD: [&str; 6] =
    ["", "side", "median (least - most)", "peak RSS", "times faster than Spark", "times the limit"];

/// A line per side that takes part.
fn rows(contest: &Contest) -> Vec<Vec<String>> {
    let seconds = |sample: &Sample| sample.seconds;
    let ratio = |runs: &Runs, other, ratio: fn(f64, f64) -> f64| {
        let value = contest.median(other, seconds).zip(runs.spread(seconds));
        value.map_or("-".to_owned(), |(other, s)| format!("{:.2}", ratio(other, s.median)))
    };
    let row = |runs: &Runs| {
        let memory = runs.spread(Sample::megabytes).map(|s| Unit::Megabytes.show(s.median));
        vec![
            contest.job.to_string(),
            runs.side.to_owned(),
            Unit::Seconds.show_spread(runs.spread(seconds)),
            memory.unwrap_or("-".to_owned()),
            ratio(runs, Side::SPARK, times_faster),
            ratio(runs, Side::LIMIT, times_as_much),
        ]
    };
    contest.runs.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::{Contest, Job, NAMES, Runs, Sample, WANTED, Wanted, rows};

    fn runs(side: &'static str, seconds: f64, megabytes: u64) -> Runs {
        let peak_rss_bytes = megabytes * 1_000_000;
        Runs { side, samples: vec![Sample { seconds, peak_rss_bytes, result: String::new() }] }
    }

    fn contest() -> Contest {
        let runs =
            vec![runs("Spark", 12.0, 1000), runs("limit", 2.0, 400), runs("Firesteel", 3.0, 300)];
        Contest { job: Job::Longs, runs, problems: vec![] }
    }

    fn lines(wanted: &Wanted, contest: Option<&Contest>) -> Vec<String> {
        wanted.bars(contest).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn times_and_memory_are_held_against_spark_and_times_against_the_limit() {
        let wanted = Wanted { name: "nap", faster_than_spark: 4.0, slower_than_limit: Some(1.3) };
        assert_eq!(
            lines(&wanted, Some(&contest())),
            [
                "bar nap_vs_spark 4.000 4 ok",
                "bar nap_rss_vs_spark 0.300 0.25 short",
                "bar nap_vs_limit 1.500 1.3 short",
            ]
        );
    }

    #[test]
    fn what_was_not_measured_is_short() {
        let wanted = Wanted { name: "nap", faster_than_spark: 4.0, slower_than_limit: None };
        let expected = ["bar nap_vs_spark - 4 short", "bar nap_rss_vs_spark - 0.25 short"];
        assert_eq!(lines(&wanted, None), expected);
        let mut without_ours = contest();
        without_ours.runs.pop();
        assert_eq!(lines(&wanted, Some(&without_ours)), expected);
    }

    #[test]
    fn a_line_of_the_table_has_both_ratios() {
        let rows = rows(&contest());
        assert_eq!(
            rows[2],
            ["longs100M", "Firesteel", "3.00 s (3.00 s - 3.00 s)", "300.0 MB", "4.00", "1.50"]
        );
        assert_eq!(rows[0][4..], ["1.00", "6.00"]);
    }

    #[test]
    fn every_job_can_be_asked_for_by_its_name() {
        assert_eq!(WANTED.each_ref().map(|wanted| wanted.name), NAMES);
        for wanted in WANTED.iter().filter(|wanted| wanted.name != "wordcount") {
            wanted.job().unwrap();
        }
    }
}
