//! Feeds a master's core and carries out its effects. Decides nothing.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use firesteel_backend::{AppId, Peer};
use firesteel_rpc::{Caller, Context, Endpoint, EndpointRef, HandlerError, Message};
use firesteel_standalone_core::WorkerId;
use firesteel_standalone_core::master::{
    Change, Master, MasterEffect, MasterEvent, MasterOptions, MasterView, Records, RecoveryState,
};
use firesteel_standalone_core::messages::{
    MasterReply, Stamped, ToApplication, ToMaster, ToWorker,
};
use firesteel_standalone_core::wire::{APP_CLIENT, WORKER};
use firesteel_storage::Clock;
use firesteel_types::Tick;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::recovery::{Job, Outbox};
use crate::alarm::Alarm;

/// The core with what its effects need.
pub(super) struct Shell {
    clock: Clock,
    alarm: Alarm,
    state: Mutex<State>,
    /// Where effects wait until they are persisted; `None`: nothing is.
    outbox: Option<Outbox>,
}

struct State {
    core: Master,
    /// Those that sent a message over a connection that still stands.
    peers: BTreeMap<Peer, Links>,
    /// Which of its leaderships this is.
    led: u64,
    /// What the decision took that took longest.
    longest_round: Duration,
}

/// The two ways to talk to a peer. Which one it has an endpoint for, it has said by what it asked.
struct Links {
    worker: EndpointRef<Stamped<ToWorker>>,
    app: EndpointRef<Stamped<ToApplication>>,
    /// Where its socket is.
    from: Option<IpAddr>,
}

impl Links {
    fn to(caller: &Asker) -> Option<Self> {
        let (worker, app) = (caller.endpoint_ref(WORKER)?, caller.endpoint_ref(APP_CLIENT)?);
        let from = caller.peer().address.host.parse().ok();
        Some(Self { worker, app, from })
    }
}

/// Ids of applications and drivers begin at a number below this: four digits, as Spark's have.
const FIRST_NUMBERS: u32 = 9000;

/// A caller in this process, which has no connection.
const NOBODY: Peer = Peer(u64::MAX);

/// How long somebody in this process waits for a reply, while it is persisted.
const REPLY_WAIT: Duration = Duration::from_secs(15);

type Asker = Caller<Stamped<MasterReply>>;

/// Takes a reply to who asked.
pub(super) type Answer = Box<dyn FnOnce(Stamped<MasterReply>) + Send>;

impl fmt::Debug for Shell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shell").finish_non_exhaustive()
    }
}

impl Shell {
    pub(super) fn new(options: MasterOptions, outbox: Option<Outbox>) -> Self {
        let clock = Clock::new();
        let drawn = getrandom::u32().expect("the system has random numbers");
        let options = MasterOptions { first_number: (drawn % FIRST_NUMBERS) as u16, ..options };
        let (core, peers) = (Master::new(options), BTreeMap::new());
        let state = Mutex::new(State { core, peers, led: 0, longest_round: Duration::ZERO });
        Self { clock, alarm: Alarm::default(), state, outbox }
    }

    /// It leads, without a store.
    pub(super) fn lead_alone(&self) {
        self.elected(Records::default(), None, 0);
    }

    /// It leads, for the so-manieth time.
    pub(super) fn elected(&self, records: Records, lease: Option<Tick>, led: u64) {
        let mut state = self.lock();
        state.led = led;
        self.feed(&mut state, MasterEvent::Elected { records, lease }, None);
        tracing::info!(term = %state.core.term(), status = state.core.status().name(), "this master leads");
    }

    pub(super) fn renewed(&self, until: Tick) {
        self.feed(&mut self.lock(), MasterEvent::LeaseRenewed { until }, None);
    }

    pub(super) fn deposed(&self, reason: String) {
        self.feed(&mut self.lock(), MasterEvent::Deposed { reason }, None);
    }

    /// Another master leads, or it is not known which.
    pub(super) fn leader_known(&self, url: Option<String>) {
        let mut state = self.lock();
        if state.core.leader() != url.as_ref() {
            if let Some(leader) = &url {
                tracing::info!(leader, "this master is a standby");
            }
            self.feed(&mut state, MasterEvent::LeaderKnown { url }, None);
        }
    }

    pub(super) fn now(&self) -> Tick {
        self.clock.now()
    }

    /// Nothing is persisted any more.
    pub(super) fn close_outbox(&self) {
        if let Some(outbox) = &self.outbox {
            outbox.stop();
        }
    }

    /// Wakes the core at the moments it asks for. It asks for the first when it leads: to wake it before that would be the end of
    /// what it asked for.
    pub(super) async fn keep_time(self: Arc<Self>) {
        loop {
            self.alarm.ring(&self.clock).await;
            self.feed(&mut self.lock(), MasterEvent::Ticked, None);
        }
    }

    /// What there is to see, and when that was.
    pub(super) fn view(&self) -> (MasterView, Tick) {
        (self.lock().core.view(), self.clock.now())
    }

    /// The address from which the driver of an application, or a worker, is connected; `None`: it is not.
    pub(super) fn connected_from(&self, id: &str) -> Option<IpAddr> {
        let state = self.lock();
        let worker = || state.core.peer_of_worker(&WorkerId::new(id));
        match state.core.peer_of(&AppId::new(id)).or_else(worker)? {
            NOBODY => Some(Ipv4Addr::LOCALHOST.into()),
            peer => state.peers.get(&peer)?.from,
        }
    }

    /// What the decision took that took longest since the start.
    pub(super) fn longest_round(&self) -> Duration {
        self.lock().longest_round
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the master's core panicked: its books cannot be trusted")
    }

    /// Asks it something from inside this process. `None`: its store has not answered, and whether it was done is not known.
    pub(super) async fn ask(&self, message: ToMaster) -> Option<MasterReply> {
        let (replies, reply) = oneshot::channel();
        let answer: Answer = Box::new(move |stamped| {
            let _ = replies.send(stamped.message);
        });
        let event = MasterEvent::Received { from: NOBODY, message };
        self.feed(&mut self.lock(), event, Some(answer));
        timeout(REPLY_WAIT, reply).await.ok()?.ok()
    }

    #[cfg(test)]
    pub(super) fn asked_for_test(&self, answer: Answer) {
        let event = MasterEvent::Received { from: NOBODY, message: ToMaster::RequestReadyz };
        self.feed(&mut self.lock(), event, Some(answer));
    }

    fn feed(&self, state: &mut State, event: MasterEvent, answer: Option<Answer>) {
        let mut effects = Vec::new();
        let started = Instant::now();
        state.core.handle(self.clock.now(), event, &mut effects);
        state.longest_round = state.longest_round.max(started.elapsed());
        let Some(outbox) = &self.outbox else {
            return self.carry_out(state, effects, answer);
        };
        // Nobody but this process hears of a timer.
        effects.retain(|effect| match effect {
            MasterEffect::ArmTimer(at) => {
                self.alarm.arm(*at);
                false
            }
            _ => true,
        });
        let (led, leads) = (state.led, state.core.status() != RecoveryState::Standby);
        if !effects.is_empty() {
            outbox.send(Job { effects, answer, led, leads });
        }
        if leads && outbox.is_full() {
            let reason = "its store does not keep up with what is to be written".to_owned();
            self.feed(state, MasterEvent::Deposed { reason }, None);
        }
    }

    /// What is to be persisted is: the rest is done.
    pub(super) fn release(&self, effects: Vec<MasterEffect>, answer: Option<Answer>) {
        self.carry_out(&self.lock(), effects, answer);
    }

    fn carry_out(&self, state: &State, effects: Vec<MasterEffect>, mut answer: Option<Answer>) {
        for effect in effects {
            self.apply(state, effect, &mut answer);
        }
    }

    fn apply(&self, state: &State, effect: MasterEffect, answer: &mut Option<Answer>) {
        match effect {
            MasterEffect::Persist(changes) => changes.iter().for_each(note),
            MasterEffect::StepDown { reason } => {
                tracing::warn!("this master leads no longer: {reason}");
            }
            MasterEffect::SendWorker { to, stamped } => {
                if let ToWorker::RegisterWorkerFailed { reason, .. } = &stamped.message {
                    tracing::warn!(peer = %to, "refused a worker: {reason}");
                }
                send(state.peers.get(&to).map(|links| &links.worker), stamped);
            }
            MasterEffect::SendApplication { to, stamped } => {
                if let ToApplication::ApplicationRemoved { message } = &stamped.message {
                    tracing::warn!("ended an application: {message}");
                }
                send(state.peers.get(&to).map(|links| &links.app), stamped);
            }
            MasterEffect::Reply { stamped, .. } => {
                if let Some(answer) = answer.take() {
                    answer(stamped);
                }
            }
            MasterEffect::ArmTimer(at) => self.alarm.arm(at),
        }
    }

    fn receive(&self, message: ToMaster, caller: Asker) {
        let from = Peer(caller.peer().connection);
        let mut state = self.lock();
        if let Entry::Vacant(vacant) = state.peers.entry(from) {
            // Somebody of this very process has no connection, and cannot be told anything.
            let Some(links) = Links::to(&caller) else { return };
            vacant.insert(links);
        }
        let answer: Answer = Box::new(move |stamped| caller.reply(stamped));
        self.feed(&mut state, MasterEvent::Received { from, message }, Some(answer));
    }

    fn disconnected(&self, connection: u64) {
        let peer = Peer(connection);
        let mut state = self.lock();
        if state.peers.remove(&peer).is_some() {
            self.feed(&mut state, MasterEvent::PeerDisconnected { peer }, None);
        }
    }
}

/// A message that is lost here is sent again with a heartbeat: the core counts on nothing else.
fn send<M: Message>(to: Option<&EndpointRef<M>>, message: M) {
    if let Some(Err(error)) = to.map(|to| to.try_send(message)) {
        tracing::warn!(%error, "could not tell a peer");
    }
}

/// A change that is persisted, or need not be, as a line in the log.
pub(super) fn note(change: &Change) {
    match change {
        Change::PutWorker(record) => {
            let worker = &record.worker;
            tracing::info!(worker = %worker.id, cores = worker.cores, memory_mb = worker.memory_mb, "registered worker");
        }
        Change::RemoveWorker(worker) => tracing::warn!(%worker, "declared worker dead"),
        Change::RemoveApplication(app) => tracing::info!(%app, "application is over"),
        Change::RemoveDriver(driver) => tracing::info!(%driver, "driver is over"),
        Change::PutTerm(_) | Change::PutApplication(_) | Change::PutDriver(_) => {}
    }
}

pub(super) struct MasterEndpoint(pub(super) Arc<Shell>);

impl Endpoint for MasterEndpoint {
    type Message = ToMaster;

    async fn receive(
        &mut self,
        message: ToMaster,
        caller: Asker,
        _: &Context<ToMaster>,
    ) -> Result<(), HandlerError> {
        if message.is_of_operator() {
            let peer = caller.peer().connection;
            tracing::warn!(peer, "refused a request that workers and drivers do not make");
            caller.fail("this endpoint is for workers and drivers: ask the master's gateway");
            return Ok(());
        }
        self.0.receive(message, caller);
        Ok(())
    }

    async fn on_disconnected(&mut self, peer: firesteel_rpc::Peer, _: &Context<ToMaster>) {
        self.0.disconnected(peer.connection);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use firesteel_rpc::{BindTo, RpcEnv, RpcOptions};
    use firesteel_standalone_core::DriverId;
    use firesteel_standalone_core::description::DriverDescription;
    use firesteel_standalone_core::wire::MASTER;

    use super::*;

    #[tokio::test]
    async fn who_has_the_secret_of_workers_and_drivers_ends_nothing_over_their_endpoint() {
        let shell = Arc::new(Shell::new(MasterOptions::default(), None));
        shell.lead_alone();
        let description = Arc::new(DriverDescription {
            name: "driver".to_owned(),
            cores: 1,
            memory_mb: 1,
            supervise: false,
            command: Default::default(),
        });
        let submit = || ToMaster::RequestSubmitDriver { description: description.clone() };
        shell.ask(submit()).await.unwrap();
        let driver: DriverId = shell.view().0.active_drivers[0].driver.clone();
        let server = RpcEnv::server(RpcOptions::default(), BindTo::loopback()).await.unwrap();
        server.register(MASTER, MasterEndpoint(shell.clone())).unwrap();
        let client = RpcEnv::client(RpcOptions::default());
        let address = server.address().unwrap().endpoint(MASTER);
        let master = client.endpoint_ref::<ToMaster>(&address).unwrap();
        let name = "worker-1".to_owned();
        for message in [
            ToMaster::RequestKillDriver { driver },
            ToMaster::RequestKillAllDrivers,
            ToMaster::RequestClearCompletedDriversAndApps,
            ToMaster::RequestDecommissionWorkers { name },
            ToMaster::RequestKillApplication { app: AppId::new("app-1") },
            submit(),
        ] {
            let refused = master.ask(message).await.unwrap_err().to_string();
            assert!(refused.contains("for workers and drivers"), "{refused}");
        }
        assert_eq!(shell.view().0.active_drivers.len(), 1, "as it was");
        client.shutdown().await;
        server.shutdown().await;
    }
}
