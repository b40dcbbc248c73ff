//! Making visible what attempts uploaded: all files of a job, under a lock, `_SUCCESS` at the end.
//!
//! ```text
//!   DIRECTORY/part-00000                        an upload in parts, completed when the job commits
//!   DIRECTORY/_temporary/JOB/NAME.attempt-N     the upload's id, to abort it by
//!   DIRECTORY/_temporary/JOB/_lease             renewed while the job's driver lives
//!   DIRECTORY/_temporary/_commit                who commits; made only if it is not there
//!   DIRECTORY/_SUCCESS                          written last
//! ```
//!
//! Atomic are: each file, and which of several jobs commits. Not atomic is the directory: while a job
//! commits, some of its files are there and others are not; who must not see that waits for `_SUCCESS`.
//! A commit that fails deletes what it had completed.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use object_store::multipart::PartId;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStoreExt, PutMode, PutPayload};

use super::directory::Directory;
use super::killed::{Lock, abort_uploads, clear_killed_saves};
use super::lease::{Lease, RENEWAL};
use super::object_path;
use crate::fault::Fault;
use crate::{StoreOptions, Target, Written, WrittenAt};

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
    directory: Arc<Directory>,
    options: Arc<StoreOptions>,
    job: String,
    replace: bool,
    progress: Arc<Progress>,
    lease: Lease,
}

/// How far a commit came.
#[derive(Default)]
struct Progress {
    /// Files that may be visible.
    begun: Mutex<Vec<Path>>,
    /// Markers of uploads that are files now: there is nothing to abort.
    completed: Mutex<BTreeSet<Path>>,
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
        let directory = Arc::new(Directory::of(url, options)?);
        if directory.is_whole_bucket() {
            let reason = format!("{url} is a whole bucket; name a directory in it");
            return Err(Fault::refused(reason).into());
        }
        let listed = directory.list()?;
        let visible = visible(&directory, &listed);
        let only_visible = visible.len() == listed.len();
        if !replace && only_visible && !visible.is_empty() {
            return Err(CommitError::Exists);
        }
        let lease = Lease::take(&directory, job, RENEWAL)?;
        let (job, options, progress) = (job.to_owned(), options.clone(), Arc::default());
        let output = RemoteOutput { directory, options, job, replace, progress, lease };
        if !only_visible {
            output.clear_killed_saves(&listed);
            output.refuse_visible()?;
        }
        Ok(output)
    }

    pub fn target(&self) -> Target {
        Target::Remote {
            url: self.directory.url().to_owned(),
            options: self.options.clone(),
            job: self.job.clone(),
        }
    }

    /// Makes exactly these files visible, and `_SUCCESS` at the end.
    pub fn commit(self, files: Vec<Written>) -> Result<(), CommitError> {
        let lock = self.directory.path("_temporary/_commit");
        self.lock(&lock)?;
        let committed = self.commit_locked(files);
        // Who has lost its lease has lost its lock, and cannot tell its files from those of others.
        if self.lease.check().is_ok() {
            self.unlock(lock, committed.is_ok());
        }
        committed
    }

    /// Removes the lock; of a commit that failed, what became visible before.
    fn unlock(&self, lock: Path, succeeded: bool) {
        let begun = std::mem::take(&mut *locked(&self.progress.begun));
        let begun = if succeeded { Vec::new() } else { begun };
        if let Err(error) =
            self.directory.delete(begun).and_then(|()| self.directory.delete(vec![lock]))
        {
            let url = self.directory.url();
            tracing::warn!(url, %error, "could not clean up after a commit; a later save does");
        }
    }

    fn commit_locked(&self, files: Vec<Written>) -> Result<(), CommitError> {
        let before = self.refuse_visible()?;
        let names: BTreeSet<Path> =
            files.iter().map(|file| self.directory.path(&file.name)).collect();
        let success = self.directory.path("_SUCCESS");
        // While it is replaced, it is not complete.
        self.directory.delete(before.iter().filter(|path| **path == success).cloned().collect())?;
        self.complete(files)?;
        self.lease.check()?;
        self.directory.delete(before.into_iter().filter(|path| !names.contains(path)).collect())?;
        locked(&self.progress.begun).push(success.clone());
        let objects = self.directory.objects();
        self.directory.run(async move { objects.put(&success, PutPayload::new()).await })?;
        Ok(())
    }

    /// Takes the lock, also from a job whose driver was killed.
    fn lock(&self, lock: &Path) -> Result<(), CommitError> {
        if self.try_lock(lock)? {
            return Ok(());
        }
        self.clear_killed_saves(&self.directory.list()?);
        match self.try_lock(lock)? {
            true => Ok(()),
            false => Err(CommitError::Locked(self.directory.url_of(lock))),
        }
    }

    fn try_lock(&self, lock: &Path) -> io::Result<bool> {
        let (objects, path) = (self.directory.objects(), lock.clone());
        let owner = Lock { job: self.job.clone(), replaces: self.replace }.payload();
        self.directory.run(async move {
            match objects.put_opts(&path, owner, PutMode::Create.into()).await {
                Ok(_) => Ok(true),
                Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    /// Turns uploads into files, many at a time.
    fn complete(&self, files: Vec<Written>) -> io::Result<()> {
        let (directory, progress) = (self.directory.clone(), self.progress.clone());
        self.directory.for_each(files, move |file| {
            let (path, store, progress) =
                (directory.path(&file.name), directory.uploads(), progress.clone());
            async move {
                let WrittenAt::Remote { upload, parts, marker } = file.at else { return Ok(()) };
                let parts = parts.into_iter().map(|content_id| PartId { content_id }).collect();
                locked(&progress.begun).push(path.clone());
                store.complete_multipart(&path, &upload, parts).await?;
                locked(&progress.completed).insert(object_path(&marker));
                Ok(())
            }
        })
    }

    /// What is visible in the directory; refuses that unless it shall be replaced.
    fn refuse_visible(&self) -> Result<Vec<Path>, CommitError> {
        let visible = visible(&self.directory, &self.directory.list()?);
        match self.replace || visible.is_empty() {
            true => Ok(visible),
            false => Err(CommitError::Exists),
        }
    }

    /// As far as the store allows: a save does not fail for what others left.
    fn clear_killed_saves(&self, listed: &[ObjectMeta]) {
        let cleared = self
            .lease
            .shown()
            .and_then(|present| clear_killed_saves(&self.directory, listed, &self.job, &present));
        if let Err(error) = cleared {
            let url = self.directory.url();
            tracing::warn!(url, %error, "could not remove what killed saves left");
        }
    }

    /// Aborts uploads of attempts that were not committed, as far as the store allows.
    fn give_up_uploads(&self) -> io::Result<()> {
        let completed = std::mem::take(&mut *locked(&self.progress.completed));
        let listed = self.directory.list_below(&format!("_temporary/{}", self.job))?;
        let lease = self.lease.path();
        let markers = listed.into_iter().map(|meta| meta.location).filter(|path| path != lease);
        let (done, open) = markers.partition(|marker| completed.contains(marker));
        self.directory.delete(done)?;
        let aborted = abort_uploads(&self.directory, open)?;
        self.directory.delete(aborted.into_iter().map(|upload| upload.marker).collect())
    }
}

/// What is in the directory, but for what is not committed.
fn visible(directory: &Directory, listed: &[ObjectMeta]) -> Vec<Path> {
    let temporary = directory.path("_temporary");
    let paths = listed.iter().map(|meta| meta.location.clone());
    paths.filter(|path| !path.prefix_matches(&temporary)).collect()
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes everything below `url`.
pub(crate) fn remove_directory(url: &str, options: &Arc<StoreOptions>) -> io::Result<()> {
    let directory = Directory::of(url, options)?;
    if directory.is_whole_bucket() {
        return Err(Fault::refused(format!("{url} is a whole bucket; name a directory in it")));
    }
    directory.delete(directory.list()?.into_iter().map(|meta| meta.location).collect())
}

impl Drop for RemoteOutput {
    fn drop(&mut self) {
        if let Err(error) = self.give_up_uploads() {
            let url = self.directory.url();
            tracing::warn!(url, %error, "uploads of a save may be left; the next save there removes them");
        }
    }
}
