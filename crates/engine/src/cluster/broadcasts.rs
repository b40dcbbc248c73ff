//! Broadcast values in pieces: encoded once, dealt out so that the driver serves each piece about once
//! and executors get the rest from each other.
//!
//! An executor says what it has got and what it misses. It is sent to another one that has a missing
//! piece; else it gets one from the driver that nobody was given yet; else it waits for those
//! that are under way to others. Who waited in vain, or got something broken, is served here.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;

use firesteel_executor::LocalEnvironment;
use firesteel_task::Environment;
use firesteel_types::{BroadcastId, ExecutorId};

use super::lock;

/// Values up to this size go with the answer.
const WHOLE: usize = 64 << 10;

/// What executors were given of the values of this application.
pub(super) struct Broadcasts {
    piece_bytes: usize,
    values: Mutex<BTreeMap<BroadcastId, Arc<Value>>>,
    served: AtomicU64,
}

#[derive(Default)]
struct Value {
    encoded: OnceLock<Result<Encoded, String>>,
    deal: Mutex<Deal>,
}

struct Encoded {
    bytes: Bytes,
    checksums: Vec<u32>,
}

/// What an executor is to do next.
pub(super) enum Next {
    Gone(String),
    Whole(Bytes),
    Piece { piece: u32, of: u32, bytes: u64, checksum: u32, from: Option<ExecutorId> },
    Wait,
}

/// What an executor says.
pub(super) struct Asking<'a> {
    pub(super) executor: ExecutorId,
    /// Pieces that came, and whether it keeps them for others.
    pub(super) came: &'a [(u32, bool)],
    /// `None`: all of them.
    pub(super) missing: Option<Vec<u32>>,
    pub(super) from_driver: bool,
}

impl Broadcasts {
    pub(super) fn new(piece_bytes: u64) -> Self {
        let piece_bytes = usize::try_from(piece_bytes).unwrap_or(usize::MAX).max(1);
        Broadcasts { piece_bytes, values: Mutex::default(), served: AtomicU64::new(0) }
    }

    /// Bytes of values that the driver itself sent.
    pub(super) fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    pub(super) fn remove(&self, id: BroadcastId) {
        let removed = lock(&self.values).remove(&id);
        drop(removed);
    }

    /// Encodes the value if nobody asked for it before, which runs the user's code: not for a thread that
    /// others wait for.
    pub(super) fn next(
        &self,
        id: BroadcastId,
        environment: &LocalEnvironment,
        asking: Asking<'_>,
        is_alive: impl Fn(ExecutorId) -> bool,
    ) -> Next {
        let value = lock(&self.values).entry(id).or_default().clone();
        let encoded = value.encoded.get_or_init(|| self.encode(id, environment));
        let encoded = match encoded {
            Ok(encoded) => encoded,
            Err(reason) => {
                self.remove(id);
                return Next::Gone(reason.clone());
            }
        };
        if encoded.bytes.len() <= WHOLE {
            self.count(encoded.bytes.len());
            return Next::Whole(encoded.bytes.clone());
        }
        let of = encoded.checksums.len() as u32;
        let Some((piece, from)) = lock(&value.deal).next(of, asking, is_alive) else {
            return Next::Wait;
        };
        let bytes = self.range(encoded, piece).len() as u64;
        Next::Piece { piece, of, bytes, checksum: encoded.checksums[piece as usize], from }
    }

    /// The bytes of a piece, to be sent.
    pub(super) fn piece(&self, id: BroadcastId, piece: u32) -> Option<Bytes> {
        let value = lock(&self.values).get(&id).cloned()?;
        let encoded = value.encoded.get()?.as_ref().ok()?;
        let known = (piece as usize) < encoded.checksums.len();
        let bytes = known.then(|| encoded.bytes.slice(self.range(encoded, piece)))?;
        self.count(bytes.len());
        Some(bytes)
    }

    fn count(&self, bytes: usize) {
        self.served.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn encode(&self, id: BroadcastId, environment: &LocalEnvironment) -> Result<Encoded, String> {
        let fetched = environment.fetch_broadcast(id);
        let bytes = Bytes::from(fetched.map_err(|failure| failure.to_string())?);
        let checksums = bytes.chunks(self.piece_bytes).map(crc32fast::hash).collect();
        Ok(Encoded { bytes, checksums })
    }

    fn range(&self, encoded: &Encoded, piece: u32) -> std::ops::Range<usize> {
        let start = piece as usize * self.piece_bytes;
        start..encoded.bytes.len().min(start.saturating_add(self.piece_bytes))
    }
}

/// Who has which piece, and who is given it.
#[derive(Default)]
struct Deal {
    holders: BTreeMap<u32, Vec<ExecutorId>>,
    given: BTreeMap<u32, ExecutorId>,
}

impl Deal {
    /// A piece, and the executor to get it from unless that is the driver; `None`: wait.
    fn next(
        &mut self,
        of: u32,
        asking: Asking<'_>,
        is_alive: impl Fn(ExecutorId) -> bool,
    ) -> Option<(u32, Option<ExecutorId>)> {
        let Asking { executor, came, missing, from_driver } = asking;
        self.note(executor, came);
        let mut missing = missing.unwrap_or_else(|| (0..of).collect());
        missing.retain(|piece| *piece < of);
        if missing.is_empty() {
            return None;
        }
        // Each starts somewhere else, so that they have something for each other.
        let start = executor.0 as usize * 7 % missing.len();
        missing.rotate_left(start);
        if !from_driver
            && let Some(found) = missing.iter().find_map(|piece| {
                let holders = self.holders.get(piece)?;
                let mut others = holders.iter().filter(|id| **id != executor && is_alive(**id));
                let count = others.clone().count();
                let turn = (executor.0 as usize + *piece as usize).checked_rem(count)?;
                Some((*piece, others.nth(turn).copied()))
            })
        {
            return Some(found);
        }
        let free = |piece: &&u32| match self.given.get(piece) {
            Some(other) => *other == executor || !is_alive(*other),
            None => true,
        };
        let piece = missing.iter().find(free).or(missing.first().filter(|_| from_driver))?;
        self.given.insert(*piece, executor);
        Some((*piece, None))
    }

    fn note(&mut self, executor: ExecutorId, came: &[(u32, bool)]) {
        for (piece, is_kept) in came {
            if *is_kept {
                self.holders.entry(*piece).or_default().push(executor);
            }
            self.given.remove(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(executor: u32, came: &[(u32, bool)], missing: &[u32], from_driver: bool) -> Dealt {
        Dealt { executor, came: came.to_vec(), missing: missing.to_vec(), from_driver }
    }

    struct Dealt {
        executor: u32,
        came: Vec<(u32, bool)>,
        missing: Vec<u32>,
        from_driver: bool,
    }

    fn next(deal: &mut Deal, of: u32, dealt: &Dealt) -> Option<(u32, Option<ExecutorId>)> {
        let asking = Asking {
            executor: ExecutorId(dealt.executor),
            came: &dealt.came,
            missing: Some(dealt.missing.clone()),
            from_driver: dealt.from_driver,
        };
        deal.next(of, asking, |id| id.0 < 50)
    }

    #[test]
    fn the_driver_gives_each_piece_once_and_executors_give_them_to_each_other() {
        let (executors, of) = (7u32, 40u32);
        let mut deal = Deal::default();
        let mut missing: Vec<Vec<u32>> = vec![(0..of).collect(); executors as usize];
        let mut came: Vec<Vec<(u32, bool)>> = vec![Vec::new(); executors as usize];
        let mut under_way: Vec<Option<(u32, Option<ExecutorId>)>> = vec![None; executors as usize];
        let (mut from_driver, mut random) = (0, fastrand::Rng::with_seed(1));
        while missing.iter().any(|missing| !missing.is_empty()) {
            let index = random.usize(..executors as usize);
            if let Some((piece, _)) = under_way[index].take() {
                missing[index].retain(|other| *other != piece);
                came[index].push((piece, true));
                continue;
            }
            let news = std::mem::take(&mut came[index]);
            let dealt = asking(index as u32, &news, &missing[index], false);
            under_way[index] = next(&mut deal, of, &dealt);
            if let Some((piece, from)) = under_way[index] {
                assert!(missing[index].contains(&piece));
                from_driver += u32::from(from.is_none());
                let has = |id: ExecutorId| !missing[id.0 as usize].contains(&piece);
                assert!(from.is_none_or(has));
            }
        }
        assert_eq!(from_driver, of);
    }

    #[test]
    fn who_waits_in_vain_is_served_by_the_driver_and_the_dead_are_not_waited_for() {
        let mut deal = Deal::default();
        assert_eq!(next(&mut deal, 1, &asking(1, &[], &[0], false)), Some((0, None)));
        assert_eq!(next(&mut deal, 1, &asking(2, &[], &[0], false)), None, "it is under way");
        assert_eq!(next(&mut deal, 1, &asking(2, &[], &[0], true)), Some((0, None)));
        let mut deal = Deal::default();
        assert_eq!(next(&mut deal, 1, &asking(60, &[], &[0], false)), Some((0, None)));
        assert_eq!(next(&mut deal, 1, &asking(2, &[], &[0], false)), Some((0, None)));
        // It came, but is not kept: the next one gets it here.
        assert_eq!(next(&mut deal, 1, &asking(2, &[(0, false)], &[], false)), None);
        assert_eq!(next(&mut deal, 1, &asking(3, &[], &[0], false)), Some((0, None)));
    }
}
