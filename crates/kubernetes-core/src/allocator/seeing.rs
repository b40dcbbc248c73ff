//! What lists and watches say about executors, and what happens when one is over.

use firesteel_backend::blame::{Blame, blame};
use firesteel_backend::provider::ProviderEvent;
use firesteel_types::{ExecutorId, Host};

use super::core::{Allocator, AllocatorEffect, PodList, Turn};
use super::slots::{Slot, Stage};
use super::why::with_words;
use crate::cause::Cause;
use crate::mutant::Mutant;
use crate::names::pod_name;
use crate::pod::{Obstacle, Pod, Verdict};

/// What is left of the pod of an executor that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remains {
    /// It is gone.
    Nothing,
    /// Its processes may run.
    Pod,
    /// It is there, and nothing of it runs.
    Ended,
}

impl Allocator {
    /// A pod as it is now, or was not long ago.
    pub(super) fn see(&mut self, turn: &mut Turn<'_>, pod: Pod) {
        if pod.inactive || self.kept.contains(&pod.uid) || self.deletions.sees(&pod) {
            return;
        }
        if self.is_anothers(&pod) {
            return self.dropped_stale();
        }
        if pod.generation > Some(self.options.generation) {
            let reason = "another driver process of this application has taken over".to_owned();
            return self.fail(turn, reason);
        }
        let slot = pod.executor.and_then(|executor| Some((executor, self.slots.get(executor)?)));
        match slot {
            Some((executor, slot)) if self.is_of(slot, &pod) => self.update(turn, executor, &pod),
            Some((executor, slot))
                if *slot.name() == pod.name
                    && slot.uid().is_some()
                    && slot.version() < pod.version =>
            {
                // Another pod has its name: its own is gone.
                self.end_with(turn, executor, Cause::Vanished, Remains::Nothing);
                self.bury(turn.now, &pod);
            }
            _ => self.bury_stranger(turn, &pod),
        }
    }

    fn is_of(&self, slot: &Slot, pod: &Pod) -> bool {
        let own = pod.generation == Some(self.options.generation);
        own && *slot.name() == pod.name && slot.uid().is_none_or(|uid| *uid == pod.uid)
    }

    /// Whether it is another driver's, though its labels say that it is this application's: two may have been given one id.
    pub(super) fn is_anothers(&self, pod: &Pod) -> bool {
        if self.options.planted.is(Mutant::TakesPodsOfOthers) {
            return false;
        }
        let prefix = &self.options.prefix;
        let named = |executor| pod_name(prefix, executor) == pod.name;
        // What this process asked for has the name of its executor.
        let asked = pod.generation == Some(self.options.generation);
        let misnamed = asked && pod.executor.is_some_and(|executor| !named(executor));
        let belongs_elsewhere = pod.owner.is_some() && pod.owner != self.options.owner;
        belongs_elsewhere || misnamed
    }

    /// Nobody waits for it: a process before this one created it, or a request that was withdrawn.
    fn bury_stranger(&mut self, turn: &mut Turn<'_>, pod: &Pod) {
        let before = pod.generation != Some(self.options.generation);
        let planted = self.options.planted;
        if let Some(executor) = pod.executor
            && before
        {
            if !planted.is(Mutant::ReusesNumbers) {
                self.numbers.heard_of(executor);
            }
            if planted.is(Mutant::LeavesPreviousGeneration) {
                return;
            }
            // An executor of this process may have the same number, if its pod has another name.
            if self.slots.get(executor).is_none() {
                let cause = Cause::PreviousGeneration;
                let (end, reason) = (cause.end(), cause.to_string());
                turn.report(ProviderEvent::Ended { executor, end, reason });
            }
        }
        self.bury(turn.now, pod);
    }

    fn update(&mut self, turn: &mut Turn<'_>, executor: ExecutorId, pod: &Pod) {
        let Some(slot) = self.slots.get_mut(executor) else { return };
        if pod.version < slot.version() {
            return self.dropped_stale();
        }
        slot.exists(pod.uid.clone(), pod.version);
        slot.is_on(pod.node.clone());
        slot.said_last(pod.last_words());
        let known = match slot.stage() {
            Stage::Leaving(cause) => Some(cause.clone()),
            _ => None,
        };
        let leaving = known.is_some();
        let counts_on = self.options.planted.is(Mutant::CountsTerminatingPods);
        match pod.verdict(self.options.all_containers) {
            Verdict::Over(_) if leaving => {
                self.end(turn, executor, known.unwrap_or(Cause::Deleted));
            }
            Verdict::Over(cause) => {
                let remains = if pod.runs_on() { Remains::Pod } else { Remains::Ended };
                self.end_with(turn, executor, cause, remains);
            }
            Verdict::Terminating(_) if counts_on => {}
            Verdict::Terminating(cause) => self.leaves(turn, executor, cause),
            _ if leaving => {}
            Verdict::Pending(words) => self.enters(turn, executor, Stage::Pending(words), None),
            Verdict::Assigned(node) => {
                self.backoff.scheduled();
                self.enters(turn, executor, Stage::Assigned, Some(node));
            }
            Verdict::Scheduled(node, obstacle) => self.scheduled(turn, executor, node, obstacle),
            Verdict::Running(node) => self.enters(turn, executor, Stage::Running, Some(node)),
            Verdict::Unknown => {}
        }
    }

    fn scheduled(
        &mut self,
        turn: &mut Turn<'_>,
        executor: ExecutorId,
        node: Host,
        obstacle: Option<Obstacle>,
    ) {
        self.backoff.scheduled();
        if let Some(Obstacle::Config(words)) = &obstacle {
            return self.end(turn, executor, Cause::BadConfig(words.clone()));
        }
        let Some(slot) = self.slots.get(executor) else { return };
        let obstacle =
            obstacle.map(|obstacle| (slot.obstacle_since(turn.now, &obstacle), obstacle));
        self.enters(turn, executor, Stage::Scheduled(obstacle), Some(node));
    }

    fn enters(
        &mut self,
        turn: &mut Turn<'_>,
        executor: ExecutorId,
        stage: Stage,
        node: Option<Host>,
    ) {
        let Some(slot) = self.slots.get_mut(executor) else { return };
        let runs = stage == Stage::Running;
        let is_new = slot.enter(stage, node.clone(), turn.now);
        if let Some(node) = node.filter(|_| is_new && runs) {
            // Not before: the registry waits for an executor as long as it takes a process to register.
            if !self.options.planted.is(Mutant::AwaitsRegistration) {
                turn.report(ProviderEvent::Ordered { executor });
            }
            turn.report(ProviderEvent::Started { executor, node });
        }
    }

    /// It is about to end: another one is asked for now. What it does may come to an end.
    fn leaves(&mut self, turn: &mut Turn<'_>, executor: ExecutorId, cause: Cause) {
        let Some(slot) = self.slots.get_mut(executor) else { return };
        if slot.is_leaving() {
            return;
        }
        if slot.registered().is_none() {
            return self.end(turn, executor, cause);
        }
        let reason = cause.to_string();
        slot.enter(Stage::Leaving(cause), None, turn.now);
        turn.report(ProviderEvent::Decommissioning { executor, reason });
    }

    /// The API server said that the pod is gone.
    pub(super) fn gone(&mut self, turn: &mut Turn<'_>, pod: &Pod) {
        // A pod that is labelled as inactive leaves the watch in the same way: it stays among those kept.
        if self.deletions.close(&pod.uid) {
            self.backoff.freed(turn.now);
        }
        let Some(executor) = pod.executor else { return };
        let Some(slot) = self.slots.get(executor).filter(|slot| self.is_of(slot, pod)) else {
            return;
        };
        let cause = match (slot.stage(), pod.verdict(self.options.all_containers)) {
            (Stage::Leaving(cause), _) => cause.clone(),
            (_, Verdict::Over(cause) | Verdict::Terminating(cause)) => cause,
            _ => Cause::Deleted,
        };
        self.end_with(turn, executor, cause, Remains::Nothing);
    }

    /// All pods there are: what is missing among them is gone, unless it came later.
    pub(super) fn see_all(&mut self, turn: &mut Turn<'_>, list: PodList) {
        let PodList { version, pods } = list;
        let there: std::collections::BTreeSet<_> = pods.iter().map(|pod| pod.uid.clone()).collect();
        pods.into_iter().for_each(|pod| self.see(turn, pod));
        let blind = self.options.planted.is(Mutant::AwaitsUnseenPods);
        let trusts = self.options.planted.is(Mutant::TrustsStaleLists);
        let gone = self.slots.iter().filter(|(_, slot)| {
            let missing = slot.uid().is_some_and(|uid| !there.contains(uid));
            let old = slot.version() > version && !trusts;
            missing && !old && !(blind && *slot.stage() == Stage::Created)
        });
        let gone: Vec<_> = gone.map(|(executor, _)| executor).collect();
        for executor in gone {
            self.end_with(turn, executor, Cause::Vanished, Remains::Nothing);
        }
        if self.deletions.close_missing(&there, version) {
            self.backoff.freed(turn.now);
        }
    }

    /// The executor is over, and its pod is to go.
    pub(super) fn end(&mut self, turn: &mut Turn<'_>, executor: ExecutorId, cause: Cause) {
        self.end_with(turn, executor, cause, Remains::Pod);
    }

    /// The one way in which an executor ends.
    fn end_with(
        &mut self,
        turn: &mut Turn<'_>,
        executor: ExecutorId,
        cause: Cause,
        remains: Remains,
    ) {
        let Some(slot) = self.slots.remove(executor, &self.options.deadlines) else { return };
        let cause = match slot.stage() {
            Stage::Leaving(known) if cause.end() != known.end() || cause == Cause::Vanished => {
                known.clone()
            }
            _ => cause,
        };
        let planted = self.options.planted;
        let end = match cause.is_by_platform() && planted.is(Mutant::BlamesApplication) {
            true => Cause::Exited(None).end(),
            false => cause.end(),
        };
        let words = slot.last_words().filter(|_| cause.is_by_application());
        let reason = with_words(&cause.to_string(), words);
        turn.report(ProviderEvent::Ended { executor, end, reason: reason.clone() });
        if slot.is_unexplained() && cause != Cause::Released {
            // The registry has said by now that its connection broke, and hears no reason any more.
            let message = format!("executor {executor}, whose connection broke: {reason}");
            turn.report(ProviderEvent::Warning { message });
        }
        self.told().ended(executor, cause.to_string(), words.map(str::to_owned));
        if remains != Remains::Nothing && cause.is_by_application() {
            self.fetch_log(turn, executor, &slot);
        }
        self.judge(turn, executor, &slot, &cause, &reason);
        match remains {
            Remains::Nothing => self.backoff.freed(turn.now),
            Remains::Ended if self.kept.keeps(&cause, planted) => self.keep(turn, slot),
            Remains::Ended | Remains::Pod => self.bury_slot(turn.now, slot),
        }
    }

    /// What it wrote last says more than how it ended, and may be gone soon.
    fn fetch_log(&self, turn: &mut Turn<'_>, executor: ExecutorId, slot: &Slot) {
        if self.backoff.requests_until() <= turn.now {
            let name = slot.name().clone();
            turn.out.push(AllocatorEffect::FetchLog { executor, name });
        }
    }

    /// What its end means for the application, its node and the next one.
    fn judge(
        &mut self,
        turn: &mut Turn<'_>,
        executor: ExecutorId,
        slot: &Slot,
        cause: &Cause,
        reason: &str,
    ) {
        let registered = slot.registered().is_some();
        let lived = slot.registered().map(|since| turn.now.since_ms(since));
        let is_loss = cause.counts(registered) || cause.is_by_platform();
        if is_loss && lived.is_none_or(|lived| lived < self.options.short_lived_ms) {
            self.backoff.lost(turn.now, executor, &cause.to_string(), self.options.batch_delay_ms);
        }
        if let Some(node) = slot.node()
            && blame(cause.end(), registered) == Blame::Node
            && !self.options.planted.is(Mutant::ForgivesNodes)
        {
            self.nodes.failed(node, turn.now);
        }
        // Where executors work, one that never did speaks against its node and not against the application.
        let by_node = blame(cause.end(), registered) == Blame::Node && self.slots.healthy() > 0;
        let by_application = cause.counts(registered)
            && !by_node
            && !self.options.planted.is(Mutant::ForgivesApplication);
        let blames = self.options.planted.is(Mutant::BlamesApplication) && cause.is_by_platform();
        if by_application || blames {
            self.count_failure(turn, executor, reason);
        }
        let hopeless = matches!(cause, Cause::ImagePull(_) | Cause::BadConfig(_));
        if hopeless && self.never_worked() {
            self.fail(turn, format!("executor {executor} cannot be started: {cause}"));
        }
    }

    pub(super) fn count_failure(
        &mut self,
        turn: &mut Turn<'_>,
        executor: ExecutorId,
        reason: &str,
    ) {
        self.failures.count(turn.now);
        if let Some((failed, limit)) = self.failures.exceeded(turn.now, self.target()) {
            let words = format!(
                "{failed} executors failed, more than the limit of {limit} (spark.executor.maxNumFailures); the last \
                 one was executor {executor}: {reason}"
            );
            self.fail(turn, words);
        }
    }

    fn keep(&mut self, turn: &mut Turn<'_>, slot: Slot) {
        let Some(uid) = slot.uid().cloned() else { return };
        let name = slot.name().clone();
        turn.out.push(AllocatorEffect::KeepPod { name: name.clone(), uid: uid.clone() });
        if let Some((name, uid)) = self.kept.add(name, uid) {
            self.deletions.add_unseen(turn.now, name, uid);
        }
    }
}
