//! Snappy as Spark's event logs have it: the chunks of snappy-java's `SnappyOutputStream`, not Snappy's own frames.
//!
//! ```text
//! 0x82 "SNAPPY" 0 | version | oldest version that reads it | length | bytes | length | bytes ...
//! ```
//!
//! Numbers are 4 bytes, the highest first. Streams may follow each other: each begins with a head.

use std::io::{self, Read};

use super::chunks::{Chunks, broken, is_more};

const MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
/// What follows the first four bytes of a head.
const REST_OF_HEAD: usize = 12;
/// The largest chunk, packed or not, that a reader takes: Spark's have 32 KiB.
const LARGEST: usize = 1 << 25;

#[derive(Default)]
pub(super) struct Snappy {
    decoder: snap::raw::Decoder,
    packed: Vec<u8>,
    is_begun: bool,
}

impl Chunks for Snappy {
    fn next(&mut self, from: &mut dyn Read, out: &mut Vec<u8>) -> io::Result<bool> {
        loop {
            let mut number = [0; 4];
            if !is_more(from, &mut number)? {
                return Ok(false);
            }
            if number == MAGIC[..4] {
                let mut rest = [0; REST_OF_HEAD];
                from.read_exact(&mut rest)?;
                if rest[..4] != MAGIC[4..] {
                    return Err(broken("Snappy", "not a head"));
                }
                self.is_begun = true;
                continue;
            }
            let length = u32::from_be_bytes(number) as usize;
            if !self.is_begun || length > LARGEST {
                return Err(broken("Snappy", "not a chunk"));
            }
            self.packed.resize(length, 0);
            from.read_exact(&mut self.packed)?;
            let whole = snap::raw::decompress_len(&self.packed)
                .ok()
                .filter(|whole| *whole <= LARGEST)
                .ok_or_else(|| broken("Snappy", "no length that could be one"))?;
            out.resize(whole, 0);
            self.decoder
                .decompress(&self.packed, out)
                .map_err(|error| broken("Snappy", &error.to_string()))?;
            if whole > 0 {
                return Ok(true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::chunks::Unpacked;
    use super::*;

    fn packed(chunks: &[&[u8]]) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend([0, 0, 0, 1, 0, 0, 0, 1]);
        for chunk in chunks {
            let packed = snap::raw::Encoder::new().compress_vec(chunk).unwrap();
            out.extend((packed.len() as u32).to_be_bytes());
            out.extend(packed);
        }
        out
    }

    fn unpacked(bytes: &[u8]) -> (Vec<u8>, Option<io::ErrorKind>) {
        let mut out = Vec::new();
        let end = Unpacked::new(bytes, Snappy::default()).read_to_end(&mut out);
        (out, end.err().map(|error| error.kind()))
    }

    #[test]
    fn chunks_come_back_and_streams_follow_each_other() {
        let long = b"abc".repeat(40_000);
        let bytes = [packed(&[&long, b"", b"x"]), packed(&[b"y"])].concat();
        assert_eq!(unpacked(&bytes), ([&long[..], b"xy"].concat(), None));
        assert_eq!(unpacked(b""), (Vec::new(), None));
    }

    #[test]
    fn what_is_cut_off_or_made_up_is_damage_and_takes_no_memory() {
        let bytes = packed(&[b"first", b"second"]);
        let (whole, end) = unpacked(&bytes[..bytes.len() - 1]);
        assert_eq!((&whole[..], end), (&b"first"[..], Some(io::ErrorKind::UnexpectedEof)));
        let hostile: [&[u8]; 5] = [
            b"no head at all",
            &[0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 9, 0, 0, 0, 1, 0, 0, 0, 1],
            &[&packed(&[])[..], &[0x7f, 0xff, 0xff, 0xff]].concat(),
            // A chunk that says it stands for four gigabytes.
            &[&packed(&[])[..], &[0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0x0f]].concat(),
            &[&packed(&[])[..], &[0, 0, 0, 3, 5, 1, 1]].concat(),
        ];
        for bytes in hostile {
            assert_eq!(
                unpacked(bytes),
                (Vec::new(), Some(io::ErrorKind::InvalidData)),
                "{bytes:?}"
            );
        }
    }
}
