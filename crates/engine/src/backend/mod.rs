//! The driver's end of a cluster: sends tasks to executors, and hears what became of them.
//!
//! | file | owns |
//! |---|---|
//! | `join` | settings, the runtime, the driver's port |
//! | `actor` | the thread with the core of `firesteel_backend::registry`: one event at a time |
//! | `backlog` | what came in and is not handled: its bytes, and who was heard when |
//! | `describe` | the application's request to a cluster manager, and the environment of executors |
//! | `provider` | where cluster managers plug in |
//! | `standalone` | executors from a standalone cluster: the client of its masters |
//! | `local_cluster` | `local-cluster[n,c,m]`: a master and workers of its own |
//! | `endpoints` | what comes in over the network |
//! | `contents` | the executable and the files that workers and executors fetch |
//! | `broadcasts` | broadcast values, encoded in pieces |
//! | `report` | what tasks brought |
//!
//! Locks are taken in this order: the engine's, the executors' or that of the broadcast values. The actor holds none while it feeds the engine, because user
//! code may run then that stops the context. Questions of executors about blocks are answered by the block master, under the
//! engine's lock; messages about cached partitions run no user code.
//!
//! What is decided about executors is decided in the core, what about tasks in the schedulers.

mod actor;
mod backlog;
mod broadcasts;
mod contents;
mod describe;
mod endpoints;
mod join;
mod local_cluster;
mod provider;
mod report;
mod standalone;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use firesteel_backend::protocol::ToExecutor;
use firesteel_conf::{ByteSize, Conf, entries};
use firesteel_executor::Forgotten;
use firesteel_executor::node::{TaskOrder, TellThreads, ToBlocks};
use firesteel_rpc::{EndpointRef, Message, RpcAddress, RpcEnv, RpcError};
use firesteel_task::TaskReport;
use firesteel_types::{
    BlockLocation, BlockManagerId, ExecutorId, Host, RddBlock, TaskId, ThreadInfo,
};
use tokio::sync::Semaphore;

use super::Engine;
use super::job::StageCode;
use super::local::identity;
use super::place::Place;
use super::state::Launch;
use actor::ActorMessage;
pub use actor::warn;
use backlog::Backlog;
use broadcasts::Broadcasts;
use contents::Contents;
pub(crate) use contents::PreparedFile;
pub use describe::executor_environment;
pub(crate) use join::NewCluster;
pub(crate) use provider::claimant;
pub use provider::{ApplicationSpec, ClusterManager, Provider, Reports};
pub use standalone::page_hosts;

/// Code up to this size goes with the first task that needs it; an executor fetches what is larger.
const CODE_SENT_ALONG: usize = 1 << 20;
/// So many stages' code an executor is known to have; the oldest is sent again if it is needed.
const CODE_KNOWN: usize = 256;
/// How long an executor may take to tell what its threads do.
const THREADS_TIME: Duration = Duration::from_secs(10);
/// So many replicas are asked for in one message.
const REPLICAS_ASKED: usize = 10_000;

/// A way to an executor.
#[derive(Clone)]
struct Link {
    tasks: EndpointRef<ToExecutor>,
    blocks: EndpointRef<ToBlocks>,
    threads: EndpointRef<TellThreads>,
}

/// An executor that may get tasks.
struct Live {
    link: Link,
    address: Option<RpcAddress>,
    host: Host,
    cores: u32,
    /// The code it was sent.
    code: BTreeSet<u64>,
    /// It was told what is outdated of cached RDDs, up to this number.
    outdated: u64,
}

impl Live {
    fn block_manager(&self, executor: ExecutorId) -> BlockManagerId {
        let port = self.address.as_ref().map_or(0, |address| address.port);
        BlockManagerId { executor, host: self.host.clone(), port }
    }
}

/// Whether the cluster manager has taken the application in.
enum Joined {
    NotYet,
    As(String),
    Never(String),
}

pub(crate) struct Cluster {
    env: RpcEnv,
    messages: Sender<ActorMessage>,
    backlog: Arc<Backlog>,
    /// What the actor has done so far.
    turns: AtomicU64,
    executors: Mutex<BTreeMap<ExecutorId, Live>>,
    /// Where executors serve their blocks and how much memory they have, by the connection they told it over.
    introduced: Mutex<BTreeMap<u64, (RpcAddress, u64)>>,
    broadcasts: Broadcasts,
    code: Mutex<BTreeMap<u64, Weak<StageCode>>>,
    joined: Mutex<Joined>,
    joining: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
    contents: Contents,
    /// For partitions of parallelized collections on their way: each is encoded in memory.
    item_places: Arc<Semaphore>,
    served_item_bytes: AtomicU64,
    sent_task_bytes: AtomicU64,
    fetched_result_bytes: AtomicU64,
    /// How often a result is asked for again, and after which pause.
    retries: (u32, Duration),
    /// Results of one job beyond this are refused; 0: none are.
    max_result_bytes: u64,
}

/// To so many tasks at once the driver serves a partition of a parallelized collection; others ask again.
const ITEMS_AT_ONCE: usize = 16;

/// Whatever panicked under a lock, what it protects is whole: each change is one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Sends tasks to their executors until the engine stops. A thread of its own, because encoding a
/// stage's code runs code of the user's.
pub(super) fn dispatch(engine: &Arc<Engine>) {
    let Place::Cluster(cluster) = &engine.place else { return };
    while let Some(launch) = engine.next_task() {
        cluster.launch(engine, &launch);
    }
}

/// The cluster managers that every program has.
pub(crate) fn built_in() -> [Arc<dyn ClusterManager>; 2] {
    [Arc::new(standalone::Standalone), Arc::new(local_cluster::Local)]
}

impl Cluster {
    fn new(
        conf: &Conf,
        env: RpcEnv,
        messages: Sender<ActorMessage>,
        contents: Contents,
    ) -> crate::Result<Self> {
        let ByteSize(piece_bytes) = conf.get(&entries::BROADCAST_BLOCK_SIZE)?;
        let ByteSize(max_result_bytes) = conf.get(&entries::DRIVER_MAX_RESULT_SIZE)?;
        let tries = conf.get(&entries::SHUFFLE_IO_MAX_RETRIES)?;
        Ok(Cluster {
            env,
            messages,
            backlog: Arc::default(),
            turns: AtomicU64::new(0),
            executors: Mutex::default(),
            introduced: Mutex::default(),
            broadcasts: Broadcasts::new(piece_bytes),
            code: Mutex::default(),
            joined: Mutex::new(Joined::NotYet),
            joining: Condvar::new(),
            thread: Mutex::new(None),
            contents,
            item_places: Arc::new(Semaphore::new(ITEMS_AT_ONCE)),
            served_item_bytes: AtomicU64::new(0),
            sent_task_bytes: AtomicU64::new(0),
            fetched_result_bytes: AtomicU64::new(0),
            max_result_bytes,
            retries: (tries, conf.get(&entries::SHUFFLE_IO_RETRY_WAIT)?),
        })
    }

    fn launch(self: &Arc<Self>, engine: &Arc<Engine>, launch: &Launch) {
        let Launch { task, code, kill, epoch, outdated } = launch;
        let body = match code.encoded(true) {
            Ok(body) => body,
            Err(failure) => {
                let report = TaskReport::failed(failure.clone());
                return engine.report_remote(task.task, task.executor, report);
            }
        };
        self.offer_code(code);
        let Some(told) = lock(&self.executors).get(&task.executor).map(|live| live.outdated) else {
            // Lost: the schedulers hear of it, if they have not already.
            return;
        };
        let new = match told < *outdated {
            true => engine.with_blocks(|blocks| blocks.outdated_since(told)),
            false => Vec::new(),
        };
        let mut executors = lock(&self.executors);
        let Some(live) = executors.get_mut(&task.executor) else { return };
        let is_new = live.code.insert(code.id) && body.len() <= CODE_SENT_ALONG;
        if live.code.len() > CODE_KNOWN {
            live.code.pop_first();
        }
        let body = is_new.then(|| body.to_vec());
        let files = self.contents.version();
        let order = TaskOrder { identity: identity(task, *epoch), code: code.id, body, files };
        let data = order.to_data(&new);
        self.sent_task_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        let message = ToExecutor::LaunchTask { task: task.task, data: data.into() };
        let tasks = live.link.tasks.clone();
        // Under the lock: a task that is sent later, and told less, comes later.
        let sent = tasks.try_send(message.clone());
        if sent.is_ok() {
            live.outdated = live.outdated.max(*outdated);
        }
        drop(executors);
        match sent {
            Ok(()) => {}
            Err(RpcError::QueueFull { .. }) => return self.send_later(launch, tasks, message),
            Err(error) => self.unreachable(task.executor, &error),
        }
        // Killed meanwhile: the order to kill may have overtaken the task.
        if let Some(reason) = kill.thrown() {
            self.kill(task.executor, task.task, reason);
        }
    }

    /// Sends a task to an executor that takes its messages too slowly for now: there are no more of these
    /// than it may have tasks. Whether it is slow or lost, its heartbeats tell.
    fn send_later(
        self: &Arc<Self>,
        launch: &Launch,
        tasks: EndpointRef<ToExecutor>,
        message: ToExecutor,
    ) {
        let (executor, task, kill) = (launch.task.executor, launch.task.task, launch.kill.clone());
        let cluster = self.clone();
        self.env.runtime().spawn(async move {
            match cluster.send_patiently(executor, &tasks, message).await {
                Ok(()) => {}
                Err(RpcError::QueueFull { .. }) => return,
                Err(error) => return cluster.unreachable(executor, &error),
            }
            if let Some(reason) = kill.thrown() {
                cluster.kill(executor, task, reason);
            }
        });
    }

    /// Waits, while its queue is full, for as long as the executor counts.
    async fn send_patiently<M: Message + Clone>(
        &self,
        executor: ExecutorId,
        to: &EndpointRef<M>,
        message: M,
    ) -> std::result::Result<(), RpcError> {
        loop {
            match to.send(message.clone()).await {
                Err(RpcError::QueueFull { .. }) if self.is_live(executor) => {}
                sent => return sent,
            }
        }
    }

    /// Sends at once or, if its queue is full, as soon as it is not. One whose connection is lost is heard
    /// of by itself.
    fn send<M: Message + Clone>(
        self: &Arc<Self>,
        executor: ExecutorId,
        to: &EndpointRef<M>,
        message: M,
    ) {
        if let Err(RpcError::QueueFull { .. }) = to.try_send(message.clone()) {
            let (cluster, to) = (self.clone(), to.clone());
            self.env.runtime().spawn(async move {
                let _ = cluster.send_patiently(executor, &to, message).await;
            });
        }
    }

    /// What the threads of an executor do; `None`: there is no such one, or it does not answer. Waits for it, on no thread of the
    /// engine's.
    pub(super) fn threads(&self, executor: ExecutorId) -> Option<Vec<ThreadInfo>> {
        let threads = lock(&self.executors).get(&executor)?.link.threads.clone();
        let (answer, answered) = sync_channel(1);
        self.env.runtime().spawn(async move {
            let told = tokio::time::timeout(THREADS_TIME, threads.ask(TellThreads)).await;
            let _ = answer.send(told.ok().and_then(Result::ok));
        });
        answered.recv_timeout(THREADS_TIME + THREADS_TIME).ok()?
    }

    /// Tells an executor something about its blocks. Never waits.
    fn tell_blocks(self: &Arc<Self>, executor: ExecutorId, message: ToBlocks) {
        let blocks = lock(&self.executors).get(&executor).map(|live| live.link.blocks.clone());
        if let Some(blocks) = blocks {
            self.send(executor, &blocks, message);
        }
    }

    /// Has a holder make replicas of what it caches. Never waits: called under the engine's lock.
    pub(super) fn replicate(self: &Arc<Self>, holder: BlockLocation, blocks: &[RddBlock]) {
        for blocks in blocks.chunks(REPLICAS_ASKED) {
            self.tell_holder(holder, ToBlocks::Replicate(blocks.to_vec()));
        }
    }

    /// Never waits.
    fn tell_holder(self: &Arc<Self>, location: BlockLocation, message: ToBlocks) {
        if let Some(executor) = location.executor() {
            self.tell_blocks(executor, message);
        }
    }

    fn unreachable(&self, executor: ExecutorId, error: &RpcError) {
        tracing::warn!(%executor, %error, "a task could not be sent");
        let _ = self.messages.send(ActorMessage::Unreachable(executor));
    }

    fn is_live(&self, executor: ExecutorId) -> bool {
        lock(&self.executors).contains_key(&executor)
    }

    /// Lets executors fetch the code for as long as anybody has it.
    fn offer_code(self: &Arc<Self>, code: &Arc<StageCode>) {
        code.offered_by(self);
        lock(&self.code).entry(code.id).or_insert_with(|| Arc::downgrade(code));
    }

    /// Nobody has the code any more: executors let it go, and with it the values that it holds. Never waits.
    pub(super) fn forget_code(self: &Arc<Self>, code: u64) {
        lock(&self.code).remove(&code);
        let mut executors = lock(&self.executors);
        // One that was sent too much to remember may have it.
        let may_have = |live: &mut Live| live.code.remove(&code) || live.code.len() >= CODE_KNOWN;
        let told = executors.iter_mut().filter_map(|(id, live)| may_have(live).then_some(*id));
        let told: Vec<ExecutorId> = told.collect();
        drop(executors);
        for executor in told {
            self.tell_blocks(executor, ToBlocks::Forget(Forgotten::Code(code)));
        }
    }

    /// Opens and hashes a file that executors shall get.
    pub(super) fn prepare_file(&self, name: &str, path: &Path) -> io::Result<PreparedFile> {
        PreparedFile::new(name, path)
    }

    /// Tasks that are sent from now on wait for the file, as far as their executors do not have it.
    pub(super) fn publish_file(&self, prepared: PreparedFile) {
        self.contents.add(prepared);
    }

    /// Never waits: called under the engine's lock.
    pub(super) fn kill(self: &Arc<Self>, executor: ExecutorId, task: TaskId, reason: String) {
        let tasks = lock(&self.executors).get(&executor).map(|live| live.link.tasks.clone());
        if let Some(tasks) = tasks {
            self.send(executor, &tasks, ToExecutor::KillTask { task, reason });
        }
    }

    /// Never waits: called under the engine's lock.
    pub(super) fn node_excluded(&self, node: Host, excluded: bool) {
        let _ = self.messages.send(ActorMessage::NodeExcluded(node, excluded));
    }

    /// Tells all executors what nobody needs. Never waits: called under the engine's lock.
    pub(super) fn forget(self: &Arc<Self>, forgotten: Forgotten) {
        if let Forgotten::Broadcast(id) | Forgotten::BroadcastCopies(id) = forgotten {
            self.broadcasts.remove(id);
        }
        let executors: Vec<_> = lock(&self.executors).keys().copied().collect();
        for executor in executors {
            self.tell_blocks(executor, ToBlocks::Forget(forgotten));
        }
    }

    /// Tells one holder what nobody needs. Never waits: called under the engine's lock.
    pub(super) fn forget_at(self: &Arc<Self>, location: BlockLocation, forgotten: Forgotten) {
        self.tell_holder(location, ToBlocks::Forget(forgotten));
    }

    /// Where blocks that lie there are served, as far as their holders live.
    fn addresses(
        &self,
        locations: impl IntoIterator<Item = BlockLocation>,
    ) -> Vec<(BlockLocation, RpcAddress)> {
        let live = lock(&self.executors);
        let address = |at: BlockLocation| Some((at, live.get(&at.executor()?)?.address.clone()?));
        locations.into_iter().filter_map(address).collect()
    }

    /// Bytes of broadcast values that the driver itself sent to executors.
    pub(super) fn served_broadcast_bytes(&self) -> u64 {
        self.broadcasts.served()
    }

    /// Bytes of parallelized collections that executors fetched.
    pub(super) fn served_item_bytes(&self) -> u64 {
        self.served_item_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of all messages that launch tasks.
    pub(super) fn sent_task_bytes(&self) -> u64 {
        self.sent_task_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of results that waited on executors.
    pub(super) fn fetched_result_bytes(&self) -> u64 {
        self.fetched_result_bytes.load(Ordering::Relaxed)
    }

    /// The most bytes of reports that were queued at once.
    pub(super) fn most_queued_bytes(&self) -> u64 {
        self.backlog.most_bytes()
    }

    /// Tells executors that this process lives while the actor is too busy to answer their heartbeats: merging what tasks
    /// added is user code, and takes as long as it takes.
    async fn keep_alive(this: Weak<Self>, interval: Duration) {
        let mut turns = 0;
        loop {
            tokio::time::sleep(interval).await;
            let Some(cluster) = this.upgrade() else { return };
            let before = std::mem::replace(&mut turns, cluster.turns.load(Ordering::Relaxed));
            if before != turns && cluster.backlog.is_empty() {
                continue;
            }
            let links: Vec<_> =
                lock(&cluster.executors).values().map(|live| live.link.tasks.clone()).collect();
            for tasks in links {
                let _ = tasks.try_send(ToExecutor::HeartbeatResponse { reregister: false });
            }
        }
    }

    /// Where the driver listens.
    pub(super) fn address(&self) -> Option<(Host, u16)> {
        self.env.address().map(|at| (Host::new(&at.host), at.port))
    }

    pub(super) fn cores(&self) -> u32 {
        lock(&self.executors).values().map(|live| live.cores).sum()
    }

    pub(super) fn application_id(&self) -> Option<String> {
        match &*lock(&self.joined) {
            Joined::As(app) => Some(app.clone()),
            Joined::NotYet | Joined::Never(_) => None,
        }
    }

    fn joined(&self, how: Joined) {
        let mut joined = lock(&self.joined);
        // The id that the application had first stays its name, whatever it is called later.
        if matches!(*joined, Joined::NotYet) {
            *joined = how;
            self.joining.notify_all();
        }
    }

    /// Waits until the cluster manager has taken the application in; else why it did not.
    fn wait_until_joined(&self) -> std::result::Result<(), String> {
        let waiting = |joined: &mut Joined| matches!(joined, Joined::NotYet);
        let joined = self.joining.wait_while(lock(&self.joined), waiting);
        match &*joined.unwrap_or_else(|poisoned| poisoned.into_inner()) {
            Joined::Never(reason) => Err(reason.clone()),
            Joined::As(_) | Joined::NotYet => Ok(()),
        }
    }

    /// Lets provider and executors go, and waits for the end of everything but the caller.
    pub(super) fn stop(&self) {
        let _ = self.messages.send(ActorMessage::Stop);
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}
