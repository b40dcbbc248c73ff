//! Kept partitions beyond this process: read from the executor that has them, copied to others as their
//! storage level says.
//!
//! A copy is pulled by its keeper, over a stream: the executor that computed the partition only asks
//! for it, and goes on when enough copies are kept. When copies are lost, the driver has one that is left
//! copied again (`spark.storage.replication.proactive`). Copies are encoded, whatever the level says, and
//! count as kept partitions like any other.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::task::block_in_place;

use firesteel_rpc::{Caller, Context, Endpoint, HandlerError, Message, RpcAddress};
use firesteel_shuffle::{RunWriter, Scratch, Slice, SpillError};
use firesteel_storage::{AnyValue, BlockId, Demote, KeptBlock};
use firesteel_types::{ExecutorId, RddId, StorageLevel};

use super::node::{Node, lock};
use super::protocol::{BlockMasterReply, StreamId, ToBlockMaster};

/// The name of an executor's endpoint that keeps copies.
pub(super) const REPLICAS: &str = "BlockReplicas";

/// To another executor: keep a copy. The reply says whether it does.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct KeepCopy {
    rdd: RddId,
    partition: u32,
    level: StorageLevel,
    /// Where to read it.
    from: RpcAddress,
}

impl Message for KeepCopy {
    type Reply = bool;
}

impl Node {
    /// A partition that another executor keeps, if one does and it can be read.
    pub(super) async fn fetch_kept(&self, rdd: RddId, partition: u32) -> Option<Slice> {
        let id = StreamId::Kept { rdd, partition };
        for (holder, address) in self.executors(ToBlockMaster::LocateKept { rdd, partition }).await
        {
            match self.receive_slice(&address, &id, self.max_in_flight).await {
                Ok(slice) => return Some(slice),
                Err(error) => {
                    tracing::warn!(executor = %holder, %error, "a kept partition is not read there");
                }
            }
        }
        None
    }

    /// The other executors that answer a question.
    async fn executors(&self, question: ToBlockMaster) -> Vec<(ExecutorId, RpcAddress)> {
        match self.block_master.ask(question).await {
            Ok(BlockMasterReply::Executors(mut found)) => {
                found.retain(|(executor, _)| *executor != self.executor);
                found
            }
            Ok(_) => Vec::new(),
            Err(error) => {
                tracing::warn!(%error, "the driver does not say where kept partitions are");
                Vec::new()
            }
        }
    }

    /// Has a partition that this executor has just kept copied to as many others as its level asks for.
    pub(super) async fn replicate(&self, rdd: RddId, partition: u32, level: StorageLevel) {
        let copies = level.replication.saturating_sub(1);
        self.copy_to_others(rdd, partition, level, copies).await;
    }

    /// Has partitions copied that fewer executors keep than their level asks for, one after the other.
    pub(super) async fn copy_again(&self, blocks: &[(RddId, u32)]) {
        let _turn = self.copying_again.lock().await;
        for (rdd, partition) in blocks.iter().copied() {
            // It may have gone, or have found others, while it waited for its turn.
            let Some(status) = self.blocks.status(BlockId::Rdd(rdd, partition)) else { continue };
            let others = self.executors(ToBlockMaster::LocateKept { rdd, partition }).await.len();
            let copies = status.level.replication.saturating_sub(1);
            let missing = copies.saturating_sub(u32::try_from(others).unwrap_or(u32::MAX));
            self.copy_to_others(rdd, partition, status.level, missing).await;
        }
    }

    async fn copy_to_others(&self, rdd: RddId, partition: u32, level: StorageLevel, copies: u32) {
        let block = BlockId::Rdd(rdd, partition);
        if copies == 0 || !lock(&self.copying).insert(block) {
            return;
        }
        let missing = self.ask_for_copies(rdd, partition, level, copies).await;
        lock(&self.copying).remove(&block);
        if missing > 0 {
            tracing::warn!(%block, missing, "fewer executors keep it than its storage level asks for");
        }
    }

    /// How many copies are missing in the end.
    async fn ask_for_copies(
        &self,
        rdd: RddId,
        partition: u32,
        level: StorageLevel,
        copies: u32,
    ) -> u32 {
        let (mut missing, executor) = (copies, self.executor);
        let peers = self.executors(ToBlockMaster::LocatePeers { executor, rdd, partition }).await;
        for (peer, address) in peers {
            if missing == 0 {
                break;
            }
            let from = self.address.clone();
            let copy = KeepCopy { rdd, partition, level, from };
            let asked = match self.env.endpoint_ref(&address.endpoint(REPLICAS)) {
                Ok(replicas) => replicas.ask(copy).await,
                Err(error) => Err(error),
            };
            match asked {
                Ok(true) => missing -= 1,
                Ok(false) => tracing::warn!(executor = %peer, "it has no room for a copy"),
                Err(error) => tracing::warn!(executor = %peer, %error, "it keeps no copy"),
            }
        }
        missing
    }

    async fn keep_copy(&self, copy: &KeepCopy) -> bool {
        let KeepCopy { rdd, partition, level, from } = copy;
        let block = BlockId::Rdd(*rdd, *partition);
        if self.blocks.status(block).is_some() {
            return true;
        }
        let id = StreamId::Kept { rdd: *rdd, partition: *partition };
        let limit = if level.use_memory { self.max_in_flight } else { 0 };
        match self.receive_slice(from, &id, limit).await {
            Ok(slice) => block_in_place(|| self.keep_slice(block, *level, slice)),
            Err(error) => {
                tracing::warn!(%block, %error, "a copy could not be read");
                false
            }
        }
    }

    /// In memory if there is room, else on disk, as the level allows; whether it is kept.
    fn keep_slice(&self, block: BlockId, level: StorageLevel, slice: Slice) -> bool {
        let bytes = slice.bytes();
        if level.use_memory && self.blocks.acquire(block, bytes) {
            let Some(slice) = in_memory(slice) else {
                self.blocks.release(bytes);
                return false;
            };
            let (scratch, copy) = (self.scratch.clone(), slice.clone());
            let demote: Option<Demote> = level.use_disk.then(|| {
                let demote: Demote = Arc::new(move || {
                    let slice =
                        on_disk(block, &scratch, &copy).map_err(|error| error.to_string())?;
                    let bytes = slice.bytes();
                    Ok((Arc::new(slice) as AnyValue, bytes))
                });
                demote
            });
            let value = Arc::new(slice);
            let kept =
                KeptBlock { value, memory_bytes: bytes, disk_bytes: 0, level, demote, pack: None };
            self.blocks.keep(block, kept);
            return true;
        }
        if !level.use_disk {
            return false;
        }
        match on_disk(block, &self.scratch, &slice) {
            Ok(slice) => {
                let disk_bytes = slice.bytes();
                let value = Arc::new(slice);
                let kept = KeptBlock {
                    value,
                    memory_bytes: 0,
                    disk_bytes,
                    level,
                    demote: None,
                    pack: None,
                };
                self.blocks.keep(block, kept);
                true
            }
            Err(error) => {
                tracing::warn!(%block, %error, "a copy could not be kept on disk");
                false
            }
        }
    }
}

/// The same blocks in memory; `None` if they cannot be read back.
fn in_memory(slice: Slice) -> Option<Slice> {
    if !slice.is_on_disk() {
        return Some(slice);
    }
    let mut blocks = Vec::new();
    slice.write_blocks(&mut blocks).ok()?;
    Slice::received(blocks.into()).ok()
}

/// The same records in a file.
fn on_disk(block: BlockId, scratch: &Scratch, slice: &Slice) -> Result<Slice, SpillError> {
    if slice.is_on_disk() {
        return Ok(slice.clone());
    }
    let mut writer = RunWriter::create(scratch, &block.to_string())?;
    writer.push_all(slice.clone())?;
    writer.finish()
}

/// Keeps copies for other executors.
pub(super) struct Replicas(pub(super) Arc<Node>);

impl Endpoint for Replicas {
    type Message = KeepCopy;

    /// Several at once: whoever asks waits for the answer.
    async fn receive(
        &mut self,
        copy: KeepCopy,
        caller: Caller<bool>,
        context: &Context<KeepCopy>,
    ) -> Result<(), HandlerError> {
        let node = self.0.clone();
        context.env().runtime().spawn(async move {
            caller.reply(node.keep_copy(&copy).await);
        });
        Ok(())
    }
}
