//! What the cluster stands on: networks, clocks and disks, as far as this machine and this user allow; and which faults that
//! leaves out, with the reason.

use std::{collections::BTreeMap, path::Path};

use anyhow::Result;

use super::{
    clock::Clocks,
    cluster::{HOSTS, WORKERS, host_name},
    disks::{Disk, Medium},
    schedule::Kind,
};
use crate::cluster::network::Networks;

/// Not that of `./bench cluster`: both may run at once.
const NETWORK: &str = "10.203.78";

/// Real delays where the kernel has them; else so few bytes a second that everything is late.
const DISCIPLINES: [(&str, &str); 2] =
    [("netem", "netem delay 150ms 100ms"), ("tbf", "tbf rate 400kbit burst 8kb latency 3s")];

/// Everything goes when this is dropped; processes have to be gone by then.
#[derive(Debug)]
pub(crate) struct Machine {
    networks: Option<Networks>,
    discipline: Option<&'static str>,
    clocks: Option<Clocks>,
    disks: Vec<Disk>,
    impossible: BTreeMap<Kind, String>,
    notes: Vec<String>,
}

impl Machine {
    /// Makes what can be made; `directory` has the disks and clocks.
    pub(crate) fn make(directory: &Path) -> Result<Self> {
        let mut machine = Self {
            networks: None,
            discipline: None,
            clocks: None,
            disks: Vec::new(),
            impossible: BTreeMap::new(),
            notes: Vec::new(),
        };
        machine.make_networks();
        match Clocks::make(directory, HOSTS) {
            Ok(clocks) => machine.clocks = Some(clocks),
            Err(error) => machine.cannot(Kind::ClockJump, &error),
        }
        machine.make_disks(directory)?;
        Ok(machine)
    }

    fn cannot(&mut self, kind: Kind, error: &anyhow::Error) {
        self.impossible.entry(kind).or_insert_with(|| format!("{error:#}"));
    }

    fn make_networks(&mut self) {
        let names: Vec<String> = (0..HOSTS).map(host_name).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let networks = match Networks::make(NETWORK, &names) {
            Ok(networks) => networks,
            Err(error) => {
                self.cannot(Kind::NetworkCut, &error);
                self.cannot(Kind::NetworkDelay, &error);
                return;
            }
        };
        let mut refusals = Vec::new();
        for (name, discipline) in DISCIPLINES {
            match networks.delay(0, discipline).and_then(|()| networks.hurry(0)) {
                Ok(()) => {
                    self.discipline = Some(discipline);
                    break;
                }
                Err(error) => refusals.push(format!("{name}: {error:#}")),
            }
        }
        match self.discipline {
            None => self.cannot(Kind::NetworkDelay, &anyhow::anyhow!(refusals.join("; "))),
            Some(discipline) if !refusals.is_empty() => self.notes.push(format!(
                "network_delay with `{discipline}`, because this kernel has no better: {}",
                refusals.join("; ")
            )),
            Some(_) => {}
        }
        self.networks = Some(networks);
    }

    fn make_disks(&mut self, directory: &Path) -> Result<()> {
        for worker in 0..WORKERS {
            let (medium, kind) = match worker % 2 {
                0 => (Medium::Memory, Kind::DiskFull),
                _ => (Medium::Image, Kind::DiskSlow),
            };
            let (disk, reason) = Disk::make(&directory.join(format!("disk-{worker}")), medium)?;
            if let Some(reason) = reason {
                self.cannot(kind, &anyhow::anyhow!(reason));
            }
            self.disks.push(disk);
        }
        Ok(())
    }

    pub(crate) fn networks(&self) -> Option<&Networks> {
        self.networks.as_ref()
    }

    /// What makes a host's packets late.
    pub(crate) fn discipline(&self) -> Option<&'static str> {
        self.discipline
    }

    pub(crate) fn clocks(&self) -> Option<&Clocks> {
        self.clocks.as_ref()
    }

    /// A disk for each worker.
    pub(crate) fn disks(&self) -> &[Disk] {
        &self.disks
    }

    /// No disk stands still any more: who waits for one cannot even be killed.
    pub(crate) fn thaw(&self) {
        for disk in self.disks.iter().filter(|disk| disk.medium() == Medium::Image) {
            let _ = disk.thaw();
        }
    }

    /// Faults that cannot be brought about here, and why.
    pub(crate) fn impossible(&self) -> &BTreeMap<Kind, String> {
        &self.impossible
    }

    /// What else is to be known of it.
    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Faults that can be.
    pub(crate) fn kinds(&self) -> Vec<Kind> {
        let possible = |kind: &Kind| !self.impossible.contains_key(kind);
        Kind::ALL.into_iter().filter(possible).collect()
    }
}
