//! `/proxy/APP-ID/` and `/proxy/WORKER-ID/`: pages of applications and workers for those who reach only the master
//! (`spark.ui.reverseProxy`).
//!
//! A request goes to the address that the application or worker registered, and to no other: a client names ids. That address is of the
//! machine from which it is connected, or the one at which the others of the cluster reach it; never of the master's own machine, unless
//! it is there itself. What is behind
//! shows pages below the path that `X-Forwarded-Context` tells it, and a redirect to anywhere else is refused. Cookies stay here, and
//! what proves who asks goes to workers only: everybody can run an application. For its own user, who proves nothing on this machine,
//! the master proves it to workers.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use firesteel_conf::{Conf, ConfError, entries};
use firesteel_jws::Right;
use firesteel_rpc::{PeerLimits, RpcAddress};
use firesteel_standalone_core::master::{MasterView, WorkerStatus};
use http_body_util::{BodyExt, Collected, Either, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{
    ALLOW, AUTHORIZATION, CONTENT_LENGTH, COOKIE, EXPECT, HeaderMap, HeaderValue, LOCATION, ORIGIN,
    REFERER, RETRY_AFTER,
};
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode, Uri};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::shell::Shell;
use crate::access::{Access, Asker};
use crate::forward::{ForwardError, Pass, Passage, forward, strip_hop_by_hop};
use crate::web::{Ends, Front, FrontResponse, HttpResponse, decoded, encoded, plain, root};
use crate::{StartError, TokenKey};

/// How many answers pass at once. An open page of a running application takes one.
const PASSES: usize = 128;
/// How many of them one address may have: another proxy in front is one address.
const PASSES_PER_ADDRESS: usize = 96;
/// The longest body of a request that is taken along: forms.
const BODY: usize = 64 << 10;

/// How long it may take to learn the addresses of a name.
const LOOK_UP_TIME: Duration = Duration::from_secs(5);

const CONTEXT: &str = "x-forwarded-context";

/// What an answer cannot say for the whole of the master's pages, as it would.
const OF_THE_ORIGIN: [&str; 5] = [
    "set-cookie",
    "clear-site-data",
    "service-worker-allowed",
    "strict-transport-security",
    "alt-svc",
];

pub(super) struct Proxy {
    shell: Arc<Shell>,
    /// Where another proxy in front shows the master, if it does not say so itself.
    base: String,
    /// Of tokens for those who read output at workers.
    logs: Option<TokenKey>,
    /// Where others are told that the master's pages are.
    address: Option<RpcAddress>,
    access: Access,
    passes: Arc<Semaphore>,
    peers: Arc<PeerLimits>,
}

/// Why a request is not taken anywhere.
type Refused = (StatusCode, String);

/// The path of the setting `spark.ui.reverseProxyUrl`.
pub(super) fn base(conf: &Conf) -> Result<String, ConfError> {
    let url = conf.get(&entries::UI_REVERSE_PROXY_URL)?;
    Ok(url.map_or_else(String::new, |url| url.path().to_owned()))
}

/// Where the pages of an application or a worker are, below the master's own.
pub(super) fn path(root: &str, id: &str) -> String {
    format!("{root}/proxy/{}", encoded(id.as_bytes(), ""))
}

/// What a path below `/proxy/` asks for.
#[derive(Debug, PartialEq, Eq)]
struct Wanted<'a> {
    id: String,
    /// The path behind the id; empty if not even a slash is there.
    rest: &'a str,
}

impl<'a> Wanted<'a> {
    fn of(path: &'a str) -> Result<Self, Refused> {
        let named = path.strip_prefix("/proxy/").unwrap_or_default();
        let (id, rest) = named.split_at(named.find('/').unwrap_or(named.len()));
        if id.is_empty() {
            let why = "the path names no application or worker: /proxy/ID/\n";
            return Err((StatusCode::NOT_FOUND, why.to_owned()));
        }
        let is_step = |part: &str| matches!(&*decoded(part), "." | "..");
        match rest.split('/').any(is_step) {
            true => Err((StatusCode::BAD_REQUEST, "the path has steps (..) in it\n".to_owned())),
            false => Ok(Wanted { id: decoded(id), rest }),
        }
    }
}

/// A server behind the proxy.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    address: RpcAddress,
    /// Part of the cluster: trusted with what proves who asks.
    is_worker: bool,
    /// Whether it has named the same host to others of the cluster.
    is_announced: bool,
}

/// Addresses at which no pages are: of the link, such as where clouds tell credentials of machines, or of nobody in particular.
fn is_nowhere(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            v4.is_link_local() || v4.is_unspecified() || v4.is_multicast() || v4.is_broadcast()
        }
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.is_unspecified() || v6.is_multicast(),
    }
}

/// Whether an address is of this machine: others cannot be bound to.
fn is_here(address: IpAddr) -> bool {
    address.is_loopback() || std::net::UdpSocket::bind((address, 0)).is_ok()
}

/// Whether the pages of what is connected from an address may be at this one.
fn may_be_at(
    address: IpAddr,
    from: Option<IpAddr>,
    is_announced: bool,
    is_here: impl Fn(IpAddr) -> bool,
) -> bool {
    let (address, from) = (address.to_canonical(), from.map(|from| from.to_canonical()));
    match () {
        () if is_nowhere(address) => false,
        () if from == Some(address) => true,
        () if is_here(address) => from.is_some_and(is_here),
        () => is_announced,
    }
}

/// `http://host:port` of a page.
fn address_of(web_ui: &str) -> Option<RpcAddress> {
    let authority = web_ui.strip_prefix("http://")?;
    let address: RpcAddress = authority.strip_suffix('/').unwrap_or(authority).parse().ok()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    let is_told = !address.host.is_empty() && address.port != 0;
    Some(address).filter(|it| is_told && it.host.bytes().all(is_plain))
}

fn target(view: &MasterView, id: &str) -> Result<Target, Refused> {
    let worker = view.workers.iter().find(|it| *it.worker.id.0 == *id);
    let app = view.active_apps.iter().find(|it| *it.app.0 == *id);
    let (web_ui, is_worker, announced) = match (worker, app) {
        (Some(worker), _) if worker.status != WorkerStatus::Dead => {
            (&worker.worker.web_ui, true, Some(&worker.worker.address.host))
        }
        (None, Some(app)) => {
            let served = app.description.command.served.as_ref();
            (&app.description.web_ui, false, served.map(|served| &served.address.host))
        }
        _ => {
            let is_over = worker.is_some() || view.completed_apps.iter().any(|it| *it.app.0 == *id);
            let why = match is_over {
                true => format!("{id} is over: its pages are gone with it\n"),
                false => format!("the master knows no application or worker {id}\n"),
            };
            return Err((StatusCode::NOT_FOUND, why));
        }
    };
    let address = address_of(web_ui).ok_or_else(|| {
        let why = format!(
            "{id} has told the master of no pages: set spark.ui.reverseProxy=true in its settings\n"
        );
        (StatusCode::NOT_FOUND, why)
    })?;
    let is_announced = announced.is_some_and(|host| *host.0 == *address.host);
    Ok(Target { address, is_worker, is_announced })
}

/// The head of the request to what is behind; `base` is where its pages are shown.
fn head_for(head: &Parts, target: &Target, base: &str, from: IpAddr) -> HeaderMap {
    let mut headers = head.headers.clone();
    strip_hop_by_hop(&mut headers);
    for name in [CONTENT_LENGTH, COOKIE, EXPECT, REFERER] {
        headers.remove(name);
    }
    if !target.is_worker {
        headers.remove(AUTHORIZATION);
    }
    let mut put = |name: &'static str, value: String| {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    };
    put("host", target.address.to_string());
    put(CONTEXT, base.to_owned());
    let text = |name| head.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    if let Some(host) = text("host") {
        put("x-forwarded-host", host.to_owned());
    }
    let from = from.to_canonical();
    put(
        "x-forwarded-for",
        match text("x-forwarded-for") {
            Some(before) => format!("{before}, {from}"),
            None => from.to_string(),
        },
    );
    // The master has looked at the page that asks. What is behind knows only its own name.
    if head.headers.contains_key(ORIGIN) {
        put("origin", format!("http://{}", target.address));
    }
    headers
}

/// Where a redirect leads below `base`; `None`: to another server.
fn inside(location: &str, target: &Target, base: &str) -> Option<String> {
    let own = format!("http://{}", target.address);
    let path = match location.strip_prefix(&own) {
        Some("") => "/",
        Some(path) => path,
        None => location,
    };
    let is_path = path.starts_with('/') && !path.starts_with("//") && !path.contains('\\');
    let is_below =
        path.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']));
    is_path.then(|| if is_below { path.to_owned() } else { format!("{base}{path}") })
}

impl Proxy {
    /// If the settings ask for one.
    pub(super) fn from_conf(
        conf: &Conf,
        shell: &Arc<Shell>,
        logs: Option<TokenKey>,
        address: Option<RpcAddress>,
    ) -> Result<Option<Arc<dyn Front>>, StartError> {
        if !conf.get(&entries::UI_REVERSE_PROXY)? {
            return Ok(None);
        }
        let (passes, peers) =
            (Arc::new(Semaphore::new(PASSES)), PeerLimits::new(PASSES_PER_ADDRESS));
        let (shell, base, access) = (shell.clone(), base(conf)?, Access::from_conf(conf)?);
        Ok(Some(Arc::new(Proxy { shell, base, logs, address, access, passes, peers })))
    }

    /// Where a target is, if a request may go there.
    async fn locate(&self, id: &str, target: &Target) -> Result<Vec<SocketAddr>, Refused> {
        let (host, port) = (target.address.host.as_str(), target.address.port);
        let looked = timeout(LOOK_UP_TIME, tokio::net::lookup_host((host, port))).await;
        let found = looked.map_err(|_| unanswered(id, &ForwardError::Late))?;
        let found = found.map_err(|error| unanswered(id, &ForwardError::Connect(error)))?;
        let from = self.shell.connected_from(id);
        let may_be = |it: &SocketAddr| may_be_at(it.ip(), from, target.is_announced, is_here);
        let places: Vec<SocketAddr> = found.filter(may_be).collect();
        if places.is_empty() {
            let why = format!(
                "the pages of {id} are said to be at {host}, which is not where it is connected from: the master does not ask there\n"
            );
            return Err((StatusCode::FORBIDDEN, why));
        }
        Ok(places)
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        ends: Ends,
        passage: Arc<Passage>,
    ) -> Result<FrontResponse, Refused> {
        let (mut head, body) = request.into_parts();
        let from = ends.peer.ip();
        if ![Method::GET, Method::HEAD, Method::POST].contains(&head.method) {
            let why = "only GET, HEAD and POST are taken along\n";
            return Err((StatusCode::METHOD_NOT_ALLOWED, why.to_owned()));
        }
        let wanted = Wanted::of(head.uri.path())?;
        let target = target(&self.shell.view().0, &wanted.id)?;
        if let Some(token) = self.token_for(&head, &target, ends).await {
            head.headers.insert(AUTHORIZATION, token);
        }
        let context = head.headers.get(CONTEXT).map(|value| value.to_str().ok());
        let front = context.map_or_else(|| self.base.clone(), root);
        let base = path(&front, &wanted.id);
        let query = head.uri.query().map_or_else(String::new, |query| format!("?{query}"));
        if wanted.rest.is_empty() {
            return Ok(redirect(&format!("{base}/{query}")).map(Either::Left));
        }
        let body = Limited::new(body, BODY).collect().await.map(Collected::to_bytes);
        let body = body.map_err(|_| {
            (StatusCode::PAYLOAD_TOO_LARGE, format!("what comes with it is over {BODY} bytes\n"))
        })?;
        let request = request_for(&head, &target, (&base, from), wanted.rest, &query, body)?;
        let pass = self.pass_for(from)?;
        let places = self.locate(&wanted.id, &target).await?;
        passage.begin();
        let answer = forward(&places, request, passage, pass).await;
        let mut answer = answer.map_err(|error| unanswered(&wanted.id, &error))?;
        for name in OF_THE_ORIGIN {
            answer.headers_mut().remove(name);
        }
        if answer.status().is_informational() {
            return Err((StatusCode::BAD_GATEWAY, elsewhere(&wanted.id)));
        }
        if let Some(location) = answer.headers().get(LOCATION) {
            let inside = location.to_str().ok().and_then(|it| inside(it, &target, &base));
            let inside = inside.and_then(|it| HeaderValue::try_from(it).ok());
            let inside = inside.ok_or_else(|| (StatusCode::BAD_GATEWAY, elsewhere(&wanted.id)))?;
            answer.headers_mut().insert(LOCATION, inside);
        }
        Ok(answer.map(Either::Right))
    }

    /// For a reader who has proven to the master what the worker wants proven, and for the master's own user, who has proven nothing.
    async fn token_for(&self, head: &Parts, target: &Target, ends: Ends) -> Option<HeaderValue> {
        let key = self.logs.as_ref().filter(|_| target.is_worker)?;
        let may_read = match head.headers.get(AUTHORIZATION) {
            Some(proof) => {
                let own = self.address.as_ref();
                key.check_at(own, Some(ends.own), proof.to_str().ok()).is_ok()
            }
            None => ends.of_asker(&head.headers)?.is_own_user().await,
        };
        // Only the worker at that address takes it.
        let token = format!("Bearer {}", key.at(&target.address).sign());
        may_read.then(|| HeaderValue::try_from(token).ok())?
    }

    fn pass_for(&self, from: IpAddr) -> Result<Pass, Refused> {
        let too_many = || {
            let why = "too many pages are open behind the master: close one, or ask again later\n";
            (StatusCode::SERVICE_UNAVAILABLE, why.to_owned())
        };
        let peer = self.peers.try_take(from).ok_or_else(too_many)?;
        let pass = self.passes.clone().try_acquire_owned().map_err(|_| too_many())?;
        Ok((pass, peer))
    }
}

fn request_for(
    head: &Parts,
    target: &Target,
    (base, from): (&str, IpAddr),
    rest: &str,
    query: &str,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, Refused> {
    let uri = Uri::try_from(format!("{rest}{query}"));
    let uri =
        uri.map_err(|error| (StatusCode::BAD_REQUEST, format!("the path is none: {error}\n")))?;
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = uri;
    *request.headers_mut() = head_for(head, target, base, from);
    Ok(request)
}

fn elsewhere(id: &str) -> String {
    format!("{id} leads to another server, where the master does not follow\n")
}

fn unanswered(id: &str, error: &ForwardError) -> Refused {
    let status = match error {
        ForwardError::Late => StatusCode::GATEWAY_TIMEOUT,
        ForwardError::Connect(_) | ForwardError::Speak(_) => StatusCode::BAD_GATEWAY,
    };
    tracing::debug!(id, %error, "a page behind the master was not answered");
    (status, format!("the page of {id} is not there: {error}\n"))
}

fn redirect(to: &str) -> HttpResponse {
    let mut response = plain(StatusCode::FOUND, "");
    if let Ok(to) = HeaderValue::try_from(to) {
        response.headers_mut().insert(LOCATION, to);
    }
    response
}

fn refusal((status, why): Refused) -> HttpResponse {
    let mut response = plain(status, why);
    let header = match status {
        StatusCode::METHOD_NOT_ALLOWED => Some((ALLOW, "GET, HEAD, POST")),
        StatusCode::SERVICE_UNAVAILABLE => Some((RETRY_AFTER, "30")),
        _ => None,
    };
    if let Some((name, value)) = header {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

impl Front for Proxy {
    fn takes(&self, path: &str) -> bool {
        path == "/proxy" || path.starts_with("/proxy/")
    }

    fn pass(
        self: Arc<Self>,
        request: Request<Incoming>,
        ends: Ends,
        passage: Arc<Passage>,
    ) -> Pin<Box<dyn Future<Output = FrontResponse> + Send>> {
        Box::pin(async move {
            let headers = request.headers();
            let authorization = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
            let asker = Asker { authorization, ends: ends.of_asker(headers) };
            if let Err(why) = self.access.check(asker, Right::View).await {
                return why.answer().map(Either::Left);
            }
            let answered = self.answer(request, ends, passage).await;
            answered.unwrap_or_else(|refused| refusal(refused).map(Either::Left))
        })
    }
}

#[cfg(test)]
mod tests;
