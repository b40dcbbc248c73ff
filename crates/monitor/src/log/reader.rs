//! The lines of a log that may still grow, end in the middle of a line or of a compressed frame, or be no log at all.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::source::Part;
use super::{Codec, LogSource};

/// A longer line is read over: the plans of queries have megabytes, nothing has this much.
const LONGEST: usize = 256 << 20;
const BUFFER: usize = 256 << 10;

/// How far a log was read: the next reader goes on there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// The number of the file.
    number: u64,
    /// Bytes of it, before compression.
    offset: u64,
}

/// Reads the lines of a log from a position on.
#[derive(Debug)]
pub struct Lines {
    position: Position,
    /// Lines that were too long, and files that ended in the middle of something.
    pub broken: u64,
    /// Longer lines are read over.
    longest: usize,
    line: Vec<u8>,
}

impl Default for Lines {
    fn default() -> Self {
        Lines::up_to(LONGEST)
    }
}

impl Lines {
    /// Of lines of so many bytes.
    pub(crate) fn up_to(longest: usize) -> Self {
        Lines { position: Position::default(), broken: 0, longest, line: Vec::new() }
    }

    /// Gives each whole line to `take`, until that says `false`. Of a log in progress, what follows the last line end
    /// is left for the next time.
    pub fn read(&mut self, log: &LogSource, take: &mut dyn FnMut(&[u8]) -> bool) -> io::Result<()> {
        let last = log.parts.last().map(|part| part.number);
        for part in &log.parts {
            if part.number < self.position.number {
                continue;
            }
            if part.number > self.position.number {
                self.position = Position { number: part.number, offset: 0 };
            }
            let grows = log.in_progress && Some(part.number) == last;
            if !self.read_part(part, grows, take)? {
                break;
            }
        }
        Ok(())
    }

    fn read_part(
        &mut self,
        part: &Part,
        grows: bool,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> io::Result<bool> {
        let mut file = open(&part.path)?;
        let from: Box<dyn Read + Send> = match part.codec {
            Codec::None => {
                file.seek(SeekFrom::Start(self.position.offset))?;
                Box::new(file)
            }
            codec => {
                let mut reader = codec.reader(file)?;
                let skipped =
                    io::copy(&mut (&mut reader).take(self.position.offset), &mut io::sink());
                if !matches!(skipped, Ok(skipped) if skipped == self.position.offset) {
                    // It was written anew, or ends where it did not before: nothing more to be had.
                    return Ok(true);
                }
                reader
            }
        };
        self.read_lines(BufReader::with_capacity(BUFFER, from), grows, take)
    }

    fn read_lines(
        &mut self,
        mut from: impl BufRead,
        grows: bool,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> io::Result<bool> {
        self.line.clear();
        let (mut length, mut too_long) = (0, false);
        loop {
            let found = match from.fill_buf() {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if is_damage(&error) => {
                    // In the middle of a frame: what came before it counts.
                    self.broken += u64::from(!grows);
                    return Ok(true);
                }
                Err(error) => return Err(error),
            };
            if found.is_empty() {
                return Ok(self.last_line(grows, length, take));
            }
            let Some(end) = memchr::memchr(b'\n', found) else {
                let count = found.len();
                too_long |= self.line.len() + count > self.longest;
                match too_long {
                    true => self.line.clear(),
                    false => self.line.extend_from_slice(found),
                }
                length += count as u64;
                from.consume(count);
                continue;
            };
            length += end as u64 + 1;
            self.position.offset += std::mem::take(&mut length);
            let goes_on = match (too_long, self.line.is_empty()) {
                (true, _) => {
                    self.broken += 1;
                    true
                }
                (false, true) => take(&found[..end]),
                (false, false) => {
                    self.line.extend_from_slice(&found[..end]);
                    take(&self.line)
                }
            };
            too_long = false;
            self.line.clear();
            from.consume(end + 1);
            if !goes_on {
                return Ok(false);
            }
        }
    }

    /// What follows the last line end.
    fn last_line(&mut self, grows: bool, length: u64, take: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        if grows || self.line.is_empty() {
            return true;
        }
        self.position.offset += length;
        let line = std::mem::take(&mut self.line);
        take(&line)
    }
}

/// Opens a file of a log. It was no link when it was found: now it is none either.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let no_follow = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    OpenOptions::new().read(true).custom_flags(no_follow).open(path)
}

fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, Other, UnexpectedEof};
    // zstd tells damage as an error without a number of the system.
    matches!(error.kind(), InvalidData | UnexpectedEof | Other) && error.raw_os_error().is_none()
}

/// The last lines of a log, without reading what is before them where that can be left out.
pub(crate) fn last_lines(
    log: &LogSource,
    bytes: u64,
    take: &mut dyn FnMut(&[u8]) -> bool,
) -> io::Result<()> {
    let Some(last) = log.parts.last() else { return Ok(()) };
    let offset = match last.codec {
        Codec::None => last.bytes.saturating_sub(bytes),
        _ => 0,
    };
    let mut lines =
        Lines { position: Position { number: last.number, offset }, ..Lines::default() };
    lines.read(log, take)
}
