//! `local-cluster[n,c,m]`: a master and workers inside this process, executors as real processes.
//!
//! They listen on loopback, with a secret that nobody else has, and end with the context. What tasks print appears where
//! the driver prints.

use std::io;
use std::path::PathBuf;

use firesteel_backend::provider::ProviderCommand;
use firesteel_conf::{ByteSize, Conf, Master, entries};
use firesteel_rpc::{RpcAddress, RpcOptions, Secret};
use firesteel_standalone::StartError;
use firesteel_standalone::master::{self, MasterArgs, RunningMaster};
use firesteel_standalone::worker::{self, RunningWorker, WorkerArgs};
use firesteel_storage::LocalDirs;
use tokio::runtime::Handle;

use super::provider::{ApplicationSpec, ClusterManager, Provider, Reports};
use super::standalone::StandaloneProvider;

/// `local-cluster[n,c,m]`
pub(super) struct Local;

impl ClusterManager for Local {
    fn name(&self) -> &str {
        "local-cluster"
    }

    fn claims(&self, master: &Master) -> bool {
        matches!(master, Master::LocalCluster { .. })
    }

    fn prepare(
        &self,
        master: &Master,
        conf: &Conf,
        runtime: &Handle,
    ) -> Result<Box<dyn Provider>, String> {
        let Master::LocalCluster { workers, cores, memory_mb } = master else {
            return Err("it is another".to_owned());
        };
        let size = Size { workers: workers.get(), cores: cores.get(), memory_mb: memory_mb.get() };
        let settings = settings(conf, size)?;
        let own = runtime.block_on(LocalCluster::start(&settings, size));
        let own = own.map_err(|error| error.to_string())?;
        let options = rpc_options(&settings)?;
        let client = StandaloneProvider::new(vec![own.master()], options, false, runtime);
        let (runtime, own) = (runtime.clone(), Some(own));
        Ok(Box::new(LocalProvider { client, own, runtime, settings, cores: size.cores }))
    }
}

/// A cluster of its own has a secret of its own, whatever the user's environment says.
fn rpc_options(settings: &Conf) -> Result<RpcOptions, String> {
    RpcOptions::from_conf(settings, |_| None).map_err(|error| error.to_string())
}

/// The client of its own master.
struct LocalProvider {
    client: StandaloneProvider,
    own: Option<LocalCluster>,
    runtime: Handle,
    settings: Conf,
    cores: u32,
}

impl Provider for LocalProvider {
    fn settings(&self, _: &Conf) -> Conf {
        self.settings.clone()
    }

    fn rpc_options(&self, conf: &Conf) -> Result<RpcOptions, String> {
        rpc_options(conf)
    }

    fn driver_host(&self) -> io::Result<String> {
        self.client.driver_host()
    }

    fn default_cores(&self) -> Option<u32> {
        Some(self.cores)
    }

    fn start(&mut self, application: ApplicationSpec, reports: Reports) -> Result<(), String> {
        self.client.start(application, reports)
    }

    fn command(&mut self, command: ProviderCommand) {
        self.client.command(command);
    }

    fn stop(&mut self) {
        self.client.stop();
        if let Some(own) = self.own.take() {
            self.runtime.block_on(own.stop());
        }
    }
}

/// The numbers of `local-cluster[n,c,m]`.
#[derive(Clone, Copy)]
struct Size {
    workers: u32,
    cores: u32,
    memory_mb: u32,
}

struct LocalCluster {
    master: RunningMaster,
    workers: Vec<RunningWorker>,
    directories: LocalDirs,
}

/// The settings of an application on such a cluster: with its secret, and with executors as large as
/// workers unless the user wants smaller ones.
fn settings(conf: &Conf, size: Size) -> Result<Conf, String> {
    let mut settings = conf.clone();
    settings.set(entries::AUTHENTICATE.key(), true);
    // It ends with the context: there is nothing to recover.
    settings.set(entries::DEPLOY_RECOVERY_MODE.key(), "NONE");
    settings.set(entries::AUTHENTICATE_SECRET.key(), Secret::generate().expose());
    let memory = entries::EXECUTOR_MEMORY.key();
    if conf.setting(memory).is_none() {
        settings.set(memory, format!("{}m", size.memory_mb));
    }
    let ByteSize(wanted) =
        settings.get(&entries::EXECUTOR_MEMORY).map_err(|error| error.to_string())?;
    if wanted > u64::from(size.memory_mb) << 20 {
        return Err(format!(
            "its workers have {} MiB each, but {memory} asks for {} MiB",
            size.memory_mb,
            wanted >> 20
        ));
    }
    Ok(settings)
}

impl LocalCluster {
    async fn start(conf: &Conf, size: Size) -> Result<Self, StartError> {
        let options = RpcOptions::from_conf(conf, |_| None)?;
        let master = master::start(MasterArgs::loopback(conf.clone(), options.clone())).await?;
        let roots = conf.get(&entries::LOCAL_DIR)?;
        // Of a driver that is killed they stay, until the next one starts.
        let directories = LocalDirs::new(roots.into_iter().map(PathBuf::from).collect());
        let disks = directories.create_directories("cluster").map_err(|source| {
            StartError::WorkDirectory { path: PathBuf::from("spark.local.dir"), source }
        })?;
        let mut workers = Vec::new();
        for index in 0..size.workers {
            let masters = vec![master.address.clone()];
            let worker = format!("worker-{index}");
            let work = disks[0].join(&worker);
            let mut args = WorkerArgs::loopback(masters, work, conf.clone(), options.clone());
            args.local_dirs = disks.iter().map(|disk| disk.join(&worker).join("local")).collect();
            (args.cores, args.memory_mb) = (size.cores, size.memory_mb.into());
            args.inherit_output = true;
            workers.push(worker::start(args).await?);
        }
        for worker in &workers {
            worker.registered().await;
        }
        Ok(LocalCluster { master, workers, directories })
    }

    fn master(&self) -> RpcAddress {
        self.master.address.clone()
    }

    async fn stop(self) {
        for worker in self.workers {
            worker.stop().await;
        }
        self.master.stop().await;
        self.directories.remove();
    }
}
