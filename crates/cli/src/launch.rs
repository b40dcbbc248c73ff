//! What a worker starts beside and before its processes, so that none outlives it, however it ends. Not for
//! people.
//!
//! * `firesteel launch PARENT PROGRAM ARGUMENTS..` becomes PROGRAM, which ends when the process PARENT does.
//!   Only a process itself can ask for that, and only before it becomes another program.
//! * `firesteel keep` reads the worker's process groups, and kills those that are left at the end. So goes
//!   what the programs have started themselves.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::BufRead;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::process::{Pid, Signal, kill_process_group};

/// The word that asks for the first.
pub(crate) const LAUNCH: &str = "launch";
/// The word that asks for the second.
pub(crate) const KEEP: &str = "keep";

/// What a shell says of a program it could not run.
const NOT_RUN: u8 = 127;

/// Nothing if the arguments are for somebody else.
pub(crate) fn requested(arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.skip(1);
    let word = arguments.next()?;
    if word == KEEP {
        for group in left(std::io::stdin().lock()).into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL); // gone is what it shall be
        }
        return Some(ExitCode::SUCCESS);
    }
    (word == LAUNCH).then(|| {
        eprintln!("firesteel launch: {}", launch(arguments));
        ExitCode::from(NOT_RUN)
    })
}

/// Returns only with why it did not become the program.
fn launch(mut arguments: impl Iterator<Item = OsString>) -> String {
    let (Some(parent), Some(program)) = (arguments.next(), arguments.next()) else {
        return "it needs the id of a process, and a program".to_owned();
    };
    if !bound_to(&parent) {
        return "the worker is gone".to_owned();
    }
    let mut command = Command::new(&program);
    command.args(arguments);
    let error = exec_when_idle(&mut command);
    format!("could not run {}: {error}", program.display())
}

/// A program that the worker has just fetched may still be open for writing in a process that it is
/// starting at the same time, which is not for long.
fn exec_when_idle(command: &mut Command) -> std::io::Error {
    for _ in 0..100 {
        let error = command.exec();
        if error.kind() != std::io::ErrorKind::ExecutableFileBusy {
            return error;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    command.exec()
}

/// Ends with its parent from now on; false if that has gone before.
#[cfg(target_os = "linux")]
fn bound_to(parent: &OsString) -> bool {
    use rustix::process::{getppid, set_parent_process_death_signal};
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        eprintln!("firesteel launch: cannot be bound to the worker: {error}");
    }
    let now = getppid().map(|pid| pid.as_raw_nonzero().to_string());
    now.is_some_and(|now| parent.to_str() == Some(&now))
}

/// The worker's reaper does it alone.
#[cfg(not(target_os = "linux"))]
fn bound_to(_: &OsString) -> bool {
    true
}

/// Groups that began and did not end. What is no line of a worker's counts as the end.
fn left(lines: impl BufRead) -> BTreeSet<i32> {
    let mut groups = BTreeSet::new();
    for line in lines.lines().map_while(Result::ok) {
        let group = |text: &str| text.parse::<i32>().ok().filter(|group| *group > 1);
        match (line.strip_prefix('+').and_then(group), line.strip_prefix('-').and_then(group)) {
            (Some(began), _) => groups.insert(began),
            (None, Some(ended)) => groups.remove(&ended),
            (None, None) => break,
        };
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_ended_are_left_alone() {
        let left = left(&b"+11\n+12\n-11\n+13\nx\n+14\n"[..]);
        assert_eq!(Vec::from_iter(left), [12, 13]);
    }
}
