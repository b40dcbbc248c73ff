//! One worker or one application, as its master sees it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use anyhow::Result;
use firesteel_backend::command::Command;
use firesteel_backend::{Address, AppId};
use firesteel_conf::Conf;
use firesteel_rpc::{
    Caller, Context, Endpoint, EndpointRef, HandlerError, RpcAddress, RpcEnv, RpcOptions,
};
use firesteel_standalone_core::description::{
    ApplicationDescription, ExecutorReport, ExecutorState, WorkerDescription, WorkerState,
};
use firesteel_standalone_core::messages::{Stamped, ToApplication, ToMaster, ToWorker};
use firesteel_standalone_core::wire::{APP_CLIENT, MASTER, WORKER};
use firesteel_standalone_core::{ExecutorKey, Incarnation, Registration, Term, WorkerId};
use firesteel_types::{ExecutorId, Host};
use tokio::runtime::Runtime;

/// Cores of a worker, of an executor, and what an application wants.
const CORES: u32 = 16;
const EXECUTOR_CORES: u32 = 2;
const WANTED_CORES: u32 = 96;

/// Nothing panics while it is locked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A connection of its own.
fn connect(runtime: &Runtime, master: &RpcAddress) -> Result<(RpcEnv, EndpointRef<ToMaster>)> {
    // The master has the secret of its user, who is this process's.
    let options = RpcOptions::from_process(&Conf::new())?;
    let env = runtime.block_on(async { RpcEnv::client(options) });
    let master = env.endpoint_ref(&master.endpoint(MASTER))?;
    Ok((env, master))
}

#[derive(Default)]
struct Books {
    number: u64,
    registration: Option<Registration>,
    executors: BTreeMap<ExecutorKey, ExecutorReport>,
}

/// A worker that starts nothing.
pub(crate) struct Worker {
    id: WorkerId,
    master: EndpointRef<ToMaster>,
    books: Arc<Mutex<Books>>,
    _env: RpcEnv,
}

impl Worker {
    pub(crate) fn join(runtime: &Runtime, master: &RpcAddress, number: u64) -> Result<Self> {
        let (env, master) = connect(runtime, master)?;
        let id = WorkerId::new(&format!("worker-{number}"));
        let books = Arc::new(Mutex::new(Books { number: 1, ..Books::default() }));
        let endpoint =
            PlayerEndpoint { id: id.clone(), master: master.clone(), books: books.clone() };
        env.register(WORKER, endpoint)?;
        let worker = WorkerDescription {
            id: id.clone(),
            incarnation: Incarnation(number),
            address: Address { host: Host::new(&format!("host-{number}")), port: 7000 },
            web_ui: String::new(),
            cores: CORES,
            memory_mb: 64_000,
        };
        let state = WorkerState { number: 1, ..WorkerState::default() };
        master.try_send(ToMaster::RegisterWorker { worker, state, newest: Term(0) })?;
        Ok(Self { id, master, books, _env: env })
    }

    pub(crate) fn is_registered(&self) -> bool {
        lock(&self.books).registration.is_some()
    }

    /// A heartbeat with all it has.
    pub(crate) fn beat(&self) -> Result<()> {
        let mut books = lock(&self.books);
        books.number += 1;
        let Some(registration) = books.registration else { return Ok(()) };
        let executors = books.executors.values().cloned().collect();
        let state = WorkerState { number: books.number, executors, ..WorkerState::default() };
        let worker = self.id.clone();
        Ok(self.master.try_send(ToMaster::Heartbeat { worker, registration, state })?)
    }
}

struct PlayerEndpoint {
    id: WorkerId,
    master: EndpointRef<ToMaster>,
    books: Arc<Mutex<Books>>,
}

impl PlayerEndpoint {
    fn report(&self, books: &mut Books, report: ExecutorReport) -> Result<(), HandlerError> {
        books.number += 1;
        let (number, worker) = (books.number, self.id.clone());
        let Some(registration) = books.registration else { return Ok(()) };
        books.executors.insert(report.key.clone(), report.clone());
        let message = ToMaster::ExecutorStateChanged { worker, registration, number, report };
        Ok(self.master.try_send(message)?)
    }
}

impl Endpoint for PlayerEndpoint {
    type Message = Stamped<ToWorker>;

    async fn receive(
        &mut self,
        stamped: Stamped<ToWorker>,
        _: Caller<()>,
        _: &Context<Self::Message>,
    ) -> Result<(), HandlerError> {
        let books = &mut *lock(&self.books);
        match stamped.message {
            ToWorker::RegisteredWorker { registration, .. } => {
                books.registration = Some(registration);
            }
            ToWorker::LaunchExecutor { key, cores, memory_mb, .. } => {
                let state = ExecutorState::Running;
                let (preparing, end) = (None, None);
                let report = ExecutorReport { key, cores, memory_mb, state, preparing, end };
                self.report(books, report)?;
            }
            ToWorker::KillExecutor { key, .. } => {
                if let Some(mut report) = books.executors.get(&key).cloned() {
                    report.state = ExecutorState::Killed;
                    self.report(books, report)?;
                }
            }
            ToWorker::ExecutorEndKnown { key, .. } => {
                books.executors.remove(&key);
            }
            _ => {}
        }
        Ok(())
    }
}

/// An application without tasks, which wants more than its share.
pub(crate) struct Application {
    master: EndpointRef<ToMaster>,
    id: Arc<Mutex<Option<AppId>>>,
    _env: RpcEnv,
}

impl Application {
    pub(crate) fn register(runtime: &Runtime, master: &RpcAddress, number: u64) -> Result<Self> {
        let (env, master) = connect(runtime, master)?;
        let id = Arc::new(Mutex::new(None));
        env.register(APP_CLIENT, Client(id.clone()))?;
        master.try_send(ToMaster::RegisterApplication {
            description: Arc::new(description(number)),
            incarnation: Incarnation(1_000_000 + number),
            previous: None,
            first_executor: ExecutorId(0),
            newest: Term(0),
            executors: Vec::new(),
        })?;
        Ok(Self { master, id, _env: env })
    }

    pub(crate) fn id(&self) -> Option<AppId> {
        lock(&self.id).clone()
    }

    pub(crate) fn say(&self, message: ToMaster) -> Result<()> {
        Ok(self.master.try_send(message)?)
    }
}

fn description(number: u64) -> ApplicationDescription {
    ApplicationDescription {
        name: format!("application {number}"),
        user: "nobody".to_owned(),
        max_cores: Some(WANTED_CORES),
        memory_per_executor_mb: 1024,
        cores_per_executor: Some(EXECUTOR_CORES),
        initial_executor_limit: None,
        command: Command { program: "/bin/true".to_owned(), ..Command::default() },
        web_ui: String::new(),
    }
}

struct Client(Arc<Mutex<Option<AppId>>>);

impl Endpoint for Client {
    type Message = Stamped<ToApplication>;

    async fn receive(
        &mut self,
        stamped: Stamped<ToApplication>,
        _: Caller<()>,
        _: &Context<Self::Message>,
    ) -> Result<(), HandlerError> {
        if let ToApplication::RegisteredApplication { app, .. } = stamped.message {
            *lock(&self.0) = Some(app);
        }
        Ok(())
    }
}
