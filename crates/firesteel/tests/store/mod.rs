//! A server that speaks as much of S3 as the sources and sinks need, in this process.
//!
//! It checks who asks, keeps objects and uploads in memory, counts requests, and fails when it is told to.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

pub(crate) const KEY: &str = "AKIATEST";
const SECRET: &str = "secret";

#[derive(Default)]
pub(crate) struct State {
    pub(crate) objects: BTreeMap<String, Vec<u8>>,
    /// Uploads that are neither completed nor aborted, with their parts.
    pub(crate) uploads: BTreeMap<String, BTreeMap<u32, Vec<u8>>>,
    /// `METHOD path?query`, with the range if there is one.
    pub(crate) requests: Vec<String>,
    /// So many further requests are answered with 500.
    pub(crate) failing: usize,
    pub(crate) failed: usize,
    /// Requests with this in them are refused.
    pub(crate) refused: Option<String>,
    /// The store is out of reach from the request on that has this in it for the so-manieth time.
    pub(crate) unreachable_from: Option<(String, usize)>,
    /// The hour's minute, by which objects are dated.
    pub(crate) minute: u32,
    /// Uploads are completed once so many are to be at a time.
    pub(crate) completed_at_a_time: usize,
    /// As many were to be at a time.
    pub(crate) most_completed_at_a_time: usize,
    completing: usize,
    /// When each object was written, and its tag.
    versions: BTreeMap<String, (u32, u32)>,
    next_version: u32,
    next_upload: u32,
}

impl State {
    fn store(&mut self, key: &str, content: Vec<u8>) {
        self.next_version += 1;
        self.versions.insert(key.to_owned(), (self.minute, self.next_version));
        self.objects.insert(key.to_owned(), content);
    }

    /// When an object was written, and its tag.
    fn version(&self, key: &str) -> (u32, String) {
        let (minute, tag) = self.versions.get(key).copied().unwrap_or_default();
        (minute, format!("\"{tag}\""))
    }

    fn refuses(&mut self, request: &str) -> bool {
        if let Some((text, times)) = &mut self.unreachable_from {
            *times -= usize::from(*times > 0 && request.contains(text.as_str()));
            if *times == 0 {
                return true;
            }
        }
        self.refused.as_ref().is_some_and(|text| request.contains(text.as_str()))
    }
}

/// The server; its threads end with the process.
pub(crate) struct S3 {
    state: Arc<Mutex<State>>,
    address: String,
}

struct Request {
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

type Response = (u16, Vec<(String, String)>, Vec<u8>);

impl S3 {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::new(Mutex::new(State::default()));
        let (shared, completing) = (state.clone(), Arc::new(Condvar::new()));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (state, completing) = (shared.clone(), completing.clone());
                std::thread::spawn(move || serve(stream, &state, &completing));
            }
        });
        S3 { state, address }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn put(&self, key: &str, content: impl AsRef<[u8]>) {
        self.lock().store(key, content.as_ref().to_vec());
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.lock().objects.keys().cloned().collect()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Settings for a context that may use it.
    pub(crate) fn settings(&self) -> [(&'static str, String); 4] {
        [
            ("spark.hadoop.fs.s3a.endpoint", self.url()),
            ("spark.hadoop.fs.s3a.access.key", KEY.to_owned()),
            ("spark.hadoop.fs.s3a.secret.key", SECRET.to_owned()),
            ("spark.hadoop.fs.s3a.path.style.access", "true".to_owned()),
        ]
    }
}

fn serve(stream: TcpStream, state: &Mutex<State>, completing: &Condvar) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut out = stream;
    while let Some(request) = read(&mut reader) {
        let mut state = state.lock().unwrap();
        let completes = request.method == "POST" && request.query.contains_key("uploadId");
        if completes {
            state = await_others(state, completing);
        }
        let (status, headers, body) = answer(&request, &mut state);
        state.completing -= usize::from(completes);
        drop(state);
        let mut head = format!("HTTP/1.1 {status} Status\r\n");
        if !headers.iter().any(|(name, _)| name == "Content-Length") {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let mut bytes = format!("{head}\r\n").into_bytes();
        if request.method != "HEAD" {
            bytes.extend(body);
        }
        // In one piece: two would wait for each other's acknowledgement.
        if out.write_all(&bytes).is_err() {
            return;
        }
    }
}

/// Waits until as many uploads are to be completed at a time as the test wants to see, or some seconds.
fn await_others<'a>(
    mut state: MutexGuard<'a, State>,
    completing: &Condvar,
) -> MutexGuard<'a, State> {
    const PATIENCE: Duration = Duration::from_secs(10);
    state.completing += 1;
    state.most_completed_at_a_time = state.most_completed_at_a_time.max(state.completing);
    completing.notify_all();
    let few = |state: &mut State| state.most_completed_at_a_time < state.completed_at_a_time;
    let (mut state, waited) = completing.wait_timeout_while(state, PATIENCE, few).unwrap();
    if waited.timed_out() {
        // The others need not wait for what does not come.
        state.completed_at_a_time = 0;
    }
    state
}

fn read(reader: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let query = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name), decode(value))
    });
    let (path, query) = (decode(path), query.collect());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").map_or(0, |text| text.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, path, query, headers, body })
}

fn decode(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        rest = after;
        if let (b'%', [a, b, tail @ ..]) = (first, after) {
            let hex = std::str::from_utf8(&[*a, *b]).unwrap().to_owned();
            bytes.push(u8::from_str_radix(&hex, 16).unwrap());
            rest = tail;
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).unwrap()
}

fn answer(request: &Request, state: &mut State) -> Response {
    let query: Vec<String> = request.query.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let range = request.headers.get("range").map_or(String::new(), |range| format!(" {range}"));
    let line = format!("{} {}?{}{range}", request.method, request.path, query.join("&"));
    state.requests.push(line.clone());
    if state.refuses(&line) {
        return (400, Vec::new(), b"<Error><Code>InvalidRequest</Code></Error>".to_vec());
    }
    if state.failing > 0 {
        state.failing -= 1;
        state.failed += 1;
        return (500, Vec::new(), b"<Error><Code>InternalError</Code></Error>".to_vec());
    }
    if let Some(key) = request.path.strip_prefix("/web/") {
        return get(request, key, state);
    }
    let signed = format!("Credential={KEY}/");
    if !request.headers.get("authorization").is_some_and(|text| text.contains(&signed)) {
        return (403, Vec::new(), b"<Error><Code>InvalidAccessKeyId</Code></Error>".to_vec());
    }
    let key = request.path.strip_prefix("/bucket").unwrap().trim_start_matches('/').to_owned();
    match request.method.as_str() {
        "GET" if key.is_empty() => list(&request.query, state),
        "GET" | "HEAD" => get(request, &key, state),
        "PUT" if request.query.contains_key("uploadId") => put_part(request, state),
        "PUT" => put(request, &key, state),
        "POST" if request.query.contains_key("uploads") => {
            state.next_upload += 1;
            let id = format!("upload-{}", state.next_upload);
            state.uploads.insert(id.clone(), BTreeMap::new());
            let xml = "InitiateMultipartUploadResult";
            ok(format!("<{xml}><UploadId>{id}</UploadId></{xml}>"))
        }
        "POST" if request.query.contains_key("uploadId") => complete(request, key, state),
        "POST" if request.query.contains_key("delete") => delete_many(request, state),
        "DELETE" => {
            match request.query.get("uploadId") {
                Some(id) => drop(state.uploads.remove(id)),
                None => drop(state.objects.remove(&key)),
            }
            (204, Vec::new(), Vec::new())
        }
        other => panic!("{other} {}", request.path),
    }
}

fn ok(xml: String) -> Response {
    (200, Vec::new(), xml.into_bytes())
}

fn get(request: &Request, key: &str, state: &State) -> Response {
    let Some(content) = state.objects.get(key) else {
        return (404, Vec::new(), b"<Error><Code>NoSuchKey</Code></Error>".to_vec());
    };
    let (minute, tag) = state.version(key);
    let mut headers = vec![
        ("ETag".to_owned(), tag),
        ("Last-Modified".to_owned(), format!("Mon, 01 Jan 2024 00:{minute:02}:00 GMT")),
    ];
    let Some(range) = request.headers.get("range") else {
        headers.push(("Content-Length".to_owned(), content.len().to_string()));
        return (200, headers, content.clone());
    };
    let (start, end) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
    let start: usize = start.parse().unwrap();
    let end = end.parse().map_or(content.len(), |end: usize| content.len().min(end + 1));
    if start >= content.len() {
        return (416, headers, Vec::new());
    }
    let shown = format!("bytes {start}-{}/{}", end - 1, content.len());
    headers.push(("Content-Range".to_owned(), shown));
    (206, headers, content[start..end].to_vec())
}

fn put(request: &Request, key: &str, state: &mut State) -> Response {
    let only_new = request.headers.get("if-none-match").is_some_and(|value| value == "*");
    if only_new && state.objects.contains_key(key) {
        return (412, Vec::new(), b"<Error><Code>PreconditionFailed</Code></Error>".to_vec());
    }
    let tag = state.objects.contains_key(key).then(|| state.version(key).1);
    let only_same = request.headers.get("if-match");
    if only_same.is_some_and(|wanted| tag.as_ref() != Some(wanted)) {
        return (412, Vec::new(), b"<Error><Code>PreconditionFailed</Code></Error>".to_vec());
    }
    state.store(key, request.body.clone());
    (200, vec![("ETag".to_owned(), state.version(key).1)], Vec::new())
}

fn put_part(request: &Request, state: &mut State) -> Response {
    let number: u32 = request.query["partNumber"].parse().unwrap();
    let Some(parts) = state.uploads.get_mut(&request.query["uploadId"]) else {
        return (404, Vec::new(), b"<Error><Code>NoSuchUpload</Code></Error>".to_vec());
    };
    parts.insert(number, request.body.clone());
    (200, vec![("ETag".to_owned(), format!("\"part-{number}\""))], Vec::new())
}

fn complete(request: &Request, key: String, state: &mut State) -> Response {
    let Some(parts) = state.uploads.remove(&request.query["uploadId"]) else {
        return (404, Vec::new(), b"<Error><Code>NoSuchUpload</Code></Error>".to_vec());
    };
    let wanted = String::from_utf8_lossy(&request.body).matches("<PartNumber>").count();
    assert_eq!(wanted, parts.len(), "all parts are named");
    state.store(&key, parts.into_values().flatten().collect());
    let xml = "CompleteMultipartUploadResult";
    ok(format!("<{xml}><ETag>\"done\"</ETag></{xml}>"))
}

fn delete_many(request: &Request, state: &mut State) -> Response {
    let body = String::from_utf8_lossy(&request.body).into_owned();
    let keys = body.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next());
    let mut deleted = String::new();
    for key in keys {
        state.objects.remove(key);
        deleted.push_str(&format!("<Deleted><Key>{key}</Key></Deleted>"));
    }
    ok(format!("<DeleteResult>{deleted}</DeleteResult>"))
}

fn list(query: &BTreeMap<String, String>, state: &State) -> Response {
    let prefix = query.get("prefix").map_or("", String::as_str);
    let delimiter = query.get("delimiter").filter(|text| !text.is_empty());
    let (mut contents, mut prefixes) = (String::new(), std::collections::BTreeSet::new());
    for (key, content) in state.objects.iter().filter(|(key, _)| key.starts_with(prefix)) {
        let rest = &key[prefix.len()..];
        match delimiter.and_then(|delimiter| rest.split_once(delimiter.as_str())) {
            Some((directory, _)) => drop(prefixes.insert(format!("{prefix}{directory}/"))),
            None => {
                let ((minute, tag), size) = (state.version(key), content.len());
                contents.push_str(&format!(
                    "<Contents><Key>{key}</Key><Size>{size}</Size><ETag>{tag}</ETag>\
                     <LastModified>2024-01-01T00:{minute:02}:00.000Z</LastModified></Contents>"
                ));
            }
        }
    }
    for prefix in prefixes {
        contents.push_str(&format!("<CommonPrefixes><Prefix>{prefix}</Prefix></CommonPrefixes>"));
    }
    ok(format!("<ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>"))
}
