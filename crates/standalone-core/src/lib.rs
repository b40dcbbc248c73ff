//! The standalone cluster's decisions: what master, worker and an application's client do about every message, loss and
//! timeout. Sockets, processes, clocks and files are their shells' business.
//!
//! | module | decides |
//! |---|---|
//! | [`master`] | who may join, which executor and which driver runs where, when an application is over |
//! | [`worker`] | with which master to register, which processes to start and end, what to report |
//! | [`application`] | the driver's side: registration with a master; a provider of executors |
//!
//! [`messages`] are those between them, [`description`] the nouns in these, [`wire`] how they
//! travel, [`json`] the master's state as its `/json/` page shows it.
//!
//! Architecture Invariant: a message that is lost, late, repeated or overtaken does no harm. Every
//! message of a master carries its term, every message between master and worker the worker's
//! registration, every report of a worker a number; what is stale is dropped and counted. Heartbeats
//! carry the whole state, so a lost message heals.

pub mod application;
pub mod date;
pub mod description;
pub mod id;
pub mod json;
mod leaders;
pub mod master;
pub mod messages;
pub mod wire;
pub mod worker;

pub use id::{DriverId, ExecutorKey, Incarnation, Registration, Term, WorkerId};
