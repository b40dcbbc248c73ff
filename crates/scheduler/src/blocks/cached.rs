//! Which cached partitions lie where, as their holders told. A hint: a cached partition can vanish at any moment, so
//! nothing may rely on it but the choice of what to compute, and where.

use std::collections::{BTreeMap, BTreeSet};

use firesteel_types::{BlockLocation, BlockStatus, RddBlock, RddId, StorageLevel};

use super::{BlockChange, Generations};

/// So many RDDs are remembered as unpersisted, for tasks and replicas on their way that still cache a partition.
const UNPERSISTED_LIMIT: usize = 1 << 16;

/// Who holds one partition.
#[derive(Debug, Default)]
pub(super) struct Holding {
    pub(super) holders: BTreeSet<BlockLocation>,
    /// How many are to hold it.
    pub(super) wanted: usize,
}

#[derive(Debug, Default)]
struct CachedRdd {
    partitions: BTreeMap<u32, Holding>,
    /// Whether some of them are to have more than one holder.
    is_replicated: bool,
}

impl CachedRdd {
    fn blocks(&self, rdd: RddId) -> impl Iterator<Item = (RddBlock, &Holding)> {
        let block = move |partition: &u32| RddBlock { rdd, partition: *partition };
        self.partitions.iter().map(move |(partition, holding)| (block(partition), holding))
    }
}

/// By RDD and by holder; neither has empty entries.
#[derive(Debug, Default)]
pub(super) struct CachedBlocks {
    rdds: BTreeMap<RddId, CachedRdd>,
    by_holder: BTreeMap<BlockLocation, BTreeSet<RddBlock>>,
    /// Partitions whose last known holder was lost, while replicas may have been on their way.
    orphans: BTreeSet<RddBlock>,
    /// Partitions that holders make replicas of, which nobody heard to be cached there: the message was lost, or is late.
    unheard: BTreeMap<BlockLocation, BTreeSet<RddBlock>>,
    unpersisted: BTreeSet<RddId>,
    /// Partitions of these RDDs count only if a task computed them that was launched in this epoch or later; each with the
    /// number of this word about it.
    outdated: BTreeMap<RddId, (u64, u64)>,
    /// The RDDs in the order of those numbers: executors are told what they have not been told before.
    outdated_order: BTreeMap<u64, RddId>,
    /// The number of the last word.
    outdated_number: u64,
    /// What the partitions were computed from, where that is not the first generation of everything.
    computed_from: BTreeMap<RddId, Generations>,
}

impl CachedBlocks {
    /// Whether nobody sees to it that the partition gets its replicas: the holder that did was lost.
    pub(super) fn insert(
        &mut self,
        holder: BlockLocation,
        block: RddBlock,
        level: StorageLevel,
    ) -> bool {
        let wanted = level.replication as usize;
        let rdd = self.rdds.entry(block.rdd).or_default();
        rdd.is_replicated |= wanted > 1;
        let holding = rdd.partitions.entry(block.partition).or_default();
        holding.holders.insert(holder);
        holding.wanted = wanted;
        self.by_holder.entry(holder).or_default().insert(block);
        remove_of(&mut self.unheard, holder, block);
        self.orphans.remove(&block)
    }

    /// The holder is about to make replicas of the partition.
    pub(super) fn replicating(&mut self, holder: BlockLocation, block: RddBlock) {
        if !self.by_holder.get(&holder).is_some_and(|blocks| blocks.contains(&block)) {
            self.unheard.entry(holder).or_default().insert(block);
        }
    }

    pub(super) fn remove(&mut self, holder: BlockLocation, block: RddBlock) {
        remove_of(&mut self.by_holder, holder, block);
        remove_of(&mut self.unheard, holder, block);
        self.remove_from_rdd(holder, block);
    }

    fn remove_from_rdd(&mut self, holder: BlockLocation, block: RddBlock) {
        let Some(rdd) = self.rdds.get_mut(&block.rdd) else { return };
        let Some(holding) = rdd.partitions.get_mut(&block.partition) else { return };
        holding.holders.remove(&holder);
        if holding.holders.is_empty() {
            rdd.partitions.remove(&block.partition);
        }
        if rdd.partitions.is_empty() {
            self.rdds.remove(&block.rdd);
        }
    }

    /// Forgets all that a holder has.
    pub(super) fn remove_holder(&mut self, holder: BlockLocation) {
        for block in self.by_holder.remove(&holder).unwrap_or_default() {
            if self.is_replicated(block.rdd) && self.holders(block).is_some_and(|h| h.len() == 1) {
                self.orphans.insert(block);
            }
            self.remove_from_rdd(holder, block);
        }
        let unheard = self.unheard.remove(&holder).unwrap_or_default();
        let unknown = unheard.into_iter().filter(|block| self.holders(*block).is_none());
        let unknown: Vec<RddBlock> = unknown.collect();
        self.orphans.extend(unknown);
    }

    fn is_replicated(&self, rdd: RddId) -> bool {
        self.rdds.get(&rdd).is_some_and(|cached| cached.is_replicated)
    }

    /// Forgets all that is cached of an RDD.
    pub(super) fn remove_rdd(&mut self, rdd: RddId) {
        self.orphans.retain(|block| block.rdd != rdd);
        self.unheard.values_mut().for_each(|blocks| blocks.retain(|block| block.rdd != rdd));
        self.unheard.retain(|_, blocks| !blocks.is_empty());
        let Some(CachedRdd { partitions, .. }) = self.rdds.remove(&rdd) else { return };
        for (partition, Holding { holders, .. }) in partitions {
            for holder in holders {
                self.remove(holder, RddBlock { rdd, partition });
            }
        }
    }

    /// Whether it was unpersisted before.
    pub(super) fn persist(&mut self, rdd: RddId) -> bool {
        self.unpersisted.remove(&rdd)
    }

    pub(super) fn unpersist(&mut self, rdd: RddId) {
        self.remove_rdd(rdd);
        self.computed_from.remove(&rdd);
        self.unpersisted.insert(rdd);
        if self.unpersisted.len() > UNPERSISTED_LIMIT {
            self.unpersisted.pop_first();
        }
    }

    pub(super) fn is_unpersisted(&self, rdd: RddId) -> bool {
        self.unpersisted.contains(&rdd)
    }

    /// Forgets all that is cached of an RDD, and all that tasks will cache that were launched before `epoch`.
    pub(super) fn outdate(&mut self, rdd: RddId, epoch: u64) {
        self.remove_rdd(rdd);
        self.forget(rdd);
        self.outdated_number += 1;
        self.outdated.insert(rdd, (epoch, self.outdated_number));
        self.outdated_order.insert(self.outdated_number, rdd);
    }

    /// No task will ever look for the RDD's partitions.
    pub(super) fn forget(&mut self, rdd: RddId) {
        if let Some((_, number)) = self.outdated.remove(&rdd) {
            self.outdated_order.remove(&number);
        }
    }

    /// The epoch before which the RDD's partitions are outdated.
    pub(super) fn outdated_before(&self, rdd: RddId) -> u64 {
        self.outdated.get(&rdd).map_or(0, |(epoch, _)| *epoch)
    }

    /// The number of the last word about what is outdated.
    pub(super) fn outdated_number(&self) -> u64 {
        self.outdated_number
    }

    /// What is outdated that was not before this number was the last.
    pub(super) fn outdated_since(&self, number: u64) -> Vec<(RddId, u64)> {
        let later = self.outdated_order.range(number.saturating_add(1)..);
        later.map(|(_, rdd)| (*rdd, self.outdated_before(*rdd))).collect()
    }

    pub(super) fn compute_from(&mut self, rdd: RddId, generations: Generations) -> bool {
        let before = match generations.is_empty() {
            true => self.computed_from.remove(&rdd),
            false => self.computed_from.insert(rdd, generations.clone()),
        };
        before.unwrap_or_default() != generations
    }

    pub(super) fn differences(
        &self,
        holder: BlockLocation,
        says: &[(RddBlock, BlockStatus)],
    ) -> Vec<BlockChange> {
        let nothing = BTreeSet::new();
        let known = self.by_holder.get(&holder).unwrap_or(&nothing);
        // Holders say it in order, and seldom anything new.
        if known.iter().eq(says.iter().map(|(block, _)| block)) {
            return Vec::new();
        }
        let says: BTreeMap<RddBlock, BlockStatus> = says.iter().copied().collect();
        let gone = known.iter().filter(|block| !says.contains_key(block));
        let gone = gone.map(|block| (*block, None));
        let new = says.iter().filter(|(block, _)| !known.contains(block));
        let new = new.map(|(block, status)| (*block, Some(*status)));
        gone.chain(new).collect()
    }

    pub(super) fn holders(&self, block: RddBlock) -> Option<&BTreeSet<BlockLocation>> {
        let holding = self.rdds.get(&block.rdd)?.partitions.get(&block.partition)?;
        Some(&holding.holders)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (RddBlock, &Holding)> {
        self.rdds.iter().flat_map(|(rdd, cached)| cached.blocks(*rdd))
    }

    /// Partitions of RDDs that are to have replicas.
    pub(super) fn replicated(&self) -> impl Iterator<Item = (RddBlock, &Holding)> {
        let rdds = self.rdds.iter().filter(|(_, cached)| cached.is_replicated);
        rdds.flat_map(|(rdd, cached)| cached.blocks(*rdd))
    }

    /// Whether each of so many partitions is cached.
    pub(super) fn covers(&self, rdd: RddId, partitions: u32) -> bool {
        let wanted = partitions as usize;
        self.rdds.get(&rdd).is_some_and(|CachedRdd { partitions: cached, .. }| {
            cached.len() >= wanted && cached.range(..partitions).count() == wanted
        })
    }

    /// Whether some partition of the RDD is cached.
    pub(super) fn knows(&self, rdd: RddId) -> bool {
        self.rdds.contains_key(&rdd)
    }

    /// How many RDDs have cached partitions.
    pub(super) fn len(&self) -> usize {
        self.rdds.len()
    }
}

/// Removes a partition of a holder, and the holder with its last one.
fn remove_of(
    of: &mut BTreeMap<BlockLocation, BTreeSet<RddBlock>>,
    holder: BlockLocation,
    block: RddBlock,
) {
    if let Some(blocks) = of.get_mut(&holder) {
        blocks.remove(&block);
        if blocks.is_empty() {
            of.remove(&holder);
        }
    }
}
