//! Logs of ours in all forms: single and rolling files, compressed or not, of applications that ended well, badly or not at all, in one
//! process and on a cluster.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::overhead::{app, settings};
use crate::cluster::driver::Driver;
use crate::cluster::site::{Kind, Plan, Programs};
use crate::cluster::{Site, Spot};
use crate::process;

const LIMIT: Duration = Duration::from_secs(300);

type Settings = &'static [(&'static str, &'static str)];

const SINGLE: (&str, &str) = ("spark.eventLog.rolling.enabled", "false");
const PLAIN: (&str, &str) = ("spark.eventLog.compress", "false");
const LZ4: (&str, &str) = ("spark.eventLog.compression.codec", "lz4");
const SMALL: (&str, &str) = ("spark.eventLog.rolling.maxFileSize", "10m");

/// How an application ends, as firesteel-bench-app is told, and what its log is like. The default is a rolling log, with zstd.
const LOCAL: [(&str, Settings); 9] = [
    ("well", &[]),
    ("well", &[PLAIN, SINGLE]),
    ("well", &[SINGLE]),
    ("well", &[LZ4]),
    ("many", &[PLAIN, SMALL]),
    ("badly", &[]),
    ("badly", &[PLAIN, SINGLE]),
    ("never", &[]),
    ("never", &[PLAIN, SINGLE]),
];
const ON_A_CLUSTER: [(&str, Settings); 3] = [("well", &[]), ("badly", &[LZ4]), ("never", &[PLAIN])];

/// Runs an application to the end that it was told.
fn run(mut command: Command, ending: &str) -> Result<()> {
    if ending == "never" {
        let mut driver = Driver::start(command)?;
        driver.hear("RUNNING", 1, LIMIT)?;
        // What happened is in the log a moment later.
        std::thread::sleep(Duration::from_millis(500));
        return driver.kill().map(drop);
    }
    let ended = process::end(&mut command, LIMIT)?;
    let is_well = ending != "badly";
    ensure!(
        ended.status.success() == is_well,
        "{}: {}",
        ended.status,
        process::tail(&ended.stderr)
    );
    // It failed for the reason that was meant.
    ensure!(
        is_well || ended.stderr.contains("always fails"),
        "it failed for another reason: {}",
        process::tail(&ended.stderr)
    );
    Ok(())
}

/// A log of several files is among them.
fn one_rolled(logs: &Path) -> Result<()> {
    let mut most = 0;
    for log in fs::read_dir(logs)?.map_while(Result::ok).filter(|it| it.path().is_dir()) {
        let names = fs::read_dir(log.path())?.map_while(Result::ok).map(|it| it.file_name());
        most = most.max(names.filter(|it| it.to_string_lossy().starts_with("events_")).count());
    }
    ensure!(most >= 2, "no log rolled: the one with the most files of events has {most}");
    Ok(())
}

/// Runs applications whose logs are of every form. How many logs there are.
pub(super) fn write(logs: &Path) -> Result<usize> {
    for (ending, form) in LOCAL {
        let arguments = ["told".to_owned(), ending.to_owned()];
        let command = app(&arguments, settings(Some(logs), form))?;
        run(command, ending)
            .with_context(|| format!("an application that ends {ending}, {form:?}"))?;
    }
    let programs = Programs::find()?;
    let site = Site::start(Kind::Firesteel(&programs), &Plan::here(&[1, 1]))?;
    for (ending, form) in ON_A_CLUSTER {
        let directory = logs.display().to_string();
        let log = [("spark.eventLog.enabled", "true"), ("spark.eventLog.dir", directory.as_str())];
        let settings: Vec<_> = log.into_iter().chain(form.iter().copied()).collect();
        let words = ["told", ending].map(OsString::from);
        let command = site.submit(&Spot::loopback(), 2, &settings, &words);
        run(command, ending).with_context(|| format!("on a cluster, {ending}, {form:?}"))?;
    }
    site.stop();
    one_rolled(logs)?;
    Ok(LOCAL.len() + ON_A_CLUSTER.len())
}
