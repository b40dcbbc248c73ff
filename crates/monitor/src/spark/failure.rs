//! How tasks end: Spark's reasons and ours.

use std::fmt::Write;

use firesteel_types::TaskFailure;

use super::model::{Frame, ManagerId, Reason};
use super::port_of;
use super::text::{Int, Str};

/// How a task ended, as a log tells it.
pub(super) enum End {
    Success,
    Failed(TaskFailure),
    /// It had succeeded, and is run again because what it wrote was lost.
    Resubmitted,
}

pub(super) fn end(reason: Option<Reason<'_>>, failed: bool) -> End {
    let Some(mut reason) = reason else {
        let message = "UnknownReason".to_owned();
        return if failed { End::Failed(TaskFailure::Error { message }) } else { End::Success };
    };
    if let Some(failure) = reason.failure.take() {
        return End::Failed(failure);
    }
    let failure = match &*reason.reason {
        "Success" => return End::Success,
        "Resubmitted" => return End::Resubmitted,
        "TaskKilled" => {
            let why = reason.kill_reason.map(Str::into_owned);
            TaskFailure::Killed { reason: why.unwrap_or_else(|| "unknown reason".to_owned()) }
        }
        "TaskCommitDenied" => TaskFailure::Killed { reason: commit_denied(&reason) },
        "ExceptionFailure" => TaskFailure::Error { message: exception(reason) },
        "FetchFailed" => TaskFailure::Error { message: fetch_failed(&reason) },
        "TaskResultLost" => {
            let message = "TaskResultLost (result lost from block manager)".to_owned();
            TaskFailure::Error { message }
        }
        "ExecutorLostFailure" => TaskFailure::Error { message: executor_lost(&reason) },
        _ => TaskFailure::Error { message: "UnknownReason".to_owned() },
    };
    End::Failed(failure)
}

fn commit_denied(reason: &Reason<'_>) -> String {
    let number = |number: Option<Int>| number.unwrap_or_default().0;
    format!(
        "TaskCommitDenied (Driver denied task commit) for job: {}, partition: {}, attemptNumber: {}",
        number(reason.job),
        number(reason.partition),
        number(reason.attempt),
    )
}

fn exception(reason: Reason<'_>) -> String {
    if let Some(full) = reason.full_stack {
        return full.into_owned();
    }
    let class = reason.class.unwrap_or_default();
    let description = reason.description.unwrap_or_default();
    let mut text = format!("{}: {}\n", &*class, &*description);
    for (index, frame) in reason.stack.unwrap_or_default().iter().enumerate() {
        let line_end = if index > 0 { "\n" } else { "" };
        let _ = write!(text, "{line_end}        {}", place(frame));
    }
    text
}

/// As Java writes a line of a stack trace.
fn place(frame: &Frame<'_>) -> String {
    let within = match (&frame.file, frame.line.0) {
        (_, -2) => "Native Method".to_owned(),
        (Some(file), line) if line >= 0 => format!("{}:{line}", &**file),
        (Some(file), _) => file.to_string(),
        (None, _) => "Unknown Source".to_owned(),
    };
    format!("{}.{}({within})", &*frame.class, &*frame.method)
}

fn fetch_failed(reason: &Reason<'_>) -> String {
    let address = reason.address.as_ref().map_or_else(
        || "null".to_owned(),
        |id| format!("BlockManagerId({}, {}, {}, None)", &*id.executor, &*id.host, id.port.0),
    );
    let number = |number: Option<Int>| number.unwrap_or_default().0;
    let map_index = reason.map_index.filter(|index| index.0 != i64::from(i32::MIN));
    let map_index = map_index.map_or_else(|| "Unknown".to_owned(), |index| index.0.to_string());
    format!(
        "FetchFailed({address}, shuffleId={}, mapIndex={map_index}, mapId={}, reduceId={}, message=\n{}\n)",
        number(reason.shuffle),
        number(reason.map),
        number(reason.reduce),
        reason.message.as_deref().unwrap_or_default(),
    )
}

fn executor_lost(reason: &Reason<'_>) -> String {
    let by_app = reason.caused_by_app.unwrap_or(true);
    let why = if by_app {
        "caused by one of the running tasks"
    } else {
        "unrelated to the running tasks"
    };
    let executor = reason.executor.as_deref().unwrap_or_default();
    let loss = reason.loss.as_deref().map(|loss| format!(" Reason: {loss}"));
    format!("ExecutorLostFailure (executor {executor} exited {why}){}", loss.unwrap_or_default())
}

/// Our failure as a reason that Spark understands, with the failure itself beside it.
pub(super) fn reason(failure: Option<&TaskFailure>) -> Reason<'_> {
    let Some(failure) = failure else {
        return Reason { reason: Str::new("Success"), ..Reason::default() };
    };
    let mut reason = match failure {
        TaskFailure::Panicked { message, location, stack_trace } => Reason {
            full_stack: Some(Str::owned(format!(
                "panicked at {location}: {message}\n{stack_trace}"
            ))),
            ..thrown("panic", message)
        },
        TaskFailure::Error { message } | TaskFailure::Fatal { message } => {
            Reason { full_stack: Some(Str::new(message)), ..thrown("error", message) }
        }
        TaskFailure::FetchFailed {
            shuffle,
            map_partition,
            reduce_partition,
            location,
            message,
            ..
        } => {
            let executor = location.executor().map(|executor| executor.to_string());
            let executor = Str::owned(executor.unwrap_or_default());
            Reason {
                reason: Str::new("FetchFailed"),
                address: Some(ManagerId { executor, host: Str::new(""), port: port_of(0) }),
                shuffle: Some(Int::of(shuffle.0.into())),
                map: Some(Int::of((*map_partition).into())),
                map_index: Some(Int::of((*map_partition).into())),
                reduce: Some(Int::of((*reduce_partition).into())),
                message: Some(Str::new(message)),
                ..Reason::default()
            }
        }
        TaskFailure::Killed { reason } => Reason {
            reason: Str::new("TaskKilled"),
            kill_reason: Some(Str::new(reason)),
            updates: Some([]),
            ..Reason::default()
        },
        TaskFailure::ExecutorLost { executor, caused_by_app, reason } => Reason {
            reason: Str::new("ExecutorLostFailure"),
            executor: Some(Str::owned(executor.to_string())),
            caused_by_app: Some(*caused_by_app),
            loss: Some(Str::new(reason)),
            ..Reason::default()
        },
    };
    reason.failure = Some(failure.clone());
    reason
}

fn thrown<'a>(class: &'a str, message: &'a str) -> Reason<'a> {
    Reason {
        reason: Str::new("ExceptionFailure"),
        class: Some(Str::new(class)),
        description: Some(Str::new(message)),
        stack: Some(Vec::new()),
        updates: Some([]),
        ..Reason::default()
    }
}

/// What a page shows as the error of a task.
pub(crate) fn message(failure: &TaskFailure) -> String {
    match failure {
        TaskFailure::Killed { reason } => reason.clone(),
        TaskFailure::Panicked { stack_trace, .. } if !stack_trace.is_empty() => {
            format!("{failure}\n{stack_trace}")
        }
        other => other.to_string(),
    }
}
