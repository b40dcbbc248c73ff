//! How long the schedulers, the status and listeners take. The clock is looked at only if somebody asked to be told, and not for every
//! message: a job of many small tasks sends them faster than a clock is worth.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// What took some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed {
    /// The schedulers, for one message.
    Message,
    /// The status, for one event.
    Status,
    /// A listener, for one event, by the name of its queue.
    Listener(&'static str),
}

/// Told what took how long, and how often it happened since it was told last. Called under the engine's lock: be quick.
pub type Observer = Box<dyn Fn(Observed, Duration, u64) + Send + Sync + UnwindSafe + RefUnwindSafe>;

/// So many messages are all measured; of later ones, each of `EVERY`.
const FIRST: u64 = 1024;
const EVERY: u64 = 16;

/// Shared by all that is observed.
#[derive(Clone, Default)]
pub(crate) struct Observation(Arc<Inner>);

#[derive(Default)]
struct Inner {
    observer: OnceLock<Observer>,
    messages: AtomicU64,
}

/// A measurement that is under way.
pub(crate) struct Begun {
    at: Instant,
    times: u64,
}

impl Observation {
    /// The first observer is told, and no other one.
    pub(crate) fn set(&self, observer: Observer) {
        let _ = self.0.observer.set(observer);
    }

    /// Begins to measure something; `None`: nobody is told.
    pub(crate) fn begin(&self) -> Option<Begun> {
        self.begin_for(1)
    }

    fn begin_for(&self, times: u64) -> Option<Begun> {
        self.0.observer.get().map(|_| Begun { at: Instant::now(), times })
    }

    /// The same for a message.
    #[inline]
    pub(crate) fn begin_message(&self) -> Option<Begun> {
        self.0.observer.get()?;
        match self.0.messages.fetch_add(1, Ordering::Relaxed) {
            number if number < FIRST => self.begin_for(1),
            number if number.is_multiple_of(EVERY) => self.begin_for(EVERY),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn end(&self, what: Observed, begun: Option<Begun>) {
        if let (Some(begun), Some(observer)) = (begun, self.0.observer.get()) {
            observer(what, begun.at.elapsed(), begun.times);
        }
    }

    /// Ends a measurement of many of the same, which took as long as each other.
    pub(crate) fn end_batch(&self, what: Observed, begun: Option<Begun>, count: usize) {
        let each = u32::try_from(count).ok().filter(|count| *count > 0);
        if let (Some(begun), Some(each), Some(observer)) = (begun, each, self.0.observer.get()) {
            observer(what, begun.at.elapsed() / each, each.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn every_message_is_counted_and_few_of_many_are_measured() {
        let observation = Observation::default();
        observation.end(Observed::Message, observation.begin_message());
        let told = Arc::new(Mutex::new((0, 0)));
        let own = told.clone();
        observation.set(Box::new(move |what, _, times| {
            assert_eq!(what, Observed::Message);
            let mut told = own.lock().unwrap();
            *told = (told.0 + 1, told.1 + times);
        }));
        for _ in 0..FIRST + 10 * EVERY {
            observation.end(Observed::Message, observation.begin_message());
        }
        assert_eq!(*told.lock().unwrap(), (FIRST + 10, FIRST + 10 * EVERY));
    }

    #[test]
    fn a_batch_is_told_as_its_average_and_an_empty_one_is_not() {
        let observation = Observation::default();
        let told = Arc::new(Mutex::new(Vec::new()));
        let own = told.clone();
        observation.set(Box::new(move |what, _, times| own.lock().unwrap().push((what, times))));
        for count in [0, 7] {
            observation.end_batch(Observed::Status, observation.begin(), count);
        }
        assert_eq!(*told.lock().unwrap(), [(Observed::Status, 7)]);
    }
}
