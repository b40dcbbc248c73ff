//! Pages that are open on a running application: each listens for changes and asks for itself again, as the script of our pages does.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A page asks for itself again no more often than this, and than so many times what that took: as in `pages.js`.
const EVERY: Duration = Duration::from_secs(2);
const PATIENCE: u32 = 30;
/// How long something is waited for before it is looked whether all is over.
const WAIT: Duration = Duration::from_millis(500);

const PATHS: [&str; 6] =
    ["/", "/jobs/", "/stages/", "/stages/stage/?id=0", "/executors/", "/environment/"];

/// Open pages, until they are stopped.
pub(super) struct Followers {
    state: Arc<State>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    is_over: AtomicBool,
    /// Pages that came whole.
    loaded: AtomicU64,
}

impl Followers {
    /// Opens so many pages of the application at this address, as soon as it is there.
    pub(super) fn start(count: usize, address: SocketAddr) -> Self {
        let state = Arc::<State>::default();
        let thread = |number: usize| {
            let state = state.clone();
            std::thread::spawn(move || state.follow(address, PATHS[number % PATHS.len()]))
        };
        let threads = (0..count).map(thread).collect();
        Followers { state, threads }
    }

    /// Closes them. How many pages they loaded.
    pub(super) fn stop(self) -> u64 {
        self.state.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            let _ = thread.join();
        }
        self.state.loaded.load(Ordering::Relaxed)
    }
}

fn send(address: SocketAddr, path: &str) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(WAIT)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").ok()?;
    Some(stream)
}

impl State {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn follow(&self, address: SocketAddr, path: &str) {
        let (mut last, mut every) = (None::<Instant>, EVERY);
        let mut buffer = [0; 1024];
        while !self.is_over() {
            let Some(mut updates) = send(address, "/events") else {
                std::thread::park_timeout(WAIT / 10);
                continue;
            };
            // Until the stream ends, as it does now and then.
            while !self.is_over() {
                match updates.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(_) if last.is_none_or(|last| last.elapsed() >= every) => {
                        let begin = Instant::now();
                        self.load(address, path);
                        every = EVERY.max(begin.elapsed() * PATIENCE);
                        last = Some(begin);
                    }
                    Ok(_) => {}
                    Err(error) if is_late(&error) => {}
                    Err(_) => break,
                }
            }
        }
    }

    fn load(&self, address: SocketAddr, path: &str) {
        let Some(mut stream) = send(address, path) else { return };
        let (mut whole, mut buffer) = (0, [0; 16 << 10]);
        while !self.is_over() {
            match stream.read(&mut buffer) {
                Ok(0) if whole > 0 => {
                    self.loaded.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Ok(0) => return,
                Ok(count) => whole += count,
                Err(error) if is_late(&error) => {}
                Err(_) => return,
            }
        }
    }
}

fn is_late(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}
