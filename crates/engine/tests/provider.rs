//! A cluster manager of its own: `processes://CORES` starts executors as processes of this machine. It is here to show how little one takes,
//! and that no scheduler and no registry needs to know it.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use firesteel_backend::AppId;
use firesteel_backend::blame::{End, ExitStatus};
use firesteel_backend::command::Identity;
use firesteel_backend::numbers::ExecutorNumbers;
use firesteel_backend::provider::{ProviderCommand, ProviderEvent};
use firesteel_closure::{Decoder, Encoder, Wire, WireError, code, to_bytes, wire};
use firesteel_conf::{Conf, Master};
use firesteel_engine::{ApplicationSpec, ClusterManager, Engine, Error, Provider, Reports};
use firesteel_task::{TaskBody, TaskContext};
use firesteel_types::{CallSite, ExecutorId, Host, Properties, RddInfo};
use tokio::runtime::Handle;

/// Makes [`Processes`], and lies about executors if asked to.
#[derive(Default)]
struct OnThisMachine {
    lies: Vec<ProviderEvent>,
    stopped: Arc<AtomicBool>,
}

#[derive(Default)]
struct Processes {
    lies: Vec<ProviderEvent>,
    stopped: Arc<AtomicBool>,
    running: Arc<Mutex<Running>>,
    watch: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Running {
    children: BTreeMap<ExecutorId, Child>,
    released: BTreeSet<ExecutorId>,
    target: u32,
    numbers: ExecutorNumbers,
    over: bool,
}

impl ClusterManager for OnThisMachine {
    fn name(&self) -> &str {
        "processes"
    }

    fn claims(&self, master: &Master) -> bool {
        matches!(master, Master::External { url } if url.starts_with("processes://"))
    }

    fn prepare(&self, _: &Master, _: &Conf, _: &Handle) -> Result<Box<dyn Provider>, String> {
        let (lies, stopped) = (self.lies.clone(), self.stopped.clone());
        Ok(Box::new(Processes { lies, stopped, ..Processes::default() }))
    }
}

impl Provider for Processes {
    fn driver_host(&self) -> io::Result<String> {
        Ok("127.0.0.1".to_owned())
    }

    fn default_cores(&self) -> Option<u32> {
        Some(1)
    }

    fn start(&mut self, application: ApplicationSpec, reports: Reports) -> Result<(), String> {
        reports.send(ProviderEvent::Accepted { app: AppId::new("processes-1") });
        self.lies.drain(..).for_each(|lie| reports.send(lie));
        let running = self.running.clone();
        self.watch = Some(std::thread::spawn(move || {
            while running.lock().unwrap().turn(&application, &reports) {
                std::thread::park_timeout(Duration::from_millis(10));
            }
        }));
        Ok(())
    }

    fn command(&mut self, command: ProviderCommand) {
        let mut running = self.running.lock().unwrap();
        match command {
            ProviderCommand::SetTarget(target) => running.target = target,
            ProviderCommand::Release(executors) => running.released.extend(executors),
            ProviderCommand::Stop => running.over = true,
            ProviderCommand::NodesExcluded(_)
            | ProviderCommand::Named(_)
            | ProviderCommand::Registered(_)
            | ProviderCommand::Disconnected(_)
            | ProviderCommand::Silent(_) => {}
        }
    }

    fn stop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.watch.take().into_iter().for_each(|watch| watch.join().unwrap());
    }
}

impl Running {
    /// Starts what is missing, ends what is not wanted, reports both; `false` when the application is over.
    fn turn(&mut self, application: &ApplicationSpec, reports: &Reports) -> bool {
        let unwanted = |id: &ExecutorId, over| over || self.released.contains(id);
        let mut gone = Vec::new();
        for (id, child) in &mut self.children {
            let told = unwanted(id, self.over) && child.kill().is_ok();
            if told || child.try_wait().unwrap().is_some() {
                let status = child.wait().unwrap().code().map(ExitStatus::Code);
                gone.push((*id, if told { End::Told } else { End::Exited(status) }));
            }
        }
        for (executor, end) in gone {
            self.children.remove(&executor);
            let reason = "its process ended".to_owned();
            reports.send(ProviderEvent::Ended { executor, end, reason });
        }
        while !self.over && self.children.len() < self.target as usize {
            let executor = self.numbers.take();
            reports.send(ProviderEvent::Ordered { executor });
            self.children.insert(executor, spawn(application, executor));
            let node = Host::new("127.0.0.1");
            reports.send(ProviderEvent::Started { executor, node });
        }
        !self.over
    }
}

fn spawn(application: &ApplicationSpec, executor: ExecutorId) -> Child {
    let (app, host) = (AppId::new("processes-1"), "127.0.0.1".to_owned());
    let identity = Identity { app, executor, host, cores: 1, memory_mb: 256 };
    let mut command = Command::new(&application.command.program);
    command.envs(&application.command.environment).envs(identity.variables());
    command.stdin(Stdio::null()).spawn().unwrap()
}

/// Its process's id; the first attempt of partition 0 ends the process instead.
struct WhereItRuns {
    crashes: bool,
}

wire!([] WhereItRuns { crashes });

fn rebuild(input: &mut Decoder<'_>) -> Result<Box<dyn TaskBody>, WireError> {
    Ok(Box::new(<WhereItRuns as Wire>::decode(input)?))
}

impl TaskBody for WhereItRuns {
    fn run(&self, task: &TaskContext) -> Box<dyn Any + Send> {
        if self.crashes && task.partition() == 0 && task.attempt() == 0 {
            std::process::exit(7);
        }
        Box::new(std::process::id())
    }

    fn encode_output(&self, output: Box<dyn Any + Send>) -> Result<Vec<u8>, WireError> {
        to_bytes(output.downcast_ref::<u32>().unwrap())
    }

    fn encode(&self, out: &mut Encoder) -> Result<(), WireError> {
        code::encode(rebuild, out)?;
        Wire::encode(self, out)
    }
}

fn conf(master: &str) -> Conf {
    let mut conf = Conf::new();
    conf.set("spark.master", master);
    conf.set("spark.executor.instances", 2);
    conf.set("spark.executorEnv.GREETING", "hello");
    conf
}

fn processes(engine: &Arc<Engine>, crashes: bool) -> BTreeSet<u32> {
    let site = CallSite::here("where");
    let lineage = RddInfo::new(engine.next_rdd(), "Where", site, 64, Vec::new());
    let body = Arc::new(WhereItRuns { crashes });
    let lineage = Arc::new(lineage);
    let job = engine.submit(lineage, (0..64).collect(), body, Properties::default()).unwrap();
    job.wait().unwrap().into_iter().map(|pid| pid.into_value().unwrap()).collect()
}

fn executors(engine: &Engine) -> usize {
    engine.with_status(|status| status.executors().filter(|one| one.is_active()).count())
}

#[test]
fn a_provider_of_a_hundred_lines_runs_jobs_on_real_executors_and_replaces_what_dies() {
    let managers: [Arc<dyn ClusterManager>; 1] = [Arc::new(OnThisMachine::default())];
    let engine = Engine::start_on(conf("processes://here"), Vec::new(), &managers).unwrap();
    assert_eq!(engine.application_id(), "processes-1");
    let first = processes(&engine, false);
    assert!(!first.is_empty() && !first.contains(&std::process::id()), "{first:?}");
    processes(&engine, true);
    let mut all = first.clone();
    // Two executors, one of them new: sooner or later both have run something.
    while all.len() < 3 {
        all.extend(processes(&engine, false));
    }
    engine.stop();
    let alive =
        all.iter().filter(|pid| std::path::Path::new(&format!("/proc/{pid}/fd/0")).exists());
    assert_eq!(alive.count(), 0, "nothing is left");
}

#[test]
fn what_a_provider_says_of_executors_that_never_were_does_no_harm() {
    let nobody = ExecutorId(77);
    let reason = "ended".to_owned();
    let lies = vec![
        ProviderEvent::Started { executor: nobody, node: Host::new("nowhere") },
        ProviderEvent::Ended { executor: nobody, end: End::Exited(None), reason: reason.clone() },
        ProviderEvent::Ended { executor: nobody, end: End::Told, reason },
        ProviderEvent::Ordered { executor: nobody },
    ];
    let managers: [Arc<dyn ClusterManager>; 1] =
        [Arc::new(OnThisMachine { lies, ..OnThisMachine::default() })];
    let engine = Engine::start_on(conf("processes://here"), Vec::new(), &managers).unwrap();
    assert!(!processes(&engine, false).is_empty());
    assert!(executors(&engine) >= 1);
    engine.stop();
}

#[test]
fn a_master_that_nobody_or_two_claim_is_refused_with_their_names() {
    let one: Arc<dyn ClusterManager> = Arc::new(OnThisMachine::default());
    let other: Arc<dyn ClusterManager> = Arc::new(OnThisMachine::default());
    let refusal = |master: &str, managers: &[Arc<dyn ClusterManager>]| match Engine::start_on(
        conf(master),
        Vec::new(),
        managers,
    )
    .map(drop)
    {
        Err(Error::Master { reason, .. }) => reason,
        started => panic!("{started:?}"),
    };
    let both = refusal("processes://here", &[one.clone(), other]);
    assert!(both.contains("two cluster managers claim it, processes and processes"), "{both}");
    let none = refusal("nomad://here", &[one]);
    assert!(none.contains("standalone, local-cluster, processes"), "{none}");
    let none = refusal("k8s://https://here", &[]);
    assert!(none.contains("no cluster manager"), "{none}");
}

#[test]
fn a_provider_of_an_application_that_cannot_start_is_stopped() {
    let manager = OnThisMachine::default();
    let stopped = manager.stopped.clone();
    let managers: [Arc<dyn ClusterManager>; 1] = [Arc::new(manager)];
    let mut conf = conf("processes://here");
    conf.set("spark.task.cpus", 2);
    let refused = Engine::start_on(conf, Vec::new(), &managers).map(drop);
    let Err(Error::Master { reason, .. }) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("an executor has 1 core(s)"), "{reason}");
    assert!(stopped.load(Ordering::Relaxed), "it may have started something");
}
