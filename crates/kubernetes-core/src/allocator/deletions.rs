//! Pods that are to be deleted and may still be there. They count for nothing any more.

use std::collections::{BTreeMap, BTreeSet};

use firesteel_types::Tick;

use crate::pod::Pod;
use crate::{ClaimName, PodName, PodUid, Version};

#[derive(Debug)]
struct Deletion {
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
pub(super) struct Deletions {
    deletions: BTreeMap<PodUid, Deletion>,
}

impl Deletions {
    /// The pod is to go. A second time it changes nothing, except that force stays.
    pub(super) fn add(
        &mut self,
        now: Tick,
        name: PodName,
        uid: PodUid,
        version: Version,
        force: bool,
    ) {
        let deletion = Deletion {
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
        let deletion = self.deletions.entry(uid).or_insert(deletion);
        deletion.force |= force;
    }

    /// A pod that is to go mounts these claims.
    pub(super) fn mounts<'a>(&mut self, uid: &PodUid, claims: impl Iterator<Item = &'a ClaimName>) {
        if let Some(deletion) = self.deletions.get_mut(uid) {
            deletion.claims = claims.cloned().collect();
        }
    }

    /// Claims of pods that may still be there.
    pub(super) fn claims(&self) -> impl Iterator<Item = &ClaimName> {
        self.deletions.values().flat_map(|deletion| &deletion.claims)
    }

    /// The same for a pod that was kept until now: it is over, and labelled so that no list shows it.
    pub(super) fn add_unseen(&mut self, now: Tick, name: PodName, uid: PodUid) {
        // It is over: nothing of it mounts anything.
        let deletion = Deletion {
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
        self.deletions.insert(uid, deletion);
    }

    /// Pods to ask to be deleted now. A request that stays without an answer is made again.
    pub(super) fn take_due(
        &mut self,
        now: Tick,
        lost_ms: u64,
        once: bool,
    ) -> Vec<(PodName, PodUid, bool)> {
        let due = self
            .deletions
            .iter_mut()
            .filter(|(_, deletion)| deletion.next <= now && !(once && deletion.asked));
        let taken = due.map(|(uid, deletion)| {
            (deletion.next, deletion.asked) = (now.plus_ms(lost_ms), true);
            (deletion.name.clone(), uid.clone(), deletion.force)
        });
        taken.collect()
    }

    /// The API server ends it: if it is there at that moment, force is needed.
    pub(super) fn accepted(&mut self, uid: &PodUid, until: Tick) {
        if self.deletions.get(uid).is_some_and(|deletion| deletion.unseen) {
            self.deletions.remove(uid);
        }
        if let Some(deletion) = self.deletions.get_mut(uid) {
            (deletion.next, deletion.force, deletion.refusals) = (until, true, 0);
            deletion.accepted = true;
        }
    }

    /// It is asked for again at this moment.
    pub(super) fn ask_again(&mut self, uid: &PodUid, again: Tick) {
        if let Some(deletion) = self.deletions.get_mut(uid) {
            deletion.next = again;
        }
    }

    /// The API server said no: how often in a row it has.
    pub(super) fn refused(&mut self, uid: &PodUid) -> u32 {
        let Some(deletion) = self.deletions.get_mut(uid) else { return 0 };
        deletion.refusals = deletion.refusals.saturating_add(1);
        deletion.refusals
    }

    /// Whether this pod is to go. It was there at its version.
    pub(super) fn sees(&mut self, pod: &Pod) -> bool {
        let deletion = self.deletions.get_mut(&pod.uid);
        deletion.map(|deletion| deletion.version = deletion.version.max(pod.version)).is_some()
    }

    /// It is gone. False if it was not among those that are to go.
    pub(super) fn close(&mut self, uid: &PodUid) -> bool {
        self.deletions.remove(uid).is_some()
    }

    /// All that are there at a version.
    pub(super) fn close_missing(&mut self, there: &BTreeSet<PodUid>, version: Version) -> bool {
        let before = self.deletions.len();
        self.deletions.retain(|uid, deletion| {
            there.contains(uid) || deletion.version > version || deletion.unseen
        });
        self.deletions.len() < before
    }

    pub(super) fn forget_versions(&mut self) {
        self.deletions.values_mut().for_each(|deletion| deletion.version = Version(0));
    }

    pub(super) fn due(&self) -> Option<Tick> {
        self.deletions.values().map(|deletion| deletion.next).min()
    }

    /// Whether the API server ends all of them.
    pub(super) fn all_accepted(&self) -> bool {
        self.deletions.values().all(|deletion| deletion.accepted)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.deletions.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.deletions.len()
    }
}
