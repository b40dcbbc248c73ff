//! An application's client of the masters: the standalone cluster's provider of executors.
//!
//! | file | decides |
//! |---|---|
//! | `core` | where messages and commands go, when to look at the clock |
//! | `masters` | with which master to register, when none can be had, whose word counts |
//! | `executors` | executors, between the driver's registry and the master |
//!
//! It speaks the port of [`firesteel_backend::provider`] to the registry and the messages of [`crate::messages`] to masters.

mod core;
mod executors;
mod masters;
mod options;
#[cfg(test)]
mod tests;

pub use self::core::{AppClient, AppClientEffect, AppClientEvent};
pub use options::AppClientOptions;
