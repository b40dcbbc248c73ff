//! The task sets that are not over, by stage and attempt.
//!
//! Of one stage only the newest attempt launches; what runs of older ones may still count.

use std::collections::BTreeMap;
use std::ops::Index;

use firesteel_types::{StageRef, TaskInfo};

use super::executors::Executors;
use super::set::SetState;

#[derive(Debug, Default)]
pub(super) struct Sets {
    by_stage: BTreeMap<StageRef, SetState>,
}

impl Sets {
    pub(super) fn get(&self, stage: StageRef) -> Option<&SetState> {
        self.by_stage.get(&stage)
    }

    pub(super) fn get_mut(&mut self, stage: StageRef) -> Option<&mut SetState> {
        self.by_stage.get_mut(&stage)
    }

    /// The set of an attempt that ran until now.
    pub(super) fn of(&mut self, attempt: &TaskInfo) -> &mut SetState {
        self.by_stage.get_mut(&attempt.stage).expect("a set outlives its attempts")
    }

    pub(super) fn insert(&mut self, set: SetState) {
        self.by_stage.insert(set.stage(), set);
    }

    pub(super) fn remove(&mut self, stage: StageRef) -> Option<SetState> {
        self.by_stage.remove(&stage)
    }

    pub(super) fn count(&self) -> usize {
        self.by_stage.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &SetState> {
        self.by_stage.values()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut SetState> {
        self.by_stage.values_mut()
    }

    pub(super) fn stages(&self) -> Vec<StageRef> {
        self.by_stage.keys().copied().collect()
    }

    /// Attempts of the same stage before this one.
    pub(super) fn older_than(&self, stage: StageRef) -> Vec<StageRef> {
        let oldest = StageRef { attempt: 0, ..stage };
        self.by_stage.range(oldest..stage).map(|(stage, _)| *stage).collect()
    }

    /// Whether this attempt of the stage, or a newer one, is here.
    pub(super) fn has_reached(&self, stage: StageRef) -> bool {
        self.by_stage.range(stage..=last_attempt(stage)).next().is_some()
    }

    /// The set of the stage that somebody waits for.
    pub(super) fn newest_attempt(&self, stage: StageRef) -> StageRef {
        let newest = self.by_stage.range(stage..=last_attempt(stage)).next_back();
        newest.map_or(stage, |(newest, _)| *newest)
    }

    /// Whether the partition is still to come: from the task's own set, or from the one that took over.
    pub(super) fn wait_for(&self, task: &TaskInfo) -> bool {
        let newest = self.get(self.newest_attempt(task.stage));
        let counts = self.get(task.stage).is_some_and(SetState::counts);
        counts && newest.is_some_and(|set| set.waits_for(task.partition))
    }

    /// Recounts what [`super::TaskScheduler::assert_invariants`] asks of sets.
    pub(super) fn assert_consistent(&self, executors: &Executors) {
        self.iter().for_each(|set| set.assert_consistent(executors));
        let active = self.iter().filter(|set| set.is_active());
        let stages: Vec<_> = active.map(|set| set.stage().stage).collect();
        let distinct = stages.windows(2).all(|pair| pair[0] != pair[1]);
        assert!(distinct, "two active sets of one stage");
    }
}

impl Index<StageRef> for Sets {
    type Output = SetState;

    fn index(&self, stage: StageRef) -> &SetState {
        &self.by_stage[&stage]
    }
}

fn last_attempt(stage: StageRef) -> StageRef {
    StageRef { attempt: u32::MAX, ..stage }
}
