//! From a job to task sets: cuts the lineage into stages and submits them, parents first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firesteel_types::{Event, JobId, Properties, RddInfo, ShuffleId, StageId};

use super::graph::{self, Cut, ShuffleEdge};
use super::state::{Job, Stage, StageKind, StageState};
use super::{DagScheduler, Turn};
use crate::messages::{DagEffect, JobSpec, MapStageSpec, TaskSet, TaskSetKind, TaskSpec};

/// A step of the walk over shuffles: each is entered, then its parents, then left.
enum Step {
    Enter(ShuffleEdge),
    /// The map stage is known.
    LeaveKnown(StageId),
    /// The map stage is to be made.
    Leave(ShuffleEdge, Cut),
}

impl DagScheduler {
    pub(super) fn on_job_submitted(&mut self, turn: &mut Turn<'_>, spec: JobSpec) {
        let JobSpec { job, rdd, partitions, properties } = spec;
        let properties = Arc::new(properties);
        if self.jobs.contains_key(&job) {
            return;
        }
        if partitions.is_empty() {
            self.post_job_start(turn, job, &properties, &[]);
            self.announce_job_end(turn, job, Ok(()));
            return;
        }
        let stages = self.make_stages(job, rdd, &partitions, properties.call_site());
        self.post_job_start(turn, job, &properties, &stages);
        let result_stage = stages.last().copied();
        self.jobs.insert(job, Job { stages, properties });
        if let Some(stage) = result_stage {
            self.submit(turn, stage);
        }
    }

    /// A job that ends with the map stage of a shuffle.
    pub(super) fn on_map_stage_submitted(&mut self, turn: &mut Turn<'_>, spec: MapStageSpec) {
        let MapStageSpec { job, shuffle, rdd, readers, properties } = spec;
        if self.jobs.contains_key(&job) {
            return;
        }
        let properties = Arc::new(properties);
        let stages = self.make_shuffle_stages(vec![(shuffle, rdd)]);
        for id in &stages {
            self.stage_mut(*id).jobs.insert(job);
        }
        self.post_job_start(turn, job, &properties, &stages);
        let id = *stages.last().expect("the map stage itself");
        self.jobs.insert(job, Job { stages, properties });
        if let StageKind::ShuffleMap { wanted_by, .. } = &mut self.stage_mut(id).kind {
            wanted_by.insert(job, readers);
        }
        if self.is_complete(id) && !self.outdated_stages().contains(&id) {
            self.end_map_jobs(turn, id, shuffle);
        } else {
            self.submit(turn, id);
        }
    }

    fn post_job_start(
        &self,
        turn: &mut Turn<'_>,
        job: JobId,
        properties: &Arc<Properties>,
        stages: &[StageId],
    ) {
        turn.post(Event::JobStart {
            job,
            properties: properties.clone(),
            stages: stages.iter().filter_map(|id| self.stages.get(id)).map(Stage::info).collect(),
            at: turn.now,
        });
    }

    /// Every stage of the job, parents first, its result stage last. That one is named after the
    /// action, as in Spark.
    fn make_stages(
        &mut self,
        job: JobId,
        rdd: Arc<RddInfo>,
        partitions: &[u32],
        action: &str,
    ) -> Vec<StageId> {
        let mut wanted: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (index, partition) in (0u32..).zip(partitions) {
            wanted.entry(*partition).or_default().push(index);
        }
        let cut = graph::cut(&rdd);
        let mut stages = self.make_shuffle_stages(cut.shuffles.clone());
        let kind = StageKind::Result { job, wanted, delivered: 0 };
        stages.push(self.add_stage(action.into(), rdd, kind, cut));
        for id in &stages {
            self.stage_mut(*id).jobs.insert(job);
        }
        stages
    }

    /// The map stages of these shuffles and of all behind them, parents first. Those that living
    /// jobs have are shared.
    fn make_shuffle_stages(&mut self, shuffles: Vec<ShuffleEdge>) -> Vec<StageId> {
        let mut order = Vec::new();
        let mut seen = BTreeSet::new();
        let mut todo: Vec<Step> = shuffles.into_iter().rev().map(Step::Enter).collect();
        while let Some(step) = todo.pop() {
            match step {
                Step::Enter(edge) => {
                    if seen.insert(edge.0) {
                        self.enter_shuffle(edge, &mut todo);
                    }
                }
                Step::LeaveKnown(id) => order.push(id),
                Step::Leave((shuffle, rdd), cut) => {
                    order.push(self.add_shuffle_stage(shuffle, rdd, cut));
                }
            }
        }
        order
    }

    fn enter_shuffle(&self, (shuffle, rdd): ShuffleEdge, todo: &mut Vec<Step>) {
        let parents = match self.shuffle_stages.get(&shuffle) {
            Some(id) => {
                todo.push(Step::LeaveKnown(*id));
                self.parent_edges(*id)
            }
            None => {
                let cut = graph::cut(&rdd);
                let parents = cut.shuffles.clone();
                todo.push(Step::Leave((shuffle, rdd), cut));
                parents
            }
        };
        todo.extend(parents.into_iter().rev().map(Step::Enter));
    }

    fn parent_edges(&self, id: StageId) -> Vec<ShuffleEdge> {
        let parents = self.stages.get(&id).map(|stage| stage.parents.as_slice()).unwrap_or(&[]);
        let edge = |stage: &Stage| Some((stage.shuffle()?, Arc::clone(&stage.rdd)));
        parents.iter().filter_map(|parent| edge(self.stages.get(parent)?)).collect()
    }

    fn add_shuffle_stage(&mut self, shuffle: ShuffleId, rdd: Arc<RddInfo>, cut: Cut) -> StageId {
        self.blocks.outputs_mut().ensure(shuffle, rdd.partitions);
        let (accumulated, wanted_by) = (BTreeSet::new(), BTreeMap::new());
        let kind = StageKind::ShuffleMap { shuffle, accumulated, removed: false, wanted_by };
        let id = self.add_stage(rdd.call_site.to_string().into(), rdd, kind, cut);
        self.shuffle_stages.insert(shuffle, id);
        id
    }

    fn add_stage(
        &mut self,
        name: Arc<str>,
        rdd: Arc<RddInfo>,
        kind: StageKind,
        cut: Cut,
    ) -> StageId {
        let id = StageId(self.next_stage);
        self.next_stage += 1;
        let parents: Vec<StageId> =
            cut.shuffles.iter().map(|(shuffle, _)| self.shuffle_stages[shuffle]).collect();
        for parent in &parents {
            self.stage_mut(*parent).children.insert(id);
        }
        self.stages.insert(id, Stage::new(id, name, rdd, kind, cut, parents));
        id
    }

    /// A stage that must be there; that it is not would be our own broken ledger.
    pub(super) fn stage_mut(&mut self, id: StageId) -> &mut Stage {
        self.stages.get_mut(&id).expect("a stage in use is in the table")
    }

    /// Submits idle stages of these and of their missing parents, as far as they can start.
    pub(super) fn submit(&mut self, turn: &mut Turn<'_>, stage: StageId) {
        let mut todo = vec![stage];
        while let Some(id) = todo.pop() {
            if !self.stages.get(&id).is_some_and(Stage::is_idle) {
                continue;
            }
            self.drop_outdated_cache(turn, id);
            let missing = self.missing_parents(&self.stages[&id]);
            if missing.is_empty() {
                self.launch(turn, id);
            } else {
                todo.extend(missing.iter().rev());
                self.stage_mut(id).state = StageState::Waiting { on: missing };
            }
        }
    }

    /// The parents whose outputs the stage has to read and that are not all there (invariant S09).
    pub(super) fn missing_parents(&self, stage: &Stage) -> BTreeSet<StageId> {
        let outdated = self.outdated_stages();
        let missing = stage.parents.iter().copied();
        let missing = missing.filter(|id| outdated.contains(id) || !self.is_complete(*id));
        let mut missing: BTreeSet<StageId> = missing.collect();
        if !missing.is_empty() {
            let read = graph::shuffles_read(&stage.rdd, &self.blocks);
            missing.retain(|parent| {
                stage.proven_parents.contains(parent)
                    || self.stages[parent].shuffle().is_some_and(|s| read.contains(&s))
            });
        }
        missing
    }

    fn is_complete(&self, id: StageId) -> bool {
        let shuffle = self.stages.get(&id).and_then(Stage::shuffle);
        shuffle.is_some_and(|shuffle| self.blocks.outputs().is_complete(shuffle))
    }

    /// Starts the next attempt of a stage whose parents are there.
    fn launch(&mut self, turn: &mut Turn<'_>, id: StageId) {
        if !self.roll_back(turn, id) {
            return;
        }
        let stage = &self.stages[&id];
        let partitions = self.missing_partitions(stage);
        assert!(!partitions.is_empty(), "a complete stage {id} was submitted");
        for parent in stage.parents.clone() {
            if let Some(shuffle) = self.stages[&parent].shuffle() {
                self.publish(turn, shuffle);
            }
        }
        let tasks = self.task_specs(&self.stages[&id], &partitions);
        let epoch = self.lost.epoch();
        let stage = self.stage_mut(id);
        stage.attempts += 1;
        stage.submitted = Some(turn.now);
        stage.state = StageState::Running {
            tasks: u32::try_from(tasks.len()).unwrap_or(u32::MAX),
            pending: partitions.into_iter().collect(),
            epoch,
        };
        let info = stage.info();
        let properties = self.properties_of(id);
        turn.post(Event::StageSubmitted { stage: info, properties, at: turn.now });
        turn.emit(DagEffect::SubmitTaskSet(self.task_set(&self.stages[&id], tasks)));
    }

    /// Of the first job that needs the stage.
    fn properties_of(&self, id: StageId) -> Arc<Properties> {
        let first = self.stages[&id].jobs.first().and_then(|job| self.jobs.get(job));
        first.map(|job| job.properties.clone()).unwrap_or_default()
    }

    pub(super) fn missing_partitions(&self, stage: &Stage) -> Vec<u32> {
        match &stage.kind {
            StageKind::Result { wanted, .. } => wanted.keys().copied().collect(),
            StageKind::ShuffleMap { shuffle, .. } => self.blocks.outputs().missing(*shuffle),
        }
    }

    fn task_specs(&self, stage: &Stage, partitions: &[u32]) -> Vec<TaskSpec> {
        let somewhere =
            stage.has_preferred || stage.rdds.iter().any(|rdd| self.blocks.caches(rdd.rdd.id));
        let preferred = if somewhere {
            graph::preferred_locations(&stage.rdd, partitions, &self.blocks)
        } else {
            vec![Vec::new(); partitions.len()]
        };
        let specs = partitions.iter().zip(preferred);
        specs.map(|(partition, preferred)| TaskSpec { partition: *partition, preferred }).collect()
    }

    fn task_set(&self, stage: &Stage, tasks: Vec<TaskSpec>) -> TaskSet {
        let priority = *stage.jobs.first().expect("a stage without jobs is dropped");
        TaskSet {
            stage: stage.attempt(),
            kind: match stage.kind {
                StageKind::Result { job, .. } => TaskSetKind::Result(job),
                StageKind::ShuffleMap { shuffle, .. } => TaskSetKind::ShuffleMap(shuffle),
            },
            priority,
            pool: self.jobs.get(&priority).and_then(|job| job.properties.pool()).map(str::to_owned),
            rdd: stage.rdd.id,
            tasks,
        }
    }

    /// Tells readers of a shuffle what they do not know yet.
    pub(super) fn publish(&mut self, turn: &mut Turn<'_>, shuffle: ShuffleId) {
        if let Some(publication) = self.blocks.outputs_mut().publication(shuffle) {
            turn.emit(publication);
        }
    }
}
