//! Properties of the jobs that a thread submits (group, description, pool, tags), and the future they
//! belong to. Kept per thread and context, as Spark keeps them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use firesteel_types::{JobId, Properties};

/// What a thread has set for its jobs.
#[derive(Clone, Default)]
pub(crate) struct LocalProperties {
    pub(crate) job: Properties,
    pub(crate) future: Option<Arc<FutureJobs>>,
}

/// The jobs of one asynchronous action.
#[derive(Default)]
pub(crate) struct FutureJobs(Mutex<Jobs>);

#[derive(Default)]
struct Jobs {
    submitted: Vec<JobId>,
    cancelled: Option<String>,
}

impl FutureJobs {
    /// Why no further job is to be started, if the action was cancelled.
    pub(crate) fn cancelled(&self) -> Option<String> {
        self.lock().cancelled.clone()
    }

    /// Adds a job; the reason if the action was cancelled before.
    pub(crate) fn add(&self, job: JobId) -> Option<String> {
        let mut jobs = self.lock();
        jobs.submitted.push(job);
        jobs.cancelled.clone()
    }

    /// Marks the action cancelled; its jobs so far.
    pub(crate) fn cancel(&self, reason: &str) -> Vec<JobId> {
        let mut jobs = self.lock();
        jobs.cancelled.get_or_insert_with(|| reason.to_owned());
        jobs.submitted.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Jobs> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

thread_local! {
    static PROPERTIES: RefCell<BTreeMap<u64, LocalProperties>> = const { RefCell::new(BTreeMap::new()) };
}

/// This thread's properties for a context.
pub(crate) fn get(context: u64) -> LocalProperties {
    PROPERTIES.with_borrow(|all| all.get(&context).cloned().unwrap_or_default())
}

/// Changes this thread's properties for a context.
pub(crate) fn change(context: u64, change: impl FnOnce(&mut LocalProperties)) {
    PROPERTIES.with_borrow_mut(|all| change(all.entry(context).or_default()));
}
