//! The model: a task scheduler that launches, loses and repeats tasks as it is told, and the books
//! against which each effect is checked.

use firesteel_types::JobError;

use super::*;
use crate::dag::state::StageState;
use crate::messages::{MapStageSpec, TaskSet, TaskSetFailure, TaskSetKind};

/// A task set as the task scheduler has it.
struct Set {
    set: TaskSet,
    /// Partitions to launch.
    waiting: BTreeSet<u32>,
    finished: BTreeMap<u32, ExecutorId>,
    retired: bool,
}

impl Set {
    fn is_active(&self) -> bool {
        !self.retired && self.finished.len() < self.set.tasks.len()
    }
}

struct JobBook {
    partitions: Vec<u32>,
    delivered: BTreeSet<u32>,
    delivered_by: Vec<TaskId>,
    end_posted: bool,
    ended: Option<Result<(), JobError>>,
}

pub(super) struct World {
    dag: DagScheduler,
    now: u64,
    rdds: Vec<Rdd>,
    shuffles: BTreeMap<ShuffleId, Rdd>,
    /// Whether finished map tasks of a lost executor are run again within their set.
    reruns: bool,
    sets: BTreeMap<StageRef, Set>,
    running: BTreeMap<TaskId, TaskInfo>,
    /// Every task's stage attempt, partition and launch.
    tasks: BTreeMap<TaskId, TaskInfo>,
    succeeded: Vec<TaskId>,
    executors: BTreeSet<ExecutorId>,
    next_executor: u32,
    outputs_lost_at: BTreeMap<ExecutorId, Tick>,
    /// Shuffles by stage, from the task sets.
    map_stages: BTreeMap<StageId, ShuffleId>,
    published: BTreeMap<ShuffleId, Vec<Option<MapOutputLocation>>>,
    /// Whether outputs of some shuffles depend on the attempt that writes them.
    indeterminate: bool,
    /// The checksums of the map outputs that a task read.
    read: BTreeMap<TaskId, BTreeMap<(ShuffleId, u32), u64>>,
    cached: BTreeMap<(RddId, u32), BTreeSet<ExecutorId>>,
    jobs: BTreeMap<JobId, JobBook>,
    accumulated: BTreeSet<(StageId, u32)>,
    open_attempts: BTreeSet<StageRef>,
    attempts: BTreeSet<StageRef>,
    timers: BTreeSet<Tick>,
    pub(super) tally: Tally,
    pub(super) trace: Vec<String>,
}

impl World {
    pub(super) fn new(flags: u8, rdds: Vec<Rdd>) -> Self {
        let max_consecutive_attempts = u32::from(flags % 4) + 1;
        let options =
            DagOptions { max_consecutive_attempts, resubmit_delay_ms: 3, ..DagOptions::default() };
        let dependencies = rdds.iter().flat_map(|rdd| &rdd.dependencies);
        let shuffles = dependencies.filter_map(|dependency| match dependency {
            Dependency::Shuffle { shuffle, rdd } => Some((*shuffle, Arc::clone(rdd))),
            Dependency::Narrow { .. } => None,
        });
        World {
            dag: DagScheduler::new(options),
            now: 0,
            shuffles: shuffles.collect(),
            rdds,
            reruns: flags & 0x10 != 0,
            sets: BTreeMap::new(),
            running: BTreeMap::new(),
            tasks: BTreeMap::new(),
            succeeded: Vec::new(),
            executors: [1, 2, 3].map(ExecutorId).into(),
            next_executor: 4,
            outputs_lost_at: BTreeMap::new(),
            map_stages: BTreeMap::new(),
            published: BTreeMap::new(),
            indeterminate: flags & 0x20 != 0,
            read: BTreeMap::new(),
            cached: BTreeMap::new(),
            jobs: BTreeMap::new(),
            accumulated: BTreeSet::new(),
            open_attempts: BTreeSet::new(),
            attempts: BTreeSet::new(),
            timers: BTreeSet::new(),
            tally: Tally::new(),
            trace: Vec::new(),
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.tally.entry(what).or_default() += 1;
    }

    // What happens.

    pub(super) fn step(&mut self, (what, a, b): Step) {
        match what {
            0..100 => self.launch(a, b),
            100..170 => self.succeed(a),
            170..176 => self.fail_task(a),
            176..196 => self.fail_fetch(a, b),
            196..203 => self.lose_executor(a, b),
            203..206 => self.add_executor(a),
            206..214 => self.submit_job(a, b),
            214..216 => self.cancel(a, b),
            216..217 => self.fail_set(a),
            217..227 => self.repeat_success(a),
            227..235 => self.cache_one(a, b),
            235..239 => self.cache_all(a, b),
            239..242 => self.unpersist(a),
            242..244 => self.remove_shuffle(a),
            _ => self.tick(u64::from(a % 32)),
        }
    }

    pub(super) fn submit_job(&mut self, a: u8, b: u8) {
        if self.jobs.len() >= 6 {
            return;
        }
        let rdd =
            Arc::clone(&self.rdds[self.rdds.len() - 1 - (255 - a as usize) % self.rdds.len()]);
        let mut partitions: Vec<u32> = (0..rdd.partitions).collect();
        match b % 8 {
            0 => partitions.truncate(1),
            1 => partitions.extend(0..rdd.partitions),
            2 if b == 2 => partitions.clear(),
            _ => {}
        }
        // One in eight wants the outputs of a shuffle and reads none.
        let shuffle = rdd.reads().iter().find_map(|dependency| match dependency {
            Dependency::Shuffle { shuffle, rdd } => Some((*shuffle, Arc::clone(rdd))),
            Dependency::Narrow { .. } => None,
        });
        let shuffle = shuffle.filter(|_| b % 8 == 3);
        if shuffle.is_some() {
            partitions = vec![0];
        }
        let job = JobId(u32::try_from(self.jobs.len()).unwrap());
        let book = JobBook {
            partitions: partitions.clone(),
            delivered: BTreeSet::new(),
            delivered_by: Vec::new(),
            end_posted: false,
            ended: None,
        };
        self.jobs.insert(job, book);
        let mut properties = Properties::default();
        if b & 0x80 == 0 {
            properties.set(Properties::GROUP, Some(&format!("g{}", b & 1)));
        }
        let submitted = match shuffle {
            None => DagEvent::JobSubmitted(JobSpec { job, rdd, partitions, properties }),
            Some((shuffle, map_side)) => {
                self.count("map stage wanted by itself");
                let (rdd, readers) = (map_side, rdd.partitions);
                DagEvent::MapStageSubmitted(MapStageSpec { job, shuffle, rdd, readers, properties })
            }
        };
        self.send(submitted);
    }

    fn launch(&mut self, a: u8, b: u8) {
        let active = self.sets.iter().filter(|(_, set)| set.is_active());
        let waiting = active.flat_map(|(stage, set)| set.waiting.iter().map(|p| (*stage, *p)));
        let Some((stage, partition)) = pick(waiting, a) else { return };
        let Some(executor) = pick(self.executors.iter().copied(), b) else { return };
        self.sets.get_mut(&stage).unwrap().waiting.remove(&partition);
        let task = TaskId(self.tasks.len() as u64);
        let info = TaskInfo {
            task,
            stage,
            partition,
            index: partition,
            attempt: 0,
            executor,
            host: host(executor.0),
            speculative: false,
            locality: Locality::Any,
            launched: Tick(self.now),
        };
        self.tasks.insert(task, info.clone());
        let read = self.read_now(&info);
        self.read.insert(task, read);
        self.running.insert(task, info);
    }

    fn succeed(&mut self, a: u8) {
        if let Some(task) = pick(self.running.keys().copied(), a) {
            self.succeed_task(task);
        }
    }

    fn succeed_task(&mut self, task: TaskId) {
        let task = self.running.remove(&task).unwrap();
        if let Some(set) = self.sets.get_mut(&task.stage) {
            set.finished.insert(task.partition, task.executor);
            if set.retired {
                self.count("success of a retired attempt");
            }
        }
        self.succeeded.push(task.task);
        self.tell_success(task);
    }

    fn tell_success(&mut self, task: TaskInfo) {
        let id = task.task;
        let shuffle = self.map_stages.get(&task.stage.stage).copied();
        let checksum = shuffle.map_or(0, |shuffle| self.checksum(shuffle, id));
        let written = Some(MapStatus { checksum, ..Default::default() });
        let outcome = TaskOutcome::Success;
        let effects = self.send(DagEvent::TaskEnded { task, outcome, written });
        let release = |e: &DagEffect| matches!(e, DagEffect::Outside(SchedulerEffect::ReleaseTask { task }) if *task == id);
        let released = effects.iter().position(release).expect("released");
        assert_eq!(effects.iter().filter(|e| release(e)).count(), 1, "released once");
        let uses = |e: &DagEffect| {
            matches!(
                e,
                DagEffect::Outside(
                    SchedulerEffect::DeliverResult { .. }
                        | SchedulerEffect::ApplyAccumulators { .. }
                )
            )
        };
        assert!(!effects[released..].iter().any(uses), "used after its release: {effects:?}");
    }

    fn repeat_success(&mut self, a: u8) {
        let Some(id) = pick(self.succeeded.iter().rev().copied(), a) else { return };
        let task = self.tasks[&id].clone();
        // The repetition of a message says nothing new about what was written.
        let refused = self.is_void(&task) && self.map_stages.contains_key(&task.stage.stage);
        self.count(if refused { "output of a lost executor refused" } else { "success repeated" });
        self.tell_success(task);
    }

    fn is_void(&self, task: &TaskInfo) -> bool {
        self.outputs_lost_at.get(&task.executor).is_some_and(|at| task.launched <= *at)
    }

    /// Ends a running task without success; its set tries again.
    fn end_badly(&mut self, task: TaskId, failure: TaskFailure) {
        let Some(task) = self.running.remove(&task) else { return };
        if let Some(set) = self.sets.get_mut(&task.stage) {
            set.waiting.insert(task.partition);
        }
        let outcome = TaskOutcome::Failed(failure);
        self.send(DagEvent::TaskEnded { task, outcome, written: None });
    }

    fn fail_task(&mut self, a: u8) {
        let Some(task) = pick(self.running.keys().copied(), a) else { return };
        self.count("task failed");
        self.end_badly(task, TaskFailure::Error { message: "no".into() });
    }

    fn fail_fetch(&mut self, a: u8, b: u8) {
        let reading = self.running.values().filter(|task| !self.direct_shuffles(task).is_empty());
        let mut reading: Vec<_> = reading.map(|task| (task.stage, task.task)).collect();
        if b & 0x80 != 0 {
            // Old attempts first, and those only: late messages are rare otherwise.
            reading.sort_by_key(|(stage, _)| self.is_latest(*stage));
            reading.truncate(1);
        }
        let Some((_, task)) = pick(reading, a) else { return };
        let info = self.running[&task].clone();
        let shuffle = pick(self.direct_shuffles(&info), b).unwrap();
        let Some(map) = pick(0..self.shuffles[&shuffle].partitions, b / 4) else { return };
        let known = self.published.get(&shuffle).and_then(|l| l[map as usize]);
        self.count(if self.is_latest(info.stage) {
            "fetch failure of the latest attempt"
        } else {
            "fetch failure of an old attempt"
        });
        let failure = self.unreadable(shuffle, map, known, b & 0x40 != 0);
        self.end_badly(task, failure);
    }

    /// One output cannot be read, or all of its executor's.
    fn unreadable(
        &self,
        shuffle: ShuffleId,
        map_partition: u32,
        known: Option<MapOutputLocation>,
        all: bool,
    ) -> TaskFailure {
        let location = known.map_or(ExecutorId(1).into(), |at| at.location);
        let executor = location.executor().unwrap();
        let published = self.published.get(&shuffle).into_iter().flatten();
        let there = (0u32..).zip(published).filter_map(|(map, at)| Some((map, (*at)?)));
        let there =
            there.filter(|(map, at)| at.location == location && (all || *map == map_partition));
        let broken = there.map(|(map_partition, at)| MapAttempt { map_partition, task: at.task });
        let mut failure = fetch_failure(shuffle.0, map_partition, executor.0);
        if let TaskFailure::FetchFailed { broken: named, .. } = &mut failure {
            named.extend(broken);
        }
        failure
    }

    /// What is in the output that the task wrote: for some shuffles it depends on the attempt.
    fn checksum(&self, shuffle: ShuffleId, task: TaskId) -> u64 {
        let differs = self.indeterminate && shuffle.0.is_multiple_of(2);
        if differs { 1 + task.0 % 3 } else { 0 }
    }

    /// What a task that starts now finds in the map outputs it reads.
    fn read_now(&self, task: &TaskInfo) -> BTreeMap<(ShuffleId, u32), u64> {
        let mut read = BTreeMap::new();
        for shuffle in self.direct_shuffles(task) {
            let published = self.published.get(&shuffle).into_iter().flatten();
            for (map, at) in (0u32..).zip(published) {
                read.extend(at.map(|at| ((shuffle, map), self.checksum(shuffle, at.task))));
            }
        }
        read
    }

    /// S20: what these tasks brought was made from the same records.
    fn check_mixed(&self, tasks: &[TaskId]) {
        let mut all = BTreeMap::new();
        for (output, checksum) in tasks.iter().filter_map(|task| self.read.get(task)).flatten() {
            let other = *all.entry(*output).or_insert(*checksum);
            assert_eq!(other, *checksum, "S20: {output:?} was read in two versions");
        }
    }

    fn is_latest(&self, stage: StageRef) -> bool {
        !self.attempts.contains(&stage_ref(stage.stage.0, stage.attempt + 1))
    }

    fn direct_shuffles(&self, task: &TaskInfo) -> BTreeSet<ShuffleId> {
        let set = self.sets.get(&task.stage);
        set.map(|set| self.required(set.set.rdd, &mut |_| false)).unwrap_or_default()
    }

    fn fail_set(&mut self, a: u8) {
        let active = self.sets.iter().filter(|(_, set)| set.is_active());
        let Some(stage) = pick(active.map(|(stage, _)| *stage), a) else { return };
        self.count("abort: task set");
        self.forget_set(stage);
        let failure = TaskFailure::Fatal { message: "no".into() };
        let cause = TaskSetFailure::TaskFailed { partition: 0, attempts: 4, failure };
        self.send(DagEvent::TaskSetFailed { stage, cause });
    }

    fn forget_set(&mut self, stage: StageRef) {
        self.sets.remove(&stage);
        self.running.retain(|_, task| task.stage != stage);
    }

    /// The executor's tasks fail and finished map tasks are run again, before or after the DAG
    /// scheduler hears of the loss; perhaps one success was under way and comes too late.
    fn lose_executor(&mut self, a: u8, b: u8) {
        let Some(executor) = pick(self.executors.iter().copied(), a) else { return };
        let outputs_lost = b & 3 != 0;
        self.count(if outputs_lost {
            "executor lost, outputs too"
        } else {
            "executor lost, outputs kept"
        });
        self.executors.remove(&executor);
        if self.executors.is_empty() || b & 4 != 0 {
            self.executors.insert(ExecutorId(self.next_executor));
            self.next_executor += 1;
        }
        if b & 8 != 0 {
            self.tell_loss(executor, outputs_lost);
            self.fail_tasks_of(executor, outputs_lost, b & 0x10 != 0);
        } else {
            self.fail_tasks_of(executor, outputs_lost, false);
            self.tell_loss(executor, outputs_lost);
        }
    }

    fn tell_loss(&mut self, executor: ExecutorId, outputs_lost: bool) {
        for executors in self.cached.values_mut() {
            executors.remove(&executor);
        }
        if outputs_lost {
            self.outputs_lost_at.insert(executor, Tick(self.now + 1));
        }
        self.send(DagEvent::ExecutorLost { executor, outputs_lost });
    }

    fn fail_tasks_of(&mut self, executor: ExecutorId, outputs_lost: bool, late_success: bool) {
        if outputs_lost && self.reruns {
            self.rerun_map_tasks(executor);
        }
        let on_it = self.running.values().filter(|task| task.executor == executor);
        let tasks: Vec<TaskId> = on_it.map(|task| task.task).collect();
        for (index, task) in tasks.into_iter().enumerate() {
            if late_success && index == 0 {
                if outputs_lost {
                    self.count("output of a lost executor refused");
                }
                self.succeed_task(task);
                continue;
            }
            let reason = "gone".to_string();
            let failure = TaskFailure::ExecutorLost { executor, caused_by_app: false, reason };
            self.end_badly(task, failure);
        }
    }

    fn rerun_map_tasks(&mut self, executor: ExecutorId) {
        for set in self.sets.values_mut().filter(|set| set.is_active()) {
            if matches!(set.set.kind, TaskSetKind::ShuffleMap(_)) {
                let lost = set.finished.iter().filter(|(_, at)| **at == executor);
                let lost: Vec<u32> = lost.map(|(partition, _)| *partition).collect();
                for partition in lost {
                    set.finished.remove(&partition);
                    set.waiting.insert(partition);
                }
            }
        }
    }

    fn add_executor(&mut self, a: u8) {
        let gone = (1..self.next_executor).map(ExecutorId);
        let gone = gone.filter(|executor| !self.executors.contains(executor));
        let Some(executor) = pick(gone.collect::<Vec<_>>(), a) else { return };
        self.count("executor added again");
        self.executors.insert(executor);
        self.send(DagEvent::ExecutorAdded { executor, host: host(executor.0) });
    }

    fn cancel(&mut self, a: u8, b: u8) {
        let reason = "enough".to_string();
        let job = JobId(u32::from(b % 7));
        let stage = pick(self.attempts.iter().rev().copied(), b).map_or(StageId(0), |s| s.stage);
        let (what, event) = match a {
            0..120 => ("cancel: job", DagEvent::JobCancelled { job, reason }),
            120..200 => ("cancel: stage", DagEvent::StageCancelled { stage, reason }),
            200..235 => (
                "cancel: group",
                DagEvent::JobGroupCancelled { group: format!("g{}", b & 1), reason },
            ),
            _ => ("cancel: all", DagEvent::AllJobsCancelled { reason }),
        };
        if self
            .send(event)
            .iter()
            .any(|effect| matches!(effect, DagEffect::Outside(SchedulerEffect::EndJob { .. })))
        {
            self.count(what);
        }
    }

    fn cached_rdd(&self, a: u8) -> Option<&Rdd> {
        pick(self.rdds.iter().filter(|rdd| rdd.is_persisted()), a)
    }

    fn cache_one(&mut self, a: u8, b: u8) {
        let Some((rdd, partitions)) = self.cached_rdd(a).map(|rdd| (rdd.id, rdd.partitions)) else {
            return;
        };
        self.update_cache(rdd, u32::from(b) % partitions, b / 8, b & 1 == 0);
    }

    fn cache_all(&mut self, a: u8, b: u8) {
        let Some((rdd, partitions)) = self.cached_rdd(a).map(|rdd| (rdd.id, rdd.partitions)) else {
            return;
        };
        for partition in 0..partitions {
            self.update_cache(rdd, partition, b, true);
        }
    }

    fn update_cache(&mut self, rdd: RddId, partition: u32, choice: u8, present: bool) {
        let executors = self.cached.entry((rdd, partition)).or_default();
        let there = if present { &self.executors } else { &*executors };
        let Some(executor) = pick(there.iter().copied(), choice) else { return };
        if present {
            executors.insert(executor);
        } else {
            executors.remove(&executor);
        }
        if present {
            self.send(DagEvent::RddPersisted { rdd });
            self.send(DagEvent::ExecutorAdded { executor, host: host(executor.0) });
        }
        let block = RddBlock { rdd, partition };
        self.dag.blocks_mut().update(executor.into(), block, present.then_some(CACHED));
    }

    fn unpersist(&mut self, a: u8) {
        let Some(rdd) = self.cached_rdd(a).map(|rdd| rdd.id) else { return };
        self.cached.retain(|(cached, _), _| *cached != rdd);
        self.send(DagEvent::RddUnpersisted { rdd });
    }

    fn remove_shuffle(&mut self, a: u8) {
        let Some(shuffle) = pick(self.shuffles.keys().copied(), a) else { return };
        // A shuffle that somebody may still read is never removed: what its readers read is forgotten.
        if self.indeterminate {
            return;
        }
        if self.dag.shuffle_stages.contains_key(&shuffle) {
            self.count("shuffle removed under a job");
        }
        self.published.remove(&shuffle);
        self.send(DagEvent::ShuffleRemoved { shuffle });
    }

    fn tick(&mut self, ms: u64) {
        self.now += ms;
        let due: Vec<Tick> = self.timers.range(..=Tick(self.now + 1)).copied().collect();
        for timer in due {
            self.timers.remove(&timer);
            self.send(DagEvent::Ticked);
        }
        if ms == 1 {
            self.send(DagEvent::Ticked);
        }
    }

    /// No more faults: launch and finish what there is until nothing is left to do (L02).
    pub(super) fn quiet_down(&mut self) {
        for round in 0.. {
            assert!(round < 20_000, "does not come to an end: {:?}", self.dag.counts());
            let waiting = |set: &Set| set.is_active() && !set.waiting.is_empty();
            if let Some(task) = self.running.keys().next().copied() {
                self.succeed_task(task);
            } else if self.sets.values().any(waiting) {
                self.launch(0, round as u8);
            } else if self.timers.is_empty() {
                break;
            } else {
                self.tick(20);
            }
        }
        self.check_end();
    }

    // What is checked.

    fn check_end(&mut self) {
        for job in self.jobs.values() {
            let ended = job.ended.as_ref().expect("every job ends");
            assert!(job.end_posted);
            assert!(ended.is_err() || job.delivered.len() == job.partitions.len(), "S08");
        }
        assert!(self.dag.is_idle(), "S17: {:?}", self.dag);
        assert!(self.open_attempts.is_empty(), "every attempt submitted is completed");
        assert!(!self.sets.values().any(Set::is_active), "no task set outlives its stage");
        let failed = self.jobs.values().filter(|job| matches!(job.ended, Some(Err(_)))).count();
        *self.tally.entry("job succeeded").or_default() += (self.jobs.len() - failed) as u64;
        if failed > 0 {
            *self.tally.entry("job failed").or_default() += failed as u64;
        }
    }

    fn send(&mut self, event: DagEvent) -> Vec<DagEffect> {
        self.now += 1;
        let mut effects = Vec::new();
        self.dag.handle(Tick(self.now), event, &mut effects);
        for effect in &effects {
            self.trace.push(format!("{} {}", self.now, line(effect)));
            self.apply(effect);
        }
        self.check_books();
        effects
    }

    fn apply(&mut self, effect: &DagEffect) {
        match effect {
            DagEffect::SubmitTaskSet(set) => self.submitted(set),
            DagEffect::CancelTaskSet { stage, .. } => self.forget_set(*stage),
            DagEffect::RetireTaskSet { stage } => {
                if let Some(set) = self.sets.get_mut(stage) {
                    set.retired = true;
                }
            }
            DagEffect::Outside(effect) => self.apply_outside(effect),
        }
    }

    fn apply_outside(&mut self, effect: &SchedulerEffect) {
        match effect {
            SchedulerEffect::DeliverResult { job, index, task } => {
                self.delivered(*job, *index, *task)
            }
            SchedulerEffect::DeliverMapStatistics { job, .. } => {
                let job = self.jobs.get_mut(job).unwrap();
                assert!(job.ended.is_none() && job.delivered.insert(0), "S08: told twice");
            }
            SchedulerEffect::ApplyAccumulators { task } => {
                let task = &self.tasks[task];
                let fresh = self.accumulated.insert((task.stage.stage, task.partition));
                assert!(fresh, "S16: accumulators of {task:?} applied twice");
            }
            SchedulerEffect::ReleaseTask { .. } => {}
            SchedulerEffect::EndJob { job, result } => self.ended(*job, result),
            SchedulerEffect::PublishMapOutputs { shuffle, locations } => {
                assert_eq!(locations.len(), self.shuffles[shuffle].partitions as usize);
                self.published.insert(*shuffle, locations.clone());
            }
            SchedulerEffect::DropMapOutputs { shuffle, outputs } => self.dropped(*shuffle, outputs),
            SchedulerEffect::DropCachedPartitions { rdd, .. } => {
                self.count("cached partitions rolled back");
                self.cached.retain(|(cached, _), _| cached != rdd);
            }
            SchedulerEffect::Post(event) => self.posted(event),
            SchedulerEffect::ArmTimer(at) => {
                self.timers.insert(*at);
            }
            SchedulerEffect::LaunchTask { .. }
            | SchedulerEffect::KillTask { .. }
            | SchedulerEffect::DiscardOutput { .. }
            | SchedulerEffect::ReplicateBlocks { .. } => panic!("not its own to say: {effect:?}"),
        }
    }

    fn submitted(&mut self, set: &TaskSet) {
        let stage = set.stage;
        assert!(!set.tasks.is_empty(), "an empty task set never ends");
        let mut others = self.sets.iter().filter(|(other, _)| other.stage == stage.stage);
        assert!(!others.any(|(_, other)| other.is_active()), "S10: two active sets of {stage}");
        assert!(self.open_attempts.contains(&stage), "{stage} was not posted");
        self.check_reads(set.rdd);
        let partitions: BTreeSet<u32> = set.tasks.iter().map(|task| task.partition).collect();
        assert_eq!(partitions.len(), set.tasks.len(), "a partition twice");
        match set.kind {
            TaskSetKind::ShuffleMap(shuffle) => {
                self.map_stages.insert(stage.stage, shuffle);
            }
            TaskSetKind::Result(job) => {
                let job = &self.jobs[&job];
                let open = (0u32..).zip(&job.partitions);
                let open = open.filter(|(index, _)| !job.delivered.contains(index));
                assert_eq!(partitions, open.map(|(_, partition)| *partition).collect());
            }
        }
        if self.dag.stages[&stage.stage].jobs.len() > 1 {
            self.count("task set submitted for several jobs");
        }
        let (set, finished) = (set.clone(), BTreeMap::new());
        self.sets.insert(stage, Set { set, waiting: partitions, finished, retired: false });
    }

    /// S09: all that the set must read is published, and lies where it was written and not lost.
    fn check_reads(&mut self, rdd: RddId) {
        let cached = self.cached.clone();
        let mut covered = |rdd: &Rdd| {
            let there = |p| cached.get(&(rdd.id, p)).is_some_and(|at| !at.is_empty());
            rdd.is_persisted() && rdd.partitions > 0 && (0..rdd.partitions).all(there)
        };
        let required = self.required(rdd, &mut covered);
        for shuffle in &required {
            let locations = self.published.get(shuffle).expect("S09: published");
            let mut writers = Vec::new();
            for (map, at) in (0u32..).zip(locations) {
                let at = at.expect("S09: every output registered");
                let wrote = &self.tasks[&at.task];
                let wrote_at = (wrote.partition, wrote.executor.into());
                assert_eq!(wrote_at, (map, at.location), "S09: written");
                assert!(!self.is_void(wrote), "S09: output of a lost executor");
                writers.push(at.task);
            }
            self.check_mixed(&writers);
        }
        let incomplete = |s| self.published.get(s).is_none_or(|l| l.contains(&None));
        let spared = self.required(rdd, &mut |_| false);
        if spared.difference(&required).any(incomplete) {
            self.count("cached rdd spared a shuffle");
        }
    }

    /// What is dropped is not what readers were told of.
    fn dropped(&mut self, shuffle: ShuffleId, outputs: &[(BlockLocation, MapAttempt)]) {
        self.count("map outputs dropped");
        if outputs.len() > 1 && self.indeterminate {
            self.count("map stage rolled back");
        }
        let Some(registered) = self.dag.blocks().map_outputs(shuffle) else { return };
        for (_, output) in outputs {
            let at = registered[output.map_partition as usize];
            assert!(at.is_none_or(|at| at.task != output.task), "a registered output is dropped");
        }
    }

    /// The shuffles behind an RDD, up to RDDs that are `covered`.
    fn required(&self, rdd: RddId, covered: &mut dyn FnMut(&Rdd) -> bool) -> BTreeSet<ShuffleId> {
        let rdd = &self.rdds[rdd.0 as usize];
        if covered(rdd) {
            return BTreeSet::new();
        }
        let mut found = BTreeSet::new();
        for dependency in &rdd.dependencies {
            match dependency {
                Dependency::Narrow { rdd, .. } => found.extend(self.required(rdd.id, covered)),
                Dependency::Shuffle { shuffle, .. } => {
                    found.insert(*shuffle);
                }
            }
        }
        found
    }

    fn delivered(&mut self, job: JobId, index: u32, task: TaskId) {
        let job = self.jobs.get_mut(&job).unwrap();
        assert!(job.ended.is_none() && !job.end_posted, "delivered to a job that is over");
        assert!(job.delivered.insert(index), "S08: index {index} delivered twice");
        assert_eq!(job.partitions[index as usize], self.tasks[&task].partition);
        job.delivered_by.push(task);
        let delivered_by = job.delivered_by.clone();
        self.check_mixed(&delivered_by);
    }

    fn ended(&mut self, id: JobId, result: &Result<(), JobError>) {
        let job = self.jobs.get_mut(&id).unwrap();
        assert!(job.end_posted, "posted first");
        assert!(job.ended.replace(result.clone()).is_none(), "S07: job {id} ended twice");
        let cause = match result {
            Err(JobError::TaskFailed { .. }) => "abort: task set",
            Err(JobError::StageAborted { reason, .. }) if reason.contains("other records") => {
                assert!(self.indeterminate, "rolled back though every attempt is alike");
                self.count("abort: results of rolled back stages");
                return;
            }
            Err(JobError::StageAborted { .. }) => "fetch failure of the latest attempt",
            _ => return,
        };
        assert!(self.tally.contains_key(cause), "aborted without a cause: {result:?}");
        if matches!(result, Err(JobError::StageAborted { .. })) {
            self.count("abort: fetch failures");
        }
    }

    fn posted(&mut self, event: &Event) {
        match event {
            Event::JobEnd { job, .. } => {
                let job = self.jobs.get_mut(job).unwrap();
                assert!(!job.end_posted, "S07: posted twice");
                job.end_posted = true;
            }
            Event::StageSubmitted { stage, .. } => {
                assert!(self.attempts.insert(stage.stage), "S05: attempt submitted twice");
                self.open_attempts.insert(stage.stage);
                if stage.stage.attempt > 0 {
                    self.count("attempt beyond the first");
                }
            }
            Event::StageCompleted { stage, .. } => {
                assert!(self.open_attempts.remove(&stage.stage), "completed but not open");
            }
            _ => {}
        }
    }

    /// The scheduler's own invariants, after every event.
    fn check_books(&self) {
        let resting = self.dag.stages.values().any(|stage| stage.is_resting());
        assert!(!resting || self.dag.resubmit_at.is_some(), "stages rest without a timer");
        for stage in self.dag.stages.values() {
            assert!(!stage.jobs.is_empty(), "a stage nobody needs");
            match &stage.state {
                StageState::Waiting { on } => {
                    assert!(!on.is_empty());
                    let idle = on.iter().find(|parent| self.dag.stages[parent].is_idle());
                    assert!(idle.is_none(), "{} waits for idle {idle:?}", stage.id);
                }
                StageState::Running { pending, .. } => assert!(!pending.is_empty()),
                StageState::Idle | StageState::Resting => {}
            }
            for parent in &stage.parents {
                assert!(self.dag.stages[parent].jobs.is_superset(&stage.jobs));
            }
        }
        let needy = self.dag.jobs.values().flat_map(|job| job.stages.last());
        let idle = |id: &&StageId| self.dag.stages[id].is_idle();
        assert_eq!(needy.filter(idle).count(), 0, "a living job's result stage is idle");
    }
}
