//! One event in, effects out.

use std::collections::BTreeSet;
use std::sync::Arc;

use firesteel_types::{ExecutorId, Host, TaskId, TaskOutcome, Tick};

use super::exit;
use crate::AppId;
use crate::jitter::Jitter;
use crate::messages::{Refusal, ToDriver, ToExecutor};
use crate::mutant::{Mutant, Planted};

/// The rules of an executor.
#[derive(Clone, Debug)]
pub struct ExecutorOptions {
    /// Of which application.
    pub app: AppId,
    /// Which.
    pub executor: ExecutorId,
    /// Where.
    pub host: Host,
    /// How many tasks at once.
    pub cores: u32,
    /// The hash of its executable.
    pub hash: Option<[u8; 32]>,
    /// `spark.executor.heartbeatInterval`
    pub heartbeat_ms: u64,
    /// `spark.network.timeout`: how long its driver may be silent.
    pub timeout_ms: u64,
    /// For the simulator.
    pub planted: Planted,
}

/// Into an executor.
#[derive(Clone, Debug)]
pub enum Event {
    /// Its driver said something.
    Received(ToExecutor),
    /// The connection to its driver broke, or could not be made.
    DriverDisconnected,
    /// Its worker is gone.
    WorkerGone,
    /// A task ended.
    TaskEnded {
        /// Which.
        task: TaskId,
        /// How.
        outcome: TaskOutcome,
        /// Its result and what it cost, as the shell encodes it.
        data: Arc<[u8]>,
    },
    /// A moment asked for by [`Effect::ArmTimer`] has come; the first one starts the executor.
    Ticked,
}

/// Out of an executor, in order.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Tell its driver.
    Send(ToDriver),
    /// Run a task.
    RunTask {
        /// Which.
        task: TaskId,
        /// What, as the driver's shell encoded it.
        data: Arc<[u8]>,
    },
    /// Stop a task; it ends by itself.
    KillTask {
        /// Which.
        task: TaskId,
        /// Why.
        reason: String,
    },
    /// Feed `Ticked` at this moment.
    ArmTimer(Tick),
    /// End.
    Exit {
        /// With this code.
        code: i32,
        /// For people.
        reason: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Starting,
    Registering,
    Registered,
    Ended,
}

/// The executor's state machine.
#[derive(Debug)]
pub struct Executor {
    options: ExecutorOptions,
    jitter: Jitter,
    phase: Phase,
    running: BTreeSet<TaskId>,
    /// When the driver was heard last.
    heard: Tick,
    next_heartbeat: Tick,
}

impl Executor {
    /// An executor that has not said anything yet.
    pub fn new(options: ExecutorOptions, jitter: Jitter) -> Self {
        Executor {
            options,
            jitter,
            phase: Phase::Starting,
            running: BTreeSet::new(),
            heard: Tick(0),
            next_heartbeat: Tick(0),
        }
    }

    /// Takes one event and appends what is to be done about it, in order.
    pub fn handle(&mut self, now: Tick, event: Event, out: &mut Vec<Effect>) {
        match event {
            _ if self.phase == Phase::Ended => {}
            Event::Received(message) => self.received(now, message, out),
            Event::DriverDisconnected => {
                let outlives = self.options.planted.is(Mutant::OutlivesDriver);
                if !outlives {
                    self.exit(exit::DRIVER_LOST, "the connection to its driver broke", out);
                }
            }
            Event::WorkerGone => self.exit(exit::WORKER_LOST, "its worker is gone", out),
            Event::TaskEnded { task, outcome, data } => {
                if self.running.remove(&task) {
                    let executor = self.options.executor;
                    let update = ToDriver::StatusUpdate { executor, task, outcome, data };
                    out.push(Effect::Send(update));
                }
            }
            Event::Ticked => self.ticked(now, out),
        }
    }

    fn received(&mut self, now: Tick, message: ToExecutor, out: &mut Vec<Effect>) {
        self.heard = now;
        match message {
            ToExecutor::RegisteredExecutor => {
                if self.phase == Phase::Registering {
                    self.phase = Phase::Registered;
                }
            }
            ToExecutor::RegisterExecutorFailed { refusal, message } => {
                let code = match refusal {
                    Refusal::Lost | Refusal::Duplicate | Refusal::Stopping => exit::REFUSED,
                    Refusal::OtherApplication | Refusal::OtherExecutable => exit::UNFIT,
                };
                self.exit(code, &message, out);
            }
            ToExecutor::HeartbeatResponse { reregister } => {
                if reregister {
                    self.register(out);
                }
            }
            ToExecutor::LaunchTask { task, data } => {
                if self.phase == Phase::Registered && self.running.insert(task) {
                    out.push(Effect::RunTask { task, data });
                }
            }
            ToExecutor::KillTask { task, reason } => {
                if self.running.contains(&task) {
                    out.push(Effect::KillTask { task, reason });
                }
            }
            ToExecutor::StopExecutor => self.exit(exit::STOPPED, "its driver told it to end", out),
        }
    }

    fn ticked(&mut self, now: Tick, out: &mut Vec<Effect>) {
        if self.phase == Phase::Starting {
            self.heard = now;
            self.register(out);
            // Not all executors of an application at the same moment.
            self.next_heartbeat = now.plus_ms(self.jitter.below(self.options.heartbeat_ms).max(1));
        } else if now.since_ms(self.heard) > self.options.timeout_ms {
            let outlives = self.options.planted.is(Mutant::OutlivesDriver);
            if !outlives {
                let reason = "its driver was silent for longer than spark.network.timeout";
                return self.exit(exit::HEARTBEAT_FAILURE, reason, out);
            }
        }
        if now >= self.next_heartbeat {
            self.next_heartbeat = now.plus_ms(self.options.heartbeat_ms.max(1));
            if self.phase == Phase::Registered {
                let running = self.running.iter().copied().collect();
                let executor = self.options.executor;
                out.push(Effect::Send(ToDriver::ExecutorHeartbeat { executor, running }));
            }
        }
        out.push(Effect::ArmTimer(self.next_heartbeat));
    }

    fn register(&mut self, out: &mut Vec<Effect>) {
        self.phase = Phase::Registering;
        let ExecutorOptions { app, executor, host, cores, hash, .. } = &self.options;
        out.push(Effect::Send(ToDriver::RegisterExecutor {
            app: app.clone(),
            executor: *executor,
            host: host.clone(),
            cores: *cores,
            hash: *hash,
        }));
    }

    fn exit(&mut self, code: i32, reason: &str, out: &mut Vec<Effect>) {
        self.phase = Phase::Ended;
        out.push(Effect::Exit { code, reason: reason.to_owned() });
    }

    /// Tasks it runs.
    pub fn running(&self) -> impl Iterator<Item = TaskId> {
        self.running.iter().copied()
    }
}
