//! HTTP for a master or a worker: a port, and one answer to each request.
//!
//! A client gets one answer per connection, within a time, from so many connections at once: a slow
//! or silent reader costs a place for a while and nothing more, and one address does not get all places. Where an address has all it may
//! have, its newest connection evicts the oldest one of which no request has come. Handlers decide what the answers say. A [`Front`]
//! takes some requests to other servers: those answers stream, for longer, and have places of their own. So do updates of open pages.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use firesteel_conf::{Conf, HostNames, entries};
use firesteel_rpc::{PeerLimits, RpcAddress};
use http_body_util::{BodyExt, Collected, Either, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderMap,
    HeaderValue, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::StartError;
use crate::access::Asker;
use crate::forward::{Passage, Passing};
use crate::updates::{self, Updates};

/// How many connections are served at once.
const CONNECTIONS: usize = 64;
/// How many of them one address may have.
const CONNECTIONS_PER_ADDRESS: usize = 32;
/// How long a client may take for the head of its request.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// How long a connection may take from its first to its last byte.
const TIME: Duration = Duration::from_secs(20);
/// The largest head of a request.
const HEAD: usize = 16 << 10;

/// For requests that name another machine.
const MISDIRECTED: &str = "that is no name of this machine: ask for its address, or set spark.firesteel.http.allowedHosts\n";

pub(crate) struct Page {
    pub(crate) content_type: &'static str,
    pub(crate) text: String,
}

impl Page {
    pub(crate) fn json(text: String) -> Self {
        Self { content_type: "text/json;charset=utf-8", text }
    }

    pub(crate) fn plain(text: String) -> Self {
        Self { content_type: "text/plain;charset=utf-8", text }
    }

    pub(crate) fn html(text: String) -> Self {
        Self { content_type: "text/html;charset=utf-8", text }
    }
}

/// Finds the page of a path.
pub(crate) type Pages<'a> = dyn Fn(&str) -> Option<Page> + 'a;

#[derive(Clone, Debug)]
pub(crate) struct HttpRequest {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Query,
    /// The connection that it came by, unless a proxy speaks for somebody else.
    pub(crate) ends: Option<Ends>,
    /// Where a proxy in front shows these pages: `X-Forwarded-Context`.
    pub(crate) context: Option<String>,
    /// Whether a web page made somebody's browser ask.
    pub(crate) by_a_page: bool,
    /// What proves who asks.
    pub(crate) authorization: Option<String>,
    /// What came with it, or nothing if that is longer than is read.
    pub(crate) body: Option<Bytes>,
}

/// Whether others than this machine get to what is bound there.
pub(crate) fn reaches_others(host: &str) -> bool {
    host != "localhost" && !host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The two ends of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) peer: SocketAddr,
    pub(crate) own: SocketAddr,
}

impl Ends {
    /// Unless a proxy speaks for somebody else.
    pub(crate) fn of_asker(self, headers: &HeaderMap) -> Option<Self> {
        let speaks_for_others = FORWARDED.iter().any(|name| headers.contains_key(*name));
        (!speaks_for_others).then_some(self)
    }

    /// Whether a process of this very user of this machine asks. The table of the machine's connections may be long: a thread of
    /// its own reads it.
    pub(crate) async fn is_own_user(self) -> bool {
        let look = move || firesteel_jws::is_own_user(self.peer, self.own);
        tokio::task::spawn_blocking(look).await.unwrap_or(false)
    }
}

impl HttpRequest {
    pub(crate) fn asker(&self) -> Asker<'_> {
        Asker { authorization: self.authorization.as_deref(), ends: self.ends }
    }

    /// Whether a process of this very user of this machine asks, and for nobody else. Looks through the connections of the
    /// machine.
    pub(crate) async fn is_of_own_user(&self) -> bool {
        match self.ends {
            Some(ends) => ends.is_own_user().await,
            None => false,
        }
    }

    /// Where a proxy shows these pages: in front of every link.
    pub(crate) fn root(&self) -> String {
        root(self.context.as_deref())
    }
}

/// Where a proxy shows us, as far as that is a path that cannot be mistaken for something else.
pub(crate) fn root(context: Option<&str>) -> String {
    let is_plain = |context: &&str| {
        context.starts_with('/')
            && !context.starts_with("//")
            && context.len() < 200
            && context.bytes().all(|it| it.is_ascii_alphanumeric() || b"/-_.".contains(&it))
    };
    context.filter(is_plain).map_or_else(String::new, |it| it.trim_end_matches('/').to_owned())
}

/// What stands behind the question mark: names and values, decoded.
#[derive(Clone, Debug)]
pub(crate) struct Query(Vec<(String, String)>);

/// So many parameters of a request are looked at.
const PARAMETERS: usize = 100;

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let pair = |part: &str| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (decoded(name), decoded(value))
        };
        let parts = text.split('&').filter(|part| !part.is_empty());
        Self(parts.take(PARAMETERS).map(pair).collect())
    }

    /// The first value of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Names and values, in the order they came.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// A number of a page, from 1 on.
    pub(crate) fn page(&self, name: &str) -> usize {
        self.get(name).and_then(|text| text.parse::<u32>().ok()).unwrap_or(1).max(1) as usize
    }
}

/// Without percent signs; what is no text then is replaced.
pub(crate) fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, behind)) = rest.split_first() {
        let hex =
            behind.get(..2).filter(|hex| *first == b'%' && hex.iter().all(u8::is_ascii_hexdigit));
        let byte = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(if *first == b'+' { b' ' } else { *first }));
        rest = if byte.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// With percent signs where something else than letters, digits and `plain` is.
pub(crate) fn encoded(text: &[u8], plain: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for &byte in text {
        let is_plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        match is_plain || plain.as_bytes().contains(&byte) {
            true => encoded.push(char::from(byte)),
            false => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

pub(crate) type HttpResponse = Response<Full<Bytes>>;

/// An answer that may take a while.
pub(crate) type Answering = Pin<Box<dyn Future<Output = HttpResponse> + Send>>;

pub(crate) type HttpHandler = Arc<dyn Fn(HttpRequest) -> Answering + Send + Sync>;

/// An answer made here, or one of another server.
pub(crate) type FrontResponse = Response<Either<Full<Bytes>, Passing>>;

/// One of these, or a stream of updates.
type Sent = Response<Either<Either<Full<Bytes>, Passing>, Updates>>;

/// Takes requests to other servers.
pub(crate) trait Front: Send + Sync {
    /// Whether requests for this path are for other servers.
    fn takes(&self, path: &str) -> bool;

    /// Answers a request of a client.
    fn pass(
        self: Arc<Self>,
        request: Request<Incoming>,
        ends: Ends,
        passage: Arc<Passage>,
    ) -> Pin<Box<dyn Future<Output = FrontResponse> + Send>>;
}

/// A port for pages.
pub(crate) struct Web {
    listener: TcpListener,
    pub(crate) address: RpcAddress,
    names: HostNames,
    front: Option<Arc<dyn Front>>,
}

impl Web {
    /// Is also asked for by the names of the settings, and by that of a proxy in front.
    pub(crate) fn also_named(mut self, conf: &Conf) -> Result<Self, StartError> {
        let mut names = conf.get(&entries::HTTP_ALLOWED_HOSTS)?;
        let proxy = conf.get(&entries::UI_REVERSE_PROXY_URL)?;
        names.extend(proxy.as_ref().and_then(|url| url.host()).map(str::to_owned));
        self.names = names_of(&self.address.host, names);
        Ok(self)
    }

    /// Takes requests to other servers as well.
    pub(crate) fn in_front(mut self, front: Option<Arc<dyn Front>>) -> Self {
        self.front = front;
        self
    }
}

/// Those of its machine, and the one that others are told.
fn names_of(advertised: &str, allowed: Vec<String>) -> HostNames {
    let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
    HostNames::new([node, advertised.to_owned()].into_iter().chain(allowed))
}

/// Whether a request is for this machine, and of no page of another one.
fn is_admitted(names: &HostNames, headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    names.admit(text(HOST), text(ORIGIN))
}

/// Refuses to open a port for pages where the settings promise TLS there.
pub(crate) fn check_tls(conf: &Conf) -> Result<(), StartError> {
    match conf.get(&entries::SSL_STANDALONE_ENABLED)? {
        true => Err(StartError::PageWithTls),
        false => Ok(()),
    }
}

/// Binds the first free port from `port` on; others are told `advertised` as the host.
pub(crate) async fn bind(
    host: &str,
    advertised: &str,
    port: u16,
    retries: u32,
) -> Result<Web, StartError> {
    let mut tries = 0;
    loop {
        let attempt = port.checked_add(tries as u16).unwrap_or(0);
        match TcpListener::bind((host, attempt)).await {
            Ok(listener) => {
                let bound = listener.local_addr().map_or(attempt, |bound| bound.port());
                let address = RpcAddress::new(advertised, bound);
                let names = names_of(advertised, Vec::new());
                return Ok(Web { listener, address, names, front: None });
            }
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse && port != 0 && tries < retries =>
            {
                tries += 1;
            }
            Err(source) => {
                let first = RpcAddress::new(host, port);
                return Err(StartError::BindWeb { first, tries, source });
            }
        }
    }
}

/// Holds on to something until `stop`.
pub(crate) async fn hold_until<T: Send + 'static>(stop: CancellationToken, held: T) {
    stop.cancelled().await;
    // Letting go may take a while, such as a last report to another machine.
    let _ = tokio::task::spawn_blocking(|| drop(held)).await;
}

/// Answers until `stop`; of what comes with a request, so many bytes are read.
pub(crate) async fn serve(web: Web, handler: HttpHandler, body: usize, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let peers = PeerLimits::new(CONNECTIONS_PER_ADDRESS);
    let accepting = async {
        loop {
            let place = places.clone().acquire_owned().await.expect("never closed");
            match web.listener.accept().await {
                Ok((stream, from)) => {
                    let Some(peer) = peers.take_from_unsettled(from.ip()) else {
                        let task = timeout(HEAD_TIME, turn_away(stream, place));
                        tokio::spawn(stop.clone().run_until_cancelled_owned(task));
                        continue;
                    };
                    let evicted = peer.evicted();
                    let passage = Arc::new(Passage::new(place, peer));
                    let front = web.front.clone();
                    // One that is gone again already is nobody's.
                    let own = stream.local_addr().unwrap_or(from);
                    let ends = Ends { peer: from, own };
                    let connected = Connected { names: web.names.clone(), ends, passage, front };
                    let task = answer(stream, evicted, connected, handler.clone(), body);
                    tokio::spawn(stop.clone().run_until_cancelled_owned(task));
                }
                Err(error) => {
                    // Out of file handles, or the reader is gone again: neither is for ever.
                    tracing::warn!(%error, "could not accept a connection over HTTP");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    };
    stop.run_until_cancelled(accepting).await;
}

/// Tells an address so that has as many connections as it may have, and a request of each.
async fn turn_away(mut stream: TcpStream, _place: OwnedSemaphorePermit) {
    let text = format!(
        "{CONNECTIONS_PER_ADDRESS} connections from this address are being answered already: ask again when one of them has ended\n"
    );
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain;charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    let _ = stream.write_all(format!("{head}{text}").as_bytes()).await;
    let _ = stream.shutdown().await;
    // Closing with bytes unread would reset the connection and destroy the answer.
    let _ = tokio::io::copy(&mut stream.take(HEAD as u64), &mut tokio::io::sink()).await;
}

/// Where requests come from, by which names they may ask, and how they are answered for other servers.
#[derive(Clone)]
struct Connected {
    names: HostNames,
    ends: Ends,
    passage: Arc<Passage>,
    front: Option<Arc<dyn Front>>,
}

/// Headers of proxies: who sends them speaks for somebody else.
const FORWARDED: [&str; 4] =
    ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-context"];

async fn answer(
    stream: TcpStream,
    evicted: impl Future<Output = ()>,
    connected: Connected,
    handler: HttpHandler,
    limit: usize,
) {
    let passage = connected.passage.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (handler, connected) = (handler.clone(), connected.clone());
        connected.passage.settle();
        async move { Ok::<_, Infallible>(respond_to(request, connected, handler, limit).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        answered = connection => if let Err(error) = answered {
            tracing::debug!(%error, "a request was not answered");
        },
        () = overdue(&passage) => tracing::debug!("a connection that took too long was cut off"),
        () = evicted => tracing::debug!("a connection without a request was cut off"),
    }
}

/// Returns when a connection has lasted long enough.
async fn overdue(passage: &Passage) {
    tokio::time::sleep(TIME).await;
    // An answer of another server may stream for longer, to a client that reads it.
    while passage.goes_on() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn respond_to(
    request: Request<Incoming>,
    connected: Connected,
    handler: HttpHandler,
    limit: usize,
) -> Sent {
    if !is_admitted(&connected.names, request.headers()) {
        let refusal = plain(StatusCode::MISDIRECTED_REQUEST, MISDIRECTED);
        return refusal.map(|body| Either::Left(Either::Left(body)));
    }
    if let Some(front) = connected.front.as_ref().filter(|it| it.takes(request.uri().path())) {
        let passed = front.clone().pass(request, connected.ends, connected.passage.clone());
        return passed.await.map(Either::Left);
    }
    let (head, body) = request.into_parts();
    let body = match limit {
        0 => None,
        limit => Limited::new(body, limit).collect().await.ok().map(Collected::to_bytes),
    };
    let text = |value: &HeaderValue| value.to_str().ok().map(str::to_owned);
    let asked = HttpRequest {
        path: head.uri.path().to_owned(),
        query: Query::parse(head.uri.query().unwrap_or_default()),
        ends: connected.ends.of_asker(&head.headers),
        context: head.headers.get("x-forwarded-context").and_then(text),
        by_a_page: head.headers.contains_key(ORIGIN),
        authorization: head.headers.get(AUTHORIZATION).and_then(text),
        method: head.method,
        body,
    };
    let answer = updates::begun(handler(asked).await, connected.ends, &connected.passage);
    answer.map(|body| match body {
        Either::Left(whole) => Either::Left(Either::Left(whole)),
        Either::Right(stream) => Either::Right(stream),
    })
}

/// The page of a path, or a refusal.
pub(crate) fn respond(method: &Method, path: &str, pages: &Pages<'_>) -> HttpResponse {
    if method != Method::GET && method != Method::HEAD {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered here\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    if let Some((content_type, text)) = crate::page::asset(path) {
        return answer_of(StatusCode::OK, content_type, text);
    }
    let Some(page) = pages(path) else {
        return plain(StatusCode::NOT_FOUND, "there is no such page: try / or /json/\n");
    };
    answer_of(StatusCode::OK, page.content_type, page.text)
}

pub(crate) fn plain(status: StatusCode, text: impl Into<Bytes>) -> HttpResponse {
    answer_of(status, "text/plain;charset=utf-8", text)
}

pub(crate) fn answer_of(
    status: StatusCode,
    content_type: &'static str,
    text: impl Into<Bytes>,
) -> HttpResponse {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-store, must-revalidate"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(crate::page::policy()));
    // Not `no-referrer`: forms would name no origin then, and be refused.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_and_what_is_broken_stays() {
        let text = "a b&c=d/é%+";
        assert_eq!(decoded(&encoded(text.as_bytes(), "/")), text);
        assert_eq!(encoded(b"/a b", "/"), "/a%20b");
        let query = Query::parse("a=1%2c2&b&a=3&c=x+y&&d=%zz%4");
        let values = ["a", "b", "c", "d", "e"].map(|name| query.get(name));
        assert_eq!(values, [Some("1,2"), Some(""), Some("x y"), Some("%zz%4"), None]);
        let query = Query::parse("two=2&none=0&far=99999999999");
        assert_eq!(["two", "none", "far", "no"].map(|name| query.page(name)), [2, 1, 1, 1]);
    }

    async fn connect(address: &RpcAddress, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect((address.host.as_str(), address.port)).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }

    async fn answer_to(mut stream: TcpStream) -> String {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn connections_that_say_nothing_do_not_keep_the_next_one_of_their_address_out() {
        let web = bind("127.0.0.1", "127.0.0.1", 0, 0).await.unwrap();
        let (address, stop) = (web.address.clone(), CancellationToken::new());
        let handler: HttpHandler = Arc::new(|_| -> Answering {
            Box::pin(std::future::ready(plain(StatusCode::OK, "here")))
        });
        let serving = tokio::spawn(serve(web, handler, 0, stop.clone()));
        let mut silent = Vec::new();
        for _ in 0..3 * CONNECTIONS_PER_ADDRESS {
            let target = (address.host.as_str(), address.port);
            silent.push(TcpStream::connect(target).await.unwrap());
        }
        let asking =
            timeout(HEAD_TIME / 2, async { answer_to(connect(&address, "/").await).await });
        let answer = asking.await.expect("long before silent ones are over");
        assert!(answer.ends_with("here"), "{answer}");
        let oldest = timeout(HEAD_TIME / 2, silent[0].read_u8()).await;
        assert!(oldest.expect("it is cut off").is_err());
        let newest = timeout(Duration::from_millis(10), silent.last_mut().unwrap().read_u8()).await;
        assert!(newest.is_err(), "it may still ask");
        stop.cancel();
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn an_address_whose_requests_take_all_its_places_is_told_the_limit_and_loses_none() {
        let web = bind("127.0.0.1", "127.0.0.1", 0, 0).await.unwrap();
        let (address, stop) = (web.address.clone(), CancellationToken::new());
        let (asked, release) = (Arc::new(Semaphore::new(0)), CancellationToken::new());
        let (counts, waits) = (asked.clone(), release.clone());
        let handler: HttpHandler = Arc::new(move |_| {
            counts.add_permits(1);
            let waits = waits.clone();
            Box::pin(async move {
                waits.cancelled().await;
                plain(StatusCode::OK, "here")
            })
        });
        let serving = tokio::spawn(serve(web, handler, 0, stop.clone()));
        let mut slow = Vec::new();
        for _ in 0..CONNECTIONS_PER_ADDRESS {
            slow.push(connect(&address, "/").await);
        }
        let _all = asked.acquire_many(CONNECTIONS_PER_ADDRESS as u32).await.unwrap();
        let refused = answer_to(connect(&address, "/").await).await;
        assert!(refused.contains("503") && refused.contains("32 connections"), "{refused}");
        release.cancel();
        for stream in slow {
            let answer = answer_to(stream).await;
            assert!(answer.ends_with("here"), "{answer}");
        }
        stop.cancel();
        serving.await.unwrap();
    }
}
