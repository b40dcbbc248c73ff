//! Blocks kept in memory: map outputs, cached partitions, broadcast values.
//!
//! A block is a typed value behind an `Arc`; readers share it and never copy it. The store knows
//! nothing of RDDs or tasks.

mod block;
mod memory;

pub use block::BlockId;
pub use memory::MemoryStore;
