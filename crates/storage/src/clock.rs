//! Ticks: milliseconds since 1970 as they were when the process started, and steadily on from there.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use firesteel_types::Tick;

/// Never jumps, whatever somebody sets the machine's clock to.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started_ms: u64,
    started: Instant,
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    pub fn new() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started_ms: since.as_millis() as u64, started: Instant::now() }
    }

    pub fn now(&self) -> Tick {
        Tick(self.started_ms + self.started.elapsed().as_millis() as u64)
    }

    /// How long it is until then; nothing if that is over.
    pub fn until(&self, at: Tick) -> Duration {
        Duration::from_millis(at.0.saturating_sub(self.now().0))
    }
}
