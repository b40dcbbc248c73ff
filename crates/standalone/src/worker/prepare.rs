//! What has to be there before a process starts: its directories, its executable, its files. What the worker
//! does not have, the application's driver serves; what is behind a URL, `download` fetches.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firesteel_backend::Address;
use firesteel_backend::command::{Command, Served, ServedFile};
use firesteel_backend::provider::Preparing;
use firesteel_rpc::{
    APPLICATION_IDENTITY, DEFAULT_IDENTITY, Identity, RpcAddress, SECRET_VARIABLE, Secret,
};
use firesteel_standalone_core::wire::WORKER;
use firesteel_standalone_core::worker::SourceKind;
use tokio::sync::watch;

use super::cache::{Cached, FetchError, Wanted};
use super::directories::{self, Place};
use super::fetch::Source;
use super::order::Order;
use super::process::{Launch, LaunchError};
use crate::executable::ExecutableError;

/// How far it is: one file after the other.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Of all files so far.
    total: watch::Sender<Preparing>,
}

impl Progress {
    /// What is there of the files before the next one.
    fn step(&self) -> Preparing {
        *self.total.borrow()
    }

    fn advance(&self, before: Preparing, file: Preparing) {
        let total = Preparing {
            bytes: before.bytes + file.bytes,
            of: before.of + file.of,
            waits: before.waits + file.waits,
        };
        self.total.send_if_modified(|known| std::mem::replace(known, total) != total);
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Preparing> {
        self.total.subscribe()
    }
}

/// Ready to be started.
pub(super) struct Prepared {
    pub(super) place: Place,
    program: Program,
}

/// What is to be run.
enum Program {
    /// The one that the order names.
    Named,
    /// Of the cache, where it stays while the process runs.
    Cached(Cached),
    /// The same, by another name.
    Linked(PathBuf, #[expect(dead_code, reason = "held while the process runs")] Cached),
}

impl Prepared {
    pub(super) fn program<'a>(&'a self, told: &'a Command) -> &'a Path {
        match &self.program {
            Program::Named => Path::new(&told.program),
            Program::Cached(cached) => cached.path(),
            Program::Linked(path, _) => path,
        }
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
        progress: &Progress,
    ) -> Result<Prepared, LaunchError> {
        let told = order.command();
        let program = match (checked, &told.served, told.hash) {
            (Ok(()), ..) => Program::Named,
            (Err(here), Some(served), Some(hash)) => {
                let bytes = served.program_bytes;
                let fetched = self.fetch(order, served, (hash, bytes), progress).await;
                let failed = |source| LaunchError::Program { here, source };
                Program::Cached(fetched.map_err(failed)?)
            }
            (Err(_), ..) if order.is_behind_url() => {
                let (link, cached) = self.download(order, &place).await?;
                Program::Linked(link, cached)
            }
            (Err(here), ..) => return Err(here.into()),
        };
        for file in told.served.iter().flat_map(|served| &served.files) {
            self.put(order, file, &place, progress).await?;
        }
        Ok(Prepared { place, program })
    }

    async fn fetch(
        &self,
        order: &Order,
        served: &Served,
        (hash, bytes): ([u8; 32], u64),
        progress: &Progress,
    ) -> Result<Cached, Arc<FetchError>> {
        let sources = self.sources(order, served);
        let step = progress.step();
        let advance = |preparing| progress.advance(step, preparing);
        self.cache.obtain(&Wanted { hash, bytes, sources }, advance).await
    }

    /// Who may serve what an order needs.
    fn sources(&self, order: &Order, served: &Served) -> Vec<Source> {
        let secret = order.command().environment.get(SECRET_VARIABLE).cloned();
        let source = |kind, Address { host, port }: &Address, identity: &str| Source {
            kind,
            address: RpcAddress::new(&*host.0, *port),
            identity: identity.to_owned(),
            // Workers ask for proofs as this one does.
            secret: secret.clone().filter(|_| kind == SourceKind::Driver || self.keyring.is_some()),
        };
        let drivers = match order {
            Order::Executor { .. } => {
                vec![source(SourceKind::Driver, &served.address, APPLICATION_IDENTITY)]
            }
            // What a driver of the cluster needs, its master serves to the cluster's workers; another one, if that is gone.
            Order::Driver { .. } => {
                let taken = RpcAddress::new(&*served.address.host.0, served.address.port);
                let others = self.masters.iter().filter(|master| **master != taken).cloned();
                let all = [taken.clone()].into_iter().chain(others);
                let of = |address| Source {
                    kind: SourceKind::Driver,
                    address,
                    identity: DEFAULT_IDENTITY.to_owned(),
                    secret: self.secret(),
                };
                all.map(of).collect()
            }
        };
        let peers = order.peers().into_iter().flat_map(|(app, peers)| {
            let source = &source;
            peers.iter().map(move |peer| source(SourceKind::Worker, peer, app))
        });
        let own = |other: &Source| other.address.endpoint(WORKER).to_string() == self.url;
        drivers.into_iter().chain(peers).filter(|other| !own(other)).collect()
    }

    /// The cluster's secret, if it has one.
    pub(super) fn secret(&self) -> Option<String> {
        let identity = self.cache.rpc().identity.as_ref();
        identity.map(|identity| identity.secret().expose().to_owned())
    }

    /// Puts a copy of a file into the work directory: the process may do with it what it likes.
    async fn put(
        &self,
        order: &Order,
        file: &ServedFile,
        place: &Place,
        progress: &Progress,
    ) -> Result<(), LaunchError> {
        let Some(served) = &order.command().served else { return Ok(()) };
        let name = file.name.clone();
        let failed = |source| LaunchError::CopyFile { name: file.name.clone(), source };
        let target = place.work.join(directories::name(&file.name).map_err(failed)?);
        let fetched = self.fetch(order, served, (file.hash, file.bytes), progress).await;
        let cached = fetched.map_err(|source| LaunchError::File { name, source })?;
        let name = file.name.clone();
        let copied = move || {
            let copied = fs::copy(cached.path(), &target)
                .and_then(|_| fs::set_permissions(&target, fs::Permissions::from_mode(0o700)));
            copied.map_err(|source| LaunchError::CopyFile { name, source })
        };
        self.blocking(copied).await
    }

    /// Lets workers with executors of the same application have what this order needs.
    pub(super) fn share(&self, order: &Order) {
        let (Some((app, _)), told) = (order.peers(), order.command()) else { return };
        let Some(served) = &told.served else { return };
        self.cache
            .share(app, told.hash.into_iter().chain(served.files.iter().map(|file| file.hash)));
        let secret = told.environment.get(SECRET_VARIABLE);
        let secret = secret.and_then(|text| Secret::new(text, "of an application").ok());
        let identity = secret.and_then(|secret| Identity::new(app, secret).ok());
        if let (Some(keyring), Some(identity)) = (&self.keyring, identity) {
            keyring.insert(identity);
        }
    }

    /// Takes the application's files from what is served.
    pub(super) fn unshare(&self, app: &str) {
        self.cache.unshare(app);
        self.keyring.iter().for_each(|keyring| keyring.remove(app));
    }

    /// On a thread that may block. The worker waits for it before it ends.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, LaunchError> + Send + 'static,
    ) -> Result<T, LaunchError> {
        self.tasks.spawn_blocking(work).await.map_err(|_| LaunchError::Ending)?
    }
}
