//! How a task attempt ended.

use serde::{Deserialize, Serialize};

use firesteel_types::{AccumulatorId, MapStatus, TaskFailure, TaskMetrics, TaskOutcome};

use crate::Payload;

/// How a task attempt ended. `O` and `U` are the forms of what it brings: [`Payload`] within the driver, bytes on the way.
/// `E` is `()` where its outcome travels beside it.
#[derive(Debug, Serialize, Deserialize)]
pub struct TaskReport<O = Payload, U = O, E = TaskOutcome> {
    /// Success or a typed failure.
    pub outcome: E,
    /// Its result, after success.
    pub output: Option<O>,
    /// What it added to accumulators.
    pub updates: Vec<(AccumulatorId, U)>,
    /// What it cost: times, bytes, records. Also after a failure.
    pub metrics: Box<TaskMetrics>,
    /// What it tells of the map output it wrote, if it did.
    pub written: Option<MapStatus>,
}

impl<O> TaskReport<O> {
    /// Of a task that brought nothing.
    pub fn failed(failure: TaskFailure) -> Self {
        TaskReport {
            outcome: TaskOutcome::Failed(failure),
            output: None,
            updates: Vec::new(),
            metrics: Box::default(),
            written: None,
        }
    }
}

impl From<TaskReport<Vec<u8>>> for TaskReport {
    fn from(report: TaskReport<Vec<u8>>) -> Self {
        let encode = |(id, bytes)| (id, Payload::Encoded(bytes));
        TaskReport {
            outcome: report.outcome,
            output: report.output.map(Payload::Encoded),
            updates: report.updates.into_iter().map(encode).collect(),
            metrics: report.metrics,
            written: report.written,
        }
    }
}
