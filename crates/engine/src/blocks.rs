//! Cached partitions as the block master hears of them, their end, and questions about where blocks lie.

use std::any::Any;
use std::sync::{Arc, Weak};

use firesteel_conf::LocalTransport;
use firesteel_scheduler::SchedulerInput;
use firesteel_scheduler::blocks::{BlockMaster, Peers, Piece, PieceRequest};
use firesteel_scheduler::messages::DagEvent;
use firesteel_storage::{BlockId, Watch};
use firesteel_task::Environment;
use firesteel_types::{BlockLocation, BroadcastId, Event, RddBlock, RddId};

use super::Engine;
use super::place::Place;

/// The cached partitions of an RDD, held by its node. They go when nobody can read them any more.
pub struct CachedPartitions {
    rdd: RddId,
    engine: Weak<Engine>,
}

impl Drop for CachedPartitions {
    fn drop(&mut self) {
        if let Some(engine) = self.engine.upgrade() {
            engine.drop_partitions(self.rdd, DagEvent::RddRemoved { rdd: self.rdd });
        }
    }
}

struct BlockWatch(Weak<Engine>);

/// Lets the engine hear of the partitions that this process keeps.
pub(super) fn watch(engine: &Arc<Engine>) {
    let watch = BlockWatch(Arc::downgrade(engine));
    engine.environment.blocks().set_watch(Box::new(watch));
}

impl Watch for BlockWatch {
    /// Asks under the engine's lock what became of the block: of two changes, told by two threads, the
    /// one that is told last finds how it ended.
    fn block_changed(&self, id: BlockId) {
        let (Some(engine), BlockId::Rdd(rdd, partition)) = (self.0.upgrade(), id) else { return };
        let state = engine.lock();
        let (location, block) = (BlockLocation::DRIVER, RddBlock { rdd, partition });
        let status = engine.environment.blocks().status(id);
        engine.carry_out(state, SchedulerInput::BlockUpdated { location, block, status });
    }
}

impl Engine {
    /// What is to be held as long as the partitions of an RDD are to be cached.
    pub fn cache_partitions(self: &Arc<Self>, rdd: RddId) -> Arc<CachedPartitions> {
        Arc::new(CachedPartitions { rdd, engine: Arc::downgrade(self) })
    }

    /// Drops something of the lineage when all jobs are over that run now.
    pub fn let_go_after_jobs(&self, cut_off: Arc<dyn Any + Send + Sync>) {
        let mut state = self.lock();
        for job in state.jobs.values_mut() {
            job.cut_off.push(cut_off.clone());
        }
        drop(state);
        drop(cut_off);
    }

    /// Whether tasks cache partitions in this process, where every other task finds them.
    pub fn caches_blocks_here(&self) -> bool {
        matches!(&self.place, Place::Threads { transport, .. } if *transport != LocalTransport::Process)
    }

    /// An RDD whose partitions were dropped caches them from now on.
    pub fn persist_again(self: &Arc<Self>, rdd: RddId) {
        self.feed(SchedulerInput::Dag(DagEvent::RddPersisted { rdd }));
    }

    /// Drops the cached partitions of an RDD. What is cached later is dropped where it is told of.
    pub fn unpersist(self: &Arc<Self>, rdd: RddId) {
        self.drop_partitions(rdd, DagEvent::RddUnpersisted { rdd });
    }

    fn drop_partitions(self: &Arc<Self>, rdd: RddId, event: DagEvent) {
        // Here and now: the caller of `unpersist` finds the memory and the disk free afterwards.
        // An item that panics when it is dropped stops nobody, and aborts nothing that unwinds already.
        let removed = firesteel_executor::catch(|| self.environment.blocks().remove_rdd(rdd));
        if let Err(failure) = removed {
            tracing::error!(rdd = rdd.0, %failure, "a cached item could not be dropped");
        }
        self.feed(SchedulerInput::Dag(event));
        self.post(Event::UnpersistRdd { rdd });
    }

    /// The next piece of a broadcast value for a reader, if the value `is_known` still; `None`: it waits.
    pub(super) fn next_piece(
        &self,
        id: BroadcastId,
        of: u32,
        request: PieceRequest,
        is_known: impl FnOnce() -> bool,
    ) -> Option<Piece> {
        let mut state = self.lock();
        // Under the lock: what is removed later is removed from the block master too.
        if is_known() { state.scheduler.next_piece(id, of, request) } else { None }
    }

    /// Who holds a cached partition beside `holder`, which is about to make replicas of it, and who else may.
    pub(super) fn peers(&self, holder: BlockLocation, block: RddBlock) -> Peers {
        self.lock().scheduler.peers(holder, block)
    }

    /// Asks where blocks lie. Under the lock: short questions only, which wait for nobody.
    pub(super) fn with_blocks<T>(&self, ask: impl FnOnce(&BlockMaster) -> T) -> T {
        ask(self.lock().scheduler.blocks())
    }
}
