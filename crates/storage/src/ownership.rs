//! Who owns a directory in a place that users share, such as `/tmp`.
//!
//! An owner is a process that locks a file in its directory for as long as it lives, however it ends. A
//! directory whose lock can be taken has lost its owner.
//!
//! Other users may put links, pipes and directories there under any name. Nothing of theirs is followed,
//! opened, used or removed.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;

const LOCK: &str = "owner.lock";
/// Only its user may look into it.
const PRIVATE: u32 = 0o700;
/// How old a directory without a lock has to be before nobody is making it any more.
const UNLOCKED: Duration = Duration::from_secs(3600);

/// The lock of a directory's owner. It is held until this is dropped or the process ends.
#[derive(Debug)]
pub struct OwnerLock {
    file: File,
}

impl Drop for OwnerLock {
    /// Closing the file is not enough: a child process that another thread has forked, and that has not come to its `exec` yet,
    /// holds the same open file and with it the lock.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

impl OwnerLock {
    /// Makes this process the owner of a directory that has none yet.
    pub fn take(directory: &Path) -> io::Result<Self> {
        // Nobody sees the lock before it is held: who does would take the directory for one that was left.
        let making = directory.join(format!("{LOCK}.new"));
        let file = File::create_new(&making)?;
        file.lock()?;
        fs::rename(making, directory.join(LOCK))?;
        Ok(OwnerLock { file })
    }
}

/// A new directory of this process.
#[derive(Debug)]
pub struct OwnedDirectory {
    path: PathBuf,
    _lock: OwnerLock,
}

impl OwnedDirectory {
    /// Under `root`, which is made if it is not there, with a name that nobody can foresee.
    pub fn create(root: &Path, prefix: &str) -> io::Result<Self> {
        fs::create_dir_all(root)?;
        let path = root.join(format!("{prefix}{:x}-{:016x}", std::process::id(), unique()));
        private_directory().create(&path)?;
        let lock = OwnerLock::take(&path).inspect_err(|_| {
            let _ = fs::remove_dir_all(&path);
        })?;
        Ok(OwnedDirectory { path, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A directory that only its user may look into; its parent has to be there.
pub(crate) fn private_directory() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(PRIVATE);
    builder
}

/// Makes a directory that only this user may look into, or takes the one that is there if it is such a one.
/// Its parent has to be there.
pub fn ensure_private_directory(path: &Path) -> io::Result<()> {
    match private_directory().create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made,
    }
    let about = fs::symlink_metadata(path)?;
    let refusal = match () {
        () if !about.is_dir() => "it is not a directory",
        () if !is_ours(&about) => "it belongs to another user",
        () if about.mode() & 0o077 != 0 => "other users may look into it",
        () => return Ok(()),
    };
    let text = format!("{refusal}: remove it, or have another place used");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

/// Removes directories of this user under `root` with such names that have lost their owners.
pub fn remove_abandoned(root: &Path, prefix: &str) {
    for directory in with_prefix(root, prefix) {
        if is_abandoned(&directory) || was_never_owned(&directory) {
            let _ = fs::remove_dir_all(directory);
        }
    }
}

fn with_prefix(root: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    named.map(|entry| entry.path()).collect()
}

/// Whether this is a directory of this user that had an owner, and has none any more.
pub fn is_abandoned(directory: &Path) -> bool {
    own_directory(directory).is_some()
        && open_lock(directory).is_ok_and(|lock| {
            lock.metadata().is_ok_and(|about| about.is_file()) && lock.try_lock().is_ok()
        })
}

/// Whether this is a directory of this user that is too old to be one that is being made or removed, and
/// has no lock.
fn was_never_owned(directory: &Path) -> bool {
    let Some(about) = own_directory(directory) else { return false };
    let old = SystemTime::now().checked_sub(UNLOCKED);
    about.modified().ok().zip(old).is_some_and(|(modified, old)| modified < old)
        && open_lock(directory).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn own_directory(path: &Path) -> Option<Metadata> {
    fs::symlink_metadata(path).ok().filter(|about| about.is_dir() && is_ours(about))
}

fn is_ours(about: &Metadata) -> bool {
    about.uid() == rustix::process::geteuid().as_raw()
}

/// A pipe under this name would block who opens it.
fn open_lock(directory: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(flags.bits() as i32);
    options.open(directory.join(LOCK))
}

/// Differs from call to call and from process to process.
fn unique() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::{CWD, FileType, Mode, Timespec, Timestamps, mknodat, utimensat};

    use super::*;

    const PREFIX: &str = "firesteel-test-";

    fn make_old(path: &Path) {
        let at = Timespec { tv_sec: 1_000_000_000, tv_nsec: 0 };
        let times = Timestamps { last_access: at, last_modification: at };
        utimensat(CWD, path, &times, rustix::fs::AtFlags::empty()).unwrap();
    }

    #[test]
    fn a_pipe_or_a_link_in_place_of_the_lock_holds_nobody_up_and_keeps_its_directory() {
        let root = tempfile::tempdir().unwrap();
        let (pipe, link) =
            (root.path().join("firesteel-test-p"), root.path().join("firesteel-test-l"));
        fs::create_dir(&pipe).unwrap();
        fs::create_dir(&link).unwrap();
        mknodat(CWD, pipe.join(LOCK), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        File::create(root.path().join("elsewhere")).unwrap();
        symlink(root.path().join("elsewhere"), link.join(LOCK)).unwrap();
        remove_abandoned(root.path(), PREFIX);
        assert!(pipe.exists() && link.exists());
    }

    #[test]
    fn a_directory_goes_with_its_owner_and_one_without_a_lock_when_it_is_old() {
        let root = tempfile::tempdir().unwrap();
        let [young, old, locked, file] = ["young", "old", "locked", "file"]
            .map(|name| root.path().join(format!("{PREFIX}{name}")));
        for directory in [&young, &old, &locked] {
            fs::create_dir(directory).unwrap();
        }
        fs::write(&file, "not a directory").unwrap();
        let owner = OwnerLock::take(&locked).unwrap();
        let of_a_forked_child = owner.file.try_clone().unwrap();
        [&old, &locked, &file].into_iter().for_each(|path| make_old(path));
        remove_abandoned(root.path(), PREFIX);
        assert!(!old.exists() && young.exists() && locked.exists() && file.exists());
        drop(owner);
        remove_abandoned(root.path(), PREFIX);
        assert!(!locked.exists());
        drop(of_a_forked_child);
    }

    #[test]
    fn only_a_private_directory_of_this_user_is_taken_for_its_own() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        ensure_private_directory(&path("new")).unwrap();
        ensure_private_directory(&path("new")).unwrap();
        assert_eq!(fs::metadata(path("new")).unwrap().mode() & 0o777, PRIVATE);
        symlink(path("new"), path("link")).unwrap();
        fs::create_dir(path("open")).unwrap();
        fs::set_permissions(path("open"), fs::Permissions::from_mode(0o755)).unwrap();
        for (name, needle) in [("link", "not a directory"), ("open", "other users may look")] {
            let error = ensure_private_directory(&path(name)).unwrap_err().to_string();
            assert!(error.contains(needle), "{error}");
        }
        let below = ensure_private_directory(&path("missing/below")).unwrap_err();
        assert_eq!(below.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn directories_of_another_user_are_neither_taken_nor_removed() {
        if !rustix::process::geteuid().is_root() {
            return; // Only root can make one.
        }
        let root = tempfile::tempdir().unwrap();
        let foreign = root.path().join("firesteel-test-foreign");
        private_directory().create(&foreign).unwrap();
        File::create(foreign.join(LOCK)).unwrap();
        std::os::unix::fs::chown(&foreign, Some(4242), None).unwrap();
        make_old(&foreign);
        remove_abandoned(root.path(), PREFIX);
        assert!(foreign.exists());
        let error = ensure_private_directory(&foreign).unwrap_err().to_string();
        assert!(error.contains("another user"), "{error}");
    }
}
