//! The tests' tools: lineage graphs in a few words, a bench that plays shell and task scheduler, and
//! effects as short lines.

mod map_stages;
mod random;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firesteel_types::event::Locality;
use firesteel_types::{
    BlockLocation, BlockStatus, CallSite, Dependency, Event, ExecutorId, Host, JobId, Location,
    MapAttempt, MapOutputLocation, MapStatus, NarrowMapping, Properties, RddBlock, RddId, RddInfo,
    ShuffleId, StageId, StageInfo, StageRef, StorageLevel, TaskFailure, TaskId, TaskInfo,
    TaskOutcome, Tick,
};

use super::DagScheduler;
use crate::SchedulerEffect;
use crate::messages::{DagEffect, DagEvent, DagOptions, JobSpec};

type Rdd = Arc<RddInfo>;

/// Where the jobs of tests are submitted.
const ACTION: &str = "collect at test.rs:1";

fn collecting() -> Properties {
    Properties::default().with(Properties::CALL_SITE, ACTION)
}

/// Makes RDDs, numbering them and their shuffles from 0.
#[derive(Default)]
struct Graph {
    rdds: u32,
    shuffles: u32,
}

impl Graph {
    #[track_caller]
    fn rdd(&mut self, partitions: u32, dependencies: Vec<Dependency>) -> Rdd {
        self.located(partitions, dependencies, Vec::new())
    }

    #[track_caller]
    fn located(
        &mut self,
        partitions: u32,
        dependencies: Vec<Dependency>,
        preferred: Vec<Vec<Location>>,
    ) -> Rdd {
        self.rdds += 1;
        let (id, site) = (RddId(self.rdds - 1), CallSite::here("test"));
        let mut info = RddInfo::new(id, "TestRDD", site, partitions, dependencies);
        info.preferred = preferred;
        Arc::new(info)
    }

    fn source(&mut self, partitions: u32) -> Rdd {
        self.rdd(partitions, Vec::new())
    }

    fn map(&mut self, parent: &Rdd) -> Rdd {
        let dependency = narrow(parent, NarrowMapping::OneToOne);
        self.rdd(parent.partitions, vec![dependency])
    }

    fn union(&mut self, parents: &[&Rdd]) -> Rdd {
        let mut start = 0;
        let mut dependencies = Vec::new();
        for parent in parents {
            let len = parent.partitions;
            dependencies.push(narrow(parent, NarrowMapping::Range { start, len }));
            start += len;
        }
        self.rdd(start, dependencies)
    }

    /// An RDD that reads each parent through a shuffle of its own.
    fn shuffled(&mut self, parents: &[&Rdd], partitions: u32) -> Rdd {
        let dependencies = parents.iter().map(|parent| self.shuffle(parent)).collect();
        self.rdd(partitions, dependencies)
    }

    fn shuffle(&mut self, parent: &Rdd) -> Dependency {
        self.shuffles += 1;
        Dependency::Shuffle { shuffle: ShuffleId(self.shuffles - 1), rdd: Arc::clone(parent) }
    }
}

fn narrow(parent: &Rdd, mapping: NarrowMapping) -> Dependency {
    Dependency::Narrow { rdd: Arc::clone(parent), mapping }
}

fn persist(rdd: &Rdd) {
    rdd.storage_level.set(StorageLevel::MEMORY_ONLY);
}

fn host(executor: u32) -> Host {
    Host::new(&format!("h{executor}"))
}

fn on(executor: u32) -> Location {
    Location { host: host(executor), executor: Some(ExecutorId(executor)) }
}

fn stage_ref(stage: u32, attempt: u32) -> StageRef {
    StageRef { stage: StageId(stage), attempt }
}

fn succeeded(task: TaskInfo) -> DagEvent {
    DagEvent::TaskEnded { task, outcome: TaskOutcome::Success, written: None }
}

/// A map output of `shuffle` could not be read.
fn fetch_failure(shuffle: u32, map_partition: u32, executor: u32) -> TaskFailure {
    TaskFailure::FetchFailed {
        shuffle: ShuffleId(shuffle),
        map_partition,
        reduce_partition: 0,
        location: ExecutorId(executor).into(),
        broken: Vec::new(),
        message: "connection refused".into(),
    }
}

/// A scheduler, a clock that moves by one at each event, and fresh task ids.
struct Bench {
    dag: DagScheduler,
    now: u64,
    tasks: u64,
    /// As published.
    outputs: BTreeMap<(ShuffleId, u32), MapOutputLocation>,
    /// Those that have registered.
    executors: BTreeSet<ExecutorId>,
}

/// How partitions are cached here.
const CACHED: BlockStatus = BlockStatus {
    memory_bytes: 1,
    disk_bytes: 0,
    level: StorageLevel::MEMORY_ONLY,
    epoch: u64::MAX,
};

impl Bench {
    fn new() -> Self {
        let options = DagOptions {
            max_consecutive_attempts: 4,
            resubmit_delay_ms: 200,
            ..DagOptions::default()
        };
        let (outputs, executors) = (BTreeMap::new(), BTreeSet::new());
        Bench { dag: DagScheduler::new(options), now: 0, tasks: 0, outputs, executors }
    }

    fn effects(&mut self, event: DagEvent) -> Vec<DagEffect> {
        self.now += 1;
        let mut out = Vec::new();
        self.dag.handle(Tick(self.now), event, &mut out);
        for effect in &out {
            if let DagEffect::Outside(SchedulerEffect::PublishMapOutputs { shuffle, locations }) =
                effect
            {
                for (map, at) in (0u32..).zip(locations) {
                    self.outputs.extend(at.map(|at| ((*shuffle, map), at)));
                }
            }
        }
        out
    }

    /// All but which outputs to drop: tests about that look at the effects.
    fn send(&mut self, event: DagEvent) -> Vec<String> {
        let effects = self.effects(event).into_iter();
        let dropped = |effect: &_| {
            matches!(effect, DagEffect::Outside(SchedulerEffect::DropMapOutputs { .. }))
        };
        let told = effects.filter(|effect| !dropped(effect));
        told.map(|effect| line(&effect)).collect()
    }

    fn submit(&mut self, job: u32, rdd: &Rdd) -> Vec<String> {
        self.submit_in(job, rdd, (0..rdd.partitions).collect(), collecting())
    }

    fn submit_in(
        &mut self,
        job: u32,
        rdd: &Rdd,
        partitions: Vec<u32>,
        properties: Properties,
    ) -> Vec<String> {
        self.send(DagEvent::JobSubmitted(JobSpec {
            job: JobId(job),
            rdd: Arc::clone(rdd),
            partitions,
            properties,
        }))
    }

    /// A new task of the attempt, launched now.
    fn task(&mut self, stage: (u32, u32), partition: u32, executor: u32) -> TaskInfo {
        self.tasks += 1;
        TaskInfo {
            task: TaskId(self.tasks - 1),
            stage: stage_ref(stage.0, stage.1),
            partition,
            index: partition,
            attempt: 0,
            executor: ExecutorId(executor),
            host: host(executor),
            speculative: false,
            locality: Locality::Any,
            launched: Tick(self.now),
        }
    }

    fn succeed(&mut self, stage: (u32, u32), partition: u32, executor: u32) -> Vec<String> {
        let task = self.task(stage, partition, executor);
        self.end(task, TaskOutcome::Success)
    }

    fn succeed_with(
        &mut self,
        stage: (u32, u32),
        partition: u32,
        executor: u32,
        checksum: u64,
    ) -> Vec<String> {
        let task = self.task(stage, partition, executor);
        let written = Some(MapStatus { checksum, ..Default::default() });
        self.send(DagEvent::TaskEnded { task, outcome: TaskOutcome::Success, written })
    }

    /// A fetch failure is about the output that was published last, if that executor held it.
    fn fail(&mut self, stage: (u32, u32), mut failure: TaskFailure) -> Vec<String> {
        let task = self.task(stage, 0, 9);
        if let TaskFailure::FetchFailed { shuffle, map_partition, location, broken, .. } =
            &mut failure
        {
            let held = self.outputs.get(&(*shuffle, *map_partition));
            let held = held.filter(|at| at.location == *location);
            broken
                .extend(held.map(|at| MapAttempt { map_partition: *map_partition, task: at.task }));
        }
        self.end(task, TaskOutcome::Failed(failure))
    }

    fn end(&mut self, task: TaskInfo, outcome: TaskOutcome) -> Vec<String> {
        self.send(DagEvent::TaskEnded { task, outcome, written: None })
    }

    /// Every partition of the attempt succeeds on the executor; the lines of the last one.
    fn finish(&mut self, stage: (u32, u32), partitions: u32, executor: u32) -> Vec<String> {
        (0..partitions).map(|p| self.succeed(stage, p, executor)).last().unwrap_or_default()
    }

    fn lose(&mut self, executor: u32, outputs_lost: bool) -> Vec<String> {
        self.send(DagEvent::ExecutorLost { executor: ExecutorId(executor), outputs_lost })
    }

    fn cache(&mut self, rdd: &Rdd, partition: u32, executor: u32, present: bool) {
        let (executor, host) = (ExecutorId(executor), host(executor));
        if self.executors.insert(executor) {
            assert!(self.send(DagEvent::ExecutorAdded { executor, host }).is_empty());
        }
        let block = RddBlock { rdd: rdd.id, partition };
        self.dag.blocks_mut().update(executor.into(), block, present.then_some(CACHED));
    }

    fn tick(&mut self, ms: u64) -> Vec<String> {
        self.now += ms;
        self.send(DagEvent::Ticked)
    }
}

fn listed<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    format!("[{}]", items.join(" "))
}

/// An effect in a few words.
fn line(effect: &DagEffect) -> String {
    match effect {
        DagEffect::SubmitTaskSet(set) => {
            format!("run {} {}", set.stage, listed(set.tasks.iter().map(|task| task.partition)))
        }
        DagEffect::CancelTaskSet { stage, .. } => format!("cancel {stage}"),
        DagEffect::RetireTaskSet { stage } => format!("retire {stage}"),
        DagEffect::Outside(effect) => outside_line(effect),
    }
}

fn outside_line(effect: &SchedulerEffect) -> String {
    match effect {
        SchedulerEffect::DeliverResult { job, index, task } => {
            format!("deliver {job}[{index}] t{task}")
        }
        SchedulerEffect::DeliverMapStatistics { job, bytes } => {
            format!("sizes {job} {}", listed(bytes))
        }
        SchedulerEffect::ApplyAccumulators { task } => format!("apply t{task}"),
        SchedulerEffect::ReleaseTask { task } => format!("release t{task}"),
        SchedulerEffect::EndJob { job, result: Ok(()) } => format!("end {job} ok"),
        SchedulerEffect::EndJob { result: Err(error), .. } => format!("end {error}"),
        SchedulerEffect::PublishMapOutputs { shuffle, locations } => {
            let executor =
                |l: &Option<MapOutputLocation>| l.map_or("-".into(), |at| number(at.location));
            format!("publish s{shuffle} {}", listed(locations.iter().map(executor)))
        }
        SchedulerEffect::DropMapOutputs { shuffle, outputs } => {
            let output = |(at, output): &(BlockLocation, MapAttempt)| {
                format!("{}@{}", output.map_partition, number(*at))
            };
            format!("drop s{shuffle} {}", listed(outputs.iter().map(output)))
        }
        SchedulerEffect::DropCachedPartitions { rdd, .. } => format!("drop cached {rdd}"),
        SchedulerEffect::Post(event) => event_line(event),
        SchedulerEffect::ArmTimer(at) => format!("timer {}", at.0),
        SchedulerEffect::LaunchTask { .. }
        | SchedulerEffect::KillTask { .. }
        | SchedulerEffect::DiscardOutput { .. }
        | SchedulerEffect::ReplicateBlocks { .. } => unreachable!("not the DAG scheduler's to say"),
    }
}

fn number(location: BlockLocation) -> String {
    location.executor().map_or(String::new(), |executor| executor.to_string())
}

fn event_line(event: &Event) -> String {
    match event {
        Event::JobStart { job, stages, .. } => {
            format!("job {job} starts {}", listed(stages.iter().map(|info| info.stage)))
        }
        Event::JobEnd { job, .. } => format!("job {job} ends"),
        Event::StageSubmitted { stage, .. } => format!("stage {} starts", stage.stage),
        Event::StageCompleted { stage, failure: None, .. } => format!("stage {} ok", stage.stage),
        Event::StageCompleted { stage, failure: Some(_), .. } => {
            format!("stage {} failed", stage.stage)
        }
        other => format!("unexpected {other:?}"),
    }
}
