//! The driver's side of a cluster: an application that is registered with a master, and executors that
//! are registered with it.
//!
//! | file | decides |
//! |---|---|
//! | `core` | where messages go, when to look at the clock, how it ends |
//! | `client` | with which master to register, when none can be had, whose word counts |
//! | `executors` | which executors count, when one is lost and whose fault that is |
//!
//! What it decides about executors it says to the schedulers as [`Effect::Schedule`]; tasks go from the
//! schedulers to executors over [`Backend::peer`], past this core.
//!
//! Architecture Invariant: an executor is lost once and for ever, whoever notices first: its connection,
//! its silence, its worker or the master (S04). Everyone who notices goes through one function.

mod client;
mod core;
mod executors;
mod options;
#[cfg(test)]
mod tests;

pub use self::core::{Backend, Effect, Event};
pub use options::BackendOptions;
