//! What a user may set about an application on a cluster.

use std::sync::Arc;

use crate::Incarnation;
use crate::description::ApplicationDescription;
use crate::mutant::Planted;

/// The rules of an application's backend.
#[derive(Clone, Debug)]
pub struct BackendOptions {
    /// What it asks for.
    pub description: Arc<ApplicationDescription>,
    /// Which driver process.
    pub incarnation: Incarnation,
    /// How many masters it may register with; the shell knows their addresses.
    pub masters: usize,
    /// The hash of its executable, which executors must have too.
    pub hash: Option<[u8; 32]>,
    /// How long to wait for a master's answer, about.
    pub registration_wait_ms: u64,
    /// How often to ask the masters when there is no executor left to work with.
    pub registration_attempts: u32,
    /// `spark.network.timeout`: how long an executor may be silent.
    pub network_timeout_ms: u64,
    /// How long to wait for word of why an executor's connection broke.
    pub reason_wait_ms: u64,
    /// For the simulator.
    pub planted: Planted,
}

impl BackendOptions {
    /// Spark's rules for this application and so many masters.
    pub fn new(
        description: Arc<ApplicationDescription>,
        incarnation: Incarnation,
        masters: usize,
    ) -> Self {
        BackendOptions {
            description,
            incarnation,
            masters,
            hash: None,
            registration_wait_ms: 20_000,
            registration_attempts: 3,
            network_timeout_ms: 120_000,
            reason_wait_ms: 2_000,
            planted: Planted::default(),
        }
    }
}
