//! `pipe`: the items of a partition through an external program, line by line.

use std::fmt::Display;
use std::io::ErrorKind::InvalidData;
use std::io::{self, Read, Write};
use std::iter::Fuse;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, Signal, kill_process_group};

use firesteel_closure::{Value, Wire, wire};
use firesteel_task::{TaskContext, fail_with};

use crate::Pipe;

/// How much of a failed program's error output its error quotes.
const STDERR_LIMIT: usize = 4096;
/// How often the kill switch is looked at while the program neither reads nor writes.
const POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// Bytes that wait on either side, and a line.
const BUFFER: usize = 64 << 10;

wire! {
    /// `pipe`
    pub struct External[P: Wire] {
        parent: P,
        argv: Value<Vec<String>>,
    }
}

impl<P> External<P> {
    /// Runs `argv` (no shell) once per partition.
    pub fn new(parent: P, argv: Vec<String>) -> Self {
        External { parent, argv: Value(argv) }
    }
}

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

/// One thread feeds the program and takes its lines, whichever the program is ready for: neither side can block
/// the other for good, and what waits in between is a buffer in each direction. A line is taken before more is fed.
struct Piped<I> {
    program: String,
    child: Child,
    input: Option<Feed<I>>,
    output: Lines,
    errors: Option<JoinHandle<String>>,
    task: TaskContext,
    ended: bool,
}

/// Items on their way to the program.
struct Feed<I> {
    items: Fuse<I>,
    stdin: ChildStdin,
    /// Lines that the program has not read, from `written` on.
    lines: Vec<u8>,
    written: usize,
}

/// What the program wrote.
struct Lines {
    stdout: ChildStdout,
    /// Bytes that are no line yet, from `taken` on.
    bytes: Vec<u8>,
    taken: usize,
    /// Up to here there is no end of a line.
    searched: usize,
    ended: bool,
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
            .unwrap_or_else(|error| fail_starting(&program, &error));
        let stdin = child.stdin.take().expect("stdin is piped");
        let stdout = child.stdout.take().expect("stdout is piped");
        let stderr = child.stderr.take().expect("stderr is piped");
        let errors = Some(std::thread::spawn(move || last_of(stderr)));
        let input = Some(Feed { items: input.fuse(), stdin, lines: Vec::new(), written: 0 });
        let output = Lines { stdout, bytes: Vec::new(), taken: 0, searched: 0, ended: false };
        let piped = Piped { program, child, input, output, errors, task, ended: false };
        let stdin = piped.input.as_ref().map(|feed| &feed.stdin);
        let ready = stdin.map_or(Ok(()), |stdin| ioctl_fionbio(stdin, true));
        if let Err(error) = ready.and_then(|()| ioctl_fionbio(&piped.output.stdout, true)) {
            fail_with(format!("could not talk to `{}`: {error}", piped.program));
        }
        piped
    }

    /// Waits until the program reads or writes, and serves it.
    fn exchange(&mut self) {
        self.task.check_killed();
        let is_fed = self.input.as_mut().is_none_or(Feed::fill);
        if !is_fed {
            self.input = None;
        }
        let result = self.wait_ready().and_then(|(reads, writes)| {
            if reads && self.input.as_mut().is_some_and(|feed| !feed.write()) {
                self.input = None;
            }
            if writes { self.output.read() } else { Ok(()) }
        });
        if let Err(error) = result {
            fail_with(format!("could not read from `{}`: {error}", self.program));
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

#[cold]
fn fail_starting(program: &str, error: &io::Error) -> ! {
    let advice = match error.kind() {
        io::ErrorKind::NotFound => {
            "; it has to be installed on every machine that runs tasks, in a directory of PATH or under this path"
        }
        _ => "",
    };
    fail_with(format!("could not start `{program}`: {error}{advice}"))
}

impl<I> Piped<I> {
    /// Whether the program reads, and whether it wrote; not for long, as the task may be killed.
    fn wait_ready(&self) -> io::Result<(bool, bool)> {
        let mut fds = vec![PollFd::new(&self.output.stdout, PollFlags::IN)];
        fds.extend(self.input.as_ref().map(|feed| PollFd::new(&feed.stdin, PollFlags::OUT)));
        match poll(&mut fds, Some(&POLL)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // Also when the other side is closed: then a read or a write tells.
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        Ok((fds.get(1).is_some_and(is_ready), is_ready(&fds[0])))
    }

    /// Waits for the program's end, which follows the end of its output at once as a rule.
    fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            self.task.check_killed();
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl<I: Iterator<Item: Display>> Feed<I> {
    /// Has something to write, unless there are no more items.
    fn fill(&mut self) -> bool {
        if self.written < self.lines.len() {
            return true;
        }
        self.lines.clear();
        self.written = 0;
        while self.lines.len() < BUFFER {
            let Some(item) = self.items.next() else { break };
            writeln!(self.lines, "{item}").expect("memory takes everything");
        }
        !self.lines.is_empty()
    }
}

impl<I> Feed<I> {
    /// Writes what the program takes. One that no longer reads is not an error by itself (`head`): its exit code
    /// tells.
    fn write(&mut self) -> bool {
        match self.stdin.write(&self.lines[self.written..]) {
            Ok(written) => self.written += written,
            Err(error) if may_pass(&error) => {}
            Err(_) => return false,
        }
        true
    }
}

impl Lines {
    fn read(&mut self) -> io::Result<()> {
        self.bytes.drain(..self.taken);
        self.searched -= self.taken;
        self.taken = 0;
        let before = self.bytes.len();
        self.bytes.resize(before + BUFFER, 0);
        let read = match self.stdout.read(&mut self.bytes[before..]) {
            Err(error) if !may_pass(&error) => return Err(error),
            read => read,
        };
        self.bytes.truncate(before + *read.as_ref().unwrap_or(&0));
        self.ended = matches!(read, Ok(0));
        Ok(())
    }

    /// A line that is there as a whole; at the end of all, also without an end of its own.
    fn next(&mut self) -> io::Result<Option<String>> {
        let new = &self.bytes[self.searched..];
        let end = match new.iter().position(|byte| *byte == b'\n') {
            Some(length) => self.searched + length,
            None if self.ended && self.taken < self.bytes.len() => self.bytes.len(),
            None => {
                self.searched = self.bytes.len();
                return Ok(None);
            }
        };
        let has_end = end < self.bytes.len();
        let line = &self.bytes[self.taken..end];
        let line = if has_end { line.strip_suffix(b"\r").unwrap_or(line) } else { line };
        let text = std::str::from_utf8(line).map(str::to_owned);
        self.taken = end + usize::from(has_end);
        self.searched = self.taken;
        text.map(Some).map_err(|_| io::Error::new(InvalidData, "a line is not UTF-8"))
    }
}

fn may_pass(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
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
            match self.output.next() {
                Ok(Some(line)) => return Some(line),
                Ok(None) if self.output.ended => {
                    self.input = None;
                    self.finish();
                }
                Ok(None) => self.exchange(),
                Err(error) => fail_with(format!("could not read from `{}`: {error}", self.program)),
            }
        }
        None
    }
}

/// A task that ends early (take, kill, panic) does not leave its program behind.
impl<I> Drop for Piped<I> {
    fn drop(&mut self) {
        if !self.ended {
            kill_group(&mut self.child);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestTask;

    fn piped<I: Iterator<Item = u64>>(script: &str, input: I) -> Piped<I> {
        let argv = ["sh", "-c", script].map(str::to_owned);
        Piped::start(&argv, input, TestTask::new(1 << 20).task)
    }

    fn buffered<I>(piped: &Piped<I>) -> usize {
        piped.output.bytes.len() + piped.input.as_ref().map_or(0, |feed| feed.lines.len())
    }

    #[test]
    fn a_program_that_writes_faster_than_its_lines_are_taken_waits() {
        let mut lines = piped("seq 1 1000000; wc -l", 0..1_000_000);
        for n in 1..=1_000_000u64 {
            assert_eq!(lines.next(), Some(n.to_string()));
            assert!(buffered(&lines) <= 2 * BUFFER + 100, "{}", buffered(&lines));
        }
        // It reads only now: what it was fed meanwhile is a buffer.
        assert_eq!(lines.next().map(|line| line.trim().to_owned()), Some("1000000".to_owned()));
        assert_eq!(lines.next(), None);
    }

    #[test]
    fn lines_come_as_they_were_written() {
        let script = "printf 'a\\r\\n\\nb'; cat >/dev/null";
        let lines: Vec<String> = piped(script, 0..100_000).collect();
        assert_eq!(lines, ["a", "", "b"]);
        let long = piped("head -c 1000000 /dev/zero | tr '\\0' x", std::iter::empty());
        assert_eq!(long.map(|line| line.len()).collect::<Vec<_>>(), [1_000_000]);
        assert_eq!(piped("true", 0..1_000_000).count(), 0);
        assert_eq!(piped("cat", 0..1_000_000).count(), 1_000_000);
    }
}
