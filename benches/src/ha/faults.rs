//! What becomes of an application whose master is killed, stands still, has a wrong clock or loses its store.

use std::{
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::{
    Bench,
    ensemble::{Ensemble, Service},
    masters::{Masters, scratch},
    witness,
};
use crate::{
    bars::Target,
    chaos::clock::Clocks,
    cluster::{
        Spot,
        driver::Driver,
        processes,
        site::{Kind, Programs},
        wait::until,
    },
    spark::Spark,
    table::{Spread, Table, Unit},
};

/// How long anything may take that happens at all: Spark's session with ZooKeeper lasts for a minute.
const LIMIT: Duration = Duration::from_secs(240);
/// So long the ensemble is gone.
const GONE: Duration = Duration::from_secs(60);
const HOUR_MS: i64 = 3_600_000;

/// Tasks of a round before and after its shuffle, how long one takes, and what their numbers add up to.
const TASKS: u64 = 40;
const REDUCES: u64 = 2;
const MILLIS: u64 = 50;
const SUM: u64 = TASKS * (TASKS - 1) / 2;

/// What an application saw of a fault.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    /// From the fault until a master served everybody again.
    seconds: f64,
    executors_lost: usize,
    /// Executors that nobody needed: none was lost.
    executors_launched: usize,
    tasks_rerun: u64,
    /// Cached partitions that had to be computed again.
    recomputed: u64,
}

/// So much longer an application of ours is watched once a master serves everybody again: a master drops those that do not answer only
/// after a grace, a heartbeat or all of its recovery.
const LISTEN: Duration = Duration::from_secs(20);

/// Settings of masters with which all of those are over by then. Where times are compared, those of Spark stay.
const SHORT: [(&str, &str); 2] =
    [("spark.worker.timeout", "8s"), ("spark.deploy.recoveryTimeout", "10s")];

/// Brings a fault about; the moment from which the time counts.
type Strike<'s> = &'s mut dyn FnMut(&mut Masters<'_>) -> Result<Instant>;

pub(super) fn measure(
    bench: &mut Bench,
    spark: Option<&Spark>,
    programs: &Programs,
    rounds: usize,
    wanted: impl Fn(&str) -> bool,
) {
    let ours = Kind::Firesteel(programs);
    let theirs = spark.map(Kind::Spark);
    let mut table = Table::new(&["fault", "Spark", "Firesteel", "times faster"]);
    if wanted("restart") {
        compare(bench, &mut table, "restart", (theirs, ours), rounds, &restarted_with_directory);
        alone(bench, &mut table, "restart_none", None, || with_none(ours));
        alone(bench, &mut table, "clock", None, || with_wrong_clock(ours));
    }
    if wanted("failover") {
        let with = |service| move |kind: Kind<'_>| leader_killed(kind, service);
        let both = (theirs, ours);
        let spark = compare(bench, &mut table, "failover", both, rounds, &with(Service::ZooKeeper));
        // Spark's masters know no etcd: theirs with ZooKeeper are the measure.
        let etcd = rounds_of(bench, "failover_etcd", ours, rounds, &with(Service::Etcd));
        judge(bench, &mut table, "failover_etcd", spark, etcd.as_deref());
    }
    for (service, suffix) in [(Service::ZooKeeper, ""), (Service::Etcd, "_etcd")] {
        let theirs = theirs.filter(|_| service == Service::ZooKeeper);
        if wanted("stopped") {
            let name = format!("stopped{suffix}");
            let spark = beside(bench, &name, theirs, &|kind| leader_stopped(kind, service));
            alone(bench, &mut table, &name, spark, || leader_stopped(ours, service));
            let late = bench.tried(&name, witness::late_orders(programs, service));
            bench.bar(&format!("{name}_late_orders"), late, Target::AtMost(0.0));
        }
        if wanted("store") {
            let name = format!("store{suffix}");
            let spark = beside(bench, &name, theirs, &|kind| store_gone(kind, service));
            alone(bench, &mut table, &name, spark, || store_gone(ours, service));
        }
    }
    if wanted("stopped") {
        let wrong = scratch("state").and_then(|directory| {
            witness::wrong_orders_with_directory(programs, &file_system(&directory))
        });
        let wrong = bench.tried("stopped_file_system", wrong);
        bench.bar("stopped_file_system_wrong_orders", wrong, Target::AtMost(0.0));
    }
    println!("\n{table}");
}

/// One fault on both sides, in turns; the medians are compared. Spark's.
fn compare(
    bench: &mut Bench,
    table: &mut Table,
    name: &str,
    (theirs, ours): (Option<Kind<'_>>, Kind<'_>),
    rounds: usize,
    strike: &dyn Fn(Kind<'_>) -> Result<Outcome>,
) -> Option<f64> {
    let (mut spark, mut firesteel) = (Vec::new(), Some(Vec::new()));
    for _ in 0..rounds {
        let outcome = theirs.and_then(|kind| bench.tried(&format!("{name}, Spark"), strike(kind)));
        spark.extend(outcome);
        let outcome = rounds_of(bench, name, ours, 1, strike);
        firesteel = firesteel.zip(outcome).map(|(before, now)| [before, now].concat());
    }
    let spark = median(&spark);
    judge(bench, table, name, spark, firesteel.as_deref());
    spark
}

/// So many outcomes of one fault; `None` if one could not be measured.
fn rounds_of(
    bench: &mut Bench,
    name: &str,
    ours: Kind<'_>,
    rounds: usize,
    strike: &dyn Fn(Kind<'_>) -> Result<Outcome>,
) -> Option<Vec<Outcome>> {
    let strike = || strike(ours);
    (0..rounds).map(|_| bench.tried(&format!("{name}, Firesteel"), strike())).collect()
}

fn median(outcomes: &[Outcome]) -> Option<f64> {
    Spread::of(outcomes.iter().map(|outcome| outcome.seconds)).map(|it| it.median)
}

/// The bars of one fault: nothing lost, and five times as fast as Spark.
fn judge(
    bench: &mut Bench,
    table: &mut Table,
    name: &str,
    spark: Option<f64>,
    outcomes: Option<&[Outcome]>,
) {
    let ours = outcomes.and_then(median);
    row(table, name, spark, ours);
    harm(bench, name, outcomes);
    let ratio = spark.zip(ours).map(|(spark, ours)| spark / ours);
    bench.bar(&format!("{name}_vs_spark"), ratio, Target::AtLeast(5.0));
}

/// One that Spark does not survive (then there is no time of Spark's), or that says nothing about speed.
fn alone(
    bench: &mut Bench,
    table: &mut Table,
    name: &str,
    spark: Option<f64>,
    strike: impl FnOnce() -> Result<Outcome>,
) {
    let outcome = bench.tried(name, strike());
    row(table, name, spark, outcome.map(|outcome| outcome.seconds));
    harm(bench, name, outcome.as_ref().map(std::slice::from_ref));
}

/// What Spark makes of it, for the table: no bar depends on it.
fn beside(
    bench: &mut Bench,
    name: &str,
    theirs: Option<Kind<'_>>,
    strike: &dyn Fn(Kind<'_>) -> Result<Outcome>,
) -> Option<f64> {
    let outcome = bench.tried(&format!("{name}, Spark"), strike(theirs?))?;
    let Outcome { executors_lost, executors_launched, tasks_rerun, recomputed, .. } = outcome;
    println!(
        "{name}, Spark: {executors_lost} executors lost, {executors_launched} launched, {tasks_rerun} tasks rerun, {recomputed} partitions computed again"
    );
    Some(outcome.seconds)
}

fn row(table: &mut Table, name: &str, spark: Option<f64>, ours: Option<f64>) {
    let show = |seconds: Option<f64>| seconds.map_or("-".to_owned(), |it| Unit::Seconds.show(it));
    let ratio = spark.zip(ours).map_or("-".to_owned(), |(a, b)| format!("{:.1}", a / b));
    table.push(vec![name.to_owned(), show(spark), show(ours), ratio]);
}

/// Nobody may have lost anything.
fn harm(bench: &mut Bench, name: &str, outcomes: Option<&[Outcome]>) {
    let sum = |of: fn(&Outcome) -> f64| outcomes.map(|all| all.iter().map(of).sum());
    type Count = fn(&Outcome) -> f64;
    let counts: [(&str, Count); 4] = [
        ("executors_lost", |outcome| outcome.executors_lost as f64),
        ("executors_launched", |outcome| outcome.executors_launched as f64),
        ("tasks_rerun", |outcome| outcome.tasks_rerun as f64),
        ("partitions_recomputed", |outcome| outcome.recomputed as f64),
    ];
    for (what, count) in counts {
        bench.bar(&format!("{name}_{what}"), sum(count), Target::AtMost(0.0));
    }
}

fn restarted_with_directory(kind: Kind<'_>) -> Result<Outcome> {
    let directory = scratch("state")?;
    observe(kind, 1, &file_system(&directory), &mut |masters: &mut Masters<'_>| {
        let struck = Instant::now();
        masters.kill(0)?;
        masters.restart(0, |_| {})?;
        Ok(struck)
    })
}

fn with_none(kind: Kind<'_>) -> Result<Outcome> {
    observe(kind, 1, &short(&[]), &mut |masters: &mut Masters<'_>| {
        let struck = Instant::now();
        masters.kill(0)?;
        masters.restart(0, |_| {})?;
        Ok(struck)
    })
}

/// The master comes back with a clock that is an hour ahead, and once more with the right one.
fn with_wrong_clock(kind: Kind<'_>) -> Result<Outcome> {
    let directory = scratch("state")?;
    let clocks = Clocks::make(&scratch("clocks")?, 1)?;
    observe(kind, 1, &short(&file_system(&directory)), &mut |masters: &mut Masters<'_>| {
        for offset in [HOUR_MS, 0] {
            clocks.set(0, offset)?;
            masters.kill(0)?;
            masters.restart(0, |command| clocks.give(command, 0))?;
            whole(masters)?;
        }
        Ok(Instant::now())
    })
}

fn leader_killed(kind: Kind<'_>, service: Service) -> Result<Outcome> {
    let ensemble = Ensemble::start(service, &scratch("ensemble")?)?;
    observe(kind, 3, &ensemble.settings(), &mut |masters: &mut Masters<'_>| {
        let (leader, _) = masters.leader().context("nobody leads")?;
        let struck = Instant::now();
        masters.kill(leader)?;
        Ok(struck)
    })
}

/// It stands still until another one leads, and goes on.
fn leader_stopped(kind: Kind<'_>, service: Service) -> Result<Outcome> {
    let ensemble = Ensemble::start(service, &scratch("ensemble")?)?;
    let settings = settings_of(kind, &ensemble);
    observe(kind, 2, &settings, &mut |masters: &mut Masters<'_>| {
        let (leader, _) = masters.leader().context("nobody leads")?;
        let struck = Instant::now();
        processes::signal(masters.pid(leader), Signal::STOP)?;
        let other = 1 - leader;
        let led =
            until("another leader", LIMIT, || (masters.status(other) == "ALIVE").then_some(()));
        processes::signal(masters.pid(leader), Signal::CONT)?;
        led?;
        // Spark's ends itself.
        let leads = |status: &str| ["ALIVE", "RECOVERING", "COMPLETING_RECOVERY"].contains(&status);
        until("the old one leads no longer", LIMIT, || {
            let status = masters.status(leader);
            let is_over = if is_ours(kind) { status == "STANDBY" } else { !leads(&status) };
            is_over.then_some(())
        })?;
        Ok(struck)
    })
}

fn store_gone(kind: Kind<'_>, service: Service) -> Result<Outcome> {
    let mut ensemble = Ensemble::start(service, &scratch("ensemble")?)?;
    let settings = settings_of(kind, &ensemble);
    observe(kind, 2, &settings, &mut |masters: &mut Masters<'_>| {
        ensemble.kill()?;
        sleep(GONE);
        ensure!(masters.leader().is_none(), "a master leads without its store");
        ensemble.restart()?;
        Ok(Instant::now())
    })
}

fn is_ours(kind: Kind<'_>) -> bool {
    matches!(kind, Kind::Firesteel(_))
}

/// Spark's workers do not come back in so short a time.
fn settings_of(kind: Kind<'_>, ensemble: &Ensemble) -> Vec<(&'static str, String)> {
    let settings = ensemble.settings();
    if is_ours(kind) { short(&settings) } else { settings.to_vec() }
}

fn short(settings: &[(&'static str, String)]) -> Vec<(&'static str, String)> {
    let short = SHORT.map(|(key, value)| (key, value.to_owned()));
    settings.iter().cloned().chain(short).collect()
}

fn file_system(directory: &Path) -> [(&'static str, String); 2] {
    let directory = directory.join("state").display().to_string();
    let _ = std::fs::create_dir_all(&directory); // Spark wants it to be there
    [
        ("spark.deploy.recoveryMode", "FILESYSTEM".to_owned()),
        ("spark.deploy.recoveryDirectory", directory),
    ]
}

/// An application that shuffles cached data over and over on two executors, and what it sees of a fault.
fn observe(
    kind: Kind<'_>,
    count: usize,
    settings: &[(&str, String)],
    strike: Strike<'_>,
) -> Result<Outcome> {
    let mut masters = Masters::start(kind, count, settings, &[1, 1])?;
    let words = ["survive".to_owned(), TASKS.to_string(), MILLIS.to_string()].map(Into::into);
    let mut driver = Driver::start(masters.site.submit(&Spot::loopback(), 2, &[], &words))?;
    driver.hear("EXECUTOR added", 2, LIMIT)?;
    driver.hear("ROUND", 1, LIMIT)?;
    driver.hear("TASK", TASKS as usize / 4, LIMIT)?;
    let pids = |masters: &Masters<'_>| -> Vec<i32> {
        masters.site.executors().iter().map(|executor| executor.pid).collect()
    };
    let before = pids(&masters);
    let struck = strike(&mut masters)?;
    whole(&masters)?;
    let seconds = struck.elapsed().as_secs_f64();
    // What it said during the fault says nothing of the time after it.
    driver.catch_up();
    let served = Instant::now();
    driver.hear("ROUND", 2, LIMIT)?;
    while is_ours(kind) && served.elapsed() < LISTEN {
        driver.hear("ROUND", 1, LIMIT)?;
    }
    let after = pids(&masters);
    let gone = before.iter().filter(|pid| !after.contains(pid)).count();
    let launched = after.iter().filter(|pid| !before.contains(pid)).count();
    // Before its end, with which all are removed.
    let heard = |words: &str| driver.heard().iter().filter(|line| line.starts_with(words)).count();
    let (removed, added) = (heard("EXECUTOR removed"), heard("EXECUTOR added"));
    let lines = driver.finish(LIMIT)?;
    Ok(Outcome {
        seconds,
        executors_lost: gone.max(removed),
        executors_launched: launched.max(added.saturating_sub(before.len())),
        tasks_rerun: rerun(&lines)?,
        recomputed: recomputed(&lines)?,
    })
}

/// Waits until a master serves everybody.
fn whole(masters: &Masters<'_>) -> Result<()> {
    until("a master that knows all", LIMIT, || masters.is_whole(2).then_some(()))
}

/// How many tasks ran once more. Every round must have the right sum.
fn rerun(lines: &[String]) -> Result<u64> {
    let rounds: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("ROUND ")).collect();
    ensure!(!rounds.is_empty(), "the application ended without a result");
    for sum in &rounds {
        ensure!(*sum == SUM.to_string(), "a round has the sum {sum}, not {SUM}");
    }
    let tasks = lines.iter().filter(|line| *line == "TASK").count() as u64;
    Ok(tasks.saturating_sub(rounds.len() as u64 * (TASKS + REDUCES)))
}

/// How many cached partitions were computed more than once.
fn recomputed(lines: &[String]) -> Result<u64> {
    let last = lines.iter().rev().find_map(|line| line.strip_prefix("CACHED "));
    let computed: u64 = last.context("the application has nothing cached")?.parse()?;
    computed.checked_sub(TASKS).context("not every partition was cached")
}

#[cfg(test)]
mod tests {
    use super::{REDUCES, SUM, TASKS, recomputed, rerun};

    #[test]
    fn partitions_beyond_those_of_the_first_round_were_computed_again() {
        let lines = |last: u64| [format!("CACHED {TASKS}"), format!("CACHED {last}")];
        assert_eq!(recomputed(&lines(TASKS)).unwrap(), 0);
        assert_eq!(recomputed(&lines(TASKS + 3)).unwrap(), 3);
        assert!(recomputed(&lines(1)).is_err());
        assert!(recomputed(&["ROUND 1".to_owned()]).is_err());
    }

    #[test]
    fn tasks_beyond_those_of_the_rounds_ran_twice_and_a_wrong_sum_is_an_error() {
        let mut lines = vec!["TASK".to_owned(); 2 * (TASKS + REDUCES) as usize];
        lines.extend([format!("ROUND {SUM}"), format!("ROUND {SUM}")]);
        assert_eq!(rerun(&lines).unwrap(), 0);
        lines.extend(["TASK".to_owned(), "EXECUTOR removed 1".to_owned()]);
        assert_eq!(rerun(&lines).unwrap(), 1);
        lines.push("ROUND 1".to_owned());
        assert!(rerun(&lines).is_err());
        assert!(rerun(&[]).is_err());
    }
}
