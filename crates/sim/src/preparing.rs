//! Executables that workers fetch before executors start: it takes longer than a driver waits for a word, and goes on whether
//! or not somebody waits for it.

use firesteel_backend::provider::{Preparing, ProviderCommand};
use firesteel_standalone_core::worker::WorkerEvent;
use firesteel_types::ExecutorId;

use crate::plan::{Flaw, NETWORK_TIMEOUT_MS};
use crate::world::{Body, Event, ProcId, World};

/// How often a worker tells how far it is.
const STEP_MS: u64 = 400;
/// How long an executor may take from then until it is registered.
const REGISTERS_MS: u64 = 2000;

impl World {
    /// An executor starts when its worker has what it needs.
    pub(crate) fn fetch_executable(
        &mut self,
        app: usize,
        (worker, place): (ProcId, usize),
        executor: ProcId,
    ) {
        let soon = self.now + 10 + self.rng.u64(..50);
        let plan = &self.plan.apps[app];
        let fetch_ms = plan.fetch_ms.filter(|_| plan.flaw == Flaw::None).unwrap_or(0);
        let ready = *self.fetched.entry((app, place)).or_insert(self.now + fetch_ms);
        if ready <= self.now {
            return self.push(soon, Event::Wakes(executor));
        }
        if let Some(Body::Executor(node)) = &mut self.procs[executor].body {
            node.started = ready;
        }
        self.push(self.now + STEP_MS, Event::Prepares { worker, executor });
    }

    /// A worker has fetched a little more.
    pub(crate) fn prepare(&mut self, worker: ProcId, executor: ProcId) -> Result<(), String> {
        let Some(Body::Executor(node)) = &self.procs[executor].body else { return Ok(()) };
        if !self.procs[executor].alive {
            return Ok(());
        }
        let (key, ready) = (node.key.clone(), node.started);
        self.counters.fetch_steps += 1;
        if ready <= self.now {
            self.push(self.now + 10, Event::Wakes(executor));
        } else {
            self.push(self.now + STEP_MS, Event::Prepares { worker, executor });
        }
        let preparing = Preparing { bytes: self.now.min(ready), of: ready, waits: 0 };
        self.feed_worker(worker, WorkerEvent::ExecutorPreparing { key, preparing })
    }

    /// Whether a worker still fetches an executable, or has just done so: an executor is about to register.
    pub(crate) fn is_preparing(&self) -> bool {
        self.fetched.values().any(|ready| ready + REGISTERS_MS > self.now)
    }

    fn is_prepared_after(&self, executor: ProcId, moment: u64) -> bool {
        let late = |body: &Body| matches!(body, Body::Executor(node) if node.started > moment);
        self.procs[executor].alive && self.procs[executor].body.as_ref().is_some_and(late)
    }

    /// L11: an executor is not declared dead while its worker fetches what it needs, if the worker could tell of that all the time.
    pub(crate) fn check_declared_dead(
        &self,
        driver: ProcId,
        command: &ProviderCommand,
    ) -> Result<(), String> {
        let ProviderCommand::Release(executors) = command else { return Ok(()) };
        let faithful = [self.plan.loss, self.plan.repetition, self.plan.overtaking] == [0; 3];
        let dead = executors.iter().find(|id| self.was_told_of(driver, **id));
        match dead.filter(|_| faithful) {
            Some(executor) => Err(format!(
                "L11: executor {executor} was declared dead while its worker fetched its executable"
            )),
            None => Ok(()),
        }
    }

    /// Whether driver, master and the worker of an executor that is being prepared were awake and connected for long.
    fn was_told_of(&self, driver: ProcId, executor: ExecutorId) -> bool {
        let Some(proc) = self.executor_of(driver, executor) else { return false };
        let master = self.acting_process();
        let number = self.masters.iter().position(|number| number.is_some() && *number == master);
        let (Some(Body::Executor(node)), Some(master), Some(number)) =
            (&self.procs[proc].body, master, number)
        else {
            return false;
        };
        let told = |from: ProcId| {
            let link = self.procs[from].links.get(&number).copied();
            link.is_some_and(|link| self.sent_heartbeats(from, master, link, NETWORK_TIMEOUT_MS))
        };
        let since = self.now.saturating_sub(NETWORK_TIMEOUT_MS + 1000);
        let master_there = self.procs[master].alive && self.master_away < since;
        self.is_prepared_after(proc, self.now) && master_there && told(node.worker) && told(driver)
    }
}
