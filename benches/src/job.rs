//! What runs on every side, how each side is started, and which of its numbers counts.

use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result};

use crate::{
    cluster::{Site, Spot},
    output::Output,
    process::{self, Finished},
    spark::{self, Spark},
};

/// No job takes a minute on a quiet machine.
const TIME_LIMIT: Duration = Duration::from_secs(600);

/// As many as `local[2]` has.
const CORES: u32 = 2;

/// One job, written for every side that runs it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Job {
    /// Start, count 1,000 numbers, stop: the time counted is that of the whole process.
    Trivial,
    /// 10,000 empty tasks in one job, four times: the best of the last three counts.
    Tasks,
    /// Ten rounds of PageRank over a file of edges.
    PageRank(PathBuf),
    /// 100 M signed integers through map, filter, reduce.
    Longs,
    /// 100 M `u64` through map, map with a captured value, filter, reduce.
    Pipelines,
    /// The same numbers through ten narrow steps.
    Chain10,
    /// The words of a file, counted; the twenty most frequent.
    WordCount(PathBuf),
    /// Records of some 100 bytes, sorted and looked at.
    Sort { records: u64, partitions: usize },
    /// As many rows on both sides, keys of one side skewed.
    Join { rows: u64, partitions: usize },
    /// Pairs of numbers into groups of twenty on average.
    Group { pairs: u64, partitions: usize },
    /// Strings of 16 characters, most of them several times.
    Distinct { strings: u64, partitions: usize },
}

impl Job {
    /// Its name on the command line of firesteel-bench-app.
    fn command(&self) -> &'static str {
        match self {
            Job::Trivial => "trivial",
            Job::Tasks => "tasks",
            Job::PageRank(_) => "pagerank",
            Job::Longs => "longs",
            Job::Pipelines => "pipelines",
            Job::Chain10 => "chain10",
            Job::WordCount(_) => "wordcount",
            Job::Sort { .. } => "sort",
            Job::Join { .. } => "join",
            Job::Group { .. } => "group",
            Job::Distinct { .. } => "distinct",
        }
    }

    /// Its name in the lines it prints.
    fn printed(&self) -> &'static str {
        match self {
            Job::Tasks => "tasks10000",
            Job::PageRank(_) => "pagerank10",
            Job::Longs => "longs100M",
            _ => self.command(),
        }
    }

    fn arguments(&self) -> Vec<OsString> {
        let mut arguments = vec![self.command().into()];
        match self {
            Job::PageRank(file) | Job::WordCount(file) => arguments.push(file.into()),
            Job::Longs => arguments.push("2".into()),
            Job::Sort { records: count, partitions }
            | Job::Join { rows: count, partitions }
            | Job::Group { pairs: count, partitions }
            | Job::Distinct { strings: count, partitions } => {
                arguments.extend([count.to_string().into(), partitions.to_string().into()]);
            }
            Job::Trivial | Job::Tasks | Job::Pipelines | Job::Chain10 => {}
        }
        arguments
    }

    /// Turns one run into the numbers that count.
    fn sample(&self, finished: &Finished) -> Result<Sample> {
        let output = Output::parse(&finished.stdout);
        let seconds = match self {
            Job::Trivial => finished.wall.as_secs_f64(),
            Job::Tasks => output.best_seconds(self.printed(), 1)?,
            _ => output.best_seconds(self.printed(), 0)?,
        };
        let result = output.result(self.printed())?.to_owned();
        Ok(Sample { seconds, peak_rss_bytes: finished.peak_rss_bytes, result })
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.printed())
    }
}

/// One run of a job on one side.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) seconds: f64,
    pub(crate) peak_rss_bytes: u64,
    pub(crate) result: String,
}

impl Sample {
    /// Peak memory in units of a million bytes.
    pub(crate) fn megabytes(&self) -> f64 {
        self.peak_rss_bytes as f64 / 1e6
    }
}

/// Who runs a job.
#[derive(Debug)]
pub(crate) enum Side<'a> {
    Spark(&'a Spark),
    /// Spark could not be set up.
    NoSpark,
    /// Two threads and a loop, in firesteel-bench-app.
    ByHand(PathBuf),
    /// What can be had with effort, in firesteel-limit.
    Limit(PathBuf),
    /// The same program on Firesteel, in firesteel-bench-app.
    Firesteel(PathBuf),
    /// The same program on a standalone cluster of either.
    Cluster(&'a Site<'a>),
}

impl Side<'_> {
    /// The name of the side that the bars are about.
    pub(crate) const OURS: &'static str = "Firesteel";

    pub(crate) const SPARK: &'static str = "Spark";

    pub(crate) const LIMIT: &'static str = "limit";

    /// Starts with [`Self::OURS`], as everything of ours.
    pub(crate) const OUR_CLUSTER: &'static str = "Firesteel cluster";

    pub(crate) const SPARK_CLUSTER: &'static str = "Spark cluster";

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Side::Spark(_) | Side::NoSpark => Self::SPARK,
            Side::ByHand(_) => "by hand",
            Side::Limit(_) => Self::LIMIT,
            Side::Firesteel(_) => Self::OURS,
            Side::Cluster(site) if site.is_ours() => Self::OUR_CLUSTER,
            Side::Cluster(_) => Self::SPARK_CLUSTER,
        }
    }

    /// Does this side have a program for `job`? The limit is written for a few only.
    pub(crate) fn runs(&self, job: &Job) -> bool {
        !matches!(self, Side::Limit(_))
            || matches!(job, Job::Longs | Job::WordCount(_) | Job::Sort { .. })
    }

    /// Runs `job` once in a process of its own.
    pub(crate) fn run(&self, job: &Job) -> Result<Sample> {
        let finished = process::run(&mut self.start(job)?, TIME_LIMIT)?;
        job.sample(&finished).with_context(|| format!("{} ran {job}", self.name()))
    }

    fn start(&self, job: &Job) -> Result<Command> {
        match self {
            Side::NoSpark => anyhow::bail!("could not be set up"),
            Side::Spark(spark) if *job == Job::Trivial => Ok(spark.submit("lab.Trivial", &[])),
            Side::Spark(spark) => Ok(spark.submit("lab.Bench", &job.arguments())),
            Side::Cluster(site) => Ok(site.submit(&Spot::loopback(), CORES, &[], &job.arguments())),
            Side::ByHand(app) => Ok(program(app, &["by-hand".into()], job)),
            Side::Limit(app) | Side::Firesteel(app) => Ok(program(app, &[], job)),
        }
    }
}

fn program(path: &Path, first: &[OsString], job: &Job) -> Command {
    let mut command = Command::new(path);
    spark::remove_settings(&mut command);
    command.args(first).args(job.arguments());
    command
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use std::path::PathBuf;

    use super::{Finished, Job, Side};

    fn finished(stdout: &str) -> Finished {
        let wall = Duration::from_millis(1500);
        Finished { wall, peak_rss_bytes: 7, stdout: stdout.to_owned() }
    }

    #[test]
    fn a_trivial_program_is_timed_as_a_whole() {
        let sample = Job::Trivial.sample(&finished("RESULT trivial 1000\n")).unwrap();
        assert_eq!((sample.seconds, sample.peak_rss_bytes), (1.5, 7));
        assert_eq!(sample.result, "1000");
    }

    #[test]
    fn tasks_are_timed_warm_and_pipelines_at_their_best() {
        let printed =
            "BENCH NAME run1 0.1 s\nBENCH NAME run2 0.4 s\nBENCH NAME run3 0.3 s\nRESULT NAME 5\n";
        let seconds = |job: Job| {
            let printed = printed.replace("NAME", job.printed());
            job.sample(&finished(&printed)).unwrap().seconds
        };
        assert_eq!(seconds(Job::Tasks), 0.3);
        assert_eq!(seconds(Job::Pipelines), 0.1);
    }

    #[test]
    fn a_job_is_named_on_every_command_line_with_its_sizes() {
        let app = Side::Firesteel(PathBuf::from("app"));
        let line = |job: Job| {
            let command = app.start(&job).unwrap();
            command.get_args().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line(Job::Sort { records: 10, partitions: 3 }), "sort 10 3");
        assert_eq!(line(Job::WordCount(PathBuf::from("a.txt"))), "wordcount a.txt");
        assert_eq!(line(Job::Longs), "longs 2");
    }

    #[test]
    fn the_limit_is_written_for_three_jobs() {
        let limit = Side::Limit(PathBuf::from("limit"));
        assert!(limit.runs(&Job::Longs) && limit.runs(&Job::Sort { records: 1, partitions: 1 }));
        assert!(!limit.runs(&Job::Join { rows: 1, partitions: 1 }) && !limit.runs(&Job::Trivial));
        assert!(Side::NoSpark.runs(&Job::Join { rows: 1, partitions: 1 }));
    }

    #[test]
    fn a_run_without_a_result_does_not_count() {
        Job::Trivial.sample(&finished("")).unwrap_err();
        Job::Longs.sample(&finished("BENCH longs100M 0.1 s\n")).unwrap_err();
    }
}
