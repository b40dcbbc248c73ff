//! A job that runs, and the cell its waiter looks into.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, Weak};

use bytes::Bytes;
use firesteel_closure::{Detached, Encoder};
use firesteel_task::{Payload, TaskBody};
use firesteel_types::{JobId, RddInfo, TaskFailure};

use super::backend::Cluster;
use crate::{Error, Result};

/// What the engine keeps of a job: its code, its lineage (and with it everything the tasks need). Its results are
/// its waiter's.
pub(super) struct ActiveJob {
    /// Of its result stage, if it has one.
    pub(super) code: Option<Arc<StageCode>>,
    /// Bytes of its results so far.
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
        waiter: Arc<JobWaiter>,
    ) -> Self {
        let code = body.map(|body| Arc::new(StageCode::new(body)));
        ActiveJob { code, result_bytes: 0, waiter, _lineage: lineage, cut_off: Vec::new() }
    }

    pub(super) fn id(&self) -> JobId {
        self.waiter.job
    }

    /// A result that its waiter may take from now on; it comes back if nobody is going to.
    pub(super) fn deliver(&self, index: u32, result: Payload) -> Option<Payload> {
        self.waiter.deliver(index, result)
    }

    /// Counts a result of this many bytes; why it is not taken, if that is too much.
    pub(super) fn admit(&mut self, bytes: u64, limit: u64) -> Result<(), TaskFailure> {
        self.result_bytes = self.result_bytes.saturating_add(bytes);
        let total = self.result_bytes;
        if limit == 0 || total <= limit {
            return Ok(());
        }
        let message = format!(
            "the results of the job's tasks have {total} bytes so far, more than \
             spark.driver.maxResultSize ({limit}): bring less to the driver, or raise it"
        );
        Err(TaskFailure::Fatal { message })
    }

    /// Tells the waiter; only then is anything of the user's dropped.
    pub(super) fn end(self, result: Result<()>) {
        self.waiter.end(result);
    }
}

/// The wire form of a stage's code.
struct EncodedCode {
    bytes: Bytes,
    /// Sources that it was encoded without.
    sources: Vec<Arc<dyn Detached>>,
}

/// The code of a stage's tasks, and its wire form once a task needed it.
pub(crate) struct StageCode {
    /// Its name on the way to executors; no other code of this process has it.
    pub(super) id: u64,
    pub(super) body: Arc<dyn TaskBody>,
    encoded: OnceLock<Result<EncodedCode, TaskFailure>>,
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

    /// Encoded once, however many tasks the stage has. With `detaches`, large sources stay behind: each task fetches the
    /// partitions that it reads. A panic of the user's while doing so is the task's failure.
    pub(super) fn encoded(&self, detaches: bool) -> Result<&Bytes, &TaskFailure> {
        let encode = || {
            let mut out = if detaches { Encoder::detaching() } else { Encoder::new() };
            self.body.encode(&mut out).map(|()| out.into_parts())
        };
        let encoded = self.encoded.get_or_init(|| {
            let (bytes, sources) = firesteel_executor::catch(encode)?
                .map_err(|error| TaskFailure::Fatal { message: error.to_string() })?;
            Ok(EncodedCode { bytes: Bytes::from(bytes), sources })
        });
        encoded.as_ref().map(|code| &code.bytes)
    }

    /// Appends one partition of a source that stayed behind. Encoded when it is asked for: a second copy of all of them
    /// is nowhere.
    pub(super) fn encode_items(
        &self,
        source: u32,
        partition: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), TaskFailure> {
        let code = self.encoded.get().and_then(|encoded| encoded.as_ref().ok());
        let found = code.and_then(|code| code.sources.get(source as usize));
        let found = found.ok_or_else(|| {
            let message = format!("its code has no source {source}");
            TaskFailure::Fatal { message }
        })?;
        firesteel_executor::catch(|| found.encode_part(partition, out))?
            .map_err(|error| TaskFailure::Fatal { message: error.to_string() })
    }
}

/// Results on their way to who waits for them.
struct Progress {
    /// Those that were not taken, in the order of partitions.
    results: VecDeque<Option<Payload>>,
    taken: usize,
    ended: Option<Result<()>>,
}

/// Where a thread waits for its job.
pub struct JobWaiter {
    job: JobId,
    progress: Mutex<Progress>,
    /// The next result is there, or the job ended.
    changed: Condvar,
}

impl JobWaiter {
    pub(super) fn new(job: JobId, results: usize) -> Self {
        let results = std::iter::repeat_with(|| None).take(results).collect();
        let progress = Progress { results, taken: 0, ended: None };
        JobWaiter { job, progress: Mutex::new(progress), changed: Condvar::new() }
    }

    pub fn job(&self) -> JobId {
        self.job
    }

    fn deliver(&self, index: u32, result: Payload) -> Option<Payload> {
        let mut progress = self.lock();
        let place = (index as usize).checked_sub(progress.taken);
        let Some(slot) = place.and_then(|place| progress.results.get_mut(place)) else {
            return Some(result);
        };
        let replaced = slot.replace(result);
        if place == Some(0) {
            self.changed.notify_all();
        }
        replaced
    }

    fn end(&self, result: Result<()>) {
        let mut progress = self.lock();
        // Results of a job that failed are dropped without the lock: that may run user code.
        let unwanted = match result {
            Ok(()) => VecDeque::new(),
            Err(_) => std::mem::take(&mut progress.results),
        };
        progress.ended.get_or_insert(result);
        self.changed.notify_all();
        drop(progress);
        drop(unwanted);
    }

    /// Waits for the next result in the order of partitions; `None` after the last, when the job has ended. Who
    /// stops before that should cancel the job.
    pub fn next(&self) -> Option<Result<Payload>> {
        let mut progress = self.lock();
        loop {
            if let Some(Err(error)) = &progress.ended {
                return Some(Err(error.clone()));
            }
            if let Some(Some(_)) = progress.results.front() {
                progress.taken += 1;
                return progress.results.pop_front().flatten().map(Ok);
            }
            match &progress.ended {
                Some(_) if progress.results.is_empty() => return None,
                Some(_) => {
                    let message = "a job ended without all its results".to_owned();
                    return Some(Err(Error::Defect { message }));
                }
                None => {}
            }
            progress = self.changed.wait(progress).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    /// Waits for the job's end and takes its results, one per partition.
    pub fn wait(&self) -> Result<Vec<Payload>> {
        std::iter::from_fn(|| self.next()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
