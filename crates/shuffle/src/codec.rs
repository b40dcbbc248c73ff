//! Blocks of records on disk: framed, compressed if that is set, with a checksum.
//!
//! ```text
//! block := raw_len u32 | stored_len u32 | records u32 | crc32 u32 | stored bytes
//! ```
//! All numbers are little-endian; the checksum covers the other numbers and the stored bytes. A block
//! is as large as its records make it: about [`BLOCK_BYTES`], or one record that is larger. Blocks whose
//! lengths differ are compressed; the highest bit of `stored_len` tells zstd from lz4.

use std::io::{self, Write};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use firesteel_closure::{Appender, Data, WireError};

use crate::SpillError;

/// Blocks are closed when they are this long.
pub(crate) const BLOCK_BYTES: usize = 64 * 1024;
pub(crate) const HEADER_BYTES: usize = 16;
/// No block is longer: a length beyond it is a broken file.
const LARGEST_BLOCK: u32 = 1 << 30;

/// How blocks are compressed (`spark.io.compression.codec`, `spark.shuffle.spill.compress`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Codec {
    /// Blocks are written as they are.
    None,
    /// LZ4: quick, about half the size on text.
    #[default]
    Lz4,
    /// Zstandard at this level: smaller, slower.
    Zstd(i32),
}

/// In `stored_len`: compressed with zstd.
const ZSTD: u32 = 1 << 31;

/// Collects records into blocks and writes them.
pub(crate) struct BlockWriter {
    codec: Codec,
    appender: Appender,
    raw: Vec<u8>,
    packed: Vec<u8>,
    records: u32,
}

impl BlockWriter {
    pub(crate) fn new(codec: Codec) -> Self {
        let (raw, packed) = (Vec::new(), Vec::new());
        BlockWriter { codec, appender: Appender::default(), raw, packed, records: 0 }
    }

    /// Bytes of the records that wait for their block to be full.
    pub(crate) fn raw_len(&self) -> usize {
        self.raw.len()
    }

    /// Appends a record; writes a block when one is full. Bytes written to `out`.
    pub(crate) fn push<T: Data>(
        &mut self,
        record: &T,
        out: &mut impl Write,
    ) -> Result<u64, SpillError> {
        self.appender.append(&mut self.raw, record)?;
        self.records += 1;
        if self.raw.len() >= BLOCK_BYTES { Ok(self.flush(out)?) } else { Ok(0) }
    }

    /// Writes records that are encoded already as blocks of their own.
    pub(crate) fn push_encoded(
        &mut self,
        encoded: &[u8],
        records: u64,
        out: &mut impl Write,
    ) -> io::Result<u64> {
        debug_assert!(self.raw.is_empty());
        let records = u32::try_from(records).map_err(|_| io::ErrorKind::InvalidInput)?;
        write_block(self.codec, encoded, records, &mut self.packed, out)
    }

    /// Writes what is left as a block.
    pub(crate) fn flush(&mut self, out: &mut impl Write) -> io::Result<u64> {
        if self.records == 0 {
            return Ok(0);
        }
        let written = write_block(self.codec, &self.raw, self.records, &mut self.packed, out)?;
        self.raw.clear();
        self.records = 0;
        Ok(written)
    }
}

pub(crate) fn write_block(
    codec: Codec,
    raw: &[u8],
    records: u32,
    packed: &mut Vec<u8>,
    out: &mut impl Write,
) -> io::Result<u64> {
    let length = compress(codec, raw, packed)?;
    // What does not shrink is stored as it is: equal lengths tell.
    let stored = if length < raw.len() { &packed[..length] } else { raw };
    let mark = if length < raw.len() && matches!(codec, Codec::Zstd(_)) { ZSTD } else { 0 };
    let length = |len: usize| u32::try_from(len).ok().filter(|len| *len <= LARGEST_BLOCK);
    let lengths = length(raw.len()).zip(length(stored.len()));
    let (raw_len, stored_len) =
        lengths.ok_or_else(|| io::Error::other("a record of more than 1 GiB cannot be spilled"))?;
    let mut header = [0; HEADER_BYTES];
    for (slot, number) in header.chunks_exact_mut(4).zip([raw_len, stored_len | mark, records]) {
        slot.copy_from_slice(&number.to_le_bytes());
    }
    let sum = checksum(&header, stored);
    header[12..].copy_from_slice(&sum.to_le_bytes());
    out.write_all(&header)?;
    out.write_all(stored)?;
    Ok((HEADER_BYTES + stored.len()) as u64)
}

/// Compresses `raw` into the start of `packed`; the length, which is not smaller when that was no use.
fn compress(codec: Codec, raw: &[u8], packed: &mut Vec<u8>) -> io::Result<usize> {
    match codec {
        Codec::None => Ok(raw.len()),
        Codec::Lz4 => {
            packed.resize(lz4_flex::block::get_maximum_output_size(raw.len()), 0);
            lz4_flex::block::compress_into(raw, packed).map_err(io::Error::other)
        }
        Codec::Zstd(level) => {
            packed.resize(zstd::zstd_safe::compress_bound(raw.len()), 0);
            zstd::bulk::compress_to_buffer(raw, packed.as_mut_slice(), level)
        }
    }
}

fn decompress(stored: &[u8], is_zstd: bool, raw_len: usize) -> Result<Vec<u8>, BlockError> {
    let raw = match is_zstd {
        true => zstd::bulk::decompress(stored, raw_len).ok(),
        false => lz4_flex::block::decompress(stored, raw_len).ok(),
    };
    raw.filter(|raw| raw.len() == raw_len)
        .ok_or(BlockError::Corrupt("compressed bytes that cannot be read"))
}

fn checksum(header: &[u8; HEADER_BYTES], stored: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&header[..12]);
    hasher.update(stored);
    hasher.finalize()
}

/// A block's raw bytes and its number of records.
pub(crate) struct Block {
    pub(crate) raw: Vec<u8>,
    pub(crate) records: u32,
}

/// A block as it is stored, checked.
struct Stored {
    bytes: Vec<u8>,
    header: Header,
}

/// What stands before a block's bytes.
struct Header {
    bytes: [u8; HEADER_BYTES],
    raw_len: u32,
    stored_len: u32,
    records: u32,
    is_zstd: bool,
}

impl Header {
    fn parse(bytes: [u8; HEADER_BYTES]) -> Result<Self, BlockError> {
        let number =
            |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let (raw_len, stored_len, records) = (number(0), number(4), number(8));
        let (stored_len, is_zstd) = (stored_len & !ZSTD, stored_len & ZSTD != 0);
        if raw_len > LARGEST_BLOCK || stored_len > raw_len {
            return Err(BlockError::Corrupt("lengths that cannot be"));
        }
        Ok(Header { bytes, raw_len, stored_len, records, is_zstd })
    }

    fn check(&self, stored: &[u8]) -> Result<(), BlockError> {
        match checksum(&self.bytes, stored).to_le_bytes() == self.bytes[12..] {
            true => Ok(()),
            false => Err(BlockError::Corrupt("a wrong checksum")),
        }
    }

    /// Whether the bytes are the records themselves.
    fn is_plain(&self) -> bool {
        self.stored_len == self.raw_len
    }
}

fn read_stored(
    mut read: impl FnMut(&mut [u8]) -> io::Result<()>,
    mut bytes: Vec<u8>,
) -> Result<Stored, BlockError> {
    let mut header = [0; HEADER_BYTES];
    read(&mut header)?;
    let header = Header::parse(header)?;
    bytes.resize(header.stored_len as usize, 0);
    read(&mut bytes)?;
    header.check(&bytes)?;
    Ok(Stored { bytes, header })
}

/// The header of the first block in `blocks`, and where its bytes lie.
fn first(blocks: &[u8]) -> Result<(Header, std::ops::Range<usize>), BlockError> {
    const CUT: BlockError = BlockError::Corrupt("its end missing");
    let (header, rest) = blocks.split_first_chunk::<HEADER_BYTES>().ok_or(CUT)?;
    let header = Header::parse(*header)?;
    let length = header.stored_len as usize;
    if rest.len() < length {
        return Err(CUT);
    }
    Ok((header, HEADER_BYTES..HEADER_BYTES + length))
}

/// Checks the first block in `blocks` where it lies; its records and its length.
pub(crate) fn check_first(blocks: &[u8]) -> Result<(u32, usize), BlockError> {
    let (header, range) = first(blocks)?;
    header.check(&blocks[range.clone()])?;
    Ok((header.records, range.end))
}

/// The records of the first block in `blocks`, which was checked before, and how many; without a copy
/// if they are not compressed. Leaves `blocks` at the next one.
pub(crate) fn take_first(blocks: &mut Bytes) -> Result<(Bytes, u32), BlockError> {
    let (header, range) = first(blocks)?;
    let stored = blocks.split_to(range.end).slice(range);
    let raw = match header.is_plain() {
        true => stored,
        false => decompress(&stored, header.is_zstd, header.raw_len as usize)?.into(),
    };
    Ok((raw, header.records))
}

/// Reads the block at the start of what `read` gives; `read` fills a buffer completely. The bytes it
/// took.
pub(crate) fn read_block(
    read: impl FnMut(&mut [u8]) -> io::Result<()>,
) -> Result<(Block, u64), BlockError> {
    let Stored { bytes, header } = read_stored(read, Vec::new())?;
    let length = (HEADER_BYTES + bytes.len()) as u64;
    let raw = match header.is_plain() {
        true => bytes,
        false => decompress(&bytes, header.is_zstd, header.raw_len as usize)?,
    };
    Ok((Block { raw, records: header.records }, length))
}

/// Checks the block at the start of what `read` gives without unpacking it; its records and the bytes
/// it took. `buffer` is used again from block to block.
pub(crate) fn check_block(
    read: impl FnMut(&mut [u8]) -> io::Result<()>,
    buffer: &mut Vec<u8>,
) -> Result<(u32, u64), BlockError> {
    let stored = read_stored(read, std::mem::take(buffer))?;
    *buffer = stored.bytes;
    Ok((stored.header.records, (HEADER_BYTES + buffer.len()) as u64))
}

/// Why a block cannot be read.
#[derive(Debug)]
pub(crate) enum BlockError {
    Io(io::Error),
    Corrupt(&'static str),
}

impl std::fmt::Display for BlockError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BlockError::Io(error) => error.fmt(f),
            BlockError::Corrupt(what) => f.write_str(what),
        }
    }
}

impl From<io::Error> for BlockError {
    fn from(error: io::Error) -> Self {
        BlockError::Io(error)
    }
}

impl From<WireError> for SpillError {
    fn from(error: WireError) -> Self {
        SpillError::Wire(error)
    }
}

impl From<io::Error> for SpillError {
    fn from(source: io::Error) -> Self {
        SpillError::Write { source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(codec: Codec, records: &[String]) -> Vec<u8> {
        let (mut out, mut writer) = (Vec::new(), BlockWriter::new(codec));
        let mut written = 0;
        for record in records {
            written += writer.push(record, &mut out).unwrap();
        }
        written += writer.flush(&mut out).unwrap();
        assert_eq!(written as usize, out.len());
        out
    }

    /// Reading and checking, from anywhere and in place, must agree.
    fn read_all(mut bytes: &[u8]) -> Result<u64, BlockError> {
        let (mut records, mut buffer) = (0, Vec::new());
        while !bytes.is_empty() {
            let (whole, mut same) = (bytes, bytes);
            let checked =
                check_block(|buffer| io::Read::read_exact(&mut same, buffer), &mut buffer);
            let read = read_block(|buffer| io::Read::read_exact(&mut bytes, buffer));
            assert_eq!(
                checked.as_ref().ok(),
                read.as_ref().ok().map(|r| (r.0.records, r.1)).as_ref()
            );
            assert_eq!(checked.is_ok(), check_first(whole).is_ok());
            let (block, length) = read?;
            records += u64::from(block.records);
            let mut same = Bytes::copy_from_slice(whole);
            let (raw, found) = take_first(&mut same)?;
            assert_eq!((&raw[..], found), (&block.raw[..], block.records));
            assert_eq!((whole.len() - same.len()) as u64, length);
        }
        Ok(records)
    }

    #[test]
    fn blocks_keep_their_records_whatever_the_codec() {
        let records: Vec<String> = (0..20_000).map(|n| format!("record {n}")).collect();
        let plain = write(Codec::None, &records);
        assert_eq!(read_all(&plain).unwrap(), 20_000);
        for codec in [Codec::Lz4, Codec::Zstd(1), Codec::Zstd(9)] {
            let packed = write(codec, &records);
            assert!(packed.len() * 2 < plain.len(), "{} {}", packed.len(), plain.len());
            assert_eq!(read_all(&packed).unwrap(), 20_000);
        }
        assert_ne!(write(Codec::Zstd(1), &records), write(Codec::Zstd(9), &records));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let records: Vec<String> = (0..50).map(|n| format!("record {n}")).collect();
        for codec in [Codec::Lz4, Codec::Zstd(3), Codec::None] {
            let whole = write(codec, &records);
            for position in 0..whole.len() {
                let mut broken = whole.clone();
                broken[position] ^= 1;
                assert!(read_all(&broken).is_err(), "byte {position}");
                assert!(position == 0 || read_all(&whole[..position]).is_err());
            }
        }
    }
}
