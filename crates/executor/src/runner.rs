//! Runs one task attempt and says how it ended.

use std::sync::Arc;
use std::time::Instant;

use firesteel_closure::{Decoder, SameExecutable, WireError};
use firesteel_shuffle::spilled;
use firesteel_task::{
    Environment, KillSwitch, Payload, TaskBody, TaskContext, TaskIdentity, TaskReport, decode_body,
    fail_for_good,
};
use firesteel_types::{AccumulatorId, TaskMetrics, TaskOutcome};

use crate::timing::Started;
use crate::{panics, threads};

/// Runs a body as it is.
pub fn run_task(
    body: &dyn TaskBody,
    identity: TaskIdentity,
    kill: Arc<KillSwitch>,
    environment: Arc<dyn Environment>,
) -> TaskReport {
    let _runs = threads::runs(&identity);
    let task = TaskContext::new(identity, kill, environment);
    let started = Started::now();
    spilled::take();
    let result = task.enter(|| {
        panics::catch(|| {
            task.check_killed();
            body.run(&task)
        })
    });
    end(&task, |metrics| (metrics.run_time_us, metrics.cpu_time_ns) = started.elapsed());
    let metrics = task.take_metrics();
    if result.is_err() {
        panics::drop_guarded(task.take_updates());
    }
    match result {
        Ok(output) => TaskReport {
            outcome: TaskOutcome::Success,
            output: Some(Payload::Typed(output)),
            updates: take_updates(&task),
            metrics,
            written: task.take_written(),
        },
        Err(failure) => TaskReport { metrics, ..TaskReport::failed(failure) },
    }
}

/// Closes the task's books, with what `measure` adds.
fn end(task: &TaskContext, measure: impl FnOnce(&mut TaskMetrics)) {
    let peak = task.scratch().memory().end_task(task.task());
    let spilled = spilled::take();
    task.count(|metrics| {
        metrics.peak_memory_bytes = peak;
        metrics.memory_bytes_spilled += spilled.memory_bytes;
        metrics.disk_bytes_spilled += spilled.disk_bytes;
        measure(metrics);
    });
}

fn take_updates(task: &TaskContext) -> Vec<(AccumulatorId, Payload)> {
    let updates = task.take_updates();
    updates.into_iter().map(|(id, update)| (id, update.into_payload())).collect()
}

/// Decodes a body from a process of the same executable, runs it, and encodes what it gives.
pub fn run_encoded(
    body: &[u8],
    peer: SameExecutable,
    identity: TaskIdentity,
    kill: Arc<KillSwitch>,
    environment: Arc<dyn Environment>,
) -> TaskReport<Vec<u8>> {
    run_decoded(|| decoded(body, peer).into(), identity, kill, environment)
}

/// The body in these bytes. Fails as tasks do.
pub(crate) fn decoded(body: &[u8], peer: SameExecutable) -> Box<dyn TaskBody> {
    let mut input = Decoder::new(body, peer);
    let body = decode_body(&mut input).unwrap_or_else(fail_wire);
    if !input.is_empty() {
        fail_for_good(UNREAD);
    }
    body
}

/// Runs the body that `decode` brings, as part of the task, and encodes what it gives.
pub(crate) fn run_decoded(
    decode: impl FnOnce() -> Arc<dyn TaskBody>,
    identity: TaskIdentity,
    kill: Arc<KillSwitch>,
    environment: Arc<dyn Environment>,
) -> TaskReport<Vec<u8>> {
    let _runs = threads::runs(&identity);
    let task = TaskContext::new(identity, kill, environment);
    let started = Started::now();
    spilled::take();
    let result = task.enter(|| {
        panics::catch(|| {
            task.check_killed();
            let body = decode();
            task.count(|metrics| {
                (metrics.deserialize_time_us, metrics.deserialize_cpu_time_ns) = started.elapsed();
            });
            let output = body.run(&task);
            let begun = Instant::now();
            let output = body.encode_output(output).unwrap_or_else(fail_wire);
            let encoding = begun.elapsed().as_micros() as u64;
            task.count(|metrics| metrics.result_serialize_time_us = encoding);
            // Code of the user's as well, and so is the end of what they were made of.
            (output, encode_updates(&task))
        })
    });
    end(&task, |metrics| {
        let (elapsed, cpu) = started.elapsed();
        metrics.run_time_us = elapsed - metrics.deserialize_time_us.min(elapsed);
        metrics.cpu_time_ns = cpu - metrics.deserialize_cpu_time_ns.min(cpu);
        metrics.result_bytes = result.as_ref().map_or(0, |(output, _)| output.len()) as u64;
    });
    let metrics = task.take_metrics();
    panics::drop_guarded(task.take_updates());
    match result {
        Ok((output, updates)) => TaskReport {
            outcome: TaskOutcome::Success,
            output: Some(output),
            updates,
            metrics,
            written: task.take_written(),
        },
        Err(failure) => TaskReport { metrics, ..TaskReport::failed(failure) },
    }
}

fn fail_wire<T>(error: WireError) -> T {
    fail_for_good(error.to_string())
}

const UNREAD: &str = "a task has more bytes than were read: does a type's Deserialize read all that its Serialize writes?";

fn encode_updates(task: &TaskContext) -> Vec<(AccumulatorId, Vec<u8>)> {
    let updates = task.take_updates().into_iter();
    updates.map(|(id, update)| (id, update.encode().unwrap_or_else(fail_wire))).collect()
}
