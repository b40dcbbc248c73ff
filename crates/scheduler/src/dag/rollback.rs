//! Map outputs that come out different when they are computed again, and what that makes of stages
//! that read the old ones (invariant S20).
//!
//! ```text
//!   stage 0 ══ shuffle 0, generation 0 ══► stage 1: partitions 0, 1 done
//!      │ output 3 is lost, computed again, and has another checksum
//!      ▼
//!   stage 0 ══ shuffle 0, generation 1 ══► stage 1: nothing of it counts; all of it runs again
//!                                          if it delivered results: its job fails
//! ```
//!
//! Nothing is rolled back ahead of time. A stage notes the generations that it reads; when it is
//! launched again, or its outputs are wanted by others, they are compared with those of today. A reader
//! of outputs that are complete goes on, whatever becomes of what they were computed from.

use std::collections::BTreeSet;

use firesteel_types::{JobError, RddId, ShuffleId, StageId, TaskInfo};

use super::completion::Leftover;
use super::graph;
use super::state::{Stage, StageKind, StageState};
use super::{DagScheduler, Turn};
use crate::SchedulerEffect;
use crate::blocks::{Dropped, Generations};
use crate::mutant::Mutant;

impl DagScheduler {
    /// The generations of the shuffles that the stage reads, as they are now.
    fn generations_read(&self, stage: &Stage) -> Generations {
        let shuffles = stage.parents.iter().filter_map(|id| self.stages.get(id)?.shuffle());
        self.blocks.outputs().generations(shuffles)
    }

    /// The map stages whose outputs, or anything those were computed from, were computed from records
    /// that are no longer there. Parents have lower numbers than their children.
    pub(super) fn outdated_stages(&self) -> BTreeSet<StageId> {
        let mut outdated = BTreeSet::new();
        if !self.blocks.outputs().ever_changed() {
            return outdated;
        }
        for (id, stage) in &self.stages {
            let inherited = stage.parents.iter().any(|parent| outdated.contains(parent));
            if inherited || self.is_outdated(stage) {
                outdated.insert(*id);
            }
        }
        outdated
    }

    /// Whether the map stage's outputs were computed from other map outputs than are there now.
    fn is_outdated(&self, stage: &Stage) -> bool {
        let Some(shuffle) = stage.shuffle() else { return false };
        if self.options.planted.is(Mutant::KeepsOutdatedOutputs) {
            return false;
        }
        self.blocks.outputs().is_computed_from_others(shuffle, &self.generations_read(stage))
    }

    /// Whether the task read other records than its stage reads now.
    pub(super) fn is_rolled_back(&self, task: &TaskInfo) -> bool {
        let Some(stage) = self.stages.get(&task.stage.stage) else { return false };
        task.stage.attempt < stage.first_valid_attempt
            || stage.reads != self.generations_read(stage)
    }

    /// A map output came out different: attempts that run may have read the one before.
    pub(super) fn stop_readers(&mut self, turn: &mut Turn<'_>, map_stage: StageId, map: u32) {
        let name = self.stage_mut(map_stage).name();
        let reason = format!("map output {map} of {name} has other records than before");
        self.stop_running_readers(turn, map_stage, &reason);
    }

    fn stop_running_readers(&mut self, turn: &mut Turn<'_>, map_stage: StageId, reason: &str) {
        let children = self.stages[&map_stage].children.clone();
        for id in children {
            if !self.stages[&id].is_running() {
                continue;
            }
            self.end_attempt(turn, id, Some(reason), Leftover::Cancel);
            self.stage_mut(id).state = StageState::Resting;
            self.arm_resubmission(turn);
        }
    }

    /// Before a stage is launched: drops what it made of records that are no longer there. `false` if
    /// results were delivered that cannot be taken back; its job is over then.
    pub(super) fn roll_back(&mut self, turn: &mut Turn<'_>, id: StageId) -> bool {
        let stage = &self.stages[&id];
        let (now, attempt) = (self.generations_read(stage), stage.attempts);
        let changed = stage.reads != now;
        let deaf = self.options.planted.is(Mutant::DeliversTwoGenerations);
        match stage.kind {
            StageKind::Result { delivered, .. } if changed && delivered > 0 && !deaf => {
                self.abort_indeterminate(turn, id, delivered);
                return false;
            }
            StageKind::Result { .. } => {}
            StageKind::ShuffleMap { shuffle, .. } => {
                if self.is_outdated(stage) {
                    self.drop_outdated(turn, id, shuffle);
                }
                self.blocks.outputs_mut().compute_from(shuffle, &now);
            }
        }
        let stage = self.stage_mut(id);
        if changed {
            stage.first_valid_attempt = attempt;
            stage.reads = now;
        }
        true
    }

    fn drop_outdated(&mut self, turn: &mut Turn<'_>, id: StageId, shuffle: ShuffleId) {
        let dropped = self.blocks.outputs_mut().start_over(shuffle);
        self.publish(turn, shuffle);
        self.drop_map_outputs(turn, shuffle, dropped);
        self.rest_readers(turn, shuffle, "they were computed from records that changed");
        // The others read what is cached of the outputs that are no more: nothing that they bring counts.
        let reason = "what it reads is cached, of records that changed";
        self.stop_running_readers(turn, id, reason);
        assert!(self.stages.contains_key(&id), "resting readers end no job");
    }

    pub(super) fn drop_map_outputs(
        &self,
        turn: &mut Turn<'_>,
        shuffle: ShuffleId,
        outputs: Vec<Dropped>,
    ) {
        if !outputs.is_empty() {
            turn.emit(SchedulerEffect::DropMapOutputs { shuffle, outputs });
        }
    }

    /// Cached partitions of the stage's RDDs may hold what was computed from other generations. To be
    /// done before anybody asks what the stage has to read.
    pub(super) fn drop_outdated_cache(&mut self, turn: &mut Turn<'_>, id: StageId) {
        let outdated = self.outdated_stages();
        if outdated.is_empty() && self.generations_read(&self.stages[&id]).is_empty() {
            return;
        }
        for (rdd, shuffles) in graph::persisted(&self.stages[&id].rdd) {
            let stages = shuffles.iter().filter_map(|shuffle| self.shuffle_stages.get(shuffle));
            let behind = stages.into_iter().any(|stage| outdated.contains(stage));
            let now = self.blocks.outputs().generations(shuffles.into_iter());
            if self.blocks.compute_cached_from(rdd, now) || behind && self.blocks.caches(rdd) {
                self.drop_cached(turn, rdd);
            }
        }
    }

    fn drop_cached(&mut self, turn: &mut Turn<'_>, rdd: RddId) {
        let epoch = self.blocks.drop_cached(rdd);
        turn.emit(SchedulerEffect::DropCachedPartitions { at: None, rdd, epoch });
    }

    fn abort_indeterminate(&mut self, turn: &mut Turn<'_>, id: StageId, delivered: usize) {
        let reason = format!(
            "map outputs that it reads were lost and have other records now that they were computed \
             again, after {delivered} of its results were delivered: what computes them depends on \
             chance or on the order of records; checkpoint or persist it with a replica, or sort \
             before steps such as zip, sample and repartition"
        );
        self.abort_stage(turn, id, &reason, |job, stage_name| JobError::StageAborted {
            job,
            stage: id,
            stage_name,
            reason: reason.clone(),
        });
    }
}
