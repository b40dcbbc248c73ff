//! Walks of the lineage graph. All are iterative, because a loop in a program makes a chain of
//! 100,000 nodes, and visit each node and edge once.
//!
//! ```text
//!   textFile ── map ── reduceByKey ── map ── join ── collect
//!   └── stage 0 ───┘ └── stage 1 ─────────┘ └── result stage ┘
//!                  shuffle 0               shuffle 1
//! ```

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use firesteel_types::event::StageRdd;
use firesteel_types::{Dependency, Location, NarrowMapping, RddId, RddInfo, ShuffleId};

use crate::blocks::BlockMaster;

/// A shuffle dependency: the shuffle and the RDD on its map side.
pub(super) type ShuffleEdge = (ShuffleId, Arc<RddInfo>);

/// What lies between an RDD and the nearest shuffles behind it.
pub(super) struct Cut {
    /// The RDDs, the starting one first.
    pub(super) rdds: Arc<[StageRdd]>,
    /// The shuffles read, each once, in the order met.
    pub(super) shuffles: Vec<ShuffleEdge>,
    /// Whether some RDD's source data lies at known places.
    pub(super) has_preferred: bool,
}

/// Visits every RDD reachable over narrow dependencies for which `enter` says to go on, and
/// reports the shuffle dependencies of those.
fn walk(
    root: &Arc<RddInfo>,
    mut enter: impl FnMut(&Arc<RddInfo>) -> bool,
    mut shuffle: impl FnMut(ShuffleId, &Arc<RddInfo>),
) {
    let mut seen = BTreeSet::from([root.id]);
    let mut todo = vec![Arc::clone(root)];
    while let Some(rdd) = todo.pop() {
        if !enter(&rdd) {
            continue;
        }
        let reads = rdd.reads();
        for dependency in reads.iter().rev() {
            if let Dependency::Narrow { rdd: parent, .. } = dependency
                && seen.insert(parent.id)
            {
                todo.push(Arc::clone(parent));
            }
        }
        for dependency in reads.iter() {
            if let Dependency::Shuffle { shuffle: id, rdd: map_side } = dependency {
                shuffle(*id, map_side);
            }
        }
    }
}

/// Cuts the graph behind an RDD at its nearest shuffle dependencies.
pub(super) fn cut(root: &Arc<RddInfo>) -> Cut {
    let mut rdds = Vec::new();
    let mut has_preferred = false;
    let mut seen = BTreeSet::new();
    let mut shuffles = Vec::new();
    walk(
        root,
        |rdd| {
            rdds.push(StageRdd { rdd: rdd.description(), level: rdd.storage_level.get() });
            has_preferred |= !rdd.preferred.is_empty();
            true
        },
        |shuffle, map_side| {
            if seen.insert(shuffle) {
                shuffles.push((shuffle, Arc::clone(map_side)));
            }
        },
    );
    Cut { rdds: rdds.into(), shuffles, has_preferred }
}

/// Where the RDDs between this one and the nearest shuffles behind it were made, each place once and `known` left out; of many
/// those that are nearest, on all branches alike. What is cached as a whole was not computed again, nor what lies behind it.
pub(super) fn steps(root: &Arc<RddInfo>, known: &str, blocks: &BlockMaster) -> Vec<String> {
    const MOST: usize = 8;
    const LOOKS: usize = 1000;
    let mut steps = Vec::new();
    let mut seen = BTreeSet::from([root.id]);
    let mut todo = VecDeque::from([Arc::clone(root)]);
    for _ in 0..LOOKS {
        let Some(rdd) = todo.pop_front().filter(|_| steps.len() <= MOST) else { break };
        let step = rdd.call_site.to_string();
        if step != known && !steps.contains(&step) {
            steps.push(step);
        }
        if blocks.covers(&rdd) {
            continue;
        }
        for dependency in rdd.reads().iter() {
            if let Dependency::Narrow { rdd: parent, .. } = dependency
                && seen.insert(parent.id)
            {
                todo.push_back(Arc::clone(parent));
            }
        }
    }
    if steps.len() > MOST {
        steps.truncate(MOST);
        steps.push("and others".to_owned());
    }
    steps
}

/// The shuffles an RDD has to read, given that RDDs that are cached as a whole need no parents.
pub(super) fn shuffles_read(root: &Arc<RddInfo>, blocks: &BlockMaster) -> BTreeSet<ShuffleId> {
    let mut shuffles = BTreeSet::new();
    walk(
        root,
        |rdd| !blocks.covers(rdd),
        |shuffle, _| {
            shuffles.insert(shuffle);
        },
    );
    shuffles
}

/// The persisted RDDs of a stage, and the shuffles that each of them reads.
pub(super) fn persisted(root: &Arc<RddInfo>) -> Vec<(RddId, Vec<ShuffleId>)> {
    let mut found = Vec::new();
    walk(
        root,
        |rdd| {
            found.extend(rdd.is_persisted().then(|| Arc::clone(rdd)));
            true
        },
        |_, _| {},
    );
    let shuffles = |rdd| cut(rdd).shuffles.into_iter().map(|(shuffle, _)| shuffle).collect();
    found.iter().map(|rdd| (rdd.id, shuffles(rdd))).collect()
}

/// A task whose data is looked for: its position in the answer, and the partition of the RDD the
/// search has come to.
type Seeker = (usize, u32);

/// Where the data of each partition lies: cached partitions first, then sources, then the same
/// questions for the first narrow parent.
pub(super) fn preferred_locations(
    root: &Arc<RddInfo>,
    partitions: &[u32],
    blocks: &BlockMaster,
) -> Vec<Vec<Location>> {
    let mut found = vec![Vec::new(); partitions.len()];
    let mut todo: Vec<(Arc<RddInfo>, Vec<Seeker>)> =
        vec![(Arc::clone(root), partitions.iter().copied().enumerate().collect())];
    while let Some((rdd, mut seekers)) = todo.pop() {
        let rdd = skip_plain(rdd, blocks);
        seekers.retain(|&(task, partition)| {
            found[task] = locations_here(&rdd, partition, blocks);
            found[task].is_empty()
        });
        send_to_parents(&rdd, seekers, &mut todo);
    }
    found
}

/// Passes over RDDs that know no places and read one parent partition each, so that a long chain
/// is walked once and not once per task.
fn skip_plain(mut rdd: Arc<RddInfo>, blocks: &BlockMaster) -> Arc<RddInfo> {
    while rdd.preferred.is_empty()
        && !blocks.caches(rdd.id)
        && let Some(parent) = only_parent(&rdd)
    {
        rdd = parent;
    }
    rdd
}

/// The first narrow parent, if its partitions are read one to one.
fn only_parent(rdd: &RddInfo) -> Option<Arc<RddInfo>> {
    let reads = rdd.reads();
    let (parent, mapping) = narrow(&reads).next()?;
    (*mapping == NarrowMapping::OneToOne).then(|| Arc::clone(parent))
}

fn narrow(reads: &[Dependency]) -> impl Iterator<Item = (&Arc<RddInfo>, &NarrowMapping)> {
    reads.iter().filter_map(|dependency| match dependency {
        Dependency::Narrow { rdd, mapping } => Some((rdd, mapping)),
        Dependency::Shuffle { .. } => None,
    })
}

fn locations_here(rdd: &RddInfo, partition: u32, blocks: &BlockMaster) -> Vec<Location> {
    let cached = blocks.preferred(rdd, partition);
    if !cached.is_empty() {
        return cached;
    }
    rdd.preferred.get(partition as usize).cloned().unwrap_or_default()
}

/// Sends each seeker to the first narrow parent that its partition reads.
fn send_to_parents(
    rdd: &RddInfo,
    mut seekers: Vec<Seeker>,
    todo: &mut Vec<(Arc<RddInfo>, Vec<Seeker>)>,
) {
    for (parent, mapping) in narrow(&rdd.reads()) {
        let mut sent = Vec::new();
        seekers.retain(|&(task, partition)| match mapping.parents(partition).first() {
            Some(&parent_partition) => {
                sent.push((task, parent_partition));
                false
            }
            None => true,
        });
        if !sent.is_empty() {
            todo.push((Arc::clone(parent), sent));
        }
        if seekers.is_empty() {
            break;
        }
    }
}
