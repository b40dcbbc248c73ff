//! Whose fault an executor's end is: one decision for driver and cluster managers.
//!
//! | how it ended | registered with its driver | not registered |
//! |---|---|---|
//! | its process exited by itself, with any code or signal | the running tasks | its node |
//! | it exited because the driver refused it | - | nobody |
//! | its heartbeats stopped, its connection broke | the running tasks | its node |
//! | its process could not be started, it never registered | - | its node |
//! | driver or cluster manager told it to end | nobody | nobody |
//! | it went with its node, or the cluster manager knows no such executor | nobody | nobody |
//!
//! The running tasks: the driver counts the loss against each task that had a core there, towards
//! `spark.task.maxFailures`. An exit code proves nothing for them, since a task can exit with any of them. A
//! caller that told an executor to end does not ask here with [`End::Exited`]. The task scheduler, which sees more than
//! one loss, finds out which of several tasks it was.
//!
//! Its node: the cluster manager avoids that node for this application for a growing time.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::executor::exit;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitStatus {
    Code(i32),
    Signal(i32),
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExitStatus::Code(code) => write!(f, "exit code {code}"),
            // The handler of Rust's that would say so is not there: executors start before `main`.
            ExitStatus::Signal(signal @ 11) => write!(
                f,
                "signal {signal} (a segmentation fault, most often a stack overflow: the stack of a task has 16 MiB)"
            ),
            ExitStatus::Signal(signal @ 9) => {
                write!(
                    f,
                    "signal {signal} (killed by a user, or by the system when memory ran short, as `dmesg` tells)"
                )
            }
            ExitStatus::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// How an executor ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its process exited though nobody told it to; the status, if it is known.
    Exited(Option<ExitStatus>),
    /// Driver or cluster manager told it to end.
    Told,
    /// Its heartbeats stopped.
    Silent,
    /// Its connection broke, and its cluster manager did not tell why in time.
    Disconnected,
    /// It went with its node, or the cluster manager knows no such executor.
    NodeLost,
    /// It was ordered and never registered.
    NeverRegistered,
    /// Its process could not be started.
    LaunchFailed,
}

/// Who is blamed for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The tasks that had a core there.
    RunningTasks,
    /// The node, for this application.
    Node,
    Nobody,
}

/// Who is blamed for an executor's end.
pub fn blame(end: End, registered: bool) -> Blame {
    let refused = End::Exited(Some(ExitStatus::Code(exit::REFUSED)));
    match end {
        End::Told | End::NodeLost => Blame::Nobody,
        End::LaunchFailed | End::NeverRegistered => Blame::Node,
        _ if !registered && end == refused => Blame::Nobody,
        End::Exited(_) | End::Silent | End::Disconnected if registered => Blame::RunningTasks,
        End::Exited(_) | End::Silent | End::Disconnected => Blame::Node,
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
    fn signals_9_and_11_are_told_as_what_they_most_often_are_and_other_ends_are_not() {
        let overflow = ExitStatus::Signal(11).to_string();
        assert!(overflow.starts_with("signal 11 (a segmentation fault"), "{overflow}");
        assert!(overflow.contains("stack overflow: the stack of a task has 16 MiB"), "{overflow}");
        let killed = ExitStatus::Signal(9).to_string();
        assert!(
            killed.starts_with("signal 9 (killed") && killed.contains("memory ran short"),
            "{killed}"
        );
        for other in [ExitStatus::Signal(9), ExitStatus::Signal(6), ExitStatus::Code(11)] {
            assert!(!other.to_string().contains("stack overflow"), "{other}");
        }
        assert_eq!(ExitStatus::Code(9).to_string(), "exit code 9");
    }

    #[test]
    fn silence_and_a_broken_connection_count_against_tasks_and_orders_do_not() {
        for (end, registered, unregistered) in [
            (End::Silent, Blame::RunningTasks, Blame::Node),
            (End::Disconnected, Blame::RunningTasks, Blame::Node),
            (End::Told, Blame::Nobody, Blame::Nobody),
            (End::NodeLost, Blame::Nobody, Blame::Nobody),
            (End::NeverRegistered, Blame::Node, Blame::Node),
            (End::LaunchFailed, Blame::Node, Blame::Node),
        ] {
            let found = (blame(end, true), blame(end, false));
            assert_eq!(found, (registered, unregistered), "{end:?}");
        }
    }

    #[test]
    fn an_executor_that_never_worked_speaks_against_its_node_unless_its_driver_refused_it() {
        let exited = |code| blame(End::Exited(Some(ExitStatus::Code(code))), false);
        assert_eq!(exited(exit::REFUSED), Blame::Nobody);
        for code in [exit::STOPPED, exit::DRIVER_LOST, exit::UNFIT, 1, 134] {
            assert_eq!(exited(code), Blame::Node, "{code}");
        }
    }
}
