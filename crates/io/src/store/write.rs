//! Writing objects: uploads that stay out of sight until the job is committed.
//!
//! ```text
//!   DIRECTORY/part-00000                        an upload in parts, completed when the job commits
//!   DIRECTORY/_temporary/JOB/NAME.attempt-N     the upload's id, to abort it by
//!   DIRECTORY/_temporary/_commit                who commits; made only if it is not there
//!   DIRECTORY/_SUCCESS                          written last
//! ```
//!
//! Atomic are: each file, and which of several jobs commits. Not atomic is the directory: while a job
//! commits, some of its files are there and others are not; who must not see that waits for `_SUCCESS`.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::Arc;

use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutPayload};

use super::read::list;
use super::{Address, Scheme, explain, object_path, wait};
use crate::fault::Fault;
use crate::{StoreOptions, Target, Written, WrittenAt};

/// Stores want parts of 5 MiB or more, and all but the last alike; 10,000 of them are 80 GB.
const PART_BYTES: usize = 8 << 20;

/// What is written by one attempt.
pub(crate) struct Upload {
    store: Arc<dyn MultipartStore>,
    objects: Arc<dyn ObjectStore>,
    scheme: Scheme,
    url: String,
    path: Path,
    marker: Path,
    id: String,
    parts: Vec<String>,
    buffer: Vec<u8>,
    bytes: u64,
    finished: bool,
}

impl Upload {
    pub(crate) fn start(
        directory: &str,
        options: &Arc<StoreOptions>,
        job: &str,
        name: &str,
        attempt: u64,
    ) -> io::Result<Self> {
        let address = Address::of(directory, options)?;
        let store = uploads(&address)?;
        let objects = address.store.objects.clone();
        let scheme = address.store.scheme;
        let path = object_path(&join(&address.key, name));
        let marker = format!("_temporary/{job}/{name}.attempt-{attempt}");
        let marker = object_path(&join(&address.key, &marker));
        let url = address.url_of(&path);
        let id = {
            let (store, path, marker, objects) =
                (store.clone(), path.clone(), marker.clone(), objects.clone());
            wait(async move {
                let id = store.create_multipart(&path).await?;
                let named = PutPayload::from(format!("{path}\n{id}"));
                if let Err(error) = objects.put(&marker, named).await {
                    let _ = store.abort_multipart(&path, &id).await;
                    return Err(error);
                }
                Ok(id)
            })?
        };
        let id = id.map_err(|error| explain(scheme, &url, error))?;
        Ok(Upload {
            store,
            objects,
            scheme,
            url,
            path,
            marker,
            id,
            parts: Vec::new(),
            buffer: Vec::new(),
            bytes: 0,
            finished: false,
        })
    }

    fn send_part(&mut self) -> io::Result<()> {
        let data = PutPayload::from(std::mem::take(&mut self.buffer));
        let (store, path, id) = (self.store.clone(), self.path.clone(), self.id.clone());
        let index = self.parts.len();
        self.bytes += data.content_length() as u64;
        let part = wait(async move { store.put_part(&path, &id, index, data).await })?;
        let part = part.map_err(|error| explain(self.scheme, &self.url, error))?;
        self.parts.push(part.content_id);
        Ok(())
    }

    /// Sends what is left; the upload waits for the commit then. An empty file has one empty part.
    pub(crate) fn finish(mut self) -> io::Result<(u64, WrittenAt)> {
        if !self.buffer.is_empty() || self.parts.is_empty() {
            self.send_part()?;
        }
        self.finished = true;
        let parts = std::mem::take(&mut self.parts);
        Ok((self.bytes, WrittenAt::Remote { upload: self.id.clone(), parts }))
    }
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(PART_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..taken]);
        if self.buffer.len() == PART_BYTES {
            self.send_part()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An attempt that failed gives its upload up, as far as it can; what it cannot, the job's end does.
impl Drop for Upload {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let (store, path, id) = (self.store.clone(), self.path.clone(), self.id.clone());
        let (objects, marker) = (self.objects.clone(), self.marker.clone());
        let _ = wait(async move {
            if store.abort_multipart(&path, &id).await.is_ok() {
                let _ = objects.delete(&marker).await;
            }
        });
    }
}

/// Why output could not be committed.
#[derive(Debug)]
pub enum CommitError {
    /// The directory has something in it already.
    Exists,
    /// Another job is committing to it, or died while it did; the object stands for it.
    Locked(String),
    /// The store refused or failed.
    Io(io::Error),
}

impl From<io::Error> for CommitError {
    fn from(error: io::Error) -> Self {
        CommitError::Io(error)
    }
}

/// The directory that one job writes.
pub struct RemoteOutput {
    address: Address,
    url: String,
    options: Arc<StoreOptions>,
    job: String,
    replace: bool,
}

impl RemoteOutput {
    /// Prepares to write the directory `url`; refuses one that has something in it, unless it shall be
    /// replaced. `job` tells apart the jobs that write there.
    pub fn create(
        url: &str,
        options: &Arc<StoreOptions>,
        job: &str,
        replace: bool,
    ) -> Result<Self, CommitError> {
        let address = Address::of(url, options)?;
        uploads(&address)?;
        if address.key.is_empty() {
            let reason = format!("{url} is a whole bucket; name a directory in it");
            return Err(Fault::refused(reason).into());
        }
        let (url, options, job) = (url.to_owned(), options.clone(), job.to_owned());
        let output = RemoteOutput { address, url, options, job, replace };
        if !replace && !output.visible()?.is_empty() {
            return Err(CommitError::Exists);
        }
        Ok(output)
    }

    /// Where attempts write.
    pub fn target(&self) -> Target {
        Target::Remote {
            url: self.url.clone(),
            options: self.options.clone(),
            job: self.job.clone(),
        }
    }

    /// Makes exactly these files visible, and `_SUCCESS` at the end.
    pub fn commit(self, files: Vec<Written>) -> Result<(), CommitError> {
        let lock = self.path("_temporary/_commit");
        self.lock(&lock)?;
        let committed = self.commit_locked(files);
        let objects = self.address.store.objects.clone();
        let _ = wait(async move { objects.delete(&lock).await });
        committed
    }

    fn commit_locked(&self, files: Vec<Written>) -> Result<(), CommitError> {
        let before = self.visible()?;
        if !self.replace && !before.is_empty() {
            return Err(CommitError::Exists);
        }
        let names: BTreeSet<Path> = files.iter().map(|file| self.path(&file.name)).collect();
        let success = self.path("_SUCCESS");
        // While it is replaced, it is not complete.
        self.delete(before.iter().filter(|path| **path == success).cloned().collect())?;
        files.into_iter().try_for_each(|file| self.complete(file))?;
        self.delete(before.into_iter().filter(|path| !names.contains(path)).collect())?;
        let objects = self.address.store.objects.clone();
        self.explained(wait(async move { objects.put(&success, PutPayload::new()).await })?)?;
        Ok(())
    }

    fn lock(&self, lock: &Path) -> Result<(), CommitError> {
        let (objects, path) = (self.address.store.objects.clone(), lock.clone());
        let owner = PutPayload::from(self.job.clone());
        let made =
            wait(async move { objects.put_opts(&path, owner, PutMode::Create.into()).await })?;
        match made {
            Err(object_store::Error::AlreadyExists { .. }) => {
                Err(CommitError::Locked(self.address.url_of(lock)))
            }
            made => self.explained(made).map(drop).map_err(CommitError::Io),
        }
    }

    fn complete(&self, file: Written) -> io::Result<()> {
        let WrittenAt::Remote { upload, parts } = file.at else { return Ok(()) };
        let parts = parts.into_iter().map(|content_id| PartId { content_id }).collect();
        let (store, path) = (uploads(&self.address)?, self.path(&file.name));
        let done = wait(async move { store.complete_multipart(&path, &upload, parts).await })?;
        self.explained(done).map(drop)
    }

    /// What is in the directory, but for what is not committed.
    fn visible(&self) -> io::Result<Vec<Path>> {
        let temporary = self.path("_temporary");
        let listed = self.listed(self.address.path())?;
        Ok(listed.into_iter().filter(|path| !path.prefix_matches(&temporary)).collect())
    }

    fn listed(&self, prefix: Path) -> io::Result<Vec<Path>> {
        let objects = self.address.store.objects.clone();
        let listed = self.explained(wait(async move { list(objects, Some(prefix)).await })?)?;
        Ok(listed.into_iter().map(|meta| meta.location).collect())
    }

    fn delete(&self, paths: Vec<Path>) -> io::Result<()> {
        for path in paths {
            let objects = self.address.store.objects.clone();
            self.explained(wait(async move { objects.delete(&path).await })?)?;
        }
        Ok(())
    }

    fn path(&self, name: &str) -> Path {
        object_path(&join(&self.address.key, name))
    }

    fn explained<T>(&self, result: object_store::Result<T>) -> io::Result<T> {
        result.map_err(|error| explain(self.address.store.scheme, &self.url, error))
    }

    /// Aborts uploads of attempts that nobody committed, as far as the store allows. Uploads that are complete have no
    /// id any more.
    fn abort_uploads(&self) -> io::Result<()> {
        let prefix = self.path(&format!("_temporary/{}", self.job));
        let uploads = uploads(&self.address)?;
        let mut done = Ok(());
        for marker in self.listed(prefix)? {
            let (objects, uploads) = (self.address.store.objects.clone(), uploads.clone());
            let aborted = wait(async move {
                let named = objects.get(&marker).await?.bytes().await?;
                let named = String::from_utf8_lossy(&named).into_owned();
                if let Some((path, id)) = named.split_once('\n') {
                    // It may be completed, or its attempt has aborted it.
                    let _ = uploads.abort_multipart(&object_path(path), &id.to_owned()).await;
                }
                objects.delete(&marker).await
            })?;
            match aborted {
                // Its attempt has removed it meanwhile.
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => done = done.and(self.explained(Err(error))),
            }
        }
        done
    }
}

/// Removes everything below `url`.
pub(crate) fn remove_directory(url: &str, options: &Arc<StoreOptions>) -> io::Result<()> {
    let output =
        RemoteOutput::create(url, options, "remove", true).map_err(|error| match error {
            CommitError::Io(error) => error,
            CommitError::Exists | CommitError::Locked(_) => io::Error::other("it is being written"),
        })?;
    output.delete(output.listed(output.address.path())?)
}

impl Drop for RemoteOutput {
    fn drop(&mut self) {
        let _ = self.abort_uploads();
    }
}

fn uploads(address: &Address) -> io::Result<Arc<dyn MultipartStore>> {
    address.store.uploads.clone().ok_or_else(|| {
        Fault::refused("http(s) URLs can be read, not written; save to a path or an object store")
    })
}

fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}
