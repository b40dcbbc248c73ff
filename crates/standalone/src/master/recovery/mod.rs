//! Where a master's state outlives it, and who of several masters leads: `spark.deploy.recoveryMode`.
//!
//! | mode | state | leader |
//! |---|---|---|
//! | `NONE` | nowhere: a master that is started again adopts what workers and drivers tell | every master |
//! | `FILESYSTEM` | a journal in `spark.deploy.recoveryDirectory` ([`FileSystem`]) | who has locked the directory |
//! | `ZOOKEEPER` | below `spark.deploy.zookeeper.dir` ([`ZooKeeper`]) | whose candidate is the first |
//! | `ETCD` | below `spark.firesteel.deploy.etcd.dir` ([`Etcd`]) | whose lease holds the key `leader` |
//! | `CUSTOM` | a [`Recovery`] of your own, in [`MasterArgs`](super::MasterArgs) | it decides |
//!
//! A store knows keys and values, and nothing of masters; `codec` makes both of what the core persists. One thread
//! (`outbox`) owns it: writes what the core decided, and only then lets out what follows from it.

mod codec;
mod etcd;
mod filesystem;
mod frames;
mod outbox;
mod zookeeper;

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use firesteel_conf::{Conf, RecoveryMode, entries};
use firesteel_rpc::Secret;

pub(super) use codec::Codec;
pub use etcd::Etcd;
use etcd::EtcdTls;
pub use filesystem::FileSystem;
pub(super) use outbox::{Job, Outbox, Running};
pub use zookeeper::ZooKeeper;

use crate::StartError;

/// A key and its new value; `None` removes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    pub value: Option<Vec<u8>>,
}

/// What a master gets when it becomes the leader.
#[derive(Clone, Debug, Default)]
pub struct Elected {
    /// All that is stored, each key once.
    pub entries: Vec<(String, Vec<u8>)>,
    /// For how long after the call began nobody else can lead, unless it is renewed; `None`: for ever.
    pub lease: Option<Duration>,
}

/// A store of masters' state. All calls come from one thread, which may wait.
///
/// A store that several masters share elects one of them at a time and lets only that one write: [`write`](Self::write) of any
/// other has to fail, however late it comes.
pub trait Recovery: Send {
    /// Whether several masters may use it at the same time.
    fn has_rivals(&self) -> bool;

    /// Asks whether this master leads: `None` while another one does. Asked again and again while it does not.
    fn try_lead(&mut self) -> Result<Option<Elected>, RecoveryError>;

    /// Stores all of these, durably, in their order. Of a call that fails, or that a master dies in, the first ones may be stored and the
    /// others not; no entry is ever stored in part.
    fn write(&mut self, entries: &[Entry]) -> Result<(), RecoveryError>;

    /// Asks whether this master still leads, and for how long after the call began. An error: it does not, or that cannot
    /// be known.
    fn renew(&mut self) -> Result<Option<Duration>, RecoveryError>;

    /// Another master may lead from now on.
    fn resign(&mut self);

    /// This is what the master is called: others may be told when it leads.
    fn introduce(&mut self, _url: &str) {}

    /// The master that leads, if [`try_lead`](Self::try_lead) has just said that another one does and its name is known.
    fn leader(&self) -> Option<String> {
        None
    }
}

/// Why a master cannot persist its state, or cannot read it. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    #[error(
        "spark.deploy.recoveryMode=FILESYSTEM needs a directory: set spark.deploy.recoveryDirectory"
    )]
    NoDirectory,
    #[error(
        "spark.deploy.recoveryMode=CUSTOM is for programs that start a master with a store of their own (MasterArgs::recovery); \
         the command has none: choose FILESYSTEM or NONE"
    )]
    NoCustom,
    #[error("could not use the recovery directory {}: {source}", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error(
        "{} is used by another master: two masters cannot share spark.deploy.recoveryDirectory; give each its own",
        path.display()
    )]
    Locked { path: PathBuf },
    #[error(
        "{} is no file of a master's: spark.deploy.recoveryDirectory has to be empty or a master's own; choose another \
         directory, or move the file away",
        path.display()
    )]
    Foreign { path: PathBuf },
    #[error(
        "{} is damaged at byte {at} ({what}): nothing was changed; restore it from a copy, or move it away to start \
         with nothing (workers and running applications register again)",
        path.display()
    )]
    Damaged { path: PathBuf, at: u64, what: &'static str },
    #[error("could not write to {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(
        "spark.deploy.zookeeper.url is {url:?}: spark.deploy.recoveryMode=ZOOKEEPER needs servers as host:port,host:port"
    )]
    ZooKeeperUrl { url: String },
    #[error("spark.deploy.zookeeper.dir is {directory:?}: write a path such as /spark")]
    ZooKeeperDirectory { directory: String },
    #[error("ZooKeeper at {servers}: {error}")]
    ZooKeeper { servers: String, error: String },
    #[error(
        "spark.firesteel.deploy.etcd.url is {url:?}: spark.deploy.recoveryMode=ETCD needs servers as \
         http://host:2379,http://host:2379 or https://"
    )]
    EtcdUrl { url: String },
    #[error("spark.firesteel.deploy.etcd.dir is {directory:?}: write a path such as /spark")]
    EtcdDirectory { directory: String },
    #[error("{setting}: {reason}")]
    EtcdTls { setting: &'static str, reason: String },
    #[error("etcd at {servers}: {error}")]
    Etcd { servers: String, error: String },
    #[error("the record {key} cannot be read: {what}")]
    Record { key: String, what: &'static str },
    /// Of a store of your own.
    #[error(transparent)]
    Custom(#[from] Box<dyn std::error::Error + Send + Sync>),
}

/// Makes a store for a master, each time it is started.
#[derive(Clone)]
pub struct RecoveryFactory(Arc<dyn Fn() -> Box<dyn Recovery> + Send + Sync>);

impl RecoveryFactory {
    pub fn new(make: impl Fn() -> Box<dyn Recovery> + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }
}

impl fmt::Debug for RecoveryFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecoveryFactory(..)")
    }
}

/// The entries in parts that a service takes at once: no more than so many, and no more than so many bytes unless one alone has.
fn parts(entries: &[Entry], most: usize, largest: usize) -> Vec<&[Entry]> {
    let (mut parts, mut rest) = (Vec::new(), entries);
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take(most).take_while(|entry| {
            bytes += 200 + entry.key.len() + entry.value.as_ref().map_or(0, Vec::len);
            bytes < largest
        });
        let (part, after) = rest.split_at(fits.count().max(1));
        parts.push(part);
        rest = after;
    }
    parts
}

/// Whether an address such as `host:2181` is of this machine by its very words: then nobody else hears what is sent there.
fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = |host: &str| host.parse::<IpAddr>().is_ok_and(|host| host.is_loopback());
    host.eq_ignore_ascii_case("localhost") || is_loopback(host)
}

/// The store that settings ask for; `None` for none.
pub(super) fn of(
    conf: &Conf,
    secret: Option<&Secret>,
    custom: Option<&RecoveryFactory>,
) -> Result<Option<Box<dyn Recovery>>, StartError> {
    match conf.get(&entries::DEPLOY_RECOVERY_MODE)? {
        RecoveryMode::None => Ok(None),
        RecoveryMode::FileSystem => {
            let directory = conf.get(&entries::DEPLOY_RECOVERY_DIRECTORY)?;
            let directory = directory.filter(|directory| !directory.is_empty());
            let directory = directory.ok_or(RecoveryError::NoDirectory)?;
            Ok(Some(Box::new(FileSystem::new(directory.into()))))
        }
        RecoveryMode::ZooKeeper => {
            let url = conf.get(&entries::DEPLOY_ZOOKEEPER_URL)?.unwrap_or_default();
            let directory = conf.get(&entries::DEPLOY_ZOOKEEPER_DIR)?;
            let timeout = conf.get(&entries::DEPLOY_SESSION_TIMEOUT)?;
            let store = ZooKeeper::new(&url, &directory, timeout)?;
            store.clear_text().into_iter().for_each(|words| tracing::warn!("{words}"));
            Ok(Some(Box::new(match secret {
                Some(secret) => store.owned_by(secret),
                None => store,
            })))
        }
        RecoveryMode::Etcd => {
            let url = conf.get(&entries::DEPLOY_ETCD_URL)?.unwrap_or_default();
            let directory = conf.get(&entries::DEPLOY_ETCD_DIR)?;
            let timeout = conf.get(&entries::DEPLOY_SESSION_TIMEOUT)?;
            let tls = EtcdTls::from_conf(conf)?;
            let store = Etcd::new(&url, &directory, timeout)?.with_tls(&tls)?;
            store.clear_text().into_iter().for_each(|words| tracing::warn!("{words}"));
            Ok(Some(Box::new(store)))
        }
        RecoveryMode::Custom => {
            let RecoveryFactory(make) = custom.ok_or(RecoveryError::NoCustom)?;
            Ok(Some(make()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_write_goes_in_parts() {
        let entry = |key: &str| Entry { key: key.to_owned(), value: None };
        let sizes = |keys: &[&str], most: usize| -> Vec<usize> {
            let entries: Vec<Entry> = keys.iter().map(|key| entry(key)).collect();
            let parts = parts(&entries, most, usize::MAX);
            assert_eq!(parts.concat(), entries, "all of it, in order");
            parts.iter().map(|part| part.len()).collect()
        };
        assert_eq!(sizes(&[], 3), [0; 0]);
        assert_eq!(sizes(&["app_1", "app_2", "app_3", "app_4"], 3), [3, 1]);
        assert_eq!(sizes(&["worker_1", "app_1", "driver_1", "driver_2"], 4), [4]);
        let large = |bytes| Entry { key: "app_1".to_owned(), value: Some(vec![0; bytes]) };
        let entries = [large(10), large(5000), large(10), large(10)];
        let found: Vec<usize> = parts(&entries, 9, 1000).iter().map(|part| part.len()).collect();
        assert_eq!(found, [1, 1, 2]);
    }

    #[test]
    fn only_addresses_that_no_other_machine_hears_are_of_this_one() {
        for address in ["localhost:2181", "LOCALHOST:1", "127.0.0.1:2379", "127.1.2.3:1", "[::1]:1"]
        {
            assert!(is_loopback(address), "{address}");
        }
        for address in ["node:2181", "10.0.0.1:2379", "[fe80::1]:1", "localhost.example.org:1"] {
            assert!(!is_loopback(address), "{address}");
        }
    }
}
