//! Where a worker's processes work: `WORK/APP_ID/EXECUTOR_ID/` and `WORK/DRIVER_ID/`, for nobody else to
//! read. Output stays there until it is old.
//!
//! Temporary files are in directories of the worker, `LOCAL/firesteel-local-*/APP_ID`, below WORK if it has no others. They go with
//! their application; those of a worker that was killed, with the next start.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use firesteel_backend::AppId;
use firesteel_standalone_core::{DriverId, ExecutorKey};
use firesteel_storage::LocalDirs;

use crate::StartError;

/// Only its user may look into it.
const PRIVATE: u32 = 0o700;
/// What is written to see whether a disk takes anything: one block of it.
const PROBE: &[u8] = &[0; 4096];

/// The directories of a worker.
#[derive(Clone, Debug)]
pub(super) struct Directories {
    work: PathBuf,
    local: Arc<LocalDirs>,
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
        let mut roots = local.iter().map(absolute).collect::<Result<Vec<_>, _>>()?;
        if roots.is_empty() {
            roots.push(work.clone());
        }
        let local = LocalDirs::new(roots);
        local.remove_leftovers();
        Ok(Self { work, local: Arc::new(local) })
    }

    /// Where what drivers serve is kept.
    pub(super) fn cache(&self) -> PathBuf {
        self.work.join("cache")
    }

    pub(super) fn for_executor(&self, key: &ExecutorKey) -> io::Result<Place> {
        let app = name(&key.app.0)?;
        let work = self.work.join(app).join(key.executor.to_string());
        self.place(work, app)
    }

    pub(super) fn for_driver(&self, driver: &DriverId) -> io::Result<Place> {
        let driver = name(&driver.0)?;
        self.place(self.work.join(driver), driver)
    }

    /// Its work directory, and those of its directories for temporary files that can be written: one bad disk of
    /// several is skipped.
    fn place(&self, work: PathBuf, owner: &str) -> io::Result<Place> {
        make_private(&work).map_err(named(&work))?;
        let mut bad = None;
        let mut local = self.local_of(owner)?;
        local.retain(|path| match make_writable(path) {
            Ok(()) => true,
            Err(error) => {
                let error = named(path)(error);
                tracing::warn!(%error, "a directory for temporary files is skipped");
                bad = Some(error);
                false
            }
        });
        match bad {
            Some(bad) if local.is_empty() => Err(bad),
            _ => Ok(Place { work, local }),
        }
    }

    /// Where temporary files of an application or a driver are.
    fn local_of(&self, owner: &str) -> io::Result<Vec<PathBuf>> {
        Ok(self.local.directories()?.iter().map(|root| root.join(owner)).collect())
    }

    /// Temporary files of an application that is over. Blocks.
    pub(super) fn remove_local(&self, app: &AppId) {
        let Ok(owner) = name(&app.0) else { return };
        match self.local_of(owner) {
            Ok(local) => local.iter().for_each(|path| remove(path)),
            Err(error) => tracing::warn!(%error, "could not find the temporary files of {owner}"),
        }
    }

    /// All temporary files, when nothing runs any more. Blocks.
    pub(super) fn remove_all_local(&self) {
        self.local.remove();
    }

    /// Removes directories whose files have not changed for `age`, except those of `keep`. Blocks.
    pub(super) fn remove_old(&self, age: Duration, keep: &[Arc<str>]) {
        let Some(border) = SystemTime::now().checked_sub(age) else { return };
        let Ok(entries) = fs::read_dir(&self.work) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let ours = name.to_str().is_some_and(|name| {
                (name.starts_with("app-") || name.starts_with("driver-"))
                    && !keep.iter().any(|kept| **kept == *name)
            });
            if ours && !changed_since(&entry.path(), border) {
                remove(&entry.path());
            }
        }
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

/// Makes a directory in which a file can be written: on a full or read-only disk it may be there already.
fn make_writable(path: &Path) -> io::Result<()> {
    static PROBES: AtomicU64 = AtomicU64::new(0);
    make_private(path)?;
    let number = PROBES.fetch_add(1, Ordering::Relaxed);
    let probe = path.join(format!(".probe-{}-{number}", std::process::id()));
    let written = fs::write(&probe, PROBE);
    let removed = fs::remove_file(&probe);
    written.and(removed)
}

/// The error with the path that it is about.
fn named(path: &Path) -> impl Fn(io::Error) -> io::Error {
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

fn remove(path: &Path) {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "could not remove a directory");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

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
        assert!(place.work.ends_with("work/app-1/3") && place.local[0].ends_with("app-1"));
        assert!(place.local[0].starts_with(root.path().join("work")));
        for path in [&place.work, &place.local[0], &root.path().join("work")] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700);
        }
        for bad in ["..", "a/b", "/etc", "", ".", "app-1/.."] {
            assert!(directories.for_executor(&key(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn one_bad_directory_of_several_is_skipped_and_when_all_are_bad_the_path_is_named() {
        let root = tempfile::tempdir().unwrap();
        let (good, bad) = (root.path().join("good"), root.path().join("file/below"));
        fs::write(root.path().join("file"), "not a directory").unwrap();
        let make = |local: &[PathBuf]| Directories::make(&root.path().join("work"), local).unwrap();
        let directories = make(&[bad.clone(), good.clone()]);
        let place = directories.for_executor(&key("app-1")).unwrap();
        assert!(place.local.len() == 1 && place.local[0].starts_with(&good), "{place:?}");
        assert_eq!(fs::read_dir(&place.local[0]).unwrap().count(), 0, "the probe is gone");
        let error = make(&[bad]).for_executor(&key("app-1")).unwrap_err().to_string();
        assert!(error.contains("file/below"), "{error}");
    }

    #[test]
    fn what_a_killed_worker_left_goes_with_the_next_and_what_another_uses_stays() {
        let root = tempfile::tempdir().unwrap();
        let local = [root.path().join("disk")];
        let make = |work: &str| Directories::make(&root.path().join(work), &local).unwrap();
        let (running, killed) = (make("one"), make("two"));
        let used = running.for_executor(&key("app-1")).unwrap().local.remove(0);
        let place = killed.for_executor(&key("app-1")).unwrap().local.remove(0);
        // A killed process lets go of its lock and removes nothing.
        let left = local[0].join("firesteel-local-0-0");
        fs::rename(place.parent().unwrap(), &left).unwrap();
        drop(killed);
        make("three");
        assert!(used.exists() && !left.exists());
        running.remove_all_local();
        assert!(!used.exists());
    }

    #[test]
    fn an_applications_temporary_files_go_and_its_output_stays_until_it_is_old() {
        let root = tempfile::tempdir().unwrap();
        let local = root.path().join("fast-disk");
        let directories = Directories::make(&root.path().join("work"), &[local]).unwrap();
        let place = directories.for_executor(&key("app-1")).unwrap();
        assert!(place.local[0].starts_with(root.path().join("fast-disk")), "{place:?}");
        directories.remove_local(&AppId::new("app-1"));
        assert!(!place.local[0].exists() && place.work.exists());

        directories.remove_old(Duration::from_secs(3600), &[]);
        assert!(place.work.exists(), "it is not old");
        directories.remove_old(Duration::ZERO, &["app-1".into()]);
        assert!(place.work.exists(), "something of it runs");
        fs::create_dir(root.path().join("work/mine")).unwrap();
        directories.remove_old(Duration::ZERO, &[]);
        assert!(!place.work.exists() && root.path().join("work/mine").exists());
    }
}
