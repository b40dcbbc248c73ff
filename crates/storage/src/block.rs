//! Names of blocks, spelled as Spark spells them.

use std::fmt;

use firesteel_types::{BroadcastId, RddId, ShuffleId, TaskId};

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockId {
    /// A cached partition of an RDD.
    Rdd(RddId, u32),
    /// All that one attempt of a map task wrote for one shuffle: another attempt writes another block,
    /// and never over this one.
    MapOutput(ShuffleId, u32, TaskId),
    Broadcast(BroadcastId),
    /// A piece of a broadcast value's encoded bytes.
    BroadcastPiece(BroadcastId, u32),
}

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlockId::Rdd(rdd, partition) => write!(f, "rdd_{rdd}_{partition}"),
            BlockId::MapOutput(shuffle, map, task) => write!(f, "shuffle_{shuffle}_{map}_{task}"),
            BlockId::Broadcast(id) => write!(f, "broadcast_{id}"),
            BlockId::BroadcastPiece(id, piece) => write!(f, "broadcast_{id}_piece{piece}"),
        }
    }
}
