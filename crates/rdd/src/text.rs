//! Text files, line by line, in splits of files.
//!
//! A line belongs to the split in which it starts: a split that does not start at the file's start
//! skips to the first line start at or behind its own, and the last line of a split is read to its
//! end, into the next split's bytes. A compressed file cannot be entered in its middle: it is one split.
//!
//! As for Hadoop's reader, a newline, a carriage return and both one after the other each end a line.

use std::io::{BufRead, BufReader};
use std::sync::Arc;

use memchr::{memchr, memchr2};
use serde::{Deserialize, Serialize};

use firesteel_closure::{Value, wire};
use firesteel_io::{Compression, FileRef, Input, Location, is_final};
use firesteel_task::{TaskContext, fail_for_good, fail_with};

use crate::Pipe;

const BUFFER_BYTES: usize = 256 * 1024;
/// What some programs write before the first line of a text in UTF-8. It is no part of that line.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// The file that it is a part of.
    pub location: Location,
    /// Offset of its first byte; a line that begins before it belongs to the split before.
    pub start: u64,
    /// Behind the last byte; [`TO_THE_END`] for a file that is read as a whole, however long its content.
    pub end: u64,
}

/// The end of a split whose length is known only when it is read.
pub const TO_THE_END: u64 = u64::MAX;

/// Cuts files into splits of about `target` bytes; an empty file has one split, and so has a compressed
/// one.
pub fn split_files(files: Vec<FileRef>, target: u64) -> Vec<Split> {
    let target = target.max(1);
    files.into_iter().flat_map(|file| split_file(file, target)).collect()
}

fn split_file(file: FileRef, target: u64) -> Vec<Split> {
    let FileRef { location, len } = file;
    if Compression::of(&location.to_string()).is_some() {
        return vec![Split { location, start: 0, end: TO_THE_END }];
    }
    // A remainder of a tenth is not worth a task of its own.
    let count = (len.saturating_sub(target / 10)).div_ceil(target).max(1);
    // All of one size: a short one at the end would leave cores idle.
    let at = |i: u64| (u128::from(len) * u128::from(i) / u128::from(count)) as u64;
    (0..count).map(|i| Split { location: location.clone(), start: at(i), end: at(i + 1) }).collect()
}

wire! {
    /// `text_file`
    pub struct TextSource[] {
        splits: Value<Arc<Vec<Split>>>,
        lossy: bool,
    }
}

impl TextSource {
    /// One partition per split; invalid UTF-8 is replaced if `lossy`, else it fails the job.
    pub fn new(splits: Vec<Split>, lossy: bool) -> Self {
        TextSource { splits: Value(Arc::new(splits)), lossy }
    }
}

impl Pipe for TextSource {
    type Item = String;

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = String> + use<> + 'static {
        Lines::of_text(self.splits.0[partition as usize].clone(), self.lossy, task.clone())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineEnds {
    /// `\n`, `\r` or `\r\n`.
    Any,
    /// `\n`: a carriage return is for the caller to understand.
    Newline,
}

impl LineEnds {
    /// Where the first line end begins.
    fn find(self, bytes: &[u8]) -> Option<usize> {
        match self {
            LineEnds::Any => memchr2(b'\n', b'\r', bytes),
            LineEnds::Newline => memchr(b'\n', bytes),
        }
    }
}

/// The lines of a split, as bytes.
pub(crate) struct Lines {
    pub(crate) split: Split,
    reader: BufReader<Input>,
    /// Offset of the next line.
    pub(crate) position: u64,
    ends: LineEnds,
    lossy: bool,
    pub(crate) task: TaskContext,
    line: Vec<u8>,
    /// Records and bytes, for the task's metrics.
    read: (u64, u64),
}

impl Lines {
    /// The lines of a text; invalid UTF-8 is replaced if `lossy`.
    pub(crate) fn of_text(split: Split, lossy: bool, task: TaskContext) -> Self {
        let mut lines = Lines::open(split, LineEnds::Any, task);
        lines.lossy = lossy;
        lines
    }

    pub(crate) fn open(split: Split, ends: LineEnds, task: TaskContext) -> Self {
        // One byte early: if that ends a line, nothing of this split is skipped.
        let position = split.start.saturating_sub(1);
        let input = match split.end {
            TO_THE_END => Input::open(&split.location),
            end => Input::open_at(&split.location, position, end),
        };
        let input = input.unwrap_or_else(|error| fail_opening(&split.location, &error));
        let reader = BufReader::with_capacity(BUFFER_BYTES, input);
        let (lossy, line, read) = (false, Vec::new(), (0, 0));
        let mut lines = Lines { split, reader, position, ends, lossy, task, line, read };
        if lines.split.start > 0 {
            lines.skip_to_line_start();
        }
        lines
    }

    fn skip_to_line_start(&mut self) {
        while self.position < self.split.end && !self.skip_some() {
            self.task.check_killed();
        }
    }

    /// Skips what is in the buffer, through the next line end; whether there was one, or no more to
    /// read. A line may be longer than many splits: nothing of it is kept.
    fn skip_some(&mut self) -> bool {
        let is_over = self.take_some();
        self.line.clear();
        is_over
    }

    /// Reads through the next line end into `line`; returns the bytes read.
    fn read_line(&mut self) -> usize {
        self.line.clear();
        while !self.take_some() {}
        self.line.len()
    }

    /// Moves what is in the buffer to `line`, through the next line end; whether there was one, or no more to read.
    fn take_some(&mut self) -> bool {
        let ends = self.ends;
        let buffer = self.filled();
        let end = ends.find(buffer);
        let taken = end.map_or(buffer.len(), |at| at + 1);
        let is_return = end.is_some_and(|at| buffer[at] == b'\r');
        self.take(taken);
        if is_return && self.filled().first() == Some(&b'\n') {
            self.take(1);
        }
        end.is_some() || taken == 0
    }

    /// Moves so many bytes of the buffer to `line`.
    fn take(&mut self, bytes: usize) {
        self.line.extend_from_slice(&self.reader.buffer()[..bytes]);
        self.reader.consume(bytes);
        self.position += bytes as u64;
    }

    /// The buffer, with something in it unless the file is at its end.
    fn filled(&mut self) -> &[u8] {
        if self.reader.buffer().is_empty()
            && let Err(error) = self.reader.fill_buf()
        {
            self.fail_reading(error)
        }
        self.reader.buffer()
    }

    fn fail_reading(&self, error: std::io::Error) -> ! {
        fail_reading(&self.split.location, self.position, &error)
    }

    /// Its lines are not there any more: fewer than the user had is not the answer.
    fn fail_truncated(&self) -> ! {
        let (path, end) = (&self.split.location, self.split.end);
        fail_with(format!(
            "{path} ends at or before offset {}, but had at least {end} bytes when the job was \
             planned: it was changed meanwhile",
            self.position
        ))
    }

    /// A line that is in the buffer as a whole, without a copy in between.
    #[inline]
    fn buffered(&mut self, start: u64) -> Option<String> {
        let buffer = self.reader.buffer();
        let end = memchr2(b'\n', b'\r', buffer)?;
        let behind = match buffer[end] {
            b'\n' => end + 1,
            // Whether a newline follows is to be seen.
            _ => end + 1 + usize::from(*buffer.get(end + 1)? == b'\n'),
        };
        let marked = if start == 0 { mark_of(buffer) } else { 0 };
        let line = &buffer[marked.min(end)..end];
        let text = text(&self.split.location, start + marked as u64, self.lossy, line);
        self.reader.consume(behind);
        self.position += behind as u64;
        self.count(behind);
        Some(text)
    }

    fn count(&mut self, bytes: usize) {
        self.read.0 += 1;
        self.read.1 += bytes as u64;
    }
}

/// How long the byte order mark is that a file begins with.
fn mark_of(bytes: &[u8]) -> usize {
    if bytes.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 }
}

fn without_end(line: &[u8]) -> &[u8] {
    let ends: [&[u8]; 3] = [b"\r\n", b"\n", b"\r"];
    ends.into_iter().find_map(|end| line.strip_suffix(end)).unwrap_or(line)
}

/// The text of a line at `start`, without its ending.
#[inline]
fn text(location: &Location, start: u64, lossy: bool, line: &[u8]) -> String {
    match std::str::from_utf8(line) {
        Ok(text) => text.to_owned(),
        Err(_) if lossy => String::from_utf8_lossy(line).into_owned(),
        Err(error) => fail_for_good(format!(
            "{location} is not valid UTF-8 at offset {}; read it with TextOptions::lossy to \
             replace invalid bytes",
            start + error.valid_up_to() as u64
        )),
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let (records, bytes) = self.read;
        self.task.count(|metrics| {
            metrics.input_records += records;
            metrics.input_bytes += bytes;
        });
    }
}

impl Lines {
    /// Goes to the next line, which [`Lines::bytes`] has then; its offset.
    #[inline]
    pub(crate) fn advance(&mut self) -> Option<u64> {
        let start = self.position;
        if start >= self.split.end {
            return None;
        }
        self.task.check_killed();
        let read = self.read_line();
        if read == 0 {
            match self.split.end {
                TO_THE_END => return None,
                _ => self.fail_truncated(),
            }
        }
        self.count(read);
        if start == 0 {
            self.line.drain(..mark_of(&self.line));
        }
        Some(start)
    }

    /// The line, with its ending.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.line
    }
}

impl Iterator for Lines {
    type Item = String;

    #[inline]
    fn next(&mut self) -> Option<String> {
        let start = self.position;
        if start < self.split.end {
            self.task.check_killed();
            if let Some(text) = self.buffered(start) {
                return Some(text);
            }
        }
        self.advance()?;
        let start = self.position - self.line.len() as u64;
        Some(text(&self.split.location, start, self.lossy, without_end(&self.line)))
    }
}

/// Ends the task because a file cannot be opened.
pub(crate) fn fail_opening(location: &Location, error: &std::io::Error) -> ! {
    let advice = match (location, error.kind()) {
        // It was when the driver looked.
        (Location::Local(_), std::io::ErrorKind::NotFound) => {
            "; it was there when the job was planned: it was removed meanwhile, or it lies on a disk that this executor \
             does not see"
        }
        _ => "",
    };
    let message = format!("could not open {location}: {error}{advice}");
    if is_final(error) { fail_for_good(message) } else { fail_with(message) }
}

/// Ends the task because a file cannot be read on.
pub(crate) fn fail_reading(location: &Location, position: u64, error: &std::io::Error) -> ! {
    let message = format!("could not read {location} at offset {position}: {error}");
    if is_final(error) { fail_for_good(message) } else { fail_with(message) }
}

#[cfg(test)]
mod tests {
    use crate::testing::TestTask;

    use super::*;

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_line_and_stays_anywhere_else() {
        let (task, root) = (TestTask::new(1 << 20), tempfile::tempdir().unwrap());
        let path = root.path().join("a.txt");
        std::fs::write(&path, "\u{feff}one\n\u{feff}two\nthree").unwrap();
        let end = std::fs::metadata(&path).unwrap().len();
        let lines = |start, end| -> Vec<String> {
            let split = Split { location: Location::Local(path.clone()), start, end };
            Lines::of_text(split, false, task.task.clone()).collect()
        };
        assert_eq!(lines(0, end), ["one", "\u{feff}two", "three"]);
        for at in 1..=7 {
            assert_eq!(lines(0, at), ["one"], "cut at {at}");
            assert_eq!(lines(at, end), ["\u{feff}two", "three"], "cut at {at}");
        }
        std::fs::write(&path, "\u{feff}no end").unwrap();
        assert_eq!(lines(0, 9), ["no end"]);
        std::fs::write(&path, "\u{feff}").unwrap();
        assert_eq!(lines(0, 3), [""]);
    }

    /// What a reader of the whole text finds.
    fn model(text: &str) -> Vec<String> {
        let one_kind = text.replace("\r\n", "\n").replace('\r', "\n");
        let mut lines: Vec<String> = one_kind.split('\n').map(str::to_owned).collect();
        lines.pop_if(|last| last.is_empty());
        lines
    }

    #[test]
    fn every_mix_of_line_ends_is_read_alike_wherever_the_file_is_cut() {
        let (task, root) = (TestTask::new(1 << 20), tempfile::tempdir().unwrap());
        let path = root.path().join("a.txt");
        let check = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let end = text.len() as u64;
            let lines = |start, end| {
                let split = Split { location: Location::Local(path.clone()), start, end };
                Lines::of_text(split, false, task.task.clone())
            };
            for cut in 0..=end {
                let read: Vec<String> = lines(0, cut).chain(lines(cut, end)).collect();
                assert_eq!(read, model(text), "{text:?} cut at {cut}");
            }
        };
        // All texts of up to six of these.
        for length in 0..=6 {
            for number in 0..3u32.pow(length) {
                let digit = |place| ["\r", "\n", "x"][(number / 3u32.pow(place) % 3) as usize];
                check(&(0..length).map(digit).collect::<String>());
            }
        }
    }

    #[test]
    fn a_line_end_at_the_border_of_the_buffer_is_one() {
        let (task, root) = (TestTask::new(1 << 20), tempfile::tempdir().unwrap());
        let path = root.path().join("a.txt");
        for ending in ["\r", "\n", "\r\n", "\n\r", "\r\r", "\r\r\n"] {
            for early in 0..=3 {
                let first = "x".repeat(BUFFER_BYTES - early);
                let text = format!("{first}{ending}second\rthird{ending}");
                std::fs::write(&path, &text).unwrap();
                let location = Location::Local(path.clone());
                let whole = Split { location, start: 0, end: text.len() as u64 };
                let read: Vec<_> = Lines::of_text(whole, false, task.task.clone()).collect();
                assert!(read == model(&text), "{ending:?}, {early} bytes before the border");
            }
        }
    }

    #[test]
    fn splits_cover_each_file_once() {
        let files = [("a", 100), ("b", 0), ("c", 41), ("d.gz", 500)];
        let files =
            files.map(|(path, len)| FileRef { location: Location::Local(path.into()), len });
        let files = files.to_vec();
        let splits = split_files(files, 40);
        let of = |name: &str| -> Vec<(u64, u64)> {
            splits
                .iter()
                .filter(|split| split.location.to_string() == name)
                .map(|split| (split.start, split.end))
                .collect()
        };
        assert_eq!(of("a"), [(0, 33), (33, 66), (66, 100)]);
        assert_eq!(of("b"), [(0, 0)]);
        assert_eq!(of("c"), [(0, 41)]);
        assert_eq!(of("d.gz"), [(0, TO_THE_END)]);
    }
}
