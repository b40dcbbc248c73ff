//! What is cached of which RDD, and where.

use std::collections::BTreeMap;
use std::sync::Arc;

use firesteel_types::event::RddDescription;
use firesteel_types::{ExecutorId, RddId, StageInfo, StorageLevel};

use crate::AppStatus;
use crate::weight::{self, Excess};

/// One cached partition on one executor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CachedBlock {
    pub memory_bytes: u64,
    pub disk_bytes: u64,
}

/// An RDD that is cached, or was to be when a stage computed it last.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RddStatus {
    pub rdd: Arc<RddDescription>,
    pub level: StorageLevel,
    /// By partition and executor.
    pub partitions: BTreeMap<u32, BTreeMap<ExecutorId, CachedBlock>>,
    /// How many blocks these are.
    count: usize,
}

impl RddStatus {
    fn weight(&self) -> usize {
        let rdd = &self.rdd;
        let texts = rdd.name.len() + rdd.call_site.len() + weight::ENTRY;
        size_of::<Self>() + texts + self.partitions.len() * PARTITION + self.count * HOLDER
    }

    fn blocks(&self) -> impl Iterator<Item = &CachedBlock> {
        self.partitions.values().flat_map(BTreeMap::values)
    }

    /// Bytes in memory, copies included.
    pub fn memory_bytes(&self) -> u64 {
        self.blocks().fold(0, |sum, block| sum.saturating_add(block.memory_bytes))
    }

    /// Bytes on disk, copies included.
    pub fn disk_bytes(&self) -> u64 {
        self.blocks().fold(0, |sum, block| sum.saturating_add(block.disk_bytes))
    }
}

/// What the first holder of a partition takes, in bytes, and what each further one.
const PARTITION: usize = 300;
const HOLDER: usize = size_of::<CachedBlock>() + size_of::<ExecutorId>();

/// What a change of a block means for its executor.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Change {
    pub(crate) memory: i64,
    pub(crate) disk: i64,
    pub(crate) rdd_blocks: i32,
}

impl Change {
    fn between(before: Option<CachedBlock>, after: Option<CachedBlock>) -> Self {
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let (old, new) = (before.unwrap_or_default(), after.unwrap_or_default());
        Change {
            memory: signed(new.memory_bytes) - signed(old.memory_bytes),
            disk: signed(new.disk_bytes) - signed(old.disk_bytes),
            rdd_blocks: i32::from(after.is_some()) - i32::from(before.is_some()),
        }
    }
}

/// All RDDs that are cached.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Storage {
    rdds: BTreeMap<RddId, RddStatus>,
}

impl Storage {
    pub(crate) fn stages_made(&mut self, stages: &[StageInfo]) {
        let rdds = stages.iter().flat_map(|stage| stage.rdds.iter());
        for rdd in rdds.filter(|rdd| rdd.level.is_valid()) {
            let partitions = BTreeMap::new();
            let new = RddStatus { rdd: rdd.rdd.clone(), level: rdd.level, partitions, count: 0 };
            self.rdds.entry(rdd.rdd.id).or_insert(new).level = rdd.level;
        }
    }

    pub(crate) fn block_updated(
        &mut self,
        block: &str,
        executor: ExecutorId,
        (memory_bytes, disk_bytes): (u64, u64),
    ) -> Change {
        let after = (memory_bytes > 0 || disk_bytes > 0)
            .then_some(CachedBlock { memory_bytes, disk_bytes });
        let known =
            parse(block).and_then(|(rdd, partition)| Some((self.rdds.get_mut(&rdd)?, partition)));
        let Some((rdd, partition)) = known else { return Change::default() };
        let holders = rdd.partitions.entry(partition).or_default();
        let before = match after {
            Some(after) => holders.insert(executor, after),
            None => holders.remove(&executor),
        };
        if holders.is_empty() {
            rdd.partitions.remove(&partition);
        }
        rdd.count = rdd.count + usize::from(after.is_some()) - usize::from(before.is_some());
        Change::between(before, after)
    }

    /// What that changes for whom.
    pub(crate) fn unpersisted(&mut self, rdd: RddId) -> Vec<(ExecutorId, Change)> {
        let Some(rdd) = self.rdds.remove(&rdd) else { return Vec::new() };
        let blocks = rdd.partitions.into_values().flatten();
        blocks.map(|(executor, block)| (executor, Change::between(Some(block), None))).collect()
    }

    pub(crate) fn weight(&self) -> usize {
        self.rdds.values().map(RddStatus::weight).sum()
    }

    /// Forgets cached RDDs, the oldest first.
    pub(crate) fn forget(&mut self, excess: &mut Excess) {
        while excess.is_left() {
            let Some((_, first)) = self.rdds.pop_first() else { return };
            excess.freed(first.weight());
        }
    }

    pub(crate) fn executor_removed(&mut self, executor: ExecutorId) {
        for rdd in self.rdds.values_mut() {
            let count = &mut rdd.count;
            rdd.partitions.retain(|_, holders| {
                *count -= usize::from(holders.remove(&executor).is_some());
                !holders.is_empty()
            });
        }
    }
}

/// `rdd_7_3`: partition 3 of RDD 7.
fn parse(block: &str) -> Option<(RddId, u32)> {
    let (rdd, partition) = block.strip_prefix("rdd_")?.split_once('_')?;
    Some((RddId(rdd.parse().ok()?), partition.parse().ok()?))
}

impl AppStatus {
    /// The RDDs that are cached.
    pub fn rdds(&self) -> impl Iterator<Item = &RddStatus> {
        self.storage.rdds.values()
    }

    pub fn rdd(&self, rdd: RddId) -> Option<&RddStatus> {
        self.storage.rdds.get(&rdd)
    }
}
