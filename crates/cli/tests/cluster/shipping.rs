//! Executables and files that a driver serves, to workers that have none of them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use firesteel_backend::Address;
use firesteel_backend::command::{Command, Served, ServedFile};
use firesteel_backend::wire;
use firesteel_rpc::*;
use firesteel_standalone_core::description::ExecutorState;
use firesteel_types::Host;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use crate::application::Application;
use crate::daemon::{Master, Worker, file};

/// A driver that serves texts by their hash.
pub(crate) struct Driver {
    served: Arc<Texts>,
    secret: Secret,
    pub(crate) env: RpcEnv,
    pub(crate) runtime: Runtime,
}

struct Texts {
    texts: Vec<(String, String)>,
    /// How many streams were opened.
    count: AtomicUsize,
    /// One for each that is served at once.
    places: Arc<Semaphore>,
}

impl StreamSource for Texts {
    fn open(&self, id: &str, peer: &Peer) -> Result<StreamBody, OpenError> {
        assert_eq!(&*peer.identity, APPLICATION_IDENTITY);
        let (hash, offset) = wire::parse_content(id).ok_or(OpenError::Missing)?;
        let found = self.texts.iter().find(|(said, _)| hash_of(said) == hash);
        let (_, sent) = found.ok_or(OpenError::Missing)?;
        let place = self.places.clone().try_acquire_owned().map_err(|_| OpenError::Busy)?;
        self.count.fetch_add(1, Ordering::Relaxed);
        let sent = sent.as_bytes()[offset as usize..].to_vec();
        Ok(StreamBody::Bytes(sent.into()).holding(place))
    }
}

fn hash_of(text: &str) -> [u8; 32] {
    *blake3::hash(text.as_bytes()).as_bytes()
}

impl Driver {
    /// Serves texts, each in the place of another one.
    fn start(texts: &[(&str, &str)]) -> Self {
        Self::limited(texts, 100)
    }

    /// To so many at once.
    pub(crate) fn limited(texts: &[(&str, &str)], places: usize) -> Self {
        let texts = texts.iter().map(|(said, sent)| (said.to_string(), sent.to_string())).collect();
        let places = Arc::new(Semaphore::new(places));
        let served = Arc::new(Texts { texts, count: AtomicUsize::new(0), places });
        let secret = Secret::generate();
        let runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = { runtime }.worker_threads(1).enable_all().build().unwrap();
        let options = RpcOptions::default().for_application(Some(secret.clone()));
        let env = runtime.block_on(RpcEnv::server(options, BindTo::loopback())).unwrap();
        env.serve_streams(served.clone());
        Self { served, secret, env, runtime }
    }

    /// A program that only this driver has.
    pub(crate) fn command(&self, program: &str, files: &[(&str, &str)]) -> Command {
        let RpcAddress { host, port } = self.env.address().unwrap();
        let served_file = |(name, text): &(&str, &str)| ServedFile {
            name: (*name).to_owned(),
            bytes: text.len() as u64,
            hash: hash_of(text),
        };
        let mut command = Command {
            program: "/nowhere/at/all".to_owned(),
            hash: Some(hash_of(program)),
            served: Some(Served {
                address: Address { host: Host::new(host), port: *port },
                program_bytes: program.len() as u64,
                files: files.iter().map(served_file).collect(),
            }),
            ..Command::default()
        };
        let secret = self.secret.expose().to_owned();
        command.environment.insert(SECRET_VARIABLE.to_owned(), secret);
        command
    }

    pub(crate) fn count(&self) -> usize {
        self.served.count.load(Ordering::Relaxed)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.runtime.block_on(self.env.shutdown());
    }
}

const PROGRAM: &str =
    "#!/bin/sh\nls > new; cat data.txt >> new 2>&1; mv new done\nexec sleep 1000\n";

fn cache(worker: &Worker) -> PathBuf {
    worker.directory("cache", 0).parent().unwrap().to_owned()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_program_that_a_worker_does_not_have_is_fetched_once_with_its_files_and_run() {
    let master = Master::start(&[]);
    let worker = Worker::start(&master, &[]);
    let driver = Driver::start(&[(PROGRAM, PROGRAM), ("of the driver", "of the driver")]);
    let command = driver.command(PROGRAM, &[("data.txt", "of the driver")]);
    for _ in 0..2 {
        let application = Application::register(&master, command.clone());
        let work = worker.directory(&application.id(), 0);
        let said = file(&work.join("done"));
        assert!(said.contains("data.txt\n") && said.ends_with("of the driver"), "{said}");
        assert_eq!(mode(&work.join("data.txt")), 0o700);
    }
    assert_eq!(driver.count(), 2, "a program and a file, for both applications");
    assert_eq!(mode(&cache(&worker)), 0o700);
    let kept: Vec<_> = fs::read_dir(cache(&worker)).unwrap().map(|it| it.unwrap().path()).collect();
    assert!(kept.len() == 2 && kept.iter().all(|path| mode(path) == 0o500), "{kept:?}");
    let shown = [worker.daemon.stderr(), master.daemon.stderr()].concat();
    assert!(!shown.contains(driver.secret.expose()));
}

#[test]
fn a_program_of_another_hash_or_that_may_not_be_run_is_left_alone_and_the_drivers_is_run() {
    let master = Master::start(&[]);
    let worker = Worker::start(&master, &[]);
    let driver = Driver::start(&[(PROGRAM, PROGRAM)]);
    let directory = tempfile::tempdir().unwrap();
    for (text, mode) in [("#!/bin/sh\nexit 3\n", 0o755), (PROGRAM, 0o644)] {
        let there = directory.path().join("app");
        fs::write(&there, text).unwrap();
        fs::set_permissions(&there, fs::Permissions::from_mode(mode)).unwrap();
        let program = there.to_str().unwrap().to_owned();
        let command = Command { program, ..driver.command(PROGRAM, &[]) };
        let application = Application::register(&master, command);
        file(&worker.directory(&application.id(), 0).join("done"));
    }
}

#[test]
fn what_is_not_what_the_driver_said_is_never_run_and_the_application_hears_why() {
    let master = Master::start(&["--conf", "spark.deploy.maxExecutorRetries=1"]);
    let worker = Worker::start(&master, &[]);
    let driver = Driver::start(&[(PROGRAM, "#!/bin/sh\ntouch run\n"), ("data", "DATA")]);
    let same_length = "#!/bin/sh\ntouch rum\n";
    let liar = Driver::start(&[(same_length, "#!/bin/sh\ntouch run\n")]);
    let mut stranger = liar.command(same_length, &[]);
    stranger.environment.insert(SECRET_VARIABLE.to_owned(), "another application's".to_owned());
    let mut gone = driver.command(PROGRAM, &[]);
    gone.served.as_mut().unwrap().address.port = 1;
    let here = |files: &[(&str, &str)]| {
        let program = "/bin/sh".to_owned();
        let hash = Some(*blake3::hash(&fs::read(&program).unwrap()).as_bytes());
        Command { program, hash, ..driver.command(PROGRAM, files) }
    };
    for (command, needle) in [
        (driver.command(PROGRAM, &[]), "had said"),
        (liar.command(same_length, &[]), "is not what it said"),
        (driver.command("never there", &[]), "has no stream"),
        (stranger, "refused the secret"),
        (gone, "could not connect"),
        (here(&[("data", "data")]), "is not what it said"),
        (here(&[("../data", "data")]), "cannot be the name"),
        (here(&[("/tmp/data", "data")]), "cannot be the name"),
    ] {
        let application = Application::register(&master, command);
        let (reason, (state, end)) = (application.removal(), application.end_of(0));
        assert_eq!(state, ExecutorState::Failed);
        assert!(reason.contains(needle) && end.contains(needle), "{needle}: {reason} {end}");
        assert!(!worker.directory(&application.id(), 0).join("run").exists());
    }
    assert_eq!(fs::read_dir(cache(&worker)).map_or(0, Iterator::count), 0, "nothing is kept");
}

#[test]
fn a_program_larger_than_a_worker_keeps_is_refused_with_the_setting() {
    let master = Master::start(&["--conf", "spark.deploy.maxExecutorRetries=1"]);
    let _worker = Worker::start(&master, &["--conf", "spark.firesteel.worker.cache.maxSize=10"]);
    let driver = Driver::start(&[(PROGRAM, PROGRAM)]);
    let application = Application::register(&master, driver.command(PROGRAM, &[]));
    let reason = application.removal();
    assert!(reason.contains("spark.firesteel.worker.cache.maxSize"), "{reason}");
    assert_eq!(driver.count(), 0);
}
