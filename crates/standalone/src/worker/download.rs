//! The executable of a driver that is behind a URL, as submissions over HTTP may name it. A process of its own fetches it, with the
//! driver's settings and variables, so that it can be ended at any time and the worker itself speaks to no web server.
//!
//! It stays in the driver's work directory: a driver that is started again on this worker has the same bytes.

use std::path::PathBuf;
use std::process::Stdio;

use firesteel_conf::{FileSource, shared_file};
use firesteel_storage::ensure_private_directory;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use super::directories::Place;
use super::order::Order;
use super::process::{Launch, LaunchError};

/// Where it is, below the work directory.
const DIRECTORY: &str = "executable";
/// So much is read of why it could not be fetched.
const LONGEST: u64 = 4 << 10;

fn failed(reason: impl std::fmt::Display) -> LaunchError {
    LaunchError::Download { reason: reason.to_string() }
}

impl Launch {
    /// Fetches it, unless it is there; its path.
    pub(super) async fn download(
        &self,
        order: &Order,
        place: &Place,
    ) -> Result<PathBuf, LaunchError> {
        let file = shared_file(&order.command().program).map_err(failed)?;
        let FileSource::Url(url) = &file.source else { return Err(failed("it is behind no URL")) };
        let directory = place.work.join(DIRECTORY);
        ensure_private_directory(&directory).map_err(LaunchError::Directory)?;
        let program = directory.join(&file.name);
        // What is there under its name is whole.
        if program.exists() {
            return Ok(program);
        }
        let launcher = self.launcher.as_ref();
        let launcher = launcher.ok_or_else(|| failed("this worker has no program that fetches"))?;
        let mut command = self.command(&launcher.program);
        command.args(&launcher.fetch).arg(&directory);
        command.envs(&order.command().environment);
        let (told, why) = run(command, url).await.map_err(failed)?;
        match told {
            true => Ok(program),
            false => Err(failed(why.trim().trim_start_matches("firesteel fetch: "))),
        }
    }
}

/// Whether it could be fetched, and what it said. The URL may open what is behind it: no other user sees what a process reads.
async fn run(mut command: Command, url: &str) -> std::io::Result<(bool, String)> {
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child: Child = command.spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // One that ended already says why.
        let _ = input.write_all(url.as_bytes()).await;
    }
    let mut said = Vec::new();
    if let Some(output) = child.stderr.take() {
        let mut output = output.take(LONGEST);
        output.read_to_end(&mut said).await?;
        // It is not to wait for somebody who reads the rest.
        tokio::io::copy(&mut output.into_inner(), &mut tokio::io::sink()).await?;
    }
    let status = child.wait().await?;
    Ok((status.success(), String::from_utf8_lossy(&said).into_owned()))
}
