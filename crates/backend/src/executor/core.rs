//! One event in, effects out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firesteel_types::{ExecutorId, Host, TaskFailure, TaskId, TaskOutcome, Tick};

use super::exit;
use crate::AppId;
use crate::jitter::Jitter;
use crate::mutant::{Mutant, Planted};
use crate::protocol::{Refusal, ToDriver, ToExecutor};

/// The executor returns a task that waits for a core for longer than this: another executor may have one free.
const PATIENCE_MS: u64 = 100;

/// What was sent to the driver has so long to go out before an executor that was told to end does.
const GOODBYE_MS: u64 = 500;

/// Why a task ends as killed on an executor that ends.
const ENDING: &str = "its executor was told to end";

/// Why a task ends as killed that nobody killed.
pub const WAITED_TOO_LONG: &str = "it waited for a core of its executor for too long";

/// The rules of an executor.
#[derive(Clone, Debug)]
pub struct ExecutorOptions {
    pub app: AppId,
    pub executor: ExecutorId,
    pub host: Host,
    /// How many cores it offers.
    pub cores: u32,
    /// How many tasks run at once.
    pub slots: u32,
    /// The hash of its executable.
    pub hash: Option<[u8; 32]>,
    /// Where its output can be read, by name.
    pub log_urls: BTreeMap<String, String>,
    /// What its cluster manager tells of it.
    pub attributes: BTreeMap<String, String>,
    /// `spark.executor.heartbeatInterval`
    pub heartbeat_ms: u64,
    /// `spark.network.timeout`: how long its driver may be silent.
    pub timeout_ms: u64,
    /// Mistakes that the simulator plants; none in production.
    pub planted: Planted,
}

#[derive(Clone, Debug)]
pub enum ExecutorEvent {
    /// A message from its driver.
    Received(ToExecutor),
    /// The connection to its driver broke, or could not be made.
    DriverDisconnected,
    WorkerGone,
    /// Its machine ends it soon: it may finish what it runs.
    ToldToEnd,
    TaskEnded {
        task: TaskId,
        outcome: TaskOutcome,
        /// Its result and what it cost, as the shell encodes it.
        data: Arc<[u8]>,
    },
    /// A moment asked for by [`ExecutorEffect::ArmTimer`] has come; the first one starts the executor.
    Ticked,
}

/// Out of an executor, in order.
#[derive(Clone, Debug)]
pub enum ExecutorEffect {
    Send(ToDriver),
    RunTask {
        task: TaskId,
        /// What, as the driver's shell encoded it.
        data: Arc<[u8]>,
    },
    /// Stop a task; it ends by itself.
    KillTask {
        task: TaskId,
        reason: String,
    },
    /// Feed `Ticked` at this moment.
    ArmTimer(Tick),
    Exit {
        code: i32,
        /// For the log: nothing decides by it.
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

#[derive(Debug)]
struct Waiting {
    data: Arc<[u8]>,
    since: Tick,
}

/// The executor's state machine.
#[derive(Debug)]
pub struct Executor {
    options: ExecutorOptions,
    jitter: Jitter,
    phase: Phase,
    running: BTreeSet<TaskId>,
    /// Pipelined tasks, in the order in which they came.
    waiting: BTreeMap<TaskId, Waiting>,
    /// When to look whether they wait for too long.
    next_look: Option<Tick>,
    /// When the driver was heard last.
    heard: Tick,
    next_heartbeat: Tick,
    armed: Option<Tick>,
    /// It was told to end, and takes no more tasks.
    ending: bool,
    /// All it ran has ended: when it does.
    ends_at: Option<Tick>,
}

impl Executor {
    /// An executor that has not sent a message yet.
    pub fn new(options: ExecutorOptions, jitter: Jitter) -> Self {
        Executor {
            options,
            jitter,
            phase: Phase::Starting,
            running: BTreeSet::new(),
            waiting: BTreeMap::new(),
            next_look: None,
            heard: Tick(0),
            next_heartbeat: Tick(0),
            armed: None,
            ending: false,
            ends_at: None,
        }
    }

    /// Takes one event and appends what is to be done about it, in order.
    pub fn handle(&mut self, now: Tick, event: ExecutorEvent, out: &mut Vec<ExecutorEffect>) {
        if matches!(event, ExecutorEvent::Ticked) || self.armed.is_some_and(|armed| armed <= now) {
            // A timer that came early is asked for again.
            self.armed = None;
        }
        self.apply(now, event, out);
        self.arm(out);
    }

    fn apply(&mut self, now: Tick, event: ExecutorEvent, out: &mut Vec<ExecutorEffect>) {
        match event {
            _ if self.phase == Phase::Ended => {}
            ExecutorEvent::Received(message) => self.received(now, message, out),
            ExecutorEvent::DriverDisconnected => {
                let outlives = self.options.planted.is(Mutant::OutlivesDriver);
                if !outlives {
                    self.exit(exit::DRIVER_LOST, "the connection to its driver broke", out);
                }
            }
            ExecutorEvent::WorkerGone => self.exit(exit::WORKER_LOST, "its worker is gone", out),
            ExecutorEvent::ToldToEnd => self.told_to_end(out),
            ExecutorEvent::TaskEnded { task, outcome, data } => {
                if self.running.remove(&task) {
                    self.report(task, outcome, data, out);
                    if let Some((task, Waiting { data, .. })) = self.waiting.pop_first() {
                        self.run(task, data, out);
                    }
                    if self.ending && self.running.is_empty() {
                        self.ends_at = Some(now.plus_ms(GOODBYE_MS));
                    }
                }
            }
            ExecutorEvent::Ticked => self.ticked(now, out),
        }
    }

    fn received(&mut self, now: Tick, message: ToExecutor, out: &mut Vec<ExecutorEffect>) {
        self.heard = now;
        match message {
            ToExecutor::RegisteredExecutor => {
                if self.phase == Phase::Registering {
                    self.phase = Phase::Registered;
                }
            }
            ToExecutor::RegisterExecutorFailed { refusal, message } => {
                let code = match refusal {
                    Refusal::Lost | Refusal::Duplicate | Refusal::Stopping | Refusal::NoAddress => {
                        exit::REFUSED
                    }
                    Refusal::OtherApplication | Refusal::OtherExecutable => exit::UNFIT,
                };
                self.exit(code, &message, out);
            }
            ToExecutor::HeartbeatResponse { reregister } => {
                if reregister {
                    self.register(out);
                }
            }
            ToExecutor::LaunchTask { task, .. } if self.ending && !self.has(task) => {
                self.give_back(task, ENDING.to_owned(), out);
            }
            ToExecutor::LaunchTask { task, data } => {
                if self.phase == Phase::Registered && !self.has(task) {
                    self.launch(now, task, data, out);
                }
            }
            ToExecutor::KillTask { task, reason } => {
                if self.running.contains(&task) {
                    out.push(ExecutorEffect::KillTask { task, reason });
                } else if self.waiting.remove(&task).is_some() {
                    self.give_back(task, reason, out);
                }
            }
            ToExecutor::StopExecutor => self.exit(exit::STOPPED, "its driver told it to end", out),
        }
    }

    fn has(&self, task: TaskId) -> bool {
        self.running.contains(&task) || self.waiting.contains_key(&task)
    }

    fn launch(&mut self, now: Tick, task: TaskId, data: Arc<[u8]>, out: &mut Vec<ExecutorEffect>) {
        if self.running.len() < self.options.slots.max(1) as usize {
            return self.run(task, data, out);
        }
        self.waiting.insert(task, Waiting { data, since: now });
        self.next_look.get_or_insert(now.plus_ms(PATIENCE_MS));
    }

    fn run(&mut self, task: TaskId, data: Arc<[u8]>, out: &mut Vec<ExecutorEffect>) {
        self.running.insert(task);
        out.push(ExecutorEffect::RunTask { task, data });
    }

    fn report(
        &self,
        task: TaskId,
        outcome: TaskOutcome,
        data: Arc<[u8]>,
        out: &mut Vec<ExecutorEffect>,
    ) {
        let executor = self.options.executor;
        out.push(ExecutorEffect::Send(ToDriver::StatusUpdate { executor, task, outcome, data }));
    }

    /// Reports the end of a task that never ran.
    fn give_back(&self, task: TaskId, reason: String, out: &mut Vec<ExecutorEffect>) {
        let outcome = TaskOutcome::Failed(TaskFailure::Killed { reason });
        self.report(task, outcome, Arc::from([]), out);
    }

    /// Asks to be woken when something falls due before the timer that is set already.
    fn arm(&mut self, out: &mut Vec<ExecutorEffect>) {
        if matches!(self.phase, Phase::Starting | Phase::Ended) {
            return;
        }
        let dues = [Some(self.next_heartbeat), self.next_look, self.ends_at];
        let wake = dues.into_iter().flatten().min().unwrap_or(self.next_heartbeat);
        if self.armed.is_none_or(|armed| wake < armed) {
            self.armed = Some(wake);
            out.push(ExecutorEffect::ArmTimer(wake));
        }
    }

    /// When one waits for too long, all do: what runs takes longer than was thought when they were sent.
    fn look_at_waiting(&mut self, now: Tick, out: &mut Vec<ExecutorEffect>) {
        if self.next_look.is_none_or(|look| look > now) {
            return;
        }
        self.next_look = None;
        let Some(oldest) = self.waiting.values().map(|waiting| waiting.since).min() else { return };
        let due = oldest.plus_ms(PATIENCE_MS);
        if due > now {
            self.next_look = Some(due);
            return;
        }
        for (task, _) in std::mem::take(&mut self.waiting) {
            self.give_back(task, WAITED_TOO_LONG.to_owned(), out);
        }
    }

    /// Takes no more tasks, and ends when those that run have.
    fn told_to_end(&mut self, out: &mut Vec<ExecutorEffect>) {
        self.ending = true;
        for (task, _) in std::mem::take(&mut self.waiting) {
            self.give_back(task, ENDING.to_owned(), out);
        }
        if self.running.is_empty() && self.ends_at.is_none() {
            self.exit(exit::TERMINATED, ENDING, out);
        }
    }

    fn ticked(&mut self, now: Tick, out: &mut Vec<ExecutorEffect>) {
        if self.ends_at.is_some_and(|at| at <= now) {
            return self.exit(exit::TERMINATED, ENDING, out);
        }
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
                out.push(ExecutorEffect::Send(ToDriver::ExecutorHeartbeat { executor, running }));
            }
        }
        self.look_at_waiting(now, out);
    }

    fn register(&mut self, out: &mut Vec<ExecutorEffect>) {
        self.phase = Phase::Registering;
        let ExecutorOptions { app, executor, host, cores, hash, log_urls, attributes, .. } =
            &self.options;
        out.push(ExecutorEffect::Send(ToDriver::RegisterExecutor {
            app: app.clone(),
            executor: *executor,
            host: host.clone(),
            cores: *cores,
            hash: *hash,
            log_urls: log_urls.clone(),
            attributes: attributes.clone(),
        }));
    }

    fn exit(&mut self, code: i32, reason: &str, out: &mut Vec<ExecutorEffect>) {
        self.phase = Phase::Ended;
        out.push(ExecutorEffect::Exit { code, reason: reason.to_owned() });
    }

    /// When its driver was heard last.
    pub fn heard(&self) -> Tick {
        self.heard
    }

    /// Tasks that wait for a core.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub fn running(&self) -> impl Iterator<Item = TaskId> {
        self.running.iter().copied()
    }
}
