//! References to endpoints, here or elsewhere: [`EndpointRef`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, TryAcquireError, oneshot};
use tokio::time::timeout;

use crate::RpcError;
use crate::address::EndpointAddress;
use crate::endpoint::{Caller, Message, Peer, ReplyOf, ReplyPath};
use crate::mailbox::{AnyMailbox, Mailbox};
use crate::outbox::{Outbox, Outgoing};

/// A way to send messages to one endpoint. Clones are cheap, and can be used from any thread.
///
/// What one sender sends with one reference arrives in that order or not at all.
pub struct EndpointRef<M: Message> {
    name: Arc<str>,
    target: Target<M>,
}

enum Target<M: Message> {
    Local { mailbox: Arc<Mailbox<M>>, peer: Peer },
    Remote { outbox: Arc<Outbox>, watcher: Option<Arc<dyn AnyMailbox>> },
}

impl<M: Message> Clone for EndpointRef<M> {
    fn clone(&self) -> Self {
        let target = match &self.target {
            Target::Local { mailbox, peer } => {
                Target::Local { mailbox: mailbox.clone(), peer: peer.clone() }
            }
            Target::Remote { outbox, watcher } => {
                Target::Remote { outbox: outbox.clone(), watcher: watcher.clone() }
            }
        };
        Self { name: self.name.clone(), target }
    }
}

impl<M: Message> fmt::Display for EndpointRef<M> {
    /// `spark://Name@host:port`, or the name alone inside this process.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            Target::Local { .. } => f.write_str(&self.name),
            Target::Remote { outbox, .. } => {
                write!(f, "{}", outbox.address().endpoint(&*self.name))
            }
        }
    }
}

impl<M: Message> fmt::Debug for EndpointRef<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EndpointRef({self})")
    }
}

/// A reply that is under way.
#[derive(Debug)]
pub struct PendingReply<R> {
    endpoint: String,
    limit: Duration,
    reply: Awaited<R>,
}

#[derive(Debug)]
enum Awaited<R> {
    Local(oneshot::Receiver<Result<R, RpcError>>),
    Remote { bytes: oneshot::Receiver<Result<Bytes, RpcError>>, gone: RpcError },
}

impl<R: serde::de::DeserializeOwned> PendingReply<R> {
    /// Waits for it, as long as `spark.rpc.askTimeout`.
    pub async fn wait(self) -> Result<R, RpcError> {
        let limit = self.limit;
        self.wait_within(limit).await
    }

    /// Waits for it, as long as `limit`; then fails with [`RpcError::Timeout`].
    pub async fn wait_within(self, limit: Duration) -> Result<R, RpcError> {
        let endpoint = self.endpoint.clone();
        timeout(limit, self.arrive())
            .await
            .unwrap_or(Err(RpcError::Timeout { endpoint, after: limit }))
    }

    async fn arrive(self) -> Result<R, RpcError> {
        match self.reply {
            // An endpoint that is dropped with its inbox is one whose environment was killed.
            Awaited::Local(reply) => reply.await.unwrap_or(Err(RpcError::EnvStopped)),
            Awaited::Remote { bytes, gone } => {
                let bytes = bytes.await.unwrap_or(Err(gone))?;
                let undecodable = |error: postcard::Error| RpcError::Decode {
                    endpoint: self.endpoint,
                    reason: error.to_string(),
                };
                postcard::from_bytes(&bytes).map_err(undecodable)
            }
        }
    }
}

impl<M: Message> EndpointRef<M> {
    pub(crate) fn local(mailbox: Arc<Mailbox<M>>, peer: Peer) -> Self {
        Self { name: mailbox.name().clone(), target: Target::Local { mailbox, peer } }
    }

    pub(crate) fn remote(name: Arc<str>, outbox: Arc<Outbox>) -> Self {
        Self { name, target: Target::Remote { outbox, watcher: None } }
    }

    pub(crate) fn watched_by(mut self, mailbox: Arc<dyn AnyMailbox>) -> Self {
        if let Target::Remote { watcher, .. } = &mut self.target {
            *watcher = Some(mailbox);
        }
        self
    }

    /// The name the endpoint was registered under.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is in this process.
    pub fn is_local(&self) -> bool {
        matches!(self.target, Target::Local { .. })
    }

    /// Its address, to be put into messages; `None` in an environment without a port. Over an accepted
    /// connection it names that connection and cannot be dialled.
    pub fn address(&self) -> Option<EndpointAddress> {
        match &self.target {
            Target::Local { peer, .. } if peer.address.port == 0 => None,
            Target::Local { peer, .. } => Some(peer.address.endpoint(&*self.name)),
            Target::Remote { outbox, .. } => Some(outbox.address().endpoint(&*self.name)),
        }
    }

    /// Sends without waiting for anything but space in the queue: for as long as an ask would wait.
    /// That it was sent does not say that it arrived.
    pub async fn send(&self, message: M) -> Result<(), RpcError> {
        let ready = timeout(self.ask_timeout(), self.prepare(message)).await;
        self.dispatch(ready.unwrap_or_else(|_| Err(self.full()))?, None)
    }

    /// Sends, or fails at once when the queue is full. Never waits: for pure cores' shells.
    pub fn try_send(&self, message: M) -> Result<(), RpcError> {
        self.dispatch(self.try_prepare(message)?, None)
    }

    /// Sends and waits for the reply, as long as `spark.rpc.askTimeout`.
    pub async fn ask(&self, message: M) -> Result<ReplyOf<M>, RpcError> {
        self.ask_within(message, self.ask_timeout()).await
    }

    /// Sends and waits for the reply.
    pub async fn ask_within(&self, message: M, limit: Duration) -> Result<ReplyOf<M>, RpcError> {
        let asked = async { self.request(self.prepare(message).await?)?.arrive().await };
        let late = || RpcError::Timeout { endpoint: self.to_string(), after: limit };
        timeout(limit, asked).await.unwrap_or_else(|_| Err(late()))
    }

    /// Sends, or fails at once when the queue is full; the reply is waited for apart. The order of
    /// such calls is the order of the messages.
    pub fn try_ask(&self, message: M) -> Result<PendingReply<ReplyOf<M>>, RpcError> {
        self.request(self.try_prepare(message)?)
    }

    fn ask_timeout(&self) -> Duration {
        match &self.target {
            Target::Local { mailbox, .. } => mailbox.ask_timeout,
            Target::Remote { outbox, .. } => outbox.ask_timeout,
        }
    }

    fn full(&self) -> RpcError {
        RpcError::QueueFull { endpoint: self.to_string() }
    }

    /// Encodes where that is needed, and waits for a permit: that is the backpressure.
    async fn prepare(&self, message: M) -> Result<Ready<M>, RpcError> {
        match &self.target {
            Target::Local { mailbox, .. } => {
                let permit = mailbox.permits().clone().acquire_owned().await;
                Ok(Ready::Typed(message, permit.map_err(|_| mailbox.stopped())?))
            }
            Target::Remote { outbox, .. } => {
                let body = encode(&message, outbox.max_message)?;
                let permit = outbox.permit(body.len()).await?;
                Ok(Ready::Encoded(body, permit))
            }
        }
    }

    fn try_prepare(&self, message: M) -> Result<Ready<M>, RpcError> {
        match &self.target {
            Target::Local { mailbox, .. } => match mailbox.permits().clone().try_acquire_owned() {
                Ok(permit) => Ok(Ready::Typed(message, permit)),
                Err(TryAcquireError::NoPermits) => Err(self.full()),
                Err(TryAcquireError::Closed) => Err(mailbox.stopped()),
            },
            Target::Remote { outbox, .. } => {
                let body = encode(&message, outbox.max_message)?;
                let permit = outbox.try_permit(body.len(), &self.name)?;
                Ok(Ready::Encoded(body, permit))
            }
        }
    }

    fn request(&self, ready: Ready<M>) -> Result<PendingReply<ReplyOf<M>>, RpcError> {
        let (endpoint, limit) = (self.to_string(), self.ask_timeout());
        let (reply, path) = match &self.target {
            Target::Local { .. } => {
                let (reply, arrived) = oneshot::channel();
                (Awaited::Local(arrived), Asking::Local(reply))
            }
            Target::Remote { outbox, .. } => {
                let (reply, bytes) = oneshot::channel();
                (Awaited::Remote { bytes, gone: outbox.gone() }, Asking::Remote(reply))
            }
        };
        self.dispatch(ready, Some(path))?;
        Ok(PendingReply { endpoint, limit, reply })
    }

    fn dispatch(
        &self,
        ready: Ready<M>,
        asking: Option<Asking<ReplyOf<M>>>,
    ) -> Result<(), RpcError> {
        match (&self.target, ready) {
            (Target::Local { mailbox, peer }, Ready::Typed(message, permit)) => {
                let path = match asking {
                    Some(Asking::Local(reply)) => {
                        ReplyPath::Local { name: self.name.clone(), reply }
                    }
                    _ => ReplyPath::Nobody,
                };
                mailbox.put(message, Caller::new(peer.clone(), None, path), permit)
            }
            (Target::Remote { outbox, watcher }, Ready::Encoded(body, permit)) => {
                let reply = match asking {
                    Some(Asking::Remote(reply)) => Some(reply),
                    _ => None,
                };
                let (endpoint, watcher) = (self.name.clone(), watcher.clone());
                outbox.put(Outgoing { endpoint, body: Some(body), reply, watcher, permit })
            }
            _ => unreachable!("prepared for the same target"),
        }
    }
}

/// A message that has space in the queue.
enum Ready<M> {
    Typed(M, OwnedSemaphorePermit),
    Encoded(Bytes, OwnedSemaphorePermit),
}

enum Asking<R> {
    Local(oneshot::Sender<Result<R, RpcError>>),
    Remote(oneshot::Sender<Result<Bytes, RpcError>>),
}

fn encode<M: Message>(message: &M, limit: usize) -> Result<Bytes, RpcError> {
    let body = postcard::to_stdvec(message)
        .map_err(|error| RpcError::Encode { reason: error.to_string() })?;
    if body.len() > limit {
        return Err(RpcError::TooLarge { size: body.len(), limit });
    }
    Ok(body.into())
}

/// Asks a peer whether it has an endpoint.
pub(crate) async fn verify(name: &Arc<str>, outbox: &Outbox) -> Result<(), RpcError> {
    let limit = outbox.lookup_timeout;
    let asked = async {
        let permit = outbox.permit(0).await?;
        let (reply, answer) = oneshot::channel();
        let endpoint = name.clone();
        outbox.put(Outgoing { endpoint, body: None, reply: Some(reply), watcher: None, permit })?;
        answer.await.unwrap_or_else(|_| Err(outbox.gone())).map(drop)
    };
    let endpoint = outbox.address().endpoint(&**name).to_string();
    timeout(limit, asked).await.unwrap_or(Err(RpcError::Timeout { endpoint, after: limit }))
}
