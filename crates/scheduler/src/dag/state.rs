//! What the DAG scheduler remembers of jobs and stages. Data and questions about it; the
//! transitions are made elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firesteel_types::event::StageRdd;
use firesteel_types::{
    BlockLocation, JobId, Properties, RddInfo, ResourceProfile, ShuffleId, StageId, StageInfo,
    StageRef, Tick,
};

use super::graph::{self, Cut};
use crate::blocks::{BlockMaster, Generations};

/// A job that has not ended.
pub(super) struct Job {
    /// Every stage it may need, parents first, its result stage last.
    pub(super) stages: Vec<StageId>,
    pub(super) properties: Arc<Properties>,
}

/// What a stage produces.
pub(super) enum StageKind {
    /// Results of one job.
    Result {
        job: JobId,
        /// The result indices each partition not yet delivered is wanted at.
        wanted: BTreeMap<u32, Vec<u32>>,
        /// How many partitions were delivered.
        delivered: usize,
    },
    /// Map outputs. Which are there is known to `MapOutputs` alone.
    ShuffleMap {
        shuffle: ShuffleId,
        /// Partitions whose accumulator updates were applied.
        accumulated: BTreeSet<u32>,
        /// The shuffle was removed: outputs must not outlive the stage.
        removed: bool,
        /// The jobs that want the outputs and nothing else, with the number of readers they ask about.
        wanted_by: BTreeMap<JobId, u32>,
    },
}

/// The state of a stage.
///
/// ```text
///          parents missing            parents there
///   Idle ───────────────────► Waiting ─────────────► Running
///    ▲ ▲                                              │   │
///    │ └──────────── every partition done ────────────┘   │ fetch failure
///    └──────────────────────── timer ─────── Resting ◄────┘
/// ```
pub(super) enum StageState {
    /// Done, or not asked for.
    Idle,
    /// For these parents' outputs.
    Waiting { on: BTreeSet<StageId> },
    /// The task set of the current attempt is with the task scheduler.
    Running {
        /// Tasks in the set.
        tasks: u32,
        /// Partitions of the set no task of it has succeeded at.
        pending: BTreeSet<u32>,
        /// The epoch of lost outputs at which it was submitted.
        epoch: u64,
    },
    /// Submitted again when the timer fires.
    Resting,
}

/// A stage that some living job may need.
pub(super) struct Stage {
    pub(super) id: StageId,
    pub(super) rdd: Arc<RddInfo>,
    pub(super) kind: StageKind,
    pub(super) state: StageState,
    name: Arc<str>,
    pub(super) rdds: Arc<[StageRdd]>,
    pub(super) has_preferred: bool,
    /// The stages whose outputs its RDDs may read.
    pub(super) parents: Vec<StageId>,
    /// The stages that may read its outputs.
    pub(super) children: BTreeSet<StageId>,
    /// The living jobs that may need it.
    pub(super) jobs: BTreeSet<JobId>,
    /// How many attempts were submitted.
    pub(super) attempts: u32,
    /// When the latest one was.
    pub(super) submitted: Option<Tick>,
    /// How many of the last ones ended with a fetch failure that told nothing new.
    pub(super) failed_in_a_row: u32,
    /// The map outputs that could not be fetched, and from whom, since the stage was complete last.
    pub(super) unfetched: BTreeSet<(ShuffleId, u32, BlockLocation)>,
    /// The generations of the shuffles that the latest attempt reads.
    pub(super) reads: Generations,
    /// The first attempt that reads these: what older ones bring is of another generation.
    pub(super) first_valid_attempt: u32,
    /// Parents that a fetch failure proved to be read, whatever is said to be kept.
    pub(super) proven_parents: BTreeSet<StageId>,
    /// Attempts that were retired: tasks of them may still run.
    pub(super) retired: BTreeSet<StageRef>,
}

impl Stage {
    pub(super) fn new(
        id: StageId,
        name: Arc<str>,
        rdd: Arc<RddInfo>,
        kind: StageKind,
        cut: Cut,
        parents: Vec<StageId>,
    ) -> Self {
        Stage {
            id,
            name,
            rdd,
            kind,
            state: StageState::Idle,
            rdds: cut.rdds,
            has_preferred: cut.has_preferred,
            parents,
            children: BTreeSet::new(),
            jobs: BTreeSet::new(),
            attempts: 0,
            submitted: None,
            failed_in_a_row: 0,
            unfetched: BTreeSet::new(),
            reads: Generations::new(),
            first_valid_attempt: 0,
            proven_parents: BTreeSet::new(),
            retired: BTreeSet::new(),
        }
    }

    pub(super) fn shuffle(&self) -> Option<ShuffleId> {
        match self.kind {
            StageKind::ShuffleMap { shuffle, .. } => Some(shuffle),
            StageKind::Result { .. } => None,
        }
    }

    /// The latest attempt, or the first if there was none.
    pub(super) fn attempt(&self) -> StageRef {
        StageRef { stage: self.id, attempt: self.attempts.saturating_sub(1) }
    }

    /// Whether `attempt` is the latest one submitted.
    pub(super) fn is_latest(&self, attempt: StageRef) -> bool {
        self.attempts > 0 && self.attempt() == attempt
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self.state, StageState::Idle)
    }

    pub(super) fn is_running(&self) -> bool {
        matches!(self.state, StageState::Running { .. })
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.state, StageState::Waiting { .. })
    }

    pub(super) fn is_resting(&self) -> bool {
        matches!(self.state, StageState::Resting)
    }

    pub(super) fn name(&self) -> String {
        self.name.to_string()
    }

    /// Its name and the places of what it computes: where in the program to look when it fails.
    pub(super) fn described(&self, blocks: &BlockMaster) -> String {
        let steps = graph::steps(&self.rdd, &self.name, blocks);
        if steps.is_empty() {
            return self.name.to_string();
        }
        format!("{}, of {}", self.name, steps.join(", "))
    }

    /// Tasks of the running attempt, or of all its partitions if none runs.
    fn tasks(&self) -> u32 {
        match (&self.state, &self.kind) {
            (StageState::Running { tasks, .. }, _) => *tasks,
            (_, StageKind::ShuffleMap { .. }) => self.rdd.partitions,
            (_, StageKind::Result { wanted, .. }) => {
                u32::try_from(wanted.len()).unwrap_or(u32::MAX)
            }
        }
    }

    /// The latest attempt as listeners see it.
    pub(super) fn info(&self) -> StageInfo {
        StageInfo {
            stage: self.attempt(),
            name: Arc::clone(&self.name),
            tasks: self.tasks(),
            parents: self.parents.clone(),
            rdds: self.rdds.clone(),
            shuffle_map: self.shuffle().is_some(),
            submitted: self.submitted,
            completed: None,
            details: None,
            resource_profile: ResourceProfile::DEFAULT,
        }
    }
}
