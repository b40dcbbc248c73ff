//! The reading side of streams, with connections that are used again.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::{DATA, FAILED, MAX_CONTROL, MAX_STREAM_ID, PIECE_HEAD, Request, Response, StreamError};
use crate::RpcError;
use crate::address::RpcAddress;
use crate::env::Inner;
use crate::frame;
use crate::handshake::Channel;
use crate::socket::{self, BoxedReader, BoxedWriter};

/// Reads streams of other environments.
#[derive(Debug)]
pub struct StreamClient {
    env: Weak<Inner>,
    peers: Mutex<HashMap<RpcAddress, Arc<Pool>>>,
}

/// The connections to one peer.
#[derive(Debug)]
struct Pool {
    places: Arc<Semaphore>,
    idle: Mutex<Vec<(Instant, Connection)>>,
}

struct Connection {
    reader: BufReader<BoxedReader>,
    writer: BoxedWriter,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connection")
    }
}

impl Pool {
    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<(Instant, Connection)>> {
        self.idle.lock().expect("no panic while it is locked")
    }
}

impl StreamClient {
    pub(crate) fn new(env: &Arc<Inner>) -> Self {
        Self { env: Arc::downgrade(env), peers: Mutex::default() }
    }

    /// Opens a stream of at most `limit` bytes. Waits while as many run from this peer as may.
    pub async fn open(
        &self,
        address: &RpcAddress,
        id: &str,
        limit: u64,
    ) -> Result<IncomingStream, StreamError> {
        if id.len() > MAX_STREAM_ID {
            return Err(StreamError::LongId { length: id.len() });
        }
        let env = self.env.upgrade().ok_or(RpcError::EnvStopped)?;
        let pool = self.pool(address, &env);
        let place = pool.places.clone().acquire_owned().await.map_err(|_| RpcError::EnvStopped)?;
        let request = StreamRequest { address: address.clone(), id: id.to_owned(), limit };
        let (response, connection) = request.ask(&pool, &env).await?;
        let patience = env.options.network_timeout;
        let length = match request.judge(response) {
            Ok(length) => length,
            Err(error @ StreamError::TooLarge { .. }) => return Err(error), // its bytes are on their way
            Err(error) => {
                pool.idle().push((Instant::now(), connection));
                return Err(error);
            }
        };
        let mut stream = IncomingStream {
            asked: request,
            length,
            left: length,
            piece: 0,
            head: Head::default(),
            connection: Some(connection),
            pool,
            place: Some(place),
            patience,
            alarm: Box::pin(sleep(patience)),
        };
        stream.give_back_at_end();
        Ok(stream)
    }

    /// Reads a whole stream of at most `limit` bytes into memory.
    pub async fn read(
        &self,
        address: &RpcAddress,
        id: &str,
        limit: u64,
    ) -> Result<Vec<u8>, StreamError> {
        let stream = self.open(address, id, limit).await?;
        let mut bytes = Vec::new(); // grows with what arrives, not with what was promised
        stream.copy_to(&mut bytes).await?;
        Ok(bytes)
    }

    /// The connections to a peer; those idle for too long are closed on the way.
    fn pool(&self, address: &RpcAddress, env: &Inner) -> Arc<Pool> {
        let mut peers = self.peers.lock().expect("no panic while it is locked");
        let fresh = env.options.network_timeout / 2;
        peers.retain(|_, pool| {
            pool.idle().retain(|(since, _)| since.elapsed() < fresh);
            Arc::strong_count(pool) > 1 || !pool.idle().is_empty()
        });
        let new = || {
            let places = Arc::new(Semaphore::new(env.options.stream_connections));
            Arc::new(Pool { places, idle: Mutex::default() })
        };
        peers.entry(address.clone()).or_insert_with(new).clone()
    }

    pub(crate) fn close(&self) {
        for (_, pool) in self.peers.lock().expect("no panic while it is locked").drain() {
            pool.places.close();
            pool.idle().clear();
        }
    }
}

/// Which stream, of which process, and how many bytes at most.
#[derive(Debug)]
struct StreamRequest {
    address: RpcAddress,
    id: String,
    limit: u64,
}

impl StreamRequest {
    fn broken(&self, source: io::Error) -> StreamError {
        StreamError::Broken { id: self.id.clone(), address: self.address.clone(), source }
    }

    /// The failure of a source half way, which is told as the system's number for it.
    fn failed(&self, code: u32) -> StreamError {
        let reason = match code {
            0 => "it became shorter while it was read".to_owned(),
            code => io::Error::from_raw_os_error(code as i32).to_string(),
        };
        StreamError::Failed { id: self.id.clone(), address: self.address.clone(), reason }
    }

    /// Sends the request over an idle connection, or a new one. An idle one may have been closed by
    /// the peer meanwhile, which only shows when it is used.
    async fn ask(&self, pool: &Pool, env: &Inner) -> Result<(Response, Connection), StreamError> {
        let idle = pool.idle().pop();
        if let Some((_, mut connection)) = idle
            && let Ok(response) = self.exchange(&mut connection, env).await
        {
            return Ok((response, connection));
        }
        let socket = tokio::select! {
            socket = socket::dial(&self.address, Channel::Streams, &env.options) => socket?,
            () = env.killed.cancelled() => return Err(RpcError::EnvStopped.into()),
        };
        let (reader, writer) = socket.split();
        let reader = BufReader::with_capacity(64 << 10, reader);
        let mut connection = Connection { reader, writer };
        let exchanged = self.exchange(&mut connection, env).await;
        Ok((exchanged.map_err(|error| self.broken(error))?, connection))
    }

    async fn exchange(&self, connection: &mut Connection, env: &Inner) -> io::Result<Response> {
        let mut request = BytesMut::new();
        frame::put_head(&mut request, &Request { id: &self.id }, 0);
        let exchanged = timeout(env.options.network_timeout, async {
            connection.writer.write_all(&request).await?;
            connection.writer.flush().await?;
            read_response(&mut connection.reader).await
        });
        exchanged.await.map_err(|_| io::ErrorKind::TimedOut)?
    }

    /// The length to read, or why not.
    fn judge(&self, response: Response) -> Result<u64, StreamError> {
        let (id, address) = (self.id.clone(), self.address.clone());
        match response {
            Response::Found { length } if length > self.limit => {
                Err(StreamError::TooLarge { id, address, length, limit: self.limit })
            }
            Response::Found { length } => Ok(length),
            Response::Missing => Err(StreamError::Missing { id, address }),
            Response::Busy => Err(StreamError::Busy { id, address }),
            Response::Failed { reason } => Err(StreamError::Failed { id, address, reason }),
        }
    }
}

async fn read_response(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Response> {
    let length = reader.read_u32_le().await? as usize;
    if length > MAX_CONTROL {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a response of impossible length"));
    }
    let mut frame = vec![0; length];
    reader.read_exact(&mut frame).await?;
    postcard::from_bytes(&frame).map_err(io::Error::other)
}

/// The head of a piece while it arrives.
#[derive(Debug, Default)]
struct Head {
    bytes: [u8; PIECE_HEAD],
    filled: usize,
}

impl Head {
    fn poll(
        &mut self,
        io: &mut (impl AsyncRead + Unpin),
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(u8, u32)>> {
        while self.filled < PIECE_HEAD {
            let mut space = ReadBuf::new(&mut self.bytes[self.filled..]);
            ready!(Pin::new(&mut *io).poll_read(context, &mut space))?;
            match space.filled().len() {
                0 => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                read => self.filled += read,
            }
        }
        self.filled = 0;
        let [kind, number @ ..] = self.bytes;
        Poll::Ready(Ok((kind, u32::from_le_bytes(number))))
    }
}

/// A stream that is being read. Dropping it cancels it.
#[derive(Debug)]
pub struct IncomingStream {
    asked: StreamRequest,
    length: u64,
    left: u64,
    /// What is left of the current piece.
    piece: u64,
    head: Head,
    connection: Option<Connection>,
    pool: Arc<Pool>,
    place: Option<OwnedSemaphorePermit>,
    patience: Duration,
    alarm: Pin<Box<Sleep>>,
}

impl IncomingStream {
    /// How many bytes the whole stream has.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Writes all of it to `writer`, as fast as that takes it.
    pub async fn copy_to(
        mut self,
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> Result<u64, StreamError> {
        let mut buffer = vec![0; self.left.clamp(1, 256 << 10) as usize];
        loop {
            let mut space = ReadBuf::new(&mut buffer);
            std::future::poll_fn(|context| self.poll(context, &mut space)).await?;
            let failed = |source| StreamError::Write { id: self.asked.id.clone(), source };
            if space.filled().is_empty() {
                writer.flush().await.map_err(failed)?;
                return Ok(self.length);
            }
            writer.write_all(space.filled()).await.map_err(failed)?;
        }
    }

    /// Once everything is read the connection is free for another stream.
    fn give_back_at_end(&mut self) {
        if self.left == 0
            && let Some(connection) = self.connection.take()
        {
            self.pool.idle().push((Instant::now(), connection));
            self.place = None;
        }
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
        space: &mut ReadBuf<'_>,
    ) -> Poll<Result<(), StreamError>> {
        if self.left == 0 {
            return Poll::Ready(Ok(()));
        }
        if let Poll::Ready(read) = self.poll_piece(context, space) {
            let at = Instant::now() + self.patience;
            self.alarm.as_mut().reset(at);
            self.give_back_at_end();
            return Poll::Ready(read);
        }
        ready!(self.alarm.as_mut().poll(context));
        Poll::Ready(Err(self.asked.broken(io::ErrorKind::TimedOut.into())))
    }

    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
        space: &mut ReadBuf<'_>,
    ) -> Poll<Result<(), StreamError>> {
        let Some(Connection { reader, .. }) = &mut self.connection else {
            return Poll::Ready(Err(self.asked.broken(io::ErrorKind::NotConnected.into())));
        };
        if self.piece == 0 {
            let head = ready!(self.head.poll(reader, context));
            match head.map_err(|error| self.asked.broken(error))? {
                (DATA, length) if length > 0 && u64::from(length) <= self.left => {
                    self.piece = length.into()
                }
                (FAILED, code) => return Poll::Ready(Err(self.asked.failed(code))),
                _ => return Poll::Ready(Err(self.asked.broken(io::ErrorKind::InvalidData.into()))),
            }
        }
        let wanted = self.piece.min(space.remaining() as u64) as usize;
        let mut part = ReadBuf::new(space.initialize_unfilled_to(wanted));
        let read = ready!(Pin::new(reader).poll_read(context, &mut part));
        let read = read.map(|()| part.filled().len());
        let read = read.map_err(|error| self.asked.broken(error))?;
        if read == 0 && wanted > 0 {
            return Poll::Ready(Err(self.asked.broken(io::ErrorKind::UnexpectedEof.into())));
        }
        space.advance(read);
        let read = read as u64;
        self.piece -= read;
        self.left -= read;
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for IncomingStream {
    /// Errors are [`StreamError`]s inside.
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        space: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.get_mut().poll(context, space).map_err(io::Error::other)
    }
}
