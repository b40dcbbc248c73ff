//! The serving side of streams: one after the other over each connection.
//!
//! A file goes from the disk to a plain socket inside the kernel (`sendfile`); over TLS, and where the
//! system has no such call, it is read and written. Both on threads that may block.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWriteExt};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::{
    DATA, FAILED, MAX_CONTROL, OpenError, PIECE, PIECE_HEAD, Request, Response, StreamBody,
};
use crate::address::RpcAddress;
use crate::endpoint::Peer;
use crate::env::Inner;
use crate::frame::{self, FrameReader};
use crate::net::OwnedWriteHalf;
use crate::socket::{Accepted, BoxedWriter, Socket};

/// Serves streams over an accepted connection, to its end.
pub(crate) async fn serve(accepted: Accepted, address: RpcAddress, env: Arc<Inner>) {
    let peer = env.peer(address, &accepted.identity, false);
    let served = async {
        match accepted.socket {
            Socket::Plain(stream) => {
                let (reader, writer) = stream.into_split();
                requests(reader, Writer::Plain(writer), &peer, &env).await
            }
            tls @ Socket::Tls(_) => {
                let (reader, writer) = tls.split();
                requests(reader, Writer::Tls(writer), &peer, &env).await
            }
        }
    };
    tokio::select! {
        ended = served => if let Err(error) = ended {
            tracing::debug!(peer = %peer.address, %error, "a connection for streams ended");
        },
        () = env.killed.cancelled() => {}
    }
}

async fn requests(
    reader: impl AsyncRead + Unpin,
    mut writer: Writer,
    peer: &Peer,
    env: &Arc<Inner>,
) -> io::Result<()> {
    let patience = env.options.network_timeout;
    let mut frames = FrameReader::new(reader, MAX_CONTROL, patience);
    loop {
        let next = tokio::select! {
            next = frames.next() => next.map_err(io::Error::other)?,
            () = env.closing.cancelled() => None,
        };
        let Some(frame) = next else { return Ok(()) };
        let request: Request<'_> = postcard::from_bytes(&frame).map_err(io::Error::other)?;
        let opened = open(request.id.to_owned(), peer.clone(), env).await;
        writer = answer(writer, opened, env).await?;
    }
}

async fn open(id: String, peer: Peer, env: &Inner) -> Result<StreamBody, OpenError> {
    let source = env.source.read().expect("no panic while it is locked").clone();
    let source = source.ok_or(OpenError::Missing)?;
    let opened = spawn_blocking(move || source.open(&id, &peer)).await;
    opened.unwrap_or_else(|panic| Err(OpenError::Failed(io::Error::other(panic))))
}

async fn answer(
    mut writer: Writer,
    opened: Result<StreamBody, OpenError>,
    env: &Arc<Inner>,
) -> io::Result<Writer> {
    let patience = env.options.network_timeout;
    let response = match &opened {
        Ok(body) => Response::Found { length: body.length() },
        Err(OpenError::Missing) => Response::Missing,
        Err(OpenError::Busy) => Response::Busy,
        Err(OpenError::Failed(error)) => Response::Failed { reason: reason(error) },
    };
    let mut head = BytesMut::new();
    frame::put_head(&mut head, &response, 0);
    writer.write(&head, patience).await?;
    match opened {
        Ok(body) => send(writer, body, env).await,
        Err(_) => Ok(writer),
    }
}

async fn send(mut writer: Writer, body: StreamBody, env: &Arc<Inner>) -> io::Result<Writer> {
    let patience = env.options.network_timeout;
    match body {
        StreamBody::Bytes(bytes) => send_bytes(writer, bytes, patience).await,
        StreamBody::Parts(parts) => {
            for part in parts {
                writer = send_bytes(writer, part, patience).await?;
            }
            Ok(writer)
        }
        StreamBody::File { file, offset, length } => {
            send_file(writer, Part { file, offset, left: length }, env).await
        }
        StreamBody::Held { body, held: _held } => Box::pin(send(writer, *body, env)).await,
    }
}

/// What went wrong, short enough for a frame.
fn reason(error: &io::Error) -> String {
    let mut text = error.to_string();
    text.truncate(text.floor_char_boundary(512));
    text
}

fn piece_head(kind: u8, number: usize) -> [u8; PIECE_HEAD] {
    let [a, b, c, d] = (number as u32).to_le_bytes();
    [kind, a, b, c, d]
}

async fn send_bytes(
    mut writer: Writer,
    mut bytes: Bytes,
    patience: Duration,
) -> io::Result<Writer> {
    while !bytes.is_empty() {
        let piece = bytes.split_to(bytes.len().min(PIECE));
        writer.write(&piece_head(DATA, piece.len()), patience).await?;
        writer.write(&piece, patience).await?;
    }
    Ok(writer)
}

/// How many bytes of a file stand behind one head where they are not read into memory.
#[cfg(all(target_os = "linux", not(firesteel_simulated)))]
const FILE_PIECE: u64 = 64 << 20;

/// What of a file is still to be sent.
struct Part {
    file: File,
    offset: u64,
    left: u64,
}

async fn send_file(mut writer: Writer, mut part: Part, env: &Arc<Inner>) -> io::Result<Writer> {
    let patience = env.options.network_timeout;
    while part.left > 0 {
        #[cfg(all(target_os = "linux", not(firesteel_simulated)))]
        if let Writer::Plain(mut socket) = writer {
            let length = part.left.min(FILE_PIECE) as usize;
            socket.write_all(&piece_head(DATA, length)).await?;
            (socket, part) = in_kernel::send(socket, part, length, env).await?;
            writer = Writer::Plain(socket);
            continue;
        }
        let length = part.left.min(PIECE as u64) as usize;
        let (read, rest) = read(part, length).await;
        part = rest;
        match read {
            Ok(bytes) => {
                writer
                    .write(&[&piece_head(DATA, bytes.len())[..], &bytes].concat(), patience)
                    .await?
            }
            Err(error) => {
                let code = error.raw_os_error().unwrap_or(0);
                writer.write(&piece_head(FAILED, code as usize), patience).await?;
                return Err(error);
            }
        }
    }
    Ok(writer)
}

/// Reads exactly `length` bytes, on a thread that may block.
async fn read(mut part: Part, length: usize) -> (io::Result<Vec<u8>>, Part) {
    use std::os::unix::fs::FileExt;
    let reading = spawn_blocking(move || {
        let mut bytes = vec![0; length];
        let read = part.file.read_exact_at(&mut bytes, part.offset);
        part.offset += length as u64;
        part.left -= length as u64;
        (read.map(|()| bytes), part)
    });
    reading.await.expect("reading does not panic, and the runtime outlives its tasks")
}

enum Writer {
    Plain(OwnedWriteHalf),
    Tls(BoxedWriter),
}

impl Writer {
    /// Writes all of it, unless the reader takes nothing for too long.
    async fn write(&mut self, bytes: &[u8], patience: Duration) -> io::Result<()> {
        let writing = async {
            match self {
                Self::Plain(socket) => socket.write_all(bytes).await,
                Self::Tls(socket) => {
                    socket.write_all(bytes).await?;
                    socket.flush().await
                }
            }
        };
        timeout(patience, writing).await.map_err(|_| io::ErrorKind::TimedOut)?
    }
}

#[cfg(all(target_os = "linux", not(firesteel_simulated)))]
mod in_kernel {
    //! From file to socket without a copy in this process.

    use std::io;
    use std::sync::Arc;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use tokio::io::Interest;
    use tokio::net::tcp::OwnedWriteHalf;
    use tokio::time::timeout;
    use tokio_util::sync::CancellationToken;

    use super::{PIECE, Part};
    use crate::env::Inner;

    /// Sends the next `length` bytes of `part`.
    pub(super) async fn send(
        mut socket: OwnedWriteHalf,
        mut part: Part,
        length: usize,
        env: &Arc<Inner>,
    ) -> io::Result<(OwnedWriteHalf, Part)> {
        let patience = env.options.network_timeout;
        let mut unsent = length;
        while unsent > 0 {
            timeout(patience, socket.writable()).await.map_err(|_| io::ErrorKind::TimedOut)??;
            let killed = env.killed.clone();
            let push = move || {
                let sent = push(&socket, &mut part, unsent, &killed);
                (sent, socket, part)
            };
            // Counted, because it has the socket: an environment that has ended has none.
            let pushing = env.tasks.spawn_blocking_on(push, &env.runtime);
            let sent;
            (sent, socket, part) = pushing.await.map_err(io::Error::other)?;
            unsent -= sent?;
        }
        Ok((socket, part))
    }

    /// How long a thread waits for a reader that is nearly fast enough before it is given back.
    const LINGER: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

    /// Sends as much as the socket takes. Reading the disk may block this thread.
    fn push(
        socket: &OwnedWriteHalf,
        part: &mut Part,
        unsent: usize,
        killed: &CancellationToken,
    ) -> io::Result<usize> {
        let mut sent = 0;
        while sent < unsent && !killed.is_cancelled() {
            match copy(socket, part, unsent - sent) {
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock && is_ready_soon(socket)? => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Through tokio, which learns from it that the socket is not ready.
                    let again = || copy(socket, part, unsent - sent);
                    let copied = socket.as_ref().try_io(Interest::WRITABLE, again);
                    sent += copied.or_else(|error| none_if(error, io::ErrorKind::WouldBlock))?;
                    break;
                }
                other => {
                    sent += other.or_else(|error| none_if(error, io::ErrorKind::Interrupted))?
                }
            }
        }
        Ok(sent)
    }

    fn none_if(error: io::Error, kind: io::ErrorKind) -> io::Result<usize> {
        if error.kind() == kind { Ok(0) } else { Err(error) }
    }

    fn copy(socket: &OwnedWriteHalf, part: &mut Part, count: usize) -> io::Result<usize> {
        let count = count.min(PIECE); // so that a kill is noticed
        match rustix::fs::sendfile(socket.as_ref(), &part.file, Some(&mut part.offset), count)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()), // the file became shorter
            copied => {
                part.left -= copied as u64;
                Ok(copied)
            }
        }
    }

    fn is_ready_soon(socket: &OwnedWriteHalf) -> io::Result<bool> {
        let mut watched = [PollFd::new(socket.as_ref(), PollFlags::OUT)];
        match poll(&mut watched, Some(&LINGER)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}
