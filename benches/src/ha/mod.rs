//! `./bench ha`: a cluster whose masters die, stand still or lose their store, beside Spark where Spark can do it.
//!
//! | file | measures |
//! |---|---|
//! | `faults` | masters that are killed, stopped, restarted with another clock; a ZooKeeper or etcd that is gone |
//! | `witness` | a leader that stands still while there is much to order: what it orders when it goes on |
//! | `applications` | 1,000 applications in cluster mode: does anything grow |
//! | `state` | a master that recovers 1,000 workers and 1,000 applications, from a directory and from ZooKeeper |
//! | `clients` | Spark's own `spark-submit`, another user of this machine, somebody who listens on the network |
//!
//! with `masters` (a cluster with several masters) and `ensemble` (a ZooKeeper or etcd server from Debian's packages).

mod applications;
mod clients;
mod ensemble;
mod faults;
mod masters;
mod state;
mod witness;

use anyhow::Result;

use crate::{
    bars::{Bars, Bench},
    cluster::site::Programs,
    engine::machine,
    spark::Spark,
};

/// The names that `--only` takes.
pub(crate) const NAMES: [&str; 7] =
    ["restart", "failover", "stopped", "store", "applications", "state", "clients"];

/// Measures what is named in `only`, or all, and prints tables; the bars are for the caller to print.
pub(crate) fn run(rounds: usize, only: &[String]) -> Result<Bars> {
    let programs = Programs::find()?;
    println!("machine: {}, and standalone", machine());
    let mut bench = Bench::default();
    let wanted = |name: &str| only.is_empty() || only.iter().any(|wanted| wanted == name);
    let spark = bench.tried("anything on Spark", Spark::prepare());
    faults::measure(&mut bench, spark.as_ref(), &programs, rounds, wanted);
    if wanted("applications") {
        applications::measure(&mut bench, &programs);
    }
    if wanted("state") {
        state::measure(&mut bench, &programs);
    }
    if wanted("clients") {
        clients::measure(&mut bench, spark.as_ref(), &programs);
    }
    for problem in bench.problems() {
        println!("problem: {problem}");
    }
    Ok(bench.into_bars())
}
