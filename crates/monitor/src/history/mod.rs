//! A directory of logs, and the applications in it.
//!
//! | file | owns |
//! |---|---|
//! | `listing` | which applications there are: the first and the last lines of each log |
//! | `opened` | the applications that somebody asked for last, read as far as their logs go |
//! | `cleaner` | which logs are too many or too old |
//! | `zip` | logs as an archive |
//!
//! A log is looked at again when it has grown; what was read of it is not read twice. Ids in requests are compared with
//! those in logs and never become a part of a path.

mod cleaner;
mod listing;
mod opened;
#[cfg(test)]
mod tests;
mod zip;

use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use firesteel_conf::{Conf, ConfError, entries};
use firesteel_status::{AppStatus, Retention};
use firesteel_types::Tick;

use crate::log::discover;
use crate::rest::{ApplicationEntry, Applications};
use listing::Listing;
use opened::Opened;

/// Settings of a history server.
#[derive(Clone, Debug)]
pub struct HistoryOptions {
    pub directory: PathBuf,
    /// How often the directory is looked at.
    pub update_interval: Duration,
    /// How many applications are held in memory.
    pub retained: usize,
    /// What is remembered of each of them.
    pub retention: Retention,
    /// `None`: nothing is removed.
    pub cleaner: Option<CleanerOptions>,
}

/// Which logs go.
#[derive(Clone, Copy, Debug)]
pub struct CleanerOptions {
    /// How often they are looked for.
    pub interval: Duration,
    pub max_age: Duration,
    pub max_number: usize,
}

/// Why the settings of a history server are none.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    #[error(transparent)]
    Setting(#[from] ConfError),
    #[error(
        "{directory}: logs are read from local directories only; give a path such as /tmp/spark-events"
    )]
    NotLocal { directory: String },
    #[error("cannot read the directory of logs {}: {source}; make it, or give another one", directory.display())]
    Unreadable { directory: PathBuf, source: io::Error },
}

impl HistoryOptions {
    /// As the settings say.
    pub fn from_conf(conf: &Conf) -> Result<Self, HistoryError> {
        let text = conf.get(&entries::HISTORY_LOG_DIRECTORY)?;
        let directory = crate::log::local_directory(&text)
            .ok_or_else(|| HistoryError::NotLocal { directory: text.clone() })?;
        let cleaner = CleanerOptions {
            interval: conf.get(&entries::HISTORY_CLEANER_INTERVAL)?,
            max_age: conf.get(&entries::HISTORY_CLEANER_MAX_AGE)?,
            max_number: conf.get(&entries::HISTORY_CLEANER_MAX_NUM)? as usize,
        };
        Ok(HistoryOptions {
            directory,
            update_interval: conf.get(&entries::HISTORY_UPDATE_INTERVAL)?,
            retained: conf.get(&entries::HISTORY_RETAINED_APPLICATIONS)? as usize,
            retention: Retention::from_conf(conf)?,
            cleaner: conf.get(&entries::HISTORY_CLEANER_ENABLED)?.then_some(cleaner),
        })
    }
}

/// The applications of a directory.
#[derive(Debug)]
pub struct History {
    options: HistoryOptions,
    listing: Mutex<Listing>,
    opened: Opened,
}

impl History {
    /// Looks at the directory for the first time.
    pub fn open(options: HistoryOptions) -> Result<Self, HistoryError> {
        let opened = Opened::new(options.retained, options.retention);
        let history = History { options, listing: Mutex::default(), opened };
        history.refresh().map_err(|source| {
            let directory = history.options.directory.clone();
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
        let found = discover(&self.options.directory)?;
        let changed = lock(&self.listing).retain(&found);
        for log in changed {
            // Not under the lock: a long log takes its time.
            let read = listing::read(&log);
            lock(&self.listing).insert(log, read);
        }
        self.opened.retain(|path| lock(&self.listing).knows(path));
        Ok(())
    }

    /// Removes logs that are too old or too many. How many.
    pub fn clean(&self, now: Tick) -> usize {
        let Some(options) = &self.options.cleaner else { return 0 };
        let logs = lock(&self.listing).logs();
        let mut removed = 0;
        for log in cleaner::outdated(logs, options, now) {
            match log.remove() {
                Ok(()) => removed += 1,
                Err(error) => {
                    tracing::warn!(%error, log = %log.path.display(), "an old log stays");
                }
            }
        }
        if removed > 0 {
            let _ = self.refresh();
        }
        removed
    }

    fn source(&self) -> String {
        format!("file:{}", self.options.directory.display())
    }
}

impl Applications for History {
    fn list(&self) -> Vec<ApplicationEntry> {
        lock(&self.listing).applications(&self.source())
    }

    fn with_status(
        &self,
        id: &str,
        attempt: Option<&str>,
        look: &mut dyn FnMut(&AppStatus),
    ) -> bool {
        let Some(path) = lock(&self.listing).path(id, attempt) else {
            return false;
        };
        match self.opened.with(&path, look) {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, log = %path.display(), "a log could not be read");
                false
            }
        }
    }

    fn is_live(&self) -> bool {
        false
    }

    fn logs(&self, id: &str, attempt: Option<&str>) -> Option<io::Result<Vec<u8>>> {
        let logs = lock(&self.listing).logs_of(id, attempt);
        (!logs.is_empty()).then(|| zip::of_logs(&logs))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
