//! Places of connections, so many altogether and so many for each address: one slow client costs others nothing.
//!
//! This very machine has no limit of its own: a proxy in front is one address for all of its users.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places of one kind.
#[derive(Debug)]
pub(crate) struct Places {
    all: Arc<Semaphore>,
    of_each: Arc<OfEach>,
}

#[derive(Debug)]
struct OfEach {
    most: usize,
    taken: Mutex<BTreeMap<IpAddr, usize>>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _among_all: OwnedSemaphorePermit,
    from: IpAddr,
    of_each: Arc<OfEach>,
}

impl Places {
    pub(crate) fn new(all: usize, of_each: usize) -> Self {
        let of_each = Arc::new(OfEach { most: of_each, taken: Mutex::default() });
        Places { all: Arc::new(Semaphore::new(all)), of_each }
    }

    /// Waits until one is free, for any address.
    pub(crate) async fn any(&self) -> Option<OwnedSemaphorePermit> {
        self.all.clone().acquire_owned().await.ok()
    }

    /// Gives one to an address, unless it has as many as it may have.
    pub(crate) fn give(&self, among_all: OwnedSemaphorePermit, from: IpAddr) -> Option<Place> {
        let (from, of_each) = (from.to_canonical(), self.of_each.clone());
        let mut taken = of_each.lock();
        let count = taken.entry(from).or_default();
        if *count >= of_each.most && !from.is_loopback() {
            return None;
        }
        *count += 1;
        drop(taken);
        Some(Place { _among_all: among_all, from, of_each })
    }

    /// One that is free now.
    pub(crate) fn try_take(&self, from: IpAddr) -> Option<Place> {
        self.give(self.all.clone().try_acquire_owned().ok()?, from)
    }
}

impl OfEach {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<IpAddr, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.of_each.lock();
        if let Some(count) = taken.get_mut(&self.from) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_does_not_get_all_places_and_this_machine_does() {
        let [one, mapped, other, own]: [IpAddr; 4] =
            ["10.0.0.1", "::ffff:10.0.0.1", "10.0.0.2", "127.0.0.1"].map(|it| it.parse().unwrap());
        let places = Places::new(4, 2);
        let held = [one, mapped].map(|from| places.try_take(from).unwrap());
        assert!(places.try_take(one).is_none(), "it has two");
        let others = [(); 2].map(|()| places.try_take(other).unwrap());
        assert!(places.try_take(own).is_none(), "there are four");
        drop((held, others));
        assert!(places.of_each.lock().is_empty(), "nothing is kept of addresses that are gone");
        let all = [(); 4].map(|()| places.try_take(own).unwrap());
        drop(all);
        assert_eq!(places.all.available_permits(), 4);
    }
}
