//! Logs as a zip archive, stored as they are: they are compressed already, or compress on the way.

use std::io::{self, Read};
use std::path::Path;

use crate::log::LogSource;

/// An archive of more is refused: it is made in memory.
const LARGEST: u64 = 1 << 30;

/// All files of these logs, by their names in the directory of logs.
pub(super) fn of_logs(logs: &[LogSource]) -> io::Result<Vec<u8>> {
    let total: u64 = logs.iter().map(|log| log.bytes).sum();
    let files = logs.iter().flat_map(LogSource::files).count();
    if total > LARGEST || files > usize::from(u16::MAX) {
        let text = format!(
            "{files} files of {total} bytes are too many for an archive; copy them from the directory of logs"
        );
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    let mut archive = Archive::default();
    for log in logs {
        let directory = log.path.parent().unwrap_or(Path::new(""));
        for file in log.files() {
            let name = file.strip_prefix(directory).unwrap_or(file).to_string_lossy();
            let mut bytes = Vec::new();
            // A file that grows meanwhile is cut where it ended.
            crate::log::open(file)?.take(LARGEST).read_to_end(&mut bytes)?;
            archive.add(&name, &bytes);
        }
    }
    Ok(archive.finish())
}

/// Local headers with their files, then the central directory.
#[derive(Default)]
struct Archive {
    out: Vec<u8>,
    directory: Vec<u8>,
    count: u16,
}

impl Archive {
    fn add(&mut self, name: &str, bytes: &[u8]) {
        let offset = self.out.len() as u32;
        let fields = fields(name, bytes);
        self.out.extend_from_slice(b"PK\x03\x04");
        self.out.extend_from_slice(&fields);
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(bytes);
        self.directory.extend_from_slice(b"PK\x01\x02\x14\x00");
        self.directory.extend_from_slice(&fields);
        // No comment, first disk, no attributes.
        self.directory.extend_from_slice(&[0; 10]);
        self.directory.extend_from_slice(&offset.to_le_bytes());
        self.directory.extend_from_slice(name.as_bytes());
        self.count += 1;
    }

    fn finish(mut self) -> Vec<u8> {
        let offset = self.out.len() as u32;
        let size = self.directory.len() as u32;
        self.out.append(&mut self.directory);
        self.out.extend_from_slice(b"PK\x05\x06\0\0\0\0");
        self.out.extend_from_slice(&self.count.to_le_bytes());
        self.out.extend_from_slice(&self.count.to_le_bytes());
        self.out.extend_from_slice(&size.to_le_bytes());
        self.out.extend_from_slice(&offset.to_le_bytes());
        self.out.extend_from_slice(&[0, 0]);
        self.out
    }
}

/// What both headers have: version 2.0, names in UTF-8, stored, 1980-01-01, checksum, sizes, lengths of names.
fn fields(name: &str, bytes: &[u8]) -> Vec<u8> {
    let mut fields = vec![20, 0, 0, 8, 0, 0, 0, 0, 0x21, 0];
    fields.extend_from_slice(&crc32fast::hash(bytes).to_le_bytes());
    fields.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    fields.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    fields.extend_from_slice(&(name.len() as u16).to_le_bytes());
    fields.extend_from_slice(&[0, 0]);
    fields
}
