//! Whole files, to a location and from one. Nobody sees a file before it is whole.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::{Input, Location};

/// Copies a file of this machine to a location: so many bytes. Directories are made.
pub fn upload(from: &Path, to: &Location) -> io::Result<u64> {
    match to {
        Location::Local(path) => write_whole(path, &mut File::open(from)?),
        #[cfg(feature = "object-store")]
        Location::Remote { url, options } => crate::store::put_file(url, options, from),
        #[cfg(not(feature = "object-store"))]
        Location::Remote { .. } => Err(crate::output::without_stores()),
    }
}

/// Copies a file from a location to this machine, as it is stored: so many bytes. Directories are made.
pub fn download(from: &Location, to: &Path) -> io::Result<u64> {
    write_whole(to, &mut Input::open_stored(from)?)
}

fn write_whole(path: &Path, from: &mut impl io::Read) -> io::Result<u64> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".part");
    let unfinished = PathBuf::from(unfinished);
    let written = File::create(&unfinished)
        .and_then(|mut file| io::copy(from, &mut file))
        .and_then(|bytes| std::fs::rename(&unfinished, path).map(|()| bytes));
    if written.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_goes_to_a_directory_and_comes_back_and_what_fails_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let here = directory.path().join("here");
        std::fs::write(&here, "the bytes").unwrap();
        let options = std::sync::Arc::default();
        let there = format!("file://{}/a/b/there", directory.path().display());
        let there = Location::parse(&there, &options);
        assert_eq!(upload(&here, &there).unwrap(), 9);
        let back = directory.path().join("c/back");
        assert_eq!(download(&there, &back).unwrap(), 9);
        assert_eq!(std::fs::read(&back).unwrap(), b"the bytes");
        let absent = there.child("none");
        assert!(download(&absent, &directory.path().join("d/none")).is_err());
        let left = std::fs::read_dir(directory.path().join("c")).unwrap().count();
        assert_eq!(left, 1, "no part of it");
    }
}
