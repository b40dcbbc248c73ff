//! A broadcast value on its way here: in pieces, from executors that have some already, and from the
//! driver what none of them has. The driver deals the pieces out; each that came is served to others.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;

use firesteel_rpc::RpcAddress;
use firesteel_storage::{BlockId, CachedBlock, HeldBytes};
use firesteel_types::{BroadcastId, StorageLevel, TaskFailure};

use super::block_manager::BlockManager;
use super::protocol::{BlockMasterReply, NextPiece, StreamId, ToBlockMaster};
use super::transfer::TransferError;

/// The pause before asking again when all that is missing is on its way to others.
const PAUSE: Duration = Duration::from_millis(5);
/// After so many pauses in a row the driver serves a piece itself, even if other executors are fetching it.
const PAUSES: u32 = 400;
/// So often a piece may fail to come from the driver itself.
const FAILURES: u32 = 3;

/// What came so far.
#[derive(Default)]
struct Gathered {
    pieces: Vec<Option<Bytes>>,
    /// Pieces that came since the driver was asked last, and whether they are cached for others.
    came: Vec<(u32, bool)>,
    /// What is not cached of it counts as long as it is gathered.
    held: Vec<HeldBytes>,
    pauses: u32,
    failures: u32,
    /// The last holder did not give what it should have.
    mistrust: bool,
}

/// One piece, as it was dealt.
struct Dealt {
    piece: u32,
    bytes: u64,
    checksum: u32,
    from: Option<RpcAddress>,
}

impl Gathered {
    /// Before the first answer nothing is known.
    fn missing(&self) -> Option<Vec<u32>> {
        let missing = self.pieces.iter().enumerate().filter(|(_, piece)| piece.is_none());
        (!self.pieces.is_empty()).then(|| missing.map(|(index, _)| index as u32).collect())
    }

    fn question(&mut self, manager: &BlockManager, broadcast: BroadcastId) -> ToBlockMaster {
        ToBlockMaster::NextPiece {
            reader: manager.location(),
            broadcast,
            came: std::mem::take(&mut self.came),
            missing: self.missing(),
            from_driver: self.mistrust || self.pauses >= PAUSES,
        }
    }

    /// All of it, once nothing is missing.
    fn whole(&self) -> Option<Vec<u8>> {
        let complete = !self.pieces.is_empty() && self.pieces.iter().all(Option::is_some);
        complete.then(|| {
            let pieces: Vec<&[u8]> = self.pieces.iter().flatten().map(|piece| &**piece).collect();
            pieces.concat()
        })
    }
}

impl BlockManager {
    /// The encoded value of a broadcast.
    pub(super) async fn fetch_broadcast(&self, id: BroadcastId) -> Result<Vec<u8>, TaskFailure> {
        let mut gathered = Gathered::default();
        loop {
            let question = gathered.question(self, id);
            let asked = self.ask_driver(question).await;
            match asked.map_err(|error| TaskFailure::Error { message: error.to_string() })? {
                BlockMasterReply::Piece(NextPiece::Whole(value)) => return Ok(value),
                BlockMasterReply::Piece(NextPiece::Wait) => {
                    gathered.pauses += 1;
                    sleep(PAUSE).await;
                }
                BlockMasterReply::Piece(NextPiece::Piece { piece, of, bytes, checksum, from }) => {
                    gathered.pauses = 0;
                    gathered.pieces.resize(of as usize, None);
                    let dealt = Dealt { piece, bytes, checksum, from };
                    self.gather(id, dealt, &mut gathered).await?;
                }
                BlockMasterReply::Piece(NextPiece::Gone(message)) => {
                    return Err(TaskFailure::Fatal { message });
                }
                other => {
                    let message = format!("the driver answered out of turn: {other:?}");
                    return Err(TaskFailure::Error { message });
                }
            }
            if let Some(value) = gathered.whole() {
                // What came last is served from now on. Nobody waits for the answer.
                let _ = self.block_master.send(gathered.question(self, id)).await;
                return Ok(value);
            }
        }
    }

    async fn gather(
        &self,
        id: BroadcastId,
        dealt: Dealt,
        gathered: &mut Gathered,
    ) -> Result<(), TaskFailure> {
        let Dealt { piece, .. } = dealt;
        match self.receive_piece(id, &dealt).await {
            Ok(bytes) => {
                gathered.mistrust = false;
                let kept = self.keep_piece(id, piece, &bytes);
                if !kept {
                    let (memory, bytes) = (self.scratch.memory(), bytes.len() as u64);
                    gathered.held.push(HeldBytes::count(memory, bytes, "a broadcast value"));
                }
                gathered.came.push((piece, kept));
                if let Some(place) = gathered.pieces.get_mut(piece as usize) {
                    *place = Some(bytes);
                }
                Ok(())
            }
            Err(message) if dealt.from.is_some() => {
                tracing::warn!(broadcast = %id, piece, message, "a piece is asked of the driver");
                gathered.mistrust = true;
                Ok(())
            }
            Err(message) => {
                gathered.failures += 1;
                match gathered.failures >= FAILURES {
                    true => Err(TaskFailure::Error { message }),
                    false => Ok(()),
                }
            }
        }
    }

    async fn receive_piece(&self, id: BroadcastId, dealt: &Dealt) -> Result<Bytes, String> {
        let name = StreamId::Piece { broadcast: id, piece: dealt.piece };
        let from = dealt.from.as_ref().unwrap_or(&self.driver);
        let received = self.receive(from, &name, dealt.bytes).await;
        let bytes = received.map_err(|error: TransferError| error.to_string())?;
        match crc32fast::hash(&bytes) == dealt.checksum {
            true => Ok(bytes.into()),
            false => Err(format!("piece {} of broadcast {id} from {from} is broken", dealt.piece)),
        }
    }

    /// Caches a piece for others in storage memory that nobody uses; evicted when somebody needs it.
    fn keep_piece(&self, id: BroadcastId, piece: u32, bytes: &Bytes) -> bool {
        let memory_bytes = bytes.len() as u64;
        if !self.scratch.memory().acquire_storage(memory_bytes) {
            return false;
        }
        let (value, level) = (Arc::new(bytes.clone()), StorageLevel::MEMORY_ONLY);
        let cached = CachedBlock {
            value,
            memory_bytes,
            disk_bytes: 0,
            level,
            demote: None,
            pack: None,
            epoch: 0,
        };
        self.blocks.put_cached(BlockId::BroadcastPiece(id, piece), cached);
        true
    }
}
