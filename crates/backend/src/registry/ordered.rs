//! Executors between order and registration, and what a provider's word about one means.

use firesteel_types::ExecutorId;

use super::core::{Registry, Turn};
use crate::blame::End;
use crate::mutant::Mutant;
use crate::provider::{Preparing, ProviderCommand};

impl Registry {
    /// One that is lost never counts again (S04). A provider that knows nothing of the loss, such as a master that adopted what
    /// its workers run, has to end it: nobody else frees what it holds.
    pub(super) fn executor_ordered(&mut self, turn: &mut Turn<'_>, executor: ExecutorId) {
        if self.is_over() {
            return self.dropped_stale();
        }
        if !self.roster.order(executor, turn.now) {
            self.dropped_stale();
            if !self.options.planted.is(Mutant::AdoptsTheReleased) {
                turn.command(ProviderCommand::Release(vec![executor]));
            }
        }
    }

    /// It has as long from now on as it had to start.
    pub(super) fn executor_started(&mut self, turn: &mut Turn<'_>, executor: ExecutorId) {
        if !self.roster.started(executor, turn.now) {
            self.dropped_stale();
        }
    }

    /// What it needs is on its way to its node: it is not late as long as that makes progress.
    pub(super) fn executor_prepares(
        &mut self,
        turn: &mut Turn<'_>,
        executor: ExecutorId,
        preparing: Preparing,
    ) {
        let ignores = self.options.planted.is(Mutant::IgnoresPreparing);
        if ignores || !self.roster.prepares(executor, preparing, turn.now) {
            self.dropped_stale();
        }
    }

    /// It may end what it does, and gets nothing more. A heartbeat tells when it has: then the driver lets it go.
    pub(super) fn executor_decommissioning(
        &mut self,
        turn: &mut Turn<'_>,
        executor: ExecutorId,
        reason: &str,
    ) {
        if !self.roster.decommission(executor, reason) {
            return self.dropped_stale();
        }
        turn.bar(executor);
    }

    /// How it ended says whose fault that was. One that was never heard of may still come, and is refused then.
    pub(super) fn executor_ended(
        &mut self,
        turn: &mut Turn<'_>,
        executor: ExecutorId,
        end: End,
        reason: &str,
    ) {
        if !self.roster.counts_on(executor) {
            self.dropped_stale();
        }
        self.lose(turn, executor, end, reason);
    }
}
