//! `firesteel cluster start|stop|status`: a master here and workers on the machines of a file, by ssh.
//!
//! The file is Spark's `conf/workers`: a host on each line. Each machine has this executable under the same path.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::{Args, Subcommand};

use crate::Failure;
use crate::daemons::given;

#[derive(Args)]
pub(crate) struct ClusterFlags {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Starts the master here, then the workers.
    Start(Machines),
    /// Ends the workers, then the master.
    Stop(Machines),
    /// Tells which of them run; the exit code is 1 if one does not.
    Status(Machines),
}

#[derive(Args)]
struct Machines {
    /// The file with the hosts of the workers [default: workers in SPARK_CONF_DIR, else conf/workers].
    #[arg(long, value_name = "FILE")]
    workers: Option<PathBuf>,
    /// The host by which the workers reach the master [default: SPARK_MASTER_HOST, else 127.0.0.1].
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// The master's port [default: SPARK_MASTER_PORT, else 7077].
    #[arg(long)]
    port: Option<u16>,
    /// The path of this executable on the machines of the workers [default: as here].
    #[arg(long, value_name = "PATH")]
    program: Option<String>,
    /// Flags for the master and each worker, such as --properties-file FILE.
    #[arg(last = true)]
    flags: Vec<String>,
}

pub(crate) fn run(flags: ClusterFlags) -> Result<ExitCode, Failure> {
    match flags.action {
        Action::Start(machines) => Cluster::of(machines)?.checked()?.start(),
        Action::Stop(machines) => Cluster::of(machines)?.without_flags("stop")?.stop(),
        Action::Status(machines) => Cluster::of(machines)?.without_flags("status")?.status(),
    }
}

struct Cluster {
    /// With the name of each worker's process.
    workers: Vec<(String, String)>,
    host: String,
    port: u16,
    program: String,
    flags: Vec<String>,
}

const MASTER: &str = "master";

impl Cluster {
    fn of(machines: Machines) -> Result<Self, Failure> {
        let own = std::env::current_exe()?.to_string_lossy().into_owned();
        let host = machines.host.or_else(|| given("SPARK_MASTER_HOST"));
        Ok(Self {
            workers: number(&hosts(machines.workers)?),
            host: host.unwrap_or_else(|| "127.0.0.1".to_owned()),
            port: crate::daemons::number(machines.port, "SPARK_MASTER_PORT", 7077)?,
            program: machines.program.unwrap_or(own),
            flags: machines.flags,
        })
    }

    /// Whether its workers could find its master.
    fn checked(self) -> Result<Self, Failure> {
        if self.port == 0 {
            return Err("--port 0: write a port, such as 7077: the workers have to know it".into());
        }
        let elsewhere = self.workers.iter().find(|(host, _)| !is_loopback(host));
        match elsewhere.filter(|_| is_loopback(&self.host)) {
            None => Ok(self),
            Some((worker, _)) => Err(format!(
                "a worker on {worker} cannot reach a master at {}, which is each machine's own: write --host (or SPARK_MASTER_HOST) \
                 with a name or address of this machine that {worker} knows",
                self.host
            )
            .into()),
        }
    }

    /// Only what starts takes flags of master and workers.
    fn without_flags(self, action: &str) -> Result<Self, Failure> {
        match self.flags.first() {
            None => Ok(self),
            Some(flag) => Err(format!(
                "cluster {action} starts nothing, and {flag} is for master and workers that start: leave out what comes after --"
            )
            .into()),
        }
    }

    fn start(&self) -> Result<ExitCode, Failure> {
        let port = self.port.to_string();
        let master = ["start", MASTER, MASTER, "--host", &self.host, "--port", &port];
        if !self.daemon(None, &master, &self.flags)? {
            return Err("the master did not start: no worker was started".into());
        }
        let url = format!("spark://{}:{port}", self.host);
        let start = |host: &str, name: &str| {
            let worker = ["start", name, "worker", &url, "--host", host];
            self.daemon(Some(host), &worker, &self.flags)
        };
        self.each_worker(start).map(exit_code)
    }

    fn stop(&self) -> Result<ExitCode, Failure> {
        let workers =
            self.each_worker(|host, name| self.daemon(Some(host), &["stop", name], &[]))?;
        Ok(exit_code(self.daemon(None, &["stop", MASTER], &[])? && workers))
    }

    fn status(&self) -> Result<ExitCode, Failure> {
        let master = self.daemon(None, &["status", MASTER], &[])?;
        let workers =
            self.each_worker(|host, name| self.daemon(Some(host), &["status", name], &[]))?;
        Ok(exit_code(master && workers))
    }

    /// One that fails does not keep the others from being asked.
    fn each_worker(
        &self,
        ask: impl Fn(&str, &str) -> Result<bool, Failure>,
    ) -> Result<bool, Failure> {
        let mut all = true;
        for (host, name) in &self.workers {
            all &= ask(host, name)?;
        }
        Ok(all)
    }

    /// Has a daemon of a machine do something; whether it did.
    fn daemon(
        &self,
        host: Option<&str>,
        words: &[&str],
        flags: &[String],
    ) -> Result<bool, Failure> {
        let words = ["daemon"].iter().chain(words).map(|word| (*word).to_owned());
        let words: Vec<String> = words.chain(flags.iter().cloned()).collect();
        let is_here = |host: &str| matches!(host, "localhost" | "127.0.0.1" | "::1");
        let mut command = match host.filter(|host| !is_here(host)) {
            None => {
                let mut command = Command::new(std::env::current_exe()?);
                command.args(&words);
                command
            }
            Some(host) => {
                let all = [self.program.clone()].into_iter().chain(words);
                let line = all.map(|word| quote(&word)).collect::<Vec<_>>().join(" ");
                let mut command = Command::new("ssh");
                let options =
                    given("SPARK_SSH_OPTS").unwrap_or("-o StrictHostKeyChecking=yes".to_owned());
                command.args(options.split_whitespace()).arg("--").arg(host).arg(line);
                command
            }
        };
        if let Some(host) = host {
            print!("{host}: ");
            std::io::Write::flush(&mut std::io::stdout())?;
        }
        let status =
            command.status().map_err(|error| format!("could not run {command:?}: {error}"))?;
        Ok(status.success())
    }
}

/// A name or an address that every machine has for itself.
fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

fn exit_code(success: bool) -> ExitCode {
    if success { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// For a shell: nothing in it means anything.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The hosts of the file. Without one, a worker here.
fn hosts(file: Option<PathBuf>) -> Result<Vec<String>, Failure> {
    let is_told = file.is_some();
    let conf = given("SPARK_CONF_DIR").unwrap_or_else(|| "conf".to_owned());
    let file = file.unwrap_or_else(|| PathBuf::from(conf).join("workers"));
    match std::fs::read_to_string(&file) {
        Ok(text) => parse(&text).map_err(|reason| format!("{}: {reason}", file.display()).into()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !is_told => {
            Ok(vec!["localhost".to_owned()])
        }
        Err(error) => Err(format!("could not read {}: {error}", file.display()).into()),
    }
}

fn parse(text: &str) -> Result<Vec<String>, String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let hosts: Vec<String> = lines.filter(|line| !line.is_empty()).map(str::to_owned).collect();
    // What begins with a dash would be an option of ssh.
    match hosts.iter().find(|host| host.starts_with('-') || host.contains(char::is_whitespace)) {
        Some(bad) => Err(format!("{bad:?} is no host: write one on each line")),
        None if hosts.is_empty() => Err("it has no host: write one on each line".to_owned()),
        None => Ok(hosts),
    }
}

/// Several workers may be on one machine.
fn number(hosts: &[String]) -> Vec<(String, String)> {
    let name = |(at, host): (usize, &String)| {
        let before = hosts[..at].iter().filter(|other| *other == host).count();
        (host.clone(), format!("worker-{}", before + 1))
    };
    hosts.iter().enumerate().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workers_file_has_a_host_on_each_line_and_a_host_may_have_several_workers() {
        let hosts = parse("# ours\na\n\n b # the second\na\n").unwrap();
        assert_eq!(hosts, ["a", "b", "a"]);
        let names: Vec<String> = number(&hosts).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["worker-1", "worker-1", "worker-2"]);
        for (text, needle) in
            [("", "it has no host"), ("-oProxyCommand=x", "is no host"), ("a b", "is no host")]
        {
            assert!(parse(text).unwrap_err().contains(needle), "{text}");
        }
    }

    #[test]
    fn a_word_for_another_shell_means_only_itself() {
        assert_eq!(quote("a b$c"), "'a b$c'");
        assert_eq!(quote("it's"), r"'it'\''s'");
    }
}
