//! Executors on Kubernetes: the production pod allocator and the production registry against an API server that lies,
//! lags, loses requests and forgets, all from one seed.
//!
//! | file | owns |
//! |---|---|
//! | `plan` | what a seed decides before a run begins |
//! | `server` | the API server: pods, versions, history, refusals |
//! | `requests` | requests on their way, and watches |
//! | `nodes` | scheduler, kubelets, node controller |
//! | `processes` | executors |
//! | `driver` | how the world carries out what allocator and registry decide |
//! | `faults` | what goes wrong, at its moment |
//! | `check` | the invariants, by id |
//! | `counters` | what happened how often |
//! | `mutants` | planted mistakes, and the rules that find them |
//!
//! A run: some seconds in which things go wrong, then quiet. The wanted executors must come by a deadline, or the
//! application must have ended with the words of what stood in its way. Then a pod is deleted, which must be noticed soon,
//! and the application ends, which must leave nothing.

mod check;
mod counters;
mod driver;
mod faults;
mod mutants;
mod nodes;
mod plan;
mod processes;
mod requests;
mod server;

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use firesteel_backend::protocol::ToExecutor;
use firesteel_backend::registry::RegistryEvent;
use firesteel_kubernetes_core::PodUid;
use firesteel_kubernetes_core::allocator::AllocatorEvent;
use firesteel_kubernetes_core::mutant::Planted;
use firesteel_types::{ExecutorId, Tick};

use crate::Violation;
use check::Book;
pub use counters::PodCounters;
use driver::Driver;
use faults::Fault;
pub use mutants::{POD_MUTANTS, first_pod_violation};
use nodes::Node;
use plan::{
    DEADLINE_MS, GONE, GONE_MS, LOOK_MS, NETWORK_TIMEOUT_MS, NOTICE_MS, Obstacle, Plan, VANISHED_MS,
};
use processes::Process;
use requests::Request;
use server::Server;

#[derive(Debug)]
enum Event {
    /// A timer of the allocator, of this driver process.
    AllocatorWakes(u64),
    RegistryWakes(u64),
    /// What was said between the two and came late is heard.
    PortSpeaks(u64),
    /// A request comes to the API server; whether its answer is lost.
    RequestArrives(u64, Request, bool),
    /// An answer comes to the driver.
    AnswerArrives(u64, AllocatorEvent),
    WatchDelivers(u64),
    Bookmark(u64),
    /// The scheduler looks for a node.
    SchedulerLooks(PodUid),
    /// The kubelet starts the pod's container.
    ContainerStarts(PodUid),
    /// The kubelet tells of a process that ended.
    ContainerEnded(PodUid),
    /// The grace period of a pod is over.
    GraceEnds(PodUid),
    ProcessRegisters(PodUid),
    ProcessBeats(PodUid),
    ProcessExits(PodUid, i32, &'static str),
    ToDriver(u64, RegistryEvent),
    ToProcess(PodUid, ToExecutor),
    FaultHappens(Fault),
    NodeControllerActs(usize),
    NodeReturns(usize, bool),
    DriverStarts,
    QuietBegins,
    /// Are the executors there?
    Looks,
    /// Was the deleted pod replaced?
    ChecksNotice,
    /// Was what was on the node that vanished?
    ChecksVanished,
    Ends,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Faults,
    Quiet,
    /// A pod was deleted in the quiet.
    Noticing,
    /// A node vanished in the quiet.
    NodeGone,
    /// The application was told to end.
    Ending,
    Over,
}

/// The state of one run.
struct World {
    rng: Rng,
    now: u64,
    sequence: u64,
    queue: BTreeMap<(u64, u64), Event>,
    plan: Plan,
    planted: Planted,
    trace: bool,
    hash: u64,
    events: u64,
    counters: PodCounters,
    part: Part,
    quiet_since: u64,
    ends_at: u64,
    server: Server,
    nodes: Vec<Node>,
    processes: BTreeMap<PodUid, Process>,
    driver: Option<Driver>,
    generation: u64,
    target: u32,
    book: Book,
}

impl World {
    fn new(seed: u64, planted: Planted, trace: bool) -> Self {
        let mut rng = Rng::with_seed(seed);
        let plan = Plan::draw(&mut rng);
        let nodes = plan.nodes.iter().enumerate().map(|(at, node)| Node::new(at, *node)).collect();
        World {
            rng,
            now: 0,
            sequence: 0,
            queue: BTreeMap::new(),
            target: plan.target,
            server: Server::new(&plan),
            plan,
            planted,
            trace,
            hash: 0,
            events: 0,
            counters: PodCounters::default(),
            part: Part::Faults,
            quiet_since: 0,
            ends_at: u64::MAX,
            nodes,
            processes: BTreeMap::new(),
            driver: None,
            generation: 0,
            book: Book::default(),
        }
    }

    fn push(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.queue.insert((at.max(self.now), self.sequence), event);
    }

    fn after(&mut self, ms: u64, event: Event) {
        self.push(self.now + ms, event);
    }

    fn tell(&self, line: impl FnOnce() -> String) {
        if self.trace {
            println!("{:>7} {}", self.now, line());
        }
    }

    fn tick(&self) -> Tick {
        Tick(1_000_000 + self.now)
    }

    fn run(mut self) -> Result<PodRun, String> {
        self.push(0, Event::DriverStarts);
        if self.plan.gone.is_some() {
            self.push(self.plan.quiet_at - 1, Event::FaultHappens(Fault::LoseNode));
        }
        for (at, fault) in self.plan.faults.clone() {
            self.push(at, Event::FaultHappens(fault));
        }
        self.push(self.plan.quiet_at, Event::QuietBegins);
        while let Some(((at, _), event)) = self.queue.pop_first() {
            self.now = at;
            self.events += 1;
            self.mix(at);
            if self.trace
                && !matches!(
                    event,
                    Event::ProcessBeats(_) | Event::AllocatorWakes(_) | Event::RegistryWakes(_)
                )
            {
                println!("{at:>7} {event:?}");
            }
            self.happens(event)?;
            self.mix(self.server.version().0);
            if self.part == Part::Over {
                let (hash, events, counters) = (self.hash, self.events, self.counters);
                return Ok(PodRun { hash, events, counters });
            }
        }
        Err("L02: nothing happens any more, and the run is not over".to_owned())
    }

    fn mix(&mut self, value: u64) {
        self.hash = (self.hash ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23);
    }

    fn happens(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::AllocatorWakes(of) => self.ring_allocator(of),
            Event::RegistryWakes(of) => self.ring_registry(of),
            Event::PortSpeaks(of) => self.hear(of),
            Event::RequestArrives(of, request, lost) => self.request_arrives(of, request, lost),
            Event::AnswerArrives(of, event) => self.answer_arrives(of, event),
            Event::WatchDelivers(of) => self.deliver_changes(of),
            Event::Bookmark(of) => self.deliver_bookmark(of),
            Event::SchedulerLooks(uid) => self.schedule(&uid),
            Event::ContainerStarts(uid) => self.start_container(&uid),
            Event::ContainerEnded(uid) => self.report_container(&uid),
            Event::GraceEnds(uid) => self.end_grace(&uid),
            Event::ProcessRegisters(uid) => self.process_registers(&uid),
            Event::ProcessBeats(uid) => self.process_beats(&uid),
            Event::ProcessExits(uid, code, reason) => self.process_exits(&uid, code, reason),
            Event::ToDriver(of, event) => self.feed_registry(of, event),
            Event::ToProcess(uid, message) => self.process_hears(&uid, message),
            Event::FaultHappens(fault) => self.fault(fault),
            Event::NodeControllerActs(node) => self.evict_node(node),
            Event::NodeReturns(node, rebooted) => self.return_node(node, rebooted),
            Event::DriverStarts => self.start_driver(),
            Event::QuietBegins => self.begin_quiet(),
            Event::Looks => self.look(),
            Event::ChecksNotice => self.check_notice(),
            Event::ChecksVanished => self.check_vanished(),
            Event::Ends if self.now < self.ends_at => Ok(()),
            Event::Ends => Err(self.too_late()),
        }
    }

    /// All that went wrong is put right; what the seed has against this application stays.
    fn begin_quiet(&mut self) -> Result<(), String> {
        (self.part, self.quiet_since) = (Part::Quiet, self.now);
        self.server.calm();
        for node in 0..self.nodes.len() {
            self.return_node(node, false)?;
        }
        self.end_by(self.now + DEADLINE_MS);
        self.after(LOOK_MS, Event::Looks);
        Ok(())
    }

    fn end_by(&mut self, at: u64) {
        self.ends_at = at;
        self.push(at, Event::Ends);
    }

    fn look(&mut self) -> Result<(), String> {
        match self.part {
            Part::Quiet if self.app_is_over() => {
                self.check_failure()?;
                self.part = Part::Ending;
            }
            // A node that is gone for good takes its time to be found out.
            Part::Quiet if self.plan.gone.is_some() && self.now < self.quiet_since + GONE_MS => {}
            Part::Quiet if self.not_settled().is_none() => self.delete_one_pod()?,
            Part::Ending if self.nothing_is_left().is_none() => self.part = Part::Over,
            _ => {}
        }
        self.after(LOOK_MS, Event::Looks);
        Ok(())
    }

    fn delete_one_pod(&mut self) -> Result<(), String> {
        self.part = Part::Noticing;
        if let Some(uid) = self.processes.keys().find(|uid| self.works(uid)).cloned() {
            self.tell(|| format!("in the quiet, {uid} is deleted"));
            self.delete_by_platform(&uid, None, true)?;
        }
        self.after(NOTICE_MS, Event::ChecksNotice);
        Ok(())
    }

    fn check_notice(&mut self) -> Result<(), String> {
        if self.app_is_over() {
            self.part = Part::Ending;
            return self.check_failure();
        }
        // The user need not have heard of what lasts no second.
        let missing = self.not_settled().filter(|missing| !missing.starts_with("L22"));
        let is_found_out_later = self.nodes.iter().any(|node| node.bad) || self.waits_for_pardon();
        if missing.is_some() && is_found_out_later {
            // Some go to a node on which none starts, or avoid one on which they would.
            self.after(LOOK_MS, Event::ChecksNotice);
            return Ok(());
        }
        if let Some(missing) = missing {
            return Err(format!(
                "L21: a pod was deleted in the quiet, and {NOTICE_MS} ms later: {missing}"
            ));
        }
        match self.node_may_vanish() {
            true => self.vanish(),
            false => self.stop_application(),
        }
    }

    fn stop_application(&mut self) -> Result<(), String> {
        self.part = Part::Ending;
        self.feed_registry(self.generation, RegistryEvent::Stopped)
    }

    /// Whether the first node has room for all, and nothing else keeps executors from coming soon.
    fn node_may_vanish(&self) -> bool {
        let plain = self.plan.obstacle == Obstacle::None && self.plan.gone.is_none();
        let paced = self.plan.max_pending < self.target || self.nodes.iter().any(|node| node.bad);
        plain && !paced && self.target > 0 && self.not_settled().is_none()
    }

    /// The second node vanishes, and nobody but those who miss what is on it knows for long. At the same moment a pod is deleted: its
    /// successor may be placed there.
    fn vanish(&mut self) -> Result<(), String> {
        self.part = Part::NodeGone;
        self.counters.nodes_vanished += 1;
        self.end_by(self.ends_at + 2 * VANISHED_MS);
        let name = self.nodes[GONE].name.clone();
        (self.nodes[GONE].kubelet, self.nodes[GONE].reachable) = (false, false);
        self.book.node_lost(self.server.live().filter(|pod| pod.node.as_ref() == Some(&name)));
        if let Some(uid) = self.processes.keys().find(|uid| self.works(uid)).cloned() {
            self.delete_by_platform(&uid, None, true)?;
        }
        self.after(3 * NETWORK_TIMEOUT_MS, Event::NodeControllerActs(GONE));
        self.after(VANISHED_MS, Event::ChecksVanished);
        Ok(())
    }

    fn check_vanished(&mut self) -> Result<(), String> {
        if let Some(lacking) = self.lacking() {
            return Err(format!(
                "L23: a node vanished in the quiet, and {VANISHED_MS} ms later: {lacking}"
            ));
        }
        self.return_node(GONE, false)?;
        self.stop_application()
    }

    fn too_late(&self) -> String {
        let left = match self.part {
            Part::Ending => self.nothing_is_left().map(|left| format!("L03: {left}")),
            _ => self.not_settled().map(|missing| match missing.starts_with("L22") {
                true => missing,
                false => format!("L01: {missing}"),
            }),
        };
        left.unwrap_or_else(|| "L02: the application does not end".to_owned())
    }
}

/// How a run went.
#[derive(Debug)]
pub struct PodRun {
    /// The same for the same seed (S19).
    pub hash: u64,
    /// How many events the run took.
    pub events: u64,
    pub counters: PodCounters,
}

/// Runs one seed to its end, or to the first invariant that breaks.
pub fn simulate_pods(seed: u64, planted: Planted, trace: bool) -> Result<PodRun, Violation> {
    let ran = std::panic::catch_unwind(|| World::new(seed, planted, trace).run());
    ran.unwrap_or_else(|payload| Err(crate::panic_message(payload.as_ref())))
        .map_err(|message| Violation { seed, message })
}

/// Numbers of a driver process's executors begin here.
fn first_number(generation: u64) -> u32 {
    generation as u32 * 10_000 + 1
}

/// Executors, for rules about them.
type Executors = BTreeSet<ExecutorId>;
