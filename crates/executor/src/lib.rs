//! Runs tasks: in the threads of this process, or in a child process of the same executable.
//!
//! A program that links this crate contains an executor: started with `FIRESTEEL_ROLE=executor` it
//! becomes one before `main`, and no line of the user's program runs except its tasks.
//!
//! This crate never schedules; it runs what it is given and reports how that ended.

#![warn(missing_docs)]

pub mod child;
mod environment;
pub mod log;
#[cfg(feature = "cluster")]
pub mod node;
mod options;
mod panics;
mod protocol;
mod runner;
mod survey;
mod threads;
mod timing;
mod usage;
pub mod variables;

pub use environment::{Inbox, LocalEnvironment};
pub use options::{STACK_BYTES, codec_if};
pub use panics::{catch, drop_guarded};
pub use protocol::{Forgotten, FromChild, ToChild, read_frame, write_frame};
pub use runner::{run_encoded, run_task};
pub use threads::threads;
pub use usage::usage;

firesteel_closure::before_main!(if crate::child::is_executor => crate::child::take_over);
