//! The allocator's shell: one event at a time goes in, and what it decides is carried out. Requests run beside it, and their answers
//! are events.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use firesteel_backend::provider::{ProviderCommand, ProviderEvent};
use firesteel_backend::timer::Timer;
use firesteel_engine::Reports;
use firesteel_kubernetes_core::Version;
use firesteel_kubernetes_core::allocator::{
    Allocator, AllocatorEffect, AllocatorEvent, PodRequest,
};
use firesteel_kubernetes_core::api::ApiError;
use firesteel_storage::Clock;
use futures_util::StreamExt;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, UnboundedReceiver, channel};
use tokio::task::AbortHandle;

use super::credentials::Credentials;
use super::requests::Requests;
use super::telling::Shortage;
use crate::connect::Connection;

/// So many answers and changes may wait for the allocator; then watches and requests wait.
const WAITING: usize = 1024;

/// Where a driver says why executors are missing: told with each change.
type Tells = tokio::sync::watch::Sender<Option<Shortage>>;

pub(super) struct Shell {
    core: Allocator,
    clock: Clock,
    requests: Requests,
    connection: Connection,
    credentials: Credentials,
    reports: Reports,
    events: Sender<AllocatorEvent>,
    heard: Option<Receiver<AllocatorEvent>>,
    watch: Option<AbortHandle>,
    timer: Timer,
    tells: Option<Tells>,
    /// Whether pods may be left if the application is over now.
    may_leave: Arc<AtomicBool>,
    over: bool,
}

impl Shell {
    pub(super) fn new(
        core: Allocator,
        requests: Requests,
        connection: Connection,
        reports: Reports,
    ) -> Self {
        let (events, heard) = channel(WAITING);
        Shell {
            core,
            clock: Clock::new(),
            requests,
            connection,
            credentials: Credentials::default(),
            reports,
            events,
            heard: Some(heard),
            watch: None,
            timer: Timer::default(),
            tells: None,
            may_leave: Arc::new(AtomicBool::new(true)),
            over: false,
        }
    }

    /// Whether pods may be left if nobody waits for it any longer.
    pub(super) fn may_leave(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.may_leave)
    }

    /// Tells this as well whenever it changes why executors are missing.
    pub(super) fn telling(mut self, tells: Tells) -> Self {
        self.tells = Some(tells);
        self
    }

    /// Until nothing is left of the application.
    pub(super) async fn run(mut self, mut commands: UnboundedReceiver<ProviderCommand>) {
        let Some(mut heard) = self.heard.take() else { return };
        let mut next = Some(AllocatorEvent::Ticked);
        while let Some(event) = next {
            self.feed(event);
            if self.over {
                break;
            }
            next = self.select(&mut commands, &mut heard).await;
        }
        if let Some(watch) = self.watch.take() {
            watch.abort();
        }
    }

    /// What happens next; nothing once the registry is gone.
    async fn select(
        &mut self,
        commands: &mut UnboundedReceiver<ProviderCommand>,
        heard: &mut Receiver<AllocatorEvent>,
    ) -> Option<AllocatorEvent> {
        let wait = self.timer.next().map(|next| self.clock.until(next));
        let alarm = async {
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            command = commands.recv() => command.map(AllocatorEvent::Command),
            // What is known already is heard before anything is judged by the time.
            event = heard.recv() => event,
            () = alarm => {
                self.timer.rings(self.clock.now());
                Some(AllocatorEvent::Ticked)
            }
        }
    }

    fn feed(&mut self, event: AllocatorEvent) {
        let mut effects = Vec::new();
        self.core.handle(self.clock.now(), event, &mut effects);
        self.may_leave.store(self.core.may_leave_pods(), Ordering::Relaxed);
        for effect in effects {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: AllocatorEffect) {
        match effect {
            AllocatorEffect::CreatePod(request) => self.create(request),
            AllocatorEffect::DeletePod { name, uid, grace_ms } => {
                tracing::debug!(pod = %name, %uid, grace_ms, "deleting an executor pod");
                self.spawn(move |requests| async move {
                    let answer = requests.delete(&name, &uid, grace_ms).await;
                    if let Err(error @ (ApiError::Forbidden(_) | ApiError::Denied(_))) = &answer {
                        tracing::warn!(pod = %name, %error, "an executor pod could not be deleted");
                    }
                    Some(AllocatorEvent::Deleted { uid, answer })
                });
            }
            AllocatorEffect::KeepPod { name, uid } => self.spawn(move |requests| async move {
                if let Err(error) = requests.keep(&name, &uid).await {
                    tracing::debug!(pod = %name, %error, "a pod that is over could not be labelled");
                }
                None
            }),
            AllocatorEffect::ListPods { number } => self.spawn(move |requests| async move {
                let answer = requests.list().await;
                Some(AllocatorEvent::Listed { number, answer })
            }),
            AllocatorEffect::FetchLog { executor, name } => {
                self.spawn(move |requests| async move {
                    match requests.log(&name).await {
                        Ok(text) => {
                            tracing::warn!(%executor, pod = %name, log = text, "an executor failed");
                            Some(AllocatorEvent::LogFetched { executor, text })
                        }
                        Err(error) => {
                            tracing::debug!(pod = %name, %error, "a log could not be fetched");
                            None
                        }
                    }
                });
            }
            AllocatorEffect::ListClaims { number } => self.spawn(move |requests| async move {
                let answer = requests.list_claims().await;
                Some(AllocatorEvent::ClaimsListed { number, answer })
            }),
            AllocatorEffect::DeleteClaim { name } => {
                tracing::debug!(claim = %name, "deleting a claim of a volume");
                self.spawn(move |requests| async move {
                    let answer = requests.delete_claim(&name).await;
                    Some(AllocatorEvent::ClaimDeleted { name, answer })
                });
            }
            AllocatorEffect::WatchPods { number, from } => self.watch(number, from),
            AllocatorEffect::RefreshCredentials => self.refresh(),
            AllocatorEffect::Report(event) => self.report(event),
            AllocatorEffect::ArmTimer(at) => {
                self.timer.arm(at);
            }
            AllocatorEffect::Finish => self.over = true,
        }
    }

    fn create(&self, request: PodRequest) {
        tracing::debug!(pod = %request.name, attempt = request.attempt, "asking for an executor pod");
        self.spawn(move |requests| async move {
            let answer = requests.create(&request).await.map(Box::new);
            let PodRequest { executor, attempt, .. } = request;
            Some(AllocatorEvent::Created { executor, attempt, answer })
        });
    }

    /// Runs a request beside the allocator.
    fn spawn<F>(&self, request: impl FnOnce(Requests) -> F + Send + 'static)
    where
        F: Future<Output = Option<AllocatorEvent>> + Send + 'static,
    {
        let (requests, events) = (self.requests.clone(), self.events.clone());
        tokio::spawn(async move {
            if let Some(event) = request(requests).await {
                let _ = events.send(event).await;
            }
        });
    }

    /// In place of any other watch.
    fn watch(&mut self, number: u64, from: Version) {
        if let Some(before) = self.watch.take() {
            before.abort();
        }
        let (requests, events) = (self.requests.clone(), self.events.clone());
        let watching = tokio::spawn(async move {
            let error = match requests.watch(from).await {
                Ok(mut changes) => loop {
                    match changes.next().await {
                        Some(Ok(change)) => {
                            let _ = events
                                .send(AllocatorEvent::Watched { number, change: Box::new(change) })
                                .await;
                        }
                        Some(Err(error)) => break Some(error),
                        None => break None,
                    }
                },
                Err(error) => Some(error),
            };
            let _ = events.send(AllocatorEvent::WatchEnded { number, error }).await;
        });
        self.watch = Some(watching.abort_handle());
    }

    /// Files of tokens and certificates are read again, and plugins asked, which may take their time.
    fn refresh(&mut self) {
        let (connection, runtime) = (self.connection.clone(), Handle::current());
        self.credentials.read(self.requests.clone(), move || runtime.block_on(connection.client()));
    }

    fn report(&self, event: ProviderEvent) {
        match &event {
            ProviderEvent::Accepted { app } => tracing::info!(%app, "asks for executor pods"),
            ProviderEvent::Started { executor, node } => {
                tracing::info!(%executor, %node, "an executor pod runs");
            }
            ProviderEvent::Ended { executor, reason, .. } => {
                tracing::info!(%executor, %reason, "an executor pod is over");
            }
            ProviderEvent::Capacity(capacity) => {
                if let Some(tells) = &self.tells {
                    let now = self.clock.now();
                    let since = self.core.missing_since(now).unwrap_or(now);
                    let shortage = capacity.shortage.clone();
                    tells.send_replace(shortage.map(|words| Shortage { words, since }));
                }
            }
            _ => {}
        }
        self.reports.send(event);
    }
}
