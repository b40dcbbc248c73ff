//! Where map outputs lie, for executors that ask. Each change has a number, and a task says which one it
//! needs: what an executor heard before that is out of date.

use std::collections::BTreeMap;
use std::sync::Mutex;

use firesteel_executor::cluster::MapOutputLocations;
use firesteel_rpc::RpcAddress;
use firesteel_types::{ExecutorId, MapOutputLocation, ShuffleId};

use super::lock;

#[derive(Default)]
struct Published {
    epoch: u64,
    shuffles: BTreeMap<ShuffleId, Vec<Option<MapOutputLocation>>>,
}

#[derive(Default)]
pub(super) struct Tracker(Mutex<Published>);

impl Tracker {
    /// The number of the last change.
    pub(super) fn epoch(&self) -> u64 {
        lock(&self.0).epoch
    }

    pub(super) fn publish(&self, shuffle: ShuffleId, locations: Vec<Option<MapOutputLocation>>) {
        let mut published = lock(&self.0);
        published.epoch += 1;
        published.shuffles.insert(shuffle, locations);
    }

    pub(super) fn remove(&self, shuffle: ShuffleId) {
        lock(&self.0).shuffles.remove(&shuffle);
    }

    /// All that is known of a shuffle; `address` finds executors that live.
    pub(super) fn locate(
        &self,
        shuffle: ShuffleId,
        address: impl Fn(ExecutorId) -> Option<RpcAddress>,
    ) -> Option<MapOutputLocations> {
        let published = lock(&self.0);
        let locations = published.shuffles.get(&shuffle)?.clone();
        let mut executors: Vec<ExecutorId> =
            locations.iter().flatten().map(|at| at.executor).collect();
        executors.sort_unstable();
        executors.dedup();
        let found = executors.into_iter().filter_map(|id| Some((id, address(id)?))).collect();
        Some(MapOutputLocations { epoch: published.epoch, executors: found, locations })
    }
}

#[cfg(test)]
mod tests {
    use firesteel_types::TaskId;

    use super::*;

    #[test]
    fn every_change_has_a_number_and_lost_executors_have_no_address() {
        let tracker = Tracker::default();
        let (here, lost) = (ExecutorId(1), ExecutorId(2));
        let at = |executor| Some(MapOutputLocation { executor, task: TaskId(9) });
        tracker.publish(ShuffleId(0), vec![at(lost), None, at(here), at(here)]);
        let before = tracker.epoch();
        let place = RpcAddress::new("h", 1);
        let address = |id| (id == here).then(|| place.clone());
        let found = tracker.locate(ShuffleId(0), address).unwrap();
        assert_eq!(found.executors, [(here, place.clone())]);
        assert_eq!(found.locations, [at(lost), None, at(here), at(here)]);
        tracker.publish(ShuffleId(0), vec![at(here); 4]);
        assert!(tracker.epoch() > before && found.epoch == before);
        tracker.remove(ShuffleId(0));
        assert_eq!(tracker.locate(ShuffleId(0), |_| None), None);
    }
}
