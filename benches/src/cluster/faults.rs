//! What happens when processes die, stop or cannot reach each other: how long until everything is as it should be again,
//! beside Spark under the same fault, and whether results stay right.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::{
    Bench, Kind, Plan, Programs, Site, Spot,
    driver::Driver,
    network::{Networks, plan},
    processes,
    wait::until,
};
use crate::{
    bars::Target,
    spark::Spark,
    table::{Spread, Table, Unit},
};

/// How long anything may take that happens at all.
const LIMIT: Duration = Duration::from_secs(90);
/// So long an application is watched whose executors cannot start.
const PATIENCE: Duration = Duration::from_secs(20);

/// Tasks of a round, how long one takes, and what their numbers add up to.
const TASKS: u64 = 40;
const MILLIS: u64 = 25;
const SUM: u64 = TASKS * (TASKS - 1) / 2;

/// The network of the two hosts that are cut off from each other.
const NETWORK: &str = "10.203.77";

/// How often executors are killed: the median counts.
const KILLS: usize = 3;

/// For both: silence is noticed soon. The last is Spark's alone.
const TIMEOUTS: [(&str, &str); 3] = [
    ("spark.network.timeout", "4s"),
    ("spark.executor.heartbeatInterval", "1s"),
    ("spark.network.timeoutInterval", "1s"),
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    ExecutorKill,
    WorkerKill,
    ExecutorStop,
    DriverKill,
    ExitAtOnce,
    NetworkCut,
}

const FAULTS: [Fault; 6] = [
    Fault::ExecutorKill,
    Fault::WorkerKill,
    Fault::ExecutorStop,
    Fault::DriverKill,
    Fault::ExitAtOnce,
    Fault::NetworkCut,
];

impl Fault {
    /// Its name in bars, the fault in words, and until when the time counts.
    fn names(self) -> [&'static str; 3] {
        match self {
            Self::ExecutorKill => ["executor_kill", "executor kill -9", "another registered"],
            Self::WorkerKill => ["worker_kill", "worker kill -9", "executor on the other worker"],
            Self::ExecutorStop => {
                ["executor_stop", "executor SIGSTOP, timeout 4 s", "another registered"]
            }
            Self::DriverKill => ["driver_kill", "driver kill -9", "executors gone, cores free"],
            Self::ExitAtOnce => ["exit_at_once", "executors exit at once", "application FAILED"],
            Self::NetworkCut => {
                ["network_cut", "driver and executor cut off, timeout 4 s", "another registered"]
            }
        }
    }

    /// Brings it about in a cluster of this kind.
    fn strike(self, bench: &mut Bench, kind: Kind<'_>) -> Result<Outcome> {
        if self == Self::NetworkCut {
            let networks = Networks::make(NETWORK, &["driver", "worker"])?;
            return on(bench, kind, &plan(&networks), |site| network_cut(site, &networks));
        }
        on(bench, kind, &Plan::here(&[1, 1]), |site| match self {
            Self::ExecutorKill => executor_kill(site),
            Self::WorkerKill => worker_kill(site),
            Self::ExecutorStop => executor_stop(site),
            Self::DriverKill => driver_kill(site),
            Self::ExitAtOnce => exit_at_once(site),
            Self::NetworkCut => unreachable!("it has networks of its own"),
        })
    }
}

/// How long it took, or that it had not happened after so long.
#[derive(Debug, Clone, Copy)]
enum Outcome {
    Over(Duration),
    NotWithin(Duration),
}

impl Outcome {
    fn seconds(self) -> Option<f64> {
        match self {
            Self::Over(after) => Some(after.as_secs_f64()),
            Self::NotWithin(_) => None,
        }
    }

    fn show(outcome: Option<Self>) -> String {
        match outcome {
            None => "not measured".to_owned(),
            Some(Self::Over(after)) => Unit::Seconds.show(after.as_secs_f64()),
            Some(Self::NotWithin(after)) => format!("not in {} s", after.as_secs()),
        }
    }
}

const HEAD: [&str; 5] = ["fault", "until", "Spark", "Firesteel", "times faster"];

pub(super) fn measure(bench: &mut Bench, spark: Option<&Spark>, programs: &Programs) {
    let mut table = Table::new(&HEAD);
    for fault in FAULTS {
        let [name, what, until] = fault.names();
        let mut strike = |kind, whose| {
            let outcome = fault.strike(bench, kind);
            eprintln!("{what}, {whose}: {outcome:?}");
            bench.tried(&format!("{what}, {whose}"), outcome)
        };
        let theirs = spark.and_then(|spark| strike(Kind::Spark(spark), "Spark"));
        let ours = strike(Kind::Firesteel(programs), "Firesteel");
        let seconds = |outcome: Option<Outcome>| outcome.and_then(Outcome::seconds);
        let ratio = seconds(theirs).zip(seconds(ours)).map(|(theirs, ours)| theirs / ours);
        let shown = ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.1}"));
        table.push(vec![
            what.to_owned(),
            until.to_owned(),
            Outcome::show(theirs),
            Outcome::show(ours),
            shown,
        ]);
        let right = ours.and_then(Outcome::seconds).is_some();
        bench.bar(&format!("{name}_right"), Some(f64::from(u8::from(right))), Target::AtLeast(1.0));
        if fault == Fault::ExecutorKill {
            bench.bar("executor_kill_vs_spark", ratio, Target::AtLeast(5.0));
        }
    }
    println!("\n{table}");
}

/// A cluster for one fault; it is looked at afterwards what is left of it.
fn on(
    bench: &mut Bench,
    kind: Kind<'_>,
    plan: &Plan,
    strike: impl FnOnce(&mut Site<'_>) -> Result<Outcome>,
) -> Result<Outcome> {
    let mut site = Site::start(kind, plan)?;
    let outcome = strike(&mut site);
    bench.stop(site);
    outcome
}

fn executor_kill(site: &mut Site<'_>) -> Result<Outcome> {
    let mut driver = survivor(site, &Spot::loopback(), 2, &[])?;
    let mut times = Vec::new();
    for _ in 0..KILLS {
        let victim = site.executors().pop().context("no executor runs")?;
        let after = replaced(&mut driver, || processes::signal(victim.pid, Signal::KILL))?;
        times.push(after.as_secs_f64());
        driver.hear("ROUND", 1, LIMIT)?;
    }
    right(&driver.finish(LIMIT)?)?;
    let median = Spread::of(times).context("nothing was killed")?.median;
    Ok(Outcome::Over(Duration::from_secs_f64(median)))
}

fn worker_kill(site: &mut Site<'_>) -> Result<Outcome> {
    let mut driver = survivor(site, &Spot::loopback(), 1, &[])?;
    let busy = site.workers.iter().position(|worker| !site.executors_of(worker).is_empty());
    let busy = busy.context("no executor runs")?;
    let after = replaced(&mut driver, || site.kill_worker(busy))?;
    driver.hear("ROUND", 1, LIMIT)?;
    right(&driver.finish(LIMIT)?)?;
    Ok(Outcome::Over(after))
}

fn executor_stop(site: &mut Site<'_>) -> Result<Outcome> {
    let mut driver = survivor(site, &Spot::loopback(), 2, timeouts(site))?;
    let victim = site.executors().pop().context("no executor runs")?;
    let after = replaced(&mut driver, || processes::signal(victim.pid, Signal::STOP))?;
    driver.hear("ROUND", 1, LIMIT)?;
    right(&driver.finish(LIMIT)?)?;
    let stopped = site.executors().into_iter().any(|executor| executor.pid == victim.pid);
    ensure!(!stopped, "the stopped executor is still there");
    Ok(Outcome::Over(after))
}

fn driver_kill(site: &mut Site<'_>) -> Result<Outcome> {
    let driver = survivor(site, &Spot::loopback(), 2, &[])?;
    let killed = Instant::now();
    processes::signal(driver.pid(), Signal::KILL)?;
    until("the end of executors and booked cores", LIMIT, || {
        let free = site.overview().ok()?.cores_used == 0;
        (free && site.executors().is_empty()).then_some(())
    })?;
    let after = killed.elapsed();
    // A driver may come back after its connection broke: its application is listed for a while.
    until("the end of the application", LIMIT, || {
        (site.overview().ok()?.active == 0).then_some(())
    })?;
    Ok(Outcome::Over(after))
}

/// Spark's Java does not know an option; our executors are told an address where no driver listens.
fn exit_at_once(site: &mut Site<'_>) -> Result<Outcome> {
    let settings: &[(&str, &str)] = match site.is_ours() {
        true => &[("spark.driver.host", "127.0.0.9"), ("spark.driver.bindAddress", "127.0.0.1")],
        false => &[("spark.executor.extraJavaOptions", "-XX:+NoSuchOption")],
    };
    let words = survive();
    let started = Instant::now();
    let mut driver = Driver::start(site.submit(&Spot::loopback(), 2, settings, &words))?;
    let Ok((success, stderr)) = driver.end(PATIENCE) else {
        return Ok(Outcome::NotWithin(PATIENCE));
    };
    let after = started.elapsed();
    ensure!(!success, "an application without executors ended well");
    ensure!(stderr.contains("executor"), "its driver does not say why it ended: {stderr}");
    let completed = until("the application on the master's page", LIMIT, || {
        Some(site.overview().ok()?.completed).filter(|completed| !completed.is_empty())
    })?;
    ensure!(completed == ["FAILED"], "the application is {completed:?}, not FAILED");
    Ok(Outcome::Over(after))
}

fn network_cut(site: &mut Site<'_>, networks: &Networks) -> Result<Outcome> {
    let (driver, worker) = (0, 1);
    let mut survivor = survivor(site, &networks.host(driver), 2, timeouts(site))?;
    survivor.catch_up();
    let cut = Instant::now();
    networks.cut(driver, worker)?;
    survivor.hear("EXECUTOR removed", 1, LIMIT)?;
    networks.heal(driver, worker)?;
    let after = survivor.hear("EXECUTOR added", 1, LIMIT)? - cut;
    survivor.hear("ROUND", 1, LIMIT)?;
    right(&survivor.finish(LIMIT)?)?;
    Ok(Outcome::Over(after))
}

fn timeouts(site: &Site<'_>) -> &'static [(&'static str, &'static str)] {
    if site.is_ours() { &TIMEOUTS[..2] } else { &TIMEOUTS }
}

fn survive() -> [std::ffi::OsString; 3] {
    ["survive".to_owned(), TASKS.to_string(), MILLIS.to_string()].map(Into::into)
}

/// An application that has its executors, one of each core, and is at work.
fn survivor(site: &Site<'_>, spot: &Spot, cores: u32, settings: &[(&str, &str)]) -> Result<Driver> {
    let mut driver = Driver::start(site.submit(spot, cores, settings, &survive()))?;
    driver.hear("EXECUTOR added", cores as usize, LIMIT)?;
    driver.hear("TASK", TASKS as usize / 4, LIMIT)?;
    Ok(driver)
}

/// From the strike until the next executor is registered.
fn replaced(driver: &mut Driver, strike: impl FnOnce() -> Result<()>) -> Result<Duration> {
    driver.catch_up();
    let struck = Instant::now();
    strike()?;
    Ok(driver.hear("EXECUTOR added", 1, LIMIT)? - struck)
}

/// Every round must have the right sum.
fn right(lines: &[String]) -> Result<()> {
    let mut rounds = lines.iter().filter_map(|line| line.strip_prefix("ROUND ")).peekable();
    ensure!(rounds.peek().is_some(), "the application ended without a result");
    for sum in rounds {
        ensure!(sum == SUM.to_string(), "a round has the sum {sum}, not {SUM}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{SUM, right};

    #[test]
    fn one_wrong_round_is_wrong() {
        let lines =
            |sums: &[u64]| sums.iter().map(|sum| format!("ROUND {sum}")).collect::<Vec<_>>();
        right(&lines(&[SUM, SUM])).unwrap();
        assert!(right(&lines(&[SUM, SUM + 1])).is_err());
        assert!(right(&["TASK".to_owned()]).is_err());
    }
}
