//! LZF as Spark's event logs have it: the chunks of `LZFOutputStream`, the same that the command `lzf` writes.
//!
//! ```text
//! "ZV" 0 | length | bytes                              as they are
//! "ZV" 1 | length | length when unpacked | bytes       packed
//! ```
//!
//! Lengths are 2 bytes, the highest first: no chunk is longer than 64 KiB.

use std::io::{self, Read};

use super::chunks::{Chunks, broken, is_more};

#[derive(Default)]
pub(super) struct Lzf {
    packed: Vec<u8>,
}

impl Chunks for Lzf {
    fn next(&mut self, from: &mut dyn Read, out: &mut Vec<u8>) -> io::Result<bool> {
        loop {
            let mut head = [0; 5];
            if !is_more(from, &mut head)? {
                return Ok(false);
            }
            let [b'Z', b'V', kind, high, low] = head else {
                return Err(broken("LZF", "not a chunk"));
            };
            let length = usize::from(u16::from_be_bytes([high, low]));
            match kind {
                0 => {
                    out.resize(length, 0);
                    from.read_exact(out)?;
                }
                1 => {
                    let mut whole = [0; 2];
                    from.read_exact(&mut whole)?;
                    self.packed.resize(length, 0);
                    from.read_exact(&mut self.packed)?;
                    let whole = usize::from(u16::from_be_bytes(whole));
                    unpack(&self.packed, whole, out)
                        .ok_or_else(|| broken("LZF", "a chunk that unpacks to something else"))?;
                }
                _ => return Err(broken("LZF", "a kind of chunk that is not known")),
            }
            if !out.is_empty() {
                return Ok(true);
            }
        }
    }
}

/// Unpacks so many bytes; `None`: it is another number, or refers to what is not there.
fn unpack(mut from: &[u8], whole: usize, out: &mut Vec<u8>) -> Option<()> {
    out.clear();
    while let Some((control, rest)) = from.split_first() {
        let control = usize::from(*control);
        from = rest;
        if control < 32 {
            let (literal, rest) = from.split_at_checked(control + 1)?;
            out.extend_from_slice(literal);
            from = rest;
        } else {
            let mut length = (control >> 5) + 2;
            if length == 9 {
                let (more, rest) = from.split_first()?;
                length += usize::from(*more);
                from = rest;
            }
            let (low, rest) = from.split_first()?;
            from = rest;
            let back = ((control & 0x1f) << 8 | usize::from(*low)) + 1;
            let begin = out.len().checked_sub(back)?;
            // What is repeated may reach into itself.
            (begin..begin + length).for_each(|at| out.push(out[at]));
        }
        if out.len() > whole {
            return None;
        }
    }
    (out.len() == whole).then_some(())
}

#[cfg(test)]
mod tests {
    use super::super::chunks::Unpacked;
    use super::*;

    fn unpacked(bytes: &[u8]) -> (Vec<u8>, Option<io::ErrorKind>) {
        let mut out = Vec::new();
        let end = Unpacked::new(bytes, Lzf::default()).read_to_end(&mut out);
        (out, end.err().map(|error| error.kind()))
    }

    #[test]
    fn literals_and_repetitions_come_back() {
        // "ab", then five bytes from two back, then 2 + 7 + 3 of one back.
        let packed = [1, b'a', b'b', 3 << 5, 1, 7 << 5, 3, 0];
        let mut bytes = b"ZV\x00\x00\x01x".to_vec();
        bytes.extend(b"ZV\x01\x00\x08\x00\x13");
        bytes.extend(packed);
        bytes.extend(b"ZV\x00\x00\x00");
        bytes.extend(b"ZV\x00\x00\x01y");
        let whole = [&b"xabababa"[..], &b"a".repeat(12), b"y"].concat();
        assert_eq!(unpacked(&bytes), (whole, None));
    }

    #[test]
    fn what_is_cut_off_or_made_up_is_damage() {
        let damaged: [(&[u8], _); 6] = [
            (b"ZV\x00\x00", io::ErrorKind::UnexpectedEof),
            (b"ZV\x00\x00\x05abc", io::ErrorKind::UnexpectedEof),
            (b"PK\x00\x00\x05abcde", io::ErrorKind::InvalidData),
            (b"ZV\x02\x00\x01a", io::ErrorKind::InvalidData),
            // Back to before the beginning; more than the chunk says.
            (b"ZV\x01\x00\x02\x00\x03\x20\x00", io::ErrorKind::InvalidData),
            (b"ZV\x01\x00\x03\x00\x01\x01ab", io::ErrorKind::InvalidData),
        ];
        for (bytes, kind) in damaged {
            assert_eq!(unpacked(bytes), (Vec::new(), Some(kind)), "{bytes:?}");
        }
    }
}
