//! One map task's output: a buffer, and an index into it.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// All that one map task wrote for one shuffle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapOutput {
    data: Arc<Vec<u8>>,
    offsets: Arc<Vec<u64>>,
    counts: Arc<Vec<u64>>,
}

impl MapOutput {
    pub(crate) fn new(data: Vec<u8>, offsets: Vec<u64>, counts: Vec<u64>) -> Self {
        MapOutput { data: Arc::new(data), offsets: Arc::new(offsets), counts: Arc::new(counts) }
    }

    /// Bytes of all partitions.
    pub fn bytes(&self) -> u64 {
        self.data.len() as u64
    }

    /// Records of all partitions.
    pub fn records(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The part for reader `partition`; `None` when there is no such reader, or the index is broken.
    pub fn slice(&self, partition: u32) -> Option<Slice> {
        let partition = partition as usize;
        let start = *self.offsets.get(partition)? as usize;
        let end = *self.offsets.get(partition + 1)? as usize;
        let records = *self.counts.get(partition)?;
        let valid = start <= end && end <= self.data.len();
        valid.then(|| Slice { data: self.data.clone(), range: start..end, records })
    }
}

/// One reader's part of a map output.
#[derive(Clone, Debug)]
pub struct Slice {
    data: Arc<Vec<u8>>,
    range: Range<usize>,
    records: u64,
}

impl Slice {
    /// A slice that is a whole buffer, as it arrives from another process.
    pub fn whole(data: Vec<u8>, records: u64) -> Self {
        let range = 0..data.len();
        Slice { data: Arc::new(data), range, records }
    }

    /// Its encoded records.
    pub fn bytes(&self) -> &[u8] {
        &self.data[self.range.clone()]
    }

    /// How many they are.
    pub fn records(&self) -> u64 {
        self.records
    }
}
