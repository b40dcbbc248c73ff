//! The applications that somebody asked for last. A log that has grown is read from where reading ended.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use firesteel_status::{AppStatus, Retention};

use super::lock;
use crate::Replay;
use crate::log::{Lines, LogSource};

/// Statuses of logs, at most so many.
#[derive(Debug)]
pub(super) struct Opened {
    retained: usize,
    retention: Retention,
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    /// Counts requests: the number says who was asked for when.
    clock: u64,
    logs: BTreeMap<PathBuf, (u64, Slot)>,
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
}

impl Opened {
    pub(super) fn new(retained: usize, retention: Retention) -> Self {
        Opened { retained, retention, cache: Mutex::default() }
    }

    /// Forgets logs that are gone.
    pub(super) fn retain(&self, is_there: impl Fn(&Path) -> bool) {
        lock(&self.cache).logs.retain(|path, _| is_there(path));
    }

    fn slot(&self, path: &Path) -> Slot {
        let cache = &mut *lock(&self.cache);
        cache.clock += 1;
        let slot = cache.logs.entry(path.to_owned()).or_default();
        slot.0 = cache.clock;
        let found = slot.1.clone();
        while cache.logs.len() > self.retained.max(1) {
            let oldest = cache.logs.iter().min_by_key(|(_, (asked, _))| *asked);
            let Some(oldest) = oldest.map(|(path, _)| path.clone()) else { break };
            cache.logs.remove(&oldest);
        }
        found
    }

    /// Looks at the status of a log, with everything that is in it by now; `false`: it is gone.
    pub(super) fn with(&self, path: &Path, look: &mut dyn FnMut(&AppStatus)) -> io::Result<bool> {
        let slot = self.slot(path);
        // Who asks for the same log waits, and gets it as it was read.
        let mut slot = lock(&slot);
        let Some(source) = LogSource::at(path) else { return Ok(false) };
        let is_stale = slot.as_ref().is_some_and(|open| open.bytes() > source.bytes);
        if is_stale {
            // Written anew, or compacted.
            *slot = None;
        }
        let open = slot.get_or_insert_with(|| OpenLog::new(self.retention));
        open.catch_up(source)?;
        look(open.replay.status());
        Ok(true)
    }
}

impl OpenLog {
    fn new(retention: Retention) -> Self {
        OpenLog { source: None, lines: Lines::default(), replay: Replay::new(retention) }
    }

    fn bytes(&self) -> u64 {
        self.source.as_ref().map_or(0, |source| source.bytes)
    }

    fn catch_up(&mut self, source: LogSource) -> io::Result<()> {
        if self.source.as_ref() == Some(&source) {
            return Ok(());
        }
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
