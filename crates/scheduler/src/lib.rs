//! The schedulers' decisions, and nothing else.
//!
//! Two deterministic state machines, each `handle(now, event, &mut effects)`: the DAG scheduler
//! (jobs into stages, stages into task sets) and the task scheduler (task sets onto executors). The
//! first decides by the block master, which knows where blocks lie. A shell owns them, feeds events and
//! carries out effects in order.
//!
//! Architecture Invariant: no clock, no randomness, no IO, no threads, no locks, no hash-map
//! iteration in this crate; the same events at the same ticks give the same effects.

pub mod blocks;
pub mod dag;
pub mod messages;
pub mod mutant;
mod scheduler;
pub mod task;

pub use scheduler::{Scheduler, SchedulerEffect, SchedulerInput};
