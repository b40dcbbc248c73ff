//! Whether this master leads, until when, and who is to hear of a new leader.
//!
//! ```text
//!            Elected, nothing was persisted
//!   STANDBY ─────────────────────────────────────────► ALIVE, adopting for a while
//!      ▲  │                                              ▲
//!      │  └───── Elected, with records ──► RECOVERING ───┘ all answered, or the timeout
//!      └── Deposed, the lease ran out, somebody follows a later term
//! ```

use std::collections::BTreeMap;

use firesteel_backend::Peer;
use firesteel_types::Tick;

use super::state::RecoveryState;
use crate::Term;
use crate::messages::Follower;

/// So many connections are remembered to be told of a new leader: more do not come from one cluster.
const FOLLOWERS_AT_MOST: usize = 100_000;

#[derive(Debug)]
pub(super) struct Leadership {
    status: RecoveryState,
    /// Until when it may act without hearing from its store; `None`: nobody else can lead.
    lease: Option<Tick>,
    /// When those that have not answered are dropped.
    recovery_ends: Option<Tick>,
    /// Until when it adopts what it does not know. Over when it looks, not before: it may have stood still.
    adopts_until: Option<Tick>,
    /// The largest term it ever heard of.
    heard: Term,
    /// The master that leads instead, as its store says.
    leader: Option<String>,
    followers: BTreeMap<Peer, Follower>,
}

impl Leadership {
    pub(super) fn standing_by() -> Self {
        Leadership {
            status: RecoveryState::Standby,
            lease: None,
            recovery_ends: None,
            adopts_until: None,
            heard: Term(0),
            leader: None,
            followers: BTreeMap::new(),
        }
    }

    pub(super) fn status(&self) -> RecoveryState {
        self.status
    }

    pub(super) fn leads(&self) -> bool {
        self.status != RecoveryState::Standby
    }

    /// It leads: with records of those that have to answer until then, or with nothing, and adopts until then.
    pub(super) fn begin(&mut self, recovers: bool, until: Tick, lease: Option<Tick>) {
        (self.lease, self.leader) = (lease, None);
        (self.recovery_ends, self.adopts_until) = match recovers {
            true => (Some(until), None),
            false => (None, Some(until)),
        };
        self.status = if recovers { RecoveryState::Recovering } else { RecoveryState::Alive };
    }

    pub(super) fn end(&mut self) {
        self.status = RecoveryState::Standby;
        (self.lease, self.recovery_ends, self.adopts_until) = (None, None, None);
    }

    /// Another master leads, or nobody knows which.
    pub(super) fn follow(&mut self, leader: Option<String>) {
        self.leader = leader.filter(|_| !self.leads());
    }

    pub(super) fn leader(&self) -> Option<&String> {
        self.leader.as_ref()
    }

    /// All have answered, or are dropped now.
    pub(super) fn completes(&mut self) {
        self.status = RecoveryState::CompletingRecovery;
        self.recovery_ends = None;
    }

    pub(super) fn is_alive(&mut self) {
        self.status = RecoveryState::Alive;
    }

    pub(super) fn renew(&mut self, until: Tick) {
        self.lease = self.lease.map(|lease| lease.max(until));
    }

    /// Whether somebody else may lead by now.
    pub(super) fn has_run_out(&self, now: Tick) -> bool {
        self.leads() && self.lease.is_some_and(|until| now >= until)
    }

    pub(super) fn is_recovering(&self) -> bool {
        self.status == RecoveryState::Recovering
    }

    pub(super) fn is_recovery_over(&self, now: Tick) -> bool {
        self.recovery_ends.is_some_and(|at| now >= at)
    }

    /// Whether what it does not know may belong to a master before it that persisted nothing.
    pub(super) fn adopts(&self) -> bool {
        self.leads() && self.adopts_until.is_some()
    }

    /// It has heard all that came: what it does not know by now is nobody's.
    pub(super) fn adopts_no_longer(&mut self, now: Tick) {
        self.adopts_until = self.adopts_until.filter(|until| now < *until);
    }

    /// It stood still: those that answered meanwhile are read first.
    pub(super) fn postpone(&mut self, until: Tick) {
        for ends in [&mut self.recovery_ends, &mut self.adopts_until] {
            *ends = ends.map(|at| at.max(until));
        }
    }

    /// When it has to look although nothing happens. What it adopts no longer it hears of again by itself.
    pub(super) fn due(&self) -> Option<Tick> {
        self.lease.into_iter().chain(self.recovery_ends).min()
    }

    /// Somebody knows this term.
    pub(super) fn hear(&mut self, term: Term) {
        self.heard = self.heard.max(term);
    }

    pub(super) fn heard(&self) -> Term {
        self.heard
    }

    /// Behind this connection is somebody who is to hear of a new leader.
    pub(super) fn note(&mut self, peer: Peer, follower: Follower) {
        if self.followers.len() < FOLLOWERS_AT_MOST {
            self.followers.insert(peer, follower);
        }
    }

    pub(super) fn forget(&mut self, peer: Peer) {
        self.followers.remove(&peer);
    }

    pub(super) fn followers(&self) -> Vec<(Peer, Follower)> {
        self.followers.iter().map(|(peer, follower)| (*peer, *follower)).collect()
    }
}
