//! What master, worker and driver say to each other. Closed enums: what is not listed here cannot be said.

use std::sync::Arc;

use firesteel_backend::{Address, AppId};
use firesteel_types::{ExecutorId, Host};
use serde::{Deserialize, Serialize};

use crate::description::{
    ApplicationDescription, DriverDescription, DriverReport, DriverState, ExecutorReport,
    ExecutorUpdate, WorkerDescription, WorkerState,
};
use crate::{DriverId, Epoch, ExecutorKey, Incarnation, Registration, WorkerId};

/// To a master.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToMaster {
    /// A worker wants to join, or to be known again; it tells what it runs already.
    RegisterWorker {
        /// Who.
        worker: WorkerDescription,
        /// What it runs.
        state: WorkerState,
        /// The newest master that took it in: later ones have larger epochs, whatever their clocks show.
        newest: Epoch,
    },
    /// A registered worker tells all it runs: right after its registration, as Spark has it.
    WorkerLatestState {
        /// Who.
        worker: WorkerId,
        /// Under which registration.
        registration: Registration,
        /// What it runs.
        state: WorkerState,
    },
    /// A registered worker lives; it tells all it runs.
    Heartbeat {
        /// Who.
        worker: WorkerId,
        /// Under which registration.
        registration: Registration,
        /// What it runs.
        state: WorkerState,
    },
    /// One executor's state, at once.
    ExecutorStateChanged {
        /// Whose.
        worker: WorkerId,
        /// Under which registration.
        registration: Registration,
        /// The worker's number of this message.
        number: u64,
        /// The state.
        report: ExecutorReport,
    },
    /// One driver's state, at once.
    DriverStateChanged {
        /// Whose.
        worker: WorkerId,
        /// Under which registration.
        registration: Registration,
        /// The worker's number of this message.
        number: u64,
        /// The state.
        report: DriverReport,
    },
    /// A driver wants executors.
    RegisterApplication {
        /// What it asks for.
        description: Arc<ApplicationDescription>,
        /// Which driver process: the same one asking twice is one application.
        incarnation: Incarnation,
        /// The id it had with a master that is gone.
        previous: Option<AppId>,
        /// The first number its executors may have: smaller ones are taken.
        first_executor: ExecutorId,
        /// The newest master that took it in: later ones have larger epochs, whatever their clocks show.
        newest: Epoch,
    },
    /// A driver lives; it tells what it wants and what it has.
    ApplicationHeartbeat {
        /// Who.
        app: AppId,
        /// How many executors it wants, when that is limited.
        limit: Option<u32>,
        /// Executors that are registered with it.
        executors: Vec<ExecutorId>,
        /// How many have ever been: one may have come and gone since the last heartbeat.
        registrations: u64,
        /// Hosts on which it wants no more executors.
        excluded: Vec<Host>,
    },
    /// So many executors are wanted, from now on.
    RequestExecutors {
        /// By whom.
        app: AppId,
        /// How many in all.
        total: u32,
    },
    /// These executors shall end; others may take their place.
    KillExecutors {
        /// Whose.
        app: AppId,
        /// Which.
        executors: Vec<ExecutorId>,
    },
    /// The application is over.
    UnregisterApplication {
        /// Which.
        app: AppId,
    },
    /// The driver follows the new master.
    MasterChangeAcknowledged {
        /// Who.
        app: AppId,
    },
    /// Run this driver.
    RequestSubmitDriver {
        /// Which.
        description: Arc<DriverDescription>,
    },
    /// End this driver.
    RequestKillDriver {
        /// Which.
        driver: DriverId,
    },
    /// How far is this driver?
    RequestDriverStatus {
        /// Which.
        driver: DriverId,
    },
    /// End all drivers.
    RequestKillAllDrivers,
    /// Forget the applications and drivers that are over.
    RequestClearCompletedDriversAndApps,
    /// Does this master act?
    RequestReadyz,
}

/// Anything a master says carries the master's epoch: what an older one said is void.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamped<T> {
    /// Which term of which master.
    pub epoch: Epoch,
    /// What it says.
    pub message: T,
}

/// From a master to whoever asked without being registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MasterReply {
    /// Another master acts.
    MasterInStandby,
    /// A driver was accepted, or was not.
    SubmitDriverResponse {
        /// Its id, or why not.
        result: Result<DriverId, String>,
    },
    /// A driver is being ended, or cannot be.
    KillDriverResponse {
        /// Which.
        driver: DriverId,
        /// What happens, or why nothing does.
        result: Result<String, String>,
    },
    /// How far a driver is.
    DriverStatusResponse {
        /// Which.
        driver: DriverId,
        /// How far, if it is known.
        state: Option<DriverState>,
        /// Where.
        worker: Option<(WorkerId, Address)>,
    },
    /// It was done, or it is so.
    Done,
}

/// From a master to a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToWorker {
    /// It is registered.
    RegisteredWorker {
        /// Under this number.
        registration: Registration,
        /// The master's own name: `spark://host:7077`.
        url: String,
        /// The master's page.
        web_ui: String,
        /// How often the master wants to hear of it: a part of its own timeout.
        heartbeat_ms: u64,
    },
    /// It is not registered.
    RegisterWorkerFailed {
        /// Which process was meant.
        incarnation: Incarnation,
        /// Why, and what to do.
        reason: String,
        /// Whether asking again later may help.
        retry: bool,
    },
    /// Another master acts.
    MasterInStandby,
    /// The master does not know it: register.
    ReconnectWorker,
    /// Another master acts now: register with it.
    MasterChanged {
        /// Its name.
        url: String,
    },
    /// Start an executor.
    LaunchExecutor {
        /// Under which registration.
        registration: Registration,
        /// Which.
        key: ExecutorKey,
        /// Of what.
        description: Arc<ApplicationDescription>,
        /// Its cores.
        cores: u32,
        /// Its memory.
        memory_mb: u64,
    },
    /// End an executor, and never start it.
    KillExecutor {
        /// Under which registration.
        registration: Registration,
        /// Which.
        key: ExecutorKey,
    },
    /// Its end is known: it need not be told again.
    ExecutorEndKnown {
        /// Under which registration.
        registration: Registration,
        /// Which.
        key: ExecutorKey,
    },
    /// Start a driver.
    LaunchDriver {
        /// Under which registration.
        registration: Registration,
        /// Which.
        driver: DriverId,
        /// Of what.
        description: Arc<DriverDescription>,
    },
    /// End a driver, and never start it.
    KillDriver {
        /// Under which registration.
        registration: Registration,
        /// Which.
        driver: DriverId,
    },
    /// Its end is known: it need not be told again.
    DriverEndKnown {
        /// Under which registration.
        registration: Registration,
        /// Which.
        driver: DriverId,
    },
    /// Nothing of the application is needed any more.
    ApplicationFinished {
        /// Which.
        app: AppId,
    },
}

/// From a master to a driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToApplication {
    /// It is registered.
    RegisteredApplication {
        /// Under this id.
        app: AppId,
        /// The master's own name.
        url: String,
        /// How often the master wants to hear of it: a part of its own timeout.
        heartbeat_ms: u64,
    },
    /// Another master acts.
    MasterInStandby,
    /// The master does not know it: register.
    ReconnectApplication,
    /// Another master acts now.
    MasterChanged {
        /// Its name.
        url: String,
    },
    /// An executor was ordered.
    ExecutorAdded {
        /// Which.
        executor: ExecutorId,
        /// Where.
        worker: WorkerId,
        /// On which host.
        host: Host,
        /// Its cores.
        cores: u32,
        /// Its memory.
        memory_mb: u64,
    },
    /// An executor's state.
    ExecutorUpdated(ExecutorUpdate),
    /// A worker is gone, with all that lay on it.
    WorkerRemoved {
        /// Which.
        worker: WorkerId,
        /// On which host.
        host: Host,
        /// Why.
        message: String,
    },
    /// No worker can run an executor of it for now.
    ApplicationStarved {
        /// What is missing.
        message: String,
    },
    /// The master ended it.
    ApplicationRemoved {
        /// Why.
        message: String,
    },
}
