//! When to ask for which pods, and what an answer means.

use firesteel_backend::provider::ProviderEvent;
use firesteel_types::{ExecutorId, Tick};

use super::core::{Allocator, AllocatorEffect, CreateAnswer, PodRequest, Turn};
use super::slots::Stage;
use crate::api::ApiError;
use crate::cause::Cause;
use crate::mutant::Mutant;
use crate::pod::Pod;

impl Allocator {
    /// One round: as many pods as a batch has, as long as executors are missing. While the API server refuses pods, one
    /// request finds out whether it still does.
    pub(super) fn allocate(&mut self, turn: &mut Turn<'_>) {
        if !self.is_allocating() {
            return;
        }
        self.withdraw_unwanted(turn);
        let probes = self.backoff.is_probing();
        if self.round_at() > turn.now || probes && self.slots.any_in_flight() {
            return;
        }
        let batch = match self.options.planted.is(Mutant::IgnoresBatches) {
            true => u32::MAX,
            false => self.options.batch_size,
        };
        let mut budget = if probes { 1 } else { batch };
        let again: Vec<_> = self.slots.iter().filter(|(_, slot)| slot.awaits_request()).collect();
        let again: Vec<_> = again.into_iter().map(|(id, _)| id).take(budget as usize).collect();
        budget -= again.len() as u32;
        let fresh =
            (0..self.missing_count().min(budget)).map_while(|_| self.add_executor(turn.now));
        let fresh: Vec<_> = fresh.collect();
        for executor in again.into_iter().chain(fresh) {
            self.request(turn, executor);
        }
    }

    fn request(&mut self, turn: &mut Turn<'_>, executor: ExecutorId) {
        self.round_made(turn.now);
        let own = self.nodes.excluded_by_failures(turn.now);
        let avoid = self.nodes.excluded(turn.now);
        let last_choice = self.nodes.suspects(turn.now);
        let Some(slot) = self.slots.get_mut(executor) else { return };
        let (name, attempt) = (slot.name().clone(), slot.request(turn.now, own));
        let (generation, mounts) = (self.options.generation, slot.mounts().to_vec());
        let request =
            PodRequest { executor, name, generation, attempt, avoid, last_choice, mounts };
        turn.out.push(AllocatorEffect::CreatePod(request));
    }

    /// How many more executors may be asked for.
    fn missing_count(&self) -> u32 {
        let planted = self.options.planted;
        let counted = match planted.is(Mutant::CountsSeenPodsOnly) {
            true => self.slots.counted_if_seen(),
            false => self.slots.counted(),
        };
        let room = match planted.is(Mutant::IgnoresPendingLimit) {
            true => u32::MAX,
            false => self.options.max_pending.saturating_sub(self.slots.pending()),
        };
        self.target().saturating_sub(counted).min(room)
    }

    /// The first moment of the next round.
    fn round_at(&self) -> Tick {
        match self.options.planted.is(Mutant::IgnoresBatches) {
            true => self.backoff.creates_until(),
            false => self.next_round().max(self.backoff.creates_until()),
        }
    }

    /// When the next round is due, if there is something to ask for and no answer is waited for before.
    pub(super) fn round_due(&self, now: Tick) -> Option<Tick> {
        let fresh = self.missing_count() > 0 && self.can_mount();
        let wants = fresh || self.slots.any_awaits_request();
        let at = self.round_at();
        let blocked = self.backoff.is_probing() && self.slots.any_in_flight();
        (self.is_allocating() && wants && !(blocked && at <= now)).then_some(at)
    }

    /// Fewer are wanted: those go that do not run yet, the latest first. One that runs may have work already.
    fn withdraw_unwanted(&mut self, turn: &mut Turn<'_>) {
        let excess = self.slots.counted().saturating_sub(self.target()) as usize;
        if excess == 0 {
            return;
        }
        let careless = self.options.planted.is(Mutant::EndsWorkingExecutors);
        let idle = self.slots.iter().rev().filter(|(_, slot)| careless || slot.is_pending());
        let unwanted: Vec<_> = idle.map(|(id, _)| id).take(excess).collect();
        for executor in unwanted {
            self.end(turn, executor, Cause::Unwanted);
        }
    }

    pub(super) fn create_answered(
        &mut self,
        turn: &mut Turn<'_>,
        executor: ExecutorId,
        attempt: u32,
        answer: Result<Box<CreateAnswer>, ApiError>,
    ) {
        if !matches!(&answer, Err(error) if error.is_unanswered()) {
            self.slots.answered(executor, attempt);
        }
        match answer {
            Ok(answer) => {
                self.backoff.create_succeeded(turn.now);
                self.created(turn, executor, *answer);
            }
            Err(error) => self.not_created(turn, executor, attempt, error),
        }
    }

    /// The pod is there: a late answer says so as well as one in time.
    fn created(&mut self, turn: &mut Turn<'_>, executor: ExecutorId, answer: CreateAnswer) {
        let CreateAnswer { pod, existed } = answer;
        self.observer.knows(pod.version);
        let takes = self.options.planted.is(Mutant::TakesPodsOfOthers);
        let anothers = pod.app.as_ref() != Some(&self.options.app) || self.is_anothers(&pod);
        if existed && anothers && !takes {
            return self.name_is_taken(executor);
        }
        let labelled =
            pod.executor == Some(executor) && pod.generation == Some(self.options.generation);
        if pod.generation.is_none() || !existed && !labelled {
            self.bury(turn.now, &pod);
            return self.fail(turn, relabelled(&pod));
        }
        let Some(slot) = self.slots.get_mut(executor) else { return self.see(turn, pod) };
        if !labelled {
            // A process before this one asked for it: the number is taken.
            self.slots.remove(executor, &self.options.deadlines);
            return self.see(turn, pod);
        }
        if matches!(slot.stage(), Stage::Requested { .. }) {
            slot.exists(pod.uid.clone(), pod.version);
            slot.enter(Stage::Created, None, turn.now);
            let claims: Vec<_> = slot.claims().cloned().collect();
            self.claims().exist(claims.iter());
        }
        if existed {
            self.see(turn, pod);
        }
    }

    /// Another application's pod has its name, or somebody's who gave it no label: it stays, and the number is left out.
    fn name_is_taken(&mut self, executor: ExecutorId) {
        self.slots.remove(executor, &self.options.deadlines);
        self.numbers.heard_of(executor);
    }

    fn not_created(
        &mut self,
        turn: &mut Turn<'_>,
        executor: ExecutorId,
        attempt: u32,
        error: ApiError,
    ) {
        let unanswered = error.is_unanswered();
        let slot = self.slots.get_mut(executor);
        let current = slot.is_some_and(|slot| slot.refused(attempt, unanswered));
        if !current {
            self.dropped_stale();
        }
        let planted = self.options.planted;
        if current && error.is_unanswered() && planted.is(Mutant::TakesNewNumbers) {
            self.slots.remove(executor, &self.options.deadlines);
        }
        if matches!(error, ApiError::Quota(_)) && planted.is(Mutant::CountsQuota) {
            self.count_failure(turn, executor, "a quota is used up");
        }
        self.request_refused(turn, &error);
        let waits = planted.is(Mutant::AwaitsRights);
        match error {
            ApiError::NoNamespace(_) | ApiError::Invalid(_) | ApiError::Forbidden(_)
                if self.never_worked() && !waits =>
            {
                self.fail(turn, format!("executor pods cannot be created: {error}"));
            }
            _ => {}
        }
    }

    /// Whether nothing shows yet that what it asks for can be had: later, a refusal may pass as it came.
    pub(super) fn never_worked(&self) -> bool {
        self.slots.healthy() == 0 && !self.failures.any_registered()
    }

    /// Whatever was asked: what is not to be tried again before when.
    pub(super) fn request_refused(&mut self, turn: &mut Turn<'_>, error: &ApiError) {
        self.backoff.refused(turn.now, error);
        if matches!(error, ApiError::Unauthorized(_)) {
            turn.out.push(AllocatorEffect::RefreshCredentials);
        }
    }

    /// It registered with the driver.
    pub(super) fn registered(&mut self, turn: &mut Turn<'_>, executor: ExecutorId) {
        let Some(slot) = self.slots.get_mut(executor) else {
            // Of a process before this one, or over: the registry shall not count on it.
            let cause = Cause::PreviousGeneration;
            let (end, reason) = (cause.end(), cause.to_string());
            return turn.report(ProviderEvent::Ended { executor, end, reason });
        };
        slot.register(turn.now);
        self.failures.registered();
        if let Some(node) = slot.node() {
            self.nodes.succeeded(node);
        }
    }

    /// Its connection is gone for good: another one is asked for now, and not when its kubelet has told how it ended.
    pub(super) fn disconnected(&mut self, executor: ExecutorId) {
        match self.slots.get_mut(executor) {
            Some(slot) => slot.cut_off(),
            None => self.dropped_stale(),
        }
    }

    /// Nothing is heard of it. Scheduler and node controller may take its node for well for a minute yet.
    pub(super) fn silent(&mut self, turn: &mut Turn<'_>, executor: ExecutorId) {
        let node = self.slots.get(executor).and_then(|slot| slot.node().cloned());
        let Some(node) = node else { return self.dropped_stale() };
        if !self.options.planted.is(Mutant::TrustsSilentNodes) {
            self.nodes.suspect(node, turn.now);
        }
    }

    /// The driver's registry wants it to end.
    pub(super) fn release(&mut self, turn: &mut Turn<'_>, executor: ExecutorId) {
        let forgets = self.options.planted.is(Mutant::ForgetsReasons);
        let Some(slot) = self.slots.get_mut(executor) else { return self.dropped_stale() };
        if slot.may_be_explained() && !forgets {
            // Its kubelet, or the API server, is late: it does not count, and its pod is to tell whose fault that is.
            return slot.awaits_explanation(turn.now);
        }
        let never = slot.registered().is_none() && *slot.stage() == Stage::Running;
        let cause = if never { Cause::NeverRegistered } else { Cause::Released };
        self.end(turn, executor, cause);
    }
}

fn relabelled(pod: &Pod) -> String {
    format!(
        "the pod {} was created without the labels that tell whose it is: an admission webhook of the cluster \
         changes labels of pods",
        pod.name
    )
}
