//! Cached partitions in the world: executors that hold, evict and replicate them, and what they tell their driver, late, or
//! not at all until a heartbeat says it again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use fastrand::Rng;
use firesteel_scheduler::SchedulerInput;
use firesteel_scheduler::messages::DagEvent;
use firesteel_types::{BlockLocation, BlockStatus, RddBlock, RddId, RddInfo, StorageLevel, TaskId};

use crate::driver::DriverNode;
use crate::lineage::Computed;
use crate::network::{CLIENT, Message};
use crate::plan::HEARTBEAT_MS;
use crate::reading::Fresh;
use crate::world::{Body, Event, ProcId, World};

/// What changed less long ago than this may not be known to everybody.
const NEWS_MS: u64 = 3 * HEARTBEAT_MS;

/// A cached partition, with the epoch of the task that computed it.
#[derive(Clone, Debug)]
struct Cached {
    computed: Computed,
    level: StorageLevel,
    epoch: u64,
}

/// The cached partitions of an executor.
#[derive(Debug, Default)]
pub(crate) struct Store {
    blocks: BTreeMap<RddBlock, Cached>,
    /// Partitions of these RDDs are not cached if they are of an earlier epoch.
    outdated: BTreeMap<RddId, u64>,
    /// When a partition came or went last.
    changed: BTreeMap<RddBlock, u64>,
}

impl Store {
    /// A cached partition, and the epoch of the task that computed it.
    pub(crate) fn get(&self, block: RddBlock) -> Option<(&Computed, u64)> {
        self.blocks.get(&block).map(|cached| (&cached.computed, cached.epoch))
    }

    fn status(&self, block: RddBlock) -> Option<BlockStatus> {
        let Cached { level, epoch, .. } = self.blocks.get(&block)?;
        Some(BlockStatus { memory_bytes: 8, disk_bytes: 0, level: *level, epoch: *epoch })
    }

    fn all(&self) -> Vec<(RddBlock, BlockStatus)> {
        self.blocks.keys().filter_map(|block| Some((*block, self.status(*block)?))).collect()
    }

    /// Whether the partition is taken: it is not outdated, and newer than what is there.
    fn insert(&mut self, block: RddBlock, cached: Cached, now: u64) -> bool {
        let outdated = self.outdated.get(&block.rdd).is_some_and(|epoch| cached.epoch < *epoch);
        let known = self.blocks.get(&block).is_some_and(|known| known.epoch >= cached.epoch);
        if outdated || known {
            return false;
        }
        self.blocks.insert(block, cached);
        self.changed.insert(block, now);
        true
    }

    fn is_settled(&self, block: RddBlock, now: u64) -> bool {
        self.changed.get(&block).is_none_or(|changed| changed + NEWS_MS < now)
    }
}

/// What executors and their driver say to each other about blocks.
#[derive(Clone, Debug)]
pub(crate) enum BlockMessage {
    Updated { location: BlockLocation, block: RddBlock, status: Option<BlockStatus> },
    Reported { location: BlockLocation, cached: Vec<(RddBlock, BlockStatus)> },
    LocatePeers { holder: BlockLocation, block: RddBlock },
    DropOutdated(RddId, u64),
    Replicate(Vec<RddBlock>),
}

/// A partition on its way to those that are to hold a replica.
#[derive(Debug)]
pub(crate) struct Copying {
    pub(crate) holder: ProcId,
    block: RddBlock,
    missing: u32,
    candidates: VecDeque<ProcId>,
}

/// Some RDDs are persisted.
pub(crate) fn persist_some(rng: &mut Rng, rdds: &[Arc<RddInfo>]) {
    let levels = [
        StorageLevel::MEMORY_ONLY,
        StorageLevel::MEMORY_ONLY_2,
        StorageLevel::MEMORY_AND_DISK_2,
        StorageLevel::DISK_ONLY_3,
    ];
    let often = rng.u8(..4);
    for rdd in rdds {
        let level = levels[rng.usize(..levels.len())];
        if rng.u8(..6) < often {
            rdd.storage_level.set(level);
        }
    }
}

impl World {
    /// A task caches what it computed of persisted RDDs; others are evicted now and then.
    pub(crate) fn cache(&mut self, proc: ProcId, fresh: Vec<Fresh>, epoch: u64) {
        for (block, level, computed) in fresh {
            self.counters.partitions_cached += 1;
            self.put(proc, block, Cached { computed, level, epoch });
            self.store_partition(proc);
            if level.replication > 1 {
                let Some(holder) = self.location_of(proc) else { return };
                self.tell_driver(proc, BlockMessage::LocatePeers { holder, block });
            }
        }
        if self.faulty() && self.rng.u8(..16) == 0 {
            self.evict_some(proc);
        }
    }

    pub(crate) fn location_of(&self, proc: ProcId) -> Option<BlockLocation> {
        match &self.procs[proc].body {
            Some(Body::Executor(node)) => Some(node.key.executor.into()),
            _ => None,
        }
    }

    fn tell_driver(&mut self, proc: ProcId, message: BlockMessage) {
        let Some(Body::Executor(node)) = &self.procs[proc].body else { return };
        let driver = node.driver;
        self.send_to(proc, Some(driver), 0, Message::Blocks(message));
    }

    fn put(&mut self, proc: ProcId, block: RddBlock, cached: Cached) {
        let now = self.now;
        let Some(Body::Executor(node)) = &mut self.procs[proc].body else { return };
        match node.store.insert(block, cached, now) {
            true => self.block_changed(proc, block),
            false => self.counters.partitions_refused += 1,
        }
    }

    /// Before a task runs, its executor knows what must not be read.
    pub(crate) fn hear_outdated(&mut self, proc: ProcId, task: TaskId) {
        let Some(Body::Executor(executor)) = &self.procs[proc].body else { return };
        let Some(Body::Driver(node)) = &self.procs[executor.driver].body else { return };
        let outdated = node.book.told_outdated(task);
        self.drop_outdated(proc, &outdated);
    }

    fn drop_outdated(&mut self, proc: ProcId, outdated: &[(RddId, u64)]) {
        for (rdd, epoch) in outdated {
            let Some(Body::Executor(node)) = &mut self.procs[proc].body else { return };
            let known = node.store.outdated.entry(*rdd).or_default();
            if *known >= *epoch {
                continue;
            }
            *known = *epoch;
            self.take(proc, |block, cached| block.rdd == *rdd && cached < *epoch);
        }
    }

    /// Tells the driver of a change, unless the message finds no room in the queue.
    fn block_changed(&mut self, proc: ProcId, block: RddBlock) {
        let Some(Body::Executor(node)) = &self.procs[proc].body else { return };
        let (location, status) = (node.key.executor.into(), node.store.status(block));
        if self.faulty() && self.rng.u8(..10) == 0 {
            self.counters.block_updates_lost += 1;
            return;
        }
        self.tell_driver(proc, BlockMessage::Updated { location, block, status });
    }

    pub(crate) fn evict_some(&mut self, proc: ProcId) {
        let Some(Body::Executor(node)) = &self.procs[proc].body else { return };
        let (driver, all) = (node.driver, node.store.blocks.keys().copied().collect::<Vec<_>>());
        let Some(block) = self.rng.choice(all) else { return };
        self.counters.partitions_evicted += 1;
        if let Some(Body::Driver(node)) = &mut self.procs[driver].body {
            node.book.evicted.insert(block);
        }
        self.take(proc, |other, _| *other == block);
    }

    /// An executor drops cached partitions.
    fn take(&mut self, proc: ProcId, which: impl Fn(&RddBlock, u64) -> bool) {
        let now = self.now;
        let Some(Body::Executor(node)) = &mut self.procs[proc].body else { return };
        let taken = node.store.blocks.iter().filter(|(block, cached)| which(block, cached.epoch));
        let taken: Vec<_> = taken.map(|(block, _)| *block).collect();
        for block in &taken {
            node.store.blocks.remove(block);
            node.store.changed.insert(*block, now);
        }
        taken.into_iter().for_each(|block| self.block_changed(proc, block));
    }

    /// With each heartbeat an executor says all that it caches.
    pub(crate) fn report_blocks(&mut self, proc: ProcId) {
        let Some(Body::Executor(node)) = &self.procs[proc].body else { return };
        let (location, cached) = (node.key.executor.into(), node.store.all());
        self.tell_driver(proc, BlockMessage::Reported { location, cached });
    }

    pub(crate) fn hear_blocks(
        &mut self,
        proc: ProcId,
        message: BlockMessage,
    ) -> Result<(), String> {
        match message {
            BlockMessage::Updated { location, block, status } => {
                self.note_said(proc, location, status.map(|_| block).as_slice());
                let updated = SchedulerInput::BlockUpdated { location, block, status };
                self.feed_schedulers(proc, vec![updated])
            }
            BlockMessage::Reported { location, cached } => {
                let blocks: Vec<RddBlock> = cached.iter().map(|(block, _)| *block).collect();
                self.count_healed(proc, location, &blocks);
                self.note_said(proc, location, &blocks);
                self.feed_schedulers(
                    proc,
                    vec![SchedulerInput::BlocksReported { location, cached }],
                )
            }
            BlockMessage::LocatePeers { holder, block } => self.locate_peers(proc, holder, block),
            BlockMessage::DropOutdated(rdd, epoch) => {
                self.drop_outdated(proc, &[(rdd, epoch)]);
                Ok(())
            }
            BlockMessage::Replicate(blocks) => {
                let Some(holder) = self.location_of(proc) else { return Ok(()) };
                self.counters.replicas_ordered += blocks.len() as u64;
                for block in blocks {
                    self.tell_driver(proc, BlockMessage::LocatePeers { holder, block });
                }
                Ok(())
            }
        }
    }

    fn note_said(&mut self, driver: ProcId, location: BlockLocation, blocks: &[RddBlock]) {
        if let Some(Body::Driver(node)) = &mut self.procs[driver].body {
            blocks.iter().for_each(|block| node.book.said(location, *block));
        }
    }

    fn count_healed(&mut self, driver: ProcId, location: BlockLocation, says: &[RddBlock]) {
        let Some(Body::Driver(node)) = &self.procs[driver].body else { return };
        let blocks = node.scheduler.blocks();
        let known = |block: &&RddBlock| blocks.holders(**block).contains(&location);
        let unknown = says.iter().filter(|block| !known(block)).count();
        self.counters.blocks_healed += if blocks.has_holder(location) { unknown as u64 } else { 0 };
    }

    fn locate_peers(
        &mut self,
        driver: ProcId,
        holder: BlockLocation,
        block: RddBlock,
    ) -> Result<(), String> {
        let Some(Body::Driver(node)) = &mut self.procs[driver].body else { return Ok(()) };
        let peers = node.scheduler.peers(holder, block);
        peers.candidates.iter().try_for_each(|peer| node.book.check_lives(*peer))?;
        let of_driver = |location: BlockLocation| self.executor_of(driver, location.executor()?);
        let Some(from) = of_driver(holder) else { return Ok(()) };
        let Some(Body::Executor(executor)) = &self.procs[from].body else { return Ok(()) };
        let level = executor.store.blocks.get(&block).map(|cached| cached.level);
        let wanted = level.map_or(0, |level| level.replication.saturating_sub(1));
        let missing = wanted.saturating_sub(peers.replicas);
        let candidates = peers.candidates.into_iter().filter_map(of_driver).collect();
        // Few take long, those that read from a busy disk.
        let most = if self.rng.u8(..8) == 0 { 2000 } else { 200 };
        let at = self.now + 1 + self.rng.u64(..most);
        let copying = Copying { holder: from, block, missing, candidates };
        self.push(at, Event::Copies(Box::new(copying)));
        Ok(())
    }

    /// The next of those that are to hold a replica gets it, unless it is gone.
    pub(crate) fn copy(&mut self, mut copying: Box<Copying>) -> Result<(), String> {
        let Some(Body::Executor(from)) = &self.procs[copying.holder].body else { return Ok(()) };
        let Some(cached) = from.store.blocks.get(&copying.block).cloned() else {
            return Ok(());
        };
        while let Some(to) = copying.candidates.front().copied().filter(|_| copying.missing > 0) {
            if self.procs[to].alive && self.procs[to].paused_until > self.now {
                let at = self.procs[to].paused_until.min(self.now + 500);
                self.push(at, Event::Copies(copying));
                return Ok(());
            }
            copying.candidates.pop_front();
            if self.procs[to].alive {
                self.counters.replicas_made += 1;
                self.put(to, copying.block, cached.clone());
                copying.missing -= 1;
            }
        }
        Ok(())
    }

    /// The driver tells something to an executor, or to all of them.
    pub(crate) fn tell_holders(
        &mut self,
        node: &DriverNode,
        at: Option<BlockLocation>,
        message: &BlockMessage,
    ) {
        let all: Vec<_> = node.registry.executors().map(BlockLocation::from).collect();
        for location in at.map_or(all, |at| vec![at]) {
            self.tell_holder(node, location, message.clone());
        }
    }

    pub(crate) fn tell_holder(
        &mut self,
        node: &DriverNode,
        location: BlockLocation,
        message: BlockMessage,
    ) {
        let peer = location.executor().and_then(|executor| node.registry.peer(executor));
        let Some(peer) = peer else { return };
        let connection = peer.0 as usize;
        // Tasks take another way: they may be there first.
        if self.faulty() && self.rng.u8(..4) == 0 {
            self.counters.orders_late += 1;
            let at = self.now + self.rng.u64(..1000);
            return self.push(at, Event::ToldLate { connection, message: Box::new(message) });
        }
        self.send(connection, CLIENT, Message::Blocks(message));
    }

    /// A user unpersists an RDD before a job, or persists one again.
    pub(crate) fn change_mind(&mut self, driver: ProcId) -> Result<(), String> {
        let Some(Body::Driver(node)) = &self.procs[driver].body else { return Ok(()) };
        let rdds = node.rdds.clone();
        let Some(rdd) = self.rng.choice(rdds).filter(|_| self.rng.u8(..4) == 0) else {
            return Ok(());
        };
        let id = rdd.id;
        if !rdd.is_persisted() {
            rdd.storage_level.set(StorageLevel::MEMORY_ONLY_2);
            return self.feed_schedulers(
                driver,
                vec![SchedulerInput::Dag(DagEvent::RddPersisted { rdd: id })],
            );
        }
        self.counters.rdds_unpersisted += 1;
        rdd.storage_level.set(StorageLevel::NONE);
        self.feed_schedulers(
            driver,
            vec![SchedulerInput::Dag(DagEvent::RddUnpersisted { rdd: id })],
        )
    }

    /// L08: when faults are over, every driver knows what its executors cache, and there are as many replicas as are wanted
    /// and can be.
    pub(crate) fn check_blocks(&self) -> Result<(), String> {
        for driver in self.drivers.iter().flatten() {
            let Some(Body::Driver(node)) = &self.procs[*driver].body else { continue };
            if self.procs[*driver].alive && !node.stopped {
                self.check_cached(*driver, node)?;
                self.check_replicas(node)?;
            }
        }
        Ok(())
    }

    fn check_cached(&self, driver: ProcId, node: &DriverNode) -> Result<(), String> {
        let blocks = node.scheduler.blocks();
        for proc in self.executors.values().map(|proc| &self.procs[*proc]) {
            let Some(Body::Executor(executor)) = &proc.body else { continue };
            let location = BlockLocation::from(executor.key.executor);
            if executor.driver != driver || !proc.alive || !blocks.has_holder(location) {
                continue;
            }
            let settled = |block: RddBlock| {
                executor.started + NEWS_MS < self.now && executor.store.is_settled(block, self.now)
            };
            for rdd in &node.rdds {
                for block in
                    (0..rdd.partitions).map(|partition| RddBlock { rdd: rdd.id, partition })
                {
                    let (known, held) =
                        (blocks.holders(block), executor.store.get(block).is_some());
                    if known.contains(&location) != held && settled(block) && !executor.frozen {
                        return Err(format!(
                            "L08: {location} holds {block}: {held}; known otherwise"
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    fn check_replicas(&self, node: &DriverNode) -> Result<(), String> {
        let (blocks, executors) = (node.scheduler.blocks(), node.registry.executors().count());
        if node.book.holders_changed + NEWS_MS > self.now {
            return Ok(());
        }
        for (block, holders, wanted) in blocks.cached() {
            let settled = |location: &BlockLocation| {
                self.executors.iter().all(|(key, proc)| match &self.procs[*proc].body {
                    Some(Body::Executor(executor)) => {
                        location.executor() != Some(key.executor)
                            || executor.store.is_settled(block, self.now)
                    }
                    _ => true,
                })
            };
            let short = holders.len() < wanted.min(executors);
            if short && !node.book.evicted.contains(&block) && holders.iter().all(settled) {
                let holders = holders.len();
                return Err(format!(
                    "L08: {block} has {holders} holder(s), {wanted} are wanted, {executors} are there"
                ));
            }
        }
        Ok(())
    }
}
