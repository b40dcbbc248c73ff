//! Which executors an application has: those that were ordered, those that registered, those that are lost.
//!
//! Invariant S04: an executor that was lost once is not ordered any more and never counts again.

use std::collections::{BTreeMap, BTreeSet};

use firesteel_types::{ExecutorId, Tick};

use crate::Peer;
use crate::provider::Preparing;

/// An executor that is registered. Only the roster changes it.
#[derive(Debug)]
pub(super) struct Executor {
    pub(super) peer: Peer,
    pub(super) last_seen: Tick,
    /// Since when its connection is broken: it gets no tasks, and the reason is waited for.
    pub(super) disconnected: Option<Tick>,
    /// Its cluster manager said that it ends, and why: whatever happens to it is nobody's fault.
    pub(super) decommissioned: Option<String>,
}

/// An executor that was ordered and has not registered.
#[derive(Clone, Debug)]
pub(super) struct Ordered {
    /// The moment of the last word about it.
    since: Tick,
    /// How far its node is with what it needs, if that was told.
    pub(super) preparing: Option<Preparing>,
    /// Its cluster manager said that it ends, and why.
    decommissioned: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Roster {
    ordered: BTreeMap<ExecutorId, Ordered>,
    registered: BTreeMap<ExecutorId, Executor>,
    lost: BTreeSet<ExecutorId>,
}

impl Roster {
    /// `None` also for one that was ordered and has not registered yet.
    pub(super) fn get(&self, id: ExecutorId) -> Option<&Executor> {
        self.registered.get(&id)
    }

    /// Those that are registered.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ExecutorId, &Executor)> {
        self.registered.iter().map(|(id, executor)| (*id, executor))
    }

    pub(super) fn is_lost(&self, id: ExecutorId) -> bool {
        self.lost.contains(&id)
    }

    /// Whether it was ordered or registered, and not lost since.
    pub(super) fn counts_on(&self, id: ExecutorId) -> bool {
        self.registered.contains_key(&id) || self.ordered.contains_key(&id)
    }

    /// It was ordered. False if it is lost already.
    pub(super) fn order(&mut self, id: ExecutorId, now: Tick) -> bool {
        let lost = self.is_lost(id);
        if !lost && !self.registered.contains_key(&id) {
            let (preparing, decommissioned) = (None, None);
            let ordered = Ordered { since: now, preparing, decommissioned };
            self.ordered.entry(id).or_insert(ordered);
        }
        !lost
    }

    /// It was started: it has as long from now on as it had to start. False if nobody waits for it.
    pub(super) fn started(&mut self, id: ExecutorId, now: Tick) -> bool {
        if let Some(ordered) = self.ordered.get_mut(&id) {
            ordered.since = now;
        }
        self.counts_on(id)
    }

    /// Its node prepares it. That it does so again changes nothing; when it is further than before, it has as long from now on
    /// as it had to start. False if nobody waits for it.
    pub(super) fn prepares(&mut self, id: ExecutorId, preparing: Preparing, now: Tick) -> bool {
        if let Some(ordered) = self.ordered.get_mut(&id)
            && preparing.is_further_than(ordered.preparing.unwrap_or_default())
        {
            (ordered.since, ordered.preparing) = (now, Some(preparing));
        }
        self.counts_on(id)
    }

    /// Ordered ones that have not registered for longer than this.
    pub(super) fn late(
        &self,
        now: Tick,
        timeout_ms: u64,
    ) -> impl Iterator<Item = (ExecutorId, Ordered)> {
        let late = move |ordered: &Ordered| now.since_ms(ordered.since) > timeout_ms;
        let late = self.ordered.iter().filter(move |(_, ordered)| late(ordered));
        late.map(|(id, ordered)| (*id, ordered.clone()))
    }

    /// It registered over this connection. False if it was registered before.
    pub(super) fn register(&mut self, id: ExecutorId, peer: Peer, now: Tick) -> bool {
        let ordered = self.ordered.remove(&id);
        let before = self.registered.get(&id).and_then(|before| before.decommissioned.clone());
        let decommissioned = before.or(ordered.and_then(|ordered| ordered.decommissioned));
        let executor = Executor { peer, last_seen: now, disconnected: None, decommissioned };
        self.registered.insert(id, executor).is_none()
    }

    /// Its cluster manager ends it. False if it is not registered yet, or that was said before.
    pub(super) fn decommission(&mut self, id: ExecutorId, reason: &str) -> bool {
        let reason = || Some(reason.to_owned());
        if let Some(ordered) = self.ordered.get_mut(&id) {
            ordered.decommissioned = reason();
        }
        let known = self.registered.get_mut(&id).filter(|known| known.decommissioned.is_none());
        known.map(|known| known.decommissioned = reason()).is_some()
    }

    /// A message came from it. False if it is not registered over this connection.
    pub(super) fn heard(&mut self, id: ExecutorId, from: Peer, now: Tick) -> bool {
        let known = self.registered.get_mut(&id).filter(|known| known.peer == from);
        known.map(|known| known.last_seen = now).is_some()
    }

    /// Something came over these connections, last at these moments.
    pub(super) fn heard_over(&mut self, arrived: &BTreeMap<Peer, Tick>) {
        for executor in self.registered.values_mut() {
            let at = arrived.get(&executor.peer).copied();
            executor.last_seen = executor.last_seen.max(at.unwrap_or(executor.last_seen));
        }
    }

    /// A connection is broken: the executor's behind it.
    pub(super) fn disconnect(&mut self, peer: Peer, now: Tick) -> Option<ExecutorId> {
        let found = self.registered.iter_mut().find(|(_, executor)| executor.peer == peer);
        let (id, executor) = found?;
        executor.disconnected.get_or_insert(now);
        Some(*id)
    }

    /// It never counts again. Gives it back if it was registered.
    pub(super) fn lose(&mut self, id: ExecutorId) -> Option<Executor> {
        self.lost.insert(id);
        self.ordered.remove(&id);
        self.registered.remove(&id)
    }

    /// The application is over: nobody is waited for, and these are let go.
    pub(super) fn dismiss(&mut self) -> impl Iterator<Item = Executor> {
        self.ordered.clear();
        std::mem::take(&mut self.registered).into_values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_executor_is_neither_ordered_nor_registered_any_more() {
        let (id, peer) = (ExecutorId(3), Peer(7));
        let mut roster = Roster::default();
        assert!(roster.order(id, Tick(0)) && roster.started(id, Tick(5)));
        assert_eq!(roster.late(Tick(11), 5).map(|(id, _)| id).collect::<Vec<_>>(), [id]);
        assert!(roster.register(id, peer, Tick(11)) && !roster.register(id, peer, Tick(12)));
        assert!(roster.late(Tick(99), 5).next().is_none() && roster.heard(id, peer, Tick(13)));
        assert!(roster.lose(id).is_some() && roster.is_lost(id));
        assert!(!roster.order(id, Tick(14)) && !roster.started(id, Tick(14)));
        assert!(!roster.counts_on(id) && !roster.heard(id, peer, Tick(15)));
    }
}
