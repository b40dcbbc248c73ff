//! Tasks tell this process which pod runs them, by a connection each: what is measured is when the first byte of a task comes, the
//! same way on both sides.

use std::{
    io::Read,
    net::TcpListener,
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::site::HOST;

/// A task that connects writes at once.
const SILENCE: Duration = Duration::from_secs(1);
/// Nobody writes a longer name.
const LONGEST: u64 = 256;

/// Hears tasks until it is dropped.
#[derive(Debug)]
pub(super) struct Knocks {
    address: String,
    heard: Receiver<(Instant, String)>,
}

impl Knocks {
    pub(super) fn listen() -> Result<Self> {
        let listener = TcpListener::bind((HOST, 0)).context("cannot listen for tasks")?;
        let address = listener.local_addr()?.to_string();
        let (sender, heard) = channel();
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let at = Instant::now();
                let mut name = String::new();
                let _ = stream.set_read_timeout(Some(SILENCE));
                let _ = stream.take(LONGEST).read_to_string(&mut name);
                // Once nobody hears it any more the port is closed, which tells the tasks to end.
                if sender.send((at, name)).is_err() {
                    return;
                }
            }
        });
        Ok(Self { address, heard })
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// The next task of a pod that is none of these: when it began, and the pod.
    pub(super) fn next_but(&self, known: &[String], limit: Duration) -> Result<(Instant, String)> {
        let until = Instant::now() + limit;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let heard = self.heard.recv_timeout(left);
            let (at, name) = heard.with_context(|| format!("no task came within {limit:?}"))?;
            if !known.contains(&name) {
                return Ok((at, name));
            }
        }
    }

    /// What was heard so far is forgotten.
    pub(super) fn forget(&self) {
        while self.heard.try_recv().is_ok() {}
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, net::TcpStream, sync::mpsc::channel};

    use super::*;

    #[test]
    fn a_pod_that_is_known_is_passed_over() {
        let (sender, heard) = channel();
        let knocks = Knocks { address: String::new(), heard };
        for name in ["a", "b", "a", "c"] {
            sender.send((Instant::now(), name.to_owned())).unwrap();
        }
        let known = ["a".to_owned(), "b".to_owned()];
        assert_eq!(knocks.next_but(&known, Duration::from_secs(1)).unwrap().1, "c");
        assert!(knocks.next_but(&[], Duration::from_millis(1)).is_err());
    }

    #[test]
    fn what_a_task_writes_is_its_pod() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let task = thread::spawn(move || {
            TcpStream::connect(address).unwrap().write_all(b"knock-exec-1").unwrap();
        });
        let mut name = String::new();
        listener.accept().unwrap().0.take(LONGEST).read_to_string(&mut name).unwrap();
        task.join().unwrap();
        assert_eq!(name, "knock-exec-1");
    }
}
