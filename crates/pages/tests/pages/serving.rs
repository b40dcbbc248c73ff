//! Over a socket: headers, files that browsers keep, and updates that a browser does not read.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use firesteel_monitor::{Access, Server, ServerOptions};
use firesteel_pages::Pages;
use firesteel_types::{Event, ExecutorId, Tick};

use crate::made::{Fixed, Made, START};

pub(crate) fn serve(served: Arc<Fixed>) -> Server {
    let options = ServerOptions {
        host: "127.0.0.1".to_owned(),
        port: 0,
        retries: 0,
        allowed_hosts: Vec::new(),
        secrets: crate::secrets(),
        access: Access::default(),
    };
    Server::start_with(served, Arc::new(Pages::default()), options).unwrap()
}

pub(crate) fn send(address: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

fn whole(address: SocketAddr, request: &str) -> String {
    let mut text = String::new();
    send(address, request).read_to_string(&mut text).unwrap();
    text
}

pub(crate) fn get(address: SocketAddr, path: &str, more: &str) -> String {
    whole(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n"))
}

pub(crate) fn post(address: SocketAddr, path: &str, more: &str, body: &str) -> String {
    let length = body.len();
    whole(
        address,
        &format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n{more}Content-Length: {length}\r\n\r\n{body}"
        ),
    )
}

#[test]
fn browsers_keep_the_style_sheet_and_ask_for_a_new_one_by_a_new_name() {
    let server = serve(Arc::new(Fixed::new(vec![Made::SMALL.status()], true)));
    let page = get(server.address(), "/", "");
    let style = page
        .split("rel=\"stylesheet\" href=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .unwrap();
    let sheet = get(server.address(), style, "");
    assert!(sheet.contains("immutable") && sheet.contains("text/css"), "{sheet}");
    let etag = sheet.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().trim();
    assert!(!etag.starts_with("W/"));
    let again = get(server.address(), style, &format!("If-None-Match: {etag}\r\n"));
    assert!(again.starts_with("HTTP/1.1 304") && !again.contains("color-scheme"), "{again}");
    assert!(get(server.address(), "/static/0000000000000000.css", "").starts_with("HTTP/1.1 404"));
    assert!(page.contains("cache-control: no-store"));
}

#[test]
fn a_form_of_another_site_is_refused_before_anything_is_looked_at() {
    let served = Arc::new(Fixed::new(vec![Made::SMALL.status()], true));
    let server = serve(served.clone());
    let post = |origin: &str, body: &str| {
        let request = format!(
            "POST /jobs/job/kill/ HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        whole(server.address(), &request)
    };
    assert!(post("http://evil.example.org", "id=11&reason=x").starts_with("HTTP/1.1 421"));
    assert!(post("null", "id=11&reason=x").starts_with("HTTP/1.1 421"));
    assert!(post("http://localhost", "id=11&reason=x&token=guess").starts_with("HTTP/1.1 403"));
    assert!(post("http://localhost", &"x".repeat(100_000)).starts_with("HTTP/1.1 413"));
    assert!(served.killed.lock().unwrap().is_empty());
    let api = whole(
        server.address(),
        "POST /api/v1/applications HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
    );
    assert!(api.starts_with("HTTP/1.1 405"), "{api}");
}

#[test]
fn open_pages_are_told_of_changes_and_of_nothing_else() {
    let served = Arc::new(Fixed::new(vec![Made::SMALL.status()], true));
    let server = serve(served.clone());
    let mut lines =
        BufReader::new(send(server.address(), "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"))
            .lines();
    let mut until =
        |wanted: &str| lines.by_ref().map_while(Result::ok).find(|line| line.contains(wanted));
    assert!(until("text/event-stream").is_some() && until("event: hello").is_some());
    let lost = Event::ExecutorRemoved {
        executor: ExecutorId(1),
        reason: "gone".to_owned(),
        at: Tick(START),
    };
    served.applications.lock().unwrap()[0].take(lost);
    assert!(until("event: changed").is_some());
    served.applications.lock().unwrap().clear();
    assert!(until("event: over").is_some() && until("event").is_none(), "nothing follows");
}

#[test]
fn readers_that_never_read_take_no_place_from_others() {
    let server = serve(Arc::new(Fixed::new(vec![Made::SMALL.status()], true)));
    // More than there are places for connections: they give theirs back.
    let silent: Vec<TcpStream> = (0..200)
        .map(|_| send(server.address(), "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        .collect();
    let start = Instant::now();
    let page = get(server.address(), "/jobs/", "");
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    assert!(start.elapsed() < Duration::from_secs(30));
    let refused = silent.iter().rev().take(1).map(|mut stream| {
        let mut first = [0; 12];
        stream
            .read_exact(&mut first)
            .map(|()| String::from_utf8_lossy(&first).into_owned())
            .unwrap_or_default()
    });
    assert_eq!(refused.collect::<Vec<_>>(), ["HTTP/1.1 503"], "there are 128 of them at most");
}
