//! A directory of logs, and the applications in it.
//!
//! | file | owns |
//! |---|---|
//! | `listing` | which applications there are: the first and the last lines of each log |
//! | `opened` | the applications that somebody asked for last, read as far as their logs go |
//! | `index` | what was read, stored for the next time |
//! | `cleaner` | which logs are too many or too old |
//!
//! A log is looked at again when it has grown; what was read of it is not read twice. Ids in requests are compared with
//! those in logs and never become a part of a path.

mod cleaner;
mod index;
mod listing;
mod opened;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use firesteel_conf::{Conf, ConfError, entries};
use firesteel_metrics::Metrics;
use firesteel_status::{AppStatus, Retention};
use firesteel_types::Tick;

use crate::archive::Archive;
use crate::log::{LogDirectory, LogSource};
use crate::rest::{ApplicationEntry, Applications};
use index::Index;
use listing::Listing;
use opened::{Limits, Opened};

/// Settings of a history server.
#[derive(Clone, Debug)]
pub struct HistoryOptions {
    pub directory: LogDirectory,
    /// How often the directory is looked at.
    pub update_interval: Duration,
    /// How many applications are held in memory.
    pub retained: usize,
    /// How many bytes of memory they take, roughly.
    pub retained_bytes: usize,
    /// Where what was read is stored; `None`: nowhere.
    pub store: Option<PathBuf>,
    /// How many bytes of disk that takes.
    pub store_bytes: u64,
    /// What is remembered of each of them.
    pub retention: Retention,
    /// `None`: nothing is removed.
    pub cleaner: Option<CleanerOptions>,
}

/// Which logs the cleaner removes.
#[derive(Clone, Copy, Debug)]
pub struct CleanerOptions {
    /// How often they are looked for.
    pub interval: Duration,
    pub max_age: Duration,
    pub max_number: usize,
    /// Bytes of all logs together; `None`: as many as there are.
    pub max_bytes: Option<u64>,
}

/// Why the settings of a history server are none.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    #[error(transparent)]
    Setting(#[from] ConfError),
    #[error("{directory}: {source}")]
    Directory { directory: String, source: io::Error },
    #[error("cannot read the directory of logs {}: {source}; make it, or give another one", directory.display())]
    Unreadable { directory: PathBuf, source: io::Error },
    #[error("cannot write to spark.history.store.path={}: {source}; give another directory, or none", directory.display())]
    Store { directory: PathBuf, source: io::Error },
}

impl HistoryOptions {
    /// As the settings say.
    pub fn from_conf(conf: &Conf) -> Result<Self, HistoryError> {
        let text = conf.get(&entries::HISTORY_LOG_DIRECTORY)?;
        let directory = LogDirectory::of(&text, conf)
            .map_err(|source| HistoryError::Directory { directory: text, source })?;
        let cleaner = CleanerOptions {
            interval: conf.get(&entries::HISTORY_CLEANER_INTERVAL)?,
            max_age: conf.get(&entries::HISTORY_CLEANER_MAX_AGE)?,
            max_number: conf.get(&entries::HISTORY_CLEANER_MAX_NUM)? as usize,
            max_bytes: conf.get(&entries::HISTORY_CLEANER_MAX_SIZE)?.map(|size| size.0),
        };
        let memory = conf.get(&entries::HISTORY_STORE_MAX_MEMORY)?.0;
        Ok(HistoryOptions {
            directory,
            update_interval: conf.get(&entries::HISTORY_UPDATE_INTERVAL)?,
            retained: conf.get(&entries::HISTORY_RETAINED_APPLICATIONS)? as usize,
            retained_bytes: usize::try_from(memory).unwrap_or(usize::MAX),
            store: conf.get(&entries::HISTORY_STORE_PATH)?.map(PathBuf::from),
            store_bytes: conf.get(&entries::HISTORY_STORE_MAX_DISK)?.0,
            retention: Retention::from_conf(conf)?,
            cleaner: conf.get(&entries::HISTORY_CLEANER_ENABLED)?.then_some(cleaner),
        })
    }
}

/// So many logs that are new are held until they are read. A directory may have a million.
const BATCH: usize = 10_000;

/// The applications of a directory.
#[derive(Debug)]
pub struct History {
    options: HistoryOptions,
    listing: Mutex<Listing>,
    /// One looks at the directory at a time.
    looking: Mutex<()>,
    opened: Opened,
}

impl History {
    /// Looks at the directory for the first time.
    pub fn open(options: HistoryOptions) -> Result<Self, HistoryError> {
        let index = options.store.as_deref().map(|directory| {
            Index::open(directory, options.store_bytes).map_err(|source| {
                let directory = directory.to_owned();
                HistoryError::Store { directory, source }
            })
        });
        Self::with_index(options, index.transpose()?)
    }

    fn with_index(options: HistoryOptions, index: Option<Index>) -> Result<Self, HistoryError> {
        let mut listing = Listing::default();
        let known = index.as_ref().map(Index::listing).unwrap_or_default();
        for (mut log, listed) in known {
            options.directory.adopt(&mut log);
            listing.insert(log, listed);
        }
        let limits = Limits { applications: options.retained, bytes: options.retained_bytes };
        let directory = options.directory.clone();
        let opened = Opened::new(directory, limits, options.retention, index);
        let (listing, looking) = (Mutex::new(listing), Mutex::default());
        let history = History { options, listing, looking, opened };
        history.refresh().map_err(|source| {
            let directory = history.options.directory.path().to_owned();
            HistoryError::Unreadable { directory, source }
        })?;
        Ok(history)
    }

    /// What it was made with.
    pub fn options(&self) -> &HistoryOptions {
        &self.options
    }

    /// Looks at the directory again: new logs, logs that have grown, logs that are gone.
    pub fn refresh(&self) -> io::Result<()> {
        let _one = lock(&self.looking);
        let before = lock(&self.listing).counts();
        lock(&self.listing).begin();
        let (taken, mut changed) = (AtomicBool::new(false), Vec::new());
        // Not under the lock of the list: a long log takes its time.
        let read = |logs: &mut Vec<LogSource>| {
            listing::read_all(logs, &|log, read| {
                taken.fetch_or(lock(&self.listing).take(log, read), Ordering::Relaxed);
            });
            logs.clear();
        };
        self.options.directory.each(&mut |log| {
            if lock(&self.listing).see(&log) {
                changed.push(log);
            }
            if changed.len() == BATCH {
                read(&mut changed);
            }
        })?;
        read(&mut changed);
        lock(&self.listing).end();
        let is_changed = taken.into_inner() || before != lock(&self.listing).counts();
        if let Some(index) = self.opened.index().filter(|_| is_changed) {
            index.store_listing(&lock(&self.listing).entries());
        }
        self.opened.retain(|path| lock(&self.listing).knows(path));
        Ok(())
    }

    /// Removes logs that are too old or too many. How many.
    pub fn clean(&self, now: Tick) -> usize {
        let Some(options) = &self.options.cleaner else { return 0 };
        let outdated = cleaner::outdated(self.listed(), options, now);
        let mut removed = outdated.iter().filter(|log| is_removed(log)).count();
        removed += self.remove_others(|log| cleaner::is_old(log, options, now));
        if removed > 0 {
            let _ = self.refresh();
        }
        removed
    }

    fn listed(&self) -> Vec<LogSource> {
        lock(&self.listing).logs()
    }

    /// Removes what is old in the directory and the log of no application, one by one: there may be very many. How many.
    fn remove_others(&self, is_old: impl Fn(&LogSource) -> bool) -> usize {
        let mut removed = 0;
        let looked = self.options.directory.each(&mut |log| {
            let is_other = !lock(&self.listing).knows(&log.path);
            removed += usize::from(is_other && is_old(&log) && is_removed(&log));
        });
        if let Err(error) = looked {
            tracing::warn!(%error, "old files that are no logs stay: the directory of logs cannot be read");
        }
        removed
    }

    fn source(&self) -> String {
        self.options.directory.source()
    }

    fn read(
        &self,
        log: &LogSource,
        look: &mut dyn FnMut(&AppStatus),
    ) -> io::Result<Option<LogSource>> {
        self.opened.with(log, look).inspect_err(|error| {
            tracing::warn!(%error, log = %log.path.display(), "a log could not be read");
        })
    }
}

impl Applications for History {
    fn list(&self) -> Vec<ApplicationEntry> {
        lock(&self.listing).applications(&self.source())
    }

    fn find(&self, id: &str) -> Option<ApplicationEntry> {
        lock(&self.listing).application(id, &self.source())
    }

    fn with_status(
        &self,
        id: &str,
        attempt: Option<&str>,
        look: &mut dyn FnMut(&AppStatus),
    ) -> bool {
        self.read_status(id, attempt, look).unwrap_or(false)
    }

    fn read_status(
        &self,
        id: &str,
        attempt: Option<&str>,
        look: &mut dyn FnMut(&AppStatus),
    ) -> io::Result<bool> {
        match lock(&self.listing).log(id, attempt) {
            Some(log) => Ok(self.read(&log, look)?.is_some()),
            None => Ok(false),
        }
    }

    fn is_live(&self) -> bool {
        false
    }

    fn metrics(&self) -> Option<Metrics> {
        let (logs, applications) = lock(&self.listing).counts();
        let mut metrics = Metrics::new("history");
        metrics.gauge("logs", logs as u64);
        metrics.gauge("applications", applications as u64);
        self.opened.tell(&mut metrics);
        firesteel_metrics::process(&mut metrics);
        Some(metrics)
    }

    fn logs(&self, id: &str, attempt: Option<&str>) -> Option<io::Result<Archive>> {
        let logs = lock(&self.listing).logs_of(id, attempt);
        (!logs.is_empty()).then(|| Archive::of_logs(&logs))
    }

    /// Each log is asked about by itself, and the archive has those that were, as they were then: what is in it of another application
    /// or attempt says nothing about it.
    fn logs_seen(
        &self,
        id: &str,
        attempt: Option<&str>,
        may_see: &mut dyn FnMut(&AppStatus) -> bool,
    ) -> Option<io::Result<Archive>> {
        let logs = lock(&self.listing).logs_of(id, attempt);
        let mut seen = Vec::new();
        for log in logs {
            let mut is_seen = true;
            match self.read(&log, &mut |status| is_seen = may_see(status)) {
                Ok(_) if !is_seen => return None,
                Ok(log) => seen.extend(log),
                Err(error) => return Some(Err(error)),
            }
        }
        (!seen.is_empty()).then(|| Archive::of_logs(&seen))
    }
}

/// Removes a log.
fn is_removed(log: &LogSource) -> bool {
    let removed = log.remove();
    if let Err(error) = &removed {
        tracing::warn!(%error, log = %log.path.display(), "an old log stays");
    }
    removed.is_ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
