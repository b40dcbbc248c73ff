//! The environment: endpoints by name, outboxes by address, a listener, and the end of it all.
//!
//! Every task an environment starts is counted. [`RpcEnv::shutdown`] returns when all have ended:
//! first the listener, then the endpoints (what is in their inboxes is handled), then the
//! connections (what is queued is sent), each within the time there is for it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::address::{EndpointAddress, RpcAddress, check_name};
use crate::endpoint::{Context, Endpoint, Message, Peer};
use crate::listener::{self, BindTo};
use crate::mailbox::{self, AnyMailbox, Mailbox};
use crate::options::RpcOptions;
use crate::outbox::Outbox;
use crate::reference::{self, EndpointRef};
use crate::stream::{StreamClient, StreamSource};
use crate::{RpcError, SetupError};

/// The RPC environment of a process: one is enough. Clones are the same environment.
///
/// When the last clone is dropped without [`RpcEnv::shutdown`], its tasks end soon afterwards; handlers
/// are not waited for.
#[derive(Clone)]
pub struct RpcEnv {
    pub(crate) inner: Arc<Inner>,
    /// Those handed to endpoints have none: an environment does not keep itself alive.
    _owner: Option<Arc<Owner>>,
}

struct Owner(Arc<Inner>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.kill();
    }
}

impl fmt::Debug for RpcEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RpcEnv").field("address", &self.address()).finish_non_exhaustive()
    }
}

/// What all parts of an environment share.
pub(crate) struct Inner {
    pub(crate) options: RpcOptions,
    pub(crate) runtime: Handle,
    address: OnceLock<RpcAddress>,
    mailboxes: RwLock<BTreeMap<Arc<str>, Arc<dyn AnyMailbox>>>,
    outboxes: Mutex<HashMap<RpcAddress, Arc<Outbox>>>,
    pub(crate) source: RwLock<Option<Arc<dyn StreamSource>>>,
    streams: OnceLock<StreamClient>,
    connections: AtomicU64,
    pub(crate) endpoints: TaskTracker,
    pub(crate) tasks: TaskTracker,
    /// Cancelled: no new connections are accepted.
    pub(crate) deaf: CancellationToken,
    /// Send what is queued, then end.
    pub(crate) closing: CancellationToken,
    /// Cancelled: everything ends at once, queued messages unsent.
    pub(crate) killed: CancellationToken,
}

impl RpcEnv {
    /// An environment that opens no port: it dials, and its peers answer over its connections.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn client(options: RpcOptions) -> Self {
        let inner = Arc::new(Inner {
            options,
            runtime: Handle::current(),
            address: OnceLock::new(),
            mailboxes: RwLock::default(),
            outboxes: Mutex::default(),
            source: RwLock::default(),
            streams: OnceLock::new(),
            connections: AtomicU64::new(0),
            endpoints: TaskTracker::new(),
            tasks: TaskTracker::new(),
            deaf: CancellationToken::new(),
            closing: CancellationToken::new(),
            killed: CancellationToken::new(),
        });
        let owner = Some(Arc::new(Owner(inner.clone())));
        Self { inner, _owner: owner }
    }

    /// An environment with a port. Refused beyond loopback without a secret, unless the options say
    /// that this is wanted.
    pub async fn server(options: RpcOptions, bind: BindTo) -> Result<Self, SetupError> {
        let env = Self::client(options);
        let (listener, address) = listener::bind(&bind, &env.inner.options).await?;
        env.inner.address.set(address).expect("set once, here");
        let serving = listener::serve(listener, env.inner.clone());
        env.inner.tasks.spawn_on(serving, &env.inner.runtime);
        Ok(env)
    }

    /// Where others reach this environment; `None` without a port.
    pub fn address(&self) -> Option<&RpcAddress> {
        self.inner.address.get()
    }

    /// The runtime it lives in: for threads that have none.
    pub fn runtime(&self) -> &Handle {
        &self.inner.runtime
    }

    /// Starts an endpoint under a name.
    pub fn register<E: Endpoint>(
        &self,
        name: &str,
        endpoint: E,
    ) -> Result<EndpointRef<E::Message>, RpcError> {
        check_name(name)?;
        let options = &self.inner.options;
        let (mailbox, queue) = Mailbox::new(name, options.inbox_messages, options.ask_timeout);
        self.inner.add(mailbox.clone())?;
        let env = Self { inner: self.inner.clone(), _owner: None };
        let running = mailbox::run(endpoint, Context { env, mailbox: mailbox.clone() }, queue);
        let inner = self.inner.clone();
        let task = async move {
            tokio::select! {
                () = running => {}
                () = inner.cut_off() => {}
            }
        };
        self.inner.endpoints.spawn_on(task, &self.inner.runtime);
        Ok(EndpointRef::local(mailbox, self.local_peer()))
    }

    /// Ends an endpoint of this environment once what waits in its inbox is done. Its name is free at
    /// once. Nothing happens to endpoints elsewhere.
    pub fn stop<M: Message>(&self, endpoint: &EndpointRef<M>) {
        if endpoint.is_local() {
            self.stop_named(endpoint.name());
        }
    }

    pub(crate) fn stop_named(&self, name: &str) {
        if let Some(mailbox) = self.inner.mailboxes_mut().remove(name) {
            mailbox.stop();
        }
    }

    /// A reference to an endpoint, without asking whether it is there.
    pub fn endpoint_ref<M: Message>(
        &self,
        address: &EndpointAddress,
    ) -> Result<EndpointRef<M>, RpcError> {
        check_name(&address.name)?;
        if self.address() == Some(&address.address) {
            return self.local_ref(&address.name);
        }
        let outbox = self.inner.outbox(&address.address)?;
        Ok(EndpointRef::remote(address.name.as_str().into(), outbox))
    }

    /// A reference to an endpoint of this environment.
    pub fn local_ref<M: Message>(&self, name: &str) -> Result<EndpointRef<M>, RpcError> {
        let unknown =
            || RpcError::UnknownEndpoint { name: name.to_owned(), peer: "this process".to_owned() };
        let mailbox = self.inner.find(name).ok_or_else(unknown)?;
        let typed = mailbox.as_any().downcast::<Mailbox<M>>();
        let other = |_| RpcError::OtherMessageType { name: name.to_owned() };
        Ok(EndpointRef::local(typed.map_err(other)?, self.local_peer()))
    }

    /// A reference to an endpoint that is there now.
    pub async fn lookup<M: Message>(
        &self,
        address: &EndpointAddress,
    ) -> Result<EndpointRef<M>, RpcError> {
        let found = self.endpoint_ref(address)?;
        if self.address() != Some(&address.address) {
            let outbox = self.inner.outbox(&address.address)?;
            reference::verify(&address.name.as_str().into(), &outbox).await?;
        }
        Ok(found)
    }

    /// What streams of this environment are read from, for those who dial it.
    pub fn serve_streams(&self, source: Arc<dyn StreamSource>) {
        *self.inner.source.write().expect("no panic while it is locked") = Some(source);
    }

    /// Reads streams of other environments.
    pub fn streams(&self) -> &StreamClient {
        self.inner.streams.get_or_init(|| StreamClient::new(&self.inner))
    }

    pub(crate) fn local_peer(&self) -> Peer {
        let nowhere = || RpcAddress::new("local", 0);
        let identity = self.inner.options.identity.as_ref().map_or("", |identity| identity.name());
        Peer {
            address: self.address().cloned().unwrap_or_else(nowhere),
            identity: identity.into(),
            connection: 0,
            dialled: false,
        }
    }

    /// Ends the environment and waits until nothing of it is left. Not to be awaited in a handler,
    /// which would be waiting for itself: spawn it there.
    pub async fn shutdown(&self) {
        let (inner, limit) = (&self.inner, self.inner.options.shutdown_timeout);
        inner.deaf.cancel();
        inner.stop_endpoints();
        inner.endpoints.close();
        wait(&inner.endpoints, limit, "endpoints are still busy: they are dropped").await;
        inner.closing.cancel();
        inner.tasks.close();
        wait(&inner.tasks, limit, "connections are still busy: they are cut").await;
        inner.kill();
        wait(&inner.endpoints, limit, "an endpoint blocks its thread").await;
        inner.tasks.wait().await;
    }

    /// How many tasks this environment has.
    pub fn task_count(&self) -> usize {
        self.inner.endpoints.len() + self.inner.tasks.len()
    }
}

async fn wait(tasks: &TaskTracker, limit: Duration, otherwise: &str) {
    if timeout(limit, tasks.wait()).await.is_err() {
        tracing::warn!(tasks = tasks.len(), "{otherwise}");
    }
}

impl Inner {
    fn mailboxes_mut(
        &self,
    ) -> std::sync::RwLockWriteGuard<'_, BTreeMap<Arc<str>, Arc<dyn AnyMailbox>>> {
        self.mailboxes.write().expect("no panic while it is locked")
    }

    /// The inbox of a name.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<dyn AnyMailbox>> {
        self.mailboxes.read().expect("no panic while it is locked").get(name).cloned()
    }

    fn add(&self, mailbox: Arc<dyn AnyMailbox>) -> Result<(), RpcError> {
        let mut mailboxes = self.mailboxes_mut();
        if self.deaf.is_cancelled() {
            return Err(RpcError::EnvStopped);
        }
        let name = mailbox.name().clone();
        if mailboxes.contains_key(&name) {
            return Err(RpcError::DuplicateEndpoint { name: name.to_string() });
        }
        mailboxes.insert(name, mailbox);
        Ok(())
    }

    /// The one outbox of an address. Those nobody has any more are forgotten on the way.
    fn outbox(self: &Arc<Self>, address: &RpcAddress) -> Result<Arc<Outbox>, RpcError> {
        let mut outboxes = self.outboxes.lock().expect("no panic while it is locked");
        if self.closing.is_cancelled() {
            return Err(RpcError::EnvStopped);
        }
        if let Some(outbox) = outboxes.get(address) {
            return Ok(outbox.clone());
        }
        outboxes.retain(|_, outbox| Arc::strong_count(outbox) > 1 || !outbox.is_idle());
        let outbox = Outbox::dialling(address.clone(), self);
        outboxes.insert(address.clone(), outbox.clone());
        Ok(outbox)
    }

    /// The other side of a new connection.
    pub(crate) fn peer(&self, address: RpcAddress, identity: &str, dialled: bool) -> Peer {
        let connection = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
        Peer { address, identity: identity.into(), connection, dialled }
    }

    fn stop_endpoints(&self) {
        std::mem::take(&mut *self.mailboxes_mut()).into_values().for_each(|mailbox| mailbox.stop());
    }

    /// Killed, and without connections: a handler that is dropped now answers nobody.
    async fn cut_off(&self) {
        self.killed.cancelled().await;
        self.tasks.wait().await;
    }

    fn kill(&self) {
        self.tasks.close();
        self.deaf.cancel();
        self.closing.cancel();
        self.killed.cancel();
        self.mailboxes_mut().clear();
        if let Some(streams) = self.streams.get() {
            streams.close();
        }
        self.outboxes.lock().expect("no panic while it is locked").clear();
    }
}
