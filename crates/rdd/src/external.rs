//! `pipe`: the items of a partition through an external program, line by line.

use std::fmt::Display;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use firesteel_closure::{Value, Wire, wire};

use crate::task::fail_with;
use crate::{Pipe, TaskContext};

/// How much of a failed program's error output its error quotes.
const STDERR_LIMIT: usize = 4096;

/// How often the kill switch is looked at while the program is silent.
const POLL: Duration = Duration::from_millis(20);

/// `pipe`
pub struct External<P> {
    parent: P,
    argv: Value<Vec<String>>,
}

impl<P> External<P> {
    /// Runs `argv` (no shell) once per partition.
    pub fn new(parent: P, argv: Vec<String>) -> Self {
        External { parent, argv: Value(argv) }
    }
}

wire!([P: Wire] External<P> { parent, argv });

impl<P: Pipe<Item: Display>> Pipe for External<P> {
    type Item = String;

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = String> + use<P> + 'static {
        let input = self.parent.compute(partition, task);
        Piped::start(&self.argv.0, input, task.clone())
    }
}

/// The task's thread feeds the program and takes its lines in turn; a second thread always drains
/// the program's output, so that neither side can block the other for good. A line is taken before
/// more is fed, which bounds what waits in between.
struct Piped<I> {
    program: String,
    child: Child,
    input: Option<(I, BufWriter<ChildStdin>)>,
    lines: Receiver<std::io::Result<String>>,
    errors: Option<JoinHandle<String>>,
    task: TaskContext,
    ended: bool,
}

impl<I: Iterator<Item: Display>> Piped<I> {
    fn start(argv: &[String], input: I, task: TaskContext) -> Self {
        let program = argv.join(" ");
        let mut child = Command::new(&argv[0])
            .args(&argv[1..])
            .env_remove("FIRESTEEL_ROLE")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| fail_with(format!("could not start `{program}`: {error}")));
        let stdin = BufWriter::new(child.stdin.take().expect("stdin is piped"));
        let stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let stderr = child.stderr.take().expect("stderr is piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || stdout.lines().try_for_each(|line| sender.send(line)));
        let errors = Some(std::thread::spawn(move || last_of(stderr)));
        Piped { program, child, input: Some((input, stdin)), lines, errors, task, ended: false }
    }

    /// Feeds one item; at the input's end closes the program's. A program that no longer reads is
    /// not an error by itself (`head`): its exit code tells.
    fn feed(&mut self) {
        self.task.check_killed();
        let Some((items, stdin)) = &mut self.input else { return };
        let open = match items.next() {
            Some(item) => writeln!(stdin, "{item}").is_ok(),
            None => false,
        };
        if !open {
            self.input = None;
        }
    }

    /// Waits for a line from a program that has all its input; it may be silent for long.
    fn wait_for_line(&self) -> Result<std::io::Result<String>, TryRecvError> {
        loop {
            self.task.check_killed();
            match self.lines.recv_timeout(POLL) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(TryRecvError::Disconnected),
            }
        }
    }

    fn finish(&mut self) {
        self.ended = true;
        let status = self.child.wait();
        let errors = self.errors.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        match status {
            Ok(status) if status.success() => {}
            Ok(status) => fail_with(format!(
                "`{}` ended with {status} in partition {}: {}",
                self.program,
                self.task.partition(),
                errors.trim()
            )),
            Err(error) => fail_with(format!("could not wait for `{}`: {error}", self.program)),
        }
    }
}

impl<I: Iterator<Item: Display>> Iterator for Piped<I> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        while !self.ended {
            let received = match self.input {
                Some(_) => self.lines.try_recv(),
                None => self.wait_for_line(),
            };
            match received {
                Ok(Ok(line)) => return Some(line),
                Ok(Err(error)) => {
                    fail_with(format!("could not read from `{}`: {error}", self.program))
                }
                Err(TryRecvError::Empty) => self.feed(),
                Err(TryRecvError::Disconnected) => {
                    self.input = None;
                    self.finish();
                }
            }
        }
        None
    }
}

/// A task that ends early (take, kill, panic) does not leave its program behind.
impl<I> Drop for Piped<I> {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn last_of(mut stream: impl Read) -> String {
    let mut kept = Vec::new();
    let mut chunk = [0; 1024];
    while let Ok(read @ 1..) = stream.read(&mut chunk) {
        kept.extend_from_slice(&chunk[..read]);
        kept.drain(..kept.len().saturating_sub(STDERR_LIMIT));
    }
    String::from_utf8_lossy(&kept).into_owned()
}
