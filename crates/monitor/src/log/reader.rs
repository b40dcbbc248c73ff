//! The lines of a log that may still grow, end in the middle of a line or of a compressed frame, or be no log at all.

use std::io::{self, BufRead, BufReader, Read};

use super::source::Part;
use super::{Codec, LogSource};

/// A longer line is read over: only the plans of queries have so many bytes, which nobody here looks at.
const LONGEST: usize = 64 << 20;
const BUFFER: usize = 256 << 10;

/// A compressed file stands for so many times its bytes at most, and for this much in any case: beyond that nothing of it is
/// read. What applications tell is a twentieth when it is compressed, a file made to occupy a reader a thirty-thousandth.
const RATIO: u64 = 1000;
const AT_LEAST: u64 = 64 << 20;

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
    /// So many bytes more are read.
    left: u64,
    line: Vec<u8>,
}

impl Default for Lines {
    fn default() -> Self {
        Lines::up_to(LONGEST, u64::MAX)
    }
}

impl Lines {
    /// Of lines of so many bytes, and of so many bytes altogether, whether or not there are lines among them.
    pub(crate) fn up_to(longest: usize, bytes: u64) -> Self {
        let position = Position::default();
        Lines { position, broken: 0, longest, left: bytes, line: Vec::new() }
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
            if !self.read_part(log, part, grows, take)? {
                break;
            }
        }
        // What reads on later needs no room for the longest line that there was.
        self.line = Vec::new();
        Ok(())
    }

    fn read_part(
        &mut self,
        log: &LogSource,
        part: &Part,
        grows: bool,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> io::Result<bool> {
        let from: Box<dyn Read + Send> = match part.codec {
            // An object ends where it did: there is nothing behind that could be asked for.
            Codec::None if self.position.offset >= part.bytes => return Ok(true),
            Codec::None => log.open(&part.path, self.position.offset)?,
            codec => {
                let file = log.open(&part.path, 0)?;
                let most = part.bytes.saturating_mul(RATIO).max(AT_LEAST);
                let mut reader = codec.reader(file)?.take(most);
                let skipped =
                    io::copy(&mut (&mut reader).take(self.position.offset), &mut io::sink());
                if !matches!(skipped, Ok(skipped) if skipped == self.position.offset) {
                    // It was written anew, or ends where it did not before: nothing more to be had.
                    return Ok(true);
                }
                Box::new(reader)
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
            if self.left == 0 {
                return Ok(false);
            }
            let Some(end) = memchr::memchr(b'\n', found) else {
                let count = found.len();
                too_long |= self.line.len() + count > self.longest;
                match too_long {
                    true => self.line.clear(),
                    false => self.line.extend_from_slice(found),
                }
                length += count as u64;
                self.left = self.left.saturating_sub(count as u64);
                from.consume(count);
                continue;
            };
            length += end as u64 + 1;
            self.left = self.left.saturating_sub(end as u64 + 1);
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

fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, Other, UnexpectedEof};
    // zstd tells damage as an error without a number of the system.
    matches!(error.kind(), InvalidData | UnexpectedEof | Other) && error.raw_os_error().is_none()
}

/// The last lines of a log of so many bytes, without reading what is before them where that can be left out. Lines that are
/// longer than that are left out.
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
    let longest = usize::try_from(bytes).unwrap_or(usize::MAX);
    let position = Position { number: last.number, offset };
    let mut lines = Lines { position, ..Lines::up_to(longest, u64::MAX) };
    lines.read(log, take)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Cursor, Write};

    use super::*;

    /// A reader that counts what is taken from it.
    struct Counted<'a>(&'a mut u64);

    impl Read for Counted<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            to.fill(b'x');
            *self.0 += to.len() as u64;
            assert!(*self.0 < 100 << 20, "it is read without an end");
            Ok(to.len())
        }
    }

    #[test]
    fn a_file_without_line_ends_is_not_read_for_ever() {
        let (mut read, mut lines) = (0, Lines::up_to(1 << 20, 4 << 20));
        let from = BufReader::with_capacity(BUFFER, Counted(&mut read));
        assert!(!lines.read_lines(from, false, &mut |_| panic!("there is no line")).unwrap());
        assert!(read <= (4 << 20) + 2 * BUFFER as u64, "{read}");
    }

    #[test]
    fn what_is_within_the_bytes_is_read_and_no_line_more() {
        let (mut lines, mut seen) = (Lines::up_to(10, 7), Vec::new());
        let mut take = |line: &[u8]| {
            seen.push(line.to_vec());
            true
        };
        lines.read_lines(Cursor::new(b"abc\ndef\nghi\n"), false, &mut take).unwrap();
        assert_eq!(seen, [b"abc".to_vec(), b"def".to_vec()]);
    }

    #[test]
    fn a_line_that_is_too_long_is_read_over_and_those_behind_it_count() {
        let text = format!("ab\n{}\ncd\n{}\nef", "x".repeat(1000), "y".repeat(11));
        // However the bytes come.
        for capacity in [1, 7, 64, 4096] {
            let (mut lines, mut seen) = (Lines::up_to(10, u64::MAX), Vec::new());
            let mut take = |line: &[u8]| {
                seen.push(String::from_utf8(line.to_vec()).unwrap());
                true
            };
            let from = BufReader::with_capacity(capacity, Cursor::new(text.as_bytes()));
            lines.read_lines(from, false, &mut take).unwrap();
            let short: Vec<&String> = seen.iter().filter(|line| line.len() <= 10).collect();
            assert_eq!(short, ["ab", "cd", "ef"], "{capacity}");
            // One that lies in the buffer costs nothing to be looked at.
            assert!(lines.broken >= u64::from(capacity < 1000), "{capacity}: {}", lines.broken);
            assert!(lines.line.capacity() <= 64, "{capacity}: {}", lines.line.capacity());
        }
    }

    #[test]
    fn a_small_file_that_stands_for_very_much_is_not_unpacked_to_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app-1.zstd");
        let mut to = zstd::stream::write::Encoder::new(File::create(&path).unwrap(), 1).unwrap();
        // 256 MiB of empty lines, which take some 10 KiB.
        let lines = vec![b'\n'; 1 << 20];
        (0..256).for_each(|_| to.write_all(&lines).unwrap());
        to.finish().unwrap();
        let (log, mut count) = (LogSource::at(&path).unwrap(), 0u64);
        assert!(log.bytes < 60 << 10, "{}", log.bytes);
        Lines::default()
            .read(&log, &mut |_| {
                count += 1;
                true
            })
            .unwrap();
        assert_eq!(count, AT_LEAST);
    }
}
