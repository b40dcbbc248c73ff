//! Temporary files: open while they are written, closed while nobody reads them, removed when they are
//! dropped.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::dirs::{Directories, OwnDir, named};
use crate::open_files;

/// A file on disk; removed when it is dropped.
#[derive(Debug)]
struct OnDisk(PathBuf);

impl Drop for OnDisk {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A temporary file that is being written; removed when it is dropped. A disk that is full, or does not
/// take a write for another reason, costs a copy of what was written so far to the next disk.
#[derive(Debug)]
pub struct TempFile {
    file: File,
    on_disk: OnDisk,
    length: u64,
    directory: Arc<OwnDir>,
    directories: Arc<Directories>,
    name: String,
    number: u64,
    tried: Vec<PathBuf>,
}

impl TempFile {
    pub(crate) fn create(
        directories: &Arc<Directories>,
        name: &str,
        number: u64,
    ) -> io::Result<Self> {
        let mut tried = Vec::new();
        let (file, directory) = directories.create(name, number, &mut tried)?;
        Ok(TempFile {
            file,
            on_disk: OnDisk(directory.path.join(name)),
            length: 0,
            directory,
            directories: directories.clone(),
            name: name.to_owned(),
            number,
            tried,
        })
    }

    pub fn path(&self) -> &Path {
        &self.on_disk.0
    }

    /// Bytes written.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Closes it: what was written is read through [`StoredFile::open`].
    pub fn store(self) -> StoredFile {
        StoredFile { on_disk: self.on_disk, number: open_files::next_number() }
    }

    /// Goes on in another directory, after this one refused a write.
    fn move_on(&mut self, refusal: &io::Error) -> io::Result<()> {
        let first = named(self.path(), refusal);
        self.directory.refused(refusal);
        self.tried.push(self.directory.path.clone());
        loop {
            let created = self.directories.create(&self.name, self.number, &mut self.tried);
            let Ok((mut file, directory)) = created else { return Err(first) };
            let on_disk = OnDisk(directory.path.join(&self.name));
            let written = File::open(self.path()).map(|file| file.take(self.length));
            match written.and_then(|mut written| io::copy(&mut written, &mut file)) {
                Ok(copied) if copied == self.length => {
                    (self.file, self.on_disk, self.directory) = (file, on_disk, directory);
                    return Ok(());
                }
                Ok(_) => return Err(first),
                Err(error) => {
                    directory.refused(&error);
                    self.tried.push(directory.path.clone());
                }
            }
        }
    }

    fn write_here(&mut self, bytes: &[u8]) -> io::Result<usize> {
        #[cfg(test)]
        faults::refuse(self.path())?;
        self.file.write(bytes)
    }
}

impl Write for TempFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.write_here(bytes) {
                Ok(written) => {
                    self.length += written as u64;
                    return Ok(written);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
                Err(error) => self.move_on(&error)?,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A temporary file that was written; removed when it is dropped. It has no handle while nobody reads it.
#[derive(Debug)]
pub struct StoredFile {
    on_disk: OnDisk,
    number: u64,
}

impl StoredFile {
    pub fn path(&self) -> &Path {
        &self.on_disk.0
    }

    /// A handle to read it with, at positions of the reader's own: others share it. It can be read to the
    /// end even if the file is removed meanwhile.
    pub fn open(&self) -> io::Result<Arc<File>> {
        open_files::shared().get(self.number, self.path())
    }
}

impl Drop for StoredFile {
    fn drop(&mut self) {
        // An open handle would keep its bytes on disk.
        open_files::shared().forget(self.number);
    }
}

/// Disks that refuse writes, for tests.
#[cfg(test)]
mod faults {
    use std::cell::RefCell;
    use std::io;
    use std::path::{Path, PathBuf};

    thread_local! {
        static FULL: RefCell<Vec<PathBuf>> = const { RefCell::new(Vec::new()) };
    }

    /// Disks that are full for this thread.
    pub(super) fn fill(roots: Vec<PathBuf>) {
        FULL.set(roots);
    }

    pub(super) fn refuse(path: &Path) -> io::Result<()> {
        match FULL.with_borrow(|full| full.iter().any(|root| path.starts_with(root))) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalDirs;
    use std::os::unix::fs::FileExt;

    fn two_disks() -> ([tempfile::TempDir; 2], LocalDirs) {
        let roots = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let dirs = LocalDirs::new(roots.iter().map(|root| root.path().to_owned()).collect());
        (roots, dirs)
    }

    fn files_under(root: &Path) -> usize {
        let own = std::fs::read_dir(root).unwrap().map(|own| own.unwrap().path());
        own.map(|own| std::fs::read_dir(own).unwrap().count() - 1).sum()
    }

    #[test]
    fn a_disk_that_fills_up_costs_a_copy_and_is_passed_over_from_then_on() {
        let (roots, dirs) = two_disks();
        let mut file = dirs.create_file("x").unwrap();
        let full = roots.iter().find(|root| file.path().starts_with(root.path())).unwrap();
        file.write_all(b"before, ").unwrap();
        faults::fill(vec![full.path().to_owned()]);
        file.write_all(b"after").unwrap();
        assert!(!file.path().starts_with(full.path()));
        assert_eq!(file.length(), 13);
        let stored = file.store();
        let mut bytes = [0; 13];
        stored.open().unwrap().read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"before, after");
        assert_eq!(files_under(full.path()), 0, "the first half is gone");
        for _ in 0..4 {
            let next = dirs.create_file("x").unwrap();
            assert!(!next.path().starts_with(full.path()), "{:?}", next.path());
        }
        faults::fill(roots.iter().map(|root| root.path().to_owned()).collect());
        let error = dirs.create_file("x").unwrap().write_all(b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().contains("spark.local.dir"), "{error}");
        faults::fill(Vec::new());
        drop(stored);
        assert!(roots.iter().all(|root| files_under(root.path()) == 0));
    }

    #[test]
    fn a_stored_file_is_closed_until_it_is_read_and_leaves_nothing_on_disk() {
        let (_roots, dirs) = two_disks();
        let mut file = dirs.create_file("x").unwrap();
        file.write_all(b"text").unwrap();
        let stored = file.store();
        let path = stored.path().to_owned();
        let open = || {
            let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            let targets = all.filter_map(|entry| std::fs::read_link(entry.path()).ok());
            targets.filter(|target| target.starts_with(&path)).count()
        };
        assert_eq!(open(), 0);
        let (one, other) = (stored.open().unwrap(), stored.open().unwrap());
        assert_eq!(open(), 1, "readers share a handle");
        drop((one, other, stored));
        assert!(!path.exists());
        let deleted = path
            .with_file_name(format!("{} (deleted)", path.file_name().unwrap().to_string_lossy()));
        let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let targets = all.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        assert_eq!(targets.filter(|target| *target == deleted).count(), 0);
    }
}
