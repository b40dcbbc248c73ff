//! Executables and files that drivers serve, by their hash: fetched once, checked, kept for the next
//! executor of any application, within a bound of bytes. Other workers that run executors of the same application are served
//! from here.
//!
//! A file is in use for as long as somebody holds its [`Cached`], and then it stays. What was not
//! fetched to its end, or is not what it was said to be, is never found under a hash. What is found
//! there is checked again, because a disk may have changed since.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, SystemTime};

use firesteel_backend::provider::Preparing;
use firesteel_backend::wire;
use firesteel_rpc::{
    OpenError, Peer, RpcAddress, RpcOptions, StreamBody, StreamError, StreamSource,
};
use firesteel_standalone_core::worker::DownloadOptions;
use firesteel_storage::ensure_private_directory;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::fetch::{Fetch, Source, Waiter};
use crate::executable::Hashes;
use crate::partial::{self, Partial, UNFINISHED};

pub(super) type Hash = [u8; 32];

/// Why a file could not be had from its driver.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error(
        "it has {bytes} bytes, and a worker keeps {limit} of such files: raise spark.firesteel.worker.cache.maxSize on the \
         workers"
    )]
    TooLarge { bytes: u64, limit: u64 },
    #[error(
        "there is no room for it beside the files that executors use now: raise spark.firesteel.worker.cache.maxSize on the \
         workers"
    )]
    Full,
    #[error("the secret of its application is none: {0}")]
    Secret(#[source] firesteel_rpc::SetupError),
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error(
        "what {from} sent is not what it said (its hash is {found}, not {expected}): it is not used"
    )]
    OtherBytes { from: String, found: blake3::Hash, expected: blake3::Hash },
    #[error(
        "the driver at {address} sent {found} bytes and had said {expected}: they are not used"
    )]
    OtherLength { address: RpcAddress, found: u64, expected: u64 },
    #[error(
        "{address} made no progress: fewer than {min_bytes} bytes came of it in {seconds} s \
         (spark.firesteel.worker.cache.minBytesPerMinute)"
    )]
    Slow { address: RpcAddress, min_bytes: u64, seconds: u64 },
    #[error("no byte of it came, because all that have it served others")]
    Waited,
    #[error("nobody waited for it any more")]
    Unwanted,
    #[error("could not write it to {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("the worker ends")]
    Ending,
}

impl FetchError {
    /// Whether asking again may help: the connection was in trouble, or those who serve it had no time for it.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            FetchError::Stream(error) => error.may_pass(),
            FetchError::Slow { .. } | FetchError::Waited => true,
            _ => false,
        }
    }
}

/// The rules of a cache.
#[derive(Clone, Debug)]
pub(super) struct CacheOptions {
    pub(super) max_bytes: u64,
    /// How many others are served at once.
    pub(super) max_downloads: usize,
    pub(super) download: DownloadOptions,
    /// The worker's, whose own secret is not used.
    pub(super) rpc: RpcOptions,
}

/// What is wanted, and of whom.
pub(super) struct Wanted {
    pub(super) hash: Hash,
    pub(super) bytes: u64,
    pub(super) sources: Vec<Source>,
}

/// A file of the cache. It stays there for as long as this is held.
#[derive(Clone, Debug)]
pub(super) struct Cached(Arc<Entry>);

impl Cached {
    pub(super) fn path(&self) -> &Path {
        &self.0.path
    }
}

#[derive(Debug)]
struct Entry {
    path: PathBuf,
}

/// The cache of a worker.
#[derive(Debug)]
pub(super) struct Cache {
    directory: PathBuf,
    options: CacheOptions,
    hashes: Hashes,
    /// Those that were asked for, and when.
    known: Mutex<BTreeMap<String, (Weak<Entry>, SystemTime)>>,
    /// Those that are under way, by hash and length.
    fetches: Mutex<BTreeMap<(Hash, u64), Arc<Fetch>>>,
    /// Bytes that downloads will need in the end, by name.
    promised: Mutex<BTreeMap<String, u64>>,
    /// Which application may have which files of other workers.
    shared: Mutex<BTreeMap<String, BTreeSet<Hash>>>,
    places: Arc<Semaphore>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

fn name_of(hash: &Hash) -> String {
    blake3::Hash::from_bytes(*hash).to_hex().to_string()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic while it is locked")
}

impl Cache {
    /// In this directory. The worker waits for `tasks` before it ends.
    pub(super) fn new(directory: PathBuf, options: CacheOptions, tasks: TaskTracker) -> Self {
        Self {
            directory,
            places: Arc::new(Semaphore::new(options.max_downloads)),
            options,
            hashes: Hashes::default(),
            known: Mutex::default(),
            fetches: Mutex::default(),
            promised: Mutex::default(),
            shared: Mutex::default(),
            tasks,
            stop: CancellationToken::new(),
        }
    }

    pub(super) fn rpc(&self) -> &RpcOptions {
        &self.options.rpc
    }

    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// The file of this hash; fetched if it is not there. The download goes on when this is dropped.
    pub(super) async fn obtain(
        self: &Arc<Self>,
        wanted: &Wanted,
        progress: impl Fn(Preparing),
    ) -> Result<Cached, Arc<FetchError>> {
        let cached = self.entry(&wanted.hash);
        let fetched = loop {
            match self.join(wanted, cached.clone()).wait(&progress).await {
                // It was given up for want of somebody who waits, in the moment in which this one came.
                Err(error) if matches!(*error, FetchError::Unwanted) => {}
                fetched => break fetched,
            }
        };
        match fetched {
            Ok(()) => Ok(cached),
            Err(error) => {
                drop(cached);
                self.forget(&wanted.hash);
                Err(error)
            }
        }
    }

    /// Waits for the download of this file, which begins if there is none.
    fn join(self: &Arc<Self>, wanted: &Wanted, cached: Cached) -> Waiter {
        let mut fetches = lock(&self.fetches);
        let key = (wanted.hash, wanted.bytes);
        if let Some(fetch) = fetches.get(&key) {
            return fetch.want(&wanted.sources);
        }
        let fetch = Arc::new(Fetch::new(wanted.hash, wanted.bytes, self.options.download));
        fetches.insert(key, fetch.clone());
        let waiter = fetch.want(&wanted.sources);
        let cache = self.clone();
        self.tasks.spawn(async move {
            let result = tokio::select! {
                result = cache.provide(&fetch, &cached) => result,
                () = cache.stop.cancelled() => Err(FetchError::Ending),
            };
            // Who comes from now on begins another one.
            lock(&cache.fetches).remove(&key);
            drop(cached);
            fetch.finish(result.map_err(Arc::new));
        });
        waiter
    }

    /// Sees to it that the file is there.
    async fn provide(self: &Arc<Self>, fetch: &Fetch, cached: &Cached) -> Result<(), FetchError> {
        let (cache, path, hash) = (self.clone(), cached.0.path.clone(), fetch.hash);
        if self.blocking(move || Ok(cache.is_good(&path, hash))).await? {
            return Ok(());
        }
        let (bytes, limit) = (fetch.bytes, self.options.max_bytes);
        if bytes > limit {
            return Err(FetchError::TooLarge { bytes, limit });
        }
        let (cache, name) = (self.clone(), name_of(&hash));
        let (partial, promise) = self.blocking(move || cache.begin(&name, bytes)).await?;
        let fetched = fetch.run(self, partial).await;
        let path = cached.0.path.clone();
        let end = move || match fetched {
            Ok(whole) => {
                let failed = |source| FetchError::Write { path: path.clone(), source };
                whole.finish(&path).map_err(failed)
            }
            Err((error, partial)) => {
                partial.into_iter().for_each(Partial::leave);
                Err(error)
            }
        };
        let ended = self.blocking(end).await;
        drop(promise);
        ended
    }

    fn is_good(&self, path: &Path, hash: Hash) -> bool {
        path.to_str().is_some_and(|path| self.hashes.check(path, Some(hash)).is_ok())
    }

    fn entry(&self, hash: &Hash) -> Cached {
        self.entry_called(name_of(hash))
    }

    fn entry_called(&self, name: String) -> Cached {
        let mut known = lock(&self.known);
        let living = known.get(&name).and_then(|(entry, _)| entry.upgrade());
        let entry = living.unwrap_or_else(|| Arc::new(Entry { path: self.directory.join(&name) }));
        known.insert(name, (Arc::downgrade(&entry), SystemTime::now()));
        Cached(entry)
    }

    /// A file that was put here under this name, if it is here still. Blocks.
    pub(super) fn called(&self, name: &str) -> Option<Cached> {
        let cached = self.entry_called(name.to_owned());
        if cached.path().exists() {
            return Some(cached);
        }
        drop(cached);
        self.forget_called(name.to_owned());
        None
    }

    /// Takes a file of which no hash is known, and which lies on the same disk, under a name that is no hash. Blocks.
    pub(super) fn take(&self, file: &Path, name: &str) -> Result<Cached, FetchError> {
        let failed = |source| FetchError::Write { path: self.directory.clone(), source };
        ensure_private_directory(&self.directory).map_err(failed)?;
        let (bytes, limit) = (fs::metadata(file).map_err(failed)?.len(), self.options.max_bytes);
        if bytes > limit {
            return Err(FetchError::TooLarge { bytes, limit });
        }
        let promised = lock(&self.promised);
        let left = self.make_room(&promised, name, bytes).map_err(failed)?;
        if left.saturating_add(bytes) > limit {
            return Err(FetchError::Full);
        }
        let cached = self.entry_called(name.to_owned());
        partial::seal(file, cached.path()).map_err(failed)?;
        Ok(cached)
    }

    /// A file that could not be had is not known, unless somebody still uses it.
    fn forget(&self, hash: &Hash) {
        self.forget_called(name_of(hash));
    }

    fn forget_called(&self, name: String) {
        let mut known = lock(&self.known);
        if known.get(&name).is_some_and(|(entry, _)| entry.strong_count() == 0) {
            known.remove(&name);
        }
    }

    /// The file to fetch into, and room for so many bytes in it.
    fn begin(self: &Arc<Self>, name: &str, bytes: u64) -> Result<(Partial, Promise), FetchError> {
        let failed = |source| FetchError::Write { path: self.directory.clone(), source };
        ensure_private_directory(&self.directory).map_err(failed)?;
        // One after the other: each counts on what the others were promised.
        let mut promised = lock(&self.promised);
        let left = self.make_room(&promised, name, bytes).map_err(failed)?;
        if left.saturating_add(bytes) > self.options.max_bytes {
            return Err(FetchError::Full);
        }
        *promised.entry(name.to_owned()).or_default() += bytes;
        drop(promised);
        let promise = Promise { cache: self.clone(), name: name.to_owned(), bytes };
        Ok((Partial::open(&self.directory, name, bytes).map_err(failed)?, promise))
    }

    /// Removes what was not used for the longest time until there is room; returns how many bytes stay, with those that
    /// downloads were promised.
    fn make_room(
        &self,
        promised: &BTreeMap<String, u64>,
        name: &str,
        bytes: u64,
    ) -> io::Result<u64> {
        let mut files = self.files()?;
        // What is there of a promise is a part of it, and what is there of this file will be.
        let part = |file: &FileThere| file.name.strip_prefix(UNFINISHED).map(str::to_owned);
        files.retain(|file| part(file).is_none_or(|of| of != name && !promised.contains_key(&of)));
        files.sort_by_key(|file| file.used);
        let mut total: u64 = files.iter().map(|file| file.bytes).sum();
        total += promised.values().sum::<u64>();
        for file in files {
            if total.saturating_add(bytes) > self.options.max_bytes && self.remove(&file) {
                total -= file.bytes;
            }
        }
        Ok(total)
    }

    /// Removes what nobody has asked for since so long. Blocks.
    pub(super) fn remove_old(&self, age: Duration) {
        let Some(border) = SystemTime::now().checked_sub(age) else { return };
        for file in self.files().unwrap_or_default() {
            if file.used <= border {
                self.remove(&file);
            }
        }
    }

    /// Unless it is in use, or somebody is fetching it. Nobody can ask for it meanwhile.
    fn remove(&self, file: &FileThere) -> bool {
        let mut known = lock(&self.known);
        let in_use = known.get(&file.name).is_some_and(|(entry, _)| entry.strong_count() > 0);
        let fetched = || partial::is_being_fetched(&self.directory.join(&file.name));
        if in_use || file.name.starts_with(UNFINISHED) && fetched() {
            return false;
        }
        known.remove(&file.name);
        match fs::remove_file(self.directory.join(&file.name)) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(file = file.name, %error, "could not remove a file of the cache");
                false
            }
        }
    }

    fn files(&self) -> io::Result<Vec<FileThere>> {
        let known = lock(&self.known);
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.directory)?.flatten() {
            let (Ok(about), Ok(name)) = (entry.metadata(), entry.file_name().into_string()) else {
                continue;
            };
            let asked = known.get(&name).map(|(_, asked)| *asked);
            let used = asked.or(about.modified().ok()).unwrap_or(SystemTime::UNIX_EPOCH);
            files.push(FileThere { name, bytes: about.len(), used });
        }
        Ok(files)
    }

    /// On a thread that may block. The worker waits for it before it ends.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, FetchError> + Send + 'static,
    ) -> Result<T, FetchError> {
        self.tasks.spawn_blocking(work).await.map_err(|_| FetchError::Ending)?
    }

    /// Workers with executors of this application may have these files from now on.
    pub(super) fn share(&self, app: &str, hashes: impl IntoIterator<Item = Hash>) {
        lock(&self.shared).entry(app.to_owned()).or_default().extend(hashes);
    }

    /// Takes the application's files from what is served.
    pub(super) fn unshare(&self, app: &str) {
        lock(&self.shared).remove(app);
    }

    /// A file, or as much of it as there is, from this byte on.
    fn serve(&self, hash: &Hash, offset: u64) -> Result<StreamBody, OpenError> {
        let fetching = lock(&self.fetches).values().find(|fetch| fetch.hash == *hash).cloned();
        let whole = self.directory.join(name_of(hash));
        let (file, length) = match fetching.and_then(|fetch| fetch.so_far()) {
            // It may be whole by now, and have its own name.
            Some((path, length)) => (File::open(path).or_else(|_| File::open(whole))?, length),
            None => {
                let file = File::open(whole).map_err(|_| OpenError::Missing)?;
                let length = file.metadata()?.len();
                (file, length)
            }
        };
        let length = length.saturating_sub(offset);
        Ok(StreamBody::File { file, offset, length })
    }
}

/// What other workers read: files of this cache by their hash, of the applications they have executors of. Nothing else.
impl StreamSource for Cache {
    fn open(&self, id: &str, peer: &Peer) -> Result<StreamBody, OpenError> {
        let (hash, offset) = wire::parse_content(id).ok_or(OpenError::Missing)?;
        let may_have = |app: &str| lock(&self.shared).get(app).is_some_and(|of| of.contains(&hash));
        // Where no proof is asked for, nobody has an identity.
        if !peer.identity.is_empty() && !may_have(&peer.identity) {
            return Err(OpenError::Missing);
        }
        let place = self.places.clone().try_acquire_owned().map_err(|_| OpenError::Busy)?;
        Ok(self.serve(&hash, offset)?.holding(place))
    }
}

/// Bytes that a download was promised, until it has ended. Several may have one name, of which all but one tell a wrong length.
struct Promise {
    cache: Arc<Cache>,
    name: String,
    bytes: u64,
}

impl Drop for Promise {
    fn drop(&mut self) {
        let mut promised = lock(&self.cache.promised);
        if let Some(bytes) = promised.get_mut(&self.name) {
            *bytes -= self.bytes;
            if *bytes == 0 {
                promised.remove(&self.name);
            }
        }
    }
}

/// A file in the cache's directory.
struct FileThere {
    name: String,
    bytes: u64,
    used: SystemTime,
}

#[cfg(test)]
mod tests;
