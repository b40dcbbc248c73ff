//! What is known of a thread of a process.

use serde::{Deserialize, Serialize};

/// A thread, as the system tells of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadInfo {
    pub id: u64,
    pub name: String,
    /// The system's letter: `R` runs, `S` and `D` wait, `T` is stopped, `Z` is over.
    pub state: char,
    /// Processor time in the program and in the system, milliseconds.
    pub user_ms: u64,
    pub system_ms: u64,
    /// Where in the system it waits, if that is told.
    pub waits_in: Option<String>,
    /// The task that it runs, in Spark's words.
    pub task: Option<String>,
}
