//! `firesteel launch PARENT PROGRAM ARGUMENTS..`: becomes PROGRAM, which ends when the process PARENT does.
//!
//! A worker starts its processes this way, so that none outlives it, however it ends. Only a process
//! itself can ask for that, and only before it becomes another program. It is not for people.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// The word that asks for it.
pub(crate) const WORD: &str = "launch";

/// What a shell says of a program it could not run.
const NOT_RUN: u8 = 127;

/// Nothing if the arguments are for somebody else. Does not return if all goes well.
pub(crate) fn requested(arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.skip(1);
    if arguments.next()? != WORD {
        return None;
    }
    let (Some(parent), Some(program)) = (arguments.next(), arguments.next()) else {
        eprintln!("firesteel launch: needs the id of a process, and a program");
        return Some(ExitCode::from(NOT_RUN));
    };
    if !bound_to(&parent) {
        eprintln!("firesteel launch: the worker is gone");
        return Some(ExitCode::from(NOT_RUN));
    }
    let error = Command::new(&program).args(arguments).exec();
    eprintln!("firesteel launch: could not run {}: {error}", program.display());
    Some(ExitCode::from(NOT_RUN))
}

/// Ends with its parent from now on; false if that has gone before.
#[cfg(target_os = "linux")]
fn bound_to(parent: &OsString) -> bool {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        eprintln!("firesteel launch: cannot be bound to the worker: {error}");
    }
    let now = getppid().map(|pid| pid.as_raw_nonzero().to_string());
    now.is_some_and(|now| parent.to_str() == Some(&now))
}

#[cfg(not(target_os = "linux"))]
fn bound_to(_: &OsString) -> bool {
    true
}
