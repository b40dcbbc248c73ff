//! What a user may set about a worker.

use firesteel_backend::mutant::Planted;

use crate::description::WorkerDescription;

/// `spark.worker.cleanup.*`
#[derive(Clone, Copy, Debug)]
pub struct CleanUp {
    /// `...interval`: how often to look.
    pub interval_ms: u64,
    /// `...appDataTtl`: how old a directory has to be.
    pub age_ms: u64,
}

/// The rules of a worker.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// As it introduces itself.
    pub description: WorkerDescription,
    /// How many masters it may register with; the shell knows their addresses.
    pub masters: usize,
    /// `spark.worker.initialRegistrationRetries`: attempts in quick succession.
    pub fast_attempts: u32,
    /// How long to wait between those, about.
    pub fast_wait_ms: u64,
    /// How long to wait before it asks again for the first time, about; twice as long each time after that, up to
    /// `fast_wait_ms`.
    pub first_wait_ms: u64,
    /// `spark.worker.maxRegistrationRetries`: attempts in all, of a worker that runs nothing and that no master answers.
    pub max_attempts: u32,
    /// How long to wait between the later ones, about.
    pub slow_wait_ms: u64,
    /// `spark.worker.cleanup.enabled` and its settings, if on.
    pub clean_up: Option<CleanUp>,
    /// Mistakes that the simulator plants; none in production.
    pub planted: Planted,
}

impl WorkerOptions {
    /// Spark's rules for this worker and so many masters.
    pub fn new(description: WorkerDescription, masters: usize) -> Self {
        WorkerOptions {
            description,
            masters,
            fast_attempts: 6,
            fast_wait_ms: 10_000,
            first_wait_ms: 500,
            max_attempts: 16,
            slow_wait_ms: 60_000,
            clean_up: None,
            planted: Planted::default(),
        }
    }
}
