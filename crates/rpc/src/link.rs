//! One authenticated connection: frames in both directions, until either side ends it.
//!
//! A sender may have [`WINDOW`] bytes of messages at the other side that no endpoint has handled
//! yet. The receiver gives credit back as endpoints finish. So the reader never has to stop for a
//! slow endpoint, and replies, which need no credit, always get through: an endpoint may wait for a
//! reply over the very connection whose messages fill its inbox.
//!
//! Replies nobody reads pile up on this side; beyond a limit the connection is closed.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use serde::Serialize;
use tokio::io::{AsyncWrite, AsyncWriteExt, BufWriter};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, interval_at};
use tokio_util::sync::CancellationToken;

use crate::RpcError;
use crate::endpoint::Peer;
use crate::env::Inner;
use crate::error::RemoteFailure;
use crate::frame::{self, FrameError, FrameReader, HEADER_ROOM, Header};
use crate::mailbox::{AnyMailbox, Encoded, Event};
use crate::outbox::{self, Outbox, Outgoing};
use crate::socket::Socket;

/// How many bytes of messages of one connection may wait at the receiver: part of the protocol.
const WINDOW: u32 = 8 << 20;
/// What a message counts beyond its bytes.
const OVERHEAD: usize = 64;

/// A message never takes more than half the window, and credit is given back by the quarter: a
/// window whose messages are all handled has room for any.
fn cost(bytes: usize) -> u32 {
    (bytes.saturating_add(OVERHEAD)).min(WINDOW as usize / 2) as u32
}

/// What both directions of a connection share.
pub(crate) struct Link {
    peer: Peer,
    outbox: Arc<Outbox>,
    answers: mpsc::UnboundedSender<Answer>,
    answer_bytes: AtomicUsize,
    answer_limit: usize,
    max_message: usize,
    asks: Mutex<Asks>,
    watchers: Mutex<Watchers>,
    /// What may be sent.
    credit: AtomicU32,
    credited: Notify,
    /// What came and is not handled.
    unhandled: AtomicU32,
    /// What is handled and not given back.
    ungranted: AtomicU32,
    closed: CancellationToken,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Link").field(&self.peer).finish()
    }
}

/// Length, header and body of a frame that needs no credit.
pub(crate) struct Answer {
    head: BytesMut,
    body: Bytes,
}

#[derive(Default)]
struct Asks {
    next: u64,
    waiting: HashMap<u64, Waiting>,
}

struct Waiting {
    endpoint: Arc<str>,
    reply: oneshot::Sender<Result<Bytes, RpcError>>,
}

#[derive(Default)]
struct Watchers {
    ended: bool,
    by_name: BTreeMap<Arc<str>, Arc<dyn AnyMailbox>>,
}

/// A part of the window, until its message is handled.
#[derive(Debug)]
pub(crate) struct Credit {
    link: Arc<Link>,
    cost: u32,
}

impl Drop for Credit {
    fn drop(&mut self) {
        self.link.unhandled.fetch_sub(self.cost, Ordering::AcqRel);
        let due = self.link.ungranted.fetch_add(self.cost, Ordering::AcqRel) + self.cost;
        if due >= WINDOW / 4 {
            let amount = self.link.ungranted.swap(0, Ordering::AcqRel);
            self.link.answer(&Header::Credit { amount }, Bytes::new());
        }
    }
}

impl Link {
    pub(crate) fn new(
        peer: Peer,
        outbox: Arc<Outbox>,
        env: &Inner,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Answer>) {
        let (answers, receiver) = mpsc::unbounded_channel();
        let max_message = env.options.max_message;
        let link = Self {
            peer,
            outbox,
            answers,
            answer_bytes: AtomicUsize::new(0),
            answer_limit: env.options.outbox_bytes.max(max_message.saturating_mul(2)),
            max_message,
            asks: Mutex::default(),
            watchers: Mutex::default(),
            credit: AtomicU32::new(WINDOW),
            credited: Notify::new(),
            unhandled: AtomicU32::new(0),
            ungranted: AtomicU32::new(0),
            closed: CancellationToken::new(),
        };
        (Arc::new(link), receiver)
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(crate) fn outbox(&self) -> &Arc<Outbox> {
        &self.outbox
    }

    /// Answers an ask of the peer.
    pub(crate) fn reply(&self, id: u64, value: &impl Serialize) {
        if self.closed.is_cancelled() {
            return; // nobody is there to read it
        }
        match postcard::to_stdvec(value) {
            Ok(body) if body.len() > self.max_message => {
                let (size, limit) = (body.len() as u64, self.max_message as u64);
                self.fail(id, RemoteFailure::ReplyTooLarge { size, limit });
            }
            Ok(body) => self.answer(&Header::Reply { id }, body.into()),
            Err(error) => {
                self.fail(id, RemoteFailure::ReplyNotEncoded { reason: error.to_string() })
            }
        }
    }

    /// Answers an ask of the peer with a failure. Long texts are cut: a failure has to fit a header.
    pub(crate) fn fail(&self, id: u64, mut failure: RemoteFailure) {
        if let RemoteFailure::HandlerFailed { message: text }
        | RemoteFailure::Undecodable { reason: text }
        | RemoteFailure::ReplyNotEncoded { reason: text } = &mut failure
        {
            text.truncate(text.floor_char_boundary(HEADER_ROOM / 2));
        }
        self.answer(&Header::Failure { id, failure }, Bytes::new());
    }

    fn answer(&self, header: &Header<'_>, body: Bytes) {
        let mut head = BytesMut::new();
        frame::put_head(&mut head, header, body.len());
        let size = head.len() + body.len();
        if self.answer_bytes.fetch_add(size, Ordering::AcqRel) + size > self.answer_limit {
            tracing::warn!(peer = %self.peer.address, "the peer does not read its replies: closing the connection");
            self.closed.cancel();
        }
        let _ = self.answers.send(Answer { head, body }); // the connection may be gone
    }

    /// Tells an endpoint from now on when this connection breaks.
    fn watch(&self, mailbox: &Arc<dyn AnyMailbox>) {
        let mut watchers = self.watchers.lock().expect("no panic while it is locked");
        let known =
            watchers.by_name.get(mailbox.name()).is_some_and(|known| Arc::ptr_eq(known, mailbox));
        if !known && !watchers.ended {
            mailbox.post(Event::Connected(self.peer.clone()));
            watchers.by_name.insert(mailbox.name().clone(), mailbox.clone());
        }
    }

    /// Tells every endpoint that talked over this connection of its end, once.
    fn end(&self, error: Option<RpcError>) {
        self.closed.cancel();
        self.asks.lock().expect("no panic while it is locked").waiting.clear();
        let mut watchers = self.watchers.lock().expect("no panic while it is locked");
        watchers.ended = true;
        for mailbox in std::mem::take(&mut watchers.by_name).into_values() {
            if let Some(error) = &error {
                mailbox.post(Event::NetworkError(self.peer.address.clone(), error.clone()));
            }
            mailbox.post(Event::Disconnected(self.peer.clone()));
        }
    }
}

/// Runs a connection to its end. `first` and then `calls` is what to send. What is queued when it
/// ends is dropped before anybody hears of the end: what is sent in answer to that is not.
pub(crate) async fn run(
    socket: Socket,
    link: &Arc<Link>,
    answers: mpsc::UnboundedReceiver<Answer>,
    first: Option<Outgoing>,
    calls: &mut mpsc::UnboundedReceiver<Outgoing>,
    env: &Arc<Inner>,
) {
    let (reader, writer) = socket.split();
    let writer = Writer {
        io: BufWriter::with_capacity(32 << 10, writer),
        link,
        answers,
        waiting: first,
        scratch: BytesMut::new(),
        ping_every: env.options.network_timeout / 4,
        closing: &env.closing,
    };
    let ended = tokio::select! {
        ended = read(reader, link, env) => ended,
        ended = writer.run(calls) => ended,
        () = link.closed.cancelled() => Ok(()),
        () = env.killed.cancelled() => Ok(()),
    };
    let error = ended.err().map(|error| {
        tracing::warn!(peer = %link.peer.address, %error, "a connection broke");
        RpcError::Disconnected { address: link.peer.address.clone() }
    });
    let unsent = outbox::queued(calls);
    link.end(error);
    unsent.into_iter().for_each(|message| message.fail(&link.outbox.gone()));
}

async fn read(
    reader: impl tokio::io::AsyncRead + Unpin,
    link: &Arc<Link>,
    env: &Arc<Inner>,
) -> Result<(), FrameError> {
    let limit = env.options.max_message + HEADER_ROOM;
    let mut frames = FrameReader::new(reader, limit, env.options.network_timeout);
    while let Some(frame) = frames.next().await? {
        let (header, body) = frame::open(&frame)?;
        match header {
            Header::Call { id, endpoint } => deliver(link, env, endpoint, id, body)?,
            Header::Reply { id } => answered(link, id, Ok(body)),
            Header::Failure { id, failure } => answered(link, id, Err(failure)),
            Header::Lookup { id, endpoint } => match env.find(endpoint) {
                Some(_) => link.answer(&Header::Reply { id }, Bytes::new()),
                None => link.fail(id, RemoteFailure::UnknownEndpoint),
            },
            Header::Credit { amount } => credit(link, amount)?,
            Header::Ping => link.answer(&Header::Pong, Bytes::new()),
            Header::Pong => {}
        }
    }
    Ok(())
}

fn violation(text: &str) -> FrameError {
    FrameError::Io(std::io::Error::new(std::io::ErrorKind::InvalidData, text))
}

fn deliver(
    link: &Arc<Link>,
    env: &Inner,
    endpoint: &str,
    id: Option<u64>,
    body: Bytes,
) -> Result<(), FrameError> {
    let cost = cost(body.len());
    if link.unhandled.fetch_add(cost, Ordering::AcqRel) > WINDOW - cost {
        return Err(violation("the peer sends more than it has credit for"));
    }
    let message =
        Encoded { body, link: link.clone(), id, credit: Credit { link: link.clone(), cost } };
    match env.find(endpoint) {
        Some(mailbox) => {
            link.watch(&mailbox);
            mailbox.deliver(message);
        }
        None => {
            tracing::debug!(peer = %link.peer.address, endpoint, "a message for an endpoint that is not here");
            message.fail(RemoteFailure::UnknownEndpoint);
        }
    }
    Ok(())
}

fn answered(link: &Link, id: u64, answer: Result<Bytes, RemoteFailure>) {
    let waiting = link.asks.lock().expect("no panic while it is locked").waiting.remove(&id);
    // Answers to asks that timed out come to nobody.
    if let Some(Waiting { endpoint, reply }) = waiting {
        let at = |failure: RemoteFailure| failure.at(&endpoint, &link.peer.address.to_string());
        let _ = reply.send(answer.map_err(at));
    }
}

fn credit(link: &Link, amount: u32) -> Result<(), FrameError> {
    let before = link.credit.fetch_add(amount.min(WINDOW), Ordering::AcqRel);
    if amount > WINDOW || before > WINDOW - amount {
        return Err(violation("the peer gives more credit than was used"));
    }
    link.credited.notify_one();
    Ok(())
}

struct Writer<'a, W> {
    io: W,
    link: &'a Arc<Link>,
    answers: mpsc::UnboundedReceiver<Answer>,
    /// The next message, when there is no credit for it yet.
    waiting: Option<Outgoing>,
    scratch: BytesMut,
    ping_every: Duration,
    closing: &'a CancellationToken,
}

impl<W: AsyncWrite + Unpin> Writer<'_, W> {
    /// Writes until the connection is closed from outside, or everything is sent and the
    /// environment ends.
    async fn run(
        mut self,
        calls: &mut mpsc::UnboundedReceiver<Outgoing>,
    ) -> Result<(), FrameError> {
        let mut ping = interval_at(Instant::now() + self.ping_every, self.ping_every);
        loop {
            while self.write_ready(calls).await? {}
            self.io.flush().await?;
            if self.closing.is_cancelled() && self.waiting.is_none() && self.answers.is_empty() {
                self.io.shutdown().await?;
                return std::future::pending().await; // until the peer has read it all and closes
            }
            let link = self.link;
            tokio::select! {
                Some(answer) = self.answers.recv() => self.write_answer(answer).await?,
                call = calls.recv(), if self.waiting.is_none() => match call {
                    Some(call) => self.waiting = Some(call),
                    None => return Ok(()),
                },
                () = link.credited.notified(), if self.waiting.is_some() => {}
                _ = ping.tick() => self.ping().await?,
                () = self.closing.cancelled(), if !self.closing.is_cancelled() => {}
            }
        }
    }

    /// Writes one frame if one can be written at once: answers first.
    async fn write_ready(
        &mut self,
        calls: &mut mpsc::UnboundedReceiver<Outgoing>,
    ) -> Result<bool, FrameError> {
        if let Ok(answer) = self.answers.try_recv() {
            self.write_answer(answer).await?;
            return Ok(true);
        }
        if self.waiting.is_none() {
            self.waiting = calls.try_recv().ok();
        }
        let spend = |call: &mut Outgoing| spend(&self.link.credit, call.body.as_ref());
        match self.waiting.take_if(spend) {
            Some(call) => self.write_call(call).await.map(|()| true),
            None => Ok(false),
        }
    }

    async fn write_answer(&mut self, Answer { head, body }: Answer) -> Result<(), FrameError> {
        self.io.write_all(&head).await?;
        self.io.write_all(&body).await?;
        self.link.answer_bytes.fetch_sub(head.len() + body.len(), Ordering::AcqRel);
        Ok(())
    }

    async fn write_call(&mut self, call: Outgoing) -> Result<(), FrameError> {
        let Outgoing { endpoint, body, reply, watcher, permit } = call;
        if let Some(mailbox) = &watcher {
            self.link.watch(mailbox);
        }
        let id = reply.map(|reply| self.expect(endpoint.clone(), reply));
        let header = match (&body, id) {
            (None, id) => Header::Lookup { id: id.unwrap_or_default(), endpoint: &endpoint },
            (Some(_), id) => Header::Call { id, endpoint: &endpoint },
        };
        let body = body.unwrap_or_default();
        self.scratch.clear();
        frame::put_head(&mut self.scratch, &header, body.len());
        self.io.write_all(&self.scratch).await?;
        self.io.write_all(&body).await?;
        drop(permit);
        Ok(())
    }

    /// Remembers who waits for the reply to the ask with this id.
    fn expect(&self, endpoint: Arc<str>, reply: oneshot::Sender<Result<Bytes, RpcError>>) -> u64 {
        let mut asks = self.link.asks.lock().expect("no panic while it is locked");
        asks.next += 1;
        let id = asks.next;
        asks.waiting.insert(id, Waiting { endpoint, reply });
        id
    }

    /// Sends a keep-alive, and forgets asks nobody waits for any more.
    async fn ping(&mut self) -> Result<(), FrameError> {
        self.link
            .asks
            .lock()
            .expect("no panic while it is locked")
            .waiting
            .retain(|_, ask| !ask.reply.is_closed());
        self.scratch.clear();
        frame::put_head(&mut self.scratch, &Header::Ping, 0);
        Ok(self.io.write_all(&self.scratch).await?)
    }
}

/// Takes the credit a message needs, if it is there. Lookups need none.
fn spend(credit: &AtomicU32, body: Option<&Bytes>) -> bool {
    let Some(body) = body else { return true };
    let cost = cost(body.len());
    let take = |credit: u32| credit.checked_sub(cost);
    credit.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok()
}
