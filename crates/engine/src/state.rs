//! What the engine's lock protects: the schedulers, and what their effects speak of by id.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use firesteel_scheduler::messages::{DagOptions, TaskOptions, TaskSetKind};
use firesteel_scheduler::{Scheduler, SchedulerEffect};
use firesteel_task::{KillSwitch, Payload, TaskReport, UpdateTarget};
use firesteel_types::{
    AccumulatorId, ExecutorMetrics, JobId, ShuffleId, TaskId, TaskInfo, TaskOutcome, Tick,
};

use super::ShuffleHandle;
use super::aftermath::{Step, Update};
use super::job::{ActiveJob, StageCode};
use crate::Result;
use crate::heartbeat::StagePeaks;

/// A task for a worker.
pub(super) struct Launch {
    pub(super) task: TaskInfo,
    pub(super) code: Arc<StageCode>,
    pub(super) kill: Arc<KillSwitch>,
    /// Where map outputs lie must be known at least as of this.
    pub(super) epoch: u64,
    /// Its executor must know what is outdated of cached RDDs, up to this number.
    pub(super) outdated: u64,
}

/// A task that a worker thread or an executor has, until it reports the end.
pub(super) struct Running {
    pub(super) info: TaskInfo,
    pub(super) kill: Arc<KillSwitch>,
    /// The job that its result is for, unless it writes map outputs.
    pub(super) job: Option<JobId>,
    /// The shuffle whose map output it writes, if it does.
    pub(super) shuffle: Option<ShuffleId>,
    /// The most that this process used while it ran here, if anybody looked.
    pub(super) peak: Option<Box<ExecutorMetrics>>,
}

/// A successful task's output and accumulator updates, until the schedulers say what counts.
pub(super) struct Output {
    pub(super) value: Payload,
    pub(super) updates: Vec<(AccumulatorId, Payload)>,
    /// Whose output it is; `None` if the task was killed or its executor lost meanwhile.
    pub(super) of: Option<Running>,
}

pub(super) struct State {
    pub(super) scheduler: Scheduler,
    pub(super) effects: Vec<SchedulerEffect>,
    pub(super) ready: VecDeque<Launch>,
    pub(super) jobs: BTreeMap<JobId, ActiveJob>,
    pub(super) shuffles: BTreeMap<ShuffleId, Weak<ShuffleHandle>>,
    pub(super) accumulators: BTreeMap<AccumulatorId, Weak<dyn UpdateTarget>>,
    pub(super) outputs: BTreeMap<TaskId, Output>,
    pub(super) running: BTreeMap<TaskId, Running>,
    /// What executors used while the stages did that run now.
    pub(super) peaks: StagePeaks,
    pub(super) timers: BTreeSet<Tick>,
    pub(super) timer_running: bool,
    pub(super) threads: Vec<JoinHandle<()>>,
    pub(super) stopped: bool,
    /// Why no job can be run any more, though the context was not stopped.
    pub(super) ended: Option<String>,
    /// A panic left the schedulers in a state that must not be looked at again.
    pub(super) broken: bool,
    /// To be done after the lock is let go.
    pub(super) aftermath: Vec<Step>,
    next_job: u32,
}

impl State {
    pub(super) fn new(dag: DagOptions, tasks: TaskOptions) -> Self {
        State {
            scheduler: Scheduler::new(dag, tasks),
            effects: Vec::new(),
            ready: VecDeque::new(),
            jobs: BTreeMap::new(),
            shuffles: BTreeMap::new(),
            accumulators: BTreeMap::new(),
            outputs: BTreeMap::new(),
            running: BTreeMap::new(),
            ended: None,
            peaks: StagePeaks::default(),
            timers: BTreeSet::new(),
            timer_running: false,
            threads: Vec::new(),
            stopped: false,
            broken: false,
            aftermath: Vec::new(),
            next_job: 0,
        }
    }

    pub(super) fn next_job(&mut self) -> JobId {
        let job = JobId(self.next_job);
        self.next_job += 1;
        job
    }

    pub(super) fn launch(&mut self, task: TaskInfo, kind: TaskSetKind, epoch: u64) {
        let (code, job, shuffle) = match kind {
            TaskSetKind::Result(job) => {
                (self.jobs.get(&job).and_then(|job| job.code.clone()), Some(job), None)
            }
            TaskSetKind::ShuffleMap(shuffle) => {
                let kept = self.shuffles.get(&shuffle).and_then(Weak::upgrade);
                (kept.map(|kept| kept.code.clone()), None, Some(shuffle))
            }
        };
        let code = code.expect("a task's job keeps the code of all its stages alive");
        let kill = Arc::new(KillSwitch::default());
        let running = Running { info: task.clone(), kill: kill.clone(), job, shuffle, peak: None };
        self.running.insert(task.task, running);
        let outdated = self.scheduler.blocks().outdated_number();
        self.ready.push_back(Launch { task, code, kill, epoch, outdated });
    }

    pub(super) fn kill(&mut self, task: TaskId, reason: &str) {
        if let Some(running) = self.running.get(&task) {
            running.kill.throw(reason);
        }
    }

    /// Turns a report into a failure where its output is too much for its job.
    pub(super) fn admit(&mut self, task: TaskId, report: &mut TaskReport, bytes: u64, limit: u64) {
        let job = self.running.get(&task).and_then(|running| running.job);
        let Some(job) = job.and_then(|job| self.jobs.get_mut(&job)) else { return };
        if !matches!(report.outcome, TaskOutcome::Success) {
            return;
        }
        if let Err(failure) = job.admit(bytes, limit) {
            let metrics = std::mem::take(&mut report.metrics);
            let failed = TaskReport { metrics, ..TaskReport::failed(failure) };
            let refused = std::mem::replace(report, failed);
            self.aftermath.push(Step::Drop(Box::new((refused.output, refused.updates))));
        }
    }

    pub(super) fn deliver(&mut self, job: JobId, index: u32, task: TaskId) {
        let Some(output) = self.outputs.get_mut(&task) else { return };
        let output = std::mem::replace(&mut output.value, Payload::Encoded(Vec::new()));
        let unwanted = match self.jobs.get(&job) {
            Some(job) => job.deliver(index, output),
            None => Some(output),
        };
        // It is the user's: what its end does, it does not do under the lock.
        self.aftermath.extend(unwanted.map(|output| Step::Drop(Box::new(output))));
    }

    /// Hands the sizes of map outputs to the job that wanted them.
    pub(super) fn deliver_sizes(&mut self, job: JobId, bytes: Vec<u64>) {
        if let Some(job) = self.jobs.get(&job) {
            drop(job.deliver(0, Payload::Typed(Box::new(bytes))));
        }
    }

    pub(super) fn apply_accumulators(&mut self, task: TaskId) {
        let Some(output) = self.outputs.get_mut(&task) else { return };
        let updates = std::mem::take(&mut output.updates);
        if updates.is_empty() {
            return;
        }
        let jobs = match &output.of {
            None => Vec::new(),
            Some(Running { job: Some(job), .. }) => vec![*job],
            Some(Running { info, .. }) => self.scheduler.jobs_of(info.stage.stage),
        };
        let of = output.of.as_ref().map(|running| (running.info.stage, task));
        for (id, update) in updates {
            if let Some(target) = self.accumulators.get(&id).and_then(Weak::upgrade) {
                let jobs = jobs.clone();
                self.aftermath.push(Step::Update(Update { id, target, update, jobs, of }));
            }
        }
    }

    /// The shuffle that a task wrote an output of, if what it brought is here.
    pub(super) fn shuffle_of(&self, task: TaskId) -> Option<ShuffleId> {
        self.outputs.get(&task)?.of.as_ref()?.shuffle
    }

    pub(super) fn release(&mut self, task: TaskId) {
        match self.outputs.remove(&task) {
            // Delivered, or nothing a user could have made.
            None => {}
            Some(Output { value, updates, .. }) => {
                let plain = match &value {
                    Payload::Encoded(_) => true,
                    Payload::Typed(value) => value.is::<()>(),
                };
                let encoded = |(_, update): &(_, Payload)| matches!(update, Payload::Encoded(_));
                if !plain || !updates.iter().all(encoded) {
                    self.aftermath.push(Step::Drop(Box::new((value, updates))));
                }
            }
        }
    }

    /// Whether tasks run whose results nobody waits for.
    pub(super) fn has_tasks_of_ended_jobs(&self) -> bool {
        let is_over = |job: &JobId| !self.jobs.contains_key(job);
        !self.stopped && self.running.values().any(|task| task.job.as_ref().is_some_and(is_over))
    }

    pub(super) fn end_job(&mut self, job: JobId, result: Result<()>) {
        if let Some(job) = self.jobs.remove(&job) {
            self.aftermath.push(Step::EndJob { job, result });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    struct Dropped(Arc<AtomicBool>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_result_whose_job_is_gone_is_dropped_after_the_lock_is_let_go() {
        let mut state = State::new(DagOptions::default(), TaskOptions::default());
        let dropped = Arc::new(AtomicBool::new(false));
        let value = Payload::Typed(Box::new(Dropped(dropped.clone())));
        state.outputs.insert(TaskId(1), Output { value, updates: Vec::new(), of: None });
        state.deliver(JobId(7), 0, TaskId(1));
        assert!(!dropped.load(Ordering::Relaxed), "under the lock");
        state.aftermath.clear();
        assert!(dropped.load(Ordering::Relaxed));
    }
}
