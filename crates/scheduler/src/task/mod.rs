//! The task scheduler: which task of which set runs on which executor, and what its end means.
//!
//! ```text
//!                 sets in pool order (pool)      executors with free cores (executors)
//!                            │                              │
//!   TaskEvent ──► core ──► offer ── pick a task (set, locality, speculation, exclusion)
//!                   │        ├────► LaunchTask, ArmTimer
//!                   │        └ pipelining: short tasks for executors without a free core
//!                   └──► ending ──► TaskEnded, TaskSetFailed, KillTask, DiscardTask
//! ```
//!
//! What is decided upon has one owner each, which keeps its counts and indexes: `executors`, `attempts`, `set_table` with
//! `set`, `slots` and `locality`, `pool`, `exclusion`, `losses`, `openings`, `round` (who is made offers) and `timer`.
//!
//! Deciding only. It reads no clock, keeps no task's code or output, and talks to nobody: the shell
//! feeds events and carries out effects in order.
//!
//! Architecture Invariant: a launch and an end cost O(log n) in running attempts and executors,
//! whatever the size of the set. Only rare events (an executor comes or goes, a set is submitted or
//! cancelled) may walk a list of tasks.

mod attempts;
mod audit;
mod core;
mod ending;
mod exclusion;
mod executors;
mod locality;
mod losses;
mod offer;
mod openings;
mod pipelining;
mod pool;
mod round;
mod set;
mod set_table;
mod slots;
mod speculation;
mod timer;

#[cfg(test)]
mod tests;

pub use core::TaskScheduler;
