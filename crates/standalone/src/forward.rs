//! Takes a request to another server and its answer back, as a proxy does. Which server that is, others decide.
//!
//! An answer flows as fast as its reader reads: what is held of it in between is two buffers, whatever its length. A reader that
//! stops reading is cut off, and so is an answer that takes too long.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use firesteel_rpc::PeerPlace;
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONNECTION, HeaderMap};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

/// How long another server may take to accept a connection.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// How long it may take until its answer begins.
const ANSWER_TIME: Duration = Duration::from_secs(60);
/// How long an answer may take to its end. Streams of updates are shorter, and browsers begin them again.
const LONGEST: Duration = Duration::from_secs(180);
/// How long a reader may leave unread what does not fit into its buffers.
const PATIENCE: Duration = Duration::from_secs(10);
/// What is held of an answer that is not yet read.
const BUFFER: usize = 64 << 10;

/// Headers that are about one connection and not about the message.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Why another server has not answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ForwardError {
    #[error("it cannot be reached: {0}")]
    Connect(#[source] io::Error),
    #[error("it does not answer as a web server does: {0}")]
    Speak(#[from] hyper::Error),
    #[error("it has not answered in time")]
    Late,
}

/// The connection of a client, while an answer passes through it.
pub(crate) struct Passage(Mutex<Held>);

struct Held {
    /// Among all connections. An answer that passes gives it back: it has one among those.
    place: Option<(OwnedSemaphorePermit, PeerPlace)>,
    /// When an answer of another server was first waited for.
    began: Option<Instant>,
    /// Since when a part of it waits to be read.
    unread: Option<Instant>,
}

impl Passage {
    pub(crate) fn new(place: OwnedSemaphorePermit, peer: PeerPlace) -> Self {
        Passage(Mutex::new(Held { place: Some((place, peer)), began: None, unread: None }))
    }

    /// A request has come.
    pub(crate) fn settle(&self) {
        if let Some((_, peer)) = &self.lock().place {
            peer.settle();
        }
    }

    /// It waits for another server from now on.
    pub(crate) fn begin(&self) {
        let mut held = self.lock();
        held.place = None;
        held.began = Some(Instant::now());
    }

    /// Whether an answer passes through it that is neither too long nor left unread.
    pub(crate) fn goes_on(&self) -> bool {
        let held = self.lock();
        let is_in_time = held.began.is_some_and(|began| began.elapsed() < LONGEST);
        is_in_time && held.unread.is_none_or(|since| since.elapsed() < PATIENCE)
    }

    /// Since when what it was given waits to be read.
    pub(crate) fn note_unread(&self, since: Option<Instant>) {
        self.lock().unread = since;
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// What an answer takes while it passes: its place among those that do.
pub(crate) type Pass = (OwnedSemaphorePermit, PeerPlace);

/// The body of another server's answer.
pub(crate) struct Passing {
    body: Incoming,
    passage: Arc<Passage>,
    _pass: Pass,
    /// The connection to the other server ends with the answer, or when nobody reads it any more.
    _connection: (SendRequest<Full<Bytes>>, AbortOnDropHandle<()>),
}

impl Body for Passing {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        // Nobody asks for the next part before there is room for it.
        this.passage.note_unread(None);
        let polled = Pin::new(&mut this.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(_))) = &polled {
            this.passage.note_unread(Some(Instant::now()));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Without the headers that are about one connection.
pub(crate) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<String> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
    for name in &named {
        headers.remove(name.as_str());
    }
}

/// Asks another server, at the first of its addresses where somebody listens. Its answer holds `pass` until it is read.
pub(crate) async fn forward(
    target: &[SocketAddr],
    request: Request<Full<Bytes>>,
    passage: Arc<Passage>,
    pass: Pass,
) -> Result<Response<Passing>, ForwardError> {
    let stream =
        timeout(CONNECT_TIME, TcpStream::connect(target)).await.map_err(|_| ForwardError::Late)?;
    let stream = TokioIo::new(stream.map_err(ForwardError::Connect)?);
    let (mut sender, connection) =
        http1::Builder::new().max_buf_size(BUFFER).handshake(stream).await?;
    let connection = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to another server broke");
        }
    });
    let connection = AbortOnDropHandle::new(connection);
    let answer = timeout(ANSWER_TIME, sender.send_request(request)).await;
    let (head, body) = answer.map_err(|_| ForwardError::Late)??.into_parts();
    let body = Passing { body, passage, _pass: pass, _connection: (sender, connection) };
    let mut response = Response::new(body);
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    strip_hop_by_hop(response.headers_mut());
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_passage_ends_when_it_is_left_unread_or_takes_too_long() {
        let places = Arc::new(tokio::sync::Semaphore::new(1));
        let limits = firesteel_rpc::PeerLimits::new(1);
        let from = std::net::IpAddr::from([127, 0, 0, 1]);
        let place = places.clone().try_acquire_owned().unwrap();
        let passage = Passage::new(place, limits.try_take(from).unwrap());
        assert!(!passage.goes_on(), "what is answered here has its time and no more");
        passage.begin();
        assert!(passage.goes_on());
        assert!(places.available_permits() == 1 && limits.try_take(from).is_some());
        let before = |time: Duration| Instant::now().checked_sub(time).expect("up for long enough");
        passage.note_unread(Some(before(PATIENCE)));
        assert!(!passage.goes_on());
        passage.note_unread(Some(Instant::now()));
        assert!(passage.goes_on());
        passage.lock().began = Some(before(LONGEST));
        assert!(!passage.goes_on());
    }

    #[test]
    fn headers_of_one_connection_go_and_others_stay() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Own"),
            ("connection", "keep-alive"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("x-own", "1"),
            ("accept", "text/html"),
            ("content-length", "3"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        strip_hop_by_hop(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(|name| name.as_str()).collect();
        left.sort_unstable();
        assert_eq!(left, ["accept", "content-length"]);
    }
}
