//! Downloads of a worker: one task for each file, on behalf of the cache and not of the executor that wanted it first. An executor that
//! wants the same file joins it. Whom to ask and when to give up is decided by [`Download`].

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use firesteel_backend::provider::Preparing;
use firesteel_backend::wire;
use firesteel_rpc::{
    Identity, IncomingStream, RpcAddress, RpcEnv, RpcOptions, Secret, StreamError,
};
use firesteel_standalone_core::worker::{
    Download, DownloadOptions, GivenUp, NextRead, ReadEnd, SourceKind,
};
use firesteel_types::Tick;
use tokio::io::AsyncReadExt;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

use super::cache::{Cache, FetchError, Hash};
use crate::partial::Partial;

/// How many bytes are written at once.
const PIECE: usize = 1 << 20;
/// How long a piece may take to become so large.
const PIECE_TIME: Duration = Duration::from_millis(250);

/// Who may serve a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) kind: SourceKind,
    pub(super) address: RpcAddress,
    /// As whom to ask: what a driver expects of its processes, a worker of an application.
    pub(super) identity: String,
    /// The application's secret, if it has one.
    pub(super) secret: Option<String>,
}

impl Source {
    fn options(&self, rpc: &RpcOptions) -> Result<RpcOptions, FetchError> {
        let secret = self.secret.as_ref().map(|text| Secret::new(text, "of an application"));
        let identity = secret.transpose().and_then(|secret| {
            secret.map(|secret| Identity::new(&self.identity, secret)).transpose()
        });
        Ok(rpc.for_identity(identity.map_err(FetchError::Secret)?))
    }
}

/// How far a download is.
#[derive(Clone, Debug, Default)]
pub(super) struct Status {
    pub(super) preparing: Preparing,
    pub(super) result: Option<Result<(), Arc<FetchError>>>,
}

/// A download that is under way.
#[derive(Debug)]
pub(super) struct Fetch {
    pub(super) hash: Hash,
    pub(super) bytes: u64,
    state: Mutex<State>,
    status: watch::Sender<Status>,
    more_sources: Notify,
    clock: firesteel_storage::Clock,
}

#[derive(Debug)]
struct State {
    core: Download,
    sources: Vec<Source>,
    /// Where its bytes are, while there are some to pass on.
    path: Option<std::path::PathBuf>,
    last_error: Option<FetchError>,
    /// Of which source that error is.
    last_failed: usize,
}

impl Fetch {
    pub(super) fn new(hash: Hash, bytes: u64, options: DownloadOptions) -> Self {
        let clock = firesteel_storage::Clock::new();
        let core = Download::new(options, clock.now(), 0, bytes);
        let state =
            State { core, sources: Vec::new(), path: None, last_error: None, last_failed: 0 };
        let (state, status) = (Mutex::new(state), watch::Sender::default());
        Self { hash, bytes, state, status, more_sources: Notify::new(), clock }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while it is locked")
    }

    fn now(&self) -> Tick {
        self.clock.now()
    }

    /// One more wants it, and knows of these sources.
    pub(super) fn want(self: &Arc<Self>, sources: &[Source]) -> Waiter {
        let mut state = self.lock();
        state.core.want();
        for source in sources {
            match state.sources.iter().position(|known| known == source) {
                Some(known) => state.core.renew(known),
                None => {
                    state.core.add(source.kind);
                    state.sources.push(source.clone());
                }
            }
        }
        self.more_sources.notify_one();
        Waiter { fetch: self.clone() }
    }

    /// Its path and how many bytes of it others may have.
    pub(super) fn so_far(&self) -> Option<(std::path::PathBuf, u64)> {
        let state = self.lock();
        let path = state.path.clone().filter(|_| state.core.may_be_served())?;
        Some((path, state.core.position()))
    }

    /// Tells those who wait.
    pub(super) fn finish(&self, result: Result<(), Arc<FetchError>>) {
        self.status.send_modify(|status| status.result = Some(result));
    }

    fn publish(&self, preparing: Preparing) {
        self.status.send_modify(|status| status.preparing = preparing);
    }

    /// Reads the whole file into `partial`, from all that serve it.
    pub(super) async fn run(
        &self,
        cache: &Cache,
        mut partial: Partial,
    ) -> Result<Partial, (FetchError, Option<Partial>)> {
        {
            let mut state = self.lock();
            state.core.resume(partial.length);
            state.path = Some(partial.path.clone());
        }
        // One for each source, with its connection.
        let mut envs = BTreeMap::new();
        loop {
            if self.lock().core.is_complete() {
                match self.checked(cache, partial).await {
                    Ok(Ok(whole)) => return Ok(whole),
                    Ok(Err(bad)) => partial = bad,
                    Err(error) => return Err((error, None)),
                }
            }
            let next = self.lock().core.next(self.now());
            match next {
                NextRead::Ask(source) => {
                    match self.read_from(cache, &mut envs, source, partial).await {
                        Ok(more) => partial = more,
                        Err(error) => return Err((error, None)),
                    }
                }
                NextRead::WaitUntil(at) => {
                    tokio::select! {
                        () = tokio::time::sleep(self.clock.until(at)) => {}
                        () = self.more_sources.notified() => {}
                    }
                }
                NextRead::GiveUp(why) => return Err((self.why(why), Some(partial))),
            }
            let preparing = self.lock().core.preparing();
            self.publish(preparing);
        }
    }

    fn why(&self, why: GivenUp) -> FetchError {
        let last = self.lock().last_error.take();
        match (why, last) {
            (GivenUp::NoSource, Some(error)) => error,
            (GivenUp::NoSource, None) => FetchError::Ending,
            (GivenUp::Waited, _) => FetchError::Waited,
            (GivenUp::Unwanted, _) => FetchError::Unwanted,
        }
    }

    /// The whole file if it has its hash; otherwise nothing of it, to begin anew.
    async fn checked(
        &self,
        cache: &Cache,
        partial: Partial,
    ) -> Result<Result<Partial, Partial>, FetchError> {
        let hashed = move || match partial.hash() {
            Ok(found) => Ok((found, partial)),
            Err(source) => Err(write_error(&partial, source)),
        };
        let (found, mut partial) = cache.blocking(hashed).await?;
        let expected = blake3::Hash::from_bytes(self.hash);
        if found == expected {
            return Ok(Ok(partial));
        }
        partial.clear().map_err(|source| write_error(&partial, source))?;
        let mut state = self.lock();
        let from = state.core.contributors().map(|at| state.sources[at].address.to_string());
        let from = from.collect::<Vec<_>>().join(" and ");
        state.core.mismatched();
        state.last_error = Some(FetchError::OtherBytes { from, found, expected });
        Ok(Err(partial))
    }

    /// Reads what a source has. An error here is one of this side, which no other source can help.
    async fn read_from(
        &self,
        cache: &Cache,
        envs: &mut BTreeMap<usize, RpcEnv>,
        at: usize,
        partial: Partial,
    ) -> Result<Partial, FetchError> {
        let source = self.lock().sources[at].clone();
        let env = match envs.entry(at) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(new) => new.insert(RpcEnv::client(source.options(cache.rpc())?)),
        };
        let (partial, end) = self.read_over(cache, env, (at, &source), partial).await?;
        let end = match end {
            Ok(end) => end,
            Err(error) => {
                let (end, mut state) = (judge(&error), self.lock());
                // What the driver says tells more than that a worker has nothing; that a master is away more than that another one
                // has nothing: it may come back.
                let is_away = state.last_error.as_ref().is_some_and(FetchError::may_pass);
                let tells_less = is_away && !error.may_pass() && state.last_failed != at;
                let is_drivers = source.kind == SourceKind::Driver && !tells_less;
                if is_drivers || state.last_error.is_none() {
                    (state.last_error, state.last_failed) = (Some(error), at);
                }
                end
            }
        };
        self.lock().core.ended(self.now(), at, end);
        Ok(partial)
    }

    async fn read_over(
        &self,
        cache: &Cache,
        env: &RpcEnv,
        (at, source): (usize, &Source),
        mut partial: Partial,
    ) -> Result<(Partial, Result<ReadEnd, FetchError>), FetchError> {
        let from = self.lock().core.reads_from(at);
        if from < partial.length {
            partial.clear().map_err(|source| write_error(&partial, source))?;
        }
        let name = wire::content_from(&self.hash, from);
        let slow = self.lock().core.is_slow(self.now());
        let opened = tokio::select! {
            opened = env.streams().open(&source.address, &name, self.bytes - from) => opened,
            () = tokio::time::sleep(slow.map_or_else(|at| self.clock.until(at), |()| Duration::ZERO)) => {
                return Ok((partial, Err(self.too_slow(source))));
            }
        };
        let mut stream = match opened {
            Ok(stream) => stream,
            Err(error) => return Ok((partial, Err(error.into()))),
        };
        let (found, expected) = (from + stream.length(), self.bytes);
        if source.kind == SourceKind::Driver && found != expected {
            let address = source.address.clone();
            return Ok((partial, Err(FetchError::OtherLength { address, found, expected })));
        }
        loop {
            let slow = self.lock().core.is_slow(self.now());
            let Err(slow_at) = slow else {
                return Ok((partial, Err(self.too_slow(source))));
            };
            let mut piece = Vec::new();
            let read = tokio::select! {
                read = read_piece(&mut stream, &name, &mut piece) => Some(read),
                () = tokio::time::sleep(self.clock.until(slow_at)) => None,
            };
            match read {
                _ if !piece.is_empty() => partial = self.write(cache, partial, at, piece).await?,
                Some(Ok(())) => return Ok((partial, Ok(ReadEnd::Read))),
                Some(Err(error)) => return Ok((partial, Err(error.into()))),
                None => {}
            }
        }
    }

    fn too_slow(&self, source: &Source) -> FetchError {
        let DownloadOptions { min_bytes, window_ms, .. } = self.lock().core.options();
        let address = source.address.clone();
        FetchError::Slow { address, min_bytes, seconds: window_ms / 1000 }
    }

    async fn write(
        &self,
        cache: &Cache,
        mut partial: Partial,
        source: usize,
        piece: Vec<u8>,
    ) -> Result<Partial, FetchError> {
        let bytes = piece.len() as u64;
        let append = move || match partial.append(&piece) {
            Ok(()) => Ok(partial),
            Err(source) => Err(write_error(&partial, source)),
        };
        let partial = cache.blocking(append).await?;
        let preparing = {
            let mut state = self.lock();
            state.core.arrived(self.now(), source, bytes);
            state.core.preparing()
        };
        self.publish(preparing);
        Ok(partial)
    }
}

fn write_error(partial: &Partial, source: std::io::Error) -> FetchError {
    FetchError::Write { path: partial.path.clone(), source }
}

/// What an error says about its source.
fn judge(error: &FetchError) -> ReadEnd {
    match error {
        FetchError::Slow { .. } => ReadEnd::Slow,
        FetchError::Stream(StreamError::Busy { .. }) => ReadEnd::Busy,
        FetchError::Stream(error) if error.may_pass() => ReadEnd::Broken,
        _ => ReadEnd::Refused,
    }
}

/// What comes next: not much later than its first byte.
async fn read_piece(
    stream: &mut IncomingStream,
    name: &str,
    piece: &mut Vec<u8>,
) -> Result<(), StreamError> {
    let mut until = None;
    while piece.len() < PIECE {
        let reading = stream.read_buf(piece);
        let read = match until {
            None => reading.await,
            Some(until) => match timeout_at(until, reading).await {
                Ok(read) => read,
                Err(_) => break,
            },
        };
        match read.map_err(|error| error.downcast::<StreamError>()) {
            Ok(0) => break,
            Ok(_) => until = until.or(Some(Instant::now() + PIECE_TIME)),
            // What came before it counts.
            Err(_) if !piece.is_empty() => break,
            Err(Ok(error)) => return Err(error),
            Err(Err(source)) => return Err(StreamError::Write { id: name.to_owned(), source }),
        }
    }
    Ok(())
}

/// One who waits for a download. It goes on without.
pub(super) struct Waiter {
    fetch: Arc<Fetch>,
}

impl Waiter {
    /// Until it has ended; `progress` hears how far it is.
    pub(super) async fn wait(self, progress: impl Fn(Preparing)) -> Result<(), Arc<FetchError>> {
        let mut status = self.fetch.status.subscribe();
        loop {
            let Status { preparing, result } = status.borrow_and_update().clone();
            progress(preparing);
            if let Some(result) = result {
                return result;
            }
            if status.changed().await.is_err() {
                return Err(Arc::new(FetchError::Ending));
            }
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.fetch.lock().core.unwant(self.fetch.now());
    }
}
