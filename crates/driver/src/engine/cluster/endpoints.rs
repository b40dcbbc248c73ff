//! What comes in over the network: words of masters and executors, questions about blocks, streams.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use firesteel_closure::ExecutableHash;
use firesteel_cluster::messages::{Said, ToApplication, ToDriver};
use firesteel_cluster::wire;
use firesteel_executor::LocalEnvironment;
use firesteel_executor::cluster::{BLOCKS, BlockMasterReply, StreamId, ToBlockMaster};
use firesteel_rdd::Environment;
use firesteel_rpc::{
    Caller, Context, Endpoint, HandlerError, OpenError, Peer, RpcAddress, RpcError, StreamBody,
    StreamSource,
};

use super::actor::News;
use super::{Cluster, Link, lock};

/// Hears masters.
pub(super) struct AppClient {
    pub(super) news: Sender<News>,
    pub(super) masters: Vec<RpcAddress>,
}

impl Endpoint for AppClient {
    type Message = Said<ToApplication>;

    /// References that are made here bring the events of their connections here.
    async fn on_start(&mut self, context: &Context<Self::Message>) {
        let reference = |address: &RpcAddress| {
            let found = context.endpoint_ref(&address.endpoint(wire::MASTER));
            found.ok().map(|found| (address.clone(), found))
        };
        let masters = self.masters.iter().filter_map(reference).collect();
        let _ = self.news.send(News::Masters(masters));
    }

    async fn receive(
        &mut self,
        said: Said<ToApplication>,
        caller: Caller<()>,
        _: &Context<Self::Message>,
    ) -> Result<(), HandlerError> {
        let _ = self.news.send(News::FromMaster(caller.peer().address.clone(), said));
        Ok(())
    }

    async fn on_disconnected(&mut self, peer: Peer, _: &Context<Self::Message>) {
        let _ = self.news.send(News::MasterGone(peer.address));
    }

    async fn on_network_error(
        &mut self,
        address: RpcAddress,
        _: RpcError,
        _: &Context<Self::Message>,
    ) {
        let _ = self.news.send(News::MasterGone(address));
    }
}

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
        let link = link.map(|(tasks, blocks)| Link { tasks, blocks });
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
    pub(super) hash: ExecutableHash,
}

impl Endpoint for BlockMaster {
    type Message = ToBlockMaster;

    async fn receive(
        &mut self,
        message: ToBlockMaster,
        caller: Caller<BlockMasterReply>,
        _: &Context<ToBlockMaster>,
    ) -> Result<(), HandlerError> {
        let reply = match message {
            ToBlockMaster::Introduce { address } => {
                let connection = caller.peer().connection;
                lock(&self.cluster.addresses).insert(connection, address);
                BlockMasterReply::Welcome(self.hash)
            }
            ToBlockMaster::LocateMapOutputs(shuffle) => {
                BlockMasterReply::MapOutputs(self.cluster.locate(shuffle))
            }
            ToBlockMaster::IsAlive(executor) => {
                BlockMasterReply::Alive(lock(&self.cluster.executors).contains_key(&executor))
            }
            updated @ ToBlockMaster::BlockUpdated { .. } => {
                let _ = self.cluster.news.send(News::BlockUpdated(updated));
                BlockMasterReply::Noted
            }
        };
        caller.reply(reply);
        Ok(())
    }

    async fn on_disconnected(&mut self, peer: Peer, _: &Context<ToBlockMaster>) {
        lock(&self.cluster.addresses).remove(&peer.connection);
    }
}

/// What executors read of the driver.
pub(super) struct Streams {
    pub(super) cluster: Arc<Cluster>,
    pub(super) environment: Arc<LocalEnvironment>,
}

impl StreamSource for Streams {
    fn open(&self, id: &str, _: &Peer) -> Result<StreamBody, OpenError> {
        match StreamId::parse(id) {
            Some(StreamId::Code(code)) => {
                let code = lock(&self.cluster.code).get(&code).and_then(std::sync::Weak::upgrade);
                let code = code.ok_or(OpenError::Missing)?;
                let body = code.encoded().as_ref().map_err(|_| OpenError::Missing)?;
                Ok(StreamBody::Bytes(body.clone().into()))
            }
            Some(StreamId::Broadcast(id)) => {
                let value = self.environment.fetch_broadcast(id);
                Ok(StreamBody::Bytes(value.map_err(|_| OpenError::Missing)?.into()))
            }
            _ => Err(OpenError::Missing),
        }
    }
}
