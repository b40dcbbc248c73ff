//! Committing output: attempts write beside the target under a hidden name; only when all is written
//! does one rename make it visible.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use firesteel_rdd::write::WrittenFile;

use crate::{Error, Result};

/// Directories to remove if the application ends before their jobs do.
#[derive(Clone, Default)]
pub(crate) struct Leftovers(Arc<Mutex<BTreeSet<PathBuf>>>);

impl Leftovers {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<PathBuf>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Removes them all.
    pub(crate) fn remove(&self) {
        for path in std::mem::take(&mut *self.lock()) {
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

/// A directory that becomes visible as a whole, or never.
pub(crate) struct Staged {
    target: PathBuf,
    staging: PathBuf,
    leftovers: Leftovers,
}

impl Staged {
    /// Prepares to write `target`; refuses one that exists unless it shall be replaced.
    pub(crate) fn create(target: &Path, replace: bool, leftovers: &Leftovers) -> Result<Self> {
        if !replace && target.symlink_metadata().is_ok() {
            return Err(Error::OutputExists { path: target.to_owned() });
        }
        let target = std::path::absolute(target).map_err(failed("resolve", target))?;
        let name = target.file_name().ok_or_else(|| {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "it has no file name");
            failed("write", &target)(source)
        })?;
        let parent = target.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(parent).map_err(failed("create", parent))?;
        let unique = format!("{:x}-{:08x}", std::process::id(), fastrand::u32(..));
        let staging = parent.join(format!("._temporary.{}.{unique}", name.to_string_lossy()));
        leftovers.lock().insert(staging.clone());
        let staged = Staged { target, staging, leftovers: leftovers.clone() };
        std::fs::create_dir(&staged.staging).map_err(failed("create", &staged.staging))?;
        Ok(staged)
    }

    /// Where attempts write.
    pub(crate) fn directory(&self) -> &Path {
        &self.staging
    }

    /// Keeps exactly these files, removes those of other attempts, and makes the directory visible.
    pub(crate) fn commit(self, files: Vec<WrittenFile>) -> Result<()> {
        for file in files {
            let name = self.staging.join(format!("part-{:05}", file.partition));
            std::fs::rename(&file.path, &name).map_err(failed("rename", &file.path))?;
        }
        self.remove_other_attempts().map_err(failed("clean", &self.staging))?;
        let marker = self.staging.join("_SUCCESS");
        std::fs::write(&marker, b"").map_err(failed("write", &marker))?;
        // A directory that came to be meanwhile is not replaced: rename refuses unless it is empty.
        std::fs::rename(&self.staging, &self.target).map_err(|source| match source.kind() {
            io::ErrorKind::DirectoryNotEmpty
            | io::ErrorKind::AlreadyExists
            | io::ErrorKind::NotADirectory => Error::OutputExists { path: self.target.clone() },
            _ => failed("put in place", &self.target)(source),
        })
    }

    fn remove_other_attempts(&self) -> io::Result<()> {
        for entry in std::fs::read_dir(&self.staging)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().contains(".attempt-") {
                std::fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

/// After a commit there is nothing left to remove.
impl Drop for Staged {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.staging);
        self.leftovers.lock().remove(&self.staging);
    }
}

fn failed(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Output { action, path: path.clone(), source: Arc::new(source) }
}
