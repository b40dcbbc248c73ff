//! One map task's output: in memory or in a file, with an index by reader.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use firesteel_storage::{StoredFile, is_out_of_files};

use crate::buckets::{Buffer, read_exact_at};
use crate::codec::{BlockError, check_block, read_block, take_first};
use crate::index::{Index, IndexWriter, Segment};
use crate::scratch::PinnedMemory;
use crate::{ReadError, Scratch, SpillError};

/// All that one map task wrote for one shuffle. Cheap to clone; what it occupies goes with the last
/// clone and the last slice.
#[derive(Clone)]
pub struct MapOutput(Stored);

#[derive(Clone)]
enum Stored {
    Memory(Arc<InMemory>),
    File(Arc<InFile>),
}

pub(crate) struct InMemory {
    pub(crate) data: Vec<u8>,
    index: Index,
    _pinned: Option<PinnedMemory>,
}

/// Closed while nobody reads it.
pub(crate) struct InFile {
    file: StoredFile,
    index: Index,
}

impl MapOutput {
    pub(crate) fn in_memory(buffers: Vec<Buffer>, pinned: PinnedMemory, scratch: &Scratch) -> Self {
        let total = buffers.iter().map(|buffer| buffer.bytes.len()).sum();
        let mut data = Vec::with_capacity(total);
        let mut index = IndexWriter::default();
        for buffer in buffers {
            index.push(buffer.bytes.len() as u64, buffer.records);
            data.extend_from_slice(&buffer.bytes);
        }
        let (index, _pinned) = (index.finish(scratch), Some(pinned));
        MapOutput(Stored::Memory(Arc::new(InMemory { data, index, _pinned })))
    }

    pub(crate) fn in_file(file: StoredFile, index: Index) -> Self {
        MapOutput(Stored::File(Arc::new(InFile { file, index })))
    }

    /// The same, within what this process may hold: what came from another process in memory stays there if it
    /// is small, and goes to a file otherwise.
    pub fn stored(self, scratch: &Scratch) -> Result<Self, SpillError> {
        let Stored::Memory(held) = &self.0 else { return Ok(self) };
        if held._pinned.is_some() {
            return Ok(self);
        }
        if let Some(pinned) = scratch.pin_inline(held.data.len() as u64) {
            let InMemory { data, index, .. } = &**held;
            let (data, index, _pinned) = (data.clone(), index.counted(scratch), Some(pinned));
            return Ok(MapOutput(Stored::Memory(Arc::new(InMemory { data, index, _pinned }))));
        }
        let mut file = scratch.dirs().create_file("shuffle")?;
        let (mut index, mut blocks) = (IndexWriter::default(), Vec::new());
        for slice in self.slices() {
            slice.write_blocks(&mut blocks).map_err(io::Error::other)?;
            file.write_all(&blocks)?;
            index.push(blocks.len() as u64, slice.records);
            blocks.clear();
        }
        Ok(MapOutput::in_file(file.store(), index.finish(scratch)))
    }

    fn index(&self) -> &Index {
        match &self.0 {
            Stored::Memory(stored) => &stored.index,
            Stored::File(stored) => &stored.index,
        }
    }

    /// Whether it lies in a file.
    pub fn is_on_disk(&self) -> bool {
        matches!(self.0, Stored::File(_))
    }

    /// Bytes of all partitions.
    pub fn bytes(&self) -> u64 {
        self.index().bytes()
    }

    /// How many bytes there are for each reader, as they are stored.
    pub fn sizes(&self) -> Vec<u64> {
        self.index().iter().map(|segment| segment.bytes).collect()
    }

    /// Records of all partitions.
    pub fn records(&self) -> u64 {
        self.index().records()
    }

    /// The part for reader `partition`; `None` when there is no such reader.
    pub fn slice(&self, partition: u32) -> Option<Slice> {
        self.index().get(partition).map(|segment| self.cut(segment))
    }

    /// The parts of all readers.
    fn slices(&self) -> impl Iterator<Item = Slice> {
        self.index().iter().map(|segment| self.cut(segment))
    }

    fn cut(&self, segment: Segment) -> Slice {
        let range = segment.offset..segment.offset + segment.bytes;
        let source = match &self.0 {
            Stored::Memory(stored) => Source::Memory(stored.clone(), range),
            Stored::File(stored) => Source::File(stored.clone(), range, None),
        };
        Slice { source, records: segment.records, bytes: segment.bytes }
    }
}

impl fmt::Debug for MapOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapOutput")
            .field("on_disk", &self.is_on_disk())
            .field("bytes", &self.bytes())
            .field("records", &self.records())
            .finish()
    }
}

/// Between processes an output travels as the encoded records of each reader.
impl Serialize for MapOutput {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let parts: Result<Vec<_>, ReadError> =
            self.slices().map(|slice| Ok((slice.encoded()?, slice.records()))).collect();
        parts.map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for MapOutput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let parts: Vec<(Vec<u8>, u64)> = Vec::deserialize(deserializer)?;
        let mut data = Vec::new();
        let mut index = IndexWriter::default();
        for (bytes, records) in parts {
            index.push(bytes.len() as u64, records);
            data.extend_from_slice(&bytes);
        }
        let index = index.finish_uncounted();
        Ok(MapOutput(Stored::Memory(Arc::new(InMemory { data, index, _pinned: None }))))
    }
}

/// One reader's part of a map output.
#[derive(Clone)]
pub struct Slice {
    pub(crate) source: Source,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

#[derive(Clone)]
pub(crate) enum Source {
    Memory(Arc<InMemory>, Range<u64>),
    /// A file, and a handle if it is held open.
    File(Arc<InFile>, Range<u64>, Option<Arc<File>>),
    /// Packed blocks, and the next to be read.
    Packed(Arc<[Box<[u8]>]>, usize),
    /// Blocks one after the other, checked: those still to be read.
    Blocks(Bytes),
}

/// Encoded records that lie one after the other, whole, and how many.
pub struct Run {
    bytes: Encoded,
    records: u64,
}

impl Run {
    /// As they were written.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn records(&self) -> u64 {
        self.records
    }
}

/// A run of encoded records in memory.
pub(crate) enum Encoded {
    Shared(Arc<InMemory>, Range<usize>),
    Owned(Bytes),
}

impl std::ops::Deref for Encoded {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Encoded::Shared(stored, range) => &stored.data[range.clone()],
            Encoded::Owned(bytes) => bytes,
        }
    }
}

impl Slice {
    /// A slice that is a whole buffer, as it arrives from another process.
    pub fn whole(data: Vec<u8>, records: u64) -> Self {
        let bytes = data.len() as u64;
        let stored = Arc::new(InMemory { data, index: Index::default(), _pinned: None });
        Slice { source: Source::Memory(stored, 0..bytes), records, bytes }
    }

    pub(crate) fn packed(blocks: Vec<Box<[u8]>>, records: u64, bytes: u64) -> Self {
        Slice { source: Source::Packed(blocks.into(), 0), records, bytes }
    }

    /// The file it lies in, if it does.
    pub fn path(&self) -> Option<&Path> {
        match &self.source {
            Source::File(stored, ..) => Some(stored.file.path()),
            Source::Memory(..) | Source::Packed(..) | Source::Blocks(..) => None,
        }
    }

    /// Whether it lies in a file.
    pub fn is_on_disk(&self) -> bool {
        self.path().is_some()
    }

    /// Reads a file through once, and finds out whether everything in it is as it was written. A reader
    /// that hands records on cannot take them back when a later block turns out to be broken.
    pub fn verify(&self) -> Result<(), ReadError> {
        let Source::File(stored, range, _) = &self.source else { return Ok(()) };
        match self.check()? == self.records {
            true => Ok(()),
            false => Err(ReadError::Corrupt {
                path: stored.file.path().to_owned(),
                offset: range.end,
                what: "another number of records than were written",
            }),
        }
    }

    /// Reads a file through once; the records it holds.
    pub(crate) fn check(&self) -> Result<u64, ReadError> {
        let Source::File(stored, range, held) = &self.source else { return Ok(self.records) };
        let (mut range, mut buffer, mut records) = (range.clone(), Vec::new(), 0);
        while !range.is_empty() {
            let with = |read: &mut dyn FnMut(&mut [u8]) -> _| check_block(read, &mut buffer);
            let found = stored.take(&mut range, held.as_ref(), with)?;
            records += u64::from(found);
        }
        Ok(records)
    }

    /// Opens its file, if it lies in one, and holds it open: what can be read now can be read to the end,
    /// whatever becomes of the file's name.
    pub fn hold_open(&mut self) -> Result<(), ReadError> {
        if let Source::File(stored, range, held) = &mut self.source
            && held.is_none()
        {
            *held = Some(stored.open(range.start)?);
        }
        Ok(())
    }

    pub fn records(&self) -> u64 {
        self.records
    }

    /// How many bytes, as they are stored.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All encoded records, to be sent to another process.
    pub fn encoded(&self) -> Result<Vec<u8>, ReadError> {
        let (mut rest, mut all) = (self.clone(), Vec::new());
        while let Some((bytes, _)) = rest.next_run()? {
            all.extend_from_slice(&bytes);
        }
        Ok(all)
    }

    /// The records as they were encoded, for readers that decode them themselves. Ends after the first error.
    pub fn runs(mut self) -> impl Iterator<Item = Result<Run, ReadError>> {
        std::iter::from_fn(move || {
            let run = self.next_run();
            if run.is_err() {
                self = Slice::whole(Vec::new(), 0);
            }
            run.map(|run| run.map(|(bytes, records)| Run { bytes, records })).transpose()
        })
    }

    /// Takes the next run of records: all that is in memory, or a block of a file.
    pub(crate) fn next_run(&mut self) -> Result<Option<(Encoded, u64)>, ReadError> {
        match &mut self.source {
            Source::Memory(stored, range) => {
                let records = std::mem::take(&mut self.records);
                let taken = range.start as usize..range.end as usize;
                range.start = range.end;
                let run = Encoded::Shared(stored.clone(), taken);
                Ok((records > 0).then_some((run, records)))
            }
            Source::Packed(blocks, next) => {
                let Some(block) = blocks.get(*next) else { return Ok(None) };
                *next += 1;
                let mut bytes: &[u8] = block;
                let read = read_block(|buffer| io::Read::read_exact(&mut bytes, buffer));
                let (block, _) =
                    read.map_err(|error| ReadError::Memory(io::Error::other(error.to_string())))?;
                self.records = self.records.saturating_sub(u64::from(block.records));
                Ok(Some((Encoded::Owned(block.raw.into()), u64::from(block.records))))
            }
            Source::Blocks(blocks) if blocks.is_empty() => Ok(None),
            Source::Blocks(blocks) => {
                let taken = take_first(blocks);
                let (raw, records) = taken
                    .map_err(|error| ReadError::Memory(io::Error::other(error.to_string())))?;
                self.records = self.records.saturating_sub(u64::from(records));
                Ok(Some((Encoded::Owned(raw), u64::from(records))))
            }
            Source::File(_, range, _) if range.is_empty() => Ok(None),
            Source::File(stored, range, held) => {
                let block = stored.take(range, held.as_ref(), |read| read_block(read))?;
                let records = u64::from(block.records);
                self.records = self.records.saturating_sub(records);
                Ok(Some((Encoded::Owned(block.raw.into()), records)))
            }
        }
    }
}

impl InFile {
    /// A handle, to read what lies at `offset`.
    pub(crate) fn open(&self, offset: u64) -> Result<Arc<File>, ReadError> {
        let path = || self.file.path().to_owned();
        self.file.open().map_err(|source| match is_out_of_files(&source) {
            true => ReadError::TooManyFiles { path: path(), source },
            false => ReadError::Io { path: path(), offset, source },
        })
    }

    /// Reads the block at the start of `range` and moves the start behind it.
    fn take<R>(
        &self,
        range: &mut Range<u64>,
        held: Option<&Arc<File>>,
        with: impl FnOnce(&mut dyn FnMut(&mut [u8]) -> io::Result<()>) -> Result<(R, u64), BlockError>,
    ) -> Result<R, ReadError> {
        let opened = match held {
            Some(_) => None,
            None => Some(self.open(range.start)?),
        };
        let file = held.or(opened.as_ref()).expect("one of them is there");
        let mut next = range.start;
        let read = with(&mut |buffer| {
            if next + buffer.len() as u64 > range.end {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            read_exact_at(file, buffer, next)?;
            next += buffer.len() as u64;
            Ok(())
        });
        let (path, offset) = (self.file.path(), range.start);
        let (found, bytes) = read.map_err(|error| match error {
            BlockError::Io(source) => ReadError::Io { path: path.to_owned(), offset, source },
            BlockError::Corrupt(what) => ReadError::Corrupt { path: path.to_owned(), offset, what },
        })?;
        range.start += bytes;
        Ok(found)
    }
}
