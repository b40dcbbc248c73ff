//! What writing an event log costs a job.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::output::Output;
use crate::{data, process, spark};

const LIMIT: Duration = Duration::from_secs(600);
/// Bytes of text that wordcount reads, as in `./bench rdd`.
const WORDS: usize = 1_000_000_000;

/// A job of firesteel-bench-app: its arguments, its name in what it prints, how many cold runs do not count.
pub(super) struct Job {
    arguments: Vec<String>,
    printed: &'static str,
    cold: usize,
}

/// Seconds of the runs without a log, and with one.
type Seconds = (Vec<f64>, Vec<f64>);

/// 10,000 empty tasks and wordcount.
pub(super) fn jobs(small: bool) -> Result<Vec<(&'static str, Job)>> {
    let tasks = Job { arguments: vec!["tasks".into()], printed: "tasks10000", cold: 1 };
    if small {
        return Ok(vec![("tasks10000", tasks)]);
    }
    let words = data::words(WORDS)?;
    let arguments = vec!["wordcount".into(), words.display().to_string()];
    let wordcount = Job { arguments, printed: "wordcount", cold: 0 };
    Ok(vec![("tasks10000", tasks), ("wordcount", wordcount)])
}

/// Settings as `firesteel submit` hands them over.
pub(super) fn settings(logs: Option<&Path>, more: &[(&str, &str)]) -> String {
    let mut text = "spark.master=local[2]\nspark.ui.enabled=false\n".to_owned();
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

/// Runs a job without and with a log, in turns.
pub(super) fn measure(job: &Job, rounds: usize, scratch: &Path) -> Result<Seconds> {
    let logs = scratch.join("overhead");
    fs::create_dir_all(&logs)?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        for (logs, seconds) in [(None, &mut without), (Some(logs.as_path()), &mut with)] {
            let mut command = app(&job.arguments, settings(logs, &[]))?;
            let printed = process::run(&mut command, LIMIT)?.stdout;
            seconds.push(Output::parse(&printed).best_seconds(job.printed, job.cold)?);
        }
    }
    let written = fs::read_dir(&logs)?.count();
    anyhow::ensure!(written == rounds, "{written} logs were written in {rounds} runs");
    Ok((without, with))
}
