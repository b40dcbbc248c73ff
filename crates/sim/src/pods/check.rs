//! The invariants, by id, and what the world knows better than driver and API server.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use firesteel_backend::blame::End;
use firesteel_backend::provider::{ProviderCommand, ProviderEvent};
use firesteel_kubernetes_core::allocator::{AllocatorEvent, Change, PodRequest};
use firesteel_kubernetes_core::options::Keep;
use firesteel_kubernetes_core::pod::Pod;
use firesteel_kubernetes_core::{Generation, PodName, PodUid};
use firesteel_types::ExecutorId;

use super::processes::Process;
use super::requests::Request;
use super::{Event, Executors, Part, World};

/// What really happened to a pod.
#[derive(Clone, Copy, Debug, Default)]
struct Truth {
    by_app: bool,
    by_platform: bool,
    /// Its node was lost for a while: who ended it depends on who looked first.
    unsure: bool,
}

/// What the driver process asked for and said, and what really happened.
#[derive(Debug, Default)]
pub(super) struct Book {
    asked: Executors,
    ended: Executors,
    /// Of these, those that are said to have ended by themselves.
    exited: Executors,
    leaving: Executors,
    cut_off: Executors,
    /// Those that had ended by themselves when the registry waited no longer for why: their pods tell.
    unexplained: Executors,
    /// Those of whose pods the allocator has heard anything: of others it cannot ask for what they tell.
    heard_of: Executors,
    started: Executors,
    registered: Executors,
    released: Executors,
    /// When pods were asked for, for the first time.
    rounds: VecDeque<u64>,
    target: u32,
    /// No request before this moment.
    not_before: u64,
    truth: BTreeMap<PodUid, Truth>,
    uids: BTreeMap<ExecutorId, PodUid>,
    /// The pods that names stood for first.
    names: BTreeMap<PodName, (Generation, PodUid)>,
    kept: Vec<PodUid>,
    /// When executors were said to have ended on a node on which none starts.
    bad_ends: Vec<u64>,
    /// When a pod found no node, last.
    crowded: u64,
    /// Executors that failed under this driver process, at most.
    failures: u32,
}

impl Book {
    pub(super) fn driver_started(&mut self) {
        let (truth, uids) = (std::mem::take(&mut self.truth), std::mem::take(&mut self.uids));
        let (names, kept) = (std::mem::take(&mut self.names), std::mem::take(&mut self.kept));
        *self = Book { truth, uids, names, kept, ..Book::default() };
    }

    pub(super) fn created(&mut self, executor: ExecutorId, pod: &Pod) {
        self.uids.insert(executor, pod.uid.clone());
        let Some(generation) = pod.generation else { return };
        let Some((first, uid)) = self.names.get(&pod.name) else {
            self.names.insert(pod.name.clone(), (generation, pod.uid.clone()));
            return;
        };
        let own = *first == generation;
        assert!(own, "S05: {} was the pod of a process before", pod.name);
        // The first one is gone, and a request for it came late: whose end is told is not sure.
        for uid in [uid, &pod.uid] {
            self.truth.entry(uid.clone()).or_default().unsure = true;
        }
    }

    /// Its name is another application's: it is asked for no more.
    pub(super) fn name_taken(&mut self, executor: ExecutorId) {
        self.ended.insert(executor);
    }

    pub(super) fn failed_by_app(&mut self, uid: &PodUid) {
        self.failures += 1;
        self.truth.entry(uid.clone()).or_default().by_app = true;
    }

    pub(super) fn ended_by_platform(&mut self, uid: &PodUid) {
        self.truth.entry(uid.clone()).or_default().by_platform = true;
    }

    pub(super) fn node_lost<'a>(&mut self, pods: impl Iterator<Item = &'a Arc<Pod>>) {
        pods.for_each(|pod| self.truth.entry(pod.uid.clone()).or_default().unsure = true);
    }

    pub(super) fn kept(&mut self, uid: &PodUid) {
        self.kept.push(uid.clone());
    }

    pub(super) fn found_no_node(&mut self, now: u64) {
        self.crowded = now;
    }

    pub(super) fn wait_until(&mut self, at: u64) {
        self.not_before = self.not_before.max(at);
    }

    /// The allocator is about to hear this.
    pub(super) fn hears(&mut self, event: &AllocatorEvent) {
        match event {
            AllocatorEvent::Created { executor, answer: Ok(_), .. } => {
                self.heard_of.insert(*executor);
            }
            AllocatorEvent::Listed { answer: Ok(list), .. } => {
                list.pods.iter().for_each(|pod| self.hears_of(pod));
            }
            AllocatorEvent::Watched { change, .. } => match &**change {
                Change::Applied(pod) | Change::Deleted(pod) => self.hears_of(pod),
                Change::Bookmark(_) => {}
            },
            _ => {}
        }
    }

    /// There may be others of the same number.
    fn hears_of(&mut self, pod: &Pod) {
        let own = |executor: &ExecutorId| self.uids.get(executor) == Some(&pod.uid);
        self.heard_of.extend(pod.executor.filter(own));
    }

    /// The same of a command.
    pub(super) fn commanded(&mut self, command: &ProviderCommand) {
        match command {
            ProviderCommand::SetTarget(target) => self.target = *target,
            ProviderCommand::Registered(executor) => drop(self.registered.insert(*executor)),
            ProviderCommand::Release(executors) => {
                for executor in executors {
                    let Truth { by_app, by_platform, unsure } = self.truth_of(*executor);
                    let worked = self.registered.contains(executor);
                    let lost = worked && self.cut_off.contains(executor);
                    let alone = by_app && !by_platform && !unsure;
                    if lost && alone && self.heard_of.contains(executor) {
                        self.unexplained.insert(*executor);
                    }
                }
                self.released.extend(executors);
            }
            ProviderCommand::Stop => self.released.extend(self.asked.iter()),
            ProviderCommand::Disconnected(executor) => {
                self.leaving.insert(*executor);
                self.cut_off.insert(*executor);
            }
            ProviderCommand::NodesExcluded(_)
            | ProviderCommand::Named(_)
            | ProviderCommand::Silent(_) => {}
        }
    }

    fn outstanding(&self) -> impl Iterator<Item = &ExecutorId> {
        self.asked.iter().filter(|id| !self.ended.contains(id) && !self.leaving.contains(id))
    }

    fn truth_of(&self, executor: ExecutorId) -> Truth {
        let truth = self.uids.get(&executor).and_then(|uid| self.truth.get(uid));
        truth.copied().unwrap_or_default()
    }
}

impl World {
    /// Before a request leaves.
    pub(super) fn check_request(&mut self, request: &Request) -> Result<(), String> {
        let keeps = matches!(request, Request::Keep(_));
        if self.now < self.book.not_before && !keeps {
            let wait = self.book.not_before - self.now;
            return Err(format!("S34: {request:?} though the server asked to wait {wait} ms more"));
        }
        match request {
            Request::Create(request) => self.check_create(request),
            Request::Delete { uid, .. } => self.check_delete(uid),
            _ => Ok(()),
        }
    }

    fn check_create(&mut self, request: &PodRequest) -> Result<(), String> {
        self.check_avoids(request)?;
        if !self.book.asked.insert(request.executor) {
            return Ok(());
        }
        let (target, batch) = (self.book.target, self.plan.batch_size);
        let outstanding = self.book.outstanding().count() as u32;
        if outstanding > target + batch {
            return Err(format!(
                "S14: {outstanding} pods are asked for, {target} wanted, {batch} in a batch"
            ));
        }
        let (now, delay) = (self.now, self.plan.batch_delay_ms);
        let book = &mut self.book;
        book.rounds.push_back(now);
        book.rounds.retain(|at| at + delay > now);
        if book.rounds.len() as u32 > batch {
            let asked = book.rounds.len();
            return Err(format!(
                "S31: {asked} pods are asked for within {delay} ms, more than {batch}"
            ));
        }
        let runs = |id: &&ExecutorId| !book.started.contains(id) && !book.registered.contains(id);
        let pending = book.outstanding().filter(runs).count() as u32;
        if pending > self.plan.max_pending {
            return Err(format!(
                "S31: {pending} pods are pending, more than {}",
                self.plan.max_pending
            ));
        }
        Ok(())
    }

    /// S39: a claim is mounted by one pod of a driver process at a time.
    pub(super) fn check_mounts(&self, request: &PodRequest) -> Result<(), String> {
        match self.server.mounting(request) {
            Some(pod) => Err(format!("S39: {} mounts a claim of {}", request.name, pod.name)),
            None => Ok(()),
        }
    }

    /// S35: a node on which no executor starts gets none for a while, unless there is no other.
    fn check_avoids(&self, request: &PodRequest) -> Result<(), String> {
        let Some(bad) = self.nodes.iter().find(|node| node.bad) else { return Ok(()) };
        // Among four there are two that the allocator has counted as two in a row, whatever came before them.
        let lately = self.book.bad_ends.iter().filter(|at| **at + 2500 > self.now).count();
        let for_now = lately >= 4 && self.book.crowded + 4000 < self.now;
        match for_now && !request.avoid.contains(&bad.name) {
            true => Err(format!("S35: {} may be placed on {} again", request.name, bad.name)),
            false => Ok(()),
        }
    }

    fn check_delete(&self, uid: &PodUid) -> Result<(), String> {
        if self.server.is_strangers(uid) {
            return Err(format!("S38: {uid} is another application's, and is deleted"));
        }
        let Some(pod) = self.server.get(uid) else { return Ok(()) };
        let truth = self.book.truth.get(uid).copied().unwrap_or_default();
        let process = self.processes.get(uid);
        let works = process.is_some_and(|process| process.is_working(self.generation));
        let Some(executor) = pod.executor else { return Ok(()) };
        let untouched = !truth.by_app && !truth.by_platform && !truth.unsure && !pod.terminating;
        let wanted =
            self.book.registered.contains(&executor) && !self.book.released.contains(&executor);
        let own = pod.generation.is_some_and(|of| of.0 == self.generation);
        if works && untouched && wanted && own {
            return Err(format!("S32: executor {executor} works, and its pod is deleted"));
        }
        let limit = match self.plan.keep {
            Keep::None => 0,
            Keep::Failures(limit) | Keep::All(limit) => limit,
        };
        let failed = truth.by_app && !truth.by_platform && !truth.unsure && pod.is_over();
        let told = failed && self.book.exited.contains(&executor);
        if told && limit > 0 && self.book.kept.len() <= limit && self.part != Part::Ending {
            return Err(format!("S33: executor {executor} failed, and its pod is not kept"));
        }
        Ok(())
    }

    /// What the allocator says to the registry.
    pub(super) fn check_report(&mut self, event: &ProviderEvent) -> Result<(), String> {
        match event {
            ProviderEvent::Started { executor, .. } => drop(self.book.started.insert(*executor)),
            ProviderEvent::Decommissioning { executor, .. } => {
                self.counters.executors_decommissioned += 1;
                self.book.leaving.insert(*executor);
            }
            ProviderEvent::Ended { executor, end, reason } => {
                self.book.ended.insert(*executor);
                if matches!(end, End::Exited(_)) {
                    self.book.exited.insert(*executor);
                    let uid = self.book.uids.get(executor);
                    let process = uid.and_then(|uid| self.processes.get(uid));
                    if process.is_some_and(|process| self.nodes[process.node].bad) {
                        self.book.bad_ends.push(self.now);
                    }
                }
                self.counters.previous_pods += u64::from(!self.book.asked.contains(executor));
                self.book.failures +=
                    u32::from(matches!(end, End::LaunchFailed | End::NeverRegistered));
                return self.check_blame(*executor, *end, reason);
            }
            _ => {}
        }
        Ok(())
    }

    /// S12: what the platform did is not said to be the application's doing, nor the other way round.
    fn check_blame(&self, executor: ExecutorId, end: End, reason: &str) -> Result<(), String> {
        let Truth { by_app, by_platform, unsure } = self.book.truth_of(executor);
        let exited = matches!(end, End::Exited(_));
        // A list that is out of date shows a process that is over.
        let owed = self.book.unexplained.contains(&executor) && self.plan.stale == 0;
        if owed && end == End::Told && !by_platform && !unsure {
            return Err(format!(
                "S33: executor {executor} had ended by itself, and it is said: {reason}"
            ));
        }
        if exited && by_platform && !by_app && !unsure {
            return Err(format!(
                "S12: the platform ended executor {executor}, and it is said: {reason}"
            ));
        }
        if end == End::NodeLost && by_app && !by_platform && !unsure {
            return Err(format!(
                "S12: executor {executor} ended by itself, and it is said: {reason}"
            ));
        }
        Ok(())
    }

    /// S17: an allocator that is over has left nothing, and nothing can come.
    pub(super) fn check_finish(&self, of: u64) -> Result<(), String> {
        let creates = |event: &Event| matches!(event, Event::RequestArrives(by, Request::Create(_), _) if *by == of);
        if self.queue.values().any(creates) {
            return Err(
                "L03: the application is over, and a request may yet create a pod".to_owned()
            );
        }
        // One that a process before asked for late goes with the driver's pod.
        if let Some(claim) = self.server.claims_of(Generation(of)).next() {
            return Err(format!("L03: the application is over, and the claim {claim} is there"));
        }
        match self.server.live().next() {
            Some(pod) => Err(format!("L03: the application is over, and {} is there", pod.name)),
            None => Ok(()),
        }
    }

    pub(super) fn app_is_over(&self) -> bool {
        self.driver.as_ref().is_some_and(|driver| driver.registry.is_over())
    }

    /// L02: an application ends for a reason that is one, and says it.
    pub(super) fn check_failure(&self) -> Result<(), String> {
        let failed =
            self.driver.as_ref().and_then(|driver| driver.failed.clone()).unwrap_or_default();
        let (obstacle, limit) = (self.plan.obstacle, self.plan.failure_limit(self.target));
        if obstacle.is_fatal() && failed.contains(obstacle.words()) {
            return Ok(());
        }
        // The limit follows the target, which may have been lower.
        let least = self.plan.max_failures.unwrap_or(3).min(limit);
        if self.book.failures > least && failed.contains("spark.executor.maxNumFailures") {
            return Ok(());
        }
        // An image that could not be pulled in time is a reason, too.
        if self.counters.image_errors > 0 && failed.contains("registry is down") {
            return Ok(());
        }
        let failures = self.book.failures;
        Err(format!(
            "L02: with {obstacle:?} and {failures} failures the application ended: {failed}"
        ))
    }

    /// How many executors there can be.
    fn expected(&self) -> usize {
        let slots = self.nodes.iter().filter(|node| !node.bad).map(|node| node.slots).sum::<u32>();
        self.target.min(self.server.limit()).min(slots) as usize
    }

    /// Whether the executor in this pod works for the driver process that there is.
    pub(super) fn works(&self, uid: &PodUid) -> bool {
        let process = self.processes.get(uid);
        process.is_some_and(|process| {
            process.is_working(self.generation) && self.nodes[process.node].reachable
        })
    }

    /// What is not as it is to be, if something is not (L01).
    pub(super) fn not_settled(&self) -> Option<String> {
        let Some(driver) = &self.driver else { return Some("there is no driver".to_owned()) };
        if self.plan.obstacle.is_fatal() && self.target > 0 {
            return Some(format!("{:?} has not ended the application", self.plan.obstacle));
        }
        let there: Executors = driver.registry.executors().collect();
        let expected = self.expected();
        // Executors that work are not ended when fewer are wanted.
        if there.len() < expected || there.len() > expected && there.len() <= self.target as usize {
            return Some(format!("{} executors are there, and not {expected}", there.len()));
        }
        let working = self.processes.keys().filter(|uid| self.works(uid));
        let working = working.filter_map(|uid| self.processes.get(uid)?.executor);
        let working: Executors = working.collect();
        if working != there {
            return Some(format!("{there:?} are counted on, and {working:?} work"));
        }
        self.pods_differ(&there)
    }

    /// What is missing of the executors that there can be, whatever else is left (L23).
    pub(super) fn lacking(&self) -> Option<String> {
        let there: Executors = self.driver.as_ref()?.registry.executors().collect();
        let working = self.processes.keys().filter(|uid| self.works(uid));
        let working: Executors =
            working.filter_map(|uid| self.processes.get(uid)?.executor).collect();
        let (count, expected) = (there.intersection(&working).count(), self.expected());
        (count < expected).then(|| format!("{count} executors work, and not {expected}"))
    }

    fn pods_differ(&self, there: &Executors) -> Option<String> {
        let driver = self.driver.as_ref()?;
        let short = there.len() < self.target as usize;
        let coming = |pod: &Pod| short && pod.generation.is_some_and(|of| of.0 == self.generation);
        let stray = self.server.live().find(|pod| {
            let known = pod.executor.is_some_and(|executor| there.contains(&executor));
            !known && !coming(pod) || pod.terminating
        });
        if let Some(pod) = stray {
            return Some(format!("{} is there, and nobody wants it", pod.name));
        }
        let (deletes, healthy) = (driver.allocator.to_delete(), driver.allocator.healthy());
        if deletes > 0 || healthy as usize != there.len() {
            return Some(format!(
                "the allocator deletes {deletes} pods and counts on {healthy} executors"
            ));
        }
        let (told, words) = (driver.registry.shortage(), self.plan.obstacle.words());
        match short {
            true if !told.is_some_and(|told| told.contains(words)) => {
                Some(format!("L22: executors are missing, and the user heard {told:?}"))
            }
            false if told.is_some() => {
                Some(format!("L22: no executor is missing, and the user heard {told:?}"))
            }
            _ => None,
        }
    }

    /// What is left of an application that is over (L03).
    pub(super) fn nothing_is_left(&self) -> Option<String> {
        let finished = self.driver.as_ref().is_none_or(|driver| driver.allocator.is_over());
        if !finished {
            return Some("the application does not come to its end".to_owned());
        }
        // Nobody ends what runs on a node without a kubelet.
        let runs = |process: &Process| process.alive && self.nodes[process.node].kubelet;
        if let Some((uid, _)) = self.processes.iter().find(|(_, process)| runs(process)) {
            return Some(format!("the process of {uid} runs"));
        }
        let kept = |pod: &Pod| pod.inactive || self.book.kept.contains(&pod.uid);
        let left = self.server.pods().find(|pod| !kept(pod));
        left.map(|pod| format!("{} is left", pod.name))
    }
}
