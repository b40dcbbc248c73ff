//! Where cluster managers plug in: the shell's side of the [port](firesteel_backend::provider).
//!
//! A [`ClusterManager`] claims a master URL and makes a [`Provider`] for an application. The provider hears commands and reports
//! what becomes of executors; who counts, who is lost and whose fault it is are decided by the driver's registry.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use firesteel_backend::command::Command;
use firesteel_backend::provider::{ProviderCommand, ProviderEvent};
use firesteel_conf::{Conf, Master};
use firesteel_rpc::{RpcOptions, Secret};
use tokio::runtime::Handle;

use super::actor::ActorMessage;
use crate::{Error, Result};

/// A kind of cluster that executors can be had from.
pub trait ClusterManager: Send + Sync {
    /// For messages: `standalone`.
    fn name(&self) -> &str;

    /// Whether clusters of this kind have such names. Exactly one cluster manager may claim a master.
    fn claims(&self, master: &Master) -> bool;

    /// Prepares an application's provider: checks what can be checked, and starts what must run before the driver's ports
    /// are open. Nothing is asked of the cluster yet. The error is a sentence for the user.
    fn prepare(
        &self,
        master: &Master,
        conf: &Conf,
        runtime: &Handle,
    ) -> std::result::Result<Box<dyn Provider>, String>;
}

/// An application's source of executors.
pub trait Provider: Send {
    /// The settings of the application on this cluster.
    fn settings(&self, conf: &Conf) -> Conf {
        conf.clone()
    }

    /// How the application's processes prove who they are.
    fn rpc_options(&self, conf: &Conf) -> std::result::Result<RpcOptions, String> {
        RpcOptions::from_process(conf).map_err(|error| error.to_string())
    }

    /// The secret that driver and executors of this application share, if the cluster manager keeps one for them. `None`: the driver
    /// makes one up.
    fn application_secret(&self) -> Option<Secret> {
        None
    }

    /// The name by which executors reach this process, unless `spark.driver.host` says so.
    fn driver_host(&self) -> io::Result<String>;

    /// How many cores an executor has if `spark.executor.cores` does not say.
    fn default_cores(&self) -> Option<u32> {
        None
    }

    /// How long the driver waits for word of why an executor's connection broke, where this takes longer than on other clusters.
    fn reason_wait(&self) -> Option<Duration> {
        None
    }

    /// What a user should look at whose jobs wait for executors.
    fn where_to_look(&self) -> String {
        "check that the cluster has as much free".to_owned()
    }

    /// Asks for executors, from now on until [`Provider::stop`]. Says [`ProviderEvent::Accepted`] once the
    /// application has its id, or [`ProviderEvent::Failed`]. The error is a sentence for the user.
    fn start(
        &mut self,
        application: ApplicationSpec,
        reports: Reports,
    ) -> std::result::Result<(), String>;

    /// Carries out a command of the registry. Never waits.
    fn command(&mut self, command: ProviderCommand);

    /// Lets go of everything, after [`ProviderCommand::Stop`]; waits until that is done.
    fn stop(&mut self);
}

/// What a provider has executors started for.
pub struct ApplicationSpec {
    pub name: String,
    pub user: String,
    pub conf: Conf,
    /// How an executor is started; see [`firesteel_backend::command::Identity`] for what is to be added.
    pub command: Command,
}

/// Where a provider reports to. What it reports after its application's end is heard by nobody.
#[derive(Clone)]
pub struct Reports(pub(super) Sender<ActorMessage>);

impl Reports {
    /// Says something to the driver's registry. Never waits.
    pub fn send(&self, event: ProviderEvent) {
        let _ = self.0.send(ActorMessage::Provider(event));
    }
}

/// The one cluster manager that claims a master.
pub(crate) fn claimant<'a>(
    master: &Master,
    managers: &'a [Arc<dyn ClusterManager>],
) -> Result<&'a Arc<dyn ClusterManager>> {
    let refused = |reason: String| Error::Master { master: master.to_string(), reason };
    let mut claimants = managers.iter().filter(|manager| manager.claims(master));
    match (claimants.next(), claimants.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => {
            let known: Vec<&str> = managers.iter().map(|manager| manager.name()).collect();
            let with_feature = match master {
                Master::Kubernetes { .. } => {
                    "build it with the feature `kubernetes` of firesteel, or "
                }
                _ => "",
            };
            Err(refused(format!(
                "no cluster manager of this program knows it (there are: {}); {with_feature}use local, local[N], \
                 local[*], local-cluster[n,cores,memory] or spark://host:port of a standalone cluster",
                known.join(", ")
            )))
        }
        (Some(one), Some(other)) => Err(refused(format!(
            "two cluster managers claim it, {} and {}: leave one of them out",
            one.name(),
            other.name()
        ))),
    }
}
