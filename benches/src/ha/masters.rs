//! A cluster of either kind with one master or several, which can be killed and started again one by one.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use serde_json::Value;

use crate::{
    cache,
    cluster::{
        Site, Spot,
        page::json,
        processes,
        site::{Kind, Plan, daemon, free_port, start},
        wait::until,
    },
};

/// How long a cluster may take to be there.
const START: Duration = Duration::from_secs(90);

/// One of the masters; it is killed with this, also if others do not start.
#[derive(Debug)]
struct Member {
    child: Child,
    port: u16,
    web: u16,
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Masters with the workers that follow them.
#[derive(Debug)]
pub(super) struct Masters<'a> {
    // Before its workers, which would tell them of their ends.
    members: Vec<Member>,
    pub(super) site: Site<'a>,
    kind: Kind<'a>,
    properties: PathBuf,
    workers: usize,
}

/// A directory for one cluster's files.
pub(super) fn scratch(name: &str) -> Result<PathBuf> {
    let directory = cache::directory("bench")?.join(format!("ha-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory)?;
    Ok(directory)
}

impl<'a> Masters<'a> {
    /// Starts so many masters with these settings and a worker for each of these numbers of cores; waits until one leads that knows
    /// them.
    pub(super) fn start(
        kind: Kind<'a>,
        count: usize,
        settings: &[(&str, String)],
        cores: &[u32],
    ) -> Result<Self> {
        let directory = scratch("masters")?;
        let properties = directory.join("masters.conf");
        let lines = settings.iter().map(|(key, value)| format!("{key} {value}\n"));
        fs::write(&properties, lines.collect::<String>())?;
        let mut members = Vec::new();
        for index in 0..count {
            let (port, web) = (free_port()?, free_port()?);
            let command = command(kind, &properties, port, web);
            let child = start(command, "ha", &directory, &format!("master-{index}"))?;
            members.push(Member { child, port, web });
        }
        let hosts = members.iter().map(|member| format!("127.0.0.1:{}", member.port));
        let url = format!("spark://{}", hosts.collect::<Vec<_>>().join(","));
        let page = page(&members[0]);
        until("a leader", START, || members.iter().find(|member| status(member) == "ALIVE"))?;
        let site = Site::following(kind, &Plan::here(cores), url, page)?;
        let masters = Self { site, kind, properties, members, workers: cores.len() };
        until("a leader with workers", START, || {
            let known = masters.leader()?.1["aliveworkers"].as_u64()?;
            (known == cores.len() as u64).then_some(())
        })?;
        Ok(masters)
    }

    /// The place of the master that leads, and what it says.
    pub(super) fn leader(&self) -> Option<(usize, Value)> {
        let pages = self.members.iter().map(|member| json(&page(member), "/json/").ok());
        let leads = |page: &Value| page["status"] == "ALIVE";
        pages.enumerate().find_map(|(at, page)| Some((at, page.filter(leads)?)))
    }

    pub(super) fn status(&self, at: usize) -> String {
        status(&self.members[at])
    }

    /// Whether one leads that has all workers, and the application with so many cores.
    pub(super) fn is_whole(&self, cores: u64) -> bool {
        let Some((_, page)) = self.leader() else { return false };
        let given: Option<u64> = page["activeapps"]
            .as_array()
            .map(|apps| apps.iter().filter_map(|app| app["cores"].as_u64()).sum());
        page["aliveworkers"].as_u64() == Some(self.workers as u64) && given == Some(cores)
    }

    pub(super) fn pid(&self, at: usize) -> i32 {
        self.members[at].child.id() as i32
    }

    pub(super) fn kill(&mut self, at: usize) -> Result<()> {
        let child = &mut self.members[at].child;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Ends it as its operator would.
    pub(super) fn stop(&mut self, at: usize) -> Result<()> {
        processes::signal(self.pid(at), Signal::TERM)?;
        let child = &mut self.members[at].child;
        until("the end of a master", START, || child.try_wait().ok().flatten())?;
        Ok(())
    }

    /// Starts it again where it was; `prepare` may change how.
    pub(super) fn restart(&mut self, at: usize, prepare: impl FnOnce(&mut Command)) -> Result<()> {
        let Member { port, web, .. } = self.members[at];
        let mut command = command(self.kind, &self.properties, port, web);
        prepare(&mut command);
        let directory = self.properties.parent().context("a file in a directory")?;
        self.members[at].child = start(command, "ha", directory, &format!("master-{at}"))?;
        Ok(())
    }

    /// Starts one more with the same settings, which is not to run: what it says.
    pub(super) fn refused_another(&self) -> Result<String> {
        let mut command = command(self.kind, &self.properties, free_port()?, free_port()?);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let ended = until("the end of another master", START, || child.try_wait().ok().flatten());
        if ended.is_err() {
            child.kill()?;
        }
        let output = child.wait_with_output()?;
        ensure!(!ended?.success(), "another master ended as if all were well");
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// The address of the page of one of them.
    pub(super) fn page(&self, at: usize) -> String {
        page(&self.members[at])
    }
}

fn command(kind: Kind<'_>, properties: &std::path::Path, port: u16, web: u16) -> Command {
    let mut command = daemon(kind, &Spot::loopback(), "master", true);
    command.args(["--host", "127.0.0.1", "--port", &port.to_string()]);
    command.args(["--webui-port", &web.to_string(), "--properties-file"]).arg(properties);
    command
}

fn page(member: &Member) -> String {
    format!("127.0.0.1:{}", member.web)
}

fn status(member: &Member) -> String {
    let page = json(&page(member), "/json/").unwrap_or_default();
    page["status"].as_str().unwrap_or_default().to_owned()
}
