//! What a master is started with.

use std::time::Duration;

use firesteel_conf::{Conf, ConfError, entries};
use firesteel_rpc::RpcOptions;
use firesteel_standalone_core::master::MasterOptions;

use crate::StartError;

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
}

impl MasterArgs {
    /// A master that only this machine reaches, on any free port, without a page.
    pub fn loopback(conf: Conf, rpc: RpcOptions) -> Self {
        let host = "127.0.0.1".to_owned();
        Self { host, advertise: None, port: 0, web_port: None, rest_port: None, conf, rpc }
    }

    /// The port for submissions over HTTP that settings ask for, for a master that asks its peers for a
    /// secret or does not.
    pub fn rest_port_of(conf: &Conf, has_secret: bool) -> Result<Option<u16>, StartError> {
        let wanted = conf.get(&entries::MASTER_REST_ENABLED)?;
        if wanted == Some(true) && has_secret {
            return Err(StartError::RestWithSecret);
        }
        let port = conf.get(&entries::MASTER_REST_PORT)?;
        Ok(wanted.unwrap_or(!has_secret).then(|| u16::try_from(port).unwrap_or_default()))
    }

    /// The rules of its core.
    pub(super) fn options(&self) -> Result<MasterOptions, ConfError> {
        let conf = &self.conf;
        let retries = conf.get(&entries::DEPLOY_MAX_EXECUTOR_RETRIES)?;
        Ok(MasterOptions {
            worker_timeout_ms: millis(conf.get(&entries::WORKER_TIMEOUT)?),
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

/// A duration as cores count it.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
