//! Claims of volumes: which there are, which can be mounted, which are to go. Which pods mount them is known to slots and deletions.

use std::collections::{BTreeMap, BTreeSet};

use firesteel_types::Tick;

use super::observer::{Ask, Judged, Observer};
use crate::claim::{Claim, ClaimList, ClaimName, Mount, VolumeName};
use crate::mutant::Planted;
use crate::names::claim_name;
use crate::options::{ClaimOptions, Deadlines};
use crate::{PodName, Version};

#[derive(Debug)]
struct Known {
    volume: VolumeName,
    /// Whether the API server has it for sure.
    exists: bool,
    /// Whether a pod had it.
    used: bool,
    /// It goes, or its volume does not come: no pod mounts it again.
    spoiled: bool,
}

#[derive(Debug)]
struct Doom {
    /// When the next request is due.
    next: Tick,
    /// A list showed it since the last request: what that finds missing was made later.
    seen: bool,
}

impl Doom {
    fn at(next: Tick) -> Self {
        Doom { next, seen: false }
    }
}

/// The claims of an application.
#[derive(Debug)]
pub(super) struct Claims {
    options: ClaimOptions,
    observer: Observer,
    known: BTreeMap<ClaimName, Known>,
    /// Claims to be deleted.
    doomed: BTreeMap<ClaimName, Doom>,
    /// The list that shows what an application that ends has left.
    last_list: Option<u64>,
    /// It came, or nobody may ask for it.
    closed: bool,
}

impl Claims {
    pub(super) fn new(options: ClaimOptions, planted: Planted) -> Self {
        Claims {
            options,
            observer: Observer::without_watch(planted),
            known: BTreeMap::new(),
            doomed: BTreeMap::new(),
            last_list: None,
            closed: false,
        }
    }

    /// Whether the application has no such volumes.
    pub(super) fn is_unused(&self) -> bool {
        self.options.volumes.is_empty()
    }

    /// Whether it is known which claims a driver process before this one has left.
    pub(super) fn is_ready(&self) -> bool {
        self.is_unused() || self.observer.has_listed()
    }

    /// Whether nothing is left, and nothing can come.
    pub(super) fn is_closed(&self) -> bool {
        self.is_unused() || self.closed && self.doomed.is_empty()
    }

    /// A claim of this volume that no pod mounts.
    fn free(&self, volume: &VolumeName, mounted: &BTreeSet<ClaimName>) -> Option<&ClaimName> {
        let usable = self.known.iter().find(|(name, known)| {
            known.volume == *volume && !known.spoiled && !mounted.contains(*name)
        });
        usable.map(|(name, _)| name).filter(|_| self.options.reuse)
    }

    /// Whether one more claim of this volume may be made: if one is to be waited for, no more than there are to be executors.
    fn may_make(&self, volume: &VolumeName, target: u32) -> bool {
        let usable = self.known.values().filter(|known| known.volume == *volume && !known.spoiled);
        !self.options.wait_to_reuse || usable.count() < target as usize
    }

    /// Whether one more pod can have all its volumes.
    pub(super) fn can_mount(&self, mounted: &BTreeSet<ClaimName>, target: u32) -> bool {
        let can = |volume: &VolumeName| {
            self.free(volume, mounted).is_some() || self.may_make(volume, target)
        };
        self.options.volumes.iter().all(can)
    }

    /// The claims of a new pod: those that no pod mounts, and new ones.
    pub(super) fn mount(&mut self, pod: &PodName, mounted: &BTreeSet<ClaimName>) -> Vec<Mount> {
        let volumes = self.options.volumes.clone();
        let mounts = volumes.into_iter().enumerate().map(|(index, volume)| {
            let found = self.free(&volume, mounted).cloned();
            let claim = found.unwrap_or_else(|| claim_name(pod, index));
            let new =
                || Known { volume: volume.clone(), exists: false, used: false, spoiled: false };
            let known = self.known.entry(claim.clone()).or_insert_with(new);
            let (is_new, reused) = (!known.exists, known.used);
            known.used = true;
            Mount { volume, claim, is_new, reused }
        });
        mounts.collect()
    }

    /// The API server has the pod that mounts them, and so has it them.
    pub(super) fn exist<'a>(&mut self, names: impl Iterator<Item = &'a ClaimName>) {
        for name in names {
            if let Some(known) = self.known.get_mut(name) {
                known.exists = true;
            }
        }
    }

    /// The number of a list that is to be asked for now.
    pub(super) fn list(&mut self, now: Tick, deadlines: &Deadlines) -> Option<u64> {
        if self.is_unused() {
            return None;
        }
        match self.observer.ask(now, deadlines) {
            Some(Ask::List(number)) => Some(number),
            Some(Ask::Watch(..)) | None => None,
        }
    }

    /// Whether it is the answer that is waited for.
    pub(super) fn list_answered(&mut self, number: u64) -> bool {
        self.observer.list_answered(number)
    }

    /// Whether a list is not older than one before.
    pub(super) fn believes(&mut self, version: Version, now: Tick, patience_ms: u64) -> bool {
        self.observer.judge_list(version, now, patience_ms) != Judged::Old
    }

    pub(super) fn list_again(&mut self, by: Tick) {
        self.observer.want_list(by);
    }

    /// All claims there are, but those that a request on its way may have created since.
    pub(super) fn listed(
        &mut self,
        now: Tick,
        number: u64,
        list: ClaimList,
        mounted: &BTreeSet<ClaimName>,
        next: Tick,
    ) {
        let ClaimList { version, claims } = list;
        self.observer.listed(version, next);
        let there: BTreeSet<ClaimName> = claims.iter().map(|claim| claim.name.clone()).collect();
        self.known.retain(|name, _| there.contains(name) || mounted.contains(name));
        for Claim { name, volume, unusable } in claims {
            let new = || Known { volume, exists: true, used: true, spoiled: false };
            let known = self.known.entry(name.clone()).or_insert_with(new);
            known.exists = true;
            if known.spoiled && !unusable {
                // A request that came late has made it again.
                self.doomed.entry(name).or_insert(Doom::at(now)).seen = true;
            }
            known.spoiled |= unusable;
        }
        self.closed |= self.last_list.is_some_and(|last| number >= last);
    }

    /// No request can create a claim any more: the next list shows all that is left.
    pub(super) fn list_last(&mut self, now: Tick) {
        self.last_list = Some(self.observer.list_anew(now));
    }

    /// What is left cannot be found out.
    pub(super) fn close(&mut self) {
        self.closed |= self.last_list.is_some();
    }

    /// No pod mounts it again: it is to go.
    pub(super) fn doom(&mut self, now: Tick, name: &ClaimName) {
        if let Some(known) = self.known.get_mut(name) {
            known.spoiled = true;
            self.doomed.entry(name.clone()).or_insert(Doom::at(now));
        }
    }

    /// All that do not go already.
    pub(super) fn doom_all(&mut self, now: Tick) {
        let usable = self.known.iter().filter(|(_, known)| !known.spoiled);
        let usable: Vec<ClaimName> = usable.map(|(name, _)| name.clone()).collect();
        usable.iter().for_each(|name| self.doom(now, name));
    }

    /// Claims to ask to be deleted now. A request that stays without an answer is made again.
    pub(super) fn take_due(&mut self, now: Tick, lost_ms: u64) -> Vec<ClaimName> {
        let due = self.doomed.iter_mut().filter(|(_, doom)| doom.next <= now);
        let taken = due.map(|(name, doom)| {
            *doom = Doom::at(now.plus_ms(lost_ms));
            name.clone()
        });
        taken.collect()
    }

    /// The API server deletes it as soon as no pod mounts it, or nobody may have it deleted.
    pub(super) fn deleted(&mut self, name: &ClaimName) {
        self.doomed.remove(name);
    }

    /// Whether a list showed it since the last request to delete it.
    pub(super) fn was_seen(&self, name: &ClaimName) -> bool {
        self.doomed.get(name).is_some_and(|doom| doom.seen)
    }

    pub(super) fn not_deleted(&mut self, name: &ClaimName, again: Tick) {
        if let Some(doom) = self.doomed.get_mut(name) {
            doom.next = again;
        }
    }

    /// When there is something to ask, requests being allowed from a moment on.
    pub(super) fn due(&self, deadlines: &Deadlines, gate: Tick) -> Option<Tick> {
        let delete = self.doomed.values().map(|doom| doom.next.max(gate)).min();
        let list = self.observer.due(deadlines, gate).filter(|_| !self.is_unused());
        list.into_iter().chain(delete).min()
    }
}
