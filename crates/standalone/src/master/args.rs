//! What a master is started with.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use firesteel_conf::{ByteSize, Conf, ConfError, entries};
use firesteel_rpc::RpcOptions;
use firesteel_standalone_core::master::MasterOptions;

use super::recovery::RecoveryFactory;
use crate::StartError;
use crate::store::Store;
use crate::token::TokenKey;

/// What a master is started with.
#[derive(Clone, Debug)]
pub struct MasterArgs {
    /// What to bind: a name or address of this machine, `0.0.0.0` for all.
    pub host: String,
    /// The host others are told; what was bound when it is `None`.
    pub advertise: Option<String>,
    /// The first port to try; 0 for any.
    pub port: u16,
    /// The first port to try for its page; `None` for no page.
    pub web_port: Option<u16>,
    /// The first port to try for submissions over HTTP; `None` for none.
    pub rest_port: Option<u16>,
    /// `spark.worker.timeout`, `spark.deploy.*` and the like.
    pub conf: Conf,
    /// Its secrets and limits.
    pub rpc: RpcOptions,
    /// A store of your own, for `spark.deploy.recoveryMode=CUSTOM`.
    pub recovery: Option<RecoveryFactory>,
}

impl MasterArgs {
    /// A master that only this machine reaches, on any free port, without a page.
    pub fn loopback(conf: Conf, rpc: RpcOptions) -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            advertise: None,
            port: 0,
            web_port: None,
            rest_port: None,
            conf,
            rpc,
            recovery: None,
        }
    }

    /// The port for submissions over HTTP that settings ask for, for a master with these secrets.
    pub fn rest_port_of(conf: &Conf, rpc: &RpcOptions) -> Result<Option<u16>, StartError> {
        let can_ask = TokenKey::from_settings(conf, rpc)?.is_some();
        let asks = conf.get(&entries::MASTER_REST_AUTHENTICATE)?;
        let wanted = conf.get(&entries::MASTER_REST_ENABLED)?.unwrap_or(can_ask && asks);
        let port = conf.get(&entries::MASTER_REST_PORT)?;
        Ok(wanted.then(|| u16::try_from(port).unwrap_or_default()))
    }

    /// Whether they are for this machine only, though the master is there for others: HTTP shows tokens to all who are on the way, and
    /// nobody asked for it.
    pub(super) fn takes_rest_here_only(&self) -> Result<bool, ConfError> {
        let asked = self.conf.get(&entries::MASTER_REST_ENABLED)?.is_some();
        Ok(!asked && !is_loopback(&self.host))
    }

    /// The key of the tokens that such submissions need; `None` if everybody may submit.
    pub(super) fn token_key(&self) -> Result<Option<TokenKey>, StartError> {
        if self.rest_port.is_none() || !self.conf.get(&entries::MASTER_REST_AUTHENTICATE)? {
            return Ok(None);
        }
        let key = TokenKey::from_settings(&self.conf, &self.rpc)?;
        key.map(Some).ok_or(StartError::RestWithoutToken)
    }

    /// Where it keeps what is uploaded to it: told, or the user's directory for such things.
    pub(super) fn store(&self) -> Result<Store, ConfError> {
        let ByteSize(max_bytes) = self.conf.get(&entries::MASTER_STORE_MAX_SIZE)?;
        let max_downloads = self.conf.get(&entries::MAX_DOWNLOADS)? as usize;
        let told = self.conf.get(&entries::MASTER_STORE_DIR)?.map(PathBuf::from);
        let directory = told.or_else(user_cache).unwrap_or_else(|| "firesteel-store".into());
        Ok(Store::new(directory, max_bytes, max_downloads))
    }

    /// The rules of its core.
    pub(super) fn options(&self) -> Result<MasterOptions, ConfError> {
        let conf = &self.conf;
        let retries = conf.get(&entries::DEPLOY_MAX_EXECUTOR_RETRIES)?;
        let timeout = conf.get(&entries::WORKER_TIMEOUT)?;
        let recovery_timeout = conf.get(&entries::DEPLOY_RECOVERY_TIMEOUT)?.unwrap_or(timeout);
        Ok(MasterOptions {
            worker_timeout_ms: millis(timeout),
            recovery_timeout_ms: millis(recovery_timeout),
            driver_lease_ms: millis(conf.get(&entries::SUPERVISE_LEASE)?),
            dead_worker_persistence: conf.get(&entries::DEAD_WORKER_PERSISTENCE)?,
            spread_out_apps: conf.get(&entries::DEPLOY_SPREAD_OUT_APPS)?,
            spread_out_drivers: conf.get(&entries::DEPLOY_SPREAD_OUT_DRIVERS)?,
            default_cores: conf.get(&entries::DEPLOY_DEFAULT_CORES)?,
            max_executor_retries: i32::try_from(retries).unwrap_or(i32::MAX).max(-1),
            retained_applications: conf.get(&entries::DEPLOY_RETAINED_APPLICATIONS)? as usize,
            retained_drivers: conf.get(&entries::DEPLOY_RETAINED_DRIVERS)? as usize,
            ..MasterOptions::default()
        })
    }
}

/// Whether only this machine reaches what is bound to this.
pub(super) fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Of the user that this process belongs to.
fn user_cache() -> Option<PathBuf> {
    let told = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let cache = told("XDG_CACHE_HOME").or_else(|| Some(told("HOME")?.join(".cache")));
    Some(cache?.join("firesteel").join("store"))
}

/// A duration as cores count it.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use firesteel_conf::Origin;

    use super::*;

    #[test]
    fn submissions_over_http_are_for_other_machines_only_if_that_was_asked_for() {
        let here_only = |host: &str, enabled: Option<&str>| {
            let mut conf = Conf::default();
            if let Some(enabled) = enabled {
                conf.insert(entries::MASTER_REST_ENABLED.key(), enabled, Origin::ConfArgument);
            }
            let args = MasterArgs::loopback(conf, RpcOptions::default());
            MasterArgs { host: host.to_owned(), ..args }.takes_rest_here_only().unwrap()
        };
        for host in ["0.0.0.0", "::", "10.0.0.1", "master.example.org"] {
            assert!(here_only(host, None), "{host}");
            assert!(!here_only(host, Some("true")), "{host}");
        }
        for host in ["127.0.0.1", "::1", "localhost"] {
            assert!(!here_only(host, None), "{host} is here anyhow");
        }
    }
}
