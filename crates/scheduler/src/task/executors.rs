//! The ledger of executors: who is there, how many cores are free, who may get tasks.
//!
//! Invariant S03: used + free = cores, for every executor, after every change; tasks that wait there
//! use none, and there are such only where no core is free for them. Invariants S04 and
//! S05: an id that was lost once is never taken in again.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use firesteel_types::{ExecutorId, Host};

/// A place in the order of offers: most free cores first, then by id.
pub(super) type OfferKey = (Reverse<u32>, ExecutorId);

#[derive(Debug)]
pub(super) struct Executor {
    host: Host,
    cores: u32,
    free: u32,
    /// Tasks on its cores.
    tasks: u32,
    /// Tasks that wait there for a core.
    queued: u32,
    /// How many tasks it has the cores for.
    slots: u32,
    /// It shall get no new tasks because it will go.
    decommissioned: bool,
    /// It gets no tasks of the application for now, because of failures on it or its node.
    excluded: bool,
    /// It is lost; its attempts are being ended.
    condemned: bool,
    /// The last sweep of offers that reached it.
    sweep: u64,
}

impl Executor {
    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    /// Whether failures keep all tasks of the application off it.
    pub(super) fn is_excluded(&self) -> bool {
        self.excluded
    }

    /// Whether it is lost, and its attempts are being ended.
    pub(super) fn is_condemned(&self) -> bool {
        self.condemned
    }

    /// Whether it may get new tasks.
    pub(super) fn usable(&self) -> bool {
        self.is_candidate() && !self.excluded
    }

    /// How many tasks it has the cores for.
    pub(super) fn slots(&self) -> u64 {
        u64::from(self.slots)
    }

    /// How many tasks have a core there.
    pub(super) fn on_cores(&self) -> usize {
        self.tasks as usize
    }

    /// How many tasks wait there for a core.
    pub(super) fn queued(&self) -> u32 {
        self.queued
    }

    /// Whether it could run a task of the application if nothing were excluded.
    fn is_candidate(&self) -> bool {
        self.slots > 0 && !self.decommissioned && !self.condemned
    }
}

/// All executors, with the free ones in the order of offers.
#[derive(Debug)]
pub(super) struct Executors {
    cpus: u32,
    alive: BTreeMap<ExecutorId, Executor>,
    lost: BTreeSet<ExecutorId>,
    offerable: BTreeSet<OfferKey>,
    usable_by_host: BTreeMap<Host, u32>,
    /// Of all that are usable.
    slots: u64,
}

impl Executors {
    /// None yet; a task will take `cpus` cores.
    pub(super) fn new(cpus: u32) -> Self {
        Executors {
            cpus,
            alive: BTreeMap::new(),
            lost: BTreeSet::new(),
            offerable: BTreeSet::new(),
            usable_by_host: BTreeMap::new(),
            slots: 0,
        }
    }

    /// Takes an executor in; false if it is known or was lost before.
    pub(super) fn add(&mut self, id: ExecutorId, host: Host, cores: u32, excluded: bool) -> bool {
        if self.lost.contains(&id) || self.alive.contains_key(&id) {
            return false;
        }
        let executor = Executor {
            host,
            cores,
            free: cores,
            tasks: 0,
            queued: 0,
            slots: cores / self.cpus,
            decommissioned: false,
            excluded,
            condemned: true,
            sweep: 0,
        };
        self.alive.insert(id, executor);
        self.change(id, |executor| executor.condemned = false);
        true
    }

    /// Bars the id for ever (S04); true if it was registered and not condemned before.
    pub(super) fn condemn(&mut self, id: ExecutorId) -> bool {
        self.lost.insert(id);
        let alive = self.alive.get(&id).is_some_and(|executor| !executor.condemned);
        self.change(id, |executor| executor.condemned = true);
        alive
    }

    /// It gets no new tasks because it will go.
    pub(super) fn decommission(&mut self, id: ExecutorId) {
        self.change(id, |executor| executor.decommissioned = true);
    }

    /// It gets no tasks of the application for now, or may get them again.
    pub(super) fn set_excluded(&mut self, id: ExecutorId, excluded: bool) {
        self.change(id, |executor| executor.excluded = excluded);
    }

    /// Forgets a condemned executor, after its attempts were ended.
    pub(super) fn remove(&mut self, id: ExecutorId) {
        let executor = self.alive.remove(&id);
        assert!(executor.is_none_or(|e| e.condemned && e.tasks + e.queued == 0), "S03: tasks left");
    }

    /// Takes the cores of one task; where none are free, it waits for them.
    pub(super) fn reserve(&mut self, id: ExecutorId) {
        let cpus = self.cpus;
        self.change(id, |executor| match executor.free.checked_sub(cpus) {
            Some(free) => {
                executor.free = free;
                executor.tasks += 1;
            }
            None => executor.queued += 1,
        });
    }

    /// Gives the cores of one task back, or to one that waits for them.
    pub(super) fn release(&mut self, id: ExecutorId) {
        let cpus = self.cpus;
        self.change(id, |executor| match executor.queued.checked_sub(1) {
            Some(queued) => executor.queued = queued,
            None => {
                executor.free += cpus;
                executor.tasks =
                    executor.tasks.checked_sub(1).expect("S03: a task ended that did not run");
            }
        });
    }

    /// The one way to change an executor: keeps the order of offers and the hosts true.
    fn change(&mut self, id: ExecutorId, apply: impl FnOnce(&mut Executor)) {
        let Some(executor) = self.alive.get_mut(&id) else { return };
        let (was_usable, was_free) = (executor.usable(), executor.free);
        apply(executor);
        assert_eq!(executor.free + executor.tasks * self.cpus, executor.cores, "S03");
        let (usable, free) = (executor.usable(), executor.free);
        if was_usable && was_free >= self.cpus {
            self.offerable.remove(&(Reverse(was_free), id));
        }
        if usable && free >= self.cpus {
            self.offerable.insert((Reverse(free), id));
        }
        if was_usable != usable {
            let slots = executor.slots();
            self.slots = if usable { self.slots + slots } else { self.slots - slots };
            count_host(&mut self.usable_by_host, &executor.host, usable);
        }
    }

    /// The executor if it can take a task now.
    pub(super) fn offerable(&self, id: ExecutorId) -> Option<&Executor> {
        self.alive.get(&id).filter(|executor| executor.usable() && executor.free >= self.cpus)
    }

    /// The executor if it may get tasks and has no core for one now.
    pub(super) fn busy(&self, id: ExecutorId) -> Option<&Executor> {
        self.alive.get(&id).filter(|executor| executor.usable() && executor.free < self.cpus)
    }

    /// How many tasks the usable executors have the cores for.
    pub(super) fn slots(&self) -> u64 {
        self.slots
    }

    /// The next executor after `cursor` that can take a task and was not reached by this sweep.
    pub(super) fn next_offer(&mut self, cursor: Option<OfferKey>, sweep: u64) -> Option<OfferKey> {
        let start = cursor.map_or(Bound::Unbounded, Bound::Excluded);
        for key in self.offerable.range((start, Bound::Unbounded)) {
            let executor = self.alive.get_mut(&key.1).expect("offers name registered executors");
            if executor.sweep != sweep {
                executor.sweep = sweep;
                return Some(*key);
            }
        }
        None
    }

    /// Recounts what [`super::TaskScheduler::assert_invariants`] asks of executors, given the
    /// executor of every running attempt.
    pub(super) fn assert_consistent(&self, attempts: impl Iterator<Item = ExecutorId>) {
        let mut tasks: BTreeMap<ExecutorId, u32> = BTreeMap::new();
        for id in attempts {
            assert!(!self.lost.contains(&id), "S04: a task runs on lost executor {id}");
            *tasks.entry(id).or_insert(0) += 1;
        }
        for (id, executor) in &self.alive {
            let running = tasks.remove(id).unwrap_or(0);
            let there = executor.tasks + executor.queued;
            assert_eq!(there, running, "S03: executor {id} miscounts its tasks");
            let cores = executor.free + executor.tasks * self.cpus;
            assert_eq!(cores, executor.cores, "S03: executor {id} miscounts its cores");
            let idle = executor.queued > 0 && executor.free >= self.cpus;
            assert!(!idle, "S03: tasks wait at executor {id} beside free cores");
            let offered = self.offerable.contains(&(Reverse(executor.free), *id));
            assert_eq!(offered, executor.usable() && executor.free >= self.cpus, "executor {id}");
        }
        let usable = self.alive.values().filter(|executor| executor.usable());
        assert_eq!(usable.map(Executor::slots).sum::<u64>(), self.slots, "slots are miscounted");
        assert!(tasks.is_empty(), "tasks run on unknown executors {tasks:?}");
        assert!(self.offerable.len() <= self.alive.len(), "an executor is offered twice");
    }

    pub(super) fn get(&self, id: ExecutorId) -> Option<&Executor> {
        self.alive.get(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ExecutorId, &Executor)> {
        self.alive.iter().map(|(id, executor)| (*id, executor))
    }

    /// Executors that could run a task if nothing were excluded.
    pub(super) fn candidates(&self) -> impl Iterator<Item = (ExecutorId, &Executor)> {
        self.iter().filter(|(_, executor)| executor.is_candidate())
    }

    pub(super) fn is_usable(&self, id: ExecutorId) -> bool {
        self.alive.get(&id).is_some_and(Executor::usable)
    }

    pub(super) fn is_host_usable(&self, host: &Host) -> bool {
        self.usable_by_host.contains_key(host)
    }

    /// Whether a usable executor lies on another host than this one.
    pub(super) fn has_other_host(&self, host: &Host) -> bool {
        self.usable_by_host.keys().take(2).any(|other| other != host)
    }

    /// Whether there is a usable executor besides this one.
    pub(super) fn has_other_executor(&self, id: ExecutorId) -> bool {
        let usable: u32 = self.usable_by_host.values().take(2).sum();
        usable > u32::from(self.is_usable(id))
    }

    /// Those that can take a task.
    pub(super) fn with_a_free_slot(&self) -> impl Iterator<Item = ExecutorId> {
        self.offerable.iter().map(|(_, id)| *id)
    }

    pub(super) fn count(&self) -> usize {
        self.alive.len()
    }

    pub(super) fn free_cores(&self) -> u64 {
        self.alive.values().map(|executor| u64::from(executor.free)).sum()
    }
}

fn count_host(hosts: &mut BTreeMap<Host, u32>, host: &Host, up: bool) {
    if up {
        *hosts.entry(host.clone()).or_insert(0) += 1;
        return;
    }
    let count = hosts.get_mut(host).expect("a usable executor's host is counted");
    *count -= 1;
    if *count == 0 {
        hosts.remove(host);
    }
}
