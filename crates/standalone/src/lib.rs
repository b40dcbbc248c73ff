//! A standalone cluster's processes: the shells around the cores of `firesteel-standalone-core`.
//!
//! | module | acts for |
//! |---|---|
//! | [`master`] | the master's core: its port, its page, its clock |
//! | [`worker`] | the worker's core: the same, and executors and drivers as child processes |
//! | [`gateway`] | a client that has drivers run by a master |
//!
//! `store` keeps what was uploaded to a master, `executable` tells whether a program is the one that was meant, and `partial` is
//! a file of which more is to come.
//!
//! Nothing is decided here. An event is fed to the core, its effects are carried out in order under one
//! lock, and what takes time (a process that runs, a directory that is removed) is a task that feeds
//! the next event. Both need a tokio runtime with IO and time; the worker's children are spawned on the
//! runtime's threads.

mod access;
mod alarm;
mod error;
mod executable;
mod forward;
pub mod fuzzing;
pub mod gateway;
mod listing;
pub mod master;
mod page;
mod partial;
mod store;
mod token;
mod updates;
mod web;
pub mod worker;

pub use error::StartError;
pub use page::{
    Cell, Column, Drawing, KillForm, Live, Order, Sheet, Table, TablePages, TableSearch, draw_with,
};
pub use store::{Content, NoContent};
pub use token::{TokenKey, TokenKeyError};
