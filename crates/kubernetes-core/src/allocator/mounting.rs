//! Which claims pods mount, and what becomes of claims. A claim is mounted by one pod at a time: it is free when the pod that had
//! it is gone, and not when its executor is over.

use std::collections::BTreeSet;

use firesteel_types::{ExecutorId, Tick};

use super::core::{Allocator, AllocatorEffect, Turn};
use super::slots::Stage;
use crate::api::ApiError;
use crate::cause::Cause;
use crate::claim::{ClaimList, ClaimName};
use crate::mutant::Mutant;
use crate::names::pod_name;
use crate::pod::Obstacle;

impl Allocator {
    /// Claims of pods that are there or may come.
    fn mounted(&self) -> BTreeSet<ClaimName> {
        if self.options.planted.is(Mutant::SharesClaims) {
            let counted = self.slots.iter().filter(|(_, slot)| !slot.is_leaving());
            return counted.flat_map(|(_, slot)| slot.claims().cloned()).collect();
        }
        self.slots.claims().chain(self.deletions.claims()).cloned().collect()
    }

    /// Whether the volumes of one more pod can be had now.
    pub(super) fn can_mount(&self) -> bool {
        let claims = self.claims_ref();
        claims.is_unused() || claims.can_mount(&self.mounted(), self.target())
    }

    /// One more executor, with the claims of its pod: none while those are waited for.
    pub(super) fn add_executor(&mut self, now: Tick) -> Option<ExecutorId> {
        if !self.can_mount() {
            return None;
        }
        let executor = self.numbers.take();
        let name = pod_name(&self.options.prefix, executor);
        let mounted = match self.claims_ref().is_unused() {
            true => BTreeSet::new(),
            false => self.mounted(),
        };
        let mounts = self.claims().mount(&name, &mounted);
        self.slots.add(executor, name, mounts, now);
        Some(executor)
    }

    pub(super) fn claims_listed(
        &mut self,
        turn: &mut Turn<'_>,
        number: u64,
        answer: Result<ClaimList, ApiError>,
    ) {
        if !self.claims().list_answered(number) {
            return self.dropped_stale();
        }
        match answer {
            Ok(list) => self.claims_came(turn, number, list),
            Err(error) => self.claims_not_listed(turn, &error),
        }
    }

    fn claims_came(&mut self, turn: &mut Turn<'_>, number: u64, list: ClaimList) {
        self.backoff.request_succeeded(turn.now);
        let patience = self.options.deadlines.regression_ms;
        let again = turn.now.plus_ms(self.options.waits.first_ms);
        if !self.claims().believes(list.version, turn.now, patience) {
            self.claims().list_again(again);
            return self.dropped_stale();
        }
        let (mounted, next) = (self.mounted(), turn.now.plus_ms(self.options.polling_ms));
        self.claims().listed(turn.now, number, list, &mounted, next);
        if self.is_stopping() {
            self.claims().doom_all(turn.now);
        }
    }

    fn claims_not_listed(&mut self, turn: &mut Turn<'_>, error: &ApiError) {
        let hopeless = matches!(
            error,
            ApiError::Forbidden(_) | ApiError::NoNamespace(_) | ApiError::Invalid(_)
        );
        if !hopeless {
            let again = turn.now.plus_ms(self.options.waits.first_ms);
            self.claims().list_again(again);
            return self.request_refused(turn, error);
        }
        let later = turn.now.plus_ms(self.options.polling_ms);
        self.claims().list_again(later);
        self.claims().close();
        if self.slots.healthy() == 0 {
            self.fail(turn, format!("claims of volumes cannot be listed: {error}"));
        }
    }

    /// Lists claims and deletes those that are to go.
    pub(super) fn look_after_claims(&mut self, turn: &mut Turn<'_>) {
        if self.claims_ref().is_unused() || self.backoff.requests_until() > turn.now {
            return;
        }
        if self.slots.wants_list(turn.now, self.observer.newest()) {
            self.observer.want_list(turn.now);
        }
        let deadlines = self.options.deadlines;
        let lost = deadlines.request_ms.saturating_mul(2);
        for name in self.claims().take_due(turn.now, lost) {
            turn.out.push(AllocatorEffect::DeleteClaim { name });
        }
        while let Some(number) = self.claims().list(turn.now, &deadlines) {
            turn.out.push(AllocatorEffect::ListClaims { number });
        }
    }

    pub(super) fn claim_deleted(
        &mut self,
        turn: &mut Turn<'_>,
        name: &ClaimName,
        answer: Result<(), ApiError>,
    ) {
        let again = turn.now.plus_ms(self.options.waits.first_ms);
        match answer {
            Err(ApiError::NotFound) if self.claims().was_seen(name) => {
                self.backoff.request_succeeded(turn.now);
                self.claims().not_deleted(name, again);
            }
            Ok(()) | Err(ApiError::NotFound) => {
                self.backoff.request_succeeded(turn.now);
                self.claims().deleted(name);
            }
            // It goes with the driver's pod, which owns it.
            Err(ApiError::Forbidden(_) | ApiError::NoNamespace(_) | ApiError::Denied(_)) => {
                self.claims().deleted(name);
            }
            Err(error) => {
                self.request_refused(turn, &error);
                self.claims().not_deleted(name, again);
            }
        }
    }

    /// A volume that another pod had does not come to this one: it may be attached to a node that is gone, or belong to one. The next pod
    /// gets another claim.
    pub(super) fn never_attached(&mut self, turn: &mut Turn<'_>, executor: ExecutorId) {
        let Some(slot) = self.slots.get(executor) else { return };
        let words = match slot.stage() {
            Stage::Pending(words) => words.clone(),
            Stage::Scheduled(Some((_, Obstacle::Other(words)))) => Some(words.clone()),
            _ => None,
        };
        let claims: Vec<ClaimName> = slot.reused_claims().cloned().collect();
        for name in &claims {
            self.claims().doom(turn.now, name);
        }
        self.end(turn, executor, Cause::NeverAttached(words));
    }
}
