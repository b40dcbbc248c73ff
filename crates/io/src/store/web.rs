//! One whole file of a web server: a plain GET of the URL as it was written, query and all.
//!
//! Sources read web servers through the object stores' client, which wants to know lengths and asks for ranges. A download needs
//! neither: redirects are followed (ten at most, and never from https to http), and any answer but success is an error that says
//! what the server said.

use std::io::{self, Read};
use std::time::Duration;

use futures_util::StreamExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponseBody, ReqwestConnector,
};
use object_store::http::HttpBuilder;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{park_until, spawn, wait};
use crate::fault::Fault;

/// A download takes no longer, however much comes of it.
const LONGEST: Duration = Duration::from_secs(2 * 60 * 60);
/// Pieces that wait for the reader.
const PIECES_PREFETCHED: usize = 32;

type Piece = io::Result<bytes::Bytes>;

/// The bytes that a web server sends.
pub(crate) struct Download {
    pieces: mpsc::Receiver<Piece>,
    piece: bytes::Bytes,
}

impl Download {
    /// Asks for what is at `url`. The server may be silent for as long as `silence` says.
    pub(crate) fn open(url: &str, silence: Duration) -> io::Result<Self> {
        let (client, request) = (client(url, silence)?, request(url)?);
        let answer = wait(async move { timeout(silence, client.execute(request)).await })?;
        let answer = answer.map_err(|_| silent(silence))?.map_err(failed)?;
        let status = answer.status();
        if !status.is_success() {
            return Err(refused(status.as_u16(), status.canonical_reason().unwrap_or("unknown")));
        }
        let (send, pieces) = mpsc::channel(PIECES_PREFETCHED);
        spawn(receive(answer.into_body(), silence, send))?;
        Ok(Download { pieces, piece: bytes::Bytes::new() })
    }
}

/// Ends with the file, at its first failure, or when nobody listens any more.
async fn receive(body: HttpResponseBody, silence: Duration, send: mpsc::Sender<Piece>) {
    let mut stream = body.bytes_stream();
    loop {
        let piece = match timeout(silence, stream.next()).await {
            Ok(None) => return,
            Ok(Some(piece)) => piece.map_err(failed),
            Err(_) => Err(silent(silence)),
        };
        let is_last = piece.is_err();
        if send.send(piece).await.is_err() || is_last {
            return;
        }
    }
}

impl Read for Download {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match park_until(self.pieces.recv()) {
                None => return Ok(0),
                Some(piece) => self.piece = piece?,
            }
        }
        let read = buffer.len().min(self.piece.len());
        buffer[..read].copy_from_slice(&self.piece.split_to(read));
        Ok(read)
    }
}

fn client(url: &str, silence: Duration) -> io::Result<HttpClient> {
    let is_plain = url.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("http:"));
    let options = ClientOptions::new()
        .with_allow_http(is_plain)
        .with_connect_timeout(silence)
        .with_timeout(LONGEST);
    ReqwestConnector::default().connect(&options).map_err(io::Error::other)
}

fn request(url: &str) -> io::Result<HttpRequest> {
    // What follows `#` is for the reader of a page, and not sent.
    let url = url.split('#').next().unwrap_or_default();
    let mut request = HttpRequest::new(HttpRequestBody::empty());
    let unusable = || Fault::refused("it is not a URL that can be asked for: write https://host/x");
    let Ok(uri) = url.parse() else { return Err(unusable()) };
    *request.uri_mut() = uri;
    // The client takes any request for one that can be sent, and panics where host or port are wrong. Stores look first.
    if HttpBuilder::new().with_url(request.uri().to_string()).build().is_err() {
        return Err(unusable());
    }
    let authority = request.uri().authority().map_or("", |authority| authority.as_str());
    if authority.is_empty() {
        return Err(Fault::refused("it names no server: write https://host/file"));
    }
    if authority.contains('@') {
        return Err(Fault::refused(
            "a user and a password in a URL are shown to everybody: use a URL that needs none, such as a presigned one",
        ));
    }
    Ok(request)
}

fn refused(status: u16, meaning: &str) -> io::Error {
    let message = format!("the server answers {status} ({meaning})");
    match status {
        404 | 410 => io::Error::new(io::ErrorKind::NotFound, message),
        401 | 403 => Fault::refused(format!("{message}: use a URL that needs no credentials")),
        // It may have time for us later.
        408 | 425 | 429 => io::Error::other(message),
        400..500 => Fault::refused(message),
        _ => io::Error::other(message),
    }
}

fn silent(silence: Duration) -> io::Error {
    let message = format!(
        "the server sent nothing for {} seconds (spark.files.fetchTimeout)",
        silence.as_secs_f64()
    );
    io::Error::new(io::ErrorKind::TimedOut, message)
}

fn failed(error: HttpError) -> io::Error {
    let cause = innermost(&error);
    match error.kind() {
        HttpErrorKind::Connect => {
            io::Error::other(format!("the server cannot be reached: {cause}"))
        }
        HttpErrorKind::Timeout => {
            let message = format!("the download took too long: {cause}");
            io::Error::new(io::ErrorKind::TimedOut, message)
        }
        _ => io::Error::other(format!("the download broke: {cause}")),
    }
}

/// Those around it only say that something failed.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_of_a_file_is_settled_and_what_it_says_of_itself_may_pass() {
        for (status, passes) in [
            (400, false),
            (401, false),
            (403, false),
            (404, false),
            (410, false),
            (408, true),
            (429, true),
            (500, true),
            (502, true),
            (503, true),
        ] {
            let error = refused(status, "so");
            assert_eq!(crate::may_pass(&error), passes, "{error}");
            assert!(error.to_string().contains(&format!("answers {status} (so)")), "{error}");
        }
        assert!(crate::may_pass(&silent(Duration::from_secs(1))));
    }

    #[test]
    fn what_cannot_be_asked_for_is_refused_before_anything_is_sent() {
        for (url, needle) in [
            ("http://a b/c", "not a URL"),
            ("http://host:99999/c", "not a URL"),
            ("http://1.2.3.999/c", "not a URL"),
            ("https://user:word@host/file", "a user and a password"),
        ] {
            let error = request(url).unwrap_err().to_string();
            assert!(error.contains(needle), "{url}: {error}");
            assert!(!error.contains("word@"), "{error}");
        }
        let whole = request("https://host/a?b=c#d").unwrap();
        assert_eq!(whole.uri().to_string(), "https://host/a?b=c");
    }
}
