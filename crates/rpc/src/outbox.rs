//! The queue of messages towards one peer, and the task that has a connection for it.
//!
//! There is one outbox per dialled address: it connects when there is something to send, and again
//! after a connection was lost. When a connection breaks or cannot be made, the outbox drops what is
//! queued and never sends it over the next one: a message arrives at most once, and those that
//! arrive keep their order. An outbox of an accepted connection ends with it.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::RpcError;
use crate::address::RpcAddress;
use crate::endpoint::Peer;
use crate::env::Inner;
use crate::handshake::Channel;
use crate::link::{self, Link};
use crate::mailbox::{AnyMailbox, Event};
use crate::options::RpcOptions;
use crate::socket::{self, Accepted, Socket};

/// What a message in a queue counts beyond its bytes.
const OVERHEAD: usize = 256;

/// A message, or without a body the question whether there is such an endpoint.
pub(crate) struct Outgoing {
    pub(crate) endpoint: Arc<str>,
    pub(crate) body: Option<Bytes>,
    pub(crate) reply: Option<oneshot::Sender<Result<Bytes, RpcError>>>,
    pub(crate) watcher: Option<Arc<dyn AnyMailbox>>,
    pub(crate) permit: OwnedSemaphorePermit,
}

/// The sending side of the queue.
pub(crate) struct Outbox {
    address: RpcAddress,
    queue: mpsc::UnboundedSender<Outgoing>,
    permits: Arc<Semaphore>,
    capacity: usize,
    pub(crate) max_message: usize,
    pub(crate) ask_timeout: std::time::Duration,
    pub(crate) lookup_timeout: std::time::Duration,
}

impl Outbox {
    fn new(
        address: RpcAddress,
        options: &RpcOptions,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Outgoing>) {
        let (queue, receiver) = mpsc::unbounded_channel();
        let outbox = Self {
            address,
            queue,
            permits: Arc::new(Semaphore::new(options.outbox_bytes)),
            capacity: options.outbox_bytes,
            max_message: options.max_message,
            ask_timeout: options.ask_timeout,
            lookup_timeout: options.lookup_timeout,
        };
        (Arc::new(outbox), receiver)
    }

    /// An outbox that dials.
    pub(crate) fn dialling(address: RpcAddress, env: &Arc<Inner>) -> Arc<Self> {
        let (outbox, queue) = Self::new(address, &env.options);
        let task =
            dial_when_needed(Arc::downgrade(&outbox), outbox.address.clone(), queue, env.clone());
        env.tasks.spawn_on(task, &env.runtime);
        outbox
    }

    pub(crate) fn address(&self) -> &RpcAddress {
        &self.address
    }

    /// A permit to queue a message of so many bytes. Waits while the queue is full.
    pub(crate) async fn permit(&self, bytes: usize) -> Result<OwnedSemaphorePermit, RpcError> {
        let permit = self.permits.clone().acquire_many_owned(self.cost(bytes)).await;
        permit.map_err(|_| self.gone())
    }

    /// A permit to queue a message of so many bytes, unless the queue is full.
    pub(crate) fn try_permit(
        &self,
        bytes: usize,
        endpoint: &str,
    ) -> Result<OwnedSemaphorePermit, RpcError> {
        use tokio::sync::TryAcquireError::{Closed, NoPermits};
        self.permits.clone().try_acquire_many_owned(self.cost(bytes)).map_err(|error| match error {
            Closed => self.gone(),
            NoPermits => {
                RpcError::QueueFull { endpoint: self.address.endpoint(endpoint).to_string() }
            }
        })
    }

    fn cost(&self, bytes: usize) -> u32 {
        bytes.saturating_add(OVERHEAD).min(self.capacity) as u32
    }

    pub(crate) fn put(&self, message: Outgoing) -> Result<(), RpcError> {
        self.queue.send(message).map_err(|_| self.gone())
    }

    pub(crate) fn gone(&self) -> RpcError {
        RpcError::Disconnected { address: self.address.clone() }
    }

    /// Whether nothing is queued, so that it can be forgotten when nobody else has it.
    pub(crate) fn is_idle(&self) -> bool {
        self.permits.available_permits() == self.capacity
    }

    fn close(&self) {
        self.permits.close();
    }
}

/// The task of an outbox that dials.
async fn dial_when_needed(
    outbox: std::sync::Weak<Outbox>,
    address: RpcAddress,
    mut queue: mpsc::UnboundedReceiver<Outgoing>,
    env: Arc<Inner>,
) {
    loop {
        let first = tokio::select! {
            first = queue.recv() => first,
            () = env.closing.cancelled() => queue.try_recv().ok(),
        };
        let (Some(first), Some(outbox)) = (first, outbox.upgrade()) else { break };
        let dialled = tokio::select! {
            dialled = socket::dial(&address, Channel::Messages, &env.options) => dialled,
            () = env.killed.cancelled() => Err(RpcError::EnvStopped),
        };
        match dialled {
            Ok(socket) => connected(socket, first, &mut queue, outbox, &env).await,
            Err(error) => fail_queued(first, &mut queue, &address, &error),
        }
    }
    queue.close();
    if let Some(outbox) = outbox.upgrade() {
        outbox.close();
    }
    while let Some(message) = queue.recv().await {
        message.fail(&RpcError::EnvStopped);
    }
}

async fn connected(
    socket: Socket,
    first: Outgoing,
    queue: &mut mpsc::UnboundedReceiver<Outgoing>,
    outbox: Arc<Outbox>,
    env: &Arc<Inner>,
) {
    let identity = env.options.identity.as_ref().map_or("", |identity| identity.name());
    let peer = env.peer(outbox.address.clone(), identity, true);
    let (link, answers) = Link::new(peer, outbox, env);
    link::run(socket, &link, answers, Some(first), queue, env).await;
}

/// What is queued now. Taken as a whole before any of it is failed: a sender that hears of it may send
/// again, and that is not to fail for the same reason.
pub(crate) fn queued(queue: &mut mpsc::UnboundedReceiver<Outgoing>) -> Vec<Outgoing> {
    std::iter::from_fn(|| queue.try_recv().ok()).collect()
}

/// Fails what was queued, and tells the endpoints that wanted to talk.
fn fail_queued(
    first: Outgoing,
    queue: &mut mpsc::UnboundedReceiver<Outgoing>,
    address: &RpcAddress,
    error: &RpcError,
) {
    tracing::warn!(%address, %error, "could not connect");
    let messages: Vec<Outgoing> = std::iter::once(first).chain(queued(queue)).collect();
    let mut told: Vec<Arc<dyn AnyMailbox>> = Vec::new();
    for watcher in messages.iter().filter_map(|message| message.watcher.as_ref()) {
        if !told.iter().any(|known| Arc::ptr_eq(known, watcher)) {
            watcher.post(Event::NetworkError(address.clone(), error.clone()));
            told.push(watcher.clone());
        }
    }
    messages.into_iter().for_each(|message| message.fail(error));
}

impl Outgoing {
    pub(crate) fn fail(self, error: &RpcError) {
        match self.reply {
            Some(reply) => drop(reply.send(Err(error.clone()))),
            None => tracing::debug!(endpoint = %self.endpoint, %error, "a message was not sent"),
        }
    }
}

/// Serves a connection that was accepted, to its end.
pub(crate) async fn serve(accepted: Accepted, address: RpcAddress, env: Arc<Inner>) {
    let (outbox, mut queue) = Outbox::new(address.clone(), &env.options);
    let peer: Peer = env.peer(address, &accepted.identity, false);
    let (link, answers) = Link::new(peer, outbox.clone(), &env);
    link::run(accepted.socket, &link, answers, None, &mut queue, &env).await;
    outbox.close();
    queue.close();
    while let Some(message) = queue.recv().await {
        message.fail(&outbox.gone());
    }
}
