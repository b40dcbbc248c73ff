//! Pipelined tasks: what an executor gets beyond its cores.
//!
//! A task that takes less time than its report and the next launch need on their way leaves its core
//! idle most of the time. So an executor that has just ended one gets some more of the same kind to
//! wait there: as many as it works off in [`TaskOptions::pipeline_us`], by what tasks of their set took so
//! far. An executor gives back, as killed, what waited too long there.
//!
//! Only a success brings pipelined tasks, so an executor that stands still, or gives back, gets none. And
//! none are pipelined when no more tasks of the set wait than there are slots: the first free slot takes the
//! last ones.
//!
//! [`TaskOptions::pipeline_us`]: crate::messages::TaskOptions::pipeline_us

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use firesteel_types::event::Locality;
use firesteel_types::{ExecutorId, TaskMetrics, Tick};

use super::core::TaskScheduler;
use super::locality::Offer;
use super::set::SetState;
use crate::messages::TaskEffect;

/// So many tasks wait at most for each that has a core, however short they are.
const MOST: u64 = 32;

/// How long the tasks of a set take, once they run, and how many of them are where.
#[derive(Debug, Default)]
pub(super) struct Pace {
    tasks: u64,
    total_us: u64,
    there: BTreeMap<ExecutorId, u64>,
}

impl Pace {
    pub(super) fn came(&mut self, executor: ExecutorId) {
        *self.there.entry(executor).or_insert(0) += 1;
    }

    pub(super) fn left(&mut self, executor: ExecutorId) {
        if let Entry::Occupied(mut there) = self.there.entry(executor) {
            *there.get_mut() -= 1;
            if *there.get() == 0 {
                there.remove();
            }
        }
    }

    pub(super) fn forget(&mut self) {
        (self.tasks, self.total_us) = (0, 0);
    }

    pub(super) fn note(&mut self, metrics: &TaskMetrics) {
        self.tasks += 1;
        let took = metrics.run_time_us.saturating_add(metrics.deserialize_time_us);
        self.total_us = self.total_us.saturating_add(took);
    }

    /// How many of its tasks are at the executor.
    fn there(&self, executor: ExecutorId) -> u64 {
        self.there.get(&executor).copied().unwrap_or(0)
    }

    /// How many tasks a slot works off in that time; never more than were seen.
    fn fit_into(&self, us: u64) -> u64 {
        let mean = (self.total_us / self.tasks.max(1)).max(1);
        (us / mean).min(self.tasks).min(MOST)
    }
}

impl TaskScheduler {
    /// Pipelines tasks to the executor of a task that has just succeeded, when half of those it may
    /// have are done.
    pub(super) fn pipeline(&mut self, now: Tick, id: ExecutorId, out: &mut Vec<TaskEffect>) {
        let (us, all_slots) = (self.options.pipeline_us, self.executors.slots());
        let mut filling = false;
        while let Some(executor) = self.executors.busy(id) {
            let waiting = u64::from(executor.queued());
            let has_more = |set: &SetState| {
                // Cores that others have for long do not work any of it off.
                let cores = set.pace().there(id).saturating_sub(waiting);
                let room = set.pace().fit_into(us).saturating_mul(cores);
                let enough = if filling { room } else { room.div_ceil(2) };
                waiting < enough && u64::from(set.waiting().count()) > all_slots
            };
            let host = executor.host().clone();
            let farthest = Locality::Any;
            let offer = Offer { now, executor: id, host: &host, is_free: false, farthest };
            let found = self.find(&offer, has_more);
            let Some(found) = found.filter(|found| !found.speculative) else { return };
            filling = true;
            self.launch(now, found, id, out);
        }
    }
}
