//! Offers: free cores meet waiting tasks.
//!
//! When an event is dealt with, no executor with a free slot can take any task that is allowed
//! there. So the next event need only look at what it changed: the executor a task left, or, after
//! anything that may make more tasks launchable, every executor with free cores (`offer_all`).

use firesteel_types::event::Locality;
use firesteel_types::{Event, ExecutorId, StageRef, TaskId, TaskInfo, Tick};

use super::core::TaskScheduler;
use super::locality::{Answer, Offer};
use super::state::Attempt;
use crate::messages::TaskEffect;

/// Sweeps over all executors: first what is nearest to its data, so that no executor takes a task
/// from one that is free too and nearer.
const SWEEPS: [Locality; 3] = [Locality::ProcessLocal, Locality::NodeLocal, Locality::Any];

impl TaskScheduler {
    /// Launches whatever can be launched.
    pub(super) fn offer(&mut self, now: Tick, out: &mut Vec<TaskEffect>) {
        let mut round = std::mem::take(&mut self.freed);
        while self.pools.any_runnable() {
            if std::mem::take(&mut self.offer_all) {
                round.clear();
                SWEEPS.into_iter().for_each(|farthest| self.sweep(now, farthest, out));
            } else if round.is_empty() {
                break;
            } else {
                round.retain(|id| self.launch_on(now, *id, Locality::Any, out));
            }
        }
        self.offer_all = false;
        round.clear();
        self.freed = round;
        while let Some(stage) = self.launched_near.pop() {
            if let Some(set) = self.sets.get_mut(&stage) {
                set.waiting.end_offers(now);
            }
        }
    }

    /// Offers in rounds, one task per executor and round, most free cores first.
    fn sweep(&mut self, now: Tick, farthest: Locality, out: &mut Vec<TaskEffect>) {
        self.sweeps += 1;
        let mut round = Vec::new();
        let mut cursor = None;
        while self.pools.any_runnable() {
            cursor = self.executors.next_offer(cursor, self.sweeps);
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
        let offer = Offer { now, executor: id, host: &executor.host, farthest };
        let original = |task: TaskId| self.running[&task].info.executor;
        let mut found = None;
        for stage in self.pools.in_order() {
            let set = self.sets.get_mut(&stage).expect("pools list sets that exist");
            match set.answer(&offer, &self.executors, original) {
                Answer::Launch { index, locality, speculative } => {
                    found = Some((stage, index, locality, speculative));
                    break;
                }
                Answer::Later => break,
                Answer::Held { until } => {
                    let earlier = set.opening.is_none_or(|booked| until < booked);
                    if earlier {
                        let booked = set.opening.replace(until);
                        booked.map(|at| self.openings.remove(&(at, stage)));
                        self.openings.insert((until, stage));
                    }
                }
                Answer::Nothing => {}
            }
        }
        let Some((stage, index, locality, speculative)) = found else { return false };
        self.launch(now, (stage, index), id, (locality, speculative), out);
        true
    }

    fn launch(
        &mut self,
        now: Tick,
        (stage, index): (StageRef, u32),
        executor: ExecutorId,
        (locality, speculative): (Locality, bool),
        out: &mut Vec<TaskEffect>,
    ) {
        let task = TaskId(self.next_task);
        self.next_task += 1;
        let set = self.sets.get_mut(&stage).expect("the set was just asked");
        if speculative {
            set.copies.remove(&index);
        } else {
            self.offer_all |= set.waiting.remove(index);
            set.waiting.note_launch(locality);
            if locality != Locality::NoPref && self.launched_near.last() != Some(&stage) {
                self.launched_near.push(stage);
            }
        }
        let slot = set.slot(index);
        let (partition, attempt) = (slot.partition, slot.attempts);
        slot.attempt_started(task);
        self.pools.started(&mut set.member);
        let wants_slots = set.wants_slots();
        self.pools.set_runnable(&mut set.member, wants_slots);
        self.executors.reserve(executor);
        let info = TaskInfo {
            task,
            stage,
            partition,
            attempt,
            executor,
            speculative,
            locality,
            launched: now,
        };
        out.push(TaskEffect::Post(Event::TaskStart { task: info.clone(), at: now }));
        out.push(TaskEffect::LaunchTask(info.clone()));
        self.running.insert(task, Attempt { info, index });
        self.book_speculation(now);
    }
}
