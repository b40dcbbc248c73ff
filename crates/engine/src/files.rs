//! The files of `spark.files` and of `add_file` in the driver: copied when they are named, so that everybody gets the same bytes
//! whatever becomes of the originals, and removed when the context stops.
//!
//! What is behind a URL is downloaded here, once: executors get it from the driver, as they get the others.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use firesteel_conf::{
    ByteSize, Conf, FileListError, FileSource, SharedFile, entries, shared_file, shared_files,
};
use firesteel_io::{DownloadLimits, Location, StoreOptions, download};
use firesteel_storage::LocalDirs;
use firesteel_task::SparkFiles;

use crate::backend::PreparedFile;
use crate::place::Place;
use crate::{Engine, Error, Result};

/// No application adds more files while it runs: a driver holds each of them open.
const MOST_FILES: usize = 1000;

/// As executors have them: theirs to read, write and run.
const MODE: u32 = 0o700;

/// Copies of the files that the application added, which executors read from the driver.
pub(crate) struct Files {
    rules: Rules,
    state: Mutex<State>,
    /// For the names of files that are not whole yet.
    next: AtomicU64,
}

/// What the settings say of them.
struct Rules {
    /// Temporary directories are made below these.
    roots: Vec<PathBuf>,
    overwrite: bool,
    limits: DownloadLimits,
    stores: Arc<StoreOptions>,
}

enum State {
    Nothing,
    Copied(Copies),
    Removed,
}

struct Copies {
    root: PathBuf,
    /// Where they came from, by name.
    files: BTreeMap<String, FileSource>,
    directories: LocalDirs,
}

impl Files {
    /// Copies what `spark.files` names; nothing is made if that is nothing.
    pub(crate) fn gather(conf: &Conf) -> Result<Self> {
        let list = conf.get(&entries::FILES)?;
        let listed = shared_files(&list).map_err(in_list)?;
        let files = Files {
            rules: Rules::new(conf)?,
            state: Mutex::new(State::Nothing),
            next: AtomicU64::new(0),
        };
        if !listed.is_empty() {
            let mut state = files.lock();
            let copies = state.copies(&files.rules)?;
            for SharedFile { name, source } in listed {
                let target = copies.root.join(&name);
                let copied = files.rules.copy(&source, &target);
                copied.map_err(|error| refused(&source, error.to_string()))?;
                copies.files.insert(name, source);
            }
        }
        Ok(files)
    }

    /// Where they are, if there are any.
    pub(crate) fn root(&self) -> Option<PathBuf> {
        match &*self.lock() {
            State::Copied(copies) => Some(copies.root.clone()),
            State::Nothing | State::Removed => None,
        }
    }

    pub(crate) fn places(&self) -> Vec<(String, PathBuf)> {
        match &*self.lock() {
            State::Copied(Copies { root, files, .. }) => {
                files.keys().map(|name| (name.clone(), root.join(name))).collect()
            }
            State::Nothing | State::Removed => Vec::new(),
        }
    }

    /// What was copied: paths, and URLs without their queries.
    pub(crate) fn sources(&self) -> Vec<String> {
        match &*self.lock() {
            State::Copied(copies) => copies.files.values().map(FileSource::to_string).collect(),
            State::Nothing | State::Removed => Vec::new(),
        }
    }

    /// The executable and the files, with who handed them over: what listeners hear of them.
    pub(crate) fn resources(&self) -> BTreeMap<String, String> {
        let shown = |path: PathBuf| path.display().to_string();
        let executable = std::env::current_exe().ok().map(|path| (shown(path), "Executable"));
        let files = self.places().into_iter().map(|(_, path)| (shown(path), "Added By User"));
        let all = executable.into_iter().chain(files);
        all.map(|(path, whose)| (path, whose.to_owned())).collect()
    }

    /// Copies one more, for the driver and for executors of this place. `None` if it was there with the same content; else where
    /// the copies are.
    fn add(&self, written: &str, place: &Place) -> Result<Option<PathBuf>> {
        let SharedFile { name, source } = shared_file(written.trim()).map_err(in_list)?;
        let broken = |error: io::Error| refused(&source, error.to_string());
        let root = self.lock().copies(&self.rules)?.root.clone();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        // A download takes its time: nobody waits for it who stops the context.
        let new = Unplaced(root.join(format!(".adding-{number}")));
        let copied = self.rules.copy(&source, &new.0);
        let mut state = self.lock();
        let copies = match state.copies(&self.rules) {
            Ok(copies) => copies,
            Err(stopped) => {
                // A download makes directories that were removed meanwhile.
                let _ = root.parent().map(fs::remove_dir_all);
                return Err(stopped);
            }
        };
        copied.map_err(broken)?;
        let target = root.join(&name);
        if let Some(known) = copies.files.get(&name) {
            if have_same_content(&new.0, &target).map_err(broken)? {
                return Ok(None);
            }
            if !self.rules.overwrite {
                let reason = format!(
                    "tasks find {known} as {name}, and it has other content: rename one of them, or set \
                     spark.files.overwrite=true"
                );
                return Err(refused(&source, reason));
            }
        } else if copies.files.len() >= MOST_FILES {
            let reason = format!("there are {MOST_FILES} files already: pack several into one");
            return Err(refused(&source, reason));
        }
        let prepared: Option<PreparedFile> = place.prepare_file(&name, &new.0).map_err(broken)?;
        fs::rename(&new.0, &target).map_err(broken)?;
        copies.files.insert(name, source);
        place.publish_file(prepared);
        Ok(Some(root))
    }

    /// Removes the copies; no more can be added.
    pub(crate) fn remove(&self) {
        if let State::Copied(copies) = std::mem::replace(&mut *self.lock(), State::Removed) {
            SparkFiles::unset_root_directory(&copies.root);
            copies.directories.remove();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.remove();
    }
}

impl State {
    /// The copies, with a directory for them.
    fn copies(&mut self, rules: &Rules) -> Result<&mut Copies> {
        if let State::Nothing = self {
            *self = State::Copied(Copies::new(rules)?);
        }
        match self {
            State::Copied(copies) => Ok(copies),
            State::Nothing | State::Removed => Err(Error::Stopped),
        }
    }
}

impl Copies {
    fn new(rules: &Rules) -> Result<Self> {
        let directories = LocalDirs::new(rules.roots.clone());
        let root = directories.create_directory("files").map_err(|source| Error::Start {
            what: "the context: the directory of spark.files".to_owned(),
            source: Arc::new(source),
        })?;
        SparkFiles::set_root_directory(root.clone());
        Ok(Copies { root, files: BTreeMap::new(), directories })
    }
}

impl Rules {
    fn new(conf: &Conf) -> Result<Self> {
        let ByteSize(max_bytes) = conf.get(&entries::FILES_MAX_SIZE)?;
        let settings = conf.iter().filter_map(|(key, value)| {
            let key = key.strip_prefix("spark.hadoop.")?;
            key.starts_with("fs.").then(|| (key.to_owned(), value.to_owned()))
        });
        Ok(Rules {
            roots: conf.get(&entries::LOCAL_DIR)?.into_iter().map(PathBuf::from).collect(),
            overwrite: conf.get(&entries::FILES_OVERWRITE)?,
            limits: DownloadLimits { max_bytes, silence: conf.get(&entries::FILES_FETCH_TIMEOUT)? },
            stores: Arc::new(StoreOptions::new(settings)),
        })
    }

    fn copy(&self, source: &FileSource, target: &Path) -> io::Result<()> {
        match source {
            FileSource::Local(path) => fs::copy(path, target)?,
            FileSource::Url(url) => {
                download(&Location::parse(url, &self.stores), target, &self.limits)?
            }
        };
        fs::set_permissions(target, fs::Permissions::from_mode(MODE))
    }
}

/// A copy that is not found under its name yet. It goes with this value, unless it was moved there.
struct Unplaced(PathBuf);

impl Drop for Unplaced {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn have_same_content(one: &Path, other: &Path) -> io::Result<bool> {
    let (one, other) = (File::open(one)?, File::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut one, mut other) = (io::BufReader::new(one), io::BufReader::new(other));
    let (mut here, mut there) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let read = one.read(&mut here)?;
        if read == 0 {
            return Ok(true);
        }
        match other.read_exact(&mut there[..read]) {
            Ok(()) if here[..read] == there[..read] => {}
            Ok(()) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

fn in_list(FileListError { file, reason }: FileListError) -> Error {
    Error::File { file, reason }
}

fn refused(source: &FileSource, reason: String) -> Error {
    Error::File { file: source.to_string(), reason }
}

impl Engine {
    /// Gives the driver and all executors, also those to come, a copy of a file: a path, or a URL. Tasks that start after this find
    /// it by its name.
    pub fn add_file(&self, written: &str) -> Result<()> {
        if let Some(root) = self.application.files().add(written, &self.place)? {
            self.environment.set_files_root(root);
            self.tell_environment();
        }
        Ok(())
    }

    /// What [`Engine::add_file`] and `spark.files` gave so far: paths, and URLs without their queries, in the order of names.
    pub fn list_files(&self) -> Vec<String> {
        self.application.files().sources()
    }
}
