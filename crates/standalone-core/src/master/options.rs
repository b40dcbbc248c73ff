//! What a user may set about a master.

use firesteel_backend::mutant::Planted;

/// The rules of a master.
#[derive(Clone, Debug)]
pub struct MasterOptions {
    /// Its own name: `spark://host:7077`.
    pub url: String,
    pub web_ui: String,
    /// `spark.worker.timeout`: how long a worker may be silent; a driver too.
    pub worker_timeout_ms: u64,
    /// `spark.dead.worker.persistence`: for how many timeouts a dead worker stays listed.
    pub dead_worker_persistence: u32,
    /// `spark.deploy.spreadOutApps`
    pub spread_out_apps: bool,
    /// `spark.deploy.spreadOutDrivers`
    pub spread_out_drivers: bool,
    /// `spark.deploy.defaultCores`; `None`: as many as there are.
    pub default_cores: Option<u32>,
    /// `spark.deploy.maxExecutorRetries`; negative: without end.
    pub max_executor_retries: i32,
    /// After what time without a crash the crashes of an application's executors are forgotten.
    pub crash_memory_ms: u64,
    /// After what time without any executor an application hears what is missing.
    pub starvation_ms: u64,
    /// `spark.deploy.retainedApplications`
    pub retained_applications: usize,
    /// `spark.deploy.retainedDrivers`
    pub retained_drivers: usize,
    /// `spark.deploy.recoveryTimeout`: how long a new leader waits for those that the one before it knew. As long, one that
    /// knows nothing adopts what it hears of.
    pub recovery_timeout_ms: u64,
    /// `spark.firesteel.supervise.lease`: how long a worker that no master answers lets supervised drivers run; 0: for ever.
    pub driver_lease_ms: u64,
    /// Other masters may lead: a later term that somebody knows is another leader's.
    pub elected: bool,
    /// The first number in ids of applications and drivers, drawn at its start: a clock that was set back gives the date
    /// of another master's ids once more.
    pub first_number: u16,
    /// Mistakes that the simulator plants; none in production.
    pub planted: Planted,
}

impl Default for MasterOptions {
    fn default() -> Self {
        MasterOptions {
            url: String::new(),
            web_ui: String::new(),
            worker_timeout_ms: 60_000,
            dead_worker_persistence: 15,
            spread_out_apps: true,
            spread_out_drivers: true,
            default_cores: None,
            max_executor_retries: 10,
            crash_memory_ms: 10_000,
            starvation_ms: 15_000,
            retained_applications: 200,
            retained_drivers: 200,
            recovery_timeout_ms: 60_000,
            driver_lease_ms: 120_000,
            elected: false,
            first_number: 0,
            planted: Planted::default(),
        }
    }
}

impl MasterOptions {
    /// How often workers and drivers send heartbeats, and how often the master looks.
    pub fn heartbeat_ms(&self) -> u64 {
        (self.worker_timeout_ms / 4).max(1)
    }

    /// How long after the last heartbeat of a worker its supervised drivers have surely ended: clocks gain and lose.
    pub fn fence_ms(&self) -> u64 {
        self.driver_lease_ms.saturating_add(self.driver_lease_ms / 8)
    }
}
