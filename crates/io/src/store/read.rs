//! Reading objects and finding them.

use std::io::{self, Read};
use std::sync::Arc;

use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt};
use tokio::sync::mpsc;

use super::{Address, explain, park_until, spawn, wait};
use crate::find::is_hidden;
use crate::{FileRef, Location, StoreOptions};

/// Pieces that wait for the reader: what is prefetched, a few hundred kilobytes.
const PIECES_PREFETCHED: usize = 32;
/// Behind the expected end, as much is asked for at once: mostly the rest of a line.
const TAIL_BYTES: u64 = 1 << 20;

/// An object's bytes from an offset on, streamed.
pub(crate) struct Reader {
    address: Address,
    url: String,
    /// Next byte to be asked for.
    next: u64,
    expected_end: u64,
    /// Length of the object, once the store said it.
    len: Option<u64>,
    pieces: Option<mpsc::Receiver<object_store::Result<bytes::Bytes>>>,
    piece: bytes::Bytes,
}

impl Reader {
    pub(crate) fn open(
        url: &str,
        options: &Arc<StoreOptions>,
        start: u64,
        expected_end: u64,
    ) -> io::Result<Self> {
        let address = Address::of(url, options)?;
        let url = url.to_owned();
        let piece = bytes::Bytes::new();
        let mut reader =
            Reader { address, url, next: start, expected_end, len: None, pieces: None, piece };
        reader.ask()?;
        Ok(reader)
    }

    /// Asks for what comes next: up to the expected end, or a little behind it.
    fn ask(&mut self) -> io::Result<()> {
        let end = match self.next < self.expected_end {
            true => self.expected_end,
            false => self.next.saturating_add(TAIL_BYTES),
        };
        let range = match end {
            u64::MAX if self.next == 0 => None,
            u64::MAX => Some(GetRange::Offset(self.next)),
            end => Some(GetRange::Bounded(self.next..end)),
        };
        let (store, path) = (self.address.store.objects.clone(), self.address.path());
        let options = GetOptions { range, ..GetOptions::default() };
        let found = wait(async move { store.get_opts(&path, options).await })?;
        let found = found.map_err(|error| explain(self.address.store.scheme, &self.url, error))?;
        self.len = Some(found.meta.size);
        let (send, receive) = mpsc::channel(PIECES_PREFETCHED);
        let mut stream = found.into_stream();
        spawn(async move {
            // Ends when the object does, or when nobody listens any more.
            while let Some(piece) = stream.next().await {
                if send.send(piece).await.is_err() {
                    break;
                }
            }
        })?;
        self.pieces = Some(receive);
        Ok(())
    }

    fn is_at_end(&self) -> bool {
        self.len.is_some_and(|len| self.next >= len)
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            let Some(pieces) = &mut self.pieces else {
                if self.is_at_end() {
                    return Ok(0);
                }
                self.ask()?;
                continue;
            };
            match park_until(pieces.recv()) {
                None => self.pieces = None,
                Some(Ok(piece)) => {
                    self.next += piece.len() as u64;
                    self.piece = piece;
                }
                Some(Err(error)) => {
                    return Err(explain(self.address.store.scheme, &self.url, error));
                }
            }
        }
        let read = buffer.len().min(self.piece.len());
        buffer[..read].copy_from_slice(&self.piece.split_to(read));
        Ok(read)
    }
}

/// The objects that a URL names: one, those right below it, or those that a pattern matches.
pub(crate) fn find(url: &str, options: &Arc<StoreOptions>) -> io::Result<Vec<FileRef>> {
    let address = Address::of(url, options)?;
    let found = match address.key.find(['*', '?', '[']) {
        Some(at) => matching(&address, at)?,
        None => below(&address, url)?,
    };
    let file = |meta: ObjectMeta| {
        let url = address.url_of(&meta.location);
        FileRef { location: Location::Remote { url, options: options.clone() }, len: meta.size }
    };
    let mut files: Vec<FileRef> = found.into_iter().map(file).collect();
    files.sort_by_cached_key(|file| file.location.to_string());
    Ok(files)
}

fn below(address: &Address, url: &str) -> io::Result<Vec<ObjectMeta>> {
    let (store, path) = (address.store.clone(), address.path());
    let scheme = store.scheme;
    let failed = |error| explain(scheme, url, error);
    if !address.key.is_empty() && !url.ends_with('/') {
        let (objects, path) = (store.objects.clone(), path.clone());
        match wait(async move { objects.head(&path).await })? {
            Ok(meta) => return Ok(vec![meta]),
            // Web servers have no directories that could be listed.
            Err(object_store::Error::NotFound { .. }) if store.uploads.is_none() => {
                return Ok(Vec::new());
            }
            Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    let prefix = (!address.key.is_empty()).then_some(path);
    let objects = store.objects.clone();
    let listed = wait(async move {
        match objects.list_with_delimiter(prefix.as_ref()).await {
            Ok(listed) => Ok(listed),
            Err(error) => Err(classified(&objects, error).await),
        }
    })?;
    let listed = listed.map_err(failed)?;
    if let Some(inside) = listed.common_prefixes.iter().find(|path| !is_hidden_path(path)) {
        return Err(io::Error::new(
            io::ErrorKind::IsADirectory,
            format!(
                "{} is a directory inside of it; name it, or use a glob",
                address.url_of(inside)
            ),
        ));
    }
    Ok(listed.objects.into_iter().filter(is_visible).collect())
}

/// What the pattern matches, and what is right below a directory that it matches.
fn matching(address: &Address, first_special: usize) -> io::Result<Vec<ObjectMeta>> {
    let url = address.url_of(&address.path());
    let pattern = glob::Pattern::new(&address.key)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
    let prefix = address.key[..first_special].rsplit_once('/').map(|(prefix, _)| prefix);
    let prefix = prefix.map(super::object_path);
    let objects = address.store.objects.clone();
    let listed = wait(async move { list(objects, prefix).await })?;
    let listed = listed.map_err(|error| explain(address.store.scheme, &url, error))?;
    let options = glob::MatchOptions {
        require_literal_separator: true,
        require_literal_leading_dot: true,
        case_sensitive: true,
    };
    let matches = |key: &str| {
        let parent = key.rsplit_once('/').map(|(parent, _)| parent);
        pattern.matches_with(key, options)
            || parent.is_some_and(|parent| pattern.matches_with(parent, options))
    };
    let wanted = |meta: &ObjectMeta| is_visible(meta) && matches(meta.location.as_ref());
    Ok(listed.into_iter().filter(wanted).collect())
}

pub(super) async fn list(
    store: Arc<dyn ObjectStore>,
    prefix: Option<Path>,
) -> object_store::Result<Vec<ObjectMeta>> {
    let mut found = Vec::new();
    list_while(&store, prefix.as_ref(), |meta| {
        found.push(meta);
        true
    })
    .await?;
    Ok(found)
}

/// Gives each to `take`, until that says `false`: whether it never did.
pub(super) async fn list_while(
    store: &Arc<dyn ObjectStore>,
    prefix: Option<&Path>,
    mut take: impl FnMut(ObjectMeta) -> bool,
) -> object_store::Result<bool> {
    let mut stream = store.list(prefix);
    while let Some(meta) = stream.next().await {
        match meta {
            Ok(meta) => {
                if !take(meta) {
                    return Ok(false);
                }
            }
            Err(error) => {
                drop(stream);
                return Err(classified(store, error).await);
            }
        }
    }
    Ok(true)
}

/// Why a listing failed. The client keeps the status of failed listings to itself; if asking for any object
/// is refused, that is the reason.
async fn classified(
    store: &Arc<dyn ObjectStore>,
    error: object_store::Error,
) -> object_store::Error {
    use object_store::Error::{Generic, PermissionDenied, Unauthenticated};
    if !matches!(error, Generic { .. }) {
        return error;
    }
    match store.head(&Path::from("_firesteel_may_read")).await {
        Err(refused @ (PermissionDenied { .. } | Unauthenticated { .. })) => refused,
        _ => error,
    }
}

/// Not a marker, and nothing that is not committed.
fn is_visible(meta: &ObjectMeta) -> bool {
    !is_hidden_path(&meta.location) && !meta.location.as_ref().contains("/_temporary/")
}

fn is_hidden_path(path: &Path) -> bool {
    is_hidden(std::path::Path::new(path.as_ref()))
}
