//! HyperLogLog: how many different items there are, in a few kilobytes.

use std::hash::{BuildHasher, Hash};

use foldhash::quality::FixedState;
use serde::{Deserialize, Serialize};

/// Registers of the longest run of leading zeros seen, by the hash's first bits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HyperLogLog {
    precision: u8,
    registers: Vec<u8>,
}

impl HyperLogLog {
    /// With `2^precision` registers, 4 to 18.
    pub fn new(precision: u8) -> Self {
        let precision = precision.clamp(4, 18);
        HyperLogLog { precision, registers: vec![0; 1 << precision] }
    }

    /// The precision for a relative standard deviation, e.g. 0.05.
    pub fn precision_for(relative_sd: f64) -> u8 {
        (2.0 * (1.04 / relative_sd).log2()).ceil().clamp(4.0, 18.0) as u8
    }

    /// Counts one more item; equal items count once.
    #[inline]
    pub fn insert<T: Hash>(&mut self, item: &T) {
        let hash = FixedState::with_seed(0x68_6c6c).hash_one(item);
        let index = (hash >> (64 - self.precision)) as usize;
        let rest = hash << self.precision | 1 << (self.precision - 1);
        let rank = rest.leading_zeros() as u8 + 1;
        self.registers[index] = self.registers[index].max(rank);
    }

    /// The items of two sketches of one precision.
    pub fn merge(mut self, other: HyperLogLog) -> HyperLogLog {
        debug_assert_eq!(self.precision, other.precision);
        for (mine, theirs) in self.registers.iter_mut().zip(other.registers) {
            *mine = (*mine).max(theirs);
        }
        self
    }

    /// About how many different items there were.
    pub fn estimate(&self) -> u64 {
        let m = self.registers.len() as f64;
        let alpha = match self.registers.len() {
            16 => 0.673,
            32 => 0.697,
            64 => 0.709,
            _ => 0.7213 / (1.0 + 1.079 / m),
        };
        let sum: f64 = self.registers.iter().map(|rank| 2f64.powi(-i32::from(*rank))).sum();
        let raw = alpha * m * m / sum;
        let empty = self.registers.iter().filter(|rank| **rank == 0).count();
        let linear = raw <= 2.5 * m && empty > 0;
        (if linear { m * (m / empty as f64).ln() } else { raw }).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_stay_within_a_few_standard_deviations() {
        for count in [0u64, 1, 100, 10_000, 1_000_000] {
            let mut halves = [HyperLogLog::new(12), HyperLogLog::new(12)];
            (0..count).for_each(|n| halves[(n % 2) as usize].insert(&n));
            (0..count / 2).for_each(|n| halves[0].insert(&n)); // seen before
            let [a, b] = halves;
            let estimate = a.merge(b).estimate() as f64;
            assert!((estimate - count as f64).abs() <= count as f64 * 0.06, "{count}: {estimate}");
        }
    }

    #[test]
    fn precision_follows_the_wanted_deviation() {
        assert_eq!(HyperLogLog::precision_for(0.05), 9);
        assert_eq!(HyperLogLog::precision_for(0.000001), 18);
        assert_eq!(HyperLogLog::precision_for(0.9), 4);
    }
}
