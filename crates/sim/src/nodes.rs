//! Masters, workers and executors as processes: feeds their cores, carries out what they decide.

use std::collections::{BTreeMap, BTreeSet};

use firesteel_backend::blame::ExitStatus;
use firesteel_backend::executor::{self, ExecutorEffect, ExecutorEvent};
use firesteel_backend::fetch::Heard;
use firesteel_backend::jitter::Jitter;
use firesteel_backend::protocol::ToDriver;
use firesteel_backend::registry::RegistryEvent;
use firesteel_backend::{Address, Peer};
use firesteel_standalone_core::application::AppClientEvent;
use firesteel_standalone_core::description::{ApplicationDescription, WorkerDescription};
use firesteel_standalone_core::master::{Master, MasterEffect, MasterEvent, MasterOptions};
use firesteel_standalone_core::messages::{ToMaster, ToWorker};
use firesteel_standalone_core::worker::{
    CleanUp, Worker, WorkerEffect, WorkerEvent, WorkerOptions,
};
use firesteel_standalone_core::{DriverId, ExecutorKey, Incarnation, Registration, WorkerId, date};
use firesteel_types::{Host, ShuffleId, TaskFailure, TaskId, TaskOutcome};

use crate::cached::Store;
use crate::check::check_void_order;
use crate::clock::Machine;
use crate::fetching::Fetches;
use crate::lineage::Computed;
use crate::memory::Memory;
use crate::network::{CLIENT, Message, SERVER};
use crate::pieces::Gathered;
use crate::plan::{DRIVER_LEASE_MS, Flaw, HEARTBEAT_MS, NETWORK_TIMEOUT_MS, WORKER_TIMEOUT_MS};
use crate::reading::Locations;
use crate::verdicts::{check_files_unused, check_kept};
use crate::world::{Body, Core, Event, Kind, ProcId, World};

pub(crate) struct MasterNode {
    pub(crate) core: Master,
}

pub(crate) struct WorkerNode {
    pub(crate) core: Worker,
    pub(crate) id: WorkerId,
    pub(crate) place: usize,
    pub(crate) executors: BTreeMap<ExecutorKey, ProcId>,
    pub(crate) submitted: BTreeMap<DriverId, ProcId>,
    /// When its guard ends supervised drivers.
    pub(crate) guard: u64,
}

pub(crate) struct ExecutorNode {
    pub(crate) core: executor::Executor,
    pub(crate) key: ExecutorKey,
    pub(crate) driver: ProcId,
    pub(crate) worker: ProcId,
    pub(crate) cores: u32,
    pub(crate) memory_mb: u64,
    pub(crate) started: u64,
    pub(crate) killed: BTreeSet<TaskId>,
    /// By shuffle, map partition and the attempt that wrote it.
    pub(crate) blocks: BTreeMap<(ShuffleId, u32, TaskId), Computed>,
    pub(crate) store: Store,
    /// What its tasks and cached partitions hold.
    pub(crate) memory: Memory,
    /// Where map outputs lie, as it heard last.
    pub(crate) located: Heard<Locations>,
    /// What its tasks read, in runs in which they do so step by step.
    pub(crate) fetches: BTreeMap<TaskId, Fetches>,
    /// What it has of the broadcast value.
    pub(crate) gathered: Gathered,
    /// A task froze it: it goes on never more.
    pub(crate) frozen: bool,
}

impl World {
    pub(crate) fn start_masters(&mut self) {
        for number in 0..self.plan.masters {
            self.start_master(number).expect("a master starts");
        }
    }

    /// It is a standby until its store says that it leads.
    pub(crate) fn start_master(&mut self, number: usize) -> Result<(), String> {
        let machine = Machine::Master(number);
        // The operator who starts it again has an eye on its machine.
        if self.now > 0 && self.rng.u8(..3) == 0 {
            self.set_clock(machine);
        }
        let options = MasterOptions {
            url: format!("spark://master{number}:7077"),
            worker_timeout_ms: WORKER_TIMEOUT_MS,
            spread_out_apps: self.plan.spread_out,
            crash_memory_ms: 1500,
            starvation_ms: 3000,
            retained_applications: 20,
            retained_drivers: 20,
            recovery_timeout_ms: WORKER_TIMEOUT_MS,
            driver_lease_ms: DRIVER_LEASE_MS,
            elected: self.is_elected(),
            first_number: self.rng.u16(..10_000),
            planted: self.settings.planted,
            ..MasterOptions::default()
        };
        let core = Master::new(options);
        let proc = self.add(Kind::Master, machine, Body::Master(Box::new(MasterNode { core })));
        self.masters[number] = Some(proc);
        self.tell(|_| format!("master {number} starts as process {proc}"));
        self.stand_for_election(proc)
    }

    pub(crate) fn start_worker(&mut self, place: usize) -> Result<(), String> {
        if self.workers[place].is_some_and(|proc| self.procs[proc].alive) {
            return Ok(());
        }
        let plan = self.plan.workers[place];
        let machine = Machine::Worker(place);
        let started = self.walls.start(machine, self.now).shows(self.now);
        let id = WorkerId(format!("worker-{}-{place}", date::compact(started)).into());
        let description = WorkerDescription {
            id: id.clone(),
            incarnation: Incarnation(self.rng.u64(..)),
            address: Address { host: host_of(place), port: 7000 },
            web_ui: String::new(),
            cores: plan.cores,
            memory_mb: plan.memory_mb,
        };
        let options = WorkerOptions {
            first_wait_ms: if self.aside.bool() { 40 } else { 500 },
            fast_wait_ms: 500,
            slow_wait_ms: 1000,
            fast_attempts: 4,
            max_attempts: self.plan.worker_attempts,
            clean_up: self.rng.bool().then_some(CleanUp { interval_ms: 3000, age_ms: 1 }),
            planted: self.settings.planted,
            ..WorkerOptions::new(description, self.plan.masters)
        };
        let core = Worker::new(options, Jitter::new(self.rng.u64(..)));
        let (executors, submitted) = (BTreeMap::new(), BTreeMap::new());
        let node = WorkerNode { core, id: id.clone(), place, executors, submitted, guard: 0 };
        let proc = self.add(Kind::Worker, machine, Body::Worker(Box::new(node)));
        self.workers[place] = Some(proc);
        self.tell(|_| format!("{id} starts as process {proc}"));
        self.push(self.now, Event::Wakes(proc));
        Ok(())
    }

    pub(crate) fn wake(&mut self, proc: ProcId) -> Result<(), String> {
        match self.procs[proc].kind {
            Kind::Master => self.feed_master(proc, MasterEvent::Ticked),
            Kind::Worker => self.feed_worker(proc, WorkerEvent::Ticked),
            Kind::Driver => self.wake_driver(proc),
            Kind::Executor => self.feed_executor(proc, ExecutorEvent::Ticked),
            Kind::Submitted => Ok(()),
        }
    }

    pub(crate) fn arrives(&mut self, connection: usize, end: usize) -> Result<(), String> {
        let Some(message) = self.arrival(connection, end) else { return Ok(()) };
        let target = self.connections[connection].target;
        let receiver = self.connections[connection].ends[end];
        self.tell(|_| format!("  -> process {receiver} hears {message:?}"));
        let from = Peer(connection as u64);
        match message {
            Message::ToMaster(message) => {
                let again =
                    matches!(&message, ToMaster::RegisterApplication { previous: Some(_), .. });
                self.counters.apps_reregistered += u64::from(again);
                self.feed_master(receiver, MasterEvent::Received { from, message })
            }
            Message::ToWorker(stamped) => {
                self.feed_worker(receiver, WorkerEvent::Received { master: target, stamped })
            }
            Message::ToApplication(stamped) => self
                .feed_client(receiver, AppClientEvent::ReceivedMaster { master: target, stamped }),
            Message::ToDriver(message) => {
                let has_address = self.connections[connection].introduced;
                let received = RegistryEvent::ReceivedExecutor { from, has_address, message };
                self.feed_driver(receiver, received)
            }
            Message::ToExecutor(message) => {
                self.feed_executor(receiver, ExecutorEvent::Received(message))
            }
            Message::Blocks(message) => self.hear_blocks(receiver, message),
            Message::Reply => Ok(()),
        }
    }

    /// One end hears that a connection is broken.
    pub(crate) fn broken(&mut self, id: usize, end: usize) -> Result<(), String> {
        let connection = &mut self.connections[id];
        if std::mem::replace(&mut connection.noticed[end], true) {
            return Ok(());
        }
        let (proc, target) = (connection.ends[end], connection.target);
        self.tell(|_| format!("process {proc} hears that connection {id} is broken"));
        let peer = Peer(id as u64);
        match (end, self.procs[proc].kind) {
            (SERVER, Kind::Master) => {
                self.expect_back(proc, id);
                self.feed_master(proc, MasterEvent::PeerDisconnected { peer })
            }
            (SERVER, _) => {
                let gone = RegistryEvent::ExecutorDisconnected { peer };
                self.feed_driver(proc, gone)
            }
            _ if self.procs[proc].links.get(&target) == Some(&id) => {
                self.disconnected(proc, target)
            }
            _ => Ok(()),
        }
    }

    /// A client hears that nobody takes its connection.
    pub(crate) fn refused(&mut self, client: ProcId, target: usize) -> Result<(), String> {
        let (master, reason, lasting) = (target, "connection refused".to_owned(), false);
        match self.procs[client].kind {
            Kind::Worker => {
                self.feed_worker(client, WorkerEvent::MasterUnreachable { master, reason, lasting })
            }
            Kind::Driver => {
                let gone = AppClientEvent::MasterUnreachable { master, reason, lasting };
                self.feed_client(client, gone)
            }
            _ => self.disconnected(client, target),
        }
    }

    /// A client hears that its connection is no more.
    pub(crate) fn disconnected(&mut self, client: ProcId, target: usize) -> Result<(), String> {
        match self.procs[client].kind {
            Kind::Worker => {
                self.feed_worker(client, WorkerEvent::MasterDisconnected { master: target })
            }
            Kind::Driver => {
                let gone = AppClientEvent::MasterDisconnected { master: target };
                self.feed_client(client, gone)
            }
            Kind::Executor => self.feed_executor(client, ExecutorEvent::DriverDisconnected),
            Kind::Master | Kind::Submitted => Ok(()),
        }
    }

    pub(crate) fn feed_master(&mut self, proc: ProcId, event: MasterEvent) -> Result<(), String> {
        let Some(Body::Master(mut node)) = self.procs[proc].body.take() else { return Ok(()) };
        let stale = self.is_stale_for_master(&node.core, &event);
        let foreign = is_foreign(&node.core, &event);
        let before = (stale || foreign).then(|| (node.core.status(), node.core.totals()));
        let returning = returning(&node.core, &event);
        let looks = matches!(event, MasterEvent::Ticked);
        let registers = is_registration(&event);
        let counted = if looks { self.counted_workers(&node.core) } else { Vec::new() };
        let mut out = Vec::new();
        node.core.handle(self.tick_of(proc), event, &mut out);
        node.core.assert_invariants();
        self.check_silent_workers(proc, &node.core, &counted)?;
        Self::check_order(&out)?;
        self.check_launches(&node.core, &out)?;
        let now = (node.core.status(), node.core.totals());
        if before.is_some_and(|before| before.0 == now.0 && before.1 != now.1) {
            return Err(match foreign {
                true => "S27: an application changed another one".to_owned(),
                false => "S06: an old worker's message changed the master's books".to_owned(),
            });
        }
        if let Some((id, void)) = returning
            && node.core.registration(&id) == Some((void, true))
        {
            return Err(format!(
                "S06: {id} is back under the registration it was declared dead with"
            ));
        }
        self.procs[proc].body = Some(Body::Master(node));
        let persisted = self.carry_out_for_master(proc, out, registers)?;
        match &self.procs[proc].body {
            Some(Body::Master(node)) if persisted => self.check_persisted(proc, &node.core),
            _ => Ok(()),
        }
    }

    /// Whether it wrote something, and lives.
    fn carry_out_for_master(
        &mut self,
        proc: ProcId,
        effects: Vec<MasterEffect>,
        registers: bool,
    ) -> Result<bool, String> {
        let mut persisted = false;
        for effect in effects {
            match effect {
                MasterEffect::Persist(changes) => {
                    if !self.persist(proc, changes)? {
                        return Ok(false);
                    }
                    persisted = true;
                }
                MasterEffect::StepDown { reason } => self.steps_down(proc, &reason),
                MasterEffect::SendWorker { to, stamped } => {
                    self.check_term(proc, &stamped)?;
                    self.send(to.0 as usize, CLIENT, Message::ToWorker(stamped));
                }
                MasterEffect::SendApplication { to, stamped } => {
                    // One that registers again is told what was decided long ago.
                    if !registers {
                        self.check_removal(to, &stamped.message)?;
                    }
                    self.send(to.0 as usize, CLIENT, Message::ToApplication(stamped));
                }
                MasterEffect::Reply { to, .. } => {
                    self.send(to.0 as usize, CLIENT, Message::Reply);
                }
                MasterEffect::ArmTimer(at) => self.arm(proc, Core::Main, at),
            }
        }
        Ok(persisted)
    }

    /// Whether a message was said under a registration that is no more.
    fn is_stale_for_master(&self, core: &Master, event: &MasterEvent) -> bool {
        let MasterEvent::Received { message, .. } = event else { return false };
        match message {
            ToMaster::Heartbeat { worker, registration, .. }
            | ToMaster::WorkerLatestState { worker, registration, .. }
            | ToMaster::ExecutorStateChanged { worker, registration, .. }
            | ToMaster::UnregisterWorker { worker, registration, .. }
            | ToMaster::DriverStateChanged { worker, registration, .. } => {
                core.registration(worker) != Some((*registration, true))
            }
            _ => false,
        }
    }

    pub(crate) fn feed_worker(&mut self, proc: ProcId, event: WorkerEvent) -> Result<(), String> {
        let Some(Body::Worker(mut node)) = self.procs[proc].body.take() else { return Ok(()) };
        match &event {
            WorkerEvent::ExecutorExited { key, .. } => {
                node.executors.remove(key);
            }
            WorkerEvent::DriverExited { driver, .. } => {
                node.submitted.remove(driver);
            }
            _ => {}
        }
        let void = order_of(&event).is_some_and(|order| order != node.core.registration());
        let mut out = Vec::new();
        node.core.handle(self.tick_of(proc), event, &mut out);
        if void {
            check_void_order(&node, &out)?;
        }
        self.procs[proc].body = Some(Body::Worker(node));
        for effect in out {
            self.carry_out_for_worker(proc, effect)?;
        }
        Ok(())
    }

    fn carry_out_for_worker(&mut self, proc: ProcId, effect: WorkerEffect) -> Result<(), String> {
        match effect {
            WorkerEffect::Send { master, message } => {
                let server = self.masters[master];
                self.send_to(proc, server, master, Message::ToMaster(message));
            }
            WorkerEffect::SpawnExecutor { key, description, cores, .. } => {
                return self.spawn_executor(proc, key, &description, cores);
            }
            WorkerEffect::KillExecutor { key } => {
                let Some(Body::Worker(node)) = &self.procs[proc].body else { return Ok(()) };
                if let Some(executor) = node.executors.get(&key).copied() {
                    let at = self.now + 1 + self.rng.u64(..30);
                    let status = ExitStatus::Signal(9);
                    self.push(at, Event::Dies { proc: executor, status });
                }
            }
            WorkerEffect::SpawnDriver { driver, description } => {
                return self.spawn_submitted(proc, driver, &description);
            }
            WorkerEffect::GuardDrivers { until } => {
                let at = self.moment_of(proc, until);
                if let Some(Body::Worker(node)) = &mut self.procs[proc].body {
                    node.guard = at;
                    self.push(at, Event::GuardDue { worker: proc });
                }
            }
            WorkerEffect::KillDriver { driver } => {
                let Some(Body::Worker(node)) = &self.procs[proc].body else { return Ok(()) };
                if let Some(child) = node.submitted.get(&driver).copied() {
                    let status = ExitStatus::Signal(9);
                    self.push(self.now + 1, Event::Dies { proc: child, status });
                }
            }
            WorkerEffect::RemoveApplication { app } => {
                self.counters.removals += 1;
                let Some(Body::Worker(node)) = &self.procs[proc].body else { return Ok(()) };
                check_files_unused(node, &app)?;
            }
            WorkerEffect::CleanWorkDirectories { keep, .. } => {
                self.counters.clean_ups += 1;
                let Some(Body::Worker(node)) = &self.procs[proc].body else { return Ok(()) };
                check_kept(node, &keep)?;
            }
            // Its masters are one, or elected.
            WorkerEffect::Warn { message } => return Err(message),
            WorkerEffect::ArmTimer(at) => self.arm(proc, Core::Main, at),
            WorkerEffect::Exit { code, reason } => {
                self.tell(|_| format!("worker process {proc} gives up: {reason}"));
                self.counters.worker_resignations += 1;
                self.push(self.now, Event::Dies { proc, status: ExitStatus::Code(code) });
            }
        }
        Ok(())
    }

    fn spawn_executor(
        &mut self,
        worker: ProcId,
        key: ExecutorKey,
        description: &ApplicationDescription,
        cores: u32,
    ) -> Result<(), String> {
        if !self.spawned.insert(key.clone()) {
            return Err(format!("S05: executor {key} was started twice"));
        }
        let app: usize = description.web_ui.parse().expect("the application's number");
        let driver = self.drivers[app].expect("its driver asked for it");
        self.check_launch_rate(app, worker)?;
        let Some(place) = self.place_of(worker) else { return Ok(()) };
        let bad = self.plan.bad_place == Some(place);
        self.counters.bad_launches += u64::from(bad);
        if self.plan.apps[app].flaw == Flaw::SpawnFailures || bad {
            self.counters.spawn_failures += 1;
            self.push(self.now + 1, Event::SpawnFailed { worker, key });
            return Ok(());
        }
        let options = executor::ExecutorOptions {
            app: key.app.clone(),
            executor: key.executor,
            host: host_of(place),
            cores,
            slots: cores,
            hash: None,
            log_urls: BTreeMap::new(),
            attributes: BTreeMap::new(),
            heartbeat_ms: HEARTBEAT_MS,
            timeout_ms: NETWORK_TIMEOUT_MS,
            planted: self.settings.planted,
        };
        let core = executor::Executor::new(options, Jitter::new(self.rng.u64(..)));
        let node = ExecutorNode {
            core,
            key: key.clone(),
            driver,
            worker,
            cores,
            memory_mb: description.memory_per_executor_mb,
            started: self.now,
            killed: BTreeSet::new(),
            blocks: BTreeMap::new(),
            store: Store::default(),
            memory: Memory::new(self.settings.planted_memory),
            located: Heard::new(self.settings.planted),
            fetches: BTreeMap::new(),
            gathered: Gathered::default(),
            frozen: false,
        };
        let proc = self.add(Kind::Executor, Machine::Worker(place), Body::Executor(Box::new(node)));
        self.tell(|_| format!("executor {key} starts as process {proc}"));
        self.executors.insert(key.clone(), proc);
        if let Some(Body::Worker(node)) = &mut self.procs[worker].body {
            node.executors.insert(key, proc);
        }
        if self.plan.apps[app].flaw == Flaw::FalseStarts {
            self.counters.executor_false_starts += 1;
            let at = self.now + 5;
            self.push(at, Event::Dies { proc, status: ExitStatus::Code(1) });
        } else {
            self.fetch_executable(app, (worker, place), proc);
        }
        self.check_room(worker)
    }

    pub(crate) fn place_of(&self, worker: ProcId) -> Option<usize> {
        match &self.procs[worker].body {
            Some(Body::Worker(node)) => Some(node.place),
            _ => None,
        }
    }

    pub(crate) fn feed_executor(
        &mut self,
        proc: ProcId,
        event: ExecutorEvent,
    ) -> Result<(), String> {
        let Some(Body::Executor(mut node)) = self.procs[proc].body.take() else { return Ok(()) };
        let mut out = Vec::new();
        let waited = node.core.waiting();
        node.core.handle(self.tick_of(proc), event, &mut out);
        self.counters.tasks_pipelined += u64::from(node.core.waiting() > waited);
        let driver = node.driver;
        let busy = node.core.running().count();
        if busy > node.cores as usize {
            return Err(format!("S03: executor {} runs {busy} tasks", node.key));
        }
        self.procs[proc].body = Some(Body::Executor(node));
        for effect in out {
            match effect {
                ExecutorEffect::Send(message) => {
                    self.counters.tasks_given_back += u64::from(is_given_back(&message));
                    let heartbeat = matches!(message, ToDriver::ExecutorHeartbeat { .. });
                    self.send_to(proc, Some(driver), 0, Message::ToDriver(message));
                    if heartbeat {
                        self.report_blocks(proc);
                    }
                }
                ExecutorEffect::RunTask { task, .. } => {
                    self.need_value(proc);
                    self.hear_outdated(proc, task);
                    if self.rng.bool() {
                        self.look_ahead(proc, task)?;
                    }
                    let slow = if self.rng.u8(..10) == 0 { 1500 } else { 150 };
                    let at = self.now + 5 + self.rng.u64(..slow);
                    self.begin_with_memory(proc, task, at);
                    self.push(at, Event::TaskEnds { executor: proc, task });
                    if self.plan.stepwise {
                        self.begin_fetching(proc, task)?;
                    }
                }
                ExecutorEffect::KillTask { task, .. } => {
                    if let Some(Body::Executor(node)) = &mut self.procs[proc].body {
                        node.killed.insert(task);
                    }
                }
                ExecutorEffect::ArmTimer(at) => self.arm(proc, Core::Main, at),
                ExecutorEffect::Exit { code, reason } => {
                    self.tell(|_| format!("executor process {proc} ends: {reason}"));
                    self.die(proc, ExitStatus::Code(code), false)?;
                }
            }
        }
        Ok(())
    }
}

fn host_of(place: usize) -> Host {
    Host::new(["a", "b", "c", "d"][place])
}

/// Whether it is the end of a task that never ran though nobody killed it.
fn is_given_back(message: &ToDriver) -> bool {
    let ToDriver::StatusUpdate { outcome: TaskOutcome::Failed(failure), .. } = message else {
        return false;
    };
    matches!(failure, TaskFailure::Killed { reason } if reason == executor::WAITED_TOO_LONG)
}

/// A worker that was declared dead and wants to join again, and its registration till then.
fn returning(core: &Master, event: &MasterEvent) -> Option<(WorkerId, Registration)> {
    let MasterEvent::Received { message: ToMaster::RegisterWorker { worker, .. }, .. } = event
    else {
        return None;
    };
    let (registration, alive) = core.registration(&worker.id)?;
    (!alive).then(|| (worker.id.clone(), registration))
}

/// Whether a driver registers its application, maybe again.
fn is_registration(event: &MasterEvent) -> bool {
    matches!(event, MasterEvent::Received { message: ToMaster::RegisterApplication { .. }, .. })
}

/// Whether a message is about an application whose driver did not register over its connection.
fn is_foreign(core: &Master, event: &MasterEvent) -> bool {
    let MasterEvent::Received { from, message } = event else { return false };
    match message {
        ToMaster::ApplicationHeartbeat { app, .. }
        | ToMaster::RequestExecutors { app, .. }
        | ToMaster::KillExecutors { app, .. }
        | ToMaster::UnregisterApplication { app } => core.peer_of(app) != Some(*from),
        _ => false,
    }
}

/// The registration under which a master orders something.
fn order_of(event: &WorkerEvent) -> Option<Registration> {
    let WorkerEvent::Received { stamped, .. } = event else { return None };
    match &stamped.message {
        ToWorker::LaunchExecutor { registration, .. }
        | ToWorker::KillExecutor { registration, .. }
        | ToWorker::LaunchDriver { registration, .. }
        | ToWorker::KillDriver { registration, .. } => Some(*registration),
        _ => None,
    }
}
