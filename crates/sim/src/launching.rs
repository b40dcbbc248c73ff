//! Attempts: what must hold when a driver launches one, and how many of a partition live.

use std::collections::{BTreeMap, BTreeSet};

use firesteel_backend::protocol::ToExecutor;
use firesteel_scheduler::messages::{
    ExclusionOptions, SchedulingMode, SpeculationOptions, TaskOptions, TaskSetKind,
};
use firesteel_types::{Event as Told, ExecutorId, Host, RddInfo, StageRef, TaskId, TaskInfo};

use crate::PlantedDag;
use crate::driver::DriverNode;
use crate::lineage;
use crate::network::{CLIENT, Message};
use crate::plan::AppPlan;
use crate::world::{Event, ProcId, World};

/// The rules of an application's task scheduler.
pub(crate) fn rules(plan: &AppPlan, planted: PlantedDag) -> TaskOptions {
    TaskOptions {
        mode: if plan.fair { SchedulingMode::Fair } else { SchedulingMode::Fifo },
        pipeline_us: plan.pipeline_us,
        wait_process_ms: plan.locality_wait_ms,
        wait_node_ms: plan.locality_wait_ms,
        speculation: plan.speculates.then(impatient),
        exclusion: plan.excludes.then(unforgiving),
        planted,
        ..TaskOptions::default()
    }
}

/// Copies of tasks that take somewhat longer than others.
fn impatient() -> SpeculationOptions {
    SpeculationOptions {
        interval_ms: 150,
        multiplier_milli: 1500,
        quantile_milli: 500,
        min_task_runtime_ms: 100,
    }
}

/// Executors are avoided after one failure, but not for long.
fn unforgiving() -> ExclusionOptions {
    ExclusionOptions {
        max_failed_tasks_per_executor_stage: 1,
        max_failed_executors_per_node_stage: 1,
        max_failed_tasks_per_executor: 1,
        max_failed_executors_per_node: 1,
        timeout_ms: 1200,
        ..ExclusionOptions::default()
    }
}

/// Attempts that were launched and have not ended, as far as their driver heard.
#[derive(Debug)]
pub(crate) struct LiveAttempts {
    most: usize,
    by_partition: BTreeMap<(StageRef, u32), Vec<(TaskId, ExecutorId)>>,
    partitions: BTreeMap<TaskId, (StageRef, u32)>,
    barred: Barred,
}

/// Who gets no task of a stage, or of the application, as far as was told.
#[derive(Debug, Default)]
struct Barred {
    executors: BTreeSet<(ExecutorId, Option<StageRef>)>,
    nodes: BTreeSet<(Host, Option<StageRef>)>,
    decommissioned: BTreeSet<ExecutorId>,
}

impl Barred {
    fn note(&mut self, told: &Told) {
        match told {
            Told::ExecutorExcluded { executor, stage, .. } => {
                self.executors.insert((*executor, *stage));
            }
            Told::ExecutorUnexcluded { executor, .. } => {
                self.executors.remove(&(*executor, None));
            }
            Told::NodeExcluded { host, stage, .. } => {
                self.nodes.insert((host.clone(), *stage));
            }
            Told::NodeUnexcluded { host, .. } => {
                self.nodes.remove(&(host.clone(), None));
            }
            _ => {}
        }
    }

    fn bars(&self, task: &TaskInfo) -> bool {
        let of_stage = [None, Some(task.stage)];
        self.decommissioned.contains(&task.executor)
            || of_stage.iter().any(|stage| self.executors.contains(&(task.executor, *stage)))
            || !self.nodes.is_empty()
                && of_stage.iter().any(|stage| self.nodes.contains(&(task.host.clone(), *stage)))
    }
}

impl LiveAttempts {
    pub(crate) fn new(speculates: bool) -> Self {
        let most = if speculates { 2 } else { 1 };
        LiveAttempts {
            most,
            by_partition: BTreeMap::new(),
            partitions: BTreeMap::new(),
            barred: Barred::default(),
        }
    }

    /// Something was told of executors and nodes.
    pub(crate) fn note(&mut self, told: &Told) {
        self.barred.note(told);
    }

    pub(crate) fn decommissioned(&mut self, executor: ExecutorId) {
        self.barred.decommissioned.insert(executor);
    }

    /// S13: nothing is launched on an executor that is to go, or that failures keep it off. S10: at most one attempt of a partition lives, two with speculation, and these on two executors.
    fn launched(&mut self, task: &TaskInfo) -> Result<(), String> {
        if self.barred.bars(task) {
            let (task, executor) = (task.task, task.executor);
            return Err(format!("S13: task {task} goes to {executor}, which gets no new tasks"));
        }
        let partition = (task.stage, task.partition);
        let live = self.by_partition.entry(partition).or_default();
        let beside = live.iter().any(|(_, executor)| *executor == task.executor);
        if live.len() == self.most || beside {
            let (task, stage, partition) = (task.task, task.stage, task.partition);
            return Err(format!(
                "S10: {live:?} live of partition {partition} of {stage}, and task {task} is launched"
            ));
        }
        live.push((task.task, task.executor));
        self.partitions.insert(task.task, partition);
        Ok(())
    }

    /// An executor said that the attempt ended. One that runs elsewhere does not end by that.
    pub(crate) fn reported(&mut self, task: TaskId, executor: ExecutorId) {
        let Some(partition) = self.partitions.get(&task) else { return };
        if let Some(live) = self.by_partition.get_mut(partition) {
            live.retain(|attempt| *attempt != (task, executor));
        }
    }

    pub(crate) fn executor_lost(&mut self, lost: ExecutorId) {
        for live in self.by_partition.values_mut() {
            live.retain(|(_, executor)| *executor != lost);
        }
    }
}

impl World {
    pub(crate) fn launch(
        &mut self,
        node: &mut DriverNode,
        task: TaskInfo,
        kind: TaskSetKind,
        epoch: u64,
    ) -> Result<(), String> {
        node.live.launched(&task)?;
        self.counters.copies_launched += u64::from(task.speculative);
        node.book.launched(task.task, epoch, node.scheduler.blocks().outdated());
        self.counters.stage_reruns += u64::from(task.stage.attempt > 0);
        let (id, executor) = (task.task, task.executor);
        if node.registry.is_lost(executor) {
            return Err(format!("S04: task {id} goes to lost executor {executor}"));
        }
        let Some(peer) = node.registry.peer(executor) else {
            if node.registry.is_over() {
                return Ok(());
            }
            return Err(format!("S04: task {id} goes to unknown executor {executor}"));
        };
        let mut read = Vec::new();
        let blocks = node.scheduler.blocks();
        let covered = |rdd: &RddInfo| node.book.is_covered(task.stage, rdd, blocks);
        lineage::shuffles_read(&node.computed_rdd(kind), task.partition, &covered, &mut read);
        for (shuffle, maps) in read {
            let known = node.book.outputs(shuffle);
            let complete = known.is_some_and(|known| {
                known.len() == maps as usize && known.iter().all(Option::is_some)
            });
            if !complete {
                return Err(format!("S09: task {id} starts before shuffle {shuffle} is complete"));
            }
        }
        self.tell(|_| {
            format!("task {id} of {} ({kind:?}), partition {}", task.stage, task.partition)
        });
        if node.tasks.insert(id, (task, kind)).is_some() {
            return Err(format!("S05: task id {id} is used twice"));
        }
        let launch = ToExecutor::LaunchTask { task: id, data: self.empty.clone() };
        self.send(peer.0 as usize, CLIENT, Message::ToExecutor(launch));
        Ok(())
    }

    /// Executors on nodes that the schedulers exclude would be of no use: the provider hears of them.
    pub(crate) fn note_exclusion(&mut self, driver: ProcId, told: Told) {
        let (node, excluded) = match told {
            Told::ExecutorExcluded { .. } => {
                self.counters.executors_excluded += 1;
                return;
            }
            Told::NodeExcluded { host, stage: None, .. } => (host, true),
            Told::NodeUnexcluded { host, .. } => (host, false),
            _ => return,
        };
        self.counters.nodes_excluded += u64::from(excluded);
        self.push(self.now, Event::NodeExcluded { driver, node, excluded });
    }
}
