//! Pipelines, partitioners, sources, sinks, shuffle readers and writers: one kind of task body among others.
//!
//! A [`Pipe`] is a narrow pipeline whose type spells out every step, so that the compiler fuses it
//! into one loop; [`Boxed`] hides the type where one is wanted (at shuffles, in loops, in
//! collections). A pipe is [`Wire`](firesteel_closure::Wire): it can be sent to another process of the
//! same executable. The user-facing `Rdd`, which adds lineage and actions, lives in the driver crate;
//! this crate never schedules, never opens a socket and never knows a driver.

// Modules that have something for users, and so docs on all that is public, demand them.
pub mod action;
pub mod aggregate;
pub mod body;
pub mod cache;
pub mod checkpoint;
#[warn(missing_docs)]
pub mod csv;
pub mod external;
#[warn(missing_docs)]
pub mod files;
mod finite;
mod growth;
pub mod join;
#[warn(missing_docs)]
pub mod json;
pub mod key;
#[warn(missing_docs)]
pub mod malformed;
mod memory;
#[warn(missing_docs)]
pub mod narrow;
pub mod object;
#[cfg(feature = "parquet")]
pub mod parquet;
#[warn(missing_docs)]
pub mod partitioner;
#[warn(missing_docs)]
pub mod pipe;
pub mod reshape;
pub mod sample;
mod shape;
pub mod sketch;
pub mod sort;
#[warn(missing_docs)]
pub mod source;
#[warn(missing_docs)]
pub mod stats;
mod table;
#[cfg(test)]
mod testing;
pub mod text;
pub mod wide;
pub mod write;

pub use partitioner::{AnyPartitioner, HashPartitioner, Partitioner, RangePartitioner};
pub use pipe::{Boxed, Partition, Pipe};

/// A hash map with a fixed seed: fast, and iterated in the same order in every run.
pub type FixedMap<K, V> = hashbrown::HashMap<K, V, foldhash::fast::FixedState>;
