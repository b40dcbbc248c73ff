//! Which files a log is.
//!
//! Logs lie in a directory of this machine, or in one of an object store. A path of the latter is its URL.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use firesteel_conf::Conf;
use firesteel_io::{ObjectDirectory, ObjectEntry, StoreOptions};
use firesteel_types::Tick;
use rustix::fs::{CWD, Mode, OFlags, openat};
use serde::{Deserialize, Serialize};

use super::{Codec, IN_PROGRESS, ROLLING};

/// A rolling log has no more files: they have a hundred megabytes each.
const PARTS: usize = 100_000;

#[derive(Clone, Debug)]
pub struct LogDirectory {
    path: PathBuf,
    store: Store,
}

/// The object store whose paths are meant; `None`: those of this machine. It says where a log is read, not which one it is: all are
/// equal.
#[derive(Clone, Debug, Default)]
struct Store(Option<Arc<ObjectDirectory>>);

impl PartialEq for Store {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Store {}

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
    /// When it was made, which nobody can change who may only write; 0: the system does not tell.
    pub(crate) made: Tick,
    pub(super) parts: Vec<Part>,
    /// Of a rolling log, the file whose name says whether it is over.
    status: Option<Part>,
    #[serde(skip)]
    store: Store,
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

/// A file as a directory or a store tells of it.
struct Listed {
    name: String,
    bytes: u64,
    modified: Tick,
    made: Tick,
}

/// Hadoop's settings of object stores, with Spark's prefix.
pub(crate) fn store_options(conf: &Conf) -> Arc<StoreOptions> {
    let settings = conf.iter().filter_map(|(key, value)| {
        let key = key.strip_prefix("spark.hadoop.")?;
        key.starts_with("fs.").then(|| (key.to_owned(), value.to_owned()))
    });
    Arc::new(StoreOptions::new(settings))
}

impl LogDirectory {
    /// The directory that a setting names: a path, a `file:` URL or that of an object store.
    pub fn of(text: &str, conf: &Conf) -> io::Result<Self> {
        let path = match text.strip_prefix("file:") {
            Some(rest) => rest.strip_prefix("//").unwrap_or(rest),
            None if text.contains("://") => {
                let store = ObjectDirectory::open(text, &store_options(conf))?;
                let path = PathBuf::from(store.url());
                return Ok(LogDirectory { path, store: Store(Some(Arc::new(store))) });
            }
            None => text,
        };
        Ok(Self::local(PathBuf::from(path)))
    }

    /// A directory of this machine.
    pub fn local(path: PathBuf) -> Self {
        LogDirectory { path, store: Store(None) }
    }

    /// The path, or the URL.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn store(&self) -> Option<&Arc<ObjectDirectory>> {
        self.store.0.as_ref()
    }

    /// As Spark's REST API spells it.
    pub(crate) fn source(&self) -> String {
        match self.store.0 {
            Some(_) => self.path.display().to_string(),
            None => format!("file:{}", self.path.display()),
        }
    }

    /// Gives all logs in it to `take`, one by one. What is no log is left out.
    pub(crate) fn each(&self, take: &mut dyn FnMut(LogSource)) -> io::Result<()> {
        match &self.store.0 {
            None => each(&self.path, take)?,
            Some(store) => logs_of(store, store.list_chosen(ROLLING)?).into_iter().for_each(take),
        }
        Ok(())
    }

    /// A log as it is now; `None`: it is gone. One in a store is as it was listed: a request each time somebody looks at it would take
    /// longer than the look.
    pub(crate) fn now(&self, log: &LogSource) -> Option<LogSource> {
        match self.store.0 {
            Some(_) => Some(log.clone()),
            None => LogSource::at(&log.path),
        }
    }

    /// A log that was stored without where it is read.
    pub(crate) fn adopt(&self, log: &mut LogSource) {
        log.store = self.store.clone();
    }
}

/// What follows the directory of the store.
fn relative(store: &ObjectDirectory, path: &Path) -> String {
    path.strip_prefix(store.url()).unwrap_or(path).to_string_lossy().into_owned()
}

fn logs_of(store: &Arc<ObjectDirectory>, mut objects: Vec<ObjectEntry>) -> Vec<LogSource> {
    let root = Path::new(store.url());
    objects.sort_by(|a, b| a.name.cmp(&b.name));
    let mut logs = Vec::new();
    let of_directory = |object: &ObjectEntry| {
        object.name.split_once('/').map_or(String::new(), |(directory, _)| directory.to_owned())
    };
    for group in objects.chunk_by(|a, b| of_directory(a) == of_directory(b)) {
        let directory = of_directory(&group[0]);
        let listed = |object: &ObjectEntry, name: &str| Listed {
            name: name.to_owned(),
            bytes: object.len,
            modified: Tick(object.modified_ms),
            made: Tick(object.modified_ms),
        };
        if directory.is_empty() {
            let visible = group.iter().filter(|object| !object.name.starts_with('.'));
            logs.extend(
                visible
                    .map(|object| single(&root.join(&object.name), &listed(object, &object.name))),
            );
        } else if directory.starts_with(ROLLING) {
            let files = group.iter().filter_map(|object| {
                let (_, name) = object.name.split_once('/')?;
                Some(listed(object, name))
            });
            let made = group.iter().map(|object| object.modified_ms).min().unwrap_or(0);
            logs.extend(rolling(&root.join(&directory), Tick(made), files));
        }
    }
    logs.iter_mut().for_each(|log| log.store = Store(Some(store.clone())));
    logs
}

/// All logs in a directory of this machine. What is no log is left out.
pub fn discover(directory: &Path) -> io::Result<Vec<LogSource>> {
    let mut found = Vec::new();
    each(directory, &mut |log| found.push(log))?;
    Ok(found)
}

fn each(directory: &Path, take: &mut dyn FnMut(LogSource)) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        // One file that cannot be looked at is no reason to look at none.
        let Ok(entry) = entry else { continue };
        LogSource::at(&entry.path()).into_iter().for_each(&mut *take);
    }
    Ok(())
}

impl LogSource {
    /// The log at a path of this machine; `None`: there is none. Links are not followed: what they lead to is not in the directory.
    pub fn at(path: &Path) -> Option<Self> {
        let name =
            path.file_name().and_then(OsStr::to_str).filter(|name| !name.starts_with('.'))?;
        let metadata = fs::symlink_metadata(path).ok()?;
        if metadata.is_dir() {
            let files = name.starts_with(ROLLING).then(|| files_of(path))??;
            return rolling(path, moment(metadata.created()), files);
        }
        metadata.is_file().then(|| single(path, &listed(name, &metadata)))
    }

    /// Removes all its files.
    pub fn remove(&self) -> io::Result<()> {
        if let Some(store) = &self.store.0 {
            // Also those that a compacted file stands for, and the one that says whether it is over.
            let below = store.list(Some(&relative(store, &self.path)))?;
            let mut names: Vec<String> = below.into_iter().map(|object| object.name).collect();
            names.extend(self.files().map(|path| relative(store, path)));
            return store.remove(&names.iter().map(String::as_str).collect::<Vec<_>>());
        }
        match fs::symlink_metadata(&self.path)?.is_dir() {
            true => fs::remove_dir_all(&self.path),
            false => fs::remove_file(&self.path),
        }
    }

    /// Its files with how many bytes they had, the oldest first; behind them, of a rolling log, the one whose name says whether it is
    /// over: no reader of Spark's takes it without.
    pub fn sized_files(&self) -> impl Iterator<Item = (&Path, u64)> {
        self.parts.iter().chain(&self.status).map(|part| (part.path.as_path(), part.bytes))
    }

    /// Whether it is what another one of the same name has become, which is in progress.
    pub(crate) fn succeeds(&self, other: &LogSource) -> bool {
        let name = |log: &LogSource| log.path.as_os_str().as_encoded_bytes().to_vec();
        other.in_progress && name(other).strip_suffix(IN_PROGRESS.as_bytes()) == Some(&name(self))
    }

    /// Whether its end can be read without what is before it.
    pub(crate) fn files_are_plain(&self) -> bool {
        self.parts.iter().all(|part| part.codec == Codec::None)
    }

    /// Its files, the oldest first.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().map(|part| part.path.as_path())
    }

    /// Opens one of its files at an offset. It was a file when it was found, and its directory no link: now they are too, or it is not
    /// opened. Nothing else is waited for, such as a pipe that nobody writes to.
    pub(crate) fn open(&self, path: &Path, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        if let Some(store) = &self.store.0 {
            return Ok(Box::new(Fetched(store.read(&relative(store, path), offset)?)));
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file_flags = flags | OFlags::NONBLOCK;
        let file = match path.strip_prefix(&self.path) {
            Ok(name) if name.components().next().is_some() => {
                let directory = openat(CWD, &self.path, flags | OFlags::DIRECTORY, Mode::empty())?;
                openat(&directory, name, file_flags, Mode::empty())?
            }
            _ => openat(CWD, path, file_flags, Mode::empty())?,
        };
        let mut file = File::from(file);
        if !file.metadata()?.is_file() {
            let text = format!("{} is no file any more", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        file.seek(SeekFrom::Start(offset))?;
        Ok(Box::new(file))
    }
}

/// Bytes of a store. That they did not come is no damage of the log: its reader tries again.
struct Fetched(firesteel_io::Input);

impl Read for Fetched {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.0.read(to).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::Interrupted => error,
            _ => io::Error::new(io::ErrorKind::ConnectionAborted, error),
        })
    }
}

fn listed(name: &str, metadata: &Metadata) -> Listed {
    let (modified, made) = (moment(metadata.modified()), moment(metadata.created()));
    Listed { name: name.to_owned(), bytes: metadata.len(), modified, made }
}

fn moment(at: io::Result<SystemTime>) -> Tick {
    let since = at.ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    Tick(since.map_or(0, |since| since.as_millis() as u64))
}

/// The files of a directory of this machine.
fn files_of(path: &Path) -> Option<impl Iterator<Item = Listed>> {
    let entries = fs::read_dir(path).ok()?.flatten().take(PARTS);
    Some(entries.filter_map(|entry| {
        let name = entry.file_name();
        let (name, metadata) = (name.to_str()?, fs::symlink_metadata(entry.path()).ok()?);
        metadata.is_file().then(|| listed(name, &metadata))
    }))
}

fn single(path: &Path, file: &Listed) -> LogSource {
    let finished = file.name.strip_suffix(IN_PROGRESS);
    let (_, codec) = Codec::split(finished.unwrap_or(&file.name));
    let part = Part { path: path.to_owned(), number: 0, codec, bytes: file.bytes };
    LogSource {
        path: path.to_owned(),
        in_progress: finished.is_some(),
        bytes: file.bytes,
        modified: file.modified,
        made: file.made,
        parts: vec![part],
        status: None,
        store: Store(None),
    }
}

fn rolling(path: &Path, made: Tick, files: impl Iterator<Item = Listed>) -> Option<LogSource> {
    let mut log = LogSource {
        path: path.to_owned(),
        in_progress: false,
        bytes: 0,
        modified: Tick(0),
        made,
        parts: Vec::new(),
        status: None,
        store: Store(None),
    };
    let (mut compacted, mut is_over) = (0, false);
    for file in files {
        if file.name.starts_with("appstatus_") {
            let in_progress = file.name.ends_with(IN_PROGRESS);
            log.in_progress |= in_progress;
            if !is_over {
                let path = path.join(&file.name);
                let (number, codec, bytes) = (0, Codec::None, file.bytes);
                log.status = Some(Part { path, number, codec, bytes });
            }
            is_over |= !in_progress;
            continue;
        }
        let Some((number, codec, is_compact)) = events_file(&file.name) else { continue };
        compacted = if is_compact { number.max(compacted) } else { compacted };
        log.bytes += file.bytes;
        log.modified = log.modified.max(file.modified);
        log.parts.push(Part { path: path.join(&file.name), number, codec, bytes: file.bytes });
    }
    // A compacted file stands for all before it, and for the one of its own number.
    log.parts.retain(|part| {
        part.number > compacted || (part.number == compacted && is_compact(&part.path))
    });
    log.parts.sort_by_key(|part| part.number);
    // A store knows no renaming: for a moment both are there.
    log.in_progress &= !is_over;
    (!log.parts.is_empty()).then_some(log)
}

fn is_compact(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "compact")
}

/// `events_NUMBER_...`: the number, the codec, whether it was compacted.
fn events_file(name: &str) -> Option<(u64, Codec, bool)> {
    let (number, rest) = name.strip_prefix("events_")?.split_once('_')?;
    let plain = rest.strip_suffix(".compact");
    let (_, codec) = Codec::split(plain.unwrap_or(rest));
    Some((number.parse().ok()?, codec, plain.is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_logs_by_their_names_and_links_are_none() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str| fs::write(directory.path().join(name), "x").unwrap();
        let files = [
            "app-1",
            "app-2.zstd",
            "app-3.lz4.inprogress",
            ".hidden",
            "app-4.snappy",
            "app-4b.lzf",
        ];
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
        let others = [("app-4.snappy", false), ("app-4b.lzf", false), ("eventlog_v2_app-5", true)];
        let expected = expected.into_iter().chain(others);
        assert_eq!(names, expected.map(|(a, b)| (a.to_owned(), b)).collect::<Vec<_>>());
        let parts: Vec<_> = found[5].files().map(name).collect();
        assert_eq!(parts, ["events_2_app-5.compact", "events_9_app-5", "events_10_app-5"]);
    }
}
