//! One request over HTTP, over a connection of its own: to a gateway, or to any server for what it shows.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use firesteel_rpc::RpcAddress;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Answer, Call};

/// How long a request may take.
const TIME: Duration = Duration::from_secs(20);
/// The longest answer that is read.
const ANSWER: usize = 1 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// No connection could be made: the request was not sent.
    #[error("{0}")]
    Connect(#[source] io::Error),
    /// Who listens does not speak HTTP, or broke off.
    #[error("{0}")]
    Speak(#[from] hyper::Error),
    #[error("the request cannot be written: {0}")]
    Request(#[from] hyper::http::Error),
    #[error("the answer did not come whole: {0}")]
    Answer(String),
    #[error("no answer within {} s", TIME.as_secs())]
    Late,
}

pub(super) async fn call(
    address: &RpcAddress,
    token: Option<&str>,
    call: Call,
) -> Result<Answer, HttpError> {
    let asked = timeout(TIME, exchange(address, token, call, ANSWER)).await;
    let (status, body) = asked.unwrap_or(Err(HttpError::Late))?;
    Ok(Answer { status, body: String::from_utf8_lossy(&body).into_owned() })
}

/// Status and body of what a server shows at a path, if that is no longer than `most`.
pub async fn get(
    address: &RpcAddress,
    path: &str,
    token: Option<&str>,
    most: usize,
) -> Result<(u16, Bytes), HttpError> {
    let call = Call { method: "GET".to_owned(), path: path.to_owned(), body: Vec::new() };
    timeout(TIME, exchange(address, token, call, most)).await.unwrap_or(Err(HttpError::Late))
}

async fn exchange(
    address: &RpcAddress,
    token: Option<&str>,
    call: Call,
    most: usize,
) -> Result<(u16, Bytes), HttpError> {
    let target = (address.host.as_str(), address.port);
    let stream = TcpStream::connect(target).await.map_err(HttpError::Connect)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let mut request = Request::builder()
        .method(call.method.as_str())
        .uri(&call.path)
        .header(HOST, address.to_string())
        .header(CONNECTION, "close")
        .header(CONTENT_TYPE, "application/json");
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(Full::new(Bytes::from(call.body)))?;
    let answered = async {
        let (head, body) = sender.send_request(request).await?.into_parts();
        let body = Limited::new(body, most).collect().await;
        let body = body.map_err(|error| HttpError::Answer(error.to_string()))?.to_bytes();
        Ok::<_, HttpError>((head.status.as_u16(), body))
    };
    tokio::pin!(answered);
    tokio::select! {
        answer = &mut answered => answer,
        // The connection may end before the answer is read to its end.
        ended = connection => match ended {
            Ok(()) => answered.await,
            Err(error) => Err(error.into()),
        },
    }
}

/// What an answer without words says.
pub(super) fn meaning(status: u16) -> String {
    StatusCode::from_u16(status).map_or_else(|_| status.to_string(), |status| status.to_string())
}
