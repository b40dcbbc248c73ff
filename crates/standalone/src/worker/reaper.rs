//! A process beside the worker that knows the groups of its processes, and kills those that are left when
//! the worker is gone: it notices by the end of its input, however that came.

use std::fmt::Display;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use rustix::process::Pid;

use super::args::Launcher;

/// The worker's end of it.
#[derive(Debug)]
pub(super) struct Reaper(Mutex<Child>);

impl Reaper {
    pub(super) fn start(launcher: &Launcher) -> io::Result<Self> {
        let mut command = Command::new(&launcher.program);
        command.args(&launcher.keep).stdin(Stdio::piped()).stdout(Stdio::null());
        // A group of its own: what a terminal sends to the worker's group is not for it.
        command.process_group(0);
        Ok(Self(Mutex::new(command.spawn()?)))
    }

    pub(super) fn began(&self, group: Pid) {
        self.tell('+', group);
    }

    /// A group ends when its time is over.
    pub(super) fn guard(&self, group: Pid) {
        self.tell('*', group);
    }

    /// Guarded groups may go on for so long from now on.
    pub(super) fn prolong(&self, time: Duration) {
        self.tell('=', time.as_millis());
    }

    /// Nothing is left of a group.
    pub(super) fn ended(&self, group: Pid) {
        self.tell('-', group);
    }

    fn tell(&self, sign: char, what: impl Display) {
        let mut child = self.0.lock().expect("no panic while it is locked");
        let input = child.stdin.as_mut().expect("it was piped");
        if let Err(error) = input.write_all(format!("{sign}{what}\n").as_bytes()) {
            tracing::warn!(%error, "processes that an executor starts may outlive a worker that is killed");
        }
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        let child = self.0.get_mut().expect("no panic while it is locked");
        drop(child.stdin.take());
        let _ = child.wait();
    }
}
