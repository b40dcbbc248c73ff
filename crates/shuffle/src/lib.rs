//! Map outputs: what one map task writes and its readers read.
//!
//! ```text
//!  Buckets (one buffer per reduce partition; spilled to files when memory is short)
//!      │ finish
//!      ▼
//!  MapOutput: [ records for 0 | records for 1 | ... ]  + index, in memory or in a file of blocks
//!      │ slice(reduce)
//!      ▼
//!  Records<T>: decodes one record after the other
//! ```
//!
//! Records are encoded with postcard whatever the transport, so that a block can go to another
//! process as it is. This crate knows bytes and records, not pipelines or tasks' code.

mod buckets;
mod checksum;
mod codec;
mod error;
mod framed;
mod index;
mod output;
mod records;
mod run;
mod scratch;
pub mod spilled;
mod travel;
mod verify;

pub use buckets::Buckets;
pub use checksum::Compared;
pub use codec::Codec;
pub use error::{ReadError, SpillError};
pub use framed::{FramedReader, FramedWriter};
pub use output::{MapOutput, Run, Slice};
pub use records::Records;
pub use run::{PackedWriter, RunWriter, write_run};
pub use scratch::{Scratch, ScratchSettings};
