//! Where a worker's processes put temporary files: `ROOT/firesteel-worker-UNIQUE/OWNER/` on each disk, an
//! application or a driver being the owner.
//!
//! A worker owns its directories for as long as it lives: nobody can put anything there before it, and what
//! killed workers left goes when the next one starts. Removing is renaming first: an owner that comes back
//! meanwhile gets a new directory, of which nothing is removed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use firesteel_storage::{OwnedDirectory, ensure_private_directory, remove_abandoned};

use super::directories::{named, remove};

const PREFIX: &str = "firesteel-worker-";
/// What is written to see whether a disk takes anything: one block of it.
const PROBE: &[u8] = &[0; 4096];

/// The disks for temporary files, at least one.
#[derive(Debug)]
pub(super) struct TemporaryFiles {
    roots: Vec<Root>,
    /// How many directories were renamed.
    removed: AtomicU64,
}

#[derive(Debug)]
struct Root {
    path: PathBuf,
    /// The worker's own directory there, once it was needed.
    own: Mutex<Option<OwnedDirectory>>,
}

impl TemporaryFiles {
    pub(super) fn new(roots: Vec<PathBuf>) -> Self {
        let root = |path| Root { path, own: Mutex::new(None) };
        Self { roots: roots.into_iter().map(root).collect(), removed: AtomicU64::new(0) }
    }

    /// A directory of `owner` on each disk that can be written: one bad disk of several is skipped. Blocks.
    pub(super) fn make(&self, owner: &str) -> io::Result<Vec<PathBuf>> {
        let (mut made, mut bad) = (Vec::new(), None);
        for root in &self.roots {
            match root.make(owner) {
                Ok(path) => made.push(path),
                Err(error) => {
                    tracing::warn!(%error, "a directory for temporary files is skipped");
                    bad = Some(error);
                }
            }
        }
        match bad {
            Some(bad) if made.is_empty() => Err(bad),
            _ => Ok(made),
        }
    }

    /// Takes the directories of `owner` out of use; they are still to be removed. Does not wait for that.
    pub(super) fn detach(&self, owner: &str) -> Vec<PathBuf> {
        let own = self.roots.iter().filter_map(|root| {
            root.own().as_ref().map(|own| own.path().to_owned()) // made by this worker, or nowhere
        });
        own.filter_map(|own| {
            let number = self.removed.fetch_add(1, Ordering::Relaxed);
            let aside = own.join(format!(".removed-{number}"));
            match fs::rename(own.join(owner), &aside) {
                Ok(()) => Some(aside),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => {
                    tracing::warn!(owner, %error, "could not remove temporary files");
                    None
                }
            }
        })
        .collect()
    }

    /// Removes what workers that are gone have left. Blocks.
    pub(super) fn remove_leftovers(&self) {
        self.roots.iter().for_each(|root| remove_abandoned(&root.path, PREFIX));
    }

    /// Removes everything: no process is left that uses it. Blocks.
    pub(super) fn remove_all(&self) {
        for root in &self.roots {
            if let Some(own) = &*root.own() {
                remove(own.path());
            }
        }
    }
}

impl Root {
    fn own(&self) -> MutexGuard<'_, Option<OwnedDirectory>> {
        self.own.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn make(&self, owner: &str) -> io::Result<PathBuf> {
        let path = self.own_path().map_err(named(&self.path))?.join(owner);
        make_writable(&path).map_err(named(&path))?;
        Ok(path)
    }

    /// The worker's own directory; another one if somebody has removed it.
    fn own_path(&self) -> io::Result<PathBuf> {
        let mut own = self.own();
        if let Some(own) = own.as_ref().filter(|own| own.path().is_dir()) {
            return Ok(own.path().to_owned());
        }
        let made = own.insert(OwnedDirectory::create(&self.path, PREFIX)?);
        Ok(made.path().to_owned())
    }
}

/// Makes a directory in which a file can be written: on a full or read-only disk it may be there already.
fn make_writable(path: &Path) -> io::Result<()> {
    static PROBES: AtomicU64 = AtomicU64::new(0);
    ensure_private_directory(path)?;
    let number = PROBES.fetch_add(1, Ordering::Relaxed);
    let probe = path.join(format!(".probe-{}-{number}", std::process::id()));
    let written = fs::write(&probe, PROBE);
    let removed = fs::remove_file(&probe);
    written.and(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(path: &Path) -> usize {
        fs::read_dir(path).unwrap().count()
    }

    #[test]
    fn an_owner_that_comes_back_while_it_is_removed_loses_nothing_new() {
        let root = tempfile::tempdir().unwrap();
        let files = TemporaryFiles::new(vec![root.path().to_owned()]);
        let first = files.make("app-1").unwrap().remove(0);
        fs::write(first.join("old"), "x").unwrap();
        let detached = files.detach("app-1");
        let again = files.make("app-1").unwrap().remove(0);
        fs::write(again.join("new"), "x").unwrap();
        detached.iter().for_each(|path| remove(path));
        assert!(again.join("new").exists() && !again.join("old").exists());
        assert!(files.detach("app-2").is_empty(), "it never was here");
    }

    #[test]
    fn what_a_killed_worker_left_goes_and_what_a_living_one_has_stays() {
        let root = tempfile::tempdir().unwrap();
        let [killed, living, next] =
            [(); 3].map(|()| TemporaryFiles::new(vec![root.path().into()]));
        let left = killed.make("driver-1").unwrap().remove(0);
        let used = living.make("driver-1").unwrap().remove(0);
        drop(killed); // its locks go with the process; nothing else happens
        assert!(left.exists());
        next.remove_leftovers();
        assert!(!left.exists() && used.exists());
        living.remove_all();
        assert_eq!(entries(root.path()), 0);
    }

    #[test]
    fn a_directory_that_somebody_removed_is_made_again() {
        let root = tempfile::tempdir().unwrap();
        let files = TemporaryFiles::new(vec![root.path().join("disk")]);
        files.make("app-1").unwrap();
        fs::remove_dir_all(root.path().join("disk")).unwrap();
        assert!(files.make("app-1").unwrap()[0].is_dir());
    }
}
