//! How an application comes to its cluster: settings, the runtime, the driver's port, its provider of executors.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tokio::runtime::Runtime;

use firesteel_backend::registry::{Registry, RegistryOptions};
use firesteel_backend::wire;
use firesteel_closure::ExecutableHash;
use firesteel_conf::{Conf, Master, entries};
use firesteel_executor::node::BLOCK_MASTER;
use firesteel_rpc::{BindTo, RpcEnv, Secret};

use super::super::Engine;
use super::super::local::guarded_with;
use super::actor::{Actor, ActorMessage};
use super::contents::Contents;
use super::describe::{describe, wanted};
use super::endpoints::{BlockMaster, Scheduler, Streams};
use super::provider::{ApplicationSpec, ClusterManager, Provider, Reports};
use super::{Cluster, lock};
use crate::files::Files;
use crate::{Error, Result};

/// Executors do not hear of a busy driver more often.
const SHORTEST_KEEP_ALIVE: Duration = Duration::from_millis(10);

/// A cluster that was not asked for anything yet.
pub(crate) struct NewCluster {
    master: String,
    runtime: Runtime,
    provider: Box<dyn Provider>,
    opened: Opened,
}

impl NewCluster {
    /// Opens the driver's port and prepares the application's request to this cluster manager.
    pub(crate) fn join(
        manager: &dyn ClusterManager,
        master: &Master,
        conf: &Conf,
        cpus_per_task: u32,
        files: &Files,
    ) -> Result<Self> {
        let refused = |reason: String| Error::Master { master: master.to_string(), reason };
        let runtime = runtime()?;
        let mut provider = manager.prepare(master, conf, runtime.handle()).map_err(refused)?;
        let conf = provider.settings(conf);
        // What was prepared may have directories and ports.
        let opened = Opened::new(&*provider, &runtime, master, conf, (cpus_per_task, files));
        let opened = opened.inspect_err(|_| provider.stop())?;
        Ok(NewCluster { master: master.to_string(), runtime, provider, opened })
    }

    pub(in super::super) fn cluster(&self) -> &Arc<Cluster> {
        &self.opened.cluster
    }

    /// Asks for executors, and waits until the cluster manager has taken the application in.
    pub(in super::super) fn start(self, engine: &Arc<Engine>) -> Result<()> {
        let NewCluster { master, runtime, mut provider, opened } = self;
        let refused = |reason: String| Error::Master { master: master.clone(), reason };
        let Opened { cluster, messages, core, application, wanted, hash, keep_alive } = opened;
        runtime.spawn(Cluster::keep_alive(Arc::downgrade(&cluster), keep_alive));
        let started = cluster.serve(engine, hash);
        let started = started.and_then(|reports| provider.start(application, reports));
        started.inspect_err(|_| provider.stop()).map_err(refused)?;
        let actor = Actor::new(engine.clone(), cluster.clone(), core, provider, wanted);
        let thread = std::thread::Builder::new().name("firesteel-standalone-core".into());
        let shared = engine.clone();
        let spawned = thread.spawn(move || guarded_with(&shared, || actor.run(&messages, runtime)));
        let spawned = spawned.map_err(|source| start_error("the thread of the cluster", source))?;
        *lock(&cluster.thread) = Some(spawned);
        cluster.wait_until_joined().map_err(refused)
    }
}

/// The driver's port, and what is behind it.
struct Opened {
    cluster: Arc<Cluster>,
    messages: Receiver<ActorMessage>,
    core: Registry,
    application: ApplicationSpec,
    wanted: String,
    hash: ExecutableHash,
    /// How often executors hear of a driver that is busy.
    keep_alive: Duration,
}

impl Opened {
    fn new(
        provider: &dyn Provider,
        runtime: &Runtime,
        master: &Master,
        conf: Conf,
        (cpus_per_task, files): (u32, &Files),
    ) -> Result<Self> {
        let refused = |reason: String| Error::Master { master: master.to_string(), reason };
        let cores = conf.get(&entries::EXECUTOR_CORES)?.or(provider.default_cores());
        check_cores(cores, cpus_per_task).map_err(refused)?;
        let options = provider.rpc_options(&conf).map_err(refused)?;
        // Where one is needed at all, this application has one that no other knows.
        let own = || provider.application_secret().unwrap_or_else(Secret::generate);
        let secret = options.keyring.is_some().then(own);
        let bind = bind_to(&conf, provider).map_err(|error| {
            refused(format!(
                "its address cannot be found ({error}): check the host, or set spark.driver.host"
            ))
        })?;
        let inside = options.for_application(secret.clone());
        let env = runtime.block_on(RpcEnv::server(inside, bind));
        let env = env.map_err(|error| refused(error.to_string()))?;
        let address = env.address().cloned().ok_or_else(|| refused("it has no port".to_owned()))?;
        let hash = hash()?;
        let unreadable = |source| start_error("executors: the executable or a file", source);
        let max_downloads = conf.get(&entries::MAX_DOWNLOADS)? as usize;
        let contents = Contents::new(hash, files, max_downloads).map_err(unreadable)?;
        let served = contents.served_at(&address).map_err(unreadable)?;
        let core = Registry::new(registry_options(&conf, hash, provider.reason_wait())?);
        let (sender, messages) = channel();
        let cluster = Arc::new(Cluster::new(&conf, env, sender, contents)?);
        let wanted = wanted(&conf)?;
        let keep_alive = (conf.get(&entries::NETWORK_TIMEOUT)? / 8).max(SHORTEST_KEEP_ALIVE);
        let application = describe(conf, &address, secret.as_ref(), hash, served)?;
        Ok(Opened { cluster, messages, core, application, wanted, hash, keep_alive })
    }
}

impl Cluster {
    /// Hears executors from now on; where their provider reports to.
    fn serve(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        hash: ExecutableHash,
    ) -> std::result::Result<Reports, String> {
        let (cluster, clock) = (self.clone(), engine.clock);
        let engine = Arc::downgrade(engine);
        self.env.serve_streams(Arc::new(Streams { cluster: cluster.clone() }));
        let blocks = BlockMaster { cluster, engine, hash };
        let executors = Scheduler::new(self.messages.clone(), self.backlog.clone(), clock);
        let registered = self.env.register(BLOCK_MASTER, blocks).map(drop);
        registered
            .and_then(|()| self.env.register(wire::DRIVER, executors).map(drop))
            .map_err(|error| error.to_string())?;
        Ok(Reports(self.messages.clone()))
    }
}

fn registry_options(
    conf: &Conf,
    hash: ExecutableHash,
    reason_wait: Option<Duration>,
) -> Result<RegistryOptions> {
    let timeout = conf.get(&entries::NETWORK_TIMEOUT)?.as_millis();
    let defaults = RegistryOptions::default();
    let reason_wait_ms = reason_wait.map(|wait| wait.as_millis() as u64);
    Ok(RegistryOptions {
        reason_wait_ms: reason_wait_ms.unwrap_or(defaults.reason_wait_ms),
        hash: Some(hash.bytes()),
        target: conf.get(&entries::EXECUTOR_INSTANCES)?,
        network_timeout_ms: u64::try_from(timeout).unwrap_or(u64::MAX),
        ..defaults
    })
}

/// A task that needs more cores than an executor has would wait for ever.
fn check_cores(cores: Option<u32>, cpus_per_task: u32) -> std::result::Result<(), String> {
    match cores.filter(|cores| *cores < cpus_per_task) {
        None => Ok(()),
        Some(cores) => Err(format!(
            "an executor has {cores} core(s), but spark.task.cpus asks for {cpus_per_task} per task; lower it or \
             raise spark.executor.cores"
        )),
    }
}

fn runtime() -> Result<Runtime> {
    let built = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("firesteel-rpc")
        .enable_all()
        .build();
    built.map_err(|source| start_error("the threads of the network", source))
}

fn hash() -> Result<ExecutableHash> {
    ExecutableHash::current().map_err(|source| start_error("executors: the executable", source))
}

pub(super) fn start_error(what: &str, source: io::Error) -> Error {
    Error::Start { what: what.to_owned(), source: Arc::new(source) }
}

fn bind_to(conf: &Conf, provider: &dyn Provider) -> io::Result<BindTo> {
    let setting = |entry| conf.get(entry).map_err(io::Error::other);
    let host = match setting(&entries::DRIVER_HOST)? {
        Some(host) => host,
        None => provider.driver_host()?,
    };
    let bind = setting(&entries::DRIVER_BIND_ADDRESS)?.unwrap_or_else(|| host.clone());
    let port = conf.get(&entries::DRIVER_PORT).map_err(io::Error::other)?;
    let port = u16::try_from(port).map_err(io::Error::other)?;
    Ok(BindTo { host: bind, port, advertise: Some(host) })
}
