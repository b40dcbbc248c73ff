//! Blocks kept in memory: map outputs, cached partitions, broadcast values.
//!
//! A block is a typed value behind an `Arc`; readers share it and never copy it. The store knows
//! nothing of RDDs or tasks.

mod block;
mod dirs;
mod manager;
mod memory;

pub use block::BlockId;
pub use dirs::{LocalDirs, TempFile};
pub use manager::{Evict, MemoryManager, Reservation};
pub use memory::MemoryStore;
