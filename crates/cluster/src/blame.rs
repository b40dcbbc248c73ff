//! Whose fault an executor's end is: one decision for driver and master.
//!
//! | how it ended | registered with its driver | not registered |
//! |---|---|---|
//! | its process exited by itself, with any code or signal | the running tasks | its worker |
//! | it exited because the driver refused it | - | nobody |
//! | its heartbeats stopped, its connection broke | the running tasks | its worker |
//! | its process could not be started, it never registered | - | its worker |
//! | driver, master or worker told it to end | nobody | nobody |
//! | it went with its worker, or the master knows no such executor | nobody | nobody |
//!
//! The running tasks: the driver counts the loss against each task that had a core there, towards
//! `spark.task.maxFailures`. An exit code proves nothing for them, since a task can exit with any of them. Whoever told
//! an executor to end knows that, and does not ask here with [`End::Exited`]. Which of several tasks it was is
//! left to the task scheduler, which sees more than one loss.
//!
//! Its worker: the master avoids that worker for this application for a growing time.

use crate::description::{ExecutorState, ExitStatus};
use crate::executor::exit;

/// How an executor ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its process exited though nobody told it to; the status, if it is known.
    Exited(Option<ExitStatus>),
    /// Driver, master or worker told it to end.
    Told,
    /// Its heartbeats stopped.
    Silent,
    /// Its connection broke, and nobody said why in time.
    Disconnected,
    /// It went with its worker, or the master knows no such executor.
    WorkerLost,
    /// It was ordered and never registered.
    NeverRegistered,
    /// Its process could not be started.
    LaunchFailed,
}

impl End {
    /// What a master's or worker's word about an executor that is over says.
    pub fn of(state: ExecutorState, status: Option<ExitStatus>) -> Self {
        match state {
            ExecutorState::Exited => End::Exited(status),
            ExecutorState::Failed => End::LaunchFailed,
            ExecutorState::Killed => End::Told,
            ExecutorState::Lost | ExecutorState::Launching | ExecutorState::Running => {
                End::WorkerLost
            }
        }
    }
}

/// Who is blamed for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The tasks that had a core there.
    RunningTasks,
    /// The worker, for this application.
    Worker,
    /// Nobody.
    Nobody,
}

/// Who is blamed for an executor's end.
pub fn blame(end: End, registered: bool) -> Blame {
    let refused = End::Exited(Some(ExitStatus::Code(exit::REFUSED)));
    match end {
        End::Told | End::WorkerLost => Blame::Nobody,
        End::LaunchFailed | End::NeverRegistered => Blame::Worker,
        _ if !registered && end == refused => Blame::Nobody,
        End::Exited(_) | End::Silent | End::Disconnected if registered => Blame::RunningTasks,
        End::Exited(_) | End::Silent | End::Disconnected => Blame::Worker,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_exit_code_and_no_signal_of_a_working_executor_clears_its_tasks() {
        let codes = (-1..=255).map(ExitStatus::Code);
        for status in codes.chain((1..=31).map(ExitStatus::Signal)) {
            assert_eq!(blame(End::Exited(Some(status)), true), Blame::RunningTasks, "{status}");
        }
        assert_eq!(blame(End::Exited(None), true), Blame::RunningTasks);
    }

    #[test]
    fn silence_and_a_broken_connection_count_against_tasks_and_orders_do_not() {
        for (end, registered, unregistered) in [
            (End::Silent, Blame::RunningTasks, Blame::Worker),
            (End::Disconnected, Blame::RunningTasks, Blame::Worker),
            (End::Told, Blame::Nobody, Blame::Nobody),
            (End::WorkerLost, Blame::Nobody, Blame::Nobody),
            (End::NeverRegistered, Blame::Worker, Blame::Worker),
            (End::LaunchFailed, Blame::Worker, Blame::Worker),
        ] {
            let found = (blame(end, true), blame(end, false));
            assert_eq!(found, (registered, unregistered), "{end:?}");
        }
    }

    #[test]
    fn an_executor_that_never_worked_speaks_against_its_worker_unless_its_driver_refused_it() {
        let exited = |code| blame(End::Exited(Some(ExitStatus::Code(code))), false);
        assert_eq!(exited(exit::REFUSED), Blame::Nobody);
        for code in [exit::STOPPED, exit::DRIVER_LOST, exit::UNFIT, 1, 134] {
            assert_eq!(exited(code), Blame::Worker, "{code}");
        }
    }
}
