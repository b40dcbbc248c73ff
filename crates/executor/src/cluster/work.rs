//! The threads that run tasks, one at a time each.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};

use firesteel_closure::{SameExecutable, to_bytes};
use firesteel_rdd::KillSwitch;
use firesteel_types::{TaskFailure, TaskMetrics, TaskOutcome};

use super::fetch::TaskEnvironment;
use super::node::{Node, lock};
use super::protocol::{StreamId, TaskData, TaskOrder, TaskOutput};
use super::shell::Shell;
use crate::EncodedReport;
use crate::runner::{decoded, run_decoded};

/// Address space, not memory: a long chain of boxed pipelines calls deeply.
pub const STACK_BYTES: usize = 16 << 20;

/// A task for a thread.
pub(super) struct Assignment {
    pub(super) order: TaskOrder,
    pub(super) kill: Arc<KillSwitch>,
}

/// What all threads need.
pub(super) struct Workplace {
    pub(super) node: Arc<Node>,
    pub(super) shell: Arc<Shell>,
    pub(super) peer: SameExecutable,
    pub(super) assigned: Mutex<Receiver<Assignment>>,
    /// Results up to this size travel with the report.
    pub(super) direct_bytes: u64,
    /// Results beyond this size are refused; 0: none is.
    pub(super) max_result_bytes: u64,
}

pub(super) fn spawn(workplace: &Arc<Workplace>, threads: u32) -> std::io::Result<()> {
    for index in 0..threads {
        let workplace = workplace.clone();
        let thread = std::thread::Builder::new()
            .name(format!("firesteel-task-{index}"))
            .stack_size(STACK_BYTES);
        thread.spawn(move || workplace.work())?;
    }
    Ok(())
}

impl Workplace {
    fn work(&self) {
        loop {
            // Only the wait is under the lock: whoever takes a task lets the next one wait.
            let Ok(assignment) = lock(&self.assigned).recv() else { return };
            let task = assignment.order.identity.task;
            let report = self.run(assignment);
            self.node.running.ended(task);
            let outcome = report.outcome.clone();
            let (outcome, data) = self.pack(outcome, report, task);
            self.shell.task_ended(task, outcome, data.into());
        }
    }

    fn run(&self, assignment: Assignment) -> EncodedReport {
        let Assignment { order, kill } = assignment;
        let metrics = self.node.running.started(&order.identity);
        let environment =
            TaskEnvironment::new(self.node.clone(), order.epoch, kill.clone(), metrics);
        let fetch = || environment.read_from_driver(&StreamId::Code(order.code));
        match self.node.code.get(order.code, fetch) {
            Ok(code) => {
                let decode = || code.decoded(|bytes| decoded(bytes, self.peer).into());
                run_decoded(decode, order.identity, kill, Arc::new(environment))
            }
            Err(error) => failed(TaskFailure::Error {
                message: format!(
                    "the code of stage {} cannot be had: {error}",
                    order.identity.stage
                ),
            }),
        }
    }

    /// The report as it travels; a result that is too long for it waits here.
    fn pack(
        &self,
        outcome: TaskOutcome,
        report: EncodedReport,
        task: firesteel_types::TaskId,
    ) -> (TaskOutcome, Vec<u8>) {
        let EncodedReport { output, updates, metrics, .. } = report;
        let bytes = output.as_ref().map_or(0, |output| output.len() as u64);
        if self.max_result_bytes > 0 && bytes > self.max_result_bytes {
            let message = format!(
                "the result of one task has {bytes} bytes, more than spark.driver.maxResultSize \
                 ({}): bring less to the driver, or raise it",
                self.max_result_bytes
            );
            let data = TaskData { output: None, updates: Vec::new(), metrics };
            return (TaskOutcome::Failed(TaskFailure::Fatal { message }), encode(&data));
        }
        let output = output.map(|output| match bytes > self.direct_bytes {
            true => {
                self.node.keep_result(task, output);
                TaskOutput::There { bytes }
            }
            false => TaskOutput::Here(output),
        });
        (outcome, encode(&TaskData { output, updates, metrics }))
    }
}

fn encode(data: &TaskData) -> Vec<u8> {
    to_bytes(data).expect("it consists of numbers and bytes")
}

fn failed(failure: TaskFailure) -> EncodedReport {
    EncodedReport {
        outcome: TaskOutcome::Failed(failure),
        output: None,
        updates: Vec::new(),
        metrics: TaskMetrics::default(),
    }
}
