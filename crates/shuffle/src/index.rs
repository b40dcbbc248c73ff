//! Where each reader's blocks lie in a map output.
//!
//! Readers' parts lie one after the other, so their lengths say where. Lengths and numbers of records are varints,
//! a few bytes a reader: with 10,000 readers of 10,000 map outputs, every byte is 100 MB. To find a part, nobody adds
//! up more than [`STEP`] lengths.

use crate::Scratch;
use crate::scratch::PinnedMemory;

/// From one known offset to the next.
const STEP: usize = 32;

/// Where one reader's blocks lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) records: u64,
}

/// Where the blocks of all readers lie.
#[derive(Default)]
pub(crate) struct Index {
    readers: u32,
    /// Sums over all readers.
    bytes: u64,
    records: u64,
    /// Bytes and records of each reader, as varints.
    lengths: Box<[u8]>,
    steps: Box<[Step]>,
    _pinned: Option<PinnedMemory>,
}

/// What is known at every so-manieth reader.
#[derive(Clone, Copy)]
struct Step {
    /// Where its blocks begin.
    offset: u64,
    /// Where its lengths begin.
    position: u32,
}

/// An index that is being written.
#[derive(Default)]
pub(crate) struct IndexWriter {
    index: Index,
    lengths: Vec<u8>,
    steps: Vec<Step>,
}

impl IndexWriter {
    /// Adds the next reader.
    pub(crate) fn push(&mut self, bytes: u64, records: u64) {
        let index = &mut self.index;
        if (index.readers as usize).is_multiple_of(STEP) {
            let position = u32::try_from(self.lengths.len()).expect("fewer readers than that");
            self.steps.push(Step { offset: index.bytes, position });
        }
        put_varint(&mut self.lengths, bytes);
        put_varint(&mut self.lengths, records);
        index.readers += 1;
        index.bytes += bytes;
        index.records += records;
    }

    /// Off the books: for one that is sent elsewhere, or has one reader.
    pub(crate) fn finish_uncounted(self) -> Index {
        let IndexWriter { index, lengths, steps } = self;
        Index { lengths: lengths.into(), steps: steps.into(), ..index }
    }

    /// On the books, for as long as it lives.
    pub(crate) fn finish(self, scratch: &Scratch) -> Index {
        let index = self.finish_uncounted();
        let pinned = scratch.pin_at_any_rate(index.held_bytes());
        Index { _pinned: Some(pinned), ..index }
    }
}

impl Index {
    /// Of an output with one reader.
    pub(crate) fn single(bytes: u64, records: u64) -> Self {
        let mut writer = IndexWriter::default();
        writer.push(bytes, records);
        writer.finish_uncounted()
    }

    /// The same, on the books of this process.
    pub(crate) fn counted(&self, scratch: &Scratch) -> Self {
        Index {
            lengths: self.lengths.clone(),
            steps: self.steps.clone(),
            _pinned: Some(scratch.pin_at_any_rate(self.held_bytes())),
            ..*self
        }
    }

    fn held_bytes(&self) -> u64 {
        (self.lengths.len() + size_of_val(&*self.steps)) as u64
    }

    /// Bytes of the whole map output, all readers' together.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Records of the whole map output, all readers' together.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// The part of one reader, if there is such a one.
    pub(crate) fn get(&self, reader: u32) -> Option<Segment> {
        let skipped = reader as usize % STEP;
        (reader < self.readers).then(|| self.after_step(reader as usize / STEP).nth(skipped))?
    }

    /// All parts, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Segment> {
        self.after_step(0).take(self.readers as usize)
    }

    /// The parts from a step on.
    fn after_step(&self, step: usize) -> impl Iterator<Item = Segment> {
        let first = self.steps.get(step).copied();
        let position = first.map_or(self.lengths.len(), |step| step.position as usize);
        let mut offset = first.map_or(0, |step| step.offset);
        let mut lengths = &self.lengths[position..];
        std::iter::from_fn(move || {
            let (bytes, records) = (take_varint(&mut lengths)?, take_varint(&mut lengths)?);
            let segment = Segment { offset, bytes, records };
            offset += bytes;
            Some(segment)
        })
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[inline]
fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let (mut value, mut shift) = (0, 0);
    loop {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if *first < 0x80 {
            return Some(value);
        }
        shift += 7;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use firesteel_storage::{LocalDirs, MemoryManager};
    use firesteel_types::TaskId;
    use proptest::prelude::*;

    use super::*;
    use crate::{Buckets, Codec, Records};

    fn plain(lengths: &[(u64, u64)]) -> Vec<Segment> {
        let mut offset = 0;
        let segment = |&(bytes, records): &(u64, u64)| {
            let segment = Segment { offset, bytes, records };
            offset += bytes;
            segment
        };
        lengths.iter().map(segment).collect()
    }

    proptest! {
        #[test]
        fn every_part_is_found_where_the_plain_list_has_it(
            lengths in prop::collection::vec((0u64..=1 << 40, prop_oneof![0u64..200, any::<u64>()
                .prop_map(|records| records >> 8)]), 0..300)
        ) {
            let mut writer = IndexWriter::default();
            lengths.iter().for_each(|(bytes, records)| writer.push(*bytes, *records));
            let (index, expected) = (writer.finish_uncounted(), plain(&lengths));
            prop_assert_eq!(index.readers as usize, lengths.len());
            prop_assert_eq!(index.bytes(), expected.iter().map(|segment| segment.bytes).sum::<u64>());
            let records = expected.iter().map(|segment| segment.records).sum::<u64>();
            prop_assert_eq!(index.records(), records);
            let found: Vec<_> = (0..lengths.len() as u32).filter_map(|n| index.get(n)).collect();
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!(index.iter().collect::<Vec<_>>(), expected);
            prop_assert!(index.get(lengths.len() as u32).is_none());
        }
    }

    #[test]
    fn ten_thousand_readers_take_about_five_bytes_each_and_all_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let scratch = Scratch::in_directory(directory.path(), Codec::None);
        let mut writer = IndexWriter::default();
        // A map output of 300 MB.
        (0..10_000u64).for_each(|reader| writer.push(30_000 + reader % 977, reader % 200));
        let index = writer.finish(&scratch);
        assert!(index.held_bytes() <= 50_000, "{}", index.held_bytes());
        assert!(scratch.memory().used().0 >= index.held_bytes());
        let copy = index.counted(&scratch);
        assert_eq!(scratch.memory().used().0, index.held_bytes() + copy.held_bytes());
        assert_eq!(copy.get(9_999), index.get(9_999));
        drop((index, copy));
        assert_eq!(scratch.memory().used().0, 0);
    }

    #[test]
    fn indexes_of_spills_and_outputs_are_on_the_books_and_every_record_is_where_it_belongs() {
        const READERS: u32 = 10_000;
        let directory = tempfile::tempdir().unwrap();
        let dirs = LocalDirs::new(vec![directory.path().to_owned()]);
        let memory = Arc::new(MemoryManager::new(2 << 20, 0.5));
        let scratch = Scratch::new(memory.clone(), Arc::new(dirs), Codec::None);
        let mut buckets = Buckets::new(READERS, &scratch, TaskId(1));
        for record in 0..1_600_000u32 {
            buckets.push(record % READERS, &record).unwrap();
        }
        let (spills, counted) = (buckets.spills() as u64, memory.used().0);
        assert!(spills > 1);
        assert!(counted >= 2 * u64::from(READERS) * spills, "{counted} for {spills} spills");
        assert!(counted <= 5 * u64::from(READERS) * spills, "{counted} for {spills} spills");
        let output = buckets.finish().unwrap();
        assert!((20_000..=50_000).contains(&memory.used().0), "{:?}", memory.used());
        for reader in [0, 31, 32, 5_000, READERS - 1] {
            let records = Records::new(output.slice(reader).unwrap()).map(Result::unwrap);
            let expected = (0..160).map(|n| reader + n * READERS);
            assert_eq!(records.collect::<Vec<u32>>(), expected.collect::<Vec<_>>());
        }
        drop(output);
        assert_eq!(memory.used().0, 0);
    }
}
