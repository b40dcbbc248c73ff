//! Slices on their way between processes: always as blocks with checksums, whatever they were before.
//!
//! What lies in a file goes as it lies there; what lies in memory becomes one block. The receiver checks
//! everything before anybody reads a record, because records that were handed on cannot be taken back.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use firesteel_storage::TempFile;

use crate::codec::{Codec, check_first, write_block};
use crate::index::Index;
use crate::output::{MapOutput, Slice, Source};
use crate::{ReadError, Scratch};

/// One of several blocks that are kept together.
struct Packed(Arc<[Box<[u8]>]>, usize);

impl AsRef<[u8]> for Packed {
    fn as_ref(&self) -> &[u8] {
        &self.0[self.1]
    }
}

impl Slice {
    /// The file its blocks lie in, with where they start and their length.
    pub fn file_range(&self) -> Option<io::Result<(File, u64, u64)>> {
        let Source::File(stored, range, _) = &self.source else { return None };
        let length = range.end - range.start;
        let opened = stored.open(range.start).map_err(|error| io::Error::other(error.to_string()));
        Some(opened.and_then(|file| Ok((file.try_clone()?, range.start, length))))
    }

    /// Its records as blocks, not copied where they lie as blocks in memory.
    pub fn blocks(&self) -> Result<Vec<Bytes>, ReadError> {
        match &self.source {
            Source::Packed(blocks, next) => {
                let shared = |index| Bytes::from_owner(Packed(blocks.clone(), index));
                Ok((*next..blocks.len()).map(shared).collect())
            }
            Source::Blocks(blocks) => Ok(vec![blocks.clone()]),
            Source::Memory(..) | Source::File(..) => {
                let mut blocks = Vec::new();
                self.write_blocks(&mut blocks)?;
                Ok(vec![blocks.into()])
            }
        }
    }

    /// Appends its records to `out` as blocks: as they lie, if they lie as blocks.
    pub fn write_blocks(&self, out: &mut Vec<u8>) -> Result<(), ReadError> {
        match &self.source {
            Source::Memory(stored, range) => {
                let raw = &stored.data[range.start as usize..range.end as usize];
                if self.records == 0 {
                    return Ok(());
                }
                let records = u32::try_from(self.records).map_err(io::Error::other);
                let written = records.and_then(|records| {
                    write_block(Codec::None, raw, records, &mut Vec::new(), out)
                });
                written.map(drop).map_err(ReadError::Memory)
            }
            Source::File(stored, range, _) => {
                let start = out.len();
                let file = stored.open(range.start)?;
                out.resize(start + (range.end - range.start) as usize, 0);
                let read = file.read_exact_at(&mut out[start..], range.start);
                read.map_err(|source| ReadError::Io {
                    path: self.path().unwrap_or(Path::new("")).to_owned(),
                    offset: range.start,
                    source,
                })
            }
            Source::Packed(blocks, next) => {
                blocks[*next..].iter().for_each(|block| out.extend_from_slice(block));
                Ok(())
            }
            Source::Blocks(blocks) => {
                out.extend_from_slice(blocks);
                Ok(())
            }
        }
    }

    /// Blocks of another process, checked where they lie.
    pub fn received(blocks: Bytes) -> Result<Slice, ReadError> {
        let (mut rest, mut records) = (&blocks[..], 0);
        while !rest.is_empty() {
            let (found, length) = check_first(rest)
                .map_err(|error| ReadError::Memory(io::Error::other(error.to_string())))?;
            records += u64::from(found);
            rest = &rest[length..];
        }
        let bytes = blocks.len() as u64;
        Ok(Slice { source: Source::Blocks(blocks), records, bytes })
    }

    /// Blocks of another process that were too many for memory, checked. The file lives as long as
    /// the slice.
    pub fn received_in_file(file: TempFile) -> Result<Slice, ReadError> {
        let index = Index::single(file.length(), 0);
        let output = MapOutput::in_file(file.store(), index);
        let mut slice = output.slice(0).expect("it has one segment");
        slice.records = slice.check()?;
        Ok(slice)
    }
}

impl Scratch {
    /// A file for blocks of another process.
    pub fn file_for_received(&self) -> io::Result<TempFile> {
        self.dirs().create_file("fetched")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buckets, PackedWriter, Records};
    use firesteel_types::TaskId;

    fn output(scratch: &Scratch, records: u64) -> MapOutput {
        let mut buckets = Buckets::new(2, scratch, TaskId(1));
        for record in 0..records {
            buckets.push((record % 2) as u32, &record).unwrap();
        }
        buckets.finish().unwrap()
    }

    fn read(slice: Slice) -> Vec<u64> {
        Records::new(slice).map(|record| record.unwrap()).collect()
    }

    #[test]
    fn slices_of_memory_and_of_files_arrive_as_they_left() {
        let directory = tempfile::tempdir().unwrap();
        let scratch = Scratch::in_directory(directory.path(), Codec::Lz4);
        for records in [0, 7, 2_000_000] {
            let output = output(&scratch, records);
            let slice = output.slice(1).unwrap();
            let mut sent = Vec::new();
            slice.write_blocks(&mut sent).unwrap();
            assert_eq!(slice.blocks().unwrap().concat(), sent);
            if let Some(range) = slice.file_range() {
                let (file, offset, length) = range.unwrap();
                let mut blocks = vec![0; length as usize];
                file.read_exact_at(&mut blocks, offset).unwrap();
                assert_eq!(blocks, sent);
            }
            assert_eq!(output.is_on_disk(), records == 2_000_000);
            let mut file = scratch.file_for_received().unwrap();
            io::Write::write_all(&mut file, &sent).unwrap();
            let arrived = Slice::received(sent.into()).unwrap();
            assert_eq!(arrived.records(), slice.records());
            assert_eq!(read(arrived), read(slice.clone()));
            let arrived = Slice::received_in_file(file).unwrap();
            assert_eq!(arrived.records(), slice.records());
            assert_eq!(read(arrived), read(slice));
        }
    }

    #[test]
    fn packed_blocks_and_received_ones_go_on_without_a_copy() {
        let mut writer = PackedWriter::new(Codec::None);
        for record in 0..100_000u64 {
            writer.push(&record).unwrap();
        }
        let packed = writer.finish().unwrap();
        let parts = packed.blocks().unwrap();
        assert!(parts.len() > 1);
        let again = packed.blocks().unwrap();
        assert!(parts.iter().zip(&again).all(|(a, b)| a.as_ptr() == b.as_ptr()));
        let received = Slice::received(parts.concat().into()).unwrap();
        let [whole] = &received.blocks().unwrap()[..] else { panic!("one part") };
        assert_eq!(whole.as_ptr(), received.blocks().unwrap()[0].as_ptr());
        assert_eq!(read(received), (0..100_000).collect::<Vec<u64>>());
    }

    #[test]
    fn a_flipped_bit_and_a_missing_end_are_found_before_a_record_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let scratch = Scratch::in_directory(directory.path(), Codec::None);
        let mut blocks = Vec::new();
        output(&scratch, 100).slice(0).unwrap().write_blocks(&mut blocks).unwrap();
        for place in 0..blocks.len() {
            let mut broken = blocks.clone();
            broken[place] ^= 4;
            assert!(Slice::received(broken.into()).is_err(), "{place}");
        }
        blocks.pop();
        assert!(Slice::received(blocks.into()).is_err());
    }
}
