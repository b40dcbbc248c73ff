//! `FILESYSTEM`: a journal in a directory that one master has locked.
//!
//! Each write appends one frame and waits until the disk has it. When the journal has become much longer than what it
//! says, a new one with the same content takes its place at once. Nothing that is not a master's own is changed or removed.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::frames::{self, HEADER};
use super::{Elected, Entry, Recovery, RecoveryError};

const LOCK: &str = "lock";
const JOURNAL: &str = "masters.journal";
/// A new journal that has not taken the old one's place yet.
const NEXT: &str = "masters.journal.new";
/// At the top of every disk of some kinds, which may be just for this.
const OF_THE_DISK: &str = "lost+found";
/// A journal may be so long whatever it says.
const SMALL: u64 = 1 << 20;

/// A journal in a directory.
#[derive(Debug)]
pub struct FileSystem {
    directory: PathBuf,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    _lock: Lock,
    journal: File,
    length: u64,
    entries: BTreeMap<String, Vec<u8>>,
}

/// The locked file of a directory.
#[derive(Debug)]
struct Lock(File);

impl Drop for Lock {
    /// Closing the file is not enough: a child process that another thread has forked, and that has not come to its `exec` yet,
    /// holds the same open file and with it the lock.
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

impl FileSystem {
    pub fn new(directory: PathBuf) -> Self {
        Self { directory, open: None }
    }

    fn journal(&self) -> PathBuf {
        self.directory.join(JOURNAL)
    }

    fn lead(&self) -> Result<Open, RecoveryError> {
        let directory = &self.directory;
        let unusable = |source| RecoveryError::Directory { path: directory.clone(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(unusable)?;
        self.refuse_foreign_files()?;
        let lock = private().write(true).create(true).open(directory.join(LOCK));
        let lock = lock.map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(RecoveryError::Locked { path: directory.clone() });
            }
            Err(TryLockError::Error(source)) => return Err(unusable(source)),
        }
        let lock = Lock(lock);
        let entries = self.read()?;
        // What a write left that was cut off goes; from here on the end of the file is the end of a frame.
        let (journal, length) = self.rewrite(&entries)?;
        Ok(Open { _lock: lock, journal, length, entries })
    }

    /// A directory with anything else in it was set by mistake.
    fn refuse_foreign_files(&self) -> Result<(), RecoveryError> {
        let unusable = |source| RecoveryError::Directory { path: self.directory.clone(), source };
        for found in fs::read_dir(&self.directory).map_err(unusable)? {
            let found = found.map_err(unusable)?;
            let own =
                [LOCK, JOURNAL, NEXT, OF_THE_DISK].iter().any(|name| found.file_name() == *name);
            if !own {
                return Err(RecoveryError::Foreign { path: found.path() });
            }
        }
        Ok(())
    }

    fn read(&self) -> Result<BTreeMap<String, Vec<u8>>, RecoveryError> {
        let path = self.journal();
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(source) => return Err(RecoveryError::Directory { path, source }),
        };
        let damaged = |at, what| RecoveryError::Damaged { path: path.clone(), at, what };
        let read = frames::read(&bytes).map_err(|damage| damaged(damage.at, damage.what))?;
        if read.end < bytes.len() as u64 {
            let bytes = bytes.len() as u64 - read.end;
            tracing::warn!(file = %path.display(), bytes, "the last write was cut off: it never was");
        }
        let mut entries = BTreeMap::new();
        for frame in read.frames {
            let changes: Vec<(String, Option<Vec<u8>>)> = postcard::from_bytes(frame)
                .map_err(|_| damaged(read.end, "a record is not one of this version"))?;
            changes.into_iter().for_each(|(key, value)| apply(&mut entries, key, value));
        }
        Ok(entries)
    }

    /// Replaces the journal by one that says the same.
    fn rewrite(&self, entries: &BTreeMap<String, Vec<u8>>) -> Result<(File, u64), RecoveryError> {
        let (path, next) = (self.journal(), self.directory.join(NEXT));
        let write = || -> io::Result<(File, u64)> {
            let mut file = private().write(true).create(true).truncate(true).open(&next)?;
            let all: Vec<_> = entries.iter().map(|(key, value)| (key, Some(value))).collect();
            let frame = frames::frame(&postcard::to_stdvec(&all).map_err(io::Error::other)?);
            file.write_all(HEADER)?;
            file.write_all(&frame)?;
            file.sync_all()?;
            fs::rename(&next, &path)?;
            sync_directory(&self.directory)?;
            Ok((file, (HEADER.len() + frame.len()) as u64))
        };
        write().map_err(|source| RecoveryError::Write { path: path.clone(), source })
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn apply(entries: &mut BTreeMap<String, Vec<u8>>, key: String, value: Option<Vec<u8>>) {
    match value {
        Some(value) => entries.insert(key, value),
        None => entries.remove(&key),
    };
}

impl Recovery for FileSystem {
    fn has_rivals(&self) -> bool {
        false
    }

    fn try_lead(&mut self) -> Result<Option<Elected>, RecoveryError> {
        self.open = None;
        let open = self.lead()?;
        let entries = open.entries.clone().into_iter().collect();
        self.open = Some(open);
        Ok(Some(Elected { entries, lease: None }))
    }

    fn write(&mut self, entries: &[Entry]) -> Result<(), RecoveryError> {
        let path = self.journal();
        let failed = |source| RecoveryError::Write { path: path.clone(), source };
        let closed = || failed(io::Error::other("this master does not lead"));
        let open = self.open.as_mut().ok_or_else(closed)?;
        let changes: Vec<_> = entries.iter().map(|entry| (&entry.key, &entry.value)).collect();
        let bytes =
            postcard::to_stdvec(&changes).map_err(|error| failed(io::Error::other(error)))?;
        let frame = frames::frame(&bytes);
        let appended = open
            .journal
            .seek(SeekFrom::Start(open.length))
            .and_then(|_| open.journal.write_all(&frame))
            .and_then(|()| open.journal.sync_data());
        if let Err(source) = appended {
            // It never was: who reads the journal next is not to find it, if that can be helped.
            let _ = open.journal.set_len(open.length);
            self.open = None;
            return Err(failed(source));
        }
        open.length += frame.len() as u64;
        for Entry { key, value } in entries.iter().cloned() {
            apply(&mut open.entries, key, value);
        }
        let says: u64 =
            open.entries.iter().map(|(key, value)| key.len() + value.len() + 8).sum::<usize>()
                as u64;
        if open.length > SMALL.max(4 * says) {
            let entries = open.entries.clone();
            let (journal, length) = self.rewrite(&entries)?;
            let open = self.open.as_mut().expect("just written to");
            (open.journal, open.length) = (journal, length);
        }
        Ok(())
    }

    fn renew(&mut self) -> Result<Option<Duration>, RecoveryError> {
        Ok(None)
    }

    fn resign(&mut self) {
        self.open = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str, value: &str) -> Entry {
        Entry { key: key.to_owned(), value: Some(value.as_bytes().to_vec()) }
    }

    fn remove(key: &str) -> Entry {
        Entry { key: key.to_owned(), value: None }
    }

    fn led(directory: &Path) -> (FileSystem, Vec<(String, Vec<u8>)>) {
        let mut store = FileSystem::new(directory.to_owned());
        let elected = store.try_lead().expect("it leads").expect("nobody else does");
        (store, elected.entries)
    }

    /// What is there after each write.
    fn history(directory: &Path) -> Vec<Vec<(String, Vec<u8>)>> {
        let (mut store, first) = led(directory);
        let writes = [
            vec![put("term", "1"), put("worker_a", "alpha")],
            vec![put("app_1", "one"), put("term", "2")],
            vec![remove("worker_a")],
            vec![put("app_1", &"long ".repeat(50)), put("driver_1", "")],
        ];
        let mut states = vec![first];
        for write in writes {
            store.write(&write).unwrap();
            let open = store.open.as_ref().unwrap();
            states.push(open.entries.clone().into_iter().collect());
        }
        states
    }

    #[test]
    fn a_journal_cut_at_any_byte_gives_back_every_write_that_had_ended() {
        let (whole, cut) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let states = history(whole.path());
        let bytes = fs::read(whole.path().join(JOURNAL)).unwrap();
        let mut seen = 0;
        for at in HEADER.len()..=bytes.len() {
            fs::write(cut.path().join(JOURNAL), &bytes[..at]).unwrap();
            let (mut store, entries) = led(cut.path());
            let state = states.iter().position(|state| *state == entries);
            let state = state.unwrap_or_else(|| panic!("cut at {at}: {entries:?}"));
            assert!(state >= seen || at == bytes.len(), "cut at {at}");
            seen = state;
            store.write(&[put("after", "x")]).unwrap();
            drop(store);
            assert_eq!(led(cut.path()).1.len(), entries.len() + 1, "cut at {at}: it goes on");
        }
        assert_eq!(seen, states.len() - 1);
    }

    #[test]
    fn a_damaged_journal_and_a_foreign_directory_are_refused_by_name_and_left_as_they_are() {
        let directory = tempfile::tempdir().unwrap();
        history(directory.path());
        let journal = directory.path().join(JOURNAL);
        let mut bytes = fs::read(&journal).unwrap();
        for at in [0, HEADER.len() + 2, HEADER.len() + 14, HEADER.len() + 40] {
            bytes[at] ^= 1;
            fs::write(&journal, &bytes).unwrap();
            let error = FileSystem::new(directory.path().to_owned()).try_lead().unwrap_err();
            let text = error.to_string();
            assert!(text.contains("masters.journal is damaged at byte"), "{text}");
            assert_eq!(fs::read(&journal).unwrap(), bytes, "nothing was changed");
            bytes[at] ^= 1;
        }
        fs::write(&journal, &bytes).unwrap();
        fs::create_dir(directory.path().join("lost+found")).unwrap();
        assert!(FileSystem::new(directory.path().to_owned()).try_lead().is_ok());
        let foreign = directory.path().join("worker_20250101");
        fs::write(&foreign, "of another kind").unwrap();
        let error = FileSystem::new(directory.path().to_owned()).try_lead().unwrap_err();
        assert!(error.to_string().contains("worker_20250101 is no file of a master"), "{error}");
        assert!(foreign.exists());
    }

    #[test]
    fn two_masters_cannot_share_a_directory_until_one_of_them_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let (mut first, _) = led(directory.path());
        first.write(&[put("term", "1")]).unwrap();
        let mut second = FileSystem::new(directory.path().to_owned());
        assert!(matches!(second.try_lead(), Err(RecoveryError::Locked { .. })));
        first.resign();
        assert!(first.write(&[put("term", "9")]).is_err(), "it does not lead any more");
        assert_eq!(second.try_lead().unwrap().unwrap().entries.len(), 1);
    }

    #[test]
    fn a_directory_is_free_at_once_though_a_forked_child_still_holds_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let (store, _) = led(directory.path());
        let of_a_child = store.open.as_ref().unwrap()._lock.0.try_clone().unwrap();
        drop(store);
        led(directory.path());
        drop(of_a_child);
    }

    #[test]
    fn a_journal_stays_about_as_long_as_what_it_says() {
        let directory = tempfile::tempdir().unwrap();
        let (mut store, _) = led(directory.path());
        let large = "x".repeat(200_000);
        for round in 0..20 {
            store.write(&[put("app_1", &large), put("term", &round.to_string())]).unwrap();
        }
        let length = fs::metadata(directory.path().join(JOURNAL)).unwrap().len();
        assert!(length < 2 << 20, "{length}");
        drop(store);
        assert_eq!(led(directory.path()).1[1].1, b"19");
    }

    #[test]
    fn a_full_disk_is_an_error_and_what_was_written_before_stays() {
        let directory = tempfile::tempdir().unwrap();
        let (mut store, _) = led(directory.path());
        store.write(&[put("term", "1")]).unwrap();
        // A handle that cannot be written to, as a disk that is full.
        let journal = File::open(directory.path().join(JOURNAL)).unwrap();
        store.open.as_mut().unwrap().journal = journal;
        let error = store.write(&[put("term", "2")]).unwrap_err();
        assert!(error.to_string().contains("could not write to"), "{error}");
        assert!(store.write(&[put("term", "3")]).is_err(), "it has to be led again first");
        assert_eq!(store.try_lead().unwrap().unwrap().entries, [("term".into(), b"1".to_vec())]);
    }
}
