//! Cached partitions beyond this process: read from the executor that has them, replicated to others as their
//! storage level says.
//!
//! A replica is pulled by its new holder, over a stream: the executor that computed the partition only asks for it, and
//! goes on when there are enough. When replicas are lost, the driver has one that is left replicated
//! again (`spark.storage.replication.proactive`). Replicas are encoded, whatever the level says, and count as
//! cached partitions like any other.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::task::block_in_place;

use firesteel_rpc::{Caller, Context, Endpoint, HandlerError, Message, RpcAddress};
use firesteel_shuffle::{RunWriter, Scratch, Slice, SpillError};
use firesteel_storage::{AnyValue, BlockId, CachedBlock, Demote};
use firesteel_types::{BlockLocation, BlockStatus, RddBlock, RddId, StorageLevel};

use super::block_manager::{BlockManager, lock};
use super::protocol::{BlockMasterReply, StreamId, ToBlockMaster};
use super::transfer::{TransferError, into_file, into_memory};

/// The name of an executor's endpoint that keeps copies.
pub(super) const REPLICAS: &str = "BlockReplicas";

/// To another executor: keep a copy. The reply says whether it does.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct HoldReplica {
    rdd: RddId,
    partition: u32,
    level: StorageLevel,
    /// The epoch in which the task was launched that computed it.
    epoch: u64,
    /// Where to read it.
    from: RpcAddress,
}

impl Message for HoldReplica {
    type Reply = bool;
}

impl BlockManager {
    /// A partition that another executor keeps, if one does and it can be read.
    pub(super) async fn fetch_cached(&self, rdd: RddId, partition: u32) -> Option<Slice> {
        let id = StreamId::Cached { rdd, partition, epoch: self.blocks.outdated_before(rdd) };
        for (holder, address) in self.holders(RddBlock { rdd, partition }).await {
            match self.receive_slice(&address, &id, self.max_in_flight).await {
                Ok(slice) => return Some(slice),
                Err(error) => {
                    tracing::warn!(%holder, %error, "a cached partition is not read there");
                }
            }
        }
        None
    }

    /// Who else holds a cached partition.
    async fn holders(&self, block: RddBlock) -> Vec<(BlockLocation, RpcAddress)> {
        match self.ask_driver(ToBlockMaster::LocateCached(block)).await {
            Ok(BlockMasterReply::Holders(mut found)) => {
                found.retain(|(holder, _)| *holder != self.location());
                found
            }
            Ok(_) => Vec::new(),
            Err(error) => {
                tracing::warn!(%error, "the driver does not say where cached partitions are");
                Vec::new()
            }
        }
    }

    /// Notes that the driver wants partitions replicated; whether [`BlockManager::make_replicas`] is to be called.
    pub(super) fn want_replicas(&self, blocks: Vec<RddBlock>) -> bool {
        let (wanted, at_it) = &mut *lock(&self.wanted_replicas);
        wanted.extend(blocks);
        !std::mem::replace(at_it, true)
    }

    /// Has partitions replicated, one after the other, until none is wanted.
    pub(super) async fn make_replicas(&self) {
        while let Some(RddBlock { rdd, partition }) = self.next_wanted_replica() {
            // It may have gone while it waited for its turn.
            if let Some(status) = self.blocks.status(BlockId::Rdd(rdd, partition)) {
                self.replicate(rdd, partition, status).await;
            }
        }
    }

    fn next_wanted_replica(&self) -> Option<RddBlock> {
        let (wanted, at_it) = &mut *lock(&self.wanted_replicas);
        let next = wanted.pop_first();
        *at_it = next.is_some();
        next
    }

    /// Has a partition that is cached here replicated until as many executors hold it as its level asks for, unless
    /// that is being done already.
    pub(super) async fn replicate(&self, rdd: RddId, partition: u32, status: BlockStatus) {
        let block = BlockId::Rdd(rdd, partition);
        if status.level.replication < 2 || !lock(&self.copying).insert(block) {
            return;
        }
        let missing = self.ask_for_replicas(rdd, partition, status).await;
        lock(&self.copying).remove(&block);
        if missing > 0 {
            tracing::warn!(%block, missing, "fewer executors keep it than its storage level asks for");
        }
    }

    /// How many replicas are missing in the end.
    async fn ask_for_replicas(&self, rdd: RddId, partition: u32, status: BlockStatus) -> u32 {
        let BlockStatus { level, epoch, .. } = status;
        let (holder, block) = (self.location(), RddBlock { rdd, partition });
        let wanted = level.replication.saturating_sub(1);
        let asked = self.ask_driver(ToBlockMaster::LocatePeers { holder, block });
        let (replicas, peers) = match asked.await {
            Ok(BlockMasterReply::Peers { replicas, peers }) => (replicas, peers),
            Ok(_) => return wanted,
            Err(error) => {
                tracing::warn!(%error, "the driver does not say who is to hold a replica");
                return wanted;
            }
        };
        let mut missing = wanted.saturating_sub(replicas);
        for (peer, address) in peers {
            if missing == 0 {
                break;
            }
            let from = self.address.clone();
            let copy = HoldReplica { rdd, partition, level, epoch, from };
            let asked = match self.env.endpoint_ref(&address.endpoint(REPLICAS)) {
                Ok(replicas) => replicas.ask(copy).await,
                Err(error) => Err(error),
            };
            match asked {
                Ok(true) => missing -= 1,
                Ok(false) => tracing::warn!(%peer, "it has no memory or disk for a replica"),
                Err(error) => tracing::warn!(%peer, %error, "it holds no replica"),
            }
        }
        missing
    }

    async fn hold_replica(&self, copy: &HoldReplica) -> bool {
        let block = BlockId::Rdd(copy.rdd, copy.partition);
        if self.blocks.status(block).is_some_and(|status| status.epoch >= copy.epoch) {
            return true;
        }
        match self.pull_replica(block, copy).await {
            Ok(Some(cached)) => {
                block_in_place(|| self.blocks.put_cached(block, cached));
                // It may have been outdated meanwhile.
                self.blocks.status(block).is_some_and(|status| status.epoch >= copy.epoch)
            }
            Ok(None) => false,
            Err(error) => {
                tracing::warn!(%block, %error, "a copy could not be read");
                false
            }
        }
    }

    /// Into memory that is taken before the first byte comes, else onto disk, as the level allows; `None`: neither
    /// has enough for it.
    async fn pull_replica(
        &self,
        block: BlockId,
        copy: &HoldReplica,
    ) -> Result<Option<CachedBlock>, TransferError> {
        let HoldReplica { rdd, partition, level, epoch, from } = copy;
        let (level, epoch) = (*level, *epoch);
        let id = StreamId::Cached { rdd: *rdd, partition: *partition, epoch };
        let stream = self.env.streams().open(from, &id.to_string(), u64::MAX).await?;
        let bytes = stream.length();
        let cached = |slice: Slice, memory_bytes, disk_bytes, demote| {
            let value = Arc::new(slice);
            let pack = None;
            Ok(Some(CachedBlock { value, memory_bytes, disk_bytes, level, demote, pack, epoch }))
        };
        if level.use_memory && block_in_place(|| self.blocks.acquire(block, bytes)) {
            return match into_memory(stream).await {
                Ok(slice) => {
                    let demote = level.use_disk.then(|| self.demote(block, slice.clone()));
                    cached(slice, bytes, 0, demote)
                }
                Err(error) => {
                    self.blocks.release(bytes);
                    Err(error)
                }
            };
        }
        if !level.use_disk {
            return Ok(None);
        }
        let slice = into_file(stream, &self.scratch).await?;
        let disk_bytes = slice.bytes();
        cached(slice, 0, disk_bytes, None)
    }

    /// How a replica in memory is evicted.
    fn demote(&self, block: BlockId, copy: Slice) -> Demote {
        let scratch = self.scratch.clone();
        Arc::new(move || {
            let slice = on_disk(block, &scratch, &copy).map_err(|error| error.to_string())?;
            let bytes = slice.bytes();
            Ok((Arc::new(slice) as AnyValue, bytes))
        })
    }
}

/// The same records in a file.
fn on_disk(block: BlockId, scratch: &Scratch, slice: &Slice) -> Result<Slice, SpillError> {
    let mut writer = RunWriter::create(scratch, &block.to_string())?;
    writer.push_all(slice.clone())?;
    writer.finish()
}

/// Keeps copies for other executors.
pub(super) struct Replicas(pub(super) Arc<BlockManager>);

impl Endpoint for Replicas {
    type Message = HoldReplica;

    /// Handles several at once: the executor that sends one waits for the answer.
    async fn receive(
        &mut self,
        copy: HoldReplica,
        caller: Caller<bool>,
        context: &Context<HoldReplica>,
    ) -> Result<(), HandlerError> {
        let manager = self.0.clone();
        context.env().runtime().spawn(async move {
            caller.reply(manager.hold_replica(&copy).await);
        });
        Ok(())
    }
}
