//! Worker threads of local mode: each runs one task at a time, over the transport that is set.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use firesteel_closure::SameExecutable;
use firesteel_conf::LocalTransport;
use firesteel_executor::{STACK_BYTES, run_encoded, run_task};
use firesteel_task::{Payload, TaskIdentity, TaskReport};
use firesteel_types::TaskInfo;

use super::Engine;
use super::place::Place;
use super::process::Child;
use super::state::Launch;
use crate::{Error, Result};

/// Starts this many threads that take tasks.
pub(super) fn spawn_workers(
    engine: &Arc<Engine>,
    threads: u32,
    work: fn(&Arc<Engine>),
) -> Result<()> {
    for index in 0..threads {
        let shared = engine.clone();
        let thread = std::thread::Builder::new()
            .name(format!("firesteel-task-{index}"))
            .stack_size(STACK_BYTES);
        let spawned = thread.spawn(move || guarded(&shared, work));
        let handle = spawned.map_err(|source| Error::Start {
            what: format!("worker thread {index} of {threads}"),
            source: Arc::new(source),
        })?;
        engine.lock().threads.push(handle);
    }
    Ok(())
}

/// Runs a thread of the engine; a panic of the engine itself ends all jobs with its message.
pub(super) fn guarded(engine: &Arc<Engine>, work: fn(&Arc<Engine>)) {
    guarded_with(engine, || work(engine));
}

pub(super) fn guarded_with(engine: &Arc<Engine>, work: impl FnOnce()) {
    let result = std::panic::catch_unwind(AssertUnwindSafe(work));
    if let Err(panic) = result {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        engine.break_down(&text.unwrap_or_else(|| "a panic without a message".to_owned()));
    }
}

/// Runs tasks until the engine stops.
pub(super) fn work(engine: &Arc<Engine>) {
    let mut child = None;
    let mut next = engine.next_task();
    while let Some(launch) = next {
        let report = run(engine, &launch, &mut child);
        let bytes = result_bytes(&launch, &report);
        let Launch { task, code, kill, .. } = launch;
        // The last of a stage's code takes along what the user gave it.
        firesteel_executor::drop_guarded((code, kill));
        next = engine.report(&task, report, bytes).or_else(|| engine.next_task());
    }
}

fn run(engine: &Engine, launch: &Launch, child: &mut Option<Child>) -> TaskReport {
    let Launch { task, code, kill, epoch, .. } = launch;
    let identity = identity(task, *epoch);
    let environment = engine.environment.clone();
    let Place::Threads { transport, workers, .. } = engine.place else {
        unreachable!("tasks of a cluster are not run here");
    };
    if transport == LocalTransport::Direct {
        if let Err(failure) = code.checked() {
            return TaskReport::failed(failure.clone());
        }
        return run_task(&*code.body, identity, kill.clone(), environment);
    }
    match code.encoded(false) {
        Err(failure) => TaskReport::failed(failure.clone()),
        Ok(bytes) if transport == LocalTransport::Process => {
            Child::run(child, bytes.to_vec(), identity, kill, &environment, workers)
        }
        Ok(bytes) => {
            let here = SameExecutable::this_process();
            run_encoded(bytes, here, identity, kill.clone(), environment).into()
        }
    }
}

/// What a task's output takes in memory, about.
fn result_bytes(launch: &Launch, report: &TaskReport) -> u64 {
    match &report.output {
        None => 0,
        Some(Payload::Encoded(bytes)) => bytes.len() as u64,
        Some(Payload::Typed(output)) => {
            let measured = firesteel_executor::catch(|| launch.code.body.output_bytes(&**output));
            // A panic of its type's own code was the task's failure before.
            measured.unwrap_or(0)
        }
    }
}

pub(super) fn identity(task: &TaskInfo, epoch: u64) -> TaskIdentity {
    TaskIdentity {
        task: task.task,
        stage: task.stage,
        partition: task.partition,
        attempt: task.attempt,
        epoch,
    }
}
