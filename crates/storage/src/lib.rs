//! Blocks of one process: map outputs, cached partitions, broadcast values.
//!
//! A block is a typed value behind an `Arc`; readers share it and never copy it. The store knows
//! nothing of RDDs or tasks.

mod block;
mod claims;
mod clock;
mod dirs;
mod files;
pub mod grants;
mod held;
mod manager;
mod memory;
pub mod mutant;
mod open_files;
mod ownership;

pub use block::BlockId;
pub use claims::{Claim, Claimed, Outcome, Waiting};
pub use clock::Clock;
pub use dirs::LocalDirs;
pub use files::{StoredFile, TempFile};
pub use held::HeldBytes;
pub use manager::{Blocked, Evict, LastResort, MemoryManager, Reservation, Resort};
pub use memory::{AnyValue, CachedBlock, Demote, MemoryStore, Pack, Removed, Watch};
pub use open_files::{is_out_of_files, raise_open_file_limit};
pub use ownership::{
    OwnedDirectory, OwnerLock, ensure_private_directory, is_abandoned, remove_abandoned,
};
