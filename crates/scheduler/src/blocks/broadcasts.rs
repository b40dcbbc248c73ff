//! Pieces of broadcast values: which one a reader gets next, and from whom.
//!
//! The driver serves each piece about once, and readers get the rest from each other. A reader says what it has got and what it
//! misses. It is sent to somebody who has a missing piece; else it gets one from the driver that nobody was given
//! yet; else it waits for those that are under way to others. The driver serves a reader that
//! waited in vain or got something broken.

use std::collections::BTreeMap;

use firesteel_types::{BlockLocation, BroadcastId};

/// What a reader of a broadcast value says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PieceRequest {
    /// It reads there.
    pub reader: BlockLocation,
    /// Pieces that came since it asked last, and whether it serves them to others.
    pub came: Vec<(u32, bool)>,
    /// Those it misses; `None`: all.
    pub missing: Option<Vec<u32>>,
    /// Others did not serve it: the driver shall.
    pub from_driver: bool,
}

/// The piece to get next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub piece: u32,
    /// Who serves it; `None`: the driver.
    pub from: Option<BlockLocation>,
}

/// Who has which pieces, by value.
#[derive(Debug, Default)]
pub(super) struct Broadcasts {
    values: BTreeMap<BroadcastId, Pieces>,
}

/// Who has which piece of a value, and to whom it is under way from the driver.
#[derive(Debug, Default)]
struct Pieces {
    holders: BTreeMap<u32, Vec<BlockLocation>>,
    given: BTreeMap<u32, BlockLocation>,
}

impl Broadcasts {
    /// The next of so many pieces; `None`: wait.
    pub(super) fn next(
        &mut self,
        id: BroadcastId,
        of: u32,
        request: PieceRequest,
        lives: impl Fn(BlockLocation) -> bool,
    ) -> Option<Piece> {
        self.values.entry(id).or_default().next(of, request, lives)
    }

    pub(super) fn remove(&mut self, id: BroadcastId) {
        self.values.remove(&id);
    }

    /// Forgets the pieces that a holder has or was given.
    pub(super) fn remove_holder(&mut self, location: BlockLocation) {
        for pieces in self.values.values_mut() {
            pieces.given.retain(|_, reader| *reader != location);
            pieces.holders.retain(|_, holders| {
                holders.retain(|holder| *holder != location);
                !holders.is_empty()
            });
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }
}

impl Pieces {
    fn next(
        &mut self,
        of: u32,
        request: PieceRequest,
        lives: impl Fn(BlockLocation) -> bool,
    ) -> Option<Piece> {
        let PieceRequest { reader, came, missing, from_driver } = request;
        self.note(reader, &came, of);
        let mut missing = missing.unwrap_or_else(|| (0..of).collect());
        missing.retain(|piece| *piece < of);
        if missing.is_empty() {
            return None;
        }
        // Each starts somewhere else, so that they have something for each other.
        let start = number(reader).wrapping_mul(7) % missing.len();
        missing.rotate_left(start);
        let from_others = || missing.iter().find_map(|piece| self.held(*piece, reader, &lives));
        if let Some(found) = (!from_driver).then(from_others).flatten() {
            return Some(found);
        }
        let free = |piece: &&u32| match self.given.get(piece) {
            Some(other) => *other == reader || !lives(*other),
            None => true,
        };
        let piece = *missing.iter().find(free).or(missing.first().filter(|_| from_driver))?;
        self.given.insert(piece, reader);
        Some(Piece { piece, from: None })
    }

    /// A piece that somebody else has, who lives.
    fn held(
        &self,
        piece: u32,
        reader: BlockLocation,
        lives: impl Fn(BlockLocation) -> bool,
    ) -> Option<Piece> {
        let holders = self.holders.get(&piece)?;
        let mut others = holders.iter().filter(|holder| **holder != reader && lives(**holder));
        let count = others.clone().count();
        let turn = number(reader).wrapping_add(piece as usize).checked_rem(count)?;
        Some(Piece { piece, from: others.nth(turn).copied() })
    }

    fn note(&mut self, reader: BlockLocation, came: &[(u32, bool)], of: u32) {
        for (piece, is_kept) in came.iter().filter(|(piece, _)| *piece < of) {
            let holders = self.holders.entry(*piece).or_default();
            if *is_kept && !holders.contains(&reader) {
                holders.push(reader);
            }
            self.given.remove(piece);
        }
    }
}

fn number(location: BlockLocation) -> usize {
    location.executor().map_or(usize::MAX, |executor| executor.0 as usize)
}

#[cfg(test)]
mod tests {
    use firesteel_types::ExecutorId;

    use super::*;

    fn ask(
        pieces: &mut Pieces,
        of: u32,
        reader: u32,
        came: &[(u32, bool)],
        missing: &[u32],
        from_driver: bool,
    ) -> Option<Piece> {
        let (reader, came) = (ExecutorId(reader).into(), came.to_vec());
        let missing = Some(missing.to_vec());
        let request = PieceRequest { reader, came, missing, from_driver };
        pieces.next(of, request, |at| at.executor().is_some_and(|executor| executor.0 < 50))
    }

    #[test]
    fn the_driver_gives_each_piece_once_and_executors_give_them_to_each_other() {
        let (executors, of) = (7u32, 40u32);
        let mut pieces = Pieces::default();
        let mut missing: Vec<Vec<u32>> = vec![(0..of).collect(); executors as usize];
        let mut came: Vec<Vec<(u32, bool)>> = vec![Vec::new(); executors as usize];
        let mut under_way: Vec<Option<Piece>> = vec![None; executors as usize];
        let (mut from_driver, mut random) = (0, fastrand::Rng::with_seed(1));
        while missing.iter().any(|missing| !missing.is_empty()) {
            let index = random.usize(..executors as usize);
            if let Some(Piece { piece, .. }) = under_way[index].take() {
                missing[index].retain(|other| *other != piece);
                came[index].push((piece, true));
                continue;
            }
            let since = std::mem::take(&mut came[index]);
            under_way[index] = ask(&mut pieces, of, index as u32, &since, &missing[index], false);
            if let Some(Piece { piece, from }) = under_way[index] {
                assert!(missing[index].contains(&piece));
                from_driver += u32::from(from.is_none());
                let holder = from.and_then(BlockLocation::executor);
                assert!(holder.is_none_or(|id| !missing[id.0 as usize].contains(&piece)));
            }
        }
        assert_eq!(from_driver, of);
    }

    #[test]
    fn who_waits_in_vain_is_served_by_the_driver_and_the_lost_are_not_waited_for() {
        let from_driver = Some(Piece { piece: 0, from: None });
        let mut pieces = Pieces::default();
        assert_eq!(ask(&mut pieces, 1, 1, &[], &[0], false), from_driver);
        assert_eq!(ask(&mut pieces, 1, 2, &[], &[0], false), None, "it is under way");
        assert_eq!(ask(&mut pieces, 1, 2, &[], &[0], true), from_driver);
        let mut pieces = Pieces::default();
        assert_eq!(ask(&mut pieces, 1, 60, &[], &[0], false), from_driver);
        assert_eq!(ask(&mut pieces, 1, 2, &[], &[0], false), from_driver);
        // It came, but is not kept: the next one gets it from the driver.
        assert_eq!(ask(&mut pieces, 1, 2, &[(0, false)], &[], false), None);
        assert_eq!(ask(&mut pieces, 1, 3, &[], &[0], false), from_driver);
    }

    #[test]
    fn pieces_go_with_their_holder_and_with_their_value() {
        let (mut all, id) = (Broadcasts::default(), BroadcastId(4));
        let ask = |all: &mut Broadcasts, reader: u32, came: &[(u32, bool)]| {
            let (reader, came) = (ExecutorId(reader).into(), came.to_vec());
            let request = PieceRequest { reader, came, missing: Some(vec![0]), from_driver: false };
            all.next(id, 1, request, |_| true)
        };
        ask(&mut all, 1, &[(0, true), (9, true)]);
        let found = ask(&mut all, 2, &[]);
        assert_eq!(found, Some(Piece { piece: 0, from: Some(ExecutorId(1).into()) }));
        all.remove_holder(ExecutorId(1).into());
        assert_eq!(ask(&mut all, 2, &[]), Some(Piece { piece: 0, from: None }));
        assert_eq!(ask(&mut all, 3, &[]), None, "it is under way to 2");
        all.remove_holder(ExecutorId(2).into());
        assert_eq!(ask(&mut all, 3, &[]), Some(Piece { piece: 0, from: None }));
        all.remove(id);
        assert_eq!(all.len(), 0);
    }
}
