//! The application's status, kept up to date by its events. Nothing is lost and nobody waits: events are gathered, and
//! applied when enough have come or when somebody looks.

use std::sync::{Arc, Mutex, MutexGuard};

use firesteel_status::{AppStatus, Retention};
use firesteel_types::Event;

use crate::Engine;

/// So many events are gathered.
const GATHERED: usize = 256;

pub(crate) struct Status {
    gathered: Mutex<Vec<Arc<Event>>>,
    status: Mutex<AppStatus>,
}

impl Status {
    pub(crate) fn new(retention: Retention) -> Self {
        let gathered = Mutex::new(Vec::with_capacity(GATHERED));
        Status { gathered, status: Mutex::new(AppStatus::new(retention)) }
    }

    /// Takes an event, and has others told of it in the same order.
    fn gather(&self, event: Arc<Event>, tell: impl FnOnce(&Arc<Event>)) {
        let mut gathered = lock(&self.gathered);
        tell(&event);
        gathered.push(event);
        if gathered.len() >= GATHERED {
            apply(&mut gathered, &mut lock(&self.status));
        }
    }

    fn read(&self) -> MutexGuard<'_, AppStatus> {
        // In this order, as above: no event overtakes another.
        let mut gathered = lock(&self.gathered);
        let mut status = lock(&self.status);
        apply(&mut gathered, &mut status);
        status
    }
}

fn apply(gathered: &mut Vec<Arc<Event>>, status: &mut AppStatus) {
    gathered.drain(..).for_each(|event| status.apply(&event));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Engine {
    /// Looks at the status, with everything that has happened so far. Jobs do not go on meanwhile: be quick.
    pub fn with_status<R>(&self, look: impl FnOnce(&AppStatus) -> R) -> R {
        look(&self.status.read())
    }

    /// Tells the status and all listeners, whoever else has something to tell: all hear it in one order.
    pub(crate) fn post(&self, event: Event) {
        self.status.gather(Arc::new(event), |event| self.bus.post(event));
    }
}
