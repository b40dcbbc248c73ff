//! What a seed decides before a run begins. Some runs are calm, some savage; each draws its own habits.

use fastrand::Rng;
use firesteel_backend::blame::ExitStatus;

/// `spark.worker.timeout` of every run.
pub(crate) const WORKER_TIMEOUT_MS: u64 = 4000;
/// `spark.firesteel.supervise.lease` of every run.
pub(crate) const DRIVER_LEASE_MS: u64 = 5000;
/// `spark.network.timeout` of every run.
pub(crate) const NETWORK_TIMEOUT_MS: u64 = 4000;
/// How often everybody sends heartbeats.
pub(crate) const HEARTBEAT_MS: u64 = 1000;
/// How long after the last fault the views of master, workers and drivers must agree.
pub(crate) const SETTLE_MS: u64 = 20_000;
/// How long after the last fault everything must be over.
pub(crate) const DEADLINE_MS: u64 = 180_000;

/// What a driver takes that the cluster runs.
pub(crate) const SUBMITTED_CORES: u32 = 1;
pub(crate) const SUBMITTED_MB: u64 = 100;

/// How an application's executors come to grief.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// They do not.
    None,
    /// They end as soon as they run.
    FalseStarts,
    /// They cannot be started.
    SpawnFailures,
}

/// What one task of an application's first job does whenever it runs (L06).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Poison {
    /// Its executor's process ends with this.
    Exit(ExitStatus),
    /// Its executor stands still until somebody ends it.
    Freeze,
    /// It brings more than a message can hold: its executor reports that instead.
    Overlarge,
}

#[derive(Clone, Debug)]
pub(crate) struct AppPlan {
    pub(crate) start: u64,
    pub(crate) max_cores: Option<u32>,
    pub(crate) cores_per_executor: Option<u32>,
    pub(crate) memory_mb: u64,
    pub(crate) limit: Option<u32>,
    pub(crate) jobs: Vec<u64>,
    /// How much work may wait at its executors, in microseconds.
    pub(crate) pipeline_us: u64,
    /// How long tasks wait for the executor that has their cached partition.
    pub(crate) locality_wait_ms: u64,
    /// Slow tasks get copies.
    pub(crate) speculates: bool,
    /// Executors and nodes on which tasks fail get no tasks for a while.
    pub(crate) excludes: bool,
    pub(crate) fair: bool,
    /// Its tasks ask for more memory than there is.
    pub(crate) hungry: bool,
    /// It stays until master, workers and drivers must agree.
    pub(crate) lingers: bool,
    pub(crate) flaw: Flaw,
    pub(crate) poison: Option<Poison>,
    /// How long it takes a worker to fetch its executable, the first time: longer than its driver waits for a word.
    pub(crate) fetch_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerPlan {
    pub(crate) cores: u32,
    pub(crate) memory_mb: u64,
}

/// `spark.deploy.recoveryMode` of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// A master that starts knows nothing.
    None,
    /// One master, and its directory.
    FileSystem,
    /// A service elects one of some masters, and has their state.
    Elected,
}

/// One thing that goes wrong, at its moment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    CrashExecutor,
    CrashWorker,
    CrashMachine,
    CrashMaster,
    CrashDriver,
    PauseExecutor,
    PauseWorker,
    PauseDriver,
    PauseMaster,
    BreakConnection,
    StallConnection,
    CancelJob,
    KillTask,
    SpoilOutputs,
    SetClock,
    ReleaseExecutor,
    ChangeTarget,
    DropShuffle,
    LoseStore,
    TearWrite,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) workers: Vec<WorkerPlan>,
    pub(crate) apps: Vec<AppPlan>,
    /// The place whose worker can start no executor: its disk is full.
    pub(crate) bad_place: Option<usize>,
    /// One of them leads, the others are standbys.
    pub(crate) masters: usize,
    pub(crate) recovery: Recovery,
    /// Nothing goes wrong but with masters, their stores and the connections to them: no executor may be lost (S25).
    pub(crate) masters_only: bool,
    pub(crate) spread_out: bool,
    /// How often a worker asks for a master before it gives up.
    pub(crate) worker_attempts: u32,
    /// Per cent, on connections with masters only: those with executors are one stream of bytes.
    pub(crate) loss: u8,
    pub(crate) repetition: u8,
    pub(crate) overtaking: u8,
    pub(crate) delay_ms: u64,
    /// Per mille of tasks.
    pub(crate) panics: u16,
    pub(crate) task_crashes: u16,
    pub(crate) faults: Vec<(u64, Fault)>,
    /// Drivers that the cluster runs: when they come, and whether they are supervised.
    pub(crate) submitted: Vec<(u64, bool)>,
    /// When an operator decommissions a worker.
    pub(crate) decommissions: Vec<u64>,
    /// No map output comes out as it did before.
    pub(crate) fickle: bool,
    /// Tasks read map outputs from one executor after the other, and not all of them in one moment.
    pub(crate) stepwise: bool,
    pub(crate) quiet_at: u64,
}

fn app(rng: &mut Rng, aside: &mut Rng, quiet_at: u64) -> AppPlan {
    let start = rng.u64(..2000);
    let jobs = (0..rng.u8(1..4)).map(|_| start + rng.u64(..quiet_at / 2 + 1)).collect();
    let flaw = match rng.u8(..16) {
        0 => Flaw::FalseStarts,
        1 => Flaw::SpawnFailures,
        _ => Flaw::None,
    };
    AppPlan {
        start,
        max_cores: rng.bool().then(|| rng.u32(2..7)),
        cores_per_executor: rng.bool().then(|| rng.u32(1..3)),
        memory_mb: 100 * rng.u64(1..5),
        limit: (rng.u8(..3) == 0).then(|| rng.u32(1..4)),
        jobs,
        pipeline_us: [0, 300_000, 10_000_000][rng.usize(..3)],
        locality_wait_ms: if rng.bool() { 0 } else { 400 },
        speculates: rng.u8(..4) == 0,
        excludes: rng.u8(..6) == 0,
        fair: rng.bool(),
        hungry: aside.u8(..4) == 0,
        lingers: rng.u8(..4) == 0,
        flaw,
        poison: (rng.u8(..6) == 0).then(|| poison(rng)),
        fetch_ms: (rng.u8(..6) == 0).then(|| NETWORK_TIMEOUT_MS + 1500 + rng.u64(..2000)),
    }
}

fn poison(rng: &mut Rng) -> Poison {
    let codes = [0, 0, 1, 56, 60, 61, 62, 63, 134];
    match rng.u8(..8) {
        0..=3 => Poison::Exit(ExitStatus::Code(codes[rng.usize(..codes.len())])),
        4 => Poison::Exit(ExitStatus::Signal(9)),
        5..=6 => Poison::Freeze,
        _ => Poison::Overlarge,
    }
}

fn fault(rng: &mut Rng) -> Fault {
    match rng.u8(..48) {
        0..=5 => Fault::CrashExecutor,
        6..=8 => Fault::CrashWorker,
        9 => Fault::CrashMachine,
        10 | 42..=43 => Fault::CrashMaster,
        11 => Fault::CrashDriver,
        12..=14 => Fault::PauseExecutor,
        15..=16 => Fault::PauseWorker,
        17 => Fault::PauseDriver,
        18 | 44 => Fault::PauseMaster,
        45..=46 => Fault::LoseStore,
        47 => Fault::TearWrite,
        19..=23 => Fault::BreakConnection,
        24..=28 => Fault::StallConnection,
        29 => Fault::CancelJob,
        30..=31 => Fault::KillTask,
        32..=35 => Fault::SpoilOutputs,
        36..=37 => Fault::SetClock,
        38 => Fault::ReleaseExecutor,
        39 => Fault::ChangeTarget,
        _ => Fault::DropShuffle,
    }
}

fn fault_of_masters(rng: &mut Rng) -> Fault {
    match rng.u8(..12) {
        0..=3 => Fault::CrashMaster,
        4..=6 => Fault::PauseMaster,
        7..=8 => Fault::BreakConnection,
        9 => Fault::LoseStore,
        10 => Fault::TearWrite,
        _ => Fault::SetClock,
    }
}

/// The same with nothing that could cost an executor but its masters.
fn with_masters_only(mut plan: Plan, rng: &mut Rng) -> Plan {
    plan.masters_only = true;
    plan.decommissions.clear();
    plan.bad_place = None;
    (plan.loss, plan.repetition, plan.overtaking, plan.delay_ms) = (0, 0, 0, 2);
    (plan.panics, plan.task_crashes, plan.worker_attempts) = (0, 0, 60);
    plan.faults.iter_mut().for_each(|(_, fault)| *fault = fault_of_masters(rng));
    for app in &mut plan.apps {
        (app.flaw, app.poison, app.fetch_ms, app.excludes) = (Flaw::None, None, None, false);
    }
    plan
}

impl Plan {
    pub(crate) fn draw(rng: &mut Rng, aside: &mut Rng) -> Self {
        let quiet_at = 2000 + rng.u64(..7000);
        let workers = (0..rng.u8(1..5))
            .map(|_| WorkerPlan { cores: rng.u32(2..6), memory_mb: 100 * rng.u64(5..12) });
        let workers: Vec<WorkerPlan> = workers.collect();
        let bad_place = (rng.u8(..6) == 0).then(|| rng.usize(..workers.len()));
        let savage = rng.u8(..3) == 0;
        let percent = |rng: &mut Rng| if savage { rng.u8(..4) * rng.u8(..8) } else { 0 };
        let faults = if rng.u8(..8) == 0 { 0 } else { rng.usize(..12) };
        let recovery = [Recovery::None, Recovery::FileSystem, Recovery::Elected][rng.usize(..3)];
        let masters = if recovery == Recovery::Elected { rng.usize(1..4) } else { 1 };
        let masters_only = rng.u8(..5) == 0;
        let plan = Plan {
            workers,
            bad_place,
            apps: (0..rng.u8(1..4)).map(|_| app(rng, aside, quiet_at)).collect(),
            masters,
            recovery,
            masters_only: false,
            spread_out: rng.bool(),
            worker_attempts: if rng.bool() { 6 } else { 30 },
            loss: percent(rng),
            repetition: percent(rng),
            overtaking: percent(rng),
            delay_ms: 2 + rng.u64(..3) * rng.u64(..200),
            panics: rng.u16(..2) * rng.u16(..80) * rng.u16(1..6),
            task_crashes: rng.u16(..2) * rng.u16(..30),
            faults: (0..faults).map(|_| (rng.u64(..quiet_at), fault(rng))).collect(),
            fickle: aside.u8(..4) == 0,
            submitted: (0..rng.u8(..4) / 2)
                .map(|_| (rng.u64(..quiet_at), rng.u8(..4) > 0))
                .collect(),
            decommissions: (0..aside.u8(..4) / 2).map(|_| aside.u64(..quiet_at)).collect(),
            stepwise: aside.u8(..3) == 0,
            quiet_at,
        };
        if masters_only { with_masters_only(plan, rng) } else { plan }
    }
}
