//! The driver: [`Context`], [`Rdd`] as users hold it, and the thin shells around the schedulers.
//!
//! ```text
//!   Rdd ── action ──► Context::run_job ──► Engine (one lock around the pure schedulers)
//!                                            │ launches          ▲ reports
//!                                            ▼                   │
//!                                   worker threads ── executor::run_task
//! ```
//!
//! Architecture Invariant: nothing here decides where or when a task runs; that is the scheduler
//! crate's. Nothing here computes items; that is the rdd crate's.

mod bus;
mod context;
mod engine;
mod error;
mod files;
mod input;
mod inspect;
mod interrupt;
mod local_properties;
mod options;
mod output;
mod progress;
mod rdd;
mod sources;

pub use bus::Listener;
pub use context::{Builder, Context};
pub use error::{Error, Result};
pub use input::TextOptions;
pub use rdd::{By, IntoPartitioner, JobFuture, Rdd, SaveOptions, Total, With};
