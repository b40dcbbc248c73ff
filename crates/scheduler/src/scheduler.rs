//! Both schedulers wired together: one machine that takes what the outside says and gives what the
//! outside must do. Pure as its parts are; production and simulator drive this.

use std::collections::{BTreeMap, VecDeque};

use firesteel_types::{
    BlockLocation, BlockStatus, BroadcastId, Event, ExecutorId, ExecutorInfo, JobError, JobId,
    MapAttempt, MapOutputLocation, RddBlock, RddId, ShuffleId, StageId, StageRef, StorageLevel,
    TaskId, TaskInfo, Tick,
};

use crate::blocks::{BlockChange, BlockMaster, Noted, Peers, Piece, PieceRequest};
use crate::dag::DagScheduler;
use crate::messages::{
    DagEffect, DagEvent, DagOptions, TaskEffect, TaskEvent, TaskOptions, TaskSetKind,
};
use crate::task::TaskScheduler;

/// What the two schedulers are fed, together.
#[derive(Clone, Debug)]
pub enum SchedulerInput {
    /// For the DAG scheduler.
    Dag(DagEvent),
    /// For the task scheduler.
    Task(TaskEvent),
    ExecutorAdded {
        executor: ExecutorId,
        info: ExecutorInfo,
    },
    ExecutorLost {
        executor: ExecutorId,
        /// Whether the application ended it itself.
        caused_by_app: bool,
        /// Whether map outputs went with it.
        outputs_lost: bool,
        /// For people: what is known of its end.
        reason: String,
    },
    /// A cached partition came, moved or went.
    BlockUpdated {
        location: BlockLocation,
        block: RddBlock,
        /// How it is stored there; `None`: it is gone.
        status: Option<BlockStatus>,
    },
    /// All cached partitions of a holder, in case that a change was not heard of.
    BlocksReported {
        location: BlockLocation,
        /// How each is stored.
        cached: Vec<(RddBlock, BlockStatus)>,
    },
    /// A moment asked for by [`SchedulerEffect::ArmTimer`] has come.
    Ticked,
}

/// What the outside must do, in order.
#[derive(Clone, Debug)]
pub enum SchedulerEffect {
    /// Run the attempt; `kind` names its code.
    LaunchTask {
        task: TaskInfo,
        kind: TaskSetKind,
        /// The epoch of map outputs that it may read: [`BlockMaster::epoch`].
        epoch: u64,
    },
    KillTask {
        task: TaskId,
        executor: ExecutorId,
        reason: String,
    },
    /// Hand the task's output to the job's waiter, as the result at `index`. At most once per
    /// job and index.
    DeliverResult {
        job: JobId,
        /// Position in [`JobSpec::partitions`](crate::messages::JobSpec::partitions).
        index: u32,
        task: TaskId,
    },
    /// The map outputs that a [`MapStageSpec`](crate::messages::MapStageSpec) asked for are there. At most once, before the
    /// job ends.
    DeliverMapStatistics {
        job: JobId,
        /// Bytes for each reader, about.
        bytes: Vec<u64>,
    },
    /// Add the task's accumulator updates. At most once per stage and partition.
    ApplyAccumulators {
        task: TaskId,
    },
    /// The task is dealt with: the shell may drop what it keeps under its id. Comes after
    /// `DeliverResult` and `ApplyAccumulators`, once for every successful task.
    ReleaseTask {
        task: TaskId,
    },
    /// The task succeeded for nobody: another attempt came first, or nobody wants its stage any more. If it wrote a map
    /// output, nobody will read that. Comes before `ReleaseTask`.
    DiscardOutput {
        task: TaskInfo,
    },
    /// The job is over. Exactly once per job.
    EndJob {
        job: JobId,
        result: Result<(), JobError>,
    },
    /// The map outputs now registered for a shuffle changed: readers must see this before the next
    /// task set starts.
    PublishMapOutputs {
        shuffle: ShuffleId,
        /// By map partition; `None`: that output is missing.
        locations: Vec<Option<MapOutputLocation>>,
    },
    /// Nobody will read these map outputs: an attempt wrote them that does not count, or readers
    /// could not read them.
    DropMapOutputs {
        shuffle: ShuffleId,
        outputs: Vec<(BlockLocation, MapAttempt)>,
    },
    /// The RDD's cached partitions were computed from records that were rolled back, or nobody wants them.
    DropCachedPartitions {
        /// The holder; `None`: all of them.
        at: Option<BlockLocation>,
        rdd: RddId,
        /// By tasks that were launched before this epoch.
        epoch: u64,
    },
    /// These cached partitions have too few replicas: the holder is to see to it that they have more.
    ReplicateBlocks {
        holder: BlockLocation,
        blocks: Vec<RddBlock>,
    },
    Post(Event),
    /// Feed `Ticked` at this moment.
    ArmTimer(Tick),
}

enum Step {
    Dag(DagEvent),
    Task(TaskEvent),
    /// No task of the set can be launched once the effects before this one are carried out.
    Forget(StageRef),
    /// Stages may be gone that tasks are suspected of.
    JobEnded,
    Blocks(BlockLocation, Vec<BlockChange>),
    AllBlocks(BlockLocation, Vec<(RddBlock, BlockStatus)>),
    /// Cached partitions may have too few replicas.
    Replicate,
}

/// What concerns both goes to the DAG scheduler first, and all that follows from it is done before the
/// task scheduler hears: it must not launch what can no longer be computed.
fn steps(input: SchedulerInput) -> [Option<Step>; 3] {
    let one = |step| [Some(step), None, None];
    let (dag, task) = match input {
        SchedulerInput::Dag(event) => return one(Step::Dag(event)),
        SchedulerInput::Task(event) => return one(Step::Task(event)),
        SchedulerInput::BlockUpdated { location, block, status } => {
            return one(Step::Blocks(location, vec![(block, status)]));
        }
        SchedulerInput::BlocksReported { location, cached } => {
            return one(Step::AllBlocks(location, cached));
        }
        SchedulerInput::Ticked => {
            return [Some(Step::Dag(DagEvent::Ticked)), Some(Step::Task(TaskEvent::Ticked)), None];
        }
        SchedulerInput::ExecutorAdded { executor, info: ExecutorInfo { host, cores, .. } } => (
            DagEvent::ExecutorAdded { executor, host: host.clone() },
            TaskEvent::ExecutorAdded { executor, host, cores },
        ),
        SchedulerInput::ExecutorLost { executor, caused_by_app, outputs_lost, reason } => (
            DagEvent::ExecutorLost { executor, outputs_lost },
            TaskEvent::ExecutorLost { executor, caused_by_app, outputs_lost, reason },
        ),
    };
    [Some(Step::Dag(dag)), Some(Step::Task(task)), Some(Step::Replicate)]
}

fn ends_a_set(event: &TaskEvent) -> bool {
    matches!(event, TaskEvent::TaskSetRetired { .. } | TaskEvent::TaskSetCancelled { .. })
}

fn block_updated(
    location: BlockLocation,
    block: RddBlock,
    status: Option<BlockStatus>,
) -> Option<Event> {
    Some(Event::BlockUpdated {
        block: block.to_string(),
        executor: location.executor()?,
        memory_bytes: status.map_or(0, |status| status.memory_bytes),
        disk_bytes: status.map_or(0, |status| status.disk_bytes),
        level: status.map_or(StorageLevel::NONE, |status| status.level),
    })
}

/// The two schedulers and the wires between them.
pub struct Scheduler {
    dag: DagScheduler,
    tasks: TaskScheduler,
    kinds: BTreeMap<StageRef, TaskSetKind>,
    pending: VecDeque<Step>,
    /// So many of them end a task set.
    ending: usize,
    /// Whether the task scheduler has yet to hear of the input itself.
    to_come: bool,
    dag_effects: Vec<DagEffect>,
    task_effects: Vec<TaskEffect>,
}

impl Scheduler {
    pub fn new(dag: DagOptions, tasks: TaskOptions) -> Self {
        Scheduler {
            dag: DagScheduler::new(dag),
            tasks: TaskScheduler::new(tasks),
            kinds: BTreeMap::new(),
            pending: VecDeque::new(),
            ending: 0,
            to_come: false,
            dag_effects: Vec::new(),
            task_effects: Vec::new(),
        }
    }

    /// Takes one input and everything that follows from it.
    pub fn handle(&mut self, now: Tick, input: SchedulerInput, out: &mut Vec<SchedulerEffect>) {
        out.extend(self.announced(now, &input).map(SchedulerEffect::Post));
        let steps = steps(input);
        let last_of_tasks = steps.iter().rposition(|step| matches!(step, Some(Step::Task(_))));
        for (index, step) in steps.into_iter().enumerate() {
            self.to_come = last_of_tasks.is_some_and(|last| index < last);
            self.pending.extend(step);
            self.settle(now, out);
        }
    }

    /// What listeners hear before anything that follows from it.
    fn announced(&self, at: Tick, input: &SchedulerInput) -> Option<Event> {
        match input {
            SchedulerInput::ExecutorAdded { executor, info }
                if !self.tasks.has_executor(*executor) =>
            {
                Some(Event::ExecutorAdded { executor: *executor, info: info.clone(), at })
            }
            SchedulerInput::ExecutorLost { executor, reason, .. }
                if self.tasks.has_executor(*executor) =>
            {
                let (executor, reason) = (*executor, reason.clone());
                Some(Event::ExecutorRemoved { executor, reason, at })
            }
            _ => None,
        }
    }

    /// Takes the pending steps and all that they lead to.
    fn settle(&mut self, now: Tick, out: &mut Vec<SchedulerEffect>) {
        while let Some(step) = self.pending.pop_front() {
            match step {
                Step::Dag(event) => self.dag.handle(now, event, &mut self.dag_effects),
                Step::Task(event) => {
                    self.ending -= usize::from(ends_a_set(&event));
                    // A set that is still to be ended has tasks that may not be computed any more, and an executor whose loss the
                    // task scheduler has yet to hear of runs none; something may be due that launches them as soon as cores are
                    // offered.
                    if self.to_come || self.ending > 0 {
                        self.tasks.note(now, event, &mut self.task_effects);
                    } else {
                        self.tasks.handle(now, event, &mut self.task_effects);
                    }
                }
                Step::JobEnded => {
                    let dag = &self.dag;
                    self.tasks.forget_losses(|stage| !dag.jobs_of_stage(stage).is_empty());
                }
                Step::Forget(stage) => {
                    self.kinds.remove(&stage);
                }
                Step::Blocks(location, changes) => self.note_blocks(location, changes, out),
                Step::AllBlocks(location, cached) => {
                    let changes = self.blocks().differences(location, &cached);
                    // When others were lost, nobody knew that it is held here.
                    let found = changes.iter().any(|(_, status)| status.is_some());
                    self.pending.extend(found.then_some(Step::Replicate));
                    self.note_blocks(location, changes, out);
                }
                Step::Replicate => {
                    let short = self.blocks().to_replicate().into_iter();
                    out.extend(short.map(|(holder, blocks)| SchedulerEffect::ReplicateBlocks {
                        holder,
                        blocks,
                    }));
                }
            }
            self.route_dag_effects(out);
            self.route_task_effects(out);
        }
    }

    /// Notes what a holder caches; it is told to drop what nobody wants any more.
    fn note_blocks(
        &mut self,
        location: BlockLocation,
        changes: Vec<BlockChange>,
        out: &mut Vec<SchedulerEffect>,
    ) {
        let mut outdated = BTreeMap::<RddId, u64>::new();
        for (block, status) in changes {
            let noted = self.dag.blocks_mut().update(location, block, status);
            match noted {
                Noted::Yes | Noted::Orphan => {
                    out.extend(block_updated(location, block, status).map(SchedulerEffect::Post));
                }
                Noted::Outdated(epoch) => {
                    let known = outdated.entry(block.rdd).or_default();
                    *known = epoch.max(*known);
                }
                Noted::Ignored => {}
            }
            self.pending.extend((noted == Noted::Orphan).then_some(Step::Replicate));
        }
        let at = Some(location);
        let drop = |(rdd, epoch)| SchedulerEffect::DropCachedPartitions { at, rdd, epoch };
        out.extend(outdated.into_iter().map(drop));
    }

    pub fn blocks(&self) -> &BlockMaster {
        self.dag.blocks()
    }

    /// The next of so many pieces of a broadcast value for a reader; `None`: it waits.
    pub fn next_piece(&mut self, id: BroadcastId, of: u32, request: PieceRequest) -> Option<Piece> {
        self.dag.blocks_mut().next_piece(id, of, request)
    }

    /// How many hold a cached partition beside `holder`, which is about to make replicas of it, and who else may.
    pub fn peers(&mut self, holder: BlockLocation, block: RddBlock) -> Peers {
        self.dag.blocks_mut().peers(holder, block)
    }

    /// Nobody gets the broadcast value any more.
    pub fn remove_broadcast(&mut self, id: BroadcastId) {
        self.dag.blocks_mut().remove_broadcast(id);
    }

    /// Whether nothing is left to do.
    pub fn is_idle(&self) -> bool {
        let idle = self.dag.is_idle() && self.tasks.is_idle();
        idle && self.tasks.has_no_suspects() && self.kinds.is_empty()
    }

    /// The living jobs that may need this stage.
    pub fn jobs_of(&self, stage: StageId) -> Vec<JobId> {
        self.dag.jobs_of_stage(stage)
    }

    /// The task scheduler, to look at.
    pub fn tasks(&self) -> &TaskScheduler {
        &self.tasks
    }

    fn route_dag_effects(&mut self, out: &mut Vec<SchedulerEffect>) {
        for effect in self.dag_effects.drain(..) {
            match effect {
                DagEffect::SubmitTaskSet(set) => {
                    self.kinds.insert(set.stage, set.kind);
                    self.pending.push_back(Step::Task(TaskEvent::TaskSetSubmitted(set)));
                }
                DagEffect::CancelTaskSet { stage, reason } => {
                    let cancelled = TaskEvent::TaskSetCancelled { stage, reason };
                    self.ending += 1;
                    self.pending.extend([Step::Task(cancelled), Step::Forget(stage)]);
                }
                DagEffect::RetireTaskSet { stage } => {
                    let retired = TaskEvent::TaskSetRetired { stage };
                    self.ending += 1;
                    self.pending.extend([Step::Task(retired), Step::Forget(stage)]);
                }
                DagEffect::Outside(effect) => {
                    match &effect {
                        SchedulerEffect::EndJob { .. } => self.pending.push_back(Step::JobEnded),
                        SchedulerEffect::Post(Event::StageCompleted { stage, .. }) => {
                            self.pending.push_back(Step::Forget(stage.stage));
                        }
                        _ => {}
                    }
                    out.push(effect);
                }
            }
        }
    }

    fn route_task_effects(&mut self, out: &mut Vec<SchedulerEffect>) {
        for effect in self.task_effects.drain(..) {
            match effect {
                TaskEffect::LaunchTask(task) => {
                    let kind = *self.kinds.get(&task.stage).expect("only live sets launch tasks");
                    let epoch = self.dag.blocks().epoch();
                    out.push(SchedulerEffect::LaunchTask { task, kind, epoch });
                }
                TaskEffect::KillTask { task, executor, reason } => {
                    out.push(SchedulerEffect::KillTask { task, executor, reason });
                }
                TaskEffect::TaskEnded { task, outcome, written } => {
                    let ended = DagEvent::TaskEnded { task, outcome, written };
                    self.pending.push_back(Step::Dag(ended));
                }
                TaskEffect::DiscardTask { task, ran } => {
                    out.extend(ran.map(|task| SchedulerEffect::DiscardOutput { task }));
                    out.push(SchedulerEffect::ReleaseTask { task });
                }
                TaskEffect::TaskSetFailed { stage, cause } => {
                    self.pending.push_back(Step::Dag(DagEvent::TaskSetFailed { stage, cause }));
                }
                TaskEffect::Post(event) => out.push(SchedulerEffect::Post(event)),
                TaskEffect::ArmTimer(at) => out.push(SchedulerEffect::ArmTimer(at)),
            }
        }
    }
}
