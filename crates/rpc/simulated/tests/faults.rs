//! Environments on a network that is cut, slow and loses its server: what a seed draws happens, then it is quiet, and at the end the
//! books of all sides are compared.
//!
//! The rules: a message is handled at most once; messages of one connection are handled in the order in which they were sent; a
//! connection begins before its first message and ends once, after its last one; a reply is the reply to its question; every ask
//! ends in time; bytes of a stream are right or an error; when it is quiet, asks are answered; an environment that has ended has no task.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use firesteel_rpc::{
    BindTo, Caller, Context, Encryption, Endpoint, EndpointRef, HandlerError, Identity, Message,
    OpenError, Peer, RpcAddress, RpcEnv, RpcOptions, Secret, StreamBody, StreamSource,
};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};
use turmoil::{Builder, Sim};

const FAULTS_END: Duration = Duration::from_secs(40);
const ASK_TIMEOUT: Duration = Duration::from_secs(3);
const NETWORK_TIMEOUT: Duration = Duration::from_secs(4);
/// How long after the last fault an ask may still fail: a broken connection has to be noticed, and a new one made.
const QUIET_SOON: Duration = Duration::from_secs(20);
const CLIENTS: [&str; 3] = ["one", "two", "three"];

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Numbered {
    client: u8,
    number: u32,
    /// Bytes that only take space: a full window has to be given back.
    weight: Vec<u8>,
}

impl Message for Numbered {
    type Reply = (u8, u32);
}

/// What one life of the server saw, in order.
#[derive(Clone, Debug)]
enum Seen {
    Connected(u64),
    Handled { connection: u64, client: u8, number: u32 },
    Disconnected(u64),
}

/// What all processes wrote down. They share a thread, not their state.
#[derive(Default)]
struct Books {
    servers: Vec<Vec<Seen>>,
    answered: BTreeSet<(u8, u32)>,
    failed_asks: usize,
    streams: usize,
    failed_streams: usize,
}

type Shared = Arc<Mutex<Books>>;

struct Server {
    books: Shared,
    life: usize,
    slow: Duration,
}

impl Server {
    fn saw(&self, seen: Seen) {
        self.books.lock().unwrap().servers[self.life].push(seen);
    }
}

impl Endpoint for Server {
    type Message = Numbered;

    async fn receive(
        &mut self,
        message: Numbered,
        caller: Caller<(u8, u32)>,
        _: &Context<Numbered>,
    ) -> Result<(), HandlerError> {
        let Numbered { client, number, .. } = message;
        self.saw(Seen::Handled { connection: caller.peer().connection, client, number });
        sleep(self.slow).await;
        caller.reply((client, number));
        Ok(())
    }

    async fn on_connected(&mut self, peer: Peer, _: &Context<Numbered>) {
        self.saw(Seen::Connected(peer.connection));
    }

    async fn on_disconnected(&mut self, peer: Peer, _: &Context<Numbered>) {
        self.saw(Seen::Disconnected(peer.connection));
    }
}

/// Streams whose id says how long they are.
struct Streams;

fn contents(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index % 251) as u8).collect()
}

impl StreamSource for Streams {
    fn open(&self, id: &str, _: &Peer) -> Result<StreamBody, OpenError> {
        let length = id.parse().map_err(|_| OpenError::Missing)?;
        Ok(StreamBody::Bytes(Bytes::from(contents(length))))
    }
}

fn options(encrypted: bool) -> RpcOptions {
    let secret = Secret::new("a secret that is long enough", "here").unwrap();
    let options =
        RpcOptions::default().for_identity(Some(Identity::new("cluster", secret).unwrap()));
    RpcOptions {
        ask_timeout: ASK_TIMEOUT,
        connect_timeout: Duration::from_secs(2),
        handshake_timeout: Duration::from_secs(2),
        network_timeout: NETWORK_TIMEOUT,
        shutdown_timeout: Duration::from_secs(2),
        encryption: if encrypted { Encryption::Always } else { Encryption::Never },
        ..options
    }
}

async fn serve(books: Shared, encrypted: bool, slow: Duration) -> turmoil::Result {
    let bind = BindTo { advertise: Some("server".to_owned()), ..BindTo::new("0.0.0.0", 7077) };
    let env = RpcEnv::server(options(encrypted), bind).await?;
    let life = {
        let mut books = books.lock().unwrap();
        books.servers.push(Vec::new());
        books.servers.len() - 1
    };
    env.serve_streams(Arc::new(Streams));
    env.register("Server", Server { books, life, slow })?;
    std::future::pending().await
}

/// One client: tells, asks and reads until it is quiet, then asks until it is answered, and ends.
struct Client {
    id: u8,
    rng: fastrand::Rng,
    books: Shared,
    env: RpcEnv,
    server: EndpointRef<Numbered>,
    sent: u32,
}

impl Client {
    fn message(&mut self) -> Numbered {
        self.sent += 1;
        let weight = if self.rng.u8(..) < 16 { 1 << 20 } else { self.rng.usize(..64) };
        Numbered { client: self.id, number: self.sent, weight: vec![0; weight] }
    }

    /// Asks so many at once: how many were answered.
    async fn ask(&mut self, at_once: usize) -> usize {
        let messages: Vec<_> = (0..at_once).map(|_| self.message()).collect();
        let asked = messages
            .into_iter()
            .map(|message| tokio::spawn(ask(self.server.clone(), message, self.books.clone())));
        let asking: Vec<_> = asked.collect();
        let mut answered = 0;
        for asked in asking {
            answered += usize::from(asked.await.expect("no rule was broken"));
        }
        answered
    }

    async fn read(&mut self) {
        let length = self.rng.usize(..200_000);
        let address = RpcAddress::new("server", 7077);
        let read = self.env.streams().read(&address, &length.to_string(), 1 << 20).await;
        let mut books = self.books.lock().unwrap();
        match read {
            Ok(bytes) => {
                assert!(bytes == contents(length), "other bytes than the server has");
                books.streams += 1;
            }
            Err(_) => books.failed_streams += 1,
        }
    }

    async fn run(mut self) -> turmoil::Result {
        while turmoil::sim_elapsed().unwrap() < FAULTS_END {
            match self.rng.u8(..8) {
                0..4 => {
                    let message = self.message();
                    let _ = self.server.send(message).await;
                }
                4..7 => {
                    let at_once = self.rng.usize(1..4);
                    self.ask(at_once).await;
                }
                _ => self.read().await,
            }
            sleep(Duration::from_millis(self.rng.u64(..400))).await;
        }
        while self.ask(1).await == 0 {
            assert!(
                turmoil::sim_elapsed().unwrap() < FAULTS_END + QUIET_SOON,
                "it is quiet, and nobody answers"
            );
        }
        self.env.shutdown().await;
        assert_eq!(self.env.task_count(), 0, "tasks of an environment that has ended");
        Ok(())
    }
}

/// Whether it was answered, within the time there is for that.
async fn ask(server: EndpointRef<Numbered>, message: Numbered, books: Shared) -> bool {
    let (asked, begun) = ((message.client, message.number), Instant::now());
    let answer = server.ask(message).await;
    assert!(
        begun.elapsed() <= ASK_TIMEOUT + Duration::from_millis(50),
        "an ask took {:?}",
        begun.elapsed()
    );
    let mut books = books.lock().unwrap();
    match answer {
        Ok(answer) => {
            assert_eq!(answer, asked, "the reply to another question");
            books.answered.insert(asked);
            true
        }
        Err(_) => {
            books.failed_asks += 1;
            false
        }
    }
}

async fn client(id: u8, seed: u64, books: Shared, encrypted: bool) -> turmoil::Result {
    let env = RpcEnv::client(options(encrypted));
    let server = env.endpoint_ref(&RpcAddress::new("server", 7077).endpoint("Server"))?;
    let rng = fastrand::Rng::with_seed(seed ^ u64::from(id) << 32);
    Client { id, rng, books, env, server, sent: 0 }.run().await
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Cut,
    CutOneWay,
    Hold,
    Slow,
    Crash,
}

const FAULTS: [Fault; 5] = [Fault::Cut, Fault::CutOneWay, Fault::Hold, Fault::Slow, Fault::Crash];

/// What happens to the network, and when it is over.
struct Faults {
    rng: fastrand::Rng,
    next: Duration,
    ends: Vec<(Duration, Fault, &'static str)>,
    fired: BTreeMap<Fault, usize>,
}

impl Faults {
    fn act(&mut self, sim: &mut Sim<'_>) {
        let now = sim.elapsed();
        let over: Vec<_> = self.ends.extract_if(.., |(end, ..)| *end <= now).collect();
        over.into_iter().for_each(|(_, fault, client)| Self::end(sim, fault, client));
        if now >= self.next && now < FAULTS_END {
            self.next = now + Duration::from_millis(self.rng.u64(200..6000));
            self.begin(sim, now);
        }
    }

    fn begin(&mut self, sim: &mut Sim<'_>, now: Duration) {
        let (fault, client) = (FAULTS[self.rng.usize(..5)], CLIENTS[self.rng.usize(..3)]);
        // One of a kind at a time: the end of one would be the end of both.
        if self.ends.iter().any(|(_, other, at)| *other == fault || *at == client) {
            return;
        }
        match fault {
            Fault::Cut => sim.partition("server", client),
            Fault::CutOneWay if self.rng.bool() => sim.partition_oneway("server", client),
            Fault::CutOneWay => sim.partition_oneway(client, "server"),
            Fault::Hold => sim.hold("server", client),
            Fault::Slow => sim.set_link_latency(
                "server",
                client,
                Duration::from_millis(self.rng.u64(50..1500)),
            ),
            Fault::Crash => sim.crash("server"),
        }
        *self.fired.entry(fault).or_default() += 1;
        let end = now + Duration::from_millis(self.rng.u64(50..8000));
        self.ends.push((end.min(FAULTS_END), fault, client));
    }

    fn end(sim: &mut Sim<'_>, fault: Fault, client: &str) {
        match fault {
            Fault::Cut | Fault::CutOneWay => sim.repair("server", client),
            Fault::Hold => sim.release("server", client),
            Fault::Slow => sim.set_link_latency("server", client, Duration::from_millis(1)),
            Fault::Crash => sim.bounce("server"),
        }
    }
}

/// Runs one seed: what fired, and the books.
fn simulate(seed: u64) -> (BTreeMap<Fault, usize>, Shared) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let (books, encrypted) = (Shared::default(), rng.bool());
    let slow = Duration::from_millis(rng.u64(..30));
    let mut sim = Builder::new()
        .rng_seed(seed)
        .enable_random_order()
        .tick_duration(Duration::from_millis(5))
        .simulation_duration(Duration::from_secs(120))
        .tcp_capacity(4096)
        .max_message_latency(Duration::from_millis(20))
        .build();
    let of_server = books.clone();
    sim.host("server", move || serve(of_server.clone(), encrypted, slow));
    for (id, name) in CLIENTS.into_iter().enumerate() {
        sim.client(name, client(id as u8, seed, books.clone(), encrypted));
    }
    let mut faults =
        Faults { next: Duration::from_secs(1), rng, ends: Vec::new(), fired: BTreeMap::new() };
    loop {
        match sim.step() {
            Ok(true) => break,
            Ok(false) => faults.act(&mut sim),
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    (faults.fired, books)
}

/// The rules that hold for what one life of the server saw.
fn check(seed: u64, seen: &[Seen]) -> BTreeSet<(u8, u32)> {
    let (mut open, mut ended, mut handled) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
    for event in seen {
        match *event {
            Seen::Connected(connection) => {
                let again = open.insert(connection, 0).is_some() || ended.contains(&connection);
                assert!(!again, "seed {seed}: connection {connection} began twice");
            }
            Seen::Handled { connection, client, number } => {
                let last = open.get_mut(&connection);
                let last = last.unwrap_or_else(|| {
                    panic!("seed {seed}: connection {connection} is not open: {event:?}")
                });
                assert!(
                    *last < number,
                    "seed {seed}: {number} came after {last} over one connection"
                );
                *last = number;
                assert!(handled.insert((client, number)), "seed {seed}: handled twice: {event:?}");
            }
            Seen::Disconnected(connection) => {
                assert!(
                    open.remove(&connection).is_some(),
                    "seed {seed}: connection {connection} ended twice, or before it began"
                );
                ended.insert(connection);
            }
        }
    }
    handled
}

#[derive(Default)]
struct Totals {
    fired: BTreeMap<Fault, usize>,
    handled: usize,
    answered: usize,
    failed_asks: usize,
    streams: usize,
    failed_streams: usize,
}

impl Totals {
    fn add(&mut self, seed: u64) {
        let (fired, books) = simulate(seed);
        fired.into_iter().for_each(|(fault, count)| *self.fired.entry(fault).or_default() += count);
        let books = books.lock().unwrap();
        let mut handled = BTreeSet::new();
        for seen in &books.servers {
            let of_one = check(seed, seen);
            assert!(handled.is_disjoint(&of_one), "seed {seed}: two servers handled one message");
            handled.extend(of_one);
        }
        assert!(
            books.answered.is_subset(&handled),
            "seed {seed}: a question was answered that nobody handled"
        );
        self.handled += handled.len();
        self.answered += books.answered.len();
        self.failed_asks += books.failed_asks;
        self.streams += books.streams;
        self.failed_streams += books.failed_streams;
    }
}

/// `FIRESTEEL_SEEDS=A..B` runs others.
fn seeds() -> io::Result<std::ops::Range<u64>> {
    let Ok(text) = std::env::var("FIRESTEEL_SEEDS") else { return Ok(0..60) };
    let parsed =
        text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    parsed.ok_or_else(|| io::Error::other(format!("FIRESTEEL_SEEDS={text}: write FROM..TO")))
}

#[test]
fn connections_messages_and_streams_keep_their_rules_on_a_network_that_does_not() -> io::Result<()>
{
    let mut totals = Totals::default();
    seeds()?.for_each(|seed| totals.add(seed));
    let Totals { fired, handled, answered, failed_asks, streams, failed_streams } = &totals;
    println!(
        "{fired:?}; {handled} messages, {answered} answers, {failed_asks} not; {streams} streams, {failed_streams} not"
    );
    for fault in FAULTS {
        assert!(fired.get(&fault).is_some_and(|count| *count > 0), "{fault:?} never fired");
    }
    assert!(totals.failed_asks > 0 && totals.failed_streams > 0, "no fault was ever noticed");
    assert!(
        totals.answered > totals.failed_asks && totals.streams > totals.failed_streams,
        "nearly nothing worked"
    );
    Ok(())
}
