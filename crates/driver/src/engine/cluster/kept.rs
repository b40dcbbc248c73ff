//! Which executors keep which partitions, and who is to keep a copy of one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use firesteel_executor::cluster::{KeptPartition, KeptStatus};
use firesteel_types::{ExecutorId, Host, RddId};

use super::lock;

type Holders = BTreeMap<(RddId, u32), BTreeSet<ExecutorId>>;

/// As executors told.
#[derive(Default)]
pub(super) struct Kept(Mutex<Holders>);

impl Kept {
    pub(super) fn update(&self, executor: ExecutorId, rdd: RddId, partition: u32, present: bool) {
        let mut kept = lock(&self.0);
        let holders = kept.entry((rdd, partition)).or_default();
        match present {
            true => drop(holders.insert(executor)),
            false => drop(holders.remove(&executor)),
        }
        if holders.is_empty() {
            kept.remove(&(rdd, partition));
        }
    }

    pub(super) fn holders(&self, rdd: RddId, partition: u32) -> BTreeSet<ExecutorId> {
        lock(&self.0).get(&(rdd, partition)).cloned().unwrap_or_default()
    }

    /// How what an executor says it keeps differs from what is known.
    pub(super) fn changes(
        &self,
        executor: ExecutorId,
        says: &[KeptPartition],
    ) -> Vec<(RddId, u32, Option<KeptStatus>)> {
        let says: BTreeMap<_, _> =
            says.iter().map(|(rdd, partition, status)| ((*rdd, *partition), *status)).collect();
        let kept = lock(&self.0);
        let known = kept.iter().filter(|(_, holders)| holders.contains(&executor));
        let known: BTreeSet<_> = known.map(|(block, _)| *block).collect();
        let gone = known.iter().filter(|block| !says.contains_key(block));
        let gone = gone.map(|(rdd, partition)| (*rdd, *partition, None));
        let new = says.iter().filter(|(block, _)| !known.contains(block));
        let new = new.map(|((rdd, partition), status)| (*rdd, *partition, Some(*status)));
        gone.chain(new).collect()
    }

    pub(super) fn executor_lost(&self, executor: ExecutorId) {
        lock(&self.0).retain(|_, holders| {
            holders.remove(&executor);
            !holders.is_empty()
        });
    }

    pub(super) fn remove_rdd(&self, rdd: RddId) {
        lock(&self.0).retain(|(of, _), _| *of != rdd);
    }
}

/// Who is asked to keep a copy of what `keeper` keeps, the best first: other hosts before its own, and
/// each partition others, so that the copies spread.
pub(super) fn peers(
    keeper: ExecutorId,
    (rdd, partition): (RddId, u32),
    holders: &BTreeSet<ExecutorId>,
    executors: &BTreeMap<ExecutorId, Host>,
) -> Vec<ExecutorId> {
    let own = executors.get(&keeper);
    let others = executors.iter().filter(|(id, _)| **id != keeper && !holders.contains(id));
    let mut peers: Vec<_> = others
        .map(|(id, host)| {
            let number = u64::from(id.0) << 32 ^ u64::from(rdd.0) << 20 ^ u64::from(partition);
            (Some(host) == own, mixed(number), *id)
        })
        .collect();
    peers.sort_unstable();
    peers.into_iter().map(|(_, _, id)| id).collect()
}

/// Neighbouring numbers far from each other.
fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_come_and_go_by_block_by_rdd_and_by_executor() {
        let kept = Kept::default();
        let (a, b, rdd) = (ExecutorId(1), ExecutorId(2), RddId(7));
        kept.update(a, rdd, 0, true);
        kept.update(b, rdd, 0, true);
        kept.update(a, RddId(8), 0, true);
        assert_eq!(kept.holders(rdd, 0), [a, b].into());
        kept.update(b, rdd, 0, false);
        assert_eq!(kept.holders(rdd, 0), [a].into());
        kept.remove_rdd(rdd);
        assert!(kept.holders(rdd, 0).is_empty() && !kept.holders(RddId(8), 0).is_empty());
        kept.executor_lost(a);
        assert!(lock(&kept.0).is_empty());
    }

    #[test]
    fn what_was_not_heard_is_found_in_what_an_executor_says_later() {
        let kept = Kept::default();
        let (a, rdd) = (ExecutorId(1), RddId(7));
        kept.update(a, rdd, 0, true);
        kept.update(a, rdd, 1, true);
        kept.update(ExecutorId(2), rdd, 3, true);
        let status = (10, 0, firesteel_types::StorageLevel::MEMORY_ONLY);
        let says = [(rdd, 1, status), (rdd, 2, status)];
        let changes = kept.changes(a, &says);
        assert_eq!(changes, [(rdd, 0, None), (rdd, 2, Some(status))]);
        assert!(kept.changes(ExecutorId(2), &[(rdd, 3, status)]).is_empty());
    }

    #[test]
    fn copies_go_to_other_hosts_first_and_to_all_executors_in_turn() {
        let host = |id: u32| Host::new(if id < 2 { "a" } else { "b" });
        let executors: BTreeMap<_, _> = (0..6).map(|id| (ExecutorId(id), host(id))).collect();
        let mut first = BTreeSet::new();
        for partition in 0..100 {
            let block = (RddId(1), partition);
            let found = peers(ExecutorId(0), block, &[ExecutorId(0)].into(), &executors);
            assert_eq!(found.len(), 5);
            assert_eq!(found[4], ExecutorId(1), "its own host comes last");
            first.insert(found[0]);
            let rest = peers(ExecutorId(0), block, &[found[0]].into(), &executors);
            assert_eq!(rest, found[1..], "who has one is not asked");
        }
        assert_eq!(first.len(), 4, "all of the other host get some");
    }
}
