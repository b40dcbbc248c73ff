//! The files of a log that goes to an object store.
//!
//! Objects cannot grow, so each is put once, as another file of a rolling log: when it is large enough, or when what it has is old
//! enough. A log of a day is some fifteen hundred objects, and a driver that is killed leaves all but the last seconds of its log, of
//! one that has run for an hour or longer the last minute.
//! A thread of its own puts them: the writer of the log waits for no store.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use firesteel_io::ObjectDirectory;

use super::{Codec, IN_PROGRESS, ROLLING};

/// So large an object is put at once.
const OBJECT: usize = 8 << 20;
/// What is not in the store yet is put after this, and after a fiftieth of the time that the application has run: the longer it runs,
/// the fewer objects a minute. But after so long in any case: a driver that is killed loses that much.
const FRESH: Duration = Duration::from_secs(10);
const SHARE: u32 = 50;
const STALE: Duration = Duration::from_secs(60);
/// More bytes do not wait: the store is too slow, and the log incomplete.
const WAITING: u64 = 64 << 20;
/// How long the end of an application waits for the rest of its log.
const PATIENCE: Duration = Duration::from_secs(25);

enum Told {
    /// Whole frames, or whole lines.
    Bytes(Vec<u8>),
    /// The application is over, and the log is whole.
    Finish,
}

/// A log on its way into an object store.
struct Upload {
    store: Arc<ObjectDirectory>,
    /// Application and attempt, as a part of names.
    name: String,
    codec: Codec,
    overwrite: bool,
    /// Of the object that is put last.
    number: u64,
    /// What the next one has so far, and since when.
    held: Vec<u8>,
    since: Instant,
    began: Instant,
    waiting: Arc<AtomicU64>,
}

/// A log in a store, as its writer sees it.
#[derive(Debug)]
pub(super) struct Uploader {
    to: Option<Sender<Told>>,
    waiting: Arc<AtomicU64>,
    failed: Arc<OnceLock<String>>,
    /// Breaks when the thread ends.
    ended: Receiver<()>,
    patience: Duration,
}

impl Uploader {
    pub(super) fn start(
        store: Arc<ObjectDirectory>,
        name: &str,
        codec: Codec,
        overwrite: bool,
    ) -> io::Result<Self> {
        let waiting = Arc::new(AtomicU64::new(0));
        let now = Instant::now();
        let mut upload = Upload {
            store,
            name: name.to_owned(),
            codec,
            overwrite,
            number: 0,
            held: Vec::new(),
            since: now,
            began: now,
            waiting: waiting.clone(),
        };
        let (to, told) = mpsc::channel();
        let (ending, ended) = mpsc::channel::<()>();
        let failed = Arc::new(OnceLock::new());
        let failure = failed.clone();
        let run = move || {
            let _ending = ending;
            if let Err(error) = upload.run(&told) {
                let _ = failure.set(error.to_string());
            }
        };
        std::thread::Builder::new().name("firesteel-eventlog".to_owned()).spawn(run)?;
        Ok(Uploader { to: Some(to), waiting, failed, ended, patience: PATIENCE })
    }

    fn failure(&self) -> io::Error {
        let text = self.failed.get().cloned();
        io::Error::other(text.unwrap_or_else(|| "the store takes too long".to_owned()))
    }

    /// Hands bytes over. Never waits.
    pub(super) fn write(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        let length = bytes.len() as u64;
        if self.waiting.fetch_add(length, Ordering::Relaxed) + length > WAITING {
            self.patience = Duration::ZERO;
            return Err(self.failure());
        }
        let sent = self.to.as_ref().is_some_and(|to| to.send(Told::Bytes(bytes)).is_ok());
        if sent { Ok(()) } else { Err(self.failure()) }
    }

    /// Waits until everything is in the store, within limits.
    pub(super) fn finish(mut self) -> io::Result<()> {
        let told = self.to.take().is_some_and(|to| to.send(Told::Finish).is_ok());
        let ended = self.ended.recv_timeout(std::mem::take(&mut self.patience));
        match (told, ended, self.failed.get()) {
            (true, Err(RecvTimeoutError::Disconnected), None) => Ok(()),
            _ => Err(self.failure()),
        }
    }
}

/// An application that ends without saying so: what was told is put, and the log stays one in progress.
impl Drop for Uploader {
    fn drop(&mut self) {
        drop(self.to.take());
        let _ = self.ended.recv_timeout(self.patience);
    }
}

/// How long something waits to be put, of an application that has run for so long.
fn patience(runs: Duration) -> Duration {
    (runs / SHARE).clamp(FRESH, STALE)
}

impl Upload {
    fn path(&self, name: &str) -> String {
        format!("{ROLLING}{}/{name}", self.name)
    }

    fn status(&self, end: &str) -> String {
        self.path(&format!("appstatus_{}{end}", self.name))
    }

    fn run(&mut self, told: &Receiver<Told>) -> io::Result<()> {
        self.make_room()?;
        self.store.put(&self.status(IN_PROGRESS), Vec::new())?;
        loop {
            match self.next(told) {
                Ok(Told::Bytes(bytes)) => self.take(&bytes)?,
                Ok(Told::Finish) => {
                    self.put()?;
                    self.store.put(&self.status(""), Vec::new())?;
                    return self.store.remove(&[&self.status(IN_PROGRESS)]);
                }
                Err(RecvTimeoutError::Timeout) => self.put()?,
                Err(RecvTimeoutError::Disconnected) => return self.put(),
            }
        }
    }

    fn next(&self, told: &Receiver<Told>) -> Result<Told, RecvTimeoutError> {
        if self.held.is_empty() {
            return told.recv().map_err(|_| RecvTimeoutError::Disconnected);
        }
        let patience = patience(self.began.elapsed());
        told.recv_timeout(patience.saturating_sub(self.since.elapsed()))
    }

    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.held.is_empty() {
            self.since = Instant::now();
        }
        self.held.extend_from_slice(bytes);
        if self.held.len() >= OBJECT { self.put() } else { Ok(()) }
    }

    /// Puts what is held as one object.
    fn put(&mut self) -> io::Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        let mut bytes = std::mem::take(&mut self.held);
        let length = bytes.len() as u64;
        self.codec.finish(&mut bytes)?;
        self.number += 1;
        let end = self.codec.extension();
        let name = self.path(&format!("events_{}_{}{end}", self.number, self.name));
        let put = self.store.put(&name, bytes);
        self.waiting.fetch_sub(length, Ordering::Relaxed);
        put
    }

    /// Another log of this name goes if it may.
    fn make_room(&self) -> io::Result<()> {
        let there = self.store.list(Some(&format!("{ROLLING}{}", self.name)))?;
        if there.is_empty() {
            return Ok(());
        }
        if !self.overwrite {
            let (url, name) = (self.store.url(), &self.name);
            let text =
                format!("{url}/{ROLLING}{name} exists already; set spark.eventLog.overwrite=true");
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        self.store.remove(&there.iter().map(|object| object.name.as_str()).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_driver_loses_is_a_minute_at_most_however_long_it_ran() {
        let after = |minutes: u64| patience(Duration::from_secs(60 * minutes)).as_secs();
        assert_eq!([0, 1, 25, 50, 60, 24 * 60].map(after), [10, 10, 30, 60, 60, 60]);
    }
}
