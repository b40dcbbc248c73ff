//! Object stores and web servers, behind blocking calls.
//!
//! Their client is asynchronous. One runtime with one thread serves the whole process; it is started by the
//! first URL, and a program without URLs never has it. Callers wait by parking their thread, so that
//! they may themselves be inside of somebody's runtime.

mod commit;
mod directory;
mod killed;
mod lease;
mod objects;
mod put;
mod read;
mod settings;
mod upload;
mod web;

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use object_store::ObjectStore;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::StoreOptions;
use crate::fault::Fault;

pub(crate) use commit::remove_directory;
pub use commit::{CommitError, RemoteOutput};
pub(crate) use objects::Objects;
pub(crate) use put::put_file;
pub(crate) use read::{Reader, find};
pub(crate) use settings::Scheme;
pub(crate) use upload::Upload;
pub(crate) use web::Download;

/// More clients than this are not kept: programs have a bucket or two.
const KEPT_CLIENTS: usize = 64;

/// A store and how to write to it, if it can be written.
#[derive(Clone)]
pub(crate) struct Store {
    pub(crate) objects: Arc<dyn ObjectStore>,
    pub(crate) uploads: Option<Arc<dyn MultipartStore>>,
    pub(crate) scheme: Scheme,
}

/// A URL taken apart: its store, what comes before the key, and the key.
pub(crate) struct Address {
    pub(crate) store: Store,
    /// `s3://bucket`
    pub(crate) base: String,
    /// As it stands in the URL, without slashes at its ends.
    pub(crate) key: String,
}

impl Address {
    pub(crate) fn of(url: &str, options: &Arc<StoreOptions>) -> io::Result<Self> {
        let (scheme, base, key) = settings::split(url)?;
        let store = client(scheme, &base, options)?;
        Ok(Address { store, base, key })
    }

    /// The object's name in its store.
    pub(crate) fn path(&self) -> Path {
        object_path(&self.key)
    }

    pub(crate) fn url_of(&self, path: &Path) -> String {
        format!("{}/{path}", self.base)
    }
}

/// Keys are taken as they are; those that no store would list as they are, in the store's spelling.
pub(crate) fn object_path(key: &str) -> Path {
    Path::parse(key).unwrap_or_else(|_| Path::from(key))
}

/// Clients keep connections: one per store and settings.
fn client(scheme: Scheme, base: &str, options: &Arc<StoreOptions>) -> io::Result<Store> {
    type Clients = Mutex<BTreeMap<(String, Arc<StoreOptions>), Store>>;
    static CLIENTS: Clients = Mutex::new(BTreeMap::new());
    let lock = || CLIENTS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let key = (base.to_owned(), options.clone());
    if let Some(store) = lock().get(&key) {
        return Ok(store.clone());
    }
    let store = settings::connect(scheme, base, options)?;
    let mut clients = lock();
    if clients.len() >= KEPT_CLIENTS {
        clients.clear();
    }
    clients.insert(key, store.clone());
    Ok(store)
}

fn runtime() -> io::Result<&'static Runtime> {
    static RUNTIME: OnceLock<io::Result<Runtime>> = OnceLock::new();
    let started = RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("firesteel-io")
            .enable_all()
            .build()
    });
    started.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()))
}

/// Runs `work` in the runtime and waits for it.
pub(crate) fn wait<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> io::Result<T> {
    park_until(runtime()?.spawn(work)).map_err(io::Error::other)
}

/// Runs `work` in the runtime and does not wait.
pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> io::Result<JoinHandle<()>> {
    Ok(runtime()?.spawn(work))
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls on this thread, which sleeps in between.
pub(crate) fn park_until<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// What a store's refusal means for the user.
pub(crate) fn explain(scheme: Scheme, url: &str, error: object_store::Error) -> io::Error {
    use object_store::Error as E;
    match error {
        E::NotFound { .. } => {
            io::Error::new(io::ErrorKind::NotFound, "there is no such object (any more)")
        }
        E::PermissionDenied { source, .. } | E::Unauthenticated { source, .. } => Fault::refused(
            format!("access to {url} is refused: {} ({source})", scheme.credentials()),
        ),
        E::Precondition { .. } => io::Error::other("it was changed meanwhile"),
        E::InvalidPath { source } => {
            Fault::refused(format!("{url} is not a usable name: {source}"))
        }
        other => io::Error::other(format!("{other}; {}", scheme.reach())),
    }
}
