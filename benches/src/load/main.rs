//! Plays many workers and applications for one master: `firesteel-bench-load URL WORKERS APPLICATIONS`.
//!
//! Each has a connection of its own. Workers say what real ones say, without starting anything; applications ask for more
//! than there is, so that they queue, and each is ended once and comes again. Prints `LOADED` when all that is over, and stays
//! until its input ends.

mod player;

use std::{
    io::Read,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use firesteel_rpc::RpcAddress;
use firesteel_standalone_core::messages::ToMaster;
use tokio::runtime::Runtime;

use player::{Application, Worker};

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Two threads, with a little to spare: they play several hundred processes.
const THREADS: usize = 2;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match play(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("firesteel-bench-load: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn play(words: &[String]) -> Result<()> {
    let [url, workers, applications] = words else {
        bail!("usage: firesteel-bench-load URL WORKERS APPLICATIONS");
    };
    let master: RpcAddress = url.parse().context("the master's URL")?;
    let (workers, applications): (u64, u64) = (workers.parse()?, applications.parse()?);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    let workers: Result<Vec<Worker>> =
        (0..workers).map(|number| Worker::join(&runtime, &master, number)).collect();
    let workers = workers?;
    wait(&runtime, "all workers", || workers.iter().all(Worker::is_registered))?;
    let register = |number| Application::register(&runtime, &master, number);
    let mut queue: Vec<Application> = (0..applications).map(register).collect::<Result<_>>()?;
    wait(&runtime, "all applications", || queue.iter().all(|app| app.id().is_some()))?;
    for number in applications..2 * applications {
        exchange(&runtime, &mut queue, register(number)?)?;
    }
    for worker in &workers {
        worker.beat()?;
    }
    println!("LOADED");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// The oldest application ends, and another takes its place at the end of the queue.
fn exchange(runtime: &Runtime, queue: &mut Vec<Application>, next: Application) -> Result<()> {
    let first = queue.remove(0);
    let app = first.id().context("it is registered")?;
    first.say(ToMaster::UnregisterApplication { app })?;
    wait(runtime, "another application", || next.id().is_some())?;
    queue.push(next);
    Ok(())
}

fn wait(runtime: &Runtime, what: &str, mut done: impl FnMut() -> bool) -> Result<()> {
    let started = Instant::now();
    while !done() {
        if started.elapsed() > LIMIT {
            bail!("{what} did not come within {LIMIT:?}");
        }
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
    }
    Ok(())
}
