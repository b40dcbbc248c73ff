//! Whether a program is there, can be run, and is the very one that was meant.
//!
//! Hashes are remembered by what the system says of a file: a file that was written to since is read
//! again. A file that changes between this look and its start is not noticed here, but by the driver,
//! which compares hashes when the executor registers.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// How many hashes are remembered.
const REMEMBERED: usize = 32;

/// Why a program is not started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExecutableError {
    #[error(
        "the program {0:?} is not an absolute path: the worker does not know what it is relative to"
    )]
    Relative(String),
    #[error(
        "the program {} cannot be found on this worker ({source}): put it there under the same path, or on a disk that all \
         workers share", path.display()
    )]
    Missing { path: PathBuf, source: io::Error },
    #[error("{} is not a file", .0.display())]
    NotAFile(PathBuf),
    #[error("{} may not be executed: chmod +x it", .0.display())]
    NotExecutable(PathBuf),
    #[error("could not read the program {} to compare it: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "the program {} on this worker is not the driver's (its hash is {found}, the driver's is {expected}): copy the driver's \
         executable there", path.display()
    )]
    OtherHash { path: PathBuf, found: blake3::Hash, expected: blake3::Hash },
}

/// What tells one state of a file from another without reading it.
type Stamp = (u64, u64, u64, i64, i64, i64, i64);

/// The hashes of executables.
#[derive(Debug, Default)]
pub(crate) struct Hashes(Mutex<BTreeMap<PathBuf, (Stamp, blake3::Hash)>>);

impl Hashes {
    /// Complains if the program cannot be run, or has another hash. Blocks.
    pub(crate) fn check(
        &self,
        program: &str,
        expected: Option<[u8; 32]>,
    ) -> Result<(), ExecutableError> {
        let path = Path::new(program);
        if !path.is_absolute() {
            return Err(ExecutableError::Relative(program.to_owned()));
        }
        let missing = |source| ExecutableError::Missing { path: path.to_owned(), source };
        let about = fs::metadata(path).map_err(missing)?;
        if !about.is_file() {
            return Err(ExecutableError::NotAFile(path.to_owned()));
        }
        if about.permissions().mode() & 0o111 == 0 {
            return Err(ExecutableError::NotExecutable(path.to_owned()));
        }
        let Some(expected) = expected.map(blake3::Hash::from_bytes) else { return Ok(()) };
        let unreadable = |source| ExecutableError::Unreadable { path: path.to_owned(), source };
        let found = self.hash(path, &about).map_err(unreadable)?;
        if found != expected {
            return Err(ExecutableError::OtherHash { path: path.to_owned(), found, expected });
        }
        Ok(())
    }

    fn hash(&self, path: &Path, about: &Metadata) -> io::Result<blake3::Hash> {
        let stamp = stamp(about);
        let known = self.0.lock().expect("no panic while it is locked").get(path).copied();
        if let Some((_, hash)) = known.filter(|(known, _)| *known == stamp) {
            return Ok(hash);
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(File::open(path)?)?;
        let hash = hasher.finalize();
        let mut hashes = self.0.lock().expect("no panic while it is locked");
        if hashes.len() >= REMEMBERED {
            hashes.clear();
        }
        hashes.insert(path.to_owned(), (stamp, hash));
        Ok(hash)
    }
}

fn stamp(about: &Metadata) -> Stamp {
    let written = (about.mtime(), about.mtime_nsec());
    let changed = (about.ctime(), about.ctime_nsec());
    (about.dev(), about.ino(), about.len(), written.0, written.1, changed.0, changed.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_run_or_is_another_program_is_refused_with_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let text = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        fs::write(text("plain"), "x").unwrap();
        fs::write(text("app"), "one").unwrap();
        fs::set_permissions(text("app"), fs::Permissions::from_mode(0o755)).unwrap();
        let hashes = Hashes::default();
        let one = *blake3::hash(b"one").as_bytes();
        for (program, hash, needle) in [
            ("app".to_owned(), None, "not an absolute path"),
            (text("nowhere"), None, "cannot be found on this worker"),
            (text("."), None, "is not a file"),
            (text("plain"), None, "chmod +x"),
            (text("app"), Some([7; 32]), "copy the driver's executable"),
        ] {
            let error = hashes.check(&program, hash).unwrap_err().to_string();
            assert!(error.contains(needle), "{error}");
        }
        hashes.check(&text("app"), None).unwrap();
        hashes.check(&text("app"), Some(one)).unwrap();
        fs::write(text("app"), "another").unwrap();
        assert!(hashes.check(&text("app"), Some(one)).is_err(), "it was written to");
    }
}
