//! `./bench`: measures, prints a table and one line per bar, and exits non-zero when a bar is short.
//!
//! ```text
//! main ── arguments              what was asked for
//!   ├── engine, rdd ──┬── spark    finds or installs Spark, compiles the jobs in Scala
//!   │                 ├── data     writes the inputs, once
//!   │                 └── contest  one job on several sides, in turns
//!   │                      └── job    what runs on each side and which number counts
//!   ├── engine ── guarantees       one job with and without what can be left out, in turns
//!   ├── memory ── scratch          a place for large files
//!   ├── cluster                  masters and workers of both kinds, what is killed of them, many workers at once
//!   ├── ha                       masters that die, stand still, lose their store
//!   ├── k8s                      a real Kubernetes cluster, pods of both kinds
//!   ├── history                  history servers of both kinds, what writing event logs costs
//!   ├── pages                    pages in a browser beside Spark's, what open ones cost
//!   ├── chaos                    `./chaos`: a cluster under random faults
//!   │       all of them: process, output   run a child, read what it printed; table
//!   └── bars                    `bar NAME VALUE TARGET ok|short` and the exit code
//! ```
//!
//! Nothing is measured inside this process: Spark, Firesteel and the hand-written loops all run as children, in turns,
//! because the machines are noisy and only ratios from one run mean anything.

mod arguments;
mod bars;
mod cache;
mod chaos;
mod cluster;
mod contest;
mod data;
mod engine;
mod guarantees;
mod ha;
mod history;
mod job;
mod k8s;
mod memory;
mod output;
mod pages;
mod process;
mod rdd;
mod scratch;
mod spark;
mod table;

use std::process::ExitCode;

use arguments::Request;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments::parse(&words) {
        Ok(request) => run(&request),
        Err(problem) => {
            eprintln!("bench: {problem}; `./bench` alone and `./chaos --help` tell how to use it");
            ExitCode::from(2)
        }
    }
}

fn run(request: &Request) -> ExitCode {
    let bars = match request {
        Request::Chaos(options) if options.only_schedule => {
            chaos::print_schedule(options);
            return ExitCode::SUCCESS;
        }
        Request::Chaos(options) => chaos::run(options),
        Request::Engine { rounds } => engine::run(*rounds),
        Request::Rdd { rounds, only } => rdd::run(*rounds, only),
        Request::Cluster { rounds, only } => cluster::run(*rounds, only),
        Request::Ha { rounds, only } => ha::run(*rounds, only),
        Request::K8s { rounds, only } => k8s::run(*rounds, only),
        Request::Memory(selection) => memory::run(selection),
        Request::History(selection) => history::run(selection),
        Request::Pages { rounds, only } => pages::run(*rounds, only),
    };
    match bars {
        Ok(bars) => {
            print!("{bars}");
            if bars.all_met() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
