//! One event in, effects out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firesteel_scheduler::SchedulerInput;
use firesteel_scheduler::messages::{DagEvent, TaskEvent};
use firesteel_types::{ExecutorId, Host, TaskId, TaskOutcome, Tick};

use super::options::RegistryOptions;
use super::roster::Roster;
use crate::blame::End;
use crate::mutant::Mutant;
use crate::protocol::{ToDriver, ToExecutor};
use crate::provider::{Capacity, ProviderCommand, ProviderEvent};
use crate::{AppId, Peer};

#[derive(Clone, Debug)]
pub enum RegistryEvent {
    /// From the provider, over its port.
    Provider(ProviderEvent),
    /// A message from an executor.
    ReceivedExecutor {
        /// The connection it came over.
        from: Peer,
        /// Whether the executor told over this connection where it serves its blocks.
        has_address: bool,
        message: ToDriver,
    },
    /// An executor's connection broke, for good.
    ExecutorDisconnected { peer: Peer },
    /// So many executors are wanted from now on.
    TargetChanged {
        /// How many in all.
        total: u32,
    },
    /// These executors are not wanted any more.
    KillRequested { executors: Vec<ExecutorId> },
    /// The schedulers give a node no task of this application from now on, or do so again.
    NodeExcluded { node: Host, excluded: bool },
    /// When something came last over each connection, whether or not it was fed: who is heard of is not silent.
    Heard { arrived: BTreeMap<Peer, Tick> },
    /// A moment asked for by [`RegistryEffect::ArmTimer`] has come; the first one starts the registry.
    Ticked,
    /// The shell has fed all messages that had arrived when it carried out [`RegistryEffect::Drain`].
    Drained,
    /// The application is over.
    Stopped,
}

/// Out of a registry, in order.
#[derive(Clone, Debug)]
pub enum RegistryEffect {
    Provider(ProviderCommand),
    SendExecutor {
        to: Peer,
        message: ToExecutor,
    },
    Schedule(SchedulerInput),
    /// Keep what a task brought, and tell the schedulers of its end.
    ReportTask {
        executor: ExecutorId,
        task: TaskId,
        outcome: TaskOutcome,
        /// Its result and what it cost, as the executor's shell encoded it.
        data: Arc<[u8]>,
    },
    /// The cluster manager took the application in.
    Accepted {
        app: AppId,
    },
    Warn {
        message: String,
    },
    /// Tell the user why executors are missing; `None`: none is any more. Told with each change.
    TellShortage {
        shortage: Option<String>,
    },
    /// It cannot go on: accept no job from now on. The schedulers are told after that, so that no job comes
    /// between the two.
    EndApplication {
        reason: String,
    },
    /// Feed `Ticked` at this moment.
    ArmTimer(Tick),
    /// Feed all that has arrived so far, then `Drained`: silence is judged after that.
    Drain,
}

/// One call of [`Registry::handle`]: its moment and its effects.
pub(super) struct Turn<'a> {
    pub(super) now: Tick,
    pub(super) out: &'a mut Vec<RegistryEffect>,
}

impl Turn<'_> {
    pub(super) fn tell_executor(&mut self, to: Peer, message: ToExecutor) {
        self.out.push(RegistryEffect::SendExecutor { to, message });
    }

    /// The executor gets no more tasks.
    pub(super) fn bar(&mut self, executor: ExecutorId) {
        let barred = TaskEvent::ExecutorDecommissioned { executor };
        self.out.push(RegistryEffect::Schedule(SchedulerInput::Task(barred)));
    }

    pub(super) fn command(&mut self, command: ProviderCommand) {
        self.out.push(RegistryEffect::Provider(command));
    }
}

/// The state machine of a driver's executors.
#[derive(Debug)]
pub struct Registry {
    pub(super) options: RegistryOptions,
    pub(super) app: Option<AppId>,
    pub(super) roster: Roster,
    excluded: BTreeSet<Host>,
    /// Why executors cannot be had, as the user was told last.
    shortage: Option<String>,
    next_check: Tick,
    stale: u64,
    armed: Option<Tick>,
    started: bool,
    over: bool,
}

impl Registry {
    /// A registry without executors.
    pub fn new(options: RegistryOptions) -> Self {
        Registry {
            options,
            app: None,
            roster: Roster::default(),
            excluded: BTreeSet::new(),
            shortage: None,
            next_check: Tick(0),
            stale: 0,
            armed: None,
            started: false,
            over: false,
        }
    }

    /// Takes one event and appends what is to be done about it, in order.
    pub fn handle(&mut self, now: Tick, event: RegistryEvent, out: &mut Vec<RegistryEffect>) {
        let turn = &mut Turn { now, out };
        match event {
            RegistryEvent::Provider(event) => self.provider_said(turn, event),
            RegistryEvent::ReceivedExecutor { from, has_address, message } => {
                self.received_executor(turn, (from, has_address), message);
            }
            RegistryEvent::ExecutorDisconnected { peer } => self.executor_disconnected(turn, peer),
            RegistryEvent::TargetChanged { total } => self.target_changed(turn, total),
            RegistryEvent::KillRequested { executors } => {
                for executor in executors {
                    self.declare_dead(turn, executor, End::Told, "it is not wanted any more");
                }
            }
            RegistryEvent::NodeExcluded { node, excluded } => {
                self.node_excluded(turn, node, excluded)
            }
            RegistryEvent::Heard { arrived } => self.roster.heard_over(&arrived),
            RegistryEvent::Ticked => self.ticked(turn),
            RegistryEvent::Drained if !self.over => self.remove_silent_executors(turn),
            RegistryEvent::Drained => {}
            RegistryEvent::Stopped => self.stop(turn),
        }
        self.arm(turn);
    }

    fn provider_said(&mut self, turn: &mut Turn<'_>, event: ProviderEvent) {
        match event {
            ProviderEvent::Accepted { app } => {
                if self.app.as_ref() != Some(&app) && !self.over {
                    self.app = Some(app.clone());
                    turn.out.push(RegistryEffect::Accepted { app });
                }
            }
            ProviderEvent::Ordered { executor } => self.executor_ordered(turn, executor),
            ProviderEvent::Started { executor, .. } => self.executor_started(turn, executor),
            ProviderEvent::Preparing { executor, preparing } => {
                self.executor_prepares(turn, executor, preparing);
            }
            ProviderEvent::Decommissioning { executor, reason } => {
                self.executor_decommissioning(turn, executor, &reason);
            }
            ProviderEvent::Ended { executor, end, reason } => {
                self.executor_ended(turn, executor, end, &reason);
            }
            ProviderEvent::Capacity(capacity) => {
                if self.shortage != capacity.shortage {
                    self.shortage.clone_from(&capacity.shortage);
                    let Capacity { shortage } = capacity;
                    turn.out.push(RegistryEffect::TellShortage { shortage });
                }
            }
            ProviderEvent::Warning { message } => turn.out.push(RegistryEffect::Warn { message }),
            ProviderEvent::Failed { reason } => self.fail(turn, reason),
        }
    }

    fn ticked(&mut self, turn: &mut Turn<'_>) {
        if self.armed.is_some_and(|at| at <= turn.now) {
            self.armed = None;
        }
        if !std::mem::replace(&mut self.started, true)
            && let Some(target) = self.options.target
        {
            turn.command(ProviderCommand::SetTarget(target));
        }
        if self.next_check <= turn.now && !self.over {
            let look = (self.options.network_timeout_ms / 8).max(1);
            // Late: this process stood still. What came meanwhile is read before anybody is judged.
            let stood_still = turn.now.since_ms(self.next_check) > look;
            self.next_check = turn.now.plus_ms(look);
            if self.options.planted.is(Mutant::JudgesBacklog) {
                self.remove_silent_executors(turn);
            } else if !stood_still {
                turn.out.push(RegistryEffect::Drain);
            }
        }
    }

    fn target_changed(&mut self, turn: &mut Turn<'_>, total: u32) {
        self.options.target = Some(total);
        if self.started && !self.over {
            turn.command(ProviderCommand::SetTarget(total));
        }
    }

    fn node_excluded(&mut self, turn: &mut Turn<'_>, node: Host, excluded: bool) {
        let changed = match excluded {
            true => self.excluded.insert(node),
            false => self.excluded.remove(&node),
        };
        if changed && !self.over {
            turn.command(ProviderCommand::NodesExcluded(self.excluded.clone()));
        }
    }

    /// Ends the application for a reason: every job hears it.
    fn fail(&mut self, turn: &mut Turn<'_>, reason: String) {
        if self.over {
            return;
        }
        let cancelled = DagEvent::AllJobsCancelled { reason: reason.clone() };
        let mut both = [
            RegistryEffect::EndApplication { reason },
            RegistryEffect::Schedule(SchedulerInput::Dag(cancelled)),
        ];
        if self.options.planted.is(Mutant::CancelsBeforeItEnds) {
            both.reverse();
        }
        turn.out.extend(both);
        self.stop(turn);
    }

    /// Lets provider and executors go.
    fn stop(&mut self, turn: &mut Turn<'_>) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        turn.command(ProviderCommand::Stop);
        for executor in self.roster.dismiss() {
            turn.tell_executor(executor.peer, ToExecutor::StopExecutor);
        }
    }

    /// Looks for executors that are gone at that moment, if not before.
    pub(super) fn check_by(&mut self, at: Tick) {
        self.next_check = self.next_check.min(at);
    }

    /// A message was dropped because what it speaks of is over or was never heard of.
    pub(super) fn dropped_stale(&mut self) {
        self.stale += 1;
    }

    fn arm(&mut self, turn: &mut Turn<'_>) {
        if self.over {
            return;
        }
        let wake = self.next_check;
        if self.armed.is_none_or(|armed| wake < armed || armed <= turn.now) {
            self.armed = Some(wake);
            turn.out.push(RegistryEffect::ArmTimer(wake));
        }
    }

    /// Whether the application is over.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// How to reach an executor that may get tasks.
    pub fn peer(&self, executor: ExecutorId) -> Option<Peer> {
        self.roster.get(executor).map(|executor| executor.peer)
    }

    /// Executors that count, whether or not their connection stands.
    pub fn executors(&self) -> impl Iterator<Item = ExecutorId> {
        self.roster.iter().map(|(id, _)| id)
    }

    /// When an executor that counts was heard last.
    pub fn last_seen(&self, executor: ExecutorId) -> Option<Tick> {
        self.roster.get(executor).map(|executor| executor.last_seen)
    }

    /// Whether the executor was declared dead.
    pub fn is_lost(&self, executor: ExecutorId) -> bool {
        self.roster.is_lost(executor)
    }

    /// Why executors cannot be had at the moment, as far as the provider told.
    pub fn shortage(&self) -> Option<&str> {
        self.shortage.as_deref()
    }

    /// Messages that were dropped because what they spoke of is over or was never heard of.
    pub fn stale_messages(&self) -> u64 {
        self.stale
    }
}
