//! How long an API server wants to be left alone is in a header, which kube's errors do not have: this layer of its client writes it
//! into the body, where they look. Waits for nothing: that is the allocator's decision.

use futures_util::future::BoxFuture;
use http_body_util::{BodyExt, Full};
use hyper::Response;
use hyper::body::Frame;
use hyper::header::RETRY_AFTER;
use kube::client::DynBody;
use serde_json::{Value, json};
use tower::BoxError;

type Answer = Response<Box<DynBody>>;

/// A refusal is a sentence or two; what is longer is none.
const LONGEST_BYTES: usize = 1 << 20;

/// The same answer. One with `Retry-After` says so in its body as well.
pub(crate) fn heed(answer: Answer) -> BoxFuture<'static, Result<Answer, BoxError>> {
    Box::pin(heeded(answer))
}

async fn heeded(answer: Answer) -> Result<Answer, BoxError> {
    let code = answer.status();
    let refuses = code.is_client_error() || code.is_server_error();
    let Some(seconds) = seconds(&answer).filter(|_| refuses) else { return Ok(answer) };
    let (head, mut body) = answer.into_parts();
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        match frame.map(Frame::into_data) {
            Ok(Ok(data)) if bytes.len() + data.len() <= LONGEST_BYTES => bytes.extend(data),
            Ok(Ok(_)) => return Err("a refusal does not end".into()),
            Ok(Err(_trailers)) => {}
            Err(error) => return Err(error),
        }
    }
    let status = with_seconds(&bytes, code.as_u16(), seconds);
    let body = Full::from(status.to_string().into_bytes()).map_err(BoxError::from);
    Ok(Response::from_parts(head, Box::new(body)))
}

/// API servers write seconds. A date is not understood: there is a pause of its own then.
fn seconds(answer: &Answer) -> Option<u32> {
    let text = answer.headers().get(RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().filter(|seconds| *seconds > 0)
}

/// The status of a body, or one with its words: API servers that are too busy, and proxies, write plain text.
fn with_seconds(body: &[u8], code: u16, seconds: u32) -> Value {
    let status: Option<Value> = serde_json::from_slice(body).ok();
    let mut status = status.filter(|status| status["kind"] == "Status").unwrap_or_else(|| {
        let message = String::from_utf8_lossy(body).trim().to_owned();
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code})
    });
    if !status["details"].is_object() {
        status["details"] = json!({});
    }
    let details = &mut status["details"]["retryAfterSeconds"];
    if details.as_u64().is_none_or(|known| known == 0) {
        *details = seconds.into();
    }
    status
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use firesteel_kubernetes_core::api::ApiError;
    use k8s_openapi::api::core::v1::Pod;
    use kube::{Api, Config};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use crate::answer::within;
    use crate::connect::client_of;

    /// What a request to a server that answers so fails with.
    async fn refused(code: u16, headers: &str, body: &str) -> ApiError {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let length = body.len();
        let answer =
            format!("HTTP/1.1 {code} X\r\n{headers}content-length: {length}\r\n\r\n{body}");
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                stream.read_buf(&mut asked).await.unwrap();
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
        let mut config = Config::new(url.parse().unwrap());
        config.default_retry = false;
        let pods: Api<Pod> = Api::namespaced(client_of(config).unwrap(), "jobs");
        within(Duration::from_secs(5), pods.get("pi-exec-1")).await.unwrap_err()
    }

    fn throttled(seconds: Option<u64>, message: &str) -> ApiError {
        let retry_after_ms = seconds.map(|seconds| seconds * 1000);
        ApiError::Throttled { retry_after_ms, message: message.to_owned() }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn an_api_server_that_is_too_busy_says_in_a_header_for_how_long() {
        let words = "Too many requests, please try again later.";
        let text = format!("{words}\n");
        assert_eq!(refused(429, "Retry-After: 3\r\n", &text).await, throttled(Some(3), words));
        assert_eq!(refused(503, "retry-after: 7\r\n", "").await, throttled(Some(7), ""));
        assert_eq!(refused(429, "", words).await, throttled(None, words));
        let date = "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\n";
        assert_eq!(refused(429, date, words).await, throttled(None, words));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_status_stays_what_it_is_and_knows_best() {
        let status =
            |details: &str| format!(r#"{{"kind":"Status","code":429,"message":"later"{details}}}"#);
        let header = "Retry-After: 3\r\n";
        let own = status(r#","details":{"retryAfterSeconds":9}"#);
        assert_eq!(refused(429, header, &own).await, throttled(Some(9), "later"));
        for details in ["", r#","details":{"name":"x"}"#, r#","details":"x""#] {
            assert_eq!(refused(429, header, &status(details)).await, throttled(Some(3), "later"));
        }
        let gone = r#"{"kind":"Status","code":404,"message":"pods \"pi-exec-1\" not found"}"#;
        assert_eq!(refused(404, "", gone).await, ApiError::NotFound);
    }
}
