//! One block on its way from another process: into memory, or into a temporary file if it is large;
//! tried again when the connection is in trouble, until the driver says that the other side is lost.

use std::io::Write;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::task::block_in_place;
use tokio::time::{sleep, timeout};

use firesteel_backend::fetch::Tries;
use firesteel_backend::mutant::Planted;
use firesteel_closure::from_bytes;
use firesteel_rpc::{IncomingStream, RpcAddress, RpcError, StreamError};
use firesteel_shuffle::{ReadError, Scratch, Slice};
use firesteel_storage::TempFile;
use firesteel_types::{BlockLocation, MapAttempt, ShuffleId};

use super::block_manager::BlockManager;
use super::protocol::{BlockMasterReply, StreamId, ToBlockMaster};

/// How often to try again, and after which pause.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retries {
    /// `spark.shuffle.io.maxRetries`
    pub(super) most: u32,
    /// `spark.shuffle.io.retryWait`
    pub(super) wait: Duration,
}

/// The first pause between two questions whether the other side is lost, and the longest.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LAST_LOOK: Duration = Duration::from_secs(1);
/// So long an executor may take to find out which map outputs it can serve.
const SURVEY_WAIT: Duration = Duration::from_secs(30);

/// So often the driver is asked one thing, each time for `spark.rpc.askTimeout`. An executor without a driver ends by itself.
const ASKED: u32 = 10;

/// Why a block did not come.
#[derive(Debug)]
pub(super) enum TransferError {
    /// The other side, or the way to it.
    Stream(StreamError),
    /// What came is broken.
    Broken(ReadError),
    /// This side's disk.
    Disk(std::io::Error),
    /// The driver says that the other side is lost.
    Lost(StreamError),
}

impl std::fmt::Display for TransferError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TransferError::Stream(error) => error.fmt(f),
            TransferError::Broken(error) => error.fmt(f),
            TransferError::Disk(error) => {
                write!(f, "a block of another executor could not be written to disk: {error}")
            }
            TransferError::Lost(error) => write!(f, "that executor is lost ({error})"),
        }
    }
}

impl TransferError {
    /// Whether the other side answered, if only that it cannot serve the block.
    pub(super) fn was_answered(&self) -> bool {
        match self {
            TransferError::Stream(error) => !error.may_pass(),
            TransferError::Broken(_) => true,
            TransferError::Disk(_) | TransferError::Lost(_) => false,
        }
    }

    /// Whether trying again may help.
    fn may_pass(&self) -> bool {
        matches!(self, TransferError::Stream(error) if error.may_pass())
    }
}

impl From<StreamError> for TransferError {
    fn from(error: StreamError) -> Self {
        TransferError::Stream(error)
    }
}

impl BlockManager {
    /// Reads a whole stream into memory.
    pub(super) async fn receive(
        &self,
        address: &RpcAddress,
        id: &StreamId,
        limit: u64,
    ) -> Result<Vec<u8>, TransferError> {
        Ok(self.env.streams().read(address, &id.to_string(), limit).await?)
    }

    /// Reads blocks of records, checked; through a file if they have more than `limit` bytes.
    pub(super) async fn receive_slice(
        &self,
        address: &RpcAddress,
        id: &StreamId,
        limit: u64,
    ) -> Result<Slice, TransferError> {
        let stream = self.env.streams().open(address, &id.to_string(), u64::MAX).await?;
        if stream.length() <= limit {
            into_memory(stream).await
        } else {
            into_file(stream, &self.scratch).await
        }
    }

    /// The outputs of a shuffle that an executor says it can serve; none if it does not say so in time.
    pub(super) async fn survey(&self, address: &RpcAddress, shuffle: ShuffleId) -> Vec<MapAttempt> {
        let id = StreamId::Survey(shuffle).to_string();
        let streams = self.env.streams();
        let answer = timeout(SURVEY_WAIT, streams.read(address, &id, u64::MAX)).await;
        let answer = answer.ok().and_then(Result::ok);
        answer.and_then(|answer| from_bytes(&answer).ok()).unwrap_or_default()
    }

    /// Does `transfer` until it succeeds, fails for good or was tried often enough.
    pub(super) async fn retrying<T, F: Future<Output = Result<T, TransferError>>>(
        &self,
        holder: BlockLocation,
        is_wanted: impl Fn() -> bool,
        transfer: impl Fn() -> F,
    ) -> Result<T, TransferError> {
        let mut tries = Tries::new(self.retries.most, Planted::default());
        loop {
            let error = match transfer().await {
                Err(error) if tries.again(error.may_pass(), is_wanted()) => error,
                done => return done,
            };
            let left = tries.left();
            tracing::warn!(%holder, %error, left, "a block is asked for again");
            if let (false, TransferError::Stream(error)) = (self.pause(holder).await, error) {
                return Err(TransferError::Lost(error));
            }
        }
    }

    /// Asks the driver something about blocks, again if it does not answer in time: questions wait behind this executor's own
    /// reports while the driver is slow to handle these.
    pub(super) async fn ask_driver(
        &self,
        question: ToBlockMaster,
    ) -> Result<BlockMasterReply, RpcError> {
        let mut asked = 1;
        loop {
            match self.block_master.ask(question.clone()).await {
                Err(error @ RpcError::Timeout { .. }) if asked < ASKED => {
                    tracing::warn!(%error, asked, "the driver is asked again");
                    asked += 1;
                }
                answered => return answered,
            }
        }
    }

    /// Waits before the next try; `false` as soon as the driver says that the holder is lost.
    async fn pause(&self, holder: BlockLocation) -> bool {
        let (mut left, mut look) = (self.retries.wait, FIRST_LOOK);
        while !left.is_zero() {
            let step = look.min(left);
            sleep(step).await;
            (left, look) = (left - step, (look * 2).min(LAST_LOOK));
            let asked = self.block_master.ask(ToBlockMaster::IsAlive(holder)).await;
            if let Ok(BlockMasterReply::Alive(false)) = asked {
                return false;
            }
        }
        true
    }
}

/// Blocks of records, checked.
pub(super) async fn into_memory(stream: IncomingStream) -> Result<Slice, TransferError> {
    let mut blocks = Vec::new(); // grows with what arrives, not with what was promised
    stream.copy_to(&mut blocks).await?;
    Slice::received(blocks.into()).map_err(TransferError::Broken)
}

/// The same, through a file.
pub(super) async fn into_file(
    stream: IncomingStream,
    scratch: &Scratch,
) -> Result<Slice, TransferError> {
    let file = to_file(stream, scratch).await?;
    block_in_place(|| Slice::received_in_file(file)).map_err(TransferError::Broken)
}

async fn to_file(mut stream: IncomingStream, scratch: &Scratch) -> Result<TempFile, TransferError> {
    let mut file = block_in_place(|| scratch.file_for_received()).map_err(TransferError::Disk)?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        let read = stream.read(&mut buffer).await.map_err(|error| match error.downcast() {
            Ok(error) => TransferError::Stream(error),
            Err(error) => TransferError::Disk(error),
        })?;
        if read == 0 {
            return Ok(file);
        }
        block_in_place(|| file.write_all(&buffer[..read])).map_err(TransferError::Disk)?;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use firesteel_rpc::{BindTo, Caller, Context, Endpoint, HandlerError, RpcEnv, RpcOptions};
    use firesteel_types::{BroadcastId, ExecutorId, TaskId};

    use super::super::protocol::{BLOCK_MASTER, NextPiece};
    use super::super::settings::Settings;
    use super::*;
    use crate::Forgotten;

    /// Says whether the executor is alive.
    struct Master(Arc<AtomicBool>);

    impl Endpoint for Master {
        type Message = ToBlockMaster;

        async fn receive(
            &mut self,
            _: ToBlockMaster,
            caller: Caller<BlockMasterReply>,
            _: &Context<ToBlockMaster>,
        ) -> Result<(), HandlerError> {
            caller.reply(BlockMasterReply::Alive(self.0.load(Ordering::Relaxed)));
            Ok(())
        }
    }

    async fn manager(alive: &Arc<AtomicBool>, retry_wait: &str) -> Arc<BlockManager> {
        let env = RpcEnv::server(RpcOptions::default(), BindTo::loopback()).await.unwrap();
        env.register(BLOCK_MASTER, Master(alive.clone())).unwrap();
        manager_at(env, retry_wait)
    }

    fn manager_at(env: RpcEnv, retry_wait: &str) -> Arc<BlockManager> {
        let address = env.address().cloned().unwrap();
        let settings = Settings::read(|name| {
            Some(match name {
                "FIRESTEEL_DRIVER_URL" => address.endpoint("driver").to_string(),
                "FIRESTEEL_CONF" => format!("spark.shuffle.io.retryWait={retry_wait}"),
                "FIRESTEEL_EXECUTOR_HOST" => "127.0.0.1".to_owned(),
                "FIRESTEEL_WORKER_URL" | "SPARK_LOCAL_DIRS" => return None,
                _ => "1".to_owned(),
            })
        });
        BlockManager::new(&settings.unwrap(), env, address.clone()).unwrap()
    }

    /// Fails `failures` times as `error` says, then succeeds; the result and how often it was tried.
    fn tried(
        alive: bool,
        retry_wait: &str,
        failures: u32,
        error: fn(&BlockManager) -> StreamError,
    ) -> (Result<u32, TransferError>, u32) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let alive = Arc::new(AtomicBool::new(alive));
        runtime.block_on(async {
            let (manager, tries) = (manager(&alive, retry_wait).await, AtomicU32::new(0));
            let transfer = async || {
                let tried = tries.fetch_add(1, Ordering::Relaxed);
                if tried < failures { Err(error(&manager).into()) } else { Ok(tried) }
            };
            let result = manager.retrying(ExecutorId(9).into(), || true, transfer).await;
            (result, tries.into_inner())
        })
    }

    fn broken(manager: &BlockManager) -> StreamError {
        let source = std::io::ErrorKind::ConnectionReset.into();
        StreamError::Broken {
            id: "slice/0/0/0".to_owned(),
            address: manager.address.clone(),
            source,
        }
    }

    fn missing(manager: &BlockManager) -> StreamError {
        StreamError::Missing { id: "slice/0/0/0".to_owned(), address: manager.address.clone() }
    }

    #[test]
    fn trouble_with_a_connection_is_met_with_patience_and_a_missing_block_is_not() {
        assert!(matches!(tried(true, "1ms", 3, broken), (Ok(3), 4)));
        assert!(matches!(tried(true, "1ms", 9, broken), (Err(TransferError::Stream(_)), 4)));
        assert!(matches!(tried(true, "1ms", 1, missing), (Err(TransferError::Stream(_)), 1)));
    }

    #[test]
    fn a_reader_does_not_wait_for_an_executor_that_the_driver_declared_dead() {
        assert!(matches!(tried(false, "1h", 1, broken), (Err(TransferError::Lost(_)), 1)));
    }

    /// Has no time for the first questions.
    struct Busy(Vec<Caller<BlockMasterReply>>);

    impl Endpoint for Busy {
        type Message = ToBlockMaster;

        async fn receive(
            &mut self,
            _: ToBlockMaster,
            caller: Caller<BlockMasterReply>,
            _: &Context<ToBlockMaster>,
        ) -> Result<(), HandlerError> {
            match self.0.len() {
                2 => caller.reply(BlockMasterReply::Piece(NextPiece::Whole(vec![7]))),
                _ => self.0.push(caller),
            }
            Ok(())
        }
    }

    #[test]
    fn a_question_that_a_busy_driver_does_not_answer_in_time_is_asked_again() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let ask_timeout = Duration::from_millis(50);
            let options = RpcOptions { ask_timeout, ..RpcOptions::default() };
            let env = RpcEnv::server(options, BindTo::loopback()).await.unwrap();
            env.register(BLOCK_MASTER, Busy(Vec::new())).unwrap();
            let fetched = manager_at(env, "1ms").fetch_broadcast(BroadcastId(1)).await;
            assert_eq!(fetched.unwrap(), [7]);
        });
    }

    #[test]
    fn a_result_that_waits_is_on_the_books_until_it_is_forgotten() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let manager = manager(&Arc::new(AtomicBool::new(true)), "1ms").await;
            let memory = manager.scratch.memory();
            manager.keep_result(TaskId(1), vec![0; 1000]);
            manager.keep_result(TaskId(2), vec![0; 500]);
            assert_eq!(memory.used(), (1500, 0));
            manager.forget(Forgotten::Result(TaskId(1)));
            assert_eq!(memory.used(), (500, 0));
        });
    }
}
