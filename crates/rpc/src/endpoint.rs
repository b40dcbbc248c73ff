//! What users write: an [`Endpoint`] that takes messages one at a time, in order.
//!
//! An endpoint owns its state and needs no lock. Its calls are never concurrent: `on_start` first,
//! then messages and events of connections in the order in which they came, `on_stop` last. A reply
//! need not be given before `receive` returns: the [`Caller`] can be kept and answered later, which
//! is how a pure core's effects become replies.

use std::error::Error;
use std::sync::{Arc, Mutex};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use crate::RpcError;
use crate::address::{EndpointAddress, RpcAddress};
use crate::env::RpcEnv;
use crate::error::RemoteFailure;
use crate::link::{Credit, Link};
use crate::mailbox::{AnyMailbox, Mailbox};
use crate::reference::EndpointRef;

/// What one kind of endpoint takes: usually an enum.
pub trait Message: Serialize + DeserializeOwned + Send + 'static {
    /// What an ask is answered with.
    type Reply: Serialize + DeserializeOwned + Send + 'static;
}

/// The reply to a message.
pub type ReplyOf<M> = <M as Message>::Reply;

/// Why a handler failed: any error, or a text.
pub type HandlerError = Box<dyn Error + Send + Sync>;

/// Takes messages and events one at a time, in order.
///
/// Handlers should not wait for others with [`EndpointRef::send`] where a slow receiver must not
/// hold them up: [`EndpointRef::try_send`] never waits.
pub trait Endpoint: Send + 'static {
    /// The one type of its messages, with the type of their replies.
    type Message: Message;

    /// Handles one message. An error or a panic goes to the asker and to [`Endpoint::on_error`];
    /// the next message is handled all the same.
    fn receive(
        &mut self,
        message: Self::Message,
        caller: Caller<ReplyOf<Self::Message>>,
        context: &Context<Self::Message>,
    ) -> impl Future<Output = Result<(), HandlerError>> + Send;

    /// Before the first message.
    fn on_start(&mut self, _: &Context<Self::Message>) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// After the last message.
    fn on_stop(&mut self) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// A connection over which this endpoint talks came to be: before the first message over it.
    fn on_connected(
        &mut self,
        _: Peer,
        _: &Context<Self::Message>,
    ) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// That connection is gone: after the last message over it, once.
    fn on_disconnected(
        &mut self,
        _: Peer,
        _: &Context<Self::Message>,
    ) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// A connection could not be made, or broke instead of being closed; the latter is followed by
    /// [`Endpoint::on_disconnected`].
    fn on_network_error(
        &mut self,
        _: RpcAddress,
        _: RpcError,
        _: &Context<Self::Message>,
    ) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// A handler failed or panicked.
    fn on_error(
        &mut self,
        error: HandlerError,
        context: &Context<Self::Message>,
    ) -> impl Future<Output = ()> + Send {
        tracing::error!(endpoint = %context.name(), %error, "a message could not be handled");
        async {}
    }
}

/// The other side of one connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer {
    /// What was dialled, or where the dialler's socket is. Never what the peer says of itself.
    pub address: RpcAddress,
    /// Who it proved to be; empty when no proof was asked for.
    pub identity: Arc<str>,
    /// Which connection: a number that is never used again by this environment, 0 in this process.
    pub connection: u64,
    /// Whether this side dialled: then `address` is where it was to go, and nobody else can be there without its secret. An
    /// accepted connection may come from any address, that of a server too.
    pub dialled: bool,
}

/// What an endpoint knows of its surroundings.
pub struct Context<M: Message> {
    pub(crate) env: RpcEnv,
    pub(crate) mailbox: Arc<Mailbox<M>>,
}

impl<M: Message> Context<M> {
    /// The environment it is registered in.
    pub fn env(&self) -> &RpcEnv {
        &self.env
    }

    /// The name it was registered under.
    pub fn name(&self) -> &str {
        self.mailbox.name()
    }

    /// A reference to the endpoint itself, for its timers and threads.
    pub fn own_ref(&self) -> EndpointRef<M> {
        EndpointRef::local(self.mailbox.clone(), self.env.local_peer())
    }

    /// A reference to another endpoint. Events of the connection come to this endpoint.
    pub fn endpoint_ref<N: Message>(
        &self,
        address: &EndpointAddress,
    ) -> Result<EndpointRef<N>, RpcError> {
        let watcher: Arc<dyn AnyMailbox> = self.mailbox.clone();
        Ok(self.env.endpoint_ref(address)?.watched_by(watcher))
    }

    /// Ends the endpoint once what waits in its inbox is done.
    pub fn stop(&self) {
        self.env.stop_named(self.mailbox.name());
    }
}

/// Who sent a message: answers it, now or later.
///
/// Dropped without an answer, it tells an asker that there will be none.
#[derive(Debug)]
pub struct Caller<R> {
    peer: Peer,
    link: Option<Arc<Link>>,
    slot: Arc<Slot<R>>,
}

impl<R: Serialize> Caller<R> {
    pub(crate) fn new(peer: Peer, link: Option<Arc<Link>>, path: ReplyPath<R>) -> Self {
        let slot = Slot { path: Mutex::new(Some(path)), credit: Mutex::new(None) };
        Self { peer, link, slot: Arc::new(slot) }
    }

    /// With the part of the window that the message takes until it is handled.
    pub(crate) fn with_credit(self, credit: Credit) -> Self {
        *self.slot.credit.lock().expect(UNBROKEN) = Some(credit);
        self
    }

    /// Has the message count as unhandled until this is dropped, and not only while its handler runs: a handler
    /// that hands messages on to a slower one exerts backpressure on their sender alone. What is held must be
    /// handled without that connection: its messages to other endpoints wait too when the window is full.
    pub fn hold(&self) -> Held {
        Held { _credit: self.slot.take_credit() }
    }

    /// Which connection the message came over.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Whether an answer is awaited.
    pub fn is_asking(&self) -> bool {
        !matches!(*self.slot.lock(), Some(ReplyPath::Nobody) | None)
    }

    /// Answers. Nothing happens when the message was one-way or the asker is gone.
    pub fn reply(self, reply: R) {
        if let Some(path) = self.slot.take() {
            path.answer(reply);
        }
    }

    /// Answers with a failure.
    pub fn fail(self, error: impl Into<HandlerError>) {
        self.slot.fail(RemoteFailure::HandlerFailed { message: error.into().to_string() });
    }

    /// An endpoint of the sender's environment, over the connection the message came on: the way to
    /// reach an environment that has no port. `None` inside one process, where names are enough.
    pub fn endpoint_ref<N: Message>(&self, name: &str) -> Option<EndpointRef<N>> {
        let link = self.link.as_ref()?;
        Some(EndpointRef::remote(name.into(), link.outbox().clone()))
    }

    /// Keeps the question open while its handler runs, so that a panic can be the answer.
    pub(crate) fn slot(&self) -> Arc<Slot<R>> {
        self.slot.clone()
    }
}

/// A message that counts as unhandled.
#[derive(Debug)]
pub struct Held {
    _credit: Option<Credit>,
}

/// Where a reply goes.
#[derive(Debug)]
pub(crate) enum ReplyPath<R> {
    Nobody,
    Local { name: Arc<str>, reply: oneshot::Sender<Result<R, RpcError>> },
    Remote { link: Arc<Link>, id: u64 },
}

impl<R: Serialize> ReplyPath<R> {
    fn answer(self, value: R) {
        match self {
            Self::Nobody => {}
            // The asker may have stopped waiting.
            Self::Local { reply, .. } => drop(reply.send(Ok(value))),
            Self::Remote { link, id } => link.reply(id, &value),
        }
    }
}

impl<R> ReplyPath<R> {
    fn fail(self, failure: RemoteFailure) {
        match self {
            Self::Nobody => {}
            Self::Local { name, reply } => drop(reply.send(Err(failure.at(&name, "this process")))),
            Self::Remote { link, id } => link.fail(id, failure),
        }
    }
}

/// A question that is answered at most once, and at least by its end.
#[derive(Debug)]
pub(crate) struct Slot<R> {
    path: Mutex<Option<ReplyPath<R>>>,
    /// Given back when the handler is done, unless it was taken.
    credit: Mutex<Option<Credit>>,
}

const UNBROKEN: &str = "no panic while it is locked";

impl<R> Slot<R> {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<ReplyPath<R>>> {
        self.path.lock().expect(UNBROKEN)
    }

    pub(crate) fn take_credit(&self) -> Option<Credit> {
        self.credit.lock().expect(UNBROKEN).take()
    }

    fn take(&self) -> Option<ReplyPath<R>> {
        self.lock().take()
    }

    pub(crate) fn fail(&self, failure: RemoteFailure) {
        if let Some(path) = self.take() {
            path.fail(failure);
        }
    }
}

impl<R> Drop for Slot<R> {
    fn drop(&mut self) {
        self.fail(RemoteFailure::NoReply);
    }
}
