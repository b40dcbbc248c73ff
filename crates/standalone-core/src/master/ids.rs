//! Ids that a master gives out. Invariant S05: none is given out twice, not by the master after this one either.

use firesteel_backend::AppId;
use firesteel_types::Tick;

use crate::{DriverId, Epoch, Registration, date};

/// Larger epochs leave no room for the number of a registration. No clock shows them.
const LARGEST_EPOCH: u64 = 1 << 43;

/// What was given out so far.
#[derive(Debug)]
pub(super) struct Ids {
    epoch: Epoch,
    began_ms: u64,
    first: u64,
    apps: u64,
    drivers: u64,
    registrations: u64,
}

impl Ids {
    /// Of a master that began to act at `epoch`, and whose ids begin at this number.
    pub(super) fn new(epoch: Epoch, first: u16) -> Self {
        let (began_ms, first) = (epoch.0, first.into());
        Ids { epoch, began_ms, first, apps: 0, drivers: 0, registrations: 0 }
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// A master had this epoch and is no more: this one's is larger.
    pub(super) fn outdo(&mut self, other: Epoch) {
        self.epoch = Epoch(other.0.min(LARGEST_EPOCH) + 1).max(self.epoch);
    }

    /// A number no registration has had, with this master or one before it.
    pub(super) fn next_registration(&mut self) -> Registration {
        self.registrations += 1;
        Registration((self.epoch.0 << 20) + self.registrations)
    }

    pub(super) fn next_app(&mut self, now: Tick) -> AppId {
        let id = self.dated(now, "app", self.apps);
        self.apps += 1;
        AppId(id.into())
    }

    pub(super) fn next_driver(&mut self, now: Tick) -> DriverId {
        let id = self.dated(now, "driver", self.drivers);
        self.drivers += 1;
        DriverId(id.into())
    }

    /// An id as Spark makes it, of the second and a number. A master that starts in the very second in
    /// which the one before it worked must not begin at that one's numbers.
    fn dated(&self, now: Tick, kind: &str, number: u64) -> String {
        let first_second = now.0 / 1000 == self.began_ms / 1000;
        let skipped = if first_second { self.began_ms % 1000 } else { 0 };
        format!("{kind}-{}-{:04}", date::compact(now), self.first + skipped + number)
    }
}
