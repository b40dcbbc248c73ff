//! What the tests share: an endpoint that keeps a diary, environments, and waiting with a deadline.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use firesteel_rpc::*;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

/// How long anything may take that happens at all.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Ask {
    Echo(u64),
    Blob(Vec<u8>),
    Make(usize),
    Record { sender: u32, number: u32 },
    Recorded,
    Fail(String),
    Panic(String),
    Forget,
    Keep,
    AnswerKept(u64),
    CallMeBack { name: String },
    Flood { name: String, blobs: usize },
    SendTo { address: EndpointAddress, number: u64 },
    Hold,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Answer {
    Number(u64),
    Bytes(Vec<u8>),
    Records(Vec<(u32, u32)>),
}

impl Message for Ask {
    type Reply = Answer;
}

/// What an endpoint lived through, in order.
#[derive(Clone, Default)]
pub(crate) struct Diary(Arc<Mutex<Vec<String>>>, Arc<Notify>);

impl Diary {
    pub(crate) fn write(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
        self.1.notify_waiters();
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, start: &str) -> usize {
        self.lines().iter().filter(|line| line.starts_with(start)).count()
    }

    /// Waits until a line that starts so was written `times` times.
    pub(crate) async fn wait_for(&self, start: &str, times: usize) {
        let found = async {
            loop {
                let changed = self.1.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if self.count(start) >= times {
                    return;
                }
                changed.await;
            }
        };
        let found = timeout(DEADLINE, found).await;
        assert!(found.is_ok(), "no {times} x {start:?} in {:?}", self.lines());
    }
}

/// An endpoint that does what it is asked and writes everything down.
pub(crate) struct Scribe {
    pub(crate) diary: Diary,
    pub(crate) gate: Arc<Notify>,
    records: Vec<(u32, u32)>,
    kept: Vec<Caller<Answer>>,
}

impl Scribe {
    pub(crate) fn new() -> Self {
        let (diary, gate) = Default::default();
        Self { diary, gate, records: Vec::new(), kept: Vec::new() }
    }
}

impl Endpoint for Scribe {
    type Message = Ask;

    async fn receive(
        &mut self,
        message: Ask,
        caller: Caller<Answer>,
        context: &Context<Ask>,
    ) -> Result<(), HandlerError> {
        match message {
            Ask::Echo(number) => {
                self.diary.write(format!("echo {number} {}", caller.peer().identity));
                caller.reply(Answer::Number(number));
            }
            Ask::Blob(bytes) => {
                self.diary.write(format!("blob {}", bytes.len()));
                caller.reply(Answer::Number(bytes.len() as u64));
            }
            Ask::Make(length) => caller.reply(Answer::Bytes(vec![7; length])),
            Ask::Record { sender, number } => self.records.push((sender, number)),
            Ask::Recorded => caller.reply(Answer::Records(self.records.clone())),
            Ask::Fail(text) => return Err(text.into()),
            Ask::Panic(text) => panic!("{text}"),
            Ask::Forget => drop(caller),
            Ask::Keep => self.kept.push(caller),
            Ask::AnswerKept(number) => {
                self.kept.drain(..).for_each(|kept| kept.reply(Answer::Number(number)));
                caller.reply(Answer::Number(0));
            }
            Ask::CallMeBack { name } => {
                let back = caller.endpoint_ref::<Ask>(&name).ok_or("from this process")?;
                tokio::spawn(async move {
                    match back.ask(Ask::Echo(99)).await {
                        Ok(answer) => caller.reply(answer),
                        Err(error) => caller.fail(error),
                    }
                });
            }
            Ask::Flood { name, blobs } => {
                let back = caller.endpoint_ref::<Ask>(&name).ok_or("from this process")?;
                let diary = self.diary.clone();
                tokio::spawn(async move {
                    for _ in 0..blobs {
                        back.send(Ask::Blob(vec![0; 1 << 20])).await.unwrap();
                        diary.write("flooded");
                    }
                });
            }
            Ask::SendTo { address, number } => {
                context.endpoint_ref::<Ask>(&address)?.send(Ask::Echo(number)).await?;
            }
            Ask::Hold => {
                self.diary.write("holding");
                self.gate.notified().await;
            }
        }
        Ok(())
    }

    async fn on_start(&mut self, context: &Context<Ask>) {
        self.diary.write(format!("start {}", context.name()));
    }

    async fn on_stop(&mut self) {
        self.diary.write("stop");
    }

    async fn on_connected(&mut self, peer: Peer, _: &Context<Ask>) {
        self.diary.write(format!("connected {}", peer.address));
    }

    async fn on_disconnected(&mut self, peer: Peer, _: &Context<Ask>) {
        self.diary.write(format!("disconnected {}", peer.address));
    }

    async fn on_network_error(&mut self, address: RpcAddress, error: RpcError, _: &Context<Ask>) {
        self.diary.write(format!("network error {address}: {error}"));
    }

    async fn on_error(&mut self, error: HandlerError, _: &Context<Ask>) {
        self.diary.write(format!("error {error}"));
    }
}

/// An environment with a scribe on it.
pub(crate) struct TestServer {
    pub(crate) env: RpcEnv,
    pub(crate) diary: Diary,
    pub(crate) gate: Arc<Notify>,
    pub(crate) local: EndpointRef<Ask>,
}

impl TestServer {
    pub(crate) async fn open(options: RpcOptions) -> Self {
        Self::on(RpcEnv::server(options, BindTo::loopback()).await.unwrap())
    }

    pub(crate) fn on(env: RpcEnv) -> Self {
        let scribe = Scribe::new();
        let (diary, gate) = (scribe.diary.clone(), scribe.gate.clone());
        let local = env.register("Scribe", scribe).unwrap();
        Self { env, diary, gate, local }
    }

    pub(crate) fn rpc_address(&self) -> RpcAddress {
        self.env.address().unwrap().clone()
    }

    pub(crate) fn address(&self) -> EndpointAddress {
        self.rpc_address().endpoint("Scribe")
    }
}

/// Defaults, with waits that fit a test.
pub(crate) fn options() -> RpcOptions {
    RpcOptions { shutdown_timeout: Duration::from_secs(10), ..RpcOptions::default() }
}

pub(crate) fn with_secret(text: &str) -> RpcOptions {
    let mut options = options();
    let secret = Secret::new(text, "test").unwrap();
    options.authenticate_as(Identity::new(DEFAULT_IDENTITY, secret).unwrap());
    options
}

/// Waits until `holds`, looking often.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < DEADLINE, "not within the deadline: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Hello, challenge, proof, welcome: each with its length in the prefix.
pub(crate) async fn pass_on_handshake(client: &mut TcpStream, server: &mut TcpStream) {
    for step in 0..4 {
        let (reader, writer) =
            if step % 2 == 0 { (&mut *client, &mut *server) } else { (&mut *server, &mut *client) };
        let mut message = vec![0; 8];
        reader.read_exact(&mut message).await.unwrap();
        let body = usize::from(u16::from_le_bytes([message[6], message[7]]));
        message.resize(8 + body, 0);
        reader.read_exact(&mut message[8..]).await.unwrap();
        writer.write_all(&message).await.unwrap();
    }
}

/// Runs on a runtime of two threads, and fails when it takes too long.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(async { timeout(3 * DEADLINE, test).await.expect("the test hangs") })
}
