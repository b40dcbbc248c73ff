//! The master's `/json/` page against pages captured from Apache Spark 4.3.
//!
//! Numbers and names of a page differ from run to run; its keys, their order, the kind of each
//! value and the layout must not.

use std::sync::Arc;

use firesteel_backend::blame::ExitStatus;
use firesteel_backend::command::Command;
use firesteel_backend::{Address, AppId, Peer};
use firesteel_standalone_core::description::{
    ApplicationDescription, DriverDescription, ExecutorReport, ExecutorState, ProcessEnd,
    WorkerDescription, WorkerState,
};
use firesteel_standalone_core::json::master_json;
use firesteel_standalone_core::master::{
    Master, MasterEffect, MasterEvent, MasterOptions, Records, RecoveryState,
};
use firesteel_standalone_core::messages::{ToApplication, ToMaster, ToWorker};
use firesteel_standalone_core::{ExecutorKey, Incarnation, Registration, Term, WorkerId};
use firesteel_types::{ExecutorId, Host, Tick};

const START: Tick = Tick(1_794_765_220_344);

struct Cluster {
    master: Master,
    now: Tick,
    registrations: Vec<Registration>,
    apps: Vec<AppId>,
    number: u64,
}

fn id(worker: u16) -> WorkerId {
    WorkerId(format!("worker-20261115175124-127.0.0.1-{worker}").into())
}

impl Cluster {
    fn new(status: RecoveryState) -> Self {
        let url = "spark://127.0.0.1:7077".to_owned();
        let options = MasterOptions { url, max_executor_retries: 1, ..MasterOptions::default() };
        let mut master = Master::new(options);
        if status == RecoveryState::Alive {
            let elected = MasterEvent::Elected { records: Records::default(), lease: None };
            master.handle(Tick(START.0 - 5000), elected, &mut Vec::new());
        }
        let (registrations, apps) = (Vec::new(), Vec::new());
        Cluster { master, now: START, registrations, apps, number: 0 }
    }

    fn hear(&mut self, from: u64, message: ToMaster) {
        let mut out = Vec::new();
        let event = MasterEvent::Received { from: Peer(from), message };
        self.master.handle(self.now, event, &mut out);
        for effect in out {
            match effect {
                MasterEffect::SendWorker { stamped, .. } => {
                    if let ToWorker::RegisteredWorker { registration, .. } = stamped.message {
                        self.registrations.push(registration);
                    }
                }
                MasterEffect::SendApplication { stamped, .. } => {
                    if let ToApplication::RegisteredApplication { app, .. } = stamped.message {
                        self.apps.push(app);
                    }
                }
                _ => {}
            }
        }
        self.now = self.now.plus_ms(700);
    }

    fn worker(&mut self, port: u16, cores: u32) {
        let worker = WorkerDescription {
            id: id(port),
            incarnation: Incarnation(u64::from(port)),
            address: Address { host: Host::new("127.0.0.1"), port },
            web_ui: "http://127.0.0.1:8081".to_owned(),
            cores,
            memory_mb: 4096,
        };
        self.number += 1;
        let state = WorkerState { number: self.number, ..WorkerState::default() };
        self.hear(u64::from(port), ToMaster::RegisterWorker { worker, state, newest: Term(0) });
    }

    fn app(&mut self, name: &str) {
        let description = ApplicationDescription {
            name: name.to_owned(),
            user: "root".to_owned(),
            max_cores: Some(1),
            memory_per_executor_mb: 512,
            cores_per_executor: None,
            initial_executor_limit: None,
            command: Command::default(),
            web_ui: String::new(),
        };
        let number = self.apps.len() as u64;
        let message = ToMaster::RegisterApplication {
            description: Arc::new(description),
            incarnation: Incarnation(number),
            previous: None,
            first_executor: ExecutorId(0),
            newest: Term(0),
            executors: Vec::new(),
        };
        self.hear(1000 + number, message);
    }

    fn driver(&mut self) {
        let description = DriverDescription {
            name: "lab.Pi".to_owned(),
            cores: 1,
            memory_mb: 512,
            supervise: false,
            command: Command::default(),
        };
        self.hear(1, ToMaster::RequestSubmitDriver { description: Arc::new(description) });
    }

    fn executor_fails(&mut self, port: u16) {
        self.number += 1;
        let status = Some(ExitStatus::Code(1));
        let end = Some(ProcessEnd { message: "exit code 1".to_owned(), status });
        let key = ExecutorKey { app: self.apps[0].clone(), executor: ExecutorId(0) };
        let state = ExecutorState::Exited;
        let message = ToMaster::ExecutorStateChanged {
            worker: id(port),
            registration: self.registrations[0],
            number: self.number,
            report: ExecutorReport { key, cores: 1, memory_mb: 512, state, preparing: None, end },
        };
        self.hear(u64::from(port), message);
    }

    fn page(&self) -> String {
        master_json(&self.master.view(), self.now)
    }
}

/// The page line by line with names and numbers left out.
fn shape(page: &str) -> Vec<String> {
    let lines = page.lines().map(|line| match line.split_once(" : ") {
        Some((key, value)) if value.starts_with('"') => format!("{key} : text"),
        Some((key, value)) if value.starts_with(|c: char| c.is_ascii_digit()) => {
            format!("{key} : number")
        }
        _ => line.to_owned(),
    });
    lines.collect()
}

#[track_caller]
fn same_shape(cluster: &Cluster, captured: &str) {
    assert_eq!(shape(&cluster.page()), shape(captured));
}

#[test]
fn an_idle_master_shows_the_same_bytes_but_for_its_workers_name() {
    let mut cluster = Cluster::new(RecoveryState::Alive);
    cluster.worker(43477, 2);
    same_shape(&cluster, include_str!("captured/master-idle.json"));
    let standby = Cluster::new(RecoveryState::Standby).page();
    assert_eq!(standby, include_str!("captured/master-standby.json").trim_end());
}

#[test]
fn running_and_completed_drivers_and_applications_are_shown_as_spark_does() {
    let mut cluster = Cluster::new(RecoveryState::Alive);
    cluster.worker(43477, 4);
    cluster.driver();
    let killed = cluster.master.view().active_drivers[0].driver.clone();
    cluster.hear(1, ToMaster::RequestKillDriver { driver: killed });
    cluster.driver();
    cluster.app("Spark Pi");
    same_shape(&cluster, include_str!("captured/master-running-app-and-driver.json"));
    assert!(cluster.page().contains("\"state\" : \"KILLED\""));
}

#[test]
fn waiting_applications_and_queued_drivers_are_shown_as_spark_does() {
    let mut cluster = Cluster::new(RecoveryState::Alive);
    cluster.worker(43477, 2);
    (0..4).for_each(|_| cluster.driver());
    cluster.app("Spark Pi");
    cluster.app("Spark Pi");
    same_shape(&cluster, include_str!("captured/master-waiting-apps-and-queued-drivers.json"));
    let page = cluster.page();
    assert_eq!(page.matches("\"WAITING\"").count(), 2, "{page}");
    assert_eq!(page.matches("\"SUBMITTED\"").count(), 2, "{page}");
    assert_eq!(page.matches("\"worker\" : \"None\"").count(), 2, "{page}");
}

#[test]
fn dead_workers_and_ended_applications_are_shown_as_spark_does() {
    let mut cluster = Cluster::new(RecoveryState::Alive);
    cluster.worker(35847, 1);
    cluster.worker(33581, 1);
    for _ in 0..3 {
        cluster.app("fault");
        let app = cluster.apps.last().expect("just registered").clone();
        let of_app = 1000 + cluster.apps.len() as u64 - 1;
        cluster.hear(of_app, ToMaster::UnregisterApplication { app });
    }
    let gone = MasterEvent::PeerDisconnected { peer: Peer(33581) };
    cluster.master.handle(cluster.now, gone, &mut Vec::new());
    // The other one is heard, and this one does not come back.
    let (worker, registration) = (id(35847), cluster.registrations[0]);
    let state = WorkerState { number: 1000, ..WorkerState::default() };
    cluster.now = cluster.now.plus_ms(11_250);
    cluster.hear(35847, ToMaster::Heartbeat { worker, registration, state });
    cluster.master.handle(cluster.now, MasterEvent::Ticked, &mut Vec::new());
    cluster.now = cluster.now.plus_ms(3_750);
    cluster.master.handle(cluster.now, MasterEvent::Ticked, &mut Vec::new());
    same_shape(&cluster, include_str!("captured/master-with-dead-worker.json"));
    assert!(cluster.page().contains("\"state\" : \"DEAD\""));
}

#[test]
fn an_application_whose_executors_fail_is_shown_as_failed() {
    let mut cluster = Cluster::new(RecoveryState::Alive);
    cluster.worker(35847, 2);
    cluster.app("trivial");
    cluster.executor_fails(35847);
    let page = cluster.page();
    assert!(page.contains("\"state\" : \"FAILED\""), "{page}");
    let captured = include_str!("captured/master-failed-app.json");
    let keys = |page: &str| -> Vec<String> {
        let completed = page.split("\"completedapps\"").nth(1).unwrap_or_default();
        let first = completed.split('}').next().unwrap_or_default();
        shape(first)
    };
    assert_eq!(keys(&page), keys(captured));
}
