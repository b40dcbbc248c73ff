//! What a map task wrote, as one number that does not depend on the order of its records: two attempts that
//! wrote the same records for the same readers have the same.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;

/// Of the records seen so far. The hash has a fixed seed: it is the same in every process.
#[derive(Default)]
pub(crate) struct Checksum(u64);

impl Checksum {
    /// Adds a record for a reader.
    pub(crate) fn see(&mut self, reader: u32, encoded: &[u8]) {
        self.add(FixedState::with_seed(u64::from(reader)).hash_one(encoded));
    }

    /// Adds a number, in any order.
    pub(crate) fn add(&mut self, value: u64) {
        self.0 = self.0.wrapping_add(value);
    }

    /// Never 0, which stands for no checksum.
    pub(crate) fn value(&self) -> u64 {
        self.0.max(1)
    }

    /// One of `readers`, by what a record holds.
    pub(crate) fn spread(seed: u64, encoded: &[u8], readers: u32) -> u32 {
        let hash = FixedState::with_seed(!seed).hash_one(encoded);
        ((u128::from(hash) * u128::from(readers)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checksum(records: &[(u32, &[u8])]) -> u64 {
        let mut checksum = Checksum::default();
        records.iter().for_each(|(reader, record)| checksum.see(*reader, record));
        checksum.value()
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
