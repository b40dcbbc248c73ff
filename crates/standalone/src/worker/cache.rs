//! Executables and files that drivers serve, by their hash: fetched once, checked, kept for the next
//! executor of any application, within a bound of bytes.
//!
//! A file is in use for as long as somebody holds its [`Cached`], and then it stays. What was not
//! fetched to its end, or is not what it was said to be, is never found under a hash. What is found
//! there is checked again, because a disk may have changed since.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, SystemTime};

use firesteel_backend::wire;
use firesteel_rpc::{IncomingStream, RpcAddress, RpcEnv, RpcOptions, Secret, StreamError};
use firesteel_storage::ensure_private_directory;
use tokio::io::AsyncReadExt;

use super::executable::Hashes;

/// To be run and read, never to be written to.
const MODE: u32 = 0o500;
/// How many bytes are written at once.
const PIECE: usize = 1 << 20;
/// What marks a file that is being fetched.
const UNFINISHED: &str = "fetching-";
/// How old such a file has to be before nobody is fetching it any more.
const ABANDONED: Duration = Duration::from_secs(3600);

type Hash = [u8; 32];

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
        "what the driver at {address} sent is not what it said (its hash is {found}, not {expected}): it is not used"
    )]
    OtherBytes { address: RpcAddress, found: blake3::Hash, expected: blake3::Hash },
    #[error(
        "the driver at {address} sent {found} bytes and had said {expected}: they are not used"
    )]
    OtherLength { address: RpcAddress, found: u64, expected: u64 },
    #[error("could not write it to {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("the worker ends")]
    Ending,
}

/// What is wanted, and of whom.
pub(super) struct Wanted<'a> {
    pub(super) hash: Hash,
    pub(super) bytes: u64,
    pub(super) from: &'a RpcAddress,
    /// The application's secret, if it has one.
    pub(super) secret: Option<&'a str>,
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
    /// Held by the one task that looks for it or fetches it.
    fetching: tokio::sync::Mutex<()>,
}

/// The cache of a worker.
#[derive(Debug)]
pub(super) struct Cache {
    directory: PathBuf,
    max_bytes: u64,
    rpc: RpcOptions,
    hashes: Hashes,
    /// Those that were asked for, and when.
    known: Mutex<BTreeMap<String, (Weak<Entry>, SystemTime)>>,
    next: AtomicU64,
}

impl Cache {
    /// In this directory, with the settings of a worker, whose own secret it does not use.
    pub(super) fn new(directory: PathBuf, max_bytes: u64, rpc: RpcOptions) -> Self {
        let (hashes, known) = (Hashes::default(), Mutex::default());
        Self { directory, max_bytes, rpc, hashes, known, next: AtomicU64::new(0) }
    }

    /// The file of this hash; fetched if it is not there.
    pub(super) async fn obtain(
        self: &Arc<Self>,
        wanted: &Wanted<'_>,
    ) -> Result<Cached, FetchError> {
        let cached = self.entry(&wanted.hash);
        let entry = cached.0.clone();
        let _alone = entry.fetching.lock().await;
        let (cache, path, hash) = (self.clone(), cached.0.path.clone(), wanted.hash);
        let is_there = blocking(move || Ok(cache.is_good(&path, hash))).await?;
        if !is_there {
            self.fetch(wanted, &cached.0.path).await?;
        }
        Ok(cached)
    }

    fn is_good(&self, path: &Path, hash: Hash) -> bool {
        path.to_str().is_some_and(|path| self.hashes.check(path, Some(hash)).is_ok())
    }

    fn entry(&self, hash: &Hash) -> Cached {
        let name = blake3::Hash::from_bytes(*hash).to_hex().to_string();
        let mut known = self.known();
        let living = known.get(&name).and_then(|(entry, _)| entry.upgrade());
        let entry = living.unwrap_or_else(|| {
            let path = self.directory.join(&name);
            Arc::new(Entry { path, fetching: tokio::sync::Mutex::default() })
        });
        known.insert(name, (Arc::downgrade(&entry), SystemTime::now()));
        Cached(entry)
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, (Weak<Entry>, SystemTime)>> {
        self.known.lock().expect("no panic while it is locked")
    }

    async fn fetch(self: &Arc<Self>, wanted: &Wanted<'_>, path: &Path) -> Result<(), FetchError> {
        if wanted.bytes > self.max_bytes {
            return Err(FetchError::TooLarge { bytes: wanted.bytes, limit: self.max_bytes });
        }
        let secret = wanted.secret.map(|text| Secret::new(text, "of an application")).transpose();
        let secret = secret.map_err(FetchError::Secret)?;
        let (cache, bytes) = (self.clone(), wanted.bytes);
        let unfinished = blocking(move || cache.unfinished(bytes)).await?;
        let env = RpcEnv::client(self.rpc.for_application(secret));
        let fetched = download(&env, wanted, unfinished).await;
        env.shutdown().await;
        let (unfinished, path) = (fetched?, path.to_owned());
        blocking(move || unfinished.finish(&path)).await
    }

    /// A new file, and room for so many bytes in it.
    fn unfinished(&self, bytes: u64) -> Result<Unfinished, FetchError> {
        let failed = |source| FetchError::Write { path: self.directory.clone(), source };
        ensure_private_directory(&self.directory).map_err(failed)?;
        let left = self.make_room(bytes).map_err(failed)?;
        if left.saturating_add(bytes) > self.max_bytes {
            return Err(FetchError::Full);
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let name = format!("{UNFINISHED}{:x}-{number:x}", std::process::id());
        Unfinished::create(self.directory.join(name))
    }

    /// Removes what was not used for the longest time until there is room; returns how many bytes stay.
    fn make_room(&self, bytes: u64) -> io::Result<u64> {
        let mut files = self.files()?;
        files.sort_by_key(|file| file.used);
        let mut total: u64 = files.iter().map(|file| file.bytes).sum();
        for file in files {
            if total.saturating_add(bytes) > self.max_bytes && self.remove(&file) {
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

    /// Unless it is in use, or somebody may be fetching it. Nobody can ask for it meanwhile.
    fn remove(&self, file: &FileThere) -> bool {
        let mut known = self.known();
        let in_use = known.get(&file.name).is_some_and(|(entry, _)| entry.strong_count() > 0);
        let fresh = || file.used.elapsed().map_or(true, |age| age < ABANDONED);
        if in_use || file.name.starts_with(UNFINISHED) && fresh() {
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
        let known = self.known();
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
}

/// A file in the cache's directory.
struct FileThere {
    name: String,
    bytes: u64,
    used: SystemTime,
}

/// A file that is being fetched; removed unless it is finished.
struct Unfinished {
    path: PathBuf,
    file: Option<File>,
    hasher: blake3::Hasher,
}

impl Unfinished {
    fn create(path: PathBuf) -> Result<Self, FetchError> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        match options.open(&path) {
            Ok(file) => Ok(Self { path, file: Some(file), hasher: blake3::Hasher::new() }),
            Err(source) => Err(FetchError::Write { path, source }),
        }
    }

    fn write(mut self, piece: &[u8]) -> Result<Self, FetchError> {
        self.hasher.update(piece);
        let written = self.file.as_mut().map_or(Ok(()), |file| file.write_all(piece));
        match written {
            Ok(()) => Ok(self),
            Err(source) => Err(FetchError::Write { path: self.path.clone(), source }),
        }
    }

    /// Puts it where it is found.
    fn finish(mut self, path: &Path) -> Result<(), FetchError> {
        let failed = |source| FetchError::Write { path: path.to_owned(), source };
        drop(self.file.take()); // a file that is open for writing cannot be run
        fs::set_permissions(&self.path, fs::Permissions::from_mode(MODE)).map_err(failed)?;
        fs::rename(&self.path, path).map_err(failed)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

async fn download(
    env: &RpcEnv,
    wanted: &Wanted<'_>,
    mut unfinished: Unfinished,
) -> Result<Unfinished, FetchError> {
    let name = wire::content(&wanted.hash);
    let mut stream = env.streams().open(wanted.from, &name, wanted.bytes).await?;
    if stream.length() != wanted.bytes {
        let (address, found) = (wanted.from.clone(), stream.length());
        return Err(FetchError::OtherLength { address, found, expected: wanted.bytes });
    }
    loop {
        let piece = read_piece(&mut stream, &name).await?;
        if piece.is_empty() {
            break;
        }
        unfinished = blocking(move || unfinished.write(&piece)).await?;
    }
    let (found, expected) = (unfinished.hasher.finalize(), blake3::Hash::from_bytes(wanted.hash));
    if found != expected {
        return Err(FetchError::OtherBytes { address: wanted.from.clone(), found, expected });
    }
    Ok(unfinished)
}

async fn read_piece(stream: &mut IncomingStream, name: &str) -> Result<Vec<u8>, StreamError> {
    let mut piece = Vec::new();
    let read = stream.take(PIECE as u64).read_to_end(&mut piece).await;
    match read.map_err(|error| error.downcast::<StreamError>()) {
        Ok(_) => Ok(piece),
        Err(Ok(error)) => Err(error),
        Err(Err(source)) => Err(StreamError::Write { id: name.to_owned(), source }),
    }
}

/// On a thread that may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FetchError> + Send + 'static,
) -> Result<T, FetchError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| FetchError::Ending)?
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use firesteel_rpc::{BindTo, OpenError, Peer, StreamBody, StreamSource};

    use super::*;

    /// A driver that serves texts, and now and then others than it should.
    #[derive(Default)]
    struct Driver {
        texts: Vec<&'static str>,
        lies: bool,
        served: AtomicUsize,
    }

    impl StreamSource for Driver {
        fn open(&self, id: &str, _: &Peer) -> Result<StreamBody, OpenError> {
            self.served.fetch_add(1, Ordering::Relaxed);
            let hash = wire::parse_content(id).ok_or(OpenError::Missing)?;
            let found = self.texts.iter().find(|text| hash_of(text) == hash);
            let text = found.ok_or(OpenError::Missing)?.to_string();
            let text = if self.lies { text.to_uppercase() } else { text };
            Ok(StreamBody::Bytes(text.into_bytes().into()))
        }
    }

    fn hash_of(text: &str) -> Hash {
        *blake3::hash(text.as_bytes()).as_bytes()
    }

    struct Scene {
        cache: Arc<Cache>,
        driver: Arc<Driver>,
        env: RpcEnv,
        secret: Secret,
        directory: tempfile::TempDir,
    }

    async fn scene(driver: Driver, max_bytes: u64) -> Scene {
        let (driver, secret) = (Arc::new(driver), Secret::generate());
        let options = RpcOptions::default().for_application(Some(secret.clone()));
        let env = RpcEnv::server(options, BindTo::loopback()).await.unwrap();
        env.serve_streams(driver.clone());
        let directory = tempfile::tempdir().unwrap();
        let work = directory.path().join("cache");
        let cache = Arc::new(Cache::new(work, max_bytes, RpcOptions::default()));
        Scene { cache, driver, env, secret, directory }
    }

    impl Scene {
        async fn get(&self, text: &str) -> Result<Cached, FetchError> {
            self.get_with(text, Some(self.secret.expose())).await
        }

        async fn get_with(&self, text: &str, secret: Option<&str>) -> Result<Cached, FetchError> {
            let from = self.env.address().unwrap();
            let bytes = text.len() as u64;
            self.cache.obtain(&Wanted { hash: hash_of(text), bytes, from, secret }).await
        }

        fn served(&self) -> usize {
            self.driver.served.load(Ordering::Relaxed)
        }

        fn files(&self) -> usize {
            fs::read_dir(self.directory.path().join("cache")).map_or(0, Iterator::count)
        }
    }

    #[tokio::test]
    async fn what_many_want_at_once_is_fetched_once_and_can_be_run_by_its_user_only() {
        let scene = scene(Driver { texts: vec!["one"], ..Driver::default() }, 100).await;
        let (a, b, c) = tokio::join!(scene.get("one"), scene.get("one"), scene.get("one"));
        let path = a.unwrap().path().to_owned();
        assert_eq!((b.unwrap().path(), c.unwrap().path()), (&*path, &*path));
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o500, 0o700));
        assert_eq!(scene.served(), 1);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "two").unwrap();
        scene.get("one").await.unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one", "a damaged one is replaced");
        assert_eq!(scene.served(), 2);
    }

    #[tokio::test]
    async fn bytes_of_another_hash_or_number_and_missing_ones_are_refused_and_leave_nothing() {
        let texts = vec!["one", "two"];
        let liar = scene(Driver { texts, lies: true, ..Driver::default() }, 100).await;
        let error = liar.get("one").await.unwrap_err().to_string();
        assert!(error.contains("is not what it said") && error.contains("not used"), "{error}");
        let (hash, from) = (hash_of("two"), liar.env.address().unwrap());
        let secret = Some(liar.secret.expose());
        for bytes in [2, 4] {
            let refused = liar.cache.obtain(&Wanted { hash, bytes, from, secret }).await;
            refused.map(drop).unwrap_err();
        }
        let error = liar.get("three").await.unwrap_err().to_string();
        assert!(error.contains("has no stream"), "{error}");
        assert_eq!(liar.files(), 0);
    }

    #[tokio::test]
    async fn nobody_gets_anything_without_the_applications_secret() {
        let scene = scene(Driver { texts: vec!["one"], ..Driver::default() }, 100).await;
        for secret in [None, Some("that of another application")] {
            let error = scene.get_with("one", secret).await.unwrap_err();
            assert!(matches!(error, FetchError::Stream(StreamError::Connect(_))), "{error}");
        }
        assert_eq!((scene.served(), scene.files()), (0, 0));
    }

    #[tokio::test]
    async fn what_is_not_used_makes_room_oldest_first_and_what_is_used_stays() {
        let texts = vec!["aaaa", "bbbb", "cccc", "dddd", "eeeeeeeeeeee"];
        let scene = scene(Driver { texts, ..Driver::default() }, 10).await;
        let held = scene.get("aaaa").await.unwrap();
        let second = scene.get("bbbb").await.unwrap().path().to_owned();
        let third = scene.get("cccc").await.unwrap();
        assert!(held.path().exists() && !second.exists(), "the one in use stays");
        let error = scene.get("dddd").await.unwrap_err().to_string();
        assert!(error.contains("no room"), "{error}");
        let error = scene.get("eeeeeeeeeeee").await.unwrap_err().to_string();
        assert!(error.contains("spark.firesteel.worker.cache.maxSize"), "{error}");
        let path = third.path().to_owned();
        drop(third);
        scene.get("dddd").await.unwrap();
        assert!(!path.exists());
        scene.cache.remove_old(Duration::ZERO);
        assert_eq!(scene.files(), 1, "all went but the one in use");
    }
}
