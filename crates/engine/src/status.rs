//! The application's status, kept up to date by its events. No event is lost, and no thread that posts one waits: the
//! status gathers events. When there are many, the next thread that lets go of the engine's lock applies them. A
//! reader applies those that are left.

use std::mem::{swap, take};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use firesteel_status::{AppStatus, Retention};
use firesteel_types::{Event, ExecutorId, ThreadInfo};

use crate::Engine;
use crate::observe::{Observation, Observed};

/// So many events are worth being applied.
const MANY: usize = 256;
/// The thread that posts an event when so many are gathered applies them at once, unless a reader is looking.
const TOO_MANY: usize = 64 * MANY;
/// When so many are gathered, the thread that posts waits for the reader: memory has an end.
const FULL: usize = 16 * TOO_MANY;

/// The status, and what is not in it yet.
pub(crate) struct Status {
    /// Locked before `gathered`, and until all that was taken from there is applied: no event overtakes another.
    applied: Mutex<Applied>,
    gathered: Mutex<Vec<Event>>,
    /// Many events were gathered.
    is_due: AtomicBool,
    observation: Observation,
}

struct Applied {
    status: AppStatus,
    /// Empty; what comes next is gathered in it.
    spare: Vec<Event>,
}

impl Status {
    pub(crate) fn new(retention: Retention, observation: Observation) -> Self {
        let applied = Applied { status: AppStatus::new(retention), spare: Vec::new() };
        let (gathered, is_due) = (Mutex::default(), AtomicBool::new(false));
        Status { applied: Mutex::new(applied), gathered, is_due, observation }
    }

    /// Takes an event, and has others told of it in the same order.
    #[inline]
    fn gather(&self, event: Event, tell: impl FnOnce(&Event)) {
        let mut gathered = lock(&self.gathered);
        gathered.push(event);
        let count = gathered.len();
        tell(&gathered[count - 1]);
        drop(gathered);
        if count >= MANY {
            self.note_many(count);
        }
    }

    #[cold]
    fn note_many(&self, count: usize) {
        self.is_due.store(true, Ordering::Relaxed);
        if count >= FULL {
            drop(self.read());
        } else if count >= TOO_MANY {
            self.catch_up();
        }
    }

    /// Applies events if there are many, and nobody is at it.
    #[inline]
    pub(crate) fn catch_up(&self) {
        if self.is_due.load(Ordering::Relaxed) {
            match self.applied.try_lock() {
                Ok(mut applied) => self.apply_to(&mut applied),
                Err(TryLockError::Poisoned(poisoned)) => self.apply_to(&mut poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
        }
    }

    /// The status with everything that was posted so far.
    fn read(&self) -> MutexGuard<'_, Applied> {
        let mut applied = lock(&self.applied);
        self.apply_to(&mut applied);
        applied
    }

    fn apply_to(&self, applied: &mut Applied) {
        let mut events = take(&mut applied.spare);
        self.is_due.store(false, Ordering::Relaxed);
        swap(&mut events, &mut lock(&self.gathered));
        let (begun, count) = (self.observation.begin(), events.len());
        events.drain(..).for_each(|event| applied.status.take(event));
        self.observation.end_batch(Observed::Status, begun, count);
        applied.spare = events;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Engine {
    /// Looks at the status, with everything that has happened so far. Be quick: jobs wait when a quarter of a million
    /// events happen meanwhile.
    pub fn with_status<R>(&self, look: impl FnOnce(&AppStatus) -> R) -> R {
        look(&self.status.read().status)
    }

    /// What the threads of an executor, or of the driver, do; `None`: there is no such executor, or it does not answer within a
    /// while. Waits for it.
    pub fn threads(&self, executor: ExecutorId) -> Option<Vec<ThreadInfo>> {
        self.place.threads(executor)
    }

    /// Tells the status and all listeners. When several threads post, all hear the events in one order.
    #[inline]
    pub(crate) fn post(&self, event: Event) {
        self.status.gather(event, |event| self.bus.post(event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firesteel_types::{ExecutorInfo, Host, Tick};

    fn status() -> Status {
        let retention = Retention { jobs: 1, stages: 1, tasks: 1, dead_executors: 1 };
        Status::new(retention, Observation::default())
    }

    fn added(executor: u32) -> Event {
        let info = ExecutorInfo::new(Host::new("localhost"), 1);
        Event::ExecutorAdded { executor: ExecutorId(executor), info, at: Tick(0) }
    }

    fn executors(status: &Status) -> usize {
        lock(&status.applied).status.executors().count()
    }

    #[test]
    fn who_looks_sees_everything_and_others_hear_it_in_the_same_order() {
        let (status, mut told) = (status(), Vec::new());
        for executor in 0..10 {
            status.gather(added(executor), |event| told.push(event.clone()));
        }
        assert_eq!(told, (0..10).map(added).collect::<Vec<_>>());
        assert_eq!(executors(&status), 0);
        assert_eq!(status.read().status.executors().count(), 10);
    }

    #[test]
    fn many_events_are_applied_by_who_lets_the_lock_go_and_too_many_by_who_posts() {
        let status = status();
        let mut posted = 0;
        let mut post = |count: usize| {
            for _ in 0..count {
                status.gather(added(posted), |_| {});
                posted += 1;
            }
        };
        post(MANY - 1);
        status.catch_up();
        assert_eq!(executors(&status), 0);
        post(1);
        let looking = lock(&status.applied);
        status.catch_up();
        assert_eq!(looking.status.executors().count(), 0, "nobody waits");
        drop(looking);
        status.catch_up();
        assert_eq!(executors(&status), MANY);
        post(TOO_MANY);
        assert_eq!(executors(&status), MANY + TOO_MANY);
    }

    #[test]
    fn a_reader_that_takes_its_time_lets_others_post() {
        let status = status();
        let looking = lock(&status.applied);
        (0..TOO_MANY as u32 + 10).for_each(|executor| status.gather(added(executor), |_| {}));
        assert_eq!(looking.status.executors().count(), 0);
        drop(looking);
        assert_eq!(status.read().status.executors().count(), TOO_MANY + 10);
    }
}
