//! The pages of a master or a worker over HTTP: a port, and answers to `GET`.
//!
//! Whoever asks gets one answer per connection, within a time, from so many connections at once: a slow
//! or silent reader costs a place for a while and nothing more. What is on a page is not its business.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use firesteel_rpc::RpcAddress;
use http_body_util::Full;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::StartError;

/// How many connections are served at once.
const CONNECTIONS: usize = 64;
/// How long a connection may take from its first to its last byte.
const TIME: Duration = Duration::from_secs(20);
/// The largest head of a request.
const HEAD: usize = 16 << 10;

/// One answer.
pub(crate) struct Page {
    pub(crate) content_type: &'static str,
    pub(crate) text: String,
}

impl Page {
    pub(crate) fn json(text: String) -> Self {
        Self { content_type: "text/json;charset=utf-8", text }
    }

    pub(crate) fn html(text: String) -> Self {
        Self { content_type: "text/html;charset=utf-8", text }
    }
}

/// Finds the page of a path.
pub(crate) type Pages = Arc<dyn Fn(&str) -> Option<Page> + Send + Sync>;

/// A port for pages.
pub(crate) struct Web {
    listener: TcpListener,
    pub(crate) address: RpcAddress,
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
                return Ok(Web { listener, address: RpcAddress::new(advertised, bound) });
            }
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse && port != 0 && tries < retries =>
            {
                tries += 1;
            }
            Err(source) => {
                return Err(StartError::BindWeb {
                    first: RpcAddress::new(host, port),
                    tries,
                    source,
                });
            }
        }
    }
}

/// Answers until `stop`.
pub(crate) async fn serve(web: Web, pages: Pages, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let accepting = async {
        loop {
            let place = places.clone().acquire_owned().await.expect("never closed");
            match web.listener.accept().await {
                Ok((stream, _)) => {
                    let task = answer(stream, place, pages.clone());
                    tokio::spawn(stop.clone().run_until_cancelled_owned(task));
                }
                Err(error) => {
                    // Out of file handles, or the reader is gone again: neither is for ever.
                    tracing::warn!(%error, "could not accept a connection to the page");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    };
    stop.run_until_cancelled(accepting).await;
}

async fn answer(stream: TcpStream, _place: OwnedSemaphorePermit, pages: Pages) {
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let response = respond(request.method(), request.uri().path(), &pages);
        async { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(TIME)
        .max_buf_size(HEAD)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    if let Ok(Err(error)) = timeout(TIME, connection).await {
        tracing::debug!(%error, "a request was not answered");
    }
}

fn respond(method: &Method, path: &str, pages: &Pages) -> Response<Full<Bytes>> {
    if method != Method::GET && method != Method::HEAD {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered here\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    let Some(page) = pages(path) else {
        return plain(StatusCode::NOT_FOUND, "there is no such page: try / or /json/\n");
    };
    let mut response = plain(StatusCode::OK, page.text);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(page.content_type));
    response
}

fn plain(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain;charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-store, must-revalidate"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
