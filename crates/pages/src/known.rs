//! Insights that were found out before: they need a look at every task, which takes long where there are millions. They are looked
//! for again when something has changed, and then not more often than every few seconds.

use std::sync::{Arc, Mutex, PoisonError};

use firesteel_status::{AppStatus, Insight};
use firesteel_types::Tick;

use crate::album::Album;
use crate::live::fingerprint;

/// For so long what was found out is right enough.
const LASTS_MS: u64 = 10_000;
/// Of so many applications it is held.
const APPLICATIONS: usize = 16;

struct Found {
    application: String,
    attempt: Option<String>,
    fingerprint: u64,
    until: Tick,
    insights: Arc<[Insight]>,
}

#[derive(Default)]
pub(crate) struct Known {
    insights: Mutex<Vec<Found>>,
    album: Album,
}

impl Known {
    /// Pictures that were drawn before.
    pub(crate) fn album(&self) -> &Album {
        &self.album
    }

    /// The insights of an application, of what still runs until about `until`.
    pub(crate) fn insights(&self, status: &AppStatus, until: Tick) -> Arc<[Insight]> {
        let (application, now) = (status.application(), fingerprint(status));
        let is_it = |found: &Found| {
            found.application == application.id && found.attempt == application.attempt_id
        };
        let is_right = |found: &Found| match application.ended {
            Some(_) => found.fingerprint == now,
            None => until >= found.until && until.since_ms(found.until) < LASTS_MS,
        };
        let mut all = self.insights.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = all.iter().find(|found| is_it(found) && is_right(found)) {
            return found.insights.clone();
        }
        let insights: Arc<[Insight]> = status.insights(until).into();
        all.retain(|found| !is_it(found));
        if all.len() >= APPLICATIONS {
            all.remove(0);
        }
        all.push(Found {
            application: application.id.clone(),
            attempt: application.attempt_id.clone(),
            fingerprint: now,
            until,
            insights: insights.clone(),
        });
        insights
    }
}

#[cfg(test)]
mod tests {
    use firesteel_status::Retention;
    use firesteel_types::Event;

    use super::*;

    #[test]
    fn what_was_found_out_is_looked_for_again_after_a_while_and_at_the_end() {
        let known = Known::default();
        let retention = Retention { jobs: 9, stages: 9, tasks: 9, dead_executors: 9 };
        let mut status = AppStatus::new(retention);
        let at = |status: &AppStatus, until: u64| known.insights(status, Tick(until));
        let first = at(&status, 1000);
        assert!(Arc::ptr_eq(&first, &at(&status, 10_999)));
        let second = at(&status, 11_000);
        assert!(!Arc::ptr_eq(&first, &second));
        status.take(Event::ApplicationEnd { exit_code: None, at: Tick(11_500) });
        let third = at(&status, 11_500);
        assert!(!Arc::ptr_eq(&second, &third) && Arc::ptr_eq(&third, &at(&status, 11_500)));
    }
}
