//! `firesteel decommission WORKER`: takes workers out of a cluster without losing what they do.
//!
//! Their master gives them nothing more to do, and executors on them are let go when their last tasks have ended. The processes
//! of the workers are ended by their operator, after that.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use firesteel_conf::{Origin, entries};

use crate::submit::{cluster_of, connect};
use crate::{Failure, daemons};

/// How often it is looked whether something still runs there.
const POLL: Duration = Duration::from_secs(1);

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
        let mut left: Vec<&String> = flags.workers.iter().filter(|_| flags.wait).collect();
        while !left.is_empty() {
            tokio::time::sleep(POLL).await;
            let mut busy = Vec::new();
            for worker in left {
                // One that its operator has ended is not there any more.
                if gateway.decommission(worker).await.is_ok_and(|(_, running)| running > 0) {
                    busy.push(worker);
                }
            }
            left = busy;
        }
        if flags.wait {
            println!("nothing runs there any more");
        }
        gateway.close().await;
        Ok(ExitCode::SUCCESS)
    })
}
