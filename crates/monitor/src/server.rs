//! HTTP: a port, and an answer to each request. A slow or silent client costs a place for a while and nothing more, and one address
//! does not get all places.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use firesteel_conf::{HostNames, Redaction};
use firesteel_types::Tick;
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderName, HeaderValue, IF_NONE_MATCH,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::access::{Access, Verdict};
use crate::guard::Guard;
use crate::hosts;
use crate::places::{Place, Places};
use crate::rest::{self, Answer, Applications, Ask};
use crate::site::{Asked, NoSite, Shown, ShownBody, Site, Streams, Updates};

/// How many connections are served at once.
const CONNECTIONS: usize = 64;
/// How many of them one address may have.
const CONNECTIONS_PER_ADDRESS: usize = 32;
/// So many connections at once are told that they are too many; further ones are closed.
const TURNED_AWAY: usize = 16;
/// How long a client may take for the head of its request.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// How long a connection may take, with an answer of many megabytes.
const TIME: Duration = Duration::from_secs(120);
/// The largest head of a request.
const HEAD: usize = 16 << 10;
/// The longest form that is read.
const FORM: usize = 8 << 10;

/// Other protocols have these: browsers open no page there. The first of them follows soon after 4040.
const REFUSED_BY_BROWSERS: [u16; 9] = [4045, 4190, 5060, 5061, 6000, 6566, 6679, 6697, 10080];

/// For requests that name another machine.
const MISDIRECTED: &str = "that is no name of this machine, or a form of a page of another one: ask for its address, or set \
                           spark.firesteel.http.allowedHosts";

/// For requests that name nobody where lists of users count.
const UNIDENTIFIED: &str = "Only users in lists see this, and the request names nobody: send Authorization: Bearer and a token of the \
                            key spark.org.apache.spark.ui.JWSFilter.param.secretKey with the claim sub, to a server with \
                            spark.ui.filters=org.apache.spark.ui.JWSFilter.";
const NOT_OWN_USER: &str = "Only the user who runs the application kills from here, on its machine: see spark.acls.enable, or set \
                            spark.ui.killEnabled=true to let everybody who reaches this port.";
/// For requests for an application whose log is there.
const UNREAD: &str = "The log of the application cannot be read now: ask again later. What is wrong is in the log of the history server.";
/// Below this are style sheets and scripts, which tell nothing of applications: a refusal is a page that needs them.
const ASSETS: &str = "/static/";

pub type Served = Arc<dyn Applications + Send + Sync>;

/// How it is served.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The host name or address to listen on.
    pub host: String,
    /// The first port to try; 0 is any.
    pub port: u16,
    /// How many more ports are tried when it is taken.
    pub retries: u32,
    /// Names besides those of the machine by which it may be asked for.
    pub allowed_hosts: Vec<String>,
    /// What is not shown.
    pub secrets: Redaction,
    /// Who may see it.
    pub access: Access,
}

/// What every request is answered with.
struct Answers {
    served: Served,
    site: Arc<dyn Site>,
    names: HostNames,
    secrets: Redaction,
    access: Access,
    streams: Streams,
}

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    /// Serves `/api/v1` on the first free port, on a thread of its own.
    pub fn start(served: Served, options: ServerOptions) -> io::Result<Self> {
        Self::start_with(served, Arc::new(NoSite), options)
    }

    /// The same with pages besides.
    pub fn start_with(
        served: Served,
        site: Arc<dyn Site>,
        options: ServerOptions,
    ) -> io::Result<Self> {
        let ServerOptions { host, port, retries, allowed_hosts, secrets, access } = options;
        let listener = bind(&host, port, retries)?;
        let names = hosts::names(&host, allowed_hosts);
        let streams = Streams::default();
        let answers = Answers { served, site, names, secrets, access, streams };
        let answers = Arc::new(answers);
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("firesteel-rest".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    _ = serve(listener, answers) => {}
                }
            });
            // Who still reads an answer is not waited for.
            runtime.shutdown_background();
        })?;
        Ok(Server { address, stop: Some(stop), thread: Some(thread) })
    }

    /// The address in use, with the port that was free.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.take().map(|stop| stop.send(()));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The ports that are tried: after the first one none that browsers refuse.
fn ports(port: u16, retries: u32) -> impl Iterator<Item = u16> {
    let further = (port..=u16::MAX).skip(1).filter(|next| !REFUSED_BY_BROWSERS.contains(next));
    let retries = if port == 0 { 0 } else { retries as usize };
    std::iter::once(port).chain(further.take(retries))
}

fn bind(host: &str, port: u16, retries: u32) -> io::Result<std::net::TcpListener> {
    let mut ports = ports(port, retries).peekable();
    let mut next = ports.next().unwrap_or(port);
    if REFUSED_BY_BROWSERS.contains(&next) {
        tracing::warn!(port = next, "browsers open no page at this port: set another one");
    }
    loop {
        match std::net::TcpListener::bind((host, next)) {
            Ok(listener) => {
                listener.set_nonblocking(true)?;
                return Ok(listener);
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && ports.peek().is_some() => {
                next = ports.next().unwrap_or(next);
            }
            Err(error) => {
                let text = format!("cannot listen on {host}:{next}: {error}");
                return Err(io::Error::new(error.kind(), text));
            }
        }
    }
}

async fn serve(listener: std::net::TcpListener, answers: Arc<Answers>) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "the REST API cannot be served");
            return;
        }
    };
    let places = Places::new(CONNECTIONS, CONNECTIONS_PER_ADDRESS);
    let turned_away = Arc::new(Semaphore::new(TURNED_AWAY));
    loop {
        let Some(place) = places.any().await else { return };
        match listener.accept().await {
            Ok((stream, from)) => match places.give(place, from.ip()) {
                Some(place) => {
                    tokio::spawn(connection(stream, from.ip(), place, answers.clone()));
                }
                None => {
                    if let Ok(permit) = turned_away.clone().try_acquire_owned() {
                        tokio::spawn(tokio::time::timeout(HEAD_TIME, turn_away(stream, permit)));
                    }
                }
            },
            Err(error) => {
                // Out of file handles, or the client is gone again: neither is for ever.
                tracing::warn!(%error, "could not accept a connection over HTTP");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Tells an address so that has as many connections as it may have.
async fn turn_away(mut stream: TcpStream, _permit: OwnedSemaphorePermit) {
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
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
}

async fn connection(stream: TcpStream, from: IpAddr, place: Place, answers: Arc<Answers>) {
    let ends = stream.peer_addr().ok().zip(stream.local_addr().ok());
    let updates = Updates::new(place, from);
    let own = updates.clone();
    let service = service_fn(move |request| respond(request, ends, answers.clone(), own.clone()));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD)
        .keep_alive(false);
    let serving = http.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(serving);
    let served = async {
        let in_time = tokio::time::timeout(TIME, &mut serving).await;
        if let (Err(_), Some(more)) = (in_time, updates.extension()) {
            let _ = tokio::time::timeout(more, serving).await;
        }
    };
    tokio::select! {
        () = served => {}
        () = updates.stalled() => tracing::debug!("a reader of updates does not read: dropped"),
    }
}

/// Who makes a request: the user that it names, and the ends of its connection, unless a proxy asks for somebody else.
type By<'a> = (Option<&'a str>, Option<(SocketAddr, SocketAddr)>);

type Sent = Response<Either<Full<Bytes>, crate::site::Stream>>;

async fn respond(
    request: Request<Incoming>,
    ends: Option<(SocketAddr, SocketAddr)>,
    answers: Arc<Answers>,
    updates: Updates,
) -> Result<Sent, Infallible> {
    let (head, body) = request.into_parts();
    let is_api = is_api(&head);
    let is_form = head.method == Method::POST && !is_api;
    if !hosts::admit(&answers.names, &head.headers, is_form) {
        return Ok(plain(StatusCode::MISDIRECTED_REQUEST, MISDIRECTED));
    }
    let ends = ends.filter(|_| !hosts::is_forwarded(&head.headers));
    if head.method != Method::GET && head.method != Method::HEAD && !is_form {
        return Ok(plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered here"));
    }
    if is_form && !answers.access.takes_forms_of(ends) {
        return Ok(plain(StatusCode::FORBIDDEN, NOT_OWN_USER));
    }
    let form = match is_form {
        true => match Limited::new(body, FORM).collect().await {
            Ok(form) => Some(String::from_utf8_lossy(&form.to_bytes()).into_owned()),
            Err(_) => return Ok(plain(StatusCode::PAYLOAD_TOO_LARGE, "the form is too long")),
        },
        false => None,
    };
    let authorization = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let user = match answers.access.user(authorization) {
        Ok(user) => user,
        Err(words) => return Ok(plain(StatusCode::FORBIDDEN, words)),
    };
    // An answer may take a while: a log is read for it.
    let own = answers.clone();
    let made = tokio::task::spawn_blocking(move || {
        own.shown(&head, form.as_deref(), (user.as_deref(), ends))
    });
    Ok(match made.await {
        Ok(Shown { body: ShownBody::Updates(source), .. }) => {
            answers.streams.response(source, answers.served.clone(), &updates)
        }
        Ok(Shown { status, content_type, headers, body: ShownBody::Archive(archive) }) => {
            let mut response = answers.streams.download(archive, &updates);
            if response.status() == StatusCode::OK {
                dress(&mut response, status, content_type, headers);
            }
            response
        }
        Ok(shown) => response(shown),
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "the answer could not be made"),
    })
}

fn is_api(head: &Parts) -> bool {
    ["/api/", "/metrics/"].iter().any(|it| head.uri.path().starts_with(it))
}

impl Answers {
    /// What the maker of a request may see of what is asked for, or a refusal.
    fn shown(&self, head: &Parts, form: Option<&str>, (user, ends): By<'_>) -> Shown {
        let guard = Guard::by(&*self.served, &self.access, (user, ends), form.is_some());
        let asked = self.asked(head, form, &guard);
        let at_once = guard.at_once().filter(|_| !asked.path.starts_with(ASSETS));
        if let Some(verdict) = at_once {
            return self.refusal(head, &asked, user, verdict);
        }
        let shown = match is_api(head) {
            true => Shown::from(self.api(head, &guard)),
            false => self.site.show(&asked),
        };
        match guard.refused() {
            Some(verdict) => self.refusal(head, &asked, user, verdict),
            None if guard.is_unread() => self.refused(head, &asked, 503, UNREAD.to_owned()),
            None => shown,
        }
    }

    fn refusal(
        &self,
        head: &Parts,
        asked: &Asked<'_>,
        user: Option<&str>,
        verdict: Verdict,
    ) -> Shown {
        let user = user.unwrap_or_default();
        let (status, why) = match (verdict, is_api(head)) {
            (Verdict::Unidentified, _) => (401, UNIDENTIFIED.to_owned()),
            // The words are Spark's.
            (_, true) => (403, format!("user \"{user}\" is not authorized")),
            (_, false) if asked.form.is_some() => {
                (403, format!("User {user} is not authorized to kill jobs and stages."))
            }
            (_, false) => (403, format!("User {user} is not authorized to access this page.")),
        };
        let mut shown = self.refused(head, asked, status, why);
        if status == 401 {
            shown.headers.push(("www-authenticate", "Bearer".to_owned()));
        }
        shown
    }

    fn refused(&self, head: &Parts, asked: &Asked<'_>, status: u16, why: String) -> Shown {
        match is_api(head) {
            true => Shown::from(Answer::text(status, why)),
            false => self.site.refuse(asked, status, &why),
        }
    }

    fn api(&self, head: &Parts, served: &dyn Applications) -> Answer {
        let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
        let ask = Ask {
            path: head.uri.path(),
            query: head.uri.query().unwrap_or_default(),
            host: host.unwrap_or("localhost"),
            now: now(),
        };
        rest::answer(served, &self.secrets, &ask)
    }

    fn asked<'a>(
        &'a self,
        head: &'a Parts,
        form: Option<&'a str>,
        served: &'a dyn Applications,
    ) -> Asked<'a> {
        let header = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
        Asked {
            path: head.uri.path(),
            query: head.uri.query().unwrap_or_default(),
            form,
            known: header(IF_NONE_MATCH),
            base: header(HeaderName::from_static("x-forwarded-context")),
            now: now(),
            served,
            secrets: &self.secrets,
        }
    }
}

pub(crate) fn plain(status: StatusCode, text: &'static str) -> Sent {
    let mut response = Response::new(Either::Left(Full::from(text)));
    *response.status_mut() = status;
    response
}

fn response(shown: Shown) -> Sent {
    let body = match shown.body {
        ShownBody::Whole(bytes) => bytes,
        ShownBody::Updates(_) | ShownBody::Archive(_) => Vec::new(),
    };
    let mut response = Response::new(Either::Left(Full::from(body)));
    dress(&mut response, shown.status, shown.content_type, shown.headers);
    response
}

fn dress(
    response: &mut Sent,
    status: u16,
    content_type: &'static str,
    more: Vec<(&'static str, String)>,
) {
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for (name, value) in more {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}

/// This moment, as events have it.
pub(crate) fn now() -> Tick {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Tick(since.map_or(0, |since| since.as_millis() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_that_browsers_refuse_is_taken_unless_it_is_asked_for() {
        let of = |port, retries| ports(port, retries).collect::<Vec<_>>();
        assert_eq!(of(4043, 3), [4043, 4044, 4046, 4047]);
        assert_eq!(of(4045, 1), [4045, 4046]);
        assert_eq!(of(0, 16), [0]);
        assert_eq!(of(65_534, 3), [65_534, 65_535]);
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let refused = bind("127.0.0.1", port, 0).unwrap_err().to_string();
        assert!(refused.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{refused}");
        let next = bind("127.0.0.1", port, 16).unwrap().local_addr().unwrap().port();
        assert!((port + 1..=port + 17).contains(&next), "{next}");
    }
}
