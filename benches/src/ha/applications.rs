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
    table::Table,
};

/// How many there are, and how many of them only warm up what is measured.
const APPLICATIONS: usize = 1000;
const WARM: usize = 300;
/// So often it is looked what there is.
const EVERY: usize = 50;
const LIMIT: Duration = Duration::from_secs(60);

/// Resident megabytes, open files and files of master and worker, and processes.
type Sample = [f64; 4];

const NAMES: [&str; 4] = ["rss_mb", "open_files", "files", "processes"];

pub(super) fn measure(bench: &mut Bench, programs: &Programs) {
    let samples = bench.tried("applications in cluster mode", samples(programs));
    let mut table = Table::new(&["per 1,000 applications", "growth", "at the end"]);
    for (at, name) in NAMES.iter().enumerate() {
        let values: Option<Vec<f64>> =
            samples.as_ref().map(|all| all.iter().map(|sample| sample[at]).collect());
        let growth = values.as_ref().map(|values| slope(values) * (1000 / EVERY) as f64);
        let last = values.and_then(|values| values.last().copied());
        let show = |value: Option<f64>| value.map_or("-".to_owned(), |it| format!("{it:.2}"));
        table.push(vec![(*name).to_owned(), show(growth), show(last)]);
        // A page more or less is the allocator's.
        let most = if at == 0 { 0.5 } else { 0.0 };
        bench.bar(&format!("applications_{name}_per_1000"), growth, Target::AtMost(most));
    }
    println!("\n{table}");
}

fn samples(programs: &Programs) -> Result<Vec<Sample>> {
    let site = Site::start(Kind::Firesteel(programs), &Plan::here(&[2]))?;
    let mut samples = Vec::new();
    for number in 1..=APPLICATIONS {
        run(programs, &site)?;
        if number >= WARM && number.is_multiple_of(EVERY) {
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
    let processes = site.executors().len() as f64;
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

/// Growth from one value to the next, by least squares.
fn slope(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let (middle, mean) = ((count - 1.0) / 2.0, values.iter().sum::<f64>() / count);
    let apart = |at: usize| at as f64 - middle;
    let above: f64 = values.iter().enumerate().map(|(at, value)| apart(at) * (value - mean)).sum();
    let below: f64 = (0..values.len()).map(|at| apart(at) * apart(at)).sum();
    above / below
}

#[cfg(test)]
mod tests {
    use super::slope;

    #[test]
    fn what_stays_has_no_slope_and_what_grows_has_its_own() {
        assert_eq!(slope(&[4.0, 4.0, 4.0]), 0.0);
        assert_eq!(slope(&[1.0, 3.0, 5.0, 7.0]), 2.0);
        assert!(slope(&[5.0, 4.0, 5.0, 4.0]) < 0.0);
    }
}
