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
    by_address: BTreeMap<IpAddr, VecDeque<(u64, CancellationToken)>>,
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
        let mut taken = self.lock();
        let full =
            taken.by_address.get(&from.to_canonical()).is_some_and(|of| of.len() >= self.most);
        (!full).then(|| self.add(&mut taken, from.to_canonical()))
    }

    /// A place in any case: an address that has as many as it may have loses its oldest one.
    pub fn take(self: &Arc<Self>, from: IpAddr) -> PeerPlace {
        let (mut taken, from) = (self.lock(), from.to_canonical());
        if let Some(of) = taken.by_address.get_mut(&from).filter(|of| of.len() >= self.most)
            && let Some((_, oldest)) = of.pop_front()
        {
            oldest.cancel();
        }
        self.add(&mut taken, from)
    }

    fn add(self: &Arc<Self>, taken: &mut Taken, from: IpAddr) -> PeerPlace {
        taken.next += 1;
        let (number, evicted) = (taken.next, CancellationToken::new());
        taken.by_address.entry(from).or_default().push_back((number, evicted.clone()));
        PeerPlace { limits: self.clone(), from, number, evicted }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().expect("no panic while it is locked")
    }
}

impl PeerPlace {
    /// Waits until a newer connection of the same address has taken the place.
    pub async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

impl Drop for PeerPlace {
    fn drop(&mut self) {
        let mut taken = self.limits.lock();
        if let Some(of) = taken.by_address.get_mut(&self.from) {
            of.retain(|(number, _)| *number != self.number);
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
}
