//! The API server: pods, versions, what it remembers, whom it refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firesteel_backend::AppId;
use firesteel_kubernetes_core::allocator::{Change, PodList, PodRequest};
use firesteel_kubernetes_core::api::ApiError;
use firesteel_kubernetes_core::claim::{Claim, ClaimList, Mount};
use firesteel_kubernetes_core::names::pod_name;
use firesteel_kubernetes_core::pod::{Phase, Pod};
use firesteel_kubernetes_core::{ClaimName, Generation, PodName, PodUid, Version, VolumeName};
use firesteel_types::{ExecutorId, Host};

use super::plan::{DRIVER, Obstacle, Plan};

/// One change of one pod.
#[derive(Debug)]
struct Entry {
    version: Version,
    before: Option<Arc<Pod>>,
    after: Option<Arc<Pod>>,
}

/// What it refuses for a while.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    pub(super) down_until: u64,
    pub(super) throttled_until: u64,
    pub(super) denied_until: u64,
    /// No more pods than this, for a while.
    pub(super) quota: Option<u32>,
    pub(super) credentials_expired: bool,
}

#[derive(Debug)]
pub(super) struct Server {
    version: u64,
    pods: BTreeMap<PodName, Arc<Pod>>,
    names: BTreeMap<PodUid, PodName>,
    avoid: BTreeMap<PodUid, BTreeSet<Host>>,
    last_choice: BTreeMap<PodUid, BTreeSet<Host>>,
    /// Claims of volumes, and which driver process asked for them.
    claims: BTreeMap<ClaimName, (VolumeName, Generation)>,
    /// A pod of another application, with a name of this one's.
    stranger: Option<Arc<Pod>>,
    /// A pod of another driver, whose application has the id of this one's.
    sibling: Option<Pod>,
    history: Vec<Entry>,
    /// Changes before this one are forgotten, and all that happened before this version.
    remembered: usize,
    compacted: Version,
    obstacle: Obstacle,
    /// How many pods are allowed at all.
    limit: u32,
    faults: Faults,
}

/// It has the name of this executor's.
fn stranger(executor: u32) -> Pod {
    let name = pod_name("app", ExecutorId(executor));
    Pod {
        name,
        uid: PodUid::new("stranger"),
        version: Version(1),
        app: Some(AppId::new("other")),
        executor: Some(ExecutorId(executor)),
        generation: Some(Generation(0)),
        owner: Some(PodUid::new("other-driver")),
        inactive: false,
        phase: Phase::Running,
        status: None,
        node: None,
        unschedulable: None,
        disruption: None,
        terminating: false,
        containers: Vec::new(),
        claims: Vec::new(),
    }
}

/// It has this executor's number, and is of a first driver process, too.
fn sibling(executor: u32) -> Pod {
    Pod {
        name: pod_name("sibling", ExecutorId(executor)),
        uid: PodUid::new("sibling"),
        app: Some(AppId::new("app")),
        generation: Some(Generation(1)),
        ..stranger(executor)
    }
}

impl Server {
    pub(super) fn new(plan: &Plan) -> Self {
        let limit = match plan.obstacle {
            Obstacle::SmallQuota => plan.target - 1,
            _ => u32::MAX,
        };
        Server {
            version: 1,
            pods: BTreeMap::new(),
            names: BTreeMap::new(),
            avoid: BTreeMap::new(),
            last_choice: BTreeMap::new(),
            claims: BTreeMap::new(),
            stranger: plan.stranger.map(stranger).map(Arc::new),
            sibling: plan.sibling.map(sibling),
            history: Vec::new(),
            remembered: 0,
            compacted: Version(0),
            obstacle: plan.obstacle,
            limit,
            faults: Faults::default(),
        }
    }

    pub(super) fn version(&self) -> Version {
        Version(self.version)
    }

    pub(super) fn faults(&mut self) -> &mut Faults {
        &mut self.faults
    }

    pub(super) fn calm(&mut self) {
        self.faults = Faults::default();
    }

    pub(super) fn get(&self, uid: &PodUid) -> Option<&Arc<Pod>> {
        self.names.get(uid).and_then(|name| self.pods.get(name))
    }

    pub(super) fn by_name(&self, name: &PodName) -> Option<&Arc<Pod>> {
        self.pods.get(name).or(self.stranger.as_ref().filter(|pod| pod.name == *name))
    }

    pub(super) fn is_strangers(&self, uid: &PodUid) -> bool {
        let strangers = self.stranger.as_deref().into_iter().chain(&self.sibling);
        strangers.into_iter().any(|pod| pod.uid == *uid)
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.values()
    }

    /// Pods that take room.
    pub(super) fn live(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.values().filter(|pod| !pod.is_over())
    }

    pub(super) fn may_be_on(&self, uid: &PodUid, node: &Host) -> bool {
        self.avoid.get(uid).is_none_or(|avoid| !avoid.contains(node))
    }

    pub(super) fn is_last_choice(&self, uid: &PodUid, node: &Host) -> bool {
        self.last_choice.get(uid).is_some_and(|nodes| nodes.contains(node))
    }

    /// Changes a pod that exists.
    pub(super) fn change(&mut self, uid: &PodUid, change: impl FnOnce(&mut Pod)) {
        let Some(before) = self.get(uid).cloned() else { return };
        let mut pod = Pod::clone(&before);
        change(&mut pod);
        if pod != *before {
            self.version += 1;
            pod.version = self.version();
            let after = Arc::new(pod);
            self.pods.insert(after.name.clone(), after.clone());
            let version = self.version();
            self.history.push(Entry { version, before: Some(before), after: Some(after) });
        }
    }

    pub(super) fn remove(&mut self, uid: &PodUid) {
        let Some(name) = self.names.remove(uid) else { return };
        if let Some(before) = self.pods.remove(&name) {
            self.version += 1;
            let version = self.version();
            self.history.push(Entry { version, before: Some(before), after: None });
        }
    }

    /// Why a request is refused at this moment, if it is.
    pub(super) fn refusal(&self, now: u64) -> Option<ApiError> {
        let Faults { down_until, throttled_until, credentials_expired, .. } = self.faults;
        if now < down_until {
            return Some(match now % 2 {
                0 => ApiError::Unreachable("connection refused".to_owned()),
                _ => ApiError::Unavailable("etcdserver: no leader".to_owned()),
            });
        }
        if now < throttled_until {
            let (retry_after_ms, message) = (Some(throttled_until - now), "too many".to_owned());
            return Some(ApiError::Throttled { retry_after_ms, message });
        }
        credentials_expired.then(|| ApiError::Unauthorized("Unauthorized".to_owned()))
    }

    /// Why a pod is not created, if that is so.
    pub(super) fn refuses_pod(&self, now: u64) -> Option<ApiError> {
        let words = self.obstacle.words().to_owned();
        match self.obstacle {
            Obstacle::NoRight => return Some(ApiError::Forbidden(words)),
            Obstacle::InvalidPod => return Some(ApiError::Invalid(words)),
            _ => {}
        }
        if now < self.faults.denied_until {
            return Some(ApiError::Denied("denied the request".to_owned()));
        }
        let limit = self.limit.min(self.faults.quota.unwrap_or(u32::MAX));
        let full = self.live().count() >= limit as usize;
        full.then(|| ApiError::Quota("exceeded quota: few".to_owned()))
    }

    /// How many pods it allows at all.
    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    pub(super) fn create(&mut self, request: &PodRequest) -> Arc<Pod> {
        self.version += 1;
        let relabels = self.obstacle == Obstacle::Relabels;
        let pod = Arc::new(Pod {
            name: request.name.clone(),
            uid: PodUid::new(&format!("u{}", self.version)),
            version: self.version(),
            app: Some(AppId::new("app")),
            executor: Some(request.executor).filter(|_| !relabels),
            generation: Some(request.generation).filter(|_| !relabels),
            owner: Some(PodUid::new(DRIVER)),
            inactive: false,
            phase: Phase::Pending,
            status: None,
            node: None,
            unschedulable: None,
            disruption: None,
            terminating: false,
            containers: Vec::new(),
            claims: request.mounts.iter().map(|mount| mount.claim.clone()).collect(),
        });
        self.names.insert(pod.uid.clone(), pod.name.clone());
        self.avoid.insert(pod.uid.clone(), request.avoid.clone());
        self.last_choice.insert(pod.uid.clone(), request.last_choice.clone());
        self.pods.insert(pod.name.clone(), pod.clone());
        let version = self.version();
        self.history.push(Entry { version, before: None, after: Some(pod.clone()) });
        pod
    }

    /// Creates the claim of a new pod, if it is not there. True if it was not.
    pub(super) fn create_claim(&mut self, mount: &Mount, by: Generation) -> bool {
        if self.claims.contains_key(&mount.claim) {
            return false;
        }
        self.version += 1;
        self.claims.insert(mount.claim.clone(), (mount.volume.clone(), by));
        true
    }

    /// True if it was there.
    pub(super) fn delete_claim(&mut self, name: &ClaimName) -> bool {
        self.version += 1;
        self.claims.remove(name).is_some()
    }

    /// Those that this driver process asked for.
    pub(super) fn claims_of(&self, generation: Generation) -> impl Iterator<Item = &ClaimName> {
        let own = self.claims.iter().filter(move |(_, (_, by))| *by == generation);
        own.map(|(name, _)| name)
    }

    /// All claims, as they are now.
    pub(super) fn list_claims(&self) -> ClaimList {
        let claims = self.claims.iter().map(|(name, (volume, _))| Claim {
            name: name.clone(),
            volume: volume.clone(),
            unusable: false,
        });
        ClaimList { version: self.version(), claims: claims.collect() }
    }

    /// A pod of the same driver process that is not over and mounts one of these.
    pub(super) fn mounting(&self, request: &PodRequest) -> Option<&Arc<Pod>> {
        let shares = |pod: &&Arc<Pod>| {
            let own = pod.generation == Some(request.generation) && pod.name != request.name;
            own && request.mounts.iter().any(|mount| pod.claims.contains(&mount.claim))
        };
        self.live().find(shares)
    }

    /// All pods that are not inactive, as they were so many changes ago.
    pub(super) fn list(&self, changes_ago: usize) -> PodList {
        let mut pods = self.pods.clone();
        let mut version = self.version();
        for entry in self.history.iter().rev().take(changes_ago) {
            let name = entry.after.as_ref().or(entry.before.as_ref()).map(|pod| pod.name.clone());
            match (name, &entry.before) {
                (Some(name), Some(before)) => drop(pods.insert(name, before.clone())),
                (Some(name), None) => drop(pods.remove(&name)),
                (None, _) => {}
            }
            version = Version(entry.version.0 - 1);
        }
        let pods = pods.values().filter(|pod| !pod.inactive).map(|pod| Pod::clone(pod));
        let sibling = self.sibling.clone().map(|pod| Pod { version, ..pod });
        PodList { version, pods: pods.chain(sibling).collect() }
    }

    /// Where a watch from this version on begins in the history; `None` if that is forgotten.
    pub(super) fn position_after(&self, from: Version) -> Option<usize> {
        let position = self.history.partition_point(|entry| entry.version <= from);
        (position >= self.remembered && from >= self.compacted).then_some(position)
    }

    /// It forgets what happened until now, also to what is not a pod.
    pub(super) fn compact(&mut self) {
        self.version += 10;
        self.compacted = self.version();
        self.remembered = self.history.len();
    }

    pub(super) fn forgot(&self, position: usize) -> bool {
        position < self.remembered
    }

    /// What a watch says about the change at this position; `None` if it is not about those that are watched.
    pub(super) fn change_at(&self, position: usize) -> Option<Option<Change>> {
        let entry = self.history.get(position)?;
        let was_inactive = entry.before.as_ref().is_some_and(|pod| pod.inactive);
        Some(match (&entry.after, &entry.before) {
            _ if was_inactive => None,
            // Out of what is selected.
            (Some(after), _) if after.inactive => Some(Change::Deleted(Pod::clone(after))),
            (Some(after), _) => Some(Change::Applied(Pod::clone(after))),
            (None, Some(before)) => {
                let gone = Pod { version: entry.version, ..Pod::clone(before) };
                Some(Change::Deleted(gone))
            }
            (None, None) => None,
        })
    }
}
