//! What a worker is started with.

use std::path::PathBuf;
use std::time::Duration;

use firesteel_conf::{ByteSize, Conf, ConfError, RollingStrategy, entries};
use firesteel_rpc::{RpcAddress, RpcOptions};
use firesteel_standalone_core::description::WorkerDescription;
use firesteel_standalone_core::worker::{CleanUp, DownloadOptions, WorkerOptions};

use super::cache::CacheOptions;
use super::log_page::{ReaderKeys, Readers};
use super::logs::{Full, Output, Rolling};
use crate::master::millis;
use crate::web::reaches_others;
use crate::{StartError, TokenKey};

/// What a worker is started with.
#[derive(Clone, Debug)]
pub struct WorkerArgs {
    /// The masters it may register with, at least one.
    pub masters: Vec<RpcAddress>,
    /// What to bind: a name or address of this machine, `0.0.0.0` for all.
    pub host: String,
    /// The name that others reach it by, where that is another.
    pub advertise: Option<String>,
    /// The first port to try; 0 for any.
    pub port: u16,
    /// The first port to try for its page; `None` for no page.
    pub web_port: Option<u16>,
    /// Cores it gives out.
    pub cores: u32,
    /// Memory it gives out.
    pub memory_mb: u64,
    /// Where its processes work, each in a directory of its own.
    pub work_dir: PathBuf,
    /// Where they may put temporary files; below `work_dir` when there are none.
    pub local_dirs: Vec<PathBuf>,
    /// Whether its processes print where this one does, instead of into files of their work directories.
    pub inherit_output: bool,
    /// What makes a child end with this process, where there is such a thing.
    pub launcher: Option<Launcher>,
    /// `spark.worker.*` and the like.
    pub conf: Conf,
    /// Its secrets and limits.
    pub rpc: RpcOptions,
}

/// A program that sees to it that nothing outlives the worker.
#[derive(Clone, Debug)]
pub struct Launcher {
    pub program: PathBuf,
    /// With these arguments, followed by the worker's process id, a program and its arguments, it asks the
    /// system to end it with its parent, and becomes that program.
    pub launch: Vec<String>,
    /// With these arguments it reads process groups, one a line, `+` those that began and `-` those that
    /// ended, and kills what is left when there are no more lines.
    pub keep: Vec<String>,
    /// With these arguments, followed by a directory, it reads a URL and fetches what is there into the directory, as a file that can
    /// be executed. Why it could not, it says on its standard error.
    pub fetch: Vec<String>,
}

impl WorkerArgs {
    /// A worker that only this machine reaches, on any free port, without a page.
    pub fn loopback(
        masters: Vec<RpcAddress>,
        work_dir: PathBuf,
        conf: Conf,
        rpc: RpcOptions,
    ) -> Self {
        Self {
            masters,
            host: "127.0.0.1".to_owned(),
            advertise: None,
            port: 0,
            web_port: None,
            cores: 1,
            memory_mb: 1024,
            work_dir,
            local_dirs: Vec::new(),
            inherit_output: false,
            launcher: None,
            conf,
            rpc,
        }
    }

    /// The rules of its core.
    pub(super) fn options(&self, worker: WorkerDescription) -> Result<WorkerOptions, ConfError> {
        let conf = &self.conf;
        let mut options = WorkerOptions::new(worker, self.masters.len());
        options.fast_attempts = conf.get(&entries::WORKER_INITIAL_REGISTRATION_RETRIES)?;
        options.max_attempts = conf.get(&entries::WORKER_MAX_REGISTRATION_RETRIES)?;
        if conf.get(&entries::WORKER_CLEANUP_ENABLED)? {
            let interval_ms = millis(conf.get(&entries::WORKER_CLEANUP_INTERVAL)?);
            let age_ms = millis(conf.get(&entries::WORKER_CLEANUP_APP_DATA_TTL)?);
            options.clean_up = Some(CleanUp { interval_ms, age_ms });
        }
        Ok(options)
    }

    /// The rules of the cache of what drivers serve.
    pub(super) fn cache(&self) -> Result<CacheOptions, ConfError> {
        let ByteSize(max_bytes) = self.conf.get(&entries::WORKER_CACHE_MAX_SIZE)?;
        let ByteSize(min_bytes) = self.conf.get(&entries::WORKER_CACHE_MIN_BYTES_PER_MINUTE)?;
        let max_downloads = self.conf.get(&entries::MAX_DOWNLOADS)? as usize;
        let download = DownloadOptions { min_bytes, ..DownloadOptions::default() };
        Ok(CacheOptions { max_bytes, max_downloads, download, rpc: self.rpc.clone() })
    }

    /// How long a process gets to end by itself.
    pub(super) fn grace(&self) -> Result<Duration, ConfError> {
        self.conf.get(&entries::WORKER_DRIVER_TERMINATE_TIMEOUT)
    }

    /// Where the output of processes goes.
    pub(super) fn output(&self) -> Result<Output, ConfError> {
        if self.inherit_output {
            return Ok(Output::Inherited);
        }
        let conf = &self.conf;
        let full = match conf.get(&entries::EXECUTOR_LOGS_ROLLING_STRATEGY)? {
            None => return Ok(Output::Files),
            Some(RollingStrategy::Size) => {
                Full::Bytes(conf.get(&entries::EXECUTOR_LOGS_ROLLING_MAX_SIZE)?.0)
            }
            Some(RollingStrategy::Time) => {
                Full::Interval(conf.get(&entries::EXECUTOR_LOGS_ROLLING_INTERVAL)?.0)
            }
        };
        let retained = conf.get(&entries::EXECUTOR_LOGS_ROLLING_MAX_RETAINED_FILES)?;
        let retained = retained.map(|files| files as usize);
        Ok(Output::RollingFiles(Rolling { full, retained }))
    }

    /// Who may read the output of processes at its port.
    pub(super) fn log_readers(
        &self,
        web_host: &str,
        web: Option<&RpcAddress>,
    ) -> Result<Readers, StartError> {
        // The second one is a master's whose own settings have a filter.
        let keys =
            [TokenKey::from_settings(&self.conf, &self.rpc)?, TokenKey::of_secret(&self.rpc)];
        let asked = self.conf.get(&entries::WORKER_LOGS_AUTHENTICATE)?;
        let keys = keys.iter().flatten().map(TokenKey::for_logs).collect();
        let keys = ReaderKeys { keys, address: web.cloned() };
        Readers::of(asked, keys, reaches_others(&self.host) || reaches_others(web_host))
    }
}
