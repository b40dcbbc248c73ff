//! Which executors keep which partitions, and who is to keep a copy of one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use firesteel_executor::cluster::{KeptPartition, KeptStatus};
use firesteel_types::{ExecutorId, Host, RddId, StorageLevel};

use super::lock;

/// So many RDDs are remembered as unpersisted, for tasks and copies on their way that still keep a part.
const UNPERSISTED_LIMIT: usize = 1 << 16;

type Block = (RddId, u32);

/// As executors told.
#[derive(Default)]
pub(super) struct Kept(Mutex<Known>);

#[derive(Default)]
struct Known {
    blocks: BTreeMap<Block, Holding>,
    unpersisted: BTreeSet<RddId>,
}

#[derive(Default)]
struct Holding {
    executors: BTreeSet<ExecutorId>,
    /// How many are to keep it.
    wanted: usize,
}

impl Kept {
    /// How an executor keeps a partition now; `None`: not at all. `false` if nobody wants it kept any more.
    pub(super) fn update(
        &self,
        executor: ExecutorId,
        block: Block,
        level: Option<StorageLevel>,
    ) -> bool {
        let known = &mut *lock(&self.0);
        if level.is_some() && known.unpersisted.contains(&block.0) {
            return false;
        }
        let holding = known.blocks.entry(block).or_default();
        match level {
            Some(level) => {
                holding.executors.insert(executor);
                holding.wanted = level.replication as usize;
            }
            None => drop(holding.executors.remove(&executor)),
        }
        if holding.executors.is_empty() {
            known.blocks.remove(&block);
        }
        true
    }

    pub(super) fn holders(&self, block: Block) -> BTreeSet<ExecutorId> {
        let known = lock(&self.0);
        known.blocks.get(&block).map(|holding| holding.executors.clone()).unwrap_or_default()
    }

    /// How what an executor says it keeps differs from what is known.
    pub(super) fn changes(
        &self,
        executor: ExecutorId,
        says: &[KeptPartition],
    ) -> Vec<(RddId, u32, Option<KeptStatus>)> {
        let says: BTreeMap<_, _> =
            says.iter().map(|(rdd, partition, status)| ((*rdd, *partition), *status)).collect();
        let known = lock(&self.0);
        let known =
            known.blocks.iter().filter(|(_, holding)| holding.executors.contains(&executor));
        let known: BTreeSet<_> = known.map(|(block, _)| *block).collect();
        let gone = known.iter().filter(|block| !says.contains_key(block));
        let gone = gone.map(|(rdd, partition)| (*rdd, *partition, None));
        let new = says.iter().filter(|(block, _)| !known.contains(block));
        let new = new.map(|((rdd, partition), status)| (*rdd, *partition, Some(*status)));
        gone.chain(new).collect()
    }

    pub(super) fn executor_lost(&self, executor: ExecutorId) {
        lock(&self.0).blocks.retain(|_, holding| {
            holding.executors.remove(&executor);
            !holding.executors.is_empty()
        });
    }

    /// Partitions that fewer executors keep than are to and could, each with one that has it.
    pub(super) fn short_of_copies(&self, executors: usize) -> BTreeMap<ExecutorId, Vec<Block>> {
        let mut short = BTreeMap::<_, Vec<_>>::new();
        for (block, Holding { executors: holders, wanted }) in &lock(&self.0).blocks {
            if holders.len() < executors.min(*wanted) {
                // Not always the same one.
                if let Some(holder) = holders.iter().nth(block.1 as usize % holders.len()) {
                    short.entry(*holder).or_default().push(*block);
                }
            }
        }
        short
    }

    /// Nobody wants its partitions, from now on until [`Kept::persisted`].
    /// Nobody keeps a part of the RDD now.
    pub(super) fn dropped(&self, rdd: RddId) {
        lock(&self.0).blocks.retain(|(of, _), _| *of != rdd);
    }

    pub(super) fn unpersisted(&self, rdd: RddId) {
        let mut known = lock(&self.0);
        known.blocks.retain(|(of, _), _| *of != rdd);
        known.unpersisted.insert(rdd);
        if known.unpersisted.len() > UNPERSISTED_LIMIT {
            known.unpersisted.pop_first();
        }
    }

    pub(super) fn persisted(&self, rdd: RddId) {
        lock(&self.0).unpersisted.remove(&rdd);
    }
}

/// Who is asked to keep a copy of what `keeper` keeps, the best first: other hosts before its own, and
/// each partition others, so that the copies spread.
pub(super) fn peers(
    keeper: ExecutorId,
    (rdd, partition): Block,
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
        let (block, other) = ((rdd, 0), (RddId(8), 0));
        let level = Some(StorageLevel::MEMORY_ONLY);
        assert!(kept.update(a, block, level));
        assert!(kept.update(b, block, level));
        assert!(kept.update(a, other, level));
        assert_eq!(kept.holders(block), [a, b].into());
        assert!(kept.update(b, block, None));
        assert_eq!(kept.holders(block), [a].into());
        kept.unpersisted(rdd);
        assert!(kept.holders(block).is_empty() && !kept.holders(other).is_empty());
        assert!(!kept.update(b, block, level), "what comes late is for nobody");
        assert!(kept.update(b, block, None) && kept.holders(block).is_empty());
        kept.persisted(rdd);
        assert!(kept.update(b, block, level) && kept.update(b, block, None));
        kept.executor_lost(a);
        assert!(lock(&kept.0).blocks.is_empty());
    }

    #[test]
    fn of_what_too_few_keep_those_who_do_are_asked_for_copies() {
        let kept = Kept::default();
        let (a, b, c) = (ExecutorId(1), ExecutorId(2), ExecutorId(3));
        let rdd = RddId(7);
        for partition in 0..2 {
            kept.update(a, (rdd, partition), Some(StorageLevel::DISK_ONLY_3));
            kept.update(b, (rdd, partition), Some(StorageLevel::DISK_ONLY_3));
        }
        kept.update(a, (rdd, 2), Some(StorageLevel::MEMORY_ONLY));
        kept.update(a, (rdd, 3), Some(StorageLevel::MEMORY_ONLY_2));
        let short = kept.short_of_copies(3);
        assert_eq!(short, [(a, vec![(rdd, 0), (rdd, 3)]), (b, vec![(rdd, 1)])].into());
        assert_eq!(kept.short_of_copies(2), [(a, vec![(rdd, 3)])].into(), "nobody else is there");
        kept.update(c, (rdd, 3), Some(StorageLevel::MEMORY_ONLY_2));
        assert!(kept.short_of_copies(2).is_empty());
        kept.executor_lost(a);
        assert_eq!(kept.short_of_copies(1), [].into());
        let short = [(b, vec![(rdd, 0), (rdd, 1)]), (c, vec![(rdd, 3)])];
        assert_eq!(kept.short_of_copies(2), short.into());
    }

    #[test]
    fn what_was_not_heard_is_found_in_what_an_executor_says_later() {
        let kept = Kept::default();
        let (a, rdd) = (ExecutorId(1), RddId(7));
        let level = StorageLevel::MEMORY_ONLY;
        kept.update(a, (rdd, 0), Some(level));
        kept.update(a, (rdd, 1), Some(level));
        kept.update(ExecutorId(2), (rdd, 3), Some(level));
        let status = (10, 0, level);
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
