//! The cluster that things happen to: a master, workers and the hosts of drivers, each on a host with a network, a clock and,
//! for workers, a disk of its own. What was killed is started again, as a supervisor of a machine would.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use rustix::process::Signal;
use serde_json::Value;

use super::machine::Machine;
use crate::{
    cluster::{
        page,
        processes::{self, Running, has_mark, signal},
        site::{self, Kind, Programs, Spot},
        wait::until,
    },
    spark,
};

/// Workers and their cores, and hosts of drivers: one core in four is to spare when all run.
pub(crate) const WORKERS: usize = 4;
const CORES: u32 = 3;
pub(crate) const DRIVERS: usize = 3;

/// Hosts in this order: the master's, those of workers, those of drivers.
pub(crate) const MASTER: usize = 0;
pub(crate) const HOSTS: usize = 1 + WORKERS + DRIVERS;

/// The host that the driver of this slot runs on.
pub(crate) const fn driver_host(slot: usize) -> usize {
    1 + WORKERS + slot
}

pub(crate) fn host_name(host: usize) -> String {
    match host {
        MASTER => "master".to_owned(),
        _ if host <= WORKERS => format!("worker-{}", host - 1),
        _ => format!("driver-{}", host - 1 - WORKERS),
    }
}

/// Silence is noticed soon, so that it is noticed at all.
const WORKER_TIMEOUT: &str = "spark.worker.timeout=8s";
/// How long everything may take to be there.
const START: Duration = Duration::from_secs(60);

/// A master or a worker: one process after the other.
#[derive(Debug)]
struct Daemon {
    host: usize,
    child: Child,
    /// From when on it may run again, if it was killed.
    back_at: Option<Instant>,
}

impl Daemon {
    fn pid(&self) -> i32 {
        self.child.id() as i32
    }
}

/// An executor that runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Executor {
    pub(crate) pid: i32,
    pub(crate) host: usize,
    pub(crate) app: String,
    pub(crate) number: String,
}

/// The cluster, until this is dropped.
#[derive(Debug)]
pub(crate) struct Cluster<'a> {
    programs: &'a Programs,
    machine: Machine,
    directory: PathBuf,
    mark: String,
    ports: [u16; 2],
    /// The master's comes first.
    daemons: Vec<Daemon>,
}

impl<'a> Cluster<'a> {
    /// Starts it in `directory`, and waits until the master knows all workers.
    pub(crate) fn start(
        programs: &'a Programs,
        machine: Machine,
        directory: &Path,
        mark: &str,
    ) -> Result<Self> {
        let ports = [site::free_port()?, site::free_port()?];
        let (directory, mark) = (directory.to_owned(), mark.to_owned());
        let mut cluster = Self { programs, machine, directory, mark, ports, daemons: Vec::new() };
        for host in MASTER..=WORKERS {
            let child = cluster.spawn(host)?;
            cluster.daemons.push(Daemon { host, child, back_at: None });
        }
        until("all workers", START, || cluster.is_whole().then_some(()))?;
        Ok(cluster)
    }

    fn spawn(&self, host: usize) -> Result<Child> {
        let spot = self.spot(host);
        let role = if host == MASTER { "master" } else { "worker" };
        let local = self.machine.networks().is_none();
        let mut command = site::daemon(Kind::Firesteel(self.programs), &spot, role, local);
        command.args(["--host", &spot.host, "--conf", WORKER_TIMEOUT]);
        match host {
            MASTER => self.master(&mut command),
            _ => self.worker(&mut command, host - 1),
        }
        self.prepare(&mut command, host);
        site::start(command, &self.mark, &self.directory, &host_name(host))
    }

    fn master(&self, command: &mut Command) {
        let [port, web] = self.ports.map(|port| port.to_string());
        command.args(["--port", &port, "--webui-port", &web]);
        command.args(["--conf", "spark.master.rest.enabled=false"]);
    }

    fn worker(&self, command: &mut Command, index: usize) {
        let local = self.machine.disks()[index].local();
        command.args(["--webui-port", "0", "--memory", "2g", "--cores", &CORES.to_string()]);
        command.args(["--conf", &format!("spark.local.dir={}", local.display()), "--work-dir"]);
        command.arg(self.work_directory(index)).arg(self.url());
    }

    /// What every process of a host has in common; its own process group, which Ctrl-C does not reach.
    fn prepare(&self, command: &mut Command, host: usize) {
        use std::os::unix::process::CommandExt;
        if let Some(clocks) = self.machine.clocks() {
            clocks.give(command, host);
        }
        command.env("TMPDIR", self.temporary()).process_group(0);
        command.env(processes::MARK, &self.mark);
    }

    /// An application whose driver runs on the host of `slot`: the words are those of firesteel-bench-app.
    pub(crate) fn submit(&self, slot: usize, settings: &[String], words: &[String]) -> Command {
        let host = driver_host(slot);
        let mut command = self.spot(host).command(&self.programs.firesteel);
        spark::remove_settings(&mut command);
        command.arg("submit").args(["--master", &self.url()]).current_dir(&self.directory);
        if self.machine.networks().is_some() {
            command.args(["--conf", "spark.firesteel.insecure=true"]);
        }
        command.args(["--conf", &format!("spark.local.dir={}", self.drivers().display())]);
        for setting in settings {
            command.args(["--conf", setting]);
        }
        self.prepare(&mut command, host);
        command.arg(&self.programs.app).args(words);
        command
    }

    fn spot(&self, host: usize) -> Spot {
        self.machine.networks().map_or_else(Spot::loopback, |networks| networks.host(host))
    }

    fn url(&self) -> String {
        format!("spark://{}:{}", self.spot(MASTER).host, self.ports[0])
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    pub(crate) fn work_directory(&self, worker: usize) -> PathBuf {
        self.directory.join(format!("work-{worker}"))
    }

    /// Where drivers put temporary files.
    pub(crate) fn drivers(&self) -> PathBuf {
        self.directory.join("drivers")
    }

    /// Where programs put what has no place of its own.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.directory.join("temporary")
    }

    /// The master's page, as JSON.
    pub(crate) fn page(&self) -> Result<Value> {
        page::json(&format!("{}:{}", self.spot(MASTER).host, self.ports[1]), "/json/")
    }

    /// Does the master know all workers?
    pub(crate) fn is_whole(&self) -> bool {
        self.page().is_ok_and(|page| page["aliveworkers"] == WORKERS)
    }

    /// Cores that the master could give out, on all hosts but one.
    pub(crate) fn spare_cores(&self, without: Option<usize>) -> Result<u64> {
        let page = self.page()?;
        let without = without.map(|host| self.spot(host).host);
        let workers = page["workers"].as_array().context("the master's page has no workers")?;
        let alive = workers.iter().filter(|worker| {
            worker["state"] == "ALIVE"
                && without.as_ref().is_none_or(|host| worker["host"] != **host)
        });
        Ok(alive.filter_map(|worker| worker["coresfree"].as_u64()).sum())
    }

    /// Hosts whose master or worker runs, as far as is known here.
    pub(crate) fn running(&self) -> impl Iterator<Item = usize> {
        self.daemons.iter().filter(|daemon| daemon.back_at.is_none()).map(|daemon| daemon.host)
    }

    /// The process of a host's master or worker.
    pub(crate) fn pid(&self, host: usize) -> i32 {
        self.daemons[host].pid()
    }

    /// Kills a master or worker, which may run again from then on.
    pub(crate) fn kill(&mut self, host: usize, back_at: Instant) -> Result<()> {
        let daemon = &mut self.daemons[host];
        daemon.child.kill()?;
        daemon.child.wait()?;
        daemon.back_at = Some(back_at);
        Ok(())
    }

    /// Starts what may run again; the hosts whose process ended although nobody killed it, with how.
    pub(crate) fn supervise(&mut self, now: Instant) -> Result<Vec<(usize, String)>> {
        let mut crashed = Vec::new();
        for host in MASTER..=WORKERS {
            let daemon = &mut self.daemons[host];
            if daemon.back_at.is_none()
                && let Some(status) = daemon.child.try_wait()?
            {
                crashed.push((host, status.to_string()));
                daemon.back_at = Some(now);
            }
            if self.daemons[host].back_at.is_some_and(|back_at| back_at <= now) {
                let child = self.spawn(host)?;
                self.daemons[host] = Daemon { host, child, back_at: None };
            }
        }
        Ok(crashed)
    }

    /// All executors that run, in the order of applications and numbers.
    pub(crate) fn executors(&self) -> Vec<Executor> {
        let executor = |process: &Running| {
            let worker = self.daemons.iter().find(|daemon| daemon.pid() == process.parent)?;
            let variable = |name| processes::variable(process.pid, name);
            let (app, number) = (variable("FIRESTEEL_APP_ID")?, variable("FIRESTEEL_EXECUTOR_ID")?);
            Some(Executor { pid: process.pid, host: worker.host, app, number })
        };
        let mut found: Vec<Executor> =
            processes::marked(&self.mark).iter().filter_map(executor).collect();
        found.sort_by(|a, b| (&a.app, &a.number).cmp(&(&b.app, &b.number)));
        found
    }

    /// Processes that are no master, no worker and nothing that goes with a worker.
    pub(crate) fn strangers(&self) -> Vec<Running> {
        let mut found = processes::marked(&self.mark);
        found.retain(|process| {
            let of = |daemon: &Daemon| {
                daemon.pid() == process.pid
                    || daemon.pid() == process.parent && process.command.ends_with(" keep")
            };
            !self.daemons.iter().any(of)
        });
        found
    }

    /// Sends a signal to a process of this cluster; false if it is gone.
    pub(crate) fn signal(&self, pid: i32, wanted: Signal) -> bool {
        has_mark(pid, &self.mark) && signal(pid, wanted).is_ok()
    }

    /// Ends it as an administrator would; what was still running after that.
    pub(crate) fn stop(mut self) -> Vec<Running> {
        self.end();
        processes::leftovers(&self.mark)
    }

    fn end(&mut self) {
        for daemon in self.daemons.iter().rev() {
            let _ = signal(daemon.pid(), Signal::TERM);
        }
        for daemon in self.daemons.iter_mut().rev() {
            let limit = Duration::from_secs(15);
            let ended = until("its end", limit, || daemon.child.try_wait().ok().flatten());
            if ended.is_err() {
                let _ = daemon.child.kill();
                let _ = daemon.child.wait();
            }
        }
    }
}

impl Drop for Cluster<'_> {
    fn drop(&mut self) {
        self.machine.thaw();
        // What is stopped could not end.
        for process in processes::marked(&self.mark) {
            let _ = signal(process.pid, Signal::KILL);
        }
        for daemon in &mut self.daemons {
            let _ = daemon.child.wait();
        }
        let _ = processes::leftovers(&self.mark);
    }
}
