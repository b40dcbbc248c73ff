//! An API server that lies: between a driver and the real one something loses, delays and refuses what a test says. It counts what
//! it does, so that a test can show that it was lied to.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::TryStreamExt;
use kube::Client;
use kube::api::{GetParams, WatchEvent};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::cluster::{HOST, Turn};

/// How long an answer that is lost is not given: longer than drivers of these tests wait.
const SILENCE: Duration = Duration::from_secs(30);

/// What it does wrong now.
#[derive(Default)]
pub(crate) struct Lies {
    /// It refuses every request and asks for so many seconds of peace.
    pub(crate) throttles_s: Option<u32>,
    /// Watches leave out every change.
    pub(crate) blind: bool,
    /// Lists are what the first one was.
    pub(crate) stale: bool,
    /// Answers to so many more requests for pods are lost.
    pub(crate) loses: u32,
    first_list: Option<String>,
    fired: u32,
    lost: u32,
    creations: u32,
}

/// The lies of one test, and where to hear them.
pub(crate) struct Proxy {
    pub(crate) url: String,
    lies: Arc<Mutex<Lies>>,
}

impl Proxy {
    /// For the drivers of a test, as long as the tests run.
    pub(crate) fn new(turn: &Turn) -> Self {
        let lies: Arc<Mutex<Lies>> = Arc::default();
        let listener = turn.cluster.block_on(TcpListener::bind((HOST, 0))).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (client, heard) = (turn.cluster.client(), lies.clone());
        turn.cluster.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, client.clone(), heard.clone()));
            }
        });
        Proxy { url, lies }
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Lies)) {
        change(&mut self.lies.lock().unwrap());
    }

    /// How often it was asked to create something.
    pub(crate) fn creations(&self) -> u32 {
        self.lies.lock().unwrap().creations
    }

    /// How many answers it lost.
    pub(crate) fn lost(&self) -> u32 {
        self.lies.lock().unwrap().lost
    }

    /// How often it lied in another way.
    pub(crate) fn fired(&self) -> u32 {
        self.lies.lock().unwrap().fired
    }
}

struct Asked {
    method: String,
    path: String,
    content_type: String,
    body: Vec<u8>,
}

async fn serve(mut stream: TcpStream, client: Client, lies: Arc<Mutex<Lies>>) -> Option<()> {
    let mut bytes = Vec::new();
    loop {
        let asked = read(&mut stream, &mut bytes).await?;
        if asked.path.contains("watch=true") {
            return watch(stream, &client, &lies, asked).await;
        }
        let throttles = lies.lock().unwrap().throttles_s;
        let (headers, (code, body)) = match throttles {
            Some(seconds) => {
                lies.lock().unwrap().fired += 1;
                throttled(seconds)
            }
            None => {
                let answer = answer(&client, &lies, asked).await?;
                ("content-type: application/json".to_owned(), answer)
            }
        };
        let length = body.len();
        let head = format!("HTTP/1.1 {code} X\r\n{headers}\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all(format!("{head}{body}").as_bytes()).await.ok()?;
    }
}

async fn read(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<Asked> {
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        (stream.read_buf(bytes).await.ok()? > 0).then_some(())?;
    };
    let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
    let header = |wanted: &str| {
        let mut pairs = head.lines().filter_map(|line| line.split_once(':'));
        let found = pairs.find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value.trim().to_owned())
    };
    let length: usize = header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    while bytes.len() < end + length {
        (stream.read_buf(bytes).await.ok()? > 0).then_some(())?;
    }
    let mut words = head.lines().next()?.split(' ');
    let asked = Asked {
        method: words.next()?.to_owned(),
        path: words.next()?.to_owned(),
        content_type: header("content-type").unwrap_or_else(|| "application/json".to_owned()),
        body: bytes[end..end + length].to_vec(),
    };
    bytes.drain(..end + length);
    Some(asked)
}

/// What the real server answers, or something else; nothing if the answer is lost.
async fn answer(client: &Client, lies: &Mutex<Lies>, asked: Asked) -> Option<(u16, String)> {
    let path = asked.path.split('?').next().unwrap_or_default().to_owned();
    let (lists, creates) =
        (asked.method == "GET" && path.ends_with("/pods"), asked.method == "POST");
    lies.lock().unwrap().creations += u32::from(creates);
    let answer = ask(client, asked).await?;
    let lost = creates && {
        let mut lies = lies.lock().unwrap();
        let lost = lies.loses > 0;
        lies.loses = lies.loses.saturating_sub(1);
        lies.lost += u32::from(lost);
        lost
    };
    if lost {
        tokio::time::sleep(SILENCE).await;
        return None;
    }
    let mut lies = lies.lock().unwrap();
    if lists && lies.first_list.is_none() {
        lies.first_list = Some(answer.1.clone());
    }
    if lists && lies.stale {
        lies.fired += 1;
        return lies.first_list.clone().map(|list| (200, list));
    }
    Some(answer)
}

/// As API servers say it that are too busy: in plain text, and for how long in a header.
fn throttled(seconds: u32) -> (String, (u16, String)) {
    let headers = format!("content-type: text/plain; charset=utf-8\r\nretry-after: {seconds}");
    (headers, (429, "Too many requests, please try again later.\n".to_owned()))
}

/// The same request, for the real server. A macro, because `kube` does not name the type of requests.
macro_rules! forwarded {
    ($asked:expr) => {{
        let Asked { method, path, content_type, body } = $asked;
        let mut request = kube::core::Request::new("/").get("x", &GetParams::default()).ok()?;
        *request.method_mut() = method.parse().ok()?;
        *request.uri_mut() = path.parse().ok()?;
        request.headers_mut().insert("content-type", content_type.parse().ok()?);
        *request.body_mut() = body;
        request
    }};
}

async fn ask(client: &Client, asked: Asked) -> Option<(u16, String)> {
    let created = asked.method == "POST";
    match client.request_text(forwarded!(asked)).await {
        Ok(text) => Some((if created { 201 } else { 200 }, text)),
        Err(kube::Error::Api(status)) => {
            Some((status.code, serde_json::to_string(&status).unwrap()))
        }
        Err(_) => None,
    }
}

async fn watch(
    mut stream: TcpStream,
    client: &Client,
    lies: &Mutex<Lies>,
    asked: Asked,
) -> Option<()> {
    let events = client.request_events::<Value>(forwarded!(asked)).await.ok()?;
    let mut events = std::pin::pin!(events);
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.ok()?;
    while let Some(event) = events.try_next().await.ok()? {
        let changes = !matches!(event, WatchEvent::Bookmark(_) | WatchEvent::Error(_));
        if changes && lies.lock().unwrap().blind {
            lies.lock().unwrap().fired += 1;
            continue;
        }
        let line = format!("{}\n", serde_json::to_string(&event).ok()?);
        let chunk = format!("{:x}\r\n{line}\r\n", line.len());
        stream.write_all(chunk.as_bytes()).await.ok()?;
    }
    stream.write_all(b"0\r\n\r\n").await.ok()
}
