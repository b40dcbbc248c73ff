//! The lineage graph as the schedulers see it: which data depends on which, nothing of its types.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{ExecutorId, Host, RddId, ShuffleId};

/// Where in the user's program an RDD or a job was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSite {
    /// The operation's name, e.g. `map`.
    pub operation: &'static str,
    /// Source file.
    pub file: &'static str,
    /// Line in it.
    pub line: u32,
}

impl CallSite {
    /// The caller of a `#[track_caller]` function named `operation`.
    #[track_caller]
    pub fn here(operation: &'static str) -> Self {
        let location = std::panic::Location::caller();
        CallSite { operation, file: location.file(), line: location.line() }
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
    /// The host.
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

/// How the partitions of a child read those of a narrow parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NarrowMapping {
    /// Partition `i` reads parent partition `i`.
    OneToOne,
    /// Partitions `start..start + len` of the child read parent partitions `0..len` (union).
    Range {
        /// First child partition.
        start: u32,
        /// How many.
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
    Narrow {
        /// The parent.
        rdd: Arc<RddInfo>,
        /// Which of its partitions.
        mapping: NarrowMapping,
    },
    /// Read through a shuffle: a stage border.
    Shuffle {
        /// The shuffle's id, which is the map stage's identity.
        shuffle: ShuffleId,
        /// The RDD on the map side.
        rdd: Arc<RddInfo>,
    },
}

impl Dependency {
    /// The parent.
    pub fn rdd(&self) -> &Arc<RddInfo> {
        match self {
            Dependency::Narrow { rdd, .. } | Dependency::Shuffle { rdd, .. } => rdd,
        }
    }
}

/// A node of the lineage graph. Built by the driver, walked by the DAG scheduler; immutable but for
/// the mark that the user asked to keep its partitions.
#[derive(Debug)]
pub struct RddInfo {
    /// Its id.
    pub id: RddId,
    /// The kind of RDD, e.g. `MapPartitionsRDD`.
    pub kind: &'static str,
    /// A name the user gave.
    pub name: Option<String>,
    /// Where it was made.
    pub call_site: CallSite,
    /// How many partitions it has.
    pub partitions: u32,
    /// What it reads.
    pub dependencies: Vec<Dependency>,
    /// Where its source data lies, per partition; empty when it lies nowhere in particular.
    pub preferred: Vec<Vec<Location>>,
    /// How its keys are partitioned, if they are.
    pub partitioner: Option<PartitionerId>,
    /// Whether its partitions are kept once computed, so that the scheduler asks where they are.
    pub persisted: AtomicBool,
    /// What the driver keeps alive as long as the node: map-side code, deferred work. The
    /// schedulers never look at it.
    pub attachment: Attachment,
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
    /// Whether the user asked to keep its partitions.
    pub fn is_persisted(&self) -> bool {
        self.persisted.load(Ordering::Acquire)
    }
}

/// A long loop makes a long chain of nodes: taken apart step by step, because the compiler's own
/// drop would recurse once per node and overflow the stack.
impl Drop for RddInfo {
    fn drop(&mut self) {
        let mut pending = std::mem::take(&mut self.dependencies);
        // It may hold the parents too; `pending` holds them meanwhile, so that they do not go with it.
        self.attachment = Attachment::default();
        while let Some(dependency) = pending.pop() {
            let (Dependency::Narrow { rdd, .. } | Dependency::Shuffle { rdd, .. }) = dependency;
            if let Some(mut info) = Arc::into_inner(rdd) {
                pending.append(&mut info.dependencies);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u32, dependencies: Vec<Dependency>) -> Arc<RddInfo> {
        // As deferred work does: it reads what the node reads.
        let parents: Vec<_> = dependencies.iter().map(|found| found.rdd().clone()).collect();
        Arc::new(RddInfo {
            id: RddId(id),
            kind: "TestRDD",
            name: None,
            call_site: CallSite::here("test"),
            partitions: 1,
            dependencies,
            preferred: Vec::new(),
            partitioner: None,
            persisted: AtomicBool::new(false),
            attachment: Attachment(Some(Arc::new(parents))),
        })
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
