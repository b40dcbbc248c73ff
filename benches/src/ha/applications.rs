//! A thousand short applications in cluster mode, one after another: master and worker may not grow by them.

use std::{fs, path::Path, process::Command, time::Duration};

use anyhow::{Context, Result, ensure};

use super::Bench;
use crate::{
    bars::Target,
    cluster::{
        Site,
        page::json,
        processes::megabytes,
        site::{Kind, Plan, Programs},
        wait::until,
    },
    table::{Spread, Table},
};

const APPLICATIONS: usize = 1000;
/// So often it is looked what there is.
const EVERY: usize = 10;
const LIMIT: Duration = Duration::from_secs(60);

/// Resident megabytes, open files and files of master and worker, and processes.
type Sample = [f64; 4];

const NAMES: [&str; 4] = ["rss_mb", "open_files", "files", "processes"];

pub(super) fn measure(bench: &mut Bench, programs: &Programs) {
    let samples = bench.tried("applications in cluster mode", samples(programs));
    let mut table = Table::new(&[
        "after applications",
        "334 to 666",
        "667 to 1,000",
        "the least of these",
        "growth",
    ]);
    for (at, name) in NAMES.iter().enumerate() {
        let values: Option<Vec<f64>> =
            samples.as_ref().map(|all| all.iter().map(|sample| sample[at]).collect());
        let growth = values.as_deref().and_then(growth);
        let show = |value: fn(&Growth) -> f64| {
            growth.as_ref().map_or("-".to_owned(), |growth| format!("{:.3}", value(growth)))
        };
        table.push(vec![
            (*name).to_owned(),
            show(|it| it.before),
            show(|it| it.after),
            show(|it| it.least),
            show(Growth::value),
        ]);
        let value = growth.as_ref().map(Growth::value);
        bench.bar(&format!("applications_{name}_growth"), value, Target::AtMost(0.0));
    }
    println!("\n{table}");
}

fn samples(programs: &Programs) -> Result<Vec<Sample>> {
    let site = Site::start(Kind::Firesteel(programs), &Plan::here(&[2]))?;
    let mut samples = Vec::new();
    for number in 1..=APPLICATIONS {
        run(programs, &site)?;
        if number.is_multiple_of(EVERY) {
            let idle = || (site.overview().ok()?.cores_used == 0).then_some(());
            until("an idle cluster", LIMIT, idle)?;
            samples.push(sample(&site)?);
        }
    }
    ensure!(site.stop().is_empty(), "processes are left");
    Ok(samples)
}

fn run(programs: &Programs, site: &Site<'_>) -> Result<()> {
    let mut command = Command::new(&programs.firesteel);
    crate::spark::remove_settings(&mut command);
    command.current_dir(site.directory()).args(["submit", "--master", &site.url]);
    command.args(["--deploy-mode", "cluster", "--driver-memory", "100m"]);
    command.args(["--executor-memory", "100m", "--total-executor-cores", "1"]);
    command.args(["--conf", "spark.master.rest.enabled=false"]);
    let output = command.arg(&programs.app).arg("trivial").output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "a driver was not taken: {said}{why}");
    let id = said.split_whitespace().next().context("submit names no driver")?;
    let state = until("the end of a driver", LIMIT, || state_of(site, id))?;
    ensure!(state == "FINISHED", "{id} is {state}");
    Ok(())
}

/// How a driver ended, if it did.
fn state_of(site: &Site<'_>, id: &str) -> Option<String> {
    let page = json(&site.page, "/json/").ok()?;
    let over = page["completeddrivers"].as_array()?.iter().find(|driver| driver["id"] == id)?;
    Some(over["state"].as_str()?.to_owned())
}

fn sample(site: &Site<'_>) -> Result<Sample> {
    let master = site.master.as_ref().context("it has a master")?.id() as i32;
    let pids: Vec<i32> =
        site.workers.iter().map(|worker| worker.id() as i32).chain([master]).collect();
    let resident = pids.iter().map(|pid| megabytes(*pid)).sum::<Result<f64>>()?;
    let count = |path: String| fs::read_dir(path).map_or(0, Iterator::count) as f64;
    let open = pids.iter().map(|pid| count(format!("/proc/{pid}/fd"))).sum();
    // What drivers and executors printed stays for people, until it is cleaned up by its age.
    let files = temporary_files(site.directory());
    let processes = site.processes().len() as f64;
    Ok([resident, open, files, processes])
}

/// Files that are not the output of a process.
fn temporary_files(directory: &Path) -> f64 {
    let Ok(entries) = fs::read_dir(directory) else { return 0.0 };
    let count = |entry: fs::DirEntry| {
        let (path, name) = (entry.path(), entry.file_name());
        let is_output = name == "stdout" || name == "stderr";
        match path.is_dir() {
            true => temporary_files(&path),
            false => f64::from(u8::from(!is_output)),
        }
    };
    entries.flatten().map(count).sum()
}

/// What became of one value: the first third of its samples warms up, the middle one is what the last one is held to.
#[derive(Debug, PartialEq)]
struct Growth {
    /// Medians of the middle and of the last third, and the least of the last third.
    before: f64,
    after: f64,
    least: f64,
}

impl Growth {
    /// By how much even the least of the last third is above the median of the middle one. A value that only varies has a sample below its
    /// median among thirty: this is not above 0. One that grows by more than it varies, from one third to the next, has none.
    fn value(&self) -> f64 {
        self.least - self.before
    }
}

fn growth(values: &[f64]) -> Option<Growth> {
    let third = values.len() / 3;
    let (_, rest) = values.split_at(values.len() - 2 * third);
    let (middle, last) = rest.split_at(third);
    let least = last.iter().copied().reduce(f64::min)?;
    let median = |values: &[f64]| Some(Spread::of(values.iter().copied())?.median);
    Some(Growth { before: median(middle)?, after: median(last)?, least })
}

#[cfg(test)]
mod tests {
    use super::{Growth, growth};

    fn value(values: impl IntoIterator<Item = f64>) -> f64 {
        growth(&values.into_iter().collect::<Vec<_>>()).unwrap().value()
    }

    #[test]
    fn what_goes_up_and_down_does_not_grow_and_what_goes_up_does() {
        let wave = |number: u32| f64::from(number * 7 % 5);
        assert_eq!(value([4.0; 99]), 0.0);
        assert!(value((0..99).map(wave)) < 0.0);
        assert!(value((0..99).map(|number| wave(number) + f64::from(number))) > 0.0);
        assert!(value((0..99).map(|number| f64::from(number / 20))) > 0.0, "in steps");
    }

    #[test]
    fn what_warms_up_in_the_first_third_is_not_counted() {
        assert_eq!(value((0..99).map(|number| f64::from(number.min(33)))), 0.0);
        let samples = [9.0, 1.0, 3.0, 2.0, 4.0, 6.0, 5.0];
        let found = growth(&samples[1..]).unwrap();
        assert_eq!(found, Growth { before: 3.0, after: 5.5, least: 5.0 });
        assert_eq!(growth(&[1.0, 2.0]), None);
    }
}
