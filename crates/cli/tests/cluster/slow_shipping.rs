//! Programs that take long to come to a worker: progress is heard of, outlives executors, and passes from worker to worker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use firesteel_backend::AppId;
use firesteel_backend::command::Command;
use firesteel_backend::provider::{ProviderCommand, ProviderEvent};
use firesteel_backend::registry::{Registry, RegistryEffect, RegistryEvent, RegistryOptions};
use firesteel_rpc::RpcAddress;
use firesteel_standalone_core::description::ExecutorState;
use firesteel_standalone_core::messages::{ToApplication, ToMaster};
use firesteel_types::{ExecutorId, Host, Tick};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::application::Application;
use crate::daemon::{Master, Worker, file, wait_until};
use crate::shipping::Driver;

/// More than the buffers of connections hold.
const LENGTH: usize = 12 << 20;
/// What a driver of these tests waits for an executor.
const TIMEOUT: Duration = Duration::from_millis(1500);

/// A program of many bytes that tells that it runs.
fn program() -> String {
    let mut text = "#!/bin/sh\necho > done\nexec sleep 1000\n".to_owned();
    text.extend((0..LENGTH / 16).map(|line| format!("# {line:013}\n")));
    text
}

/// Passes connections on to a driver, and so many of its bytes back.
struct Valve {
    address: RpcAddress,
    bytes: Arc<Semaphore>,
}

impl Valve {
    fn before(driver: &Driver) -> Self {
        let target = driver.env.address().unwrap().clone();
        let bytes = Arc::new(Semaphore::new(0));
        let listener = driver.runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap().into();
        let open = bytes.clone();
        driver.runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect((target.host.as_str(), target.port)).await.unwrap();
                tokio::spawn(pass_on(client, server, open.clone()));
            }
        });
        Self { address, bytes }
    }

    fn let_pass(&self, bytes: usize) {
        self.bytes.add_permits(bytes);
    }

    /// The driver's program, to be had here.
    fn command(&self, driver: &Driver, program: &str) -> Command {
        let mut command = driver.command(program, &[]);
        command.served.as_mut().unwrap().address.port = self.address.port;
        command
    }
}

async fn pass_on(mut client: TcpStream, mut server: TcpStream, bytes: Arc<Semaphore>) {
    let ((mut asks, mut hears), (mut answers, mut told)) = (client.split(), server.split());
    let there = async { drop(tokio::io::copy(&mut asks, &mut told).await) };
    let back = async {
        let mut piece = vec![0; 4096];
        while let Ok(read @ 1..) = answers.read(&mut piece).await {
            bytes.acquire_many(read as u32).await.unwrap().forget();
            if hears.write_all(&piece[..read]).await.is_err() {
                break;
            }
        }
        let _ = hears.shutdown().await;
    };
    tokio::join!(there, back);
}

/// What the application heard last of what comes for an executor.
fn prepared(application: &Application, executor: u32) -> u64 {
    let told = application.told();
    let mut steps = told.iter().filter_map(|told| match told {
        ToApplication::ExecutorPreparing { executor: id, preparing } if id.0 == executor => {
            Some(preparing.bytes)
        }
        _ => None,
    });
    steps.next_back().unwrap_or(0)
}

/// What a message means to the driver's registry of executors.
fn provider_event(told: &ToApplication) -> Option<ProviderEvent> {
    match told {
        ToApplication::ExecutorAdded { executor, .. } => {
            Some(ProviderEvent::Ordered { executor: *executor })
        }
        ToApplication::ExecutorPreparing { executor, preparing } => {
            Some(ProviderEvent::Preparing { executor: *executor, preparing: *preparing })
        }
        ToApplication::ExecutorUpdated(update) if update.state == ExecutorState::Running => {
            Some(ProviderEvent::Started { executor: update.executor, node: Host::new("h") })
        }
        _ => None,
    }
}

/// A driver's registry that hears what the application is told, and those it gives up.
struct Judge {
    registry: Registry,
    heard: usize,
    start: Instant,
    given_up: Vec<ExecutorId>,
}

impl Judge {
    fn new() -> Self {
        let network_timeout_ms = TIMEOUT.as_millis() as u64;
        let options = RegistryOptions { network_timeout_ms, ..RegistryOptions::default() };
        let (registry, start) = (Registry::new(options), Instant::now());
        Self { registry, heard: 0, start, given_up: Vec::new() }
    }

    fn feed(&mut self, event: RegistryEvent) {
        let mut out = Vec::new();
        let now = Tick(1000 + self.start.elapsed().as_millis() as u64);
        self.registry.handle(now, event, &mut out);
        for effect in out {
            match effect {
                RegistryEffect::Provider(ProviderCommand::Release(ids)) => {
                    self.given_up.extend(ids)
                }
                RegistryEffect::Drain => self.feed(RegistryEvent::Drained),
                _ => {}
            }
        }
    }

    /// Hears what is new, and looks at the clock.
    fn look(&mut self, application: &Application) {
        let told = application.told();
        for event in told[self.heard..].iter().filter_map(provider_event) {
            self.feed(RegistryEvent::Provider(event));
        }
        self.heard = told.len();
        self.feed(RegistryEvent::Ticked);
    }
}

#[test]
fn a_driver_waits_for_an_executor_whose_program_comes_slowly_and_not_for_one_that_stands_still() {
    let master = Master::start(&[]);
    let worker = Worker::start(&master, &[]);
    let program = program();
    let driver = Driver::limited(&[(&program, &program)], 8);
    let valve = Valve::before(&driver);
    let application = Application::register(&master, valve.command(&driver, &program));
    let mut judge = Judge::new();
    judge.feed(RegistryEvent::Ticked);
    wait_until("it took three times as long as a driver waits", || {
        valve.let_pass(8 << 10);
        judge.look(&application);
        judge.start.elapsed() > 3 * TIMEOUT
    });
    assert_eq!(judge.given_up, [], "{:?}", application.told());
    let came = prepared(&application, 0);
    assert!(came > 0 && came < program.len() as u64, "{came}");
    wait_until("it is given up when nothing comes any more", || {
        judge.look(&application);
        !judge.given_up.is_empty()
    });
    assert_eq!(judge.given_up, [ExecutorId(0)]);
    valve.let_pass(1 << 28);
    file(&worker.directory(&application.id(), 0).join("done"));
}

#[test]
fn a_program_on_its_way_outlives_the_executor_that_wanted_it() {
    let master = Master::start(&[]);
    let worker = Worker::start(&master, &[]);
    let program = program();
    let driver = Driver::limited(&[(&program, &program)], 8);
    let valve = Valve::before(&driver);
    let application = Application::register(&master, valve.command(&driver, &program));
    valve.let_pass(2 << 20);
    wait_until("a part has come", || prepared(&application, 0) > 0);
    let app = AppId::new(&application.id());
    application.say(ToMaster::KillExecutors { app, executors: vec![ExecutorId(0)] });
    let (state, _) = application.end_of(0);
    assert_eq!(state, ExecutorState::Killed);
    valve.let_pass(1 << 28);
    file(&worker.directory(&application.id(), 1).join("done"));
    assert_eq!(driver.count(), 1, "it was asked for once, and from its beginning");
}

#[test]
fn a_worker_gets_from_another_what_the_driver_serves_to_one_at_a_time() {
    let master = Master::start(&[]);
    let first = Worker::start(&master, &[]);
    let program = program();
    let driver = Driver::limited(&[(&program, &program)], 1);
    let valve = Valve::before(&driver);
    let command = valve.command(&driver, &program);
    let application = Application::with_executors(&master, command, 4);
    valve.let_pass(4 << 20);
    // It has the driver's only place before the other one asks.
    wait_until("the first has a part", || prepared(&application, 0) > 1 << 20);
    let workers = [first, Worker::start(&master, &[])];
    wait_until("both have a part", || prepared(&application, 2) > 1 << 20);
    assert_eq!(driver.count(), 1, "the driver has served one of them");
    valve.let_pass(1 << 28);
    for executor in 0..4 {
        let runs =
            |worker: &Worker| worker.directory(&application.id(), executor).join("done").exists();
        wait_until("all run", || workers.iter().any(runs));
    }
}
