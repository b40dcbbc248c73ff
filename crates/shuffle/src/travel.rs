//! Slices on their way between processes: always as blocks with checksums, whatever they were before.
//!
//! What lies in a file goes as it lies there; what lies in memory becomes one block. The receiver checks
//! everything before anybody reads a record, because records that were handed on cannot be taken back.

use std::fs::File;
use std::io;
use std::sync::Arc;

use firesteel_storage::TempFile;

use crate::codec::{Codec, check_block, write_block};
use crate::output::{MapOutput, Segment, Slice, Source};
use crate::{ReadError, Scratch};

impl Slice {
    /// The file its blocks lie in, with where they start and their length.
    pub fn file_range(&self) -> Option<io::Result<(File, u64, u64)>> {
        let Source::File(stored, range) = &self.source else { return None };
        let length = range.end - range.start;
        Some(stored.file().try_clone().map(|file| (file, range.start, length)))
    }

    /// Appends its records to `out` as blocks.
    pub fn write_blocks(&self, out: &mut Vec<u8>) -> Result<(), ReadError> {
        let (mut rest, mut packed) = (self.clone(), Vec::new());
        while let Some((bytes, records)) = rest.next_run()? {
            let records = u32::try_from(records).map_err(io::Error::other);
            let records = records.map_err(ReadError::Memory)?;
            write_block(Codec::None, &bytes, records, &mut packed, out)
                .map_err(ReadError::Memory)?;
        }
        Ok(())
    }

    /// Blocks of another process, checked.
    pub fn received(blocks: Vec<u8>) -> Result<Slice, ReadError> {
        let (mut rest, mut buffer, mut records) = (&blocks[..], Vec::new(), 0);
        while !rest.is_empty() {
            let checked = check_block(|space| io::Read::read_exact(&mut rest, space), &mut buffer);
            let (found, _) =
                checked.map_err(|error| ReadError::Memory(io::Error::other(error.to_string())))?;
            records += u64::from(found);
        }
        let bytes = blocks.len() as u64;
        Ok(Slice { source: Source::Blocks(Arc::new(blocks), 0), records, bytes })
    }

    /// Blocks of another process that were too many for memory, checked. The file lives as long as
    /// the slice.
    pub fn received_in_file(file: TempFile) -> Result<Slice, ReadError> {
        let length = file.file().metadata().map_err(ReadError::Memory)?.len();
        let segment = Segment { offset: 0, bytes: length, records: 0 };
        let output = MapOutput::in_file(file, vec![segment]);
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
    use crate::{Buckets, Records};
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
            let sent = match slice.file_range() {
                None => {
                    let mut blocks = Vec::new();
                    slice.write_blocks(&mut blocks).unwrap();
                    blocks
                }
                Some(range) => {
                    let (file, offset, length) = range.unwrap();
                    let mut blocks = vec![0; length as usize];
                    std::os::unix::fs::FileExt::read_exact_at(&file, &mut blocks, offset).unwrap();
                    blocks
                }
            };
            assert_eq!(output.is_on_disk(), records == 2_000_000);
            let file = scratch.file_for_received().unwrap();
            io::Write::write_all(&mut file.file(), &sent).unwrap();
            let arrived = Slice::received(sent).unwrap();
            assert_eq!(arrived.records(), slice.records());
            assert_eq!(read(arrived), read(slice.clone()));
            let arrived = Slice::received_in_file(file).unwrap();
            assert_eq!(arrived.records(), slice.records());
            assert_eq!(read(arrived), read(slice));
        }
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
            assert!(Slice::received(broken).is_err(), "{place}");
        }
        blocks.pop();
        assert!(Slice::received(blocks).is_err());
    }
}
