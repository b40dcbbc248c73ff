//! The worker: registers with a master, starts and ends the processes it is told to, reports on them.
//!
//! | file | decides |
//! |---|---|
//! | `core` | where messages and exits go, when to look at the clock |
//! | `registration` | with whom to register, how often to try, whose orders count |
//! | `executors` | executors' processes: when there is capacity, how they ended |
//! | `drivers` | drivers' processes: the same, and starting them again |
//! | `lease` | how long supervised drivers may run without a word of a master |
//! | `download` | from whom to fetch an executable or a file |
//!
//! What runs and what ended is kept by `executor_table` and `driver_table`, what was ever ordered by `state`.
//!
//! It starts no process itself and touches no file: its shell does, and tells how processes end.
//!
//! Architecture Invariant: what runs never takes more than the worker offers, whatever the master
//! believes (S02): an order that finds no capacity waits until something ends.

mod core;
mod download;
mod driver_table;
mod drivers;
mod executor_table;
mod executors;
mod lease;
mod options;
mod registration;
mod state;
#[cfg(test)]
mod tests;

pub use self::core::{Worker, WorkerEffect, WorkerEvent};
pub use download::{Download, DownloadOptions, GivenUp, NextRead, ReadEnd, SourceKind};
pub use options::{CleanUp, WorkerOptions};
