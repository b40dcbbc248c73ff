//! One event in, effects out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firesteel_scheduler::engine::Input;
use firesteel_scheduler::messages::DagEvent;
use firesteel_types::{ExecutorId, TaskId, TaskOutcome, Tick};

use super::client::Link;
use super::executors::Executor;
use super::options::BackendOptions;
use crate::blame::End;
use crate::jitter::Jitter;
use crate::messages::{Said, ToApplication, ToDriver, ToExecutor, ToMaster};
use crate::mutant::Mutant;
use crate::{AppId, Epoch, Peer};

/// Into a backend.
#[derive(Clone, Debug)]
pub enum Event {
    /// A master said something.
    ReceivedMaster {
        /// Which of its masters.
        master: usize,
        /// What.
        said: Said<ToApplication>,
    },
    /// The connection to a master broke, or could not be made.
    MasterDisconnected {
        /// Which of its masters.
        master: usize,
    },
    /// A connection to a master could not be made.
    MasterUnreachable {
        /// Which of its masters.
        master: usize,
        /// Why, for people.
        reason: String,
        /// Whether it never will be: the two have different secrets, for example.
        lasting: bool,
    },
    /// An executor said something.
    ReceivedExecutor {
        /// Over which connection.
        from: Peer,
        /// Whether it said over this connection where it serves its blocks.
        has_address: bool,
        /// What.
        message: ToDriver,
    },
    /// An executor's connection broke, for good.
    ExecutorDisconnected {
        /// Which connection.
        peer: Peer,
    },
    /// So many executors are wanted from now on.
    LimitChanged {
        /// How many in all.
        total: u32,
    },
    /// These executors are not wanted any more.
    KillRequested {
        /// Which.
        executors: Vec<ExecutorId>,
    },
    /// A moment asked for by [`Effect::ArmTimer`] has come; the first one starts the backend.
    Ticked,
    /// All that had arrived when [`Effect::Drain`] was said has been fed.
    Drained,
    /// The application is over.
    Stopped,
}

/// Out of a backend, in order.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Tell a master.
    SendMaster {
        /// Which of its masters.
        master: usize,
        /// What.
        message: ToMaster,
    },
    /// Tell an executor.
    SendExecutor {
        /// Over which connection.
        to: Peer,
        /// What.
        message: ToExecutor,
    },
    /// Tell the schedulers.
    Schedule(Input),
    /// Keep what a task brought, and tell the schedulers of its end.
    ReportTask {
        /// Whose.
        executor: ExecutorId,
        /// Which.
        task: TaskId,
        /// How.
        outcome: TaskOutcome,
        /// Its result and what it cost, as the executor's shell encoded it.
        data: Arc<[u8]>,
    },
    /// It is registered.
    Registered {
        /// Under this id.
        app: AppId,
    },
    /// Tell the user.
    Warn {
        /// What.
        message: String,
    },
    /// It cannot go on: accept no job from now on. The schedulers are told after that, so that no job comes
    /// between the two.
    EndApplication {
        /// Why.
        reason: String,
    },
    /// Feed `Ticked` at this moment.
    ArmTimer(Tick),
    /// Feed all that has arrived so far, then `Drained`: silence is judged after that.
    Drain,
}

/// One call of [`Backend::handle`]: its moment and its effects.
pub(super) struct Turn<'a> {
    pub(super) now: Tick,
    pub(super) out: &'a mut Vec<Effect>,
}

impl Turn<'_> {
    pub(super) fn tell_executor(&mut self, to: Peer, message: ToExecutor) {
        self.out.push(Effect::SendExecutor { to, message });
    }
}

/// The state machine of a driver's cluster backend.
#[derive(Debug)]
pub struct Backend {
    pub(super) options: BackendOptions,
    pub(super) jitter: Jitter,
    pub(super) link: Link,
    /// The newest master that took it in.
    pub(super) newest: Epoch,
    pub(super) app: Option<AppId>,
    pub(super) limit: Option<u32>,
    pub(super) executors: BTreeMap<ExecutorId, Executor>,
    /// Executors that were ordered and have not registered, since when.
    pub(super) expected: BTreeMap<ExecutorId, Tick>,
    /// Executors that never count again (S04).
    pub(super) lost: BTreeSet<ExecutorId>,
    /// Of these, those that the master has not said to be over: it is told with each heartbeat.
    pub(super) unconfirmed: BTreeSet<ExecutorId>,
    /// How many executors have ever registered.
    pub(super) registrations: u64,
    /// The first number no executor was heard of with.
    pub(super) next_executor: u32,
    pub(super) next_check: Tick,
    /// Masters that will never take it in.
    pub(super) hopeless: BTreeSet<usize>,
    /// Why a master could not be reached, since the last one that answered.
    pub(super) unreachable: Option<String>,
    armed: Option<Tick>,
    pub(super) stale: u64,
}

impl Backend {
    /// A backend that has not said anything yet.
    pub fn new(options: BackendOptions, jitter: Jitter) -> Self {
        Backend {
            limit: options.description.initial_executor_limit,
            options,
            jitter,
            link: Link::starting(),
            newest: Epoch(0),
            app: None,
            executors: BTreeMap::new(),
            expected: BTreeMap::new(),
            lost: BTreeSet::new(),
            unconfirmed: BTreeSet::new(),
            registrations: 0,
            next_executor: 0,
            next_check: Tick(0),
            hopeless: BTreeSet::new(),
            unreachable: None,
            armed: None,
            stale: 0,
        }
    }

    /// Takes one event and appends what is to be done about it, in order.
    pub fn handle(&mut self, now: Tick, event: Event, out: &mut Vec<Effect>) {
        let turn = &mut Turn { now, out };
        match event {
            Event::ReceivedMaster { master, said } => self.received_master(turn, master, said),
            Event::MasterDisconnected { master } => self.master_disconnected(turn, master),
            Event::MasterUnreachable { master, reason, lasting } => {
                self.master_unreachable(turn, master, reason, lasting);
            }
            Event::ReceivedExecutor { from, has_address, message } => {
                self.received_executor(turn, (from, has_address), message);
            }
            Event::ExecutorDisconnected { peer } => self.executor_disconnected(turn, peer),
            Event::LimitChanged { total } => self.limit_changed(turn, total),
            Event::KillRequested { executors } => {
                for executor in executors {
                    self.give_up(turn, executor, End::Told, "it is not wanted any more");
                }
            }
            Event::Ticked => self.ticked(turn),
            Event::Drained if !self.is_over() => self.give_up_silent_executors(turn),
            Event::Drained => {}
            Event::Stopped => self.stop(turn),
        }
        self.arm(turn);
    }

    fn ticked(&mut self, turn: &mut Turn<'_>) {
        if self.armed.is_some_and(|at| at <= turn.now) {
            self.armed = None;
        }
        self.keep_in_touch(turn);
        if self.next_check <= turn.now && !self.is_over() {
            let look = (self.options.network_timeout_ms / 8).max(1);
            // Late: this process stood still. What came meanwhile is read before anybody is judged.
            let stood_still = turn.now.since_ms(self.next_check) > look;
            self.next_check = turn.now.plus_ms(look);
            if !stood_still {
                turn.out.push(Effect::Drain);
            }
        }
    }

    fn limit_changed(&mut self, turn: &mut Turn<'_>, total: u32) {
        self.limit = Some(total);
        if let Some(app) = self.app.clone() {
            self.tell_master(turn, ToMaster::RequestExecutors { app, total });
        }
    }

    /// Ends the application for a reason: every job hears it.
    pub(super) fn fail(&mut self, turn: &mut Turn<'_>, reason: String) {
        if self.is_over() {
            return;
        }
        let cancelled = DagEvent::AllJobsCancelled { reason: reason.clone() };
        let mut both = [Effect::EndApplication { reason }, Effect::Schedule(Input::Dag(cancelled))];
        if self.options.planted.is(Mutant::CancelsBeforeItEnds) {
            both.reverse();
        }
        turn.out.extend(both);
        self.stop(turn);
    }

    /// Lets master and executors go.
    fn stop(&mut self, turn: &mut Turn<'_>) {
        if self.is_over() {
            return;
        }
        if let Some(app) = self.app.clone() {
            self.tell_master(turn, ToMaster::UnregisterApplication { app });
        }
        for (_, executor) in std::mem::take(&mut self.executors) {
            turn.tell_executor(executor.peer, ToExecutor::StopExecutor);
        }
        self.expected.clear();
        self.link = Link::Over;
    }

    fn arm(&mut self, turn: &mut Turn<'_>) {
        let Some(due) = self.link.due() else { return };
        let wake = due.min(self.next_check);
        if self.armed.is_none_or(|armed| wake < armed || armed <= turn.now) {
            self.armed = Some(wake);
            turn.out.push(Effect::ArmTimer(wake));
        }
    }

    /// Whether the application is over.
    pub fn is_over(&self) -> bool {
        matches!(self.link, Link::Over)
    }

    /// Its id, once a master gave it one.
    pub fn app(&self) -> Option<&AppId> {
        self.app.as_ref()
    }

    /// How to reach an executor that may get tasks.
    pub fn peer(&self, executor: ExecutorId) -> Option<Peer> {
        self.executors.get(&executor).map(|executor| executor.peer)
    }

    /// Executors that count, whether or not their connection stands.
    pub fn executors(&self) -> impl Iterator<Item = ExecutorId> {
        self.executors.keys().copied()
    }

    /// When an executor that counts was heard last.
    pub fn last_seen(&self, executor: ExecutorId) -> Option<Tick> {
        self.executors.get(&executor).map(|executor| executor.last_seen)
    }

    /// Whether the executor was given up.
    pub fn is_lost(&self, executor: ExecutorId) -> bool {
        self.lost.contains(&executor)
    }

    /// Messages that were dropped because what they spoke of is over.
    pub fn stale_messages(&self) -> u64 {
        self.stale
    }
}
