//! What front doors ask of the engine: jobs, the map side of shuffles, cancellation.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use firesteel_conf::entries;
use firesteel_executor::Forgotten;
use firesteel_scheduler::SchedulerInput;
use firesteel_scheduler::messages::{DagEvent, JobSpec, MapStageSpec};
use firesteel_task::{Payload, TaskBody};
use firesteel_types::{JobId, Properties, RddId, RddInfo, ShuffleId, StageId};

use crate::job::{ActiveJob, StageCode};
use crate::{Engine, Error, JobWaiter, Result};

/// Numbers that all front doors of an application share.
#[derive(Default)]
pub(crate) struct Ids {
    rdd: AtomicU32,
    shuffle: AtomicU32,
    pub(crate) accumulator: AtomicU64,
}

/// The code of a shuffle's map tasks. RDDs that read the shuffle hold it; when the last of them is dropped, the engine
/// removes the map outputs.
pub struct ShuffleHandle {
    shuffle: ShuffleId,
    pub(crate) code: Arc<StageCode>,
    engine: Weak<Engine>,
}

impl ShuffleHandle {
    pub fn shuffle(&self) -> ShuffleId {
        self.shuffle
    }
}

/// How much the map outputs of a shuffle have for its readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapOutputStatistics {
    pub shuffle: ShuffleId,
    /// Bytes for each reader, within an eighth; of more than 2000 readers, the average of each map output.
    pub bytes_by_reader: Vec<u64>,
}

/// Where a thread waits for the map outputs of a shuffle.
pub struct MapStageWaiter {
    shuffle: ShuffleId,
    waiter: Arc<JobWaiter>,
}

impl MapStageWaiter {
    /// The job that makes them.
    pub fn job(&self) -> JobId {
        self.waiter.job()
    }

    /// Waits until all are there.
    pub fn wait(&self) -> Result<MapOutputStatistics> {
        let Some(Payload::Typed(bytes)) = self.waiter.wait()?.pop() else {
            let message = "a map stage ended without its sizes".to_owned();
            return Err(Error::Defect { message });
        };
        let bytes_by_reader = *bytes.downcast().expect("sizes are delivered as they are");
        Ok(MapOutputStatistics { shuffle: self.shuffle, bytes_by_reader })
    }
}

impl Drop for ShuffleHandle {
    fn drop(&mut self) {
        if let Some(engine) = self.engine.upgrade() {
            engine.remove_shuffle(self.shuffle);
        }
    }
}

impl Engine {
    /// The number of a new RDD, or of another node of a lineage.
    pub fn next_rdd(&self) -> RddId {
        RddId(self.application.ids.rdd.fetch_add(1, Relaxed))
    }

    /// The number of a new shuffle.
    pub fn next_shuffle(&self) -> ShuffleId {
        ShuffleId(self.application.ids.shuffle.fetch_add(1, Relaxed))
    }

    /// Runs `body` on these partitions of the last RDD of a lineage, and what must be run before. Shuffles of the
    /// lineage are those that [`Engine::register_shuffle`] knows.
    pub fn submit(
        self: &Arc<Self>,
        lineage: Arc<RddInfo>,
        partitions: Vec<u32>,
        body: Arc<dyn TaskBody>,
        properties: Properties,
    ) -> Result<Arc<JobWaiter>> {
        let properties = self.in_a_pool(properties)?;
        let (results, rdd) = (partitions.len(), lineage.clone());
        let make = |waiter| ActiveJob::new(Some(body), lineage, waiter);
        self.start_job(results, make, |job| {
            DagEvent::JobSubmitted(JobSpec { job, rdd, partitions, properties })
        })
    }

    /// Makes the map outputs of a shuffle, as far as they are not there, and tells how much they have for each of its
    /// readers: what is planned next can depend on it. `map_side` is the lineage that they are computed from.
    pub fn submit_map_stage(
        self: &Arc<Self>,
        handle: &Arc<ShuffleHandle>,
        map_side: Arc<RddInfo>,
        readers: u32,
        properties: Properties,
    ) -> Result<MapStageWaiter> {
        let properties = self.in_a_pool(properties)?;
        let (shuffle, rdd) = (handle.shuffle, map_side.clone());
        let make = |waiter| {
            let mut active = ActiveJob::new(None, map_side, waiter);
            // Its code is the shuffle's.
            active.cut_off.push(handle.clone());
            active
        };
        let waiter = self.start_job(1, make, |job| {
            let spec = MapStageSpec { job, shuffle, rdd, readers, properties };
            DagEvent::MapStageSubmitted(spec)
        })?;
        Ok(MapStageWaiter { shuffle, waiter })
    }

    fn start_job(
        self: &Arc<Self>,
        results: usize,
        make: impl FnOnce(Arc<JobWaiter>) -> ActiveJob,
        submitted: impl FnOnce(JobId) -> DagEvent,
    ) -> Result<Arc<JobWaiter>> {
        let mut state = self.lock();
        if state.stopped {
            return Err(Error::Stopped);
        }
        if let Some(reason) = state.ended.clone() {
            return Err(Error::ApplicationEnded { reason });
        }
        let job = state.next_job();
        let waiter = Arc::new(JobWaiter::new(job, results));
        state.jobs.insert(job, make(waiter.clone()));
        self.carry_out(state, SchedulerInput::Dag(submitted(job)));
        Ok(waiter)
    }

    /// The pool of the settings, for a job that names none.
    fn in_a_pool(&self, properties: Properties) -> Result<Properties> {
        if properties.pool().is_some() {
            return Ok(properties);
        }
        Ok(match self.conf().get(&entries::SCHEDULER_POOL)? {
            Some(pool) => properties.with(Properties::POOL, &pool),
            None => properties,
        })
    }

    /// The id of a job that was cancelled before it could be submitted.
    pub fn name_job(&self) -> JobId {
        self.lock().next_job()
    }

    /// Registers the map side of a shuffle: `body` writes the output of one map partition through
    /// [`Environment::put_map_output`](firesteel_task::Environment::put_map_output).
    pub fn register_shuffle(
        self: &Arc<Self>,
        shuffle: ShuffleId,
        body: Arc<dyn TaskBody>,
    ) -> Arc<ShuffleHandle> {
        let code = Arc::new(StageCode::new(body));
        let handle = Arc::new(ShuffleHandle { shuffle, code, engine: Arc::downgrade(self) });
        self.environment.add_shuffle(shuffle);
        self.lock().shuffles.insert(shuffle, Arc::downgrade(&handle));
        handle
    }

    fn remove_shuffle(self: &Arc<Self>, shuffle: ShuffleId) {
        let mut state = self.lock();
        state.shuffles.remove(&shuffle);
        self.carry_out(state, SchedulerInput::Dag(DagEvent::ShuffleRemoved { shuffle }));
        self.environment.remove_shuffle(shuffle);
        self.forget(Forgotten::Shuffle(shuffle));
    }

    pub fn cancel_job(self: &Arc<Self>, job: JobId, reason: &str) {
        self.feed(SchedulerInput::Dag(DagEvent::JobCancelled { job, reason: reason.to_owned() }));
    }

    /// Cancels the running jobs of a group.
    pub fn cancel_job_group(self: &Arc<Self>, group: &str, reason: &str) {
        let (group, reason) = (group.to_owned(), reason.to_owned());
        self.feed(SchedulerInput::Dag(DagEvent::JobGroupCancelled { group, reason }));
    }

    /// Cancels the running jobs that have a tag.
    pub fn cancel_jobs_with_tag(self: &Arc<Self>, tag: &str, reason: &str) {
        let (tag, reason) = (tag.to_owned(), reason.to_owned());
        self.feed(SchedulerInput::Dag(DagEvent::JobTagCancelled { tag, reason }));
    }

    /// Cancels all running jobs.
    pub fn cancel_all_jobs(self: &Arc<Self>, reason: &str) {
        self.feed(SchedulerInput::Dag(DagEvent::AllJobsCancelled { reason: reason.to_owned() }));
    }

    /// Cancels the jobs that need a stage.
    pub fn cancel_stage(self: &Arc<Self>, stage: StageId, reason: &str) {
        self.feed(SchedulerInput::Dag(DagEvent::StageCancelled {
            stage,
            reason: reason.to_owned(),
        }));
    }

    /// Waits for tasks that were told to end because their job is over; not for long, in case they do not notice.
    pub fn await_tasks_of_ended_jobs(&self) {
        const PATIENCE: Duration = Duration::from_secs(5);
        const LOOK: Duration = Duration::from_millis(2);
        let begun = Instant::now();
        while self.lock().has_tasks_of_ended_jobs() && begun.elapsed() < PATIENCE {
            std::thread::sleep(LOOK);
        }
    }
}
