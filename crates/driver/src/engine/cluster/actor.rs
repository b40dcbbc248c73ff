//! The thread with the core: takes one piece of news at a time and carries out what the core decides.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use firesteel_cluster::application::{Backend, Effect, Event};
use firesteel_cluster::messages::{Said, ToApplication, ToDriver, ToMaster};
use firesteel_cluster::{AppId, Peer};
use firesteel_executor::TaskReport;
use firesteel_executor::cluster::ToBlockMaster;
use firesteel_rpc::{EndpointRef, RpcAddress};
use firesteel_scheduler::engine::Input;
use firesteel_types::{ExecutorId, Host, TaskId, Tick};

use super::super::Engine;
use super::join::Network;
use super::{Cluster, Joined, Link, Live, lock};

/// How long a job waits without executors before the user is told.
const PATIENCE_MS: u64 = 15_000;
/// How often to look at that.
const LOOK: Duration = Duration::from_secs(1);
/// While many short tasks run, the next report comes within this time.
const SOON: Duration = Duration::from_micros(100);

/// Something for the actor.
pub(super) enum News {
    /// The masters, in the order of the master URL.
    Masters(Vec<(RpcAddress, EndpointRef<ToMaster>)>),
    /// A master said something.
    FromMaster(RpcAddress, Said<ToApplication>),
    /// The connection to a master broke, or could not be made.
    MasterGone(RpcAddress),
    /// An executor said something.
    FromExecutor(u64, Option<Link>, ToDriver),
    /// A connection to an executor broke.
    ExecutorGone(u64),
    /// An executor could not be sent to.
    Unreachable(ExecutorId),
    /// A kept partition changed.
    BlockUpdated(ToBlockMaster),
    /// A task's result that had to be fetched is there, or is not.
    Fetched(ExecutorId, TaskId, Box<TaskReport>),
    /// The context stops.
    Stop,
}

pub(super) struct Actor {
    pub(super) engine: Arc<Engine>,
    pub(super) cluster: Arc<Cluster>,
    pub(super) core: Backend,
    masters: Vec<(RpcAddress, EndpointRef<ToMaster>)>,
    links: BTreeMap<Peer, Link>,
    next: Option<Tick>,
    /// What the application asked for, for the warning that it gets nothing.
    wanted: String,
    /// Since when jobs wait and there is no executor.
    starved: Option<Tick>,
    app: Option<AppId>,
}

/// Waits for news, at first without falling asleep: to be woken may cost more than a short task.
fn next(news: &Receiver<News>, limit: Duration) -> Result<News, RecvTimeoutError> {
    let started = Instant::now();
    while started.elapsed() < SOON.min(limit) {
        match news.try_recv() {
            Ok(news) => return Ok(news),
            Err(TryRecvError::Empty) => std::thread::yield_now(),
            Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
        }
    }
    news.recv_timeout(limit)
}

impl Actor {
    pub(super) fn new(
        engine: Arc<Engine>,
        cluster: Arc<Cluster>,
        core: Backend,
        wanted: String,
    ) -> Self {
        Actor {
            engine,
            cluster,
            core,
            masters: Vec::new(),
            links: BTreeMap::new(),
            next: None,
            wanted,
            starved: None,
            app: None,
        }
    }

    /// Until told to stop; then ends the network too.
    pub(super) fn run(mut self, news: &Receiver<News>, network: Network) {
        loop {
            let now = self.engine.now();
            let until = self.next.map(|next| Duration::from_millis(next.since_ms(now)));
            match next(news, until.map_or(LOOK, |until| until.min(LOOK))) {
                Ok(News::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(news) => self.hear(news),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.next.is_some_and(|next| next <= self.engine.now()) {
                self.next = None;
                self.feed(Event::Ticked);
            }
            self.warn_if_starved();
        }
        self.feed(Event::Stopped);
        self.cluster.joined(Joined::Never("the context was stopped".to_owned()));
        network.end(&self.cluster.env);
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Masters(masters) => {
                self.masters = masters;
                self.feed(Event::Ticked);
            }
            News::FromMaster(address, said) => {
                if let Some(master) = self.master(&address) {
                    self.feed(Event::ReceivedMaster { master, said });
                }
            }
            News::MasterGone(address) => {
                if let Some(master) = self.master(&address) {
                    self.feed(Event::MasterDisconnected { master });
                }
            }
            News::FromExecutor(connection, link, message) => {
                let from = Peer(connection);
                if let Some(link) = link {
                    self.links.insert(from, link);
                }
                self.feed(Event::ReceivedExecutor { from, message });
            }
            News::ExecutorGone(connection) => {
                self.feed(Event::ExecutorDisconnected { peer: Peer(connection) });
                self.links.remove(&Peer(connection));
                lock(&self.cluster.addresses).remove(&connection);
            }
            News::Unreachable(executor) => {
                if let Some(peer) = self.core.peer(executor) {
                    self.feed(Event::ExecutorDisconnected { peer });
                }
            }
            News::BlockUpdated(updated) => self.block_updated(updated),
            News::Fetched(executor, task, report) => {
                self.engine.report_remote(task, executor, *report);
            }
            News::Stop => {}
        }
    }

    fn master(&self, address: &RpcAddress) -> Option<usize> {
        self.masters.iter().position(|(known, _)| known == address)
    }

    pub(super) fn feed(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.core.handle(self.engine.now(), event, &mut effects);
        effects.into_iter().for_each(|effect| self.carry_out(effect));
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::SendMaster { master, message } => self.tell_master(master, message),
            Effect::SendExecutor { to, message } => {
                // One that cannot be told has lost its connection, which is heard of by itself.
                if let Some(link) = self.links.get(&to) {
                    let _ = link.tasks.try_send(message);
                }
            }
            Effect::Schedule(Input::ExecutorAdded { executor, host, cores }) => {
                self.executor_added(executor, host, cores);
            }
            Effect::Schedule(input) => {
                if let Input::ExecutorLost { executor, reason, .. } = &input {
                    lock(&self.cluster.executors).remove(executor);
                    self.engine.note_lost(*executor, reason);
                }
                self.engine.feed(input);
            }
            Effect::ReportTask { executor, task, outcome, data } => {
                self.report(executor, task, outcome, &data);
            }
            Effect::Registered { app } => {
                tracing::info!(%app, "registered with a master");
                self.cluster.joined(Joined::As(app.to_string()));
                self.app = Some(app);
            }
            Effect::Warn { message } => tracing::warn!("{message}"),
            Effect::EndApplication { reason } => {
                tracing::error!(%reason, "the application is over");
                self.cluster.joined(Joined::Never(reason.clone()));
                self.engine.end_application(reason);
            }
            Effect::ArmTimer(at) => {
                self.next = Some(self.next.map_or(at, |next| next.min(at)));
            }
        }
    }

    fn tell_master(&self, master: usize, message: ToMaster) {
        let Some((address, reference)) = self.masters.get(master) else { return };
        if let Err(error) = reference.try_send(message) {
            tracing::warn!(master = %address, %error, "the master could not be told");
        }
    }

    /// It may get tasks from the moment the schedulers know it.
    fn executor_added(&mut self, executor: ExecutorId, host: Host, cores: u32) {
        let Some(peer) = self.core.peer(executor) else { return };
        let Some(link) = self.links.get(&peer).cloned() else { return };
        let address = lock(&self.cluster.addresses).get(&peer.0).cloned();
        tracing::info!(%executor, %host, cores, "executor registered");
        let live = Live { link, address, host: host.clone(), cores, code: Default::default() };
        lock(&self.cluster.executors).insert(executor, live);
        self.engine.executor_added(executor, host, cores);
    }

    /// A job that waits for executors which do not come says nothing by itself.
    fn warn_if_starved(&mut self) {
        let waits = lock(&self.cluster.executors).is_empty() && self.engine.has_jobs();
        let now = self.engine.now();
        if !waits {
            self.starved = None;
        } else if now.since_ms(*self.starved.get_or_insert(now)) >= PATIENCE_MS {
            self.starved = Some(now);
            let app = self.app.as_ref().map_or("this application", |app| &app.0);
            tracing::warn!(
                "a job of {app} waits for executors and has got none for {} s: it asks for {}; look \
                 at the master's page whether workers are registered and have as much free",
                PATIENCE_MS / 1000,
                self.wanted
            );
        }
    }
}
