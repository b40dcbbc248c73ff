//! A set of numbers, such as partitions: small where they lie near each other.

use std::collections::BTreeMap;

use crate::weight;

/// Sets of 64 numbers from this one on are looked for: a log may name any partition.
const FAR: usize = 1 << 10;

/// A set of numbers, most of them near others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Bits {
    near: Vec<u64>,
    far: BTreeMap<usize, u64>,
    count: u32,
}

impl Bits {
    /// Whether it is new.
    pub(crate) fn insert(&mut self, number: u32) -> bool {
        let (index, bit) = (number as usize / 64, 1 << (number % 64));
        let word = match index < FAR {
            true => {
                if self.near.len() <= index {
                    self.near.resize(index + 1, 0);
                }
                &mut self.near[index]
            }
            false => self.far.entry(index).or_default(),
        };
        let is_new = *word & bit == 0;
        *word |= bit;
        self.count += u32::from(is_new);
        is_new
    }

    /// Whether it was there.
    pub(crate) fn remove(&mut self, number: u32) -> bool {
        let (index, bit) = (number as usize / 64, 1 << (number % 64));
        let word = match index < FAR {
            true => self.near.get_mut(index),
            false => self.far.get_mut(&index),
        };
        let Some(word) = word else { return false };
        let was_there = *word & bit != 0;
        *word &= !bit;
        self.count -= u32::from(was_there);
        was_there
    }

    /// Bytes that it takes besides its own, roughly.
    pub(crate) fn weight(&self) -> usize {
        size_of_val(&*self.near) + self.far.len() * weight::ENTRY
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u32 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::{Bits, FAR};

    #[test]
    fn every_number_is_new_once() {
        let mut bits = Bits::default();
        for number in [0, 1, 63, 64, (1 << 16) - 1, 1 << 16, 1 << 20, u32::MAX] {
            assert!(!bits.remove(number), "{number}");
            assert!(bits.insert(number) && !bits.insert(number), "{number}");
            assert!(bits.remove(number) && bits.insert(number), "{number}");
        }
        assert_eq!(bits.len(), 8);
        assert!(bits.near.len() <= FAR);
    }
}
