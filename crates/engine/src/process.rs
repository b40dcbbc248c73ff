//! The driver's end of an executor in a child process (`spark.firesteel.local.transport=process`).
//!
//! A worker thread owns one child and serves its questions while a task runs in it. A child that dies
//! fails its task as a lost executor, and the next task starts a new one.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child as Process, Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use firesteel_closure::{ExecutableHash, SameExecutable};
use firesteel_executor::child::ROLE;
use firesteel_executor::{FromChild, Inbox, LocalEnvironment, ToChild, read_frame, write_frame};
use firesteel_shuffle::{Scratch, ScratchSettings};
use firesteel_task::{Environment, KillSwitch, TaskIdentity, TaskReport};
use firesteel_types::{ExecutorId, TaskFailure, TaskId};

const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How often the kill switch is looked at while the child is silent.
const POLL: Duration = Duration::from_millis(20);

/// A child process and the socket to it.
pub(super) struct Child {
    process: Process,
    stream: UnixStream,
    inbox: Arc<Inbox>,
    scratch: Scratch,
}

impl Child {
    /// Runs a task in `slot`'s child, starting one if there is none, which gets its share of the memory
    /// as one of `sharers`.
    pub(super) fn run(
        slot: &mut Option<Child>,
        body: Vec<u8>,
        identity: TaskIdentity,
        kill: &Arc<KillSwitch>,
        environment: &LocalEnvironment,
        sharers: u32,
    ) -> TaskReport {
        let started = match slot {
            Some(child) => Ok(child),
            None => Child::start(environment, sharers).map(|child| slot.insert(child)),
        };
        let result = started.and_then(|child| child.serve(body, identity, kill, environment));
        result.map_or_else(|error| lost(slot, &error), TaskReport::from)
    }

    fn start(environment: &LocalEnvironment, sharers: u32) -> io::Result<Child> {
        // A pair has no name: nobody else can reach it, and no file is left behind.
        let (mut stream, theirs) = UnixStream::pair()?;
        let mut process = Command::new(std::env::current_exe()?)
            .env(ROLE, "executor")
            .stdin(OwnedFd::from(theirs))
            // Ctrl-C in a terminal goes to whole groups: the driver alone decides what ends, and how.
            .process_group(0)
            .spawn()?;
        let greeted = stream
            .set_read_timeout(Some(START_TIMEOUT))
            .and_then(|()| greet(&mut stream, environment.scratch().settings(sharers)))
            .and_then(|()| stream.set_read_timeout(Some(POLL)));
        if let Err(error) = greeted {
            let _ = process.kill();
            let status = process.wait()?;
            return Err(io::Error::other(format!("{error} ({status})")));
        }
        let inbox = environment.new_inbox(stream.try_clone()?);
        let scratch = environment.scratch().clone();
        Ok(Child { process, stream, inbox, scratch })
    }

    fn serve(
        &mut self,
        body: Vec<u8>,
        identity: TaskIdentity,
        kill: &KillSwitch,
        environment: &LocalEnvironment,
    ) -> io::Result<TaskReport<Vec<u8>>> {
        let files = environment.files_root();
        self.inbox.send(&ToChild::Run { identity, body, files })?;
        let mut killed = false;
        loop {
            let (task, stream, inbox) = (identity.task, &self.stream, &*self.inbox);
            let mut patient = Patient { stream, inbox, task, kill, killed: &mut killed };
            let answer = match read_frame(&mut patient)? {
                FromChild::Done(report) => return Ok(*report),
                question => answer(question, environment)?,
            };
            self.inbox.send(&answer)?;
        }
    }
}

/// Reads from a child that may be silent for long, and passes the kill on meanwhile.
struct Patient<'a> {
    stream: &'a UnixStream,
    inbox: &'a Inbox,
    task: TaskId,
    kill: &'a KillSwitch,
    killed: &'a mut bool,
}

impl io::Read for Patient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(reason) = self.kill.thrown().filter(|_| !*self.killed) {
                *self.killed = true;
                self.inbox.send(&ToChild::Kill { task: self.task, reason })?;
            }
            match io::Read::read(&mut self.stream, buffer) {
                Err(error) if is_timeout(&error) => {}
                other => return other,
            }
        }
    }
}

fn lost(slot: &mut Option<Child>, error: &io::Error) -> TaskReport {
    // Who is still there and said what cannot be understood is killed: that is no way it ended by itself.
    let gone = matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    );
    let status = slot.take().map(|mut child| {
        let _ = child.process.kill();
        child.process.wait()
    });
    let reason = match status {
        Some(Ok(status)) if gone => {
            format!("the child process ended with {} ({error})", told(status))
        }
        Some(_) => format!("the driver ended the child process: {error}"),
        None => format!("the child process could not be started: {error}"),
    };
    TaskReport::failed(TaskFailure::ExecutorLost {
        executor: ExecutorId::DRIVER,
        caused_by_app: true,
        reason,
    })
}

/// How a process ended, and what that most often means.
fn told(status: ExitStatus) -> String {
    let meaning = match status.signal() {
        Some(9) => ", killed by a user or by the system when memory ran short",
        Some(11) => ", most often a stack overflow",
        _ => "",
    };
    format!("{status}{meaning}")
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn greet(stream: &mut UnixStream, settings: ScratchSettings) -> io::Result<()> {
    let FromChild::Hello(hash) = read_frame(stream)? else {
        return Err(io::Error::other("it did not say hello"));
    };
    if SameExecutable::verify(hash)?.is_none() {
        let message = format!("it runs another executable ({hash}); was the file replaced?");
        return Err(io::Error::other(message));
    }
    write_frame(stream, &ToChild::Hello(ExecutableHash::current()?, settings))
}

fn answer(question: FromChild, environment: &LocalEnvironment) -> io::Result<ToChild> {
    Ok(match question {
        FromChild::PutMapOutput { shuffle, map, task, output } => {
            ToChild::Stored(environment.put_map_output(shuffle, map, task, output))
        }
        FromChild::FetchMapOutput { shuffle, map, reduce } => {
            let slice = environment.fetch_map_output(shuffle, map, reduce);
            ToChild::Slice(slice.and_then(|slice| {
                let unreadable = |error: firesteel_shuffle::ReadError| {
                    environment.unreadable(shuffle, map, reduce, error.to_string())
                };
                Ok((slice.encoded().map_err(unreadable)?, slice.records()))
            }))
        }
        FromChild::FetchBroadcast(id) => ToChild::Broadcast(environment.fetch_broadcast(id)),
        FromChild::Hello(_) | FromChild::Done(_) => {
            return Err(io::Error::other("the child spoke out of turn"));
        }
    })
}

impl Drop for Child {
    fn drop(&mut self) {
        // The child exits when its socket closes; a task of the user's may hold it up.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        let _ = self.process.kill();
        let _ = self.process.wait();
        // Killed, it has left its temporary files behind.
        self.scratch.dirs().remove_leftovers();
    }
}
