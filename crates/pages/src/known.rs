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

/// What was found out of one application, and when.
struct Found {
    fingerprint: u64,
    until: Tick,
    insights: Arc<[Insight]>,
}

/// An application and its attempt.
type Whose = (String, Option<String>);
/// Of one application: it is looked at once, however many ask.
type Place = Arc<Mutex<Option<Found>>>;

#[derive(Default)]
pub(crate) struct Known {
    /// Held for as long as it takes to find a place: those of one application wait for nobody who looks at another one.
    places: Mutex<Vec<(Whose, Place)>>,
    album: Album,
}

impl Known {
    /// Pictures that were drawn before.
    pub(crate) fn album(&self) -> &Album {
        &self.album
    }

    /// The insights of an application, of what still runs until about `until`.
    pub(crate) fn insights(&self, status: &AppStatus, until: Tick) -> Arc<[Insight]> {
        self.found(status, until, || status.insights(until))
    }

    fn found(
        &self,
        status: &AppStatus,
        until: Tick,
        look: impl FnOnce() -> Vec<Insight>,
    ) -> Arc<[Insight]> {
        let (application, fingerprint) = (status.application(), fingerprint(status));
        let is_right = |found: &&Found| match application.ended {
            Some(_) => found.fingerprint == fingerprint,
            None => until >= found.until && until.since_ms(found.until) < LASTS_MS,
        };
        let place = self.place((application.id.clone(), application.attempt_id.clone()));
        let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = place.as_ref().filter(is_right) {
            return found.insights.clone();
        }
        let insights: Arc<[Insight]> = look().into();
        *place = Some(Found { fingerprint, until, insights: insights.clone() });
        insights
    }

    /// Of an application; in place of the one that was asked for first, where there are too many.
    fn place(&self, whose: Whose) -> Place {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, place)) = places.iter().find(|(known, _)| *known == whose) {
            return place.clone();
        }
        if places.len() >= APPLICATIONS {
            places.remove(0);
        }
        let place = Place::default();
        places.push((whose, place.clone()));
        place
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

    fn named(id: &str) -> AppStatus {
        let mut status =
            AppStatus::new(Retention { jobs: 9, stages: 9, tasks: 9, dead_executors: 9 });
        status.take(Event::ApplicationStart {
            name: id.to_owned(),
            app_id: id.to_owned(),
            attempt_id: None,
            user: String::new(),
            driver_log_urls: Default::default(),
            driver_attributes: Default::default(),
            at: Tick(1),
        });
        status
    }

    #[test]
    fn a_long_look_at_one_application_keeps_nobody_from_another() {
        let known = Arc::new(Known::default());
        known.found(&named("large"), Tick(1000), || {
            let (told, hears) = std::sync::mpsc::channel();
            let known = known.clone();
            std::thread::spawn(move || {
                known.insights(&named("small"), Tick(1000));
                told.send(())
            });
            let waited = hears.recv_timeout(std::time::Duration::from_secs(20));
            assert!(waited.is_ok(), "it waits for the large one");
            Vec::new()
        });
        (0..100).for_each(|n| drop(known.insights(&named(&n.to_string()), Tick(1000))));
        assert_eq!(known.places.lock().unwrap().len(), APPLICATIONS);
    }
}
