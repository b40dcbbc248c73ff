//! A standalone cluster's processes: the shells around the cores of `firesteel-standalone-core`.
//!
//! | module | acts for |
//! |---|---|
//! | [`master`] | the master's core: its port, its page, its clock |
//! | [`worker`] | the worker's core: the same, and executors and drivers as child processes |
//!
//! Nothing is decided here. An event is fed to the core, its effects are carried out in order under one
//! lock, and what takes time (a process that runs, a directory that is removed) is a task that feeds
//! the next event. Both need a tokio runtime with IO and time; the worker's children are spawned on the
//! runtime's threads.

mod alarm;
mod error;
pub mod fuzzing;
pub mod master;
mod page;
mod web;
pub mod worker;

pub use error::StartError;
