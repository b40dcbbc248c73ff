//! Who gets what is free: waiting drivers first, then applications in the order they came.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use firesteel_backend::AppId;
use firesteel_backend::mutant::Mutant;
use firesteel_types::Tick;

use super::core::{Master, Turn};
use super::placement::{Capacity, Demand, place};
use super::worker_table::Slot;
use crate::messages::{ToApplication, ToWorker};
use crate::{DriverId, WorkerId};

impl Master {
    pub(super) fn schedule(&mut self, turn: &mut Turn<'_>) {
        self.schedule_drivers(turn);
        let mut capacities = self.capacities();
        if capacities.is_empty() {
            return;
        }
        let queue: Vec<AppId> = self.apps.in_order().map(|app| app.id().clone()).collect();
        for id in queue {
            if capacities.is_empty() {
                return;
            }
            self.schedule_application(turn, &id, &mut capacities);
        }
    }

    /// What live workers have left, of those that have any cores left.
    fn capacities(&self) -> Vec<(WorkerId, Capacity)> {
        let ignores = self.ignores_decommissioning();
        let open = self.workers.iter().filter(|worker| {
            worker.fits(1, 0) || ignores && worker.is_alive() && worker.free_cores() > 0
        });
        open.map(|worker| {
            let capacity =
                Capacity { cores: worker.free_cores(), memory_mb: worker.free_memory_mb() };
            (worker.id().clone(), capacity)
        })
        .collect()
    }

    fn schedule_application(
        &mut self,
        turn: &mut Turn<'_>,
        id: &AppId,
        capacities: &mut Vec<(WorkerId, Capacity)>,
    ) {
        self.note_rest(turn.now, id);
        let Some(demand) = self.demand_at(turn.now, id) else { return };
        capacities.sort_by_key(|(_, capacity)| Reverse(capacity.cores));
        let offered: Vec<Capacity> = capacities
            .iter()
            .map(|(worker, capacity)| self.offer(turn.now, id, worker, *capacity))
            .collect();
        self.note_avoided(turn.now, id);
        let assigned = place(demand, &offered, self.options.spread_out_apps);
        for ((worker, capacity), cores) in capacities.iter_mut().zip(assigned) {
            if cores == 0 {
                continue;
            }
            let each = demand.cores_per_executor.unwrap_or(cores).max(1);
            for _ in 0..cores / each {
                self.launch_executor(turn, id, worker, each);
                capacity.cores -= each;
                capacity.memory_mb -= demand.memory_mb;
            }
        }
        capacities.retain(|(_, capacity)| capacity.cores > 0);
    }

    /// What a worker has left for this application: nothing, while it is avoided or its host is excluded.
    fn offer(&self, now: Tick, id: &AppId, worker: &WorkerId, capacity: Capacity) -> Capacity {
        let host = self.workers[worker].host();
        match self.is_avoided(now, id, worker) || self.apps[id].excludes(host) {
            true => Capacity { cores: 0, memory_mb: 0 },
            false => capacity,
        }
    }

    /// Whether this worker has failed the application's executors not long ago.
    pub(super) fn is_avoided(&self, now: Tick, id: &AppId, worker: &WorkerId) -> bool {
        let app = &self.apps[id];
        let avoided = app.launches().is_troubled(worker)
            && app.launches().avoided_until(worker, app.works()).is_some_and(|until| now < until);
        avoided && !self.relaunches_at_once()
    }

    fn relaunches_at_once(&self) -> bool {
        let planted = self.options.planted;
        planted.is(Mutant::RelaunchesAtOnce) || planted.is(Mutant::CountsLaunchesGlobally)
    }

    /// Looks again when the application has rested.
    fn note_rest(&mut self, now: Tick, id: &AppId) {
        let until = self.apps.get(id).map(|app| app.launches().resting_until());
        self.agenda.retry_at(now, until);
    }

    /// Looks again when a worker is avoided no longer.
    fn note_avoided(&mut self, now: Tick, id: &AppId) {
        let app = &self.apps[id];
        if app.launches().has_trouble() {
            let next = app.launches().next_retry(now, app.works());
            self.agenda.retry_at(now, next);
        }
    }

    /// What the application may still have; `None` if that is nothing.
    pub(super) fn demand_at(&self, now: Tick, id: &AppId) -> Option<Demand> {
        let app = self.apps.get(id)?;
        let rests = now < app.launches().resting_until() && !self.relaunches_at_once();
        if app.is_disconnected() || app.is_unknown() || app.has_claims() || rests {
            return None;
        }
        app.demand(self.options.default_cores)
    }

    fn launch_executor(&mut self, turn: &mut Turn<'_>, id: &AppId, worker: &WorkerId, cores: u32) {
        let peers = self.apps.get(id).map(|app| self.peers_for(app, worker)).unwrap_or_default();
        let app = self.apps.get_mut(id).expect("a waiting application");
        let memory_mb = app.description().memory_per_executor_mb;
        let executor = app.add(worker.clone(), cores, turn.now);
        let key = app.key(executor);
        let entry = self.workers.get_mut(worker).expect("a live worker");
        entry.book_executor(key.clone(), Slot { cores, memory_mb });
        turn.touch_app(id);
        let launch = ToWorker::LaunchExecutor {
            registration: entry.registration(),
            key,
            description: app.description().clone(),
            cores,
            memory_mb,
            peers,
        };
        turn.tell_worker(entry.peer(), launch);
        let (worker, host) = (worker.clone(), entry.host().clone());
        let added = ToApplication::ExecutorAdded { executor, worker, host, cores, memory_mb };
        turn.tell_app(app.peer(), added);
    }

    /// Drivers in the order they came, on live workers in turns.
    fn schedule_drivers(&mut self, turn: &mut Turn<'_>) {
        if self.drivers.waiting().is_empty() {
            return;
        }
        let alive: Vec<WorkerId> = self.workers.alive().map(|worker| worker.id().clone()).collect();
        // A driver takes something: while nothing is left, all of them wait, however many there are.
        if !alive.iter().any(|worker| self.workers[worker].fits(1, 1)) {
            return;
        }
        let mut unplaced = BTreeSet::new();
        for driver in self.drivers.waiting().to_vec() {
            self.place_driver(turn, &driver, &alive, &mut unplaced);
        }
    }

    /// `unplaced`: the cores and memory for which no worker had room in this round. Rooms only shrink in it.
    fn place_driver(
        &mut self,
        turn: &mut Turn<'_>,
        id: &DriverId,
        alive: &[WorkerId],
        unplaced: &mut BTreeSet<(u32, u64)>,
    ) {
        let Some(driver) = self.drivers.get(id) else { return };
        if let Some(until) = driver.fenced_until().filter(|until| *until > turn.now) {
            return self.agenda.retry_at(turn.now, Some(until));
        }
        let description = driver.description().clone();
        let demand = (description.cores, description.memory_mb);
        if unplaced.contains(&demand) {
            return;
        }
        let fits =
            |at: &usize| self.workers[&alive[*at]].fits(description.cores, description.memory_mb);
        let spread_out = self.options.spread_out_drivers;
        let Some(at) = self.drivers.offers(alive.len(), spread_out).find(fits) else {
            unplaced.insert(demand);
            return;
        };
        let worker = self.workers.get_mut(&alive[at]).expect("a live worker");
        let slot = Slot { cores: description.cores, memory_mb: description.memory_mb };
        worker.book_driver(id.clone(), slot);
        self.drivers.place(id, at, &alive[at], turn.now);
        turn.touch_driver(id);
        let registration = worker.registration();
        let launch = ToWorker::LaunchDriver { registration, driver: id.clone(), description };
        turn.tell_worker(worker.peer(), launch);
    }
}
