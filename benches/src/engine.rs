//! `./bench engine`: the engine in one process, against hand-written loops, against itself with fewer guarantees and against Spark.
//!
//! What could not be measured is named with its reason, and its bars are short; the rest is measured all the same.

use std::{fs, path::PathBuf};

use anyhow::Result;

use crate::{
    bars::{Bar, Bars, Target},
    contest::Contest,
    data,
    guarantees::Turns,
    job::{Job, Sample, Side},
    process,
    spark::{self, Spark},
    table::{Row, Table, Unit},
};

/// Lines in PageRank's file.
const EDGES: usize = 1_000_000;

/// Measures everything in `rounds` turns and prints the table; the bars are for the caller to print.
pub(crate) fn run(rounds: usize) -> Result<Bars> {
    let app = process::sibling("firesteel-bench-app")?;
    println!("machine: {}", machine());
    let spark = Spark::prepare();
    let (table, bars) = (Table::new(&Row::HEAD), Bars::default());
    let mut bench = Bench { rounds, app, table, bars, problems: vec![] };
    bench.loops();
    bench.guarantees();
    match &spark {
        Ok(spark) => bench.against_spark(&Side::Spark(spark)),
        Err(error) => {
            bench.problems.push(format!("anything on Spark: {error:#}"));
            bench.against_spark(&Side::NoSpark);
        }
    }
    println!("\n{}", bench.table);
    for problem in &bench.problems {
        println!("not measured: {problem}");
    }
    Ok(bench.bars)
}

/// What the numbers of this run depend on.
pub(crate) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default().to_owned();
    format!("{cores} cores, load {load}; Spark {} in local[2]", spark::VERSION)
}

/// A bar's value out of the two medians.
pub(crate) type Ratio = fn(other: f64, ours: f64) -> f64;

pub(crate) fn times_faster(other: f64, ours: f64) -> f64 {
    other / ours
}

pub(crate) fn times_as_much(other: f64, ours: f64) -> f64 {
    ours / other
}

struct Bench {
    rounds: usize,
    app: PathBuf,
    table: Table,
    bars: Bars,
    problems: Vec<String>,
}

impl Bench {
    fn loops(&mut self) {
        let by_hand = Side::ByHand(self.app.clone());
        for (job, name, target) in [
            (Job::Pipelines, "pipelines", Target::AtMost(1.3)),
            (Job::Chain10, "chain10", Target::AtMost(1.5)),
        ] {
            let duel = self.duel(&job, &by_hand);
            self.seconds(&duel, Some((name, times_as_much, target)));
        }
        let duel = self.duel(&Job::Longs, &by_hand);
        self.seconds(&duel, None);
    }

    fn guarantees(&mut self) {
        let turns = Turns::take(&self.app, self.rounds);
        let turns = turns.map_err(|error| self.problems.push(format!("guarantees: {error:#}")));
        let turns = turns.unwrap_or_default();
        let (value, target) = (turns.cost(), Target::AtMost(1.03));
        let shown = value.map_or("-".to_owned(), |value| format!("{value:.3}"));
        let row = Row {
            name: "group, recomputed records compared".to_owned(),
            unit: Unit::Seconds,
            other_name: "not compared",
            other: turns.off(),
            ours: turns.on(),
            verdict: format!("{shown}, {target}"),
        };
        self.table.push(row.cells());
        self.bars.push(Bar { name: "guarantees_cost".to_owned(), value, target });
    }

    fn against_spark(&mut self, side: &Side<'_>) {
        let duel = self.duel(&Job::Tasks, side);
        self.seconds(&duel, Some(("tasks10000_vs_spark", times_faster, Target::AtLeast(25.0))));
        let duel = self.duel(&Job::Trivial, side);
        self.seconds(&duel, Some(("startup_vs_spark", times_faster, Target::AtLeast(50.0))));
        self.memory(&duel, ("rss_vs_spark", times_as_much, Target::AtMost(0.1)));
        let duel = self.pagerank(side);
        self.seconds(&duel, Some(("pagerank_vs_spark", times_faster, Target::AtLeast(15.0))));
        let duel = self.duel(&Job::Longs, side);
        self.seconds(&duel, None);
    }

    fn pagerank(&mut self, side: &Side<'_>) -> Contest {
        match data::edges(EDGES) {
            Ok(edges) => self.duel(&Job::PageRank(edges), side),
            Err(error) => {
                let job = Job::PageRank(PathBuf::new());
                self.problems.push(format!("{job}: {error:#}"));
                Contest::without_runs(&job, &[side, &Side::Firesteel(self.app.clone())])
            }
        }
    }

    /// Runs `job` on `other` and on Firesteel in turns.
    fn duel(&mut self, job: &Job, other: &Side<'_>) -> Contest {
        let ours = Side::Firesteel(self.app.clone());
        let mut contest = Contest::hold(job, &[other, &ours], self.rounds);
        self.problems.append(&mut contest.problems);
        contest
    }

    fn seconds(&mut self, duel: &Contest, bar: Option<(&'static str, Ratio, Target)>) {
        self.row(duel, duel.job.to_string(), Unit::Seconds, |sample| sample.seconds, bar);
    }

    fn memory(&mut self, duel: &Contest, bar: (&'static str, Ratio, Target)) {
        let name = format!("{}, peak RSS", duel.job);
        self.row(duel, name, Unit::Megabytes, Sample::megabytes, Some(bar));
    }

    fn row(
        &mut self,
        duel: &Contest,
        name: String,
        unit: Unit,
        value: fn(&Sample) -> f64,
        bar: Option<(&'static str, Ratio, Target)>,
    ) {
        let [other, ours] = &duel.runs[..] else { panic!("a duel has two sides") };
        let (other_name, other, ours) = (other.side, other.spread(value), ours.spread(value));
        let mut verdict = String::new();
        if let Some((name, ratio, target)) = bar {
            let value = other.zip(ours).map(|(other, ours)| ratio(other.median, ours.median));
            let shown = value.map_or("-".to_owned(), |value| format!("{value:.3}"));
            verdict = format!("{shown}, {target}");
            self.bars.push(Bar { name: name.to_owned(), value, target });
        }
        self.table.push(Row { name, unit, other_name, other, ours, verdict }.cells());
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Bars, Bench, Contest, Job, Row, Sample, Side, Table, Target, times_faster};
    use crate::contest::Runs;

    fn bench() -> Bench {
        let app = PathBuf::from("no-such-app");
        let (table, bars) = (Table::new(&Row::HEAD), Bars::default());
        Bench { rounds: 2, app, table, bars, problems: vec![] }
    }

    fn runs(side: &'static str, seconds: &[f64]) -> Runs {
        let sample =
            |seconds: &f64| Sample { seconds: *seconds, peak_rss_bytes: 1, result: String::new() };
        Runs { side, samples: seconds.iter().map(sample).collect() }
    }

    #[test]
    fn a_bar_compares_the_medians() {
        let mut bench = bench();
        let runs = vec![runs("Spark", &[9.0, 1.0, 6.0]), runs("Firesteel", &[2.0])];
        let duel = Contest { job: Job::Tasks, runs, problems: vec![] };
        bench.seconds(&duel, Some(("tasks", times_faster, Target::AtLeast(3.0))));
        assert_eq!(bench.bars.to_string(), "bar tasks 3.000 3 ok\n");
    }

    #[test]
    fn guarantees_whose_cost_could_not_be_measured_are_short() {
        let mut bench = bench();
        bench.guarantees();
        assert_eq!(bench.bars.to_string(), "bar guarantees_cost - 1.03 short\n");
        assert!(bench.problems[0].starts_with("guarantees: cannot start no-such-app"));
    }

    #[test]
    fn without_spark_the_bars_are_short() {
        let mut bench = bench();
        let duel = bench.duel(&Job::Tasks, &Side::NoSpark);
        bench.seconds(&duel, Some(("tasks", times_faster, Target::AtLeast(3.0))));
        assert_eq!(bench.bars.to_string(), "bar tasks - 3 short\n");
        assert_eq!(bench.problems[0], "tasks10000, Spark: could not be set up");
    }
}
