//! `firesteel report`: one file with everything of an application, from its event log.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use firesteel_conf::{Conf, Origin, entries};
use firesteel_monitor::rest::{ApplicationEntry, Applications};
use firesteel_monitor::{History, HistoryOptions};
use firesteel_types::Tick;

use crate::Failure;
use crate::daemons;

#[derive(Args)]
pub(crate) struct ReportFlags {
    /// The application: its id, or its name for the last run of that name.
    application: String,
    /// The file to write [default: APPLICATION.html].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The attempt [default: the last one].
    #[arg(long, value_name = "ID")]
    attempt: Option<String>,
    /// The directory of event logs [default: spark.history.fs.logDirectory].
    #[arg(short, long)]
    dir: Option<String>,
    /// A file of settings, instead of spark-defaults.conf.
    #[arg(long, value_name = "FILE")]
    properties_file: Option<PathBuf>,
    /// A setting; can be repeated.
    #[arg(long = "conf", value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

pub(crate) fn run(flags: ReportFlags) -> Result<ExitCode, Failure> {
    let mut conf = daemons::load(flags.properties_file.as_deref(), &flags.settings)?;
    if let Some(directory) = &flags.dir {
        let origin = Origin::Flag { flag: "--dir" };
        conf.insert(entries::HISTORY_LOG_DIRECTORY.key(), directory, origin);
    }
    conf.validate()?;
    let (id, text) = made(&conf, &flags)?;
    let file = flags.output.unwrap_or_else(|| file_name(&id));
    std::fs::write(&file, &text)
        .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    println!("{}: {} KiB", file.display(), text.len().div_ceil(1024));
    Ok(ExitCode::SUCCESS)
}

/// The application's id, and its report.
fn made(conf: &Conf, flags: &ReportFlags) -> Result<(String, String), Failure> {
    let history = History::open(HistoryOptions::from_conf(conf)?)?;
    let entry = find(&history, &flags.application)?;
    let last = entry.attempts.first().and_then(|attempt| attempt.id.clone());
    let attempt = flags.attempt.clone().or(last);
    let secrets = conf.get(&entries::REDACTION_REGEX)?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = Tick(since.map_or(0, |since| since.as_millis() as u64));
    let mut text = None;
    history.with_status(&entry.id, attempt.as_deref(), &mut |status| {
        text = Some(firesteel_pages::report(status, &secrets, now));
    });
    let of = attempt.map_or_else(String::new, |attempt| format!(", attempt {attempt}"));
    let text = text.ok_or_else(|| format!("the log of {}{of} cannot be read", entry.id))?;
    Ok((entry.id, text))
}

fn find(history: &History, wanted: &str) -> Result<ApplicationEntry, Failure> {
    let started = |entry: &ApplicationEntry| entry.attempts.first().map(|it| it.started);
    let named = || history.list().into_iter().filter(|it| it.name == wanted).max_by_key(started);
    history.find(wanted).or_else(named).ok_or_else(|| {
        let directory = history.options().directory.path().display();
        let known = history.list().len();
        format!("no log in {directory} is of an application with the id or name `{wanted}`; it has {known} others: `firesteel history --dir \
                 {directory}` lists them").into()
    })
}

/// An id may hold anything: only what is harmless in the name of a file stays.
fn file_name(id: &str) -> PathBuf {
    let harmless = |it: &char| it.is_ascii_alphanumeric() || "._-".contains(*it);
    let clean: String = id.chars().filter(harmless).collect();
    let clean = clean.trim_start_matches('.');
    format!("{}.html", if clean.is_empty() { "application" } else { clean }).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_a_file_name_that_is_seen_whatever_the_id_is() {
        let names = ["app-1", "../../etc/passwd", "äöü", "", "..."].map(file_name);
        let expected = [
            "app-1.html",
            "etcpasswd.html",
            "application.html",
            "application.html",
            "application.html",
        ];
        assert_eq!(names, expected.map(PathBuf::from));
    }
}
