//! Random lineages, and what the value of each of their partitions has to be.
//!
//! A value is a number mixed from all that goes into it, so that a missing, doubled or foreign input
//! makes another value.

use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;
use firesteel_types::{CallSite, Dependency, NarrowMapping, RddId, RddInfo, ShuffleId};

fn node(id: u32, partitions: u32, dependencies: Vec<Dependency>) -> Arc<RddInfo> {
    Arc::new(RddInfo::new(RddId(id), "SimRDD", CallSite::here("sim"), partitions, dependencies))
}

/// Sources, maps, unions and shuffles, some read by several children.
pub(crate) fn random(rng: &mut Rng) -> Vec<Arc<RddInfo>> {
    // Few, or more than there are cores.
    let most = if rng.u8(..4) == 0 { 24 } else { 5 };
    let mut rdds: Vec<Arc<RddInfo>> = vec![node(0, rng.u32(1..most), Vec::new())];
    let mut next_shuffle = 0;
    for id in 1..rng.u32(3..9) {
        let parent = rdds[rng.usize(..rdds.len())].clone();
        let other = rdds[rng.usize(..rdds.len())].clone();
        let mut shuffle = |rdd| {
            next_shuffle += 1;
            Dependency::Shuffle { shuffle: ShuffleId(next_shuffle), rdd }
        };
        let made = match rng.u8(..10) {
            0 => node(id, rng.u32(1..most), Vec::new()),
            1..=2 => {
                let mapping = NarrowMapping::OneToOne;
                node(id, parent.partitions, vec![Dependency::Narrow { rdd: parent, mapping }])
            }
            3 => union(id, parent, other),
            4..=5 => {
                let both = vec![shuffle(parent), shuffle(other)];
                node(id, rng.u32(1..most), both)
            }
            _ => node(id, rng.u32(1..most), vec![shuffle(parent)]),
        };
        rdds.push(made);
    }
    rdds
}

fn union(id: u32, left: Arc<RddInfo>, right: Arc<RddInfo>) -> Arc<RddInfo> {
    let (a, b) = (left.partitions, right.partitions);
    let first = NarrowMapping::Range { start: 0, len: a };
    let second = NarrowMapping::Range { start: a, len: b };
    let first = Dependency::Narrow { rdd: left, mapping: first };
    let second = Dependency::Narrow { rdd: right, mapping: second };
    node(id, a + b, vec![first, second])
}

/// Whether partitions of the RDD are computed from the shuffle, however far behind.
pub(crate) fn depends_on(rdd: &RddInfo, wanted: ShuffleId) -> bool {
    rdd.dependencies.iter().any(|dependency| match dependency {
        Dependency::Shuffle { shuffle, rdd } => *shuffle == wanted || depends_on(rdd, wanted),
        Dependency::Narrow { rdd, .. } => depends_on(rdd, wanted),
    })
}

pub(crate) fn mix(value: u64, with: u64) -> u64 {
    (value ^ with.wrapping_mul(0x9E37_79B9_7F4A_7C15))
        .rotate_left(23)
        .wrapping_mul(0x0100_0000_01B3)
}

/// Which version of a map output something was computed from: outputs of indeterminate shuffles depend on the
/// attempt that wrote them.
pub(crate) type Versions = BTreeMap<(ShuffleId, u32), u64>;

/// What a task computed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Computed {
    pub(crate) value: u64,
    pub(crate) versions: Versions,
    /// It was computed from two versions of one output.
    pub(crate) mixed: bool,
}

impl Computed {
    /// Takes something in that was read, with the number that it contributes.
    pub(crate) fn add(&mut self, other: &Computed, with: u64) {
        self.read(&other.versions, other.mixed);
        self.value = mix(self.value, with);
    }

    /// Notes what was read; whether nothing is mixed.
    pub(crate) fn read(&mut self, versions: &Versions, mixed: bool) -> bool {
        self.mixed |= mixed;
        for (output, version) in versions {
            self.mixed |= *self.versions.entry(*output).or_insert(*version) != *version;
        }
        !self.mixed
    }
}

/// The value of a map output in one of its versions.
pub(crate) fn versioned(value: u64, version: Option<&u64>) -> u64 {
    version.map_or(value, |version| mix(value, *version + 1))
}

/// The value of a partition, with map outputs from `read`; the first one missing ends it.
pub(crate) fn value<E>(
    rdd: &RddInfo,
    partition: u32,
    read: &mut impl FnMut(ShuffleId, &RddInfo, u32) -> Result<u64, E>,
) -> Result<u64, E> {
    let mut found = mix(u64::from(rdd.id.0) + 1, u64::from(partition));
    for dependency in &rdd.dependencies {
        match dependency {
            Dependency::Shuffle { shuffle, rdd: parent } => {
                for map in 0..parent.partitions {
                    let block = read(*shuffle, parent, map)?;
                    found = mix(found, mix(block, u64::from(partition)));
                }
            }
            Dependency::Narrow { rdd: parent, mapping } => {
                for partition in mapping.parents(partition) {
                    found = mix(found, value(parent, partition, read)?);
                }
            }
        }
    }
    Ok(found)
}

/// The shuffles that a task reads, with their number of map outputs; nothing behind RDDs that are `covered`.
pub(crate) fn shuffles_read(
    rdd: &RddInfo,
    partition: u32,
    covered: &impl Fn(&RddInfo) -> bool,
    found: &mut Vec<(ShuffleId, u32)>,
) {
    if covered(rdd) {
        return;
    }
    for dependency in &rdd.dependencies {
        match dependency {
            Dependency::Shuffle { shuffle, rdd } => found.push((*shuffle, rdd.partitions)),
            Dependency::Narrow { rdd, mapping } => {
                for partition in mapping.parents(partition) {
                    shuffles_read(rdd, partition, covered, found);
                }
            }
        }
    }
}

/// What a single process would compute.
#[derive(Debug, Default)]
pub(crate) struct Oracle(BTreeMap<(ShuffleId, u32), u64>);

impl Oracle {
    /// From these versions of map outputs. Only values that depend on no version are remembered.
    pub(crate) fn value_of(&mut self, rdd: &RddInfo, partition: u32, versions: &Versions) -> u64 {
        match versions.is_empty() {
            true => self.value(rdd, partition, versions),
            false => Oracle::default().value(rdd, partition, versions),
        }
    }

    fn value(&mut self, rdd: &RddInfo, partition: u32, versions: &Versions) -> u64 {
        let mut read = |shuffle, parent: &RddInfo, map| {
            let known = self.0.get(&(shuffle, map)).copied();
            let computed = known.unwrap_or_else(|| {
                versioned(self.value(parent, map, versions), versions.get(&(shuffle, map)))
            });
            self.0.insert((shuffle, map), computed);
            Ok::<u64, std::convert::Infallible>(computed)
        };
        let Ok(found) = value(rdd, partition, &mut read);
        found
    }
}
