//! What a worker starts beside and before its processes, so that none outlives it, however it ends. Not for
//! people.
//!
//! * `firesteel launch PARENT PROGRAM ARGUMENTS..` becomes PROGRAM, which ends when the process PARENT does.
//!   Only a process itself can ask for that, and only before it becomes another program.
//! * `firesteel keep` reads the worker's process groups, and kills those that are left at the end. So goes
//!   what the programs have started themselves. Supervised drivers are guarded: it kills them when the worker has not told for
//!   so long that they may go on, also when the worker stands still.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::BufRead;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use firesteel_standalone::worker::LAUNCHED_ROLE;
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::time::{ClockId, clock_gettime};

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
        keep(&lines(), &mut Groups::default());
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
    if let Some(role) = std::env::var_os(LAUNCHED_ROLE) {
        command.env_remove(LAUNCHED_ROLE).env("FIRESTEEL_ROLE", role);
    }
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

/// How often it looks at the clock, which goes on while the machine is asleep.
const LOOK: Duration = Duration::from_millis(500);

/// What the worker writes, line by line, until it is gone.
fn lines() -> Receiver<String> {
    let (lines, heard) = sync_channel(64);
    std::thread::spawn(move || {
        let input = std::io::stdin().lock().lines().map_while(Result::ok);
        input.map_while(|line| lines.send(line).ok()).for_each(drop);
    });
    heard
}

fn keep(lines: &Receiver<String>, groups: &mut Groups) {
    loop {
        match lines.recv_timeout(LOOK) {
            Ok(line) if groups.hear(&line, now()) => {}
            Err(RecvTimeoutError::Timeout) => {}
            Ok(_) | Err(RecvTimeoutError::Disconnected) => return kill(&groups.all),
        }
        kill(&groups.overdue(now()));
    }
}

fn kill(groups: &BTreeSet<i32>) {
    for group in groups.iter().copied().filter_map(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL); // gone is what it shall be
    }
}

#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Since the machine was started, asleep or not.
fn now() -> Duration {
    let now = clock_gettime(CLOCK);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// The worker's process groups that have not ended.
#[derive(Default)]
struct Groups {
    all: BTreeSet<i32>,
    guarded: BTreeSet<i32>,
    /// When those that are guarded are to end.
    deadline: Option<Duration>,
}

impl Groups {
    /// Takes a line of the worker's: `+` and `-` tell of a group, `*` that it is guarded, `=` for how many milliseconds more those
    /// may go on. False if it is none, which counts as the end.
    fn hear(&mut self, line: &str, now: Duration) -> bool {
        let Some((sign, text)) = line.split_at_checked(1) else { return false };
        let Ok(number) = text.parse::<u64>() else { return false };
        if sign == "=" {
            self.deadline = Some(now + Duration::from_millis(number));
            return true;
        }
        let Some(group) = i32::try_from(number).ok().filter(|group| *group > 1) else {
            return false;
        };
        match sign {
            "+" => self.all.insert(group),
            "*" => self.guarded.insert(group),
            "-" => self.all.remove(&group) | self.guarded.remove(&group),
            _ => return false,
        };
        true
    }

    /// Those whose time is over. The worker says when they have ended.
    fn overdue(&self, now: Duration) -> BTreeSet<i32> {
        match self.deadline {
            Some(deadline) if deadline <= now => self.guarded.clone(),
            _ => BTreeSet::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn heard(lines: &[&str]) -> Groups {
        let mut groups = Groups::default();
        let _ = lines.iter().all(|line| groups.hear(line, SECOND));
        groups
    }

    #[test]
    fn groups_that_ended_are_left_alone() {
        let groups = heard(&["+11", "+12", "-11", "+13", "x", "+14"]);
        assert_eq!(Vec::from_iter(groups.all), [12, 13]);
        for end in ["", "+1", "+-1", "?12", "é", "+99999999999"] {
            assert!(!Groups::default().hear(end, SECOND), "{end}");
        }
    }

    #[test]
    fn guarded_groups_are_overdue_when_nobody_has_prolonged_their_time() {
        let mut groups = heard(&["+11", "+12", "*12"]);
        assert!(groups.overdue(SECOND * 1000).is_empty(), "nobody has named a time");
        groups.hear("=2000", SECOND);
        assert!(groups.overdue(SECOND * 2).is_empty());
        groups.hear("=2000", SECOND * 2);
        assert!(groups.overdue(SECOND * 3).is_empty(), "it was prolonged");
        assert_eq!(Vec::from_iter(groups.overdue(SECOND * 4)), [12]);
        groups.hear("+13", SECOND * 5);
        groups.hear("*13", SECOND * 5);
        assert_eq!(groups.overdue(SECOND * 5).len(), 2, "one that begins too late is overdue, too");
        groups.hear("-12", SECOND * 5);
        assert_eq!(Vec::from_iter(groups.overdue(SECOND * 5)), [13]);
    }
}
