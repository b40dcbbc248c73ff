//! Blocks of one process: map outputs, kept partitions, broadcast values.
//!
//! A block is a typed value behind an `Arc`; readers share it and never copy it. The store knows
//! nothing of RDDs or tasks.

mod block;
mod claims;
mod dirs;
mod manager;
mod memory;

pub use block::BlockId;
pub use claims::{Claim, Claimed, Outcome, Waiting};
pub use dirs::{LocalDirs, TempFile};
pub use manager::{Evict, MemoryManager, Reservation};
pub use memory::{AnyValue, BlockStatus, Demote, KeptBlock, MemoryStore, Pack, Watch};
