//! The list and the watch: what was asked for, how far they are, when the next one is due.
//!
//! Two versions are kept apart. `known` is the newest that anything showed, answers to requests among it: a list
//! that is older is out of date. `resume` is how far the watch is: to begin anywhere else would leave changes out.

use firesteel_types::Tick;

use crate::Version;
use crate::mutant::{Mutant, Planted};
use crate::options::Deadlines;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watch {
    /// None is open; the next one is not opened before this moment, nor before a list came if its version is not known.
    Closed {
        not_before: Tick,
    },
    Open {
        number: u64,
        opened: Tick,
        heard: Tick,
    },
    /// None is ever opened.
    Never,
}

/// What is to be asked of the API server now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    List(u64),
    Watch(u64, Version),
}

/// The list and the watch.
#[derive(Debug)]
pub(super) struct Observer {
    planted: Planted,
    number: u64,
    /// The list that an answer is waited for, and since when.
    listing: Option<(u64, Tick)>,
    next_list: Option<Tick>,
    has_listed: bool,
    watch: Watch,
    resume: Option<Version>,
    known: Version,
    /// Since when lists are older than what was seen.
    regressed: Option<Tick>,
}

impl Observer {
    pub(super) fn new(planted: Planted) -> Self {
        Observer {
            planted,
            number: 0,
            listing: None,
            next_list: Some(Tick(0)),
            has_listed: false,
            watch: Watch::Closed { not_before: Tick(0) },
            resume: None,
            known: Version(0),
            regressed: None,
        }
    }

    /// One that lists and never watches.
    pub(super) fn without_watch(planted: Planted) -> Self {
        Observer { watch: Watch::Never, ..Observer::new(planted) }
    }

    pub(super) fn has_listed(&self) -> bool {
        self.has_listed
    }

    /// Something showed this version.
    pub(super) fn knows(&mut self, version: Version) {
        self.known = self.known.max(version);
    }

    /// A list is wanted by that moment.
    pub(super) fn want_list(&mut self, by: Tick) {
        if self.has_listed && self.planted.is(Mutant::ListsOnce) {
            return;
        }
        self.next_list = Some(self.next_list.map_or(by, |next| next.min(by)));
    }

    /// The number of what was asked for last.
    pub(super) fn newest(&self) -> u64 {
        self.number
    }

    /// One that is under way may be too old: another one is asked for, of this number.
    pub(super) fn list_anew(&mut self, now: Tick) -> u64 {
        self.listing = None;
        self.next_list = Some(now);
        self.number + 1
    }

    pub(super) fn ask(&mut self, now: Tick, deadlines: &Deadlines) -> Option<Ask> {
        let lost = |since: Tick| now.since_ms(since) >= deadlines.request_ms.saturating_mul(2);
        if self.listing.is_some_and(|(_, since)| lost(since)) {
            self.listing = None;
            self.want_list(now);
        }
        if self.listing.is_none() && self.next_list.is_some_and(|next| next <= now) {
            self.number += 1;
            (self.listing, self.next_list) = (Some((self.number, now)), None);
            return Some(Ask::List(self.number));
        }
        let idle = |heard: Tick| now.since_ms(heard) >= deadlines.watch_idle_ms;
        let due = match self.watch {
            Watch::Closed { not_before } => not_before <= now,
            Watch::Open { heard, .. } => idle(heard),
            Watch::Never => false,
        };
        let from = self.resume.filter(|_| due)?;
        self.number += 1;
        self.watch = Watch::Open { number: self.number, opened: now, heard: now };
        Some(Ask::Watch(self.number, from))
    }

    /// Whether it is the answer that is waited for.
    pub(super) fn list_answered(&mut self, number: u64) -> bool {
        let awaited = self.listing.is_some_and(|(awaited, _)| awaited == number);
        if awaited {
            self.listing = None;
        }
        awaited
    }

    /// Whether a list is as new as what was seen before. One that stays older for long tells of a cluster that was
    /// restored: versions begin again there.
    pub(super) fn judge_list(&mut self, version: Version, now: Tick, patience_ms: u64) -> Judged {
        if version >= self.known || self.planted.is(Mutant::TrustsStaleLists) {
            self.regressed = None;
            return Judged::New;
        }
        let since = *self.regressed.get_or_insert(now);
        if now.since_ms(since) < patience_ms {
            return Judged::Old;
        }
        (self.regressed, self.known) = (None, version);
        self.resume = None;
        if self.watch != Watch::Never {
            self.watch = Watch::Closed { not_before: now };
        }
        Judged::Restored
    }

    /// A list came that counts: the next one is due then.
    pub(super) fn listed(&mut self, version: Version, next: Tick) {
        self.knows(version);
        self.has_listed = true;
        if !matches!(self.watch, Watch::Open { .. }) || self.resume.is_none() {
            self.resume = Some(version);
        }
        self.want_list(next);
    }

    /// Whether the change is of the watch that is open; how far that is.
    pub(super) fn hears(&mut self, number: u64, version: Version, now: Tick) -> bool {
        let Watch::Open { number: current, heard, .. } = &mut self.watch else { return false };
        if *current != number {
            return false;
        }
        *heard = now;
        self.resume = self.resume.max(Some(version));
        self.knows(version);
        true
    }

    /// The watch is over. Expired: what happened since is to be found in a list.
    pub(super) fn watch_ended(
        &mut self,
        number: u64,
        expired: bool,
        now: Tick,
        wait_ms: u64,
    ) -> bool {
        let Watch::Open { number: current, opened, .. } = self.watch else { return false };
        if current != number {
            return false;
        }
        let at_once = now.since_ms(opened) >= wait_ms;
        let not_before = if at_once { now } else { now.plus_ms(wait_ms) };
        self.watch = Watch::Closed { not_before };
        if self.planted.is(Mutant::WatchesOnce) {
            self.watch = Watch::Never;
        }
        if expired && !self.planted.is(Mutant::ResumesExpiredWatches) {
            self.resume = None;
            self.want_list(now);
        }
        true
    }

    /// When there is something to ask, requests being allowed from a moment on.
    pub(super) fn due(&self, deadlines: &Deadlines, gate: Tick) -> Option<Tick> {
        let list = match self.listing {
            Some((_, since)) => Some(since.plus_ms(deadlines.request_ms.saturating_mul(2))),
            None => self.next_list.map(|next| next.max(gate)),
        };
        let watch = match self.watch {
            Watch::Closed { not_before } => self.resume.map(|_| not_before.max(gate)),
            Watch::Open { heard, .. } => Some(heard.plus_ms(deadlines.watch_idle_ms)),
            Watch::Never => None,
        };
        list.into_iter().chain(watch).min()
    }
}

/// What a list is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    New,
    /// Older than what was seen.
    Old,
    /// The cluster's history is another one.
    Restored,
}
