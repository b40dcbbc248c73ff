//! What `/proc` tells of the processes of one measurement, which all carry its mark in their environment.

use std::{fs, time::Duration};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use super::wait::until;

/// The variable that marks them.
pub(crate) const MARK: &str = "FIRESTEEL_BENCH_SITE";

/// How long what was told to end may take.
const ENDING: Duration = Duration::from_secs(5);

/// A process that runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Running {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) command: String,
}

impl Running {
    /// Is it an executor, of either kind?
    pub(crate) fn is_executor(&self) -> bool {
        self.command.contains("CoarseGrainedExecutorBackend")
            || self.command.contains("firesteel-bench-app")
    }
}

/// The processes with this mark, but for those that only wait to be asked how they ended.
pub(crate) fn marked(mark: &str) -> Vec<Running> {
    let Ok(entries) = fs::read_dir("/proc") else { return vec![] };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| has_mark(*pid, mark)).filter_map(look).collect()
}

/// Does this process have this mark? Not if it is gone and another has its number.
pub(crate) fn has_mark(pid: i32, mark: &str) -> bool {
    variable(pid, MARK).is_some_and(|found| found == mark)
}

/// A variable that a process was started with.
pub(crate) fn variable(pid: i32, name: &str) -> Option<String> {
    let variables = fs::read(format!("/proc/{pid}/environ")).ok()?;
    variables.split(|byte| *byte == 0).find_map(|variable| {
        let value = variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(String::from_utf8_lossy(value).into_owned())
    })
}

/// A zombie has no environment, but it may become one while it is looked at.
fn look(pid: i32) -> Option<Running> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (state, parent) = state_and_parent(&stat)?;
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    (state != "Z").then(|| Running { pid, parent, command: command.trim_end().to_owned() })
}

/// The name in parentheses may have anything in it, parentheses too.
fn state_and_parent(stat: &str) -> Option<(&str, i32)> {
    let mut words = stat.rsplit_once(')')?.1.split_whitespace();
    Some((words.next()?, words.next()?.parse().ok()?))
}

/// What is left of the marked processes when they had time to end; it is killed.
pub(crate) fn leftovers(mark: &str) -> Vec<Running> {
    let _ = until("the end of all processes", ENDING, || marked(mark).is_empty().then_some(()));
    let left = marked(mark);
    for process in &left {
        let _ = signal(process.pid, Signal::KILL);
    }
    left
}

pub(crate) fn signal(pid: i32, signal: Signal) -> Result<()> {
    let found = Pid::from_raw(pid).context("a process has a positive number")?;
    kill_process(found, signal).with_context(|| format!("cannot signal process {pid}"))
}

/// Resident memory of a process, in units of a million bytes.
pub(crate) fn megabytes(pid: i32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("process {pid} is gone"))?;
    resident(&status).with_context(|| format!("process {pid} has no VmRSS"))
}

fn resident(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0 / 1e6)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{ENDING, MARK, leftovers, marked, resident, state_and_parent, until};

    #[test]
    fn resident_memory_is_read_in_millions_of_bytes() {
        assert_eq!(resident("VmPeak:\t 9 kB\nVmRSS:\t    1000 kB\n"), Some(1.024));
        assert_eq!(resident("VmPeak:\t 9 kB\n"), None);
    }

    #[test]
    fn a_name_with_parentheses_does_not_hide_state_and_parent() {
        assert_eq!(state_and_parent("17 (a ) Z (b) S 4 17 17"), Some(("S", 4)));
        assert_eq!(state_and_parent("nonsense"), None);
    }

    #[test]
    fn marked_processes_are_found_and_nothing_is_left_of_them() {
        let mark = format!("test-{}", std::process::id());
        let mut child = Command::new("sleep").arg("600").env(MARK, &mark).spawn().unwrap();
        // A process is there before its environment can be read.
        let found =
            until("the child", ENDING, || Some(marked(&mark)).filter(|all| !all.is_empty()));
        let found = found.unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].parent, std::process::id() as i32);
        assert_eq!(leftovers(&mark).len(), 1);
        assert!(!child.wait().unwrap().success());
        assert_eq!(leftovers(&mark), []);
    }
}
