//! The map side: records sorted into one buffer per reduce partition.

use postcard::ser_flavors::Flavor;
use serde::Serialize;

use firesteel_closure::WireError;

use crate::MapOutput;

/// Buffers of encoded records, one per reduce partition.
#[derive(Debug)]
pub struct Buckets {
    buffers: Vec<Vec<u8>>,
    counts: Vec<u64>,
}

impl Buckets {
    /// Empty buffers for `partitions` readers.
    pub fn new(partitions: u32) -> Self {
        Buckets {
            buffers: vec![Vec::new(); partitions as usize],
            counts: vec![0; partitions as usize],
        }
    }

    /// How many readers there are.
    pub fn partitions(&self) -> u32 {
        self.buffers.len() as u32
    }

    /// Appends a record for reader `partition`, which must be in range.
    #[inline]
    pub fn push<T: Serialize>(&mut self, partition: u32, record: &T) -> Result<(), WireError> {
        let buffer = &mut self.buffers[partition as usize];
        postcard::serialize_with_flavor(record, Append(buffer)).map_err(|source| {
            WireError::Encode { type_name: std::any::type_name::<T>(), source }
        })?;
        self.counts[partition as usize] += 1;
        Ok(())
    }

    /// Records written so far.
    pub fn records(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Joins the buffers into one output.
    pub fn finish(self) -> MapOutput {
        let total = self.buffers.iter().map(Vec::len).sum();
        let mut data = Vec::with_capacity(total);
        let mut offsets = Vec::with_capacity(self.buffers.len() + 1);
        offsets.push(0);
        for buffer in self.buffers {
            data.extend_from_slice(&buffer);
            offsets.push(data.len() as u64);
        }
        MapOutput::new(data, offsets, self.counts)
    }
}

/// Writes straight into a buffer that is kept.
struct Append<'a>(&'a mut Vec<u8>);

impl Flavor for Append<'_> {
    type Output = ();

    #[inline(always)]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    #[inline(always)]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}
