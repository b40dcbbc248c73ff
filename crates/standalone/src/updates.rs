//! Tells open pages of a master or a worker that something changed: an event per change, at most one a second. Pages ask for
//! themselves again then.
//!
//! A stream ends after `LASTS` (browsers begin another one by themselves), has a place of its own among `READERS`, three quarters of which
//! one address gets at most, and gives back the place of its connection. A browser that does not read is cut off, as in `forward`.

use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use firesteel_rpc::PeerLimits;
use http_body_util::{Either, Full};
use hyper::body::{Body, Frame};
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use tokio::sync::Semaphore;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::forward::{Pass, Passage};
use crate::web::{Ends, HttpResponse, plain};

/// Where pages ask for it.
pub(crate) const PATH: &str = "/events";
/// How many streams there are at once.
const READERS: usize = 128;
const READERS_PER_ADDRESS: usize = 96;
/// How often something may be sent.
const EVERY: Duration = Duration::from_secs(1);
/// How many times that a stream lasts: less than a passage may.
const LASTS: u32 = 100;
/// After so many times without a change a comment is sent, to find out whether the reader is still there.
const SILENCE: u32 = 15;

/// What may change, and who is told of it.
pub(crate) struct Changes {
    /// A number that stands for what pages show.
    look: Box<dyn Fn() -> u64 + Send + Sync>,
    /// The last one, and when it was looked at: however many are told, it is looked at once.
    last: Mutex<Option<(Instant, u64)>>,
    /// Stands for this process: another one may take its port.
    process: u64,
    readers: Arc<Semaphore>,
    peers: Arc<PeerLimits>,
}

/// An answer with this extension goes on with what changes.
#[derive(Clone)]
pub(crate) struct Follow(pub(crate) Arc<Changes>);

impl Changes {
    pub(crate) fn new(look: impl Fn() -> u64 + Send + Sync + 'static) -> Arc<Self> {
        let mut hasher = DefaultHasher::new();
        (SystemTime::now(), std::process::id()).hash(&mut hasher);
        Arc::new(Changes {
            look: Box::new(look),
            last: Mutex::default(),
            process: hasher.finish(),
            readers: Arc::new(Semaphore::new(READERS)),
            peers: PeerLimits::new(READERS_PER_ADDRESS),
        })
    }

    pub(crate) fn process(&self) -> u64 {
        self.process
    }

    /// As it was less than a second ago. What is shown after this is never older.
    pub(crate) fn state(&self) -> u64 {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match *last {
            Some((at, state)) if at.elapsed() < EVERY / 2 => state,
            _ => {
                let state = (self.look)();
                *last = Some((Instant::now(), state));
                state
            }
        }
    }

    /// An answer that `web` makes a stream.
    pub(crate) fn answer(self: &Arc<Self>) -> HttpResponse {
        let mut response = plain(StatusCode::OK, "");
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        response.extensions_mut().insert(Follow(self.clone()));
        response
    }
}

/// The stream that an answer asks for; else the answer as it is, or a refusal if there are too many.
pub(crate) fn begun(
    mut response: HttpResponse,
    ends: Ends,
    passage: &Arc<Passage>,
) -> Response<Either<Full<Bytes>, Updates>> {
    let Some(Follow(changes)) = response.extensions_mut().remove::<Follow>() else {
        return response.map(Either::Left);
    };
    let places = changes.readers.clone().try_acquire_owned().ok();
    let Some(pass) = places.zip(changes.peers.try_take(ends.peer.ip())) else {
        let why = "too many pages are open: load the page again by hand\n";
        let mut refusal = plain(StatusCode::SERVICE_UNAVAILABLE, why);
        refusal.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("30"));
        return refusal.map(Either::Left);
    };
    passage.begin();
    let passage = passage.clone();
    response.map(|_| Either::Right(Updates::new(changes, passage, pass)))
}

/// The body of a stream.
pub(crate) struct Updates {
    changes: Arc<Changes>,
    ticks: Interval,
    last: Option<u64>,
    /// Ticks since something was sent, and until the end.
    silent: u32,
    left: u32,
    passage: Arc<Passage>,
    _pass: Pass,
}

impl Updates {
    fn new(changes: Arc<Changes>, passage: Arc<Passage>, pass: Pass) -> Self {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Updates { changes, ticks, last: None, silent: 0, left: LASTS, passage, _pass: pass }
    }

    /// What is sent now, if anything.
    fn next(&mut self) -> Option<String> {
        let state = self.changes.state();
        self.silent += 1;
        let before = self.last.replace(state);
        if before == Some(state) && self.silent < SILENCE {
            return None;
        }
        self.silent = 0;
        let process = self.changes.process;
        Some(match before {
            // The first one is what the page shows already.
            None => format!("event: hello\ndata: {state:016x} {process:016x}\n\n"),
            Some(before) if before != state => {
                format!("event: changed\ndata: {state:016x} {process:016x}\n\n")
            }
            Some(_) => ": still here\n\n".to_owned(),
        })
    }
}

impl Body for Updates {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        // Nobody asks for the next part before there is room for it.
        this.passage.note_unread(None);
        loop {
            ready!(this.ticks.poll_tick(cx));
            let Some(left) = this.left.checked_sub(1) else { return Poll::Ready(None) };
            this.left = left;
            if let Some(text) = this.next() {
                this.passage.note_unread(Some(Instant::now()));
                return Poll::Ready(Some(Ok(Frame::data(text.into()))));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
    use tokio::net::TcpStream;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::web::{self, Answering, HttpHandler};

    const WAIT: Duration = Duration::from_secs(30);

    /// A server of which a number is all there is to see.
    async fn serve(number: Arc<AtomicU64>, stop: CancellationToken) -> (String, u16) {
        let web = web::bind("127.0.0.1", "127.0.0.1", 0, 0).await.unwrap();
        let address = web.address.clone();
        let changes = Changes::new(move || number.load(Ordering::Relaxed));
        let handler: HttpHandler = Arc::new(move |asked| -> Answering {
            let answer = match &*asked.path {
                PATH => changes.answer(),
                _ => plain(StatusCode::OK, "here"),
            };
            Box::pin(std::future::ready(answer))
        });
        tokio::spawn(web::serve(web, handler, 0, stop));
        (address.host.to_string(), address.port)
    }

    async fn send(at: &(String, u16), path: &str) -> TcpStream {
        let mut stream = TcpStream::connect((&*at.0, at.1)).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }

    /// The next line with this in it.
    async fn line(lines: &mut tokio::io::Lines<BufReader<TcpStream>>, wanted: &str) -> String {
        let reading = async {
            loop {
                let line = lines.next_line().await.unwrap().expect("it goes on");
                if line.contains(wanted) {
                    return line;
                }
            }
        };
        tokio::time::timeout(WAIT, reading).await.unwrap_or_else(|_| panic!("no {wanted}"))
    }

    #[tokio::test]
    async fn open_pages_are_told_of_changes_and_of_nothing_else() {
        let (number, stop) = (Arc::new(AtomicU64::new(7)), CancellationToken::new());
        let at = serve(number.clone(), stop.clone()).await;
        let mut lines = BufReader::new(send(&at, PATH).await).lines();
        line(&mut lines, "text/event-stream").await;
        line(&mut lines, "event: hello").await;
        let first = line(&mut lines, "data: ").await;
        assert!(first.starts_with("data: 0000000000000007 "), "{first}");
        // Nothing comes while nothing changes.
        let next = tokio::time::timeout(EVERY * 2, line(&mut lines, "event")).await;
        assert!(next.is_err(), "{next:?}");
        number.store(8, Ordering::Relaxed);
        line(&mut lines, "event: changed").await;
        let second = line(&mut lines, "data: ").await;
        assert!(second.starts_with("data: 0000000000000008 "), "{second}");
        assert_eq!(first[23..], second[23..], "the process is the same");
        stop.cancel();
    }

    #[tokio::test]
    async fn open_pages_take_no_place_of_requests_and_one_address_not_all_of_theirs() {
        let stop = CancellationToken::new();
        let at = serve(Arc::default(), stop.clone()).await;
        let mut open = Vec::new();
        for _ in 0..READERS_PER_ADDRESS {
            let mut stream = send(&at, PATH).await;
            let mut first = [0; 12];
            stream.read_exact(&mut first).await.unwrap();
            assert_eq!(&first, b"HTTP/1.1 200");
            open.push(stream);
        }
        let whole = |path: &'static str| {
            let at = at.clone();
            async move {
                let mut text = String::new();
                let mut stream = send(&at, path).await;
                let reading = stream.read_to_string(&mut text);
                tokio::time::timeout(WAIT, reading).await.expect("in time").unwrap();
                text
            }
        };
        let refused = whole(PATH).await;
        assert!(
            refused.starts_with("HTTP/1.1 503") && refused.contains("retry-after"),
            "{refused}"
        );
        let page = whole("/").await;
        assert!(page.starts_with("HTTP/1.1 200") && page.ends_with("here"), "{page}");
        // A page that is closed makes room.
        drop(open);
        let until = Instant::now() + WAIT;
        loop {
            let mut first = [0; 12];
            send(&at, PATH).await.read_exact(&mut first).await.unwrap();
            if &first == b"HTTP/1.1 200" {
                break;
            }
            assert!(Instant::now() < until, "nobody's place is free again");
            tokio::task::yield_now().await;
        }
        stop.cancel();
    }
}
