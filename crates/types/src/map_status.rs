//! What a map task tells of the output it wrote.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// With more readers than this, sizes are told as an average.
const MOST_READERS: usize = 2000;

/// What a map task tells of the output it wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapStatus {
    /// A checksum of its records, whatever their order, if they may differ when the task runs again; else 0.
    pub checksum: u64,
    /// How much there is for each reader, about.
    pub sizes: MapOutputSizes,
}

/// How many bytes of a map output there are for each reader, within an eighth; of many readers, for one on average.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MapOutputSizes {
    /// A byte per reader: the highest set bit, and the two bits below it.
    Each(Arc<[u8]>),
    /// So many bytes each.
    Average(u64),
}

impl Default for MapOutputSizes {
    fn default() -> Self {
        MapOutputSizes::Average(0)
    }
}

impl MapOutputSizes {
    /// Of an output with these bytes per reader.
    pub fn new(sizes: &[u64]) -> Self {
        if sizes.len() > MOST_READERS {
            let total: u64 = sizes.iter().sum();
            return MapOutputSizes::Average(total / sizes.len() as u64);
        }
        MapOutputSizes::Each(sizes.iter().map(|bytes| shorten(*bytes)).collect())
    }

    /// Bytes for a reader, about.
    pub fn get(&self, reader: u32) -> u64 {
        match self {
            MapOutputSizes::Each(each) => {
                each.get(reader as usize).map_or(0, |size| lengthen(*size))
            }
            MapOutputSizes::Average(bytes) => *bytes,
        }
    }
}

/// Numbers below 4 are themselves.
fn shorten(bytes: u64) -> u8 {
    if bytes < 4 {
        return bytes as u8;
    }
    let top = 63 - bytes.leading_zeros();
    (top * 4) as u8 - 4 + (bytes >> (top - 2) & 3) as u8
}

/// The middle of what is shortened to this.
fn lengthen(size: u8) -> u64 {
    if size < 4 {
        return size.into();
    }
    let (top, next) = (u32::from(size / 4) + 1, u64::from(size % 4));
    let least = (4 | next) << (top - 2);
    least + (1 << (top - 2)) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_come_back_within_an_eighth_and_nothing_stays_nothing() {
        let mut rng = 88_172_645_463_325_252u64;
        for shift in 0..64 {
            rng ^= rng << 13;
            rng ^= rng >> 7;
            rng ^= rng << 17;
            let bytes = (rng >> shift).min(1 << 60);
            let back = lengthen(shorten(bytes));
            assert!(back.abs_diff(bytes) <= bytes / 8, "{bytes} came back as {back}");
        }
        for small in 0..8 {
            assert_eq!(lengthen(shorten(small)), small);
        }
        let sizes = MapOutputSizes::new(&[0, 100, 5]);
        assert_eq!((sizes.get(0), sizes.get(2), sizes.get(3)), (0, 5, 0));
        let many = MapOutputSizes::new(&vec![10; 2001]);
        assert_eq!((many.get(7), many), (10, MapOutputSizes::Average(10)));
    }
}
