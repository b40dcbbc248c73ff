//! Broadcast values as executors get them: encoded once, in pieces with checksums. Who gets which piece from whom is the block
//! master's.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;

use firesteel_executor::LocalEnvironment;
use firesteel_scheduler::blocks::{Piece, PieceRequest};
use firesteel_task::Environment;
use firesteel_types::{BlockLocation, BroadcastId};

use super::super::Engine;
use super::lock;

/// Values up to this size go with the answer.
const WHOLE: usize = 64 << 10;

/// The values that executors have asked for.
pub(super) struct Broadcasts {
    piece_bytes: usize,
    values: Mutex<BTreeMap<BroadcastId, Arc<Value>>>,
    served: AtomicU64,
}

type Value = OnceLock<Result<Encoded, String>>;

struct Encoded {
    bytes: Bytes,
    checksums: Vec<u32>,
}

/// What an executor is to do next.
pub(super) enum Next {
    Gone(String),
    Whole(Bytes),
    Piece { piece: u32, of: u32, bytes: u64, checksum: u32, from: Option<BlockLocation> },
    Wait,
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

    /// Forgets a value, before the block master does.
    pub(super) fn remove(&self, id: BroadcastId) {
        let removed = lock(&self.values).remove(&id);
        drop(removed);
    }

    fn knows(&self, id: BroadcastId) -> bool {
        lock(&self.values).contains_key(&id)
    }

    /// Encodes the value if nobody asked for it before, which runs the user's code: not for a thread that
    /// others wait for.
    pub(super) fn next(&self, id: BroadcastId, engine: &Engine, request: PieceRequest) -> Next {
        let value = lock(&self.values).entry(id).or_default().clone();
        let encoded = match value.get_or_init(|| self.encode(id, engine.environment())) {
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
        let next = engine.next_piece(id, of, request, || self.knows(id));
        let Some(Piece { piece, from }) = next.filter(|next| next.piece < of) else {
            return Next::Wait;
        };
        let bytes = self.range(encoded, piece).len() as u64;
        Next::Piece { piece, of, bytes, checksum: encoded.checksums[piece as usize], from }
    }

    /// The bytes of a piece, to be sent.
    pub(super) fn piece(&self, id: BroadcastId, piece: u32) -> Option<Bytes> {
        let value = lock(&self.values).get(&id).cloned()?;
        let encoded = value.get()?.as_ref().ok()?;
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
