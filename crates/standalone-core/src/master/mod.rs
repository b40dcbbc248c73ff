//! The master: who belongs to the cluster, and what runs where.
//!
//! ```text
//!   Received, PeerDisconnected, Ticked, Elected, Deposed
//!        │
//!        ▼                ┌ workers    registration, reports, loss
//!      core ──────────────┼ apps       registration, heartbeats, end
//!        │                ├ executors  reports, failures in a row, end
//!        │                ├ drivers    submission, end, another one in its place
//!        │                ├ decommission  workers that get nothing more to do
//!        │                └ recovery   election, what those before it knew, the end of its term
//!        ▼
//!     schedule ── placement: drivers first, then executors, first come first served
//! ```
//!
//! These decide. What they decide upon has one owner each, which keeps its books: `worker_table`, `app_table` with
//! `application` and `launches`, `driver_table`, `leadership`, `agenda` (what falls due when) and `ids`. What has to outlive
//! the master is in `records`.
//!
//! It starts no process and knows no socket: a [`Peer`](firesteel_backend::Peer) is a number of its shell's.
//!
//! Architecture Invariant: what an executor or a driver holds on a worker is free again when the worker
//! says that its process ended, or when the worker is declared dead; never because its end was asked for
//! (S01, S02).
//!
//! Architecture Invariant: nothing is concluded from what a worker does not mention, but that an order
//! did not reach it, and then the order is repeated.

mod agenda;
mod app_table;
mod application;
mod apps;
mod core;
mod decommission;
#[cfg(test)]
mod decommission_tests;
mod driver_table;
mod drivers;
mod executors;
#[cfg(test)]
mod fence_tests;
mod ids;
mod launches;
mod leadership;
mod options;
mod peers;
pub mod placement;
mod records;
mod recovery;
#[cfg(test)]
mod recovery_tests;
mod schedule;
mod state;
#[cfg(test)]
mod tests;
mod view;
mod worker_table;
mod workers;

pub use self::core::{Master, MasterEffect, MasterEvent};
pub use options::MasterOptions;
pub use records::{
    ApplicationRecord, Change, DriverRecord, ExecutorRecord, Fence, Records, WorkerRecord,
};
pub use state::{ApplicationState, RecoveryState, WorkerStatus};
pub use view::{ApplicationView, DriverView, ExecutorView, MasterView, WorkerView};
