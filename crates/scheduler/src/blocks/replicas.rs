//! Replicas of cached partitions: who is to hold one, and which partitions have too few.

use std::collections::{BTreeMap, BTreeSet};

use firesteel_types::{BlockLocation, Host, RddBlock};

use super::cached::Holding;

/// Who has replicas of a cached partition, and who may get one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    /// So many hold one, beside the holder that asked.
    pub replicas: u32,
    /// Those that do not, the best first.
    pub candidates: Vec<BlockLocation>,
}

/// Other hosts come before the holder's own, and for each partition others come first, so that replicas spread.
pub(super) fn peers(
    holder: BlockLocation,
    block: RddBlock,
    holders: &BTreeSet<BlockLocation>,
    all: &BTreeMap<BlockLocation, Host>,
) -> Peers {
    let own = all.get(&holder);
    let others = all.iter().filter(|(other, _)| **other != holder && !holders.contains(other));
    let mut candidates: Vec<_> = others
        .map(|(other, host)| (Some(host) == own, mixed(number(*other, block)), *other))
        .collect();
    candidates.sort_unstable();
    let replicas = holders.iter().filter(|other| **other != holder).count();
    Peers {
        replicas: u32::try_from(replicas).unwrap_or(u32::MAX),
        candidates: candidates.into_iter().map(|(_, _, location)| location).collect(),
    }
}

/// Of these, the partitions that fewer hold than are to and could, each with one of its holders.
pub(super) fn short_of_replicas<'a>(
    cached: impl Iterator<Item = (RddBlock, &'a Holding)>,
    all: usize,
) -> BTreeMap<BlockLocation, Vec<RddBlock>> {
    let mut short = BTreeMap::<_, Vec<_>>::new();
    for (block, Holding { holders, wanted }) in cached {
        if holders.len() >= all.min(*wanted) {
            continue;
        }
        // Not always the same one.
        if let Some(holder) = holders.iter().nth(block.partition as usize % holders.len()) {
            short.entry(*holder).or_default().push(block);
        }
    }
    short
}

fn number(location: BlockLocation, block: RddBlock) -> u64 {
    let holder = location.executor().map_or(u64::MAX, |executor| executor.0.into());
    holder << 32 ^ u64::from(block.rdd.0) << 20 ^ u64::from(block.partition)
}

/// Neighbouring numbers far from each other.
fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
