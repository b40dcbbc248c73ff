//! Which executors were lost while jobs ran, and what that makes of word that comes from them.

use std::collections::BTreeMap;

use firesteel_types::{ExecutorId, TaskInfo, Tick};

#[derive(Debug, Default)]
struct Loss {
    /// The last moment at which map outputs were lost with it.
    outputs_lost_at: Option<Tick>,
    /// It has not registered again.
    gone: bool,
}

/// Losses by executor; emptied when no job is left that could hear of them.
#[derive(Debug, Default)]
pub(super) struct LostExecutors {
    losses: BTreeMap<ExecutorId, Loss>,
    /// How often outputs were lost, ever.
    epoch: u64,
}

impl LostExecutors {
    /// An executor is gone.
    pub(super) fn lost(&mut self, now: Tick, executor: ExecutorId, outputs_lost: bool) {
        let loss = self.losses.entry(executor).or_default();
        loss.gone = true;
        if outputs_lost {
            loss.outputs_lost_at = Some(now);
            self.epoch += 1;
        }
    }

    /// The same id registered again: it may do new work, its old work stays lost.
    pub(super) fn added(&mut self, executor: ExecutorId) {
        if let Some(loss) = self.losses.get_mut(&executor) {
            loss.gone = false;
        }
    }

    /// Whether what the task wrote was lost with its executor. A task launched in the very tick of
    /// the loss counts as older: running it again is the cheaper mistake.
    pub(super) fn voids(&self, task: &TaskInfo) -> bool {
        let Some(loss) = self.losses.get(&task.executor) else { return false };
        loss.outputs_lost_at.is_some_and(|at| loss.gone || task.launched <= at)
    }

    /// Grows whenever outputs are lost.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Nobody is left to ask.
    pub(super) fn clear(&mut self) {
        self.losses.clear();
    }

    /// How many executors were lost.
    pub(super) fn len(&self) -> usize {
        self.losses.len()
    }
}
