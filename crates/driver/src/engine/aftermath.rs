//! What follows from a decision but runs user code: merging accumulator updates, waking a waiter,
//! dropping results. Done after the engine's lock is let go, in the order it was decided, by one thread
//! at a time.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use firesteel_rdd::Payload;
use firesteel_rdd::accumulator::UpdateTarget;
use firesteel_types::AccumulatorId;

use super::job::ActiveJob;
use crate::Result;

/// One thing to be done.
pub(super) enum Step {
    /// Add what a task added.
    Update { id: AccumulatorId, target: Arc<dyn UpdateTarget>, update: Payload },
    /// Tell the waiter, then let the job go.
    EndJob { job: ActiveJob, result: Result<()> },
    /// Let something of the user's go.
    Drop(Box<dyn Any + Send>),
}

/// What is still to be done.
#[derive(Default)]
pub(super) struct Aftermath {
    steps: Mutex<VecDeque<Step>>,
    settling: Mutex<()>,
}

impl Aftermath {
    /// Adds steps; called under the engine's lock, so that their order is that of the decisions.
    pub(super) fn add(&self, steps: &mut Vec<Step>) {
        self.steps().extend(steps.drain(..));
    }

    /// Does everything that is to be done, or leaves it to the thread that is at it. That thread looks
    /// again after it has stopped, so that nothing is left behind.
    pub(super) fn settle(&self) {
        while !self.steps().is_empty() {
            let Ok(_settling) = self.settling.try_lock() else { return };
            while let Some(step) = self.next() {
                // User code may panic in a merge or a drop: its panic stays its own.
                if let Err(failure) = firesteel_executor::catch(|| step.run()) {
                    tracing::error!(%failure, "user code failed on the driver");
                }
            }
        }
    }

    fn next(&self) -> Option<Step> {
        self.steps().pop_front()
    }

    fn steps(&self) -> MutexGuard<'_, VecDeque<Step>> {
        self.steps.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Step {
    fn run(self) {
        match self {
            Step::Update { id, target, update } => {
                if let Err(error) = target.apply(update) {
                    tracing::error!(accumulator = id.0, %error, "accumulator update lost");
                }
            }
            Step::EndJob { job, result } => job.end(result),
            Step::Drop(value) => drop(value),
        }
    }
}
