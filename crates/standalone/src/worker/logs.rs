//! What a process prints, in files of its work directory: one per stream, or, with a limit, one after
//! the other. A full file is renamed to `stdout--NUMBER`, numbers grow, the oldest go. Workers of `local-cluster` leave
//! it to the user's terminal instead.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;

/// Limits of files of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rolling {
    pub(super) max_bytes: u64,
    /// How many full files stay; all when it is `None`.
    pub(super) retained: Option<usize>,
}

/// Where processes print to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// Where this process does.
    Inherited,
    /// Into a file per stream that grows.
    Files,
    /// Into files of limited size.
    RollingFiles(Rolling),
}

/// Where a stream of a new process goes. With limits a thread reads it, until the last writer is gone.
pub(super) fn sink(directory: &Path, stream: &str, output: Output) -> io::Result<Stdio> {
    let path = directory.join(stream);
    let rolling = match output {
        Output::Inherited => return Ok(Stdio::inherit()),
        Output::Files => return Ok(open(&path)?.into()),
        Output::RollingFiles(rolling) => rolling,
    };
    let (reader, writer) = io::pipe()?;
    let roll = Roll::new(path, rolling)?;
    // Threads of no depth: a worker may have many processes.
    let builder =
        thread::Builder::new().name(format!("{stream} of a process")).stack_size(128 << 10);
    builder.spawn(move || {
        if let Err(error) = roll.copy(reader) {
            tracing::warn!(%error, "the output of a process is not kept any more");
        }
    })?;
    Ok(writer.into())
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// The name of a full file.
fn numbered(path: &Path, number: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!("--{number:04}"));
    name.into()
}

/// Numbers of full files that are there, in order.
fn full_files(path: &Path) -> io::Result<Vec<u64>> {
    let (Some(directory), Some(stream)) = (path.parent(), path.file_name()) else {
        return Ok(Vec::new());
    };
    let start = format!("{}--", stream.to_string_lossy());
    let number =
        |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix(&start)?.parse::<u64>().ok();
    let mut numbers: Vec<u64> = fs::read_dir(directory)?.flatten().filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// A file that is replaced when it is full.
struct Roll {
    path: PathBuf,
    rolling: Rolling,
    file: File,
    written: u64,
    next: u64,
    full: VecDeque<PathBuf>,
}

impl Roll {
    /// Goes on where a process before it ended: a driver that is started again prints to the same files.
    fn new(path: PathBuf, rolling: Rolling) -> io::Result<Self> {
        let file = open(&path)?;
        let written = file.metadata()?.len();
        let numbers = full_files(&path)?;
        let next = numbers.last().map_or(0, |last| last + 1);
        let full = numbers.into_iter().map(|number| numbered(&path, number)).collect();
        Ok(Self { path, rolling, file, written, next, full })
    }

    /// Takes all there is. A disk that refuses costs the output, never the process: it is read on.
    fn copy(mut self, mut reader: impl Read) -> io::Result<()> {
        let mut buffer = [0; 16 << 10];
        loop {
            let size = match reader.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                size => size?,
            };
            if size == 0 {
                return Ok(());
            }
            if let Err(error) = self.write(&buffer[..size]) {
                io::copy(&mut reader, &mut io::sink())?;
                return Err(error);
            }
        }
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.written >= self.rolling.max_bytes {
                self.begin_another()?;
            }
            let room = usize::try_from(self.rolling.max_bytes - self.written).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.file.write_all(now)?;
            self.written += now.len() as u64;
            bytes = later;
        }
        Ok(())
    }

    fn begin_another(&mut self) -> io::Result<()> {
        let name = numbered(&self.path, self.next);
        self.next += 1;
        fs::rename(&self.path, &name)?;
        self.full.push_back(name);
        (self.file, self.written) = (open(&self.path)?, 0);
        while self.rolling.retained.is_some_and(|retained| self.full.len() > retained) {
            let oldest = self.full.pop_front().expect("there are some");
            fs::remove_file(oldest)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_files_follow_each_other_and_only_the_last_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stdout");
        let rolling = Rolling { max_bytes: 4, retained: Some(2) };
        Roll::new(path.clone(), rolling).unwrap().copy(&b"aaaabbbbccccddddee"[..]).unwrap();
        let expected = [("stdout", "ee"), ("stdout--0002", "cccc"), ("stdout--0003", "dddd")];
        assert_eq!(files_in(directory.path()), owned(&expected));
        Roll::new(path, rolling).unwrap().copy(&b"ffgggghh"[..]).unwrap();
        let expected = [("stdout", "hh"), ("stdout--0004", "eeff"), ("stdout--0005", "gggg")];
        assert_eq!(files_in(directory.path()), owned(&expected), "the next process goes on");
    }

    fn owned(files: &[(&str, &str)]) -> Vec<(String, String)> {
        files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    fn files_in(directory: &Path) -> Vec<(String, String)> {
        let mut files: Vec<(String, String)> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| {
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                (name, fs::read_to_string(path).unwrap())
            })
            .collect();
        files.sort();
        files
    }
}
