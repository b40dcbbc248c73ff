//! What follows from a decision but runs user code: merging accumulator updates, waking a waiter,
//! dropping results. Done after the engine's lock is let go, in the order it was decided, by one thread
//! at a time.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use firesteel_task::{Payload, Shown, UpdateTarget};
use firesteel_types::{Accumulable, AccumulatorId, JobId, StageRef, TaskFailure, TaskId};

use super::job::ActiveJob;
use crate::{Error, Result};

/// One thing to be done.
pub(super) enum Step {
    /// Add what a task added.
    Update(Update),
    /// Tell the waiter, then let the job go.
    EndJob { job: ActiveJob, result: Result<()> },
    /// Let something of the user's go.
    Drop(Box<dyn Any + Send>),
}

/// What a task of these jobs added to an accumulator.
pub(super) struct Update {
    pub(super) id: AccumulatorId,
    pub(super) target: Arc<dyn UpdateTarget>,
    pub(super) update: Payload,
    pub(super) jobs: Vec<JobId>,
    /// Whose it is, for listeners.
    pub(super) of: Option<(StageRef, TaskId)>,
}

/// What is still to be done.
#[derive(Default)]
pub(super) struct Aftermath {
    steps: Mutex<VecDeque<Step>>,
    settling: Mutex<()>,
    /// Jobs that an accumulator misses something of, and why; until they end.
    spoilt: Mutex<BTreeMap<JobId, Error>>,
}

/// Jobs that cannot end well any more, and why.
pub(super) type Spoilt = Vec<(JobId, Error)>;

impl Aftermath {
    /// Adds steps; called under the engine's lock, so that their order is that of the decisions.
    pub(super) fn add(&self, steps: &mut Vec<Step>) {
        self.steps().extend(steps.drain(..));
    }

    /// Does everything that is to be done, or leaves it to the thread that is at it. That thread looks
    /// again after it has stopped, so that nothing is left behind. Gives back jobs that have to be ended.
    pub(super) fn settle(&self, tell: &dyn Fn((StageRef, TaskId), Accumulable)) -> Spoilt {
        let mut spoilt = Vec::new();
        while !self.steps().is_empty() {
            let Ok(_settling) = self.settling.try_lock() else { return spoilt };
            while let Some(step) = self.next() {
                self.take(step, tell, &mut spoilt);
            }
        }
        spoilt
    }

    /// User code may panic in a merge or a drop: its panic ends no thread of the engine's. A job whose additions
    /// are lost does not end well.
    fn take(
        &self,
        step: Step,
        tell: &dyn Fn((StageRef, TaskId), Accumulable),
        spoilt: &mut Spoilt,
    ) {
        let failed = |result: Result<(), TaskFailure>| {
            if let Err(failure) = result {
                tracing::error!(%failure, "user code failed on the driver");
            }
        };
        match step {
            Step::Update(Update { id, target, update, jobs, of }) => {
                let applied = firesteel_executor::catch(|| target.apply(update));
                let reason = match applied {
                    Ok(Ok(shown)) => {
                        if let Some((of, Shown { name, update, value })) = of.zip(shown) {
                            tell(of, Accumulable { id, name, update, value });
                        }
                        return;
                    }
                    Ok(Err(error)) => error.to_string(),
                    Err(failure) => failure.to_string(),
                };
                tracing::error!(accumulator = id.0, reason, "accumulator update lost");
                let error = Error::Accumulator { id: id.0, reason };
                spoilt.extend(jobs.iter().map(|job| (*job, error.clone())));
                self.spoilt().extend(jobs.into_iter().map(|job| (job, error.clone())));
            }
            Step::EndJob { job, result } => {
                let result = self.spoilt().remove(&job.id()).map_or(result, Err);
                failed(firesteel_executor::catch(|| job.end(result)));
            }
            Step::Drop(value) => failed(firesteel_executor::catch(|| drop(value))),
        }
    }

    fn spoilt(&self) -> MutexGuard<'_, BTreeMap<JobId, Error>> {
        self.spoilt.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn next(&self) -> Option<Step> {
        self.steps().pop_front()
    }

    fn steps(&self) -> MutexGuard<'_, VecDeque<Step>> {
        self.steps.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
