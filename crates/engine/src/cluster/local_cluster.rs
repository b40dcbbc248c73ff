//! `local-cluster[n,c,m]`: a master and workers inside this process, executors as real processes.
//!
//! They listen on loopback, with a secret that nobody else has, and end with the context.

use std::path::PathBuf;

use firesteel_conf::{ByteSize, Conf, entries};
use firesteel_rpc::{RpcAddress, RpcOptions, Secret};
use firesteel_standalone::StartError;
use firesteel_standalone::master::{self, MasterArgs, RunningMaster};
use firesteel_standalone::worker::{self, RunningWorker, WorkerArgs};
use firesteel_storage::LocalDirs;

/// The numbers of `local-cluster[n,c,m]`.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) workers: u32,
    pub(super) cores: u32,
    pub(super) memory_mb: u32,
}

pub(super) struct LocalCluster {
    master: RunningMaster,
    workers: Vec<RunningWorker>,
    directories: LocalDirs,
}

/// The settings of an application on such a cluster: with its secret, and with executors as large as
/// workers unless the user wants smaller ones.
pub(super) fn settings(conf: &Conf, size: Size) -> Result<Conf, String> {
    let mut settings = conf.clone();
    settings.set(entries::AUTHENTICATE.key(), true);
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
    pub(super) async fn start(conf: &Conf, size: Size) -> Result<Self, StartError> {
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
            workers.push(worker::start(args).await?);
        }
        for worker in &workers {
            worker.registered().await;
        }
        Ok(LocalCluster { master, workers, directories })
    }

    pub(super) fn master(&self) -> RpcAddress {
        self.master.address.clone()
    }

    pub(super) async fn stop(self) {
        for worker in self.workers {
            worker.stop().await;
        }
        self.master.stop().await;
        self.directories.remove();
    }
}
