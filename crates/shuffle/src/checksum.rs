//! What a map task wrote, as one number that does not depend on the order of its records: two attempts that
//! wrote the same records for the same readers have the same.

use std::hash::{BuildHasher, Hasher};

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

/// The checksum of a map output, from sums of its readers; never 0, which stands for none. The hashes have fixed seeds: they are the
/// same in every process.
pub(crate) fn of_sums(sums: impl Iterator<Item = u64>, besides: u64) -> u64 {
    let mut hasher = FixedState::with_seed(BY_READER).build_hasher();
    sums.for_each(|sum| hasher.write_u64(sum));
    hasher.finish().wrapping_add(besides).max(1)
}

/// One of `readers`, by what a record holds.
pub(crate) fn spread(seed: u64, encoded: &[u8], readers: u32) -> u32 {
    let hash = FixedState::with_seed(!seed).hash_one(encoded);
    ((u128::from(hash) * u128::from(readers)) >> 64) as u32
}

// Digits of pi.
const BY_READER: u64 = 0x243f_6a88_85a3_08d3;
const FIRST: u64 = 0x1319_8a2e_0370_7344;
const LAST: u64 = 0xa409_3822_299f_31d0;
const BY_LENGTH: u64 = 0x082e_fa98_ec4e_6c89;

/// The hash of the record in `buffer` from `start` on. Most are a number or two, and a job has to hash all that it writes: those
/// take a read or two and a multiplication.
pub(crate) fn hashed(buffer: &[u8], start: usize) -> u64 {
    let length = buffer.len() - start;
    match length {
        0..=8 => of_short(trailing(buffer, length), length),
        9..=16 => {
            let (first, last) = (trailing(&buffer[..start + 8], 8), trailing(buffer, 8));
            // Not into one of the factors, where a byte of the record could undo it.
            folded(first, last).wrapping_add((length as u64).wrapping_mul(BY_LENGTH))
        }
        _ => FixedState::with_seed(FIRST).hash_one(&buffer[start..]),
    }
}

/// The same of a record of up to eight bytes, as a number.
#[inline(always)]
pub(crate) fn of_short(record: u64, length: usize) -> u64 {
    folded(record, record.rotate_left(32) ^ length as u64)
}

#[inline(always)]
fn folded(first: u64, last: u64) -> u64 {
    let product = u128::from(first ^ FIRST) * u128::from(last ^ LAST);
    product as u64 ^ (product >> 64) as u64
}

/// The last `length` bytes, at most eight, as a number.
fn trailing(buffer: &[u8], length: usize) -> u64 {
    match buffer.last_chunk() {
        Some(bytes) => last_of(bytes, length),
        None => {
            let mut bytes = [0; 8];
            bytes[..length].copy_from_slice(&buffer[buffer.len() - length..]);
            u64::from_le_bytes(bytes)
        }
    }
}

/// The last `length` of eight bytes, as a number.
#[inline(always)]
pub(crate) fn last_of(bytes: &[u8; 8], length: usize) -> u64 {
    u64::from_le_bytes(*bytes).checked_shr(64 - 8 * length as u32).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(records: &[[u8; 8]]) -> u64 {
        records.iter().fold(0, |sum, record| sum.wrapping_add(hashed(record, 0)))
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
        let sums: std::collections::BTreeSet<u64> =
            (0..1000).map(|step| sum(&pairs(step))).collect();
        assert_eq!(sums.len(), 1000);
    }

    #[test]
    fn different_records_are_spread_evenly_over_the_readers() {
        let mut counts = [0; 7];
        for record in 0..70_000u32 {
            counts[spread(3, &record.to_le_bytes(), 7) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }
}
