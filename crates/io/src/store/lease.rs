//! Whether a save lives: it renews an object of its own, `_temporary/JOB/_lease`, as long as it does.
//!
//! Leases are compared by the times that the store gave them, so clocks of drivers may differ as they like.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutPayload};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::directory::Directory;
use super::{park_until, spawn};

/// A save that renewed nothing for so long is over: its driver was killed, or cannot reach the store.
pub(super) const LEASE: Duration = Duration::from_secs(600);
/// Several renewals may fail before the lease is lost.
pub(super) const RENEWAL: Duration = Duration::from_secs(60);

/// Held by a save until it is dropped.
pub(super) struct Lease {
    directory: Arc<Directory>,
    path: Path,
    renewed: Arc<Mutex<Instant>>,
    renewing: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Lease {
    pub(super) fn take(
        directory: &Arc<Directory>,
        job: &str,
        renewal: Duration,
    ) -> io::Result<Self> {
        let path = directory.path(&format!("_temporary/{job}/_lease"));
        let (objects, lease, content) = (directory.objects(), path.clone(), job.to_owned());
        let renewed = Arc::new(Mutex::new(Instant::now()));
        let first = PutPayload::from(content.clone());
        directory.run(async move { objects.put(&lease, first).await })?;
        let (stop, stopped) = oneshot::channel();
        let work = renew(directory.objects(), path.clone(), content, renewed.clone());
        let renewing = spawn(until(stopped, renewal, work))?;
        let renewing = Some((stop, renewing));
        Ok(Lease { directory: directory.clone(), path, renewed, renewing })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The lease as the store shows it: its time is the store's present, give or take a renewal.
    pub(super) fn shown(&self) -> io::Result<ObjectMeta> {
        let (objects, path) = (self.directory.objects(), self.path.clone());
        self.directory.run(async move { objects.head(&path).await })
    }

    /// Fails if another save may have taken this one for dead.
    pub(super) fn check(&self) -> io::Result<()> {
        let renewed = *self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        match renewed.elapsed() < LEASE {
            true => Ok(()),
            false => Err(io::Error::other(format!(
                "the store could not be reached for {} minutes; another job may write there by now",
                LEASE.as_secs() / 60
            ))),
        }
    }
}

/// Does it again and again, until it is told to stop.
async fn until<F: Future<Output = ()>>(
    mut stopped: oneshot::Receiver<()>,
    pause: Duration,
    work: impl Fn() -> F,
) {
    while tokio::time::timeout(pause, &mut stopped).await.is_err() {
        work().await;
    }
}

fn renew(
    objects: Arc<dyn ObjectStore>,
    path: Path,
    content: String,
    renewed: Arc<Mutex<Instant>>,
) -> impl Fn() -> futures_util::future::BoxFuture<'static, ()> {
    move || {
        let (objects, path, content) = (objects.clone(), path.clone(), content.clone());
        let renewed = renewed.clone();
        Box::pin(async move {
            let asked = Instant::now();
            match objects.put(&path, content.into()).await {
                Ok(_) => *renewed.lock().unwrap_or_else(PoisonError::into_inner) = asked,
                Err(error) => tracing::warn!(%path, %error, "could not renew the lease of a save"),
            }
        })
    }
}

/// Removes it, after a renewal that is under way.
impl Drop for Lease {
    fn drop(&mut self) {
        if let Some((stop, renewing)) = self.renewing.take() {
            drop(stop);
            let _ = park_until(renewing);
        }
        let _ = self.directory.delete(vec![self.path.clone()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_renewed_until_it_is_dropped() {
        let directory = Arc::new(Directory::in_memory());
        let lease = Lease::take(&directory, "job", Duration::from_millis(1)).unwrap();
        let (first, taken) = (lease.shown().unwrap(), Instant::now());
        assert_eq!(first.location, Path::from("out/_temporary/job/_lease"));
        while lease.shown().unwrap().last_modified == first.last_modified {
            assert!(taken.elapsed() < Duration::from_secs(30), "it was not renewed");
        }
        lease.check().unwrap();
        let other = Lease::take(&directory, "other", LEASE).unwrap();
        *other.renewed.lock().unwrap() = Instant::now().checked_sub(LEASE).unwrap();
        assert!(other.check().unwrap_err().to_string().contains("another job may write there"));
        drop((lease, other));
        assert!(directory.list().unwrap().is_empty());
    }
}
