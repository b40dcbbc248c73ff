//! How long users wait: for the first task, and for an executor that somebody took away. And what an idle driver takes.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::{Bench, image, knocks::Knocks, sides::Side, site::Site};
use crate::{
    bars::Target,
    cluster::{
        processes::{megabytes, variable},
        wait::until,
    },
    engine::times_faster,
    spark::Spark,
    table::{Row, Spread, Table, Unit},
};

const LIMIT: Duration = Duration::from_secs(180);
/// How long a driver has been idle when its memory is looked at.
const IDLE: Duration = Duration::from_secs(5);
/// The variable by which its process is found.
const MARK: &str = "BENCH_IDLE_DRIVER";

/// In seconds.
struct Times {
    first_task: f64,
    recovery: f64,
}

type Time = fn(&Times) -> f64;

/// Both sides in turns, on one cluster.
pub(super) fn measure(bench: &mut Bench, site: &Site, spark: Option<&Spark>, rounds: usize) {
    let spark = spark.and_then(|spark| {
        bench.tried("Spark's image", image::load(site, spark)).map(|()| Side::Spark(spark))
    });
    let sides: Vec<Side<'_>> = spark.into_iter().chain([Side::Ours]).collect();
    for side in &sides {
        bench.tried("a namespace", site.namespace(side.namespace()));
    }
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        for side in &sides {
            let times = bench.tried(side.namespace(), once(site, *side));
            bench.tried("the end of an application", site.clear(side.namespace()));
            match side {
                Side::Ours => ours.extend(times),
                Side::Spark(_) => theirs.extend(times),
            }
        }
    }
    let mut table = Table::new(&Row::HEAD);
    for (name, bar, time) in [
        ("submit to first task", "k8s_first_task_factor", first_task as Time),
        ("recovery after a pod deletion", "k8s_recovery_factor", recovery as Time),
    ] {
        let spread = |all: &[Times]| Spread::of(all.iter().map(time));
        let (other, own) = (spread(&theirs), spread(&ours));
        if bar == "k8s_recovery_factor" {
            let seconds = own.as_ref().map(|own| own.median);
            bench.bar("k8s_recovery_s", seconds, Target::AtMost(5.0));
        }
        let ratio = other.zip(own).map(|(other, own)| times_faster(other.median, own.median));
        bench.bar(bar, ratio, Target::AtLeast(5.0));
        let verdict = ratio.map_or_else(String::new, |ratio| format!("{ratio:.1} times, 5"));
        let (name, unit) = (name.to_owned(), Unit::Seconds);
        table.push(Row { name, unit, other_name: "Spark", other, ours: own, verdict }.cells());
    }
    print!("{table}");
}

fn first_task(times: &Times) -> f64 {
    times.first_task
}

fn recovery(times: &Times) -> f64 {
    times.recovery
}

/// One application: its first task, then a pod is deleted.
fn once(site: &Site, side: Side<'_>) -> Result<Times> {
    let knocks = Knocks::listen()?;
    let since = Instant::now();
    side.submit(site, &[], &["knock", knocks.address()])?;
    let (began, first) = knocks.next_but(&[], LIMIT)?;
    let (_, second) = knocks.next_but(std::slice::from_ref(&first), LIMIT)?;
    // Names of hosts are those of pods.
    let pods = format!("/api/v1/namespaces/{}/pods", side.namespace());
    let known = [first, second];
    knocks.forget();
    let deleted = Instant::now();
    site.ask("DELETE", &format!("{pods}/{}", known[0]), None)?;
    let (back, _) = knocks.next_but(&known, LIMIT)?;
    Ok(Times {
        first_task: began.duration_since(since).as_secs_f64(),
        recovery: back.duration_since(deleted).as_secs_f64(),
    })
}

/// Resident memory of a driver in its pod that has two executors and no job, in units of a million bytes.
pub(super) fn idle_driver(site: &Site) -> Result<f64> {
    let namespace = Side::Ours.namespace();
    // It is there if something was measured before.
    let _ = site.namespace(namespace);
    let marks = [format!("spark.kubernetes.driverEnv.{MARK}=1")];
    Side::Ours.submit(site, &marks, &["idle"])?;
    let look = || site.executors(namespace).ok().filter(|running| running.len() == 2);
    until("two executors", LIMIT, look)?;
    thread::sleep(IDLE);
    let pid = until("the driver's process", LIMIT, driver)?;
    let found = megabytes(pid);
    site.clear(namespace)?;
    found
}

fn driver() -> Option<i32> {
    let entries = fs::read_dir("/proc").ok()?;
    let mut pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.find(|pid| variable(*pid, MARK).is_some())
}
