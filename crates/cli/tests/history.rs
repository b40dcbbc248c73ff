//! `firesteel history` as a process: it answers from a directory of logs, sees new ones, and ends when told.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take that happens at all.
const DEADLINE: Duration = Duration::from_secs(60);

/// Ended with the test, however that ends.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn firesteel(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firesteel"));
    command.arg("history").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn get(address: &str, path: &str) -> String {
    get_of(address, address, path)
}

fn get_of(address: &str, host: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_history_server_whose_lists_count_shows_nothing_to_who_names_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().to_str().unwrap();
    let acls = "spark.history.ui.acls.enable=true";
    let child = firesteel(&["--dir", dir, "--port", "0", "--conf", acls]).spawn().unwrap();
    let mut server = Server(child);
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap();
    for path in ["/", "/api/v1/applications", "/metrics/json"] {
        let refused = get(address, path);
        assert!(refused.starts_with("HTTP/1.1 401"), "{path}: {refused}");
    }
}

#[test]
fn the_history_server_lists_logs_that_are_there_and_logs_that_come() {
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../monitor/tests/spark/events");
    let directory = tempfile::tempdir().unwrap();
    let copy = |name: &str| fs::copy(logs.join(name), directory.path().join(name)).unwrap();
    copy("local-1422981780767");
    let dir = directory.path().to_str().unwrap();
    let interval = "spark.history.fs.update.interval=50ms";
    let child = firesteel(&["--dir", dir, "--port", "0", "--conf", interval]).spawn().unwrap();
    let mut server = Server(child);
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap();
    assert!(address.starts_with("127.0.0.1:"), "{line}");
    let jobs = get(address, "/api/v1/applications/local-1422981780767/jobs");
    assert!(jobs.starts_with("HTTP/1.1 200") && jobs.contains("\"jobId\" : 2"), "{jobs}");
    let page = get(address, "/history/local-1422981780767/jobs/");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("/jobs/job/?id=2"), "{page}");
    let elsewhere = get_of(address, "evil.example.org", "/api/v1/applications");
    assert!(elsewhere.starts_with("HTTP/1.1 421"), "{elsewhere}");
    copy("local-1426533911241");
    let start = Instant::now();
    while !get(address, "/api/v1/applications").contains("local-1426533911241") {
        assert!(start.elapsed() < DEADLINE, "a new log is not listed");
    }
    let id = server.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert!(server.0.wait().unwrap().success());
}

#[test]
fn a_report_is_written_and_an_application_that_is_not_there_is_named() {
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../monitor/tests/spark/events");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.html");
    let report = |application: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_firesteel"));
        command.args(["report", application, "--dir"]).arg(&logs).arg("--output").arg(&file);
        command.output().unwrap()
    };
    let ended = report("local-1422981780767");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("id=\"executors\"") && !text.contains("<script"));
    let ended = report("nobody");
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(!ended.status.success() && said.contains("`nobody`"), "{said}");
}

#[test]
fn top_prints_how_an_application_stands_and_says_who_does_not_answer() {
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../monitor/tests/spark/events");
    let child = firesteel(&["--dir", logs.to_str().unwrap(), "--port", "0"]).spawn().unwrap();
    let mut server = Server(child);
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap();
    let top = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_firesteel"));
        command.arg("top").args(arguments).stdin(Stdio::null()).output().unwrap()
    };
    let ended = top(&[address, "--app", "local-1422981780767", "--once"]);
    let said = String::from_utf8(ended.stdout).unwrap();
    assert!(ended.status.success() && said.contains("local-1422981780767"), "{said}");
    let ended = top(&[address, "--app", "local-1422981780767"]);
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(!ended.status.success() && said.contains("--once"), "{said}");
    drop(server);
    let ended = top(&[address, "--once"]);
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(!ended.status.success() && said.contains("does not answer"), "{said}");
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let ended = firesteel(&["--dir", "/no/such/place", "--port", "0"]).output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(!ended.status.success() && said.contains("/no/such/place"), "{said}");
}
