//! The processes of a run, and the order in which things happen to them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::sync::Arc;

use fastrand::Rng;
use firesteel_backend::AppId;
use firesteel_backend::blame::ExitStatus;
use firesteel_backend::executor::ExecutorEvent;
use firesteel_backend::registry::RegistryEvent;
use firesteel_backend::timer::Timer;
use firesteel_standalone_core::worker::WorkerEvent;
use firesteel_standalone_core::{DriverId, ExecutorKey};
use firesteel_types::{Host, TaskId};

use crate::cached::{BlockMessage, Copying};
use crate::clock::{Clock, Machine, Walls};
use crate::decommission::RETURNS_MS;
use crate::driver::DriverNode;
use crate::network::{CLIENT, Connection, Message};
use crate::nodes::{ExecutorNode, MasterNode, WorkerNode};
use crate::plan::{DEADLINE_MS, Fault, Plan, SETTLE_MS};
use crate::reports::Fetching;
use crate::store::Store;
use crate::{Counters, Run, Settings};

/// A process of this run; never used again.
pub(crate) type ProcId = usize;

/// What a process is.
pub(crate) enum Body {
    Master(Box<MasterNode>),
    Worker(Box<WorkerNode>),
    Driver(Box<DriverNode>),
    Executor(Box<ExecutorNode>),
    /// Something the cluster runs that only takes room.
    Submitted {
        worker: ProcId,
        id: DriverId,
        supervised: bool,
    },
}

pub(crate) struct Proc {
    pub(crate) alive: bool,
    /// `None` while it is being looked after, and after its end.
    pub(crate) body: Option<Body>,
    pub(crate) kind: Kind,
    pub(crate) clock: Clock,
    /// The one timer of each of its cores, as the shells have it.
    pub(crate) timers: [Timer; 2],
    pub(crate) paused_until: u64,
    /// Connections it made, by what it calls the other end.
    pub(crate) links: BTreeMap<usize, usize>,
    pub(crate) connections: Vec<usize>,
}

/// A core of a process, by its place among the process's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Core {
    /// Of a driver: the registry of executors.
    Main,
    /// A driver's application client.
    Client,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Master,
    Worker,
    Driver,
    Executor,
    Submitted,
}

impl Proc {
    pub(crate) fn is_executor(&self) -> bool {
        self.kind == Kind::Executor
    }
}

/// What is scheduled for a moment of the simulated time.
#[derive(Debug)]
pub(crate) enum Event {
    Arrives {
        connection: usize,
        end: usize,
    },
    Broken {
        connection: usize,
        end: usize,
    },
    Refused {
        client: ProcId,
        target: usize,
    },
    Wakes(ProcId),
    /// A moment that a core asked for has come; another one may count by now.
    Rings(ProcId, Core),
    /// A driver has read all that had arrived.
    Drained(ProcId),
    /// What was said between a driver's registry and its provider is heard.
    PortSpeaks(ProcId),
    /// A driver's registry hears that a node gets no tasks, or does so again.
    NodeExcluded {
        driver: ProcId,
        node: Host,
        excluded: bool,
    },
    /// An alarm of a driver's schedulers.
    SchedulersWake(ProcId),
    TaskEnds {
        executor: ProcId,
        task: TaskId,
    },
    /// An executor that a task asked for map outputs answers, or does not.
    HolderAnswers {
        executor: ProcId,
        task: TaskId,
        lane: usize,
    },
    /// A task asks its executor for memory.
    TaskAsks {
        executor: ProcId,
        task: TaskId,
    },
    /// A task has waited for memory as long as it may.
    PatienceEnds {
        executor: ProcId,
        task: TaskId,
    },
    /// A result that waited on its executor was fetched, or could not be.
    Fetched(Box<Fetching>),
    /// A cached partition comes to those that are to hold a replica.
    Copies(Box<Copying>),
    /// A driver's order about cached partitions is sent.
    ToldLate {
        connection: usize,
        message: Box<BlockMessage>,
    },
    /// An executor asks for the next piece of the broadcast value.
    NextPiece(ProcId),
    Dies {
        proc: ProcId,
        status: ExitStatus,
    },
    ExecutorExited {
        worker: ProcId,
        key: ExecutorKey,
        status: ExitStatus,
    },
    SpawnFailed {
        worker: ProcId,
        key: ExecutorKey,
    },
    /// A worker has fetched a little more of what an executor needs.
    Prepares {
        worker: ProcId,
        executor: ProcId,
    },
    SubmittedExited {
        worker: ProcId,
        id: DriverId,
        status: ExitStatus,
    },
    WorkerGone {
        executor: ProcId,
    },
    /// The guard of a worker's supervised drivers ends them, unless it heard of a later moment.
    GuardDue {
        worker: ProcId,
    },
    StartWorker(usize),
    StartMaster(usize),
    /// A master asks its store whether it leads.
    VisitsStore(ProcId),
    StartDriver(usize),
    SubmitJob(ProcId),
    /// An operator decommissions a worker.
    DecommissionWorker,
    SubmitDriver {
        supervise: bool,
    },
    Strikes(Fault),
    /// By now a dead process must be known to be dead.
    NoticeDue {
        dead: ProcId,
        since: u64,
    },
    /// By now a worker whose connection broke must have come back, or be missed.
    CutOffDue {
        master: ProcId,
        connection: usize,
        since: u64,
    },
    /// By now a dead driver's executors must be gone.
    OrphansDue {
        driver: ProcId,
    },
    /// By now master, workers and drivers must agree.
    SettleDue,
}

struct Entry {
    at: u64,
    sequence: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.sequence) == (other.at, other.sequence)
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

pub(crate) struct World {
    pub(crate) rng: Rng,
    /// What memory and pauses draw, so that they change no run in which they do nothing.
    pub(crate) aside: Rng,
    pub(crate) plan: Plan,
    pub(crate) walls: Walls,
    pub(crate) settings: Settings,
    pub(crate) now: u64,
    queue: BinaryHeap<Reverse<Entry>>,
    sequence: u64,
    events: u64,
    hash: u64,
    pub(crate) procs: Vec<Proc>,
    pub(crate) connections: Vec<Connection>,
    pub(crate) masters: Vec<Option<ProcId>>,
    pub(crate) store: Store,
    /// When the acting master last was not there, or stood still.
    pub(crate) master_away: u64,
    /// The worker process at each place.
    pub(crate) workers: Vec<Option<ProcId>>,
    /// The driver process of each application, once it has started.
    pub(crate) drivers: Vec<Option<ProcId>>,
    pub(crate) executors: BTreeMap<ExecutorKey, ProcId>,
    pub(crate) app_ids: BTreeMap<AppId, ProcId>,
    pub(crate) spawned: BTreeSet<ExecutorKey>,
    /// The last process of each supervised driver, by the name it was submitted under.
    pub(crate) supervised: BTreeMap<String, ProcId>,
    /// When the worker at a place has, or will have, an application's executable.
    pub(crate) fetched: BTreeMap<(usize, usize), u64>,
    /// When executors were started in the last second, by application and worker.
    pub(crate) launches: BTreeMap<(usize, ProcId), VecDeque<u64>>,
    /// How many executors chance crashed, by worker.
    pub(crate) crashed: BTreeMap<ProcId, u32>,
    pub(crate) empty: Arc<[u8]>,
    over_since: Option<u64>,
    /// When a task did something to its executor that it always does.
    pub(crate) poisoned: Option<u64>,
    /// When a driver died last.
    pub(crate) driver_gone: Option<u64>,
    /// Executors and drivers that workers were to start.
    pub(crate) ordered: BTreeSet<(ProcId, String)>,
    pub(crate) counters: Counters,
}

impl World {
    pub(crate) fn new(seed: u64, settings: &Settings) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut aside = Rng::with_seed(!seed);
        let plan = Plan::draw(&mut rng, &mut aside);
        let walls = Walls::draw(&mut rng, &plan);
        let mut world = World {
            walls,
            rng,
            aside,
            settings: *settings,
            now: 0,
            queue: BinaryHeap::new(),
            sequence: 0,
            events: 0,
            hash: 0xCBF2_9CE4_8422_2325,
            procs: Vec::new(),
            connections: Vec::new(),
            masters: vec![None; plan.masters],
            store: Store::default(),
            master_away: 0,
            workers: vec![None; plan.workers.len()],
            drivers: vec![None; plan.apps.len()],
            executors: BTreeMap::new(),
            app_ids: BTreeMap::new(),
            spawned: BTreeSet::new(),
            supervised: BTreeMap::new(),
            fetched: BTreeMap::new(),
            launches: BTreeMap::new(),
            crashed: BTreeMap::new(),
            empty: Arc::from([]),
            over_since: None,
            poisoned: None,
            driver_gone: None,
            ordered: BTreeSet::new(),
            counters: Counters::default(),
            plan,
        };
        world.tell(|world| format!("plan: {:?}", world.plan));
        world.begin();
        world
    }

    fn begin(&mut self) {
        self.start_masters();
        for place in 0..self.workers.len() {
            let at = self.rng.u64(..200);
            self.push(at, Event::StartWorker(place));
        }
        for app in 0..self.drivers.len() {
            self.push(self.plan.apps[app].start, Event::StartDriver(app));
        }
        for (at, fault) in self.plan.faults.clone() {
            self.push(at, Event::Strikes(fault));
        }
        for (at, supervise) in self.plan.submitted.clone() {
            self.push(at, Event::SubmitDriver { supervise });
        }
        for at in self.plan.decommissions.clone() {
            self.push(at, Event::DecommissionWorker);
        }
        self.push(self.plan.quiet_at + SETTLE_MS, Event::SettleDue);
    }

    /// Whether things may go wrong.
    pub(crate) fn faulty(&self) -> bool {
        self.now < self.plan.quiet_at
    }

    pub(crate) fn push(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        let at = at.max(self.now);
        self.queue.push(Reverse(Entry { at, sequence: self.sequence, event }));
    }

    pub(crate) fn tell(&self, line: impl FnOnce(&World) -> String) {
        if self.settings.trace {
            println!("{:>7} {}", self.now, line(self));
        }
    }

    pub(crate) fn add(&mut self, kind: Kind, machine: Machine, body: Body) -> ProcId {
        let clock = self.walls.start(machine, self.now);
        self.procs.push(Proc {
            clock,
            alive: true,
            body: Some(body),
            kind,
            timers: Default::default(),
            paused_until: 0,
            links: BTreeMap::new(),
            connections: Vec::new(),
        });
        self.procs.len() - 1
    }

    /// Runs to the end, or to the first broken rule.
    pub(crate) fn run(mut self) -> Result<Run, String> {
        // Who waits for the machines that come back late has as long from then on.
        let waits = if self.plan.decommissions.is_empty() { 0 } else { RETURNS_MS };
        let deadline = self.plan.quiet_at + DEADLINE_MS + waits;
        while let Some(Reverse(Entry { at, sequence, event })) = self.queue.pop() {
            self.now = at;
            if at > deadline {
                return Err(self.overdue());
            }
            self.events += 1;
            self.hash = (self.hash ^ at ^ (sequence << 20)).wrapping_mul(0x0100_0000_01B3);
            self.happen(event)?;
            if at > self.plan.quiet_at && self.is_over() && self.is_left_alone() {
                break;
            }
        }
        self.check_end()?;
        self.count_stale();
        Ok(Run { hash: self.hash, events: self.events, counters: self.counters })
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        if let Some(proc) = self.subject(&event) {
            let Proc { alive, paused_until, .. } = self.procs[proc];
            if !alive {
                return Ok(());
            }
            if paused_until > self.now {
                self.push(paused_until, event);
                return Ok(());
            }
        }
        match event {
            Event::Arrives { connection, end } => self.arrives(connection, end),
            Event::Broken { connection, end } => self.broken(connection, end),
            Event::Refused { client, target } => self.refused(client, target),
            Event::Wakes(proc) => self.wake(proc),
            Event::Rings(proc, core) => self.ring(proc, core),
            Event::Drained(proc) => self.feed_driver(proc, RegistryEvent::Drained),
            Event::PortSpeaks(proc) => self.hear(proc),
            Event::NodeExcluded { driver, node, excluded } => {
                self.feed_driver(driver, RegistryEvent::NodeExcluded { node, excluded })
            }
            Event::SchedulersWake(proc) => self.wake_schedulers(proc),
            Event::TaskEnds { executor, task } => self.task_ends(executor, task),
            Event::HolderAnswers { executor, task, lane } => {
                self.holder_answers(executor, task, lane)
            }
            Event::TaskAsks { executor, task } => self.ask_for_memory(executor, task),
            Event::PatienceEnds { executor, task } => self.patience_ends(executor, task),
            Event::Fetched(fetching) => self.fetched(fetching),
            Event::Copies(copying) => self.copy(copying),
            Event::ToldLate { connection, message } => {
                self.send(connection, CLIENT, Message::Blocks(*message));
                Ok(())
            }
            Event::NextPiece(proc) => self.next_piece(proc),
            Event::Dies { proc, status } => self.die(proc, status, false),
            Event::ExecutorExited { worker, key, status } => {
                self.feed_worker(worker, WorkerEvent::ExecutorExited { key, status })
            }
            Event::SpawnFailed { worker, key } => {
                let message = "no such file".to_owned();
                let failed = WorkerEvent::ExecutorSpawnFailed { key, message };
                self.feed_worker(worker, failed)
            }
            Event::Prepares { worker, executor } => self.prepare(worker, executor),
            Event::SubmittedExited { worker, id, status } => {
                let exited = WorkerEvent::DriverExited { driver: id, status };
                self.feed_worker(worker, exited)
            }
            // Its worker's reaper ends what does not notice.
            Event::WorkerGone { executor } if self.is_frozen(executor) => {
                self.die(executor, ExitStatus::Signal(9), false)
            }
            Event::WorkerGone { executor } => {
                self.feed_executor(executor, ExecutorEvent::WorkerGone)
            }
            Event::GuardDue { worker } => self.guard_is_due(worker),
            Event::StartWorker(place) => self.start_worker(place),
            Event::StartMaster(number) => self.start_master(number),
            Event::VisitsStore(proc) => self.visit_store(proc),
            Event::StartDriver(app) => self.start_driver(app),
            Event::SubmitJob(proc) => self.submit_job(proc, None),
            Event::SubmitDriver { supervise } => self.submit_driver(supervise),
            Event::DecommissionWorker => self.decommission_some_worker(),
            Event::Strikes(fault) => self.strike(fault),
            Event::NoticeDue { dead, since } => self.check_noticed(dead, since),
            Event::CutOffDue { master, connection, since } => {
                self.check_cut_off(master, connection, since)
            }
            Event::OrphansDue { driver } => self.check_orphans(driver),
            Event::SettleDue => self.settle(),
        }
    }

    /// The process that has to be there, and awake, for this to happen.
    fn subject(&self, event: &Event) -> Option<ProcId> {
        match event {
            Event::WorkerGone { executor } if self.is_frozen(*executor) => None,
            Event::Broken { connection, end } => Some(self.connections[*connection].ends[*end]),
            Event::Refused { client: proc, .. }
            | Event::Wakes(proc)
            | Event::Rings(proc, _)
            | Event::Drained(proc)
            | Event::PortSpeaks(proc)
            | Event::NodeExcluded { driver: proc, .. }
            | Event::SchedulersWake(proc)
            | Event::TaskEnds { executor: proc, .. }
            | Event::HolderAnswers { executor: proc, .. }
            | Event::TaskAsks { executor: proc, .. }
            | Event::PatienceEnds { executor: proc, .. }
            | Event::ExecutorExited { worker: proc, .. }
            | Event::SpawnFailed { worker: proc, .. }
            | Event::Prepares { worker: proc, .. }
            | Event::SubmittedExited { worker: proc, .. }
            | Event::WorkerGone { executor: proc }
            | Event::NextPiece(proc)
            | Event::VisitsStore(proc)
            | Event::CutOffDue { master: proc, .. }
            | Event::SubmitJob(proc) => Some(*proc),
            Event::Fetched(fetching) => Some(fetching.driver),
            Event::Copies(copying) => Some(copying.holder),
            _ => None,
        }
    }

    /// Whether nothing has ended for a while; not asked of short runs, where nothing is checked then.
    fn is_left_alone(&mut self) -> bool {
        let over = *self.over_since.get_or_insert(self.now);
        let settled = self.plan.quiet_at + SETTLE_MS;
        let checked = over > settled || self.plan.apps.iter().any(|app| app.lingers);
        !checked || self.now > (over + 3000).max(settled)
    }

    /// Whether nothing is left to happen but heartbeats.
    fn is_over(&self) -> bool {
        let drivers = self
            .drivers
            .iter()
            .all(|driver| driver.is_some_and(|driver| !self.procs[driver].alive));
        drivers && self.executors.values().all(|executor| !self.procs[*executor].alive)
    }
}
