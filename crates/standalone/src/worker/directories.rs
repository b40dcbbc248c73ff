//! Where a worker's processes work: `WORK/APP_ID/EXECUTOR_ID/` and `WORK/DRIVER_ID/`, for nobody else to
//! read. Output stays there until it is old; temporary files go with their application or driver.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use firesteel_standalone_core::{DriverId, ExecutorKey};
use firesteel_storage::ensure_private_directory;

use super::temporary::TemporaryFiles;
use crate::StartError;

/// Only its user may look into it.
const PRIVATE: u32 = 0o700;
/// What marks a directory that is being removed.
const REMOVED: &str = ".removed-";

/// The directories of a worker.
#[derive(Debug)]
pub(super) struct Directories {
    work: PathBuf,
    pub(super) temporary: TemporaryFiles,
    /// Held while a process gets its work directory, and while an old one is taken out of use.
    placing: Mutex<()>,
    /// How many were taken out of use.
    removed: AtomicU64,
}

/// Where one process works.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) work: PathBuf,
    pub(super) local: Vec<PathBuf>,
}

impl Directories {
    pub(super) fn make(work: &Path, local: &[PathBuf]) -> Result<Self, StartError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| StartError::WorkDirectory { path, source }
        };
        make_private(work).map_err(failed(work))?;
        let work = fs::canonicalize(work).map_err(failed(work))?;
        let absolute = |path: &PathBuf| std::path::absolute(path).map_err(failed(path));
        let mut local = local.iter().map(absolute).collect::<Result<Vec<_>, _>>()?;
        if local.is_empty() {
            local.push(work.join("local"));
        }
        let temporary = TemporaryFiles::new(local);
        Ok(Self { work, temporary, placing: Mutex::new(()), removed: AtomicU64::new(0) })
    }

    pub(super) fn work(&self) -> &Path {
        &self.work
    }

    /// Where what drivers serve is kept.
    pub(super) fn cache(&self) -> PathBuf {
        self.work.join("cache")
    }

    pub(super) fn for_executor(&self, key: &ExecutorKey) -> io::Result<Place> {
        let app = name(&key.app.0)?;
        self.place(&[app, &key.executor.to_string()], app)
    }

    pub(super) fn for_driver(&self, driver: &DriverId) -> io::Result<Place> {
        let driver = name(&driver.0)?;
        self.place(&[driver], driver)
    }

    /// Its work directory, and those for temporary files. Nothing is made once the worker's own directory is gone.
    fn place(&self, parts: &[&str], owner: &str) -> io::Result<Place> {
        let work = self.work_directory(parts)?;
        Ok(Place { work, local: self.temporary.make(owner)? })
    }

    fn work_directory(&self, parts: &[&str]) -> io::Result<PathBuf> {
        let _alone = self.placing();
        let mut work = self.work.clone();
        for part in parts {
            work.push(part);
            ensure_private_directory(&work).map_err(named(&work))?;
        }
        // One that was there is not old any more.
        File::open(&work)
            .and_then(|work| work.set_modified(SystemTime::now()))
            .map_err(named(&work))?;
        Ok(work)
    }

    fn placing(&self) -> MutexGuard<'_, ()> {
        self.placing.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Directories of which nothing was changed for so long, but for those of `keep`. Blocks.
    pub(super) fn remove_old(&self, age: Duration, keep: &BTreeSet<String>) {
        let Some(border) = SystemTime::now().checked_sub(age) else { return };
        let Ok(entries) = fs::read_dir(&self.work) else { return };
        for entry in entries.flatten() {
            let (path, Ok(name)) = (entry.path(), entry.file_name().into_string()) else {
                continue;
            };
            if name.starts_with(REMOVED) {
                remove(&path); // A worker ended while it removed this one.
            }
            let of_a_process = name.starts_with("app-") || name.starts_with("driver-");
            if of_a_process && !keep.contains(&name) && !changed_since(&path, border) {
                self.detach_old(&path, border).iter().for_each(|path| remove(path));
            }
        }
    }

    /// Takes a directory out of use unless a process has got it meanwhile.
    fn detach_old(&self, path: &Path, border: SystemTime) -> Option<PathBuf> {
        let _alone = self.placing();
        let modified = fs::symlink_metadata(path).and_then(|about| about.modified()).ok()?;
        let number = self.removed.fetch_add(1, Ordering::Relaxed);
        let aside = self.work.join(format!("{REMOVED}{:x}-{number:x}", std::process::id()));
        (modified <= border && fs::rename(path, &aside).is_ok()).then_some(aside)
    }
}

/// A name that is one part of a path, and no way out of it.
pub(super) fn name(text: &str) -> io::Result<&str> {
    let mut parts = Path::new(text).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(part)), None) if part == text => Ok(text),
        _ => Err(io::Error::other(format!("{text:?} cannot be the name of a directory"))),
    }
}

fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(PRIVATE).create(path)
}

/// The error with the path that it is about.
pub(super) fn named(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Whether anything in there is newer; also if that cannot be found out.
fn changed_since(path: &Path, border: SystemTime) -> bool {
    let Ok(about) = fs::symlink_metadata(path) else { return true };
    if about.modified().is_ok_and(|modified| modified > border) {
        return true;
    }
    about.is_dir()
        && fs::read_dir(path).map_or(true, |entries| {
            entries.flatten().any(|entry| changed_since(&entry.path(), border))
        })
}

/// Blocks the calling thread; failures are logged.
pub(super) fn remove(path: &Path) {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "could not remove a directory");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use firesteel_backend::AppId;
    use firesteel_types::ExecutorId;

    use super::*;

    fn key(app: &str) -> ExecutorKey {
        ExecutorKey { app: AppId::new(app), executor: ExecutorId(3) }
    }

    #[test]
    fn directories_are_for_their_user_only_and_names_do_not_lead_out_of_them() {
        let root = tempfile::tempdir().unwrap();
        let directories = Directories::make(&root.path().join("work"), &[]).unwrap();
        let place = directories.for_executor(&key("app-1")).unwrap();
        let local = &place.local[0];
        assert!(place.work.ends_with("work/app-1/3") && local.ends_with("app-1"));
        assert!(local.starts_with(root.path().join("work/local")));
        for path in [&place.work, local, local.parent().unwrap(), &root.path().join("work")] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700);
        }
        for bad in ["..", "a/b", "/etc", "", ".", "app-1/.."] {
            assert!(directories.for_executor(&key(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn links_in_the_place_of_directories_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let directories = Directories::make(&root.path().join("work"), &[]).unwrap();
        symlink(root.path(), root.path().join("work/app-1")).unwrap();
        let error = directories.for_executor(&key("app-1")).unwrap_err().to_string();
        assert!(error.contains("work/app-1: it is not a directory"), "{error}");
        assert!(!root.path().join("3").exists());
    }

    #[test]
    fn nothing_comes_back_after_the_workers_directory_was_removed() {
        let root = tempfile::tempdir().unwrap();
        let local = root.path().join("work/local");
        let directories = Directories::make(&root.path().join("work"), &[local]).unwrap();
        fs::remove_dir_all(root.path().join("work")).unwrap();
        assert!(directories.for_executor(&key("app-1")).is_err());
        assert!(!root.path().join("work").exists());
    }

    #[test]
    fn one_bad_directory_of_several_is_skipped_and_when_all_are_bad_the_path_is_named() {
        let root = tempfile::tempdir().unwrap();
        let (good, bad) = (root.path().join("good"), root.path().join("file/below"));
        fs::write(root.path().join("file"), "not a directory").unwrap();
        let make = |local: &[PathBuf]| Directories::make(&root.path().join("work"), local).unwrap();
        let place = make(&[bad.clone(), good.clone()]).for_executor(&key("app-1")).unwrap();
        assert!(place.local.len() == 1 && place.local[0].starts_with(&good), "{place:?}");
        assert_eq!(fs::read_dir(&place.local[0]).unwrap().count(), 0, "the probe is gone");
        let error = make(&[bad]).for_executor(&key("app-1")).unwrap_err().to_string();
        assert!(error.contains("file/below"), "{error}");
    }

    #[test]
    fn output_stays_until_it_is_old_and_nothing_of_it_runs() {
        let root = tempfile::tempdir().unwrap();
        let directories = Directories::make(&root.path().join("work"), &[]).unwrap();
        let place = directories.for_executor(&key("app-1")).unwrap();
        let driver = directories.for_driver(&DriverId::new("driver-1")).unwrap();
        let keep = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();

        directories.remove_old(Duration::from_secs(3600), &keep(&[]));
        assert!(place.work.exists() && driver.work.exists(), "they are not old");
        directories.remove_old(Duration::ZERO, &keep(&["app-1", "driver-1"]));
        assert!(place.work.exists() && driver.work.exists(), "something of them runs");
        fs::create_dir(root.path().join("work/mine")).unwrap();
        fs::create_dir(root.path().join("work/.removed-1-1")).unwrap();
        directories.remove_old(Duration::ZERO, &keep(&["driver-1"]));
        assert!(!place.work.exists() && driver.work.exists());
        let mut left: Vec<_> = fs::read_dir(root.path().join("work")).unwrap().flatten().collect();
        left.sort_by_key(|entry| entry.file_name());
        let names: Vec<_> = left.iter().map(|entry| entry.file_name()).collect();
        assert_eq!(names, ["driver-1", "local", "mine"]);
    }

    #[test]
    fn an_old_directory_that_a_process_got_meanwhile_stays() {
        let root = tempfile::tempdir().unwrap();
        let directories = Directories::make(&root.path().join("work"), &[]).unwrap();
        let driver = directories.for_driver(&DriverId::new("driver-1")).unwrap();
        let border = SystemTime::now();
        directories.for_driver(&DriverId::new("driver-1")).unwrap();
        assert_eq!(directories.detach_old(&driver.work, border), None);
        assert!(directories.detach_old(&driver.work, SystemTime::now()).is_some());
    }
}
