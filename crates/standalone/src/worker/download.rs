//! The executable of a driver that is behind a URL, as submissions over HTTP may name it. A process of its own fetches it, with the
//! driver's settings and variables, so that it can be ended at any time and the worker itself speaks to no web server.
//!
//! It goes to the worker's cache, in the driver's name: a driver that is started again on this worker soon has the same bytes, and those
//! of drivers that are over make room for others.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use firesteel_conf::{FileSource, shared_file};
use firesteel_storage::ensure_private_directory;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use super::cache::{Cached, FetchError};
use super::directories::{self, Place};
use super::order::{Order, ProcessKey};
use super::process::{Launch, LaunchError};

/// The exit code of the program that fetches where trying again later may help, as sysexits.h has it.
pub const FETCH_AGAIN: u8 = 75;

/// Where it comes to, below the work directory.
const ARRIVING: &str = "arriving";
/// Where a link of its name leads to it, below the work directory.
const DIRECTORY: &str = "executable";
/// So much is read of why it could not be fetched.
const LONGEST: u64 = 4 << 10;

fn failed(reason: impl std::fmt::Display) -> LaunchError {
    LaunchError::Download { reason: reason.to_string(), may_pass: false }
}

/// Where a download comes to: gone with all that is in it when this is dropped.
struct Arriving(PathBuf);

impl Drop for Arriving {
    fn drop(&mut self) {
        directories::remove(&self.0);
    }
}

impl Launch {
    /// Fetches it, unless it is there: where it can be run by its name, while the file of the cache is held.
    pub(super) async fn download(
        &self,
        order: &Order,
        place: &Place,
    ) -> Result<(PathBuf, Cached), LaunchError> {
        let file = shared_file(&order.command().program).map_err(failed)?;
        let FileSource::Url(url) = &file.source else { return Err(failed("it is behind no URL")) };
        let cached = self.download_to_cache(order, place, url, &file.name).await?;
        let directory = place.work.join(DIRECTORY);
        ensure_private_directory(&directory).map_err(LaunchError::Directory)?;
        let link = directory.join(&file.name);
        let linked = match std::fs::remove_file(&link) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => std::os::unix::fs::symlink(cached.path(), &link),
        };
        linked.map_err(LaunchError::Directory)?;
        Ok((link, cached))
    }

    async fn download_to_cache(
        &self,
        order: &Order,
        place: &Place,
        url: &str,
        file: &str,
    ) -> Result<Cached, LaunchError> {
        let (name, cache) = (name_of(order), self.cache.clone());
        let called = name.clone();
        let known = move || Ok(cache.called(&called));
        if let Some(known) = self.cache.blocking(known).await.map_err(LaunchError::Keep)? {
            return Ok(known);
        }
        let arriving = Arriving(place.work.join(ARRIVING));
        ensure_private_directory(&arriving.0).map_err(LaunchError::Directory)?;
        let launcher = self.launcher.as_ref();
        let launcher = launcher.ok_or_else(|| failed("this worker has no program that fetches"))?;
        let mut command = self.command(&launcher.program);
        command.args(&launcher.fetch).arg(&arriving.0);
        command.envs(&order.command().environment);
        let (ended, why) = run(command, url).await.map_err(failed)?;
        if !ended.success() {
            let reason = why.trim().trim_start_matches("firesteel fetch: ").to_owned();
            return Err(LaunchError::Download { reason, may_pass: may_pass(ended) });
        }
        let (cache, program) = (self.cache.clone(), arriving.0.join(file));
        let kept: Result<Cached, FetchError> =
            self.cache.blocking(move || cache.take(&program, &name)).await;
        kept.map_err(LaunchError::Keep)
    }
}

/// What it is called in the cache: no other driver has it, and no worker asks for it.
fn name_of(order: &Order) -> String {
    let owner = match order.key() {
        ProcessKey::Driver(driver) => driver.0.to_string(),
        ProcessKey::Executor(key) => key.to_string(),
    };
    format!("url-{}", blake3::hash(owner.as_bytes()).to_hex())
}

/// Whether trying again may help: it says so itself, or something else ended it.
fn may_pass(ended: ExitStatus) -> bool {
    ended.code().is_none_or(|code| code == i32::from(FETCH_AGAIN))
}

/// How it ended, and what it said. The URL may open what is behind it: no other user sees what a process reads.
async fn run(mut command: Command, url: &str) -> std::io::Result<(ExitStatus, String)> {
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
    Ok((status, String::from_utf8_lossy(&said).into_owned()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::sync::Arc;

    use firesteel_backend::command::Command as Told;
    use firesteel_standalone_core::DriverId;
    use firesteel_standalone_core::description::DriverDescription;

    use super::super::args::Launcher;
    use super::super::process::tests::launch as launch_in;
    use super::*;

    /// Fetches 600 KiB, or says that it cannot and ends with the code that the URL asks for.
    const FETCHES: &str = "#!/bin/sh\nread url; case $url in */app) head -c 614400 /dev/zero > \"$3/app\" ;; \
                           */killed) kill -9 $$ ;; *) echo \"firesteel fetch: no\" >&2; exit ${url##*/} ;; esac\n";

    fn order(driver: &str, url: &str) -> Order {
        let command = Told {
            program: url.to_owned(),
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            hash: None,
            served: None,
        };
        let (name, driver) = (driver.to_owned(), DriverId::new(driver));
        let description =
            DriverDescription { name, cores: 1, memory_mb: 1, supervise: false, command };
        Order::Driver { driver, description: Arc::new(description) }
    }

    /// A worker with a program that fetches, and a cache of a megabyte.
    fn worker(root: &Path) -> Arc<Launch> {
        let program = root.join("fetches");
        fs::write(&program, FETCHES).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let (launch, keep, fetch) = (Vec::new(), Vec::new(), Vec::new());
        let mut worker = launch_in(root);
        Arc::get_mut(&mut worker).unwrap().launcher =
            Some(Launcher { program, launch, keep, fetch });
        worker
    }

    async fn download(worker: &Launch, driver: &str, url: &str) -> Result<Cached, LaunchError> {
        let order = order(driver, url);
        let place = worker.directories.for_driver(&DriverId::new(driver)).unwrap();
        let (link, cached) = worker.download(&order, &place).await?;
        assert_eq!(fs::canonicalize(link).unwrap(), fs::canonicalize(cached.path()).unwrap());
        Ok(cached)
    }

    #[tokio::test]
    async fn executables_of_drivers_that_are_over_make_room_and_one_that_runs_keeps_its_own() {
        let root = tempfile::tempdir().unwrap();
        let worker = worker(root.path());
        let files = || fs::read_dir(worker.directories.cache()).unwrap().count();
        let url = "http://h/app";
        let first = download(&worker, "driver-1", url).await.unwrap();
        let error = download(&worker, "driver-2", url).await.unwrap_err();
        let why = error.to_string();
        assert!(why.contains("spark.firesteel.worker.cache.maxSize"), "{why}");
        assert!(!error.may_pass() && first.path().exists() && files() == 1);
        drop(first);
        let again = download(&worker, "driver-1", "http://h/1").await.unwrap();
        assert_eq!(fs::metadata(again.path()).unwrap().len(), 614_400, "it is here still");
        drop(again);
        let second = download(&worker, "driver-2", url).await.unwrap();
        assert!(second.path().exists() && files() == 1, "the first one is over");
        let arriving = worker.directories.work().join("driver-2").join(ARRIVING);
        assert!(!arriving.exists(), "nothing is left of the download");
    }

    #[tokio::test]
    async fn what_a_server_could_not_give_just_now_is_told_from_what_it_does_not_have() {
        let root = tempfile::tempdir().unwrap();
        let worker = worker(root.path());
        for (ends, may_pass) in [("75", true), ("killed", true), ("1", false), ("2", false)] {
            let error = download(&worker, "driver-1", &format!("http://h/{ends}")).await;
            let error = error.unwrap_err();
            assert_eq!(error.may_pass(), may_pass, "{ends}: {error}");
        }
    }
}
