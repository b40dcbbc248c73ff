//! Files that the driver added while it runs (`Context::add_file`). Each task is sent with their version: an executor that knows an
//! older one asks for the list and fetches what it lacks, before the task runs. So it does not matter when an executor came, nor
//! which message was lost.
//!
//! A file is found under its name only when it is whole and has the hash that the driver promised. It replaces one of the same name
//! at once: tasks that have the old one open go on with it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt;

use firesteel_backend::command::ServedFile;
use firesteel_backend::wire;
use firesteel_rpc::StreamError;
use firesteel_task::{KillSwitch, SparkFiles};
use firesteel_types::TaskFailure;

use super::block_manager::{BlockManager, lock};
use super::protocol::{BlockMasterReply, ToBlockMaster};

/// How long a task waits for its turn to read a file of the driver.
const TURN: Duration = Duration::from_secs(600);
/// The first pause of one whose turn it is not, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LAST_PAUSE: Duration = Duration::from_millis(500);
/// So often the list is asked for if the driver replaces files while they are fetched.
const LISTED: u32 = 10;
/// As those that an executor starts with: its own to read, write and run.
const MODE: u32 = 0o700;
const BUFFER: usize = 256 << 10;
/// What a file is called that is not whole yet; there is one at a time.
const FETCHING: &str = ".fetching";

/// What this executor has of them.
#[derive(Default)]
pub(super) struct AddedFiles {
    /// Everything up to this version of the driver's list is here.
    version: AtomicU64,
    /// By name, with their hashes. One task fetches; the others wait for it.
    here: Mutex<BTreeMap<String, [u8; 32]>>,
}

/// Why a file did not come.
enum FetchError {
    Stream(StreamError),
    /// This side's disk.
    Disk(io::Error),
    /// What came has another hash.
    OtherBytes,
    /// The task was told to end.
    Killed(String),
}

impl FetchError {
    fn of_reading(error: io::Error) -> Self {
        match error.downcast() {
            Ok(error) => FetchError::Stream(error),
            Err(error) => FetchError::Disk(error),
        }
    }

    fn into_failure(self, name: &str) -> TaskFailure {
        let reason = match self {
            FetchError::Killed(reason) => return TaskFailure::Killed { reason },
            FetchError::Stream(error) => error.to_string(),
            FetchError::Disk(error) => format!("the executor cannot write it: {error}"),
            FetchError::OtherBytes => "what came is not what the driver has added".to_owned(),
        };
        TaskFailure::Error { message: format!("the file {name} of add_file: {reason}") }
    }
}

impl BlockManager {
    /// Sees to it that all files are here which the driver has added up to this version.
    pub(super) fn bring_files(&self, version: u64, kill: &KillSwitch) -> Result<(), TaskFailure> {
        if self.has_files(version) {
            return Ok(());
        }
        self.bring_files_to(|| self.files_root(), version, kill)
    }

    /// The working directory, which a worker makes for each executor. Where this process may not write to it, as in a pod that runs
    /// as another user than its image was made for, a temporary one.
    fn files_root(&self) -> io::Result<PathBuf> {
        let root = SparkFiles::get_root_directory();
        let tried = root.join(FETCHING);
        match File::create(&tried).and_then(|_| fs::remove_file(&tried)) {
            Err(error) if is_forbidden(&error) => {
                let other = self.scratch.dirs().create_directory("files")?;
                SparkFiles::set_root_directory(other.clone());
                Ok(other)
            }
            Ok(()) | Err(_) => Ok(root),
        }
    }

    fn has_files(&self, version: u64) -> bool {
        self.files.version.load(Ordering::Acquire) >= version
    }

    fn bring_files_to(
        &self,
        root: impl FnOnce() -> io::Result<PathBuf>,
        version: u64,
        kill: &KillSwitch,
    ) -> Result<(), TaskFailure> {
        let mut here = lock(&self.files.here);
        if self.has_files(version) {
            return Ok(());
        }
        let root = root().map_err(|error| {
            let message = format!("there is no directory for files of add_file: {error}");
            TaskFailure::Error { message }
        })?;
        for _ in 0..LISTED {
            let (listed, files) = self.list_files()?;
            if self.fetch_files(&mut here, files, &root, kill)? {
                self.files.version.store(listed, Ordering::Release);
                if listed >= version {
                    return Ok(());
                }
            }
        }
        let message = "the driver adds files (add_file) faster than this executor can fetch them";
        Err(TaskFailure::Error { message: message.to_owned() })
    }

    fn list_files(&self) -> Result<(u64, Vec<ServedFile>), TaskFailure> {
        let asked = self.env.runtime().block_on(self.ask_driver(ToBlockMaster::ListFiles));
        let reason = match asked {
            Ok(BlockMasterReply::Files { version, files }) => return Ok((version, files)),
            Ok(_) => "it answers out of turn".to_owned(),
            Err(error) => error.to_string(),
        };
        let message = format!("the driver does not tell which files it has added: {reason}");
        Err(TaskFailure::Error { message })
    }

    /// False if the driver has replaced one of them meanwhile.
    fn fetch_files(
        &self,
        here: &mut BTreeMap<String, [u8; 32]>,
        files: Vec<ServedFile>,
        root: &Path,
        kill: &KillSwitch,
    ) -> Result<bool, TaskFailure> {
        for file in files {
            if here.get(&file.name) == Some(&file.hash) {
                continue;
            }
            match self.fetch_file(&file, root, kill) {
                Ok(()) => {
                    here.insert(file.name, file.hash);
                }
                Err(FetchError::Stream(StreamError::Missing { .. })) => return Ok(false),
                Err(error) => return Err(error.into_failure(&file.name)),
            }
        }
        Ok(true)
    }

    fn fetch_file(
        &self,
        file: &ServedFile,
        root: &Path,
        kill: &KillSwitch,
    ) -> Result<(), FetchError> {
        let name = Path::new(&file.name);
        if name.file_name() != Some(name.as_os_str()) {
            let reason = format!("{:?} is no name of a file", file.name);
            return Err(FetchError::Disk(io::Error::other(reason)));
        }
        let mut incoming = Incoming::new(root.join(FETCHING)).map_err(FetchError::Disk)?;
        let (begun, mut pause, mut left) = (Instant::now(), FIRST_PAUSE, self.retries.most);
        loop {
            let received = self.env.runtime().block_on(incoming.receive(self, file, kill));
            let error = match received {
                Ok(()) => return incoming.finish(file, &root.join(name)),
                Err(FetchError::Stream(error)) if error.may_pass() => error,
                Err(error) => return Err(error),
            };
            let is_busy = matches!(error, StreamError::Busy { .. });
            if is_busy && begun.elapsed() < TURN {
                std::thread::sleep(pause);
                pause = (pause * 2).min(LAST_PAUSE);
            } else if !is_busy && left > 0 {
                tracing::warn!(file = %file.name, %error, left, "a file is asked for again");
                left -= 1;
                std::thread::sleep(self.retries.wait);
            } else {
                return Err(FetchError::Stream(error));
            }
            if let Some(reason) = kill.thrown() {
                return Err(FetchError::Killed(reason));
            }
        }
    }
}

fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// What has come of a file. It goes with this value unless it is finished.
struct Incoming {
    path: PathBuf,
    file: File,
    hasher: blake3::Hasher,
}

impl Incoming {
    fn new(path: PathBuf) -> io::Result<Self> {
        let file = File::create(&path)?;
        Ok(Incoming { path, file, hasher: blake3::Hasher::new() })
    }

    /// Goes on where the last attempt ended.
    async fn receive(
        &mut self,
        manager: &BlockManager,
        file: &ServedFile,
        kill: &KillSwitch,
    ) -> Result<(), FetchError> {
        let length = self.hasher.count();
        let id = wire::content_from(&file.hash, length);
        let left = file.bytes.saturating_sub(length);
        let stream = manager.env.streams().open(&manager.driver, &id, left).await;
        let mut stream = stream.map_err(FetchError::Stream)?;
        let mut buffer = vec![0; BUFFER];
        loop {
            let read = stream.read(&mut buffer).await.map_err(FetchError::of_reading)?;
            if read == 0 {
                return Ok(());
            }
            self.file.write_all(&buffer[..read]).map_err(FetchError::Disk)?;
            self.hasher.update(&buffer[..read]);
            if let Some(reason) = kill.thrown() {
                return Err(FetchError::Killed(reason));
            }
        }
    }

    /// Puts it where tasks find it, if it is what was promised.
    fn finish(self, promised: &ServedFile, target: &Path) -> Result<(), FetchError> {
        if self.hasher.finalize() != blake3::Hash::from_bytes(promised.hash) {
            return Err(FetchError::OtherBytes);
        }
        fs::set_permissions(&self.path, fs::Permissions::from_mode(MODE))
            .and_then(|()| fs::rename(&self.path, target))
            .map_err(FetchError::Disk)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use firesteel_rpc::{
        BindTo, Caller, Context, Endpoint, HandlerError, OpenError, Peer, RpcEnv, RpcOptions,
        StreamBody, StreamSource,
    };
    use tokio::runtime::Runtime;

    use super::super::protocol::BLOCK_MASTER;
    use super::super::settings::Settings;
    use super::*;

    /// What a driver has added, and how often a file was read of it.
    #[derive(Default)]
    struct Driver {
        version: u64,
        /// By name: the hash that is promised, and what is served.
        files: BTreeMap<String, ([u8; 32], Vec<u8>)>,
        /// So many requests are told to come again.
        busy: u32,
        opened: u32,
    }

    impl Driver {
        fn add(&mut self, name: &str, bytes: &[u8]) {
            self.version += 1;
            let hash = *blake3::hash(bytes).as_bytes();
            self.files.insert(name.to_owned(), (hash, bytes.to_vec()));
        }
    }

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Driver>>);

    impl Endpoint for Shared {
        type Message = ToBlockMaster;

        async fn receive(
            &mut self,
            _: ToBlockMaster,
            caller: Caller<BlockMasterReply>,
            _: &Context<ToBlockMaster>,
        ) -> Result<(), HandlerError> {
            let driver = lock(&self.0);
            let served = |(name, (hash, bytes)): (&String, &([u8; 32], Vec<u8>))| ServedFile {
                name: name.clone(),
                bytes: bytes.len() as u64,
                hash: *hash,
            };
            let files = driver.files.iter().map(served).collect();
            caller.reply(BlockMasterReply::Files { version: driver.version, files });
            Ok(())
        }
    }

    impl StreamSource for Shared {
        fn open(&self, id: &str, _: &Peer) -> Result<StreamBody, OpenError> {
            let mut driver = lock(&self.0);
            let (hash, offset) = wire::parse_content(id).ok_or(OpenError::Missing)?;
            if driver.busy > 0 {
                driver.busy -= 1;
                return Err(OpenError::Busy);
            }
            driver.opened += 1;
            let found = driver.files.values().find(|(promised, _)| *promised == hash);
            let (_, bytes) = found.ok_or(OpenError::Missing)?;
            Ok(StreamBody::Bytes(Bytes::from(bytes[offset as usize..].to_vec())))
        }
    }

    fn manager(runtime: &Runtime, driver: &Shared) -> Arc<BlockManager> {
        let env = runtime.block_on(RpcEnv::server(RpcOptions::default(), BindTo::loopback()));
        let env = env.unwrap();
        let _entered = runtime.enter();
        env.register(BLOCK_MASTER, driver.clone()).unwrap();
        let address = env.address().cloned().unwrap();
        let settings = Settings::read(|name| {
            Some(match name {
                "FIRESTEEL_DRIVER_URL" => address.endpoint("driver").to_string(),
                "FIRESTEEL_CONF" => "spark.shuffle.io.retryWait=1ms".to_owned(),
                "FIRESTEEL_EXECUTOR_HOST" => "127.0.0.1".to_owned(),
                "FIRESTEEL_WORKER_URL" | "SPARK_LOCAL_DIRS" => return None,
                _ => "1".to_owned(),
            })
        });
        let manager = BlockManager::new(&settings.unwrap(), env.clone(), address.clone()).unwrap();
        env.serve_streams(Arc::new(driver.clone()));
        manager
    }

    #[test]
    fn a_file_comes_once_and_again_when_it_was_replaced_and_never_with_other_bytes() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let driver = Shared::default();
        let manager = manager(&runtime, &driver);
        let (directory, kill) = (tempfile::tempdir().unwrap(), KillSwitch::default());
        let root = || -> io::Result<PathBuf> { Ok(directory.path().to_owned()) };
        let bring = |version| manager.bring_files_to(root, version, &kill);
        let text = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        bring(0).unwrap();
        lock(&driver.0).add("empty", b"");
        lock(&driver.0).add("words", b"one two");
        lock(&driver.0).busy = 2;
        bring(2).unwrap();
        assert_eq!((text("words"), text("empty")), ("one two".to_owned(), String::new()));
        bring(1).unwrap();
        bring(2).unwrap();
        assert_eq!(lock(&driver.0).opened, 2, "each of them once");
        lock(&driver.0).add("words", b"three");
        bring(3).unwrap();
        assert_eq!((text("words").as_str(), lock(&driver.0).opened), ("three", 3));
        let mut held = lock(&driver.0);
        held.add("words", b"promised");
        held.files.get_mut("words").unwrap().1 = b"anything".to_vec();
        drop(held);
        let TaskFailure::Error { message } = bring(4).unwrap_err() else { panic!("an error") };
        assert!(message.contains("words") && message.contains("not what the driver"), "{message}");
        assert_eq!(text("words"), "three", "what was there stays");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2, "nothing is left of it");
        kill.throw("enough");
        lock(&driver.0).busy = 1;
        assert!(matches!(bring(4), Err(TaskFailure::Killed { .. })));
    }
}
