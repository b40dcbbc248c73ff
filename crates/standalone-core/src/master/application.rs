//! One application that is not over: how its driver is reached, what it may have, and its executors.
//!
//! Invariants: what it was granted are the cores of its executors (S01), and none of them has a number that another
//! one had (S05).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firesteel_backend::provider::Preparing;
use firesteel_backend::{AppId, Peer};
use firesteel_types::{ExecutorId, Host, Tick};

use super::launches::Launches;
use super::placement::Demand;
use super::records::{ApplicationRecord, ExecutorRecord};
use super::recovery::after;
use super::state::ApplicationState;
use super::view::{ApplicationView, ExecutorView};
use super::worker_table::UNREACHED;
use crate::description::{ApplicationDescription, ExecutorState};
use crate::{ExecutorKey, Incarnation, WorkerId};

/// So many hosts an application may exclude.
const EXCLUDED_AT_MOST: usize = 10_000;

/// So many executors that are over are remembered.
const DROPPED_AT_MOST: usize = 1024;

/// An executor that its application counts on. Only its application changes it.
#[derive(Clone, Debug)]
pub(super) struct Executor {
    pub(super) worker: WorkerId,
    pub(super) cores: u32,
    pub(super) memory_mb: u64,
    pub(super) state: ExecutorState,
    pub(super) ordered: Tick,
    /// A master before this one ordered it: its driver may have counted on it before this one heard of it.
    pub(super) inherited: bool,
    /// Since when its driver counts on it.
    pub(super) registered: Option<Tick>,
    /// How far its worker is with what it needs, and when that was last further than before.
    pub(super) preparing: Option<(Preparing, Tick)>,
}

impl Executor {
    fn of(record: ExecutorRecord, state: ExecutorState, now: Tick, inherited: bool) -> Self {
        let ExecutorRecord { worker, cores, memory_mb, .. } = record;
        let (ordered, registered, preparing) = (now, None, None);
        Executor { worker, cores, memory_mb, state, ordered, inherited, registered, preparing }
    }

    /// Whether its worker was fetching what it needs, and bytes came not longer ago than this.
    pub(super) fn was_preparing(&self, now: Tick, patience_ms: u64) -> bool {
        self.preparing.is_some_and(|(preparing, since)| {
            preparing.is_under_way() && now.since_ms(since) <= patience_ms
        })
    }
}

/// What an application lacks of what it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// It has no executor.
    All,
    Executors {
        missing: u32,
        of: u32,
    },
    /// Its executors are as large as workers have room, and it has too few cores.
    Cores {
        missing: u32,
        of: u32,
    },
}

/// An application that is not over.
#[derive(Debug)]
pub(super) struct Application {
    /// Without its limit and its executors, which are below.
    record: ApplicationRecord,
    /// Its driver has not answered since this master leads.
    unknown: bool,
    peer: Peer,
    last_seen: Tick,
    /// Since when its connection is broken.
    disconnected: Option<Tick>,
    /// It was broken when this master looked last.
    missed: bool,
    limit: Option<u32>,
    executors: BTreeMap<ExecutorId, Executor>,
    /// Those that its driver counts on and of which no worker has told yet. Until then it gets no others.
    claimed: BTreeSet<ExecutorId>,
    /// Those that were adopted, or could have been, and are over.
    dropped: BTreeSet<ExecutorId>,
    cores_granted: u32,
    /// Those on decommissioned workers, and their cores: it may have others in their place.
    decommissioned: (u32, u32),
    launches: Launches,
    /// How many of its executors have ever registered with its driver, as far as that told.
    registrations: u64,
    /// Hosts on which it wants no more executors.
    excluded: BTreeSet<Host>,
    /// Since when executors are missing, or when that was said last.
    missing_since: Option<Tick>,
    /// What its driver was told is missing; `None`: nothing.
    told_missing: Option<Missing>,
}

impl Application {
    pub(super) fn new(record: ApplicationRecord, peer: Peer, now: Tick) -> Self {
        Application {
            limit: record.limit,
            record,
            unknown: false,
            peer,
            last_seen: now,
            disconnected: None,
            missed: false,
            executors: BTreeMap::new(),
            claimed: BTreeSet::new(),
            dropped: BTreeSet::new(),
            cores_granted: 0,
            decommissioned: (0, 0),
            launches: Launches::default(),
            registrations: 0,
            excluded: BTreeSet::new(),
            missing_since: None,
            told_missing: None,
        }
    }

    /// As it was persisted. It is to answer.
    pub(super) fn restored(
        record: ApplicationRecord,
        executors: Vec<ExecutorRecord>,
        now: Tick,
    ) -> Self {
        let mut app = Application::new(record, UNREACHED, now);
        app.unknown = true;
        executors.into_iter().for_each(|record| {
            let id = record.executor;
            app.insert(id, Executor::of(record, ExecutorState::Launching, now, true));
        });
        app
    }

    pub(super) fn is_unknown(&self) -> bool {
        self.unknown
    }

    /// Its driver registers again, with what was not persisted: secrets.
    pub(super) fn renew(&mut self, description: Arc<ApplicationDescription>) {
        self.record.description = description;
    }

    pub(super) fn id(&self) -> &AppId {
        &self.record.app
    }

    pub(super) fn key(&self, executor: ExecutorId) -> ExecutorKey {
        ExecutorKey { app: self.record.app.clone(), executor }
    }

    /// All that is persisted of it.
    pub(super) fn record(&self) -> ApplicationRecord {
        let executors = self.executors.iter().map(|(id, executor)| ExecutorRecord {
            executor: *id,
            worker: executor.worker.clone(),
            cores: executor.cores,
            memory_mb: executor.memory_mb,
        });
        let executors = executors.collect();
        ApplicationRecord { limit: self.limit, executors, ..self.record.clone() }
    }

    pub(super) fn incarnation(&self) -> Incarnation {
        self.record.incarnation
    }

    pub(super) fn description(&self) -> &Arc<ApplicationDescription> {
        &self.record.description
    }

    pub(super) fn order(&self) -> u64 {
        self.record.order
    }

    pub(super) fn peer(&self) -> Peer {
        self.peer
    }

    /// A message of the driver came over this connection. True if its connection was broken.
    pub(super) fn heard(&mut self, now: Tick, from: Peer) -> bool {
        (self.peer, self.last_seen) = (from, now);
        self.missed = false;
        let was_unknown = std::mem::take(&mut self.unknown);
        self.disconnected.take().is_some() || was_unknown
    }

    /// A connection is broken: its driver's, perhaps.
    pub(super) fn peer_disconnected(&mut self, now: Tick, peer: Peer) {
        if self.peer == peer {
            self.disconnected.get_or_insert(now);
        }
    }

    pub(super) fn is_disconnected(&self) -> bool {
        self.disconnected.is_some()
    }

    /// Whether its driver was not heard for longer than that.
    pub(super) fn is_silent(&self, now: Tick, timeout_ms: u64) -> bool {
        now.since_ms(self.last_seen) > timeout_ms
    }

    /// Whether its connection has been broken for so long, and was at the look before this one: what came while this process
    /// stood still is read between the two.
    pub(super) fn is_cut_off(&mut self, now: Tick, grace_ms: u64) -> bool {
        let was_missed = std::mem::replace(&mut self.missed, self.disconnected.is_some());
        was_missed && self.disconnected.is_some_and(|since| now.since_ms(since) >= grace_ms)
    }

    /// How many executors it wants at most. True if that is new.
    pub(super) fn set_limit(&mut self, limit: Option<u32>) -> bool {
        std::mem::replace(&mut self.limit, limit) != limit
    }

    /// Where it wants no more executors. True if that is new.
    pub(super) fn set_excluded(&mut self, hosts: Vec<Host>) -> bool {
        let excluded = hosts.into_iter().take(EXCLUDED_AT_MOST).collect();
        let changed = self.excluded != excluded;
        self.excluded = excluded;
        changed
    }

    pub(super) fn excludes(&self, host: &Host) -> bool {
        self.excluded.contains(host)
    }

    /// What it lacks up to its limits; `None` if that is nothing.
    pub(super) fn demand(&self, default_cores: Option<u32>) -> Option<Demand> {
        let description = &self.record.description;
        let cores = description.max_cores.or(default_cores).unwrap_or(u32::MAX);
        let (leaving, leaving_cores) = self.decommissioned;
        let has = self.executors.len() as u32 - leaving;
        let demand = Demand {
            cores: cores.saturating_sub(self.cores_granted - leaving_cores),
            cores_per_executor: description.cores_per_executor,
            memory_mb: description.memory_per_executor_mb,
            executors: self.limit.map_or(u32::MAX, |all| all.saturating_sub(has)),
        };
        (demand.cores > 0 && demand.executors > 0).then_some(demand)
    }

    /// What it lacks of what it asked for. One that takes as much as there is lacks nothing once it has an executor.
    pub(super) fn missing(&self, default_cores: Option<u32>) -> Option<Missing> {
        let demand = self.demand(default_cores)?;
        if self.executors.is_empty() {
            return Some(Missing::All);
        }
        let has = self.executors.len() as u32 - self.decommissioned.0;
        let each = self.record.description.cores_per_executor;
        let missing = demand.executors.min(demand.cores / each.unwrap_or(1).max(1));
        let asked_for = (self.limit, self.record.description.max_cores);
        match asked_for {
            (None, None) => None,
            _ if missing == 0 => None,
            (None, Some(of)) if each.is_none() => {
                Some(Missing::Cores { missing: demand.cores, of })
            }
            _ => Some(Missing::Executors { missing, of: has.saturating_add(missing) }),
        }
    }

    /// Notes whether it lacks anything. What its driver is to hear at once, if it is: that nothing is missing any more, or what is left
    /// when the first executor came.
    pub(super) fn note_missing(
        &mut self,
        now: Tick,
        default_cores: Option<u32>,
    ) -> Option<Option<Missing>> {
        let missing = self.missing(default_cores);
        let since = self.missing_since.unwrap_or(now);
        self.missing_since = missing.map(|_| since);
        let told = self.told_missing?;
        let has_some = told == Missing::All && missing != Some(Missing::All);
        (missing.is_none() || has_some).then(|| {
            self.told_missing = missing;
            missing
        })
    }

    /// What it has lacked for so long without a break, if it is to be said: once, and again after as long.
    pub(super) fn starves(
        &mut self,
        now: Tick,
        patience_ms: u64,
        default_cores: Option<u32>,
    ) -> Option<Missing> {
        self.missing_since.filter(|since| now.since_ms(*since) >= patience_ms)?;
        let missing = self.missing(default_cores)?;
        self.missing_since = Some(now);
        self.told_missing = Some(missing);
        Some(missing)
    }

    pub(super) fn executors(&self) -> impl ExactSizeIterator<Item = (ExecutorId, &Executor)> {
        self.executors.iter().map(|(id, executor)| (*id, executor))
    }

    pub(super) fn executor(&self, id: ExecutorId) -> Option<&Executor> {
        self.executors.get(&id)
    }

    /// The executor, if this worker has it.
    pub(super) fn executor_on(&self, worker: &WorkerId, id: ExecutorId) -> Option<&Executor> {
        self.executors.get(&id).filter(|executor| executor.worker == *worker)
    }

    /// Whether its driver counts on one of its executors.
    pub(super) fn works(&self) -> bool {
        self.executors.values().any(|executor| executor.registered.is_some())
    }

    /// Gives it one more executor.
    pub(super) fn add(&mut self, worker: WorkerId, cores: u32, now: Tick) -> ExecutorId {
        let id = self.record.next_executor;
        let memory_mb = self.record.description.memory_per_executor_mb;
        let record = ExecutorRecord { executor: id, worker, cores, memory_mb };
        self.insert(id, Executor::of(record, ExecutorState::Launching, now, false));
        id
    }

    fn insert(&mut self, id: ExecutorId, executor: Executor) {
        self.record.next_executor = self.record.next_executor.max(after(id));
        self.cores_granted += executor.cores;
        let before = self.executors.insert(id, executor);
        assert!(before.is_none(), "S05: executor {id} of {} is given out twice", self.record.app);
    }

    /// Whether an executor that it does not count on may be one of its own, ordered by a master before this one.
    pub(super) fn may_adopt(&self, id: ExecutorId) -> bool {
        !self.executors.contains_key(&id) && !self.dropped.contains(&id)
    }

    /// Its driver does not want it, if a worker tells of it.
    pub(super) fn will_not_adopt(&mut self, id: ExecutorId) {
        self.claimed.remove(&id);
        self.dropped.insert(id);
        if self.dropped.len() > DROPPED_AT_MOST {
            self.dropped.pop_first();
        }
    }

    /// Counts on an executor that was ordered by a master before this one. True if its driver has not told of it.
    pub(super) fn adopt(
        &mut self,
        record: ExecutorRecord,
        state: ExecutorState,
        now: Tick,
    ) -> bool {
        let id = record.executor;
        self.insert(id, Executor::of(record, state, now, true));
        !self.claimed.remove(&id)
    }

    /// Its driver counts on these; no worker has told of them yet.
    pub(super) fn claim(&mut self, executors: impl IntoIterator<Item = ExecutorId>) {
        self.claimed = executors.into_iter().filter(|id| self.may_adopt(*id)).collect();
    }

    pub(super) fn has_claims(&self) -> bool {
        !self.claimed.is_empty()
    }

    pub(super) fn remove(&mut self, executor: ExecutorId) -> Option<Executor> {
        let removed = self.executors.remove(&executor)?;
        self.will_not_adopt(executor);
        self.cores_granted -= removed.cores;
        if removed.state == ExecutorState::Decommissioned {
            self.decommissioned.0 -= 1;
            self.decommissioned.1 -= removed.cores;
        }
        Some(removed)
    }

    /// A worker says how far an executor is: whether that is further than was known, or `None` if it does not count
    /// on such an executor there.
    pub(super) fn advance(
        &mut self,
        worker: &WorkerId,
        id: ExecutorId,
        state: ExecutorState,
    ) -> Option<bool> {
        let executor = self.executors.get_mut(&id).filter(|known| known.worker == *worker)?;
        let further = executor.state < state;
        if further {
            executor.state = state;
        }
        Some(further)
    }

    /// The worker of a running executor gets nothing more to do. False if there is no such executor, or that is known.
    pub(super) fn decommission(&mut self, id: ExecutorId) -> bool {
        let running = |executor: &&mut Executor| executor.state == ExecutorState::Running;
        let Some(executor) = self.executors.get_mut(&id).filter(running) else { return false };
        executor.state = ExecutorState::Decommissioned;
        self.decommissioned.0 += 1;
        self.decommissioned.1 += executor.cores;
        true
    }

    /// Those on decommissioned workers.
    pub(super) fn decommissioned(&self) -> impl Iterator<Item = ExecutorId> {
        let leaves = |executor: &Executor| executor.state == ExecutorState::Decommissioned;
        self.executors.iter().filter(move |(_, executor)| leaves(executor)).map(|(id, _)| *id)
    }

    /// A worker says how far it is with what an executor needs: true if that is further than was known.
    pub(super) fn prepares(&mut self, now: Tick, id: ExecutorId, preparing: Preparing) -> bool {
        let Some(executor) = self.executors.get_mut(&id) else { return false };
        let known = executor.preparing.map_or(Preparing::default(), |(known, _)| known);
        let further = preparing.is_further_than(known);
        if further {
            executor.preparing = Some((preparing, now));
        }
        further
    }

    /// Its driver says which executors are registered there, and how many have ever been. Gives back those that it
    /// counts on in vain.
    pub(super) fn note_registered(
        &mut self,
        now: Tick,
        registered: &[ExecutorId],
        registrations: u64,
    ) -> Vec<ExecutorId> {
        let mut unseen = registrations.saturating_sub(self.registrations);
        self.registrations = self.registrations.max(registrations);
        let mut unknown = Vec::new();
        for id in registered {
            let Some(known) = self.executors.get_mut(id) else {
                unknown.push(*id);
                continue;
            };
            if known.registered.is_none() {
                known.registered = Some(now);
                self.launches.registered(&known.worker);
                unseen = unseen.saturating_sub(1);
            }
        }
        if unseen > 0 {
            self.launches.some_came_and_went();
        }
        unknown
    }

    pub(super) fn launches(&self) -> &Launches {
        &self.launches
    }

    pub(super) fn launches_mut(&mut self) -> &mut Launches {
        &mut self.launches
    }

    pub(super) fn cores_granted(&self) -> u32 {
        self.cores_granted
    }

    fn state(&self) -> ApplicationState {
        if self.executors.is_empty() {
            ApplicationState::Waiting
        } else {
            ApplicationState::Running
        }
    }

    pub(super) fn view(&self) -> ApplicationView {
        let executors = self.executors().map(|(id, executor)| ExecutorView {
            executor: id,
            worker: executor.worker.clone(),
            cores: executor.cores,
            memory_mb: executor.memory_mb,
            state: executor.state,
        });
        ApplicationView {
            app: self.record.app.clone(),
            description: self.record.description.clone(),
            state: self.state(),
            cores: self.cores_granted,
            submitted: self.record.submitted,
            ended: None,
            message: None,
            executors: executors.collect(),
        }
    }

    pub(super) fn assert_consistent(&self) {
        let id = &self.record.app;
        let cores: u32 = self.executors.values().map(|executor| executor.cores).sum();
        assert_eq!(cores, self.cores_granted, "S01: cores of {id}");
        let leaving = self.decommissioned().map(|id| self.executors[&id].cores);
        let leaving = leaving.fold((0, 0), |(count, all), cores| (count + 1, all + cores));
        assert_eq!(leaving, self.decommissioned, "S01: decommissioned executors of {id}");
        let last = self.executors.keys().next_back();
        let next = self.record.next_executor;
        assert!(
            last.is_none_or(|last| *last < next),
            "S05: {next} of {id} will be given out again"
        );
    }
}
