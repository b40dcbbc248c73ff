//! The lineage graph as the schedulers see it: which data depends on which, nothing of its types.

use std::any::{Any, TypeId};
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

use serde::{Deserialize, Serialize};

use crate::event::{RddDescription, RddScope};
use crate::{ExecutorId, Host, RddId, SharedStorageLevel, ShuffleId};

/// Where in the user's program an RDD or a job was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSite {
    /// The operation's name, e.g. `map`.
    pub operation: &'static str,
    pub file: &'static str,
    pub line: u32,
    /// The call itself: a line in a loop is called often. All RDDs that one call makes have its number.
    pub call: u64,
}

impl CallSite {
    /// The caller of a `#[track_caller]` function named `operation`.
    #[track_caller]
    pub fn here(operation: &'static str) -> Self {
        static CALLS: AtomicU64 = AtomicU64::new(0);
        let location = std::panic::Location::caller();
        let call = CALLS.fetch_add(1, Relaxed);
        CallSite { operation, file: location.file(), line: location.line(), call }
    }
}

impl fmt::Display for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}:{}", self.operation, self.file, self.line)
    }
}

/// A place where a partition's data lies: a host, or one executor on it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    pub host: Host,
    /// The executor that holds it in memory, if one does.
    pub executor: Option<ExecutorId>,
}

/// What makes two RDDs co-partitioned: equal ids promise that equal keys lie in equal partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionerId {
    /// The partitioner's and the key's type.
    pub type_id: TypeId,
    /// Their name, for people: two types may share one.
    pub kind: &'static str,
    /// Everything else that tells two of them apart, encoded.
    pub detail: Arc<[u8]>,
    /// How many partitions it makes.
    pub partitions: u32,
}

/// What computing a partition a second time may give, from the same inputs.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Determinism {
    /// The same records in the same order.
    #[default]
    Determinate,
    /// The same records, perhaps in another order.
    Unordered,
    /// A second computation may give other records.
    Indeterminate,
}

impl Determinism {
    /// After a step that depends on the order of what it reads (`zip`, `sample`): over an unordered
    /// parent its records may change.
    pub fn after_order_sensitive(self) -> Self {
        match self {
            Determinism::Determinate => Determinism::Determinate,
            Determinism::Unordered | Determinism::Indeterminate => Determinism::Indeterminate,
        }
    }

    /// After a step whose output may come in any order: a hash table that may spill, code of the
    /// user's over a whole partition.
    pub fn after_reordering(self) -> Self {
        self.max(Determinism::Unordered)
    }

    /// As a reader of a shuffle finds it: map outputs that come out different when they are computed
    /// again roll their readers back, so that only the order remains open.
    pub fn after_shuffle(self) -> Self {
        self.min(Determinism::Unordered)
    }
}

impl fmt::Display for Determinism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Determinism::Determinate => "determinate",
            Determinism::Unordered => "unordered",
            Determinism::Indeterminate => "indeterminate",
        })
    }
}

/// How the partitions of a child read those of a narrow parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NarrowMapping {
    /// Partition `i` reads parent partition `i`.
    OneToOne,
    /// Partitions `start..start + len` of the child read parent partitions `0..len` (union).
    Range {
        /// The first partition of the child that maps to this parent.
        start: u32,
        /// How many partitions of the child map to it.
        len: u32,
    },
    /// Partition `i` reads the parent partitions listed at `i` (coalesce, cartesian).
    Groups(Arc<[Vec<u32>]>),
}

impl NarrowMapping {
    /// The parent partitions that child partition `partition` reads.
    pub fn parents(&self, partition: u32) -> Vec<u32> {
        match self {
            NarrowMapping::OneToOne => vec![partition],
            NarrowMapping::Range { start, len } => {
                if (*start..start + len).contains(&partition) {
                    vec![partition - start]
                } else {
                    Vec::new()
                }
            }
            NarrowMapping::Groups(groups) => {
                groups.get(partition as usize).cloned().unwrap_or_default()
            }
        }
    }
}

/// One edge of the graph, from a child to a parent.
#[derive(Clone, Debug)]
pub enum Dependency {
    /// Read inside the child's own task.
    Narrow { rdd: Arc<RddInfo>, mapping: NarrowMapping },
    /// Read through a shuffle: a stage border.
    Shuffle {
        /// The shuffle's id, which is the map stage's identity.
        shuffle: ShuffleId,
        /// The RDD on the map side.
        rdd: Arc<RddInfo>,
    },
}

impl Dependency {
    pub fn rdd(&self) -> &Arc<RddInfo> {
        match self {
            Dependency::Narrow { rdd, .. } | Dependency::Shuffle { rdd, .. } => rdd,
        }
    }
}

/// A node of the lineage graph. Built by the driver, walked by the DAG scheduler; immutable but for
/// the mark that the user asked to cache its partitions.
#[derive(Debug)]
pub struct RddInfo {
    pub id: RddId,
    /// The kind of RDD, e.g. `MapPartitionsRDD`.
    pub kind: &'static str,
    /// A name the user gave.
    pub name: Option<String>,
    /// Where it was made.
    pub call_site: CallSite,
    /// The scope around the call that made it, if there is one.
    pub enclosing: Option<Arc<RddScope>>,
    /// How many partitions it has.
    pub partitions: u32,
    /// What it reads, unless that is lent; [`RddInfo::reads`] finds both.
    pub dependencies: Vec<Dependency>,
    /// What it reads until it is checkpointed.
    pub lent: Option<Lent>,
    /// Where its source data lies, per partition; empty when it lies nowhere in particular.
    pub preferred: Vec<Vec<Location>>,
    /// How its keys are partitioned, if they are.
    pub partitioner: Option<PartitionerId>,
    /// What computing it again may give, unless it was checkpointed; [`RddInfo::determinism`] knows.
    pub level: Determinism,
    /// Whether and how its partitions are cached once computed, so that the scheduler asks where they are.
    pub storage_level: SharedStorageLevel,
    /// What listeners are told of it, from when the first stage that computes it is made.
    pub description: OnceLock<Arc<RddDescription>>,
    /// What the driver keeps alive as long as the node: map-side code, deferred work. The
    /// schedulers never look at it.
    pub attachment: Attachment,
}

/// Dependencies that the driver holds and lets go of when the node's partitions are written elsewhere:
/// from then on the node reads something else. That happens once, and the next call of [`RddInfo::reads`] sees it.
#[derive(Debug)]
pub struct Lent {
    before: Weak<Vec<Dependency>>,
    after: OnceLock<Vec<Dependency>>,
}

impl Lent {
    /// Reads these as long as somebody holds them.
    pub fn new(held: &Arc<Vec<Dependency>>) -> Self {
        Lent { before: Arc::downgrade(held), after: OnceLock::new() }
    }

    /// Reads these from now on. The others may be let go of after that, not before.
    pub fn replace(&self, dependencies: Vec<Dependency>) {
        let _ = self.after.set(dependencies);
    }
}

/// What a node reads.
pub enum Reads<'a> {
    /// Its own list.
    Own(&'a [Dependency]),
    /// A list that may be let go of meanwhile.
    Lent(Arc<Vec<Dependency>>),
}

impl Deref for Reads<'_> {
    type Target = [Dependency];

    fn deref(&self) -> &[Dependency] {
        match self {
            Reads::Own(dependencies) => dependencies,
            Reads::Lent(dependencies) => dependencies,
        }
    }
}

/// An opaque companion of a node; see [`RddInfo::attachment`].
#[derive(Clone, Default)]
pub struct Attachment(pub Option<Arc<dyn Any + Send + Sync>>);

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Attachment(..)" } else { "Attachment" })
    }
}

impl RddInfo {
    /// A node that reads these, with nothing special about it: determinate, without preferred locations.
    pub fn new(
        id: RddId,
        kind: &'static str,
        call_site: CallSite,
        partitions: u32,
        dependencies: Vec<Dependency>,
    ) -> Self {
        RddInfo {
            id,
            kind,
            name: None,
            call_site,
            enclosing: None,
            partitions,
            dependencies,
            lent: None,
            preferred: Vec::new(),
            partitioner: None,
            level: Determinism::Determinate,
            storage_level: SharedStorageLevel::default(),
            description: OnceLock::new(),
            attachment: Attachment::default(),
        }
    }

    /// Whether the user asked to cache its partitions.
    pub fn is_persisted(&self) -> bool {
        self.storage_level.get().is_valid()
    }

    /// What listeners are told of it.
    pub fn description(&self) -> Arc<RddDescription> {
        let describe = || {
            Arc::new(RddDescription {
                id: self.id,
                name: self.name.clone().unwrap_or_else(|| self.kind.to_owned()),
                scope: RddScope {
                    id: self.call_site.call,
                    name: self.call_site.operation.to_owned(),
                    parent: self.enclosing.clone(),
                },
                call_site: self.call_site.to_string(),
                parents: self.reads().iter().map(|read| read.rdd().id).collect(),
                partitions: self.partitions,
                determinism: self.determinism(),
            })
        };
        self.description.get_or_init(describe).clone()
    }

    /// What computing a partition again may give. A checkpoint is read, not computed.
    pub fn determinism(&self) -> Determinism {
        let checkpointed = self.lent.as_ref().is_some_and(|lent| lent.after.get().is_some());
        if checkpointed { Determinism::Determinate } else { self.level }
    }

    /// What it reads now.
    pub fn reads(&self) -> Reads<'_> {
        let Some(lent) = &self.lent else { return Reads::Own(&self.dependencies) };
        // Looked at before and after: they are replaced first and let go of then.
        let replaced = || lent.after.get().map(|after| Reads::Own(after));
        let before = || lent.before.upgrade().map(Reads::Lent);
        replaced().or_else(before).or_else(replaced).unwrap_or(Reads::Own(&[]))
    }
}

/// A long loop makes a long chain of nodes: taken apart step by step, because the compiler's own
/// drop would recurse once per node and overflow the stack.
impl Drop for RddInfo {
    fn drop(&mut self) {
        let mut pending = self.take_dependencies();
        // It may hold the parents too; `pending` holds them meanwhile, so that they do not go with it.
        self.attachment = Attachment::default();
        while let Some(dependency) = pending.pop() {
            let (Dependency::Narrow { rdd, .. } | Dependency::Shuffle { rdd, .. }) = dependency;
            if let Some(mut info) = Arc::into_inner(rdd) {
                pending.append(&mut info.take_dependencies());
            }
        }
    }
}

impl RddInfo {
    fn take_dependencies(&mut self) -> Vec<Dependency> {
        let mut taken = std::mem::take(&mut self.dependencies);
        if let Some(Lent { before, after }) = self.lent.take() {
            taken.extend(before.upgrade().iter().flat_map(|held| held.iter().cloned()));
            taken.extend(after.into_inner().unwrap_or_default());
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u32, dependencies: Vec<Dependency>) -> Arc<RddInfo> {
        // As deferred work does: it reads what the node reads.
        let parents: Vec<_> = dependencies.iter().map(|found| found.rdd().clone()).collect();
        let site = CallSite::here("test");
        let mut info = RddInfo::new(RddId(id), "TestRDD", site, 1, dependencies);
        info.attachment = Attachment(Some(Arc::new(parents)));
        Arc::new(info)
    }

    #[test]
    fn a_chain_of_a_million_nodes_drops_without_overflowing_the_stack() {
        let mut last = node(0, Vec::new());
        for id in 1..1_000_000 {
            last =
                node(id, vec![Dependency::Narrow { rdd: last, mapping: NarrowMapping::OneToOne }]);
        }
        drop(last);
    }

    #[test]
    fn lent_dependencies_are_read_until_they_are_replaced_and_then_nothing_holds_them() {
        let parent = node(0, Vec::new());
        let narrow = |rdd: &Arc<RddInfo>| Dependency::Narrow {
            rdd: rdd.clone(),
            mapping: NarrowMapping::OneToOne,
        };
        let held = Arc::new(vec![narrow(&parent)]);
        let mut child = Arc::into_inner(node(1, Vec::new())).unwrap();
        child.lent = Some(Lent::new(&held));
        assert_eq!(child.reads()[0].rdd().id, RddId(0));
        child.lent.as_ref().unwrap().replace(vec![narrow(&node(2, Vec::new()))]);
        assert_eq!(child.reads()[0].rdd().id, RddId(2));
        drop(held);
        assert_eq!(child.reads().len(), 1);
        assert_eq!(Arc::strong_count(&parent), 1);
    }

    #[test]
    fn a_chain_of_lent_nodes_drops_without_overflowing_the_stack() {
        let mut last = node(0, Vec::new());
        for id in 1..300_000 {
            let mapping = NarrowMapping::OneToOne;
            let held = Arc::new(vec![Dependency::Narrow { rdd: last, mapping }]);
            let mut next = Arc::into_inner(node(id, Vec::new())).unwrap();
            next.lent = Some(Lent::new(&held));
            next.attachment = Attachment(Some(held));
            last = Arc::new(next);
        }
        drop(last);
    }

    #[test]
    fn rdds_of_one_call_share_its_scope_and_those_of_another_do_not() {
        let scopes: Vec<RddScope> = (0..2)
            .flat_map(|_| {
                let site = CallSite::here("twice");
                [0, 1].map(|id| RddInfo::new(RddId(id), "TestRDD", site, 1, Vec::new()))
            })
            .map(|info| info.description().scope.clone())
            .collect();
        assert_eq!((&scopes[0], &scopes[2]), (&scopes[1], &scopes[3]));
        assert_ne!(scopes[0].id, scopes[2].id);
        assert_eq!((scopes[0].name.as_str(), &scopes[0].parent), ("twice", &None));
    }

    #[test]
    fn mappings_name_the_parents_they_read() {
        assert_eq!(NarrowMapping::OneToOne.parents(3), [3]);
        let range = NarrowMapping::Range { start: 2, len: 3 };
        assert_eq!(range.parents(1), Vec::<u32>::new());
        assert_eq!(range.parents(2), [0]);
        assert_eq!(range.parents(4), [2]);
        assert_eq!(range.parents(5), Vec::<u32>::new());
        let groups = NarrowMapping::Groups(vec![vec![0, 2], vec![1]].into());
        assert_eq!(groups.parents(0), [0, 2]);
        assert_eq!(groups.parents(9), Vec::<u32>::new());
    }
}
