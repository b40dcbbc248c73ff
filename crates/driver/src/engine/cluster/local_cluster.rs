//! `local-cluster[n,c,m]`: a master and workers inside this process, executors as real processes.
//!
//! They listen on loopback, with a secret that nobody else has, and end with the context.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use firesteel_conf::{ByteSize, Conf, entries};
use firesteel_rpc::{RpcAddress, RpcOptions, Secret};
use firesteel_standalone::StartError;
use firesteel_standalone::master::{self, MasterArgs, RunningMaster};
use firesteel_standalone::worker::{self, RunningWorker, WorkerArgs};

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
    directory: PathBuf,
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
        let directory = private_directory(conf)?;
        let mut workers = Vec::new();
        for index in 0..size.workers {
            let masters = vec![master.address.clone()];
            let work = directory.join(format!("worker-{index}"));
            let mut args = WorkerArgs::loopback(masters, work, conf.clone(), options.clone());
            (args.cores, args.memory_mb) = (size.cores, size.memory_mb.into());
            workers.push(worker::start(args).await?);
        }
        for worker in &workers {
            worker.registered().await;
        }
        Ok(LocalCluster { master, workers, directory })
    }

    pub(super) fn master(&self) -> RpcAddress {
        self.master.address.clone()
    }

    pub(super) async fn stop(self) {
        for worker in self.workers {
            worker.stop().await;
        }
        self.master.stop().await;
        if let Err(error) = std::fs::remove_dir_all(&self.directory) {
            let directory = self.directory.display();
            tracing::warn!(%directory, %error, "the work directories could not be removed");
        }
    }
}

/// A directory in the first of `spark.local.dir` that takes one.
fn private_directory(conf: &Conf) -> Result<PathBuf, StartError> {
    let name = format!("firesteel-cluster-{:x}-{:016x}", std::process::id(), fastrand::u64(..));
    let roots = conf.get(&entries::LOCAL_DIR)?;
    let mut last = StartError::WorkDirectory {
        path: PathBuf::new(),
        source: io::Error::other("spark.local.dir names no directory"),
    };
    for root in roots {
        let path = Path::new(&root).join(&name);
        match std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(source) => last = StartError::WorkDirectory { path, source },
        }
    }
    Err(last)
}
