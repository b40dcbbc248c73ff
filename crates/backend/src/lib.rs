//! A driver and its executors, under any cluster manager: which executors count, when one is lost and whose fault that
//! is. Sockets, processes and clocks are the shells' business.
//!
//! | module | owns |
//! |---|---|
//! | [`registry`] | the driver's side: registration, heartbeats, loss, exclusion; knows no cluster manager |
//! | [`provider`] | the port that cluster managers plug into: plain data, both ways |
//! | [`executor`] | the executor's side: when it runs tasks, and when it ends |
//! | [`fetch`] | how its tasks get the map outputs that they read |
//! | [`blame`] | whose fault an executor's end is |
//! | [`protocol`] | what driver and executor say to each other |
//! | [`numbers`] | which number the next executor has |
//! | [`timer`] | when a core is woken next, for its shell |
//! | [`command`] | how an executor is started |
//! | [`log_url`] | where its output is read, by a pattern |
//! | [`wire`] | how all this travels |
//!
//! Architecture Invariant: an executor is lost once and for ever (S04). A broken connection, missing heartbeats and the
//! word of its cluster manager all go through one function of the registry; the first of them counts.

pub mod blame;
pub mod command;
pub mod executor;
pub mod fetch;
pub mod id;
pub mod jitter;
pub mod log_url;
pub mod mutant;
pub mod numbers;
pub mod protocol;
pub mod provider;
pub mod registry;
pub mod timer;
pub mod wire;

pub use id::{Address, AppId, Peer};
