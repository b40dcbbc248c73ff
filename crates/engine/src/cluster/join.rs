//! How an application comes to its cluster: settings, the runtime, the registration with a master.

use std::io;
use std::net::{ToSocketAddrs, UdpSocket};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tokio::runtime::Runtime;

use firesteel_closure::ExecutableHash;
use firesteel_cluster::Incarnation;
use firesteel_cluster::application::{Backend, BackendOptions};
use firesteel_cluster::jitter::Jitter;
use firesteel_cluster::wire;
use firesteel_conf::{ByteSize, Conf, HostPort, Master, entries};
use firesteel_executor::cluster::BLOCK_MASTER;
use firesteel_rpc::{BindTo, RpcAddress, RpcEnv, RpcOptions, Secret};

use super::super::Engine;
use super::super::local::guarded_with;
use super::actor::{Actor, News};
use super::broadcasts::Broadcasts;
use super::contents::Contents;
use super::describe::{describe, wanted};
use super::endpoints::{AppClient, BlockMaster, Scheduler, Streams};
use super::local_cluster::{self, LocalCluster, Size};
use super::{Cluster, Joined, lock};
use crate::files::Files;
use crate::{Error, Result};

/// What ends after everything that uses it.
pub(super) struct Network {
    runtime: Runtime,
    /// The way to masters, with the cluster's secret. The driver's own environment has the
    /// application's.
    outside: RpcEnv,
    own: Option<LocalCluster>,
}

impl Network {
    /// What is queued is sent before the connections close.
    pub(super) fn end(self, env: &RpcEnv) {
        self.runtime.block_on(async {
            env.shutdown().await;
            self.outside.shutdown().await;
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
    pub(crate) fn join(
        master: &Master,
        masters: &[HostPort],
        conf: &Conf,
        files: &Files,
    ) -> Result<Self> {
        let masters = masters.iter().map(|at| RpcAddress::new(bare(&at.host), at.port)).collect();
        Self::prepare(master, masters, conf, files, (runtime()?, None))
    }

    /// Starts a cluster of its own first.
    pub(crate) fn with_own(
        master: &Master,
        (workers, cores, memory_mb): (u32, u32, u32),
        conf: &Conf,
        files: &Files,
    ) -> Result<Self> {
        let refused = |reason: String| Error::Master { master: master.to_string(), reason };
        let size = Size { workers, cores, memory_mb };
        let conf = local_cluster::settings(conf, size).map_err(refused)?;
        let runtime = runtime()?;
        let own = runtime.block_on(LocalCluster::start(&conf, size));
        let own = own.map_err(|error| refused(error.to_string()))?;
        Self::prepare(master, vec![own.master()], &conf, files, (runtime, Some(own)))
    }

    fn prepare(
        master: &Master,
        masters: Vec<RpcAddress>,
        conf: &Conf,
        files: &Files,
        (runtime, own): (Runtime, Option<LocalCluster>),
    ) -> Result<Self> {
        let refused = |reason: String| Error::Master { master: master.to_string(), reason };
        // A cluster of its own has a secret of its own.
        let variable = |name: &str| std::env::var(name).ok().filter(|_| own.is_none());
        let options = RpcOptions::from_conf(conf, variable);
        let options = options.map_err(|error| refused(error.to_string()))?;
        // Where one is needed at all, this application has one that no other knows.
        let secret = options.keyring.is_some().then(Secret::generate);
        let bind = bind_to(conf, &masters).map_err(|error| {
            refused(format!(
                "its address cannot be found ({error}): check the host, or set spark.driver.host"
            ))
        })?;
        let inside = options.for_application(secret.clone());
        let env = runtime.block_on(RpcEnv::server(inside, bind));
        let env = env.map_err(|error| refused(error.to_string()))?;
        let outside = runtime.block_on(async { RpcEnv::client(options) });
        let address = env.address().cloned().ok_or_else(|| refused("it has no port".to_owned()))?;
        let hash = hash()?;
        let unreadable = |source| start_error("executors: the executable or a file", source);
        let contents = Contents::new(hash, files).map_err(unreadable)?;
        let served = contents.served_at(&address).map_err(unreadable)?;
        let description = describe(conf, &address, secret, hash, served)?;
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
            introduced: Mutex::default(),
            broadcasts: Broadcasts::new(piece_bytes),
            code: Mutex::default(),
            joined: Mutex::new(Joined::NotYet),
            joining: Condvar::new(),
            thread: Mutex::new(None),
            contents,
            max_result_bytes,
            retries,
        });
        let master = master.to_string();
        let network = Network { runtime, outside, own };
        Ok(NewCluster { cluster, master, masters, network, news, core, wanted, hash })
    }

    /// Registers, and waits until a master has answered.
    pub(in super::super) fn start(self, engine: &Arc<Engine>) -> Result<()> {
        let NewCluster { cluster, master, masters, network, news, core, wanted, hash } = self;
        let (env, sender) = (&cluster.env, &cluster.news);
        env.serve_streams(Arc::new(Streams { cluster: cluster.clone() }));
        let outside = network.outside.clone();
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
        let (known, weak) = (Default::default(), Arc::downgrade(engine));
        let registered = env
            .register(BLOCK_MASTER, BlockMaster { cluster: cluster.clone(), engine: weak, hash })
            .map(drop)
            .and_then(|()| {
                env.register(wire::DRIVER, Scheduler { news: sender.clone(), known }).map(drop)
            })
            .and_then(|()| {
                let client = AppClient { news: sender.clone(), masters };
                outside.register(wire::APP_CLIENT, client).map(drop)
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

pub(super) fn start_error(what: &str, source: io::Error) -> Error {
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
