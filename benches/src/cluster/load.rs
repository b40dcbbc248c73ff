//! One master of ours with 200 workers and 50 applications, which a program on this machine plays.

use std::{process::Command, time::Duration};

use anyhow::{Context, Result};

use super::{Bench, Kind, Plan, Programs, Site, driver::Driver, page, processes::megabytes};
use crate::{bars::Target, process};

const LIMIT: Duration = Duration::from_secs(120);

const WORKERS: u64 = 200;
const APPLICATIONS: u64 = 50;

/// What was seen of the master while it was under load.
struct Load {
    round_ms: f64,
    megabytes: f64,
}

pub(super) fn measure(bench: &mut Bench, programs: &Programs) {
    let site = Site::start(Kind::Firesteel(programs), &Plan::here(&[]));
    let load = bench.tried("a master for many", site).and_then(|site| {
        let load = put_under_load(&site);
        bench.stop(site);
        bench.tried("a master under load", load)
    });
    let value = |value: fn(&Load) -> f64| load.as_ref().map(value);
    bench.bar("load_longest_round_ms", value(|load| load.round_ms), Target::AtMost(10.0));
    bench.bar("load_master_rss_mb", value(|load| load.megabytes), Target::AtMost(60.0));
}

fn put_under_load(site: &Site<'_>) -> Result<Load> {
    let mut command = Command::new(process::sibling("firesteel-bench-load")?);
    command.args([&site.url, &WORKERS.to_string(), &APPLICATIONS.to_string()]);
    let mut players = Driver::start(command)?;
    players.hear("LOADED", 1, LIMIT)?;
    let master = site.master.as_ref().context("it has a master")?;
    let megabytes = megabytes(master.id() as i32)?;
    let metrics = page::json(&site.page, "/metrics/master/json")?;
    let gauge = |name: &str| {
        let value = metrics["gauges"][name]["value"].as_f64();
        value.with_context(|| format!("the master tells no {name}"))
    };
    let seen = [gauge("master.aliveWorkers")?, gauge("master.apps")?];
    anyhow::ensure!(
        seen == [WORKERS as f64, APPLICATIONS as f64],
        "the master has {seen:?} workers and applications"
    );
    let round_ms = gauge("master.longestRoundMicros")? / 1e3;
    players.finish(LIMIT)?;
    Ok(Load { round_ms, megabytes })
}
