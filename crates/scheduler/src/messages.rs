//! What goes into the two scheduler cores and what comes out.
//!
//! ```text
//!            DagEvent                 DagEffect::SubmitTaskSet / CancelTaskSet
//!   shell ────────────► DAG scheduler ────────────────────────────► task scheduler
//!     ▲                     ▲                                             │
//!     │ effects             └───────── TaskEffect::TaskEnded / ───────────┤
//!     └──────────────────────────────  TaskSetFailed                      │
//!     ▲                                                                   │
//!     └───────────────── TaskEffect::LaunchTask / KillTask ◄──────────────┘
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use firesteel_types::{
    Event, ExecutorId, Host, JobId, Location, MapStatus, Properties, RddId, RddInfo, ShuffleId,
    StageId, StageRef, TaskFailure, TaskId, TaskInfo, TaskMetrics, TaskOutcome, Tick,
};

use crate::SchedulerEffect;
use crate::mutant::Planted;

/// A job as the shell submits it. The shell numbers jobs, so that it can wait for one before the
/// core has seen it.
#[derive(Clone, Debug)]
pub struct JobSpec {
    /// The job's id; never used before.
    pub job: JobId,
    /// The RDD whose partitions the action reads.
    pub rdd: Arc<RddInfo>,
    /// The partitions it reads; the position in this list is the result's index.
    pub partitions: Vec<u32>,
    /// Group, pool and so on.
    pub properties: Properties,
}

/// A job that makes the map outputs of a shuffle and reads none of them.
#[derive(Clone, Debug)]
pub struct MapStageSpec {
    /// The job's id; never used before.
    pub job: JobId,
    pub shuffle: ShuffleId,
    /// The RDD on its map side.
    pub rdd: Arc<RddInfo>,
    /// How many readers it has.
    pub readers: u32,
    /// Group, pool and so on.
    pub properties: Properties,
}

/// Into the DAG scheduler.
#[derive(Clone, Debug)]
pub enum DagEvent {
    /// An action was called. Partitions are already checked to be in range.
    JobSubmitted(JobSpec),
    /// The map outputs of a shuffle are wanted, and what they have for each reader.
    MapStageSubmitted(MapStageSpec),
    JobCancelled {
        job: JobId,
        reason: String,
    },
    /// Cancel every running job of a group.
    JobGroupCancelled {
        group: String,
        reason: String,
    },
    /// Cancel every running job that has a tag.
    JobTagCancelled {
        tag: String,
        reason: String,
    },
    AllJobsCancelled {
        reason: String,
    },
    /// Cancel every job that needs this stage.
    StageCancelled {
        stage: StageId,
        reason: String,
    },
    /// A task attempt ended (from the task scheduler, which has already dropped stale reports).
    TaskEnded {
        task: TaskInfo,
        outcome: TaskOutcome,
        /// Of the map output it wrote, if it did.
        written: Option<MapStatus>,
    },
    /// A task set cannot be completed (from the task scheduler).
    TaskSetFailed {
        stage: StageRef,
        cause: TaskSetFailure,
    },
    ExecutorAdded {
        executor: ExecutorId,
        host: Host,
    },
    ExecutorLost {
        executor: ExecutorId,
        /// Whether the map outputs it wrote are gone with it (no external shuffle service).
        outputs_lost: bool,
    },
    /// The RDD's partitions are cached from now on.
    RddPersisted {
        rdd: RddId,
    },
    /// Nobody wants the RDD's partitions cached any more.
    RddUnpersisted {
        rdd: RddId,
    },
    /// No job will ever compute the RDD: nobody can refer to it any more.
    RddRemoved {
        rdd: RddId,
    },
    /// No handle refers to the shuffle any more.
    ShuffleRemoved {
        shuffle: ShuffleId,
    },
    /// A moment asked for by [`SchedulerEffect::ArmTimer`] has come (early or repeated is harmless).
    Ticked,
}

/// Why a task set cannot be completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskSetFailure {
    /// One partition failed as often as it may.
    TaskFailed {
        partition: u32,
        attempts: u32,
        /// Of its attempts, the one that ended last.
        failure: TaskFailure,
    },
    /// Every executor is excluded for some task and none can be had.
    Unschedulable {
        partition: u32,
        /// For people: how many executors there are and why each is excluded.
        reason: String,
    },
}

/// Out of the DAG scheduler.
#[derive(Clone, Debug)]
pub enum DagEffect {
    /// For the task scheduler.
    SubmitTaskSet(TaskSet),
    /// For the task scheduler: forget the set and kill what runs of it.
    CancelTaskSet { stage: StageRef, reason: String },
    /// For the task scheduler: launch nothing more of the set, let what runs end (fetch failure:
    /// a newer attempt takes over).
    RetireTaskSet { stage: StageRef },
    /// For the shell.
    Outside(SchedulerEffect),
}

impl From<SchedulerEffect> for DagEffect {
    fn from(effect: SchedulerEffect) -> Self {
        DagEffect::Outside(effect)
    }
}

/// What the tasks of a set produce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskSetKind {
    Result(JobId),
    /// Map outputs of a shuffle.
    ShuffleMap(ShuffleId),
}

/// The tasks of one stage attempt that are still to be run.
#[derive(Clone, Debug)]
pub struct TaskSet {
    pub stage: StageRef,
    /// Results or map outputs; the shell finds the tasks' code by it.
    pub kind: TaskSetKind,
    /// FIFO priority: the lowest job id that needs it.
    pub priority: JobId,
    /// The pool to schedule it in.
    pub pool: Option<String>,
    /// The RDD computed, for people and tests; the shell finds the task's code by `kind`.
    pub rdd: RddId,
    /// One entry per task.
    pub tasks: Vec<TaskSpec>,
}

/// One task to be run.
#[derive(Clone, Debug)]
pub struct TaskSpec {
    pub partition: u32,
    /// Where its data lies, best first; empty: no preference.
    pub preferred: Vec<Location>,
}

/// Into the task scheduler.
#[derive(Clone, Debug)]
pub enum TaskEvent {
    /// From the DAG scheduler.
    TaskSetSubmitted(TaskSet),
    /// From the DAG scheduler: kill and forget.
    TaskSetCancelled { stage: StageRef, reason: String },
    /// From the DAG scheduler: launch nothing more of it.
    TaskSetRetired { stage: StageRef },
    ExecutorAdded {
        executor: ExecutorId,
        host: Host,
        /// How many cores it offers.
        cores: u32,
    },
    /// An executor is gone: its tasks end as `ExecutorLost`.
    ExecutorLost {
        executor: ExecutorId,
        /// Whether the application ended it itself.
        caused_by_app: bool,
        /// Whether map outputs went with it: finished map tasks must run again.
        outputs_lost: bool,
        /// For people: what is known of its end.
        reason: String,
    },
    /// An executor or node shall get no new tasks (decommission).
    ExecutorDecommissioned { executor: ExecutorId },
    /// A task ended, as its executor says.
    TaskReported {
        task: TaskId,
        /// The executor that reports it; stale unless the task was launched there.
        executor: ExecutorId,
        outcome: TaskOutcome,
        metrics: Option<Box<TaskMetrics>>,
        /// Of the map output it wrote, if it did.
        written: Option<MapStatus>,
    },
    /// A user asks to kill one attempt.
    TaskKillRequested { task: TaskId, reason: String },
    /// A moment asked for by [`TaskEffect::ArmTimer`] has come (early or repeated is harmless).
    Ticked,
}

/// Out of the task scheduler.
#[derive(Clone, Debug)]
pub enum TaskEffect {
    /// Run the attempt on its executor.
    LaunchTask(TaskInfo),
    /// Stop the attempt; it reports its end itself.
    KillTask {
        task: TaskId,
        executor: ExecutorId,
        reason: String,
    },
    /// For the DAG scheduler: once per attempt that was launched, unless its set was cancelled.
    TaskEnded {
        task: TaskInfo,
        outcome: TaskOutcome,
        /// Of the map output it wrote, if it did.
        written: Option<MapStatus>,
    },
    /// A success nobody needs (its set was cancelled, or another attempt won): drop its output.
    DiscardTask {
        task: TaskId,
        /// The attempt, if it ran until now: then this is the first that is heard of what it brought, and no other
        /// word about it has made that count.
        ran: Option<TaskInfo>,
    },
    /// For the DAG scheduler.
    TaskSetFailed {
        stage: StageRef,
        cause: TaskSetFailure,
    },
    Post(Event),
    /// Send `Ticked` at this moment.
    ArmTimer(Tick),
}

/// The rules of the DAG scheduler that a user may set.
#[derive(Clone, Debug)]
pub struct DagOptions {
    /// `spark.stage.maxConsecutiveAttempts`
    pub max_consecutive_attempts: u32,
    /// How long to gather further fetch failures before a stage is run again.
    pub resubmit_delay_ms: u64,
    /// `spark.storage.replication.proactive`
    pub proactive_replication: bool,
    /// A mistake to be found by the simulator.
    pub planted: Planted,
}

impl Default for DagOptions {
    fn default() -> Self {
        DagOptions {
            max_consecutive_attempts: 4,
            resubmit_delay_ms: 200,
            proactive_replication: true,
            planted: Planted::default(),
        }
    }
}

/// How pools share the executors among their task sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedulingMode {
    /// By priority, then stage.
    #[default]
    Fifo,
    /// By minimum share, then weight.
    Fair,
}

/// One pool of the allocation file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// How its own task sets share it.
    pub mode: SchedulingMode,
    /// Its share relative to other pools.
    pub weight: u32,
    /// Cores it gets before others get more.
    pub min_share: u32,
}

/// The rules of the task scheduler that a user may set.
#[derive(Clone, Debug)]
pub struct TaskOptions {
    /// `spark.scheduler.mode`
    pub mode: SchedulingMode,
    /// Pools by name, from `spark.scheduler.allocation.file`; others are made with defaults.
    pub pools: BTreeMap<String, PoolSpec>,
    /// `spark.task.maxFailures`
    pub max_failures: u32,
    /// `spark.task.cpus`
    pub cpus_per_task: u32,
    /// `spark.locality.wait.process`
    pub wait_process_ms: u64,
    /// `spark.locality.wait.node`
    pub wait_node_ms: u64,
    /// `spark.speculation` and its settings, if on.
    pub speculation: Option<SpeculationOptions>,
    /// `spark.excludeOnFailure.enabled` and its settings, if on.
    pub exclusion: Option<ExclusionOptions>,
    /// How much work may wait at an executor for its cores, by what tasks took so far; 0: none.
    pub pipeline_us: u64,
    /// A mistake to be found by the simulator.
    pub planted: Planted,
}

impl Default for TaskOptions {
    fn default() -> Self {
        TaskOptions {
            mode: SchedulingMode::Fifo,
            pools: BTreeMap::new(),
            max_failures: 4,
            cpus_per_task: 1,
            wait_process_ms: 3000,
            wait_node_ms: 3000,
            speculation: None,
            exclusion: None,
            pipeline_us: 0,
            planted: Planted::default(),
        }
    }
}

/// `spark.speculation.*`
#[derive(Clone, Debug)]
pub struct SpeculationOptions {
    /// `spark.speculation.interval`
    pub interval_ms: u64,
    /// `spark.speculation.multiplier`, in thousandths.
    pub multiplier_milli: u64,
    /// `spark.speculation.quantile`, in thousandths.
    pub quantile_milli: u64,
    /// `spark.speculation.minTaskRuntime`
    pub min_task_runtime_ms: u64,
}

impl Default for SpeculationOptions {
    fn default() -> Self {
        SpeculationOptions {
            interval_ms: 100,
            multiplier_milli: 3000,
            quantile_milli: 900,
            min_task_runtime_ms: 100,
        }
    }
}

/// `spark.excludeOnFailure.*`
#[derive(Clone, Debug)]
pub struct ExclusionOptions {
    /// `...task.maxTaskAttemptsPerExecutor`
    pub max_task_attempts_per_executor: u32,
    /// `...task.maxTaskAttemptsPerNode`
    pub max_task_attempts_per_node: u32,
    /// `...stage.maxFailedTasksPerExecutor`
    pub max_failed_tasks_per_executor_stage: u32,
    /// `...stage.maxFailedExecutorsPerNode`
    pub max_failed_executors_per_node_stage: u32,
    /// `...application.maxFailedTasksPerExecutor`
    pub max_failed_tasks_per_executor: u32,
    /// `...application.maxFailedExecutorsPerNode`
    pub max_failed_executors_per_node: u32,
    /// `spark.excludeOnFailure.timeout`
    pub timeout_ms: u64,
}

impl Default for ExclusionOptions {
    fn default() -> Self {
        ExclusionOptions {
            max_task_attempts_per_executor: 1,
            max_task_attempts_per_node: 2,
            max_failed_tasks_per_executor_stage: 2,
            max_failed_executors_per_node_stage: 2,
            max_failed_tasks_per_executor: 2,
            max_failed_executors_per_node: 2,
            timeout_ms: 3_600_000,
        }
    }
}
