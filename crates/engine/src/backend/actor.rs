//! The thread with the core: takes one message at a time and carries out what the core decides.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use firesteel_backend::protocol::ToDriver;
use firesteel_backend::provider::ProviderEvent;
use firesteel_backend::registry::{Registry, RegistryEffect, RegistryEvent};
use firesteel_backend::timer::Timer;
use firesteel_backend::{AppId, Peer};
use firesteel_scheduler::SchedulerInput;
use firesteel_task::TaskReport;
use firesteel_types::{BlockManagerId, Event, ExecutorId, ExecutorInfo, Host, TaskId, Tick};
use tokio::runtime::Runtime;
use tokio::sync::OwnedSemaphorePermit;
use tracing::subscriber::NoSubscriber;

use super::super::Engine;
use super::backlog::Queued;
use super::provider::Provider;
use super::{Cluster, Joined, Link, Live, lock};
use crate::heartbeat::Heartbeat;

/// How long a job waits without executors before the user is told.
const PATIENCE_MS: u64 = 15_000;
/// How often to look at that.
const LOOK: Duration = Duration::from_secs(1);

/// Something for the actor.
pub(super) enum ActorMessage {
    /// From the provider, over its port.
    Provider(ProviderEvent),
    /// The schedulers exclude a node, or do no longer.
    NodeExcluded(Host, bool),
    /// A message from an executor, as long as it is not handled.
    FromExecutor(u64, Option<Box<Link>>, ToDriver, Queued),
    /// A connection to an executor broke.
    ExecutorGone(u64),
    /// An executor could not be sent to.
    Unreachable(ExecutorId),
    /// An executor told what it uses and what its tasks cost so far.
    Heartbeat(Box<Heartbeat>),
    /// A task's result that had to be fetched is there, or is not; others wait for the permit.
    Fetched(ExecutorId, TaskId, Box<TaskReport>, Option<OwnedSemaphorePermit>),
    /// All that had arrived when this was sent has been read.
    Drained,
    Stop,
}

pub(super) struct Actor {
    pub(super) engine: Arc<Engine>,
    pub(super) cluster: Arc<Cluster>,
    pub(super) core: Registry,
    provider: Box<dyn Provider>,
    links: BTreeMap<Peer, Link>,
    timer: Timer,
    /// What the application asked for, for the warning that it gets nothing.
    wanted: String,
    starvation: Starvation,
    app: Option<AppId>,
}

impl Actor {
    pub(super) fn new(
        engine: Arc<Engine>,
        cluster: Arc<Cluster>,
        core: Registry,
        provider: Box<dyn Provider>,
        wanted: String,
    ) -> Self {
        Actor {
            engine,
            cluster,
            core,
            provider,
            links: BTreeMap::new(),
            timer: Timer::default(),
            wanted,
            starvation: Starvation::default(),
            app: None,
        }
    }

    /// Until told to stop; then ends the network too.
    pub(super) fn run(mut self, messages: &Receiver<ActorMessage>, runtime: Runtime) {
        self.feed(RegistryEvent::Ticked);
        loop {
            let now = self.engine.now();
            let until = self.timer.next().map(|next| Duration::from_millis(next.since_ms(now)));
            match messages.recv_timeout(until.map_or(LOOK, |until| until.min(LOOK))) {
                Ok(ActorMessage::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(message) => self.hear(message),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.timer.rings(self.engine.now()) {
                self.feed(RegistryEvent::Ticked);
            }
            self.warn_if_starved();
            self.cluster.turns.fetch_add(1, Ordering::Relaxed);
        }
        self.feed(RegistryEvent::Stopped);
        self.cluster.joined(Joined::Never("the context was stopped".to_owned()));
        // The port goes last: executors that were about to register are ended first, where the
        // provider can end them, and complain of no closed port.
        self.provider.stop();
        // What is queued is sent before the connections close.
        runtime.block_on(self.cluster.env.shutdown());
        runtime.shutdown_timeout(Duration::from_secs(1));
    }

    fn hear(&mut self, message: ActorMessage) {
        match message {
            ActorMessage::Provider(event) => self.feed(RegistryEvent::Provider(event)),
            ActorMessage::NodeExcluded(node, excluded) => {
                self.feed(RegistryEvent::NodeExcluded { node, excluded });
            }
            ActorMessage::FromExecutor(connection, link, message, queued) => {
                let from = Peer(connection);
                if let Some(link) = link {
                    self.links.insert(from, *link);
                }
                let has_address = lock(&self.cluster.introduced).contains_key(&connection);
                self.feed(RegistryEvent::ReceivedExecutor { from, has_address, message });
                drop(queued);
            }
            ActorMessage::ExecutorGone(connection) => {
                self.feed(RegistryEvent::ExecutorDisconnected { peer: Peer(connection) });
                self.links.remove(&Peer(connection));
                self.cluster.backlog.remove(connection);
                lock(&self.cluster.introduced).remove(&connection);
            }
            ActorMessage::Unreachable(executor) => {
                if let Some(peer) = self.core.peer(executor) {
                    self.feed(RegistryEvent::ExecutorDisconnected { peer });
                }
            }
            ActorMessage::Heartbeat(heartbeat) => self.engine.note_heartbeat(*heartbeat),
            ActorMessage::Fetched(executor, task, report, permit) => {
                self.engine.report_remote(task, executor, *report);
                drop(permit);
            }
            ActorMessage::Drained => {
                // What came while all that was handled counts too.
                let arrived = self.cluster.backlog.heard(self.engine.now());
                self.feed(RegistryEvent::Heard { arrived });
                self.feed(RegistryEvent::Drained);
            }
            ActorMessage::Stop => {}
        }
    }

    pub(super) fn feed(&mut self, event: RegistryEvent) {
        let mut effects = Vec::new();
        self.core.handle(self.engine.now(), event, &mut effects);
        effects.into_iter().for_each(|effect| self.carry_out(effect));
    }

    fn carry_out(&mut self, effect: RegistryEffect) {
        match effect {
            RegistryEffect::Provider(command) => self.provider.command(command),
            RegistryEffect::SendExecutor { to, message } => {
                // One that cannot be told has lost its connection, which is heard of by itself, or takes nothing:
                // then its heartbeats stay away.
                if let Some(link) = self.links.get(&to) {
                    let _ = link.tasks.try_send(message);
                }
            }
            RegistryEffect::Schedule(SchedulerInput::ExecutorAdded { executor, info }) => {
                self.executor_added(executor, info);
            }
            RegistryEffect::Schedule(input) => {
                let lost = match &input {
                    SchedulerInput::ExecutorLost { executor, reason, .. } => {
                        self.executor_lost(*executor, reason)
                    }
                    _ => None,
                };
                self.engine.feed(input);
                if let Some(id) = lost {
                    let at = self.engine.now();
                    self.engine.post(Event::BlockManagerRemoved { id, at });
                }
            }
            RegistryEffect::ReportTask { executor, task, outcome, data } => {
                self.report(executor, task, outcome, &data);
            }
            RegistryEffect::Accepted { app } => {
                self.cluster.joined(Joined::As(app.to_string()));
                if self.app.replace(app).is_none()
                    && let Err(error) = self.engine.announce()
                {
                    tracing::error!(%error, "listeners were not told of the application");
                }
            }
            RegistryEffect::Warn { message } => warn(&message),
            RegistryEffect::TellShortage { shortage } => {
                shortage.iter().for_each(|words| warn(words));
                let at = self.engine.now();
                self.engine.post(Event::ExecutorsMissing { shortage, at });
            }
            RegistryEffect::EndApplication { reason } => {
                tracing::error!(%reason, "the application is over");
                self.cluster.joined(Joined::Never(reason.clone()));
                self.engine.end_application(reason);
            }
            RegistryEffect::ArmTimer(at) => {
                self.timer.arm(at);
            }
            RegistryEffect::Drain => {
                let _ = self.cluster.messages.send(ActorMessage::Drained);
            }
        }
    }

    /// It may get tasks from the moment the schedulers know it.
    fn executor_added(&mut self, executor: ExecutorId, info: ExecutorInfo) {
        let Some(peer) = self.core.peer(executor) else { return };
        let Some(link) = self.links.get(&peer).cloned() else { return };
        let introduced = lock(&self.cluster.introduced).get(&peer.0).cloned();
        let (address, max_memory) = introduced.unzip();
        let (host, cores) = (info.host.clone(), info.cores);
        tracing::info!(%executor, %host, cores, "executor registered");
        let live = Live { link, address, host, cores, code: Default::default(), outdated: 0 };
        let (id, at) = (live.block_manager(executor), self.engine.now());
        lock(&self.cluster.executors).insert(executor, live);
        let max_memory = max_memory.unwrap_or_default();
        self.engine.post(Event::BlockManagerAdded {
            id,
            max_memory,
            max_off_heap_memory: Some(0),
            at,
        });
        self.engine.feed(SchedulerInput::ExecutorAdded { executor, info });
    }

    /// Where its blocks were, if it counted.
    fn executor_lost(&mut self, executor: ExecutorId, reason: &str) -> Option<BlockManagerId> {
        let live = lock(&self.cluster.executors).remove(&executor);
        self.engine.note_lost(executor, reason);
        live.map(|live| live.block_manager(executor))
    }

    /// A job that waits for executors which do not come says nothing by itself.
    fn warn_if_starved(&mut self) {
        let waits = lock(&self.cluster.executors).is_empty() && self.engine.has_jobs();
        if self.starvation.is_due(self.engine.now(), waits) {
            let look = self.provider.where_to_look();
            let why = self.core.shortage().unwrap_or(&look);
            warn(&starved(self.app.as_ref(), &self.wanted, why));
        }
    }
}

/// For how long jobs have waited without an executor.
#[derive(Default)]
struct Starvation(Option<Tick>);

impl Starvation {
    /// Whether it is time to tell the user, once more.
    fn is_due(&mut self, now: Tick, waits: bool) -> bool {
        if !waits {
            self.0 = None;
            return false;
        }
        let due = now.since_ms(*self.0.get_or_insert(now)) >= PATIENCE_MS;
        if due {
            self.0 = Some(now);
        }
        due
    }
}

fn starved(app: Option<&AppId>, wanted: &str, why: &str) -> String {
    let app = app.map_or("this application", |app| &app.0);
    format!(
        "a job of {app} waits for executors and has got none for {} s: it asks for {wanted}; {why}",
        PATIENCE_MS / 1000,
    )
}

/// In the program's log, or on its standard error if it keeps none: a program that waits for something says so.
pub fn warn(message: &str) {
    let has_log = tracing::dispatcher::get_default(|log| !log.is::<NoSubscriber>());
    if has_log {
        tracing::warn!("{message}");
    } else {
        eprintln!("firesteel: {message}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_without_executors_is_told_of_after_its_time_and_again_and_not_while_it_has_some() {
        let mut starvation = Starvation::default();
        let mut told = Vec::new();
        for (seconds, waits) in [
            (0, false),
            (10, true),
            (24, true),
            (25, true),
            (26, true),
            (40, true),
            (54, false),
            (56, true),
            (70, true),
            (71, true),
        ] {
            if starvation.is_due(Tick(seconds * 1000), waits) {
                told.push(seconds);
            }
        }
        assert_eq!(told, [25, 40, 71]);
        let text = starved(
            Some(&AppId::new("app-1")),
            "executors with 9 core(s) and 7 MiB",
            "none is left",
        );
        assert!(text.contains("app-1") && text.contains("9 core(s) and 7 MiB"), "{text}");
    }
}
