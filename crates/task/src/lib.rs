//! The border of what runs in an executor. On one side are front doors, which bring [`TaskBody`]s: `rdd` is one,
//! others may stand beside it. On the other side are executors and the engine, which run bodies they know nothing of.
//!
//! ```text
//!  executor ── TaskContext::new(identity, kill, environment) ──► TaskBody::run(&context)
//!      ▲                                                          │ reads and writes blocks through Environment
//!      └────────────── TaskReport<Payload or bytes> ◄─────────────┘ fails by unwinding: fail, fail_with, fail_for_good
//! ```
//!
//! A body that goes to another process writes the name of a function that rebuilds it ([`TaskBody::encode`]); both
//! processes run the same executable.

#![warn(missing_docs)]

mod accumulator;
mod body;
mod broadcast;
mod context;
mod environment;
mod failure;
mod kill;
mod report;
mod shuffle;
mod spark_files;

pub use accumulator::{Accumulate, Accumulator, Shown, Update, UpdateTarget};
pub use body::{Payload, TaskBody, decode_body};
pub use broadcast::{Broadcast, BroadcastOwner};
pub use context::{TaskContext, TaskIdentity};
pub use environment::{Environment, FetchedSlice, MapOutputs};
pub use failure::{OrFail, fail, fail_for_good, fail_with};
pub use kill::KillSwitch;
pub use report::TaskReport;
pub use shuffle::{ShuffleReader, fail_unreadable};
pub use spark_files::SparkFiles;
