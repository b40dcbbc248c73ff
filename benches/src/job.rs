//! What runs on every side, how each side is started, and which of its numbers counts.

use std::{ffi::OsString, fmt, path::PathBuf, process::Command, time::Duration};

use anyhow::{Context, Result};

use crate::{
    output::Output,
    process::{self, Finished},
    spark::Spark,
};

/// No job takes a minute on a quiet machine.
const LIMIT: Duration = Duration::from_secs(600);

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
        }
    }

    /// Its name in the lines it prints.
    fn printed(&self) -> &'static str {
        match self {
            Job::Tasks => "tasks10000",
            Job::PageRank(_) => "pagerank10",
            Job::Longs => "longs100M",
            Job::Trivial | Job::Pipelines | Job::Chain10 => self.command(),
        }
    }

    fn arguments(&self) -> Vec<OsString> {
        let mut arguments = vec![self.command().into()];
        match self {
            Job::PageRank(edges) => arguments.push(edges.into()),
            Job::Longs => arguments.push("2".into()),
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

/// Who runs a job.
#[derive(Debug)]
pub(crate) enum Side<'a> {
    Spark(&'a Spark),
    /// Spark could not be set up.
    NoSpark,
    /// Two threads and a loop, in firesteel-bench-app.
    ByHand(PathBuf),
    /// The same program on Firesteel, in firesteel-bench-app.
    Firesteel(PathBuf),
}

impl Side<'_> {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Side::Spark(_) | Side::NoSpark => "Spark",
            Side::ByHand(_) => "by hand",
            Side::Firesteel(_) => "Firesteel",
        }
    }

    /// Runs `job` once in a process of its own.
    pub(crate) fn run(&self, job: &Job) -> Result<Sample> {
        let finished = process::run(&mut self.start(job)?, LIMIT)?;
        job.sample(&finished).with_context(|| format!("{} ran {job}", self.name()))
    }

    fn start(&self, job: &Job) -> Result<Command> {
        match self {
            Side::NoSpark => anyhow::bail!("could not be set up"),
            Side::Spark(spark) if *job == Job::Trivial => Ok(spark.submit("lab.Trivial", &[])),
            Side::Spark(spark) => Ok(spark.submit("lab.Bench", &job.arguments())),
            Side::ByHand(app) => {
                let mut command = Command::new(app);
                command.arg("by-hand").args(job.arguments());
                Ok(command)
            }
            Side::Firesteel(app) => {
                let mut command = Command::new(app);
                command.args(job.arguments());
                Ok(command)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Finished, Job};

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
    fn a_run_without_a_result_does_not_count() {
        Job::Trivial.sample(&finished("")).unwrap_err();
        Job::Longs.sample(&finished("BENCH longs100M 0.1 s\n")).unwrap_err();
    }
}
