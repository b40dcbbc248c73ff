//! The inbox of an endpoint and the loop that empties it.
//!
//! The queue itself has no bound; what may stand in it has: messages of this process take a permit
//! each, those of a connection are within its window (`link.rs`), events are as many as
//! connections. So an event never meets backpressure, and stays in order with the messages around it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::RpcError;
use crate::address::RpcAddress;
use crate::endpoint::{Caller, Context, Endpoint, HandlerError, Message, Peer, ReplyOf, ReplyPath};
use crate::error::RemoteFailure;
use crate::link::{Credit, Link};

/// What stands in an inbox.
pub(crate) enum Item<M: Message> {
    Typed { message: M, caller: Caller<ReplyOf<M>>, permit: OwnedSemaphorePermit },
    Encoded(Encoded),
    Event(Event),
    Stop,
}

/// A message as it came over a connection.
pub(crate) struct Encoded {
    pub(crate) body: Bytes,
    pub(crate) link: Arc<Link>,
    pub(crate) id: Option<u64>,
    pub(crate) credit: Credit,
}

impl Encoded {
    /// Answers in place of an endpoint.
    pub(crate) fn fail(self, failure: RemoteFailure) {
        if let Some(id) = self.id {
            self.link.fail(id, failure);
        }
    }
}

/// What became of a connection.
#[derive(Clone)]
pub(crate) enum Event {
    Connected(Peer),
    Disconnected(Peer),
    NetworkError(RpcAddress, RpcError),
}

/// The sending side of an inbox.
pub(crate) struct Mailbox<M: Message> {
    name: Arc<str>,
    queue: mpsc::UnboundedSender<Item<M>>,
    permits: Arc<Semaphore>,
    pub(crate) ask_timeout: Duration,
}

/// An inbox whatever its messages.
pub(crate) trait AnyMailbox: Send + Sync {
    fn name(&self) -> &Arc<str>;
    /// Takes a message of a connection, or says that the endpoint has stopped.
    fn deliver(&self, message: Encoded);
    fn post(&self, event: Event);
    fn stop(&self);
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<M: Message> Mailbox<M> {
    pub(crate) fn new(
        name: &str,
        capacity: usize,
        ask_timeout: Duration,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Item<M>>) {
        let (queue, receiver) = mpsc::unbounded_channel();
        let permits = Arc::new(Semaphore::new(capacity));
        (Arc::new(Self { name: name.into(), queue, permits, ask_timeout }), receiver)
    }

    /// Where permits for messages of this process come from.
    pub(crate) fn permits(&self) -> &Arc<Semaphore> {
        &self.permits
    }

    /// Puts a message of this process in.
    pub(crate) fn put(
        &self,
        message: M,
        caller: Caller<ReplyOf<M>>,
        permit: OwnedSemaphorePermit,
    ) -> Result<(), RpcError> {
        self.queue.send(Item::Typed { message, caller, permit }).map_err(|_| self.stopped())
    }

    pub(crate) fn stopped(&self) -> RpcError {
        RemoteFailure::EndpointStopped.at(&self.name, "this process")
    }
}

impl<M: Message> AnyMailbox for Mailbox<M> {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn deliver(&self, message: Encoded) {
        if let Err(mpsc::error::SendError(Item::Encoded(message))) =
            self.queue.send(Item::Encoded(message))
        {
            message.fail(RemoteFailure::EndpointStopped);
        }
    }

    fn post(&self, event: Event) {
        let _ = self.queue.send(Item::Event(event)); // an endpoint that has stopped needs no message
    }

    fn stop(&self) {
        let _ = self.queue.send(Item::Stop);
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// Runs an endpoint from its start to its stop.
pub(crate) async fn run<E: Endpoint>(
    mut endpoint: E,
    context: Context<E::Message>,
    mut queue: mpsc::UnboundedReceiver<Item<E::Message>>,
) {
    let started = guarded(endpoint.on_start(&context)).await;
    report(&mut endpoint, started, &context).await;
    while let Some(item) = queue.recv().await {
        if !handle(&mut endpoint, item, &context).await {
            break;
        }
    }
    queue.close();
    context.mailbox.permits.close();
    while let Some(item) = queue.recv().await {
        turn_away(item);
    }
    if let Err(error) = guarded(endpoint.on_stop()).await {
        tracing::error!(endpoint = %context.name(), %error, "on_stop failed");
    }
}

/// Handles one item; false when it was the last.
async fn handle<E: Endpoint>(
    endpoint: &mut E,
    item: Item<E::Message>,
    context: &Context<E::Message>,
) -> bool {
    match item {
        Item::Typed { message, caller, permit } => {
            receive(endpoint, message, caller, context).await;
            drop(permit);
        }
        Item::Encoded(message) => decode(endpoint, message, context).await,
        Item::Event(event) => {
            let heard = guarded(hear(endpoint, event, context)).await;
            report(endpoint, heard, context).await;
        }
        Item::Stop => return false,
    }
    true
}

async fn decode<E: Endpoint>(endpoint: &mut E, encoded: Encoded, context: &Context<E::Message>) {
    let Encoded { body, link, id, credit } = encoded;
    match postcard::from_bytes(&body) {
        Ok(message) => {
            drop(body);
            let path = match id {
                Some(id) => ReplyPath::Remote { link: link.clone(), id },
                None => ReplyPath::Nobody,
            };
            let caller = Caller::new(link.peer().clone(), Some(link), path).with_credit(credit);
            receive(endpoint, message, caller, context).await;
        }
        Err(error) => {
            let (endpoint_name, reason) = (context.name().to_owned(), error.to_string());
            if let Some(id) = id {
                link.fail(id, RemoteFailure::Undecodable { reason: reason.clone() });
            }
            let error = RpcError::Decode { endpoint: endpoint_name, reason };
            report(endpoint, Err(error.into()), context).await;
            drop(credit);
        }
    }
}

async fn receive<E: Endpoint>(
    endpoint: &mut E,
    message: E::Message,
    caller: Caller<ReplyOf<E::Message>>,
    context: &Context<E::Message>,
) {
    let slot = caller.slot();
    let done = guarded(endpoint.receive(message, caller, context)).await;
    let done = done.and_then(|result| result);
    if let Err(error) = &done {
        slot.fail(RemoteFailure::HandlerFailed { message: error.to_string() });
    }
    drop(slot.take_credit());
    drop(slot);
    report(endpoint, done, context).await;
}

async fn hear<E: Endpoint>(endpoint: &mut E, event: Event, context: &Context<E::Message>) {
    match event {
        Event::Connected(peer) => endpoint.on_connected(peer, context).await,
        Event::Disconnected(peer) => endpoint.on_disconnected(peer, context).await,
        Event::NetworkError(address, error) => {
            endpoint.on_network_error(address, error, context).await;
        }
    }
}

async fn report<E: Endpoint>(
    endpoint: &mut E,
    done: Result<(), HandlerError>,
    context: &Context<E::Message>,
) {
    if let Err(error) = done
        && let Err(again) = guarded(endpoint.on_error(error, context)).await
    {
        tracing::error!(endpoint = %context.name(), error = %again, "on_error failed");
    }
}

fn turn_away<M: Message>(item: Item<M>) {
    match item {
        Item::Typed { caller, .. } => caller.slot().fail(RemoteFailure::EndpointStopped),
        Item::Encoded(message) => message.fail(RemoteFailure::EndpointStopped),
        Item::Event(_) | Item::Stop => {}
    }
}

/// Turns a panic of a handler into an error. The state it leaves is the endpoint's own business: a
/// handler that panicked half way is one that failed half way.
async fn guarded<T>(handler: impl Future<Output = T>) -> Result<T, HandlerError> {
    let mut handler = pin!(handler);
    std::future::poll_fn(move |context| {
        match catch_unwind(AssertUnwindSafe(|| handler.as_mut().poll(context))) {
            Ok(poll) => poll.map(Ok),
            Err(payload) => Poll::Ready(Err(panic_text(&*payload).into())),
        }
    })
    .await
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("the handler panicked: {}", text.unwrap_or("a value that is no text"))
}
