//! The executors that were asked for and are not over, stage by stage.

use std::collections::BTreeMap;

use firesteel_types::{ExecutorId, Host, Tick};

use super::failures::Nodes;
use crate::cause::Cause;
use crate::claim::Mount;
use crate::mutant::Mutant;
use crate::options::{AllocatorOptions, Deadlines};
use crate::pod::Obstacle;
use crate::{ClaimName, PodName, PodUid, Version};

/// How far an executor's pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Whether a request waits for its answer.
    Requested {
        in_flight: bool,
    },
    /// The API server has it, and no list or watch has shown it yet.
    Created,
    /// It has no node; the scheduler's words.
    Pending(Option<String>),
    /// It has this node, whose kubelet has not taken it yet.
    Assigned,
    /// Its node's kubelet has it; since when something keeps it from starting.
    Scheduled(Option<(Tick, Obstacle)>),
    Running,
    /// It is about to end, and does not count.
    Leaving(Cause),
}

/// A list that shows what a watch may have left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sought {
    /// One after that of this number.
    After(u64),
    /// It came, and the pod is in the same stage.
    Same,
}

/// An executor that was asked for.
#[derive(Debug)]
pub(super) struct Slot {
    name: PodName,
    uid: Option<PodUid>,
    /// Of what was seen of it last.
    version: Version,
    node: Option<Host>,
    stage: Stage,
    since: Tick,
    wanted: Tick,
    registered: Option<Tick>,
    /// So many requests were made, the last one at that moment.
    attempts: u32,
    asked: Tick,
    /// Whether a request stayed without an answer: it may yet be carried out.
    doubtful: bool,
    /// Whether it was to avoid nodes that this allocator excluded by itself.
    avoids: bool,
    /// Its connection to the driver is gone for good: it does not count.
    cut_off: bool,
    /// Since when the driver's registry does not wait any more for why that is so.
    unexplained: Option<Tick>,
    /// What its stage is was asked for, in a list.
    sought: Option<Sought>,
    /// What it said last, if it failed.
    last_words: Option<String>,
    mounts: Vec<Mount>,
}

impl Slot {
    fn new(name: PodName, mounts: Vec<Mount>, now: Tick) -> Self {
        Slot {
            name,
            uid: None,
            version: Version(0),
            node: None,
            stage: Stage::Requested { in_flight: false },
            since: now,
            wanted: now,
            registered: None,
            attempts: 0,
            asked: now,
            doubtful: false,
            avoids: false,
            cut_off: false,
            unexplained: None,
            sought: None,
            last_words: None,
            mounts,
        }
    }

    pub(super) fn name(&self) -> &PodName {
        &self.name
    }

    pub(super) fn uid(&self) -> Option<&PodUid> {
        self.uid.as_ref()
    }

    pub(super) fn version(&self) -> Version {
        self.version
    }

    pub(super) fn node(&self) -> Option<&Host> {
        self.node.as_ref()
    }

    pub(super) fn stage(&self) -> &Stage {
        &self.stage
    }

    pub(super) fn since(&self) -> Tick {
        self.since
    }

    /// When it was first asked for.
    pub(super) fn wanted(&self) -> Tick {
        self.wanted
    }

    pub(super) fn registered(&self) -> Option<Tick> {
        self.registered
    }

    pub(super) fn avoids(&self) -> bool {
        self.avoids
    }

    pub(super) fn said_last(&mut self, words: Option<String>) {
        self.last_words = words.or(self.last_words.take());
    }

    pub(super) fn last_words(&self) -> Option<&str> {
        self.last_words.as_deref()
    }

    /// Its volumes and their claims: the same in every request for it.
    pub(super) fn mounts(&self) -> &[Mount] {
        &self.mounts
    }

    pub(super) fn claims(&self) -> impl Iterator<Item = &ClaimName> {
        self.mounts.iter().map(|mount| &mount.claim)
    }

    /// Those that another pod had before.
    pub(super) fn reused_claims(&self) -> impl Iterator<Item = &ClaimName> {
        self.mounts.iter().filter(|mount| mount.reused).map(|mount| &mount.claim)
    }

    /// Until when a volume that another pod had may keep it from starting.
    pub(super) fn attached_by(&self, deadlines: &Deadlines) -> Option<Tick> {
        let waits = match &self.stage {
            // Else it is room that no node has.
            Stage::Pending(Some(words)) => words.to_ascii_lowercase().contains("volume"),
            stage => matches!(stage, Stage::Scheduled(None | Some((_, Obstacle::Other(_))))),
        };
        let reuses = self.registered.is_none() && self.reused_claims().next().is_some();
        (waits && reuses).then(|| self.since.plus_ms(deadlines.attached_ms))
    }

    pub(super) fn cut_off(&mut self) {
        self.cut_off = true;
    }

    /// Whether its pod may yet tell why the connection of its executor broke.
    pub(super) fn may_be_explained(&self) -> bool {
        let worked = self.registered.is_some() && self.cut_off;
        worked && self.uid.is_some() && !self.is_leaving()
    }

    /// Nobody but its pod says any more why it ended.
    pub(super) fn awaits_explanation(&mut self, now: Tick) {
        self.unexplained.get_or_insert(now);
    }

    pub(super) fn is_unexplained(&self) -> bool {
        self.unexplained.is_some()
    }

    /// Until when its pod has time to tell. What a watch left out is in a list, which is waited for.
    fn explained_by(&self, deadlines: &Deadlines) -> Option<Tick> {
        let since = self.unexplained?;
        Some(match self.sought {
            None => since.plus_ms(deadlines.explained_ms),
            Some(Sought::After(_)) => self.since.plus_ms(deadlines.seen_ms),
            Some(Sought::Same) => self.since,
        })
    }

    /// Whether it is registered, and is to stay.
    pub(super) fn is_working(&self) -> bool {
        self.registered.is_some() && self.counts()
    }

    /// Whether it works, or is on its way to.
    fn counts(&self) -> bool {
        !self.is_leaving() && !self.cut_off
    }

    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.stage, Stage::Leaving(_))
    }

    /// Whether its process is not known to run, nor ever to have run.
    pub(super) fn is_pending(&self) -> bool {
        self.registered.is_none() && !matches!(self.stage, Stage::Running | Stage::Leaving(_))
    }

    pub(super) fn is_in_flight(&self) -> bool {
        matches!(self.stage, Stage::Requested { in_flight: true })
    }

    pub(super) fn awaits_request(&self) -> bool {
        matches!(self.stage, Stage::Requested { in_flight: false })
    }

    /// One more request is made for it: its number.
    pub(super) fn request(&mut self, now: Tick, avoids: bool) -> u32 {
        self.stage = Stage::Requested { in_flight: true };
        self.attempts += 1;
        (self.since, self.asked, self.avoids) = (now, now, avoids);
        self.attempts
    }

    /// The number of the last request.
    pub(super) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The request of this number was refused or not answered. False if another one is under way, or it was granted.
    pub(super) fn refused(&mut self, attempt: u32, unanswered: bool) -> bool {
        let is_current = self.is_in_flight() && self.attempts == attempt;
        if is_current {
            self.stage = Stage::Requested { in_flight: false };
            self.doubtful |= unanswered;
        }
        is_current
    }

    /// Whether a request may be carried out that nobody waits for: one that was refused is not.
    fn may_be_created(&self) -> bool {
        self.is_in_flight() || self.doubtful
    }

    /// The API server has it.
    pub(super) fn exists(&mut self, uid: PodUid, version: Version) {
        self.uid = Some(uid);
        self.version = self.version.max(version);
    }

    /// It was given this node, if it was given one.
    pub(super) fn is_on(&mut self, node: Option<Host>) {
        self.node = node.or(self.node.take());
    }

    /// Moves it to a stage. True if it was in another one, whatever was said there.
    pub(super) fn enter(&mut self, stage: Stage, node: Option<Host>, now: Tick) -> bool {
        let other = std::mem::discriminant(&stage) != std::mem::discriminant(&self.stage);
        if other {
            (self.since, self.sought) = (now, None);
        }
        self.is_on(node);
        self.stage = stage;
        other
    }

    /// Since when it has had an obstacle of this kind, if it has one now.
    pub(super) fn obstacle_since(&self, now: Tick, obstacle: &Obstacle) -> Tick {
        match &self.stage {
            Stage::Scheduled(Some((since, before)))
                if std::mem::discriminant(before) == std::mem::discriminant(obstacle) =>
            {
                *since
            }
            _ => now,
        }
    }

    pub(super) fn register(&mut self, now: Tick) {
        self.registered.get_or_insert(now);
    }

    /// Looks for it in the next list again, and no more before.
    pub(super) fn look_again(&mut self, now: Tick) {
        self.since = now;
    }

    /// Whether a list has shown that its stage is what it seems. If not, one after that of this number has to.
    pub(super) fn is_sure(&mut self, now: Tick, newest_list: u64) -> bool {
        let sure = self.sought == Some(Sought::Same);
        if !sure {
            self.sought.get_or_insert(Sought::After(newest_list));
            self.look_again(now);
        }
        sure
    }

    /// A list of this number showed it.
    fn listed(&mut self, number: u64) {
        if let Some(Sought::After(list)) = self.sought
            && number > list
        {
            self.sought = Some(Sought::Same);
        }
    }

    /// Versions begin again.
    fn forget_version(&mut self) {
        self.version = Version(0);
    }

    /// When its time in this stage is over.
    pub(super) fn deadline(&self, options: &AllocatorOptions, nodes: &Nodes) -> Option<Tick> {
        let attached_by = self.attached_by(&options.deadlines);
        let explained_by = self.explained_by(&options.deadlines);
        let stage = self.stage_deadline(options, nodes);
        stage.into_iter().chain(attached_by).chain(explained_by).min()
    }

    fn stage_deadline(&self, options: &AllocatorOptions, nodes: &Nodes) -> Option<Tick> {
        let deadlines = &options.deadlines;
        let after = |ms: u64| Some(self.since.plus_ms(ms));
        match &self.stage {
            Stage::Requested { in_flight: false } => None,
            Stage::Requested { .. } if options.planted.is(Mutant::AwaitsLostCreates) => None,
            Stage::Requested { .. } => after(deadlines.request_ms.saturating_mul(2)),
            Stage::Leaving(_) => after(options.grace_ms.saturating_add(deadlines.terminated_ms)),
            Stage::Created => after(deadlines.seen_ms),
            _ if self.registered.is_some() => None,
            Stage::Pending(_) => after(deadlines.scheduled_ms),
            Stage::Assigned if options.planted.is(Mutant::AwaitsKubelets) => {
                after(deadlines.started_ms)
            }
            Stage::Assigned if self.sought == Some(Sought::Same) => Some(self.since),
            Stage::Assigned if self.sought.is_some() => after(deadlines.seen_ms),
            Stage::Assigned => {
                let suspected = self.node.as_ref().and_then(|node| nodes.suspected(node));
                let soon = suspected.map(|at| at.max(self.since).plus_ms(deadlines.doubted_ms));
                after(deadlines.accepted_ms).into_iter().chain(soon).min()
            }
            Stage::Scheduled(Some((since, Obstacle::Image(_)))) => {
                after(deadlines.started_ms).min(Some(since.plus_ms(deadlines.image_ms)))
            }
            Stage::Scheduled(_) => after(deadlines.started_ms),
            Stage::Running if options.planted.is(Mutant::AwaitsRegistration) => None,
            Stage::Running => after(deadlines.registered_ms),
        }
    }
}

/// All executors that are not over.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: BTreeMap<ExecutorId, Slot>,
    withdrawn: BTreeMap<ExecutorId, Tick>,
    /// Those of them whose pods may be there.
    doubted: BTreeMap<ExecutorId, Doubted>,
}

/// The claims of a pod that a request may create until a moment, and which may be there after it until a list has shown that it is not.
#[derive(Debug)]
struct Doubted {
    until: Tick,
    /// A list after that of this number shows it.
    list: Option<u64>,
    claims: Vec<ClaimName>,
}

impl Slots {
    pub(super) fn add(
        &mut self,
        executor: ExecutorId,
        name: PodName,
        mounts: Vec<Mount>,
        now: Tick,
    ) {
        self.slots.insert(executor, Slot::new(name, mounts, now));
    }

    pub(super) fn get(&self, executor: ExecutorId) -> Option<&Slot> {
        self.slots.get(&executor)
    }

    /// A list of this number showed those that are left.
    pub(super) fn listed(&mut self, number: u64) {
        self.slots.values_mut().for_each(|slot| slot.listed(number));
        self.doubted.retain(|_, doubted| doubted.list.is_none_or(|list| number <= list));
    }

    pub(super) fn get_mut(&mut self, executor: ExecutorId) -> Option<&mut Slot> {
        self.slots.get_mut(&executor)
    }

    /// A request may be carried out though its answer is not waited for any longer, or never came.
    pub(super) fn remove(&mut self, executor: ExecutorId, deadlines: &Deadlines) -> Option<Slot> {
        let slot = self.slots.remove(&executor)?;
        if slot.may_be_created() {
            let until = slot.asked.plus_ms(deadlines.request_ms.saturating_mul(2));
            self.withdrawn.insert(executor, until);
            let claims: Vec<ClaimName> = slot.claims().cloned().collect();
            if !claims.is_empty() {
                self.doubted.insert(executor, Doubted { until, list: None, claims });
            }
        }
        Some(slot)
    }

    /// The first request for it was answered, and there was no other one.
    pub(super) fn answered(&mut self, executor: ExecutorId, attempt: u32) {
        if attempt == 1 {
            self.withdrawn.remove(&executor);
            self.doubted.remove(&executor);
        }
    }

    /// Whether a request for an executor that is not wanted any more may create its pod after this moment.
    pub(super) fn may_create(&mut self, now: Tick) -> bool {
        self.withdrawn.retain(|_, until| *until > now);
        !self.withdrawn.is_empty()
    }

    pub(super) fn may_create_until(&self) -> Option<Tick> {
        self.withdrawn.values().max().copied()
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (ExecutorId, &Slot)> {
        self.slots.iter().map(|(id, slot)| (*id, slot))
    }

    /// Claims of pods that are there or may be.
    pub(super) fn claims(&self) -> impl Iterator<Item = &ClaimName> {
        let doubted = self.doubted.values().flat_map(|doubted| &doubted.claims);
        self.slots.values().flat_map(|slot| slot.claims()).chain(doubted)
    }

    /// Whether a list is wanted to show that pods are not there which nothing can create any more.
    pub(super) fn wants_list(&mut self, now: Tick, newest_list: u64) -> bool {
        let over = |doubted: &&mut Doubted| doubted.until <= now && doubted.list.is_none();
        let over = self.doubted.values_mut().filter(over);
        over.map(|doubted| doubted.list = Some(newest_list)).count() > 0
    }

    pub(super) fn forget_versions(&mut self) {
        self.slots.values_mut().for_each(Slot::forget_version);
    }

    fn count(&self, is: impl Fn(&Slot) -> bool) -> u32 {
        self.slots.values().filter(|slot| is(slot)).count() as u32
    }

    /// Registered, and not about to end.
    pub(super) fn healthy(&self) -> u32 {
        self.count(Slot::is_working)
    }

    /// Those that are healthy or on their way to be.
    pub(super) fn counted(&self) -> u32 {
        self.count(Slot::counts)
    }

    /// The same, as Spark has it that does not see what it asked for.
    pub(super) fn counted_if_seen(&self) -> u32 {
        self.count(|slot| {
            slot.counts() && !matches!(slot.stage, Stage::Requested { .. } | Stage::Created)
        })
    }

    pub(super) fn pending(&self) -> u32 {
        self.count(Slot::is_pending)
    }

    pub(super) fn any_in_flight(&self) -> bool {
        self.slots.values().any(Slot::is_in_flight)
    }

    pub(super) fn any_awaits_request(&self) -> bool {
        self.slots.values().any(Slot::awaits_request)
    }

    pub(super) fn due(&self, options: &AllocatorOptions, nodes: &Nodes) -> Option<Tick> {
        self.slots.values().filter_map(|slot| slot.deadline(options, nodes)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Mount;
    use crate::{PodName, VolumeName};

    #[test]
    fn only_pods_with_claims_are_remembered_until_a_list_shows_that_they_are_not_there() {
        let (volume, claim) = (VolumeName::new("v"), ClaimName::new("c"));
        let mount = Mount { volume, claim, is_new: true, reused: false };
        let mut slots = Slots::default();
        for (id, mounts) in [(1, vec![]), (2, vec![mount])] {
            let executor = ExecutorId(id);
            slots.add(executor, PodName::new("pod"), mounts, Tick(0));
            slots.get_mut(executor).expect("it was added").request(Tick(0), false);
            slots.remove(executor, &Deadlines::default());
        }
        assert_eq!(slots.doubted.keys().collect::<Vec<_>>(), [&ExecutorId(2)]);
        assert!(slots.wants_list(Tick(60_000), 7) && !slots.wants_list(Tick(60_000), 7));
        slots.listed(7);
        assert_eq!(slots.claims().count(), 1, "it was asked for before");
        slots.listed(8);
        assert_eq!(slots.claims().count(), 0);
    }
}
