//! A directory of a store: what is in it, and requests about many objects of it at a time.

use std::future::Future;
use std::io;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::{self, FuturesUnordered};
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};

use super::read::{list, list_while};
use super::{Address, explain, object_path, wait};
use crate::StoreOptions;
use crate::fault::Fault;

/// So many requests are under way at a time, each with a connection.
const REQUESTS_AT_A_TIME: usize = 64;

/// A directory that can be written.
pub(super) struct Directory {
    address: Address,
    uploads: Arc<dyn MultipartStore>,
    /// As the user spelled it.
    url: String,
}

impl Directory {
    pub(super) fn of(url: &str, options: &Arc<StoreOptions>) -> io::Result<Self> {
        let address = Address::of(url, options)?;
        let uploads = address.store.uploads.clone().ok_or_else(|| {
            let instead = "save to a path or an object store";
            Fault::refused(format!("http(s) URLs can be read, not written; {instead}"))
        })?;
        Ok(Directory { address, uploads, url: url.to_owned() })
    }

    /// `out`, in a store of its own.
    #[cfg(test)]
    pub(super) fn in_memory() -> Self {
        let store = Arc::new(object_store::memory::InMemory::new());
        let scheme = super::Scheme::S3;
        let store = super::Store { objects: store, uploads: None, scheme };
        let address = Address { store, base: "memory://".to_owned(), key: "out".to_owned() };
        let uploads = Arc::new(object_store::memory::InMemory::new());
        Directory { address, uploads, url: "memory:///out".to_owned() }
    }

    pub(super) fn is_whole_bucket(&self) -> bool {
        self.address.key.is_empty()
    }

    pub(super) fn objects(&self) -> Arc<dyn ObjectStore> {
        self.address.store.objects.clone()
    }

    pub(super) fn uploads(&self) -> Arc<dyn MultipartStore> {
        self.uploads.clone()
    }

    /// As the user spelled it.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn url_of(&self, path: &Path) -> String {
        self.address.url_of(path)
    }

    /// What is called `name` in it.
    pub(super) fn path(&self, name: &str) -> Path {
        match self.address.key.as_str() {
            "" => object_path(name),
            key => object_path(&format!("{key}/{name}")),
        }
    }

    pub(super) fn root(&self) -> Path {
        self.address.path()
    }

    /// Everything in it, however deep.
    pub(super) fn list(&self) -> io::Result<Vec<ObjectMeta>> {
        self.list_at(self.address.path())
    }

    /// Everything below what is called `name` in it.
    pub(super) fn list_below(&self, name: &str) -> io::Result<Vec<ObjectMeta>> {
        self.list_at(self.path(name))
    }

    /// What is directly in it, and everything in its directories whose names begin with `prefix`. Of what else there is, so many objects
    /// are passed over; behind more of them, each of those directories is listed by itself.
    pub(super) fn list_chosen(
        &self,
        prefix: &str,
        most_others: usize,
    ) -> io::Result<Vec<ObjectMeta>> {
        let (objects, root, prefix) = (self.objects(), self.root(), prefix.to_owned());
        self.run(async move {
            let (mut found, mut others) = (Vec::new(), 0);
            let is_chosen = |path: &Path| {
                let below = path.prefix_match(&root).into_iter().flatten();
                let parts: Vec<_> = below.take(2).collect();
                parts.len() < 2 || parts[0].as_ref().starts_with(&prefix)
            };
            let take = |meta: ObjectMeta| {
                match is_chosen(&meta.location) {
                    true => found.push(meta),
                    false => others += 1,
                }
                others <= most_others
            };
            if list_while(&objects, Some(&root), take).await? {
                return Ok(found);
            }
            let level = objects.list_with_delimiter(Some(&root)).await?;
            let wanted = level.common_prefixes.into_iter().filter(|path| {
                path.parts().next_back().is_some_and(|name| name.as_ref().starts_with(&prefix))
            });
            let lists: Vec<_> = wanted.map(|path| list(objects.clone(), Some(path))).collect();
            let mut lists = stream::iter(lists).buffer_unordered(REQUESTS_AT_A_TIME);
            let mut found = level.objects;
            while let Some(list) = lists.next().await {
                found.extend(list?);
            }
            Ok(found)
        })
    }

    fn list_at(&self, prefix: Path) -> io::Result<Vec<ObjectMeta>> {
        let objects = self.objects();
        self.run(async move { list(objects, Some(prefix)).await })
    }

    /// Removes these objects, as many at a time as the store takes; those that are gone already do no harm.
    pub(super) fn delete(&self, paths: Vec<Path>) -> io::Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        let objects = self.objects();
        self.run(async move {
            let mut deleted = objects.delete_stream(stream::iter(paths).map(Ok).boxed());
            let mut outcome = Ok(());
            while let Some(one) = deleted.next().await {
                outcome = outcome.and(or_gone(one.map(drop)));
            }
            outcome
        })
    }

    /// Waits for a request.
    pub(super) fn run<T: Send + 'static>(
        &self,
        request: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> io::Result<T> {
        wait(request)?.map_err(|error| explain(self.address.store.scheme, &self.url, error))
    }

    /// Makes a request for each item, many at a time. Once one has failed no further one begins, and those under way
    /// are waited for: what has reached the store cannot be called back.
    pub(super) fn for_each<I, F>(
        &self,
        items: Vec<I>,
        request: impl Fn(I) -> F + Send + 'static,
    ) -> io::Result<()>
    where
        I: Send + 'static,
        F: Future<Output = object_store::Result<()>> + Send + 'static,
    {
        self.run(async move {
            let (mut items, mut outcome) = (items.into_iter(), Ok(()));
            let mut under_way = FuturesUnordered::new();
            loop {
                while outcome.is_ok() && under_way.len() < REQUESTS_AT_A_TIME {
                    let Some(item) = items.next() else { break };
                    under_way.push(request(item));
                }
                match under_way.next().await {
                    Some(done) => outcome = outcome.and(done),
                    None => return outcome,
                }
            }
        })
    }
}

/// That an object is not there is no failure for who wants it gone.
pub(super) fn or_gone(result: object_store::Result<()>) -> object_store::Result<()> {
    match result {
        Err(object_store::Error::NotFound { .. }) => Ok(()),
        other => other,
    }
}
