//! Frames of authenticated connections: a length, a header, and a body that is not looked at.
//!
//! ```text
//! u32 length (little endian) │ header (postcard) │ body, to the end of the frame
//! ```
//!
//! Lengths over the limit are refused before anything is kept, and memory grows with what arrives,
//! never with what a length promises.

use std::io;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::error::RemoteFailure;

/// What stands before each frame.
pub(crate) const LENGTH: usize = 4;
/// Room for a header beside a body of the largest size.
pub(crate) const HEADER_ROOM: usize = 1024;
/// How much memory is asked for at once.
const STEP: usize = 256 << 10;

/// What a frame is.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Header<'a> {
    /// A message for an endpoint; with an id, an answer is wanted. The body is the message.
    Call { id: Option<u64>, endpoint: &'a str },
    /// The answer. The body is the reply.
    Reply { id: u64 },
    /// Answers a request that failed.
    Failure { id: u64, failure: RemoteFailure },
    /// Is there such an endpoint? Answered with an empty reply or a failure.
    Lookup { id: u64, endpoint: &'a str },
    /// So much of the window is free again.
    Credit { amount: u32 },
    /// Nothing to say, but alive. The other side says the same: each may be of another patience.
    Ping,
    /// The answer to that.
    Pong,
}

/// Why the bytes of a peer are not frames.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("a frame of {size} bytes is over the limit of {limit} (spark.rpc.message.maxSize)")]
    TooLarge { size: usize, limit: usize },
    #[error("a frame has no valid header: {0}")]
    Header(#[from] postcard::Error),
    #[error("the connection ended in the middle of a frame")]
    Truncated,
    #[error("nothing arrived for {} (spark.network.timeout)", firesteel_conf::format_duration(*.0))]
    Silent(Duration),
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Writes length and header of a frame whose body has `body` bytes.
pub(crate) fn put_head(out: &mut BytesMut, header: &impl Serialize, body: usize) {
    let start = out.len();
    out.put_u32_le(0);
    let mut writer = std::mem::take(out).writer();
    postcard::to_io(header, &mut writer).expect("headers can be encoded into memory");
    *out = writer.into_inner();
    let length = (out.len() - start - LENGTH + body) as u32;
    out[start..start + LENGTH].copy_from_slice(&length.to_le_bytes());
}

/// Takes a frame off the front of `buffer` when it is there whole.
pub(crate) fn take_frame(buffer: &mut BytesMut, limit: usize) -> Result<Option<Bytes>, FrameError> {
    let Some(head) = buffer.first_chunk::<LENGTH>() else { return Ok(None) };
    let size = u32::from_le_bytes(*head) as usize;
    if size > limit {
        return Err(FrameError::TooLarge { size, limit });
    }
    if buffer.len() < LENGTH + size {
        buffer.reserve((LENGTH + size - buffer.len()).min(STEP));
        return Ok(None);
    }
    buffer.advance(LENGTH);
    Ok(Some(buffer.split_to(size).freeze()))
}

/// Splits a frame into header and body.
pub(crate) fn open(frame: &Bytes) -> Result<(Header<'_>, Bytes), FrameError> {
    let (header, body) = postcard::take_from_bytes(frame)?;
    Ok((header, frame.slice_ref(body)))
}

/// Reads frames from one side of a connection.
pub(crate) struct FrameReader<R> {
    io: R,
    buffer: BytesMut,
    limit: usize,
    silence: Duration,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// Frames of at most `limit` bytes, from a peer that is never silent for longer than `silence`.
    pub(crate) fn new(io: R, limit: usize, silence: Duration) -> Self {
        Self { io, buffer: BytesMut::with_capacity(8 << 10), limit, silence }
    }

    /// The next frame; none when the peer ended the connection between two.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, FrameError> {
        loop {
            if let Some(frame) = take_frame(&mut self.buffer, self.limit)? {
                return Ok(Some(frame));
            }
            if !self.fill().await? {
                let between = self.buffer.is_empty();
                return if between { Ok(None) } else { Err(FrameError::Truncated) };
            }
        }
    }

    /// Reads what there is; false at the end.
    async fn fill(&mut self) -> Result<bool, FrameError> {
        self.buffer.reserve(8 << 10);
        let read = tokio::time::timeout(self.silence, self.io.read_buf(&mut self.buffer)).await;
        Ok(read.map_err(|_| FrameError::Silent(self.silence))?? > 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(header: &Header<'_>, body: &[u8]) -> BytesMut {
        let mut out = BytesMut::new();
        put_head(&mut out, header, body.len());
        out.extend_from_slice(body);
        out
    }

    #[test]
    fn a_length_over_the_limit_is_refused_before_its_bytes_come() {
        let mut buffer = BytesMut::from(&1001_u32.to_le_bytes()[..]);
        let error = take_frame(&mut buffer, 1000).unwrap_err();
        assert!(matches!(error, FrameError::TooLarge { size: 1001, limit: 1000 }));
    }

    #[test]
    fn a_promised_length_takes_no_memory_before_it_comes() {
        let mut buffer = BytesMut::from(&u32::MAX.to_le_bytes()[..]);
        assert!(take_frame(&mut buffer, usize::MAX).unwrap().is_none());
        assert!(buffer.capacity() <= 2 * STEP, "{}", buffer.capacity());
    }

    proptest! {
        #[test]
        fn frames_arrive_as_they_were_sent_however_they_are_cut(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..10),
            cut in 1_usize..50,
        ) {
            let header = |index: usize| match index % 3 {
                0 => Header::Call { id: Some(index as u64), endpoint: "Master" },
                1 => Header::Call { id: None, endpoint: "" },
                _ => Header::Reply { id: 1 << index },
            };
            let frames = bodies.iter().enumerate().map(|(index, body)| encode(&header(index), body));
            let wire: Vec<u8> = frames.flatten().collect();
            let (mut buffer, mut seen) = (BytesMut::new(), 0);
            for piece in wire.chunks(cut) {
                buffer.extend_from_slice(piece);
                while let Some(frame) = take_frame(&mut buffer, 1000).unwrap() {
                    let (found, body) = open(&frame).unwrap();
                    prop_assert_eq!(&found, &header(seen));
                    prop_assert_eq!(&body[..], &bodies[seen][..]);
                    seen += 1;
                }
            }
            prop_assert_eq!((seen, buffer.len()), (bodies.len(), 0));
        }

        #[test]
        fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            crate::fuzzing::frames(&bytes);
            crate::fuzzing::messages(&bytes);
        }
    }
}
