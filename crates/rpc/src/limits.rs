//! How many connections one address may have at once, so that it cannot take the places of all others.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio_util::sync::CancellationToken;

/// Places for connections, so many for each address.
#[derive(Debug)]
pub struct PeerLimits {
    most: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    /// The oldest of an address first.
    by_address: BTreeMap<IpAddr, VecDeque<Held>>,
}

/// A place that is taken.
#[derive(Debug)]
struct Held {
    number: u64,
    evicted: CancellationToken,
    /// It is never evicted.
    settled: bool,
}

/// The place of one connection, until it is dropped.
#[derive(Debug)]
pub struct PeerPlace {
    limits: Arc<PeerLimits>,
    from: IpAddr,
    number: u64,
    evicted: CancellationToken,
}

impl PeerLimits {
    /// At most so many for each address.
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most: most.max(1), taken: Mutex::default() })
    }

    /// How many each address may have.
    pub fn most(&self) -> usize {
        self.most
    }

    /// A place, unless this address has as many as it may have.
    pub fn try_take(self: &Arc<Self>, from: IpAddr) -> Option<PeerPlace> {
        let (mut taken, from) = (self.lock(), from.to_canonical());
        (!self.is_full(&taken, from)).then(|| self.add(&mut taken, from))
    }

    /// A place in any case: an address that has as many as it may have loses its oldest one. For places that never settle.
    pub fn take(self: &Arc<Self>, from: IpAddr) -> PeerPlace {
        let (mut taken, from) = (self.lock(), from.to_canonical());
        if self.is_full(&taken, from) {
            taken.evict_oldest(from);
        }
        self.add(&mut taken, from)
    }

    /// A place: an address that has as many as it may have loses the oldest one that has not settled. `None` if all have.
    pub fn take_from_unsettled(self: &Arc<Self>, from: IpAddr) -> Option<PeerPlace> {
        let (mut taken, from) = (self.lock(), from.to_canonical());
        let free = !self.is_full(&taken, from) || taken.evict_oldest(from);
        free.then(|| self.add(&mut taken, from))
    }

    fn is_full(&self, taken: &Taken, from: IpAddr) -> bool {
        taken.by_address.get(&from).is_some_and(|of| of.len() >= self.most)
    }

    fn add(self: &Arc<Self>, taken: &mut Taken, from: IpAddr) -> PeerPlace {
        taken.next += 1;
        let (number, evicted) = (taken.next, CancellationToken::new());
        let held = Held { number, evicted: evicted.clone(), settled: false };
        taken.by_address.entry(from).or_default().push_back(held);
        PeerPlace { limits: self.clone(), from, number, evicted }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().expect("no panic while it is locked")
    }
}

impl Taken {
    /// Whether there was one that has not settled.
    fn evict_oldest(&mut self, from: IpAddr) -> bool {
        let Some(of) = self.by_address.get_mut(&from) else { return false };
        let oldest = of.iter().position(|held| !held.settled);
        let evicted = oldest.and_then(|at| of.remove(at));
        evicted.inspect(|held| held.evicted.cancel()).is_some()
    }
}

impl PeerPlace {
    /// It is not evicted from now on, unless it already was.
    pub fn settle(&self) {
        let mut taken = self.limits.lock();
        let of = taken.by_address.get_mut(&self.from).into_iter().flatten();
        of.filter(|held| held.number == self.number).for_each(|held| held.settled = true);
    }

    /// Waits until a newer connection of the same address has taken the place. Never ends of one that is given back before.
    pub fn evicted(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        self.evicted.clone().cancelled_owned()
    }
}

impl Drop for PeerPlace {
    fn drop(&mut self) {
        let mut taken = self.limits.lock();
        if let Some(of) = taken.by_address.get_mut(&self.from) {
            of.retain(|held| held.number != self.number);
            if of.is_empty() {
                taken.by_address.remove(&self.from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_takes_all_its_places_takes_none_of_another() {
        let [one, other]: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().unwrap());
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
        let limits = PeerLimits::new(2);
        let held = [limits.try_take(one).unwrap(), limits.try_take(mapped).unwrap()];
        assert!(limits.try_take(one).is_none() && limits.try_take(other).is_some());
        let newest = limits.take(one);
        assert!(held[0].evicted.is_cancelled() && !held[1].evicted.is_cancelled());
        drop((held, newest));
        assert!(limits.lock().by_address.is_empty(), "nothing is kept of addresses that are gone");
    }

    #[test]
    fn a_connection_that_has_settled_is_not_evicted_and_keeps_its_place() {
        let from: IpAddr = "10.0.0.1".parse().unwrap();
        let limits = PeerLimits::new(2);
        let take = || limits.take_from_unsettled(from);
        let [settled, silent] = [(); 2].map(|()| take().unwrap());
        settled.settle();
        let next = take().unwrap();
        assert!(!settled.evicted.is_cancelled() && silent.evicted.is_cancelled());
        silent.settle();
        next.settle();
        assert!(take().is_none(), "one that was evicted has no place to settle in");
        drop(silent);
        assert!(take().is_none(), "nor one to give back");
        drop(settled);
        assert!(take().is_some() && !next.evicted.is_cancelled());
    }
}
