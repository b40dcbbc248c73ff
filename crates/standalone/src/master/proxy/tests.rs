//! Pages behind a master over real sockets: what reaches the server behind, what comes back, and what is refused.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use firesteel_backend::Address;
use firesteel_backend::command::Command;
use firesteel_standalone_core::description::{
    ApplicationDescription, WorkerDescription, WorkerState,
};
use firesteel_standalone_core::master::MasterOptions;
use firesteel_standalone_core::messages::ToMaster;
use firesteel_standalone_core::{Incarnation, Term, WorkerId};
use firesteel_types::{ExecutorId, Host};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::master::pages;
use crate::web;

const WAIT: Duration = Duration::from_secs(20);
const WORKER_ID: &str = "worker-20260101000000-127.0.0.1-7000";

/// A server behind: it notes what it is asked, and answers by the path.
#[derive(Default)]
struct Behind {
    asked: Mutex<Vec<String>>,
    /// The second half of a stream may be sent.
    go_on: Notify,
    /// Bytes of an endless answer.
    sent: AtomicU64,
    /// Endless answers that were cut off.
    cut_off: AtomicU64,
}

impl Behind {
    fn last(&self) -> String {
        self.asked.lock().unwrap().last().cloned().unwrap_or_default()
    }
}

async fn read_request(stream: &mut TcpStream) -> String {
    let (mut read, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut buffer).await.unwrap_or(0);
        read.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&read).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            assert!(count > 0, "half a request: {text}");
            continue;
        };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.map_or(0, |length| length.parse().unwrap()) || count == 0 {
            return text;
        }
    }
}

async fn serve_one(mut stream: TcpStream, address: SocketAddr, behind: Arc<Behind>) {
    let request = read_request(&mut stream).await;
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    behind.asked.lock().unwrap().push(request);
    let moved =
        |to: &str| format!("HTTP/1.1 303 See Other\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n");
    let answer = match path.split('?').next().unwrap_or_default() {
        "/jobs/job/kill/" => moved("/jobs/"),
        "/whole" => moved(&format!("http://{address}/x?y=1")),
        "/away" => moved("https://evil.org/"),
        "/slashes" => moved("//evil.org/"),
        "/silent" => return,
        "/events" => return stream_events(stream, &behind).await,
        "/flood" => return flood(stream, &behind).await,
        _ => "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nSet-Cookie: a=b\r\nConnection: close, X-Own\r\nX-Own: 1\r\n\
              Content-Security-Policy: default-src 'none'\r\nContent-Length: 5\r\n\r\nhello"
            .to_owned(),
    };
    let _ = stream.write_all(answer.as_bytes()).await;
}

async fn stream_events(mut stream: TcpStream, behind: &Behind) {
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    let first = format!("{head}9\r\ndata: 1\n\n\r\n");
    let _ = stream.write_all(first.as_bytes()).await;
    behind.go_on.notified().await;
    let _ = stream.write_all(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n").await;
}

/// Until nobody takes any more.
async fn flood(mut stream: TcpStream, behind: &Behind) {
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n").await;
    let part = [b'x'; 16 << 10];
    while let Ok(count) = stream.write(&part).await {
        behind.sent.fetch_add(count as u64, Ordering::Relaxed);
    }
    behind.cut_off.fetch_add(1, Ordering::Relaxed);
}

async fn start_behind() -> (SocketAddr, Arc<Behind>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, behind) = (listener.local_addr().unwrap(), Arc::new(Behind::default()));
    let serving = behind.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve_one(stream, address, serving.clone()));
        }
    });
    (address, behind)
}

async fn tell(shell: &Shell, message: ToMaster) {
    let _ = tokio::time::timeout(Duration::from_millis(1), shell.ask(message)).await;
}

/// A master with an application whose pages are at `app`, and a worker whose pages are at `worker`.
struct Cluster {
    address: RpcAddress,
    app: String,
    stop: CancellationToken,
}

async fn add_application(shell: &Shell, number: u64, web_ui: &str) {
    let description = Arc::new(ApplicationDescription {
        name: "mine".to_owned(),
        user: "ada".to_owned(),
        max_cores: Some(1),
        memory_per_executor_mb: 512,
        cores_per_executor: None,
        initial_executor_limit: None,
        command: Command::default(),
        web_ui: web_ui.to_owned(),
    });
    let message = ToMaster::RegisterApplication {
        description,
        incarnation: Incarnation(number),
        previous: None,
        first_executor: ExecutorId(0),
        newest: Term(0),
        executors: Vec::new(),
    };
    tell(shell, message).await;
}

impl Cluster {
    async fn start(app: &str, worker: &str, settings: &[(&str, &str)]) -> Self {
        Self::start_with(app, worker, settings, None, None).await
    }

    /// With the key of readers, and a host that others are told.
    async fn start_with(
        app: &str,
        worker: &str,
        settings: &[(&str, &str)],
        logs: Option<TokenKey>,
        host: Option<&str>,
    ) -> Self {
        let mut conf = Conf::default();
        conf.set("spark.ui.reverseProxy", true);
        for (key, value) in settings {
            conf.set(*key, *value);
        }
        let shell = Arc::new(Shell::new(MasterOptions::default(), None));
        shell.lead_alone();
        add_application(&shell, 1, app).await;
        let worker = WorkerDescription {
            id: WorkerId(WORKER_ID.into()),
            incarnation: Incarnation(7),
            address: Address { host: Host::new("127.0.0.1"), port: 7000 },
            web_ui: worker.to_owned(),
            cores: 8,
            memory_mb: 4096,
        };
        let state = WorkerState { number: 1, ..WorkerState::default() };
        tell(&shell, ToMaster::RegisterWorker { worker, state, newest: Term(0) }).await;
        let app = shell.view().0.active_apps[0].app.0.to_string();
        let web = web::bind("127.0.0.1", "127.0.0.1", 0, 0).await.unwrap();
        let web = web.also_named(&conf).unwrap();
        let told = RpcAddress::new(host.unwrap_or(&web.address.host), web.address.port);
        let web = web.in_front(Proxy::from_conf(&conf, &shell, logs, Some(told)).unwrap());
        let (address, stop) = (web.address.clone(), CancellationToken::new());
        let handler = pages::handler(shell, pages::Operating::from_conf(&conf).unwrap());
        tokio::spawn(web::serve(web, handler, pages::FORM, stop.clone()));
        Cluster { address, app, stop }
    }

    async fn send(&self, request: &str) -> TcpStream {
        let target = (self.address.host.as_str(), self.address.port);
        let mut stream = TcpStream::connect(target).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    /// The whole answer.
    async fn ask(&self, request: &str) -> String {
        let mut stream = self.send(request).await;
        let mut answer = Vec::new();
        tokio::time::timeout(WAIT, stream.read_to_end(&mut answer))
            .await
            .expect("in time")
            .unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    async fn get(&self, path: &str) -> String {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Header names in lower case, so that they are found.
fn lower(text: &str) -> String {
    text.to_ascii_lowercase()
}

#[tokio::test]
async fn pages_of_applications_and_workers_are_shown_below_the_masters_own() {
    let (at, behind) = start_behind().await;
    let cluster = Cluster::start(&format!("http://{at}"), &format!("http://{at}"), &[]).await;
    let app = &cluster.app;
    let request = format!(
        "GET /proxy/{app}/stages/stage/?id=3&attempt=0 HTTP/1.1\r\nHost: localhost\r\nCookie: a=b\r\n\
         Authorization: Bearer x\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nX-Forwarded-Context: /evil\r\n\r\n"
    );
    let answer = cluster.ask(&request).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"), "{answer}");
    let answer = lower(&answer);
    assert!(answer.contains("content-security-policy: default-src 'none'"), "{answer}");
    assert!(!answer.contains("set-cookie") && !answer.contains("x-own"), "{answer}");
    let asked = behind.last();
    assert!(asked.starts_with("GET /stages/stage/?id=3&attempt=0 HTTP/1.1\r\n"), "{asked}");
    let asked = lower(&asked);
    for header in [
        format!("host: {at}\r\n"),
        format!("x-forwarded-context: /evil/proxy/{app}\r\n"),
        "x-forwarded-for: 127.0.0.1\r\n".to_owned(),
        "x-forwarded-host: localhost\r\n".to_owned(),
    ] {
        assert!(asked.contains(&header), "{header}: {asked}");
    }
    for gone in ["cookie", "authorization", "x-hop"] {
        assert!(!asked.contains(gone), "{gone}: {asked}");
    }
    let request = format!(
        "GET /proxy/{WORKER_ID}/logPage/ HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n\r\n"
    );
    assert!(cluster.ask(&request).await.ends_with("hello"));
    let asked = lower(&behind.last());
    assert!(asked.contains("authorization: bearer x"), "a worker may know: {asked}");
    assert!(asked.contains(&format!("x-forwarded-context: /proxy/{WORKER_ID}\r\n")), "{asked}");
}

#[tokio::test]
async fn a_readers_token_for_the_master_becomes_one_for_the_worker_and_no_other_token_does() {
    let (at, behind) = start_behind().await;
    let (url, key) = (format!("http://{at}"), TokenKey::of([7; 32]));
    let worker = RpcAddress::new("127.0.0.1", at.port());
    let other = TokenKey::of([8; 32]);
    for (host, key_of_token, made_for, is_for_worker) in [
        (None, &key, "127.0.0.1", true),
        (Some("node-1"), &key, "node-1", true),
        // Another machine's program may have got it there.
        (Some("node-1"), &key, "127.0.0.1", false),
        (Some("node-1"), &key, "evil.org", false),
        (None, &other, "127.0.0.1", false),
    ] {
        let cluster = Cluster::start_with(&url, &url, &[], Some(key.clone()), host).await;
        let token = key_of_token.at(&RpcAddress::new(made_for, cluster.address.port)).sign();
        let ask = async |id: &str| {
            let request = format!(
                "GET /proxy/{id}/log HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
            );
            cluster.ask(&request).await;
            let asked = behind.last();
            asked.lines().find_map(|line| Some(line.strip_prefix("authorization: ")?.to_owned()))
        };
        let told = ask(WORKER_ID).await;
        let may = key.at(&worker).check(told.as_deref()).is_ok();
        assert_eq!(may, is_for_worker, "{host:?} {made_for}");
        assert_eq!(ask(&cluster.app).await, None, "an application may be anybody's");
    }
}

#[tokio::test]
async fn links_of_the_masters_page_lead_through_it() {
    let settings = [("spark.ui.reverseProxyUrl", "https://spark.example.org/cluster/")];
    let cluster = Cluster::start("http://10.9.9.9:4040", "http://10.9.9.9:8081", &settings).await;
    let page = cluster.get("/").await;
    for link in [
        format!("href=\"/cluster/proxy/{}/\"", cluster.app),
        format!("href=\"/cluster/proxy/{WORKER_ID}/\""),
    ] {
        assert!(page.contains(&link), "{link}: {page}");
    }
    assert!(!page.contains("10.9.9.9"), "{page}");
    let named = "GET / HTTP/1.1\r\nHost: spark.example.org\r\n\r\n";
    assert!(cluster.ask(named).await.starts_with("HTTP/1.1 200"), "the name of the proxy in front");
}

#[tokio::test]
async fn a_form_reaches_the_application_and_its_redirect_stays_inside() {
    let (at, behind) = start_behind().await;
    let cluster = Cluster::start(&format!("http://{at}"), "", &[]).await;
    let app = &cluster.app;
    let post = |origin: &str| {
        format!(
            "POST /proxy/{app}/jobs/job/kill/ HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 12\r\n\r\nid=1&token=a"
        )
    };
    let answer = lower(&cluster.ask(&post("http://localhost:8080")).await);
    assert!(answer.starts_with("http/1.1 303"), "{answer}");
    assert!(answer.contains(&format!("location: /proxy/{app}/jobs/\r\n")), "{answer}");
    let asked = behind.last();
    assert!(
        asked.starts_with("POST /jobs/job/kill/") && asked.ends_with("id=1&token=a"),
        "{asked}"
    );
    assert!(lower(&asked).contains(&format!("origin: http://{at}\r\n")), "{asked}");
    let before = behind.asked.lock().unwrap().len();
    let refused = cluster.ask(&post("https://evil.org")).await;
    assert!(refused.starts_with("HTTP/1.1 421"), "a page of elsewhere: {refused}");
    let long = format!(
        "POST /proxy/{app}/jobs/job/kill/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{}",
        BODY + 1,
        "x".repeat(BODY + 1)
    );
    let refused = cluster.ask(&long).await;
    assert!(refused.starts_with("HTTP/1.1 413"), "{refused}");
    assert_eq!(behind.asked.lock().unwrap().len(), before, "neither got there");
}

#[tokio::test]
async fn what_is_unknown_gone_strange_or_leads_away_is_refused_in_one_sentence() {
    let (at, behind) = start_behind().await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let cluster = Cluster::start(&format!("http://{at}"), &format!("http://{closed}"), &[]).await;
    let app = &cluster.app;
    for (path, status, words) in [
        ("/proxy".to_owned(), 404, "names no application"),
        ("/proxy/".to_owned(), 404, "names no application"),
        ("/proxy/app-nobody/".to_owned(), 404, "knows no application or worker app-nobody"),
        (format!("/proxy/{at}/"), 404, "knows no application"),
        (format!("/proxy/http://{at}/"), 404, "knows no application"),
        ("/proxy/../json/".to_owned(), 404, "knows no application"),
        (format!("/proxy/{app}/../../json/"), 400, "steps"),
        (format!("/proxy/{app}/%2e%2E/json/"), 400, "steps"),
        (format!("/proxy/{WORKER_ID}/"), 502, "cannot be reached"),
        (format!("/proxy/{app}/silent"), 502, "does not answer as a web server"),
        (format!("/proxy/{app}/away"), 502, "leads to another server"),
        (format!("/proxy/{app}/slashes"), 502, "leads to another server"),
    ] {
        let answer = cluster.get(&path).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {answer}");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(body.contains(words) && body.lines().count() == 1, "{path}: {answer}");
    }
    let asked = behind.asked.lock().unwrap().len();
    assert_eq!(asked, 3, "only what is the application's own");
    let answer = lower(&cluster.get(&format!("/proxy/{app}?x=1")).await);
    assert!(answer.contains(&format!("location: /proxy/{app}/?x=1\r\n")), "{answer}");
    let answer = lower(&cluster.get(&format!("/proxy/{app}/whole")).await);
    assert!(answer.contains(&format!("location: /proxy/{app}/x?y=1\r\n")), "{answer}");
    let request = format!("DELETE /proxy/{app}/ HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let answer = lower(&cluster.ask(&request).await);
    assert!(answer.starts_with("http/1.1 405") && answer.contains("allow: get, head, post"));
}

#[tokio::test]
async fn an_event_arrives_while_its_stream_goes_on() {
    let (at, behind) = start_behind().await;
    let cluster = Cluster::start(&format!("http://{at}"), "", &[]).await;
    let request = format!("GET /proxy/{}/events HTTP/1.1\r\nHost: localhost\r\n\r\n", cluster.app);
    let mut stream = cluster.send(&request).await;
    let (mut read, mut buffer) = (String::new(), [0; 4096]);
    while !read.contains("data: 1") {
        let count = tokio::time::timeout(WAIT, stream.read(&mut buffer)).await.expect("in time");
        let count = count.unwrap();
        assert!(count > 0, "{read}");
        read.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
    }
    assert!(lower(&read).contains("content-type: text/event-stream"), "{read}");
    behind.go_on.notify_one();
    let mut rest = String::new();
    tokio::time::timeout(WAIT, stream.read_to_string(&mut rest)).await.expect("in time").unwrap();
    assert!(rest.contains("data: 2"), "{rest}");
}

#[tokio::test]
async fn an_endless_answer_that_nobody_reads_fills_buffers_and_no_memory() {
    let (at, behind) = start_behind().await;
    let cluster = Cluster::start(&format!("http://{at}"), "", &[]).await;
    let request = format!("GET /proxy/{}/flood HTTP/1.1\r\nHost: localhost\r\n\r\n", cluster.app);
    let reader = cluster.send(&request).await;
    let (started, mut before) = (Instant::now(), u64::MAX);
    let held = loop {
        assert!(started.elapsed() < WAIT, "it is taken for ever");
        let sent = behind.sent.load(Ordering::Relaxed);
        if sent > 0 && sent == before {
            break sent;
        }
        before = sent;
        tokio::time::sleep(Duration::from_millis(300)).await;
    };
    assert!(held < 64 << 20, "{held} bytes are more than the sockets' buffers");
    drop(reader);
    while behind.cut_off.load(Ordering::Relaxed) == 0 {
        assert!(started.elapsed() < 2 * WAIT, "the server behind is not told");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn pages_are_where_their_application_is_connected_from_or_reached_by_the_others() {
    let here =
        |address: IpAddr| address.is_loopback() || address == "10.0.0.1".parse::<IpAddr>().unwrap();
    let (away, loopback) = (Some("10.0.0.7"), Some("127.0.0.1"));
    for (address, from, is_announced, goes) in [
        ("10.0.0.7", away, false, true),
        ("::ffff:10.0.0.7", away, false, true),
        ("10.0.0.9", away, true, true),
        ("10.0.0.9", away, false, false),
        ("169.254.169.254", away, true, false),
        ("fe80::1", away, true, false),
        ("0.0.0.0", loopback, true, false),
        ("127.0.0.1", away, true, false),
        ("127.9.9.9", None, true, false),
        ("::1", away, true, false),
        ("10.0.0.1", away, true, false),
        ("127.0.0.1", loopback, false, true),
        ("10.0.0.1", loopback, false, true),
        ("127.0.0.1", Some("10.0.0.1"), false, true),
        ("10.0.0.9", None, true, true),
        ("10.0.0.9", None, false, false),
    ] {
        let from = from.map(|from: &str| from.parse().unwrap());
        let found = may_be_at(address.parse().unwrap(), from, is_announced, here);
        assert_eq!(found, goes, "{address} {from:?} {is_announced}");
    }
}

#[tokio::test]
async fn pages_that_an_application_puts_somewhere_else_are_not_asked_for() {
    let cluster =
        Cluster::start("http://169.254.169.254:80", "http://169.254.169.254:80", &[]).await;
    for id in [&cluster.app, WORKER_ID] {
        let answer = cluster.get(&format!("/proxy/{id}/latest/meta-data/")).await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
        assert!(answer.contains("is not where it is connected from"), "{answer}");
    }
}

#[test]
fn only_an_address_over_http_is_a_target() {
    for (text, host, port) in [
        ("http://10.0.0.7:8081", "10.0.0.7", 8081),
        ("http://node-1:4040/", "node-1", 4040),
        ("http://[::1]:4040", "::1", 4040),
    ] {
        assert_eq!(address_of(text), Some(RpcAddress::new(host, port)), "{text}");
    }
    for text in [
        "",
        "https://a:1",
        "http://a",
        "http://a:0",
        "http://a:1/path",
        "http://u@a:1",
        "file:///etc",
        "http://a b:1",
        "http://:80",
        "http://a:1?x",
    ] {
        assert_eq!(address_of(text), None, "{text}");
    }
}
