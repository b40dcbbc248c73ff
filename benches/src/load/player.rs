//! One worker or one application, as its masters see it: the real core with connections of its own, and no processes behind it.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use anyhow::Result;
use firesteel_backend::blame::ExitStatus;
use firesteel_backend::command::Command;
use firesteel_backend::jitter::Jitter;
use firesteel_backend::provider::{ProviderCommand, ProviderEvent};
use firesteel_backend::timer::Timer;
use firesteel_backend::{Address, AppId};
use firesteel_conf::Conf;
use firesteel_rpc::{
    Caller, Context, Endpoint, EndpointRef, HandlerError, Message, Peer, RpcAddress, RpcEnv,
    RpcError, RpcOptions,
};
use firesteel_standalone_core::application::{
    AppClient, AppClientEffect, AppClientEvent, AppClientOptions,
};
use firesteel_standalone_core::description::{ApplicationDescription, WorkerDescription};
use firesteel_standalone_core::messages::{Stamped, ToApplication, ToMaster, ToWorker};
use firesteel_standalone_core::wire::{APP_CLIENT, MASTER, WORKER};
use firesteel_standalone_core::worker::{
    Worker as WorkerCore, WorkerEffect, WorkerEvent, WorkerOptions,
};
use firesteel_standalone_core::{ExecutorKey, Incarnation, WorkerId};
use firesteel_types::{ExecutorId, Host, Tick};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

/// Later than the next heartbeat of a worker is due, and sooner than a silent one is declared dead.
const HEARTBEAT_MS: u64 = 15_000;

/// Nothing panics while it is locked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Milliseconds of this process.
fn now() -> Tick {
    static START: OnceLock<Instant> = OnceLock::new();
    Tick(1 + START.get_or_init(Instant::now).elapsed().as_millis() as u64)
}

/// What comes to a core from outside.
enum Heard<M> {
    FromMaster(usize, Stamped<M>),
    Gone(usize),
    Unreachable(usize, String, bool),
    Woken,
}

/// What a core wants.
enum Act {
    Tell(usize, ToMaster),
    Wake(Tick),
}

/// A core that talks with masters.
trait Core: Send + 'static {
    type Order: Send + 'static;

    fn hear(&mut self, now: Tick, heard: Heard<Self::Order>) -> Vec<Act>;
}

struct State<C> {
    core: C,
    masters: Vec<EndpointRef<ToMaster>>,
    timer: Timer,
}

struct Player<C> {
    state: Mutex<State<C>>,
    changed: Notify,
}

impl<C: Core> Player<C> {
    fn hear(&self, heard: Heard<C::Order>) {
        self.does(|core| core.hear(now(), heard));
    }

    fn does(&self, what: impl FnOnce(&mut C) -> Vec<Act>) {
        let mut state = lock(&self.state);
        for act in what(&mut state.core) {
            match act {
                // What is lost is said again with the next heartbeat, or attempt to register.
                Act::Tell(master, message) => {
                    let _ = state.masters.get(master).map(|to| to.try_send(message));
                }
                Act::Wake(at) => {
                    state.timer.arm(at);
                    self.changed.notify_one();
                }
            }
        }
    }

    async fn keep_time(self: Arc<Self>) {
        loop {
            let (rings, next) = {
                let mut state = lock(&self.state);
                (state.timer.rings(now()), state.timer.next())
            };
            if rings {
                self.hear(Heard::Woken);
                continue;
            }
            let wait = next.map_or(Duration::MAX, |at| Duration::from_millis(at.since_ms(now())));
            let _ = tokio::time::timeout(wait, self.changed.notified()).await;
        }
    }
}

/// Hears masters.
struct Ear<C> {
    player: Arc<Player<C>>,
    masters: Vec<RpcAddress>,
}

impl<C: Core> Ear<C> {
    fn index(&self, address: &RpcAddress) -> Option<usize> {
        self.masters.iter().position(|master| master == address)
    }
}

impl<C: Core> Endpoint for Ear<C>
where
    Stamped<C::Order>: Message<Reply = ()>,
{
    type Message = Stamped<C::Order>;

    async fn on_start(&mut self, context: &Context<Self::Message>) {
        let dial = |master: &RpcAddress| context.endpoint_ref(&master.endpoint(MASTER)).ok();
        lock(&self.player.state).masters = self.masters.iter().filter_map(dial).collect();
        self.player.hear(Heard::Woken);
        tokio::spawn(self.player.clone().keep_time());
    }

    async fn receive(
        &mut self,
        stamped: Stamped<C::Order>,
        caller: Caller<()>,
        _: &Context<Self::Message>,
    ) -> Result<(), HandlerError> {
        if let Some(master) = self.index(&caller.peer().address) {
            self.player.hear(Heard::FromMaster(master, stamped));
        }
        Ok(())
    }

    async fn on_disconnected(&mut self, peer: Peer, _: &Context<Self::Message>) {
        if let Some(master) = self.index(&peer.address) {
            self.player.hear(Heard::Gone(master));
        }
    }

    async fn on_network_error(
        &mut self,
        address: RpcAddress,
        error: RpcError,
        _: &Context<Self::Message>,
    ) {
        // The end of a connection is told, too.
        if let (Some(master), false) =
            (self.index(&address), matches!(error, RpcError::Disconnected { .. }))
        {
            self.player.hear(Heard::Unreachable(master, error.to_string(), error.is_lasting()));
        }
    }
}

/// A core with connections of its own.
struct Played<C> {
    player: Arc<Player<C>>,
    _env: RpcEnv,
}

fn play<C: Core>(
    runtime: &Runtime,
    masters: &[RpcAddress],
    name: &str,
    core: C,
) -> Result<Played<C>>
where
    Stamped<C::Order>: Message<Reply = ()>,
{
    // Masters have the secret of their user, who is this process's.
    let options = RpcOptions::from_process(&Conf::new())?;
    let env = runtime.block_on(async { RpcEnv::client(options) });
    let state = State { core, masters: Vec::new(), timer: Timer::default() };
    let player = Arc::new(Player { state: Mutex::new(state), changed: Notify::new() });
    env.register(name, Ear { player: player.clone(), masters: masters.to_vec() })?;
    Ok(Played { player, _env: env })
}

/// What somebody may want to know of a worker's orders.
pub(crate) type Watch = Box<dyn FnMut(&Stamped<ToWorker>) + Send>;

struct WorkerPlayer {
    core: WorkerCore,
    registered: bool,
    watch: Option<Watch>,
}

impl WorkerPlayer {
    /// Processes run until they are killed, and end at once then.
    fn feed(&mut self, now: Tick, event: WorkerEvent) -> Vec<Act> {
        let (mut acts, mut events) = (Vec::new(), vec![event]);
        while let Some(event) = events.pop() {
            let mut effects = Vec::new();
            self.core.handle(now, event, &mut effects);
            for effect in effects {
                let status = ExitStatus::Signal(9);
                match effect {
                    WorkerEffect::Send { master, message } => acts.push(Act::Tell(master, message)),
                    WorkerEffect::ArmTimer(at) => acts.push(Act::Wake(at)),
                    WorkerEffect::KillExecutor { key } => {
                        events.push(WorkerEvent::ExecutorExited { key, status });
                    }
                    WorkerEffect::KillDriver { driver } => {
                        events.push(WorkerEvent::DriverExited { driver, status });
                    }
                    _ => {}
                }
            }
        }
        acts
    }
}

impl Core for WorkerPlayer {
    type Order = ToWorker;

    fn hear(&mut self, now: Tick, heard: Heard<ToWorker>) -> Vec<Act> {
        let event = match heard {
            Heard::FromMaster(master, stamped) => {
                self.registered |= matches!(stamped.message, ToWorker::RegisteredWorker { .. });
                if let Some(watch) = &mut self.watch {
                    watch(&stamped);
                }
                WorkerEvent::Received { master, stamped }
            }
            Heard::Gone(master) => WorkerEvent::MasterDisconnected { master },
            Heard::Unreachable(master, reason, lasting) => {
                WorkerEvent::MasterUnreachable { master, reason, lasting }
            }
            Heard::Woken => WorkerEvent::Ticked,
        };
        self.feed(now, event)
    }
}

/// A worker that starts nothing.
pub(crate) struct Worker(Played<WorkerPlayer>);

impl Worker {
    pub(crate) fn join(
        runtime: &Runtime,
        masters: &[RpcAddress],
        (number, cores): (u64, u32),
        watch: Option<Watch>,
    ) -> Result<Self> {
        let description = WorkerDescription {
            id: WorkerId::new(&format!("worker-{number}")),
            incarnation: Incarnation(number),
            address: Address { host: Host::new(&format!("host-{number}")), port: 7000 },
            web_ui: String::new(),
            cores,
            memory_mb: 64_000,
        };
        let options = WorkerOptions::new(description, masters.len());
        let core = WorkerCore::new(options, Jitter::new(number + 1));
        let player = WorkerPlayer { core, registered: false, watch };
        Ok(Self(play(runtime, masters, WORKER, player)?))
    }

    pub(crate) fn is_registered(&self) -> bool {
        lock(&self.0.player.state).core.registered
    }

    /// A heartbeat with all it has.
    pub(crate) fn beat(&self) {
        self.0.player.does(|it| it.feed(now().plus_ms(HEARTBEAT_MS), WorkerEvent::Ticked));
    }

    /// The process of one of its executors ends by itself.
    pub(crate) fn end_executor(&self, key: ExecutorKey) {
        let status = ExitStatus::Code(1);
        self.0.player.does(|it| it.feed(now(), WorkerEvent::ExecutorExited { key, status }));
    }
}

struct AppPlayer {
    core: AppClient,
    id: Option<AppId>,
    has: Vec<ExecutorId>,
}

impl AppPlayer {
    /// Executors that are started register.
    fn feed(&mut self, now: Tick, event: AppClientEvent) -> Vec<Act> {
        let (mut acts, mut events) = (Vec::new(), vec![event]);
        while let Some(event) = events.pop() {
            let mut effects = Vec::new();
            self.core.handle(now, event, &mut effects);
            for effect in effects {
                match effect {
                    AppClientEffect::SendMaster { master, message } => {
                        acts.push(Act::Tell(master, message));
                    }
                    AppClientEffect::ArmTimer(at) => acts.push(Act::Wake(at)),
                    AppClientEffect::Report(ProviderEvent::Accepted { app }) => self.id = Some(app),
                    AppClientEffect::Report(ProviderEvent::Started { executor, .. }) => {
                        if !self.has.contains(&executor) {
                            self.has.push(executor);
                            let registered = ProviderCommand::Registered(executor);
                            events.push(AppClientEvent::Command(registered));
                        }
                    }
                    AppClientEffect::Report(ProviderEvent::Ended { executor, .. }) => {
                        self.has.retain(|has| *has != executor);
                    }
                    AppClientEffect::Report(_) => {}
                }
            }
        }
        acts
    }
}

impl Core for AppPlayer {
    type Order = ToApplication;

    fn hear(&mut self, now: Tick, heard: Heard<ToApplication>) -> Vec<Act> {
        let event = match heard {
            Heard::FromMaster(master, stamped) => {
                AppClientEvent::ReceivedMaster { master, stamped }
            }
            Heard::Gone(master) => AppClientEvent::MasterDisconnected { master },
            Heard::Unreachable(master, reason, lasting) => {
                AppClientEvent::MasterUnreachable { master, reason, lasting }
            }
            Heard::Woken => AppClientEvent::Ticked,
        };
        self.feed(now, event)
    }
}

/// An application without tasks.
pub(crate) struct Application(Played<AppPlayer>);

impl Application {
    /// It wants so many cores, in executors of so many.
    pub(crate) fn register(
        runtime: &Runtime,
        masters: &[RpcAddress],
        number: u64,
        (cores, each): (u32, u32),
    ) -> Result<Self> {
        let description = ApplicationDescription {
            name: format!("application {number}"),
            user: "nobody".to_owned(),
            max_cores: Some(cores),
            memory_per_executor_mb: 1024,
            cores_per_executor: Some(each),
            initial_executor_limit: None,
            command: Command { program: "/bin/true".to_owned(), ..Command::default() },
            web_ui: String::new(),
        };
        let incarnation = Incarnation(1_000_000 + number);
        let options = AppClientOptions::new(Arc::new(description), incarnation, masters.len());
        let core = AppClient::new(options, Jitter::new(1_000_000 + number));
        let player = AppPlayer { core, id: None, has: Vec::new() };
        Ok(Self(play(runtime, masters, APP_CLIENT, player)?))
    }

    pub(crate) fn id(&self) -> Option<AppId> {
        lock(&self.0.player.state).core.id.clone()
    }

    /// Its executors that run.
    pub(crate) fn executors(&self) -> Vec<ExecutorId> {
        lock(&self.0.player.state).core.has.clone()
    }

    /// It lets one of its executors go.
    pub(crate) fn release(&self, executor: ExecutorId) {
        self.command(ProviderCommand::Release(vec![executor]));
    }

    /// It is over.
    pub(crate) fn stop(&self) {
        self.command(ProviderCommand::Stop);
    }

    fn command(&self, command: ProviderCommand) {
        self.0.player.does(|it| it.feed(now(), AppClientEvent::Command(command)));
    }
}
