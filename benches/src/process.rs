//! Runs a child to its end: wall time, peak resident memory, what it printed.
//!
//! Peak memory is `ru_maxrss` of `wait4`: the kernel's own high-water mark of the child or of the largest descendant it
//! waited for. Linux lets a child inherit its parent's mark at fork, so a child never shows less than this small
//! process does: an error of a few MB, which counts against Firesteel, the smaller side.

use std::{
    env, fmt,
    io::Read,
    path::PathBuf,
    process::{Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use wait4::Wait4;

/// A child that ended well.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) wall: Duration,
    pub(crate) peak_rss_bytes: u64,
    pub(crate) stdout: String,
}

/// A child that ended, well or not.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) finished: Finished,
    pub(crate) stderr: String,
}

/// A program that was built together with this one, so it lies beside it.
pub(crate) fn sibling(name: &str) -> Result<PathBuf> {
    let this = env::current_exe().context("cannot tell where this program lies")?;
    let program = this.with_file_name(name);
    ensure!(program.is_file(), "{} is missing: run ./bench, which builds it", program.display());
    Ok(program)
}

/// Runs `command` to its end. A failed exit or a run beyond `limit` is an error with the end of its stderr.
pub(crate) fn run(command: &mut Command, limit: Duration) -> Result<Finished> {
    let Ended { status, finished, stderr } = end(command, limit)?;
    let name = command.get_program().to_string_lossy();
    ensure!(status.success(), "{name} failed ({}): {}", Ending(status), tail(&stderr));
    Ok(finished)
}

/// Runs `command` to its end, however it ends. A run beyond `limit` is an error.
pub(crate) fn end(command: &mut Command, limit: Duration) -> Result<Ended> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let start = Instant::now();
    let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
    let stdout = read_aside(child.stdout.take().expect("stdout is piped"));
    let stderr = read_aside(child.stderr.take().expect("stderr is piped"));
    // A process that ends closes its stdout: waiting for that, unlike polling, costs no precision.
    let in_time = stdout.recv_timeout(limit);
    if in_time.is_err() {
        child.kill().with_context(|| format!("cannot stop {name}"))?;
    }
    let end = child.wait4().with_context(|| format!("cannot wait for {name}"))?;
    let wall = start.elapsed();
    let Ok(stdout) = in_time else { bail!("{name} ran for more than {limit:?} and was stopped") };
    let finished = Finished { wall, peak_rss_bytes: end.rusage.maxrss, stdout };
    Ok(Ended { status: end.status, finished, stderr: stderr.recv().unwrap_or_default() })
}

fn read_aside(mut stream: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // A broken pipe ends the text early; the exit status tells the rest.
        let _ = stream.read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

/// How a process ended, in words.
pub(crate) struct Ending(pub(crate) ExitStatus);

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.code() {
            Some(code) => write!(f, "exit {code}"),
            None => write!(f, "{}", self.0),
        }
    }
}

/// The last lines of `text`.
pub(crate) fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}

#[cfg(test)]
mod tests {
    use std::{process::Command, time::Duration};

    use super::{run, tail};

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_finished_child_reports_its_output_time_and_memory() {
        let finished = run(&mut shell("echo hello; echo noise >&2"), LONG).unwrap();
        assert_eq!(finished.stdout, "hello\n");
        assert!(finished.wall > Duration::ZERO && finished.wall < LONG);
        assert!(finished.peak_rss_bytes > 100_000, "{}", finished.peak_rss_bytes);
    }

    #[test]
    fn a_failed_child_is_an_error_with_the_end_of_its_stderr() {
        let error = run(&mut shell("echo why >&2; exit 3"), LONG).unwrap_err().to_string();
        assert_eq!(error, "sh failed (exit 3): why");
    }

    #[test]
    fn a_child_that_hangs_is_stopped() {
        let mut hanging = Command::new("sleep");
        hanging.arg("600");
        let error = run(&mut hanging, Duration::from_millis(20)).unwrap_err().to_string();
        assert!(error.contains("sleep ran for more than 20ms"), "{error}");
    }

    #[test]
    fn a_program_that_does_not_exist_is_named() {
        let error = run(&mut Command::new("no-such-program"), LONG).unwrap_err().to_string();
        assert_eq!(error, "cannot start no-such-program");
    }

    #[test]
    fn much_output_on_both_streams_does_not_block() {
        let script =
            "i=0; while [ $i -lt 20000 ]; do echo line $i; echo line $i >&2; i=$((i+1)); done";
        assert_eq!(run(&mut shell(script), LONG).unwrap().stdout.lines().count(), 20_000);
    }

    #[test]
    fn a_tail_has_at_most_twelve_lines() {
        let text: String = (0..20).map(|i| format!("{i}\n")).collect();
        assert_eq!(tail(&text).lines().next(), Some("8"));
        assert_eq!(tail(""), "");
    }
}
