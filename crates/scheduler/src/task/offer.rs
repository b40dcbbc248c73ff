//! Offers: free cores meet waiting tasks.
//!
//! When an event is dealt with, no executor with a free slot can take any task that is allowed
//! there. So the next event need only look at what it changed: the executor a task left, or, after
//! anything that may make more tasks launchable, every executor with free cores (`round`).

use firesteel_types::event::Locality;
use firesteel_types::{Event, ExecutorId, TaskInfo, Tick};

use super::core::TaskScheduler;
use super::locality::{Answer, Offer};
use super::set::{Found, SetState};
use crate::messages::TaskEffect;

/// Sweeps over all executors: first what is nearest to its data, so that no executor takes a task
/// from one that is free too and nearer.
const SWEEPS: [Locality; 3] = [Locality::ProcessLocal, Locality::NodeLocal, Locality::Any];

impl TaskScheduler {
    /// Launches whatever can be launched.
    pub(super) fn offer(&mut self, now: Tick, out: &mut Vec<TaskEffect>) {
        let mut freed = self.round.take_freed();
        while self.pools.any_runnable() {
            if self.round.take_all() {
                freed.clear();
                SWEEPS.into_iter().for_each(|farthest| self.sweep(now, farthest, out));
            } else if !freed.is_empty() {
                freed.retain(|id| self.launch_on(now, *id, Locality::Any, out));
            } else if let Some(id) = self.round.take_succeeded() {
                self.pipeline(now, id, out);
            } else {
                break;
            }
        }
        self.round.end_offers(freed);
        while let Some(stage) = self.round.pop_launched_near() {
            if let Some(set) = self.sets.get_mut(stage) {
                set.end_offers(now);
            }
        }
    }

    /// Offers in rounds, one task per executor and round, most free cores first.
    fn sweep(&mut self, now: Tick, farthest: Locality, out: &mut Vec<TaskEffect>) {
        let sweep = self.round.next_sweep();
        let mut round = Vec::new();
        let mut cursor = None;
        while self.pools.any_runnable() {
            cursor = self.executors.next_offer(cursor, sweep);
            let Some((_, id)) = cursor else { break };
            if self.launch_on(now, id, farthest, out) {
                round.push(id);
            }
        }
        while !round.is_empty() {
            round.retain(|id| self.launch_on(now, *id, farthest, out));
        }
    }

    /// Launches one task on the executor, of the first set that has one for it.
    fn launch_on(
        &mut self,
        now: Tick,
        id: ExecutorId,
        farthest: Locality,
        out: &mut Vec<TaskEffect>,
    ) -> bool {
        let Some(executor) = self.executors.offerable(id) else { return false };
        let host = executor.host().clone();
        let offer = Offer { now, executor: id, host: &host, is_free: true, farthest };
        let Some(found) = self.find(&offer, |_| true) else { return false };
        self.launch(now, found, id, out);
        true
    }

    /// The task that an executor gets now, of the first set that has one for it, unless a set before
    /// that is not to be asked. What is found must be launched, unless it is a copy.
    pub(super) fn find(
        &mut self,
        offer: &Offer<'_>,
        may_ask: impl Fn(&SetState) -> bool,
    ) -> Option<Found> {
        let original = |task| self.attempts.get(task).expect("a live attempt runs").executor;
        for stage in self.pools.in_order() {
            let set = self.sets.get_mut(stage).expect("pools list sets that exist");
            if !may_ask(set) {
                break;
            }
            match set.answer(offer, &self.executors, original) {
                Answer::Launch { index, locality, speculative } => {
                    return Some(Found { stage, index, locality, speculative });
                }
                Answer::Later => break,
                Answer::Held { until } => self.openings.book(stage, until),
                Answer::Nothing => {}
            }
        }
        None
    }

    pub(super) fn launch(
        &mut self,
        now: Tick,
        found: Found,
        executor: ExecutorId,
        out: &mut Vec<TaskEffect>,
    ) {
        let task = self.attempts.next_id();
        let Found { stage, index, locality, speculative } = found;
        let set = self.sets.get_mut(stage).expect("the set was just asked");
        let started = set.start(&found, task, &mut self.pools);
        if self.options.pipeline_us > 0 {
            set.count_there(executor);
        }
        self.round.offer_all_if(started.drained);
        if !speculative && locality != Locality::NoPref {
            self.round.launched_near(stage);
        }
        self.executors.reserve(executor);
        let host = self.executors.get(executor).expect("it was just offered").host().clone();
        let info = TaskInfo {
            task,
            stage,
            partition: started.partition,
            index,
            attempt: started.attempt,
            executor,
            host,
            speculative,
            locality,
            launched: now,
        };
        out.push(TaskEffect::Post(Event::TaskStart { task: info.clone(), at: now }));
        out.push(TaskEffect::LaunchTask(info.clone()));
        self.attempts.started(info);
        self.book_speculation(now);
    }
}
