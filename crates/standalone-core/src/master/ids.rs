//! Ids that a master gives out. Invariant S05: none is given out twice, not by the master after this one either.

use firesteel_backend::AppId;
use firesteel_types::Tick;

use crate::{DriverId, Registration, Term, date};

/// Larger terms leave no room for the number of a registration. No clock shows them.
pub(super) const LARGEST_TERM: Term = Term(1 << 43);

/// What was given out so far.
#[derive(Debug)]
pub(super) struct Ids {
    term: Term,
    began_ms: u64,
    first: u64,
    apps: u64,
    drivers: u64,
    registrations: u64,
}

impl Ids {
    /// Of a master that has not led yet, and whose ids begin at this number.
    pub(super) fn new(first: u16) -> Self {
        let (term, first) = (Term(0), first.into());
        Ids { term, began_ms: 0, first, apps: 0, drivers: 0, registrations: 0 }
    }

    pub(super) fn term(&self) -> Term {
        self.term
    }

    /// A term begins, larger than any that is known. The clock gives the first one of a cluster of which nothing is
    /// known, and has a say in the first one after its store was lost; in no other.
    pub(super) fn begin(&mut self, now: Tick, known: Term) {
        self.began_ms = now.0;
        self.term = match known {
            Term(0) => Term(now.0.clamp(1, LARGEST_TERM.0)),
            known => self.beyond(known),
        };
    }

    /// The same term once more, as no master should.
    pub(super) fn begin_again(&mut self, now: Tick, known: Term) {
        (self.began_ms, self.term) = (now.0, known.max(Term(1)));
    }

    fn beyond(&self, known: Term) -> Term {
        Term(known.0.min(LARGEST_TERM.0) + 1).max(self.term)
    }

    /// A master had this term and is no more: this one's is larger.
    pub(super) fn outdo(&mut self, other: Term) {
        self.term = self.beyond(other);
    }

    /// A number no registration has had, with this master or one before it.
    pub(super) fn next_registration(&mut self) -> Registration {
        self.registrations += 1;
        Registration((self.term.0 << 20) + self.registrations)
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
