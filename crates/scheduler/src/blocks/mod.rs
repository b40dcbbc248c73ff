//! Where blocks lie: map outputs, cached partitions, pieces of broadcast values, with everything that is decided about them. The only owner of
//! that knowledge; the DAG scheduler decides by it, the shell answers executors from it, the simulator drives it.
//!
//! | file | owns |
//! |---|---|
//! | `outputs` | map outputs: locations, attempts, sizes, generations, and the epoch that readers are told |
//! | `cached` | cached partitions by holder, RDDs that were unpersisted |
//! | `replicas` | who is to hold a replica, which partitions have too few |
//! | `broadcasts` | who has which pieces of a value, who gets which one next |
//!
//! Architecture Invariant: a cached partition or a piece is noted of a registered holder only, and forgotten in the moment in
//! which that holder is lost. A message that comes late from a lost holder changes nothing.

mod broadcasts;
mod cached;
mod outputs;
mod replicas;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firesteel_types::{
    BlockLocation, BlockStatus, BroadcastId, Host, Location, MapOutputLocation, RddBlock, RddId,
    RddInfo, ShuffleId,
};

use crate::mutant::{Mutant, Planted};
use broadcasts::Broadcasts;
pub use broadcasts::{Piece, PieceRequest};
use cached::CachedBlocks;
pub(crate) use outputs::{Dropped, Generations, MapOutputs, Registered};
pub use replicas::Peers;

/// What became of a message about a cached partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noted {
    /// It is known.
    Yes,
    /// It is known, and nobody makes the replicas that it is to have.
    Orphan,
    /// The RDD was unpersisted, or it was computed from records that were rolled back: the holder is to drop what it has of the
    /// RDD from before this epoch.
    Outdated(u64),
    /// The holder is not registered, or was lost.
    Ignored,
}

/// How a cached partition differs from what was known of it: how it is stored now, if it is.
pub(crate) type BlockChange = (RddBlock, Option<BlockStatus>);

/// Knows where blocks lie.
#[derive(Debug)]
pub struct BlockMaster {
    /// Those that live, and their hosts.
    holders: BTreeMap<BlockLocation, Host>,
    outputs: MapOutputs,
    cached: CachedBlocks,
    broadcasts: Broadcasts,
    /// Whether lost replicas are re-replicated (`spark.storage.replication.proactive`).
    proactive: bool,
    planted: Planted,
}

impl BlockMaster {
    pub(crate) fn new(proactive: bool, planted: Planted) -> Self {
        BlockMaster {
            holders: BTreeMap::new(),
            outputs: MapOutputs::new(planted),
            cached: CachedBlocks::default(),
            broadcasts: Broadcasts::default(),
            proactive,
            planted,
        }
    }

    /// Blocks may lie there from now on.
    pub(crate) fn add_holder(&mut self, location: BlockLocation, host: Host) {
        self.holders.insert(location, host);
    }

    /// The holder is lost, and with it all that it cached. Map outputs are [`MapOutputs::lose`]'s: they may be
    /// served by somebody else.
    pub(crate) fn remove_holder(&mut self, location: BlockLocation) {
        self.holders.remove(&location);
        if !self.planted.is(Mutant::KeepsBlocksOfLostHolders) {
            self.cached.remove_holder(location);
        }
        if !self.planted.is(Mutant::AssignsPiecesOfLostHolders) {
            self.broadcasts.remove_holder(location);
        }
    }

    /// Whether blocks that lie there can be read.
    pub fn has_holder(&self, location: BlockLocation) -> bool {
        self.holders.contains_key(&location)
    }

    pub(crate) fn outputs(&self) -> &MapOutputs {
        &self.outputs
    }

    pub(crate) fn outputs_mut(&mut self) -> &mut MapOutputs {
        &mut self.outputs
    }

    /// The epoch of map outputs: locations that a reader heard in an earlier one are out of date.
    pub fn epoch(&self) -> u64 {
        self.outputs.epoch()
    }

    /// Where the outputs of a shuffle lie, by map partition, as of [`BlockMaster::epoch`]; `None`: there is no such shuffle.
    pub fn map_outputs(&self, shuffle: ShuffleId) -> Option<&[Option<MapOutputLocation>]> {
        self.outputs.locations(shuffle)
    }

    /// Notes how a holder stores a cached partition now; `None`: not at all.
    pub(crate) fn update(
        &mut self,
        location: BlockLocation,
        block: RddBlock,
        status: Option<BlockStatus>,
    ) -> Noted {
        let lost = !self.has_holder(location);
        match status {
            _ if lost && !self.planted.is(Mutant::KeepsBlocksOfLostHolders) => Noted::Ignored,
            Some(status) if self.cached.is_unpersisted(block.rdd) => {
                Noted::Outdated(self.outdated_before(block.rdd).max(status.epoch.saturating_add(1)))
            }
            Some(status) if status.epoch < self.outdated_before(block.rdd) => {
                Noted::Outdated(self.outdated_before(block.rdd))
            }
            Some(status) => {
                let orphan = self.cached.insert(location, block, status.level);
                if orphan { Noted::Orphan } else { Noted::Yes }
            }
            None => {
                self.cached.remove(location, block);
                Noted::Yes
            }
        }
    }

    /// How all that a holder says it caches differs from what is known: messages about single partitions may be lost.
    pub(crate) fn differences(
        &self,
        location: BlockLocation,
        cached: &[(RddBlock, BlockStatus)],
    ) -> Vec<BlockChange> {
        if self.planted.is(Mutant::NeverHeals) {
            return Vec::new();
        }
        self.cached.differences(location, cached)
    }

    /// Who holds a cached partition.
    pub fn holders(&self, block: RddBlock) -> BTreeSet<BlockLocation> {
        self.cached.holders(block).cloned().unwrap_or_default()
    }

    fn outdated_before(&self, rdd: RddId) -> u64 {
        match self.planted.is(Mutant::NotesOutdatedBlocks) {
            true => 0,
            false => self.cached.outdated_before(rdd),
        }
    }

    /// Partitions of these RDDs must not be read if a task computed them that was launched before that epoch. An executor
    /// has to know this before it runs a task: messages about blocks may come later than the task. Who was told before
    /// needs to be told what came [since](BlockMaster::outdated_since) only.
    pub fn outdated(&self) -> Arc<[(RddId, u64)]> {
        self.outdated_since(0).into()
    }

    /// What became outdated since this was the number of the last word about it.
    pub fn outdated_since(&self, number: u64) -> Vec<(RddId, u64)> {
        match self.planted.is(Mutant::NotesOutdatedBlocks) {
            true => Vec::new(),
            false => self.cached.outdated_since(number),
        }
    }

    /// The number of the last word about what is outdated.
    pub fn outdated_number(&self) -> u64 {
        self.cached.outdated_number()
    }

    /// The RDD's partitions are cached from now on. Those of tasks from before it was unpersisted may still come.
    pub(crate) fn persist(&mut self, rdd: RddId) {
        if self.cached.persist(rdd) {
            self.drop_cached(rdd);
        }
    }

    /// Nobody wants the RDD's partitions cached, until [`BlockMaster::persist`]. The epoch that begins with it.
    pub(crate) fn unpersist(&mut self, rdd: RddId) -> u64 {
        self.cached.unpersist(rdd);
        self.drop_cached(rdd)
    }

    /// No job will ever compute the RDD.
    pub(crate) fn remove_rdd(&mut self, rdd: RddId) -> u64 {
        let epoch = self.unpersist(rdd);
        self.cached.forget(rdd);
        epoch
    }

    /// What is cached of the RDD must not be read; it is computed and cached again. The epoch that begins with it: tasks that
    /// were launched before may still cache partitions, and replicas of old ones may be on their way.
    pub(crate) fn drop_cached(&mut self, rdd: RddId) -> u64 {
        let epoch = self.outputs.begin_epoch();
        self.cached.outdate(rdd, epoch);
        epoch
    }

    /// Notes what the RDD's partitions are computed from, from now on; whether that was something else before. Then partitions may
    /// be cached that must not be read, also if none is known: their messages may be lost or on the way.
    pub(crate) fn compute_cached_from(&mut self, rdd: RddId, generations: Generations) -> bool {
        self.cached.compute_from(rdd, generations)
    }

    /// Whether some partition of the RDD is cached.
    pub(crate) fn caches(&self, rdd: RddId) -> bool {
        self.cached.knows(rdd)
    }

    /// Whether the RDD is persisted and every partition of it is cached.
    pub(crate) fn covers(&self, rdd: &RddInfo) -> bool {
        rdd.is_persisted() && self.cached.covers(rdd.id, rdd.partitions)
    }

    /// Where a cached partition lies, for the task scheduler. It may be gone when the task looks.
    pub(crate) fn preferred(&self, rdd: &RddInfo, partition: u32) -> Vec<Location> {
        let cached = self.cached.holders(RddBlock { rdd: rdd.id, partition });
        let cached = cached.filter(|_| rdd.is_persisted());
        let place = |location: &BlockLocation| {
            let host = self.holders.get(location)?.clone();
            Some(Location { host, executor: location.executor() })
        };
        cached.into_iter().flatten().filter_map(place).collect()
    }

    /// How many RDDs have cached partitions.
    pub(crate) fn cached_rdds(&self) -> usize {
        self.cached.len()
    }

    /// How many hold a partition beside `holder`, and who else may. Who asks is about to make replicas: should it be lost before
    /// anybody heard that it holds the partition, those replicas need somebody else who makes the rest. Nobody makes replicas for
    /// one that was lost before it asked: what it holds does not count, so the rest would be missing.
    pub(crate) fn peers(&mut self, holder: BlockLocation, block: RddBlock) -> Peers {
        if !self.has_holder(holder) {
            return Peers::default();
        }
        self.cached.replicating(holder, block);
        replicas::peers(holder, block, &self.holders(block), &self.holders)
    }

    /// Who holds which cached partition, and how many are to.
    pub fn cached(&self) -> impl Iterator<Item = (RddBlock, &BTreeSet<BlockLocation>, usize)> {
        self.cached.all().map(|(block, holding)| (block, &holding.holders, holding.wanted))
    }

    /// The next of so many pieces of a broadcast value for a reader; `None`: it waits. The driver serves a reader that is
    /// not registered, or is lost, and notes it nowhere.
    pub(crate) fn next_piece(
        &mut self,
        id: BroadcastId,
        of: u32,
        request: PieceRequest,
    ) -> Option<Piece> {
        let all = self.planted.is(Mutant::AssignsPiecesOfLostHolders);
        if !all && !self.has_holder(request.reader) {
            let first = request.missing.map_or(Some(0), |missing| missing.first().copied());
            return first.map(|piece| Piece { piece, from: None });
        }
        let lives = |location: BlockLocation| all || self.holders.contains_key(&location);
        self.broadcasts.next(id, of, request, lives)
    }

    pub(crate) fn remove_broadcast(&mut self, id: BroadcastId) {
        self.broadcasts.remove(id);
    }

    /// Cached partitions to be replicated, each by one of its holders: they have fewer replicas than they are to have and
    /// could have, because a holder was lost or because there were too few.
    pub(crate) fn to_replicate(&self) -> BTreeMap<BlockLocation, Vec<RddBlock>> {
        if !self.proactive || self.planted.is(Mutant::NeverReplicatesAgain) {
            return BTreeMap::new();
        }
        replicas::short_of_replicas(self.cached.replicated(), self.holders.len())
    }
}
