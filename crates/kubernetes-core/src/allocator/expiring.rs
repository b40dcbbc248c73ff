//! Deadlines: no stage is for ever, except working and waiting for a node.

use firesteel_types::ExecutorId;

use super::core::{Allocator, Turn};
use super::slots::Stage;
use crate::api::ApiError;
use crate::cause::Cause;
use crate::mutant::Mutant;
use crate::options::Unschedulable;
use crate::pod::Obstacle;

impl Allocator {
    /// Executors whose time in their stage is over.
    pub(super) fn expire(&mut self, turn: &mut Turn<'_>) {
        let options = &self.options;
        let late = self.slots.iter().filter(|(_, slot)| {
            slot.deadline(options, &self.nodes).is_some_and(|deadline| deadline <= turn.now)
        });
        let late: Vec<_> = late.map(|(executor, _)| executor).collect();
        late.into_iter().for_each(|executor| self.expired(turn, executor));
        self.pardon_nodes(turn);
    }

    fn expired(&mut self, turn: &mut Turn<'_>, executor: ExecutorId) {
        let Some(slot) = self.slots.get_mut(executor) else { return };
        let attempts = slot.attempts();
        if slot.attached_by(&self.options.deadlines).is_some_and(|by| by <= turn.now) {
            return self.never_attached(turn, executor);
        }
        if slot.is_unexplained() {
            return self.never_explained(turn, executor);
        }
        match slot.stage().clone() {
            Stage::Requested { .. } => {
                let error = ApiError::Unreachable("a request was not answered".to_owned());
                self.create_answered(turn, executor, attempts, Err(error));
            }
            Stage::Created => {
                // A list shows it, or shows that it is gone.
                slot.look_again(turn.now);
                self.observer.want_list(turn.now);
            }
            Stage::Pending(words) => self.never_scheduled(turn, executor, words),
            Stage::Assigned => self.never_accepted(turn, executor),
            Stage::Scheduled(Some((_, Obstacle::Image(words)))) => {
                self.end(turn, executor, Cause::ImagePull(words));
            }
            Stage::Scheduled(obstacle) => {
                let words = obstacle.map(|(_, obstacle)| match obstacle {
                    Obstacle::Image(words) | Obstacle::Config(words) | Obstacle::Other(words) => {
                        words
                    }
                });
                self.end(turn, executor, Cause::NeverStarted(words));
            }
            Stage::Running => self.end(turn, executor, Cause::NeverRegistered),
            Stage::Leaving(cause) => self.end_by_force(turn, executor, cause),
        }
    }

    /// Its pod does not say why its connection broke, and a list shows that it has nothing to say: it may run on.
    fn never_explained(&mut self, turn: &mut Turn<'_>, executor: ExecutorId) {
        let newest = self.observer.newest();
        let Some(slot) = self.slots.get_mut(executor) else { return };
        if !slot.is_leaving() && !slot.is_sure(turn.now, newest) {
            return self.observer.want_list(turn.now);
        }
        self.end(turn, executor, Cause::Released);
    }

    fn never_scheduled(
        &mut self,
        turn: &mut Turn<'_>,
        executor: ExecutorId,
        words: Option<String>,
    ) {
        let cause = Cause::NeverScheduled(words);
        match self.options.unschedulable {
            Unschedulable::Wait => {
                if let Some(slot) = self.slots.get_mut(executor) {
                    slot.look_again(turn.now);
                }
                return;
            }
            Unschedulable::Fail if self.slots.healthy() == 0 => {
                self.fail(turn, format!("executor {executor}: {cause}"));
            }
            Unschedulable::Fail | Unschedulable::Shrink => {}
        }
        self.backoff.crowded(turn.now, &cause.to_string());
        self.end(turn, executor, cause);
    }

    /// Its node does not take it: it is not what it seems to the scheduler. Unless the watch left out that it did.
    fn never_accepted(&mut self, turn: &mut Turn<'_>, executor: ExecutorId) {
        let trusts = self.options.planted.is(Mutant::TrustsWatchesAlone);
        let newest = self.observer.newest();
        let Some(slot) = self.slots.get_mut(executor) else { return };
        if !slot.is_sure(turn.now, newest) && !trusts {
            return self.observer.want_list(turn.now);
        }
        let Some(node) = slot.node().cloned() else { return };
        self.nodes.suspect(node.clone(), turn.now);
        self.end(turn, executor, Cause::NodeSilent(node));
    }

    /// Its grace period is over, and its node does not say so: nothing that runs there counts any more.
    fn end_by_force(&mut self, turn: &mut Turn<'_>, executor: ExecutorId, cause: Cause) {
        let slot = self.slots.get(executor);
        let pod =
            slot.and_then(|slot| Some((slot.name().clone(), slot.uid()?.clone(), slot.version())));
        if let Some((name, uid, version)) = pod {
            self.deletions.add(turn.now, name, uid, version, true);
        }
        self.end(turn, executor, cause);
    }

    /// A pod finds no node while nodes are excluded for failures: better one of those than none.
    fn pardon_nodes(&mut self, turn: &mut Turn<'_>) {
        let patience = self.options.batch_delay_ms.saturating_mul(10);
        let stuck = self.slots.iter().filter(|(_, slot)| {
            let unschedulable = matches!(slot.stage(), Stage::Pending(Some(_)));
            let waits = unschedulable && slot.registered().is_none();
            waits && slot.avoids() && turn.now.since_ms(slot.since()) >= patience
        });
        let stuck: Vec<_> = stuck.map(|(executor, _)| executor).collect();
        if !stuck.is_empty() {
            self.nodes.pardon();
        }
        stuck.into_iter().for_each(|executor| self.end(turn, executor, Cause::Unwanted));
    }
}
