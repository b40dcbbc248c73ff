//! The driver's executors: who may register, who counts, when one is lost. Knows no cluster manager: it
//! orders executors over the [port](crate::provider).
//!
//! | file | decides |
//! |---|---|
//! | `core` | where messages go, when to look at the clock, how the application ends |
//! | `executors` | which executors count, when one is lost and whose fault that is |
//! | `ordered` | what a provider's word about an executor means |
//!
//! Which executors there are is kept by `roster`.
//!
//! What it decides about executors it says to the schedulers as [`RegistryEffect::Schedule`]; tasks go from the schedulers to
//! executors over [`Registry::peer`], past this core.

mod core;
mod executors;
mod options;
mod ordered;
mod roster;
#[cfg(test)]
mod tests;

pub use self::core::{Registry, RegistryEffect, RegistryEvent};
pub use options::RegistryOptions;
