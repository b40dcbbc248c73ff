//! `pipe`: the items of a partition through an external program, line by line.

use std::fmt::Display;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use firesteel_closure::{Value, Wire, wire};
use firesteel_task::{KillSwitch, TaskContext, fail_with};

use crate::Pipe;

/// How much of a failed program's error output its error quotes.
const STDERR_LIMIT: usize = 4096;
/// How often the kill switch is looked at while the program neither reads nor writes.
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
/// more is fed, which bounds what waits in between. A third thread ends the program when the task is
/// killed, because then the task's own may wait for a program that does not read.
struct Piped<I> {
    program: String,
    child: Arc<Mutex<Child>>,
    input: Option<(I, BufWriter<ChildStdin>)>,
    lines: Receiver<std::io::Result<String>>,
    errors: Option<JoinHandle<String>>,
    task: TaskContext,
    ended: bool,
    /// Its end ends the third thread.
    _watched: Sender<()>,
}

impl<I: Iterator<Item: Display>> Piped<I> {
    fn start(argv: &[String], input: I, task: TaskContext) -> Self {
        let program = argv.join(" ");
        let mut child = Command::new(&argv[0])
            .args(&argv[1..])
            .env_remove("FIRESTEEL_ROLE")
            // Ctrl-C in a terminal goes to whole groups: the task alone decides when this one ends.
            .process_group(0)
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
        let child = Arc::new(Mutex::new(child));
        let (_watched, ended) = channel();
        let (killed, kill) = (child.clone(), task.kill_switch());
        std::thread::spawn(move || kill_with_task(&killed, &kill, &ended));
        let input = Some((input, stdin));
        Piped { program, child, input, lines, errors, task, ended: false, _watched }
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

    fn finish(&mut self) {
        let status = self.wait();
        self.ended = true;
        self.task.check_killed();
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

impl<I> Piped<I> {
    /// Waits for the program's end, which follows the end of its output at once as a rule.
    fn wait(&self) -> std::io::Result<ExitStatus> {
        loop {
            if let Some(status) = lock(&self.child).try_wait()? {
                return Ok(status);
            }
            self.task.check_killed();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The next line, when there is nothing left to feed.
    fn receive(&self) -> Result<std::io::Result<String>, TryRecvError> {
        loop {
            match self.lines.recv_timeout(POLL) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Disconnected) => return Err(TryRecvError::Disconnected),
                Err(RecvTimeoutError::Timeout) => self.task.check_killed(),
            }
        }
    }
}

fn lock(child: &Mutex<Child>) -> MutexGuard<'_, Child> {
    child.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn kill_with_task(child: &Mutex<Child>, kill: &KillSwitch, ended: &Receiver<()>) {
    while ended.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
        if kill.thrown().is_some() {
            kill_group(&mut lock(child));
            return;
        }
    }
}

/// Ends the program and what it has started in turn.
fn kill_group(child: &mut Child) {
    // After its end was seen, its id may be another's.
    if let Ok(None) = child.try_wait() {
        let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    }
}

impl<I: Iterator<Item: Display>> Iterator for Piped<I> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        while !self.ended {
            let received = match self.input {
                Some(_) => self.lines.try_recv(),
                None => self.receive(),
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
            let mut child = lock(&self.child);
            kill_group(&mut child);
            let _ = child.wait();
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
