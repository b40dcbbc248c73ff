//! For tests: an API server that answers as a test says, or leaves a request without an answer.

use std::sync::{Arc, Mutex};

use kube::{Client, Config};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A request: method and path with query, and its body.
pub(crate) type Asked = (String, Value);

/// What is answered: a code and a body; `None`: the connection breaks.
pub(crate) type Answer = Option<(u16, Value)>;

type Answers = Box<dyn FnMut(&Asked) -> Answer + Send>;

/// A server that runs as long as the test's runtime does.
pub(crate) struct ApiServer {
    pub(crate) client: Client,
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl ApiServer {
    pub(crate) async fn start(answers: impl FnMut(&Asked) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let answers: Arc<Mutex<Answers>> = Arc::new(Mutex::new(Box::new(answers)));
        let heard = asked.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, heard.clone(), answers.clone()));
            }
        });
        let mut config = Config::new(url.parse().unwrap());
        config.default_retry = false;
        ApiServer { client: Client::try_from(config).unwrap(), url, asked }
    }

    /// All requests so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Methods and paths without queries.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |(line, _): Asked| line.split('?').next().unwrap_or_default().to_owned();
        self.asked().into_iter().map(line).collect()
    }
}

async fn serve(
    mut stream: TcpStream,
    asked: Arc<Mutex<Vec<Asked>>>,
    answers: Arc<Mutex<Answers>>,
) -> Option<()> {
    let mut bytes = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            (stream.read_buf(&mut bytes).await.ok()? > 0).then_some(())?;
        };
        let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
        });
        let length: usize = length.unwrap_or(0);
        while bytes.len() < end + length {
            (stream.read_buf(&mut bytes).await.ok()? > 0).then_some(())?;
        }
        let body = serde_json::from_slice(&bytes[end..end + length]).unwrap_or_default();
        bytes.drain(..end + length);
        let line = head.lines().next()?.rsplit_once(' ')?.0.to_owned();
        let request = (line, body);
        asked.lock().unwrap().push(request.clone());
        let answer = (answers.lock().unwrap())(&request);
        let (code, body) = answer?;
        let body = body.to_string();
        let head = format!(
            "HTTP/1.1 {code} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).await.ok()?;
    }
}

/// The answer that says no.
pub(crate) fn refuses(code: u16, message: &str) -> Answer {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": "X", "code": code,
    });
    Some((code, status))
}
