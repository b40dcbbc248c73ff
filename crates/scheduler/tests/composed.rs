//! Both schedulers together against a small world of executors, blocks and faults.
//!
//! The world knows the truth (which executors live, where map outputs lie, which tasks run) and the
//! schedulers only what they are told, late and in any order. Random runs from seeds: several jobs
//! over one random lineage; tasks that panic, lose their input, are killed or finish in any order;
//! executors that die unnoticed for a while and are replaced. Then the faults stop, and everything
//! must come to an end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firesteel_scheduler::messages::{
    DagEvent, DagOptions, JobSpec, SpeculationOptions, TaskEvent, TaskOptions, TaskSetKind,
};
use firesteel_scheduler::{Scheduler, SchedulerEffect, SchedulerInput};
use firesteel_types::{
    BlockLocation, CallSite, Dependency, ExecutorId, ExecutorInfo, Host, JobId, MapAttempt,
    MapOutputLocation, NarrowMapping, Properties, RddId, RddInfo, ShuffleId, TaskFailure, TaskId,
    TaskInfo, TaskOutcome, Tick,
};

const RUNS: u64 = 3000;

/// What happened in all runs together: a fault that never fires proves nothing.
#[derive(Debug, Default)]
struct Fired {
    panics: u64,
    fetch_failures: u64,
    executor_losses: u64,
    late_reports: u64,
    kills: u64,
    cancelled_jobs: u64,
    failed_jobs: u64,
    finished_jobs: u64,
    reruns: u64,
    discarded: u64,
}

struct World {
    rng: fastrand::Rng,
    scheduler: Scheduler,
    now: Tick,
    rdds: Vec<Arc<RddInfo>>,
    /// Executors the schedulers believe in, and whether they live.
    executors: BTreeMap<ExecutorId, bool>,
    next_executor: u32,
    running: BTreeMap<TaskId, (TaskInfo, TaskSetKind)>,
    seen_tasks: BTreeSet<TaskId>,
    killed: BTreeSet<TaskId>,
    /// Where map outputs really lie.
    blocks: BTreeMap<(ShuffleId, u32), BTreeSet<MapOutputLocation>>,
    /// Where readers are told that they lie.
    published: BTreeMap<ShuffleId, Vec<Option<MapOutputLocation>>>,
    jobs: BTreeMap<JobId, Job>,
    applied: BTreeSet<(u32, u32)>,
    outputs: BTreeMap<TaskId, (TaskInfo, TaskSetKind)>,
    timers: BTreeSet<Tick>,
    faults: bool,
    /// One task in so many panics; some runs are savage.
    calmness: u8,
    fired: Fired,
}

struct Job {
    rdd: Arc<RddInfo>,
    delivered: Vec<u32>,
    ended: bool,
}

/// Copies of tasks that take somewhat longer than others.
fn impatient() -> SpeculationOptions {
    SpeculationOptions {
        interval_ms: 20,
        multiplier_milli: 1100,
        quantile_milli: 300,
        min_task_runtime_ms: 10,
    }
}

fn node(id: u32, partitions: u32, dependencies: Vec<Dependency>) -> Arc<RddInfo> {
    Arc::new(RddInfo::new(RddId(id), "TestRDD", CallSite::here("test"), partitions, dependencies))
}

/// A random lineage: sources, maps, unions and shuffles, some read by several children.
fn lineage(rng: &mut fastrand::Rng) -> Vec<Arc<RddInfo>> {
    let mut rdds: Vec<Arc<RddInfo>> = vec![node(0, rng.u32(1..5), Vec::new())];
    let mut next_shuffle = 0;
    for id in 1..rng.u32(3..10) {
        let parent = rdds[rng.usize(..rdds.len())].clone();
        let other = rdds[rng.usize(..rdds.len())].clone();
        let mut shuffle = |rdd| {
            next_shuffle += 1;
            Dependency::Shuffle { shuffle: ShuffleId(next_shuffle), rdd }
        };
        let made = match rng.u8(..10) {
            0 => node(id, rng.u32(1..5), Vec::new()),
            1..=3 => {
                let mapping = NarrowMapping::OneToOne;
                node(id, parent.partitions, vec![Dependency::Narrow { rdd: parent, mapping }])
            }
            4 => {
                let (a, b) = (parent.partitions, other.partitions);
                let left = NarrowMapping::Range { start: 0, len: a };
                let right = NarrowMapping::Range { start: a, len: b };
                let left = Dependency::Narrow { rdd: parent, mapping: left };
                let right = Dependency::Narrow { rdd: other, mapping: right };
                node(id, a + b, vec![left, right])
            }
            5..=6 => {
                let both = vec![shuffle(parent), shuffle(other)];
                node(id, rng.u32(1..5), both)
            }
            _ => node(id, rng.u32(1..5), vec![shuffle(parent)]),
        };
        rdds.push(made);
    }
    rdds
}

/// The shuffles that a task of `rdd` and `partition` reads.
fn read_shuffles(rdd: &Arc<RddInfo>, partition: u32) -> Vec<(ShuffleId, u32)> {
    let mut found = Vec::new();
    let mut pending = vec![(rdd.clone(), partition)];
    while let Some((rdd, partition)) = pending.pop() {
        for dependency in &rdd.dependencies {
            match dependency {
                Dependency::Shuffle { shuffle, rdd } => found.push((*shuffle, rdd.partitions)),
                Dependency::Narrow { rdd, mapping } => {
                    pending.extend(mapping.parents(partition).into_iter().map(|p| (rdd.clone(), p)))
                }
            }
        }
    }
    found
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let rdds = lineage(&mut rng);
        let speculation = rng.bool().then(impatient);
        let options = TaskOptions { max_failures: 4, speculation, ..TaskOptions::default() };
        let mut world = World {
            rng,
            scheduler: Scheduler::new(DagOptions::default(), options),
            now: Tick(0),
            rdds,
            executors: BTreeMap::new(),
            next_executor: 0,
            running: BTreeMap::new(),
            seen_tasks: BTreeSet::new(),
            killed: BTreeSet::new(),
            blocks: BTreeMap::new(),
            published: BTreeMap::new(),
            jobs: BTreeMap::new(),
            applied: BTreeSet::new(),
            outputs: BTreeMap::new(),
            timers: BTreeSet::new(),
            faults: true,
            calmness: 12,
            fired: Fired::default(),
        };
        world.calmness = world.rng.u8(2..40);
        for _ in 0..world.rng.u32(1..4) {
            world.add_executor();
        }
        world
    }

    fn feed(&mut self, input: SchedulerInput) {
        let mut effects = Vec::new();
        self.scheduler.handle(self.now, input, &mut effects);
        for effect in effects {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: SchedulerEffect) {
        match effect {
            SchedulerEffect::LaunchTask { task, kind, .. } => self.launch(task, kind),
            SchedulerEffect::KillTask { task, .. } => {
                self.fired.kills += 1;
                self.killed.insert(task);
            }
            SchedulerEffect::DeliverResult { job, index, task } => self.deliver(job, index, task),
            SchedulerEffect::DeliverMapStatistics { job, .. } => panic!("job {job} reads results"),
            SchedulerEffect::ApplyAccumulators { task } => {
                let (info, _) = &self.outputs[&task];
                let first = self.applied.insert((info.stage.stage.0, info.partition));
                assert!(first, "S16: accumulators applied twice for {info:?}");
            }
            SchedulerEffect::ReleaseTask { task } => {
                self.outputs.remove(&task);
            }
            SchedulerEffect::DiscardOutput { task } => {
                self.fired.discarded += 1;
                let written = |at: &MapOutputLocation| at.task == task.task;
                let read = self.published.values().flatten().flatten().any(written);
                assert!(!read, "S09: {task:?} is discarded while readers are sent there");
            }
            SchedulerEffect::EndJob { job, result } => {
                let state = self.jobs.get_mut(&job).expect("a job that was submitted");
                assert!(!state.ended, "S07: job {job} ended twice");
                state.ended = true;
                match result {
                    Ok(()) => {
                        self.fired.finished_jobs += 1;
                        let once = state.delivered.iter().all(|count| *count == 1);
                        assert!(once, "S08: job {job} delivered {:?}", state.delivered);
                    }
                    Err(firesteel_types::JobError::Cancelled { .. }) => {
                        self.fired.cancelled_jobs += 1;
                    }
                    Err(_) => self.fired.failed_jobs += 1,
                }
            }
            SchedulerEffect::PublishMapOutputs { shuffle, locations } => {
                self.published.insert(shuffle, locations);
            }
            SchedulerEffect::ArmTimer(at) => {
                self.timers.insert(at);
            }
            SchedulerEffect::DropMapOutputs { shuffle, outputs } => {
                for (location, output) in outputs {
                    let at = MapOutputLocation { location, task: output.task };
                    let told = self.published.get(&shuffle);
                    let told = told.and_then(|told| told[output.map_partition as usize]);
                    assert_ne!(told, Some(at), "readers are told of an output that is dropped");
                    if let Some(holders) = self.blocks.get_mut(&(shuffle, output.map_partition)) {
                        holders.remove(&at);
                    }
                }
            }
            SchedulerEffect::DropCachedPartitions { .. }
            | SchedulerEffect::ReplicateBlocks { .. } => {}
            SchedulerEffect::Post(_) => {}
        }
    }

    fn launch(&mut self, task: TaskInfo, kind: TaskSetKind) {
        assert!(self.seen_tasks.insert(task.task), "S05: task id {} used twice", task.task);
        let known = self.executors.contains_key(&task.executor);
        assert!(known, "S04: a task for {} after its loss", task.executor);
        if task.stage.attempt > 0 {
            self.fired.reruns += 1;
        }
        let rdd = self.computed_rdd(kind);
        for (shuffle, maps) in read_shuffles(&rdd, task.partition) {
            let locations = self.published.get(&shuffle);
            let complete = locations.is_some_and(|known| {
                known.len() == maps as usize && known.iter().all(Option::is_some)
            });
            assert!(complete, "S09: {task:?} starts before shuffle {shuffle} is complete");
        }
        self.running.insert(task.task, (task, kind));
    }

    fn computed_rdd(&self, kind: TaskSetKind) -> Arc<RddInfo> {
        match kind {
            TaskSetKind::Result(job) => self.jobs[&job].rdd.clone(),
            TaskSetKind::ShuffleMap(wanted) => {
                let mut dependencies = self.rdds.iter().flat_map(|rdd| &rdd.dependencies);
                let found = dependencies.find_map(|dependency| match dependency {
                    Dependency::Shuffle { shuffle, rdd } if *shuffle == wanted => Some(rdd.clone()),
                    _ => None,
                });
                found.expect("a shuffle of the lineage")
            }
        }
    }

    fn deliver(&mut self, job: JobId, index: u32, task: TaskId) {
        let (info, kind) = &self.outputs[&task];
        assert_eq!(*kind, TaskSetKind::Result(job), "S08: a result of another job");
        assert_eq!(info.partition, index, "S08: a result of another partition");
        let state = self.jobs.get_mut(&job).expect("a job that was submitted");
        assert!(!state.ended, "S08: a result after the end of job {job}");
        state.delivered[index as usize] += 1;
    }

    fn add_executor(&mut self) {
        let executor = ExecutorId(self.next_executor);
        self.next_executor += 1;
        self.executors.insert(executor, true);
        let (host, cores) = (Host::new(["a", "b"][self.rng.usize(..2)]), self.rng.u32(1..4));
        let info = ExecutorInfo::new(host, cores);
        self.feed(SchedulerInput::ExecutorAdded { executor, info });
    }

    fn submit_job(&mut self) {
        let rdd = self.rdds[self.rng.usize(..self.rdds.len())].clone();
        let job = JobId(self.jobs.len() as u32);
        let delivered = vec![0; rdd.partitions as usize];
        self.jobs.insert(job, Job { rdd: rdd.clone(), delivered, ended: false });
        let partitions = (0..rdd.partitions).collect();
        let properties = Properties::default();
        let spec = JobSpec { job, rdd, partitions, properties };
        self.feed(SchedulerInput::Dag(DagEvent::JobSubmitted(spec)));
    }

    fn lives(&self, executor: ExecutorId) -> bool {
        self.executors.get(&executor) == Some(&true)
    }

    /// Ends one running task as the world's state and chance have it.
    fn end_some_task(&mut self) {
        let candidates: Vec<TaskId> = self
            .running
            .iter()
            .filter(|(_, (task, _))| self.lives(task.executor))
            .map(|(id, _)| *id)
            .collect();
        let Some(id) = self.rng.choice(candidates) else { return };
        let (task, kind) = self.running.remove(&id).expect("it runs");
        let outcome = self.outcome(&task, kind);
        if outcome == TaskOutcome::Success {
            if let TaskSetKind::ShuffleMap(shuffle) = kind {
                let at = MapOutputLocation { location: task.executor.into(), task: task.task };
                self.blocks.entry((shuffle, task.partition)).or_default().insert(at);
            }
            self.outputs.insert(id, (task.clone(), kind));
        }
        self.report(id, task.executor, outcome.clone());
        if self.faults && self.rng.u8(..20) == 0 {
            self.fired.late_reports += 1;
            self.report(id, task.executor, TaskOutcome::Failed(panic()));
        }
    }

    fn report(&mut self, task: TaskId, executor: ExecutorId, outcome: TaskOutcome) {
        let reported =
            TaskEvent::TaskReported { task, executor, outcome, metrics: None, written: None };
        self.feed(SchedulerInput::Task(reported));
    }

    fn outcome(&mut self, task: &TaskInfo, kind: TaskSetKind) -> TaskOutcome {
        if self.killed.contains(&task.task) && self.rng.bool() {
            return TaskOutcome::Failed(TaskFailure::Killed { reason: "asked to".into() });
        }
        if let Some(failure) = self.missing_input(task, kind) {
            self.fired.fetch_failures += 1;
            return TaskOutcome::Failed(failure);
        }
        if self.faults && self.rng.u8(..self.calmness) == 0 {
            self.fired.panics += 1;
            return TaskOutcome::Failed(panic());
        }
        TaskOutcome::Success
    }

    /// Reads all map outputs from where they were published.
    fn missing_input(&self, task: &TaskInfo, kind: TaskSetKind) -> Option<TaskFailure> {
        let rdd = self.computed_rdd(kind);
        for (shuffle, maps) in read_shuffles(&rdd, task.partition) {
            for map in 0..maps {
                let told = self.published[&shuffle][map as usize];
                let there = told.is_some_and(|at| {
                    let holders = self.blocks.get(&(shuffle, map));
                    at.location.executor().is_some_and(|at| self.lives(at))
                        && holders.is_some_and(|all| all.contains(&at))
                });
                let broken = told.map(|at| MapAttempt { map_partition: map, task: at.task });
                if !there {
                    return Some(TaskFailure::FetchFailed {
                        shuffle,
                        map_partition: map,
                        reduce_partition: task.partition,
                        location: told.map_or(BlockLocation::DRIVER, |at| at.location),
                        broken: broken.into_iter().collect(),
                        message: "gone".into(),
                    });
                }
            }
        }
        None
    }

    /// An executor dies; nobody knows yet.
    fn kill_some_executor(&mut self) {
        let living = self.executors.iter().filter(|(_, lives)| **lives).map(|(id, _)| *id);
        let living: Vec<_> = living.collect();
        if let Some(executor) = self.rng.choice(living) {
            self.executors.insert(executor, false);
        }
    }

    /// The schedulers learn of one death.
    fn notice_some_death(&mut self) {
        let dead = self.executors.iter().filter(|(_, lives)| !**lives).map(|(id, _)| *id);
        let Some(executor) = dead.collect::<Vec<_>>().first().copied() else { return };
        self.fired.executor_losses += 1;
        self.executors.remove(&executor);
        self.running.retain(|_, (task, _)| task.executor != executor);
        self.feed(SchedulerInput::ExecutorLost {
            executor,
            caused_by_app: self.now.0.is_multiple_of(2),
            outputs_lost: true,
            reason: "killed".into(),
        });
    }

    fn tick(&mut self) {
        if let Some(at) = self.timers.pop_first() {
            self.now = self.now.max(at);
            self.feed(SchedulerInput::Ticked);
        }
    }

    fn run(mut self) -> Fired {
        let jobs = self.rng.usize(1..6);
        for _ in 0..self.rng.u32(30..150) {
            self.now = self.now.plus_ms(self.rng.u64(..50));
            match self.rng.u8(..30) {
                0..=2 if self.jobs.len() < jobs => self.submit_job(),
                3 => self.kill_some_executor(),
                4..=5 => self.notice_some_death(),
                6 if self.executors.len() < 4 => self.add_executor(),
                7 => self.tick(),
                8 if self.rng.bool() => self.cancel_some_job(),
                _ => self.end_some_task(),
            }
        }
        self.calm_down();
        self.fired
    }

    fn cancel_some_job(&mut self) {
        let reason = "cancelled".to_owned();
        if let Some(job) = self.rng.choice(self.jobs.keys().copied().collect::<Vec<_>>()) {
            self.feed(SchedulerInput::Dag(DagEvent::JobCancelled { job, reason }));
        }
    }

    /// No more faults: every job must end, and nothing may be left over.
    fn calm_down(&mut self) {
        self.faults = false;
        while self.executors.values().any(|lives| !lives) {
            self.notice_some_death();
        }
        self.add_executor();
        for _ in 0..10_000 {
            if self.running.is_empty() && self.timers.is_empty() {
                break;
            }
            self.end_some_task();
            if self.running.is_empty() {
                self.tick();
            }
        }
        let open: Vec<_> = self.jobs.iter().filter(|(_, job)| !job.ended).collect();
        assert!(open.is_empty(), "L02: {} job(s) never end", open.len());
        assert!(self.scheduler.is_idle(), "S17: the schedulers are not idle at the end");
        assert!(self.outputs.is_empty(), "S17: outputs of {:?} are kept", self.outputs.keys());
    }
}

fn panic() -> TaskFailure {
    TaskFailure::Panicked {
        message: "on purpose".into(),
        location: "here".into(),
        stack_trace: String::new(),
    }
}

#[test]
fn every_job_ends_once_and_delivers_each_partition_once_whatever_happens() {
    let runs = std::env::var("RUNS").ok().and_then(|n| n.parse().ok()).unwrap_or(RUNS);
    let mut all = Fired::default();
    for seed in 0..runs {
        let fired = std::panic::catch_unwind(|| World::new(seed).run());
        let fired = fired.unwrap_or_else(|_| panic!("seed {seed} broke a rule, see above"));
        all.panics += fired.panics;
        all.fetch_failures += fired.fetch_failures;
        all.executor_losses += fired.executor_losses;
        all.late_reports += fired.late_reports;
        all.kills += fired.kills;
        all.cancelled_jobs += fired.cancelled_jobs;
        all.failed_jobs += fired.failed_jobs;
        all.finished_jobs += fired.finished_jobs;
        all.reruns += fired.reruns;
        all.discarded += fired.discarded;
    }
    println!("{all:?}");
    let counts = [
        all.panics,
        all.fetch_failures,
        all.executor_losses,
        all.late_reports,
        all.kills,
        all.cancelled_jobs,
        all.failed_jobs,
        all.finished_jobs,
        all.reruns,
        all.discarded,
    ];
    assert!(counts.iter().all(|count| *count > 0), "a kind of fault never fired: {all:?}");
}
