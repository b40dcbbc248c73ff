//! The executor: works for one driver, and ends with it.
//!
//! It registers, runs the tasks it is told to, sends heartbeats, and ends when its driver says so,
//! refuses it, is gone or silent, or when its worker is gone. Tasks beyond its cores wait, and are given back
//! when that takes too long. How a task runs is its shell's business.

mod core;
pub mod exit;
#[cfg(test)]
mod tests;

pub use self::core::{Executor, ExecutorEffect, ExecutorEvent, ExecutorOptions, WAITED_TOO_LONG};
