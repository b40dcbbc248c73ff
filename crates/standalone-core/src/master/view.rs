//! A master's state to look at: for its pages, its metrics and the simulator.

use std::sync::Arc;

use firesteel_backend::{AppId, Peer};
use firesteel_types::{ExecutorId, Tick};

use super::app_table::CompletedApplication;
use super::application::Application;
use super::core::Master;
use super::driver_table::Driver;
use super::state::{ApplicationState, RecoveryState, WorkerStatus};
use super::worker_table::Worker;
use crate::description::{
    ApplicationDescription, DriverDescription, DriverState, ExecutorState, WorkerDescription,
};
use crate::{DriverId, Registration, WorkerId};

/// A worker to look at.
#[derive(Clone, Debug)]
pub struct WorkerView {
    /// As it introduced itself.
    pub worker: WorkerDescription,
    /// What it is to the master.
    pub status: WorkerStatus,
    pub cores_used: u32,
    pub memory_used_mb: u64,
    /// When it was heard last.
    pub last_heartbeat: Tick,
}

/// An executor to look at.
#[derive(Clone, Debug)]
pub struct ExecutorView {
    pub executor: ExecutorId,
    pub worker: WorkerId,
    pub cores: u32,
    pub memory_mb: u64,
    pub state: ExecutorState,
}

/// An application to look at.
#[derive(Clone, Debug)]
pub struct ApplicationView {
    pub app: AppId,
    pub description: Arc<ApplicationDescription>,
    /// Waiting, running, or how it ended.
    pub state: ApplicationState,
    /// Cores it has, or had.
    pub cores: u32,
    pub submitted: Tick,
    /// When it ended, if it did.
    pub ended: Option<Tick>,
    /// Why it ended, if it did.
    pub message: Option<String>,
    pub executors: Vec<ExecutorView>,
}

/// A driver to look at.
#[derive(Clone, Debug)]
pub struct DriverView {
    pub driver: DriverId,
    pub description: Arc<DriverDescription>,
    pub state: DriverState,
    pub submitted: Tick,
    /// Where it runs, or ran.
    pub worker: Option<WorkerId>,
}

#[derive(Clone, Debug)]
pub struct MasterView {
    pub url: String,
    pub status: RecoveryState,
    /// The master that leads instead, where that is known.
    pub leader: Option<String>,
    /// Workers, the dead ones too while they are listed.
    pub workers: Vec<WorkerView>,
    /// Applications that are not over, first come first.
    pub active_apps: Vec<ApplicationView>,
    /// Applications that are over, the last one last.
    pub completed_apps: Vec<ApplicationView>,
    /// Drivers that are not over.
    pub active_drivers: Vec<DriverView>,
    /// Drivers that are over, the last one last.
    pub completed_drivers: Vec<DriverView>,
}

impl Master {
    /// All there is to see.
    pub fn view(&self) -> MasterView {
        MasterView {
            url: self.options.url.clone(),
            status: self.status(),
            leader: self.leader().cloned(),
            workers: self.workers.iter().map(Worker::view).collect(),
            active_apps: self.apps.in_order().map(Application::view).collect(),
            completed_apps: self.apps.completed().map(CompletedApplication::view).collect(),
            active_drivers: self.drivers.active().map(|(_, driver)| driver.view()).collect(),
            completed_drivers: self.drivers.completed().map(Driver::view).collect(),
        }
    }

    /// The registration of a worker, and whether it counts. For the simulator.
    pub fn registration(&self, id: &WorkerId) -> Option<(Registration, bool)> {
        self.workers.get(id).map(|worker| (worker.registration(), worker.is_alive()))
    }

    /// Over which connection an application's driver is reached, if there is such an application.
    pub fn peer_of(&self, app: &AppId) -> Option<Peer> {
        self.apps.get(app).map(Application::peer)
    }

    /// The same of a worker that is there.
    pub fn peer_of_worker(&self, id: &WorkerId) -> Option<Peer> {
        self.workers.get(id).filter(|worker| worker.is_alive()).map(Worker::peer)
    }

    /// The books in a few numbers: live workers, cores and memory given out, executors counted on.
    pub fn totals(&self) -> (usize, u32, u64, usize) {
        let alive = || self.workers.alive();
        let executors = self.apps.iter().map(|app| app.executors().len()).sum();
        let cores = alive().map(Worker::cores_used).sum();
        (alive().count(), cores, alive().map(Worker::memory_used_mb).sum(), executors)
    }

    /// Whether some application could get an executor at this moment and has not (L01).
    pub fn has_unmet_demand(&self, now: Tick) -> bool {
        let workers: Vec<_> = self.workers.alive().collect();
        self.apps.in_order().any(|app| {
            self.demand_at(now, app.id()).is_some_and(|demand| {
                let cores = demand.cores_per_executor.unwrap_or(1);
                let mut workers = workers.iter();
                let fits = workers.any(|worker| {
                    let avoided = self.is_avoided(now, app.id(), worker.id());
                    worker.fits(cores, demand.memory_mb) && !avoided
                });
                demand.cores >= cores && fits
            })
        })
    }
}
