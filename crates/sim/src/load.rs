//! A large cluster's master under load: how long its longest decision takes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use firesteel_backend::command::Command;
use firesteel_backend::{Address, Peer};
use firesteel_standalone_core::description::{
    ApplicationDescription, WorkerDescription, WorkerState,
};
use firesteel_standalone_core::master::{Master, MasterEvent, MasterOptions, Records};
use firesteel_standalone_core::messages::ToMaster;
use firesteel_standalone_core::{Incarnation, Term, WorkerId};
use firesteel_types::{ExecutorId, Host, Tick};

fn join(number: u64) -> ToMaster {
    let worker = WorkerDescription {
        id: WorkerId(format!("worker-{number}").into()),
        incarnation: Incarnation(number),
        address: Address { host: Host::new(&format!("host{number}")), port: 7000 },
        web_ui: String::new(),
        cores: 16,
        memory_mb: 64_000,
    };
    let state = WorkerState { number: 1, ..Default::default() };
    ToMaster::RegisterWorker { worker, state, newest: Term(0) }
}

fn ask(number: u64) -> ToMaster {
    let description = ApplicationDescription {
        name: format!("application {number}"),
        user: "somebody".to_owned(),
        max_cores: Some(96),
        memory_per_executor_mb: 1024,
        cores_per_executor: Some(2),
        initial_executor_limit: None,
        command: Command::default(),
        web_ui: String::new(),
    };
    ToMaster::RegisterApplication {
        description: Arc::new(description),
        incarnation: Incarnation(number),
        previous: None,
        first_executor: ExecutorId(0),
        newest: Term(0),
        executors: Vec::new(),
    }
}

/// The longest of all decisions while so many applications queue, so many workers come, and one by one
/// go again. The applications want more than there is.
pub fn longest_decision(workers: u64, apps: u64) -> Duration {
    let mut master = Master::new(MasterOptions::default());
    let elected = MasterEvent::Elected { records: Records::default(), lease: None };
    master.handle(Tick(0), elected, &mut Vec::new());
    let mut longest = Duration::ZERO;
    let asked = (0..apps).map(|number| (number, ask(number)));
    let joined = (0..workers).map(|number| (1000 + number, join(number)));
    let (early, late): (Vec<_>, Vec<_>) = joined.partition(|(from, _)| from % 2 == 0);
    let said = early.into_iter().chain(asked).chain(late);
    let said = said.map(|(from, message)| MasterEvent::Received { from: Peer(from), message });
    let gone =
        (0..workers / 2).map(|number| MasterEvent::PeerDisconnected { peer: Peer(1000 + number) });
    let looks = std::iter::repeat_n(MasterEvent::Ticked, 2);
    for (at, event) in said.chain(gone).chain(looks).enumerate() {
        let mut out = Vec::new();
        let started = Instant::now();
        master.handle(Tick(at as u64), event, &mut out);
        longest = longest.max(started.elapsed());
    }
    longest
}
