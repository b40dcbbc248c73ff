//! Jobs that shuffle, on two cores of one process and on two workers of one core: how many times faster than Spark they
//! are in both settings, all in turns.

use std::path::PathBuf;

use anyhow::Result;

use super::{Bench, Kind, Programs, Site, speed::our_side};
use crate::{
    bars::Target,
    contest::Contest,
    data,
    job::{Job, Sample, Side},
    table::{Table, Unit},
};

/// Bytes of text in wordcount's file.
const WORDS: usize = 250_000_000;
const RECORDS: u64 = 3_000_000;
const EDGES: usize = 1_000_000;

/// How much of its factor a job has to keep.
const KEPT: Target = Target::AtLeast(0.8);

const NAMES: [&str; 3] = ["wordcount", "sort", "pagerank"];

const HEAD: [&str; 8] =
    ["", "Spark", "Firesteel", "factor", "Spark cluster", "Firesteel cluster", "factor", "kept"];

pub(super) fn measure(
    bench: &mut Bench,
    programs: &Programs,
    spark: Option<Kind<'_>>,
    theirs: Option<&Site<'_>>,
    ours: Option<&Site<'_>>,
) {
    let mut table = Table::new(&HEAD);
    let local = match spark {
        Some(Kind::Spark(spark)) => Side::Spark(spark),
        _ => Side::NoSpark,
    };
    let app = Side::Firesteel(programs.app.clone());
    let sides = [local, app, theirs.map_or(Side::NoSpark, Side::Cluster), our_side(ours)];
    for name in NAMES {
        let contest = job(name).map(|job| Contest::hold(&job, &sides.each_ref(), bench.rounds));
        let contest = bench.tried(name, contest);
        let factors = contest.map(|mut contest| {
            bench.problems.append(&mut contest.problems);
            let factors = Factors::of(&contest);
            table.push(factors.row(&contest));
            factors
        });
        let kept = factors.and_then(|factors| factors.kept());
        bench.bar(&format!("{name}_factor_kept"), kept, KEPT);
    }
    println!("\n{table}");
}

fn job(name: &str) -> Result<Job> {
    let found = |path: Result<PathBuf>, job: fn(PathBuf) -> Job| path.map(job);
    match name {
        "wordcount" => found(data::words(WORDS), Job::WordCount),
        "pagerank" => found(data::edges(EDGES), Job::PageRank),
        _ => Ok(Job::Sort { records: RECORDS, partitions: 8 }),
    }
}

/// How many times faster than Spark, in one process and in a cluster.
#[derive(Debug, Clone, Copy)]
struct Factors {
    local: Option<f64>,
    cluster: Option<f64>,
}

impl Factors {
    fn of(contest: &Contest) -> Self {
        let seconds = |side| contest.median(side, |sample: &Sample| sample.seconds);
        let factor = |spark, ours| Some(seconds(spark)? / seconds(ours)?);
        Self {
            local: factor(Side::SPARK, Side::OURS),
            cluster: factor(Side::SPARK_CLUSTER, Side::OUR_CLUSTER),
        }
    }

    fn kept(self) -> Option<f64> {
        Some(self.cluster? / self.local?)
    }

    fn row(self, contest: &Contest) -> Vec<String> {
        let seconds = |side| {
            let median = contest.median(side, |sample: &Sample| sample.seconds);
            median.map_or("-".to_owned(), |median| Unit::Seconds.show(median))
        };
        let factor = |value: Option<f64>| value.map_or("-".to_owned(), |it| format!("{it:.2}"));
        vec![
            contest.job.to_string(),
            seconds(Side::SPARK),
            seconds(Side::OURS),
            factor(self.local),
            seconds(Side::SPARK_CLUSTER),
            seconds(Side::OUR_CLUSTER),
            factor(self.cluster),
            format!("{}, {KEPT}", factor(self.kept())),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::{Contest, Factors, Job, Sample};
    use crate::contest::Runs;

    fn runs(side: &'static str, seconds: f64) -> Runs {
        Runs { side, samples: vec![Sample { seconds, peak_rss_bytes: 1, result: String::new() }] }
    }

    #[test]
    fn what_is_kept_is_the_clusters_factor_by_the_local_one() {
        let runs = vec![
            runs("Spark", 8.0),
            runs("Firesteel", 1.0),
            runs("Spark cluster", 12.0),
            runs("Firesteel cluster", 2.0),
        ];
        let contest = Contest { job: Job::Longs, runs, problems: vec![] };
        let factors = Factors::of(&contest);
        assert_eq!(factors.kept(), Some(0.75));
        assert_eq!(
            factors.row(&contest)[3..],
            ["8.00", "12.00 s", "2.00 s", "6.00", "0.75, >= 0.8"]
        );
    }

    #[test]
    fn without_a_side_nothing_is_kept() {
        let contest = Contest { job: Job::Longs, runs: vec![runs("Spark", 8.0)], problems: vec![] };
        assert_eq!(Factors::of(&contest).kept(), None);
    }
}
