//! What comes in over the network: words of executors, questions about blocks, streams.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Weak};

use firesteel_backend::protocol::ToDriver;
use firesteel_backend::wire;
use firesteel_closure::ExecutableHash;
use firesteel_executor::node::{
    BLOCKS, BlockMasterReply, MapOutputLocations, NextPiece, StreamId, THREADS, ToBlockMaster,
    items_answer,
};
use firesteel_rpc::{
    Caller, Context, Endpoint, HandlerError, OpenError, Peer, StreamBody, StreamSource,
};
use firesteel_scheduler::SchedulerInput;
use firesteel_scheduler::blocks::{BlockMaster as Blocks, Peers, PieceRequest};
use firesteel_storage::Clock;
use firesteel_types::{BlockLocation, RddBlock, ShuffleId};

use super::super::Engine;
use super::super::job::StageCode;
use super::actor::ActorMessage;
use super::backlog::Backlog;
use super::broadcasts::Next;
use super::{Cluster, Link, lock};
use crate::heartbeat::Heartbeat;

/// The endpoint that executors send their messages to.
pub(super) struct Scheduler {
    messages: Sender<ActorMessage>,
    backlog: Arc<Backlog>,
    clock: Clock,
    /// Connections that the actor has a way back over.
    known: BTreeSet<u64>,
}

impl Scheduler {
    /// One that passes on what it hears.
    pub(super) fn new(messages: Sender<ActorMessage>, backlog: Arc<Backlog>, clock: Clock) -> Self {
        Scheduler { messages, backlog, clock, known: BTreeSet::new() }
    }
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
        let link = || {
            let tasks = caller.endpoint_ref(wire::EXECUTOR)?;
            let (blocks, threads) = (caller.endpoint_ref(BLOCKS)?, caller.endpoint_ref(THREADS)?);
            Some(Box::new(Link { tasks, blocks, threads }))
        };
        let link = if self.known.insert(connection) { link() } else { None };
        let bytes = match &message {
            ToDriver::StatusUpdate { data, .. } => data.len() as u64,
            ToDriver::RegisterExecutor { .. } | ToDriver::ExecutorHeartbeat { .. } => 0,
        };
        let queued = self.backlog.add(&caller, bytes, self.clock.now());
        let message = ActorMessage::FromExecutor(connection, link, message, queued);
        let _ = self.messages.send(message);
        Ok(())
    }

    async fn on_disconnected(&mut self, peer: Peer, _: &Context<ToDriver>) {
        self.known.remove(&peer.connection);
        let _ = self.messages.send(ActorMessage::ExecutorGone(peer.connection));
    }
}

/// Hears questions and messages about blocks. What is known of them is the engine's.
pub(super) struct BlockMaster {
    pub(super) cluster: Arc<Cluster>,
    /// It owns the endpoint.
    pub(super) engine: Weak<Engine>,
    pub(super) hash: ExecutableHash,
}

impl BlockMaster {
    /// Noted before the reply goes out: who asks next hears of it.
    fn feed(&self, input: SchedulerInput) {
        if let Some(engine) = self.engine.upgrade() {
            engine.feed(input);
        }
    }

    /// What is known of blocks; nothing, of an engine that is gone.
    fn ask<T: Default>(&self, ask: impl FnOnce(&Blocks) -> T) -> T {
        self.engine.upgrade().map(|engine| engine.with_blocks(ask)).unwrap_or_default()
    }

    /// Where the outputs of a shuffle lie; `None`: there is no such shuffle.
    fn locate(&self, shuffle: ShuffleId) -> Option<MapOutputLocations> {
        let known = |blocks: &Blocks| Some((blocks.epoch(), blocks.map_outputs(shuffle)?.to_vec()));
        let (epoch, locations) = self.ask(known)?;
        let holders: BTreeSet<BlockLocation> =
            locations.iter().flatten().map(|output| output.location).collect();
        Some(MapOutputLocations { epoch, addresses: self.cluster.addresses(holders), locations })
    }

    fn peers(&self, holder: BlockLocation, block: RddBlock) -> BlockMasterReply {
        let engine = self.engine.upgrade();
        let peers = engine.map(|engine| engine.peers(holder, block)).unwrap_or_default();
        let Peers { replicas, candidates } = peers;
        BlockMasterReply::Peers { replicas, peers: self.cluster.addresses(candidates) }
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
                let (cluster, engine) = (self.cluster.clone(), self.engine.clone());
                context.env().runtime().spawn_blocking(move || {
                    let next = next_piece(&cluster, &engine, asking);
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
                BlockMasterReply::MapOutputs(self.locate(shuffle))
            }
            ToBlockMaster::IsAlive(location) => {
                let live = |executor| self.cluster.is_live(executor);
                BlockMasterReply::Alive(location.executor().is_some_and(live))
            }
            ToBlockMaster::LocateCached(block) => {
                let holders = self.ask(|blocks| blocks.holders(block));
                BlockMasterReply::Holders(self.cluster.addresses(holders))
            }
            ToBlockMaster::LocatePeers { holder, block } => self.peers(holder, block),
            ToBlockMaster::ListFiles => {
                let (version, files) = self.cluster.contents.added();
                BlockMasterReply::Files { version, files }
            }
            ToBlockMaster::Heartbeat { executor, metrics, stages, tasks, cached } => {
                if self.cluster.is_live(executor) {
                    let metrics = *metrics;
                    let beat = Heartbeat { executor, metrics, stages, tasks };
                    let _ = self.cluster.messages.send(ActorMessage::Heartbeat(Box::new(beat)));
                }
                if let Some(cached) = cached {
                    self.feed(SchedulerInput::BlocksReported { location: executor.into(), cached });
                }
                BlockMasterReply::Noted
            }
            ToBlockMaster::BlockUpdated { location, block, status } => {
                self.feed(SchedulerInput::BlockUpdated { location, block, status });
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

fn next_piece(cluster: &Cluster, engine: &Weak<Engine>, asked: ToBlockMaster) -> NextPiece {
    let (Some(engine), ToBlockMaster::NextPiece { reader, broadcast, came, missing, from_driver }) =
        (engine.upgrade(), asked)
    else {
        return NextPiece::Gone("the application is over".to_owned());
    };
    let request = PieceRequest { reader, came, missing, from_driver };
    match cluster.broadcasts.next(broadcast, &engine, request) {
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

impl Streams {
    fn code(&self, code: u64) -> Result<Arc<StageCode>, OpenError> {
        let code = lock(&self.cluster.code).get(&code).and_then(Weak::upgrade);
        code.ok_or(OpenError::Missing)
    }
}

impl StreamSource for Streams {
    fn open(&self, id: &str, _: &Peer) -> Result<StreamBody, OpenError> {
        if let Some((hash, offset)) = wire::parse_content(id) {
            return self.cluster.contents.open(&hash, offset);
        }
        match StreamId::parse(id) {
            Some(StreamId::Code(code)) => {
                let code = self.code(code)?;
                let body = code.encoded(true).map_err(|_| OpenError::Missing)?;
                Ok(StreamBody::Bytes(body.clone()))
            }
            Some(StreamId::Items { code, source, partition }) => {
                let code = self.code(code)?;
                let place = self.cluster.item_places.clone().try_acquire_owned();
                let place = place.map_err(|_| OpenError::Busy)?;
                let items = items_answer(|out| code.encode_items(source, partition, out));
                self.cluster.served_item_bytes.fetch_add(items.len() as u64, Ordering::Relaxed);
                Ok(StreamBody::Bytes(items.into()).holding(place))
            }
            Some(StreamId::Piece { broadcast, piece }) => {
                let bytes = self.cluster.broadcasts.piece(broadcast, piece);
                bytes.map(StreamBody::Bytes).ok_or(OpenError::Missing)
            }
            _ => Err(OpenError::Missing),
        }
    }
}
