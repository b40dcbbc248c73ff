//! The engine: runs jobs made of lineages and task bodies, in threads of this process or on a cluster. Front doors
//! (RDDs, SQL) submit to it; nothing of what their bodies compute is known here.
//!
//! | file | owns |
//! |---|---|
//! | `start` | from settings to a running engine, and its end |
//! | `jobs` | what front doors ask for: jobs, shuffles, cancellation |
//! | `shared` | broadcast values and accumulators |
//! | `blocks` | cached partitions as schedulers and listeners hear of them |
//! | `place`, `local`, `process`, `backend` | where tasks run |
//! | `state`, `job`, `aftermath`, `timer` | what the lock protects, what happens after it is let go |
//! | `heartbeat` | what executors and the driver use |
//! | `bus`, `status` | who hears of all this |
//! | `observe` | how long it takes |
//!
//! There is no scheduler thread. The thread that has a message (a worker whose task ended, a user's thread that
//! submits a job, the timer) takes the lock, feeds the schedulers and carries out their effects. A
//! worker that reports the end of a task leaves with its next one: a job of many small tasks runs
//! without a single switch between threads.
//!
//! Architecture Invariant: nothing here decides where or when a task runs; that is the scheduler crate's.

// What only clusters use is there without them too.
#![cfg_attr(not(feature = "cluster"), allow(dead_code))]

mod aftermath;
#[cfg_attr(not(feature = "cluster"), path = "no_cluster.rs")]
mod backend;
mod blocks;
mod bus;
mod error;
mod files;
mod heartbeat;
mod job;
mod jobs;
mod local;
mod observe;
mod options;
mod place;
mod process;
mod shared;
mod start;
mod state;
mod status;
mod timer;

use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use firesteel_executor::LocalEnvironment;
use firesteel_scheduler::messages::{DagEvent, TaskEvent};
use firesteel_scheduler::{SchedulerEffect, SchedulerInput};
use firesteel_storage::Clock;
use firesteel_task::TaskReport;
use firesteel_types::{
    Event, ExecutorId, JobId, MapAttempt, TaskFailure, TaskId, TaskInfo, TaskOutcome, Tick,
};

use aftermath::{Aftermath, Spoilt, Step};
use bus::Bus;
use heartbeat::Heartbeats;
use observe::Observation;
use place::Place;
use start::Application;
use state::{Launch, Output, State};
use status::Status;

#[cfg(feature = "cluster")]
pub use backend::{ApplicationSpec, Provider, Reports, executor_environment, warn};
pub use backend::{ClusterManager, page_hosts};
pub use blocks::CachedPartitions;
pub use bus::Listener;
pub use error::{Error, Result};
pub use firesteel_executor::{catch, codec_if};
pub use job::JobWaiter;
pub use jobs::{MapOutputStatistics, MapStageWaiter, ShuffleHandle};
pub use observe::{Observed, Observer};
pub use start::executable_name;

/// Schedulers, worker threads and the blocks of this process.
pub struct Engine {
    state: Mutex<State>,
    /// A task is ready, or the engine stops.
    work: Condvar,
    /// The earliest timer changed, or the engine stops.
    timer: Condvar,
    clock: Clock,
    bus: Bus,
    status: Status,
    observation: Observation,
    heartbeats: Heartbeats,
    aftermath: Aftermath,
    environment: Arc<LocalEnvironment>,
    place: Place,
    application: Application,
}

impl Engine {
    pub fn now(&self) -> Tick {
        self.clock.now()
    }

    /// What tasks in threads of this process find there.
    pub fn environment(&self) -> &Arc<LocalEnvironment> {
        &self.environment
    }

    /// Has somebody told how long the schedulers, the status and listeners take. The first one is told, and no other.
    pub fn observe(&self, observer: Observer) {
        self.observation.set(observer);
    }

    fn feed(self: &Arc<Self>, input: SchedulerInput) {
        let state = self.lock();
        self.carry_out(state, input);
    }

    /// Reports a task's end, with an output of so many bytes, and takes the next if there is one.
    fn report(
        self: &Arc<Self>,
        info: &TaskInfo,
        mut report: TaskReport,
        bytes: u64,
    ) -> Option<Launch> {
        let mut state = self.lock();
        if let Place::Threads { max_result_bytes: limit, .. } = self.place {
            state.admit(info.task, &mut report, bytes, limit);
        }
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
        let TaskReport { outcome, output, updates, mut metrics, written } = report;
        let mut of = state.running.remove(&task);
        if let Some(running) = &mut of {
            warn_of_failure(&running.info, &outcome);
            state.peaks.task_ended(running, &mut metrics);
        }
        if let Some(value) = output {
            state.outputs.insert(task, Output { value, updates, of });
        }
        let metrics = Some(metrics);
        let reported = TaskEvent::TaskReported { task, executor, outcome, metrics, written };
        self.apply(state, SchedulerInput::Task(reported));
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

    fn carry_out(self: &Arc<Self>, mut state: MutexGuard<'_, State>, input: SchedulerInput) {
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
            self.feed(SchedulerInput::Dag(DagEvent::JobCancelled { job, reason }));
        }
    }

    fn unlock(&self, mut state: MutexGuard<'_, State>, first: impl FnOnce()) -> Spoilt {
        let waiting = state.ready.len();
        let follows = !state.aftermath.is_empty();
        if follows {
            self.aftermath.add(&mut state.aftermath);
        }
        drop(state);
        (0..waiting).for_each(|_| self.work.notify_one());
        first();
        let spoilt = match follows {
            true => self.aftermath.settle(&|(stage, task), accumulable| {
                let at = self.now();
                let task = Some(task);
                self.post(Event::AccumulableUpdated { stage, task, accumulable, at });
            }),
            false => Vec::new(),
        };
        self.status.catch_up();
        spoilt
    }

    fn apply(self: &Arc<Self>, state: &mut State, input: SchedulerInput) {
        if state.broken {
            return;
        }
        let now = self.now();
        let mut effects = std::mem::take(&mut state.effects);
        let begun = self.observation.begin_message();
        state.scheduler.handle(now, input, &mut effects);
        self.observation.end(Observed::Message, begun);
        for effect in effects.drain(..) {
            match effect {
                SchedulerEffect::LaunchTask { task, kind, epoch } => {
                    state.launch(task, kind, epoch)
                }
                SchedulerEffect::KillTask { task, executor, reason } => {
                    state.kill(task, &reason);
                    self.place.kill(executor, task, reason);
                }
                SchedulerEffect::DeliverResult { job, index, task } => {
                    state.deliver(job, index, task)
                }
                SchedulerEffect::DeliverMapStatistics { job, bytes } => {
                    state.deliver_sizes(job, bytes)
                }
                SchedulerEffect::ApplyAccumulators { task } => state.apply_accumulators(task),
                SchedulerEffect::ReleaseTask { task } => state.release(task),
                SchedulerEffect::DiscardOutput { task } => {
                    if let Some(shuffle) = state.shuffle_of(task.task) {
                        let output = MapAttempt { map_partition: task.partition, task: task.task };
                        self.drop_map_outputs(shuffle, vec![(task.executor.into(), output)]);
                    }
                }
                SchedulerEffect::EndJob { job, result } => {
                    state.end_job(job, result.map_err(Error::from))
                }
                SchedulerEffect::PublishMapOutputs { shuffle, locations } => {
                    self.publish(shuffle, &locations);
                }
                SchedulerEffect::DropMapOutputs { shuffle, outputs } => {
                    self.drop_map_outputs(shuffle, outputs);
                }
                SchedulerEffect::DropCachedPartitions { at, rdd, epoch } => {
                    let dropped = self.drop_cached_partitions(at, rdd, epoch);
                    state.aftermath.push(Step::Drop(dropped));
                }
                SchedulerEffect::ReplicateBlocks { holder, blocks } => {
                    self.place.replicate(holder, &blocks);
                }
                SchedulerEffect::Post(event) => {
                    self.place.note_exclusion(&event);
                    state.peaks.before(&event).into_iter().for_each(|first| self.post(first));
                    self.post(event);
                }
                SchedulerEffect::ArmTimer(at) => self.arm_timer(state, at),
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
