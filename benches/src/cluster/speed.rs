//! Starting and ending an application, empty tasks, and memory of processes that do nothing.

use std::{thread, time::Duration};

use anyhow::{Context, Result};

use super::{Bench, Site, Spot, driver::Driver, processes::megabytes};
use crate::{
    bars::Target,
    contest::Contest,
    engine::times_faster,
    job::{Job, Sample, Side},
    table::{Row, Table, Unit},
};

/// After so much time what was needed to start has settled.
const IDLE: Duration = Duration::from_secs(3);

const MINUTE: Duration = Duration::from_secs(60);

/// Applications and tasks that do nothing, in turns.
pub(super) fn measure(bench: &mut Bench, spark: Option<&Site<'_>>, ours: Option<&Site<'_>>) {
    let mut table = Table::new(&Row::HEAD);
    for (job, name, times) in
        [(Job::Trivial, "start_vs_spark", 20.0), (Job::Tasks, "tasks10000_vs_spark", 15.0)]
    {
        let sides = [spark.map_or(Side::NoSpark, Side::Cluster), our_side(ours)];
        let mut contest = Contest::hold(&job, &sides.each_ref(), bench.rounds);
        bench.problems.append(&mut contest.problems);
        let seconds = |sample: &Sample| sample.seconds;
        let [theirs, ours] = &contest.runs[..] else { panic!("there are two sides") };
        let (other_name, other, ours) = (theirs.side, theirs.spread(seconds), ours.spread(seconds));
        let value = other.zip(ours).map(|(other, ours)| times_faster(other.median, ours.median));
        let target = Target::AtLeast(times);
        let shown = value.map_or("-".to_owned(), |value| format!("{value:.1}"));
        let verdict = format!("{shown}, {target}");
        let (name_in_table, unit) = (job.to_string(), Unit::Seconds);
        table.push(Row { name: name_in_table, unit, other_name, other, ours, verdict }.cells());
        bench.bar(name, value, target);
    }
    println!("\n{table}");
}

/// Without a cluster of ours there is nothing to run.
pub(super) fn our_side<'a>(ours: Option<&'a Site<'a>>) -> Side<'a> {
    ours.map_or_else(|| Side::Firesteel("a-cluster-that-did-not-start".into()), Side::Cluster)
}

/// Resident memory of master and worker that wait for work, then of an executor that did little.
pub(super) fn memory(bench: &mut Bench, ours: Option<&Site<'_>>) {
    thread::sleep(IDLE);
    let resident = |pid: u32| megabytes(pid as i32);
    let master = ours.and_then(|site| Some(resident(site.master.as_ref()?.id())));
    let master = master.and_then(|master| bench.tried("memory of the master", master));
    bench.bar("master_rss_mb", master, Target::AtMost(15.0));
    let workers = ours.map(|site| {
        let all: Result<Vec<f64>> = site.workers.iter().map(|it| resident(it.id())).collect();
        Ok(all?.into_iter().fold(0.0, f64::max))
    });
    let workers = workers.and_then(|workers| bench.tried("memory of the workers", workers));
    bench.bar("worker_rss_mb", workers, Target::AtMost(15.0));
    let executor = ours.map(executor_megabytes);
    let executor = executor.and_then(|it| bench.tried("memory of an executor", it));
    bench.bar("executor_rss_mb", executor, Target::AtMost(25.0));
}

/// The largest executor of an application that counted a thousand numbers and waits.
fn executor_megabytes(site: &Site<'_>) -> Result<f64> {
    let mut driver = Driver::start(site.submit(&Spot::loopback(), 2, &[], &["hold".into()]))?;
    driver.hear("RESULT trivial 1000", 1, MINUTE)?;
    thread::sleep(IDLE / 3);
    let executors: Result<Vec<f64>> =
        site.executors().iter().map(|executor| megabytes(executor.pid)).collect();
    let largest = executors?.into_iter().reduce(f64::max).context("no executor runs")?;
    driver.finish(MINUTE)?;
    Ok(largest)
}
