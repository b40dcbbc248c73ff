//! Executors, between the driver's registry and the master that starts them.

use std::collections::{BTreeMap, BTreeSet};

use firesteel_backend::AppId;
use firesteel_backend::mutant::{Mutant, Planted};
use firesteel_backend::numbers::ExecutorNumbers;
use firesteel_backend::provider::{Capacity, ProviderCommand, ProviderEvent};
use firesteel_types::{ExecutorId, Host};

use super::core::{AppClient, Turn};
use crate::description::{ExecutorState, ExecutorUpdate};
use crate::messages::ToMaster;

/// What the driver has and wants.
#[derive(Debug, Default)]
pub(super) struct Executors {
    /// How many are wanted, when that is limited.
    limit: Option<u32>,
    /// On which node the master ordered which.
    ordered: BTreeMap<ExecutorId, Host>,
    /// Those that are registered with the driver.
    registered: BTreeSet<ExecutorId>,
    /// How many ever were.
    registrations: u64,
    /// Those that are to end, until the master tells that they have: each heartbeat names them.
    released: BTreeSet<ExecutorId>,
    excluded: BTreeSet<Host>,
    numbers: ExecutorNumbers,
    /// Whether the registry was told that some are missing.
    short: bool,
}

impl Executors {
    pub(super) fn new(limit: Option<u32>) -> Self {
        Executors { limit, ..Executors::default() }
    }

    /// Whether the driver has executors to work with.
    pub(super) fn any_registered(&self) -> bool {
        !self.registered.is_empty()
    }

    /// Those that are registered with the driver.
    pub(super) fn registered(&self) -> Vec<ExecutorId> {
        self.registered.iter().copied().collect()
    }

    /// The first number that a master may give, when the driver registers once more. A master that heard it before may
    /// have ordered executors that the driver never heard of, even if the answer was lost (S05).
    pub(super) fn first_number(&mut self, again: bool, planted: Planted) -> ExecutorId {
        if again {
            self.numbers.leave_out();
        }
        match again && planted.is(Mutant::ReusesNumbers) {
            true => ExecutorId(0),
            false => self.numbers.first(),
        }
    }

    /// What the driver has and wants; and what shall end, because that may have been lost and nobody else would free
    /// what such an executor holds.
    pub(super) fn heartbeat(&self, app: AppId) -> [Option<ToMaster>; 2] {
        let heartbeat = ToMaster::ApplicationHeartbeat {
            app: app.clone(),
            limit: self.limit,
            executors: self.registered.iter().copied().collect(),
            registrations: self.registrations,
            excluded: self.excluded.iter().cloned().collect(),
        };
        let executors: Vec<_> = self.released.iter().copied().collect();
        let kill = (!executors.is_empty()).then_some(ToMaster::KillExecutors { app, executors });
        [Some(heartbeat), kill]
    }
}

impl AppClient {
    pub(super) fn commanded(&mut self, turn: &mut Turn<'_>, command: ProviderCommand) {
        match command {
            ProviderCommand::SetTarget(total) => {
                self.executors.limit = Some(total);
                if let Some(app) = self.app.clone() {
                    self.tell_master(turn, ToMaster::RequestExecutors { app, total });
                }
                return;
            }
            ProviderCommand::Release(executors)
                if self.options.planted.is(Mutant::ReleasesOnce) =>
            {
                if let Some(app) = self.app.clone() {
                    self.tell_master(turn, ToMaster::KillExecutors { app, executors });
                }
                return;
            }
            ProviderCommand::Release(executors) => {
                for executor in executors {
                    self.executors.registered.remove(&executor);
                    self.executors.released.insert(executor);
                }
            }
            ProviderCommand::NodesExcluded(nodes) => self.executors.excluded = nodes,
            ProviderCommand::Named(app) => {
                self.hearsay = Some(app);
                return;
            }
            ProviderCommand::Registered(executor) => {
                self.executors.numbers.heard_of(executor);
                self.executors.registered.insert(executor);
                self.executors.registrations += 1;
            }
            // The master has its own heartbeats of workers.
            ProviderCommand::Disconnected(_) | ProviderCommand::Silent(_) => return,
            ProviderCommand::Stop => return self.stop(turn),
        }
        self.send_heartbeat(turn);
    }

    /// The master ordered an executor.
    pub(super) fn ordered(&mut self, turn: &mut Turn<'_>, executor: ExecutorId, node: Host) {
        self.executors.numbers.heard_of(executor);
        self.executors.ordered.insert(executor, node);
        turn.report(ProviderEvent::Ordered { executor });
    }

    /// The master tells of an executor.
    pub(super) fn updated(&mut self, turn: &mut Turn<'_>, update: ExecutorUpdate) {
        let ExecutorUpdate { executor, state, end } = update;
        self.executors.numbers.heard_of(executor);
        if state == ExecutorState::Decommissioned {
            let reason = "its worker was decommissioned".to_owned();
            return turn.report(ProviderEvent::Decommissioning { executor, reason });
        }
        if !state.is_finished() {
            let node = self.executors.ordered.get(&executor).cloned();
            if let Some(node) = node.filter(|_| state == ExecutorState::Running) {
                turn.report(ProviderEvent::Started { executor, node });
            }
            return;
        }
        self.executors.released.remove(&executor);
        self.executors.ordered.remove(&executor);
        let status = end.as_ref().and_then(|end| end.status);
        let reason = end.map_or_else(|| state.name().to_lowercase(), |end| end.message);
        let end = state.end(status);
        turn.report(ProviderEvent::Ended { executor, end, reason });
        if self.executors.registered.remove(&executor) {
            self.send_heartbeat(turn);
        }
    }

    /// The master says which executors are missing and why, or that none is any more.
    pub(super) fn starved(&mut self, turn: &mut Turn<'_>, shortage: Option<String>) {
        self.executors.short = shortage.is_some();
        turn.report(ProviderEvent::Capacity(Capacity { shortage }));
    }

    /// Another master does not know what the one before it has said: it says so again, if it is still so.
    pub(super) fn forget_shortage(&mut self, turn: &mut Turn<'_>) {
        if std::mem::take(&mut self.executors.short) {
            turn.report(ProviderEvent::Capacity(Capacity::default()));
        }
    }
}
