//! Bytes that lie in packed chunks, one after the other, as a reader.

use std::io::{self, Read};

/// A way to pack bytes.
pub(super) trait Chunks {
    /// Unpacks the next chunk that is not empty into `out`, which holds the one before it; `false`: there is none.
    fn next(&mut self, from: &mut dyn Read, out: &mut Vec<u8>) -> io::Result<bool>;
}

/// The bytes of all chunks.
pub(super) struct Unpacked<R, C> {
    from: R,
    chunks: C,
    chunk: Vec<u8>,
    at: usize,
}

impl<R: Read, C: Chunks> Unpacked<R, C> {
    pub(super) fn new(from: R, chunks: C) -> Self {
        Unpacked { from, chunks, chunk: Vec::new(), at: 0 }
    }
}

impl<R: Read, C: Chunks> Read for Unpacked<R, C> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.at == self.chunk.len() {
            self.at = 0;
            match self.chunks.next(&mut self.from, &mut self.chunk) {
                Ok(true) => {}
                other => {
                    self.chunk.clear();
                    return other.map(|_| 0);
                }
            }
        }
        let left = &self.chunk[self.at..];
        let count = left.len().min(to.len());
        to[..count].copy_from_slice(&left[..count]);
        self.at += count;
        Ok(count)
    }
}

/// Fills the buffer; `false`: not a byte was left. An end in the middle is an error.
pub(super) fn is_more(from: &mut dyn Read, buffer: &mut [u8]) -> io::Result<bool> {
    let mut got = 0;
    while got < buffer.len() {
        match from.read(&mut buffer[got..]) {
            Ok(0) if got == 0 => return Ok(false),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(more) => got += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Bytes that nobody packed this way.
pub(super) fn broken(codec: &str, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{codec}: {what}"))
}
