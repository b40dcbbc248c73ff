//! What a user may set about an application on a standalone cluster.

use std::sync::Arc;

use firesteel_backend::mutant::Planted;

use crate::Incarnation;
use crate::description::ApplicationDescription;

/// The rules of an application's client.
#[derive(Clone, Debug)]
pub struct AppClientOptions {
    pub description: Arc<ApplicationDescription>,
    /// Which driver process.
    pub incarnation: Incarnation,
    /// How many masters it may register with; the shell knows their addresses.
    pub masters: usize,
    /// How long to wait for a master's answer, about.
    pub registration_wait_ms: u64,
    /// How often to ask the masters when there is no executor left to work with.
    pub registration_attempts: u32,
    /// For the simulator.
    pub planted: Planted,
}

impl AppClientOptions {
    /// Spark's rules for this application and so many masters.
    pub fn new(
        description: Arc<ApplicationDescription>,
        incarnation: Incarnation,
        masters: usize,
    ) -> Self {
        AppClientOptions {
            description,
            incarnation,
            masters,
            registration_wait_ms: 20_000,
            registration_attempts: 3,
            planted: Planted::default(),
        }
    }
}
