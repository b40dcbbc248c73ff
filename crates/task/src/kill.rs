//! How a task is asked to end.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends the task at its next step, from any thread.
#[derive(Debug, Default)]
pub struct KillSwitch {
    thrown: AtomicBool,
    reason: Mutex<Option<String>>,
}

impl KillSwitch {
    /// Asks the task to end. The first reason stays.
    pub fn throw(&self, reason: &str) {
        let mut kept = self.reason.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        kept.get_or_insert_with(|| reason.to_owned());
        self.thrown.store(true, Ordering::Release);
    }

    /// Whether the task was asked to end.
    #[inline]
    pub fn is_thrown(&self) -> bool {
        self.thrown.load(Ordering::Relaxed)
    }

    /// The reason, if the task was asked to end.
    pub fn thrown(&self) -> Option<String> {
        if !self.is_thrown() {
            return None;
        }
        self.reason.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}
