//! A standalone cluster of either kind: a master and workers as processes, and the applications sent to it.

use std::{
    ffi::OsString,
    fs::{self, File},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::{
    page::{self, Overview},
    processes::{self, MARK, Running},
    wait::until,
};
use crate::{cache, process, spark};

/// How long a cluster may take to be there.
const START: Duration = Duration::from_secs(60);

/// Memory of a worker, and of an executor on it.
const WORKER_MEMORY: &str = "3g";
const EXECUTOR_MEMORY: &str = "2g";

/// Whose cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind<'a> {
    Spark(&'a spark::Spark),
    Firesteel(&'a Programs),
}

/// The programs of ours that are measured.
#[derive(Debug)]
pub(crate) struct Programs {
    pub(crate) firesteel: PathBuf,
    pub(crate) app: PathBuf,
}

impl Programs {
    pub(crate) fn find() -> Result<Self> {
        let firesteel = process::sibling("firesteel")?;
        Ok(Self { firesteel, app: process::sibling("firesteel-bench-app")? })
    }
}

/// Where a process runs: an address, and the network it has if that is not everybody's.
#[derive(Debug, Clone)]
pub(crate) struct Spot {
    pub(crate) host: String,
    pub(crate) namespace: Option<String>,
}

impl Spot {
    pub(crate) fn loopback() -> Self {
        Self { host: "127.0.0.1".to_owned(), namespace: None }
    }

    pub(crate) fn command(&self, program: &Path) -> Command {
        let Some(namespace) = &self.namespace else { return Command::new(program) };
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace]).arg(program);
        command
    }
}

/// What a cluster is made of: a master, and workers of so many cores.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) master: Spot,
    pub(crate) workers: Vec<(u32, Spot)>,
}

impl Plan {
    /// On this machine alone, with a worker for each of these numbers of cores.
    pub(crate) fn here(cores: &[u32]) -> Self {
        let workers = cores.iter().map(|cores| (*cores, Spot::loopback())).collect();
        Self { master: Spot::loopback(), workers }
    }

    fn is_local(&self) -> bool {
        self.master.host == "127.0.0.1"
    }
}

/// A cluster that runs; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Site<'a> {
    kind: Kind<'a>,
    local: bool,
    mark: String,
    directory: PathBuf,
    pub(crate) url: String,
    pub(crate) page: String,
    /// `None`: somebody else looks after its masters.
    pub(crate) master: Option<Child>,
    pub(crate) workers: Vec<Child>,
}

impl<'a> Site<'a> {
    /// Starts it, and waits until the master knows all workers.
    pub(crate) fn start(kind: Kind<'a>, plan: &Plan) -> Result<Self> {
        let (mark, directory) = ground()?;
        let (port, web) = (free_port()?, free_port()?);
        let host = &plan.master.host;
        let (url, page) = (format!("spark://{host}:{port}"), format!("{host}:{web}"));
        let words = ["--host", host, "--port", &port.to_string(), "--webui-port", &web.to_string()];
        let mut command = daemon(kind, &plan.master, "master", plan.is_local());
        command.args(words);
        let master = Some(start(command, &mark, &directory, "master")?);
        let local = plan.is_local();
        let mut site =
            Self { kind, local, mark, directory, url, page, master, workers: Vec::new() };
        until("a master", START, || site.overview().ok())?;
        site.start_workers(plan)?;
        site.wait_for_workers(plan.workers.len())?;
        Ok(site)
    }

    /// Workers of masters that are there already. Nobody waits until those know them.
    pub(crate) fn following(
        kind: Kind<'a>,
        plan: &Plan,
        url: String,
        page: String,
    ) -> Result<Self> {
        let ((mark, directory), local) = (ground()?, plan.is_local());
        let (master, workers) = (None, Vec::new());
        let mut site = Self { kind, local, mark, directory, url, page, master, workers };
        site.start_workers(plan)?;
        Ok(site)
    }

    fn start_workers(&mut self, plan: &Plan) -> Result<()> {
        for (index, (cores, spot)) in plan.workers.iter().enumerate() {
            let worker = self.worker(index, *cores, spot)?;
            self.workers.push(worker);
        }
        Ok(())
    }

    fn worker(&self, index: usize, cores: u32, spot: &Spot) -> Result<Child> {
        let name = format!("worker-{index}");
        let mut command = daemon(self.kind, spot, "worker", self.local);
        command.args(["--host", &spot.host, "--webui-port", "0", "--memory", WORKER_MEMORY]);
        command.args(["--cores", &cores.to_string(), "--work-dir"]);
        command.arg(self.directory.join(&name)).arg(&self.url);
        start(command, &self.mark, &self.directory, &name)
    }

    pub(crate) fn is_ours(&self) -> bool {
        matches!(self.kind, Kind::Firesteel(_))
    }

    pub(crate) fn wait_for_workers(&self, count: usize) -> Result<()> {
        until(&format!("{count} workers"), START, || {
            (self.overview().ok()?.alive_workers == count as u64).then_some(())
        })
    }

    pub(crate) fn overview(&self) -> Result<Overview> {
        page::overview(&self.page)
    }

    /// An application for this cluster: the words are those of firesteel-bench-app.
    pub(crate) fn submit(
        &self,
        spot: &Spot,
        cores: u32,
        settings: &[(&str, &str)],
        words: &[OsString],
    ) -> Command {
        let program = match self.kind {
            Kind::Spark(spark) => spark.program("spark-submit"),
            Kind::Firesteel(programs) => programs.firesteel.clone(),
        };
        let mut command = spot.command(&program);
        spark::remove_settings(&mut command);
        if let Kind::Firesteel(_) = self.kind {
            command.arg("submit");
        }
        command.env(MARK, &self.mark).current_dir(&self.directory);
        command.args(["--master", &self.url, "--executor-memory", EXECUTOR_MEMORY]);
        command.args(["--total-executor-cores", &cores.to_string()]);
        for (key, value) in settings {
            command.args(["--conf", &format!("{key}={value}")]);
        }
        self.application(&mut command, spot, words);
        command
    }

    fn application(&self, command: &mut Command, spot: &Spot, words: &[OsString]) {
        match self.kind {
            Kind::Spark(spark) => {
                spark.prepare_command(command);
                let host = format!("spark.driver.host={}", spot.host);
                command.env("SPARK_LOCAL_IP", &spot.host).args(["--conf", &host]);
                let class = match words.first().and_then(|word| word.to_str()) {
                    Some("trivial") => "lab.Trivial",
                    Some("survive") => "lab.Survive",
                    _ => "lab.Bench",
                };
                command.args(["--conf", "spark.log.level=WARN", "--class", class]);
                command.arg(spark.jar());
            }
            Kind::Firesteel(programs) => {
                if !self.local {
                    command.args(["--conf", "spark.firesteel.insecure=true"]);
                }
                command.arg(&programs.app);
            }
        }
        command.args(words);
    }

    /// Where its processes work.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The executors that a worker has started and that run.
    pub(crate) fn executors_of(&self, worker: &Child) -> Vec<Running> {
        let mut found = processes::marked(&self.mark);
        found.retain(|process| process.parent == worker.id() as i32 && process.is_executor());
        found
    }

    /// All processes that it has: master, workers, and what these have started.
    pub(crate) fn processes(&self) -> Vec<Running> {
        processes::marked(&self.mark)
    }

    /// All executors that run.
    pub(crate) fn executors(&self) -> Vec<Running> {
        self.workers.iter().flat_map(|worker| self.executors_of(worker)).collect()
    }

    /// Kills a worker and forgets it.
    pub(crate) fn kill_worker(&mut self, index: usize) -> Result<()> {
        let mut worker = self.workers.remove(index);
        let killed = worker.kill();
        worker.wait()?;
        Ok(killed?)
    }

    /// Ends it as an administrator would; what was still running after that.
    pub(crate) fn stop(mut self) -> Vec<Running> {
        self.end();
        let left = processes::leftovers(&self.mark);
        let _ = fs::remove_dir_all(&self.directory);
        left
    }

    fn end(&mut self) {
        for child in self.workers.iter_mut().chain(&mut self.master) {
            let _ = processes::signal(child.id() as i32, Signal::TERM);
            let ended =
                until("its end", Duration::from_secs(10), || child.try_wait().ok().flatten());
            if ended.is_err() {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

impl Drop for Site<'_> {
    fn drop(&mut self) {
        self.end();
        let _ = processes::leftovers(&self.mark);
    }
}

/// A mark that no other cluster has, and a directory of that name.
fn ground() -> Result<(String, PathBuf)> {
    static SITES: AtomicU32 = AtomicU32::new(0);
    let number = SITES.fetch_add(1, Ordering::Relaxed);
    let mark = format!("{}-{number}", std::process::id());
    let directory = cache::directory("bench")?.join(format!("site-{mark}"));
    fs::create_dir_all(&directory)?;
    Ok((mark, directory))
}

/// Nobody else has it now; the moment until it is used is short.
pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0").context("no free port")?.local_addr()?.port())
}

pub(crate) fn daemon(kind: Kind<'_>, spot: &Spot, role: &str, local: bool) -> Command {
    match kind {
        Kind::Spark(spark) => {
            let mut command = spot.command(&spark.program("spark-class"));
            spark::remove_settings(&mut command);
            spark.prepare_command(&mut command);
            command.env("SPARK_LOCAL_IP", &spot.host);
            let class = if role == "master" { "master.Master" } else { "worker.Worker" };
            command.arg(format!("org.apache.spark.deploy.{class}"));
            command
        }
        Kind::Firesteel(programs) => {
            let mut command = spot.command(&programs.firesteel);
            spark::remove_settings(&mut command);
            command.arg(role);
            if !local {
                command.arg("--insecure");
            }
            command
        }
    }
}

/// Starts it with its output at the end of the file `name.log` in `directory`.
pub(crate) fn start(
    mut command: Command,
    mark: &str,
    directory: &Path,
    name: &str,
) -> Result<Child> {
    let log = directory.join(format!("{name}.log"));
    let log = File::options().create(true).append(true).open(log)?;
    command.env(MARK, mark).current_dir(directory);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.spawn().with_context(|| format!("cannot start a {name}"))
}
