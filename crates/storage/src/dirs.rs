//! Directories for temporary files (`spark.local.dir`): made when first needed, spread over disks,
//! removed at the end, and the leftovers of killed processes with them.
//!
//! A directory that refused a file, or a write, is passed over for a while: the others are used instead.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::files::TempFile;
use crate::open_files::{self, is_out_of_files};
use crate::ownership::{OwnedDirectory, private_directory, remove_abandoned};

const PREFIX: &str = "firesteel-local-";
/// A directory that refused something is a last resort for this long: a disk may have room again.
const PASSED_OVER: Duration = Duration::from_secs(60);

/// The temporary directories of one context.
#[derive(Debug)]
pub struct LocalDirs(Arc<Directories>);

/// What files of these directories know of them.
#[derive(Debug)]
pub(crate) struct Directories {
    roots: Vec<PathBuf>,
    made: Mutex<Option<Vec<Arc<OwnDir>>>>,
    next: AtomicU64,
}

/// One of the temporary directories of this process.
#[derive(Debug)]
pub(crate) struct OwnDir {
    pub(crate) path: PathBuf,
    /// When it last refused something.
    refused: Mutex<Option<Instant>>,
    _owned: OwnedDirectory,
}

impl OwnDir {
    /// It refused a file or a write.
    pub(crate) fn refused(&self, error: &io::Error) {
        let mut refused = self.refused.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if refused.replace(Instant::now()).is_none() {
            let path = self.path.display();
            tracing::warn!(%path, %error, "local directory is passed over while others take files");
        }
    }

    fn is_last_resort(&self) -> bool {
        let mut refused = self.refused.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *refused = refused.filter(|at| at.elapsed() < PASSED_OVER);
        refused.is_some()
    }
}

impl LocalDirs {
    /// Under these directories, which may be on several disks.
    pub fn new(roots: Vec<PathBuf>) -> Self {
        let (made, next) = (Mutex::new(None), AtomicU64::new(0));
        LocalDirs(Arc::new(Directories { roots, made, next }))
    }

    /// Where the directories are made.
    pub fn roots(&self) -> &[PathBuf] {
        &self.0.roots
    }

    /// The directories themselves, one on each disk that takes one, at least one: made now if they were not.
    pub fn directories(&self) -> io::Result<Vec<PathBuf>> {
        Ok(self.0.in_turn(0)?.iter().map(|directory| directory.path.clone()).collect())
    }

    /// A new file, on the next of the disks, or on another if that one refuses.
    pub fn create_file(&self, purpose: &str) -> io::Result<TempFile> {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        TempFile::create(&self.0, &format!("{purpose}-{number}"), number)
    }

    /// A new directory, on the first disk that takes one. It goes with all the rest.
    pub fn create_directory(&self, purpose: &str) -> io::Result<PathBuf> {
        Ok(self.create_directories(purpose)?.swap_remove(0))
    }

    /// A new directory on each disk that takes one, at least one. They go with all the rest.
    pub fn create_directories(&self, purpose: &str) -> io::Result<Vec<PathBuf>> {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let (mut made, mut last) = (Vec::new(), nowhere());
        for directory in self.0.in_turn(0)? {
            let path = directory.path.join(format!("{purpose}-{number}"));
            match private_directory().create(&path) {
                Ok(()) => made.push(path),
                Err(error) => last = named(&path, &error),
            }
        }
        if made.is_empty() { Err(last) } else { Ok(made) }
    }

    /// Removes what processes that are gone have left under these roots.
    pub fn remove_leftovers(&self) {
        self.0.roots.iter().for_each(|root| remove_abandoned(root, PREFIX));
    }

    /// Removes the directories with everything in them.
    pub fn remove(&self) {
        let made = self.0.made.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        for directory in made.unwrap_or_default() {
            let _ = std::fs::remove_dir_all(&directory.path);
        }
    }
}

impl Drop for LocalDirs {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Directories {
    /// All of them, from another one on each time; those that refused something lately come last.
    fn in_turn(&self, number: u64) -> io::Result<Vec<Arc<OwnDir>>> {
        let mut made = self.made.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if made.is_none() {
            *made = Some(make_all(&self.roots)?);
        }
        let mut all: Vec<_> = made.iter().flatten().cloned().collect();
        drop(made);
        let first = number as usize % all.len().max(1);
        all.rotate_left(first);
        all.sort_by_key(|directory| directory.is_last_resort());
        Ok(all)
    }

    /// A new file in a directory that was not tried for it.
    pub(crate) fn create(
        &self,
        name: &str,
        number: u64,
        tried: &mut Vec<PathBuf>,
    ) -> io::Result<(File, Arc<OwnDir>)> {
        let mut last = nowhere();
        for directory in self.in_turn(number)? {
            if tried.contains(&directory.path) {
                continue;
            }
            let path = directory.path.join(name);
            let create = || OpenOptions::new().read(true).write(true).create_new(true).open(&path);
            match open_files::shared().retrying(create) {
                Ok(file) => return Ok((file, directory)),
                Err(error) if is_out_of_files(&error) => return Err(named(&path, &error)),
                Err(error) => {
                    directory.refused(&error);
                    tried.push(directory.path.clone());
                    last = named(&path, &error);
                }
            }
        }
        Err(last)
    }
}

fn nowhere() -> io::Error {
    io::Error::other("spark.local.dir names no directory")
}

/// One directory under each root that can be written; an error if none can.
fn make_all(roots: &[PathBuf]) -> io::Result<Vec<Arc<OwnDir>>> {
    let mut made = Vec::new();
    let mut last = nowhere();
    for root in roots {
        remove_abandoned(root, PREFIX);
        match make(root) {
            Ok(directory) => made.push(Arc::new(directory)),
            Err(error) => last = named(root, &error),
        }
    }
    if made.is_empty() { Err(last) } else { Ok(made) }
}

fn make(root: &Path) -> io::Result<OwnDir> {
    let owned = OwnedDirectory::create(root, PREFIX)?;
    Ok(OwnDir { path: owned.path().to_owned(), refused: Mutex::new(None), _owned: owned })
}

/// The error with the file's name and what to do about it.
pub(crate) fn named(path: &Path, error: &io::Error) -> io::Error {
    let path = path.display();
    let text = match is_out_of_files(error) {
        true => format!("{path}: {error}; {}", open_files::hint()),
        false => format!("{path}: {error}; spark.local.dir says where temporary files go"),
    };
    io::Error::new(error.kind(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_spread_over_directories_and_vanish_with_them() {
        let roots = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let paths: Vec<PathBuf> = roots.iter().map(|root| root.path().to_owned()).collect();
        let dirs = LocalDirs::new(paths.clone());
        assert!(paths.iter().all(|root| std::fs::read_dir(root).unwrap().count() == 0), "lazy");
        let files: Vec<TempFile> = (0..4).map(|_| dirs.create_file("test").unwrap()).collect();
        for root in &paths {
            assert_eq!(files.iter().filter(|file| file.path().starts_with(root)).count(), 2);
        }
        let first = files[0].path().to_owned();
        drop(files);
        assert!(!first.exists());
        drop(dirs);
        assert!(paths.iter().all(|root| std::fs::read_dir(root).unwrap().count() == 0));
    }

    #[test]
    fn a_directory_is_for_its_user_only_and_vanishes_with_the_rest() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let dirs = LocalDirs::new(vec![root.path().to_owned()]);
        let (one, other) =
            (dirs.create_directory("x").unwrap(), dirs.create_directory("x").unwrap());
        assert_ne!(one, other);
        assert_eq!(std::fs::metadata(&one).unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::write(one.join("file"), "x").unwrap();
        dirs.remove();
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
    }

    #[test]
    fn leftovers_go_and_directories_in_use_stay() {
        let root = tempfile::tempdir().unwrap();
        let roots = vec![root.path().to_owned()];
        let living = LocalDirs::new(roots.clone());
        let kept = living.create_file("kept").unwrap();
        let dead = root.path().join(format!("{PREFIX}dead"));
        std::fs::create_dir(&dead).unwrap();
        File::create(dead.join("owner.lock")).unwrap();
        let stranger = root.path().join("somebody-elses");
        std::fs::create_dir(&stranger).unwrap();
        LocalDirs::new(roots).create_file("new").unwrap();
        assert!(!dead.exists());
        assert!(stranger.exists() && kept.path().exists());
    }

    #[test]
    fn a_directory_that_breaks_later_is_passed_over_and_all_of_them_broken_is_an_error() {
        let roots = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let dirs = LocalDirs::new(roots.iter().map(|root| root.path().to_owned()).collect());
        let first = dirs.create_file("x").unwrap().path().to_owned();
        let break_directory =
            |file: &Path| std::fs::remove_dir_all(file.parent().unwrap()).unwrap();
        break_directory(&first);
        let files: Vec<TempFile> = (0..4).map(|_| dirs.create_file("x").unwrap()).collect();
        assert!(files.iter().all(|file| file.path().parent() != first.parent()));
        break_directory(files[0].path());
        let error = dirs.create_file("x").unwrap_err().to_string();
        assert!(error.contains("spark.local.dir") && error.contains("/x-"), "{error}");
    }

    #[test]
    fn a_root_that_cannot_be_written_is_passed_over_and_none_at_all_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        File::create(&file).unwrap();
        let dirs = LocalDirs::new(vec![file.join("below"), root.path().to_owned()]);
        assert!(dirs.create_file("x").is_ok());
        let error = LocalDirs::new(vec![file.join("below")]).create_file("x").unwrap_err();
        assert!(error.to_string().contains("spark.local.dir"), "{error}");
    }
}
