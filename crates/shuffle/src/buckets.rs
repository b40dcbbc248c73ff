//! The map side: records sorted into one buffer per reduce partition, spilled when memory is short.

use std::io::{BufWriter, Write};

use serde::Serialize;

use firesteel_closure::{Appender, Data};
use firesteel_storage::{Reservation, StoredFile, TempFile};
use firesteel_types::TaskId;

use crate::checksum::{Checksum, Compared};
use crate::codec::{BLOCK_BYTES, BlockWriter};
use crate::index::{Index, IndexWriter, Segment};
use crate::output::MapOutput;
use crate::{Scratch, SpillError, spilled};

/// Buffers up to this size in all are not asked for: they are what a task needs to run at all.
const FREE_BYTES: u64 = 1 << 20;
const WRITE_BUFFER: usize = 256 * 1024;
/// Buffers from this size on ask before they grow.
const LARGE_BUFFER: usize = 1 << 20;

/// Buffers of encoded records, one per reduce partition.
pub struct Buckets {
    scratch: Scratch,
    appender: Appender,
    buffers: Vec<Buffer>,
    /// What the buffers occupy.
    capacity: u64,
    reservation: Reservation,
    spills: Vec<Spill>,
    records: u64,
    checksum: Option<Checksum>,
    /// Records that the checksum has yet to see.
    unseen: Vec<Unseen>,
    /// For a record whose reader depends on its encoded form.
    encoded: Vec<u8>,
}

/// Encoded records for one reader, with marks between them about a block's length apart.
#[derive(Clone)]
pub(crate) struct Buffer {
    pub(crate) bytes: Vec<u8>,
    pub(crate) records: u64,
    /// Ends of blocks: length and records so far.
    marks: Vec<(usize, u64)>,
    /// The length from which on the block that was begun is complete.
    complete_at: usize,
}

impl Default for Buffer {
    fn default() -> Self {
        let (bytes, marks) = (Vec::new(), Vec::new());
        Buffer { bytes, records: 0, marks, complete_at: BLOCK_BYTES }
    }
}

impl Buffer {
    /// The records in pieces of about a block each.
    fn pieces(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let end = (self.bytes.len(), self.records);
        let mut from = (0, 0);
        self.marks.iter().copied().chain([end]).filter_map(move |to| {
            let piece = (&self.bytes[from.0..to.0], to.1 - from.1);
            from = to;
            (piece.1 > 0).then_some(piece)
        })
    }
}

/// Where a record lies in the buffer of its reader.
#[derive(Clone, Copy)]
struct Unseen {
    partition: u32,
    length: u32,
    end: usize,
}

/// So many records are shown to the checksum at a time: one that was only just written is slow to read, for its bytes are still
/// on their way to the cache.
const UNSEEN: usize = 64;

struct Spill {
    file: StoredFile,
    index: Index,
}

impl Buckets {
    /// Empty buffers for `partitions` readers.
    pub fn new(partitions: u32, scratch: &Scratch, task: TaskId) -> Self {
        Buckets {
            scratch: scratch.clone(),
            appender: Appender::default(),
            buffers: vec![Buffer::default(); partitions as usize],
            capacity: 0,
            reservation: scratch.reserve(task),
            spills: Vec::new(),
            records: 0,
            checksum: None,
            unseen: Vec::new(),
            encoded: Vec::new(),
        }
    }

    /// How many readers there are.
    pub fn partitions(&self) -> u32 {
        self.buffers.len() as u32
    }

    /// How often buffers were written to disk for want of memory.
    pub fn spills(&self) -> usize {
        self.spills.len()
    }

    /// Records written so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Computes a checksum of the records that are pushed from now on.
    pub fn compute_checksum(&mut self, compared: Compared) {
        self.checksum = Checksum::of(compared, self.partitions());
    }

    /// Whether a checksum is computed.
    pub fn computes_checksum(&self) -> bool {
        self.checksum.is_some()
    }

    /// Adds to the checksum, if one is computed, what records do not tell.
    pub fn add_to_checksum(&mut self, value: u64) {
        if let Some(checksum) = &mut self.checksum {
            checksum.add(value);
        }
    }

    /// The checksum so far; 0 if none is computed.
    pub fn checksum(&mut self) -> u64 {
        self.show_unseen();
        self.checksum.as_ref().map_or(0, Checksum::value)
    }

    /// Lets the checksum see the record that was just appended to the reader's buffer, from `start` on.
    #[inline]
    fn show(&mut self, partition: u32, start: usize) {
        let Some(checksum) = &mut self.checksum else { return };
        if !checksum.is_of_records() {
            return checksum.count(partition, 1);
        }
        let bytes = &self.buffers[partition as usize].bytes;
        let Ok(length) = u32::try_from(bytes.len() - start) else {
            return checksum.see(partition, bytes, start);
        };
        self.unseen.push(Unseen { partition, length, end: bytes.len() });
        if self.unseen.len() == UNSEEN {
            self.show_unseen();
        }
    }

    #[inline(never)]
    fn show_unseen(&mut self) {
        let Some(checksum) = &mut self.checksum else { return };
        for Unseen { partition, length, end } in self.unseen.drain(..) {
            let bytes = &self.buffers[partition as usize].bytes[..end];
            checksum.see(partition, bytes, end - length as usize);
        }
    }

    /// Appends a record for reader `partition`, which must be in range.
    #[inline]
    pub fn push<T: Data>(&mut self, partition: u32, record: &T) -> Result<(), SpillError> {
        self.push_as::<T, T>(partition, record)
    }

    /// Appends a record that is read as a `T`, and is written as one.
    #[inline]
    pub fn push_as<T: Data, B: Serialize>(
        &mut self,
        partition: u32,
        record: &B,
    ) -> Result<(), SpillError> {
        let bytes = &mut self.buffers[partition as usize].bytes;
        let (start, capacity) = (bytes.len(), bytes.capacity());
        self.appender.append_as::<T, B>(bytes, record)?;
        self.show(partition, start);
        self.pushed(partition, capacity, 1)
    }

    /// Appends a combiner, which says nothing about the records that went into it: the checksum is left
    /// alone.
    #[inline]
    pub fn push_combined<T: Data>(&mut self, partition: u32, record: &T) -> Result<(), SpillError> {
        let bytes = &mut self.buffers[partition as usize].bytes;
        let capacity = bytes.capacity();
        self.appender.append(bytes, record)?;
        self.pushed(partition, capacity, 1)
    }

    /// Appends a record for a reader that its encoded form and `seed` choose, about evenly.
    pub fn push_by_content<T: Data>(&mut self, seed: u64, record: &T) -> Result<(), SpillError> {
        let mut encoded = std::mem::take(&mut self.encoded);
        encoded.clear();
        self.appender.append(&mut encoded, record)?;
        let partition = Checksum::spread(seed, &encoded, self.partitions());
        let bytes = &mut self.buffers[partition as usize].bytes;
        let (start, capacity) = (bytes.len(), bytes.capacity());
        bytes.extend_from_slice(&encoded);
        self.encoded = encoded;
        self.show(partition, start);
        self.pushed(partition, capacity, 1)
    }

    /// Appends records for reader `partition` that are encoded already, in a form of the writer's own:
    /// [`Slice::runs`](crate::Slice::runs) gives them back, perhaps joined with others before and after them.
    pub fn push_encoded(
        &mut self,
        partition: u32,
        encoded: &[u8],
        records: u64,
    ) -> Result<(), SpillError> {
        if let Some(checksum) = &mut self.checksum {
            match checksum.is_of_records() {
                true => checksum.see(partition, encoded, 0),
                false => checksum.count(partition, records),
            }
        }
        let bytes = &mut self.buffers[partition as usize].bytes;
        let capacity = bytes.capacity();
        bytes.extend_from_slice(encoded);
        self.pushed(partition, capacity, records)
    }

    /// Books records that were appended to the reader's buffer, which had this capacity before.
    #[inline(always)]
    fn pushed(&mut self, partition: u32, before: usize, records: u64) -> Result<(), SpillError> {
        let buffer = &mut self.buffers[partition as usize];
        buffer.records += records;
        self.records += records;
        if buffer.bytes.len() < buffer.complete_at && buffer.bytes.capacity() == before {
            return Ok(());
        }
        self.grew(partition, before)
    }

    /// The buffer has one more block, or moved to a larger place.
    #[cold]
    #[inline(never)]
    fn grew(&mut self, partition: u32, before: usize) -> Result<(), SpillError> {
        let buffer = &mut self.buffers[partition as usize];
        let is_block = buffer.bytes.len() >= buffer.complete_at;
        if is_block {
            buffer.marks.push((buffer.bytes.len(), buffer.records));
            buffer.complete_at = buffer.bytes.len() + BLOCK_BYTES;
        }
        let grown = buffer.bytes.capacity() - before;
        if grown > 0 {
            self.account(grown as u64)?;
        }
        if is_block { self.prepare(partition) } else { Ok(()) }
    }

    /// Makes room for the next blocks of a large buffer: before it moves to a larger place, there must be
    /// memory for both. A record that is larger than that finds out on its own.
    fn prepare(&mut self, partition: u32) -> Result<(), SpillError> {
        let bytes = &mut self.buffers[partition as usize].bytes;
        let (old, len) = (bytes.capacity(), bytes.len());
        if old < LARGE_BUFFER || old - len >= 2 * BLOCK_BYTES {
            return Ok(());
        }
        let mut allows = |new: &usize| self.reservation.resize(self.capacity + *new as u64);
        let Some(new) = [old * 2, old / 4 * 5].into_iter().find(|new| allows(new)) else {
            return self.spill();
        };
        bytes.reserve_exact(new - len);
        self.capacity += (bytes.capacity() - old) as u64;
        // Less than was granted for the moment.
        self.reservation.resize(self.capacity);
        Ok(())
    }

    fn account(&mut self, grown: u64) -> Result<(), SpillError> {
        self.capacity += grown;
        if self.capacity > FREE_BYTES && !self.reservation.resize(self.capacity) {
            self.spill()?;
        }
        Ok(())
    }

    /// Writes all buffers to a file of their own.
    fn spill(&mut self) -> Result<(), SpillError> {
        let mut file = self.scratch.dirs().create_file("spill")?;
        let capacity = self.capacity;
        let index = self.write_buffers(&mut file)?;
        spilled::note(capacity, index.bytes());
        self.spills.push(Spill { file: file.store(), index });
        Ok(())
    }

    /// Writes all buffers to this file and gives their memory back.
    fn write_buffers(&mut self, file: &mut TempFile) -> Result<Index, SpillError> {
        self.show_unseen();
        let mut out = BufWriter::with_capacity(WRITE_BUFFER, file);
        let mut writer = BlockWriter::new(self.scratch.codec());
        let mut index = IndexWriter::default();
        for buffer in &mut self.buffers {
            let buffer = std::mem::take(buffer);
            let mut bytes = 0;
            for (piece, records) in buffer.pieces() {
                bytes += writer.push_encoded(piece, records, &mut out)?;
            }
            index.push(bytes, buffer.records);
        }
        out.flush()?;
        self.capacity = 0;
        self.reservation.resize(0);
        Ok(index.finish(&self.scratch))
    }

    /// Joins everything into one output: in memory if it is small, else in one file.
    pub fn finish(mut self) -> Result<MapOutput, SpillError> {
        let total: u64 = self.buffers.iter().map(|buffer| buffer.bytes.len() as u64).sum();
        if self.spills.is_empty() {
            if let Some(pinned) = self.scratch.pin_inline(total) {
                return Ok(MapOutput::in_memory(self.buffers, pinned, &self.scratch));
            }
            let mut file = self.scratch.dirs().create_file("shuffle")?;
            let index = self.write_buffers(&mut file)?;
            return Ok(MapOutput::in_file(file.store(), index));
        }
        self.spill()?;
        self.merge_spills()
    }

    /// Copies the blocks of each reader from all spills, one reader after the other.
    fn merge_spills(self) -> Result<MapOutput, SpillError> {
        if let [_] = self.spills[..] {
            let Spill { file, index } = self.spills.into_iter().next().expect("one spill");
            return Ok(MapOutput::in_file(file, index));
        }
        let mut file = self.scratch.dirs().create_file("shuffle")?;
        let mut out = BufWriter::with_capacity(WRITE_BUFFER, &mut file);
        let mut merged = IndexWriter::default();
        let mut copied = vec![0; WRITE_BUFFER];
        let mut parts: Vec<_> = self.spills.iter().map(|spill| spill.index.iter()).collect();
        for _ in 0..self.buffers.len() {
            let (mut bytes, mut records) = (0, 0);
            for (spill, parts) in self.spills.iter().zip(&mut parts) {
                let part = parts.next().expect("a spill has a part for each reader");
                copy(&spill.file, part, &mut copied, &mut out)?;
                bytes += part.bytes;
                records += part.records;
            }
            merged.push(bytes, records);
        }
        out.flush()?;
        drop(out);
        Ok(MapOutput::in_file(file.store(), merged.finish(&self.scratch)))
    }
}

/// Copies a part of a file, through `buffer`: parts may be as large as memory.
fn copy(
    from: &StoredFile,
    part: Segment,
    buffer: &mut [u8],
    out: &mut impl Write,
) -> std::io::Result<()> {
    let (mut offset, end) = (part.offset, part.offset + part.bytes);
    if offset == end {
        return Ok(());
    }
    let from = from.open()?;
    while offset < end {
        let length = (end - offset).min(buffer.len() as u64) as usize;
        read_exact_at(&from, &mut buffer[..length], offset)?;
        out.write_all(&buffer[..length])?;
        offset += length as u64;
    }
    Ok(())
}

pub(crate) fn read_exact_at(
    file: &std::fs::File,
    buffer: &mut [u8],
    offset: u64,
) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}
