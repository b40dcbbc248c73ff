//! Workers that get nothing more to do, because their machines are to be taken away.
//!
//! Executors there end what they do: their drivers give them no more tasks, and let them go when the last one has ended. Others take
//! their place at once. Drivers there go on until they end. The worker remembers it, too, so that a master that was started with
//! nothing learns it; it is over with the worker's process.

use firesteel_backend::mutant::Mutant;
use firesteel_backend::{AppId, Peer};
use firesteel_types::ExecutorId;

use super::application::Application;
use super::core::{Master, Turn};
use super::worker_table::Worker;
use crate::description::{ExecutorState, ExecutorUpdate};
use crate::messages::{MasterReply, ToApplication, ToWorker};
use crate::{ExecutorKey, WorkerId};

impl Master {
    pub(super) fn decommission_workers(&mut self, turn: &mut Turn<'_>, from: Peer, name: &str) {
        let counts = |worker: &&Worker| worker.is_alive() || worker.is_unknown();
        let called = self.workers.iter().filter(counts).filter(|worker| worker.is_called(name));
        let workers: Vec<WorkerId> = called.map(|worker| worker.id().clone()).collect();
        for id in &workers {
            self.decommission(turn, id);
        }
        let running = workers.iter().filter_map(|id| self.workers.get(id)).map(Worker::processes);
        let running = running.sum();
        turn.reply(from, MasterReply::DecommissionResponse { workers, running });
    }

    /// What a worker says of itself, or what it has not heard yet.
    pub(super) fn reconcile_decommission(
        &mut self,
        turn: &mut Turn<'_>,
        id: &WorkerId,
        knows: bool,
    ) {
        let worker = &self.workers[id];
        if worker.is_decommissioned() && !knows {
            let registration = worker.registration();
            turn.tell_worker(worker.peer(), ToWorker::DecommissionWorker { registration });
        }
        if worker.is_decommissioned() || knows {
            self.decommission(turn, id);
        }
    }

    fn decommission(&mut self, turn: &mut Turn<'_>, id: &WorkerId) {
        let Some(worker) = self.workers.get_mut(id) else { return };
        if worker.decommission() {
            turn.touch_worker(id);
            let registration = worker.registration();
            turn.tell_worker(worker.peer(), ToWorker::DecommissionWorker { registration });
            self.agenda.reschedule();
        }
        // What one that has not answered yet runs is not known.
        if worker.is_alive() {
            let keys: Vec<ExecutorKey> = worker.executor_keys().cloned().collect();
            keys.iter().for_each(|key| self.decommission_executor(turn, id, key));
        }
    }

    /// One that does not run yet has nothing to end.
    fn decommission_executor(&mut self, turn: &mut Turn<'_>, id: &WorkerId, key: &ExecutorKey) {
        let Some(app) = self.apps.get_mut(&key.app) else { return };
        match app.executor_on(id, key.executor).map(|executor| executor.state) {
            Some(ExecutorState::Launching) => {
                self.kill_executor(turn, key, "its worker was decommissioned");
            }
            Some(ExecutorState::Running) if app.decommission(key.executor) => {
                tell_decommissioned(turn, app, key.executor);
                self.agenda.reschedule();
            }
            _ => {}
        }
    }

    /// A driver that counts on these hears it again until they are over: it may not have heard it.
    pub(super) fn tell_decommissioned(
        &self,
        turn: &mut Turn<'_>,
        id: &AppId,
        registered: &[ExecutorId],
    ) {
        let Some(app) = self.apps.get(id) else { return };
        let known = app.decommissioned().filter(|executor| registered.contains(executor));
        known.for_each(|executor| tell_decommissioned(turn, app, executor));
    }

    /// Whether a worker gets nothing more to do. For the simulator.
    pub fn is_decommissioned(&self, id: &WorkerId) -> bool {
        self.workers.get(id).is_some_and(Worker::is_decommissioned)
    }

    /// Whether this master gives decommissioned workers work, as none should.
    pub(super) fn ignores_decommissioning(&self) -> bool {
        self.options.planted.is(Mutant::UsesDecommissionedWorkers)
    }
}

fn tell_decommissioned(turn: &mut Turn<'_>, app: &Application, executor: ExecutorId) {
    let update = ExecutorUpdate { executor, state: ExecutorState::Decommissioned, end: None };
    turn.tell_app(app.peer(), ToApplication::ExecutorUpdated(update));
}
