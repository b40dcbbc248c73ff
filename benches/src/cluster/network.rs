//! Three networks on one machine, so that two of them can be cut off from each other: master and one worker here, the other
//! worker and the driver in namespaces of their own, all on one bridge.
//!
//! A cut is a wrong entry in the neighbours' tables: packets go nowhere, nobody is told, and the master is still reached.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::site::{Plan, Spot};

const NETWORK: &str = "10.203.77";
/// Nobody has it.
const NOWHERE: &str = "02:00:00:00:00:63";

/// The networks, until this is dropped.
#[derive(Debug)]
pub(super) struct Networks {
    bridge: String,
    driver: String,
    worker: String,
}

impl Networks {
    /// Makes them, which only root may.
    pub(super) fn make() -> Result<Self> {
        let id = std::process::id() % 100_000;
        let networks = Self {
            bridge: format!("fsbench{id}"),
            driver: format!("fsbench-driver-{id}"),
            worker: format!("fsbench-worker-{id}"),
        };
        networks.build().context("network namespaces cannot be made (root and `ip` are needed)")?;
        Ok(networks)
    }

    fn build(&self) -> Result<()> {
        ip(&format!("link add {} type bridge", self.bridge))?;
        ip(&format!("addr add {NETWORK}.1/24 dev {}", self.bridge))?;
        ip(&format!("link set {} up", self.bridge))?;
        for (namespace, host) in [(&self.driver, 2), (&self.worker, 3)] {
            let (end, bridge) =
                (format!("fsb{}-{host}", std::process::id() % 100_000), &self.bridge);
            ip(&format!("netns add {namespace}"))?;
            ip(&format!("link add {end} type veth peer name eth0 netns {namespace}"))?;
            ip(&format!("link set {end} master {bridge} up"))?;
            ip(&format!("-n {namespace} addr add {NETWORK}.{host}/24 dev eth0"))?;
            ip(&format!("-n {namespace} link set eth0 up"))?;
            ip(&format!("-n {namespace} link set lo up"))?;
        }
        Ok(())
    }

    /// Two workers of one core: the first one's executors can be cut off from the driver.
    pub(super) fn plan(&self) -> Plan {
        let here = Spot { host: format!("{NETWORK}.1"), namespace: None };
        let apart = Spot { host: format!("{NETWORK}.3"), namespace: Some(self.worker.clone()) };
        Plan { master: here.clone(), workers: vec![(1, apart), (1, here)] }
    }

    pub(super) fn driver(&self) -> Spot {
        Spot { host: format!("{NETWORK}.2"), namespace: Some(self.driver.clone()) }
    }

    /// From now on nothing gets from the driver to the first worker's machine, nor back.
    pub(super) fn cut(&self) -> Result<()> {
        for (namespace, other) in [(&self.driver, 3), (&self.worker, 2)] {
            ip(&format!(
                "-n {namespace} neigh replace {NETWORK}.{other} lladdr {NOWHERE} dev eth0 nud permanent"
            ))?;
        }
        Ok(())
    }

    pub(super) fn heal(&self) -> Result<()> {
        for (namespace, other) in [(&self.driver, 3), (&self.worker, 2)] {
            ip(&format!("-n {namespace} neigh del {NETWORK}.{other} dev eth0"))?;
        }
        Ok(())
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        // The ends inside go with their namespaces, and with them the ends here.
        for words in [
            format!("netns del {}", self.driver),
            format!("netns del {}", self.worker),
            format!("link del {}", self.bridge),
        ] {
            let _ = ip(&words);
        }
    }
}

fn ip(words: &str) -> Result<()> {
    let output = Command::new("ip").args(words.split(' ')).output().context("no `ip` found")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ip {words}: {}", stderr.trim());
    Ok(())
}
