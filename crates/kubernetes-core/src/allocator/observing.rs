//! When to list and to watch, and what becomes of answers.

use super::core::{Allocator, AllocatorEffect, AllocatorState, Change, Closing, PodList, Turn};
use super::observer::{Ask, Judged};
use crate::api::ApiError;
use crate::mutant::Mutant;

impl Allocator {
    pub(super) fn observe(&mut self, turn: &mut Turn<'_>) {
        self.close(turn);
        if self.backoff.requests_until() > turn.now {
            return;
        }
        while let Some(ask) = self.observer.ask(turn.now, &self.options.deadlines) {
            turn.out.push(match ask {
                Ask::List(number) => AllocatorEffect::ListPods { number },
                Ask::Watch(number, from) => AllocatorEffect::WatchPods { number, from },
            });
        }
    }

    /// An application that ends: once no request can create a pod any more, a list shows what is left.
    fn close(&mut self, turn: &mut Turn<'_>) {
        let waits = !self.options.planted.is(Mutant::EndsBeforeAnswers);
        if self.state == AllocatorState::Stopping(Closing::Answers)
            && !(waits && self.slots.may_create(turn.now))
        {
            let number = self.observer.list_anew(turn.now);
            self.state = AllocatorState::Stopping(Closing::List(number));
            self.claims().list_last(turn.now);
        }
    }

    pub(super) fn listed(
        &mut self,
        turn: &mut Turn<'_>,
        number: u64,
        answer: Result<PodList, ApiError>,
    ) {
        if !self.observer.list_answered(number) {
            return self.dropped_stale();
        }
        match answer {
            Ok(list) => self.list_came(turn, number, list),
            Err(error) => self.list_failed(turn, &error),
        }
    }

    fn list_came(&mut self, turn: &mut Turn<'_>, number: u64, list: PodList) {
        self.backoff.request_succeeded(turn.now);
        let patience = self.options.deadlines.regression_ms;
        match self.observer.judge_list(list.version, turn.now, patience) {
            Judged::Old => {
                self.dropped_stale();
                return self.observer.want_list(turn.now.plus_ms(self.options.waits.first_ms));
            }
            Judged::Restored => {
                self.slots.forget_versions();
                self.deletions.forget_versions();
            }
            Judged::New => {}
        }
        self.observer.listed(list.version, turn.now.plus_ms(self.options.polling_ms));
        self.see_all(turn, list);
        self.slots.listed(number);
        if let AllocatorState::Stopping(Closing::List(first)) = self.state
            && number >= first
        {
            self.state = AllocatorState::Stopping(Closing::Listed);
        }
    }

    fn list_failed(&mut self, turn: &mut Turn<'_>, error: &ApiError) {
        self.request_refused(turn, error);
        self.observer.want_list(turn.now.plus_ms(self.options.waits.first_ms));
        let hopeless = matches!(
            error,
            ApiError::Forbidden(_) | ApiError::NoNamespace(_) | ApiError::Invalid(_)
        );
        if hopeless && self.never_worked() {
            self.fail(turn, format!("executor pods cannot be listed: {error}"));
        }
        // One that never asked for a pod has nothing to look for.
        if hopeless
            && !self.has_requested()
            && matches!(self.state, AllocatorState::Stopping(Closing::List(_)))
        {
            self.state = AllocatorState::Stopping(Closing::Listed);
        }
    }

    pub(super) fn watched(&mut self, turn: &mut Turn<'_>, number: u64, change: Change) {
        let version = match &change {
            Change::Applied(pod) | Change::Deleted(pod) => pod.version,
            Change::Bookmark(version) => *version,
        };
        if !self.observer.hears(number, version, turn.now) {
            return self.dropped_stale();
        }
        match change {
            Change::Applied(pod) => self.see(turn, pod),
            Change::Deleted(pod) => self.gone(turn, &pod),
            Change::Bookmark(_) => {}
        }
    }

    /// A watch that the server closed goes on where it was; one that failed waits as any request does.
    pub(super) fn watch_ended(
        &mut self,
        turn: &mut Turn<'_>,
        number: u64,
        error: Option<ApiError>,
    ) {
        let expired = error == Some(ApiError::Expired);
        let wait = self.options.waits.first_ms;
        if !self.observer.watch_ended(number, expired, turn.now, wait) {
            return self.dropped_stale();
        }
        if let Some(error) = error.filter(|_| !expired) {
            self.request_refused(turn, &error);
        }
    }
}
