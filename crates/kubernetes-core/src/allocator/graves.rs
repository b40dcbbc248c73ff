//! Pods that are to be deleted and may still be there. They count for nothing any more.

use std::collections::{BTreeMap, BTreeSet};

use firesteel_types::Tick;

use crate::pod::Pod;
use crate::{ClaimName, PodName, PodUid, Version};

#[derive(Debug)]
struct Grave {
    name: PodName,
    version: Version,
    /// When the next request is due; while one is under way, when it is taken for lost.
    next: Tick,
    asked: bool,
    /// So often in a row the API server said no.
    refusals: u32,
    force: bool,
    /// The API server said that it ends it.
    accepted: bool,
    /// No list shows it.
    unseen: bool,
    claims: Vec<ClaimName>,
}

/// Pods to be deleted, by UID.
#[derive(Debug, Default)]
pub(super) struct Graves {
    graves: BTreeMap<PodUid, Grave>,
}

impl Graves {
    /// The pod is to go. A second time it changes nothing, except that force stays.
    pub(super) fn dig(
        &mut self,
        now: Tick,
        name: PodName,
        uid: PodUid,
        version: Version,
        force: bool,
    ) {
        let grave = Grave {
            name,
            version,
            next: now,
            asked: false,
            refusals: 0,
            force,
            accepted: false,
            unseen: false,
            claims: Vec::new(),
        };
        let grave = self.graves.entry(uid).or_insert(grave);
        grave.force |= force;
    }

    /// A pod that is to go mounts these claims.
    pub(super) fn mounts<'a>(&mut self, uid: &PodUid, claims: impl Iterator<Item = &'a ClaimName>) {
        if let Some(grave) = self.graves.get_mut(uid) {
            grave.claims = claims.cloned().collect();
        }
    }

    /// Claims of pods that may still be there.
    pub(super) fn claims(&self) -> impl Iterator<Item = &ClaimName> {
        self.graves.values().flat_map(|grave| &grave.claims)
    }

    /// The same for a pod that was kept until now: it is over, and labelled so that no list shows it.
    pub(super) fn dig_unseen(&mut self, now: Tick, name: PodName, uid: PodUid) {
        // It is over: nothing of it mounts anything.
        let grave = Grave {
            name,
            version: Version(0),
            next: now,
            asked: false,
            refusals: 0,
            force: true,
            accepted: false,
            unseen: true,
            claims: Vec::new(),
        };
        self.graves.insert(uid, grave);
    }

    /// Pods to ask to be deleted now. A request that stays without an answer is made again.
    pub(super) fn take_due(
        &mut self,
        now: Tick,
        lost_ms: u64,
        once: bool,
    ) -> Vec<(PodName, PodUid, bool)> {
        let due =
            self.graves.iter_mut().filter(|(_, grave)| grave.next <= now && !(once && grave.asked));
        let taken = due.map(|(uid, grave)| {
            (grave.next, grave.asked) = (now.plus_ms(lost_ms), true);
            (grave.name.clone(), uid.clone(), grave.force)
        });
        taken.collect()
    }

    /// The API server ends it: if it is there at that moment, force is needed.
    pub(super) fn accepted(&mut self, uid: &PodUid, until: Tick) {
        if self.graves.get(uid).is_some_and(|grave| grave.unseen) {
            self.graves.remove(uid);
        }
        if let Some(grave) = self.graves.get_mut(uid) {
            (grave.next, grave.force, grave.refusals) = (until, true, 0);
            grave.accepted = true;
        }
    }

    /// It is asked for again at this moment.
    pub(super) fn ask_again(&mut self, uid: &PodUid, again: Tick) {
        if let Some(grave) = self.graves.get_mut(uid) {
            grave.next = again;
        }
    }

    /// The API server said no: how often in a row it has.
    pub(super) fn refused(&mut self, uid: &PodUid) -> u32 {
        let Some(grave) = self.graves.get_mut(uid) else { return 0 };
        grave.refusals = grave.refusals.saturating_add(1);
        grave.refusals
    }

    /// Whether this pod is to go. It was there at its version.
    pub(super) fn sees(&mut self, pod: &Pod) -> bool {
        let grave = self.graves.get_mut(&pod.uid);
        grave.map(|grave| grave.version = grave.version.max(pod.version)).is_some()
    }

    /// It is gone. False if it was not among those that are to go.
    pub(super) fn close(&mut self, uid: &PodUid) -> bool {
        self.graves.remove(uid).is_some()
    }

    /// All that are there at a version.
    pub(super) fn close_missing(&mut self, there: &BTreeSet<PodUid>, version: Version) -> bool {
        let before = self.graves.len();
        self.graves
            .retain(|uid, grave| there.contains(uid) || grave.version > version || grave.unseen);
        self.graves.len() < before
    }

    pub(super) fn forget_versions(&mut self) {
        self.graves.values_mut().for_each(|grave| grave.version = Version(0));
    }

    pub(super) fn due(&self) -> Option<Tick> {
        self.graves.values().map(|grave| grave.next).min()
    }

    /// Whether the API server ends all of them.
    pub(super) fn all_accepted(&self) -> bool {
        self.graves.values().all(|grave| grave.accepted)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.graves.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.graves.len()
    }
}
