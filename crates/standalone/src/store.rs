//! Executables and files of submissions, by their hash: uploaded to the master in pieces, served to the workers that start
//! the drivers.
//!
//! A piece is appended where the last one ended, so an upload that was cut off goes on there, also after the master was
//! restarted. Content is found under its hash only when it is whole and has that hash. The directory holds so many bytes; the
//! content that was used longest ago goes first, and never what a driver needs that is not over.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use firesteel_backend::wire;
use firesteel_rpc::{DEFAULT_IDENTITY, OpenError, Peer, StreamBody, StreamSource};
use firesteel_storage::ensure_private_directory;
use tokio::sync::Semaphore;

use crate::executable::Hashes;
use crate::partial::{self, Partial, UNFINISHED};

/// Some bytes, wherever they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    pub hash: [u8; 32],
    pub bytes: u64,
}

impl Content {
    /// The content of a file. Blocks.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(File::open(path)?)?;
        Ok(Self { hash: *hasher.finalize().as_bytes(), bytes: hasher.count() })
    }

    fn name(&self) -> String {
        blake3::Hash::from_bytes(self.hash).to_hex().to_string()
    }
}

impl fmt::Display for Content {
    /// `<hash in hexadecimal digits>:<bytes>`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name(), self.bytes)
    }
}

/// Text that does not say which content is meant.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} names no content: 64 hexadecimal digits, a colon and the number of bytes do")]
pub struct NoContent(String);

impl FromStr for Content {
    type Err = NoContent;

    fn from_str(text: &str) -> Result<Self, NoContent> {
        let parse = || {
            let (hash, bytes) = text.split_once(':')?;
            let hash = blake3::Hash::from_hex(hash).ok()?;
            Some(Self { hash: *hash.as_bytes(), bytes: bytes.parse().ok()? })
        };
        parse().ok_or_else(|| NoContent(text.to_owned()))
    }
}

/// Where it is not known what drivers need, content is taken for needed until nobody has used it for so long.
const LONG_UNUSED: Duration = Duration::from_secs(7 * 86_400);

/// How much of some content is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// Where the next piece begins.
    pub(crate) length: u64,
    pub(crate) whole: bool,
}

/// Why a piece was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error(
        "it has {bytes} bytes, and the master keeps {limit}: raise spark.firesteel.master.store.maxSize there"
    )]
    TooLarge { bytes: u64, limit: u64 },
    #[error(
        "there is no room for it beside what drivers use now: raise spark.firesteel.master.store.maxSize on the master"
    )]
    Full,
    #[error("the piece goes beyond its end: it has {bytes} bytes")]
    Overrun { bytes: u64 },
    #[error(
        "what was uploaded is not what was announced (its hash is {found}): nothing of it is used"
    )]
    OtherBytes { found: blake3::Hash },
    #[error("the master could not write it to {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// The content that a master keeps.
#[derive(Debug)]
pub(crate) struct Store {
    directory: PathBuf,
    max_bytes: u64,
    hashes: Hashes,
    /// One change after the other: each counts on what the others left.
    turn: Mutex<()>,
    places: Arc<Semaphore>,
}

impl Store {
    /// In this directory, which is made when something comes. So many readers are served at once.
    pub(crate) fn new(directory: PathBuf, max_bytes: u64, max_downloads: usize) -> Self {
        let places = Arc::new(Semaphore::new(max_downloads));
        Self { directory, max_bytes, hashes: Hashes::default(), turn: Mutex::default(), places }
    }

    /// How much of it is here. Blocks.
    pub(crate) fn held(&self, content: &Content) -> Held {
        let path = self.directory.join(content.name());
        let text = path.to_str().unwrap_or_default();
        if self.hashes.check(text, Some(content.hash)).is_ok() {
            return Held { length: content.bytes, whole: true };
        }
        let part = self.directory.join(format!("{UNFINISHED}{}", content.name()));
        let length = fs::metadata(part).map_or(0, |about| about.len());
        Held { length: length.min(content.bytes), whole: false }
    }

    /// Content that is used now stays longer than content that is not. False if it is not here. Blocks.
    pub(crate) fn touch(&self, content: &Content) -> bool {
        let held = self.held(content);
        if held.whole {
            let path = self.directory.join(content.name());
            // Only its place in the order of eviction depends on it.
            let _ = File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
        }
        held.whole
    }

    /// Takes a piece that begins at `offset`; one that begins elsewhere than the content ends so far changes nothing. What is
    /// `in_use` is not evicted for it. Blocks.
    pub(crate) fn put(
        &self,
        content: &Content,
        offset: u64,
        piece: &[u8],
        in_use: Option<&BTreeSet<[u8; 32]>>,
    ) -> Result<Held, StoreError> {
        let Content { bytes, .. } = *content;
        if bytes > self.max_bytes {
            return Err(StoreError::TooLarge { bytes, limit: self.max_bytes });
        }
        if offset.saturating_add(piece.len() as u64) > bytes {
            return Err(StoreError::Overrun { bytes });
        }
        let _turn = self.turn.lock().expect("no panic while it is locked");
        let held = self.held(content);
        if held.whole {
            return Ok(held);
        }
        let failed = |source| StoreError::Write { path: self.directory.clone(), source };
        self.make_directory().map_err(failed)?;
        if !self.make_room(content, in_use).map_err(failed)? {
            return Err(StoreError::Full);
        }
        let mut partial = Partial::open(&self.directory, &content.name(), bytes).map_err(failed)?;
        if partial.length == offset {
            partial.append(piece).map_err(failed)?;
        }
        match partial.length == bytes {
            true => self.finish(content, partial),
            false => Ok(Held { length: partial.length, whole: false }),
        }
    }

    fn make_directory(&self) -> io::Result<()> {
        self.directory.parent().map_or(Ok(()), fs::create_dir_all)?;
        ensure_private_directory(&self.directory)
    }

    fn finish(&self, content: &Content, mut partial: Partial) -> Result<Held, StoreError> {
        let failed = |source| StoreError::Write { path: self.directory.clone(), source };
        let found = partial.hash().map_err(failed)?;
        if found != blake3::Hash::from_bytes(content.hash) {
            partial.clear().map_err(failed)?;
            return Err(StoreError::OtherBytes { found });
        }
        partial.finish(&self.directory.join(content.name())).map_err(failed)?;
        Ok(Held { length: content.bytes, whole: true })
    }

    /// Removes what was used longest ago until this fits; false if it does not.
    fn make_room(
        &self,
        content: &Content,
        in_use: Option<&BTreeSet<[u8; 32]>>,
    ) -> io::Result<bool> {
        let own = content.name();
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.directory)?.flatten() {
            let (Ok(about), Ok(name)) = (entry.metadata(), entry.file_name().into_string()) else {
                continue;
            };
            // What is there of this content will be a part of it.
            if name.strip_prefix(UNFINISHED).is_none_or(|of| of != own) {
                files.push((about.modified().unwrap_or(SystemTime::UNIX_EPOCH), name, about.len()));
            }
        }
        files.sort();
        let mut total: u64 = files.iter().map(|(.., bytes)| bytes).sum();
        for (used, name, bytes) in files {
            let is_full = total.saturating_add(content.bytes) > self.max_bytes;
            if is_full && self.evict((used, &name), in_use) {
                total -= bytes;
            }
        }
        Ok(total.saturating_add(content.bytes) <= self.max_bytes)
    }

    fn evict(&self, (used, name): (SystemTime, &str), in_use: Option<&BTreeSet<[u8; 32]>>) -> bool {
        let path = self.directory.join(name);
        let hash = blake3::Hash::from_hex(name).map(|hash| *hash.as_bytes());
        let is_needed = match in_use {
            Some(in_use) => hash.is_ok_and(|hash| in_use.contains(&hash)),
            None => used.elapsed().map_or(true, |since| since < LONG_UNUSED),
        };
        if is_needed || partial::is_being_fetched(&path) {
            return false;
        }
        fs::remove_file(&path)
            .inspect_err(|error| tracing::warn!(name, %error, "could not evict content"))
            .is_ok()
    }
}

/// What workers read: content by its hash, and nothing else.
impl StreamSource for Store {
    fn open(&self, id: &str, peer: &Peer) -> Result<StreamBody, OpenError> {
        let (hash, offset) = wire::parse_content(id).ok_or(OpenError::Missing)?;
        // Where no proof is asked for, nobody has an identity.
        if !peer.identity.is_empty() && &*peer.identity != DEFAULT_IDENTITY {
            return Err(OpenError::Missing);
        }
        let place = self.places.clone().try_acquire_owned().map_err(|_| OpenError::Busy)?;
        let path = self.directory.join(Content { hash, bytes: 0 }.name());
        let file = File::open(path).map_err(|_| OpenError::Missing)?;
        let length = file.metadata()?.len().saturating_sub(offset);
        Ok(StreamBody::File { file, offset, length }.holding(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(bytes: &[u8]) -> Content {
        Content { hash: *blake3::hash(bytes).as_bytes(), bytes: bytes.len() as u64 }
    }

    /// Where nothing is yet: the store makes its own directory.
    fn place(root: &tempfile::TempDir) -> PathBuf {
        root.path().join("cache").join("store")
    }

    fn nothing() -> BTreeSet<[u8; 32]> {
        BTreeSet::new()
    }

    fn names(directory: &Path) -> BTreeSet<String> {
        let entries = fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn an_upload_goes_on_where_it_was_cut_off_also_in_another_process() {
        let root = tempfile::tempdir().unwrap();
        let directory = place(&root);
        let store = || Store::new(directory.clone(), 100, 1);
        let all = content(b"hello world");
        assert_eq!(store().held(&all), Held { length: 0, whole: false });
        store().put(&all, 0, b"hello ", Some(&nothing())).unwrap();
        let resumed = store();
        assert_eq!(resumed.held(&all), Held { length: 6, whole: false });
        let again = resumed.put(&all, 0, b"hello ", Some(&nothing())).unwrap();
        assert_eq!(again, Held { length: 6, whole: false }, "a piece that is there is not doubled");
        let whole = resumed.put(&all, 6, b"world", Some(&nothing())).unwrap();
        assert_eq!(whole, Held { length: 11, whole: true });
        assert!(resumed.touch(&all));
        assert_eq!(names(&directory), BTreeSet::from([all.name()]));
        fs::remove_file(directory.join(all.name())).unwrap();
        assert!(!resumed.touch(&all));
    }

    #[test]
    fn bytes_that_are_not_what_was_announced_are_never_found_under_the_hash() {
        let root = tempfile::tempdir().unwrap();
        let directory = place(&root);
        let store = Store::new(directory.clone(), 100, 1);
        let all = content(b"hello");
        let error = store.put(&all, 0, b"jello", Some(&nothing())).unwrap_err().to_string();
        assert!(error.contains("is not what was announced"), "{error}");
        assert_eq!(store.held(&all), Held { length: 0, whole: false });
        let error = store.put(&all, 3, b"abc", Some(&nothing())).unwrap_err().to_string();
        assert!(error.contains("beyond its end"), "{error}");
        store.put(&all, 0, b"hello", Some(&nothing())).unwrap();
        let path = directory.join(all.name());
        fs::remove_file(&path).unwrap();
        fs::write(&path, b"jello").unwrap();
        assert!(!store.touch(&all), "a disk may have changed what is there");
    }

    #[test]
    fn the_oldest_content_is_evicted_for_new_one_unless_a_driver_needs_it() {
        let root = tempfile::tempdir().unwrap();
        let directory = place(&root);
        let store = Store::new(directory.clone(), 10, 1);
        let [one, two, three] = [&b"one!"[..], b"two!", b"thre"].map(content);
        store.put(&one, 0, b"one!", Some(&nothing())).unwrap();
        store.put(&two, 0, b"two!", Some(&nothing())).unwrap();
        let old = SystemTime::UNIX_EPOCH;
        let file = File::open(directory.join(two.name())).unwrap();
        file.set_modified(old + std::time::Duration::from_secs(9)).unwrap();
        File::open(directory.join(one.name())).unwrap().set_modified(old).unwrap();
        let both = BTreeSet::from([one.hash, two.hash]);
        let error = store.put(&three, 0, b"thre", Some(&both)).unwrap_err().to_string();
        assert!(error.contains("store.maxSize"), "{error}");
        store.put(&three, 0, b"thre", Some(&BTreeSet::from([one.hash]))).unwrap();
        let left = BTreeSet::from([one.name(), three.name()]);
        assert_eq!(names(&directory), left, "the newer one was not in use");
        let large = Content { hash: [0; 32], bytes: 11 };
        let error = store.put(&large, 0, b"", Some(&nothing())).unwrap_err().to_string();
        assert!(error.contains("keeps 10"), "{error}");
    }

    #[test]
    fn where_it_is_not_known_what_is_in_use_only_what_nobody_used_for_a_week_is_evicted() {
        let root = tempfile::tempdir().unwrap();
        let directory = place(&root);
        let store = Store::new(directory.clone(), 10, 1);
        let [one, two, three] = [&b"one!"[..], b"two!", b"thre"].map(content);
        store.put(&one, 0, b"one!", None).unwrap();
        store.put(&two, 0, b"two!", None).unwrap();
        let day = std::time::Duration::from_secs(86_400);
        let used = |content: &Content, days: u32| {
            let file = File::open(directory.join(content.name())).unwrap();
            file.set_modified(SystemTime::now() - days * day).unwrap();
        };
        used(&one, 6);
        let error = store.put(&three, 0, b"thre", None).unwrap_err().to_string();
        assert!(error.contains("there is no room"), "{error}");
        used(&one, 8);
        used(&two, 9);
        assert!(store.touch(&two));
        store.put(&three, 0, b"thre", None).unwrap();
        assert_eq!(names(&directory), BTreeSet::from([two.name(), three.name()]));
    }

    #[test]
    fn content_is_read_as_it_is_written() {
        let all = content(b"x");
        assert_eq!(all.to_string().parse::<Content>().unwrap(), all);
        for text in ["", "12:4", &all.to_string()[1..], &format!("{all}x"), "é:1"] {
            assert!(text.parse::<Content>().is_err(), "{text}");
        }
    }
}
