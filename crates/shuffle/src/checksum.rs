//! What a map task wrote, as one number that does not depend on the order of its records: two attempts that
//! wrote the same records for the same readers have the same.

use std::hash::BuildHasher;

use firesteel_closure::{Decoder, Encoder, Wire, WireError};
use foldhash::fast::FixedState;
use serde::{Deserialize, Serialize};

/// By what two attempts to write a map output are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compared {
    /// Nothing: they cannot differ.
    Nothing,
    /// How many records each reader has. The same records come in another order, or with sums of fractions whose last
    /// digits differ: that is no harm as long as no record moves from one reader to another.
    Placement,
    /// The records that each reader has.
    Records,
}

/// Compiled here, not for every map task.
impl Wire for Compared {
    fn encode(&self, out: &mut Encoder) -> Result<(), WireError> {
        out.put(self)
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Self, WireError> {
        input.take()
    }
}

/// Of the records seen so far. The hashes have fixed seeds: they are the same in every process.
pub(crate) struct Checksum {
    /// By reader: of its records, or how many there are.
    sums: Vec<u64>,
    besides: u64,
    of_records: bool,
}

impl Checksum {
    /// `None` if there is nothing to compare.
    pub(crate) fn of(compared: Compared, readers: u32) -> Option<Self> {
        (compared != Compared::Nothing).then(|| Checksum {
            sums: vec![0; readers as usize],
            besides: 0,
            of_records: compared == Compared::Records,
        })
    }

    /// Whether it has to see what records hold, not only how many there are.
    #[inline]
    pub(crate) fn is_of_records(&self) -> bool {
        self.of_records
    }

    /// Adds a record for a reader: what is in its buffer from `start` on.
    #[inline(always)]
    pub(crate) fn see(&mut self, reader: u32, buffer: &[u8], start: usize) {
        self.add_to(reader, hashed(buffer, start));
    }

    /// Adds so many records for a reader, of which only the number counts.
    #[inline]
    pub(crate) fn count(&mut self, reader: u32, records: u64) {
        self.add_to(reader, records);
    }

    #[inline(always)]
    fn add_to(&mut self, reader: u32, value: u64) {
        let sum = &mut self.sums[reader as usize];
        *sum = sum.wrapping_add(value);
    }

    /// Adds a number, in any order.
    pub(crate) fn add(&mut self, value: u64) {
        self.besides = self.besides.wrapping_add(value);
    }

    /// Never 0, which stands for no checksum.
    pub(crate) fn value(&self) -> u64 {
        let sums = FixedState::with_seed(BY_READER).hash_one(&self.sums);
        sums.wrapping_add(self.besides).max(1)
    }

    /// One of `readers`, by what a record holds.
    pub(crate) fn spread(seed: u64, encoded: &[u8], readers: u32) -> u32 {
        let hash = FixedState::with_seed(!seed).hash_one(encoded);
        ((u128::from(hash) * u128::from(readers)) >> 64) as u32
    }
}

// Digits of pi.
const BY_READER: u64 = 0x243f_6a88_85a3_08d3;
const FIRST: u64 = 0x1319_8a2e_0370_7344;
const LAST: u64 = 0xa409_3822_299f_31d0;
const BY_LENGTH: u64 = 0x082e_fa98_ec4e_6c89;

/// The hash of the record in `buffer` from `start` on. Most are a number or two, and a job has to hash all that it writes: those
/// take two reads and a multiplication.
#[inline(always)]
fn hashed(buffer: &[u8], start: usize) -> u64 {
    let length = buffer.len() - start;
    let (first, last) = match length {
        0..=8 => {
            let all = trailing(buffer, length);
            (all, all.rotate_left(32))
        }
        9..=16 => (trailing(&buffer[..start + 8], 8), trailing(buffer, 8)),
        _ => return of_long(&buffer[start..]),
    };
    let product = u128::from(first ^ FIRST) * u128::from(last ^ LAST);
    let mixed = product as u64 ^ (product >> 64) as u64;
    mixed.wrapping_add((length as u64).wrapping_mul(BY_LENGTH))
}

#[inline(never)]
fn of_long(record: &[u8]) -> u64 {
    FixedState::with_seed(FIRST).hash_one(record)
}

/// The last `length` bytes, at most eight, as a number. What lies before them is read with them and dropped.
#[inline(always)]
fn trailing(buffer: &[u8], length: usize) -> u64 {
    let Some(bytes) = buffer.last_chunk::<8>() else {
        let mut bytes = [0; 8];
        bytes[..length].copy_from_slice(&buffer[buffer.len() - length..]);
        return u64::from_le_bytes(bytes);
    };
    u64::from_le_bytes(*bytes).checked_shr(64 - 8 * length as u32).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(compared: Compared, records: &[(u32, &[u8])]) -> u64 {
        let mut checksum = Checksum::of(compared, 3).unwrap();
        for (reader, record) in records {
            match checksum.is_of_records() {
                true => checksum.see(*reader, record, 0),
                false => checksum.count(*reader, 1),
            }
        }
        checksum.value()
    }

    fn checksum(records: &[(u32, &[u8])]) -> u64 {
        compared(Compared::Records, records)
    }

    #[test]
    fn records_of_every_length_and_every_byte_of_them_count() {
        let mut seen = std::collections::BTreeSet::new();
        let mut count = 0;
        for length in 0..40 {
            let record = vec![7u8; length];
            assert!(seen.insert(hashed(&record, 0)), "length {length}");
            count += 1;
            for at in 0..length {
                for change in [1u8, 2, 4, 8, 16, 32, 64, 128, 255] {
                    let mut other = record.clone();
                    other[at] ^= change;
                    assert!(seen.insert(hashed(&other, 0)), "{length}: {change} at {at}");
                    count += 1;
                }
            }
        }
        // Numbers as they most often are.
        for number in 0..100_000u64 {
            assert!(seen.insert(hashed(&number.to_le_bytes(), 0)), "{number}");
            count += 1;
        }
        assert_eq!(seen.len(), count);
    }

    #[test]
    fn what_lies_before_a_record_in_its_buffer_makes_no_difference() {
        for length in 0..40 {
            let record: Vec<u8> = (1..=length).collect();
            for before in 0..20 {
                let mut buffer = vec![0xee; before];
                buffer.extend(&record);
                assert_eq!(hashed(&buffer, before), hashed(&record, 0), "{length} after {before}");
            }
        }
    }

    #[test]
    fn what_moves_between_records_is_noticed_though_their_sum_is_the_same() {
        let pairs = |step: u64| -> Vec<[u8; 8]> {
            let number = |n: u64| [n + step, 1_000_000 - n - step];
            (0..1000).flat_map(number).map(u64::to_le_bytes).collect()
        };
        let sum = |records: &[[u8; 8]]| {
            checksum(&records.iter().map(|record| (0, &record[..])).collect::<Vec<_>>())
        };
        let sums: std::collections::BTreeSet<u64> =
            (0..1000).map(|step| sum(&pairs(step))).collect();
        assert_eq!(sums.len(), 1000);
    }

    #[test]
    fn by_placement_only_the_number_of_records_of_each_reader_makes_a_difference() {
        let placement = |records| compared(Compared::Placement, records);
        assert_eq!(placement(&[(0, b"a"), (1, b"b")]), placement(&[(1, b"x"), (0, b"yz")]));
        assert_ne!(placement(&[(0, b"a"), (1, b"b")]), placement(&[(1, b"a"), (1, b"b")]));
        assert_ne!(placement(&[(0, b"a")]), placement(&[(0, b"a"), (0, b"a")]));
        assert_ne!(placement(&[]), 0);
        assert!(Checksum::of(Compared::Nothing, 3).is_none());
    }

    #[test]
    fn order_makes_no_difference_and_everything_else_does() {
        let records: [(u32, &[u8]); 4] = [(0, b"a"), (1, b"b"), (0, b"a"), (2, b"")];
        let mut turned = records;
        turned.reverse();
        assert_eq!(checksum(&records), checksum(&turned));
        assert_ne!(checksum(&records), checksum(&records[1..]), "a record less");
        assert_ne!(checksum(&[(0, b"a"), (1, b"b")]), checksum(&[(1, b"a"), (0, b"b")]));
        assert_ne!(checksum(&[(0, b"ab")]), checksum(&[(0, b"ba")]));
        assert_ne!(checksum(&[]), 0);
    }

    #[test]
    fn different_records_are_spread_evenly_over_the_readers() {
        let mut counts = [0; 7];
        for record in 0..70_000u32 {
            counts[Checksum::spread(3, &record.to_le_bytes(), 7) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }
}
