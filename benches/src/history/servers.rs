//! History servers of both kinds as processes, and what they answer.

use std::fmt;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::spark::{self, Spark};

/// Whose server it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Spark,
    Firesteel,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Spark => "Spark",
            Kind::Firesteel => "Firesteel",
        })
    }
}

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(900);
/// How often a list that is not complete is asked for.
const POLL: Duration = Duration::from_millis(100);

/// A server that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    started: Instant,
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

impl Server {
    fn start(mut command: Command, port: u16) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let started = Instant::now();
        let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        Ok(Server { child, address: ([127, 0, 0, 1], port).into(), started })
    }

    pub(crate) fn firesteel(program: &Path, logs: &Path, store: Option<&Path>) -> Result<Self> {
        let port = free_port()?;
        let mut command = Command::new(program);
        spark::remove_settings(&mut command);
        command.arg("history").arg("--dir").arg(logs.canonicalize()?);
        command.args(["--port", &port.to_string()]);
        if let Some(store) = store {
            command.arg("--conf").arg(format!("spark.history.store.path={}", store.display()));
        }
        Self::start(command, port)
    }

    /// `heap` as Java takes it, such as `8g`.
    pub(crate) fn spark(spark: &Spark, logs: &Path, heap: &str) -> Result<Self> {
        let port = free_port()?;
        let mut command = Command::new(spark.program("spark-class"));
        let options = format!(
            "-Dspark.history.fs.logDirectory=file:{} -Dspark.history.ui.port={port} -Dspark.history.fs.update.interval=10s",
            logs.canonicalize()?.display()
        );
        command.arg("org.apache.spark.deploy.history.HistoryServer");
        spark::remove_settings(&mut command);
        command
            .env("SPARK_HISTORY_OPTS", options)
            .env("SPARK_DAEMON_MEMORY", heap)
            .env("SPARK_LOCAL_IP", "127.0.0.1");
        spark.prepare_command(&mut command);
        Self::start(command, port)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Status and body of an answer.
    pub(crate) fn get(&self, path: &str) -> Result<(u16, Vec<u8>)> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(ANSWER))?;
        let host = self.address;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        let end = bytes.windows(4).position(|it| it == b"\r\n\r\n").context("no answer")?;
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).context("no status")?;
        Ok((status, bytes.split_off(end + 4)))
    }

    pub(crate) fn json(&self, path: &str) -> Result<Value> {
        let (status, body) = self.get(&format!("/api/v1{path}"))?;
        ensure!(status == 200, "{path}: {status} {}", String::from_utf8_lossy(&body));
        Ok(serde_json::from_slice(&body)?)
    }

    /// The ids of all applications.
    pub(crate) fn applications(&self) -> Result<Vec<String>> {
        let list = self.json("/applications")?;
        let all = list.as_array().context("no list")?.iter();
        Ok(all.filter_map(|it| it["id"].as_str().map(str::to_owned)).collect())
    }

    /// Seconds from the start of the process until so many are listed.
    pub(crate) fn wait_for_applications(&self, count: usize, limit: Duration) -> Result<f64> {
        loop {
            if self.applications().is_ok_and(|found| found.len() >= count) {
                return Ok(self.started.elapsed().as_secs_f64());
            }
            if self.started.elapsed() > limit {
                bail!("{count} applications were not listed within {limit:?}");
            }
            std::thread::park_timeout(POLL);
        }
    }

    /// Seconds until the jobs and stages of an application are shown.
    pub(crate) fn open(&self, id: &str) -> Result<f64> {
        let begin = Instant::now();
        let jobs = self.json(&format!("/applications/{id}/jobs"))?;
        let stages = self.json(&format!("/applications/{id}/stages"))?;
        let seconds = begin.elapsed().as_secs_f64();
        let is_there = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
        ensure!(is_there(&jobs) && is_there(&stages), "{id} has no jobs or no stages");
        Ok(seconds)
    }

    /// The most memory it ever had.
    pub(crate) fn peak_bytes(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        Ok(kilobytes.context("no VmHWM")? * 1024.0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
