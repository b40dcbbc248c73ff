//! What the driver serves by its hash: its own executable and the files of `spark.files` to workers, files that were added later
//! to executors.
//!
//! A worker has what an executor starts with, and is told of it once, when the application registers. Files that are added later
//! are in a list with a version: each task is sent with the version of its time, and an executor that knows an older one asks for
//! the list and fetches what it lacks.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use firesteel_backend::Address;
use firesteel_backend::command::{Served, ServedFile};
use firesteel_closure::{ExecutableHash, open_current};
use firesteel_rpc::{OpenError, RpcAddress, StreamBody};
use firesteel_types::Host;
use tokio::sync::Semaphore;

use super::lock;
use crate::files::Files;

/// A file that can be served.
pub(crate) struct PreparedFile {
    file: File,
    served: ServedFile,
}

impl PreparedFile {
    /// Reads the file once, for its hash.
    pub(super) fn new(name: &str, path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(&file)?;
        let (name, bytes) = (name.to_owned(), hasher.count());
        let hash = *hasher.finalize().as_bytes();
        Ok(PreparedFile { file, served: ServedFile { name, bytes, hash } })
    }
}

/// Everything that can be asked for; nothing else is opened.
pub(super) struct Contents {
    executable: File,
    executable_hash: [u8; 32],
    /// What executors start with.
    named: Vec<ServedFile>,
    shared: Mutex<Shared>,
    /// How often a file was added.
    version: AtomicU64,
    /// One for each worker or executor that is served at once.
    places: Arc<Semaphore>,
}

/// Files are held open, as the executable is: what is served is what was hashed, also after a file was replaced.
struct Shared {
    files: BTreeMap<[u8; 32], File>,
    /// Those that were added, by name.
    added: BTreeMap<String, ServedFile>,
}

impl Contents {
    /// Reads the files once, for their hashes.
    pub(super) fn new(
        hash: ExecutableHash,
        shared: &Files,
        max_downloads: usize,
    ) -> io::Result<Self> {
        let (mut files, mut named) = (BTreeMap::new(), Vec::new());
        for (name, path) in shared.places() {
            let PreparedFile { file, served } = PreparedFile::new(&name, &path)?;
            files.insert(served.hash, file);
            named.push(served);
        }
        Ok(Contents {
            executable: open_current()?,
            executable_hash: hash.bytes(),
            named,
            shared: Mutex::new(Shared { files, added: BTreeMap::new() }),
            version: AtomicU64::new(0),
            places: Arc::new(Semaphore::new(max_downloads)),
        })
    }

    /// Serves one more file, in place of one of the same name that was added before. What executors start with stays: workers ask
    /// for it as long as the application runs.
    pub(super) fn add(&self, PreparedFile { file, served }: PreparedFile) {
        let mut shared = lock(&self.shared);
        shared.files.insert(served.hash, file);
        if let Some(replaced) = shared.added.insert(served.name.clone(), served) {
            let hash = replaced.hash;
            let mut others = self.named.iter().chain(shared.added.values());
            if !others.any(|other| other.hash == hash) {
                shared.files.remove(&hash);
            }
        }
        self.version.fetch_add(1, Ordering::Release);
    }

    /// How often a file was added.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The version, and all files that were added up to it.
    pub(super) fn added(&self) -> (u64, Vec<ServedFile>) {
        let shared = lock(&self.shared);
        (self.version(), shared.added.values().cloned().collect())
    }

    /// What workers are told of it.
    pub(super) fn served_at(&self, address: &RpcAddress) -> io::Result<Served> {
        Ok(Served {
            address: Address { host: Host::new(&address.host), port: address.port },
            program_bytes: self.executable.metadata()?.len(),
            files: self.named.clone(),
        })
    }

    /// From this byte on, unless as many are served as may be at once: workers serve others, executors ask again.
    pub(super) fn open(&self, hash: &[u8; 32], offset: u64) -> Result<StreamBody, OpenError> {
        let file = match lock(&self.shared).files.get(hash) {
            Some(file) => file.try_clone()?,
            None if *hash == self.executable_hash => self.executable.try_clone()?,
            None => return Err(OpenError::Missing),
        };
        let place = self.places.clone().try_acquire_owned().map_err(|_| OpenError::Busy)?;
        let length = file.metadata()?.len().saturating_sub(offset);
        Ok(StreamBody::File { file, offset, length }.holding(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(directory: &Path, name: &str, text: &str) -> PreparedFile {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        let prepared = PreparedFile::new(name, &path).unwrap();
        // Another file takes its place: what was prepared is served all the same.
        std::fs::remove_file(&path).unwrap();
        prepared
    }

    #[test]
    fn a_file_that_is_added_again_takes_the_place_of_the_old_one_unless_others_need_that() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        let start = prepared(at, "start", "at the start");
        let (start_hash, named) = (start.served.hash, vec![start.served]);
        let contents = Contents {
            executable: open_current().unwrap(),
            executable_hash: [0; 32],
            named,
            shared: Mutex::new(Shared {
                files: BTreeMap::from([(start_hash, start.file)]),
                added: BTreeMap::new(),
            }),
            version: AtomicU64::new(0),
            places: Arc::new(Semaphore::new(8)),
        };
        let hash = |text: &str| *blake3::hash(text.as_bytes()).as_bytes();
        let opens = |text: &str| contents.open(&hash(text), 0).is_ok();
        assert_eq!(contents.added(), (0, Vec::new()), "workers have what was there at the start");
        for (name, text) in [("a", "one"), ("b", "one"), ("start", "new")] {
            contents.add(prepared(at, name, text));
        }
        assert!(opens("at the start") && opens("one") && opens("new"));
        contents.add(prepared(at, "a", "two"));
        assert!(opens("one") && opens("two"), "b has the old content");
        contents.add(prepared(at, "b", "two"));
        assert!(!opens("one") && opens("two") && opens("at the start"));
        let (version, added) = contents.added();
        let names: Vec<&str> = added.iter().map(|file| file.name.as_str()).collect();
        assert_eq!((version, names), (5, vec!["a", "b", "start"]));
        assert_eq!(added[0].bytes, 3);
    }
}
