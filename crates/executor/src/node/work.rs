//! The threads that run tasks, one at a time each.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};

use firesteel_closure::{SameExecutable, to_bytes};
use firesteel_task::{KillSwitch, TaskReport};
use firesteel_types::{TaskFailure, TaskId, TaskOutcome};

use super::block_manager::{BlockManager, lock};
use super::fetch::TaskEnvironment;
use super::protocol::{Bundle, StreamId, TaskData, TaskOrder, TaskOutput};
use super::shell::Shell;
use crate::options::STACK_BYTES;
use crate::panics;
use crate::runner::{decoded, run_decoded};

/// A failure's text is cut after so many bytes.
const LONGEST_TEXT: usize = 64 << 10;

/// A task for a thread.
pub(super) struct Assignment {
    pub(super) order: TaskOrder,
    pub(super) kill: Arc<KillSwitch>,
}

/// What all threads need.
pub(super) struct Workplace {
    pub(super) manager: Arc<BlockManager>,
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
            // Only the wait is under the lock: a thread that takes a task lets the next thread wait.
            let Ok(assignment) = lock(&self.assigned).recv() else { return };
            let task = assignment.order.identity.task;
            // Whatever else of the user's panics on this thread: the task's end is told, and the thread lives.
            let done = panics::catch(|| self.pack(self.run(assignment), task));
            let (outcome, data) =
                done.unwrap_or_else(|failure| self.pack(TaskReport::failed(failure), task));
            drop(self.manager.running.ended(task));
            self.shell.task_ended(task, outcome, data.into());
        }
    }

    fn run(&self, assignment: Assignment) -> TaskReport<Vec<u8>> {
        let Assignment { order, kill } = assignment;
        let metrics = self.manager.running.started(&order.identity);
        if let Err(failure) = self.manager.bring_files(order.files, &kill) {
            return TaskReport::failed(failure);
        }
        let environment = TaskEnvironment::new(self.manager.clone(), &order, kill.clone(), metrics);
        let fetch = || environment.read_from_driver(&StreamId::Code(order.code));
        match self.manager.code.get(order.code, fetch) {
            Ok(code) => {
                let decode = || code.decoded(|bytes| decoded(bytes, self.peer).into());
                run_decoded(decode, order.identity, kill, Arc::new(environment))
            }
            Err(error) => TaskReport::failed(TaskFailure::Error {
                message: format!(
                    "the code of stage {} cannot be had: {error}",
                    order.identity.stage
                ),
            }),
        }
    }

    /// The report as it travels; what is too long for it waits here.
    fn pack(&self, report: TaskReport<Vec<u8>>, task: TaskId) -> (TaskOutcome, Vec<u8>) {
        let TaskReport { outcome, output, updates, mut metrics, written } = report;
        metrics.executor = self.manager.running.ended(task);
        let updated: u64 = updates.iter().map(|(_, update)| update.len() as u64).sum();
        let bytes = output.as_ref().map_or(0, |output| output.len() as u64) + updated;
        if self.max_result_bytes > 0 && bytes > self.max_result_bytes {
            let message = format!(
                "the result of one task and what it added to accumulators have {bytes} bytes, more than \
                 spark.driver.maxResultSize ({}): bring less to the driver, or raise it",
                self.max_result_bytes
            );
            let (output, updates, written) = (None, Vec::new(), None);
            let data = TaskData { outcome: (), output, updates, metrics, written };
            return (TaskOutcome::Failed(TaskFailure::Fatal { message }), encode(&data));
        }
        if updated > self.direct_bytes {
            let bundle = to_bytes(&Bundle { output, updates }).expect(PLAIN);
            let output = Some(TaskOutput::Bundled { bytes: bundle.len() as u64 });
            self.manager.keep_result(task, bundle);
            let updates = Vec::new();
            let data = TaskData { outcome: (), output, updates, metrics, written };
            return (outcome, encode(&data));
        }
        let output = output.map(|output| match output.len() as u64 {
            bytes if bytes > self.direct_bytes => {
                self.manager.keep_result(task, output);
                TaskOutput::There { bytes }
            }
            _ => TaskOutput::Here(output),
        });
        (shortened(outcome), encode(&TaskData { outcome: (), output, updates, metrics, written }))
    }
}

const PLAIN: &str = "it consists of numbers and bytes";

fn encode(data: &TaskData) -> Vec<u8> {
    to_bytes(data).expect(PLAIN)
}

/// A failure whose text is no longer than people read and messages may be.
fn shortened(mut outcome: TaskOutcome) -> TaskOutcome {
    let TaskOutcome::Failed(failure) = &mut outcome else { return outcome };
    if let TaskFailure::Panicked { stack_trace, .. } = failure {
        stack_trace.truncate(stack_trace.floor_char_boundary(LONGEST_TEXT));
    }
    let text = match failure {
        TaskFailure::Panicked { message, .. }
        | TaskFailure::Error { message }
        | TaskFailure::Fatal { message }
        | TaskFailure::FetchFailed { message, .. } => message,
        TaskFailure::Killed { reason } | TaskFailure::ExecutorLost { reason, .. } => reason,
    };
    if text.len() > LONGEST_TEXT {
        let (all, end) = (text.len(), text.floor_char_boundary(LONGEST_TEXT));
        text.truncate(end);
        text.push_str(&format!(" ... ({all} bytes in all)"));
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_any_length_travels_with_the_beginning_of_its_text() {
        let message = "é".repeat(LONGEST_TEXT);
        let failed = TaskOutcome::Failed(TaskFailure::Error { message });
        let TaskOutcome::Failed(TaskFailure::Error { message }) = shortened(failed) else {
            panic!("another one");
        };
        assert!(message.len() < LONGEST_TEXT + 100 && message.ends_with("bytes in all)"));
        let short = TaskOutcome::Failed(TaskFailure::Killed { reason: "enough".into() });
        assert_eq!(shortened(short.clone()), short);
    }
}
