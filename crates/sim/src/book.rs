//! What is known beside a driver of its blocks: who said what, what was withdrawn when. Answers of its block master are
//! held against it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firesteel_scheduler::blocks::BlockMaster;
use firesteel_types::{
    BlockLocation, ExecutorId, MapOutputLocation, RddBlock, RddId, RddInfo, ShuffleId, StageRef,
    TaskId,
};

/// When something was decided, and in which epoch of map outputs.
#[derive(Clone, Debug)]
struct Launched {
    at: u64,
    epoch: u64,
    /// What is outdated of cached RDDs, as the task is told.
    outdated: Arc<[(RddId, u64)]>,
    /// The epochs in which cached RDDs were rolled back before.
    rolled_back: BTreeMap<RddId, u64>,
}

#[derive(Debug, Default)]
pub(crate) struct BlockBook {
    /// Numbers what the driver decided.
    decisions: u64,
    launched: BTreeMap<TaskId, Launched>,
    rolled_back: BTreeMap<RddId, u64>,
    published: BTreeMap<ShuffleId, Vec<Option<MapOutputLocation>>>,
    /// When an output was published no more, by the attempt that wrote it.
    withdrawn: BTreeMap<(ShuffleId, u32, TaskId), u64>,
    /// Who ever said that it caches what.
    said: BTreeSet<(BlockLocation, RddBlock)>,
    /// Executors that the schedulers know to be lost.
    lost: BTreeSet<ExecutorId>,
    /// RDDs that were cached as a whole when a stage attempt was submitted, or when map outputs were lost later: it may not
    /// need what is behind them.
    covered: BTreeMap<StageRef, BTreeSet<RddId>>,
    /// Partitions of which a holder evicted its replica: nobody orders another one.
    pub(crate) evicted: BTreeSet<RddBlock>,
    /// When an executor came or went last.
    pub(crate) holders_changed: u64,
}

impl BlockBook {
    pub(crate) fn executor_lost(&mut self, executor: ExecutorId, now: u64) {
        self.lost.insert(executor);
        self.holders_changed = now;
    }

    pub(crate) fn is_lost(&self, executor: ExecutorId) -> bool {
        self.lost.contains(&executor)
    }

    pub(crate) fn launched(&mut self, task: TaskId, epoch: u64, outdated: Arc<[(RddId, u64)]>) {
        self.decisions += 1;
        let rolled_back = self.rolled_back.clone();
        self.launched.insert(task, Launched { at: self.decisions, epoch, outdated, rolled_back });
    }

    /// Whatever is cached of the RDD was computed from records that are no longer there.
    pub(crate) fn rolled_back(&mut self, rdd: RddId, epoch: u64) {
        self.rolled_back.insert(rdd, epoch);
    }

    /// S20: a task that was launched after a roll-back reads nothing cached by tasks that were launched before.
    pub(crate) fn check_cached(
        &self,
        reader: TaskId,
        block: RddBlock,
        epoch: u64,
    ) -> Result<(), String> {
        let launched = self.launched.get(&reader);
        let rolled_back = launched.and_then(|launched| launched.rolled_back.get(&block.rdd));
        if rolled_back.is_some_and(|rolled_back| epoch < *rolled_back) {
            return Err(format!(
                "S20: task {reader} reads {block} of epoch {epoch}, cached before its roll-back in {rolled_back:?}"
            ));
        }
        Ok(())
    }

    pub(crate) fn told_outdated(&self, task: TaskId) -> Arc<[(RddId, u64)]> {
        self.launched.get(&task).map(|launched| launched.outdated.clone()).unwrap_or_default()
    }

    pub(crate) fn epoch_of(&self, task: TaskId) -> u64 {
        self.launched.get(&task).map_or(u64::MAX, |launched| launched.epoch)
    }

    pub(crate) fn published(
        &mut self,
        shuffle: ShuffleId,
        outputs: Vec<Option<MapOutputLocation>>,
    ) -> Result<(), String> {
        self.check_outputs(shuffle, &outputs)?;
        self.decisions += 1;
        let before = self.published.insert(shuffle, outputs.clone()).unwrap_or_default();
        for (map, (before, after)) in (0u32..).zip(before.iter().zip(&outputs)) {
            let gone = before.filter(|before| Some(*before) != *after);
            let gone = gone.map(|at| ((shuffle, map, at.task), self.decisions));
            self.withdrawn.extend(gone);
        }
        Ok(())
    }

    pub(crate) fn outputs(&self, shuffle: ShuffleId) -> Option<&[Option<MapOutputLocation>]> {
        self.published.get(&shuffle).map(Vec::as_slice)
    }

    /// S09, S22: nothing lies on an executor that is lost.
    pub(crate) fn check_outputs(
        &self,
        shuffle: ShuffleId,
        outputs: &[Option<MapOutputLocation>],
    ) -> Result<(), String> {
        let mut holders = outputs.iter().flatten().filter_map(|at| at.location.executor());
        match holders.find(|executor| self.is_lost(*executor)) {
            Some(lost) => Err(format!("S09: shuffle {shuffle} is said to lie on lost {lost}")),
            None => Ok(()),
        }
    }

    /// S21: a reader goes nowhere from where an output was withdrawn before the reader was launched.
    pub(crate) fn check_read(
        &self,
        reader: TaskId,
        shuffle: ShuffleId,
        map: u32,
        writer: TaskId,
    ) -> Result<(), String> {
        let withdrawn = self.withdrawn.get(&(shuffle, map, writer));
        let launched = self.launched.get(&reader).map_or(0, |launched| launched.at);
        if withdrawn.is_some_and(|withdrawn| *withdrawn < launched) {
            return Err(format!(
                "S21: task {reader} reads output {map} of shuffle {shuffle} as {writer} wrote it, which \
                 was withdrawn before"
            ));
        }
        Ok(())
    }

    pub(crate) fn said(&mut self, location: BlockLocation, block: RddBlock) {
        self.said.insert((location, block));
    }

    /// S22: who is said to hold a cached partition has said so, and was not lost since.
    pub(crate) fn check_holder(
        &self,
        location: BlockLocation,
        block: RddBlock,
    ) -> Result<(), String> {
        self.check_lives(location)?;
        if !self.said.contains(&(location, block)) {
            return Err(format!("S22: {location} never said that it holds {block}"));
        }
        Ok(())
    }

    /// S22: nobody is sent to an executor that is lost.
    pub(crate) fn check_lives(&self, location: BlockLocation) -> Result<(), String> {
        match location.executor().filter(|executor| self.is_lost(*executor)) {
            Some(lost) => Err(format!("S22: readers are sent to lost executor {lost}")),
            None => Ok(()),
        }
    }

    /// A stage attempt starts: what is cached as a whole spares it the shuffles behind.
    pub(crate) fn stage_submitted(
        &mut self,
        stage: StageRef,
        rdds: &[Arc<RddInfo>],
        blocks: &BlockMaster,
    ) {
        let covered = rdds.iter().filter(|rdd| covers(blocks, rdd));
        self.covered.insert(stage, covered.map(|rdd| rdd.id).collect());
    }

    /// Map outputs changed: stages that do not need them now go on.
    pub(crate) fn note_covered(&mut self, rdds: &[Arc<RddInfo>], blocks: &BlockMaster) {
        let covered: Vec<RddId> =
            rdds.iter().filter(|rdd| covers(blocks, rdd)).map(|rdd| rdd.id).collect();
        self.covered.values_mut().for_each(|all| all.extend(&covered));
    }

    /// Whether an attempt of a stage needs nothing behind the RDD: because of what was cached then, or is now.
    pub(crate) fn is_covered(&self, stage: StageRef, rdd: &RddInfo, blocks: &BlockMaster) -> bool {
        let before = self.covered.get(&stage).is_some_and(|covered| covered.contains(&rdd.id));
        before || covers(blocks, rdd)
    }
}

/// Whether every partition of the RDD is cached.
fn covers(blocks: &BlockMaster, rdd: &RddInfo) -> bool {
    let holders = |partition| blocks.holders(RddBlock { rdd: rdd.id, partition });
    rdd.is_persisted() && (0..rdd.partitions).all(|partition| !holders(partition).is_empty())
}
