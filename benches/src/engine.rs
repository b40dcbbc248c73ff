//! `./bench engine`: the engine in one process, against hand-written loops and against Spark.
//!
//! Both sides of a comparison run in turns. A side that fails is reported with its reason and its bars are short; the
//! other side and the other jobs are measured all the same. Results of the two sides have to agree.

use std::{env, fs, path::PathBuf};

use anyhow::{Context, Result};

use crate::{
    bars::{Bar, Bars, Target},
    data,
    job::{Job, Sample, Side},
    output::agree,
    spark::{self, Spark},
    table::{Row, Spread, Table, Unit},
};

/// Lines in PageRank's file.
const EDGES: usize = 1_000_000;

/// Measures everything in `rounds` turns and prints the table; the bars are for the caller to print.
pub(crate) fn run(rounds: usize) -> Result<Bars> {
    let app = app()?;
    println!("machine: {}", machine());
    let spark = Spark::prepare();
    let mut bench =
        Bench { rounds, app, table: Table::default(), bars: Bars::default(), problems: vec![] };
    bench.loops();
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

/// The program that is measured: built together with this one, so it lies beside it.
fn app() -> Result<PathBuf> {
    let this = env::current_exe().context("cannot tell where this program lies")?;
    let app = this.with_file_name("firesteel-bench-app");
    anyhow::ensure!(app.is_file(), "{} is missing: run ./bench, which builds it", app.display());
    Ok(app)
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default().to_owned();
    format!("{cores} cores, load {load}; Spark {} in local[2]", spark::VERSION)
}

/// A bar's value out of the two medians.
type Ratio = fn(other: f64, ours: f64) -> f64;

fn times_faster(other: f64, ours: f64) -> f64 {
    other / ours
}

fn times_as_much(other: f64, ours: f64) -> f64 {
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

    fn pagerank(&mut self, side: &Side<'_>) -> Duel {
        match data::edges(EDGES) {
            Ok(edges) => self.duel(&Job::PageRank(edges), side),
            Err(error) => {
                let job = Job::PageRank(PathBuf::new());
                self.problems.push(format!("{job}: {error:#}"));
                Duel { job, other_name: side.name(), other: vec![], ours: vec![] }
            }
        }
    }

    /// Runs `job` on `other` and on Firesteel in turns.
    fn duel(&mut self, job: &Job, other: &Side<'_>) -> Duel {
        let ours = Side::Firesteel(self.app.clone());
        let mut samples = [vec![], vec![]];
        let mut failures = [None, None];
        for round in 1..=self.rounds {
            for (index, side) in [other, &ours].into_iter().enumerate() {
                if failures[index].is_some() {
                    continue;
                }
                match side.run(job) {
                    Ok(sample) => {
                        report(job, side, round, self.rounds, &sample);
                        samples[index].push(sample);
                    }
                    Err(error) => {
                        failures[index] = Some(format!("{job}, {}: {error:#}", side.name()))
                    }
                }
            }
        }
        self.problems.extend(failures.into_iter().flatten());
        let [other_samples, our_samples] = samples;
        let duel = Duel {
            job: job.clone(),
            other_name: other.name(),
            other: other_samples,
            ours: our_samples,
        };
        self.reject_disagreement(duel)
    }

    /// A fast wrong answer is no answer: without agreement, Firesteel's runs do not count.
    fn reject_disagreement(&mut self, mut duel: Duel) -> Duel {
        let mut all = duel.other.iter().chain(&duel.ours).map(|sample| &sample.result);
        let first = all.next().cloned().unwrap_or_default();
        if let Some(different) = all.find(|result| !agree(&first, result)) {
            self.problems.push(format!("{}: results differ: `{first}`, `{different}`", duel.job));
            duel.ours.clear();
        }
        duel
    }

    fn seconds(&mut self, duel: &Duel, bar: Option<(&'static str, Ratio, Target)>) {
        self.row(duel, duel.job.to_string(), Unit::Seconds, |sample| sample.seconds, bar);
    }

    fn memory(&mut self, duel: &Duel, bar: (&'static str, Ratio, Target)) {
        let megabytes = |sample: &Sample| sample.peak_rss_bytes as f64 / 1e6;
        self.row(duel, format!("{}, peak RSS", duel.job), Unit::Megabytes, megabytes, Some(bar));
    }

    fn row(
        &mut self,
        duel: &Duel,
        name: String,
        unit: Unit,
        value: fn(&Sample) -> f64,
        bar: Option<(&'static str, Ratio, Target)>,
    ) {
        let other = Spread::of(duel.other.iter().map(value));
        let ours = Spread::of(duel.ours.iter().map(value));
        let mut verdict = String::new();
        if let Some((name, ratio, target)) = bar {
            let value = other.zip(ours).map(|(other, ours)| ratio(other.median, ours.median));
            let shown = value.map_or("-".to_owned(), |value| format!("{value:.3}"));
            verdict = format!("{shown}, {target}");
            self.bars.push(Bar { name, value, target });
        }
        self.table.0.push(Row { name, unit, other_name: duel.other_name, other, ours, verdict });
    }
}

/// The runs of one job on both sides.
struct Duel {
    job: Job,
    other_name: &'static str,
    other: Vec<Sample>,
    ours: Vec<Sample>,
}

fn report(job: &Job, side: &Side<'_>, round: usize, rounds: usize, sample: &Sample) {
    let (seconds, megabytes) = (sample.seconds, sample.peak_rss_bytes as f64 / 1e6);
    eprintln!("{job} {round}/{rounds} {}: {seconds:.4} s, {megabytes:.1} MB", side.name());
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Bars, Bench, Duel, Job, Sample, Side, Table, Target, times_faster};

    fn bench() -> Bench {
        let app = PathBuf::from("no-such-app");
        Bench { rounds: 2, app, table: Table::default(), bars: Bars::default(), problems: vec![] }
    }

    fn sample(seconds: f64, result: &str) -> Sample {
        Sample { seconds, peak_rss_bytes: 1, result: result.to_owned() }
    }

    fn duel(other: &[Sample], ours: &[Sample]) -> Duel {
        Duel { job: Job::Tasks, other_name: "Spark", other: other.to_vec(), ours: ours.to_vec() }
    }

    #[test]
    fn a_bar_compares_the_medians() {
        let mut bench = bench();
        let duel =
            duel(&[sample(9.0, "1"), sample(1.0, "1"), sample(6.0, "1")], &[sample(2.0, "1")]);
        bench.seconds(&duel, Some(("tasks", times_faster, Target::AtLeast(3.0))));
        assert_eq!(bench.bars.to_string(), "bar tasks 3.000 3 ok\n");
    }

    #[test]
    fn runs_with_another_result_do_not_count() {
        let mut bench = bench();
        let duel = bench.reject_disagreement(duel(&[sample(9.0, "1")], &[sample(2.0, "2")]));
        bench.seconds(&duel, Some(("tasks", times_faster, Target::AtLeast(3.0))));
        assert_eq!(bench.bars.to_string(), "bar tasks - 3 short\n");
        assert_eq!(bench.problems, ["tasks10000: results differ: `1`, `2`"]);
    }

    #[test]
    fn without_spark_the_bars_are_short_and_each_side_fails_once() {
        let mut bench = bench();
        let duel = bench.duel(&Job::Tasks, &Side::NoSpark);
        bench.seconds(&duel, Some(("tasks", times_faster, Target::AtLeast(3.0))));
        assert_eq!(bench.bars.to_string(), "bar tasks - 3 short\n");
        assert_eq!(bench.problems[0], "tasks10000, Spark: could not be set up");
        assert!(bench.problems[1].starts_with("tasks10000, Firesteel: cannot start no-such-app"));
        assert_eq!(bench.problems.len(), 2);
    }
}
