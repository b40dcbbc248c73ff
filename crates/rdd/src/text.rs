//! Text files, line by line, in splits of files.
//!
//! A line belongs to the split in which it starts: a split that does not start at the file's start
//! skips to the first line start at or behind its own, and the last line of a split is read to its
//! end, into the next split's bytes.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use firesteel_closure::{Value, wire};

use crate::task::{fail_for_good, fail_with};
use crate::{Pipe, TaskContext};

const BUFFER_BYTES: usize = 256 * 1024;

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// The file.
    pub path: PathBuf,
    /// First byte.
    pub start: u64,
    /// Behind the last byte.
    pub end: u64,
}

/// Cuts files (with their lengths) into splits of about `target` bytes; an empty file has one split.
pub fn split_files(files: Vec<(PathBuf, u64)>, target: u64) -> Vec<Split> {
    let target = target.max(1);
    files.into_iter().flat_map(|(path, len)| split_file(path, len, target)).collect()
}

fn split_file(path: PathBuf, len: u64, target: u64) -> Vec<Split> {
    // A remainder of a tenth is not worth a task of its own.
    let count = (len.saturating_sub(target / 10)).div_ceil(target).max(1);
    let at = |i: u64| if i == count { len } else { i * target };
    (0..count).map(|i| Split { path: path.clone(), start: at(i), end: at(i + 1) }).collect()
}

/// `text_file`
pub struct TextSource {
    splits: Value<Arc<Vec<Split>>>,
    lossy: bool,
}

impl TextSource {
    /// One partition per split; invalid UTF-8 is replaced if `lossy`, else it fails the job.
    pub fn new(splits: Vec<Split>, lossy: bool) -> Self {
        TextSource { splits: Value(Arc::new(splits)), lossy }
    }
}

wire!([] TextSource { splits, lossy });

impl Pipe for TextSource {
    type Item = String;

    fn compute(
        &self,
        partition: u32,
        task: &TaskContext,
    ) -> impl Iterator<Item = String> + use<> + 'static {
        Lines::open(self.splits.0[partition as usize].clone(), self.lossy, task.clone())
    }
}

struct Lines {
    split: Split,
    reader: BufReader<File>,
    /// Offset of the next line.
    position: u64,
    lossy: bool,
    task: TaskContext,
    line: Vec<u8>,
}

impl Lines {
    fn open(split: Split, lossy: bool, task: TaskContext) -> Self {
        let file = File::open(&split.path).unwrap_or_else(|error| {
            fail_with(format!("could not open {}: {error}", split.path.display()))
        });
        let reader = BufReader::with_capacity(BUFFER_BYTES, file);
        let position = split.start;
        let mut lines = Lines { split, reader, position, lossy, task, line: Vec::new() };
        lines.skip_to_line_start();
        lines
    }

    /// Starts one byte early: if that ends a line, nothing of this split is skipped.
    fn skip_to_line_start(&mut self) {
        let Some(before) = self.position.checked_sub(1) else { return };
        if let Err(error) = self.reader.seek(SeekFrom::Start(before)) {
            self.fail_reading(error);
        }
        self.position = before;
        while self.position < self.split.end && !self.skip_some() {
            self.task.check_killed();
        }
    }

    /// Skips what is in the buffer, through the next newline; whether there was one, or no more to
    /// read. A line may be longer than many splits: nothing of it is kept.
    fn skip_some(&mut self) -> bool {
        let buffer = match self.reader.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) => self.fail_reading(error),
        };
        let newline = buffer.iter().position(|byte| *byte == b'\n');
        let skipped = newline.map_or(buffer.len(), |at| at + 1);
        self.reader.consume(skipped);
        self.position += skipped as u64;
        newline.is_some() || skipped == 0
    }

    /// Reads through the next newline into `line`; returns the bytes read.
    fn read_line(&mut self) -> usize {
        self.line.clear();
        match self.reader.read_until(b'\n', &mut self.line) {
            Ok(read) => {
                self.position += read as u64;
                read
            }
            Err(error) => self.fail_reading(error),
        }
    }

    fn fail_reading(&self, error: std::io::Error) -> ! {
        let path = self.split.path.display();
        fail_with(format!("could not read {path} at offset {}: {error}", self.position))
    }

    /// Its lines are not there any more: fewer than the user had is not the answer.
    fn fail_truncated(&self) -> ! {
        let (path, end) = (self.split.path.display(), self.split.end);
        fail_with(format!(
            "{path} ends at or before offset {}, but had at least {end} bytes when the job was \
             planned: it was changed meanwhile",
            self.position
        ))
    }

    fn text(&self, start: u64) -> String {
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match std::str::from_utf8(line) {
            Ok(text) => text.to_owned(),
            Err(_) if self.lossy => String::from_utf8_lossy(line).into_owned(),
            Err(error) => fail_for_good(format!(
                "{} is not valid UTF-8 at offset {}; read it with TextOptions::lossy to replace \
                 invalid bytes",
                self.split.path.display(),
                start + error.valid_up_to() as u64
            )),
        }
    }
}

impl Iterator for Lines {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let start = self.position;
        if start >= self.split.end {
            return None;
        }
        self.task.check_killed();
        let read = self.read_line();
        if read == 0 {
            self.fail_truncated();
        }
        self.task.count(|metrics| {
            metrics.input_records += 1;
            metrics.input_bytes += read as u64;
        });
        Some(self.text(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_cover_each_file_once() {
        let files = vec![("a".into(), 100), ("b".into(), 0), ("c".into(), 41)];
        let splits = split_files(files, 40);
        let of = |name: &str| -> Vec<(u64, u64)> {
            splits
                .iter()
                .filter(|split| split.path.as_os_str() == name)
                .map(|split| (split.start, split.end))
                .collect()
        };
        assert_eq!(of("a"), [(0, 40), (40, 80), (80, 100)]);
        assert_eq!(of("b"), [(0, 0)]);
        assert_eq!(of("c"), [(0, 41)]);
    }
}
