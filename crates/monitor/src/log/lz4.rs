//! LZ4 as Spark's event logs have it: the blocks of lz4-java's `LZ4BlockOutputStream`, not the frames of the `lz4` command.
//!
//! ```text
//! "LZ4Block" | method and level, 1 byte | compressed length | length | checksum | bytes
//! ```
//!
//! Numbers are 4 bytes, the lowest first. A block of length 0 ends a stream; further streams may follow.

use std::io::{self, Read, Write};

const MAGIC: &[u8; 8] = b"LZ4Block";
const HEADER: usize = 21;
const RAW: u8 = 0x10;
const COMPRESSED: u8 = 0x20;
/// What lz4-java takes for blocks of 64 KiB: how far the size is above 2^10.
const LEVEL: u8 = 6;
/// Spark's block size.
const BLOCK: usize = 1 << 16;
/// The largest block that a reader takes: lz4-java's own bound.
const LARGEST: usize = 1 << 25;
const SEED: u32 = 0x9747_b28c;

/// Appends `bytes` to `out` as blocks.
pub(super) fn compress(bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
    for block in bytes.chunks(BLOCK) {
        let packed = lz4_flex::block::compress(block);
        let (method, body) = match packed.len() < block.len() {
            true => (COMPRESSED, packed.as_slice()),
            false => (RAW, block),
        };
        out.write_all(&header(method, body.len(), block.len(), checksum(block)))?;
        out.write_all(body)?;
    }
    Ok(())
}

pub(super) fn finish(out: &mut impl Write) -> io::Result<()> {
    out.write_all(&header(RAW, 0, 0, 0))
}

fn header(method: u8, packed: usize, len: usize, checksum: u32) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8] = method | LEVEL;
    header[9..13].copy_from_slice(&(packed as u32).to_le_bytes());
    header[13..17].copy_from_slice(&(len as u32).to_le_bytes());
    header[17..21].copy_from_slice(&checksum.to_le_bytes());
    header
}

fn checksum(bytes: &[u8]) -> u32 {
    // lz4-java keeps 28 bits.
    xxh32(bytes, SEED) & 0x0fff_ffff
}

/// Reads blocks one after the other.
pub(super) struct Blocks<R> {
    from: R,
    block: Vec<u8>,
    at: usize,
}

impl<R: Read> Blocks<R> {
    pub(super) fn new(from: R) -> Self {
        Blocks { from, block: Vec::new(), at: 0 }
    }

    /// Whether there is another block.
    fn next(&mut self) -> io::Result<bool> {
        let broken =
            |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("LZ4: {what}"));
        loop {
            let mut header = [0; HEADER];
            let mut got = 0;
            while got < HEADER {
                match self.from.read(&mut header[got..])? {
                    0 if got == 0 => return Ok(false),
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    more => got += more,
                }
            }
            let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| header[at + byte]));
            let (packed, len) = (number(9) as usize, number(13) as usize);
            if &header[..8] != MAGIC || packed > LARGEST || len > LARGEST {
                return Err(broken("not a block"));
            }
            if len == 0 {
                continue;
            }
            let mut body = vec![0; packed];
            self.from.read_exact(&mut body)?;
            self.block = match header[8] & 0xf0 {
                RAW if packed == len => body,
                COMPRESSED => lz4_flex::block::decompress(&body, len)
                    .map_err(|error| broken(&error.to_string()))?,
                _ => return Err(broken("a method that is not known")),
            };
            if self.block.len() != len || checksum(&self.block) != number(17) {
                return Err(broken("the checksum does not match"));
            }
            self.at = 0;
            return Ok(true);
        }
    }
}

impl<R: Read> Read for Blocks<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.at == self.block.len() && !self.next()? {
            return Ok(0);
        }
        let left = &self.block[self.at..];
        let count = left.len().min(to.len());
        to[..count].copy_from_slice(&left[..count]);
        self.at += count;
        Ok(count)
    }
}

const PRIME_1: u32 = 0x9e37_79b1;
const PRIME_2: u32 = 0x85eb_ca77;
const PRIME_3: u32 = 0xc2b2_ae3d;
const PRIME_4: u32 = 0x27d4_eb2f;
const PRIME_5: u32 = 0x1656_67b1;

/// xxHash of 32 bits: what lz4-java checks blocks with.
fn xxh32(bytes: &[u8], seed: u32) -> u32 {
    let (stripes, rest) = bytes.as_chunks::<16>();
    let mut hash = match stripes.is_empty() {
        true => seed.wrapping_add(PRIME_5),
        false => {
            let start = [
                seed.wrapping_add(PRIME_1).wrapping_add(PRIME_2),
                seed.wrapping_add(PRIME_2),
                seed,
                seed.wrapping_sub(PRIME_1),
            ];
            let lanes = stripes.iter().fold(start, round);
            let turns = [1, 7, 12, 18];
            lanes
                .iter()
                .zip(turns)
                .fold(0, |sum: u32, (lane, turn)| sum.wrapping_add(lane.rotate_left(turn)))
        }
    };
    hash = hash.wrapping_add(bytes.len() as u32);
    let (words, rest) = rest.as_chunks::<4>();
    for word in words {
        let word = u32::from_le_bytes(*word);
        hash = hash.wrapping_add(word.wrapping_mul(PRIME_3)).rotate_left(17).wrapping_mul(PRIME_4);
    }
    for byte in rest {
        let byte = u32::from(*byte);
        hash = hash.wrapping_add(byte.wrapping_mul(PRIME_5)).rotate_left(11).wrapping_mul(PRIME_1);
    }
    hash = (hash ^ (hash >> 15)).wrapping_mul(PRIME_2);
    hash = (hash ^ (hash >> 13)).wrapping_mul(PRIME_3);
    hash ^ (hash >> 16)
}

fn round(lanes: [u32; 4], stripe: &[u8; 16]) -> [u32; 4] {
    let mut next = lanes;
    for (index, lane) in next.iter_mut().enumerate() {
        let word = u32::from_le_bytes([0, 1, 2, 3].map(|byte| stripe[index * 4 + byte]));
        let mixed = lane.wrapping_add(word.wrapping_mul(PRIME_2));
        *lane = mixed.rotate_left(13).wrapping_mul(PRIME_1);
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_reference() {
        assert_eq!(xxh32(b"", 0), 0x02cc_5d05);
        assert_eq!(xxh32(b"abc", 0), 0x32d1_53ff);
        assert_eq!(xxh32(b"Nobody inspects the spammish repetition", 0), 0xe229_3b2f);
    }

    #[test]
    fn what_was_compressed_comes_back_and_what_was_damaged_is_refused() {
        let text: Vec<u8> = (0..200_000u32).map(|n| (n / 7).wrapping_mul(n) as u8).collect();
        let mut packed = Vec::new();
        compress(&text, &mut packed).unwrap();
        finish(&mut packed).unwrap();
        compress(b"tail", &mut packed).unwrap();
        let mut back = Vec::new();
        Blocks::new(packed.as_slice()).read_to_end(&mut back).unwrap();
        assert_eq!(back, [text.as_slice(), b"tail"].concat());
        for damaged in [3, 9, 14, 18, 30] {
            let mut packed = packed.clone();
            packed[damaged] ^= 0x55;
            assert!(Blocks::new(packed.as_slice()).read_to_end(&mut Vec::new()).is_err());
        }
        packed.truncate(packed.len() - 2);
        assert!(Blocks::new(packed.as_slice()).read_to_end(&mut Vec::new()).is_err());
    }
}
