//! What a user may set about an application's executors on Kubernetes.

use firesteel_backend::AppId;

use crate::mutant::Planted;
use crate::{Generation, PodUid, VolumeName};

/// Which pods of executors that are over are kept for people to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// `spark.kubernetes.executor.deleteOnTermination` is true.
    None,
    /// It is not set: those that the application ended by itself, the latest so many.
    Failures(usize),
    /// It is false: all whose process ended, the latest so many.
    All(usize),
}

/// What to do about a pod that no node can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unschedulable {
    /// Wait: a node may come, or room on one. The user hears why.
    Wait,
    /// Withdraw it after its time, and try again now and then.
    Shrink,
    /// The same, and end the application when it has no executor at all.
    Fail,
}

/// How long a pod may stay in a state.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// A request without an answer (`spark.kubernetes.driver.requestTimeout`).
    pub request_ms: u64,
    /// Created, and in no list or watch yet (`spark.kubernetes.executor.missingPodDetectDelta`).
    pub seen_ms: u64,
    /// Created, and not assigned to a node.
    pub scheduled_ms: u64,
    /// With a node, until its kubelet takes it.
    pub accepted_ms: u64,
    /// The same, where nothing is heard of what else is on that node.
    pub doubted_ms: u64,
    /// With a node, until its container runs (`spark.kubernetes.allocation.executor.timeout`).
    pub started_ms: u64,
    /// Its image cannot be pulled.
    pub image_ms: u64,
    /// With a volume that another pod had, until its container runs.
    pub attached_ms: u64,
    /// Running, until it registers.
    pub registered_ms: u64,
    /// Its connection to the driver broke, until its pod says why.
    pub explained_ms: u64,
    /// Beyond its grace period, until it is gone; it is deleted by force then.
    pub terminated_ms: u64,
    /// How long nothing of a watch may be heard; bookmarks come once a minute.
    pub watch_idle_ms: u64,
    /// How long lists may be older than what was seen before the cluster is taken to have been restored.
    pub regression_ms: u64,
    /// How long an application without executors waits for an API server.
    pub api_ms: u64,
}

impl Default for Deadlines {
    fn default() -> Self {
        Deadlines {
            request_ms: 10_000,
            seen_ms: 30_000,
            scheduled_ms: 600_000,
            accepted_ms: 30_000,
            doubted_ms: 2_000,
            started_ms: 600_000,
            image_ms: 120_000,
            attached_ms: 120_000,
            registered_ms: 100_000,
            explained_ms: 15_000,
            terminated_ms: 10_000,
            watch_idle_ms: 150_000,
            regression_ms: 60_000,
            api_ms: 600_000,
        }
    }
}

/// Which executor is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RollPolicy {
    Id,
    AddTime,
}

/// Executors are replaced one by one (`spark.kubernetes.executor.rollInterval`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roll {
    pub interval_ms: u64,
    pub policy: RollPolicy,
}

/// How long to wait before something is tried again.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// After the first failure; twice as long after each further one.
    pub first_ms: u64,
    pub longest_ms: u64,
}

impl Default for Waits {
    fn default() -> Self {
        Waits { first_ms: 1_000, longest_ms: 30_000 }
    }
}

/// Volumes whose claims the driver makes, and owns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimOptions {
    pub volumes: Vec<VolumeName>,
    /// `spark.kubernetes.driver.reusePersistentVolumeClaim`: a pod gets the claim of one that is gone.
    pub reuse: bool,
    /// `spark.kubernetes.driver.waitToReusePersistentVolumeClaim`: there are never more claims than executors are wanted.
    pub wait_to_reuse: bool,
}

/// The rules of a pod allocator.
#[derive(Clone, Debug)]
pub struct AllocatorOptions {
    pub app: AppId,
    /// What names of pods begin with (`spark.kubernetes.executor.podNamePrefix`).
    pub prefix: String,
    /// Tells this driver process from those before and after it.
    pub generation: Generation,
    /// The pod that it runs in, if its executors' pods belong to one.
    pub owner: Option<PodUid>,
    /// The number of its first executor: no process before it may have come so far (S05).
    pub first_number: u32,
    /// `spark.kubernetes.allocation.batch.size`.
    pub batch_size: u32,
    /// `spark.kubernetes.allocation.batch.delay`.
    pub batch_delay_ms: u64,
    /// `spark.kubernetes.allocation.maxPendingPods`: pods whose executor does not run yet.
    pub max_pending: u32,
    /// `spark.kubernetes.executor.apiPollingInterval`: how often all pods are listed, whatever the watch said.
    pub polling_ms: u64,
    /// `spark.kubernetes.executor.terminationGracePeriodSeconds`.
    pub grace_ms: u64,
    /// `spark.kubernetes.executor.checkAllContainers`.
    pub all_containers: bool,
    pub keep: Keep,
    pub unschedulable: Unschedulable,
    /// `spark.executor.maxNumFailures`; not set: twice the number of executors, and 3 at least.
    pub max_failures: Option<u32>,
    /// `spark.executor.failuresValidityInterval`: failures older than this are forgotten.
    pub failures_validity_ms: Option<u64>,
    /// So many executors in a row that never register on a node exclude it; 0: none do.
    pub node_failures: u32,
    /// For how long, the first time.
    pub node_excluded_ms: u64,
    /// An executor that was lost so soon after it registered speaks for a cluster that takes back what it gives.
    pub short_lived_ms: u64,
    /// How long executors may be missing before the user hears why.
    pub shortage_ms: u64,
    /// `None`: executors stay as long as they work.
    pub roll: Option<Roll>,
    pub claims: ClaimOptions,
    pub deadlines: Deadlines,
    pub waits: Waits,
    /// Mistakes that the simulator plants; none in production.
    pub planted: Planted,
}

impl AllocatorOptions {
    /// Spark's rules, where it has some.
    pub fn new(app: AppId, prefix: &str, generation: Generation) -> Self {
        AllocatorOptions {
            app,
            prefix: prefix.to_owned(),
            generation,
            owner: None,
            first_number: 1,
            batch_size: 20,
            batch_delay_ms: 1_000,
            max_pending: u32::MAX,
            polling_ms: 30_000,
            grace_ms: 30_000,
            all_containers: true,
            keep: Keep::Failures(10),
            unschedulable: Unschedulable::Wait,
            max_failures: None,
            failures_validity_ms: None,
            node_failures: 2,
            node_excluded_ms: 60_000,
            short_lived_ms: 30_000,
            shortage_ms: 10_000,
            roll: None,
            claims: ClaimOptions::default(),
            deadlines: Deadlines::default(),
            waits: Waits::default(),
            planted: Planted::default(),
        }
    }
}
