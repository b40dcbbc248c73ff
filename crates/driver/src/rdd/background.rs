//! Threads for actions in the background: so many at most, however many actions there are. More wait for their turn.
//!
//! Who waits for an action that has no thread yet runs it on its own: an action that waits for others never waits for a thread
//! that only its own end would free.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// As deep as those of tasks: an action encodes and drops what tasks compute.
const STACK_BYTES: usize = 16 << 20;
/// How many threads there are at most.
const MOST_THREADS: usize = 256;

/// Something that runs once.
pub(super) struct Work(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Work {
    /// `work` does not panic.
    pub(super) fn new(work: impl FnOnce() + Send + 'static) -> Arc<Self> {
        Arc::new(Work(Mutex::new(Some(Box::new(work)))))
    }

    /// Runs it here if it still waits for a thread.
    pub(super) fn run_if_waiting(self: &Arc<Self>) {
        let mut pool = pool();
        let Some(at) = pool.waiting.iter().position(|work| Arc::ptr_eq(work, self)) else { return };
        pool.waiting.remove(at);
        drop(pool);
        self.run();
    }

    fn run(&self) {
        let work = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        if let Some(work) = work {
            work();
        }
    }
}

/// Threads that run, and work that waits for one.
struct Pool {
    threads: usize,
    waiting: VecDeque<Arc<Work>>,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { threads: 0, waiting: VecDeque::new() });

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Runs it on a thread of its own, or after others.
pub(super) fn start(work: Arc<Work>) -> io::Result<()> {
    let mut pool = pool();
    if pool.threads >= MOST_THREADS {
        pool.waiting.push_back(work);
        return Ok(());
    }
    pool.threads += 1;
    drop(pool);
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    let spawned = thread.name("firesteel-action".into()).spawn(move || run_all(work));
    spawned.map(drop).inspect_err(|_| self::pool().threads -= 1)
}

fn run_all(first: Arc<Work>) {
    let mut next = Some(first);
    while let Some(work) = next {
        work.run();
        let mut pool = pool();
        next = pool.waiting.pop_front();
        if next.is_none() {
            pool.threads -= 1;
        }
    }
}
