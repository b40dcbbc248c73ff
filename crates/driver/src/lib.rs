//! The RDD API: [`Context`], [`Rdd`] as users hold it, actions, output commit. A front door of the engine.
//!
//! ```text
//!   Rdd ── action ──► ResultBody, lineage ──► Engine::submit ──► JobWaiter::wait ──► results by partition
//! ```
//!
//! Architecture Invariant: nothing here runs tasks or knows where they run; that is the engine's. Nothing here
//! computes items; that is the rdd crate's.

#![warn(missing_docs)]

mod context;
mod error;
mod input;
mod inspect;
mod interrupt;
mod local_properties;
mod monitoring;
mod output;
mod progress;
mod rdd;
mod scope;
mod sources;
mod status_tracker;
mod user_code;

pub use context::{Builder, Context};
pub use error::{Error, Result};
pub use firesteel_engine::Listener;
pub use input::TextOptions;
pub use rdd::{By, IntoPartitioner, JobFuture, Key, Rdd, SaveOptions, SortKey, Total, With};
pub use status_tracker::{ExecutorSummary, JobSummary, StageSummary, StatusTracker};
