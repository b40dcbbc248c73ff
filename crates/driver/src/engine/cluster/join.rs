//! How an application comes to its cluster: settings, the runtime, the registration with a master.

use std::collections::BTreeMap;
use std::io;
use std::net::{ToSocketAddrs, UdpSocket};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tokio::runtime::Runtime;

use firesteel_closure::ExecutableHash;
use firesteel_cluster::Incarnation;
use firesteel_cluster::application::{Backend, BackendOptions};
use firesteel_cluster::description::{ApplicationDescription, Command};
use firesteel_cluster::jitter::Jitter;
use firesteel_cluster::wire;
use firesteel_conf::{ByteSize, Conf, HostPort, Master, entries};
use firesteel_executor::child::ROLE;
use firesteel_executor::cluster::{BLOCK_MASTER, DRIVER_URL, SETTINGS};
use firesteel_rpc::{BindTo, RpcAddress, RpcEnv, RpcOptions, SECRET_VARIABLE};

use super::super::Engine;
use super::super::local::guarded_with;
use super::actor::{Actor, News};
use super::broadcasts::Broadcasts;
use super::endpoints::{AppClient, BlockMaster, Scheduler, Streams};
use super::local_cluster::{self, LocalCluster, Size};
use super::{Cluster, Joined, lock};
use crate::context::executable_name;
use crate::{Error, Result};

/// What ends after everything that uses it.
pub(super) struct Network {
    runtime: Runtime,
    own: Option<LocalCluster>,
}

impl Network {
    /// What is queued is sent before the connections close.
    pub(super) fn end(self, env: &RpcEnv) {
        self.runtime.block_on(async {
            env.shutdown().await;
            if let Some(own) = self.own {
                own.stop().await;
            }
        });
        self.runtime.shutdown_timeout(Duration::from_secs(1));
    }
}

/// A cluster that was not asked for anything yet.
pub(crate) struct NewCluster {
    pub(in super::super) cluster: Arc<Cluster>,
    master: String,
    masters: Vec<RpcAddress>,
    network: Network,
    news: Receiver<News>,
    core: Backend,
    wanted: String,
    hash: ExecutableHash,
}

impl NewCluster {
    /// Opens the driver's port and prepares what is asked of these masters.
    pub(crate) fn join(master: &Master, masters: &[HostPort], conf: &Conf) -> Result<Self> {
        let masters = masters.iter().map(|at| RpcAddress::new(bare(&at.host), at.port)).collect();
        Self::prepare(master, masters, conf, runtime()?, None)
    }

    /// Starts a cluster of its own first.
    pub(crate) fn with_own(
        master: &Master,
        (workers, cores, memory_mb): (u32, u32, u32),
        conf: &Conf,
    ) -> Result<Self> {
        let refused = |reason: String| Error::Master { master: master.to_string(), reason };
        let size = Size { workers, cores, memory_mb };
        let conf = local_cluster::settings(conf, size).map_err(refused)?;
        let runtime = runtime()?;
        let own = runtime.block_on(LocalCluster::start(&conf, size));
        let own = own.map_err(|error| refused(error.to_string()))?;
        Self::prepare(master, vec![own.master()], &conf, runtime, Some(own))
    }

    fn prepare(
        master: &Master,
        masters: Vec<RpcAddress>,
        conf: &Conf,
        runtime: Runtime,
        own: Option<LocalCluster>,
    ) -> Result<Self> {
        let refused = |reason: String| Error::Master { master: master.to_string(), reason };
        // A cluster of its own has a secret of its own.
        let variable = |name: &str| std::env::var(name).ok().filter(|_| own.is_none());
        let options = RpcOptions::from_conf(conf, variable);
        let options = options.map_err(|error| refused(error.to_string()))?;
        let secret = options.identity.as_ref().map(|it| it.secret().expose().to_owned());
        let bind = bind_to(conf, &masters).map_err(|error| {
            refused(format!(
                "its address cannot be found ({error}): check the host, or set spark.driver.host"
            ))
        })?;
        let env = runtime.block_on(RpcEnv::server(options, bind));
        let env = env.map_err(|error| refused(error.to_string()))?;
        let address = env.address().cloned().ok_or_else(|| refused("it has no port".to_owned()))?;
        let hash = hash()?;
        let description = describe(conf, &address, secret, hash)?;
        let wanted = wanted(&description);
        let incarnation = Incarnation(fastrand::u64(..));
        let mut options = BackendOptions::new(Arc::new(description), incarnation, masters.len());
        options.hash = Some(hash.bytes());
        let timeout = conf.get(&entries::NETWORK_TIMEOUT)?.as_millis();
        options.network_timeout_ms = u64::try_from(timeout).unwrap_or(u64::MAX);
        let core = Backend::new(options, Jitter::new(fastrand::u64(..)));
        let ByteSize(piece_bytes) = conf.get(&entries::BROADCAST_BLOCK_SIZE)?;
        let ByteSize(max_result_bytes) = conf.get(&entries::DRIVER_MAX_RESULT_SIZE)?;
        let tries = conf.get(&entries::SHUFFLE_IO_MAX_RETRIES)?;
        let retries = (tries, conf.get(&entries::SHUFFLE_IO_RETRY_WAIT)?);
        let (sender, news) = channel();
        let cluster = Arc::new(Cluster {
            env,
            news: sender,
            executors: Mutex::default(),
            addresses: Mutex::default(),
            tracker: Default::default(),
            kept: Default::default(),
            broadcasts: Broadcasts::new(piece_bytes),
            code: Mutex::default(),
            joined: Mutex::new(Joined::NotYet),
            joining: Condvar::new(),
            thread: Mutex::new(None),
            max_result_bytes,
            retries,
        });
        let master = master.to_string();
        let network = Network { runtime, own };
        Ok(NewCluster { cluster, master, masters, network, news, core, wanted, hash })
    }

    /// Registers, and waits until a master has answered.
    pub(in super::super) fn start(self, engine: &Arc<Engine>) -> Result<()> {
        let NewCluster { cluster, master, masters, network, news, core, wanted, hash } = self;
        let (env, sender) = (&cluster.env, &cluster.news);
        let environment = engine.environment.clone();
        env.serve_streams(Arc::new(Streams { cluster: cluster.clone() }));
        let actor = Actor::new(engine.clone(), cluster.clone(), core, wanted);
        let thread = std::thread::Builder::new().name("firesteel-cluster".into());
        let shared = engine.clone();
        let spawned = thread.spawn(move || guarded_with(&shared, || actor.run(&news, network)));
        let spawned = spawned.map_err(|source| Error::Start {
            what: "the thread of the cluster".to_owned(),
            source: Arc::new(source),
        })?;
        *lock(&cluster.thread) = Some(spawned);
        let refused = |reason: String| Error::Master { master: master.clone(), reason };
        let known = Default::default();
        let registered = env
            .register(BLOCK_MASTER, BlockMaster { cluster: cluster.clone(), environment, hash })
            .map(drop)
            .and_then(|()| {
                env.register(wire::DRIVER, Scheduler { news: sender.clone(), known }).map(drop)
            })
            .and_then(|()| {
                env.register(wire::APP_CLIENT, AppClient { news: sender.clone(), masters })
                    .map(drop)
            });
        registered.map_err(|error| refused(error.to_string()))?;
        cluster.wait_until_joined().map_err(refused)
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

fn start_error(what: &str, source: io::Error) -> Error {
    Error::Start { what: what.to_owned(), source: Arc::new(source) }
}

/// Without the brackets of an IPv6 address.
fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

fn bind_to(conf: &Conf, masters: &[RpcAddress]) -> io::Result<BindTo> {
    let setting = |entry| conf.get(entry).map_err(io::Error::other);
    let host = match setting(&entries::DRIVER_HOST)? {
        Some(host) => host,
        None => own_address(masters)?,
    };
    let bind = setting(&entries::DRIVER_BIND_ADDRESS)?.unwrap_or_else(|| host.clone());
    let port = conf.get(&entries::DRIVER_PORT).map_err(io::Error::other)?;
    let port = u16::try_from(port).map_err(io::Error::other)?;
    Ok(BindTo { host: bind, port, advertise: Some(host) })
}

/// The address from which this machine reaches the first master that has one: the system says without
/// sending anything.
fn own_address(masters: &[RpcAddress]) -> io::Result<String> {
    let mut last = io::Error::other("no master has an address");
    for master in masters {
        let found = (master.host.as_str(), master.port).to_socket_addrs().and_then(|mut found| {
            let found = found.next().ok_or_else(|| io::Error::other("no address"))?;
            let any = if found.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
            let socket = UdpSocket::bind(any)?;
            socket.connect(found)?;
            Ok(socket.local_addr()?.ip().to_string())
        });
        match found {
            Ok(address) => return Ok(address),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// What is asked of a master: executors of this very executable.
fn describe(
    conf: &Conf,
    driver: &RpcAddress,
    secret: Option<String>,
    hash: ExecutableHash,
) -> Result<ApplicationDescription> {
    let program = std::env::current_exe().map_err(|source| start_error("executors", source))?;
    let mut settings = conf.clone();
    settings.remove(entries::AUTHENTICATE_SECRET.key());
    settings.remove(entries::AUTHENTICATE_SECRET_FILE.key());
    let mut environment = BTreeMap::from([
        (ROLE.to_owned(), "executor".to_owned()),
        (DRIVER_URL.to_owned(), driver.endpoint("driver").to_string()),
        (SETTINGS.to_owned(), settings.to_properties()),
    ]);
    if let Some(secret) = secret {
        environment.insert(SECRET_VARIABLE.to_owned(), secret);
    }
    let ByteSize(memory) = conf.get(&entries::EXECUTOR_MEMORY)?;
    Ok(ApplicationDescription {
        name: conf.get(&entries::APP_NAME)?.unwrap_or_else(executable_name),
        user: std::env::var("USER").unwrap_or_else(|_| "unknown".to_owned()),
        max_cores: conf.get(&entries::CORES_MAX)?,
        memory_per_executor_mb: (memory >> 20).max(1),
        cores_per_executor: conf.get(&entries::EXECUTOR_CORES)?,
        initial_executor_limit: None,
        command: Command {
            program: program.to_string_lossy().into_owned(),
            arguments: Vec::new(),
            environment,
            hash: Some(hash.bytes()),
        },
        web_ui: String::new(),
    })
}

/// For the warning that nothing of it can be had.
fn wanted(description: &ApplicationDescription) -> String {
    let cores = description.cores_per_executor.map_or_else(
        || "at least one core".to_owned(),
        |cores| format!("{cores} core(s) (spark.executor.cores)"),
    );
    let memory = description.memory_per_executor_mb;
    format!("executors with {cores} and {memory} MiB (spark.executor.memory)")
}
