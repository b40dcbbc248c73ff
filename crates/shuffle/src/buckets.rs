//! The map side: records sorted into one buffer per reduce partition, spilled when memory is short.

use std::io::{BufWriter, Write};

use serde::Serialize;

use firesteel_closure::{Appender, Data};
use firesteel_storage::{Reservation, StoredFile, TempFile};
use firesteel_types::TaskId;

use crate::checksum::{self, Compared};
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
    compared: Compared,
    /// What the checksum has beside the sums of the readers.
    besides: u64,
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
    /// Of the records seen so far, also of those that were spilled, or how many there are.
    sum: u64,
    /// Where the last record begins, if the sum has yet to see it. One that was only just written is slow to read: its bytes are
    /// still on their way to the cache.
    unseen: usize,
}

/// No record is unseen.
const NONE: usize = usize::MAX;

impl Default for Buffer {
    fn default() -> Self {
        let (bytes, marks) = (Vec::new(), Vec::new());
        Buffer { bytes, records: 0, marks, complete_at: BLOCK_BYTES, sum: 0, unseen: NONE }
    }
}

impl Buffer {
    /// Adds the last record, which ends at `next`, to the sum. The one that begins there waits in its place.
    #[inline(always)]
    fn see_last(&mut self, next: usize) {
        let last = std::mem::replace(&mut self.unseen, next);
        // If there is none, this is more than any short record has, or than there are bytes before it.
        let length = next.wrapping_sub(last);
        let hash = match self.bytes[..next].last_chunk() {
            Some(bytes) if (1..=8).contains(&length) => {
                checksum::of_short(checksum::last_of(bytes, length), length)
            }
            _ => self.hashed(last, next),
        };
        self.sum = self.sum.wrapping_add(hash);
    }

    #[inline(never)]
    fn hashed(&self, last: usize, next: usize) -> u64 {
        if last == NONE { 0 } else { checksum::hashed(&self.bytes[..next], last) }
    }

    /// Leaves no record unseen.
    fn see_all(&mut self) {
        if self.unseen != NONE {
            self.see_last(self.bytes.len());
            self.unseen = NONE;
        }
    }

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
            compared: Compared::Nothing,
            besides: 0,
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
        self.compared = compared;
    }

    /// Whether a checksum is computed.
    pub fn computes_checksum(&self) -> bool {
        self.compared != Compared::Nothing
    }

    /// Adds to the checksum, if one is computed, what records do not tell.
    pub fn add_to_checksum(&mut self, value: u64) {
        self.besides = self.besides.wrapping_add(value);
    }

    /// The checksum so far; 0 if none is computed.
    pub fn checksum(&mut self) -> u64 {
        if !self.computes_checksum() {
            return 0;
        }
        self.buffers.iter_mut().for_each(|buffer| buffer.see_all());
        checksum::of_sums(self.buffers.iter().map(|buffer| buffer.sum), self.besides)
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
        let buffer = &mut self.buffers[partition as usize];
        let (start, capacity) = (buffer.bytes.len(), buffer.bytes.capacity());
        self.appender.append_as::<T, B>(&mut buffer.bytes, record)?;
        match self.compared {
            Compared::Nothing => {}
            Compared::Placement => buffer.sum += 1,
            Compared::Records => buffer.see_last(start),
        }
        self.pushed(partition, capacity, 1)
    }

    /// Appends a combiner, which says nothing about the records that went into it: the checksum is left
    /// alone.
    #[inline]
    pub fn push_combined<T: Data>(&mut self, partition: u32, record: &T) -> Result<(), SpillError> {
        let buffer = &mut self.buffers[partition as usize];
        buffer.see_all();
        let capacity = buffer.bytes.capacity();
        self.appender.append(&mut buffer.bytes, record)?;
        self.pushed(partition, capacity, 1)
    }

    /// Appends a record for a reader that its encoded form and `seed` choose, about evenly.
    pub fn push_by_content<T: Data>(&mut self, seed: u64, record: &T) -> Result<(), SpillError> {
        let mut encoded = std::mem::take(&mut self.encoded);
        encoded.clear();
        self.appender.append(&mut encoded, record)?;
        let partition = checksum::spread(seed, &encoded, self.partitions());
        let pushed = self.push_encoded(partition, &encoded, 1);
        self.encoded = encoded;
        pushed
    }

    /// Appends records for reader `partition` that are encoded already, in a form of the writer's own:
    /// [`Slice::runs`](crate::Slice::runs) gives them back, perhaps joined with others before and after them.
    pub fn push_encoded(
        &mut self,
        partition: u32,
        encoded: &[u8],
        records: u64,
    ) -> Result<(), SpillError> {
        let buffer = &mut self.buffers[partition as usize];
        buffer.see_all();
        buffer.sum = buffer.sum.wrapping_add(match self.compared {
            Compared::Nothing => 0,
            Compared::Placement => records,
            Compared::Records => checksum::hashed(encoded, 0),
        });
        let capacity = buffer.bytes.capacity();
        buffer.bytes.extend_from_slice(encoded);
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
        let mut out = BufWriter::with_capacity(WRITE_BUFFER, file);
        let mut writer = BlockWriter::new(self.scratch.codec());
        let mut index = IndexWriter::default();
        for buffer in &mut self.buffers {
            buffer.see_all();
            let sum = buffer.sum;
            let buffer = std::mem::replace(buffer, Buffer { sum, ..Buffer::default() });
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
