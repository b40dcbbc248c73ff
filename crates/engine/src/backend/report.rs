//! What tasks brought: results that came along or are fetched, and the limit for all of a job's.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use firesteel_closure::from_bytes;
use firesteel_executor::Forgotten;
use firesteel_executor::node::{Bundle, StreamId, TaskData, TaskOutput, ToBlocks};
use firesteel_rpc::{RpcAddress, StreamError};
use firesteel_task::{Payload, TaskReport};
use firesteel_types::{Event, ExecutorId, TaskFailure, TaskId, TaskOutcome};

use super::super::Engine;
use super::super::place::Place;
use super::super::state::Launch;
use super::actor::{Actor, ActorMessage};
use super::{Cluster, lock};

impl Actor {
    pub(super) fn report(
        &mut self,
        executor: ExecutorId,
        task: TaskId,
        outcome: TaskOutcome,
        data: &[u8],
    ) {
        if data.is_empty() && matches!(outcome, TaskOutcome::Failed(_)) {
            let (output, updates, metrics) = (None, Vec::new(), Box::default());
            let never_ran = TaskReport { outcome, output, updates, metrics, written: None };
            return self.engine.report_remote(task, executor, never_ran);
        }
        let data: TaskData = match from_bytes(data) {
            Ok(data) => data,
            Err(error) => {
                let message = format!("executor {executor} sent a result that is none: {error}");
                let report = TaskReport::failed(TaskFailure::Fatal { message });
                return self.engine.report_remote(task, executor, report);
            }
        };
        let TaskData { outcome: (), output, updates, metrics, written } = data;
        let bytes = match &output {
            None => 0,
            Some(TaskOutput::Here(output)) => output.len() as u64,
            Some(TaskOutput::There { bytes } | TaskOutput::Bundled { bytes }) => *bytes,
        };
        let limit = self.cluster.max_result_bytes;
        let admitted = match outcome {
            TaskOutcome::Success => self.engine.admit_result(task, bytes, limit),
            TaskOutcome::Failed(_) => Ok(()),
        };
        if let Err(failure) = admitted {
            self.forget_result(executor, task, &output);
            let report = TaskReport { metrics, ..TaskReport::failed(failure) };
            return self.engine.report_remote(task, executor, report);
        }
        let encode = |(id, bytes)| (id, Payload::Encoded(bytes));
        let updates = updates.into_iter().map(encode).collect();
        let mut report = TaskReport { outcome, output: None, updates, metrics, written };
        match output {
            None => self.engine.report_remote(task, executor, report),
            Some(TaskOutput::Here(output)) => {
                report.output = Some(Payload::Encoded(output));
                self.engine.report_remote(task, executor, report);
            }
            Some(TaskOutput::There { bytes }) => {
                self.fetch(executor, task, bytes, report, |report, output| {
                    report.output = Some(Payload::Encoded(output));
                    Ok(())
                });
            }
            Some(TaskOutput::Bundled { bytes }) => {
                self.fetch(executor, task, bytes, report, unbundle);
            }
        }
    }

    fn forget_result(&self, executor: ExecutorId, task: TaskId, output: &Option<TaskOutput>) {
        if let Some(TaskOutput::There { .. } | TaskOutput::Bundled { .. }) = output {
            self.cluster.tell_blocks(executor, ToBlocks::Forget(Forgotten::Result(task)));
        }
    }

    /// Reads a result that waits on its executor, without holding up others.
    fn fetch(
        &self,
        executor: ExecutorId,
        task: TaskId,
        bytes: u64,
        mut report: TaskReport,
        take: fn(&mut TaskReport, Vec<u8>) -> Result<(), TaskFailure>,
    ) {
        let executors = lock(&self.cluster.executors);
        // Without the executor its tasks have ended: nobody waits for the result.
        let Some(live) = executors.get(&executor) else { return };
        let Some(address) = live.address.clone() else { return };
        drop(executors);
        self.engine.post_getting_result(task);
        let (cluster, begun) = (self.cluster.clone(), Instant::now());
        let engine = Arc::downgrade(&self.engine);
        self.cluster.env.runtime().spawn(async move {
            let id = StreamId::Result(task).to_string();
            let permit = cluster.backlog.permit(bytes).await;
            // Its job may have ended since.
            let wanted = engine.upgrade().is_some_and(|engine| engine.wants_result(task));
            let read = match wanted {
                true => Some(cluster.read(executor, &address, &id, bytes).await),
                false => None,
            };
            report.metrics.getting_result_time_ms = begun.elapsed().as_millis() as u64;
            let taken = match read {
                None => Err(unwanted()),
                Some(Ok(output)) => take(&mut report, output),
                Some(Err(error)) => {
                    let message = format!("its result could not be fetched: {error}");
                    Err(TaskFailure::Error { message })
                }
            };
            if let Err(failure) = taken {
                report = TaskReport { metrics: report.metrics, ..TaskReport::failed(failure) };
            }
            cluster.tell_blocks(executor, ToBlocks::Forget(Forgotten::Result(task)));
            let fetched = ActorMessage::Fetched(executor, task, Box::new(report), permit);
            let _ = cluster.messages.send(fetched);
        });
    }
}

fn unwanted() -> TaskFailure {
    TaskFailure::Killed { reason: "nobody waits for its result".to_owned() }
}

/// A result that came together with accumulator updates.
fn unbundle(report: &mut TaskReport, bytes: Vec<u8>) -> Result<(), TaskFailure> {
    let bundle = from_bytes(&bytes).map_err(|error| {
        let message = format!("its executor sent a result that is none: {error}");
        TaskFailure::Fatal { message }
    })?;
    let Bundle { output, updates } = bundle;
    report.output = output.map(Payload::Encoded);
    report.updates = updates.into_iter().map(|(id, bytes)| (id, Payload::Encoded(bytes))).collect();
    Ok(())
}

impl Cluster {
    /// Reads a stream of an executor, again if the connection is in trouble and the executor counts.
    async fn read(
        &self,
        executor: ExecutorId,
        address: &RpcAddress,
        id: &str,
        limit: u64,
    ) -> Result<Vec<u8>, StreamError> {
        let (mut left, wait) = self.retries;
        loop {
            match self.env.streams().read(address, id, limit).await {
                Err(error) if error.may_pass() && left > 0 && self.is_live(executor) => {
                    tracing::warn!(%executor, %error, left, "a result is asked for again");
                    left -= 1;
                    tokio::time::sleep(wait).await;
                }
                done => {
                    let bytes = done.as_ref().map_or(0, |bytes| bytes.len() as u64);
                    self.fetched_result_bytes.fetch_add(bytes, Ordering::Relaxed);
                    return done;
                }
            }
        }
    }
}

impl Engine {
    /// Reports the end of a task that ran elsewhere, and sends what may run instead: a task that brings another one
    /// of its stage does so without a switch to the thread that encodes.
    pub(super) fn report_remote(
        self: &Arc<Self>,
        task: TaskId,
        executor: ExecutorId,
        report: TaskReport,
    ) {
        let mut state = self.lock();
        self.take_report(&mut state, task, executor, report);
        let encoded = |launch: &mut Launch| launch.code.is_encoded();
        let next: Vec<Launch> = std::iter::from_fn(|| state.ready.pop_front_if(encoded)).collect();
        self.let_go_after(state, || {
            if let Place::Cluster(cluster) = &self.place {
                next.iter().for_each(|launch| cluster.launch(self, launch));
            }
        });
    }

    /// Counts a result of this many bytes; why it is not taken, if nobody waits for it any more or if that is too
    /// much for its job.
    pub(super) fn admit_result(
        &self,
        task: TaskId,
        bytes: u64,
        limit: u64,
    ) -> Result<(), TaskFailure> {
        let mut state = self.lock();
        let Some(job) = state.running.get(&task).ok_or_else(unwanted)?.job else { return Ok(()) };
        state.jobs.get_mut(&job).ok_or_else(unwanted)?.admit(bytes, limit)
    }

    /// Whether somebody waits for the result of this task.
    fn wants_result(&self, task: TaskId) -> bool {
        let state = self.lock();
        let running = state.running.get(&task);
        running.is_some_and(|task| task.job.is_none_or(|job| state.jobs.contains_key(&job)))
    }

    fn post_getting_result(&self, task: TaskId) {
        let state = self.lock();
        if let Some(running) = state.running.get(&task) {
            let (task, at) = (running.info.clone(), self.now());
            self.post(Event::TaskGettingResult { task, at });
        }
    }

    /// An executor is gone: nothing more is heard of its tasks.
    pub(super) fn note_lost(&self, executor: ExecutorId, reason: &str) {
        tracing::warn!(%executor, reason, "executor lost");
        self.lock().running.retain(|_, running| running.info.executor != executor);
    }

    /// No job can be run any more, though the context was not stopped.
    pub(super) fn end_application(&self, reason: String) {
        self.lock().ended.get_or_insert(reason);
    }

    pub(super) fn has_jobs(&self) -> bool {
        !self.lock().jobs.is_empty()
    }
}
