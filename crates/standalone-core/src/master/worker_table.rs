//! The workers of a cluster, with what is booked on each of them.
//!
//! Invariant S01: what is used of a worker is the sum of what is booked on it, and never more than it has; nothing is
//! booked on a dead one.

use std::collections::BTreeMap;
use std::ops::Index;

use firesteel_backend::{Address, Peer};
use firesteel_types::{Host, Tick};

use super::records::WorkerRecord;
use super::state::WorkerStatus;
use super::view::WorkerView;
use crate::description::WorkerDescription;
use crate::{DriverId, ExecutorKey, Registration, WorkerId};

/// What is booked on a worker for one executor or driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) cores: u32,
    pub(super) memory_mb: u64,
}

/// Nobody is behind this connection: a worker or driver that has not come back yet.
pub(super) const UNREACHED: Peer = Peer(u64::MAX - 1);

#[derive(Debug)]
pub(super) struct Worker {
    description: WorkerDescription,
    peer: Peer,
    /// Since when its connection is broken.
    disconnected: Option<Tick>,
    /// When this master first looked and missed it.
    missed: Option<Tick>,
    registration: Registration,
    status: WorkerStatus,
    /// It gets nothing more to do, for as long as its process lives.
    decommissioned: bool,
    last_heartbeat: Tick,
    /// The largest number of its reports.
    reported: u64,
    executors: BTreeMap<ExecutorKey, Slot>,
    drivers: BTreeMap<DriverId, Slot>,
    cores_used: u32,
    memory_used_mb: u64,
}

impl Worker {
    pub(super) fn new(
        description: WorkerDescription,
        peer: Peer,
        registration: Registration,
        now: Tick,
    ) -> Self {
        Worker {
            description,
            peer,
            disconnected: None,
            missed: None,
            registration,
            status: WorkerStatus::Alive,
            decommissioned: false,
            last_heartbeat: now,
            reported: 0,
            executors: BTreeMap::new(),
            drivers: BTreeMap::new(),
            cores_used: 0,
            memory_used_mb: 0,
        }
    }

    /// A worker of a master before this one, which has not answered yet.
    pub(super) fn unknown(record: WorkerRecord, registration: Registration, now: Tick) -> Self {
        let WorkerRecord { worker, decommissioned } = record;
        let status = WorkerStatus::Unknown;
        let worker = Worker::new(worker, UNREACHED, registration, now);
        Worker { status, decommissioned, ..worker }
    }

    /// It gets nothing more to do. False if that is so already.
    pub(super) fn decommission(&mut self) -> bool {
        !std::mem::replace(&mut self.decommissioned, true)
    }

    pub(super) fn is_decommissioned(&self) -> bool {
        self.decommissioned
    }

    /// Whether somebody means it by this: its id, its host, or its address.
    pub(super) fn is_called(&self, name: &str) -> bool {
        let WorkerDescription { id, address, .. } = &self.description;
        *id.0 == *name || *address.host.0 == *name || address.to_string() == name
    }

    /// What is known of the same process goes on.
    pub(super) fn succeed(&mut self, before: &Worker) {
        let same = before.description.incarnation == self.description.incarnation;
        self.decommissioned |= before.decommissioned && same;
    }

    pub(super) fn is_alive(&self) -> bool {
        self.status == WorkerStatus::Alive
    }

    pub(super) fn is_unknown(&self) -> bool {
        self.status == WorkerStatus::Unknown
    }

    /// When this master has to look whether it is back: once shortly before it has been away for so long, and once then.
    fn next_look(&self, grace_ms: u64) -> Option<Tick> {
        let (since, apart) = (self.disconnected?, grace_ms / 4);
        let first = since.plus_ms(grace_ms - apart);
        Some(self.missed.map_or(first, |missed| missed.plus_ms(apart).max(since.plus_ms(grace_ms))))
    }

    /// Its connection is broken; it may come back.
    pub(super) fn is_disconnected(&self) -> bool {
        self.disconnected.is_some()
    }

    /// What is persisted of it: nothing, of a dead one.
    pub(super) fn record(&self) -> Option<WorkerRecord> {
        let counts = self.status != WorkerStatus::Dead;
        let (worker, decommissioned) = (&self.description, self.decommissioned);
        counts.then(|| WorkerRecord { worker: worker.clone(), decommissioned })
    }

    pub(super) fn id(&self) -> &WorkerId {
        &self.description.id
    }

    pub(super) fn description(&self) -> &WorkerDescription {
        &self.description
    }

    pub(super) fn host(&self) -> &Host {
        &self.description.address.host
    }

    pub(super) fn peer(&self) -> Peer {
        self.peer
    }

    pub(super) fn registration(&self) -> Registration {
        self.registration
    }

    pub(super) fn status(&self) -> WorkerStatus {
        match self.status {
            WorkerStatus::Alive if self.decommissioned => WorkerStatus::Decommissioned,
            status => status,
        }
    }

    pub(super) fn last_heartbeat(&self) -> Tick {
        self.last_heartbeat
    }

    /// A heartbeat came over this connection.
    pub(super) fn heard(&mut self, now: Tick, from: Peer) {
        (self.last_heartbeat, self.peer) = (now, from);
        (self.disconnected, self.missed) = (None, None);
    }

    /// Whether a report with this number says something new.
    pub(super) fn is_new(&mut self, number: u64) -> bool {
        let is_new = number > self.reported;
        self.reported = self.reported.max(number);
        is_new
    }

    pub(super) fn cores_used(&self) -> u32 {
        self.cores_used
    }

    pub(super) fn memory_used_mb(&self) -> u64 {
        self.memory_used_mb
    }

    pub(super) fn free_cores(&self) -> u32 {
        self.description.cores.saturating_sub(self.cores_used)
    }

    pub(super) fn free_memory_mb(&self) -> u64 {
        self.description.memory_mb.saturating_sub(self.memory_used_mb)
    }

    pub(super) fn fits(&self, cores: u32, memory_mb: u64) -> bool {
        let reached = self.is_alive() && !self.is_disconnected();
        reached && !self.decommissioned && self.has_capacity(Slot { cores, memory_mb })
    }

    pub(super) fn has_capacity(&self, slot: Slot) -> bool {
        self.free_cores() >= slot.cores && self.free_memory_mb() >= slot.memory_mb
    }

    pub(super) fn book_executor(&mut self, key: ExecutorKey, slot: Slot) {
        let taken = self.executors.insert(key, slot);
        assert!(taken.is_none(), "S01: an executor is booked twice");
        self.take(slot);
    }

    pub(super) fn book_driver(&mut self, driver: DriverId, slot: Slot) {
        let taken = self.drivers.insert(driver, slot);
        assert!(taken.is_none(), "S01: a driver is booked twice");
        self.take(slot);
    }

    fn take(&mut self, slot: Slot) {
        self.cores_used += slot.cores;
        self.memory_used_mb += slot.memory_mb;
    }

    /// Gives back what the executor held; false if it held nothing.
    pub(super) fn free_executor(&mut self, key: &ExecutorKey) -> bool {
        let slot = self.executors.remove(key);
        slot.map(|slot| self.give(slot)).is_some()
    }

    /// Gives back what the driver held; false if it held nothing.
    pub(super) fn free_driver(&mut self, driver: &DriverId) -> bool {
        let slot = self.drivers.remove(driver);
        slot.map(|slot| self.give(slot)).is_some()
    }

    fn give(&mut self, slot: Slot) {
        self.cores_used = self.cores_used.checked_sub(slot.cores).expect("S01: cores below zero");
        let memory = self.memory_used_mb.checked_sub(slot.memory_mb);
        self.memory_used_mb = memory.expect("S01: memory below zero");
    }

    pub(super) fn holds_executor(&self, key: &ExecutorKey) -> bool {
        self.executors.contains_key(key)
    }

    pub(super) fn holds_driver(&self, driver: &DriverId) -> bool {
        self.drivers.contains_key(driver)
    }

    pub(super) fn executor_slots(&self) -> impl Iterator<Item = (&ExecutorKey, Slot)> {
        self.executors.iter().map(|(key, slot)| (key, *slot))
    }

    pub(super) fn driver_slots(&self) -> impl Iterator<Item = (&DriverId, Slot)> {
        self.drivers.iter().map(|(driver, slot)| (driver, *slot))
    }

    pub(super) fn executor_keys(&self) -> impl Iterator<Item = &ExecutorKey> {
        self.executors.keys()
    }

    pub(super) fn driver_ids(&self) -> impl Iterator<Item = &DriverId> {
        self.drivers.keys()
    }

    /// How many executors and drivers are counted on there.
    pub(super) fn processes(&self) -> u32 {
        (self.executors.len() + self.drivers.len()) as u32
    }

    /// The worker is dead, and nothing is booked on it any more: gives back what was.
    pub(super) fn declare_dead(&mut self) -> (Vec<ExecutorKey>, Vec<DriverId>) {
        self.status = WorkerStatus::Dead;
        (self.cores_used, self.memory_used_mb) = (0, 0);
        let executors = std::mem::take(&mut self.executors).into_keys().collect();
        (executors, std::mem::take(&mut self.drivers).into_keys().collect())
    }

    pub(super) fn view(&self) -> WorkerView {
        WorkerView {
            worker: self.description.clone(),
            status: self.status(),
            cores_used: self.cores_used,
            memory_used_mb: self.memory_used_mb,
            last_heartbeat: self.last_heartbeat,
        }
    }

    fn assert_consistent(&self) {
        let slots = || self.executors.values().chain(self.drivers.values());
        let id = &self.description.id;
        let cores: u32 = slots().map(|slot| slot.cores).sum();
        assert_eq!(cores, self.cores_used, "S01: cores of {id}");
        let memory: u64 = slots().map(|slot| slot.memory_mb).sum();
        assert_eq!(memory, self.memory_used_mb, "S01: memory of {id}");
        let idle = self.executors.is_empty() && self.drivers.is_empty();
        assert!(self.status != WorkerStatus::Dead || idle, "S01: {id} is dead and holds something");
        assert!(cores <= self.description.cores, "S01: {id} gave {cores} cores");
        assert!(memory <= self.description.memory_mb, "S01: {id} gave {memory} MB");
    }
}

/// All workers, the dead ones too while they are listed.
#[derive(Debug, Default)]
pub(super) struct Workers {
    by_id: BTreeMap<WorkerId, Worker>,
}

impl Workers {
    pub(super) fn get(&self, id: &WorkerId) -> Option<&Worker> {
        self.by_id.get(id)
    }

    pub(super) fn get_mut(&mut self, id: &WorkerId) -> Option<&mut Worker> {
        self.by_id.get_mut(id)
    }

    /// The worker, if it is alive under this registration.
    pub(super) fn registered(
        &mut self,
        id: &WorkerId,
        registration: Registration,
    ) -> Option<&mut Worker> {
        let worker = self.by_id.get_mut(id);
        worker.filter(|worker| worker.is_alive() && worker.registration == registration)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Worker> {
        self.by_id.values()
    }

    pub(super) fn alive(&self) -> impl Iterator<Item = &Worker> {
        self.iter().filter(|worker| worker.is_alive())
    }

    /// Those that have not answered yet.
    pub(super) fn unknown(&self) -> impl Iterator<Item = &Worker> {
        self.iter().filter(|worker| worker.is_unknown())
    }

    /// The connection of a live worker is broken.
    pub(super) fn disconnected(&mut self, id: &WorkerId, now: Tick) {
        if let Some(worker) = self.by_id.get_mut(id) {
            worker.disconnected.get_or_insert(now);
        }
    }

    /// Live workers whose connection has been broken for so long, at two looks that lie apart: what came while this process
    /// stood still is read between them.
    pub(super) fn cut_off(&mut self, now: Tick, grace_ms: u64) -> Vec<WorkerId> {
        let mut cut_off = Vec::new();
        for worker in self.by_id.values_mut().filter(|worker| worker.is_alive()) {
            let due = worker.next_look(grace_ms).is_some_and(|at| now >= at);
            if due && worker.missed.replace(now).is_some() {
                cut_off.push(worker.id().clone());
            }
        }
        cut_off
    }

    /// When the next one has to be looked at.
    pub(super) fn next_cut_off(&self, grace_ms: u64) -> Option<Tick> {
        self.alive().filter_map(|worker| worker.next_look(grace_ms)).min()
    }

    /// Others at this address that are not there any more: not reached, or never answered.
    pub(super) fn gone_from(&self, address: &Address, but: &WorkerId) -> Vec<WorkerId> {
        let gone = self.iter().filter(|other| {
            let away = other.is_alive() && other.is_disconnected() || other.is_unknown();
            away && other.id() != but && other.description.address == *address
        });
        gone.map(|worker| worker.id().clone()).collect()
    }

    pub(super) fn clear(&mut self) {
        self.by_id.clear();
    }

    /// The live worker at the other end of a connection.
    pub(super) fn alive_behind(&self, peer: Peer) -> Option<&Worker> {
        self.alive().find(|worker| worker.peer == peer)
    }

    /// Another live worker at this address.
    pub(super) fn alive_at(&self, address: &Address, but: &WorkerId) -> Option<&Worker> {
        let mut others = self.alive().filter(|other| other.id() != but);
        others.find(|other| other.description.address == *address)
    }

    /// Live workers that have not been heard for longer than that.
    pub(super) fn silent(&self, now: Tick, timeout_ms: u64) -> Vec<WorkerId> {
        let is_silent = |worker: &&Worker| now.since_ms(worker.last_heartbeat) > timeout_ms;
        self.alive().filter(is_silent).map(|worker| worker.id().clone()).collect()
    }

    /// Takes a worker in, in the place of one of that name which is not alive.
    pub(super) fn insert(&mut self, worker: Worker) {
        let before = self.by_id.insert(worker.id().clone(), worker);
        assert!(before.is_none_or(|before| !before.is_alive()), "a live worker is replaced");
    }

    /// Lists a dead worker so long after its last heartbeat, and no longer.
    pub(super) fn forget_dead(&mut self, now: Tick, listed_ms: u64) {
        self.by_id.retain(|_, worker| {
            worker.status != WorkerStatus::Dead || now.since_ms(worker.last_heartbeat) <= listed_ms
        });
    }

    pub(super) fn assert_consistent(&self) {
        self.iter().for_each(Worker::assert_consistent);
    }
}

impl Index<&WorkerId> for Workers {
    type Output = Worker;

    fn index(&self, id: &WorkerId) -> &Worker {
        &self.by_id[id]
    }
}
