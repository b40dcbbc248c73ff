//! What a user may set about an application's executors.

use crate::mutant::Planted;

/// The rules of a registry.
#[derive(Clone, Debug)]
pub struct RegistryOptions {
    /// The hash of the driver's executable, which executors must have too.
    pub hash: Option<[u8; 32]>,
    /// How many executors are wanted at first; `None`: as many as the cluster manager gives.
    pub target: Option<u32>,
    /// `spark.network.timeout`: how long an executor may be silent.
    pub network_timeout_ms: u64,
    /// How long to wait for word of why an executor's connection broke.
    pub reason_wait_ms: u64,
    /// Mistakes that the simulator plants; none in production.
    pub planted: Planted,
}

impl Default for RegistryOptions {
    /// Spark's rules.
    fn default() -> Self {
        RegistryOptions {
            hash: None,
            target: None,
            network_timeout_ms: 120_000,
            reason_wait_ms: 2_000,
            planted: Planted::default(),
        }
    }
}
