//! Logs as a zip archive that is made while it is sent: a chunk at a time, whatever the logs weigh. Nothing is compressed: logs are
//! already, or compress on the way.
//!
//! A file is deflate's stored blocks, with its checksum and size behind it. So each file is read once, and programs that read
//! archives from a stream can read this one, which they cannot if a plainly stored file has its size behind it.

use std::io::{self, Read, Take};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crc32fast::Hasher;

use crate::log::LogSource;

/// Offsets in an archive have 32 bits; there is space for headers above this.
const LARGEST: u64 = 4_000_000_000;
/// The most that one stored block has, and that is read at once.
const BLOCK: usize = 65_535;

/// Files of logs, by the names that they get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archive {
    files: Vec<ArchivedFile>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ArchivedFile {
    name: String,
    path: PathBuf,
    /// So much of it: it may grow meanwhile.
    bytes: u64,
    log: Arc<LogSource>,
}

impl Archive {
    /// All files of these logs, by their names in the directory of logs.
    pub fn of_logs(logs: &[LogSource]) -> io::Result<Self> {
        let mut files = Vec::new();
        for log in logs {
            let directory = log.path.parent().unwrap_or(Path::new(""));
            let own = Arc::new(log.clone());
            for (path, bytes) in log.sized_files() {
                let name = path.strip_prefix(directory).unwrap_or(path).to_string_lossy();
                let (name, path) = (name.into_owned(), path.to_owned());
                files.push(ArchivedFile { name, path, bytes, log: own.clone() });
            }
        }
        let total: u64 = files.iter().map(|file| file.bytes).sum();
        if total > LARGEST || files.len() > usize::from(u16::MAX) {
            let text = format!(
                "{} files of {total} bytes are too many for an archive; copy them from the directory of logs",
                files.len()
            );
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
        Ok(Archive { files })
    }

    /// The archive in pieces of 64 KiB, and a little more. After an error there is no other piece, and what was made is no archive.
    pub fn chunks(self) -> Chunks {
        Chunks {
            waiting: self.files.into_iter(),
            open: None,
            directory: Vec::new(),
            count: 0,
            made: 0,
            is_over: false,
        }
    }
}

/// Makes an archive: of each file a header, its blocks, and what they were; then the central directory.
pub struct Chunks {
    waiting: std::vec::IntoIter<ArchivedFile>,
    open: Option<OpenFile>,
    /// A header for each file that is done.
    directory: Vec<u8>,
    count: u16,
    /// How many bytes were handed out.
    made: u64,
    is_over: bool,
}

struct OpenFile {
    name: String,
    from: Take<Box<dyn Read + Send>>,
    /// Where its header is.
    offset: u32,
    checksum: Hasher,
    bytes: u32,
    /// With the heads of blocks.
    packed: u32,
}

impl Iterator for Chunks {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let chunk = match (self.open.take(), self.waiting.len()) {
            (Some(open), _) => self.block(open),
            (None, 0) => Ok(self.finish()),
            (None, _) => self.begin(),
        };
        match &chunk {
            Ok(chunk) => self.made += chunk.len() as u64,
            Err(_) => self.is_over = true,
        }
        Some(chunk)
    }
}

impl Chunks {
    fn begin(&mut self) -> io::Result<Vec<u8>> {
        let Some(ArchivedFile { name, path, bytes, log }) = self.waiting.next() else {
            return Ok(Vec::new());
        };
        // Stores have no bytes to give of an empty object.
        let from: Box<dyn Read + Send> =
            if bytes == 0 { Box::new(io::empty()) } else { log.open(&path, 0)? };
        let from = from.take(bytes);
        let fields = fields(&name, 0, 0, 0);
        let header = [b"PK\x03\x04".as_slice(), fields.as_slice(), name.as_bytes()].concat();
        let (offset, checksum) = (self.made as u32, Hasher::new());
        self.open = Some(OpenFile { name, from, offset, checksum, bytes: 0, packed: 0 });
        Ok(header)
    }

    fn block(&mut self, mut open: OpenFile) -> io::Result<Vec<u8>> {
        let mut chunk = vec![0; 5];
        chunk.reserve_exact(BLOCK + 16);
        let length = open.from.by_ref().take(BLOCK as u64).read_to_end(&mut chunk)?;
        let is_last = length < BLOCK;
        let length = length as u16;
        chunk[0] = u8::from(is_last);
        chunk[1..3].copy_from_slice(&length.to_le_bytes());
        chunk[3..5].copy_from_slice(&(!length).to_le_bytes());
        open.checksum.update(&chunk[5..]);
        open.bytes += u32::from(length);
        open.packed += chunk.len() as u32;
        match is_last {
            true => self.end(open, &mut chunk),
            false => self.open = Some(open),
        }
        Ok(chunk)
    }

    fn end(&mut self, open: OpenFile, chunk: &mut Vec<u8>) {
        let checksum = open.checksum.finalize();
        chunk.extend_from_slice(b"PK\x07\x08");
        for number in [checksum, open.packed, open.bytes] {
            chunk.extend_from_slice(&number.to_le_bytes());
        }
        self.directory.extend_from_slice(b"PK\x01\x02\x14\x00");
        self.directory.extend(fields(&open.name, checksum, open.packed, open.bytes));
        // No comment, first disk, no attributes.
        self.directory.extend_from_slice(&[0; 10]);
        self.directory.extend_from_slice(&open.offset.to_le_bytes());
        self.directory.extend_from_slice(open.name.as_bytes());
        self.count += 1;
    }

    fn finish(&mut self) -> Vec<u8> {
        self.is_over = true;
        let (offset, size) = (self.made as u32, self.directory.len() as u32);
        let mut out = std::mem::take(&mut self.directory);
        out.extend_from_slice(b"PK\x05\x06\0\0\0\0");
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&size.to_le_bytes());
        out.extend_from_slice(&offset.to_le_bytes());
        out.extend_from_slice(&[0, 0]);
        out
    }
}

/// What both headers have: version 2.0, names in UTF-8 and sizes behind the file, deflated, 1980-01-01, checksum, sizes, lengths of
/// names.
fn fields(name: &str, checksum: u32, packed: u32, bytes: u32) -> Vec<u8> {
    let mut fields = vec![20, 0, 8, 8, 8, 0, 0, 0, 0x21, 0];
    for number in [checksum, packed, bytes] {
        fields.extend_from_slice(&number.to_le_bytes());
    }
    fields.extend_from_slice(&(name.len() as u16).to_le_bytes());
    fields.extend_from_slice(&[0, 0]);
    fields
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    fn number(bytes: &[u8], at: usize) -> usize {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
    }

    fn short(bytes: &[u8], at: usize) -> usize {
        usize::from(u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap()))
    }

    /// Reads an archive as programs do: from its end. Names and bytes of its files.
    fn unpack(archive: &[u8]) -> Vec<(String, Vec<u8>)> {
        let end = archive.len() - 22;
        assert_eq!(&archive[end..end + 4], b"PK\x05\x06");
        let mut at = number(archive, end + 16);
        let mut files = Vec::new();
        for _ in 0..short(archive, end + 10) {
            assert_eq!(&archive[at..at + 4], b"PK\x01\x02");
            let name = &archive[at + 46..at + 46 + short(archive, at + 28)];
            let (checksum, packed) = (number(archive, at + 16), number(archive, at + 20));
            let start = number(archive, at + 42);
            assert_eq!(&archive[start..start + 4], b"PK\x03\x04");
            let start = start + 30 + short(archive, start + 26);
            let bytes = inflate(&archive[start..start + packed]);
            let behind = start + packed;
            assert_eq!(&archive[behind..behind + 4], b"PK\x07\x08");
            assert_eq!(number(archive, behind + 4), checksum);
            assert_eq!(
                (number(archive, behind + 8), number(archive, behind + 12)),
                (packed, bytes.len())
            );
            assert_eq!(number(archive, at + 24), bytes.len());
            assert_eq!(crc32fast::hash(&bytes) as usize, checksum);
            files.push((String::from_utf8(name.to_vec()).unwrap(), bytes));
            at += 46 + name.len();
        }
        assert_eq!(at, end, "the directory ends where the end says");
        files
    }

    /// Knows stored blocks only: what this file writes.
    fn inflate(mut packed: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        loop {
            let (is_last, length) = (packed[0] == 1, short(packed, 1));
            assert_eq!(length ^ 0xffff, short(packed, 3));
            out.extend_from_slice(&packed[5..5 + length]);
            packed = &packed[5 + length..];
            if is_last {
                assert!(packed.is_empty());
                return out;
            }
        }
    }

    fn whole(archive: Archive) -> Vec<u8> {
        archive.chunks().flat_map(Result::unwrap).collect()
    }

    #[test]
    fn an_archive_has_every_file_by_its_name_and_an_empty_one_has_none() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let long: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
        let blocks = vec![7; 2 * BLOCK];
        fs::create_dir(at("eventlog_v2_app-2")).unwrap();
        fs::write(at("app-1"), &long).unwrap();
        fs::write(at("eventlog_v2_app-2/events_1_app-2"), &blocks).unwrap();
        fs::write(at("eventlog_v2_app-2/events_2_app-2"), "").unwrap();
        fs::write(at("eventlog_v2_app-2/appstatus_app-2.inprogress"), "").unwrap();
        let logs = ["app-1", "eventlog_v2_app-2"].map(|name| LogSource::at(&at(name)).unwrap());
        let archive = Archive::of_logs(&logs).unwrap();
        // What comes later is not in it.
        fs::write(at("app-1"), [&*long, b"more"].concat()).unwrap();
        let found = unpack(&whole(archive));
        let expected = [
            ("app-1", long),
            ("eventlog_v2_app-2/events_1_app-2", blocks),
            ("eventlog_v2_app-2/events_2_app-2", Vec::new()),
            // Spark's reader takes no log without.
            ("eventlog_v2_app-2/appstatus_app-2.inprogress", Vec::new()),
        ];
        assert_eq!(found, expected.map(|(name, bytes)| (name.to_owned(), bytes)));
        // What Spark hands out of a running application.
        assert_eq!(whole(Archive::default()), [b"PK\x05\x06".as_slice(), &[0; 18]].concat());
    }

    #[test]
    fn chunks_are_small_whatever_a_log_weighs_and_one_that_is_gone_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app-1");
        File::create(&path).unwrap().set_len(100 << 20).unwrap();
        let logs = [LogSource::at(&path).unwrap()];
        let archive = Archive::of_logs(&logs).unwrap();
        let mut total = 0;
        for chunk in archive.clone().chunks() {
            let chunk = chunk.unwrap();
            assert!(chunk.capacity() < BLOCK + (4 << 10), "{}", chunk.capacity());
            total += chunk.len();
        }
        assert!(total > 100 << 20);
        fs::remove_file(&path).unwrap();
        let made: Vec<_> = archive.chunks().collect();
        assert!(made.len() == 1 && made[0].is_err(), "{}", made.len());
    }

    #[test]
    fn logs_of_more_bytes_than_an_archive_can_have_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("app-1");
        File::create(&path).unwrap().set_len(LARGEST + 1).unwrap();
        let refused = Archive::of_logs(&[LogSource::at(&path).unwrap()]).unwrap_err();
        assert!(refused.to_string().contains("copy them"), "{refused}");
    }
}
