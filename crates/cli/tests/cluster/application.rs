//! An application's driver as a master sees it: registers, and keeps what it is told.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use firesteel_backend::command::Command;
use firesteel_rpc::*;
use firesteel_standalone_core::description::{ApplicationDescription, ExecutorState};
use firesteel_standalone_core::messages::{Stamped, ToApplication, ToMaster};
use firesteel_standalone_core::wire::{APP_CLIENT, MASTER};
use firesteel_standalone_core::{Incarnation, Term};
use firesteel_types::ExecutorId;
use rustix::process::Pid;
use tokio::runtime::Runtime;

use crate::daemon::{Master, Worker, file, wait_for};

/// A master takes two of the same number for one that asks twice.
static PROCESSES: AtomicU64 = AtomicU64::new(1);

/// An application without tasks.
pub(crate) struct Application {
    told: Arc<Mutex<Vec<ToApplication>>>,
    master: EndpointRef<ToMaster>,
    env: RpcEnv,
    runtime: Runtime,
}

struct Client(Arc<Mutex<Vec<ToApplication>>>);

impl Endpoint for Client {
    type Message = Stamped<ToApplication>;

    async fn receive(
        &mut self,
        stamped: Stamped<ToApplication>,
        _: Caller<()>,
        _: &Context<Stamped<ToApplication>>,
    ) -> Result<(), HandlerError> {
        self.0.lock().unwrap().push(stamped.message);
        Ok(())
    }
}

/// A shell's script as a command.
pub(crate) fn script(text: &str) -> Command {
    let arguments = vec!["-c".to_owned(), text.to_owned()];
    Command { program: "/bin/sh".to_owned(), arguments, ..Command::default() }
}

/// An executor that tells its number in the file `pid` and then does nothing for a long time.
pub(crate) fn idle() -> Command {
    script("echo $$ > new; mv new pid; exec sleep 1000")
}

impl Application {
    /// One that wants one executor of one core.
    pub(crate) fn register(master: &Master, command: Command) -> Self {
        Self::with_executors(master, command, 1)
    }

    /// One that wants so many of them.
    pub(crate) fn with_executors(master: &Master, command: Command, count: u32) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = { runtime }.worker_threads(1).enable_all().build().unwrap();
        let told = Arc::new(Mutex::new(Vec::new()));
        let env = runtime.block_on(async { RpcEnv::client(RpcOptions::default()) });
        env.register(APP_CLIENT, Client(told.clone())).unwrap();
        let address: RpcAddress = master.url.parse().unwrap();
        let master = env.endpoint_ref(&address.endpoint(MASTER)).unwrap();
        let application = Self { told, master, env, runtime };
        application.say(ToMaster::RegisterApplication {
            description: Arc::new(ApplicationDescription {
                max_cores: Some(count),
                ..description(command)
            }),
            incarnation: Incarnation(PROCESSES.fetch_add(1, Ordering::Relaxed)),
            previous: None,
            first_executor: ExecutorId(0),
            newest: Term(0),
            executors: Vec::new(),
        });
        application
    }

    pub(crate) fn say(&self, message: ToMaster) {
        self.runtime.block_on(self.master.send(message)).unwrap();
    }

    pub(crate) fn told(&self) -> Vec<ToApplication> {
        self.told.lock().unwrap().clone()
    }

    /// The first thing it was told that is looked for.
    pub(crate) fn hear<T>(&self, what: &str, found: impl Fn(&ToApplication) -> Option<T>) -> T {
        wait_for(what, || self.told.lock().unwrap().iter().find_map(&found))
    }

    pub(crate) fn id(&self) -> String {
        self.hear("the application's id", |told| match told {
            ToApplication::RegisteredApplication { app, .. } => Some(app.to_string()),
            _ => None,
        })
    }

    /// Why the master ended it.
    pub(crate) fn removal(&self) -> String {
        self.hear("the application's end", |told| match told {
            ToApplication::ApplicationRemoved { message } => Some(message.clone()),
            _ => None,
        })
    }

    /// How an executor ended, in words.
    pub(crate) fn end_of(&self, executor: u32) -> (ExecutorState, String) {
        self.hear(&format!("the end of executor {executor}"), |told| match told {
            ToApplication::ExecutorUpdated(update)
                if update.executor == ExecutorId(executor) && update.state.is_finished() =>
            {
                Some((update.state, format!("{update:?}")))
            }
            _ => None,
        })
    }

    /// The process of an executor that is [`idle`].
    pub(crate) fn pid(&self, worker: &Worker, executor: u32) -> Pid {
        pid_in(&worker.directory(&self.id(), executor).join("pid"))
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        self.runtime.block_on(self.env.shutdown());
    }
}

pub(crate) fn pid_in(path: &Path) -> Pid {
    Pid::from_raw(file(path).trim().parse().unwrap()).unwrap()
}

fn description(command: Command) -> ApplicationDescription {
    ApplicationDescription {
        name: "test".to_owned(),
        user: "tester".to_owned(),
        max_cores: Some(1),
        memory_per_executor_mb: 64,
        cores_per_executor: Some(1),
        initial_executor_limit: None,
        command,
        web_ui: String::new(),
    }
}

/// Variables as a map.
pub(crate) fn variables(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.split_once('=')).collect()
}
