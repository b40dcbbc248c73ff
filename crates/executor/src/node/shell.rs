//! The shell of an executor: clock, sockets and threads around the core, which decides.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use firesteel_backend::executor::{Executor, ExecutorEffect, ExecutorEvent, ExecutorOptions, exit};
use firesteel_backend::jitter::Jitter;
use firesteel_backend::log_url;
use firesteel_backend::mutant::Planted;
use firesteel_backend::protocol::{ToDriver, ToExecutor};
use firesteel_backend::timer::Timer;
use firesteel_backend::wire;
use firesteel_closure::{ExecutableHash, SameExecutable, WireError, from_bytes};
use firesteel_conf::{LogLevel, entries};
use firesteel_rpc::{
    BindTo, Caller, Context, Endpoint, EndpointRef, HandlerError, Peer, RpcAddress, RpcEnv,
    RpcError, RpcOptions,
};
use firesteel_shuffle::Scratch;
use firesteel_task::{KillSwitch, SparkFiles};
use firesteel_types::{TaskFailure, TaskId, TaskOutcome, ThreadInfo, Tick};

use super::block_manager::{BlockManager, Blocks, lock};
use super::cached::{REPLICAS, Replicas};
use super::protocol::{BLOCKS, BlockMasterReply, THREADS, TaskOrder, TellThreads, ToBlockMaster};
use super::settings::{Settings, StartError};
use super::work::{self, Assignment, Workplace};
use crate::panics::drop_guarded;
use crate::variables;

/// How often to look whether the worker is still the parent.
const PARENT_CHECK: Duration = Duration::from_secs(1);

/// The core, and where its effects go. Nothing done under its lock waits for anything.
pub(super) struct Shell {
    core: Mutex<(Executor, Vec<ExecutorEffect>)>,
    origin: Instant,
    manager: Arc<BlockManager>,
    driver: OnceLock<EndpointRef<ToDriver>>,
    /// For the driver when its queue is full, and how many of these are not sent yet.
    outgoing: UnboundedSender<ToDriver>,
    waiting: AtomicUsize,
    assignments: Sender<Assignment>,
    timers: Sender<Tick>,
    kills: Mutex<BTreeMap<TaskId, Arc<KillSwitch>>>,
}

impl Shell {
    fn now(&self) -> Tick {
        Tick(u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn feed(&self, event: ExecutorEvent) {
        let core = &mut *lock(&self.core);
        core.0.handle(self.now(), event, &mut core.1);
        for effect in core.1.drain(..) {
            self.carry_out(effect);
        }
    }

    fn carry_out(&self, effect: ExecutorEffect) {
        match effect {
            ExecutorEffect::Send(message) => {
                if let ToDriver::ExecutorHeartbeat { .. } = &message {
                    self.manager.tell_state();
                }
                self.send(message);
            }
            ExecutorEffect::RunTask { task, data } => self.assign(task, &data),
            ExecutorEffect::KillTask { task, reason } => {
                if let Some(kill) = lock(&self.kills).get(&task) {
                    kill.throw(&reason);
                }
            }
            ExecutorEffect::ArmTimer(at) => drop(self.timers.send(at)),
            ExecutorEffect::Exit { code, reason } => end(code, &reason, &self.manager.scratch),
        }
    }

    /// From whatever thread has something to say, unless others wait already. Called under the core's lock, so
    /// that nothing overtakes.
    fn send(&self, message: ToDriver) {
        let direct = self.driver.get().filter(|_| self.waiting.load(Ordering::Acquire) == 0);
        match direct.map(|driver| driver.try_send(message.clone())) {
            Some(Ok(())) => return,
            Some(Err(error @ RpcError::TooLarge { .. })) => {
                return self.send_instead(&message, &error);
            }
            Some(Err(_)) | None => {}
        }
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let _ = self.outgoing.send(message);
    }

    /// A report that no message can hold is the task's failure, and no reason to end.
    fn send_instead(&self, message: &ToDriver, error: &RpcError) {
        if let Some(failed) = without_data(message, error) {
            self.send(failed);
        }
    }

    fn assign(&self, task: TaskId, data: &[u8]) {
        let order = TaskOrder::split(data).and_then(|(_, order)| from_bytes::<TaskOrder>(order));
        let mut order = order.unwrap_or_else(|error| self.end_unread(&error));
        if let Some(body) = order.body.take() {
            self.manager.code.put(order.code, body);
        }
        let kill = Arc::new(KillSwitch::default());
        lock(&self.kills).insert(task, kill.clone());
        let _ = self.assignments.send(Assignment { order, kill });
    }

    fn end_unread(&self, error: &WireError) -> ! {
        let reason = format!("its driver sent a task that cannot be read: {error}");
        end(exit::UNFIT, &reason, &self.manager.scratch)
    }

    /// Heeds what came along with a task, whenever that is going to run.
    fn heed_outdated(&self, data: &[u8]) {
        let (outdated, _) = TaskOrder::split(data).unwrap_or_else(|error| self.end_unread(&error));
        for (rdd, epoch) in outdated {
            drop_guarded(self.manager.blocks.take_outdated(rdd, epoch));
        }
    }

    pub(super) fn task_ended(&self, task: TaskId, outcome: TaskOutcome, data: Arc<[u8]>) {
        lock(&self.kills).remove(&task);
        self.feed(ExecutorEvent::TaskEnded { task, outcome, data });
    }

    /// Feeds the moments that the core asks for, looks whether the worker lives, and at what this process uses if `poll`
    /// is not zero; for ever.
    fn keep_time(&self, timers: &Receiver<Tick>, has_worker: bool, poll: Duration) -> ! {
        let parent = rustix::process::getppid();
        let mut timer = Timer::default();
        let mut polled = Instant::now();
        let most = if poll.is_zero() { PARENT_CHECK } else { PARENT_CHECK.min(poll) };
        loop {
            let until = timer.next().map(|next| Duration::from_millis(next.since_ms(self.now())));
            let wait = until.map_or(most, |until| until.min(most));
            match timers.recv_timeout(wait) {
                Ok(at) => timer.arm(at),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    end(exit::DRIVER_LOST, "its shell is gone", &self.manager.scratch)
                }
            }
            if has_worker && rustix::process::getppid() != parent {
                self.feed(ExecutorEvent::WorkerGone);
            }
            if timer.rings(self.now()) {
                self.feed(ExecutorEvent::Ticked);
            }
            if !poll.is_zero() && polled.elapsed() >= poll {
                polled = Instant::now();
                self.manager.poll_usage();
            }
        }
    }
}

/// The end of a task whose report cannot be sent.
fn without_data(message: &ToDriver, error: &RpcError) -> Option<ToDriver> {
    let ToDriver::StatusUpdate { executor, task, data, .. } = message else { return None };
    if data.is_empty() {
        return None;
    }
    let message = format!("what the task brings cannot be sent to the driver: {error}");
    let outcome = TaskOutcome::Failed(TaskFailure::Fatal { message });
    Some(ToDriver::StatusUpdate { executor: *executor, task: *task, outcome, data: Arc::from([]) })
}

fn end(code: i32, reason: &str, scratch: &Scratch) -> ! {
    if code != 0 {
        eprintln!("firesteel executor: ends because {reason} (exit code {code})");
    }
    scratch.remove_files();
    std::process::exit(code);
}

/// Works until told to end.
pub(super) fn run() -> Result<Infallible, StartError> {
    crate::child::survive_broken_pipes()?;
    firesteel_storage::raise_open_file_limit();
    // Its worker has put them here before it started this process.
    SparkFiles::set_root_directory(std::env::current_dir()?);
    let settings = Settings::read(|name| std::env::var(name).ok())?;
    crate::log::to_stderr(settings.conf.get(&entries::LOG_LEVEL)?.unwrap_or(LogLevel::Warn));
    if settings.node.is_some() {
        end_when_told()?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("firesteel-rpc")
        .enable_all()
        .build()?;
    let options = RpcOptions::from_process(&settings.conf)?;
    // What the worker handed over is the secret of this application, not the cluster's.
    let secret = options.identity.as_ref().map(|identity| identity.secret().clone());
    let options = options.for_application(secret);
    let port = u16::try_from(settings.conf.get(&entries::BLOCK_MANAGER_PORT)?)?;
    let advertise = Some(settings.host.clone());
    let bind = BindTo { host: settings.bind.clone(), port, advertise };
    let env = runtime.block_on(RpcEnv::server(options, bind))?;
    let address = env.address().cloned().ok_or("the executor has no port")?;
    let manager = BlockManager::new(&settings, env.clone(), address.clone())?;
    env.serve_streams(manager.clone());
    env.register(BLOCKS, Blocks(manager.clone()))?;
    env.register(REPLICAS, Replicas(manager.clone()))?;
    env.register(THREADS, Threads)?;
    let peer = runtime.block_on(introduce(&manager, address)).map_err(|error| {
        let message = format!("its driver at {} does not answer: {error}", settings.driver);
        eprintln!("firesteel executor: {message}");
        std::process::exit(exit::DRIVER_LOST)
    })?;
    start(&settings, &env, manager, peer)
}

/// The endpoint that tells what the threads of this process do.
struct Threads;

impl Endpoint for Threads {
    type Message = TellThreads;

    async fn receive(
        &mut self,
        _: TellThreads,
        caller: Caller<Vec<ThreadInfo>>,
        context: &Context<TellThreads>,
    ) -> Result<(), HandlerError> {
        // Some files for each thread.
        context.env().runtime().spawn_blocking(move || caller.reply(crate::threads()));
        Ok(())
    }
}

/// The shell, once there is one: for the thread of signals.
static TOLD_TO_END: OnceLock<Arc<Shell>> = OnceLock::new();

/// In a pod this is the first process, which no signal ends that it does not handle.
fn end_when_told() -> std::io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([signal_hook::consts::SIGTERM])?;
    let listens = move || {
        for _ in &mut signals {
            match TOLD_TO_END.get() {
                Some(shell) => shell.feed(ExecutorEvent::ToldToEnd),
                None => std::process::exit(exit::TERMINATED),
            }
        }
    };
    std::thread::Builder::new().name("firesteel-signals".into()).spawn(listens).map(drop)
}

/// Tells the driver where this executor's blocks are served, and hears what it runs.
async fn introduce(
    manager: &BlockManager,
    address: RpcAddress,
) -> Result<SameExecutable, StartError> {
    let max_memory = manager.scratch.memory().budget();
    match manager.block_master.ask(ToBlockMaster::Introduce { address, max_memory }).await? {
        BlockMasterReply::Welcome(hash) => match SameExecutable::verify(hash)? {
            Some(peer) => Ok(peer),
            None => {
                let reason = "its executable differs from the driver's: make the same file \
                              available on every worker, or let the driver serve it";
                end(exit::UNFIT, reason, &manager.scratch)
            }
        },
        _ => Err("it answers out of turn".into()),
    }
}

/// Those of `spark.ui.custom.executor.log.url`, if that says something.
fn custom_log_urls(
    settings: &Settings,
    urls: BTreeMap<String, String>,
    attributes: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, StartError> {
    let Some(pattern) = settings.conf.get(&entries::UI_CUSTOM_EXECUTOR_LOG_URL)? else {
        return Ok(urls);
    };
    let who = (&settings.app, settings.executor);
    Ok(log_url::apply(&pattern, who, attributes, &urls).unwrap_or_else(|name| {
        let key = entries::UI_CUSTOM_EXECUTOR_LOG_URL.key();
        tracing::warn!("{key} has no effect: {{{{{name}}}}} is not known here");
        urls
    }))
}

fn start(
    settings: &Settings,
    env: &RpcEnv,
    manager: Arc<BlockManager>,
    peer: SameExecutable,
) -> Result<Infallible, StartError> {
    let conf = &settings.conf;
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let [log_urls, attributes] = variables::of_executor();
    let log_urls = custom_log_urls(settings, log_urls, &attributes)?;
    let options = ExecutorOptions {
        app: settings.app.clone(),
        executor: settings.executor,
        host: settings.node(),
        cores: settings.cores,
        slots: settings.cores / conf.get(&entries::TASK_CPUS)?,
        hash: Some(ExecutableHash::current()?.bytes()),
        log_urls,
        attributes,
        heartbeat_ms: millis(conf.get(&entries::EXECUTOR_HEARTBEAT_INTERVAL)?),
        timeout_ms: millis(conf.get(&entries::NETWORK_TIMEOUT)?),
        planted: Planted::default(),
    };
    let jitter = Jitter::new(u64::from(std::process::id()) << 32 | u64::from(settings.executor.0));
    let (outgoing, to_send) = unbounded_channel();
    let (assignments, assigned) = channel();
    let (timers, asked) = channel();
    let shell = Arc::new(Shell {
        core: Mutex::new((Executor::new(options, jitter), Vec::new())),
        origin: Instant::now(),
        manager: manager.clone(),
        driver: OnceLock::new(),
        outgoing,
        waiting: AtomicUsize::new(0),
        assignments,
        timers,
        kills: Mutex::default(),
    });
    let _ = TOLD_TO_END.set(shell.clone());
    let workplace = Workplace {
        manager,
        shell: shell.clone(),
        peer,
        assigned: Mutex::new(assigned),
        // A result and updates of this size are one message, with room for the rest of it.
        direct_bytes: settings
            .bytes(&entries::TASK_MAX_DIRECT_RESULT_SIZE)?
            .min(settings.bytes(&entries::RPC_MESSAGE_MAX_SIZE)? / 4),
        max_result_bytes: settings.bytes(&entries::DRIVER_MAX_RESULT_SIZE)?,
    };
    work::spawn(&Arc::new(workplace), settings.cores)?;
    let driver = settings.driver.clone();
    env.register(
        wire::EXECUTOR,
        ExecutorEndpoint { shell: shell.clone(), driver, to_send: Some(to_send) },
    )?;
    let poll = conf.get(&entries::EXECUTOR_METRICS_POLLING_INTERVAL)?;
    shell.keep_time(&asked, settings.has_worker, poll)
}

/// The endpoint that hears the driver.
struct ExecutorEndpoint {
    shell: Arc<Shell>,
    driver: RpcAddress,
    to_send: Option<UnboundedReceiver<ToDriver>>,
}

impl Endpoint for ExecutorEndpoint {
    type Message = ToExecutor;

    async fn on_start(&mut self, context: &Context<ToExecutor>) {
        let reference = context.endpoint_ref(&self.driver.endpoint(wire::DRIVER));
        let (Ok(driver), Some(mut to_send)) = (reference, self.to_send.take()) else {
            return self.shell.feed(ExecutorEvent::DriverDisconnected);
        };
        let shell = self.shell.clone();
        let _ = shell.driver.set(driver.clone());
        context.env().runtime().spawn(async move {
            while let Some(mut message) = to_send.recv().await {
                while let Err(error) = driver.send(message.clone()).await {
                    match (&error, without_data(&message, &error)) {
                        // Slow is not lost: the core knows when the driver was silent for too long.
                        (RpcError::QueueFull { .. }, _) => {}
                        (RpcError::TooLarge { .. }, Some(failed)) => message = failed,
                        (RpcError::TooLarge { .. }, None) => break,
                        _ => {
                            shell.feed(ExecutorEvent::DriverDisconnected);
                            break;
                        }
                    }
                }
                shell.waiting.fetch_sub(1, Ordering::AcqRel);
            }
        });
        self.shell.feed(ExecutorEvent::Ticked);
    }

    async fn receive(
        &mut self,
        message: ToExecutor,
        _: Caller<()>,
        _: &Context<ToExecutor>,
    ) -> Result<(), HandlerError> {
        if let ToExecutor::LaunchTask { data, .. } = &message {
            self.shell.heed_outdated(data);
        }
        self.shell.feed(ExecutorEvent::Received(message));
        Ok(())
    }

    async fn on_disconnected(&mut self, peer: Peer, _: &Context<ToExecutor>) {
        if peer.address == self.driver {
            self.shell.feed(ExecutorEvent::DriverDisconnected);
        }
    }

    async fn on_network_error(&mut self, from: RpcAddress, _: RpcError, _: &Context<ToExecutor>) {
        if from == self.driver {
            self.shell.feed(ExecutorEvent::DriverDisconnected);
        }
    }
}
