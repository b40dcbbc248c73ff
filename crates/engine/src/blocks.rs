//! Kept partitions as the schedulers and the listeners hear of them, and their end.

use std::any::Any;
use std::sync::{Arc, Weak};

use firesteel_conf::LocalTransport;
use firesteel_executor::Forgotten;
use firesteel_scheduler::engine::Input;
use firesteel_scheduler::messages::DagEvent;
use firesteel_storage::{BlockId, Watch};
use firesteel_task::Environment;
use firesteel_types::{Event, ExecutorId, Host, Location, RddId, StorageLevel};

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
            engine.unpersist(self.rdd);
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
        let status = engine.environment.blocks().status(id);
        engine.post(Event::BlockUpdated {
            block: id.to_string(),
            executor: ExecutorId::DRIVER,
            memory_bytes: status.map_or(0, |status| status.memory_bytes),
            disk_bytes: status.map_or(0, |status| status.disk_bytes),
            level: status.map_or(StorageLevel::NONE, |status| status.level),
        });
        let location =
            Location { host: Host::new("localhost"), executor: Some(ExecutorId::DRIVER) };
        let present = status.is_some();
        let updated = DagEvent::CacheUpdated { rdd, partition, location, present };
        engine.carry_out(state, Input::Dag(updated));
    }
}

impl Engine {
    /// What is to be held as long as the partitions of an RDD are to be kept.
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

    /// Whether tasks keep partitions in this process, where every other task finds them.
    pub fn keeps_blocks_here(&self) -> bool {
        matches!(&self.place, Place::Threads { transport, .. } if *transport != LocalTransport::Process)
    }

    /// An RDD whose partitions were dropped keeps them from now on.
    pub fn persist_again(&self, rdd: RddId) {
        self.place.persisted(rdd);
    }

    /// Drops the kept partitions of an RDD.
    pub fn unpersist(self: &Arc<Self>, rdd: RddId) {
        self.environment.remove_rdd(rdd);
        self.forget(Forgotten::Rdd(rdd));
        self.feed(Input::Dag(DagEvent::RddUnpersisted { rdd }));
        self.post(Event::UnpersistRdd { rdd });
    }
}
