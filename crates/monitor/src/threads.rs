//! The threads of a driver or an executor in answers of the REST API: Spark's `ThreadStackTrace`, with what there is of it. Without
//! the calls of a thread, which a process without a virtual machine cannot tell of its own.

use firesteel_types::ThreadInfo;
use serde::Serialize;

/// `ThreadStackTrace`
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ThreadData {
    thread_id: u64,
    thread_name: String,
    thread_state: &'static str,
    stack_trace: Stack,
    blocked_by_lock: &'static str,
    holding_locks: [(); 0],
    synchronizers: [(); 0],
    monitors: [(); 0],
    suspended: bool,
    in_native: bool,
    is_daemon: bool,
    priority: u32,
}

/// `StackTrace`
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Stack {
    elems: Vec<String>,
}

impl From<ThreadInfo> for ThreadData {
    fn from(thread: ThreadInfo) -> Self {
        let ThreadInfo { id, name, state, user_ms, system_ms, waits_in, task } = thread;
        let place = waits_in.map(|place| format!("kernel.{place}\n"));
        let time =
            format!("processor time: {user_ms} ms in the program, {system_ms} ms in the system\n");
        // The system cuts names after fifteen letters: what a task is called does not fit.
        let thread_name = match task {
            Some(task) => format!("Executor task launch worker for {task} [{name}]"),
            None => name,
        };
        ThreadData {
            thread_id: id,
            thread_name,
            thread_state: match state {
                'R' => "RUNNABLE",
                'Z' | 'X' => "TERMINATED",
                _ => "WAITING",
            },
            stack_trace: Stack { elems: place.into_iter().chain([time]).collect() },
            blocked_by_lock: "",
            holding_locks: [],
            synchronizers: [],
            monitors: [],
            suspended: matches!(state, 'T' | 't'),
            in_native: true,
            is_daemon: true,
            priority: 5,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_told_with_its_task_and_where_it_waits() {
        let thread = ThreadInfo {
            id: 7,
            name: "firesteel-task-".to_owned(),
            state: 'S',
            user_ms: 12,
            system_ms: 3,
            waits_in: Some("futex_wait".to_owned()),
            task: Some("task 5.0 in stage 3.0 (TID 17)".to_owned()),
        };
        let json = serde_json::to_value(ThreadData::from(thread.clone())).unwrap();
        let name =
            "Executor task launch worker for task 5.0 in stage 3.0 (TID 17) [firesteel-task-]";
        assert_eq!((&json["threadName"], &json["threadState"]), (&name.into(), &"WAITING".into()));
        assert_eq!(json["stackTrace"]["elems"][0], "kernel.futex_wait\n");
        let states =
            ['R', 'Z', 'T'].map(|state| ThreadData::from(ThreadInfo { state, ..thread.clone() }));
        assert_eq!(
            states.each_ref().map(|it| it.thread_state),
            ["RUNNABLE", "TERMINATED", "WAITING"]
        );
        assert!(states[2].suspended && !states[0].suspended);
    }
}
