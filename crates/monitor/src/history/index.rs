//! What was read of logs, stored: the list of all, and the status of those that are whole. The next server, or the next
//! request for a log that was forgotten, reads no log twice.
//!
//! ```text
//! listing          all logs, with what the list shows of each
//! apps/HASH        the status of one log
//! ```
//!
//! Every file begins with a version and a checksum; one that does not fit, or whose log has changed, is as good as none. Files are
//! replaced whole. Of more bytes than `spark.history.store.maxDiskUsage`, those that were used longest ago go.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use firesteel_status::AppStatus;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::listing::Listed;
use super::lock;
use crate::log::LogSource;

/// Changes with every change of what is stored.
const VERSION: &str = concat!("firesteel history 6 ", env!("CARGO_PKG_VERSION"), "\n");
/// The status of a smaller log is read from the log as quickly.
const WORTH: u64 = 256 << 10;

/// A directory of what was read.
#[derive(Debug)]
pub(super) struct Index {
    directory: PathBuf,
    max_bytes: u64,
    worth: u64,
    /// One file is written at a time.
    writing: Mutex<()>,
}

impl Index {
    /// Makes the directory, which nobody else may read.
    pub(super) fn open(directory: &Path, max_bytes: u64) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory.join("apps"))?;
        let directory = directory.to_owned();
        Ok(Index { directory, max_bytes, worth: WORTH, writing: Mutex::default() })
    }

    #[cfg(test)]
    pub(super) fn of_everything(self) -> Self {
        Index { worth: 0, ..self }
    }

    /// The logs that were listed last.
    pub(super) fn listing(&self) -> Vec<(LogSource, Listed)> {
        read(&self.directory.join("listing")).unwrap_or_default()
    }

    pub(super) fn store_listing(&self, logs: &[(&LogSource, &Listed)]) {
        self.told(self.write(&self.directory.join("listing"), &logs));
    }

    fn path(&self, log: &LogSource) -> PathBuf {
        let name = log.path.as_os_str().as_encoded_bytes();
        let backwards: Vec<u8> = name.iter().rev().copied().collect();
        let (one, other) = (crc32fast::hash(name), crc32fast::hash(&backwards));
        self.directory.join("apps").join(format!("{one:08x}{other:08x}"))
    }

    /// The status of a log, if it was stored and the log is what it was.
    pub(super) fn status(&self, log: &LogSource) -> Option<AppStatus> {
        let path = self.path(log);
        let (of, mut status): (LogSource, AppStatus) = read(&path)?;
        if of != *log {
            return None;
        }
        // Used just now: others go first.
        let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        status.share();
        Some(status)
    }

    /// Stores the status of a log that is whole.
    pub(super) fn store_status(&self, log: &LogSource, status: &AppStatus) {
        if log.in_progress || log.bytes < self.worth {
            return;
        }
        self.told(self.write(&self.path(log), &(log, status)).and_then(|()| self.evict()));
    }

    fn told(&self, stored: io::Result<()>) {
        if let Err(error) = stored {
            let index = self.directory.display();
            tracing::warn!(%error, %index, "what was read of logs could not be stored: it is read again next time");
        }
    }

    fn write(&self, path: &Path, value: &impl Serialize) -> io::Result<()> {
        let bytes = postcard::to_stdvec(value).map_err(io::Error::other)?;
        let _one = lock(&self.writing);
        let temporary = self.directory.join("writing");
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(VERSION.as_bytes())?;
        file.write_all(&crc32fast::hash(&bytes).to_le_bytes())?;
        file.write_all(&bytes)?;
        drop(file);
        fs::rename(temporary, path)
    }

    fn evict(&self) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(self.directory.join("apps"))?.flatten() {
            let metadata = entry.metadata()?;
            files.push((metadata.modified()?, metadata.len(), entry.path()));
        }
        files.sort();
        let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, bytes, path) in files {
            if total <= self.max_bytes {
                break;
            }
            fs::remove_file(path)?;
            total -= bytes;
        }
        Ok(())
    }
}

/// What a file says; `None`: it is not there, or of another version, or damaged.
fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let bytes = fs::read(path).ok()?;
    let rest = bytes.strip_prefix(VERSION.as_bytes())?;
    let (checksum, rest) = rest.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*checksum) != crc32fast::hash(rest) {
        return None;
    }
    postcard::from_bytes(rest).ok()
}
