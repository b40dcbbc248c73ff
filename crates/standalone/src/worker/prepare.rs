//! What has to be there before a process starts: its directories, its executable, its files. What the worker
//! does not have, the application's driver serves.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use firesteel_backend::Address;
use firesteel_backend::command::{Command, Served, ServedFile};
use firesteel_rpc::{RpcAddress, SECRET_VARIABLE};

use super::cache::{Cached, FetchError, Wanted};
use super::directories::{self, Place};
use super::executable::ExecutableError;
use super::order::Order;
use super::process::{Launch, LaunchError};

/// Ready to be started.
pub(super) struct Prepared {
    pub(super) place: Place,
    /// The executable, if it is not the one that the order names. It stays while the process runs.
    program: Option<Cached>,
}

impl Prepared {
    /// What is to be run.
    pub(super) fn program<'a>(&'a self, told: &'a Command) -> &'a Path {
        self.program.as_ref().map_or(Path::new(&told.program), Cached::path)
    }
}

impl Launch {
    /// Whether the program that the order names is the one that was meant. Changes nothing.
    pub(super) async fn check(
        self: &Arc<Self>,
        order: &Arc<Order>,
    ) -> Result<Result<(), ExecutableError>, LaunchError> {
        let (launch, told) = (self.clone(), order.clone());
        let checked = move || {
            let Command { program, hash, .. } = told.command();
            Ok(launch.hashes.check(program, *hash))
        };
        self.blocking(checked).await
    }

    /// Makes its directories.
    pub(super) async fn place(self: &Arc<Self>, order: &Arc<Order>) -> Result<Place, LaunchError> {
        let (launch, told) = (self.clone(), order.clone());
        self.blocking(move || told.place(&launch.directories).map_err(LaunchError::Directory)).await
    }

    /// Fetches what is not there.
    pub(super) async fn prepare(
        &self,
        order: &Order,
        checked: Result<(), ExecutableError>,
        place: Place,
    ) -> Result<Prepared, LaunchError> {
        let told = order.command();
        let program = match (checked, &told.served, told.hash) {
            (Ok(()), ..) => None,
            (Err(here), Some(served), Some(hash)) => {
                let fetched = self.fetch(told, served, hash, served.program_bytes).await;
                Some(fetched.map_err(|source| LaunchError::Program { here, source })?)
            }
            (Err(here), ..) => return Err(here.into()),
        };
        for file in told.served.iter().flat_map(|served| &served.files) {
            self.put(told, file, &place).await?;
        }
        Ok(Prepared { place, program })
    }

    async fn fetch(
        &self,
        told: &Command,
        served: &Served,
        hash: [u8; 32],
        bytes: u64,
    ) -> Result<Cached, Box<FetchError>> {
        let Address { host, port } = &served.address;
        let from = &RpcAddress::new(&*host.0, *port);
        let secret = told.environment.get(SECRET_VARIABLE).map(String::as_str);
        self.cache.obtain(&Wanted { hash, bytes, from, secret }).await.map_err(Box::new)
    }

    /// Puts a copy of a file into the work directory: the process may do with it what it likes.
    async fn put(
        &self,
        told: &Command,
        file: &ServedFile,
        place: &Place,
    ) -> Result<(), LaunchError> {
        let Some(served) = &told.served else { return Ok(()) };
        let name = file.name.clone();
        let failed = |source| LaunchError::CopyFile { name: file.name.clone(), source };
        let target = place.work.join(directories::name(&file.name).map_err(failed)?);
        let fetched = self.fetch(told, served, file.hash, file.bytes).await;
        let cached = fetched.map_err(|source| LaunchError::File { name, source })?;
        let name = file.name.clone();
        let copied = move || {
            let copied = fs::copy(cached.path(), &target)
                .and_then(|_| fs::set_permissions(&target, fs::Permissions::from_mode(0o700)));
            copied.map_err(|source| LaunchError::CopyFile { name, source })
        };
        self.blocking(copied).await
    }

    /// On a thread that may block. The worker waits for it before it ends.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, LaunchError> + Send + 'static,
    ) -> Result<T, LaunchError> {
        self.tasks.spawn_blocking(work).await.map_err(|_| LaunchError::Ending)?
    }
}
