//! The invariants, by id.

use firesteel_backend::Peer;
use firesteel_standalone_core::ExecutorKey;
use firesteel_standalone_core::description::ExecutorState;
use firesteel_standalone_core::master::{ExecutorView, RecoveryState, WorkerStatus};
use firesteel_standalone_core::messages::ToApplication;
use firesteel_standalone_core::worker::WorkerEffect;
use firesteel_types::ExecutorId;

use crate::network::CLIENT;
use crate::nodes::{MasterNode, WorkerNode};
use crate::plan::{
    Flaw, HEARTBEAT_MS, NETWORK_TIMEOUT_MS, SETTLE_MS, SUBMITTED_CORES, SUBMITTED_MB,
    WORKER_TIMEOUT_MS, WorkerPlan,
};
use crate::world::{Body, Event, Kind, Proc, ProcId, World};

/// Clocks that gain or lose may be so far apart after a timeout.
const DRIFT_MS: u64 = 50;
/// How long it may take until others have the executors that an application had which is over.
const TURN_OVER_MS: u64 = 500;
/// More executors of one application than this are not started by one worker in a second.
const MOST_LAUNCHES: usize = 40;
/// So many launches that failed in a row speak against a worker.
const UNLUCKY: u32 = 3;

/// S06: an order under a registration that is no more changes nothing.
pub(crate) fn check_void_order(node: &WorkerNode, out: &[WorkerEffect]) -> Result<(), String> {
    let acts = |effect: &WorkerEffect| {
        matches!(
            effect,
            WorkerEffect::SpawnExecutor { .. }
                | WorkerEffect::KillExecutor { .. }
                | WorkerEffect::SpawnDriver { .. }
                | WorkerEffect::KillDriver { .. }
        )
    };
    if out.iter().any(acts) {
        return Err(format!("S06: {} carries out an order that is void", node.id));
    }
    Ok(())
}

/// Whether a worker is one that lives, to its master.
pub(crate) fn is_counted(status: WorkerStatus) -> bool {
    matches!(status, WorkerStatus::Alive | WorkerStatus::Decommissioned)
}

impl World {
    /// S02: what a worker's processes really take is never more than it offers.
    pub(crate) fn check_room(&self, proc: ProcId) -> Result<(), String> {
        let Some(Body::Worker(node)) = &self.procs[proc].body else { return Ok(()) };
        let submitted = node.submitted.values().filter(|child| self.procs[**child].alive).count();
        let mut cores = submitted as u32 * SUBMITTED_CORES;
        let mut memory_mb = submitted as u64 * SUBMITTED_MB;
        for executor in node.executors.values().filter(|executor| self.procs[**executor].alive) {
            if let Some(Body::Executor(executor)) = &self.procs[*executor].body {
                cores += executor.cores;
                memory_mb += executor.memory_mb;
            }
        }
        let offered = self.plan.workers[node.place];
        if cores > offered.cores || memory_mb > offered.memory_mb {
            let id = &node.id;
            return Err(format!("S02: {id} runs {cores} cores and {memory_mb} MB of {offered:?}"));
        }
        Ok(())
    }

    /// L06: an application whose executors fail or crash is not started over without a pause.
    pub(crate) fn check_launch_rate(&mut self, app: usize, worker: ProcId) -> Result<(), String> {
        let now = self.now;
        let launches = self.launches.entry((app, worker)).or_default();
        launches.push_back(now);
        while launches.front().is_some_and(|at| at + 1000 < now) {
            launches.pop_front();
        }
        if launches.len() > MOST_LAUNCHES {
            let started = launches.len();
            return Err(format!("L06: {started} executors of application {app} in a second"));
        }
        Ok(())
    }

    /// L06: the master ends no application for its executors while a worker could run them.
    pub(crate) fn check_removal(&self, to: Peer, message: &ToApplication) -> Result<(), String> {
        let ToApplication::ApplicationRemoved { message } = message else { return Ok(()) };
        let Some(connection) = self.connections.get(to.0 as usize) else { return Ok(()) };
        let Some(Body::Driver(node)) = &self.procs[connection.ends[CLIENT]].body else {
            return Ok(());
        };
        let flawed = self.plan.apps[node.app].flaw != Flaw::None;
        let goes_on = !flawed && !node.stopped;
        if message.contains("in a row") && goes_on && self.could_run(node.app) {
            return Err(format!("L06: a sound application was failed: {message}"));
        }
        Ok(())
    }

    /// Whether a worker that the master counts on could run executors of the application. One on which chance crashed several may
    /// look to the master like one that cannot.
    fn could_run(&self, app: usize) -> bool {
        let plan = &self.plan.apps[app];
        let Some(master) = self.acting_master() else { return false };
        self.workers.iter().enumerate().any(|(place, worker)| {
            let WorkerPlan { cores, memory_mb } = self.plan.workers[place];
            let large =
                cores >= plan.cores_per_executor.unwrap_or(1) && memory_mb >= plan.memory_mb;
            let id = worker.and_then(|worker| match &self.procs[worker].body {
                Some(Body::Worker(node)) if self.procs[worker].alive => Some(&node.id),
                _ => None,
            });
            let status = id.and_then(|id| master.core.worker_status(id));
            let alive = status.is_some_and(|(status, _)| status == WorkerStatus::Alive);
            let crashed = worker.and_then(|worker| self.crashed.get(&worker)).copied().unwrap_or(0);
            large && alive && self.plan.bad_place != Some(place) && crashed < UNLUCKY
        })
    }

    /// Whether the executor is one that its worker cannot start.
    fn is_bad(&self, executor: &ExecutorView) -> bool {
        let bad = self.plan.bad_place.map(|place| format!("-{place}"));
        bad.is_some_and(|bad| executor.worker.0.ends_with(&bad))
    }

    pub(crate) fn acting_master(&self) -> Option<&MasterNode> {
        match &self.procs[self.acting_process()?].body {
            Some(Body::Master(node)) => Some(node),
            _ => None,
        }
    }

    /// The leader, or who thinks so and has the largest term.
    pub(crate) fn acting_process(&self) -> Option<ProcId> {
        let masters = self.masters.iter().flatten().copied();
        let leads = masters.filter_map(|proc| match &self.procs[proc].body {
            Some(Body::Master(node)) if self.procs[proc].alive => {
                (node.core.status() != RecoveryState::Standby).then(|| (node.core.term(), proc))
            }
            _ => None,
        });
        leads.max().map(|(_, proc)| proc)
    }

    /// S25: masters that crash, stand still, lose their store or a connection cost no application an executor.
    pub(crate) fn check_loss(&self, executor: ExecutorId, reason: &str) -> Result<(), String> {
        match self.plan.masters_only {
            true => Err(format!("S25: executor {executor} was lost: {reason}")),
            false => Ok(()),
        }
    }

    /// L05: a dead process is known to be dead within its timeout and one look at the clock.
    pub(crate) fn check_noticed(&mut self, dead: ProcId, since: u64) -> Result<(), String> {
        match self.procs[dead].kind {
            Kind::Worker => self.check_worker_noticed(dead, since),
            Kind::Executor => self.check_executor_noticed(dead, since),
            _ => Ok(()),
        }
    }

    fn check_worker_noticed(&mut self, dead: ProcId, since: u64) -> Result<(), String> {
        let Some(Body::Worker(node)) = &self.procs[dead].body else { return Ok(()) };
        let status = self.acting_master().and_then(|master| master.core.worker_status(&node.id));
        let status = status.filter(|(status, _)| is_counted(*status));
        let (Some((_, heard)), Some(master)) = (status, self.acting_process()) else {
            self.counters.noticed_workers += 1;
            return Ok(());
        };
        let allowed = WORKER_TIMEOUT_MS + HEARTBEAT_MS + DRIFT_MS;
        let heard = self.moment_of(master, heard);
        let silent = self.now.saturating_sub(heard.max(self.master_away));
        if self.master_away < self.now && silent > allowed {
            return Err(format!("L05: {} is dead since {since} and counts as alive", node.id));
        }
        self.push(self.now + 200, Event::NoticeDue { dead, since });
        Ok(())
    }

    /// A master hears that a connection broke: the worker behind it comes back soon, or is missed.
    pub(crate) fn expect_back(&mut self, master: ProcId, connection: usize) {
        let since = self.now;
        let at = since + HEARTBEAT_MS + DRIFT_MS;
        self.push(at, Event::CutOffDue { master, connection, since });
    }

    /// L05: a worker whose connection broke is missed after one heartbeat, whether its master recovers or not.
    pub(crate) fn check_cut_off(
        &mut self,
        master: ProcId,
        connection: usize,
        since: u64,
    ) -> Result<(), String> {
        let awake = self.procs[master].paused_until;
        if awake > since && self.now < awake + HEARTBEAT_MS + DRIFT_MS {
            self.push(
                awake + HEARTBEAT_MS + DRIFT_MS,
                Event::CutOffDue { master, connection, since },
            );
            return Ok(());
        }
        let worker = self.connections[connection].ends[CLIENT];
        let (Some(Body::Master(node)), Some(Body::Worker(worker))) =
            (&self.procs[master].body, &self.procs[worker].body)
        else {
            return Ok(());
        };
        self.counters.workers_cut_off += 1;
        if node.core.peer_of_worker(&worker.id) == Some(Peer(connection as u64)) {
            let (id, status) = (&worker.id, node.core.status());
            return Err(format!(
                "L05: {id} is cut off since {since} and counts as alive to a master that is {status:?}"
            ));
        }
        Ok(())
    }

    fn check_executor_noticed(&mut self, dead: ProcId, since: u64) -> Result<(), String> {
        let Proc { alive, paused_until, .. } = self.procs[dead];
        if alive && paused_until <= self.now {
            return Ok(());
        }
        let Some(Body::Executor(node)) = &self.procs[dead].body else { return Ok(()) };
        let process = &self.procs[node.driver];
        let awake = process.paused_until;
        let Some(Body::Driver(driver)) = &process.body else { return Ok(()) };
        let Some(heard) = driver.registry.last_seen(node.key.executor) else {
            self.counters.noticed_executors += 1;
            return Ok(());
        };
        let allowed = NETWORK_TIMEOUT_MS + NETWORK_TIMEOUT_MS / 8 + 100 + DRIFT_MS;
        let heard = process.clock.moment_of(heard);
        if self.now.saturating_sub(heard.max(awake)) > allowed {
            return Err(format!("L05: executor {} is silent since {since} and counts", node.key));
        }
        self.push(self.now + 200, Event::NoticeDue { dead, since });
        Ok(())
    }

    /// L03: an executor ends soon after its driver, with or without a master.
    pub(crate) fn check_orphans(&mut self, driver: ProcId) -> Result<(), String> {
        let orphans = self.executors.iter().filter(|(_, proc)| match &self.procs[**proc].body {
            Some(Body::Executor(node)) => node.driver == driver && self.procs[**proc].alive,
            _ => false,
        });
        let orphans: Vec<_> = orphans.map(|(key, proc)| (key.clone(), *proc)).collect();
        let mut again = None;
        for (key, proc) in orphans {
            let heard = self.procs[proc].paused_until.max(self.heard_driver(proc));
            let allowed = heard + NETWORK_TIMEOUT_MS + 2 * HEARTBEAT_MS + DRIFT_MS;
            if self.now > allowed {
                return Err(format!("L03: executor {key} outlives its driver"));
            }
            again = again.max(Some(allowed + 1));
        }
        if let Some(at) = again {
            self.push(at, Event::OrphansDue { driver });
        }
        Ok(())
    }

    /// When an executor heard its driver last, or started.
    fn heard_driver(&self, proc: ProcId) -> u64 {
        match &self.procs[proc].body {
            Some(Body::Executor(node)) => self.moment_of(proc, node.core.heard()).max(node.started),
            _ => 0,
        }
    }

    /// The faults have been over for long: views must agree (L01), and who waited for that goes on.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        if self.is_turning_over() {
            self.push(self.now + TURN_OVER_MS, Event::SettleDue);
            return Ok(());
        }
        self.tell(|_| "everything must have settled".to_owned());
        self.check_agreement()?;
        self.check_decommissioned()?;
        self.check_blocks()?;
        self.check_pieces()?;
        for driver in self.drivers.clone().into_iter().flatten() {
            self.finish_if_done(driver)?;
        }
        Ok(())
    }

    /// Whether an application has just ended, or is about to: others get what it had.
    fn is_turning_over(&self) -> bool {
        let ending = self.drivers.iter().flatten().any(|driver| {
            let proc = &self.procs[*driver];
            proc.alive && matches!(&proc.body, Some(Body::Driver(node)) if node.stopped)
        });
        ending
            || self.is_preparing()
            || self.is_poisoned()
            || self.driver_gone.is_some_and(|at| at + TURN_OVER_MS > self.now)
    }

    /// Whether a task ends executors, or did so not long ago: others take their place.
    fn is_poisoned(&self) -> bool {
        let since = NETWORK_TIMEOUT_MS + NETWORK_TIMEOUT_MS / 2;
        self.poisoned.is_some_and(|at| at + since > self.now)
    }

    /// L01: nobody who could have an executor lacks one; what the master counts on runs on its worker
    /// and is registered with its driver, and nothing else does.
    fn check_agreement(&self) -> Result<(), String> {
        let (Some(master), Some(process)) = (self.acting_master(), self.acting_process()) else {
            return Err("L01: there is no master".to_owned());
        };
        // An executor whose launch is due in this very moment is on its way.
        let just_now = self.procs[process].clock.shows(self.now.saturating_sub(50));
        if master.core.has_unmet_demand(just_now) {
            return Err("L01: an application lacks an executor that it could have".to_owned());
        }
        let view = master.core.view();
        let mut counted = 0;
        for app in &view.active_apps {
            let proc = self.app_ids.get(&app.app).copied();
            let Some(proc) = proc.filter(|proc| self.procs[*proc].alive) else {
                return Err(format!("L03: {} is active without a driver", app.app));
            };
            let Some(Body::Driver(node)) = &self.procs[proc].body else { continue };
            let flawed = self.plan.apps[node.app].flaw != Flaw::None;
            let mut registered: Vec<ExecutorId> = node.registry.executors().collect();
            registered.sort();
            let good = || app.executors.iter().filter(|executor| !self.is_bad(executor));
            let ordered: Vec<ExecutorId> = good().map(|e| e.executor).collect();
            if !flawed && registered != ordered && !node.stopped {
                return Err(format!(
                    "L01: {} has {registered:?} and should have {ordered:?}",
                    app.app
                ));
            }
            for executor in good() {
                counted += 1;
                if executor.state != ExecutorState::Running && !flawed {
                    return Err(format!("L01: {}/{} never ran", app.app, executor.executor));
                }
            }
        }
        self.check_processes(counted)
    }

    fn check_processes(&self, counted: usize) -> Result<(), String> {
        let alive = |proc: &&ProcId| self.procs[**proc].alive;
        let running = self.executors.values().filter(alive).count();
        // An application that ends in this very moment has orders and processes on their way.
        let ending = self.drivers.iter().flatten().any(|driver| match &self.procs[*driver].body {
            Some(Body::Driver(node)) => {
                let flawed = self.plan.apps[node.app].flaw != Flaw::None;
                node.stopped || flawed
            }
            _ => false,
        });
        if running != counted && !ending {
            return Err(format!("L03: {running} executors run, {counted} are counted on"));
        }
        Ok(())
    }

    /// After the last driver is gone, nothing of it may be left anywhere (L03, S17).
    pub(crate) fn check_end(&self) -> Result<(), String> {
        if self.now <= self.plan.quiet_at + SETTLE_MS {
            return Ok(());
        }
        let Some(master) = self.acting_master() else { return Ok(()) };
        let (_, cores, _, executors) = master.core.totals();
        let submitted = !self.plan.submitted.is_empty();
        if executors != 0 || cores != 0 && !submitted {
            return Err(format!(
                "L03: {executors} executors and {cores} cores are still given out"
            ));
        }
        Ok(())
    }

    /// L02, L03: what is not over by the deadline never will be.
    pub(crate) fn overdue(&self) -> String {
        for driver in self.drivers.iter().flatten() {
            if let Some(Body::Driver(node)) = &self.procs[*driver].body
                && self.procs[*driver].alive
            {
                let open = node.jobs.iter().filter(|(_, job)| !job.ended);
                let open: Vec<_> = open.map(|(id, _)| id).collect();
                let (app, tasks) = (node.app, node.scheduler.tasks());
                let (sets, running) = (tasks.task_sets(), tasks.running_tasks());
                let suspects = !tasks.has_no_suspects();
                return format!(
                    "L02: application {app} is not over at the deadline; open jobs {open:?}, {sets} \
                     task sets, {running} running tasks, suspects: {suspects}"
                );
            }
        }
        let alive = |(_, proc): &(&ExecutorKey, &ProcId)| self.procs[**proc].alive;
        let orphans: Vec<_> = self.executors.iter().filter(alive).map(|(key, _)| key).collect();
        format!("L03: executors {orphans:?} outlive their applications")
    }

    pub(crate) fn count_stale(&mut self) {
        for proc in &self.procs {
            match &proc.body {
                Some(Body::Master(node)) => {
                    self.counters.stale_for_masters += node.core.stale_messages();
                }
                Some(Body::Worker(node)) if proc.alive => {
                    self.counters.stale_for_workers += node.core.stale_messages();
                }
                _ => {}
            }
        }
    }
}
