//! What a user may set about an application on a standalone cluster.

use std::sync::Arc;

use firesteel_backend::mutant::Planted;

use crate::Incarnation;
use crate::description::ApplicationDescription;

/// The rules of an application's client.
#[derive(Clone, Debug)]
pub struct AppClientOptions {
    pub description: Arc<ApplicationDescription>,
    /// Tells this driver process from others of the same application.
    pub incarnation: Incarnation,
    /// How many masters it may register with; the shell knows their addresses.
    pub masters: usize,
    /// How long an attempt to register lasts, about.
    pub registration_wait_ms: u64,
    /// How long it waits for an answer before it asks again, about, in the first attempt; from then on twice as long each time.
    pub first_wait_ms: u64,
    /// How many attempts it makes when there is no executor left to work with.
    pub registration_attempts: u32,
    /// Mistakes that the simulator plants; none in production.
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
            first_wait_ms: 500,
            registration_attempts: 3,
            planted: Planted::default(),
        }
    }
}
