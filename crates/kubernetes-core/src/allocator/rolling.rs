//! Executors that are replaced one by one, so that none grows old.

use firesteel_backend::provider::ProviderEvent;
use firesteel_types::{ExecutorId, Tick};

use super::core::{Allocator, Turn};
use super::slots::Stage;
use crate::cause::Cause;
use crate::options::{Roll, RollPolicy};

impl Allocator {
    /// One that works is told to end, and another one is asked for, if the time has come. While executors are missing none is taken away:
    /// its turn comes the next time.
    pub(super) fn roll(&mut self, turn: &mut Turn<'_>) {
        let Some(roll) = self.options.roll.filter(|_| self.is_alive()) else { return };
        let due = *self.rolls_at().get_or_insert(turn.now.plus_ms(roll.interval_ms));
        if due > turn.now {
            return;
        }
        *self.rolls_at() = Some(turn.now.plus_ms(roll.interval_ms));
        if self.healthy() >= self.target()
            && let Some(executor) = self.next_to_roll(roll)
        {
            self.roll_out(turn, executor);
        }
    }

    fn next_to_roll(&self, roll: Roll) -> Option<ExecutorId> {
        let working = self.slots.iter().filter(|(_, slot)| slot.is_working());
        let key = |(executor, since): &(ExecutorId, Option<Tick>)| match roll.policy {
            RollPolicy::Id => (Tick(0), *executor),
            RollPolicy::AddTime => (since.unwrap_or_default(), *executor),
        };
        let working = working.map(|(executor, slot)| (executor, slot.registered()));
        working.min_by_key(key).map(|(executor, _)| executor)
    }

    /// It finishes what it does within its grace period, as one that the platform ends.
    fn roll_out(&mut self, turn: &mut Turn<'_>, executor: ExecutorId) {
        let Some(slot) = self.slots.get_mut(executor) else { return };
        slot.enter(Stage::Leaving(Cause::Rolled), None, turn.now);
        if let Some(uid) = slot.uid().cloned() {
            self.deletions.add(turn.now, slot.name().clone(), uid, slot.version(), false);
        }
        let reason = Cause::Rolled.to_string();
        turn.report(ProviderEvent::Decommissioning { executor, reason });
    }

    pub(super) fn roll_due(&mut self) -> Option<Tick> {
        let alive = self.is_alive();
        (*self.rolls_at()).filter(|_| alive)
    }
}
