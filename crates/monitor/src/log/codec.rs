//! How the files of a log are compressed.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use super::chunks::Unpacked;
use super::lz4;
use super::lzf::Lzf;
use super::snappy::Snappy;

/// How a file is compressed, by the end of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Codec {
    None,
    Zstd,
    Lz4,
    /// Of Spark's logs only: none of ours is written so.
    Snappy,
    /// Of Spark's logs only, as [`Codec::Snappy`] is.
    Lzf,
}

impl Codec {
    /// What the end of a name says, and the name without it.
    pub(super) fn split(name: &str) -> (&str, Codec) {
        match name.rsplit_once('.') {
            Some((stem, "zstd")) => (stem, Codec::Zstd),
            Some((stem, "lz4")) => (stem, Codec::Lz4),
            Some((stem, "snappy")) => (stem, Codec::Snappy),
            Some((stem, "lzf")) => (stem, Codec::Lzf),
            _ => (name, Codec::None),
        }
    }

    /// What a name ends with.
    pub(super) fn extension(self) -> &'static str {
        match self {
            Codec::None => "",
            Codec::Zstd => ".zstd",
            Codec::Lz4 => ".lz4",
            Codec::Snappy => ".snappy",
            Codec::Lzf => ".lzf",
        }
    }

    /// The bytes as they were.
    pub(crate) fn reader<'a>(
        self,
        from: impl Read + Send + 'a,
    ) -> io::Result<Box<dyn Read + Send + 'a>> {
        Ok(match self {
            Codec::None => Box::new(from),
            Codec::Zstd => {
                let mut reader = zstd::stream::read::Decoder::new(from)?;
                // A log of somebody else decides nothing about our memory.
                reader.window_log_max(27)?;
                Box::new(reader)
            }
            Codec::Lz4 => Box::new(lz4::Blocks::new(from)),
            Codec::Snappy => Box::new(Unpacked::new(from, Snappy::default())),
            Codec::Lzf => Box::new(Unpacked::new(from, Lzf::default())),
        })
    }

    /// Writes bytes so that a reader gets all of them, whatever happens after. How many bytes that took.
    pub(super) fn write(self, bytes: &[u8], to: &mut impl Write) -> io::Result<u64> {
        let packed = match self {
            Codec::None => {
                to.write_all(bytes)?;
                return Ok(bytes.len() as u64);
            }
            // A frame each time: Spark's level.
            Codec::Zstd => zstd::bulk::compress(bytes, 1)?,
            Codec::Lz4 => {
                let mut packed = Vec::new();
                lz4::compress(bytes, &mut packed)?;
                packed
            }
            Codec::Snappy | Codec::Lzf => return Err(io::ErrorKind::Unsupported.into()),
        };
        to.write_all(&packed)?;
        Ok(packed.len() as u64)
    }

    pub(super) fn finish(self, to: &mut impl Write) -> io::Result<()> {
        if self == Codec::Lz4 { lz4::finish(to) } else { Ok(()) }
    }
}
