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

/// Of the records seen so far. The hash has a fixed seed: it is the same in every process.
pub(crate) struct Checksum {
    value: u64,
    of_records: bool,
}

impl Checksum {
    /// `None` if there is nothing to compare.
    pub(crate) fn of(compared: Compared) -> Option<Self> {
        (compared != Compared::Nothing)
            .then_some(Checksum { value: 0, of_records: compared == Compared::Records })
    }

    /// Adds records for a reader.
    #[inline]
    pub(crate) fn see(&mut self, reader: u32, encoded: &[u8], records: u64) {
        match self.of_records {
            true => self.add(hashed(scattered(reader), encoded)),
            false => self.add(scattered(reader).wrapping_mul(records)),
        }
    }

    /// Adds a number, in any order.
    pub(crate) fn add(&mut self, value: u64) {
        self.value = self.value.wrapping_add(value);
    }

    /// Never 0, which stands for no checksum.
    pub(crate) fn value(&self) -> u64 {
        self.value.max(1)
    }

    /// One of `readers`, by what a record holds.
    pub(crate) fn spread(seed: u64, encoded: &[u8], readers: u32) -> u32 {
        let hash = FixedState::with_seed(!seed).hash_one(encoded);
        ((u128::from(hash) * u128::from(readers)) >> 64) as u32
    }
}

/// The hash of a record. Most are a number or two: for those it takes a multiplication, because a job has to hash all that it
/// writes.
#[inline]
fn hashed(seed: u64, encoded: &[u8]) -> u64 {
    let (first, last) = match encoded.len() {
        9..=16 => (leading::<8>(encoded), trailing::<8>(encoded)),
        4..=8 => (leading::<4>(encoded), trailing::<4>(encoded)),
        1..=3 => (
            leading::<1>(encoded) | u64::from(encoded[encoded.len() / 2]) << 8,
            trailing::<1>(encoded),
        ),
        0 => (0, 0),
        _ => return FixedState::with_seed(seed).hash_one(encoded),
    };
    let length = encoded.len() as u64;
    let product = u128::from(first ^ seed) * u128::from(last ^ seed.rotate_left(32) ^ length);
    // The product alone is 0 if one side is.
    let mixed = product as u64 ^ (product >> 64) as u64 ^ first.wrapping_add(last.rotate_left(19));
    (mixed ^ mixed >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

#[inline]
fn leading<const N: usize>(encoded: &[u8]) -> u64 {
    little_endian(&encoded[..N])
}

#[inline]
fn trailing<const N: usize>(encoded: &[u8]) -> u64 {
    little_endian(&encoded[encoded.len() - N..])
}

#[inline]
fn little_endian(bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(all)
}

/// A number of 64 bits for each reader, odd, so that no two counts of it are the same.
#[inline]
fn scattered(reader: u32) -> u64 {
    let mixed = (u64::from(reader) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(compared: Compared, records: &[(u32, &[u8])]) -> u64 {
        let mut checksum = Checksum::of(compared).unwrap();
        records.iter().for_each(|(reader, record)| checksum.see(*reader, record, 1));
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
            assert!(seen.insert(super::hashed(1, &record)), "length {length}");
            count += 1;
            for at in 0..length {
                for change in [1u8, 2, 4, 8, 16, 32, 64, 128, 255] {
                    let mut other = record.clone();
                    other[at] ^= change;
                    assert!(seen.insert(super::hashed(1, &other)), "{length}: {change} at {at}");
                    count += 1;
                }
            }
        }
        // Numbers as they most often are, for some readers.
        for number in 0..20_000u64 {
            for reader in 0..4 {
                let hash = super::hashed(super::scattered(reader), &number.to_le_bytes());
                assert!(seen.insert(hash), "{number} for {reader}");
                count += 1;
            }
        }
        assert_eq!(seen.len(), count);
    }

    #[test]
    fn by_placement_only_the_number_of_records_of_each_reader_makes_a_difference() {
        let placement = |records| compared(Compared::Placement, records);
        assert_eq!(placement(&[(0, b"a"), (1, b"b")]), placement(&[(1, b"x"), (0, b"yz")]));
        assert_ne!(placement(&[(0, b"a"), (1, b"b")]), placement(&[(1, b"a"), (1, b"b")]));
        assert_ne!(placement(&[(0, b"a")]), placement(&[(0, b"a"), (0, b"a")]));
        assert_ne!(placement(&[]), 0);
        assert!(Checksum::of(Compared::Nothing).is_none());
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
