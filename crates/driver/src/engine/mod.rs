//! The shell around the pure schedulers: one lock, worker threads, timers.
//!
//! There is no scheduler thread. Whoever has news (a worker whose task ended, a user's thread that
//! submits a job, the timer) takes the lock, feeds the schedulers and carries out their effects. A
//! worker that reports the end of a task leaves with its next one: a job of many small tasks runs
//! without a single switch between threads.

mod aftermath;
mod blocks;
mod cluster;
mod job;
mod local;
mod place;
mod process;
mod state;
mod timer;

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
#[cfg(feature = "object-store")]
use std::time::Duration;
use std::time::Instant;

use firesteel_executor::{Forgotten, LocalEnvironment};
use firesteel_scheduler::engine::{Effect, Input};
use firesteel_scheduler::messages::{
    DagEvent, DagOptions, JobProperties, JobSpec, TaskEvent, TaskOptions,
};
use firesteel_shuffle::Scratch;
use firesteel_task::{Environment, TaskBody, TaskReport, UpdateTarget};
use firesteel_types::{
    AccumulatorId, ExecutorId, JobId, RddInfo, ShuffleId, TaskFailure, TaskId, TaskInfo,
    TaskOutcome, Tick,
};

use crate::bus::Bus;
use crate::{Error, Result};

use aftermath::{Aftermath, Spoilt, Step};
pub(crate) use blocks::KeptPartitions;
pub(crate) use job::JobCell;
use job::{ActiveJob, StageCode};
pub(crate) use place::NewPlace;
use place::Place;
use state::{Launch, Output, State};

/// The code of a shuffle's map tasks, kept by the RDD that reads the shuffle. When nobody can read it
/// any more, its map outputs go.
pub(crate) struct ShuffleHandle {
    pub(crate) shuffle: ShuffleId,
    code: Arc<StageCode>,
    engine: std::sync::Weak<Engine>,
}

impl Drop for ShuffleHandle {
    fn drop(&mut self) {
        if let Some(engine) = self.engine.upgrade() {
            engine.remove_shuffle(self.shuffle);
        }
    }
}

/// Schedulers, worker threads and the blocks of this process.
pub(crate) struct Engine {
    state: Mutex<State>,
    /// A task is ready, or the engine stops.
    work: Condvar,
    /// The earliest timer changed, or the engine stops.
    timer: Condvar,
    origin: Instant,
    bus: Bus,
    aftermath: Aftermath,
    environment: Arc<LocalEnvironment>,
    place: Place,
}

impl Engine {
    /// Starts the threads that run tasks, or that send them to where they run.
    pub(crate) fn start(
        place: NewPlace,
        dag: DagOptions,
        tasks: TaskOptions,
        scratch: Scratch,
        bus: Bus,
    ) -> Result<Arc<Engine>> {
        let engine = Arc::new(Engine {
            state: Mutex::new(State::new(dag, tasks)),
            work: Condvar::new(),
            timer: Condvar::new(),
            origin: Instant::now(),
            bus,
            aftermath: Aftermath::default(),
            environment: Arc::new(LocalEnvironment::new(scratch)),
            place: place.place(),
        });
        blocks::watch(&engine);
        place.start(&engine).inspect_err(|_| engine.stop())?;
        Ok(engine)
    }

    /// Milliseconds since the engine started.
    pub(crate) fn now(&self) -> Tick {
        Tick(u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    pub(crate) fn bus(&self) -> &Bus {
        &self.bus
    }

    pub(crate) fn environment(&self) -> &Arc<LocalEnvironment> {
        &self.environment
    }

    /// Submits a job; the cell tells when it is over.
    pub(crate) fn submit(
        self: &Arc<Self>,
        rdd: Arc<RddInfo>,
        partitions: Vec<u32>,
        body: Arc<dyn TaskBody>,
        properties: JobProperties,
    ) -> Result<Arc<JobCell>> {
        let mut state = self.lock();
        if state.stopped {
            return Err(Error::ContextStopped);
        }
        if let Some(reason) = state.ended.clone() {
            return Err(Error::ApplicationEnded { reason });
        }
        let job = state.next_job();
        let cell = Arc::new(JobCell::new(job));
        let active = ActiveJob::new(body, rdd.clone(), partitions.len(), cell.clone());
        state.jobs.insert(job, active);
        let spec = JobSpec { job, rdd, partitions, properties };
        self.carry_out(state, Input::Dag(DagEvent::JobSubmitted(spec)));
        Ok(cell)
    }

    /// The id of a job that was cancelled before it could be submitted.
    pub(crate) fn name_job(&self) -> JobId {
        self.lock().next_job()
    }

    /// Takes one piece of news.
    pub(crate) fn feed(self: &Arc<Self>, input: Input) {
        let state = self.lock();
        self.carry_out(state, input);
    }

    /// Registers the map side of a shuffle.
    pub(crate) fn register_shuffle(
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
        self.carry_out(state, Input::Dag(DagEvent::ShuffleRemoved { shuffle }));
        self.environment.remove_shuffle(shuffle);
        self.forget(Forgotten::Shuffle(shuffle));
    }

    pub(crate) fn register_accumulator(&self, id: AccumulatorId, target: Arc<dyn UpdateTarget>) {
        let mut state = self.lock();
        if state.accumulators.len().is_multiple_of(64) {
            state.accumulators.retain(|_, target| target.strong_count() > 0);
        }
        state.accumulators.insert(id, Arc::downgrade(&target));
    }

    /// Reports a task's end and, if there is one, takes the next.
    fn report(self: &Arc<Self>, info: &TaskInfo, report: TaskReport) -> Option<Launch> {
        let mut state = self.lock();
        self.take_report(&mut state, info.task, info.executor, report);
        let next = state.ready.pop_front();
        self.let_go(state);
        next
    }

    fn take_report(
        self: &Arc<Self>,
        state: &mut State,
        task: TaskId,
        executor: ExecutorId,
        report: TaskReport,
    ) {
        let TaskReport { outcome, output, updates, metrics } = report;
        let of = state.running.remove(&task);
        if let Some(running) = &of {
            warn_of_failure(&running.info, &outcome);
        }
        if let Some(value) = output {
            state.outputs.insert(task, Output { value, updates, of });
        }
        let metrics = Some(metrics);
        let reported = TaskEvent::TaskReported { task, executor, outcome, metrics };
        self.apply(state, Input::Task(reported));
    }

    /// Waits for a task; `None` when the engine stops.
    fn next_task(&self) -> Option<Launch> {
        let mut state = self.lock();
        loop {
            if let Some(launch) = state.ready.pop_front() {
                return Some(launch);
            }
            if state.stopped {
                return None;
            }
            state = self.wait(&self.work, state);
        }
    }

    fn carry_out(self: &Arc<Self>, mut state: MutexGuard<'_, State>, input: Input) {
        self.apply(&mut state, input);
        self.let_go(state);
    }

    /// Unlocks, wakes who is needed, and only then does what runs user code: that may take long, may
    /// panic, and may come back here.
    fn let_go(self: &Arc<Self>, state: MutexGuard<'_, State>) {
        self.let_go_after(state, || {});
    }

    /// The same, with something that nobody shall wait for before user code runs.
    fn let_go_after(self: &Arc<Self>, state: MutexGuard<'_, State>, first: impl FnOnce()) {
        for (job, error) in self.unlock(state, first) {
            let reason = error.to_string();
            self.feed(Input::Dag(DagEvent::JobCancelled { job, reason }));
        }
    }

    fn unlock(&self, mut state: MutexGuard<'_, State>, first: impl FnOnce()) -> Spoilt {
        let waiting = state.ready.len();
        let follows = !state.aftermath.is_empty();
        self.aftermath.add(&mut state.aftermath);
        drop(state);
        (0..waiting).for_each(|_| self.work.notify_one());
        first();
        if follows { self.aftermath.settle() } else { Vec::new() }
    }

    fn apply(self: &Arc<Self>, state: &mut State, input: Input) {
        if state.broken {
            return;
        }
        let now = self.now();
        let mut effects = std::mem::take(&mut state.effects);
        state.scheduler.handle(now, input, &mut effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::LaunchTask { task, kind } => state.launch(task, kind),
                Effect::KillTask { task, executor, reason } => {
                    state.kill(task, &reason);
                    self.place.kill(executor, task, reason);
                }
                Effect::DeliverResult { job, index, task } => state.deliver(job, index, task),
                Effect::ApplyAccumulators { task } => state.apply_accumulators(task),
                Effect::ReleaseTask { task } => state.release(task),
                Effect::EndJob { job, result } => state.end_job(job, result.map_err(Error::from)),
                Effect::PublishMapOutputs { shuffle, locations } => {
                    self.publish(shuffle, locations);
                }
                Effect::DropMapOutputs { shuffle, outputs } => {
                    self.drop_map_outputs(shuffle, outputs);
                }
                Effect::DropCachedPartitions { rdd } => {
                    state.aftermath.push(Step::Drop(self.drop_cached_partitions(rdd)));
                }
                Effect::Post(event) => self.bus.post(event),
                Effect::ArmTimer(at) => self.arm_timer(state, at),
            }
        }
        state.effects = effects;
    }

    fn arm_timer(self: &Arc<Self>, state: &mut State, at: Tick) {
        if state.timers.insert(at) {
            timer::ensure_running(self, state);
            self.timer.notify_one();
        }
    }

    /// Cancels everything, waits for the running tasks to notice, ends the threads.
    pub(crate) fn stop(self: &Arc<Self>) {
        let reason = "the context is stopped".to_owned();
        let mut state = self.lock();
        if state.stopped {
            return;
        }
        state.stopped = true;
        let threads = std::mem::take(&mut state.threads);
        self.carry_out(state, Input::Dag(DagEvent::AllJobsCancelled { reason }));
        self.work.notify_all();
        self.timer.notify_all();
        let current = std::thread::current().id();
        threads.into_iter().filter(|thread| thread.thread().id() != current).for_each(|thread| {
            let _ = thread.join();
        });
        self.place.stop();
        self.environment.blocks().clear();
        self.environment.scratch().remove_files();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// Ends all jobs after a defect of the engine itself, so that nobody waits for ever.
    fn break_down(&self, message: &str) {
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        state.stopped = true;
        state.broken = true;
        let error = Error::Defect { message: message.to_owned() };
        let jobs: Vec<JobId> = state.jobs.keys().copied().collect();
        jobs.into_iter().for_each(|job| state.end_job(job, Err(error.clone())));
        self.state.clear_poison();
        // All its jobs have ended: none is left to be cancelled.
        drop(self.unlock(state, || {}));
        self.work.notify_all();
        self.timer.notify_all();
    }

    /// Waits for tasks that were told to end because their job is over; not for long, in case they do not notice.
    #[cfg(feature = "object-store")]
    pub(crate) fn await_tasks_of_ended_jobs(&self) {
        const PATIENCE: Duration = Duration::from_secs(5);
        const LOOK: Duration = Duration::from_millis(2);
        let begun = Instant::now();
        while self.lock().has_tasks_of_ended_jobs() && begun.elapsed() < PATIENCE {
            std::thread::sleep(LOOK);
        }
    }

    /// After a panic under the lock, on whatever thread, the engine is broken down; it stays so.
    fn lock(&self) -> MutexGuard<'_, State> {
        if self.state.is_poisoned() {
            self.break_down("a thread panicked while it held the schedulers");
        }
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn wait<'a>(&self, condition: &Condvar, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        condition.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn warn_of_failure(task: &TaskInfo, outcome: &TaskOutcome) {
    let TaskOutcome::Failed(failure) = outcome else { return };
    if !matches!(failure, TaskFailure::Killed { .. }) {
        tracing::warn!(
            stage = %task.stage,
            partition = task.partition,
            attempt = task.attempt,
            %failure,
            "task failed"
        );
    }
}
