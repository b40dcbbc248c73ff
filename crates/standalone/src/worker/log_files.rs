//! The output of a process, read back: a part of a stream, in whatever files it is. Names in requests are single parts of a path
//! below the work directory, no link is followed on the way, and what is no file is not waited for.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Dir, Mode, OFlags, openat};

use super::directories::name;
use super::logs::position_of;

/// How often it is tried when files are replaced meanwhile.
const TRIES: u32 = 10;
/// A work directory of more entries is not looked through: a process may put there what it likes.
const ENTRIES: usize = 100_000;

/// A part of a stream. Positions count from the first byte that the process ever wrote, whether or not that is still there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) from: u64,
    pub(super) to: u64,
    /// How far the stream goes by now.
    pub(super) end: u64,
    pub(super) bytes: Vec<u8>,
}

/// Reads so many bytes of a stream, from a position on or, without one, the last ones. Blocks.
pub(super) fn read(
    work: &Path,
    parts: &[&str],
    stream: &str,
    from: Option<u64>,
    length: u64,
) -> io::Result<Part> {
    let directory = directory(work, parts)?;
    for _ in 0..TRIES {
        if let Some(files) = Files::open(&directory, stream)?
            && let Some(part) = files.read(&directory, from, length)?
        {
            return Ok(part);
        }
    }
    Err(io::Error::other("its files are replaced faster than they can be read"))
}

fn directory(work: &Path, parts: &[&str]) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut here = openat(CWD, work, flags, Mode::empty())?;
    for part in parts {
        here = openat(&here, name(part)?, flags, Mode::empty())?;
    }
    Ok(here)
}

/// A file, and nothing else: a pipe or a device would be waited for.
fn open_file(directory: &OwnedFd, name: &str) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(directory, name, flags, Mode::empty())?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file")),
    }
}

/// The full files of a stream by the positions of their first bytes, the oldest first.
fn full_files(directory: &OwnedFd, stream: &str) -> io::Result<Vec<(u64, String)>> {
    let mut found = Vec::new();
    for (count, entry) in Dir::read_from(directory)?.enumerate() {
        if count > ENTRIES {
            return Err(io::Error::other("there are too many files in its directory"));
        }
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        found.extend(position_of(stream, name).map(|position| (position, name.to_owned())));
    }
    found.sort();
    Ok(found)
}

/// The files of a stream at one moment.
struct Files {
    full: Vec<(u64, String)>,
    /// What is written to; `None`: it is about to be made.
    current: Option<File>,
    /// The position of its first byte.
    position: u64,
    end: u64,
}

fn if_there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl Files {
    /// `None`: they are being replaced just now.
    fn open(directory: &OwnedFd, stream: &str) -> io::Result<Option<Self>> {
        let full = full_files(directory, stream)?;
        let current = if_there(open_file(directory, stream))?;
        let position = match full.last() {
            None => 0,
            Some((position, name)) => {
                let Some(last) = if_there(open_file(directory, name))? else { return Ok(None) };
                position.saturating_add(last.metadata()?.len())
            }
        };
        if full_files(directory, stream)? != full {
            return Ok(None);
        }
        if current.is_none() && full.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "there is no such log"));
        }
        let bytes = current.as_ref().map(File::metadata).transpose()?.map_or(0, |it| it.len());
        Ok(Some(Files { full, current, position, end: position.saturating_add(bytes) }))
    }

    /// `None`: one of them is gone by now.
    fn read(
        mut self,
        directory: &OwnedFd,
        from: Option<u64>,
        length: u64,
    ) -> io::Result<Option<Part>> {
        let first = self.full.first().map_or(self.position, |(position, _)| *position);
        let from = from.unwrap_or(self.end.saturating_sub(length)).clamp(first, self.end);
        let to = from.saturating_add(length).min(self.end);
        let mut bytes = Vec::new();
        let ends = self.full.iter().skip(1).map(|(position, _)| *position).chain([self.position]);
        for ((position, name), end) in self.full.iter().zip(ends) {
            if end <= from || *position >= to {
                continue;
            }
            let Some(mut file) = if_there(open_file(directory, name))? else { return Ok(None) };
            copy(&mut file, (*position, end), (from, to), &mut bytes)?;
        }
        if let Some(current) = &mut self.current {
            copy(current, (self.position, self.end), (from, to), &mut bytes)?;
        }
        let to = from + bytes.len() as u64;
        Ok(Some(Part { from, to, end: self.end, bytes }))
    }
}

/// Appends what of a part is in a file that has these positions.
fn copy(
    file: &mut File,
    (position, end): (u64, u64),
    (from, to): (u64, u64),
    bytes: &mut Vec<u8>,
) -> io::Result<()> {
    let (begin, stop) = (from.max(position), to.min(end));
    if begin < stop {
        file.seek(SeekFrom::Start(begin - position))?;
        file.take(stop - begin).read_to_end(bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    const APP: [&str; 2] = ["app-1", "0"];

    fn work(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("app-1/0");
        fs::create_dir_all(&own).unwrap();
        files.iter().for_each(|(name, text)| fs::write(own.join(name), text).unwrap());
        root
    }

    fn text(root: &Path, from: Option<u64>, length: u64) -> (u64, String, u64) {
        let part = read(root, &APP, "stdout", from, length).unwrap();
        assert_eq!(part.to - part.from, part.bytes.len() as u64);
        (part.from, String::from_utf8(part.bytes).unwrap(), part.end)
    }

    #[test]
    fn any_part_is_read_across_files_and_what_is_outside_is_cut() {
        let files = [
            ("stdout--000000000004", "efgh"),
            ("stdout--000000000008", "ijklm"),
            ("stdout", "nop"),
            ("stdout--7", "not one of them"),
            ("stderr--000000000000", "nor this"),
        ];
        let root = work(&files);
        let all = "efghijklmnop";
        for from in 0..20u64 {
            for length in [0, 1, 2, 5, 100, u64::MAX] {
                let begin = from.clamp(4, 16);
                let stop = begin.saturating_add(length).min(16);
                let expected = &all[begin as usize - 4..stop as usize - 4];
                assert_eq!(
                    text(root.path(), Some(from), length),
                    (begin, expected.to_owned(), 16),
                    "{from} {length}"
                );
            }
        }
        assert_eq!(text(root.path(), None, 5), (11, "lmnop".to_owned(), 16));
        assert_eq!(text(root.path(), None, u64::MAX), (4, all.to_owned(), 16));
    }

    #[test]
    fn one_file_that_grows_is_read_from_its_beginning() {
        let root = work(&[("stdout", "abc")]);
        assert_eq!(text(root.path(), Some(1), 100), (1, "bc".to_owned(), 3));
        assert_eq!(text(root.path(), Some(u64::MAX), 100), (3, String::new(), 3));
    }

    #[test]
    fn nothing_outside_of_the_work_directory_is_read_and_nothing_is_waited_for() {
        let root = work(&[]);
        let own = root.path().join("app-1/0");
        fs::write(root.path().join("stdout"), "secret").unwrap();
        let refused = |parts: &[&str], stream: &str| {
            read(root.path(), parts, stream, None, 10).expect_err(&format!("{parts:?}"))
        };
        for parts in [
            vec![".."],
            vec!["app-1", ".."],
            vec!["app-1", "0", "..", ".."],
            vec!["app-1/0"],
            vec!["/etc"],
            vec![""],
            vec!["."],
            vec!["a\0b"],
        ] {
            refused(&parts, "stdout");
        }
        assert_eq!(refused(&APP, "stdout").kind(), io::ErrorKind::NotFound);
        symlink("/etc/passwd", own.join("stdout")).unwrap();
        refused(&APP, "stdout");
        symlink(root.path(), root.path().join("app-2")).unwrap();
        refused(&["app-2"], "stdout");
        let pipe = std::process::Command::new("mkfifo").arg(own.join("stderr")).status().unwrap();
        assert!(pipe.success());
        assert!(refused(&APP, "stderr").to_string().contains("not a file"));
    }

    #[test]
    fn files_that_are_replaced_while_they_are_read_give_what_was_written() {
        let root = work(&[("stdout", "")]);
        let own = root.path().join("app-1/0");
        let writing = std::thread::spawn(move || {
            for number in 0..500u64 {
                let current = own.join("stdout");
                fs::write(&current, format!("{number:04}")).unwrap();
                fs::rename(&current, own.join(format!("stdout--{:012}", number * 4))).unwrap();
                if number >= 3 {
                    let oldest = own.join(format!("stdout--{:012}", (number - 3) * 4));
                    fs::remove_file(oldest).unwrap();
                }
            }
        });
        while !writing.is_finished() {
            let Ok(part) = read(root.path(), &APP, "stdout", None, 8) else { continue };
            for (index, byte) in part.bytes.iter().enumerate() {
                let position = part.from + index as u64;
                let number = format!("{:04}", position / 4);
                assert_eq!(*byte, number.as_bytes()[position as usize % 4], "{part:?}");
            }
        }
        writing.join().unwrap();
        assert_eq!(text(root.path(), None, 4), (1996, "0499".to_owned(), 2000));
    }
}
