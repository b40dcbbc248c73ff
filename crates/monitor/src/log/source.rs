//! Which files a log is.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use firesteel_types::Tick;
use serde::{Deserialize, Serialize};

use super::{Codec, IN_PROGRESS, ROLLING};

/// A log in a directory of logs, as it was when it was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSource {
    /// The file, or the directory of a rolling log.
    pub path: PathBuf,
    /// Whether its application has not said that it is over.
    pub in_progress: bool,
    /// Bytes of all its files.
    pub bytes: u64,
    /// When it was changed last.
    pub modified: Tick,
    pub(super) parts: Vec<Part>,
}

/// One file of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Part {
    pub(super) path: PathBuf,
    /// Its number among the files of a rolling log.
    pub(super) number: u64,
    pub(super) codec: Codec,
    pub(super) bytes: u64,
}

/// All logs in a directory. What is no log, or is compressed in a way that we cannot read, is left out.
pub fn discover(directory: &Path) -> io::Result<Vec<LogSource>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        // One file that cannot be looked at is no reason to look at none.
        let Ok(entry) = entry else { continue };
        found.extend(LogSource::at(&entry.path()));
    }
    Ok(found)
}

impl LogSource {
    /// The log at a path; `None`: there is none. Links are not followed: what they lead to is not in the directory.
    pub fn at(path: &Path) -> Option<Self> {
        let name =
            path.file_name().and_then(OsStr::to_str).filter(|name| !name.starts_with('.'))?;
        let metadata = fs::symlink_metadata(path).ok()?;
        if metadata.is_dir() {
            return name.starts_with(ROLLING).then(|| rolling(path)).flatten();
        }
        metadata.is_file().then(|| single(path, name, &metadata)).flatten()
    }

    /// Removes all its files.
    pub fn remove(&self) -> io::Result<()> {
        match fs::symlink_metadata(&self.path)?.is_dir() {
            true => fs::remove_dir_all(&self.path),
            false => fs::remove_file(&self.path),
        }
    }

    /// Its files with how many bytes they had, the oldest first.
    pub fn sized_files(&self) -> impl Iterator<Item = (&Path, u64)> {
        self.parts.iter().map(|part| (part.path.as_path(), part.bytes))
    }

    /// Its files, the oldest first.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().map(|part| part.path.as_path())
    }
}

fn modified(metadata: &Metadata) -> Tick {
    let since = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    Tick(since.map_or(0, |since| since.as_millis() as u64))
}

fn single(path: &Path, name: &str, metadata: &Metadata) -> Option<LogSource> {
    let finished = name.strip_suffix(IN_PROGRESS);
    let (_, codec) = Codec::split(finished.unwrap_or(name))?;
    let bytes = metadata.len();
    let part = Part { path: path.to_owned(), number: 0, codec, bytes };
    Some(LogSource {
        path: path.to_owned(),
        in_progress: finished.is_some(),
        bytes,
        modified: modified(metadata),
        parts: vec![part],
    })
}

fn rolling(path: &Path) -> Option<LogSource> {
    let mut log = LogSource {
        path: path.to_owned(),
        in_progress: false,
        bytes: 0,
        modified: Tick(0),
        parts: Vec::new(),
    };
    let mut compacted = 0;
    for entry in fs::read_dir(path).ok()?.flatten() {
        let name = entry.file_name();
        let (Some(name), Ok(metadata)) = (name.to_str(), fs::symlink_metadata(entry.path())) else {
            continue;
        };
        if !metadata.is_file() {
            continue;
        }
        if name.starts_with("appstatus_") {
            log.in_progress |= name.ends_with(IN_PROGRESS);
            continue;
        }
        let Some((number, codec, is_compact)) = events_file(name) else { continue };
        compacted = if is_compact { number.max(compacted) } else { compacted };
        log.bytes += metadata.len();
        log.modified = log.modified.max(modified(&metadata));
        log.parts.push(Part { path: entry.path(), number, codec, bytes: metadata.len() });
    }
    // A compacted file stands for all before it, and for the one of its own number.
    log.parts.retain(|part| {
        part.number > compacted || (part.number == compacted && is_compact(&part.path))
    });
    log.parts.sort_by_key(|part| part.number);
    (!log.parts.is_empty()).then_some(log)
}

fn is_compact(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "compact")
}

/// `events_NUMBER_...`: the number, the codec, whether it was compacted.
fn events_file(name: &str) -> Option<(u64, Codec, bool)> {
    let (number, rest) = name.strip_prefix("events_")?.split_once('_')?;
    let plain = rest.strip_suffix(".compact");
    let (_, codec) = Codec::split(plain.unwrap_or(rest))?;
    Some((number.parse().ok()?, codec, plain.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_logs_by_their_names_and_links_are_none() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str| fs::write(directory.path().join(name), "x").unwrap();
        let files = ["app-1", "app-2.zstd", "app-3.lz4.inprogress", ".hidden", "app-4.snappy"];
        files.into_iter().for_each(write);
        fs::create_dir(directory.path().join("other")).unwrap();
        fs::create_dir(directory.path().join("eventlog_v2_app-5")).unwrap();
        let part = |name: &str| write(&format!("eventlog_v2_app-5/{name}"));
        part("appstatus_app-5.inprogress");
        let numbers = ["10_app-5", "2_app-5", "9_app-5", "x_app-5", "1_app-5", "2_app-5.compact"];
        numbers.into_iter().for_each(|number| part(&format!("events_{number}")));
        std::os::unix::fs::symlink("/etc/passwd", directory.path().join("app-6")).unwrap();
        let mut found = discover(directory.path()).unwrap();
        found.sort_by(|a, b| a.path.cmp(&b.path));
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        let names: Vec<_> = found.iter().map(|log| (name(&log.path), log.in_progress)).collect();
        let expected = [("app-1", false), ("app-2.zstd", false), ("app-3.lz4.inprogress", true)];
        let expected = expected.into_iter().chain([("eventlog_v2_app-5", true)]);
        assert_eq!(names, expected.map(|(a, b)| (a.to_owned(), b)).collect::<Vec<_>>());
        let parts: Vec<_> = found[3].files().map(name).collect();
        assert_eq!(parts, ["events_2_app-5.compact", "events_9_app-5", "events_10_app-5"]);
    }
}
