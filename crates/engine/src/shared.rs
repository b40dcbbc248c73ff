//! Shared variables: broadcast values and accumulators.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use firesteel_closure::Data;
use firesteel_executor::Forgotten;
use firesteel_task::{Accumulate, Accumulator, Broadcast, BroadcastOwner, UpdateTarget};
use firesteel_types::{AccumulatorId, BroadcastId, CallSite, Event, ExecutorId, StorageLevel};

use crate::Engine;

impl Engine {
    /// A read-only value for all tasks: goes to each executor once.
    pub fn broadcast<T: Data>(self: &Arc<Self>, value: T, site: CallSite) -> Broadcast<T> {
        // No two engines of a process have the same: a value in the wrong hands must not pass for another.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = BroadcastId(NEXT.fetch_add(1, Relaxed));
        let value = Arc::new(value);
        if self.is_stopped() {
            let reason =
                format!("broadcast {id} cannot be used: its context was stopped before {site}");
            return Broadcast::unusable(id, value, reason);
        }
        self.environment.put_broadcast(id, value.clone());
        self.post(Event::BlockUpdated {
            block: format!("broadcast_{id}"),
            executor: ExecutorId::DRIVER,
            memory_bytes: size_of::<T>() as u64,
            disk_bytes: 0,
            level: StorageLevel::MEMORY_AND_DISK,
        });
        Broadcast::new(id, value, Box::new(OwnedBroadcast { id, engine: self.clone() }))
    }

    /// A variable that tasks add to and the driver reads.
    pub fn accumulator<A: Accumulate>(&self) -> Accumulator<A> {
        self.registered(Accumulator::new(self.next_accumulator()))
    }

    /// One whose updates listeners hear of under this name.
    pub fn named_accumulator<A: Accumulate + Display>(&self, name: &str) -> Accumulator<A> {
        self.registered(Accumulator::named(self.next_accumulator(), name))
    }

    fn next_accumulator(&self) -> AccumulatorId {
        AccumulatorId(self.application.ids.accumulator.fetch_add(1, Relaxed))
    }

    fn registered<A: Accumulate>(&self, accumulator: Accumulator<A>) -> Accumulator<A> {
        if let Some(target) = accumulator.target() {
            self.register_accumulator(accumulator.id(), &target);
        }
        accumulator
    }

    fn register_accumulator(&self, id: AccumulatorId, target: &Arc<dyn UpdateTarget>) {
        let mut state = self.lock();
        if state.accumulators.len().is_multiple_of(64) {
            state.accumulators.retain(|_, target| target.strong_count() > 0);
        }
        state.accumulators.insert(id, Arc::downgrade(target));
    }
}

struct OwnedBroadcast {
    id: BroadcastId,
    engine: Arc<Engine>,
}

impl BroadcastOwner for OwnedBroadcast {
    fn unpersist(&self) {
        self.engine.environment.unpersist_broadcast(self.id);
        self.engine.forget(Forgotten::BroadcastCopies(self.id));
    }

    fn destroy(&self, reason: &str) {
        self.engine.environment.destroy_broadcast(self.id, reason);
        self.engine.forget(Forgotten::BroadcastCopies(self.id));
        self.engine.forget(Forgotten::Broadcast(self.id));
    }
}

impl Drop for OwnedBroadcast {
    fn drop(&mut self) {
        self.engine.environment.remove_broadcast(self.id);
        self.engine.forget(Forgotten::Broadcast(self.id));
        self.engine.post(Event::BroadcastRemoved { broadcast: self.id });
    }
}
