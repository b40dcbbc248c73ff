//! What masters order: workers and applications that print every order with the term of its master, and do on a word what makes a master
//! give more of them.
//!
//! | it prints | |
//! |---|---|
//! | `READY` | the first application has all it wants, the second waits for cores |
//! | `LEADER term` | a worker was taken in |
//! | `ORDER term launch\|kill what` | a worker was told to |
//! | `DONE` | a word from its input was carried out: `free` ends two executors, `kill` lets one go |

use std::io::{BufRead, stdin};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use firesteel_rpc::RpcAddress;
use firesteel_standalone_core::ExecutorKey;
use firesteel_standalone_core::messages::{Stamped, ToWorker};
use tokio::runtime::Runtime;

use crate::player::{Application, Watch, Worker};
use crate::wait;

const WORKERS: u64 = 2;
const CORES: u32 = 3;

/// What a worker was told to start and was not told to end.
type Running = Arc<Mutex<Vec<ExecutorKey>>>;

/// Until its input ends.
pub(crate) fn watch(runtime: &Runtime, masters: &[RpcAddress]) -> Result<()> {
    let mut workers = Vec::new();
    for number in 0..WORKERS {
        let running = Running::default();
        let watch = printed(running.clone());
        let worker = Worker::join(runtime, masters, (number, CORES), Some(watch))?;
        workers.push((worker, running));
    }
    wait(runtime, "all workers", || workers.iter().all(|(worker, _)| worker.is_registered()))?;
    let all = WORKERS as u32 * CORES;
    let holder = Application::register(runtime, masters, 1, (all, 1))?;
    wait(runtime, "all executors", || holder.executors().len() == all as usize)?;
    let waiting = Application::register(runtime, masters, 2, (all, 1))?;
    wait(runtime, "an application that waits", || waiting.id().is_some())?;
    println!("READY");
    for word in stdin().lock().lines() {
        match word?.as_str() {
            "free" => workers.iter().try_for_each(|(worker, running)| end_one(worker, running))?,
            "kill" => {
                let executor = holder.executors().pop().context("it has executors")?;
                holder.release(executor);
            }
            other => bail!("{other} is no word: free and kill are"),
        }
        println!("DONE");
    }
    Ok(())
}

/// The process of its first executor ends.
fn end_one(worker: &Worker, running: &Running) -> Result<()> {
    let key = {
        let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
        (!running.is_empty()).then(|| running.remove(0)).context("nothing runs there")?
    };
    worker.end_executor(key);
    Ok(())
}

fn printed(running: Running) -> Watch {
    Box::new(move |stamped: &Stamped<ToWorker>| {
        let term = stamped.term.0;
        let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
        match &stamped.message {
            ToWorker::RegisteredWorker { .. } => println!("LEADER {term}"),
            ToWorker::LaunchExecutor { key, .. } => {
                println!("ORDER {term} launch {key}");
                running.push(key.clone());
            }
            ToWorker::KillExecutor { key, .. } => {
                println!("ORDER {term} kill {key}");
                running.retain(|other| other != key);
            }
            ToWorker::LaunchDriver { driver, .. } => println!("ORDER {term} launch {driver}"),
            ToWorker::KillDriver { driver, .. } => println!("ORDER {term} kill {driver}"),
            _ => {}
        }
    })
}
