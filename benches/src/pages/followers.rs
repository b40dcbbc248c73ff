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

/// `/stages/stage/?id=`: of the newest stage that the list of stages names.
const STAGE: &str = "/stages/stage/?id=";
const PATHS: [&str; 6] = ["/", "/jobs/", "/stages/", STAGE, "/executors/", "/environment/"];
const OK: &[u8] = b"HTTP/1.1 200 ";

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
    /// Answers that were no pages.
    refused: AtomicU64,
    /// The newest stage that was heard of.
    stage: AtomicU64,
}

/// What open pages came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Followed {
    pub(super) loaded: u64,
    pub(super) refused: u64,
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

    /// Closes them.
    pub(super) fn stop(self) -> Followed {
        self.state.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            let _ = thread.join();
        }
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Followed { loaded: of(&self.state.loaded), refused: of(&self.state.refused) }
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
            let mut head = Vec::new();
            // Until the stream ends, as it does now and then.
            while !self.is_over() {
                match updates.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(count) if head.len() < OK.len() => {
                        head.extend_from_slice(&buffer[..count]);
                        if !head.starts_with(&OK[..OK.len().min(head.len())]) {
                            self.refused.fetch_add(1, Ordering::Relaxed);
                            std::thread::park_timeout(WAIT);
                            break;
                        }
                    }
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
        let stage = self.stage.load(Ordering::Relaxed);
        let path = if path == STAGE { format!("{STAGE}{stage}") } else { path.to_owned() };
        let Some(mut stream) = send(address, &path) else { return };
        let (mut page, mut buffer) = (Vec::new(), [0; 16 << 10]);
        while !self.is_over() {
            match stream.read(&mut buffer) {
                Ok(0) if page.starts_with(OK) => {
                    self.loaded.fetch_add(1, Ordering::Relaxed);
                    newest(&page).map(|it| self.stage.fetch_max(it, Ordering::Relaxed));
                    return;
                }
                Ok(0) => {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Ok(count) => page.extend_from_slice(&buffer[..count]),
                Err(error) if is_late(&error) => {}
                Err(_) => return,
            }
        }
    }
}

/// The newest stage that a page links.
fn newest(page: &[u8]) -> Option<u64> {
    let page = String::from_utf8_lossy(page);
    let links = page.split(&STAGE[1..]).skip(1);
    let number = |rest: &str| rest.split(|it: char| !it.is_ascii_digit()).next()?.parse().ok();
    links.filter_map(number).max()
}

fn is_late(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_stage_of_a_page_is_followed() {
        let page = b"<a href=\"/stages/stage/?id=7&amp;attempt=0\"><a href=\"/stages/stage/?id=31\"><a href=\"/jobs/job/?id=99\">";
        assert_eq!(newest(page), Some(31));
        assert_eq!(newest(b"stages/stage/?id=x"), None);
    }

    /// Answers everything with this.
    fn refusing(answer: &'static str) -> SocketAddr {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        address
    }

    #[test]
    fn refusals_are_no_pages() {
        let state = State::default();
        state.load(refusing("HTTP/1.1 404 Not Found\r\n\r\nthere is no stage 0"), STAGE);
        assert_eq!((state.loaded.into_inner(), state.refused.into_inner()), (0, 1));
        let state = State::default();
        state.load(refusing("HTTP/1.1 200 OK\r\n\r\na page"), "/");
        assert_eq!((state.loaded.into_inner(), state.refused.into_inner()), (1, 0));
    }

    #[test]
    fn refused_updates_are_counted() {
        let followers = Followers::start(1, refusing("HTTP/1.1 503 Service Unavailable\r\n\r\n"));
        let deadline = Instant::now() + Duration::from_secs(30);
        while followers.state.refused.load(Ordering::Relaxed) == 0 && Instant::now() < deadline {
            std::thread::park_timeout(Duration::from_millis(10));
        }
        let followed = followers.stop();
        assert!(followed.loaded == 0 && followed.refused > 0, "{followed:?}");
    }
}
