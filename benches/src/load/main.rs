//! Plays many workers and applications for one master: `firesteel-bench-load URL WORKERS APPLICATIONS`; or a few that watch what several
//! masters order: `firesteel-bench-load URL witness`.
//!
//! Each has a connection of its own. Workers and applications say what real ones say, and come back to a master as those do, without
//! starting anything. Of many, applications ask for more than there is, so that they queue, and each is ended once and comes again: then
//! `LOADED` is printed. It stays until its input ends.

mod player;
mod witness;

use std::{
    io::Read,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use firesteel_rpc::RpcAddress;
use tokio::runtime::Runtime;

use player::{Application, Worker};

const USAGE: &str =
    "usage: firesteel-bench-load URL WORKERS APPLICATIONS | firesteel-bench-load URL witness";

/// Cores of a worker, of an executor, and what an application wants.
const CORES: u32 = 16;
const EXECUTOR_CORES: u32 = 2;
const WANTED_CORES: u32 = 96;

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
    // Each of those that are played has a socket.
    firesteel_storage::raise_open_file_limit();
    let (url, rest) = words.split_first().context(USAGE)?;
    let hosts = url.strip_prefix("spark://").unwrap_or(url).split(',');
    let masters = hosts.map(|host| format!("spark://{host}").parse());
    let masters: Vec<RpcAddress> =
        masters.collect::<Result<_, _>>().context("the URL of the masters")?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    match rest {
        [word] if word == "witness" => witness::watch(&runtime, &masters),
        [workers, applications] => {
            put_under_load(&runtime, &masters, workers.parse()?, applications.parse()?)
        }
        _ => bail!(USAGE),
    }
}

fn put_under_load(
    runtime: &Runtime,
    masters: &[RpcAddress],
    workers: u64,
    applications: u64,
) -> Result<()> {
    let join = |number| Worker::join(runtime, masters, (number, CORES), None);
    let workers = (0..workers).map(join).collect::<Result<Vec<Worker>>>()?;
    wait(runtime, "all workers", || workers.iter().all(Worker::is_registered))?;
    let register =
        |number| Application::register(runtime, masters, number, (WANTED_CORES, EXECUTOR_CORES));
    let mut queue: Vec<Application> = (0..applications).map(register).collect::<Result<_>>()?;
    wait(runtime, "all applications", || queue.iter().all(|app| app.id().is_some()))?;
    for number in applications..2 * applications {
        exchange(runtime, &mut queue, register(number)?)?;
    }
    workers.iter().for_each(Worker::beat);
    println!("LOADED");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// The oldest application ends, and another takes its place at the end of the queue.
fn exchange(runtime: &Runtime, queue: &mut Vec<Application>, next: Application) -> Result<()> {
    let first = queue.remove(0);
    first.stop();
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
