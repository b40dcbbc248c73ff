//! Where kept partitions of RDDs lie. A hint that may be out of date: a kept partition can vanish
//! at any moment, so nothing may rely on it but the choice of what to compute and where.

use std::collections::{BTreeMap, BTreeSet};

use firesteel_types::{ExecutorId, Location, RddId, RddInfo};

use super::outputs::Generations;

/// Locations by RDD and partition; neither level keeps empty entries.
#[derive(Debug, Default)]
pub(super) struct CacheLocations {
    rdds: BTreeMap<RddId, BTreeMap<u32, BTreeSet<Location>>>,
    /// What the partitions were computed from, where that is not the first generation of everything.
    computed_from: BTreeMap<RddId, Generations>,
}

impl CacheLocations {
    /// A kept partition came to a place.
    pub(super) fn insert(&mut self, rdd: RddId, partition: u32, location: Location) {
        self.rdds.entry(rdd).or_default().entry(partition).or_default().insert(location);
    }

    /// A kept partition left a place.
    pub(super) fn remove(&mut self, rdd: RddId, partition: u32, location: &Location) {
        let Some(partitions) = self.rdds.get_mut(&rdd) else { return };
        let Some(locations) = partitions.get_mut(&partition) else { return };
        locations.remove(location);
        if locations.is_empty() {
            partitions.remove(&partition);
        }
        if partitions.is_empty() {
            self.rdds.remove(&rdd);
        }
    }

    /// Everything kept of an RDD is gone, for good.
    pub(super) fn remove_rdd(&mut self, rdd: RddId) {
        self.rdds.remove(&rdd);
        self.computed_from.remove(&rdd);
    }

    /// Everything kept of an RDD is gone; it is computed and kept again.
    pub(super) fn drop_partitions(&mut self, rdd: RddId) {
        self.rdds.remove(&rdd);
    }

    /// Notes what the RDD's partitions are computed from now on; whether some are kept that were
    /// computed from something else.
    pub(super) fn compute_from(&mut self, rdd: RddId, generations: Generations) -> bool {
        let before = match generations.is_empty() {
            true => self.computed_from.remove(&rdd),
            false => self.computed_from.insert(rdd, generations.clone()),
        };
        before.unwrap_or_default() != generations && self.knows(rdd)
    }

    /// Everything kept on an executor is gone.
    pub(super) fn lose_executor(&mut self, executor: ExecutorId) {
        for locations in self.rdds.values_mut().flat_map(BTreeMap::values_mut) {
            locations.retain(|location| location.executor != Some(executor));
        }
        self.rdds.retain(|_, partitions| {
            partitions.retain(|_, locations| !locations.is_empty());
            !partitions.is_empty()
        });
    }

    /// Whether the user keeps the RDD and every partition of it lies somewhere.
    pub(super) fn covers(&self, rdd: &RddInfo) -> bool {
        let wanted = rdd.partitions as usize;
        rdd.is_persisted()
            && self.rdds.get(&rdd.id).is_some_and(|kept| {
                kept.len() >= wanted && kept.range(..rdd.partitions).count() == wanted
            })
    }

    /// Whether some partition of the RDD lies somewhere.
    pub(super) fn knows(&self, rdd: RddId) -> bool {
        self.rdds.contains_key(&rdd)
    }

    /// Where one partition lies.
    pub(super) fn locations(&self, rdd: &RddInfo, partition: u32) -> Vec<Location> {
        if !rdd.is_persisted() {
            return Vec::new();
        }
        let kept = self.rdds.get(&rdd.id).and_then(|partitions| partitions.get(&partition));
        kept.map(|locations| locations.iter().cloned().collect()).unwrap_or_default()
    }

    /// How many RDDs have kept partitions.
    pub(super) fn len(&self) -> usize {
        self.rdds.len()
    }
}
