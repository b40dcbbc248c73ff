//! Disks of workers, small enough to be filled: half of them memory that can be full, half of them images with a file system
//! that can be made to stand still. Where that cannot be had they are directories, which are neither.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

/// Size of a disk: more than all applications need at once.
const BYTES: u64 = 128 << 20;
/// The file that fills a disk.
const FILL: &str = "fill";
/// Where on a disk a worker may write.
const LOCAL: &str = "local";
/// Files that are smaller hold no block.
const SMALLEST_BLOCK: u64 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Medium {
    /// A file system in memory.
    Memory,
    /// A file system in a file.
    Image,
    /// Part of the disk that it lies on.
    Directory,
}

/// A disk, until this is dropped.
#[derive(Debug)]
pub(crate) struct Disk {
    path: PathBuf,
    medium: Medium,
}

impl Disk {
    /// The disk at `path`, on this medium or, with the reason why that cannot be, as a directory.
    pub(crate) fn make(path: &Path, medium: Medium) -> Result<(Self, Option<String>)> {
        fs::create_dir_all(path)?;
        let mounted = match medium {
            Medium::Memory => mount_memory(path),
            Medium::Image => mount_image(path),
            Medium::Directory => Ok(()),
        };
        let reason = mounted.err().map(|error| format!("{error:#}"));
        let medium = if reason.is_some() { Medium::Directory } else { medium };
        let disk = Self { path: path.to_owned(), medium };
        fs::create_dir_all(disk.local())?;
        Ok((disk, reason))
    }

    pub(crate) fn medium(&self) -> Medium {
        self.medium
    }

    /// The directory for temporary files on it.
    pub(crate) fn local(&self) -> PathBuf {
        self.path.join(LOCAL)
    }

    /// Writes until nothing more can be written.
    pub(crate) fn fill(&self) -> Result<()> {
        let mut file = File::create(self.path.join(FILL))?;
        let chunk = vec![0; 1 << 20];
        let mut length = chunk.len();
        while length > 0 {
            match file.write_all(&chunk[..length]) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::StorageFull => length /= 4,
                Err(error) => return Err(error).context("cannot fill a disk"),
            }
        }
        Ok(())
    }

    pub(crate) fn free(&self) -> Result<()> {
        Ok(fs::remove_file(self.path.join(FILL))?)
    }

    /// From now on, a process that writes to it waits.
    pub(crate) fn freeze(&self) -> Result<()> {
        command("fsfreeze", &["--freeze".as_ref(), self.path.as_ref()])
    }

    pub(crate) fn thaw(&self) -> Result<()> {
        command("fsfreeze", &["--unfreeze".as_ref(), self.path.as_ref()])
    }

    /// Files on it that hold blocks, with their lengths.
    pub(crate) fn blocks(&self) -> Vec<(PathBuf, u64)> {
        let mut found = files(&self.local());
        found.retain(|(path, length)| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            *length >= SMALLEST_BLOCK && !name.starts_with("owner.lock") && !name.starts_with('.')
        });
        found
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.medium == Medium::Image {
            let _ = self.thaw();
        }
        if self.medium != Medium::Directory
            && let Err(error) = command("umount", &[self.path.as_ref()])
        {
            eprintln!("chaos: {error:#}");
            let _ = command("umount", &["--lazy".as_ref(), self.path.as_ref()]);
        }
    }
}

/// All files below `path`, in the order of their names, with their lengths.
pub(crate) fn files(path: &Path) -> Vec<(PathBuf, u64)> {
    let Ok(entries) = fs::read_dir(path) else { return vec![] };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let found = paths.into_iter().flat_map(|path| match fs::symlink_metadata(&path) {
        Ok(about) if about.is_dir() => files(&path),
        Ok(about) if about.is_file() => vec![(path, about.len())],
        _ => vec![],
    });
    found.collect()
}

/// Turns one bit of a file, which may be gone by now.
pub(crate) fn damage(path: &Path, place: u64) -> Result<()> {
    use std::os::unix::fs::FileExt;
    let file = File::options().read(true).write(true).open(path)?;
    let length = file.metadata()?.len();
    let place = place.checked_rem(length).context("an empty file has nothing to damage")?;
    let mut byte = [0];
    file.read_exact_at(&mut byte, place)?;
    byte[0] ^= 1 << (place % 8);
    Ok(file.write_all_at(&byte, place)?)
}

/// Lets processes go on that wait for disks in this directory.
pub(crate) fn release(directory: &Path) {
    for disk in mounted(directory) {
        let _ = command("fsfreeze", &["--unfreeze".as_ref(), disk.as_ref()]);
    }
}

/// Takes disks in this directory away, also from those who still use them.
pub(crate) fn unmount(directory: &Path) {
    for disk in mounted(directory) {
        let _ = command("umount", &["--lazy".as_ref(), disk.as_ref()]);
    }
}

fn mounted(directory: &Path) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(1)).map(PathBuf::from);
    places.filter(|place| place.starts_with(directory)).collect()
}

fn mount_memory(path: &Path) -> Result<()> {
    let options = format!("size={BYTES}");
    let words = ["-t", "tmpfs", "-o", &options, "firesteel-chaos"].map(AsRef::as_ref);
    command("mount", &[&words[..], &[path.as_os_str()]].concat())
}

fn mount_image(path: &Path) -> Result<()> {
    let image = path.with_extension("image");
    File::create(&image)?.set_len(BYTES)?;
    command("mkfs.ext4", &["-q".as_ref(), "-F".as_ref(), image.as_ref()])?;
    command("mount", &["-o".as_ref(), "loop".as_ref(), image.as_ref(), path.as_ref()])?;
    let disk = Disk { path: path.to_owned(), medium: Medium::Image };
    // A machine that cannot do this should say so before the run. An error unmounts it.
    disk.freeze()?;
    disk.thaw()?;
    std::mem::forget(disk);
    Ok(())
}

fn command(program: &str, words: &[&std::ffi::OsStr]) -> Result<()> {
    let output = Command::new(program).args(words).output();
    let output = output.with_context(|| format!("no `{program}` found"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {words:?}: {}", stderr.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{env, fs};

    use super::{Disk, Medium, damage};

    #[test]
    fn blocks_are_found_and_one_bit_of_one_is_turned() {
        let path = env::temp_dir().join(format!("firesteel-disk-{}", std::process::id()));
        let (disk, reason) = Disk::make(&path, Medium::Directory).unwrap();
        assert_eq!((disk.medium(), reason), (Medium::Directory, None));
        let owner = disk.local().join("firesteel-app-1");
        fs::create_dir(&owner).unwrap();
        let block = vec![7; 100];
        for name in ["owner.lock", "shuffle-1"] {
            fs::write(owner.join(name), &block).unwrap();
        }
        fs::write(owner.join("small"), "1").unwrap();
        let found = disk.blocks();
        assert_eq!(found, [(owner.join("shuffle-1"), 100)]);
        damage(&found[0].0, 1234).unwrap();
        let damaged = fs::read(&found[0].0).unwrap();
        let bits = block.iter().zip(&damaged).map(|(one, other)| (one ^ other).count_ones());
        assert_eq!((damaged.len(), bits.sum::<u32>()), (100, 1));
        fs::remove_dir_all(path).unwrap();
    }
}
