//! A directory for large files: in the cache, checked for room, removed when done.
//!
//! A run that was killed leaves it behind; the next run starts by removing it. So two runs at once would disturb each other,
//! which they do anyway, by measuring at the same time.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use crate::cache;

/// The directory, which goes away with this value.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// The empty directory `name`, on a disk with room for `bytes`.
    pub(crate) fn with_space(name: &str, bytes: u64) -> Result<Self> {
        let scratch = Self::empty(&cache::directory("bench")?.join(name))?;
        let path = scratch.path();
        let free =
            free_bytes(path).with_context(|| format!("no free space of {}", path.display()))?;
        enough(path, free, bytes)?;
        Ok(scratch)
    }

    fn empty(path: &Path) -> Result<Self> {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", path.display()));
            }
            _ => {}
        }
        fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path.to_owned()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("bench: cannot remove {}: {error}", self.0.display());
        }
    }
}

fn free_bytes(path: &Path) -> Result<u64> {
    let disk = rustix::fs::statvfs(path)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

fn enough(path: &Path, free: u64, needed: u64) -> Result<()> {
    let gigabytes = |bytes: u64| bytes as f64 / 1e9;
    ensure!(
        free >= needed,
        "{:.1} GB are free for {}, {:.1} GB are needed: make room, set FIRESTEEL_CACHE to a directory on a larger disk, \
         or run less with --gigabytes or --only",
        gigabytes(free),
        path.display(),
        gigabytes(needed)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{env, fs, path::Path};

    use super::{Scratch, enough, free_bytes};

    #[test]
    fn what_an_earlier_run_left_is_removed_at_the_start_and_everything_at_the_end() {
        let path = env::temp_dir().join(format!("firesteel-scratch-{}", std::process::id()));
        fs::create_dir_all(path.join("left")).unwrap();
        let scratch = Scratch::empty(&path).unwrap();
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
        fs::write(path.join("file"), "content").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn a_disk_without_room_is_refused_with_both_sizes() {
        let path = Path::new("disk");
        enough(path, 10, 10).unwrap();
        let error = enough(path, 60_000_000_000, 61_000_000_000).unwrap_err().to_string();
        assert!(error.starts_with("60.0 GB are free for disk, 61.0 GB are needed"), "{error}");
        assert!(free_bytes(&env::temp_dir()).unwrap() > 0);
    }
}
