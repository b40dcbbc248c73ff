//! Pods that are to go, until they are gone.

use firesteel_types::Tick;

use super::core::{Allocator, AllocatorEffect, Turn};
use super::slots::Slot;
use crate::PodUid;
use crate::api::ApiError;
use crate::mutant::Mutant;
use crate::pod::Pod;

impl Allocator {
    pub(super) fn bury(&mut self, now: Tick, pod: &Pod) {
        self.deletions.add(now, pod.name.clone(), pod.uid.clone(), pod.version, false);
        self.deletions.mounts(&pod.uid, pod.claims.iter());
    }

    /// The pod of an executor that is over. One that was asked for and not answered has no UID yet: it is deleted when it
    /// is seen.
    pub(super) fn bury_slot(&mut self, now: Tick, slot: Slot) {
        if let Some(uid) = slot.uid().cloned() {
            self.deletions.add(now, slot.name().clone(), uid.clone(), slot.version(), false);
            self.deletions.mounts(&uid, slot.claims());
        }
    }

    pub(super) fn delete_due(&mut self, turn: &mut Turn<'_>) {
        if self.backoff.deletes_until() > turn.now {
            return;
        }
        let lost = self.options.deadlines.request_ms.saturating_mul(2);
        let once = self.options.planted.is(Mutant::DeletesOnce);
        for (name, uid, force) in self.deletions.take_due(turn.now, lost, once) {
            let grace_ms = if force { 0 } else { self.options.grace_ms };
            turn.out.push(AllocatorEffect::DeletePod { name, uid, grace_ms });
        }
    }

    pub(super) fn delete_answered(
        &mut self,
        turn: &mut Turn<'_>,
        uid: &PodUid,
        answer: Result<(), ApiError>,
    ) {
        let deadlines = &self.options.deadlines;
        match answer {
            Ok(()) => {
                self.backoff.delete_succeeded(turn.now);
                let waits = match self.options.planted.is(Mutant::NeverForces) {
                    true => u64::MAX,
                    false => self.options.grace_ms.saturating_add(deadlines.terminated_ms),
                };
                self.deletions.accepted(uid, turn.now.plus_ms(waits));
            }
            Err(ApiError::NotFound | ApiError::Conflict) => {
                self.backoff.delete_succeeded(turn.now);
                if self.deletions.close(uid) {
                    self.backoff.freed(turn.now);
                }
            }
            Err(error) if is_refusal(&error) => {
                // Nothing is said against creating pods. What no waiting helps with is tried again, too: rights may be given back.
                self.backoff.request_succeeded(turn.now);
                if matches!(error, ApiError::Forbidden(_)) {
                    self.backoff.deletes_forbidden(turn.now, &error.to_string());
                }
                let times = self.deletions.refused(uid);
                let wait = self.backoff.wait(times);
                self.deletions.ask_again(uid, turn.now.plus_ms(wait));
            }
            Err(error) => {
                self.request_refused(turn, &error);
                self.deletions.ask_again(uid, turn.now.plus_ms(self.options.waits.first_ms));
            }
        }
    }
}

/// Whether the API server understood the request and said no.
fn is_refusal(error: &ApiError) -> bool {
    matches!(
        error,
        ApiError::Forbidden(_)
            | ApiError::Denied(_)
            | ApiError::Invalid(_)
            | ApiError::NoNamespace(_)
            | ApiError::Quota(_)
    )
}
