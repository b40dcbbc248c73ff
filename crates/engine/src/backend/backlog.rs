//! What executors sent and the actor has not handled: how many bytes, and when each executor was heard last.
//!
//! The actor's queue takes whatever comes, so that a heartbeat never waits behind other executors' reports. What
//! bounds it are the windows of the connections ([`Caller::hold`]): beyond [`QUEUED_BYTES`] a report counts as
//! unhandled until the actor is done with it, and its executor sends no more than its window holds. Results that are
//! fetched wait for a permit before their bytes are read.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use firesteel_backend::Peer;
use firesteel_rpc::{Caller, Held};
use firesteel_types::Tick;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::lock;

/// So many bytes of reports are queued before executors have to wait, and so many of results are fetched at a time.
const QUEUED_BYTES: u64 = 32 << 20;

/// What one connection sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    last: Tick,
    /// Messages that are not handled.
    queued: usize,
}

#[derive(Default)]
struct Books {
    bytes: u64,
    most: u64,
    connections: BTreeMap<u64, Sent>,
}

pub(super) struct Backlog {
    books: Mutex<Books>,
    fetching: Arc<Semaphore>,
}

impl Default for Backlog {
    fn default() -> Self {
        let fetching = Arc::new(Semaphore::new(QUEUED_BYTES as usize));
        Backlog { books: Mutex::default(), fetching }
    }
}

/// A message in the queue, until it is handled.
pub(super) struct Queued {
    backlog: Arc<Backlog>,
    connection: u64,
    bytes: u64,
    _held: Option<Held>,
}

impl Drop for Queued {
    fn drop(&mut self) {
        let mut books = lock(&self.backlog.books);
        books.bytes -= self.bytes;
        if let Some(sent) = books.connections.get_mut(&self.connection) {
            sent.queued -= 1;
        }
    }
}

impl Backlog {
    /// A message of so many bytes came.
    pub(super) fn add(self: &Arc<Self>, caller: &Caller<()>, bytes: u64, now: Tick) -> Queued {
        let connection = caller.peer().connection;
        let is_over = self.count(connection, bytes, now);
        // Small ones are as many as there are tasks: only those wait that bring much.
        let held = (is_over && bytes > 0).then(|| caller.hold());
        Queued { backlog: self.clone(), connection, bytes, _held: held }
    }

    /// Whether that is too much.
    fn count(&self, connection: u64, bytes: u64, now: Tick) -> bool {
        let mut books = lock(&self.books);
        books.bytes += bytes;
        books.most = books.most.max(books.bytes);
        let sent = books.connections.entry(connection).or_insert(Sent { last: now, queued: 0 });
        sent.last = now;
        sent.queued += 1;
        books.bytes > QUEUED_BYTES
    }

    /// The connection is gone, and all that it sent is handled.
    pub(super) fn remove(&self, connection: u64) {
        lock(&self.books).connections.remove(&connection);
    }

    /// When each connection was heard last. One with unhandled messages is heard now: it may be waiting for
    /// this side to handle them.
    pub(super) fn heard(&self, now: Tick) -> BTreeMap<Peer, Tick> {
        let books = lock(&self.books);
        let heard = |sent: &Sent| if sent.queued > 0 { now } else { sent.last };
        books.connections.iter().map(|(id, sent)| (Peer(*id), heard(sent))).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.books).connections.values().all(|sent| sent.queued == 0)
    }

    /// The most bytes that were queued at once.
    pub(super) fn most_bytes(&self) -> u64 {
        lock(&self.books).most
    }

    /// Waits until a result of so many bytes may be fetched; it holds others back until this is dropped.
    pub(super) async fn permit(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let permits = bytes.min(QUEUED_BYTES) as u32;
        self.fetching.clone().acquire_many_owned(permits).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_executor_whose_messages_wait_is_heard_now_and_others_when_their_last_one_came() {
        let backlog = Arc::new(Backlog::default());
        assert!(!backlog.count(1, QUEUED_BYTES, Tick(10)) && backlog.count(2, 1, Tick(20)));
        let queued =
            |connection, bytes| Queued { backlog: backlog.clone(), connection, bytes, _held: None };
        drop(queued(1, QUEUED_BYTES));
        let heard = backlog.heard(Tick(500));
        assert_eq!(heard, BTreeMap::from([(Peer(1), Tick(10)), (Peer(2), Tick(500))]));
        assert!(!backlog.is_empty());
        drop(queued(2, 1));
        assert!(backlog.is_empty() && backlog.most_bytes() == QUEUED_BYTES + 1);
        assert_eq!(lock(&backlog.books).bytes, 0);
    }
}
