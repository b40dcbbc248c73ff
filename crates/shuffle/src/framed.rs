//! Records in blocks as a stream of their own, for files that outlive the program: with an end that tells
//! whether all is there.
//!
//! ```text
//! stream := block* end        end := a block of no records that holds the number of all, u64
//! ```

use std::io::{self, Read, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use firesteel_closure::{Data, Taker, WireError};

use crate::codec::{Block, BlockError, BlockWriter, Codec, read_block, write_block};
use crate::{ReadError, SpillError};

/// Writes a stream of records.
pub struct FramedWriter<W> {
    out: W,
    blocks: BlockWriter,
    records: u64,
}

impl<W: Write> FramedWriter<W> {
    pub fn new(out: W, codec: Codec) -> Self {
        FramedWriter { out, blocks: BlockWriter::new(codec), records: 0 }
    }

    pub fn push<T: Data>(&mut self, record: &T) -> Result<(), SpillError> {
        self.blocks.push(record, &mut self.out)?;
        self.records += 1;
        Ok(())
    }

    /// Writes what is left and the end.
    pub fn finish(mut self) -> io::Result<W> {
        self.blocks.flush(&mut self.out)?;
        let total = self.records.to_le_bytes();
        write_block(Codec::None, &total, 0, &mut Vec::new(), &mut self.out)?;
        Ok(self.out)
    }
}

/// Reads a stream of records. Ends after the first error.
pub struct FramedReader<R, T> {
    input: R,
    path: PathBuf,
    offset: u64,
    taker: Taker,
    block: Block,
    position: usize,
    left: u32,
    records: u64,
    done: bool,
    item: PhantomData<fn() -> T>,
}

impl<R: Read, T: Data> FramedReader<R, T> {
    /// Reads `input`, the file `path` from `offset` on.
    pub fn new(input: R, path: &Path, offset: u64) -> Self {
        FramedReader {
            input,
            path: path.to_owned(),
            offset,
            taker: Taker::of::<T>(),
            block: Block { raw: Vec::new(), records: 0 },
            position: 0,
            left: 0,
            records: 0,
            done: false,
            item: PhantomData,
        }
    }

    /// Goes to the next block; whether there is one.
    #[cold]
    fn advance(&mut self) -> Result<bool, ReadError> {
        if self.position < self.block.raw.len() {
            return Err(WireError::Unread { type_name: std::any::type_name::<T>() }.into());
        }
        let input = &mut self.input;
        let (block, read) =
            read_block(|buffer| input.read_exact(buffer)).map_err(|error| match error {
                BlockError::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.corrupt("no end: the file was cut off")
                }
                BlockError::Io(source) => {
                    let (path, offset) = (self.path.clone(), self.offset);
                    ReadError::Io { path, offset, source }
                }
                BlockError::Corrupt(what) => self.corrupt(what),
            })?;
        if block.records == 0 {
            return self.check_end(&block.raw).map(|()| false);
        }
        self.offset += read;
        (self.position, self.left) = (0, block.records);
        self.block = block;
        Ok(true)
    }

    fn check_end(&mut self, end: &[u8]) -> Result<(), ReadError> {
        if end != self.records.to_le_bytes() {
            return Err(self.corrupt("another number of records before it than it says"));
        }
        let (path, offset) = (self.path.clone(), self.offset);
        let behind = self.input.read(&mut [0]);
        match behind.map_err(|source| ReadError::Io { path, offset, source })? {
            0 => Ok(()),
            _ => Err(self.corrupt("bytes behind the end")),
        }
    }

    fn corrupt(&self, what: &'static str) -> ReadError {
        ReadError::Corrupt { path: self.path.clone(), offset: self.offset, what }
    }

    fn decode(&mut self) -> Result<T, ReadError> {
        let (record, length) = self.taker.take(&self.block.raw[self.position..])?;
        self.position += length;
        self.left -= 1;
        self.records += 1;
        Ok(record)
    }
}

impl<R: Read, T: Data> Iterator for FramedReader<R, T> {
    type Item = Result<T, ReadError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let more = if self.left == 0 { self.advance() } else { Ok(true) };
        let record = match more {
            Ok(true) => Some(self.decode()),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        };
        self.done = !matches!(record, Some(Ok(_)));
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(records: u64) -> Vec<u8> {
        let mut writer = FramedWriter::new(Vec::new(), Codec::Lz4);
        (0..records).for_each(|n| writer.push(&(n, n.to_string())).unwrap());
        writer.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> Result<Vec<(u64, String)>, ReadError> {
        FramedReader::new(bytes, Path::new("a"), 0).collect()
    }

    #[test]
    fn a_stream_has_all_its_records_in_order() {
        for count in [0, 1, 50_000] {
            let records = read(&write(count)).unwrap();
            assert_eq!(records.len() as u64, count);
            assert!(
                records
                    .iter()
                    .enumerate()
                    .all(|(i, (n, text))| i as u64 == *n && *text == n.to_string())
            );
        }
    }

    #[test]
    fn every_cut_also_between_blocks_and_every_flipped_bit_is_noticed() {
        let whole = write(20);
        for position in 0..whole.len() {
            assert!(read(&whole[..position]).is_err(), "cut at {position}");
            let mut broken = whole.clone();
            broken[position] ^= 1;
            assert!(read(&broken).is_err(), "byte {position}");
        }
        let mut longer = whole.clone();
        longer.push(0);
        assert!(read(&longer).is_err());
        let empty = write(0);
        assert!(read(&[&empty[..], &whole].concat()).is_err());
    }
}
