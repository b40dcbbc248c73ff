//! The messages between master, worker and driver. Closed enums: there are no others.

use std::sync::Arc;

use firesteel_backend::provider::Preparing;
use firesteel_backend::{Address, AppId};
use firesteel_types::{ExecutorId, Host};
use serde::{Deserialize, Serialize};

use crate::description::{
    ApplicationDescription, DriverDescription, DriverReport, DriverState, ExecutorReport,
    ExecutorUpdate, WorkerDescription, WorkerState,
};
use crate::{DriverId, ExecutorKey, Incarnation, Registration, Term, WorkerId};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToMaster {
    /// A worker wants to join, or to be known again; it tells what it runs already.
    RegisterWorker {
        worker: WorkerDescription,
        state: WorkerState,
        /// The newest master that took it in: later ones have larger terms, whatever their clocks show.
        newest: Term,
    },
    /// A registered worker tells all it runs: right after its registration, as Spark has it.
    WorkerLatestState {
        worker: WorkerId,
        registration: Registration,
        state: WorkerState,
    },
    /// Of a registered worker; it tells all it runs.
    Heartbeat {
        worker: WorkerId,
        registration: Registration,
        state: WorkerState,
    },
    /// A registered worker ends, and all that runs on it with it.
    UnregisterWorker {
        worker: WorkerId,
        registration: Registration,
        /// Drivers whose processes may still be there: until they are gone none of them is started elsewhere.
        drivers: Vec<DriverId>,
    },
    /// One executor's state, at once.
    ExecutorStateChanged {
        worker: WorkerId,
        registration: Registration,
        /// The worker's number of this message.
        number: u64,
        report: ExecutorReport,
    },
    /// One driver's state, at once.
    DriverStateChanged {
        worker: WorkerId,
        registration: Registration,
        /// The worker's number of this message.
        number: u64,
        report: DriverReport,
    },
    /// A driver wants executors.
    RegisterApplication {
        description: Arc<ApplicationDescription>,
        /// Which driver process: the same one asking twice is one application.
        incarnation: Incarnation,
        /// The id it had with a master that is gone.
        previous: Option<AppId>,
        /// The first number its executors may have: smaller ones are taken.
        first_executor: ExecutorId,
        /// The newest master that took it in: later ones have larger terms, whatever their clocks show.
        newest: Term,
        /// Executors that are registered with it: with a master that knows nothing yet they are not to be replaced.
        executors: Vec<ExecutorId>,
    },
    /// From a worker or driver that is registered with another master: it hears when this one leads.
    Following {
        follower: Follower,
        /// The newest master that took it in.
        newest: Term,
    },
    /// Of a driver; it tells what it wants and what it has.
    ApplicationHeartbeat {
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
        app: AppId,
        /// How many in all.
        total: u32,
    },
    /// These executors shall end; others may take their place.
    KillExecutors {
        app: AppId,
        executors: Vec<ExecutorId>,
    },
    /// The application is over.
    UnregisterApplication {
        app: AppId,
    },
    RequestSubmitDriver {
        description: Arc<DriverDescription>,
    },
    RequestKillDriver {
        driver: DriverId,
    },
    /// How far is this driver?
    RequestDriverStatus {
        driver: DriverId,
    },
    RequestKillAllDrivers,
    /// The workers of this id, at this host or at this address get nothing more to do: their machine is to be taken away.
    RequestDecommissionWorkers {
        name: String,
    },
    /// Forget the applications and drivers that are over.
    RequestClearCompletedDriversAndApps,
    /// Does this master lead?
    RequestReadyz,
    /// An operator ends an application.
    RequestKillApplication {
        app: AppId,
    },
}

impl ToMaster {
    /// Whether an operator or a client asks, through a gateway or a page of the master's own process. Workers and drivers, who all
    /// have the cluster's secret, have no business to.
    pub fn is_of_operator(&self) -> bool {
        matches!(
            self,
            ToMaster::RequestSubmitDriver { .. }
                | ToMaster::RequestKillDriver { .. }
                | ToMaster::RequestDriverStatus { .. }
                | ToMaster::RequestKillAllDrivers
                | ToMaster::RequestDecommissionWorkers { .. }
                | ToMaster::RequestClearCompletedDriversAndApps
                | ToMaster::RequestReadyz
                | ToMaster::RequestKillApplication { .. }
        )
    }
}

/// Who asks a master whether it leads by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Follower {
    Worker,
    Application,
}

/// A message of a master with the master's term: receivers drop messages of an older one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamped<T> {
    /// The sender's fencing term.
    pub term: Term,
    pub message: T,
}

/// From a master to a client that asked without being registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MasterReply {
    /// Another master leads: this one, if it is known.
    MasterInStandby { leader: Option<String> },
    /// A driver was accepted, or was not.
    SubmitDriverResponse {
        /// Its id, or why not.
        result: Result<DriverId, String>,
    },
    /// A driver is being ended, or cannot be.
    KillDriverResponse {
        driver: DriverId,
        /// What happens, or why nothing does.
        result: Result<String, String>,
    },
    /// How far a driver is.
    DriverStatusResponse {
        driver: DriverId,
        /// How far, if it is known.
        state: Option<DriverState>,
        worker: Option<(WorkerId, Address)>,
        /// Why it ended without success, if it did and that is known; or why it waits for ever.
        reason: Option<String>,
    },
    /// These workers are decommissioned; none if no worker is called that.
    DecommissionResponse {
        workers: Vec<WorkerId>,
        /// Executors and drivers that still run there.
        running: u32,
    },
    /// It was done, or it is so.
    Done,
    /// An application was ended, or could not be.
    KillApplicationResponse {
        app: AppId,
        /// What happens, or why nothing does.
        result: Result<String, String>,
    },
}

/// From a master to a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToWorker {
    RegisteredWorker {
        registration: Registration,
        /// The master's own name: `spark://host:7077`.
        url: String,
        web_ui: String,
        /// How often the master wants to hear of it: a part of its own timeout.
        heartbeat_ms: u64,
        /// How long its supervised drivers may run after a heartbeat that the master answered; 0: for ever.
        driver_lease_ms: u64,
        /// Whether masters elected it, so that others lead before and after it. Else there should be no other.
        elected: bool,
    },
    RegisterWorkerFailed {
        /// Which process was meant.
        incarnation: Incarnation,
        /// Why, and what to do.
        reason: String,
        /// Whether asking again later may help.
        retry: bool,
    },
    /// Another master leads: this one, if it is known.
    MasterInStandby { leader: Option<String> },
    /// The report of this number was heard.
    HeartbeatKnown { registration: Registration, number: u64 },
    /// The master does not know it: register.
    ReconnectWorker,
    /// Another master leads now: register with it.
    MasterChanged { url: String },
    LaunchExecutor {
        registration: Registration,
        key: ExecutorKey,
        description: Arc<ApplicationDescription>,
        cores: u32,
        memory_mb: u64,
        /// Workers that have what it needs, or fetch it: they may serve it too.
        peers: Vec<Address>,
    },
    /// End an executor, and never start it.
    KillExecutor { registration: Registration, key: ExecutorKey },
    /// Its end is known: it need not be told again.
    ExecutorEndKnown { registration: Registration, key: ExecutorKey },
    LaunchDriver {
        registration: Registration,
        driver: DriverId,
        description: Arc<DriverDescription>,
    },
    /// End a driver, and never start it.
    KillDriver { registration: Registration, driver: DriverId },
    /// Its end is known: it need not be told again.
    DriverEndKnown { registration: Registration, driver: DriverId },
    /// Nothing of the application is needed any more.
    ApplicationFinished { app: AppId },
    /// It gets nothing more to do, and tells so every master from now on.
    DecommissionWorker { registration: Registration },
}

/// From a master to a driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToApplication {
    RegisteredApplication {
        app: AppId,
        url: String,
        /// How often the master wants to hear of it: a part of its own timeout.
        heartbeat_ms: u64,
        /// Whether masters elected it, so that others lead before and after it. Else there should be no other.
        elected: bool,
    },
    /// Another master leads: this one, if it is known.
    MasterInStandby {
        leader: Option<String>,
    },
    /// The master does not know it: register.
    ReconnectApplication,
    /// Another master leads now.
    MasterChanged {
        url: String,
    },
    /// An executor was ordered.
    ExecutorAdded {
        executor: ExecutorId,
        worker: WorkerId,
        host: Host,
        cores: u32,
        memory_mb: u64,
    },
    ExecutorUpdated(ExecutorUpdate),
    /// A worker makes ready what an executor needs, and has come further.
    ExecutorPreparing {
        executor: ExecutorId,
        preparing: Preparing,
    },
    /// A worker is gone, with all that lay on it.
    WorkerRemoved {
        worker: WorkerId,
        host: Host,
        message: String,
    },
    /// Executors of it are missing, or are not any more.
    ApplicationStarved {
        /// Which, and why; `None`: none is.
        shortage: Option<String>,
    },
    /// The master ended it.
    ApplicationRemoved {
        message: String,
    },
}
