//! An application that runs: what it prints, line by line with the moment it came, until its input is closed.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use crate::process::tail;

/// What an application said, and when.
pub(crate) type Lines = Vec<(Instant, String)>;

/// A driver with what it said so far.
#[derive(Debug)]
pub(crate) struct Driver {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<(Instant, String)>,
    stderr: Receiver<String>,
    heard: Vec<String>,
}

impl Driver {
    pub(crate) fn start(mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start the application")?;
        let input = child.stdin.take();
        let stdout = child.stdout.take().context("stdout is piped")?;
        let mut errors = child.stderr.take().context("stderr is piped")?;
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send((Instant::now(), line));
            }
        });
        let (sender, stderr) = channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = errors.read_to_end(&mut bytes);
            let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
        });
        Ok(Self { child, input, lines, stderr, heard: vec![] })
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Tells it something: a line of its input.
    pub(crate) fn say(&mut self, words: &str) -> Result<()> {
        let input = self.input.as_mut().context("its input has ended")?;
        writeln!(input, "{words}")?;
        Ok(input.flush()?)
    }

    /// Waits for `count` more lines that start with `words`; when the last one came.
    pub(crate) fn hear(&mut self, words: &str, count: usize, limit: Duration) -> Result<Instant> {
        let started = Instant::now();
        let mut missing = count;
        loop {
            let left = limit.saturating_sub(started.elapsed());
            match self.lines.recv_timeout(left) {
                Ok((at, line)) => {
                    missing -= usize::from(line.starts_with(words));
                    self.heard.push(line);
                    if missing == 0 {
                        return Ok(at);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    bail!("the application did not say `{words}` within {limit:?}")
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let stderr = self.stderr.recv().unwrap_or_default();
                    bail!("the application ended without `{words}`: {}", tail(&stderr))
                }
            }
        }
    }

    /// All it said that was waited for.
    pub(crate) fn heard(&self) -> &[String] {
        &self.heard
    }

    /// Forgets what was said up to now, so that only what comes is waited for.
    pub(crate) fn catch_up(&mut self) {
        self.heard.extend(self.lines.try_iter().map(|(_, line)| line));
    }

    /// What it said since it was asked last, and, if it ended, whether well and what it wrote to its standard error.
    /// Does not wait for it.
    pub(crate) fn poll(&mut self) -> Result<(Lines, Option<(bool, String)>)> {
        let Some(status) = self.child.try_wait()? else {
            return Ok((self.lines.try_iter().collect(), None));
        };
        let last_words = self.lines.iter().collect();
        Ok((last_words, Some((status.success(), self.stderr.recv().unwrap_or_default()))))
    }

    /// Kills it; what it wrote to its standard error until then.
    pub(crate) fn kill(mut self) -> Result<String> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(self.stderr.recv().unwrap_or_default())
    }

    /// Ends its input and waits until it ended well; all it said.
    pub(crate) fn finish(mut self, limit: Duration) -> Result<Vec<String>> {
        self.input = None;
        let (success, stderr) = self.end(limit)?;
        ensure!(success, "the application failed: {}", tail(&stderr));
        Ok(std::mem::take(&mut self.heard))
    }

    /// Waits until it ended by itself: whether well, and what it wrote to its standard error.
    pub(crate) fn end(&mut self, limit: Duration) -> Result<(bool, String)> {
        let started = Instant::now();
        loop {
            match self.lines.recv_timeout(limit.saturating_sub(started.elapsed())) {
                Ok((_, line)) => self.heard.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => bail!("the application did not end in {limit:?}"),
            }
        }
        let status = self.child.wait()?;
        Ok((status.success(), self.stderr.recv().unwrap_or_default()))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::{process::Command, time::Duration};

    use super::{super::wait::until, Driver};

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Driver {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Driver::start(command).unwrap()
    }

    #[test]
    fn lines_are_heard_as_they_come_and_the_end_of_input_ends_it() {
        let mut driver = shell("echo one; echo two; cat; echo three");
        driver.hear("one", 1, LONG).unwrap();
        driver.hear("two", 1, LONG).unwrap();
        assert_eq!(driver.finish(LONG).unwrap(), ["one", "two", "three"]);
    }

    #[test]
    fn it_is_told_something_by_its_input() {
        let mut driver = shell("while read word; do echo \"heard $word\"; done");
        driver.say("one").unwrap();
        driver.hear("heard one", 1, LONG).unwrap();
        driver.say("two").unwrap();
        assert_eq!(driver.finish(LONG).unwrap(), ["heard one", "heard two"]);
    }

    #[test]
    fn who_does_not_wait_hears_everything_by_the_end() {
        let mut driver = shell("echo one; cat; echo why >&2; echo two; exit 1");
        driver.hear("one", 1, LONG).unwrap();
        assert_eq!(driver.poll().unwrap(), (vec![], None));
        driver.input = None;
        let mut heard = vec![];
        let ended = until("its end", LONG, || {
            let (lines, ended) = driver.poll().unwrap();
            heard.extend(lines.into_iter().map(|(_, line)| line));
            ended
        });
        assert_eq!(ended.unwrap(), (false, "why\n".to_owned()));
        assert_eq!(heard, ["two"]);
    }

    #[test]
    fn an_end_without_the_word_tells_why() {
        let mut driver = shell("echo why >&2; exit 1");
        let error = driver.hear("one", 1, LONG).unwrap_err().to_string();
        assert_eq!(error, "the application ended without `one`: why");
        let error = shell("echo no >&2; exit 3").finish(LONG).unwrap_err().to_string();
        assert_eq!(error, "the application failed: no");
    }
}
