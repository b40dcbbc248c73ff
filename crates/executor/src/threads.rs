//! What the threads of this process do, as far as the system tells: name, state, processor time, where in the system a thread waits;
//! and which task it runs. Where in the program it is only a debugger can tell.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use firesteel_task::TaskIdentity;
use firesteel_types::ThreadInfo;

/// So many threads are told of.
const AT_MOST: usize = 10_000;

/// The tasks that run in this process, by the ids of their threads.
static RUNNING: Mutex<BTreeMap<u64, TaskIdentity>> = Mutex::new(BTreeMap::new());

fn running() -> MutexGuard<'static, BTreeMap<u64, TaskIdentity>> {
    RUNNING.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The id that the system gives this thread, looked up once; `None`: it does not tell.
fn own_id() -> Option<u64> {
    thread_local! { static ID: OnceCell<Option<u64>> = const { OnceCell::new() } }
    ID.with(|id| {
        *id.get_or_init(|| {
            let link = fs::read_link("/proc/thread-self").ok()?;
            link.file_name()?.to_str()?.parse().ok()
        })
    })
}

/// While it lives, this thread runs a task.
pub(crate) struct Runs(Option<u64>);

/// This thread begins a task.
pub(crate) fn runs(identity: &TaskIdentity) -> Runs {
    let id = own_id();
    id.map(|id| running().insert(id, *identity));
    Runs(id)
}

impl Drop for Runs {
    fn drop(&mut self) {
        self.0.map(|id| running().remove(&id));
    }
}

/// All threads of this process, by their ids.
pub fn threads() -> Vec<ThreadInfo> {
    // Not under the lock: tasks begin and end meanwhile.
    let tasks = running().clone();
    of(Path::new("/proc/self/task"), &tasks)
}

fn of(tasks: &Path, running: &BTreeMap<u64, TaskIdentity>) -> Vec<ThreadInfo> {
    let entries = fs::read_dir(tasks).into_iter().flatten().flatten().take(AT_MOST);
    let mut threads: Vec<ThreadInfo> =
        entries.filter_map(|entry| thread(&entry.path(), running)).collect();
    threads.sort_by_key(|thread| thread.id);
    threads
}

/// As Spark names its threads that run tasks.
fn description(task: &TaskIdentity) -> String {
    let TaskIdentity { task, stage, partition, attempt, .. } = task;
    let (stage, of_stage) = (stage.stage, stage.attempt);
    format!("task {partition}.{attempt} in stage {stage}.{of_stage} (TID {task})")
}

/// One thread; `None`: it has ended meanwhile.
fn thread(directory: &Path, running: &BTreeMap<u64, TaskIdentity>) -> Option<ThreadInfo> {
    let id = directory.file_name()?.to_str()?.parse().ok()?;
    let stat = fs::read_to_string(directory.join("stat")).ok()?;
    // The name may have anything in it, brackets too.
    let (before, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let ticks: Vec<u64> = fields.skip(10).take(2).filter_map(|it| it.parse().ok()).collect();
    let ms =
        |ticks: u64| ticks.saturating_mul(1000) / rustix::param::clock_ticks_per_second().max(1);
    let waits_in = fs::read_to_string(directory.join("wchan")).unwrap_or_default();
    let waits_in = Some(waits_in.trim()).filter(|place| !place.is_empty() && *place != "0");
    Some(ThreadInfo {
        id,
        name: before.split_once('(')?.1.to_owned(),
        state,
        user_ms: ticks.first().copied().map_or(0, ms),
        system_ms: ticks.get(1).copied().map_or(0, ms),
        waits_in: waits_in.map(str::to_owned),
        task: running.get(&id).map(description),
    })
}

#[cfg(test)]
mod tests {
    use firesteel_types::{StageId, StageRef, TaskId};

    use super::*;

    #[test]
    fn a_thread_is_told_of_by_its_name_and_its_task_until_it_ends() {
        let (sender, ended) = std::sync::mpsc::channel::<()>();
        let (ready, began) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("looked-at".to_owned());
        let stage = StageRef { stage: StageId(3), attempt: 1 };
        let identity = TaskIdentity { task: TaskId(17), stage, partition: 5, attempt: 2, epoch: 0 };
        let looked_at = thread.spawn(move || {
            let runs = runs(&identity);
            ready.send(()).unwrap();
            let _ = ended.recv();
            drop(runs);
        });
        began.recv().unwrap();
        let told = || threads().into_iter().find(|it| it.name == "looked-at");
        let task = told().and_then(|thread| thread.task);
        assert_eq!(task.as_deref(), Some("task 5.2 in stage 3.1 (TID 17)"));
        drop(sender);
        looked_at.unwrap().join().unwrap();
        assert!(running().values().all(|it| it.task != TaskId(17)));
        assert_eq!(of(Path::new("/nowhere"), &BTreeMap::new()), []);
    }
}
