//! What saves left in a directory whose drivers were killed: the next save of the same directory removes it.
//!
//! ```text
//!   _temporary/JOB/...      open uploads, by their markers: aborted
//!   _temporary/_commit      the lock, if JOB was committing: taken over, then removed
//!   part-00000, ...         what JOB had completed by then, if the directory was empty before: deleted
//! ```

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutPayload, UpdateVersion};

use super::directory::{Directory, or_gone};
use super::lease::LEASE;
use super::upload::named_upload;

/// The content of the lock: who commits, and whether there was anything before.
pub(super) struct Lock {
    pub(super) job: String,
    pub(super) replaces: bool,
}

impl Lock {
    pub(super) fn payload(&self) -> PutPayload {
        let how = if self.replaces { "replaces" } else { "new" };
        PutPayload::from(format!("{}\n{how}", self.job))
    }

    pub(super) fn parse(content: &[u8]) -> Self {
        let text = String::from_utf8_lossy(content);
        let (job, how) = text.split_once('\n').unwrap_or((&text, ""));
        // When in doubt nothing is deleted that a reader may have seen.
        Lock { job: job.to_owned(), replaces: how != "new" }
    }
}

/// What is under `_temporary`, by job.
struct Saves {
    jobs: BTreeMap<String, Vec<ObjectMeta>>,
    /// The lock's object, and what it says.
    lock: Option<(ObjectMeta, Lock)>,
}

/// Removes what killed saves left of `listed`, on behalf of `job`, whose own lease is `present`.
pub(super) fn clear_killed_saves(
    directory: &Directory,
    listed: &[ObjectMeta],
    job: &str,
    present: &ObjectMeta,
) -> io::Result<()> {
    let mut saves = Saves::find(directory, listed)?;
    let dead = saves.take_dead(job, present);
    let stale = saves.take_stale_lock(present);
    if dead.is_empty() && stale.is_none() {
        return Ok(());
    }
    let jobs = dead.keys().cloned().collect::<Vec<_>>().join(" ");
    tracing::info!(url = directory.url(), jobs, "removing what killed saves left");
    let taken = match &stale {
        Some((lock, content)) => take_over(directory, lock, job, content)?,
        None => false,
    };
    // Without the lock, a job that is committing stays as it is for the one that took it over.
    let whose = |name: &String| stale.as_ref().is_some_and(|(_, lock)| lock.job == *name);
    let left = dead.into_iter().filter(|(name, _)| taken || !whose(name));
    let markers: Vec<Path> =
        left.flat_map(|(_, objects)| objects).map(|meta| meta.location).collect();
    let aborted = abort_uploads(directory, markers)?;
    let stale = stale.filter(|_| taken);
    if let Some((_, content)) = &stale {
        delete_half_commit(directory, listed, content.replaces, &aborted)?;
    }
    directory.delete(aborted.into_iter().map(|upload| upload.marker).collect())?;
    directory.delete(stale.into_iter().map(|(lock, _)| lock.location).collect())
}

impl Saves {
    fn find(directory: &Directory, listed: &[ObjectMeta]) -> io::Result<Self> {
        let temporary = directory.path("_temporary");
        let mut saves = Saves { jobs: BTreeMap::new(), lock: None };
        for meta in listed {
            let Some(mut below) = meta.location.prefix_match(&temporary) else { continue };
            match (below.next(), below.next()) {
                (Some(job), Some(_)) => {
                    let job = job.as_ref().to_owned();
                    saves.jobs.entry(job).or_default().push(meta.clone());
                }
                (Some(name), None) if name.as_ref() == "_commit" => {
                    saves.lock = read_lock(directory, meta)?;
                }
                _ => {}
            }
        }
        Ok(saves)
    }

    /// Jobs of which nothing was written for the time of a lease.
    fn take_dead(&mut self, own: &str, present: &ObjectMeta) -> BTreeMap<String, Vec<ObjectMeta>> {
        let is_dead = |job: &String, objects: &mut Vec<ObjectMeta>| {
            job != own && objects.iter().all(|meta| is_old(meta, present))
        };
        self.jobs.extract_if(.., is_dead).collect()
    }

    /// The lock, if the job that holds it is dead; those that live are still among the jobs.
    fn take_stale_lock(&mut self, present: &ObjectMeta) -> Option<(ObjectMeta, Lock)> {
        let jobs = &self.jobs;
        self.lock
            .take()
            .filter(|(meta, lock)| is_old(meta, present) && !jobs.contains_key(&lock.job))
    }
}

fn is_old(meta: &ObjectMeta, present: &ObjectMeta) -> bool {
    let age = present.last_modified.signed_duration_since(meta.last_modified);
    age.to_std().is_ok_and(|age| age > LEASE)
}

fn read_lock(directory: &Directory, meta: &ObjectMeta) -> io::Result<Option<(ObjectMeta, Lock)>> {
    let (objects, path, meta) = (directory.objects(), meta.location.clone(), meta.clone());
    let read = directory.run(async move {
        match objects.get(&path).await {
            Ok(found) => found.bytes().await.map(Some),
            // Its job has finished meanwhile.
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    })?;
    Ok(read.map(|content| (meta, Lock::parse(&content))))
}

/// Makes the lock this job's, unless another one was faster.
fn take_over(
    directory: &Directory,
    lock: &ObjectMeta,
    job: &str,
    content: &Lock,
) -> io::Result<bool> {
    let version = UpdateVersion { e_tag: lock.e_tag.clone(), version: lock.version.clone() };
    let content = Lock { job: job.to_owned(), replaces: content.replaces }.payload();
    let (objects, path) = (directory.objects(), lock.location.clone());
    let url = directory.url_of(&path);
    directory.run(async move {
        match objects.put_opts(&path, content, PutMode::Update(version).into()).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::Precondition { .. }) => Ok(false),
            Err(error @ object_store::Error::NotImplemented { .. }) => {
                tracing::warn!(lock = url, %error, "cannot take over the lock of a killed save");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    })
}

/// A marker that is not needed any more, and the file that its upload would have become.
pub(super) struct Aborted {
    pub(super) marker: Path,
    file: Option<Path>,
}

/// Aborts the uploads that these markers name, as far as the store allows: those that it does not allow keep their
/// markers.
pub(super) fn abort_uploads(directory: &Directory, markers: Vec<Path>) -> io::Result<Vec<Aborted>> {
    let aborted = Arc::new(Mutex::new(Vec::new()));
    let (objects, uploads, list) = (directory.objects(), directory.uploads(), aborted.clone());
    directory.for_each(markers, move |marker| {
        let (objects, uploads, list) = (objects.clone(), uploads.clone(), list.clone());
        async move {
            match abort(&objects, &uploads, &marker).await {
                Ok(file) => {
                    let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
                    list.push(Aborted { marker, file });
                }
                Err(error) => tracing::warn!(%marker, %error, "could not abort an upload"),
            }
            Ok(())
        }
    })?;
    Ok(std::mem::take(&mut *aborted.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// Aborts an upload that may be completed, or that its attempt may have aborted meanwhile.
async fn abort(
    objects: &Arc<dyn ObjectStore>,
    uploads: &Arc<dyn MultipartStore>,
    marker: &Path,
) -> object_store::Result<Option<Path>> {
    let content = match objects.get(marker).await {
        Ok(content) => content.bytes().await?,
        Err(error) => return or_gone(Err(error)).map(|()| None),
    };
    let Some((path, id)) = named_upload(&content) else { return Ok(None) };
    or_gone(uploads.abort_multipart(&path, &id).await)?;
    Ok(Some(path))
}

/// Deletes what a killed job had completed of a directory that was empty before.
fn delete_half_commit(
    directory: &Directory,
    listed: &[ObjectMeta],
    replaces: bool,
    aborted: &[Aborted],
) -> io::Result<()> {
    let success = directory.path("_SUCCESS");
    let is_complete = listed.iter().any(|meta| meta.location == success);
    if replaces || is_complete {
        return Ok(());
    }
    directory.delete(aborted.iter().filter_map(|upload| upload.file.clone()).collect())
}
