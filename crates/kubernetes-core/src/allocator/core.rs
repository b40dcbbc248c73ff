//! One event in, effects out.

use std::collections::BTreeSet;

use firesteel_backend::jitter::Jitter;
use firesteel_backend::numbers::ExecutorNumbers;
use firesteel_backend::provider::{ProviderCommand, ProviderEvent};
use firesteel_types::{ExecutorId, Host, Tick};

use super::backoff::Backoff;
use super::claims::Claims;
use super::deletions::Deletions;
use super::failures::{FailureWindow, Nodes};
use super::kept::KeptPods;
use super::observer::Observer;
use super::slots::Slots;
use super::why::Told;
use crate::api::ApiError;
use crate::claim::{ClaimList, Mount};
use crate::mutant::Mutant;
use crate::options::AllocatorOptions;
use crate::pod::Pod;
use crate::{ClaimName, Generation, PodName, PodUid, Version};

/// A pod to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRequest {
    pub executor: ExecutorId,
    pub name: PodName,
    /// The driver process that asks for it, as the pod's label says.
    pub generation: Generation,
    /// The how-manieth request for it this is; the answer has it, too.
    pub attempt: u32,
    /// Nodes it must not be placed on.
    pub avoid: BTreeSet<Host>,
    /// Nodes it is placed on only if no other one takes it: nothing has been heard of them.
    pub last_choice: BTreeSet<Host>,
    /// What of it is mounted: new claims are created before the pod.
    pub mounts: Vec<Mount>,
}

/// The API server has the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateAnswer {
    pub pod: Pod,
    /// It was there before (409).
    pub existed: bool,
}

/// All pods of the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodList {
    pub version: Version,
    pub pods: Vec<Pod>,
}

/// One event of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is new, or not what it was.
    Applied(Pod),
    /// It is gone; its last state.
    Deleted(Pod),
    /// Nothing else happened up to here.
    Bookmark(Version),
}

#[derive(Clone, Debug)]
pub enum AllocatorEvent {
    /// A command of the driver's registry.
    Command(ProviderCommand),
    /// The answer to [`AllocatorEffect::CreatePod`].
    Created { executor: ExecutorId, attempt: u32, answer: Result<Box<CreateAnswer>, ApiError> },
    /// The answer to [`AllocatorEffect::DeletePod`].
    Deleted { uid: PodUid, answer: Result<(), ApiError> },
    /// The answer to [`AllocatorEffect::ListPods`].
    Listed { number: u64, answer: Result<PodList, ApiError> },
    /// The answer to [`AllocatorEffect::ListClaims`].
    ClaimsListed { number: u64, answer: Result<ClaimList, ApiError> },
    /// The answer to [`AllocatorEffect::DeleteClaim`].
    ClaimDeleted { name: ClaimName, answer: Result<(), ApiError> },
    /// The answer to [`AllocatorEffect::FetchLog`], if there is one: the end of the log.
    LogFetched { executor: ExecutorId, text: String },
    /// Of the watch of this number.
    Watched { number: u64, change: Box<Change> },
    /// The watch of this number is over: the server closed it, or for this reason.
    WatchEnded { number: u64, error: Option<ApiError> },
    /// A moment asked for by [`AllocatorEffect::ArmTimer`] has come; the first one starts the allocator.
    Ticked,
}

/// Out of an allocator, in order.
#[derive(Clone, Debug)]
pub enum AllocatorEffect {
    CreatePod(PodRequest),
    /// Delete the pod if it is this very one. Nothing is left of its grace period if that is 0.
    DeletePod {
        name: PodName,
        uid: PodUid,
        grace_ms: u64,
    },
    /// Label the pod as inactive: it is over and left for people. Nothing comes of it if that fails.
    KeepPod {
        name: PodName,
        uid: PodUid,
    },
    /// Fetch the end of the log of an executor that failed, and write it into this process's own. Nothing comes of it if that fails.
    FetchLog {
        executor: ExecutorId,
        name: PodName,
    },
    /// List all pods of the application that are not labelled as inactive, from a quorum.
    ListPods {
        number: u64,
    },
    /// Watch them from this version on, in place of any other watch.
    WatchPods {
        number: u64,
        from: Version,
    },
    /// List all claims of the application, from a quorum.
    ListClaims {
        number: u64,
    },
    /// Delete the claim; no other one ever has its name.
    DeleteClaim {
        name: ClaimName,
    },
    /// Read the credentials again before the next request.
    RefreshCredentials,
    /// Tell the driver's registry.
    Report(ProviderEvent),
    /// Feed `Ticked` at this moment.
    ArmTimer(Tick),
    /// Nothing is left of the application: the shell may end.
    Finish,
}

/// One call of [`Allocator::handle`]: its moment and its effects.
pub(super) struct Turn<'a> {
    pub(super) now: Tick,
    pub(super) out: &'a mut Vec<AllocatorEffect>,
}

impl Turn<'_> {
    pub(super) fn report(&mut self, event: ProviderEvent) {
        self.out.push(AllocatorEffect::Report(event));
    }
}

/// A process that is so late with a moment that was asked for stood still, and needs so long to hear what happened meanwhile.
const STOOD_STILL_MS: u64 = 2000;
const SETTLES_MS: u64 = 2000;

/// How far an allocator is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AllocatorState {
    New,
    Allocating,
    /// There will be no more executors; the registry was told and will say `Stop`.
    Failed,
    /// All pods are to go.
    Stopping(Closing),
    Over,
}

/// How an application's end comes to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// Requests may yet create pods.
    Answers,
    /// None can: a list of this number or a later one shows what is left.
    List(u64),
    /// What is left is known: that list came, or nothing was ever asked for.
    Listed,
}

/// The state machine of an application's pods.
#[derive(Debug)]
pub struct Allocator {
    pub(super) options: AllocatorOptions,
    pub(super) state: AllocatorState,
    target: u32,
    pub(super) slots: Slots,
    pub(super) numbers: ExecutorNumbers,
    pub(super) deletions: Deletions,
    pub(super) kept: KeptPods,
    pub(super) observer: Observer,
    pub(super) backoff: Backoff,
    pub(super) failures: FailureWindow,
    pub(super) nodes: Nodes,
    claims: Claims,
    told: Told,
    next_round: Tick,
    /// Whether a pod was ever asked for.
    requested: bool,
    rolls_at: Option<Tick>,
    armed: Option<Tick>,
    /// No deadline is judged before: this process stood still, and what happened meanwhile is yet to be heard.
    judges_from: Tick,
    stale: u64,
}

impl Allocator {
    /// An allocator that has asked for nothing yet.
    pub fn new(options: AllocatorOptions, jitter: Jitter) -> Self {
        let mut numbers = ExecutorNumbers::default();
        if options.first_number > 0 && !options.planted.is(Mutant::ReusesNumbers) {
            numbers.heard_of(ExecutorId(options.first_number - 1));
        }
        Allocator {
            state: AllocatorState::New,
            target: 0,
            slots: Slots::default(),
            numbers,
            deletions: Deletions::default(),
            kept: KeptPods::new(options.keep),
            observer: Observer::new(options.planted),
            backoff: Backoff::new(options.waits, options.planted, jitter),
            failures: FailureWindow::new(options.max_failures, options.failures_validity_ms),
            nodes: Nodes::new(options.node_failures, options.node_excluded_ms),
            claims: Claims::new(options.claims.clone(), options.planted),
            told: Told::default(),
            next_round: Tick(0),
            requested: false,
            rolls_at: None,
            armed: None,
            judges_from: Tick(0),
            stale: 0,
            options,
        }
    }

    /// Takes one event and appends what is to be done about it, in order.
    pub fn handle(&mut self, now: Tick, event: AllocatorEvent, out: &mut Vec<AllocatorEffect>) {
        let turn = &mut Turn { now, out };
        if self.state == AllocatorState::Over {
            self.stale += 1;
            return;
        }
        self.notice_standstill(turn);
        match event {
            AllocatorEvent::Command(command) => self.commanded(turn, command),
            AllocatorEvent::Created { executor, attempt, answer } => {
                self.create_answered(turn, executor, attempt, answer);
            }
            AllocatorEvent::Deleted { uid, answer } => self.delete_answered(turn, &uid, answer),
            AllocatorEvent::Listed { number, answer } => self.listed(turn, number, answer),
            AllocatorEvent::ClaimsListed { number, answer } => {
                self.claims_listed(turn, number, answer);
            }
            AllocatorEvent::LogFetched { executor, text } => self.told.logged(executor, &text),
            AllocatorEvent::ClaimDeleted { name, answer } => {
                self.claim_deleted(turn, &name, answer);
            }
            AllocatorEvent::Watched { number, change } => self.watched(turn, number, *change),
            AllocatorEvent::WatchEnded { number, error } => self.watch_ended(turn, number, error),
            AllocatorEvent::Ticked => self.ticked(turn),
        }
        self.advance(turn);
    }

    /// An event that comes long after a moment that was asked for: this process stood still. A list shows what it missed.
    fn notice_standstill(&mut self, turn: &mut Turn<'_>) {
        if self.armed.is_some_and(|at| turn.now.since_ms(at) >= STOOD_STILL_MS) {
            self.armed = None;
            self.judges_from = turn.now.plus_ms(SETTLES_MS);
            self.observer.want_list(turn.now);
        }
    }

    fn ticked(&mut self, turn: &mut Turn<'_>) {
        if self.armed.is_some_and(|at| at <= turn.now) {
            self.armed = None;
        }
        if self.state == AllocatorState::New {
            self.state = AllocatorState::Allocating;
            turn.report(ProviderEvent::Accepted { app: self.options.app.clone() });
        }
    }

    fn commanded(&mut self, turn: &mut Turn<'_>, command: ProviderCommand) {
        match command {
            ProviderCommand::SetTarget(target) => self.target = target,
            ProviderCommand::Release(executors) => {
                executors.into_iter().for_each(|executor| self.release(turn, executor));
            }
            ProviderCommand::NodesExcluded(nodes) => self.nodes.exclude(nodes),
            ProviderCommand::Registered(executor) => self.registered(turn, executor),
            // It named the application itself.
            ProviderCommand::Named(_) => {}
            ProviderCommand::Disconnected(executor) => self.disconnected(executor),
            ProviderCommand::Silent(executor) => self.silent(turn, executor),
            ProviderCommand::Stop => self.stop(turn),
        }
    }

    /// Everything that time or the event made due.
    fn advance(&mut self, turn: &mut Turn<'_>) {
        if self.state == AllocatorState::New {
            return;
        }
        if self.judges_from <= turn.now {
            self.expire(turn);
            self.lose_patience(turn);
        }
        self.roll(turn);
        self.allocate(turn);
        self.delete_due(turn);
        self.observe(turn);
        self.look_after_claims(turn);
        self.tell_why(turn);
        self.finish(turn);
        self.arm(turn);
    }

    /// An application without executors does not wait for an API server for ever.
    fn lose_patience(&mut self, turn: &mut Turn<'_>) {
        let (patience, nothing) = (self.options.deadlines.api_ms, self.slots.healthy() == 0);
        let Some((since, words)) = self.failing() else { return };
        if turn.now.since_ms(since) >= patience && nothing && self.target > 0 {
            let reason = format!("no pod could be asked for within {} s: {words}", patience / 1000);
            self.fail(turn, reason);
        }
    }

    /// A right that is missing from the start ends an application at once, and one that it had may come back.
    fn failing(&self) -> Option<(Tick, &str)> {
        self.backoff.failing(self.failures.any_registered())
    }

    fn patience_due(&self, now: Tick) -> Option<Tick> {
        let (since, _) = self.failing()?;
        Some(since.plus_ms(self.options.deadlines.api_ms)).filter(|due| *due > now)
    }

    /// There will be no more executors, for this reason.
    pub(super) fn fail(&mut self, turn: &mut Turn<'_>, reason: String) {
        if self.state == AllocatorState::Allocating {
            self.state = AllocatorState::Failed;
            turn.report(ProviderEvent::Failed { reason });
        }
    }

    /// All pods go, also those that a request on its way may yet create.
    fn stop(&mut self, turn: &mut Turn<'_>) {
        if matches!(self.state, AllocatorState::Stopping(_)) {
            return;
        }
        self.state = AllocatorState::Stopping(Closing::Answers);
        self.target = 0;
        self.backoff.hurry(turn.now);
        let executors: Vec<_> = self.slots.iter().map(|(executor, _)| executor).collect();
        for executor in executors {
            let slot = self.slots.remove(executor, &self.options.deadlines);
            slot.into_iter().for_each(|slot| self.bury_slot(turn.now, slot));
        }
        // The API server has them go when the last pod that mounts them is gone.
        self.claims.doom_all(turn.now);
    }

    /// Once nothing can come any more and nothing is left, it is over.
    fn finish(&mut self, turn: &mut Turn<'_>) {
        let listed = self.state == AllocatorState::Stopping(Closing::Listed);
        if listed && self.deletions.is_empty() && self.claims.is_closed() {
            self.state = AllocatorState::Over;
            turn.out.push(AllocatorEffect::Finish);
        }
    }

    fn arm(&mut self, turn: &mut Turn<'_>) {
        if self.state == AllocatorState::Over {
            return;
        }
        let gate = self.backoff.requests_until();
        let roll = self.roll_due();
        let dues = [
            roll,
            self.round_due(turn.now),
            self.slots.due(&self.options, &self.nodes).map(|due| due.max(self.judges_from)),
            self.deletions.due().map(|due| due.max(self.backoff.deletes_until())),
            self.observer.due(&self.options.deadlines, gate),
            self.claims.due(&self.options.deadlines, gate),
            self.told.due(self.options.shortage_ms).filter(|_| self.is_alive()),
            self.slots
                .may_create_until()
                .filter(|_| self.state == AllocatorState::Stopping(Closing::Answers)),
            self.patience_due(turn.now).map(|due| due.max(self.judges_from)),
        ];
        // What is due and cannot be done now waits for another event; a moment is waited for at least.
        let Some(wake) = dues.into_iter().flatten().map(|due| due.max(turn.now.plus_ms(1))).min()
        else {
            return;
        };
        if self.armed.is_none_or(|armed| wake < armed || armed <= turn.now) {
            self.armed = Some(wake);
            turn.out.push(AllocatorEffect::ArmTimer(wake));
        }
    }

    pub(super) fn is_allocating(&self) -> bool {
        let listed = self.observer.has_listed() && self.claims.is_ready();
        self.state == AllocatorState::Allocating && listed
    }

    pub(super) fn next_round(&self) -> Tick {
        self.next_round
    }

    pub(super) fn has_requested(&self) -> bool {
        self.requested
    }

    pub(super) fn round_made(&mut self, now: Tick) {
        self.requested = true;
        self.next_round = now.plus_ms(self.options.batch_delay_ms);
    }

    pub(super) fn rolls_at(&mut self) -> &mut Option<Tick> {
        &mut self.rolls_at
    }

    pub(super) fn claims(&mut self) -> &mut Claims {
        &mut self.claims
    }

    pub(super) fn claims_ref(&self) -> &Claims {
        &self.claims
    }

    pub(super) fn is_stopping(&self) -> bool {
        matches!(self.state, AllocatorState::Stopping(_))
    }

    pub(super) fn told(&mut self) -> &mut Told {
        &mut self.told
    }

    pub(super) fn told_ref(&self) -> &Told {
        &self.told
    }

    pub(super) fn is_alive(&self) -> bool {
        self.state == AllocatorState::Allocating
    }

    /// Something was dropped because what it speaks of is over, or newer things are known.
    pub(super) fn dropped_stale(&mut self) {
        self.stale += 1;
    }

    /// What was dropped because it was out of date.
    pub fn stale_messages(&self) -> u64 {
        self.stale
    }

    /// Whether the application is over and nothing is left of it.
    pub fn is_over(&self) -> bool {
        self.state == AllocatorState::Over
    }

    /// Executors that are registered and not about to end.
    pub fn healthy(&self) -> u32 {
        self.slots.healthy()
    }

    pub fn target(&self) -> u32 {
        self.target
    }

    /// Whether there may be pods that the API server has not been told to end, or not heard to be.
    pub fn may_leave_pods(&self) -> bool {
        let known =
            matches!(self.state, AllocatorState::Stopping(Closing::Listed) | AllocatorState::Over);
        !(known && self.deletions.all_accepted())
    }

    /// Pods that are to be deleted and may still be there.
    pub fn to_delete(&self) -> usize {
        self.deletions.len()
    }
}
