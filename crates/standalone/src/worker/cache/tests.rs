//! A cache, drivers that serve it, and connections that let so many bytes pass.

use std::os::unix::fs::PermissionsExt;

use firesteel_rpc::{APPLICATION_IDENTITY, BindTo, Identity, Keyring, RpcEnv, Secret};
use firesteel_standalone_core::worker::SourceKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// How long anything may take that happens at all.
const DEADLINE: Duration = Duration::from_secs(30);

/// A driver that serves texts, and now and then others than it should.
#[derive(Default)]
struct Driver {
    texts: Vec<Vec<u8>>,
    lies: bool,
    /// Of the streams that were asked for.
    ids: Mutex<Vec<String>>,
}

impl StreamSource for Driver {
    fn open(&self, id: &str, _: &Peer) -> Result<StreamBody, OpenError> {
        lock(&self.ids).push(id.to_owned());
        let (hash, offset) = wire::parse_content(id).ok_or(OpenError::Missing)?;
        let found = self.texts.iter().find(|text| hash_of(text) == hash);
        let text = found.ok_or(OpenError::Missing)?;
        let text = if self.lies { text.to_ascii_uppercase() } else { text.clone() };
        Ok(StreamBody::Bytes(text[offset as usize..].to_vec().into()))
    }
}

fn hash_of(text: impl AsRef<[u8]>) -> Hash {
    *blake3::hash(text.as_ref()).as_bytes()
}

fn serves(texts: &[&str]) -> Driver {
    let texts = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    Driver { texts, ..Driver::default() }
}

/// A text that does not fit into the buffers of a connection.
fn long() -> Vec<u8> {
    (0..12_u32 << 20).map(|at| (at % 251) as u8).collect()
}

struct Scene {
    cache: Arc<Cache>,
    driver: Arc<Driver>,
    env: RpcEnv,
    secret: Secret,
    directory: tempfile::TempDir,
}

async fn driver_env(driver: &Arc<Driver>, secret: &Secret) -> RpcEnv {
    let options = RpcOptions::default().for_application(Some(secret.clone()));
    let env = RpcEnv::server(options, BindTo::loopback()).await.unwrap();
    env.serve_streams(driver.clone());
    env
}

fn cache(directory: &Path, max_bytes: u64, download: DownloadOptions) -> Arc<Cache> {
    let options =
        CacheOptions { max_bytes, max_downloads: 2, download, rpc: RpcOptions::default() };
    Arc::new(Cache::new(directory.join("cache"), options, TaskTracker::new()))
}

async fn scene(driver: Driver, max_bytes: u64) -> Scene {
    scene_with(driver, max_bytes, DownloadOptions::default()).await
}

async fn scene_with(driver: Driver, max_bytes: u64, download: DownloadOptions) -> Scene {
    let (driver, secret) = (Arc::new(driver), Secret::generate());
    let env = driver_env(&driver, &secret).await;
    let directory = tempfile::tempdir().unwrap();
    let cache = cache(directory.path(), max_bytes, download);
    Scene { cache, driver, env, secret, directory }
}

impl Scene {
    async fn get(&self, text: impl AsRef<[u8]>) -> Result<Cached, Arc<FetchError>> {
        let source = self.driver_at(self.env.address().unwrap().clone());
        self.get_from(text, vec![source]).await
    }

    async fn get_from(
        &self,
        text: impl AsRef<[u8]>,
        sources: Vec<Source>,
    ) -> Result<Cached, Arc<FetchError>> {
        let (hash, bytes) = (hash_of(&text), text.as_ref().len() as u64);
        self.cache.obtain(&Wanted { hash, bytes, sources }, |_| {}).await
    }

    fn driver_at(&self, address: RpcAddress) -> Source {
        let (identity, secret) = (APPLICATION_IDENTITY.to_owned(), self.secret.expose().to_owned());
        Source { kind: SourceKind::Driver, address, identity, secret: Some(secret) }
    }

    fn ids(&self) -> Vec<String> {
        lock(&self.driver.ids).clone()
    }

    fn files(&self) -> usize {
        fs::read_dir(self.directory.path().join("cache")).map_or(0, Iterator::count)
    }

    fn whole(&self, text: &[u8]) -> PathBuf {
        self.directory.path().join("cache").join(name_of(&hash_of(text)))
    }
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(DEADLINE, wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// Passes connections on to a server, and so many of its bytes back.
struct Valve {
    address: RpcAddress,
    bytes: Arc<Semaphore>,
    cut: Arc<Mutex<CancellationToken>>,
}

impl Valve {
    async fn before(server: &RpcEnv, bytes: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().into();
        let server = server.address().unwrap().clone();
        let valve = Valve { address, bytes: Arc::new(Semaphore::new(bytes)), cut: Arc::default() };
        let (bytes, cut) = (valve.bytes.clone(), valve.cut.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect((server.host.as_str(), server.port)).await.unwrap();
                let (bytes, cut) = (bytes.clone(), lock(&cut).clone());
                tokio::spawn(cut.run_until_cancelled_owned(pass_on(client, server, bytes)));
            }
        });
        valve
    }

    /// Breaks all connections there are.
    fn break_all(&self) {
        std::mem::take(&mut *lock(&self.cut)).cancel();
    }

    fn open(&self) {
        self.bytes.add_permits(1 << 30);
    }
}

async fn pass_on(mut client: TcpStream, mut server: TcpStream, bytes: Arc<Semaphore>) {
    let ((mut asks, mut hears), (mut answers, mut told)) = (client.split(), server.split());
    let there = async { drop(tokio::io::copy(&mut asks, &mut told).await) };
    let back = async {
        let mut piece = vec![0; 4096];
        while let Ok(read @ 1..) = answers.read(&mut piece).await {
            bytes.acquire_many(read as u32).await.unwrap().forget();
            if hears.write_all(&piece[..read]).await.is_err() {
                break;
            }
        }
    };
    tokio::join!(there, back);
}

#[tokio::test]
async fn what_many_want_at_once_is_fetched_once_and_can_be_run_by_its_user_only() {
    let scene = scene(serves(&["one"]), 100).await;
    let (a, b, c) = tokio::join!(scene.get("one"), scene.get("one"), scene.get("one"));
    let path = a.unwrap().path().to_owned();
    assert_eq!((b.unwrap().path(), c.unwrap().path()), (&*path, &*path));
    assert_eq!(fs::read_to_string(&path).unwrap(), "one");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o500, 0o700));
    assert_eq!(scene.ids().len(), 1);
    fs::remove_file(&path).unwrap();
    fs::write(&path, "two").unwrap();
    scene.get("one").await.unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "one", "a damaged one is replaced");
    assert_eq!(scene.ids().len(), 2);
}

#[tokio::test]
async fn bytes_of_another_hash_or_number_and_missing_ones_are_refused_and_leave_nothing() {
    let liar = scene(Driver { lies: true, ..serves(&["one", "two"]) }, 100).await;
    let error = liar.get("one").await.unwrap_err().to_string();
    assert!(error.contains("is not what it said") && error.contains("not used"), "{error}");
    for bytes in [2, 4] {
        let sources = vec![liar.driver_at(liar.env.address().unwrap().clone())];
        let wanted = Wanted { hash: hash_of("two"), bytes, sources };
        liar.cache.obtain(&wanted, |_| {}).await.map(drop).unwrap_err();
    }
    let error = liar.get("three").await.unwrap_err().to_string();
    assert!(error.contains("has no stream"), "{error}");
    assert_eq!(liar.files(), 0);
    assert!(lock(&liar.cache.known).is_empty() && lock(&liar.cache.promised).is_empty());
}

#[tokio::test]
async fn nobody_gets_anything_without_the_applications_secret() {
    let scene = scene(serves(&["one"]), 100).await;
    for secret in [None, Some("that of another application".to_owned())] {
        let source = scene.driver_at(scene.env.address().unwrap().clone());
        let error = scene.get_from("one", vec![Source { secret, ..source }]).await.unwrap_err();
        assert!(matches!(*error, FetchError::Stream(StreamError::Connect(_))), "{error}");
    }
    assert_eq!((scene.ids().len(), scene.files()), (0, 0));
}

#[tokio::test]
async fn what_is_not_used_makes_room_oldest_first_and_what_is_used_stays() {
    let texts = ["aaaa", "bbbb", "cccc", "dddd", "eeeeeeeeeeee"];
    let scene = scene(serves(&texts), 10).await;
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

#[tokio::test]
async fn two_downloads_at_once_are_promised_no_more_than_there_is_room_for() {
    let (one, two) = (long(), [long(), vec![1]].concat());
    let room = one.len() as u64 * 3 / 2;
    let driver = Driver { texts: vec![one.clone(), two.clone()], ..Driver::default() };
    let scene = scene(driver, room).await;
    let valve = Valve::before(&scene.env, 100_000).await;
    let sources = || vec![scene.driver_at(valve.address.clone())];
    let first = scene.get_from(&one, sources());
    let second = async {
        until("the first has begun", || scene.files() == 1).await;
        let error = scene.get_from(&two, sources()).await.unwrap_err();
        valve.open();
        error
    };
    let (first, error) = tokio::join!(first, second);
    assert!(matches!(*error, FetchError::Full), "{error}");
    assert_eq!(fs::read(first.unwrap().path()).unwrap(), one);
}

#[tokio::test]
async fn a_download_that_tells_another_length_takes_nobody_elses_promise_along() {
    let text = long();
    let bytes = text.len() as u64;
    let driver = Driver { texts: vec![text.clone()], ..Driver::default() };
    let scene = scene(driver, bytes * 3 / 2).await;
    let valve = Valve::before(&scene.env, 100_000).await;
    let sources = || vec![scene.driver_at(valve.address.clone())];
    let first = scene.get_from(&text, sources());
    let second = async {
        until("the first has begun", || scene.files() == 1).await;
        let wanted = Wanted { hash: hash_of(&text), bytes: bytes - 1, sources: sources() };
        let error = scene.cache.obtain(&wanted, |_| {}).await.map(drop).unwrap_err();
        let promised: u64 = lock(&scene.cache.promised).values().sum();
        valve.open();
        (error, promised)
    };
    let (first, (error, promised)) = tokio::join!(first, second);
    assert!(matches!(*error, FetchError::Full), "{error}");
    assert_eq!((promised, fs::read(first.unwrap().path()).unwrap()), (bytes, text));
    assert!(lock(&scene.cache.promised).is_empty());
}

#[tokio::test]
async fn a_download_goes_on_when_the_executor_that_wanted_it_is_gone() {
    let text = long();
    let scene = scene(Driver { texts: vec![text.clone()], ..Driver::default() }, 1 << 30).await;
    let valve = Valve::before(&scene.env, 1 << 20).await;
    let sources = vec![scene.driver_at(valve.address.clone())];
    let (hash, bytes) = (hash_of(&text), text.len() as u64);
    let came = Mutex::new(Preparing::default());
    let wanted = Wanted { hash, bytes, sources };
    let waiting = scene.cache.obtain(&wanted, |preparing| *lock(&came) = preparing);
    tokio::select! {
        _ = waiting => panic!("there is more to come"),
        () = until("some of it came", || lock(&came).bytes > 0) => {}
    }
    assert_eq!(lock(&came).of, bytes);
    valve.open();
    until("it is whole", || scene.whole(&text).exists()).await;
    scene.get(&text).await.unwrap();
    assert_eq!(scene.ids(), [wire::content(&hash)], "and it was begun once");
}

#[tokio::test]
async fn a_download_that_nobody_wants_is_given_up_and_what_came_is_used_later() {
    let text = long();
    // Long enough for the first bytes to come, on a busy machine too.
    let rules = DownloadOptions { unwanted_ms: 1, window_ms: 2000, ..DownloadOptions::default() };
    let driver = Driver { texts: vec![text.clone()], ..Driver::default() };
    let scene = scene_with(driver, 1 << 30, rules).await;
    let valve = Valve::before(&scene.env, 1 << 20).await;
    let sources = vec![scene.driver_at(valve.address.clone())];
    let waiting = scene.get_from(&text, sources);
    let partial = || fs::read_dir(scene.directory.path().join("cache")).ok()?.next()?.ok();
    let came = || partial().is_some_and(|file| file.metadata().is_ok_and(|it| it.len() > 0));
    tokio::select! {
        _ = waiting => panic!("there is more to come"),
        () = until("some of it came", came) => {}
    }
    until("it is given up", || lock(&scene.cache.fetches).is_empty()).await;
    let rules = DownloadOptions::default();
    let again = cache(scene.directory.path(), 1 << 30, rules);
    let sources = vec![scene.driver_at(scene.env.address().unwrap().clone())];
    let wanted = Wanted { hash: hash_of(&text), bytes: text.len() as u64, sources };
    let cached = again.obtain(&wanted, |_| {}).await.unwrap();
    assert_eq!(fs::read(cached.path()).unwrap(), text);
    assert!(scene.ids().last().unwrap().contains('@'), "{:?}", scene.ids());
}

#[tokio::test]
async fn who_comes_in_the_moment_in_which_a_download_is_given_up_begins_another_one() {
    let scene = scene(serves(&["one"]), 100).await;
    let key = (hash_of("one"), 3);
    let given_up = Arc::new(Fetch::new(key.0, key.1, DownloadOptions::default()));
    lock(&scene.cache.fetches).insert(key, given_up.clone());
    let ending = async {
        lock(&scene.cache.fetches).remove(&key);
        given_up.finish(Err(Arc::new(FetchError::Unwanted)));
    };
    // In this order: who comes joins, then it ends.
    let (cached, ()) = tokio::join!(scene.get("one"), ending);
    assert_eq!(fs::read_to_string(cached.unwrap().path()).unwrap(), "one");
}

#[tokio::test]
async fn a_download_that_broke_goes_on_where_it_ended() {
    let text = long();
    let scene = scene(Driver { texts: vec![text.clone()], ..Driver::default() }, 1 << 30).await;
    let valve = Valve::before(&scene.env, 1 << 20).await;
    let sources = vec![scene.driver_at(valve.address.clone())];
    let breaking = async {
        let partial = scene
            .directory
            .path()
            .join("cache")
            .join(format!("{UNFINISHED}{}", name_of(&hash_of(&text))));
        until("some of it came", || fs::metadata(&partial).is_ok_and(|it| it.len() > 0)).await;
        valve.break_all();
        valve.open();
    };
    let (cached, ()) = tokio::join!(scene.get_from(&text, sources), breaking);
    assert_eq!(fs::read(cached.unwrap().path()).unwrap(), text);
    let ids = scene.ids();
    assert!(ids.len() == 2 && ids[1].contains('@'), "{ids:?}");
}

#[tokio::test]
async fn another_driver_takes_over_from_one_that_drips_and_one_alone_ends_with_a_sentence() {
    let text = long();
    let rules = DownloadOptions { window_ms: 200, ..DownloadOptions::default() };
    let driver = Driver { texts: vec![text.clone()], ..Driver::default() };
    let scene = scene_with(driver, 1 << 30, rules).await;
    let slow = Valve::before(&scene.env, 200_000).await;
    let alone = scene.get_from(&text, vec![scene.driver_at(slow.address.clone())]).await;
    let error = alone.unwrap_err().to_string();
    assert!(error.contains("made no progress") && error.contains("minBytesPerMinute"), "{error}");
    let fast = Valve::before(&scene.env, 1 << 30).await;
    let sources = [&slow, &fast].map(|valve| scene.driver_at(valve.address.clone()));
    let cached = scene.get_from(&text, sources.to_vec()).await.unwrap();
    assert_eq!(fs::read(cached.path()).unwrap(), text);
    assert!(scene.ids().last().unwrap().contains('@'), "{:?}", scene.ids());
}

/// Another worker that serves its cache to those who prove to be of the application `app-1`.
struct Neighbour {
    cache: Arc<Cache>,
    env: RpcEnv,
    _directory: tempfile::TempDir,
}

async fn neighbour(secret: &Secret, hash: Hash) -> Neighbour {
    let keyring = Keyring::new();
    for app in ["app-1", "app-2"] {
        keyring.insert(Identity::new(app, secret.clone()).unwrap());
    }
    let options = RpcOptions { keyring: Some(keyring), ..RpcOptions::default() };
    let directory = tempfile::tempdir().unwrap();
    let cache = cache(directory.path(), 1 << 30, DownloadOptions::default());
    cache.share("app-1", [hash]);
    let env = RpcEnv::server(options, BindTo::loopback()).await.unwrap();
    env.serve_streams(cache.clone());
    Neighbour { cache, env, _directory: directory }
}

#[tokio::test]
async fn a_worker_passes_on_what_it_is_still_fetching_to_those_of_the_application() {
    let text = long();
    let scene = scene(Driver { texts: vec![text.clone()], ..Driver::default() }, 1 << 30).await;
    let (hash, bytes) = (hash_of(&text), text.len() as u64);
    let neighbour = neighbour(&scene.secret, hash).await;
    let valve = Valve::before(&scene.env, 1 << 20).await;
    let from_driver = Wanted { hash, bytes, sources: vec![scene.driver_at(valve.address.clone())] };
    let fetching = neighbour.cache.obtain(&from_driver, |_| {});
    let peer = |identity: &str| Source {
        kind: SourceKind::Worker,
        identity: identity.to_owned(),
        ..scene.driver_at(neighbour.env.address().unwrap().clone())
    };
    let came = Mutex::new(0);
    let from_worker = Wanted { hash, bytes, sources: vec![peer("app-1")] };
    let second = scene.cache.obtain(&from_worker, |preparing| *lock(&came) = preparing.bytes);
    let opening = async {
        until("a part came by way of the neighbour", || *lock(&came) > 0).await;
        valve.open();
    };
    let (first, second, ()) = tokio::join!(fetching, second, opening);
    first.unwrap();
    assert_eq!(fs::read(second.unwrap().path()).unwrap(), text);
    assert_eq!(scene.ids().len(), 1, "the driver has served one");
    let client = |identity: &str| {
        let identity = Identity::new(identity, scene.secret.clone()).unwrap();
        RpcEnv::client(RpcOptions::default().for_identity(Some(identity)))
    };
    let address = neighbour.env.address().unwrap();
    let read = async |identity: &str, id: &str| {
        client(identity).streams().read(address, id, 1 << 30).await.map(|bytes| bytes.len())
    };
    assert_eq!(read("app-1", &wire::content(&hash)).await.unwrap(), text.len());
    for (identity, id) in [
        ("app-2", wire::content(&hash)),
        ("app-1", wire::content(&hash_of("another"))),
        ("app-1", "../cache".to_owned()),
    ] {
        let refused = read(identity, &id).await.unwrap_err();
        assert!(matches!(refused, StreamError::Missing { .. }), "{refused}");
    }
}
