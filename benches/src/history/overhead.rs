//! What writing an event log costs a job, and what keeping its status does.
//!
//! A log can be left out: the same job runs without and with one, in turns, and the ratios of the turns count, so that what else the
//! machine does meets both sides. The status has no switch. What it takes is the time to apply the events of the job, beside the time of
//! the job in the same process.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::output::Output;
use crate::table::Spread;
use crate::{data, process, spark};

const LIMIT: Duration = Duration::from_secs(600);
/// Bytes of text that wordcount reads, as in `./bench rdd`.
const WORDS: usize = 1_000_000_000;

/// A job of firesteel-bench-app: its arguments, its name in what it prints, how many cold runs do not count, how many turns do.
pub(super) struct Job {
    arguments: Vec<String>,
    printed: &'static str,
    cold: usize,
    turns: usize,
}

/// Seconds of one thing and of another, turn by turn.
#[derive(Debug, Default)]
pub(super) struct Turns {
    pub(super) one: Vec<f64>,
    pub(super) other: Vec<f64>,
}

impl Turns {
    /// How much of the one the other is: the median over the turns.
    pub(super) fn ratio(&self) -> Option<f64> {
        let ratios = self.one.iter().zip(&self.other).map(|(one, other)| other / one);
        Some(Spread::of(ratios)?.median)
    }
}

/// 10,000 empty tasks and wordcount.
pub(super) fn jobs(small: bool) -> Result<Vec<(&'static str, Job)>> {
    let arguments = vec!["tasks".into()];
    let tasks = Job { arguments, printed: "tasks10000", cold: 1, turns: 15 };
    if small {
        return Ok(vec![("tasks10000", tasks)]);
    }
    let words = data::words(WORDS)?;
    let arguments = vec!["wordcount".into(), words.display().to_string()];
    let wordcount = Job { arguments, printed: "wordcount", cold: 0, turns: 7 };
    Ok(vec![("tasks10000", tasks), ("wordcount", wordcount)])
}

/// Settings as `firesteel submit` hands them over. A task may fail three times.
pub(super) fn settings(logs: Option<&Path>, more: &[(&str, &str)]) -> String {
    let mut text = "spark.master=local[2,4]\nspark.ui.enabled=false\n".to_owned();
    if let Some(logs) = logs {
        text += &format!("spark.eventLog.enabled=true\nspark.eventLog.dir={}\n", logs.display());
    }
    more.iter().for_each(|(key, value)| text += &format!("{key}={value}\n"));
    text
}

/// firesteel-bench-app with such settings.
pub(super) fn app(arguments: &[String], conf: String) -> Result<Command> {
    let mut command = Command::new(process::sibling("firesteel-bench-app")?);
    spark::remove_settings(&mut command);
    command.args(arguments).env("FIRESTEEL_CONF", conf);
    Ok(command)
}

/// Runs a job without and with a log, in turns of which each begins with the other side.
pub(super) fn measure(job: &Job, rounds: usize, scratch: &Path) -> Result<Turns> {
    let logs = scratch.join("overhead").join(job.printed);
    fs::create_dir_all(&logs)?;
    let (mut turns, rounds) = (Turns::default(), rounds.max(job.turns));
    for round in 0..rounds {
        let mut sides = [(None, &mut turns.one), (Some(logs.as_path()), &mut turns.other)];
        if round % 2 == 1 {
            sides.reverse();
        }
        for (logs, seconds) in sides {
            let mut command = app(&job.arguments, settings(logs, &[]))?;
            let printed = process::run(&mut command, LIMIT)?.stdout;
            seconds.push(Output::parse(&printed).best_seconds(job.printed, job.cold)?);
        }
    }
    let written = fs::read_dir(&logs)?.count();
    ensure!(written == rounds, "{written} logs were written in {rounds} runs");
    Ok(turns)
}

/// 10,000 empty tasks, and applying their events to a status, in turns.
pub(super) fn status() -> Result<Turns> {
    let mut command = app(&["status".to_owned()], settings(None, &[]))?;
    let printed = Output::parse(&process::run(&mut command, LIMIT)?.stdout);
    ensure!(printed.result("status10000")? == "10000", "the status has not seen all tasks");
    let warm = |name: &str| printed.warm_seconds(name, 1).collect::<Vec<f64>>();
    let turns = Turns { one: warm("tasks10000"), other: warm("status10000") };
    let (one, other) = (turns.one.len(), turns.other.len());
    ensure!(one == other && one > 0, "{one} jobs and {other} statuses");
    Ok(turns)
}

#[cfg(test)]
mod tests {
    use super::Turns;

    #[test]
    fn the_median_of_the_turns_counts() {
        assert_eq!(Turns::default().ratio(), None);
        let turns = Turns { one: vec![1.0, 2.0, 4.0], other: vec![9.0, 2.5, 4.0] };
        assert_eq!(turns.ratio(), Some(1.25));
    }
}
