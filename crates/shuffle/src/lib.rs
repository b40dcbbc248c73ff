//! Map outputs: what one map task writes and its readers read.
//!
//! ```text
//!  Buckets (one buffer per reduce partition, while the map task runs)
//!      │ finish
//!      ▼
//!  MapOutput: [ records for 0 | records for 1 | ... ]  + index of offsets and counts
//!      │ slice(reduce)
//!      ▼
//!  Records<T>: decodes one record after the other
//! ```
//!
//! Records are encoded with postcard whatever the transport, so that a block can go to another
//! process as it is. This crate knows bytes and records, not pipelines, tasks or where blocks lie.

mod buckets;
mod output;
mod records;

pub use buckets::Buckets;
pub use output::{MapOutput, Slice};
pub use records::Records;
