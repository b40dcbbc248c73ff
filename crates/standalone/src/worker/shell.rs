//! Feeds a worker's core and carries out its effects. Decides nothing.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use firesteel_backend::Address;
use firesteel_backend::blame::ExitStatus;
use firesteel_backend::jitter::Jitter;
use firesteel_backend::provider::Preparing;
use firesteel_conf::{Conf, ConfError, entries};
use firesteel_rpc::{
    Caller, Context, Endpoint, EndpointRef, HandlerError, Peer, RpcAddress, RpcError,
};
use firesteel_standalone_core::description::WorkerDescription;
use firesteel_standalone_core::messages::{Stamped, ToMaster, ToWorker};
use firesteel_standalone_core::wire::{MASTER, WORKER};
use firesteel_standalone_core::worker::{Worker, WorkerEffect, WorkerEvent, WorkerOptions};
use firesteel_standalone_core::{Incarnation, WorkerId, date};
use firesteel_storage::Clock;
use firesteel_types::{Host, Tick};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Ended;
use super::args::WorkerArgs;
use super::cache::Cache;
use super::directories::{self, Directories};
use super::order::{Order, ProcessKey};
use super::prepare::Progress;
use super::process::{Launch, LaunchError};
use super::reaper::Reaper;
use crate::StartError;
use crate::alarm::Alarm;
use crate::executable::Hashes;
use crate::web::encoded;

/// How often a launch that takes a while is told of.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// What a worker is made of, read from its arguments.
pub(super) struct Setting {
    clock: Clock,
    options: WorkerOptions,
    launch: Launch,
}

impl Setting {
    pub(super) fn new(
        args: &WorkerArgs,
        address: &RpcAddress,
        web: Option<&RpcAddress>,
        directories: Directories,
    ) -> Result<Self, StartError> {
        let clock = Clock::new();
        let RpcAddress { host, port } = address;
        let worker = WorkerDescription {
            id: WorkerId::new(&format!("worker-{}-{host}-{port}", date::compact(clock.now()))),
            incarnation: Incarnation(random()),
            address: Address { host: Host::new(host), port: *port },
            web_ui: web.map_or_else(String::new, |web| format!("http://{web}")),
            cores: args.cores,
            memory_mb: args.memory_mb,
        };
        let proxy = reverse_proxy(&args.conf)?
            .map(|proxy| format!("{proxy}/proxy/{}", encoded(worker.id.0.as_bytes(), "")));
        let reaper = args.launcher.as_ref().map(Reaper::start).transpose();
        let tasks = TaskTracker::new();
        let cache = Cache::new(directories.cache(), args.cache()?, tasks.clone());
        let launch = Launch {
            cache: Arc::new(cache),
            reaper: reaper.map_err(StartError::Reaper)?,
            directories,
            hashes: Hashes::default(),
            launcher: args.launcher.clone(),
            output: args.output()?,
            grace: args.grace()?,
            host: host.clone(),
            bind: args.advertise.as_ref().map(|_| args.host.clone()),
            url: address.endpoint(WORKER).to_string(),
            masters: args.masters.clone(),
            web: web.map(|web| proxy.unwrap_or_else(|| format!("http://{web}"))),
            secrets: args.conf.get(&entries::REDACTION_REGEX)?,
            keyring: args.rpc.keyring.clone(),
            tasks,
        };
        Ok(Self { clock, options: args.options(worker)?, launch })
    }
}

/// What stands in front of `/proxy/` where the master shows this worker's pages; `None`: it does not.
fn reverse_proxy(conf: &Conf) -> Result<Option<String>, ConfError> {
    if !conf.get(&entries::UI_REVERSE_PROXY)? {
        return Ok(None);
    }
    let url = conf.get(&entries::UI_REVERSE_PROXY_URL)?;
    Ok(Some(url.map_or_else(String::new, |url| url.to_string())))
}

fn random() -> u64 {
    getrandom::u64().expect("the system has random numbers")
}

/// The core with what its effects need.
pub(super) struct Shell {
    clock: Clock,
    alarm: Alarm,
    description: WorkerDescription,
    launch: Arc<Launch>,
    state: Mutex<State>,
    /// Processes that run, files that are written for them, and directories that are being removed.
    tasks: TaskTracker,
    master: watch::Sender<Option<MasterName>>,
    ended: watch::Sender<Option<Ended>>,
}

struct State {
    core: Worker,
    masters: Vec<EndpointRef<ToMaster>>,
    processes: BTreeMap<ProcessKey, Process>,
    /// When supervised drivers are to end.
    guard: Tick,
}

/// A process that runs, or is about to.
#[derive(Clone)]
pub(super) struct Process {
    pub(super) order: Order,
    kill: CancellationToken,
}

/// A master as it calls itself.
#[derive(Clone, Debug)]
pub(super) struct MasterName {
    pub(super) url: String,
    pub(super) web_ui: String,
}

/// What there is to see of a worker.
pub(super) struct View {
    pub(super) worker: WorkerDescription,
    pub(super) master: Option<MasterName>,
    pub(super) used: (u32, u64),
    pub(super) processes: Vec<Order>,
}

impl fmt::Debug for Shell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shell").field("id", self.id()).finish_non_exhaustive()
    }
}

impl Shell {
    pub(super) fn new(setting: Setting) -> Self {
        let Setting { clock, options, launch } = setting;
        let description = options.description.clone();
        let core = Worker::new(options, Jitter::new(random()));
        let (masters, processes) = (Vec::new(), BTreeMap::new());
        let state = State { core, masters, processes, guard: Tick(0) };
        Self {
            clock,
            alarm: Alarm::default(),
            description,
            tasks: launch.tasks.clone(),
            launch: Arc::new(launch),
            state: Mutex::new(state),
            master: watch::Sender::default(),
            ended: watch::Sender::default(),
        }
    }

    pub(super) fn id(&self) -> &WorkerId {
        &self.description.id
    }

    /// What other workers are served.
    pub(super) fn cache(&self) -> Arc<Cache> {
        self.launch.cache.clone()
    }

    /// Wakes the core at the moments it asks for. The endpoint feeds the first one.
    pub(super) async fn keep_time(self: Arc<Self>) {
        loop {
            self.alarm.ring(&self.clock).await;
            self.feed(WorkerEvent::Ticked);
        }
    }

    pub(super) async fn registered(&self) -> String {
        let mut master = self.master.subscribe();
        let found = master.wait_for(Option::is_some).await.expect("the shell has the sender");
        found.as_ref().expect("waited for").url.clone()
    }

    pub(super) async fn ended(&self) -> Ended {
        let mut ended = self.ended.subscribe();
        let found = ended.wait_for(Option::is_some).await.expect("the shell has the sender");
        found.clone().expect("waited for")
    }

    pub(super) fn request_stop(self: &Arc<Self>) {
        self.feed(WorkerEvent::StopRequested);
    }

    /// Waits until no process is left. Only after it has ended: then none comes any more.
    pub(super) async fn processes_gone(self: &Arc<Self>) {
        self.tasks.close();
        self.tasks.wait().await;
        self.feed(WorkerEvent::ProcessesGone);
    }

    /// Removes what workers that are gone have left.
    pub(super) fn remove_leftovers(&self) {
        self.blocking(|launch| launch.directories.temporary.remove_leftovers());
    }

    /// Removes all temporary files. Only after the processes are gone.
    pub(super) async fn remove_temporary_files(&self) {
        self.blocking(|launch| launch.directories.temporary.remove_all());
        self.tasks.wait().await;
    }

    pub(super) fn work(&self) -> PathBuf {
        self.launch.directories.work().to_owned()
    }

    /// This moment, as its pages tell it.
    pub(super) fn now(&self) -> Tick {
        self.clock.now()
    }

    pub(super) fn view(&self) -> View {
        let state = self.lock();
        View {
            worker: self.description.clone(),
            master: self.master.borrow().clone(),
            used: state.core.used(),
            processes: state.processes.values().map(|process| process.order.clone()).collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the worker's core panicked: its books cannot be trusted")
    }

    fn feed(self: &Arc<Self>, event: WorkerEvent) {
        let mut state = self.lock();
        let mut effects = Vec::new();
        state.core.handle(self.clock.now(), event, &mut effects);
        for effect in effects {
            self.apply(&mut state, effect);
        }
    }

    fn apply(self: &Arc<Self>, state: &mut State, effect: WorkerEffect) {
        match effect {
            WorkerEffect::Send { master, message } => {
                if let Some(Err(error)) = state.masters.get(master).map(|to| to.try_send(message)) {
                    tracing::warn!(%error, "could not tell the master");
                }
            }
            WorkerEffect::SpawnExecutor { key, description, cores, memory_mb, peers } => {
                self.spawn(state, Order::Executor { key, description, cores, memory_mb, peers });
            }
            WorkerEffect::SpawnDriver { driver, description } => {
                self.spawn(state, Order::Driver { driver, description });
            }
            WorkerEffect::KillExecutor { key } => kill(state, &ProcessKey::Executor(key)),
            WorkerEffect::KillDriver { driver } => kill(state, &ProcessKey::Driver(driver)),
            WorkerEffect::GuardDrivers { until } => self.guard_drivers(state, until),
            WorkerEffect::RemoveApplication { app } => {
                self.launch.unshare(&app.0);
                self.remove_temporary(&app.0);
            }
            WorkerEffect::CleanWorkDirectories { age_ms, keep } => {
                let age = Duration::from_millis(age_ms);
                let keep = keep.iter().map(|name| name.to_string()).collect();
                self.blocking(move |launch| {
                    launch.directories.remove_old(age, &keep);
                    launch.cache.remove_old(age);
                });
            }
            WorkerEffect::Warn { message } => tracing::warn!("{message}"),
            WorkerEffect::ArmTimer(at) => self.alarm.arm(at),
            WorkerEffect::Exit { code, reason } => {
                state.processes.values().for_each(|process| process.kill.cancel());
                self.launch.cache.stop();
                self.ended.send_replace(Some(Ended { code, reason }));
            }
        }
    }

    /// Its reaper does it, which goes on when this process stands still; without one, this process.
    fn guard_drivers(self: &Arc<Self>, state: &mut State, until: Tick) {
        let time = self.clock.until(until);
        if let Some(reaper) = &self.launch.reaper {
            return reaper.prolong(time);
        }
        state.guard = until;
        let shell = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            let state = shell.lock();
            let supervised =
                state.processes.values().filter(|process| process.order.is_supervised());
            let overdue = supervised.filter(|_| state.guard == until);
            overdue.for_each(|process| process.kill.cancel());
        });
    }

    /// Temporary files of an application or a driver that is over: out of use before anything else happens.
    fn remove_temporary(&self, owner: &str) {
        let Ok(owner) = directories::name(owner) else { return };
        let detached = self.launch.directories.temporary.detach(owner);
        self.blocking(move |_| detached.iter().for_each(|path| directories::remove(path)));
    }

    fn blocking(&self, work: impl FnOnce(&Launch) + Send + 'static) {
        let launch = self.launch.clone();
        self.tasks.spawn_blocking(move || work(&launch));
    }

    fn spawn(self: &Arc<Self>, state: &mut State, order: Order) {
        let (key, kill) = (order.key(), CancellationToken::new());
        let process = Process { order: order.clone(), kill: kill.clone() };
        state.processes.insert(key.clone(), process);
        let shell = self.clone();
        self.launch.share(&order);
        self.tasks.spawn(async move {
            let progress = Progress::default();
            let outcome = tokio::select! {
                outcome = shell.launch.clone().run(order, kill, &progress) => outcome,
                never = shell.report_progress(&key, progress.subscribe()) => match never {},
            };
            if let ProcessKey::Driver(driver) = &key {
                shell.remove_temporary(&driver.0);
            }
            shell.lock().processes.remove(&key);
            shell.feed(report(key, outcome));
        });
    }

    /// Tells now and then how far a launch is.
    async fn report_progress(
        self: &Arc<Self>,
        key: &ProcessKey,
        mut progress: watch::Receiver<Preparing>,
    ) -> Infallible {
        let ProcessKey::Executor(key) = key else { return std::future::pending().await };
        while progress.changed().await.is_ok() {
            let preparing = *progress.borrow_and_update();
            self.feed(WorkerEvent::ExecutorPreparing { key: key.clone(), preparing });
            tokio::time::sleep(PROGRESS_EVERY).await;
        }
        std::future::pending().await
    }

    /// A message from a master that this worker dialled; others are dropped.
    fn receive(self: &Arc<Self>, master: usize, stamped: Stamped<ToWorker>) {
        if let ToWorker::RegisteredWorker { url, web_ui, .. } = &stamped.message {
            tracing::info!(master = url, "registered");
            let name = MasterName { url: url.clone(), web_ui: web_ui.clone() };
            self.master.send_replace(Some(name));
        }
        if let ToWorker::MasterInStandby { leader: Some(leader) } = &stamped.message {
            tracing::info!(leader, "a master is a standby");
        }
        if let ToWorker::RegisterWorkerFailed { reason, .. } = &stamped.message {
            tracing::warn!("the master refused this worker: {reason}");
        }
        self.feed(WorkerEvent::Received { master, stamped });
    }
}

fn kill(state: &State, key: &ProcessKey) {
    if let Some(process) = state.processes.get(key) {
        process.kill.cancel();
    }
}

fn report(key: ProcessKey, outcome: Result<ExitStatus, LaunchError>) -> WorkerEvent {
    match &outcome {
        Ok(status) => tracing::info!(process = ?key, %status, "a process ended"),
        Err(error) => tracing::warn!(process = ?key, %error, "a process was not started"),
    }
    match (key, outcome) {
        (ProcessKey::Executor(key), Ok(status)) => WorkerEvent::ExecutorExited { key, status },
        (ProcessKey::Driver(driver), Ok(status)) => WorkerEvent::DriverExited { driver, status },
        (ProcessKey::Executor(key), Err(error)) => {
            WorkerEvent::ExecutorSpawnFailed { key, message: error.to_string() }
        }
        (ProcessKey::Driver(driver), Err(error)) => {
            let (message, may_pass) = (error.to_string(), error.may_pass());
            WorkerEvent::DriverSpawnFailed { driver, message, may_pass }
        }
    }
}

pub(super) struct WorkerEndpoint {
    shell: Arc<Shell>,
    masters: Vec<RpcAddress>,
}

impl WorkerEndpoint {
    pub(super) fn new(shell: Arc<Shell>, masters: Vec<RpcAddress>) -> Self {
        Self { shell, masters }
    }

    fn index(&self, address: &RpcAddress) -> Option<usize> {
        self.masters.iter().position(|master| master == address)
    }
}

/// The master at the other end of a connection, if this worker dialled it. Who dials the worker is none, wherever it dials from.
fn master_behind(masters: &[RpcAddress], peer: &Peer) -> Option<usize> {
    let found = masters.iter().position(|master| *master == peer.address);
    found.filter(|_| peer.dialled)
}

impl Endpoint for WorkerEndpoint {
    type Message = Stamped<ToWorker>;

    async fn on_start(&mut self, context: &Context<Stamped<ToWorker>>) {
        let dial = |master: &RpcAddress| context.endpoint_ref(&master.endpoint(MASTER));
        match self.masters.iter().map(dial).collect() {
            Ok(masters) => self.shell.lock().masters = masters,
            Err(error) => tracing::error!(%error, "cannot reach a master"),
        }
        self.shell.feed(WorkerEvent::Ticked);
    }

    async fn receive(
        &mut self,
        stamped: Stamped<ToWorker>,
        caller: Caller<()>,
        _: &Context<Stamped<ToWorker>>,
    ) -> Result<(), HandlerError> {
        match master_behind(&self.masters, caller.peer()) {
            Some(master) => self.shell.receive(master, stamped),
            None => tracing::warn!(from = %caller.peer().address, "not a master of this worker"),
        }
        Ok(())
    }

    async fn on_disconnected(&mut self, peer: Peer, _: &Context<Stamped<ToWorker>>) {
        if let Some(master) = master_behind(&self.masters, &peer) {
            self.shell.feed(WorkerEvent::MasterDisconnected { master });
        }
    }

    async fn on_network_error(
        &mut self,
        address: RpcAddress,
        error: RpcError,
        _: &Context<Stamped<ToWorker>>,
    ) {
        // A connection that broke is told of by its end too, which says who dialled it.
        if let RpcError::Disconnected { .. } = error {
            return;
        }
        tracing::warn!(master = %address, "{error}");
        if let Some(master) = self.index(&address) {
            let (reason, lasting) = (error.to_string(), error.is_lasting());
            self.shell.feed(WorkerEvent::MasterUnreachable { master, reason, lasting });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_dials_the_worker_is_no_master_even_from_a_masters_address() {
        let masters = [RpcAddress::new("h", 1), RpcAddress::new("h", 2)];
        let peer = |port, dialled| {
            let address = RpcAddress::new("h", port);
            Peer { address, identity: "".into(), connection: 1, dialled }
        };
        assert_eq!(master_behind(&masters, &peer(2, true)), Some(1));
        assert_eq!(master_behind(&masters, &peer(2, false)), None);
        assert_eq!(master_behind(&masters, &peer(3, true)), None);
    }
}
