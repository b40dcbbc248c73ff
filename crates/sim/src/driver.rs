//! Drivers as processes: a registry of executors, a provider and schedulers, jobs, and what must come out of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firesteel_backend::blame::ExitStatus;
use firesteel_backend::command::Command;
use firesteel_backend::executor::ExecutorEvent;
use firesteel_backend::jitter::Jitter;
use firesteel_backend::protocol::ToExecutor;
use firesteel_backend::registry::{Registry, RegistryEffect, RegistryEvent, RegistryOptions};
use firesteel_scheduler::messages::{
    DagEvent, DagOptions, JobSpec, MapStageSpec, TaskEvent, TaskSetKind,
};
use firesteel_scheduler::{Scheduler, SchedulerEffect, SchedulerInput};
use firesteel_standalone_core::Incarnation;
use firesteel_standalone_core::application::{AppClient, AppClientOptions};
use firesteel_standalone_core::description::ApplicationDescription;
use firesteel_types::{
    Dependency, Event as Told, JobError, JobId, MapAttempt, Properties, RddInfo, ShuffleId,
    TaskFailure, TaskId, TaskInfo, TaskOutcome,
};

use crate::book::BlockBook;
use crate::cached::{self, BlockMessage};
use crate::clock::Machine;
use crate::launching::{self, LiveAttempts};
use crate::lineage::{self, Computed, Oracle, Versions};
use crate::network::{CLIENT, Message};
use crate::plan::{AppPlan, Flaw, NETWORK_TIMEOUT_MS, Poison, SETTLE_MS};
use crate::port::Port;
use crate::reading::Missing;
use crate::results::shuffle_of;
use crate::world::{Body, Core, Event, Kind, ProcId, World};

pub(crate) struct Job {
    pub(crate) rdd: Arc<RddInfo>,
    pub(crate) delivered: Vec<u32>,
    /// What its results were computed from.
    pub(crate) read: Computed,
    pub(crate) ended: bool,
}

pub(crate) struct DriverNode {
    pub(crate) registry: Registry,
    /// Its provider of executors.
    pub(crate) client: AppClient,
    pub(crate) port: Port,
    /// Until when what was said over the port is not heard.
    pub(crate) port_waits_until: u64,
    pub(crate) scheduler: Scheduler,
    /// Its number in the plan.
    pub(crate) app: usize,
    pub(crate) rdds: Vec<Arc<RddInfo>>,
    /// Those to which their user has a handle.
    pub(crate) usable: Vec<Arc<RddInfo>>,
    /// The RDD on the map side of each shuffle.
    map_sides: BTreeMap<ShuffleId, Arc<RddInfo>>,
    pub(crate) oracle: Oracle,
    pub(crate) jobs: BTreeMap<JobId, Job>,
    /// Jobs still to be submitted.
    to_submit: usize,
    /// The job that must succeed, after everything has settled.
    pub(crate) last_job: Option<JobId>,
    /// What its block master's answers are held against.
    pub(crate) book: BlockBook,
    pub(crate) tasks: BTreeMap<TaskId, (TaskInfo, TaskSetKind)>,
    pub(crate) outputs: BTreeMap<TaskId, u64>,
    /// What tasks computed, beside the values that travel.
    pub(crate) computed: BTreeMap<TaskId, Computed>,
    /// Shuffles whose map outputs depend on the attempt.
    pub(crate) indeterminate: BTreeSet<ShuffleId>,
    /// The last version of each of their outputs.
    pub(crate) last_versions: Versions,
    applied: BTreeSet<(u32, u32)>,
    pub(crate) live: LiveAttempts,
    /// How often a task has done to its executor what it always does.
    pub(crate) poisoned: usize,
    pub(crate) stopped: bool,
}

fn map_sides(rdds: &[Arc<RddInfo>]) -> BTreeMap<ShuffleId, Arc<RddInfo>> {
    let dependencies = rdds.iter().flat_map(|rdd| &rdd.dependencies);
    let shuffles = dependencies.filter_map(|dependency| match dependency {
        Dependency::Shuffle { shuffle, rdd } => Some((*shuffle, rdd.clone())),
        Dependency::Narrow { .. } => None,
    });
    shuffles.collect()
}

impl World {
    pub(crate) fn start_driver(&mut self, app: usize) -> Result<(), String> {
        let plan = self.plan.apps[app].clone();
        let description = Arc::new(ApplicationDescription {
            name: format!("application {app}"),
            user: "somebody".to_owned(),
            max_cores: plan.max_cores,
            memory_per_executor_mb: plan.memory_mb,
            cores_per_executor: plan.cores_per_executor,
            initial_executor_limit: plan.limit,
            command: Command::default(),
            web_ui: app.to_string(),
        });
        let incarnation = Incarnation(self.rng.u64(..));
        let planted = self.settings.planted;
        let options = AppClientOptions {
            registration_wait_ms: 600,
            first_wait_ms: if self.aside.bool() { 40 } else { 600 },
            registration_attempts: 5,
            planted,
            ..AppClientOptions::new(description, incarnation, self.plan.masters)
        };
        let rules = RegistryOptions {
            target: plan.limit,
            network_timeout_ms: NETWORK_TIMEOUT_MS,
            reason_wait_ms: 800,
            planted,
            ..RegistryOptions::default()
        };
        let rdds = lineage::random(&mut self.rng);
        let map_sides = map_sides(&rdds);
        let chance = self.rng.u8(..2) * self.rng.u8(..4);
        let chance = if self.plan.fickle { 4 } else { chance };
        let indeterminate = map_sides.keys().copied().filter(|_| self.rng.u8(..4) < chance);
        let indeterminate = indeterminate.collect();
        cached::persist_some(&mut self.rng, &rdds);
        let dag = DagOptions { planted: self.settings.planted_dag, ..DagOptions::default() };
        let node = DriverNode {
            registry: Registry::new(rules),
            client: AppClient::new(options, Jitter::new(self.rng.u64(..))),
            port: Port::new(),
            port_waits_until: 0,
            scheduler: Scheduler::new(dag, launching::rules(&plan, self.settings.planted_dag)),
            app,
            map_sides,
            usable: rdds.clone(),
            rdds,
            oracle: Oracle::default(),
            jobs: BTreeMap::new(),
            to_submit: plan.jobs.len(),
            last_job: None,
            book: BlockBook::default(),
            tasks: BTreeMap::new(),
            outputs: BTreeMap::new(),
            computed: BTreeMap::new(),
            indeterminate,
            last_versions: Versions::new(),
            applied: BTreeSet::new(),
            live: LiveAttempts::new(plan.speculates),
            poisoned: 0,
            stopped: false,
        };
        let proc = self.add(Kind::Driver, Machine::Driver(app), Body::Driver(Box::new(node)));
        self.tell(|_| format!("application {app} starts as process {proc}"));
        self.drivers[app] = Some(proc);
        self.push(self.now, Event::Wakes(proc));
        for at in plan.jobs {
            self.push(at, Event::SubmitJob(proc));
        }
        Ok(())
    }

    /// Submits a job; the last one must succeed.
    pub(crate) fn submit_job(&mut self, proc: ProcId, last: Option<()>) -> Result<(), String> {
        let Some(Body::Driver(node)) = &mut self.procs[proc].body else { return Ok(()) };
        if node.stopped {
            return Ok(());
        }
        self.change_mind(proc)?;
        let Some(Body::Driver(node)) = &mut self.procs[proc].body else { return Ok(()) };
        let rdd = node.usable[self.rng.usize(..node.usable.len())].clone();
        let job = JobId(node.jobs.len() as u32);
        let shuffle = if last.is_none() && self.rng.u8(..6) == 0 { shuffle_of(&rdd) } else { None };
        let results = if shuffle.is_some() { 1 } else { rdd.partitions };
        let (delivered, read) = (vec![0; results as usize], Computed::default());
        node.jobs.insert(job, Job { rdd: rdd.clone(), delivered, read, ended: false });
        node.to_submit = node.to_submit.saturating_sub(usize::from(last.is_none()));
        node.last_job = last.map(|()| job).or(node.last_job);
        let (readers, properties) = (rdd.partitions, Properties::default());
        let submitted = match shuffle {
            Some((shuffle, rdd)) => {
                self.counters.map_stage_jobs += 1;
                let spec = MapStageSpec { job, shuffle, rdd, readers, properties };
                DagEvent::MapStageSubmitted(spec)
            }
            None => {
                let partitions = (0..readers).collect();
                DagEvent::JobSubmitted(JobSpec { job, rdd, partitions, properties })
            }
        };
        self.tell(|_| format!("process {proc} submits job {job}"));
        self.feed_schedulers(proc, vec![SchedulerInput::Dag(submitted)])
    }

    pub(crate) fn wake_schedulers(&mut self, proc: ProcId) -> Result<(), String> {
        self.feed_schedulers(proc, vec![SchedulerInput::Ticked])
    }

    pub(crate) fn carry_out_for_driver(
        &mut self,
        proc: ProcId,
        effect: RegistryEffect,
        inputs: &mut Vec<SchedulerInput>,
    ) -> Result<(), String> {
        match effect {
            RegistryEffect::Provider(_) => {}
            RegistryEffect::SendExecutor { to, message } => {
                let refused = matches!(message, ToExecutor::RegisterExecutorFailed { .. });
                self.counters.executors_refused += u64::from(refused);
                self.send(to.0 as usize, CLIENT, Message::ToExecutor(message));
            }
            RegistryEffect::Schedule(input) => {
                self.note_input(proc, &input)?;
                inputs.push(input);
            }
            RegistryEffect::ReportTask { executor, task, outcome, data } => {
                inputs.extend(self.take_report(proc, executor, task, outcome, &data));
            }
            RegistryEffect::Accepted { app } => {
                let other = self.app_ids.insert(app.clone(), proc);
                if other.is_some_and(|other| other != proc) {
                    return Err(format!("S05: {app} is the id of two applications"));
                }
            }
            RegistryEffect::Warn { message } => {
                self.counters.starvation_warnings += 1;
                self.tell(|_| format!("process {proc} warns: {message}"));
            }
            RegistryEffect::TellShortage { shortage } => {
                self.counters.starvation_warnings += u64::from(shortage.is_some());
                self.tell(|_| format!("process {proc} is short of executors: {shortage:?}"));
            }
            RegistryEffect::EndApplication { reason } => {
                // Another thread submits a job in this very moment.
                self.feed_schedulers(proc, std::mem::take(inputs))?;
                self.counters.jobs_at_the_end += 1;
                self.submit_job(proc, None)?;
                self.application_ended(proc, &reason)?;
            }
            RegistryEffect::ArmTimer(at) => self.arm(proc, Core::Main, at),
            RegistryEffect::Drain => self.push(self.now, Event::Drained(proc)),
        }
        Ok(())
    }

    fn note_input(&mut self, proc: ProcId, input: &SchedulerInput) -> Result<(), String> {
        let Some(Body::Driver(node)) = &self.procs[proc].body else { return Ok(()) };
        match input {
            SchedulerInput::ExecutorAdded { executor, .. } => {
                self.counters.executors_registered += 1;
                if node.registry.is_lost(*executor) {
                    return Err(format!("S04: lost executor {executor} is taken back"));
                }
            }
            SchedulerInput::ExecutorLost { executor, reason, .. } => {
                self.counters.executors_lost += 1;
                self.tell(|_| format!("process {proc} loses executor {executor}: {reason}"));
                self.check_silent_executor(proc, *executor, reason)?;
                if !node.stopped {
                    self.check_loss(*executor, reason)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The registry ended the application: rightly so?
    fn application_ended(&mut self, proc: ProcId, reason: &str) -> Result<(), String> {
        self.tell(|_| format!("process {proc} has to end: {reason}"));
        let Some(Body::Driver(node)) = &mut self.procs[proc].body else { return Ok(()) };
        node.stopped = true;
        let flawed = self.plan.apps[node.app].flaw != Flaw::None;
        if reason.contains("in a row") {
            self.counters.apps_failed += 1;
            if !flawed && self.plan.bad_place.is_none() {
                return Err(format!("L06: a sound application was failed: {reason}"));
            }
        } else if reason.contains("unresponsive") {
            self.counters.apps_without_master += 1;
        } else {
            return Err(format!("L02: an application ends for no known cause: {reason}"));
        }
        let heard = self.port_is_heard(proc);
        self.push(heard + 20, Event::Dies { proc, status: ExitStatus::Code(1) });
        Ok(())
    }

    pub(crate) fn feed_schedulers(
        &mut self,
        proc: ProcId,
        inputs: Vec<SchedulerInput>,
    ) -> Result<(), String> {
        if inputs.is_empty() {
            return Ok(());
        }
        let Some(Body::Driver(mut node)) = self.procs[proc].body.take() else { return Ok(()) };
        for input in inputs {
            match &input {
                SchedulerInput::ExecutorLost { executor, .. } => {
                    node.book.executor_lost(*executor, self.now);
                    node.live.executor_lost(*executor);
                }
                SchedulerInput::Task(TaskEvent::TaskReported { task, executor, .. }) => {
                    node.live.reported(*task, *executor);
                }
                SchedulerInput::Task(TaskEvent::ExecutorDecommissioned { executor }) => {
                    node.live.decommissioned(*executor);
                }
                SchedulerInput::ExecutorAdded { .. } => node.book.holders_changed = self.now,
                _ => {}
            }
            let mut out = Vec::new();
            node.scheduler.handle(self.tick_of(proc), input, &mut out);
            for effect in out {
                self.carry_out_decision(proc, &mut node, effect)?;
            }
        }
        // The whole audit takes longer than all the rest of an event.
        if self.now.is_multiple_of(4) {
            node.scheduler.tasks().assert_invariants();
        }
        let tasks = node.scheduler.tasks();
        let AppPlan { locality_wait_ms, excludes, .. } = self.plan.apps[node.app];
        let patient = locality_wait_ms > 0 || excludes;
        if !patient && tasks.waits_needlessly(self.tick_of(proc)) {
            return Err("L04: a task waits although a slot is free".to_owned());
        }
        self.procs[proc].body = Some(Body::Driver(node));
        self.finish_if_done(proc)
    }

    fn carry_out_decision(
        &mut self,
        proc: ProcId,
        node: &mut DriverNode,
        effect: SchedulerEffect,
    ) -> Result<(), String> {
        match effect {
            SchedulerEffect::LaunchTask { task, kind, epoch } => {
                self.launch(node, task, kind, epoch)?
            }
            SchedulerEffect::KillTask { task, executor, reason } => {
                self.counters.task_kills += 1;
                if let Some(peer) = node.registry.peer(executor) {
                    let kill = Message::ToExecutor(ToExecutor::KillTask { task, reason });
                    self.send(peer.0 as usize, CLIENT, kill);
                }
            }
            SchedulerEffect::DeliverResult { job, index, task } => {
                node.deliver(job, index, task)?
            }
            SchedulerEffect::DeliverMapStatistics { job, bytes } => {
                node.deliver_sizes(job, &bytes)?
            }
            SchedulerEffect::ApplyAccumulators { task } => {
                let info = &node.tasks[&task].0;
                self.counters.copies_won += u64::from(info.speculative);
                if !node.applied.insert((info.stage.stage.0, info.partition)) {
                    return Err(format!("S16: updates of {info:?} are applied twice"));
                }
            }
            SchedulerEffect::ReleaseTask { task } => {
                node.outputs.remove(&task);
                node.computed.remove(&task);
            }
            SchedulerEffect::DiscardOutput { task } => {
                let Some((_, TaskSetKind::ShuffleMap(shuffle))) = node.tasks.get(&task.task) else {
                    return Ok(());
                };
                self.counters.outputs_discarded += 1;
                let output = MapAttempt { map_partition: task.partition, task: task.task };
                let dropped = [(task.executor.into(), output)];
                self.drop_outputs(proc, node, *shuffle, &dropped)?;
            }
            SchedulerEffect::EndJob { job, result } => self.job_ended(node, job, result)?,
            SchedulerEffect::PublishMapOutputs { shuffle, locations } => {
                node.book.published(shuffle, locations)?;
                node.book.note_covered(&node.rdds, node.scheduler.blocks());
            }
            SchedulerEffect::DropMapOutputs { shuffle, outputs } => {
                self.drop_outputs(proc, node, shuffle, &outputs)?;
            }
            SchedulerEffect::DropCachedPartitions { at, rdd, epoch } => {
                self.counters.cached_rolled_back += u64::from(at.is_none());
                self.counters.outdated_blocks += u64::from(at.is_some());
                if at.is_none() {
                    node.book.rolled_back(rdd, epoch);
                }
                self.tell_holders(node, at, &BlockMessage::DropOutdated(rdd, epoch));
            }
            SchedulerEffect::ReplicateBlocks { holder, blocks } => {
                self.tell_holder(node, holder, BlockMessage::Replicate(blocks));
            }
            SchedulerEffect::Post(Told::StageSubmitted { stage, .. }) => {
                node.book.stage_submitted(stage.stage, &node.rdds, node.scheduler.blocks());
            }
            SchedulerEffect::Post(told) => {
                node.live.note(&told);
                self.note_exclusion(proc, told);
            }
            SchedulerEffect::ArmTimer(at) => {
                self.push(self.moment_of(proc, at), Event::SchedulersWake(proc));
            }
        }
        Ok(())
    }

    fn job_ended(
        &mut self,
        node: &mut DriverNode,
        job: JobId,
        result: Result<(), JobError>,
    ) -> Result<(), String> {
        self.tell(|_| format!("job {job} of application {} ends: {result:?}", node.app));
        // An executor that stands still may not be known to yet, and has outputs that are needed.
        let plan = &self.plan.apps[node.app];
        let sound = plan.flaw == Flaw::None && plan.poison != Some(Poison::Freeze);
        // What a task does to its executors excludes those for a while.
        let sound = sound && !(plan.excludes && plan.poison.is_some());
        let last = sound && node.last_job == Some(job);
        let state = node.jobs.get_mut(&job).expect("a job that was submitted");
        if std::mem::replace(&mut state.ended, true) {
            return Err(format!("S07: job {job} ends twice"));
        }
        match result {
            Ok(()) => {
                self.counters.jobs_finished += 1;
                if state.delivered.iter().any(|count| *count != 1) {
                    return Err(format!("S08: job {job} delivered {:?}", state.delivered));
                }
            }
            Err(JobError::StageAborted { reason, .. }) if reason.contains("failed to fetch") => {
                return Err(format!("L07: fetch failures without progress: {reason}"));
            }
            Err(JobError::StageAborted { reason, .. }) if reason.contains("other records") => {
                self.counters.jobs_rolled_back += 1;
                // An output that rotted may be noticed late, and a job that ends executors takes outputs of others with them.
                let poisoned = self.plan.apps[node.app].poison.is_some();
                // Another job may compute again what was lost long ago, of an RDD that this one reads from the cache.
                let beside = node.jobs.values().any(|job| !job.ended);
                let recomputed = beside && self.counters.executors_lost > 0;
                let disturbed = self.counters.outputs_spoilt > 0 || !last || poisoned || recomputed;
                if node.indeterminate.is_empty() || !disturbed {
                    return Err(format!("S20: determinate stages are rolled back: {reason}"));
                }
            }
            // A worker that is taken out of the cluster may have been the last good one, and there may never have been one (L06).
            Err(JobError::Cancelled { reason, .. })
                if reason.contains("in a row")
                    && (self.counters.workers_decommissioned > 0
                        || self.plan.bad_place.is_some()) =>
            {
                self.counters.jobs_failed += 1;
            }
            Err(error) if last => {
                return Err(format!("L02: a job that nothing disturbs fails: {error}"));
            }
            Err(JobError::Cancelled { .. }) => self.counters.jobs_cancelled += 1,
            Err(_) => {
                self.counters.jobs_failed += 1;
                let poisoned = job == JobId(0) && node.poisoned > 0;
                self.counters.poison_jobs += u64::from(poisoned);
            }
        }
        Ok(())
    }

    /// Ends an application whose jobs are over, unless it has to stay.
    pub(crate) fn finish_if_done(&mut self, proc: ProcId) -> Result<(), String> {
        let Some(Body::Driver(node)) = &mut self.procs[proc].body else { return Ok(()) };
        let stays = self.plan.apps[node.app].lingers && self.now < self.plan.quiet_at + SETTLE_MS;
        let lingers = self.plan.apps[node.app].lingers;
        let done = node.to_submit == 0 && node.jobs.values().all(|job| job.ended);
        if node.stopped || !done || stays {
            return Ok(());
        }
        if lingers && node.last_job.is_none() {
            return self.submit_job(proc, Some(()));
        }
        if !node.scheduler.is_idle() {
            return Ok(());
        }
        node.stopped = true;
        self.tell(|_| format!("process {proc} is done"));
        self.feed_driver(proc, RegistryEvent::Stopped)?;
        let at = self.port_is_heard(proc) + 5 + self.rng.u64(..30);
        self.push(at, Event::Dies { proc, status: ExitStatus::Code(0) });
        Ok(())
    }

    /// An executor's task comes to its end, as the world and chance have it.
    pub(crate) fn task_ends(&mut self, proc: ProcId, task: TaskId) -> Result<(), String> {
        let Some(Body::Executor(executor)) = &self.procs[proc].body else { return Ok(()) };
        let (key, driver) = (executor.key.clone(), executor.driver);
        let killed = executor.killed.contains(&task);
        if let Some(until) = self.waits_for_memory(proc, task) {
            self.push(until + 1, Event::TaskEnds { executor: proc, task });
            return Ok(());
        }
        if !killed && self.waits_for_outputs(proc, task) {
            return Ok(());
        }
        let Some(Body::Driver(node)) = &self.procs[driver].body else { return Ok(()) };
        let (info, kind) = node.tasks[&task].clone();
        let epoch = node.book.epoch_of(task);
        if let Some(poison) = node.poison_of(&info, kind, self.plan.apps[node.app].poison) {
            return self.poison(proc, driver, &info, kind, poison);
        }
        // Never so often that it looks like an application whose executors cannot work.
        let spared = self.counters.task_crashes >= 5;
        if self.faulty() && self.rng.u16(..1000) < self.plan.task_crashes && !spared {
            self.counters.task_crashes += 1;
            return self.die(proc, ExitStatus::Code(134), false);
        }
        let outcome = if killed && self.rng.bool() {
            Err(TaskFailure::Killed { reason: "asked to".to_owned() })
        } else if self.faulty() && self.rng.u16(..1000) < self.plan.panics {
            self.counters.task_panics += 1;
            Err(TaskFailure::Panicked {
                message: "on purpose".into(),
                location: "here".into(),
                stack_trace: String::new(),
            })
        } else if let Some(failure) = self.failed_to_fetch(proc, task) {
            self.counters.fetch_failures += 1;
            Err(failure)
        } else {
            match self.compute(proc, driver, &info, kind) {
                Ok((value, fresh)) => {
                    self.cache(proc, fresh, epoch);
                    Ok(value)
                }
                Err(Missing::Violation(broken)) => return Err(broken),
                Err(Missing::Paused(until)) if self.rng.bool() => {
                    // The executor that has it may be frozen for ever.
                    let until = until.min(self.now + 1000);
                    self.push(until, Event::TaskEnds { executor: proc, task });
                    return Ok(());
                }
                Err(missing) => {
                    self.counters.fetch_failures += 1;
                    Err(self.fetch_failure(&key, missing, &info))
                }
            }
        };
        self.task_ended(proc, &info, kind, outcome)
    }

    pub(crate) fn task_ended(
        &mut self,
        proc: ProcId,
        info: &TaskInfo,
        kind: TaskSetKind,
        outcome: Result<Computed, TaskFailure>,
    ) -> Result<(), String> {
        self.end_with_memory(proc, info.task)?;
        if let Some(Body::Executor(executor)) = &mut self.procs[proc].body {
            executor.fetches.remove(&info.task);
        }
        let (outcome, data) = match outcome {
            Ok(mut computed) => {
                if let TaskSetKind::ShuffleMap(shuffle) = kind {
                    self.write_version(proc, shuffle, info, &mut computed);
                    let Some(Body::Executor(executor)) = &mut self.procs[proc].body else {
                        return Ok(());
                    };
                    let output = (shuffle, info.partition, info.task);
                    executor.blocks.insert(output, computed.clone());
                    executor.memory.keep_output(output);
                }
                let value = computed.value;
                self.note_computed(proc, info.task, computed);
                (TaskOutcome::Success, Arc::from(value.to_le_bytes()))
            }
            Err(failure) => (TaskOutcome::Failed(failure), self.empty.clone()),
        };
        let task = info.task;
        self.feed_executor(proc, ExecutorEvent::TaskEnded { task, outcome, data })
    }
}

impl DriverNode {
    /// The shuffle that a task writes.
    pub(crate) fn shuffle_of(&self, task: TaskId) -> Option<ShuffleId> {
        match self.tasks.get(&task)?.1 {
            TaskSetKind::ShuffleMap(shuffle) => Some(shuffle),
            TaskSetKind::Result(_) => None,
        }
    }

    /// The RDD whose partitions the tasks compute.
    pub(crate) fn computed_rdd(&self, kind: TaskSetKind) -> Arc<RddInfo> {
        match kind {
            TaskSetKind::Result(job) => self.jobs[&job].rdd.clone(),
            TaskSetKind::ShuffleMap(shuffle) => self.map_sides[&shuffle].clone(),
        }
    }
}
