//! Executors from a standalone cluster: the shell around the client of its masters.

use std::io;
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;

use firesteel_backend::jitter::Jitter;
use firesteel_backend::provider::{ProviderCommand, ProviderEvent};
use firesteel_backend::timer::Timer;
use firesteel_conf::{ByteSize, Conf, ConfError, HostPort, Master, entries};
use firesteel_rpc::{
    Caller, Context, Endpoint, EndpointRef, HandlerError, Peer, RpcAddress, RpcEnv, RpcError,
    RpcOptions, outward_address,
};
use firesteel_standalone_core::Incarnation;
use firesteel_standalone_core::application::{
    AppClient, AppClientEffect, AppClientEvent, AppClientOptions,
};
use firesteel_standalone_core::description::ApplicationDescription;
use firesteel_standalone_core::messages::{Stamped, ToApplication, ToMaster};
use firesteel_standalone_core::wire;
use firesteel_storage::Clock;
use tokio::runtime::Handle;

use super::provider::{ApplicationSpec, ClusterManager, Provider, Reports};

/// `spark://host:port,...`
pub(super) struct Standalone;

impl ClusterManager for Standalone {
    fn name(&self) -> &str {
        "standalone"
    }

    fn claims(&self, master: &Master) -> bool {
        matches!(master, Master::Standalone { .. })
    }

    fn prepare(
        &self,
        master: &Master,
        conf: &Conf,
        runtime: &Handle,
    ) -> Result<Box<dyn Provider>, String> {
        let Master::Standalone { masters } = master else { return Err("it is another".to_owned()) };
        let masters = addresses(masters);
        let options = RpcOptions::from_process(conf).map_err(|error| error.to_string())?;
        let admits_others = options.admits_other_machines(conf);
        Ok(Box::new(StandaloneProvider::new(masters, options, admits_others, runtime)))
    }
}

fn addresses(masters: &[HostPort]) -> Vec<RpcAddress> {
    masters.iter().map(|at| RpcAddress::new(bare(&at.host), at.port)).collect()
}

/// What a driver binds to show its pages to the master in front of them (`spark.ui.reverseProxy`), and the host that the master is
/// told. `None`: no master shows them.
pub fn page_hosts(conf: &Conf) -> io::Result<Option<(String, String)>> {
    let proxies = conf.get(&entries::UI_REVERSE_PROXY).map_err(io::Error::other)?;
    let master = conf.get(&entries::MASTER).map_err(io::Error::other)?;
    let Some(Master::Standalone { masters }) = master.filter(|_| proxies) else { return Ok(None) };
    let host = match conf.get(&entries::DRIVER_HOST).map_err(io::Error::other)? {
        Some(host) => host,
        None => own_address(&addresses(&masters), outward_address)?,
    };
    let bind = conf.get(&entries::DRIVER_BIND_ADDRESS).map_err(io::Error::other)?;
    Ok(Some((bind.unwrap_or_else(|| host.clone()), host)))
}

/// The way to the masters of one cluster.
pub(super) struct StandaloneProvider {
    masters: Vec<RpcAddress>,
    /// Whether the driver's port may be open to other machines.
    admits_others: bool,
    /// With the cluster's secret. The driver's own environment has the application's.
    env: RpcEnv,
    runtime: Handle,
    messages: Sender<ClientMessage>,
    /// `None` once it was started.
    hears: Option<Receiver<ClientMessage>>,
    thread: Option<JoinHandle<()>>,
}

impl StandaloneProvider {
    pub(super) fn new(
        masters: Vec<RpcAddress>,
        options: RpcOptions,
        admits_others: bool,
        runtime: &Handle,
    ) -> Self {
        let (messages, hears) = channel();
        let _inside = runtime.enter();
        let env = RpcEnv::client(options);
        let (runtime, hears) = (runtime.clone(), Some(hears));
        StandaloneProvider { masters, admits_others, env, runtime, messages, hears, thread: None }
    }
}

impl Provider for StandaloneProvider {
    fn driver_host(&self) -> io::Result<String> {
        own_address(&self.masters, || self.admits_others.then(outward_address).flatten())
    }

    fn where_to_look(&self) -> String {
        "look at the master's page whether workers are registered and have as much free".to_owned()
    }

    fn start(&mut self, application: ApplicationSpec, reports: Reports) -> Result<(), String> {
        let hears = self.hears.take().ok_or("it was started before")?;
        let description = describe(application).map_err(|error| error.to_string())?;
        let incarnation = Incarnation(fastrand::u64(..));
        let options = AppClientOptions::new(Arc::new(description), incarnation, self.masters.len());
        let core = AppClient::new(options, Jitter::new(fastrand::u64(..)));
        let (masters, clock) = (Vec::new(), Clock::new());
        let timer = Timer::default();
        let client = Client { core, masters, reports: reports.clone(), clock, timer };
        let thread = std::thread::Builder::new().name("firesteel-masters".into());
        let spawned = thread.spawn(move || {
            if catch_unwind(AssertUnwindSafe(|| client.run(&hears))).is_err() {
                let reason = "the client of the masters broke down: this is a defect".to_owned();
                reports.send(ProviderEvent::Failed { reason });
            }
        });
        self.thread = Some(spawned.map_err(|error| error.to_string())?);
        let endpoint = Masters { messages: self.messages.clone(), masters: self.masters.clone() };
        self.env.register(wire::APP_CLIENT, endpoint).map_err(|error| error.to_string())?;
        Ok(())
    }

    fn command(&mut self, command: ProviderCommand) {
        let _ = self.messages.send(ClientMessage::Command(command));
    }

    /// What is queued is sent before the connections close.
    fn stop(&mut self) {
        self.command(ProviderCommand::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.runtime.block_on(self.env.shutdown());
    }
}

/// The application's request to a master.
fn describe(application: ApplicationSpec) -> Result<ApplicationDescription, ConfError> {
    let ApplicationSpec { name, user, conf, command } = application;
    let ByteSize(memory) = conf.get(&entries::EXECUTOR_MEMORY)?;
    Ok(ApplicationDescription {
        name,
        user,
        max_cores: conf.get(&entries::CORES_MAX)?,
        memory_per_executor_mb: (memory >> 20).max(1),
        cores_per_executor: conf.get(&entries::EXECUTOR_CORES)?,
        initial_executor_limit: conf.get(&entries::EXECUTOR_INSTANCES)?,
        command,
        web_ui: conf.get(&entries::DRIVER_APP_UI_ADDRESS)?.unwrap_or_default(),
    })
}

/// Something for the client.
enum ClientMessage {
    /// The masters, in the order of the master URL.
    Masters(Vec<(RpcAddress, EndpointRef<ToMaster>)>),
    /// A message from a master.
    FromMaster(RpcAddress, Stamped<ToApplication>),
    /// The connection to a master broke.
    Gone(RpcAddress),
    /// A connection to a master could not be made.
    Unreachable(RpcAddress, RpcError),
    /// A command of the registry.
    Command(ProviderCommand),
}

/// The thread with the core.
struct Client {
    core: AppClient,
    masters: Vec<(RpcAddress, EndpointRef<ToMaster>)>,
    reports: Reports,
    clock: Clock,
    timer: Timer,
}

impl Client {
    /// Until told to stop.
    fn run(mut self, messages: &Receiver<ClientMessage>) {
        loop {
            let heard = match self.timer.next() {
                Some(next) => messages.recv_timeout(self.clock.until(next)),
                None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match heard {
                Ok(message) => {
                    let stops = matches!(message, ClientMessage::Command(ProviderCommand::Stop));
                    self.hear(message);
                    if stops {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.timer.rings(self.clock.now()) {
                self.feed(AppClientEvent::Ticked);
            }
        }
    }

    fn hear(&mut self, message: ClientMessage) {
        let event = match message {
            ClientMessage::Masters(masters) => {
                self.masters = masters;
                Some(AppClientEvent::Ticked)
            }
            ClientMessage::FromMaster(address, stamped) => self
                .master(&address)
                .map(|master| AppClientEvent::ReceivedMaster { master, stamped }),
            ClientMessage::Gone(address) => {
                self.master(&address).map(|master| AppClientEvent::MasterDisconnected { master })
            }
            ClientMessage::Unreachable(address, error) => self.master(&address).map(|master| {
                let (reason, lasting) = (error.to_string(), error.is_lasting());
                AppClientEvent::MasterUnreachable { master, reason, lasting }
            }),
            ClientMessage::Command(command) => Some(AppClientEvent::Command(command)),
        };
        if let Some(event) = event {
            self.feed(event);
        }
    }

    fn master(&self, address: &RpcAddress) -> Option<usize> {
        self.masters.iter().position(|(known, _)| known == address)
    }

    fn feed(&mut self, event: AppClientEvent) {
        let mut effects = Vec::new();
        self.core.handle(self.clock.now(), event, &mut effects);
        for effect in effects {
            match effect {
                AppClientEffect::SendMaster { master, message } => {
                    self.tell_master(master, message)
                }
                AppClientEffect::Report(event) => self.report(event),
                AppClientEffect::ArmTimer(at) => {
                    self.timer.arm(at);
                }
            }
        }
    }

    fn report(&self, event: ProviderEvent) {
        if let ProviderEvent::Accepted { app } = &event {
            tracing::info!(%app, "registered with a master");
        }
        self.reports.send(event);
    }

    fn tell_master(&self, master: usize, message: ToMaster) {
        let Some((address, reference)) = self.masters.get(master) else { return };
        if let Err(error) = reference.try_send(message) {
            tracing::warn!(master = %address, %error, "the master could not be told");
        }
    }
}

/// The endpoint that masters send their messages to.
struct Masters {
    messages: Sender<ClientMessage>,
    masters: Vec<RpcAddress>,
}

impl Endpoint for Masters {
    type Message = Stamped<ToApplication>;

    /// References that are made here bring the events of their connections here.
    async fn on_start(&mut self, context: &Context<Self::Message>) {
        let reference = |address: &RpcAddress| {
            let found = context.endpoint_ref(&address.endpoint(wire::MASTER));
            found.ok().map(|found| (address.clone(), found))
        };
        let masters = self.masters.iter().filter_map(reference).collect();
        let _ = self.messages.send(ClientMessage::Masters(masters));
    }

    async fn receive(
        &mut self,
        stamped: Stamped<ToApplication>,
        caller: Caller<()>,
        _: &Context<Self::Message>,
    ) -> Result<(), HandlerError> {
        let _ =
            self.messages.send(ClientMessage::FromMaster(caller.peer().address.clone(), stamped));
        Ok(())
    }

    async fn on_disconnected(&mut self, peer: Peer, _: &Context<Self::Message>) {
        let _ = self.messages.send(ClientMessage::Gone(peer.address));
    }

    async fn on_network_error(
        &mut self,
        address: RpcAddress,
        error: RpcError,
        _: &Context<Self::Message>,
    ) {
        let _ = self.messages.send(ClientMessage::Unreachable(address, error));
    }
}

/// Without the brackets of an IPv6 address.
fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// The address by which executors reach this machine: the one from which it reaches the first master that has an address, or
/// the `outward` one.
fn own_address(
    masters: &[RpcAddress],
    outward: impl FnOnce() -> Option<IpAddr>,
) -> io::Result<String> {
    let mut last = io::Error::other("no master has an address");
    for master in masters {
        match address_towards(master) {
            Ok(found) => return Ok(address_for(&master.host, found, outward).to_string()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The address that packets of this machine to a master have. The system says without sending any.
fn address_towards(master: &RpcAddress) -> io::Result<IpAddr> {
    let mut found = (master.host.as_str(), master.port).to_socket_addrs()?;
    let found = found.next().ok_or_else(|| io::Error::other("no address"))?;
    let socket = UdpSocket::bind(if found.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" })?;
    socket.connect(found)?;
    Ok(socket.local_addr()?.ip())
}

/// A loopback address reaches this machine only. A master whose URL has one is for this machine too; a name of this machine may
/// stand for one (`127.0.1.1` in many an `/etc/hosts`) although executors are elsewhere.
fn address_for(
    master_host: &str,
    found: IpAddr,
    outward: impl FnOnce() -> Option<IpAddr>,
) -> IpAddr {
    let is_only_here = master_host.eq_ignore_ascii_case("localhost")
        || master_host.parse::<IpAddr>().is_ok_and(|host| host.is_loopback());
    match found.is_loopback() && !is_only_here {
        true => outward().unwrap_or(found),
        false => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executors_elsewhere_are_not_told_an_address_that_only_this_machine_has() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        for (master_host, found, outward, told) in [
            ("node", "127.0.1.1", Some("10.0.0.7"), "10.0.0.7"),
            ("node", "::1", Some("10.0.0.7"), "10.0.0.7"),
            ("node", "10.0.0.8", Some("10.0.0.7"), "10.0.0.8"),
            ("10.0.0.9", "10.0.0.8", Some("10.0.0.7"), "10.0.0.8"),
            // There is no other address, or others are not let in.
            ("node", "127.0.1.1", None, "127.0.1.1"),
            // The master is for this machine only, and so are its workers.
            ("localhost", "127.0.0.1", Some("10.0.0.7"), "127.0.0.1"),
            ("LOCALHOST", "::1", Some("10.0.0.7"), "::1"),
            ("127.0.0.1", "127.0.0.1", Some("10.0.0.7"), "127.0.0.1"),
            ("127.0.1.1", "127.0.0.1", Some("10.0.0.7"), "127.0.0.1"),
            ("::1", "::1", Some("10.0.0.7"), "::1"),
        ] {
            let address = address_for(master_host, ip(found), || outward.map(ip));
            assert_eq!(address, ip(told), "{master_host} from {found}");
        }
    }

    #[test]
    fn the_first_master_with_an_address_says_which_is_ours() {
        let at = |host: &str| RpcAddress::new(host, 7077);
        let outward = || Some("10.0.0.7".parse().unwrap());
        let masters = [at("no host"), at("127.0.0.1")];
        assert_eq!(own_address(&masters, outward).unwrap(), "127.0.0.1");
        assert!(own_address(&masters[..1], outward).is_err());
    }
}
