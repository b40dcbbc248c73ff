//! What cluster manager and driver say through the environment.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use firesteel_backend::AppId;
use firesteel_backend::command::variable::{
    APP_ID, BIND_ADDRESS, CORES, EXECUTOR_ID, HOST, MEMORY_MB, NODE, WORKER_URL,
};
use firesteel_conf::{ByteSize, Conf, ConfError, Loader, entries};
use firesteel_rpc::{EndpointAddress, RpcAddress};
use firesteel_shuffle::Scratch;
use firesteel_storage::{LocalDirs, MemoryManager};
use firesteel_types::{ExecutorId, Host};

use super::protocol::{DRIVER_URL, SETTINGS};
use super::transfer::Retries;
use crate::codec_if;

/// Why a process cannot become an executor.
pub(super) type StartError = Box<dyn std::error::Error + Send + Sync>;

pub(super) struct Settings {
    pub(super) app: AppId,
    pub(super) executor: ExecutorId,
    /// The name that others reach it by.
    pub(super) host: String,
    /// The node it runs on, if it runs in a pod.
    pub(super) node: Option<String>,
    /// The host name or address that it listens on.
    pub(super) bind: String,
    pub(super) cores: u32,
    pub(super) driver: RpcAddress,
    /// Whether the parent process is a worker, with which this one ends.
    pub(super) has_worker: bool,
    pub(super) conf: Conf,
    memory_mb: u64,
    local_dirs: Option<String>,
}

impl Settings {
    /// Reads them; `variable` looks a variable up.
    pub(super) fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, StartError> {
        let text = |name: &str| {
            let missing =
                || format!("{name} is not set: executors are started by cluster managers");
            variable(name).ok_or_else(missing)
        };
        let driver: EndpointAddress = text(DRIVER_URL)?.parse()?;
        let settings = variable(SETTINGS).unwrap_or_default();
        let no_arguments: [String; 0] = [];
        let loader = Loader::new().arguments(no_arguments).environment([(SETTINGS, settings)]);
        Ok(Settings {
            app: AppId::new(&text(APP_ID)?),
            executor: ExecutorId(number(&text(EXECUTOR_ID)?)?),
            bind: variable(BIND_ADDRESS).map_or_else(|| text(HOST), Ok)?,
            host: text(HOST)?,
            node: variable(NODE),
            cores: number::<u32>(&text(CORES)?)?.max(1),
            driver: driver.address,
            has_worker: variable(WORKER_URL).is_some(),
            conf: loader.load()?.conf,
            memory_mb: number(&text(MEMORY_MB)?)?,
            local_dirs: variable("SPARK_LOCAL_DIRS"),
        })
    }

    /// What is near to it is on the same node.
    pub(super) fn node(&self) -> Host {
        Host::new(self.node.as_ref().unwrap_or(&self.host))
    }

    /// Memory and directories as the worker says, all else as the driver says.
    pub(super) fn scratch(&self) -> Result<Scratch, ConfError> {
        let conf = &self.conf;
        let memory = self.memory_mb.saturating_mul(1 << 20);
        let budget = (memory as f64 * conf.get(&entries::MEMORY_FRACTION)?) as u64;
        let manager = MemoryManager::new(budget, conf.get(&entries::MEMORY_STORAGE_FRACTION)?);
        let dirs = match &self.local_dirs {
            Some(dirs) => dirs.split(',').map(|dir| PathBuf::from(dir.trim())).collect(),
            None => conf.get(&entries::LOCAL_DIR)?.into_iter().map(PathBuf::from).collect(),
        };
        let codec = codec_if(conf, conf.get(&entries::SHUFFLE_COMPRESS)?)?;
        let cache_codec = codec_if(conf, conf.get(&entries::RDD_COMPRESS)?)?;
        let dirs = LocalDirs::new(dirs);
        if !self.has_worker {
            // A volume of a pod may have been another executor's, which was killed.
            dirs.remove_leftovers();
        }
        let scratch = Scratch::new(Arc::new(manager), Arc::new(dirs), codec);
        Ok(scratch.with_cache_codec(cache_codec))
    }

    pub(super) fn retries(&self) -> Result<Retries, ConfError> {
        let most = self.conf.get(&entries::SHUFFLE_IO_MAX_RETRIES)?;
        Ok(Retries { most, wait: self.conf.get(&entries::SHUFFLE_IO_RETRY_WAIT)? })
    }

    pub(super) fn bytes(&self, entry: &firesteel_conf::Entry<ByteSize>) -> Result<u64, ConfError> {
        self.conf.get(entry).map(|ByteSize(bytes)| bytes)
    }
}

fn number<N: FromStr>(text: &str) -> Result<N, String> {
    text.trim().parse().map_err(|_| format!("`{text}` is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [(&str, &str); 6] = [
        ("FIRESTEEL_DRIVER_URL", "spark://driver@10.0.0.1:5000"),
        ("FIRESTEEL_APP_ID", "app-1"),
        ("FIRESTEEL_EXECUTOR_ID", "3"),
        ("FIRESTEEL_EXECUTOR_HOST", "h"),
        ("FIRESTEEL_EXECUTOR_CORES", "2"),
        ("FIRESTEEL_EXECUTOR_MEMORY_MB", "512"),
    ];

    fn read(change: Option<(&str, Option<&str>)>) -> Result<Settings, StartError> {
        Settings::read(|name| match change {
            Some((changed, value)) if changed == name => value.map(str::to_owned),
            _ => ALL.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()),
        })
    }

    #[test]
    fn what_a_worker_sets_is_read_and_what_it_forgot_is_named() {
        let settings = read(None).unwrap();
        assert_eq!(settings.driver, RpcAddress::new("10.0.0.1", 5000));
        assert_eq!((settings.executor, settings.cores), (ExecutorId(3), 2));
        let budget = settings.scratch().unwrap().memory().budget();
        assert!(budget > 100 << 20 && budget < 512 << 20, "{budget}");
        for (name, _) in ALL {
            let missing = read(Some((name, None))).err().unwrap().to_string();
            assert!(missing.contains(name), "{missing}");
        }
        assert!(read(Some(("FIRESTEEL_EXECUTOR_ID", Some("x")))).is_err());
        assert_eq!(settings.bind, "h");
        let behind = read(Some((BIND_ADDRESS, Some("0.0.0.0")))).unwrap();
        assert_eq!((behind.host.as_str(), behind.bind.as_str()), ("h", "0.0.0.0"));
        assert_eq!(behind.node(), Host::new("h"));
        assert_eq!(read(Some((NODE, Some("n1")))).unwrap().node(), Host::new("n1"), "in a pod");
    }
}
