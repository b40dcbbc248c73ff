//! `./bench cluster`: a standalone cluster of real processes against Spark's, on this machine.
//!
//! | file | measures |
//! |---|---|
//! | `speed` | starting and ending an application, 10,000 empty tasks; memory of processes that do nothing |
//! | `jobs` | whether jobs keep the factors they have in local mode |
//! | `faults`, `network` | what happens when processes die, stop, or cannot reach each other |
//! | `load` | a master with 200 workers and 50 applications |
//!
//! with `site` (a cluster that runs), `driver` (an application that runs), `page` (what a master says), `processes`
//! (what the system says), `wait`.

pub(crate) mod driver;
mod faults;
mod jobs;
mod load;
pub(crate) mod network;
pub(crate) mod page;
pub(crate) mod processes;
pub(crate) mod site;
mod speed;
pub(crate) mod wait;

use anyhow::Result;

use crate::{
    bars::{Bar, Bars, Target},
    engine::machine,
    spark::Spark,
};
use site::{Kind, Plan, Programs};
pub(crate) use site::{Site, Spot};

/// The names that `--only` takes.
pub(crate) const NAMES: [&str; 5] = ["speed", "memory", "jobs", "faults", "load"];

/// What one run has measured so far.
#[derive(Debug)]
struct Bench {
    rounds: usize,
    bars: Bars,
    problems: Vec<String>,
    /// Processes that were there when everything should have ended.
    leftovers: usize,
}

impl Bench {
    fn bar(&mut self, name: &str, value: Option<f64>, target: Target) {
        self.bars.push(Bar { name: name.to_owned(), value, target });
    }

    /// What came out, or the reason why nothing did.
    fn tried<T>(&mut self, what: &str, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.problems.push(format!("{what}: {error:#}"))).ok()
    }

    /// Ends a cluster; of ours nothing may be left.
    fn stop(&mut self, site: Site<'_>) {
        let ours = site.is_ours();
        let left = site.stop();
        for process in &left {
            self.problems.push(format!("left running: {} ({})", process.command, process.pid));
        }
        self.leftovers += if ours { left.len() } else { 0 };
    }
}

/// Measures what is named in `only`, or all, and prints tables; the bars are for the caller to print.
pub(crate) fn run(rounds: usize, only: &[String]) -> Result<Bars> {
    let programs = Programs::find()?;
    println!("machine: {}, and standalone", machine());
    let mut bench = Bench { rounds, bars: Bars::default(), problems: vec![], leftovers: 0 };
    let spark = bench.tried("anything on Spark", Spark::prepare());
    let wanted = |name: &str| only.is_empty() || only.iter().any(|wanted| wanted == name);
    if ["speed", "memory", "jobs"].into_iter().any(wanted) {
        let spark = spark.as_ref().map(Kind::Spark);
        on_two_workers(&mut bench, spark, &programs, wanted);
    }
    if wanted("faults") {
        faults::measure(&mut bench, spark.as_ref(), &programs);
    }
    if wanted("load") {
        load::measure(&mut bench, &programs);
    }
    let leftovers = bench.leftovers as f64;
    bench.bar("leftover_processes", Some(leftovers), Target::AtMost(0.0));
    for problem in &bench.problems {
        println!("problem: {problem}");
    }
    Ok(bench.bars)
}

/// What runs on two workers of one core, of both kinds, which are there all the while.
fn on_two_workers(
    bench: &mut Bench,
    spark: Option<Kind<'_>>,
    programs: &Programs,
    wanted: impl Fn(&str) -> bool,
) {
    let plan = Plan::here(&[1, 1]);
    let ours = Site::start(Kind::Firesteel(programs), &plan);
    let ours = bench.tried("a cluster", ours);
    if wanted("memory") {
        speed::memory(bench, ours.as_ref());
    }
    let theirs = spark.and_then(|spark| bench.tried("Spark's cluster", Site::start(spark, &plan)));
    if wanted("speed") {
        speed::measure(bench, theirs.as_ref(), ours.as_ref());
    }
    if wanted("jobs") {
        jobs::measure(bench, programs, spark, theirs.as_ref(), ours.as_ref());
    }
    for site in [ours, theirs].into_iter().flatten() {
        bench.stop(site);
    }
}
