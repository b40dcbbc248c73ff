//! A master with the state of 1,000 workers and 1,000 applications, which is killed and started again.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use anyhow::Result;
use serde_json::Value;

use super::{
    Bench,
    ensemble::{Ensemble, Service},
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
    let seconds = scratch("many").and_then(|directory| {
        let directory = directory.join("state").display().to_string();
        let mode = ("spark.deploy.recoveryMode", "FILESYSTEM".to_owned());
        let settings = [mode, ("spark.deploy.recoveryDirectory", directory)];
        recovered(programs, &settings, Masters::kill)
    });
    let seconds = bench.tried("state of 1,000 workers and applications", seconds);
    bench.bar("state_recovery_s", seconds, Target::AtMost(2.0));
    let seconds = in_service(programs);
    let seconds = bench.tried("state of 1,000 workers and applications in ZooKeeper", seconds);
    bench.bar("state_recovery_zookeeper_s", seconds, Target::AtMost(2.0));
}

/// Of a master that is told to end, and gives its session back: what is measured is how long it takes to read all, and not how long
/// another session lasts.
fn in_service(programs: &Programs) -> Result<f64> {
    let ensemble = Ensemble::start(Service::ZooKeeper, &scratch("ensemble")?)?;
    recovered(programs, &ensemble.settings(), Masters::stop)
}

/// Seconds from the start of the new master until it leads, and every worker and every application has registered with it again and has
/// what it had.
fn recovered<'p>(
    programs: &'p Programs,
    settings: &[(&str, String)],
    end: fn(&mut Masters<'p>, usize) -> Result<()>,
) -> Result<f64> {
    let mut masters = Masters::start(Kind::Firesteel(programs), 1, settings, &[])?;
    let mut command = Command::new(process::sibling("firesteel-bench-load")?);
    command.args([&masters.site.url, &WORKERS.to_string(), &APPLICATIONS.to_string()]);
    let mut players = Driver::start(command)?;
    players.hear("LOADED", 1, LIMIT)?;
    let page = masters.page(0);
    let is_whole = || is_whole(&json(&page, "/json/").ok()?).then_some(());
    until("a master that knows all", LIMIT, is_whole)?;
    end(&mut masters, 0)?;
    let started = Instant::now();
    masters.restart(0, |_| {})?;
    until("a master that answers", LIMIT, || json(&page, "/metrics/master/json").ok())?;
    let answered = started.elapsed().as_secs_f64();
    // A short page is asked for until the long one is worth it: who measures is not to keep the master busy.
    until("a master with its workers", LIMIT, || {
        let gauges = json(&page, "/metrics/master/json").ok()?;
        (gauges["gauges"]["master.aliveWorkers"]["value"] == WORKERS).then_some(())
    })?;
    let workers = started.elapsed().as_secs_f64();
    until("a master that has all back", LIMIT, is_whole)?;
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "it answers after {answered:.2} s, has all workers after {workers:.2} s, and all after {seconds:.2} s"
    );
    drop(players.kill());
    Ok(seconds)
}

/// Whether it leads, with all workers and applications, and all cores are given to these.
fn is_whole(page: &Value) -> bool {
    let apps = page["activeapps"].as_array().map_or(&[][..], Vec::as_slice);
    let given: u64 = apps.iter().filter_map(|app| app["cores"].as_u64()).sum();
    let used = page["coresused"].as_u64();
    page["status"] == "ALIVE"
        && page["aliveworkers"] == WORKERS
        && apps.len() as u64 == APPLICATIONS
        && used.is_some_and(|used| used > 0 && page["cores"] == used && given == used)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{APPLICATIONS, WORKERS, is_whole};

    fn page(status: &str, workers: u64, applications: u64, cores: u64) -> Value {
        let mut apps = vec![json!({ "cores": 0 }); applications as usize];
        apps[0]["cores"] = cores.into();
        json!({ "status": status, "aliveworkers": workers, "activeapps": apps, "cores": 16, "coresused": 16 })
    }

    #[test]
    fn a_master_is_whole_when_it_leads_and_everybody_is_back_with_all_cores() {
        assert!(is_whole(&page("ALIVE", WORKERS, APPLICATIONS, 16)));
        assert!(!is_whole(&page("RECOVERING", WORKERS, APPLICATIONS, 16)));
        assert!(!is_whole(&page("ALIVE", WORKERS - 1, APPLICATIONS, 16)));
        assert!(!is_whole(&page("ALIVE", WORKERS, APPLICATIONS - 1, 16)));
        assert!(!is_whole(&page("ALIVE", WORKERS, APPLICATIONS, 15)));
    }
}
