//! Pools: in which order task sets are offered free cores.
//!
//! FIFO looks at priority, then stage, then attempt. FAIR looks first at pools (or sets) that run
//! less than their minimum share, then at running tasks by weight, as Spark's comparator does. Only
//! sets that want a slot are in the order, and every key is kept up to date as tasks start and end,
//! so nothing is ever sorted.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use firesteel_types::{JobId, StageRef};

use crate::messages::{PoolSpec, SchedulingMode};

const DEFAULT_POOL: &str = "default";

/// A set's part in its pool.
#[derive(Debug)]
pub(super) struct Member {
    pool: Arc<str>,
    stage: StageRef,
    priority: JobId,
    running: u32,
    runnable: bool,
}

impl Member {
    fn key(&self, mode: SchedulingMode) -> SetKey {
        let rank = match mode {
            SchedulingMode::Fifo => self.priority.0,
            SchedulingMode::Fair => self.running,
        };
        SetKey { rank, stage: self.stage }
    }

    pub(super) fn running(&self) -> u32 {
        self.running
    }
}

/// Where a set stands among the sets of its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SetKey {
    rank: u32,
    stage: StageRef,
}

/// Where a pool stands among the pools.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PoolKey {
    has_min_share: bool,
    share: Share,
    name: Arc<str>,
}

/// `running / of`, compared without rounding.
#[derive(Clone, Copy, Debug)]
struct Share {
    running: u32,
    of: u32,
}

impl Ord for Share {
    fn cmp(&self, other: &Self) -> Ordering {
        let left = u64::from(self.running) * u64::from(other.of);
        left.cmp(&(u64::from(other.running) * u64::from(self.of)))
    }
}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Share {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Share {}

#[derive(Debug)]
struct Pool {
    spec: PoolSpec,
    members: u32,
    running: u32,
    runnable: BTreeSet<SetKey>,
}

impl Pool {
    fn key(&self, name: &Arc<str>, root: SchedulingMode) -> PoolKey {
        let needy = self.running < self.spec.min_share;
        let share = match root {
            SchedulingMode::Fifo => Share { running: 0, of: 1 },
            SchedulingMode::Fair if needy => {
                Share { running: self.running, of: self.spec.min_share }
            }
            SchedulingMode::Fair => Share { running: self.running, of: self.spec.weight.max(1) },
        };
        PoolKey { has_min_share: !needy, share, name: name.clone() }
    }
}

/// The root pool and those below it.
#[derive(Debug)]
pub(super) struct Pools {
    root: SchedulingMode,
    specs: BTreeMap<String, PoolSpec>,
    pools: BTreeMap<Arc<str>, Pool>,
    order: BTreeSet<PoolKey>,
}

impl Pools {
    /// With the pools of the allocation file, which count in FAIR mode only.
    pub(super) fn new(root: SchedulingMode, specs: BTreeMap<String, PoolSpec>) -> Self {
        Pools { root, specs, pools: BTreeMap::new(), order: BTreeSet::new() }
    }

    /// Enters a set; it is offered nothing until it is [`Pools::set_runnable`].
    pub(super) fn join(&mut self, pool: Option<&str>, stage: StageRef, priority: JobId) -> Member {
        let name = match self.root {
            SchedulingMode::Fifo => DEFAULT_POOL,
            SchedulingMode::Fair => pool.unwrap_or(DEFAULT_POOL),
        };
        let name: Arc<str> = match self.pools.get_key_value(name) {
            Some((known, _)) => known.clone(),
            None => self.make(name),
        };
        self.pools.get_mut(&name).expect("the pool was just found or made").members += 1;
        Member { pool: name, stage, priority, running: 0, runnable: false }
    }

    fn make(&mut self, name: &str) -> Arc<str> {
        let plain = PoolSpec { mode: SchedulingMode::Fifo, weight: 1, min_share: 0 };
        let spec = match self.root {
            SchedulingMode::Fifo => plain,
            SchedulingMode::Fair => self.specs.get(name).cloned().unwrap_or(plain),
        };
        let name: Arc<str> = name.into();
        let pool = Pool { spec, members: 0, running: 0, runnable: BTreeSet::new() };
        self.pools.insert(name.clone(), pool);
        name
    }

    /// Takes a set out, and its pool with the last set (S17).
    pub(super) fn leave(&mut self, mut member: Member) {
        assert_eq!(member.running, 0, "a set leaves its pool with tasks running");
        self.set_runnable(&mut member, false);
        let pool = self.pools.get_mut(&member.pool).expect("a member's pool exists");
        pool.members -= 1;
        if pool.members == 0 {
            self.pools.remove(&member.pool);
        }
    }

    /// Says whether the set wants a slot.
    pub(super) fn set_runnable(&mut self, member: &mut Member, runnable: bool) {
        if member.runnable == runnable {
            return;
        }
        member.runnable = runnable;
        let pool = self.pools.get_mut(&member.pool).expect("a member's pool exists");
        let key = member.key(pool.spec.mode);
        if runnable {
            if pool.runnable.is_empty() {
                self.order.insert(pool.key(&member.pool, self.root));
            }
            pool.runnable.insert(key);
        } else {
            pool.runnable.remove(&key);
            if pool.runnable.is_empty() {
                self.order.remove(&pool.key(&member.pool, self.root));
            }
        }
    }

    /// A task of the set started.
    pub(super) fn started(&mut self, member: &mut Member) {
        self.rerank(member, |running| *running += 1);
    }

    /// A task of the set ended.
    pub(super) fn ended(&mut self, member: &mut Member) {
        self.rerank(member, |running| {
            *running = running.checked_sub(1).expect("a task ended that did not run");
        });
    }

    fn rerank(&mut self, member: &mut Member, apply: impl Fn(&mut u32)) {
        let pool = self.pools.get_mut(&member.pool).expect("a member's pool exists");
        let moves_pool = self.root == SchedulingMode::Fair && !pool.runnable.is_empty();
        let moves_set = pool.spec.mode == SchedulingMode::Fair && member.runnable;
        if moves_pool {
            self.order.remove(&pool.key(&member.pool, self.root));
        }
        if moves_set {
            pool.runnable.remove(&member.key(SchedulingMode::Fair));
        }
        apply(&mut pool.running);
        apply(&mut member.running);
        if moves_set {
            pool.runnable.insert(member.key(SchedulingMode::Fair));
        }
        if moves_pool {
            self.order.insert(pool.key(&member.pool, self.root));
        }
    }

    /// Whether any set wants a slot.
    pub(super) fn any_runnable(&self) -> bool {
        !self.order.is_empty()
    }

    /// The sets that want a slot, the one to be served first in front.
    pub(super) fn in_order(&self) -> impl Iterator<Item = StageRef> {
        self.order.iter().flat_map(|key| self.pools[&key.name].runnable.iter().map(|set| set.stage))
    }

    /// Recounts what [`super::TaskScheduler::assert_invariants`] asks of pools.
    pub(super) fn assert_consistent<'a>(&self, members: impl Iterator<Item = &'a Member>) {
        let mut running: BTreeMap<&Arc<str>, (u32, u32, usize)> = BTreeMap::new();
        for member in members {
            let pool = running.entry(&member.pool).or_default();
            pool.0 += 1;
            pool.1 += member.running;
            pool.2 += usize::from(member.runnable);
            let key = member.key(self.pools[&member.pool].spec.mode);
            let listed = self.pools[&member.pool].runnable.contains(&key);
            assert_eq!(listed, member.runnable, "set {} is listed wrongly", member.stage);
        }
        assert_eq!(running.len(), self.pools.len(), "S17: a pool outlived its sets");
        for (name, pool) in &self.pools {
            let counted = (pool.members, pool.running, pool.runnable.len());
            assert_eq!(running[name], counted, "pool {name} miscounts");
            let listed = self.order.contains(&pool.key(name, self.root));
            assert_eq!(listed, !pool.runnable.is_empty(), "pool {name} is listed wrongly");
        }
    }
}
