//! A file that is being fetched. It stays when that fails, so that the next attempt goes on where this one ended; under its
//! hash it is found only when it is whole and has that hash.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What marks a file that is being fetched.
pub(crate) const UNFINISHED: &str = "fetching-";
/// To be run and read, never to be written to.
const MODE: u32 = 0o500;

#[derive(Debug)]
pub(crate) struct Partial {
    pub(crate) path: PathBuf,
    file: File,
    /// How many bytes are there.
    pub(crate) length: u64,
}

impl Partial {
    /// What there is of this hash, or a new file. Another process that fetches it into the same directory has its own.
    pub(crate) fn open(directory: &Path, name: &str, most: u64) -> io::Result<Self> {
        let path = directory.join(format!("{UNFINISHED}{name}"));
        let ours = Self::at(path, most)?;
        if ours.file.try_lock().is_ok() {
            return Ok(ours);
        }
        let own = directory.join(format!("{UNFINISHED}{name}-{:x}", std::process::id()));
        let own = Self::at(own, most)?;
        own.file.try_lock()?;
        Ok(own)
    }

    fn at(path: PathBuf, most: u64) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).mode(0o600).open(&path)?;
        let length = file.metadata()?.len();
        let mut partial = Self { path, file, length };
        if partial.length > most {
            partial.clear()?;
        }
        Ok(partial)
    }

    pub(crate) fn append(&mut self, piece: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(piece);
        match written {
            Ok(()) => self.length += piece.len() as u64,
            // A part of it may be there: the next attempt begins where the last whole piece ended.
            Err(_) => drop(self.file.set_len(self.length)),
        }
        written
    }

    /// Nothing of it is of use.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.length = 0;
        Ok(())
    }

    pub(crate) fn hash(&self) -> io::Result<blake3::Hash> {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(File::open(&self.path)?)?;
        Ok(hasher.finalize())
    }

    /// Puts it where it is found.
    pub(crate) fn finish(self, path: &Path) -> io::Result<()> {
        let Self { path: from, file, .. } = self;
        drop(file); // a file that is open for writing cannot be run
        seal(&from, path)
    }

    /// Lets go of it. What came of it stays for the next attempt.
    pub(crate) fn leave(self) {
        if self.length == 0 {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Puts a whole file where it is found.
pub(crate) fn seal(from: &Path, path: &Path) -> io::Result<()> {
    fs::set_permissions(from, fs::Permissions::from_mode(MODE))?;
    fs::rename(from, path)
}

/// Whether a process has this file in its hands.
pub(crate) fn is_being_fetched(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| file.try_lock().is_err())
}
