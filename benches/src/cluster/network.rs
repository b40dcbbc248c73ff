//! Networks on one machine that can be cut off from each other: hosts in namespaces of their own, all on one bridge, which
//! this process reaches too.
//!
//! A cut is a wrong entry in the neighbours' tables: packets go nowhere, and nobody is told.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use super::site::{Plan, Spot};

/// What all namespaces and bridges are called first.
const NAME: &str = "fsbench";
/// Nobody has it.
const NOWHERE: &str = "02:00:00:00:00:63";
/// The last part of the first host's address; the bridge has the one before.
const FIRST: usize = 2;

/// The networks, until this is dropped.
#[derive(Debug)]
pub(crate) struct Networks {
    /// The first three parts of all addresses.
    prefix: &'static str,
    bridge: String,
    names: Vec<String>,
}

impl Networks {
    /// Makes a host of each name, with addresses that start with `prefix`, which only root may.
    pub(crate) fn make(prefix: &'static str, hosts: &[&str]) -> Result<Self> {
        remove_leftovers();
        let id = std::process::id();
        let names = hosts.iter().map(|host| format!("{NAME}-{host}-{id}")).collect();
        let networks = Self { prefix, bridge: format!("{NAME}{id}"), names };
        networks.build().context("network namespaces cannot be made (root and `ip` are needed)")?;
        Ok(networks)
    }

    fn build(&self) -> Result<()> {
        ip(&format!("link add {} type bridge", self.bridge))?;
        ip(&format!("addr add {}.1/24 dev {}", self.prefix, self.bridge))?;
        ip(&format!("link set {} up", self.bridge))?;
        for (host, namespace) in self.names.iter().enumerate() {
            let (end, bridge) = (format!("fsb{}-{host}", std::process::id()), &self.bridge);
            ip(&format!("netns add {namespace}"))?;
            ip(&format!("link add {end} type veth peer name eth0 netns {namespace}"))?;
            ip(&format!("link set {end} master {bridge} up"))?;
            ip(&format!("-n {namespace} addr add {}/24 dev eth0", self.address(host)))?;
            ip(&format!("-n {namespace} link set eth0 up"))?;
            ip(&format!("-n {namespace} link set lo up"))?;
        }
        Ok(())
    }

    fn address(&self, host: usize) -> String {
        format!("{}.{}", self.prefix, host + FIRST)
    }

    /// What all their packets pass.
    pub(crate) fn bridge(&self) -> &str {
        &self.bridge
    }

    /// The machine of this process, which every host reaches.
    pub(crate) fn here(&self) -> Spot {
        Spot { host: format!("{}.1", self.prefix), namespace: None }
    }

    /// The host with this number, in the order in which they were named.
    pub(crate) fn host(&self, host: usize) -> Spot {
        Spot { host: self.address(host), namespace: Some(self.names[host].clone()) }
    }

    /// From now on nothing gets from one host to the other, nor back.
    pub(crate) fn cut(&self, one: usize, other: usize) -> Result<()> {
        for (from, to) in [(one, other), (other, one)] {
            let (namespace, address) = (&self.names[from], self.address(to));
            ip(&format!(
                "-n {namespace} neigh replace {address} lladdr {NOWHERE} dev eth0 nud permanent"
            ))?;
        }
        Ok(())
    }

    pub(crate) fn heal(&self, one: usize, other: usize) -> Result<()> {
        for (from, to) in [(one, other), (other, one)] {
            ip(&format!("-n {} neigh del {} dev eth0", self.names[from], self.address(to)))?;
        }
        Ok(())
    }

    /// What one host sends is late from now on, in the way that `discipline` says to `tc`.
    pub(crate) fn delay(&self, host: usize, discipline: &str) -> Result<()> {
        tc(&format!("-n {} qdisc replace dev eth0 root {discipline}", self.names[host]))
    }

    pub(crate) fn hurry(&self, host: usize) -> Result<()> {
        tc(&format!("-n {} qdisc del dev eth0 root", self.names[host]))
    }
}

/// Two workers of one core: the first one's executors can be cut off from the driver, which is the first host.
pub(super) fn plan(networks: &Networks) -> Plan {
    let here = networks.here();
    Plan { master: here.clone(), workers: vec![(1, networks.host(1)), (1, here)] }
}

impl Drop for Networks {
    fn drop(&mut self) {
        // The ends inside go with their namespaces, and with them the ends here.
        for namespace in &self.names {
            let _ = ip(&format!("netns del {namespace}"));
        }
        let _ = ip(&format!("link del {}", self.bridge));
    }
}

/// Removes what processes that were killed have left.
fn remove_leftovers() {
    let gone =
        |id: &str| id.parse().is_ok_and(|id: u32| !Path::new(&format!("/proc/{id}")).exists());
    let entries = |path| fs::read_dir(path).into_iter().flatten().flatten();
    let names = |path| entries(path).filter_map(|entry| entry.file_name().into_string().ok());
    for name in names("/run/netns").filter(|name| name.starts_with(NAME)) {
        if name.rsplit_once('-').is_some_and(|(_, id)| gone(id)) {
            let _ = ip(&format!("netns del {name}"));
        }
    }
    for name in names("/sys/class/net") {
        if name.strip_prefix(NAME).is_some_and(gone) {
            let _ = ip(&format!("link del {name}"));
        }
    }
}

fn ip(words: &str) -> Result<()> {
    command("ip", words)
}

fn tc(words: &str) -> Result<()> {
    command("tc", words)
}

fn command(program: &str, words: &str) -> Result<()> {
    let output = Command::new(program).args(words.split(' ')).output();
    let output = output.with_context(|| format!("no `{program}` found"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {words}: {}", stderr.trim());
    Ok(())
}
