//! `firesteel decommission WORKER`: takes workers out of a cluster without losing what they do.
//!
//! Their master gives them nothing more to do, and executors on them are let go when their last tasks have ended. The processes
//! of the workers are ended by their operator, after that.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use firesteel_conf::{Origin, entries};
use firesteel_standalone::gateway::{Gateway, GatewayError};

use crate::submit::{Cluster, cluster_of, connect};
use crate::{Failure, daemons};

/// How often it is looked whether something still runs there.
const POLL: Duration = Duration::from_secs(1);
/// How many of these looks may fail in a row: a master may be restarted meanwhile.
const FAILED_POLLS: u32 = 60;
/// After how many in a row at which there is no such worker it is gone: one that has registered with a new master is there again.
const MISSING_POLLS: u32 = 10;

#[derive(Args)]
pub(crate) struct DecommissionFlags {
    /// The workers: ids, hosts, or host:port.
    #[arg(value_name = "WORKER", required = true)]
    workers: Vec<String>,
    /// The masters, such as spark://host:7077 [default: spark.master].
    #[arg(long, value_name = "URL")]
    master: Option<String>,
    /// Waits until nothing runs on them any more.
    #[arg(long)]
    wait: bool,
    /// A setting; can be repeated.
    #[arg(long = "conf", short = 'c', value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// A file of settings, instead of spark-defaults.conf.
    #[arg(long, value_name = "FILE")]
    properties_file: Option<PathBuf>,
}

pub(crate) fn run(flags: DecommissionFlags) -> Result<ExitCode, Failure> {
    let mut conf = daemons::load(flags.properties_file.as_deref(), &flags.settings)?;
    if let Some(master) = &flags.master {
        conf.insert(entries::MASTER.key(), master, Origin::Flag { flag: "--master" });
    }
    conf.validate()?;
    let instead =
        "decommission asks the master of a standalone cluster: write --master spark://host:7077";
    let cluster = cluster_of(&conf, instead)?;
    daemons::runtime()?.block_on(async {
        let gateway = connect(&cluster).await?;
        for worker in &flags.workers {
            println!("{}", gateway.decommission(worker).await?.0);
        }
        let mut gateway = Some(gateway);
        if flags.wait {
            for worker in &flags.workers {
                wait(&cluster, &mut gateway, worker).await?;
            }
            println!("nothing runs there any more");
        }
        if let Some(gateway) = gateway {
            gateway.close().await;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Until nothing runs there: its operator may switch the machine off then, so only a master that leads is believed.
async fn wait(
    cluster: &Cluster,
    gateway: &mut Option<Gateway>,
    worker: &str,
) -> Result<(), Failure> {
    let mut watch = Watch::default();
    loop {
        tokio::time::sleep(POLL).await;
        if watch.is_over(look(cluster, gateway, worker).await)? {
            return Ok(());
        }
    }
}

/// How many executors and drivers still run there, or `None` if there is no such worker. Asks the master that answered last, or, if that
/// does not answer or does not lead any more, the one that does.
async fn look(
    cluster: &Cluster,
    gateway: &mut Option<Gateway>,
    worker: &str,
) -> Result<Option<u64>, Failure> {
    if let Some(known) = gateway {
        match known.decommission(worker).await {
            Ok((_, running)) => return Ok(Some(running)),
            Err(GatewayError::NoWorker { .. }) => return Ok(None),
            Err(_) => {}
        }
    }
    if let Some(known) = gateway.take() {
        known.close().await;
    }
    let leader = gateway.insert(connect(cluster).await?);
    match leader.decommission(worker).await {
        Ok((_, running)) => Ok(Some(running)),
        Err(GatewayError::NoWorker { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What was heard of one worker in a row.
#[derive(Default)]
struct Watch {
    failed: u32,
    missing: u32,
}

impl Watch {
    /// Whether surely nothing runs there any more. An error after too many.
    fn is_over(&mut self, looked: Result<Option<u64>, Failure>) -> Result<bool, Failure> {
        match looked {
            Ok(running) => {
                self.failed = 0;
                self.missing = if running.is_none() { self.missing + 1 } else { 0 };
                Ok(running == Some(0) || self.missing >= MISSING_POLLS)
            }
            Err(error) => {
                self.failed += 1;
                if self.failed > FAILED_POLLS { Err(error) } else { Ok(false) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed() -> Result<Option<u64>, Failure> {
        Err("no master takes the request".to_owned().into())
    }

    #[test]
    fn a_worker_is_idle_when_a_leader_says_so_and_not_when_nobody_answers() {
        let mut watch = Watch::default();
        assert!(!watch.is_over(Ok(Some(2))).unwrap());
        assert!(!watch.is_over(failed()).unwrap(), "nobody has said that nothing runs");
        assert!(watch.is_over(Ok(Some(0))).unwrap());
    }

    #[test]
    fn a_master_that_has_just_been_started_knows_no_worker_yet() {
        let mut watch = Watch::default();
        for _ in 1..MISSING_POLLS {
            assert!(!watch.is_over(Ok(None)).unwrap());
        }
        assert!(!watch.is_over(Ok(Some(1))).unwrap(), "it has registered again");
        for _ in 1..MISSING_POLLS {
            assert!(!watch.is_over(Ok(None)).unwrap());
        }
        assert!(watch.is_over(Ok(None)).unwrap(), "its operator has ended it");
    }

    #[test]
    fn masters_that_never_answer_are_an_error() {
        let mut watch = Watch::default();
        for _ in 0..FAILED_POLLS {
            assert!(!watch.is_over(failed()).unwrap());
        }
        assert!(watch.is_over(failed()).is_err());
    }
}
