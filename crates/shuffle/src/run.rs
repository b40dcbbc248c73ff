//! Runs: records spilled in order and read back one after the other, from a temporary file
//! or from packed blocks in memory.

use std::io::{self, Write};

use firesteel_closure::Data;
use firesteel_storage::TempFile;

use crate::codec::{BLOCK_BYTES, BlockWriter};
use crate::index::Index;
use crate::output::MapOutput;
use crate::{Codec, Scratch, Slice, SpillError, spilled};

const WRITE_BUFFER: usize = 256 * 1024;

/// Writes `records` to a temporary file, which lives as long as the slice.
pub fn write_run<'a, T: Data>(
    scratch: &Scratch,
    records: impl Iterator<Item = &'a T>,
) -> Result<Slice, SpillError> {
    let mut writer = RunWriter::create(scratch, "run")?;
    for record in records {
        writer.push(record)?;
    }
    let raw = writer.raw_bytes();
    let slice = writer.finish()?;
    spilled::note(raw, slice.bytes());
    Ok(slice)
}

/// Records on their way into a temporary file.
pub struct RunWriter {
    file: TempFile,
    blocks: Blocks,
}

impl RunWriter {
    /// A new file, named after its purpose.
    pub fn create(scratch: &Scratch, purpose: &str) -> Result<Self, SpillError> {
        let file = scratch.dirs().create_file(purpose)?;
        Ok(RunWriter { file, blocks: Blocks::new(scratch.codec()) })
    }

    #[inline]
    pub fn push<T: Data>(&mut self, record: &T) -> Result<(), SpillError> {
        self.blocks.push(record, &mut self.file)
    }

    /// Appends all records of a slice.
    pub fn push_all(&mut self, mut slice: Slice) -> Result<(), SpillError> {
        while let Some((run, records)) = slice.next_run().map_err(io::Error::other)? {
            self.blocks.push_encoded(&run, records, &mut self.file)?;
        }
        Ok(())
    }

    /// Bytes of the records so far, before compression.
    pub fn raw_bytes(&self) -> u64 {
        self.blocks.raw_bytes
    }

    /// The records; the file lives as long as the slice.
    pub fn finish(mut self) -> Result<Slice, SpillError> {
        let index = self.blocks.finish(&mut self.file)?;
        let output = MapOutput::in_file(self.file.store(), index);
        Ok(output.slice(0).expect("a run has one segment"))
    }
}

/// Blocks on their way into a file, written some at a time.
struct Blocks {
    writer: BlockWriter,
    pending: Vec<u8>,
    bytes: u64,
    records: u64,
    raw_bytes: u64,
}

impl Blocks {
    fn new(codec: Codec) -> Self {
        let (writer, pending) = (BlockWriter::new(codec), Vec::new());
        Blocks { writer, pending, bytes: 0, records: 0, raw_bytes: 0 }
    }

    #[inline]
    fn push<T: Data>(&mut self, record: &T, file: &mut TempFile) -> Result<(), SpillError> {
        let before = self.writer.raw_len();
        let written = self.writer.push(record, &mut self.pending)?;
        self.records += 1;
        if written == 0 {
            self.raw_bytes += (self.writer.raw_len() - before) as u64;
            return Ok(());
        }
        self.raw_bytes += (BLOCK_BYTES.max(before) - before) as u64;
        Ok(self.note(written, file)?)
    }

    fn push_encoded(
        &mut self,
        encoded: &[u8],
        records: u64,
        file: &mut TempFile,
    ) -> io::Result<()> {
        let written = self.writer.push_encoded(encoded, records, &mut self.pending)?;
        self.records += records;
        self.raw_bytes += encoded.len() as u64;
        self.note(written, file)
    }

    #[cold]
    fn note(&mut self, written: u64, file: &mut TempFile) -> io::Result<()> {
        self.bytes += written;
        if self.pending.len() >= WRITE_BUFFER { self.write_out(file) } else { Ok(()) }
    }

    fn write_out(&mut self, file: &mut TempFile) -> io::Result<()> {
        file.write_all(&self.pending)?;
        self.pending.clear();
        Ok(())
    }

    fn finish(&mut self, file: &mut TempFile) -> io::Result<Index> {
        self.bytes += self.writer.flush(&mut self.pending)?;
        self.write_out(file)?;
        Ok(Index::single(self.bytes, self.records))
    }
}

/// Records on their way into packed blocks in memory.
pub struct PackedWriter {
    writer: BlockWriter,
    blocks: Vec<Box<[u8]>>,
    bytes: u64,
    records: u64,
}

impl PackedWriter {
    /// No records, to be packed with `codec`.
    pub fn new(codec: Codec) -> Self {
        PackedWriter { writer: BlockWriter::new(codec), blocks: Vec::new(), bytes: 0, records: 0 }
    }

    /// Appends a record; whether that closed a block, so that [`PackedWriter::bytes`] has grown.
    #[inline]
    pub fn push<T: Data>(&mut self, record: &T) -> Result<bool, SpillError> {
        let mut block = Vec::new();
        let written = self.writer.push(record, &mut block)?;
        self.records += 1;
        if written > 0 {
            self.keep(block);
        }
        Ok(written > 0)
    }

    #[cold]
    fn keep(&mut self, block: Vec<u8>) {
        self.bytes += (block.len() + size_of::<Box<[u8]>>()) as u64;
        self.blocks.push(block.into_boxed_slice());
    }

    /// What the closed blocks occupy.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Closes the last block and hands the records over.
    pub fn finish(mut self) -> Result<Slice, SpillError> {
        let mut block = Vec::new();
        if self.writer.flush(&mut block)? > 0 {
            self.keep(block);
        }
        Ok(Slice::packed(self.blocks, self.records, self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ReadError, Records};

    fn read(slice: Slice) -> Result<Vec<String>, ReadError> {
        Records::new(slice).collect()
    }

    fn texts(count: u64) -> impl Iterator<Item = String> {
        (0..count).map(|n| format!("text number {n}"))
    }

    #[test]
    fn packed_blocks_and_their_copy_on_disk_give_the_same_records_any_number_of_times() {
        let root = tempfile::tempdir().unwrap();
        let scratch = Scratch::in_directory(root.path(), Codec::Zstd(1));
        for codec in [Codec::None, Codec::Lz4, Codec::Zstd(1)] {
            let mut packed = PackedWriter::new(codec);
            let mut closed = 0;
            for text in texts(20_000) {
                closed += u32::from(packed.push(&text).unwrap());
            }
            assert!(closed > 3 && packed.bytes() > 0);
            let packed = packed.finish().unwrap();
            assert!(!packed.is_on_disk());
            let mut writer = RunWriter::create(&scratch, "copy").unwrap();
            writer.push_all(packed.clone()).unwrap();
            let copy = writer.finish().unwrap();
            assert!(copy.is_on_disk());
            copy.verify().unwrap();
            for slice in [packed.clone(), packed, copy.clone(), copy] {
                assert_eq!(slice.records(), 20_000);
                assert!(read(slice).unwrap().into_iter().eq(texts(20_000)));
            }
        }
    }

    #[test]
    fn what_rots_on_disk_is_noticed_before_anything_is_read() {
        let root = tempfile::tempdir().unwrap();
        let scratch = Scratch::in_directory(root.path(), Codec::Lz4);
        let texts: Vec<String> = texts(9_000).collect();
        let run = write_run(&scratch, texts.iter()).unwrap();
        run.verify().unwrap();
        let path = run.path().unwrap().to_owned();
        let mut bytes = std::fs::read(&path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert!(matches!(run.verify(), Err(ReadError::Corrupt { .. })));
        assert!(spilled::take().disk_bytes > 0);
    }
}
