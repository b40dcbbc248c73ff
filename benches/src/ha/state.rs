//! A master with the state of 1,000 workers and 1,000 applications, which is killed and started again.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::{
    Bench,
    masters::{Masters, scratch},
};
use crate::{
    bars::Target,
    cluster::{
        driver::Driver,
        page::json,
        site::{Kind, Programs},
        wait::until,
    },
    process,
};

const WORKERS: u64 = 1000;
const APPLICATIONS: u64 = 1000;
const LIMIT: Duration = Duration::from_secs(240);

pub(super) fn measure(bench: &mut Bench, programs: &Programs) {
    let recovered = bench.tried("state of 1,000 workers and applications", recovered(programs));
    bench.bar("state_recovery_s", recovered, Target::AtMost(2.0));
}

/// Seconds from the start of the new master until it has read the state and answers with all of it.
fn recovered(programs: &Programs) -> Result<f64> {
    let directory = scratch("many")?.join("state").display().to_string();
    let settings = [
        ("spark.deploy.recoveryMode", "FILESYSTEM".to_owned()),
        ("spark.deploy.recoveryDirectory", directory),
    ];
    let mut masters = Masters::start(Kind::Firesteel(programs), 1, &settings, &[])?;
    let mut command = Command::new(process::sibling("firesteel-bench-load")?);
    command.args([&masters.site.url, &WORKERS.to_string(), &APPLICATIONS.to_string()]);
    let mut players = Driver::start(command)?;
    players.hear("LOADED", 1, LIMIT)?;
    masters.kill(0)?;
    let started = Instant::now();
    masters.restart(0, |_| {})?;
    let page = masters.page(0);
    until("a master with its state", LIMIT, || {
        let page = json(&page, "/json/").ok()?;
        let applications = page["activeapps"].as_array()?.len() as u64;
        let workers = page["workers"].as_array()?.len() as u64;
        (workers >= WORKERS && applications >= APPLICATIONS).then_some(())
    })?;
    let seconds = started.elapsed().as_secs_f64();
    drop(players.kill());
    Ok(seconds)
}
