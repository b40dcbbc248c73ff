//! What the threads of this process do, as far as the system tells: name, state, processor time, and where in the system
//! a thread waits. Where in the program it is only a debugger can tell.

use std::fs;
use std::path::Path;

use serde::Serialize;

/// `ThreadStackTrace`, with what there is of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadData {
    thread_id: u64,
    thread_name: String,
    thread_state: &'static str,
    stack_trace: Stack,
    blocked_by_lock: String,
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

/// So many threads are told of.
const AT_MOST: usize = 10_000;

/// All threads of this process, by their ids.
pub fn of_this_process() -> Vec<ThreadData> {
    of(Path::new("/proc/self/task"))
}

fn of(tasks: &Path) -> Vec<ThreadData> {
    let entries = fs::read_dir(tasks).into_iter().flatten().flatten().take(AT_MOST);
    let mut threads: Vec<ThreadData> = entries.filter_map(|entry| thread(&entry.path())).collect();
    threads.sort_by_key(|thread| thread.thread_id);
    threads
}

/// One thread; `None`: it has ended meanwhile.
fn thread(directory: &Path) -> Option<ThreadData> {
    let thread_id = directory.file_name()?.to_str()?.parse().ok()?;
    let stat = fs::read_to_string(directory.join("stat")).ok()?;
    let (before, fields) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    let ticks: Vec<u64> = fields.skip(10).take(2).filter_map(|it| it.parse().ok()).collect();
    let place = fs::read_to_string(directory.join("wchan")).unwrap_or_default();
    let place = Some(place.trim()).filter(|place| !place.is_empty() && *place != "0");
    let mut elems: Vec<String> =
        place.map(|place| format!("kernel.{place}\n")).into_iter().collect();
    if let [user, system] = ticks[..] {
        elems
            .push(format!("processor time: {user} ticks in the program, {system} in the system\n"));
    }
    Some(ThreadData {
        thread_id,
        thread_name: name,
        thread_state: match state {
            "R" => "RUNNABLE",
            "Z" | "X" => "TERMINATED",
            _ => "WAITING",
        },
        stack_trace: Stack { elems },
        blocked_by_lock: String::new(),
        holding_locks: [],
        synchronizers: [],
        monitors: [],
        suspended: matches!(state, "T" | "t"),
        in_native: true,
        is_daemon: true,
        priority: 5,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_told_of_by_its_name_until_it_ends() {
        let (sender, ended) = std::sync::mpsc::channel::<()>();
        let (ready, began) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("looked-at".to_owned());
        let running = thread.spawn(move || {
            ready.send(()).unwrap();
            let _ = ended.recv();
        });
        began.recv().unwrap();
        let is_told = || of_this_process().iter().any(|it| it.thread_name == "looked-at");
        assert!(is_told());
        drop(sender);
        running.unwrap().join().unwrap();
        let json = serde_json::to_value(of_this_process()).unwrap();
        assert!(json[0]["threadState"].is_string() && json[0]["stackTrace"]["elems"].is_array());
        assert_eq!(of(Path::new("/nowhere")), []);
    }
}
