//! A job that runs, and the cell its waiter looks into.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, Weak};

use bytes::Bytes;
use firesteel_closure::Encoder;
use firesteel_task::{Payload, TaskBody};
use firesteel_types::{JobId, RddInfo, TaskFailure};

use super::backend::Cluster;
use crate::{Error, Result};

/// What the engine keeps of a job: its code, its lineage (and with it everything the tasks need), its
/// results so far.
pub(super) struct ActiveJob {
    /// Of its result stage, if it has one.
    pub(super) code: Option<Arc<StageCode>>,
    pub(super) results: Vec<Option<Payload>>,
    /// What its results so far have cost the way from executors to here.
    pub(super) result_bytes: u64,
    waiter: Arc<JobWaiter>,
    _lineage: Arc<RddInfo>,
    /// What was cut off the lineage since the job started: its stages may still need it.
    pub(super) cut_off: Vec<Arc<dyn Any + Send + Sync>>,
}

impl ActiveJob {
    pub(super) fn new(
        body: Option<Arc<dyn TaskBody>>,
        lineage: Arc<RddInfo>,
        partitions: usize,
        waiter: Arc<JobWaiter>,
    ) -> Self {
        let results = std::iter::repeat_with(|| None).take(partitions).collect();
        let code = body.map(|body| Arc::new(StageCode::new(body)));
        ActiveJob { code, results, result_bytes: 0, waiter, _lineage: lineage, cut_off: Vec::new() }
    }

    pub(super) fn id(&self) -> JobId {
        self.waiter.job
    }

    /// Tells the waiter; only then is anything of the user's dropped.
    pub(super) fn end(self, result: Result<()>) {
        let ActiveJob { results, waiter, .. } = self;
        match result {
            Ok(()) => waiter.end(Ok(results)),
            Err(error) => waiter.end(Err(error)),
        }
    }
}

/// The code of a stage's tasks, and its wire form once a task needed it.
pub(crate) struct StageCode {
    /// Its name on the way to executors; no other code of this process has it.
    pub(super) id: u64,
    pub(super) body: Arc<dyn TaskBody>,
    encoded: OnceLock<Result<Bytes, TaskFailure>>,
    checked: OnceLock<Result<(), TaskFailure>>,
    /// Where executors have it from.
    offered: OnceLock<Weak<Cluster>>,
}

/// Executors have it for as long as somebody here does.
impl Drop for StageCode {
    fn drop(&mut self) {
        if let Some(cluster) = self.offered.get().and_then(Weak::upgrade) {
            cluster.forget_code(self.id);
        }
    }
}

impl StageCode {
    pub(super) fn new(body: Arc<dyn TaskBody>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let (encoded, checked, offered) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        StageCode { id, body, encoded, checked, offered }
    }

    /// Executors may fetch it from now on, until it is dropped.
    pub(super) fn offered_by(&self, cluster: &Arc<Cluster>) {
        let _ = self.offered.set(Arc::downgrade(cluster));
    }

    /// Whether it was encoded, and could be.
    pub(super) fn is_encoded(&self) -> bool {
        matches!(self.encoded.get(), Some(Ok(_)))
    }

    /// Whether its values could be sent to another process, for tasks that run here as they are.
    pub(super) fn checked(&self) -> &Result<(), TaskFailure> {
        self.checked.get_or_init(|| {
            firesteel_executor::catch(|| self.body.encode(&mut Encoder::checking()))?
                .map_err(|error| TaskFailure::Fatal { message: error.to_string() })
        })
    }

    /// Encoded once, however many tasks the stage has. A panic of the user's while doing so is the
    /// task's failure.
    pub(super) fn encoded(&self) -> &Result<Bytes, TaskFailure> {
        self.encoded.get_or_init(|| {
            firesteel_executor::catch(|| {
                let mut out = Encoder::new();
                self.body.encode(&mut out).map(|()| Bytes::from(out.into_bytes()))
            })?
            .map_err(|error| TaskFailure::Fatal { message: error.to_string() })
        })
    }
}

enum Progress {
    Running,
    Ended(Result<Vec<Option<Payload>>>),
    Taken,
}

/// Where a thread waits for its job.
pub struct JobWaiter {
    job: JobId,
    progress: Mutex<Progress>,
    ended: Condvar,
}

impl JobWaiter {
    pub(super) fn new(job: JobId) -> Self {
        JobWaiter { job, progress: Mutex::new(Progress::Running), ended: Condvar::new() }
    }

    /// The job.
    pub fn job(&self) -> JobId {
        self.job
    }

    pub(super) fn end(&self, result: Result<Vec<Option<Payload>>>) {
        let mut progress = self.lock();
        if matches!(*progress, Progress::Running) {
            *progress = Progress::Ended(result);
            self.ended.notify_all();
        }
    }

    /// Waits for the job's end and takes its results, one per partition.
    pub fn wait(&self) -> Result<Vec<Payload>> {
        let mut progress = self.lock();
        loop {
            match std::mem::replace(&mut *progress, Progress::Taken) {
                Progress::Ended(result) => return result.and_then(complete),
                Progress::Taken => {
                    let message = "a job's results were taken twice".to_owned();
                    return Err(Error::Defect { message });
                }
                Progress::Running => {
                    *progress = Progress::Running;
                    progress =
                        self.ended.wait(progress).unwrap_or_else(|poisoned| poisoned.into_inner());
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn complete(results: Vec<Option<Payload>>) -> Result<Vec<Payload>> {
    let all: Option<Vec<Payload>> = results.into_iter().collect();
    all.ok_or_else(|| Error::Defect { message: "a job ended without all its results".to_owned() })
}
