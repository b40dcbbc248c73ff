//! What comes in over the network: words of executors, questions about blocks, streams.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use firesteel_backend::protocol::ToDriver;
use firesteel_backend::wire;
use firesteel_closure::ExecutableHash;
use firesteel_executor::cluster::{
    BLOCKS, BlockMasterReply, KeptPartition, KeptStatus, NextPiece, StreamId, ToBlockMaster,
    ToBlocks,
};
use firesteel_executor::{Forgotten, LocalEnvironment};
use firesteel_rpc::{
    Caller, Context, Endpoint, HandlerError, OpenError, Peer, StreamBody, StreamSource,
};

use firesteel_types::{ExecutorId, RddId};

use super::actor::News;
use super::broadcasts::{Asking, Next};
use super::{Cluster, Link, lock};

/// Hears executors.
pub(super) struct Scheduler {
    pub(super) news: Sender<News>,
    /// Connections that the actor has a way back over.
    pub(super) known: BTreeSet<u64>,
}

impl Endpoint for Scheduler {
    type Message = ToDriver;

    async fn receive(
        &mut self,
        message: ToDriver,
        caller: Caller<()>,
        _: &Context<ToDriver>,
    ) -> Result<(), HandlerError> {
        let connection = caller.peer().connection;
        let link = match self.known.insert(connection) {
            true => caller.endpoint_ref(wire::EXECUTOR).zip(caller.endpoint_ref(BLOCKS)),
            false => None,
        };
        let link = link.map(|(tasks, blocks)| Box::new(Link { tasks, blocks }));
        let _ = self.news.send(News::FromExecutor(connection, link, message));
        Ok(())
    }

    async fn on_disconnected(&mut self, peer: Peer, _: &Context<ToDriver>) {
        self.known.remove(&peer.connection);
        let _ = self.news.send(News::ExecutorGone(peer.connection));
    }
}

/// Knows where blocks lie.
pub(super) struct BlockMaster {
    pub(super) cluster: Arc<Cluster>,
    pub(super) environment: Arc<LocalEnvironment>,
    pub(super) hash: ExecutableHash,
}

impl BlockMaster {
    /// What an executor keeps, in case that a change was not heard.
    fn heal(&self, executor: ExecutorId, kept: Option<Vec<KeptPartition>>) {
        let Some(kept) = kept else { return };
        let changes = self.cluster.kept.changes(executor, &kept).into_iter();
        let refused = changes.filter(|(rdd, partition, status)| {
            !self.kept_changed(executor, (*rdd, *partition), *status)
        });
        let refused: BTreeSet<RddId> = refused.map(|(rdd, ..)| rdd).collect();
        refused.into_iter().for_each(|rdd| self.drop_unpersisted(executor, rdd));
    }

    /// Noted at once, so that who asks next hears of it; `false` if nobody wants it kept.
    fn kept_changed(
        &self,
        executor: ExecutorId,
        block: (RddId, u32),
        status: Option<KeptStatus>,
    ) -> bool {
        // Under the lock: of an executor that is being given up, nothing is noted after its end.
        let executors = lock(&self.cluster.executors);
        let level = status.map(|(_, _, level)| level);
        if !executors.contains_key(&executor) {
            return true;
        }
        let is_wanted = self.cluster.kept.update(executor, block, level);
        if is_wanted {
            let _ = self.cluster.news.send(News::BlockUpdated(executor, block, status));
        }
        is_wanted
    }

    /// A task or a copy was on its way when the RDD was unpersisted.
    fn drop_unpersisted(&self, executor: ExecutorId, rdd: RddId) {
        self.cluster.tell_blocks(executor, ToBlocks::Forget(Forgotten::Rdd(rdd)));
    }
}

impl Endpoint for BlockMaster {
    type Message = ToBlockMaster;

    async fn receive(
        &mut self,
        message: ToBlockMaster,
        caller: Caller<BlockMasterReply>,
        context: &Context<ToBlockMaster>,
    ) -> Result<(), HandlerError> {
        let reply = match message {
            asking @ ToBlockMaster::NextPiece { .. } => {
                // It may have to encode the value, which nobody else shall wait for.
                let (cluster, environment) = (self.cluster.clone(), self.environment.clone());
                context.env().runtime().spawn_blocking(move || {
                    let next = next_piece(&cluster, &environment, asking);
                    caller.reply(BlockMasterReply::Piece(next));
                });
                return Ok(());
            }
            ToBlockMaster::Introduce { address, max_memory } => {
                let connection = caller.peer().connection;
                lock(&self.cluster.introduced).insert(connection, (address, max_memory));
                BlockMasterReply::Welcome(self.hash)
            }
            ToBlockMaster::LocateMapOutputs(shuffle) => {
                BlockMasterReply::MapOutputs(self.cluster.locate(shuffle))
            }
            ToBlockMaster::IsAlive(executor) => {
                BlockMasterReply::Alive(self.cluster.is_live(executor))
            }
            ToBlockMaster::LocateKept { rdd, partition } => {
                let holders = self.cluster.kept.holders((rdd, partition));
                BlockMasterReply::Executors(self.cluster.addresses(holders))
            }
            ToBlockMaster::LocatePeers { executor, rdd, partition } => {
                let (copies, executors) = self.cluster.peers(executor, (rdd, partition));
                BlockMasterReply::Peers { copies, executors }
            }
            ToBlockMaster::Heartbeat { executor, metrics, tasks, kept } => {
                if self.cluster.is_live(executor) {
                    let _ = self.cluster.news.send(News::Heartbeat(executor, metrics, tasks));
                    self.heal(executor, kept);
                }
                BlockMasterReply::Noted
            }
            ToBlockMaster::BlockUpdated { executor, rdd, partition, status } => {
                if !self.kept_changed(executor, (rdd, partition), status) {
                    self.drop_unpersisted(executor, rdd);
                }
                BlockMasterReply::Noted
            }
        };
        caller.reply(reply);
        Ok(())
    }

    async fn on_disconnected(&mut self, peer: Peer, _: &Context<ToBlockMaster>) {
        lock(&self.cluster.introduced).remove(&peer.connection);
    }
}

fn next_piece(
    cluster: &Cluster,
    environment: &LocalEnvironment,
    asked: ToBlockMaster,
) -> NextPiece {
    let ToBlockMaster::NextPiece { executor, broadcast, came, missing, from_driver } = asked else {
        return NextPiece::Gone("it was not asked for".to_owned());
    };
    let asking = Asking { executor, came: &came, missing, from_driver };
    match cluster.broadcasts.next(broadcast, environment, asking, |id| cluster.is_live(id)) {
        Next::Gone(reason) => NextPiece::Gone(reason),
        Next::Whole(value) => NextPiece::Whole(value.into()),
        Next::Wait => NextPiece::Wait,
        Next::Piece { piece, of, bytes, checksum, from } => {
            // Lost since: the driver serves it.
            let from = from.and_then(|from| Some(cluster.addresses([from]).pop()?.1));
            NextPiece::Piece { piece, of, bytes, checksum, from }
        }
    }
}

/// What executors read of the driver.
pub(super) struct Streams {
    pub(super) cluster: Arc<Cluster>,
}

impl StreamSource for Streams {
    fn open(&self, id: &str, _: &Peer) -> Result<StreamBody, OpenError> {
        if let Some(hash) = wire::parse_content(id) {
            return self.cluster.contents.open(&hash);
        }
        match StreamId::parse(id) {
            Some(StreamId::Code(code)) => {
                let code = lock(&self.cluster.code).get(&code).and_then(std::sync::Weak::upgrade);
                let code = code.ok_or(OpenError::Missing)?;
                let body = code.encoded().as_ref().map_err(|_| OpenError::Missing)?;
                Ok(StreamBody::Bytes(body.clone().into()))
            }
            Some(StreamId::Piece { broadcast, piece }) => {
                let bytes = self.cluster.broadcasts.piece(broadcast, piece);
                bytes.map(StreamBody::Bytes).ok_or(OpenError::Missing)
            }
            _ => Err(OpenError::Missing),
        }
    }
}
