//! One event in, effects out.

use std::collections::BTreeSet;
use std::sync::Arc;

use firesteel_backend::blame::ExitStatus;
use firesteel_backend::jitter::Jitter;
use firesteel_backend::mutant::Mutant;
use firesteel_backend::provider::Preparing;
use firesteel_backend::{Address, AppId};
use firesteel_types::Tick;

use super::driver_table::Drivers;
use super::executor_table::Executors;
use super::lease::Lease;
use super::options::WorkerOptions;
use super::registration::Link;
use super::state::Memory;
use crate::description::{ApplicationDescription, DriverDescription, WorkerState};
use crate::leaders::Leaders;
use crate::messages::{Stamped, ToMaster, ToWorker};
use crate::{DriverId, ExecutorKey, Registration, Term};

#[derive(Clone, Debug)]
pub enum WorkerEvent {
    /// A message from a master.
    Received {
        /// Its index among the masters to dial.
        master: usize,
        stamped: Stamped<ToWorker>,
    },
    /// The connection to a master broke, or could not be made.
    MasterDisconnected {
        /// Its index among the masters to dial.
        master: usize,
    },
    /// A connection to a master could not be made.
    MasterUnreachable {
        /// Its index among the masters to dial.
        master: usize,
        /// For the log: nothing decides by it.
        reason: String,
        /// Whether it never will be: the two have different secrets, for example.
        lasting: bool,
    },
    /// What an executor needs before its process starts is so far.
    ExecutorPreparing {
        key: ExecutorKey,
        preparing: Preparing,
    },
    ExecutorExited {
        key: ExecutorKey,
        status: ExitStatus,
    },
    /// An executor's process could not be started.
    ExecutorSpawnFailed {
        key: ExecutorKey,
        message: String,
    },
    DriverExited {
        driver: DriverId,
        status: ExitStatus,
    },
    /// A driver's process could not be started.
    DriverSpawnFailed {
        driver: DriverId,
        message: String,
        /// Whether trying again may help: what it needs could not be fetched just now.
        may_pass: bool,
    },
    /// A moment asked for by [`WorkerEffect::ArmTimer`] has come; the first one starts the worker.
    Ticked,
    /// The process got a signal to end, or its owner stops it.
    StopRequested,
    /// After its [`Exit`](WorkerEffect::Exit): nothing that it started is left.
    ProcessesGone,
}

/// Out of a worker, in order.
#[derive(Clone, Debug)]
pub enum WorkerEffect {
    Send {
        /// Its index among the masters to dial.
        master: usize,
        message: ToMaster,
    },
    /// Start an executor's process.
    SpawnExecutor {
        key: ExecutorKey,
        description: Arc<ApplicationDescription>,
        cores: u32,
        memory_mb: u64,
        /// Workers that may serve what it needs.
        peers: Vec<Address>,
    },
    /// End an executor's process, with all it started.
    KillExecutor { key: ExecutorKey },
    /// Start a driver's process.
    SpawnDriver { driver: DriverId, description: Arc<DriverDescription> },
    /// End a driver's process, with all it started.
    KillDriver { driver: DriverId },
    /// End the processes of supervised drivers at this moment, whatever becomes of this worker, unless a later one is named.
    GuardDrivers { until: Tick },
    /// The application is over and nothing of it runs: remove its temporary directories.
    RemoveApplication { app: AppId },
    /// Remove work directories that are older than this, except those of these applications and drivers.
    CleanWorkDirectories { age_ms: u64, keep: Vec<Arc<str>> },
    /// Tell people, who have to change something.
    Warn { message: String },
    /// Feed `Ticked` at this moment.
    ArmTimer(Tick),
    /// End, and all processes with it.
    Exit {
        code: i32,
        /// For the log: nothing decides by it.
        reason: String,
    },
}

/// One call of [`Worker::handle`]: its moment and its effects.
pub(super) struct Turn<'a> {
    pub(super) now: Tick,
    pub(super) out: &'a mut Vec<WorkerEffect>,
}

/// The worker's state machine.
#[derive(Debug)]
pub struct Worker {
    pub(super) options: WorkerOptions,
    pub(super) jitter: Jitter,
    pub(super) link: Link,
    /// The newest registration, and who gave it. Orders under another one are void.
    pub(super) newest: (Term, Registration),
    /// Of the last report.
    number: u64,
    /// How long supervised drivers may run.
    pub(super) lease: Lease,
    pub(super) executors: Executors,
    pub(super) drivers: Drivers,
    pub(super) memory: Memory,
    next_clean_up: Option<Tick>,
    /// It gets nothing more to do.
    decommissioned: bool,
    /// Masters that will never take it in.
    pub(super) hopeless: BTreeSet<usize>,
    pub(super) leaders: Leaders,
    armed: Option<Tick>,
    stopped: bool,
    stale: u64,
}

impl Worker {
    /// A worker that has not sent a message yet.
    pub fn new(options: WorkerOptions, jitter: Jitter) -> Self {
        Worker {
            options,
            jitter,
            link: Link::starting(),
            newest: (Term(0), Registration(0)),
            number: 0,
            lease: Lease::default(),
            executors: Executors::default(),
            drivers: Drivers::default(),
            memory: Memory::default(),
            next_clean_up: None,
            decommissioned: false,
            hopeless: BTreeSet::new(),
            leaders: Leaders::default(),
            armed: None,
            stopped: false,
            stale: 0,
        }
    }

    /// Takes one event and appends what is to be done about it, in order.
    pub fn handle(&mut self, now: Tick, event: WorkerEvent, out: &mut Vec<WorkerEffect>) {
        let turn = &mut Turn { now, out };
        if self.stopped {
            if matches!(event, WorkerEvent::ProcessesGone) {
                self.say_goodbye(turn, Vec::new());
            }
            return;
        }
        match event {
            WorkerEvent::Received { master, stamped } => {
                self.hear_leader(turn, master, &stamped.message);
                self.received(turn, master, stamped);
            }
            WorkerEvent::MasterDisconnected { master } => self.master_disconnected(turn, master),
            WorkerEvent::MasterUnreachable { master, reason, lasting } => {
                self.master_unreachable(turn, master, reason, lasting);
            }
            WorkerEvent::ExecutorPreparing { key, preparing } => {
                self.executor_prepares(turn, &key, preparing);
            }
            WorkerEvent::ExecutorExited { key, status } => self.executor_exited(turn, &key, status),
            WorkerEvent::ExecutorSpawnFailed { key, message } => {
                self.executor_spawn_failed(turn, &key, message);
            }
            WorkerEvent::DriverExited { driver, status } => {
                self.driver_exited(turn, &driver, status)
            }
            WorkerEvent::DriverSpawnFailed { driver, message, may_pass } => {
                self.driver_spawn_failed(turn, &driver, message, may_pass);
            }
            WorkerEvent::Ticked => self.ticked(turn),
            WorkerEvent::StopRequested => {
                self.say_goodbye(turn, self.drivers.names().cloned().collect());
                self.stop(turn, 0, "it was told to end".to_owned());
            }
            WorkerEvent::ProcessesGone => {}
        }
        if !self.stopped {
            self.arm(turn);
        }
    }

    fn received(&mut self, turn: &mut Turn<'_>, master: usize, stamped: Stamped<ToWorker>) {
        let Stamped { term, message } = stamped;
        // It orders nothing, whenever it led last.
        if matches!(message, ToWorker::MasterInStandby { .. }) {
            return self.master_is_standby();
        }
        if term < self.newest.0 {
            self.dropped_stale();
            return;
        }
        match message {
            ToWorker::RegisteredWorker { registration, heartbeat_ms, driver_lease_ms, .. } => {
                self.registered(
                    turn,
                    (master, heartbeat_ms, driver_lease_ms),
                    (term, registration),
                );
            }
            ToWorker::RegisterWorkerFailed { incarnation, reason, retry } => {
                if incarnation == self.options.description.incarnation {
                    self.register_failed(turn, reason, retry);
                }
            }
            ToWorker::MasterInStandby { .. } => {}
            ToWorker::HeartbeatKnown { registration, number } => {
                if self.obeys(registration) {
                    self.heartbeat_known(turn, number);
                }
            }
            ToWorker::ReconnectWorker => self.reconnect(turn),
            ToWorker::MasterChanged { .. } => self.look_for_leader(turn),
            ToWorker::LaunchExecutor {
                registration,
                key,
                description,
                cores,
                memory_mb,
                peers,
            } => {
                if self.obeys(registration) {
                    self.launch_executor(turn, key, description, (cores, memory_mb), peers);
                }
            }
            ToWorker::KillExecutor { registration, key } => {
                if self.obeys(registration) {
                    self.kill_executor(turn, key);
                }
            }
            ToWorker::ExecutorEndKnown { registration, key } => {
                if self.obeys(registration) {
                    self.executors.acknowledge(&key);
                }
            }
            ToWorker::LaunchDriver { registration, driver, description } => {
                if self.obeys(registration) {
                    self.launch_driver(turn, driver, description);
                }
            }
            ToWorker::KillDriver { registration, driver } => {
                if self.obeys(registration) {
                    self.kill_driver(turn, driver);
                }
            }
            ToWorker::DriverEndKnown { registration, driver } => {
                if self.obeys(registration) {
                    self.drivers.acknowledge(&driver);
                }
            }
            ToWorker::ApplicationFinished { app } => self.application_finished(turn, &app),
            ToWorker::DecommissionWorker { registration } => {
                if self.obeys(registration) {
                    self.decommissioned = true;
                }
            }
        }
    }

    /// Whether an order counts: it was given under the newest registration (S06). Its master's term may have grown since.
    fn obeys(&mut self, registration: Registration) -> bool {
        let current = self.newest.1 == registration;
        self.stale += u64::from(!current);
        current || self.options.planted.is(Mutant::ObeysOldRegistrations)
    }

    fn ticked(&mut self, turn: &mut Turn<'_>) {
        if self.armed.is_some_and(|at| at <= turn.now) {
            self.armed = None;
        }
        self.keep_in_touch(turn);
        self.restart_drivers(turn);
        self.clean_up(turn);
    }

    fn clean_up(&mut self, turn: &mut Turn<'_>) {
        let Some(options) = self.options.clean_up else { return };
        if self.next_clean_up.is_none_or(|at| at <= turn.now) {
            let cleans = self.options.planted.is(Mutant::CleansUpRunningDrivers);
            let drivers = self.drivers.names().filter(|_| !cleans).map(|driver| &driver.0);
            let keep = self.executors.apps().map(|app| &app.0).chain(drivers).cloned().collect();
            turn.out.push(WorkerEffect::CleanWorkDirectories { age_ms: options.age_ms, keep });
            self.next_clean_up = Some(turn.now.plus_ms(options.interval_ms.max(1)));
        }
    }

    /// Asks to be woken at the next moment something is due.
    fn arm(&mut self, turn: &mut Turn<'_>) {
        let due = [Some(self.link.due()), self.next_clean_up, self.drivers.next_start()];
        let Some(wake) = due.into_iter().flatten().min() else { return };
        if self.armed.is_none_or(|armed| wake < armed || armed <= turn.now) {
            self.armed = Some(wake);
            turn.out.push(WorkerEffect::ArmTimer(wake));
        }
    }

    /// A number for a report, larger than that of any before it.
    pub(super) fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// A message was dropped because it is out of date.
    pub(super) fn dropped_stale(&mut self) {
        self.stale += 1;
    }

    /// Its master need not miss it. These drivers may still be there.
    fn say_goodbye(&mut self, turn: &mut Turn<'_>, drivers: Vec<DriverId>) {
        let Link::Registered { master, .. } = self.link else { return };
        let (worker, registration) = self.signature();
        let message = ToMaster::UnregisterWorker { worker, registration, drivers };
        turn.out.push(WorkerEffect::Send { master, message });
    }

    /// Ends the worker; its processes go with it.
    pub(super) fn stop(&mut self, turn: &mut Turn<'_>, code: i32, reason: String) {
        self.stopped = true;
        turn.out.push(WorkerEffect::Exit { code, reason });
    }

    /// All it has to tell.
    pub(super) fn state(&mut self) -> WorkerState {
        let forgets = self.options.planted.is(Mutant::ForgetsItWasDecommissioned);
        WorkerState {
            number: self.next_number(),
            executors: self.executors.reports(),
            drivers: self.drivers.reports(),
            apps: self.memory.open_apps(),
            decommissioned: self.decommissioned && !forgets,
        }
    }

    /// Cores and memory of the processes that may be there.
    pub fn used(&self) -> (u32, u64) {
        self.executors
            .used()
            .chain(self.drivers.used())
            .fold((0, 0), |(cores, memory), (more_cores, more_memory)| {
                (cores + more_cores, memory + more_memory)
            })
    }

    pub(super) fn has_capacity(&self, cores: u32, memory_mb: u64) -> bool {
        let (used_cores, used_memory) = self.used();
        let description = &self.options.description;
        used_cores + cores <= description.cores && used_memory + memory_mb <= description.memory_mb
    }

    /// Whether it is registered with a master.
    pub fn is_registered(&self) -> bool {
        matches!(self.link, Link::Registered { .. })
    }

    /// Whether it gets nothing more to do.
    pub fn is_decommissioned(&self) -> bool {
        self.decommissioned
    }

    /// The newest registration it has heard of: the one it obeys.
    pub fn registration(&self) -> Registration {
        self.newest.1
    }

    /// Ends that it still has to tell of, and drivers' ends.
    pub fn untold_ends(&self) -> usize {
        self.executors.untold() + self.drivers.untold()
    }

    /// Orders that were dropped because they were given under an older registration.
    pub fn stale_messages(&self) -> u64 {
        self.stale
    }
}
