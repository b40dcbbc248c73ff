//! A broadcast value on its way to executors, in pieces that they get from the driver and from each other.

use std::collections::BTreeSet;

use firesteel_scheduler::blocks::PieceRequest;
use firesteel_types::{BlockLocation, BroadcastId};

use crate::plan::NETWORK_TIMEOUT_MS;
use crate::world::{Body, Event, ProcId, World};

/// The value that every application broadcasts.
const VALUE: BroadcastId = BroadcastId(0);
/// How many pieces it has.
const PIECES: u32 = 6;
/// After so many pauses in a row the driver is to serve a piece itself.
const PAUSES: u32 = 20;
/// How long it may take until an executor has the value.
const SLOW_MS: u64 = 2 * NETWORK_TIMEOUT_MS;

/// What an executor has of the value.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    since: Option<u64>,
    pieces: BTreeSet<u32>,
    /// What came since the driver was asked last.
    came: Vec<(u32, bool)>,
    pauses: u32,
    /// The last holder did not give what it should have.
    mistrust: bool,
}

impl Gathered {
    fn request(&mut self, reader: BlockLocation) -> PieceRequest {
        let missing = (0..PIECES).filter(|piece| !self.pieces.contains(piece)).collect();
        PieceRequest {
            reader,
            came: std::mem::take(&mut self.came),
            missing: Some(missing),
            from_driver: self.mistrust || self.pauses >= PAUSES,
        }
    }

    fn got(&mut self, piece: u32, is_kept: bool) {
        self.pieces.insert(piece);
        self.came.push((piece, is_kept));
        (self.mistrust, self.pauses) = (false, 0);
    }
}

impl World {
    /// An executor's first task needs the value.
    pub(crate) fn need_value(&mut self, proc: ProcId) {
        let now = self.now;
        let Some(Body::Executor(node)) = &mut self.procs[proc].body else { return };
        if node.gathered.since.is_none() {
            node.gathered.since = Some(now);
            self.push(now + 1, Event::NextPiece(proc));
        }
    }

    /// The executor asks for the next piece, and gets it or does not.
    pub(crate) fn next_piece(&mut self, proc: ProcId) -> Result<(), String> {
        let Some(Body::Executor(node)) = &mut self.procs[proc].body else { return Ok(()) };
        let (driver, key) = (node.driver, node.key.clone());
        let awake = self.procs[driver].paused_until;
        if awake > self.now {
            self.push(awake, Event::NextPiece(proc));
            return Ok(());
        }
        let Some(Body::Executor(node)) = &mut self.procs[proc].body else { return Ok(()) };
        let request = node.gathered.request(key.executor.into());
        let complete = node.gathered.pieces.len() == PIECES as usize;
        let Some(Body::Driver(node)) = &mut self.procs[driver].body else { return Ok(()) };
        let next = node.scheduler.next_piece(VALUE, PIECES, request);
        if complete {
            return Ok(());
        }
        if let Some(from) = next.and_then(|next| next.from) {
            node.book.check_lives(from)?;
        }
        let served = next.is_some_and(|next| match next.from {
            Some(from) => self.serves_piece(self.holder(&key, from), next.piece),
            None => true,
        });
        let is_kept = self.rng.u8(..8) > 0;
        let from_driver = next.is_some_and(|next| next.from.is_none());
        let Some(Body::Executor(node)) = &mut self.procs[proc].body else { return Ok(()) };
        match next {
            None => node.gathered.pauses += 1,
            Some(next) if served => node.gathered.got(next.piece, is_kept),
            Some(_) => node.gathered.mistrust = true,
        }
        self.counters.pieces_from_driver += u64::from(from_driver);
        self.counters.pieces_from_executors += u64::from(served && !from_driver);
        self.counters.pieces_refused += u64::from(next.is_some() && !served);
        let at = self.now + 1 + self.rng.u64(..100);
        self.push(at, Event::NextPiece(proc));
        Ok(())
    }

    fn serves_piece(&self, holder: Option<ProcId>, piece: u32) -> bool {
        let holder = holder.map(|holder| &self.procs[holder]);
        let holder = holder.filter(|holder| holder.alive && holder.paused_until <= self.now);
        match holder.and_then(|holder| holder.body.as_ref()) {
            Some(Body::Executor(node)) => node.gathered.pieces.contains(&piece),
            _ => false,
        }
    }

    /// L09: an executor that needs the value gets it.
    pub(crate) fn check_pieces(&self) -> Result<(), String> {
        for (key, proc) in &self.executors {
            let proc = &self.procs[*proc];
            let Some(Body::Executor(node)) = &proc.body else { continue };
            let Some(since) = node.gathered.since.filter(|_| proc.alive && !node.frozen) else {
                continue;
            };
            let since = since.max(proc.paused_until).max(self.plan.quiet_at);
            let driver = self.procs[node.driver].alive;
            if driver && since + SLOW_MS < self.now && node.gathered.pieces.len() < PIECES as usize
            {
                return Err(format!("L09: executor {key} does not get the value"));
            }
        }
        Ok(())
    }
}
