//! `./bench k8s`: drivers and executors on a real Kubernetes cluster, against Spark's on the same one.
//!
//! | file | measures |
//! |---|---|
//! | `latency` | from `submit` to the first task that runs; from the deletion of an executor's pod to a task on the one that replaces it |
//! | `scale` | 500 executors' pods that no node takes: pods per second, requests to the API server |
//!
//! with `site` (the cluster of `./test k8s`), `sides` (how each side is submitted), `image` (Spark and a JRE as an image) and `knocks`
//! (tasks tell this process who runs them).

mod image;
mod knocks;
mod latency;
mod scale;
mod sides;
mod site;

use anyhow::Result;

use crate::{
    bars::{Bars, Bench, Target},
    cluster::site::Programs,
    engine::machine,
    spark::Spark,
};
use site::Site;

/// The names that `--only` takes.
pub(crate) const NAMES: [&str; 3] = ["latency", "memory", "scale"];

/// Measures what is named in `only`, or all, and prints a table; the bars are for the caller to print.
pub(crate) fn run(rounds: usize, only: &[String]) -> Result<Bars> {
    let programs = Programs::find()?;
    println!("machine: {}, and on Kubernetes", machine());
    let mut bench = Bench::default();
    let wanted = |name: &str| only.is_empty() || only.iter().any(|wanted| wanted == name);
    let site = Site::start(&programs)?;
    if wanted("latency") {
        let spark = bench.tried("Spark", Spark::prepare());
        latency::measure(&mut bench, &site, spark.as_ref(), rounds);
    }
    if wanted("memory") {
        let megabytes = bench.tried("memory of a driver", latency::idle_driver(&site));
        bench.bar("k8s_driver_rss_mb", megabytes, Target::AtMost(40.0));
    }
    if wanted("scale") {
        scale::measure(&mut bench, &site);
    }
    for problem in bench.problems() {
        println!("problem: {problem}");
    }
    Ok(bench.into_bars())
}
