//! What a process prints, in files of its work directory: one per stream, or, with a limit, one after
//! the other. A full file is renamed to `stdout--POSITION`, the position in the stream of its first byte; the oldest go. Workers of
//! `local-cluster` leave it to the user's terminal instead.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// When a file of output is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// When it has so many bytes.
    Bytes(u64),
    /// When such an interval, counted since 1970, is over.
    Interval(Duration),
}

/// Limits of files of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rolling {
    pub(super) full: Full,
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
    /// Into files with an end.
    RollingFiles(Rolling),
}

/// Where a stream of a new process goes, behind what `header` says. With limits a thread reads it, until the last writer is gone.
pub(super) fn sink(
    directory: &Path,
    stream: &str,
    output: Output,
    header: &str,
) -> io::Result<Stdio> {
    let path = directory.join(stream);
    let rolling = match output {
        Output::Inherited => return Ok(Stdio::inherit()),
        Output::Files => {
            let mut file = open(&path)?;
            file.write_all(header.as_bytes())?;
            return Ok(file.into());
        }
        Output::RollingFiles(rolling) => rolling,
    };
    let (reader, writer) = io::pipe()?;
    let mut roll = Roll::new(path, rolling, SystemTime::now())?;
    roll.write(header.as_bytes(), SystemTime::now())?;
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

/// The name of a full file of a stream, by the position of its first byte.
fn full_name(stream: &str, position: u64) -> String {
    format!("{stream}--{position:012}")
}

/// The position of the first byte of a full file of a stream; `None`: it is none.
pub(super) fn position_of(stream: &str, name: &str) -> Option<u64> {
    let digits = name.strip_prefix(stream)?.strip_prefix("--")?;
    let is_number = digits.len() >= 12 && digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// A file that is replaced when it is full.
struct Roll {
    path: PathBuf,
    rolling: Rolling,
    file: File,
    /// The position in the stream of its first byte.
    position: u64,
    written: u64,
    /// The interval in which it was begun.
    interval: u64,
    full: VecDeque<PathBuf>,
}

/// Which interval this is since 1970.
fn number_of(interval: Duration, now: SystemTime) -> u64 {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() / interval.as_secs().max(1)
}

impl Rolling {
    fn interval(self, now: SystemTime) -> u64 {
        match self.full {
            Full::Bytes(_) => 0,
            Full::Interval(interval) => number_of(interval, now),
        }
    }
}

impl Roll {
    /// Goes on where a process in the same directory ended.
    fn new(path: PathBuf, rolling: Rolling, now: SystemTime) -> io::Result<Self> {
        let full = full_files(&path)?;
        let position = match full.back() {
            Some((position, last)) => position.saturating_add(fs::metadata(last)?.len()),
            None => 0,
        };
        let file = open(&path)?;
        let about = file.metadata()?;
        let begun = if about.len() == 0 { now } else { about.modified().unwrap_or(now) };
        Ok(Self {
            path,
            rolling,
            file,
            position,
            written: about.len(),
            interval: rolling.interval(begun),
            full: full.into_iter().map(|(_, path)| path).collect(),
        })
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
            if let Err(error) = self.write(&buffer[..size], SystemTime::now()) {
                io::copy(&mut reader, &mut io::sink())?;
                return Err(error);
            }
        }
    }

    /// How many bytes more the file takes now.
    fn room(&self, now: SystemTime) -> u64 {
        match self.rolling.full {
            Full::Bytes(most) => most.saturating_sub(self.written),
            Full::Interval(_)
                if self.written > 0 && self.rolling.interval(now) != self.interval =>
            {
                0
            }
            Full::Interval(_) => u64::MAX,
        }
    }

    fn write(&mut self, mut bytes: &[u8], now: SystemTime) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.room(now) == 0 {
                self.begin_another()?;
            }
            self.interval =
                if self.written == 0 { self.rolling.interval(now) } else { self.interval };
            let room = usize::try_from(self.room(now)).unwrap_or(usize::MAX);
            let (first, later) = bytes.split_at(room.min(bytes.len()));
            self.file.write_all(first)?;
            self.written += first.len() as u64;
            bytes = later;
        }
        Ok(())
    }

    fn begin_another(&mut self) -> io::Result<()> {
        let stream = self.path.file_name().unwrap_or_default().to_string_lossy();
        let full = self.path.with_file_name(full_name(&stream, self.position));
        fs::rename(&self.path, &full)?;
        self.full.push_back(full);
        self.position = self.position.saturating_add(self.written);
        (self.file, self.written) = (open(&self.path)?, 0);
        while self.rolling.retained.is_some_and(|retained| self.full.len() > retained) {
            let oldest = self.full.pop_front().expect("there are some");
            fs::remove_file(oldest)?;
        }
        Ok(())
    }
}

/// The full files that are there of a stream, with their positions, the oldest first.
fn full_files(path: &Path) -> io::Result<VecDeque<(u64, PathBuf)>> {
    let stream = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let position = entry.file_name().to_str().and_then(|name| position_of(&stream, name));
        found.extend(position.map(|position| (position, entry.path())));
    }
    found.sort();
    Ok(found.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and contents, by name.
    fn files(directory: &Path) -> Vec<(String, String)> {
        let read = |entry: io::Result<fs::DirEntry>| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap())
        };
        let mut files: Vec<_> = fs::read_dir(directory).unwrap().map(read).collect();
        files.sort();
        files
    }

    fn expected<const N: usize>(files: [(&str, &str); N]) -> Vec<(String, String)> {
        files.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec()
    }

    #[test]
    fn full_files_follow_each_other_and_only_the_last_are_kept_by_this_process_and_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let roll = || {
            let rolling = Rolling { full: Full::Bytes(4), retained: Some(2) };
            Roll::new(directory.path().join("stdout"), rolling, SystemTime::now()).unwrap()
        };
        roll().copy(&b"aaaabbbbccccddddee"[..]).unwrap();
        let names = ["stdout", "stdout--000000000008", "stdout--000000000012"];
        let [now, first, second] = names;
        assert_eq!(
            files(directory.path()),
            expected([(now, "ee"), (first, "cccc"), (second, "dddd")])
        );
        roll().copy(&b"FFGGGGH"[..]).unwrap();
        let third = ("stdout--000000000016", "eeFF");
        let fourth = ("stdout--000000000020", "GGGG");
        assert_eq!(files(directory.path()), expected([(now, "H"), third, fourth]));
    }

    #[test]
    fn a_file_ends_with_its_interval_and_an_empty_one_does_not() {
        let directory = tempfile::tempdir().unwrap();
        let full = Full::Interval(Duration::from_secs(3600));
        let rolling = Rolling { full, retained: None };
        let at = |minutes: u64| UNIX_EPOCH + Duration::from_secs(minutes * 60);
        let mut roll = Roll::new(directory.path().join("stderr"), rolling, at(30)).unwrap();
        for (minutes, text) in [(150, "a"), (179, "b"), (180, "c"), (181, "d"), (600, "e")] {
            roll.write(text.as_bytes(), at(minutes)).unwrap();
        }
        let (first, second) = (("stderr--000000000000", "ab"), ("stderr--000000000002", "cd"));
        assert_eq!(files(directory.path()), expected([("stderr", "e"), first, second]));
    }

    #[test]
    fn only_names_of_ours_are_full_files() {
        let table = [
            ("stdout--000000000012", Some(12)),
            ("stdout--1234567890123", Some(1_234_567_890_123)),
            ("stdout", None),
            ("stdout--12", None),
            ("stdout--+00000000012", None),
            ("stdout--99999999999999999999999", None),
            ("stderr--000000000012", None),
        ];
        for (name, position) in table {
            assert_eq!(position_of("stdout", name), position, "{name}");
        }
    }

    #[test]
    fn the_header_is_before_what_the_process_prints() {
        let directory = tempfile::tempdir().unwrap();
        for (stream, output) in [
            ("stdout", Output::Files),
            ("stderr", Output::RollingFiles(Rolling { full: Full::Bytes(9), retained: None })),
        ] {
            let to = sink(directory.path(), stream, output, "head\n").unwrap();
            let mut child =
                std::process::Command::new("echo").arg("said").stdout(to).spawn().unwrap();
            assert!(child.wait().unwrap().success());
        }
        let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap_or_default();
        let start = std::time::Instant::now();
        while read("stderr") != "\n" {
            assert!(start.elapsed() < Duration::from_secs(60), "a thread writes it");
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(read("stdout"), "head\nsaid\n");
        assert_eq!(
            (read("stderr--000000000000"), read("stderr")),
            ("head\nsaid".to_owned(), "\n".to_owned())
        );
    }
}
