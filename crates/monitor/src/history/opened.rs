//! The applications that somebody asked for last. A log that has grown is read from where reading ended.

use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use firesteel_metrics::{Histogram, Metrics, Timer};
use firesteel_status::{AppStatus, Retention};
use firesteel_types::Tick;

use super::index::Index;
use super::lock;
use crate::Replay;
use crate::log::{Lines, LogDirectory, LogSource};

/// So many logs are read at once: each takes memory for what it says.
const READING: usize = 4;

/// An application may take so many bytes in any case, and this many at most, as a running one.
const OF_ONE: RangeInclusive<usize> = 64 << 20..=1 << 30;

/// How much is held in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) applications: usize,
    /// Bytes, roughly. One application is held in any case: it takes half of them at most.
    pub(super) bytes: usize,
}

impl Limits {
    fn of_one(&self) -> usize {
        (self.bytes / 2).clamp(*OF_ONE.start(), *OF_ONE.end())
    }
}

/// Statuses of logs, within limits.
#[derive(Debug)]
pub(super) struct Opened {
    directory: LogDirectory,
    limits: Limits,
    retention: Retention,
    index: Option<Index>,
    cache: Mutex<Cache>,
    reading: Mutex<usize>,
    read: Condvar,
    loads: Loads,
}

/// What it takes to read logs, or what is stored of them.
#[derive(Debug, Default)]
struct Loads {
    time: Timer,
    bytes: Histogram,
}

#[derive(Debug, Default)]
struct Cache {
    /// Counts requests: the number says who was asked for when.
    clock: u64,
    logs: BTreeMap<PathBuf, Held>,
}

#[derive(Debug, Default)]
struct Held {
    asked: u64,
    bytes: usize,
    slot: Slot,
}

/// A log that is being read, or was.
type Slot = Arc<Mutex<Option<OpenLog>>>;

/// A log as far as it was read.
#[derive(Debug)]
struct OpenLog {
    /// As it was then; `None`: nothing was read.
    source: Option<LogSource>,
    lines: Lines,
    replay: Replay,
    /// It came from the index: where in the log that was is not known.
    is_stored: bool,
}

impl Cache {
    /// Evicts what was asked for longest ago, but for `path`.
    fn evict(&mut self, limits: Limits, path: &Path) {
        loop {
            let bytes: usize = self.logs.values().map(|held| held.bytes).sum();
            let is_full = self.logs.len() > limits.applications.max(1) || bytes > limits.bytes;
            let others = self.logs.iter().filter(|(other, _)| *other != path);
            let oldest = others.min_by_key(|(_, held)| held.asked).map(|(path, _)| path.clone());
            match oldest.filter(|_| is_full) {
                Some(oldest) => self.logs.remove(&oldest),
                None => return,
            };
        }
    }
}

impl Opened {
    pub(super) fn new(
        directory: LogDirectory,
        limits: Limits,
        retention: Retention,
        index: Option<Index>,
    ) -> Self {
        let (cache, reading, read) = (Mutex::default(), Mutex::default(), Condvar::new());
        let loads = Loads::default();
        Opened { directory, limits, retention, index, cache, reading, read, loads }
    }

    /// Tells how long logs took to be read.
    pub(super) fn tell(&self, metrics: &mut Metrics) {
        metrics.timer("cache.load.timer", self.loads.time.snapshot());
        metrics.histogram("cache.load.bytes", self.loads.bytes.snapshot());
    }

    pub(super) fn index(&self) -> Option<&Index> {
        self.index.as_ref()
    }

    /// Forgets logs that are gone.
    pub(super) fn retain(&self, is_there: impl Fn(&Path) -> bool) {
        lock(&self.cache).logs.retain(|path, _| is_there(path));
    }

    fn slot(&self, path: &Path) -> Slot {
        let cache = &mut *lock(&self.cache);
        cache.clock += 1;
        let held = cache.logs.entry(path.to_owned()).or_default();
        held.asked = cache.clock;
        let slot = held.slot.clone();
        cache.evict(self.limits, path);
        slot
    }

    fn weigh(&self, path: &Path, bytes: usize) {
        let cache = &mut *lock(&self.cache);
        if let Some(held) = cache.logs.get_mut(path) {
            held.bytes = bytes;
        }
        cache.evict(self.limits, path);
    }

    /// Looks at the status of a log, with everything that is in it by now. The log as it was read; `None`: it is gone.
    pub(super) fn with(
        &self,
        listed: &LogSource,
        look: &mut dyn FnMut(&AppStatus),
    ) -> io::Result<Option<LogSource>> {
        let path = &listed.path;
        let slot = self.slot(path);
        // Who asks for the same log waits, and gets it as it was read.
        let mut slot = lock(&slot);
        let Some(source) = self.directory.now(listed) else { return Ok(None) };
        let is_stale = slot.as_ref().is_some_and(|open| open.is_stale(&source));
        if is_stale {
            // Written anew, or compacted.
            *slot = None;
        }
        let open = slot.get_or_insert_with(|| OpenLog::new(self.retention, self.limits.of_one()));
        if open.source.as_ref() != Some(&source) {
            let (begun, bytes) = (Instant::now(), source.bytes);
            match self.catch_up(open, source.clone()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                read => read?,
            }
            self.loads.time.update(begun.elapsed(), 1);
            self.loads.bytes.update(bytes);
            self.weigh(path, open.replay.status().weight());
        }
        look(open.replay.status());
        Ok(Some(source))
    }

    fn catch_up(&self, open: &mut OpenLog, source: LogSource) -> io::Result<()> {
        let _place = self.place();
        let stored = match (&self.index, &open.source) {
            (Some(index), None) if !source.in_progress => index.status(&source),
            _ => None,
        };
        if let Some(status) = stored {
            open.replay = Replay::of(status);
            (open.source, open.is_stored) = (Some(source), true);
            return Ok(());
        }
        open.catch_up(source)?;
        if let (Some(index), Some(source)) = (&self.index, &open.source) {
            index.store_status(source, open.replay.status());
        }
        Ok(())
    }

    /// Waits until few enough logs are read at once.
    fn place(&self) -> Place<'_> {
        let waited = self.read.wait_while(lock(&self.reading), |reading| *reading >= READING);
        *waited.unwrap_or_else(|poisoned| poisoned.into_inner()) += 1;
        Place(self)
    }
}

/// The right to read a log.
struct Place<'a>(&'a Opened);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *lock(&self.0.reading) -= 1;
        self.0.read.notify_one();
    }
}

impl OpenLog {
    fn new(retention: Retention, bytes: usize) -> Self {
        let (lines, replay) = (Lines::default(), Replay::new(retention).within(bytes));
        OpenLog { source: None, lines, replay, is_stored: false }
    }

    /// Whether reading cannot go on where it ended.
    fn is_stale(&self, now: &LogSource) -> bool {
        let Some(then) = &self.source else { return false };
        let is_another = then.made != now.made && then.made != Tick(0);
        then.bytes > now.bytes || is_another || (self.is_stored && then != now)
    }

    fn catch_up(&mut self, source: LogSource) -> io::Result<()> {
        let replay = &mut self.replay;
        self.lines.read(&source, &mut |line| {
            replay.line(line);
            true
        })?;
        if replay.unreadable() + self.lines.broken > 0 {
            let (lines, log) = (replay.unreadable() + self.lines.broken, source.path.display());
            tracing::debug!(%log, lines, "parts of a log could not be read");
        }
        self.source = Some(source);
        Ok(())
    }
}

#[cfg(test)]
impl Opened {
    pub(super) fn held(&self) -> usize {
        lock(&self.cache).logs.len()
    }
}
