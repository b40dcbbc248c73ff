//! Reading a file from an offset on, decompressed if its name says so.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;

use crate::fault::{Fault, fault_of};
use crate::{Compression, Location};

const COMPRESSED_BUFFER_BYTES: usize = 128 * 1024;

/// The bytes of a file. Reads are as large as the caller's buffer: wrap it in a [`BufReader`].
pub struct Input(Kind);

enum Kind {
    Plain(Raw),
    Gzip(Box<MultiGzDecoder<BufReader<Raw>>>),
    Zstd(Box<zstd::stream::read::Decoder<'static, BufReader<Raw>>>),
    Bzip2(Box<MultiBzDecoder<BufReader<Raw>>>),
}

/// Bytes as they are stored.
enum Raw {
    Local(File),
    #[cfg(feature = "object-store")]
    Remote(crate::store::Reader),
}

impl Input {
    /// The stored bytes from `start` on. `expected_end` is where the reader is likely to stop: it bounds
    /// how much one request asks a store for, not what can be read.
    pub fn open_at(location: &Location, start: u64, expected_end: u64) -> io::Result<Self> {
        Raw::open(location, start, expected_end).map(|raw| Input(Kind::Plain(raw)))
    }

    /// The stored bytes from the start on.
    pub fn open_stored(location: &Location) -> io::Result<Self> {
        Self::open_at(location, 0, u64::MAX)
    }

    /// The content from the start on, decompressed if the file's name says that it is compressed. A file
    /// of no bytes has no content, whatever its name.
    pub fn open(location: &Location) -> io::Result<Self> {
        let raw = Raw::open(location, 0, u64::MAX)?;
        let Some(compression) = Compression::of(&location.to_string()) else {
            return Ok(Input(Kind::Plain(raw)));
        };
        let mut stored = BufReader::with_capacity(COMPRESSED_BUFFER_BYTES, raw);
        if stored.fill_buf()?.is_empty() {
            return Ok(Input(Kind::Plain(stored.into_inner())));
        }
        Ok(Input(match compression {
            Compression::Gzip => Kind::Gzip(Box::new(MultiGzDecoder::new(stored))),
            Compression::Zstd => {
                Kind::Zstd(Box::new(zstd::stream::read::Decoder::with_buffer(stored)?))
            }
            Compression::Bzip2 => Kind::Bzip2(Box::new(MultiBzDecoder::new(stored))),
        }))
    }
}

impl Raw {
    fn open(location: &Location, start: u64, expected_end: u64) -> io::Result<Self> {
        match location {
            Location::Local(path) => {
                let _ = expected_end;
                let mut file = File::open(path)?;
                if start > 0 {
                    file.seek(SeekFrom::Start(start))?;
                }
                Ok(Raw::Local(file))
            }
            #[cfg(feature = "object-store")]
            Location::Remote { url, options } => {
                crate::store::Reader::open(url, options, start, expected_end).map(Raw::Remote)
            }
            #[cfg(not(feature = "object-store"))]
            Location::Remote { .. } => Err(crate::output::without_stores()),
        }
    }
}

impl Read for Raw {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match self {
            Raw::Local(file) => file.read(buffer),
            #[cfg(feature = "object-store")]
            Raw::Remote(reader) => reader.read(buffer),
        };
        read.map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            _ => Fault::raw(error),
        })
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (read, compression) = match &mut self.0 {
            Kind::Plain(raw) => return raw.read(buffer),
            Kind::Gzip(decoder) => (decoder.read(buffer), Compression::Gzip),
            Kind::Zstd(decoder) => (decoder.read(buffer), Compression::Zstd),
            Kind::Bzip2(decoder) => (decoder.read(buffer), Compression::Bzip2),
        };
        // What the decoder itself finds wrong is wrong with the data.
        read.map_err(|error| match fault_of(&error) {
            None if error.kind() != io::ErrorKind::Interrupted => {
                Fault::damaged(compression, error)
            }
            _ => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::is_final;
    use std::io::Write;
    use std::path::Path;

    const TEXT: &str = "to be or not to be\n";

    fn compress(compression: Compression, text: &[u8]) -> Vec<u8> {
        match compression {
            Compression::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Default::default());
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
            Compression::Zstd => {
                // With a checksum, as the command-line tool writes.
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
                encoder.include_checksum(true).unwrap();
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
            Compression::Bzip2 => {
                let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), Default::default());
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
        }
    }

    fn read(path: &Path) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        Input::open(&Location::Local(path.to_owned()))?.read_to_end(&mut content)?;
        Ok(content)
    }

    const ALL: [Compression; 3] = [Compression::Gzip, Compression::Zstd, Compression::Bzip2];

    #[test]
    fn compressed_files_of_several_members_are_read_to_their_end() {
        let scratch = tempfile::tempdir().unwrap();
        for compression in ALL {
            let path = scratch.path().join(format!("a.{}", compression.extension()));
            let mut bytes = compress(compression, TEXT.as_bytes());
            bytes.extend(compress(compression, TEXT.as_bytes()));
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(read(&path).unwrap(), TEXT.repeat(2).as_bytes(), "{compression}");
            std::fs::write(&path, b"").unwrap();
            assert_eq!(read(&path).unwrap(), b"", "{compression}");
        }
    }

    #[test]
    fn every_cut_and_every_flipped_byte_is_damage_and_final() {
        let scratch = tempfile::tempdir().unwrap();
        for compression in ALL {
            let path = scratch.path().join(format!("a.{}", compression.extension()));
            let whole = compress(compression, TEXT.repeat(20).as_bytes());
            for position in 1..whole.len() {
                std::fs::write(&path, &whole[..position]).unwrap();
                let error = read(&path).expect_err("a cut must be noticed");
                assert!(is_final(&error), "{compression} cut at {position}: {error}");
            }
            let mut unnoticed = 0;
            for position in 0..whole.len() {
                let mut broken = whole.clone();
                broken[position] ^= 0x55;
                std::fs::write(&path, &broken).unwrap();
                match read(&path) {
                    Err(error) => assert!(is_final(&error), "{compression} {position}: {error}"),
                    // The gzip header's time stamp and flags of origin mean nothing for the content.
                    Ok(content) => {
                        assert_eq!(content, TEXT.repeat(20).as_bytes(), "{compression} {position}");
                        unnoticed += 1;
                    }
                }
            }
            assert!(unnoticed < 8, "{compression}: {unnoticed}");
        }
    }
}
