//! A file of frames, each whole or not there: a header, then lengths, checksums and bytes.
//!
//! ```text
//!   header ─ [ length │ checksum of that │ checksum of the bytes │ bytes ] ─ [ ... ] ─ ...
//! ```
//!
//! What a write that was cut off leaves at the end counts as not written: the end of the file within a frame, zeros from
//! anywhere in a frame to the end (the file had grown, and its bytes had not come), or a last frame whose bytes are not all there.
//! Anything else that does not fit is damage.

/// Which file this is, and in which version.
pub(super) const HEADER: &[u8] = b"firesteel master journal 1\n";

const NUMBERS: usize = 12;

/// Why bytes are no journal.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Damage {
    pub(super) at: u64,
    pub(super) what: &'static str,
}

/// The whole frames of a file, and where they end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frames<'a> {
    pub(super) frames: Vec<&'a [u8]>,
    pub(super) end: u64,
}

/// One frame of these bytes.
pub(super) fn frame(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("less than 4 GB").to_le_bytes();
    let checksums = [crc32fast::hash(&length), crc32fast::hash(bytes)];
    let mut frame = Vec::with_capacity(NUMBERS + bytes.len());
    frame.extend(length);
    frame.extend(checksums.into_iter().flat_map(u32::to_le_bytes));
    frame.extend(bytes);
    frame
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("four bytes"))
}

pub(super) fn read(file: &[u8]) -> Result<Frames<'_>, Damage> {
    let Some(mut rest) = file.strip_prefix(HEADER) else {
        return Err(Damage { at: 0, what: "it does not begin as a journal of this version does" });
    };
    let mut frames = Vec::new();
    loop {
        let at = (file.len() - rest.len()) as u64;
        if rest.len() < NUMBERS {
            return Ok(Frames { frames, end: at });
        }
        let (numbers, bytes) = rest.split_at(NUMBERS);
        if crc32fast::hash(&numbers[..4]) != number(&numbers[4..8]) {
            // Nothing but zeros after its numbers: they had not all come either.
            return match bytes.iter().all(|byte| *byte == 0) {
                true => Ok(Frames { frames, end: at }),
                false => Err(Damage { at, what: "the length of a record is wrong" }),
            };
        }
        let length = number(&numbers[..4]) as usize;
        if bytes.len() < length {
            return Ok(Frames { frames, end: at });
        }
        let (bytes, after) = bytes.split_at(length);
        if crc32fast::hash(bytes) != number(&numbers[8..]) {
            return match after {
                [] => Ok(Frames { frames, end: at }),
                _ => Err(Damage { at, what: "the checksum of a record is wrong" }),
            };
        }
        frames.push(bytes);
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(frames: &[&[u8]]) -> Vec<u8> {
        let frames = frames.iter().flat_map(|bytes| frame(bytes));
        HEADER.iter().copied().chain(frames).collect()
    }

    #[test]
    fn a_file_cut_at_any_byte_has_the_frames_that_were_whole() {
        let whole = file(&[b"one", b"", b"three and more", &[0; 40]]);
        let ends: Vec<usize> = [3, 0, 14, 40]
            .iter()
            .scan(HEADER.len(), |end, length| {
                *end += NUMBERS + length;
                Some(*end)
            })
            .collect();
        for cut in HEADER.len()..=whole.len() {
            let read = read(&whole[..cut]).expect("cut, not damaged");
            let expected = ends.iter().filter(|end| **end <= cut).count();
            assert_eq!(read.frames.len(), expected, "cut at {cut}");
        }
        for cut in 0..HEADER.len() {
            assert_eq!(read(&whole[..cut]).unwrap_err().at, 0);
        }
    }

    /// After a loss of power a file may have its new length, and zeros where the last bytes had not come.
    #[test]
    fn a_last_write_that_ends_in_zeros_from_any_byte_on_never_was() {
        let before = file(&[b"one", b"two and more"]);
        let whole = file(&[b"one", b"two and more", b"the last one"]);
        for come in before.len()..whole.len() {
            let mut torn = whole.clone();
            torn[come..].fill(0);
            let read =
                read(&torn).unwrap_or_else(|damage| panic!("zeros from {come} on: {damage:?}"));
            assert_eq!((read.frames.len(), read.end), (2, before.len() as u64), "{come}");
        }
    }

    #[test]
    fn a_changed_byte_is_damage_unless_the_last_write_never_ended() {
        let whole = file(&[b"one", b"two and more", b"the last one"]);
        let last = whole.len() - 12;
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x10;
            match read(&changed) {
                Ok(read) => assert!(read.frames.len() == 2 && at >= last - 4, "byte {at}"),
                Err(damage) => assert!(damage.at <= at as u64, "{damage:?}, byte {at}"),
            }
        }
    }
}
