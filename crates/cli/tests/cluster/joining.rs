//! Who may join, and what is said to those who may not.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use firesteel_backend::Address;
use firesteel_rpc::*;
use firesteel_standalone_core::description::{WorkerDescription, WorkerState};
use firesteel_standalone_core::messages::{Stamped, ToMaster, ToWorker};
use firesteel_standalone_core::wire::{MASTER, WORKER};
use firesteel_standalone_core::{Incarnation, Term, WorkerId};
use firesteel_types::Host;
use tempfile::TempDir;

use crate::daemon::{Daemon, Master, Worker, firesteel, get, request, wait_until};

#[test]
fn workers_join_are_listed_and_one_that_is_killed_is_dead() {
    let master = Master::start(&[]);
    let (mut one, _other) = (Worker::start(&master, &[]), Worker::start(&master, &[]));
    assert_eq!(master.workers("ALIVE"), 2);
    let page = master.json();
    assert_eq!((&page["cores"], &page["memory"]), (&4.into(), &2048.into()), "{page}");
    assert_eq!(page["url"], master.url);

    one.daemon.kill();
    wait_until("a dead worker", || master.workers("DEAD") == 1);
    assert_eq!(master.workers("ALIVE"), 1);
    master.daemon.wait_for_stderr("declared worker dead");
}

#[test]
fn pages_are_for_looking_at_and_strange_requests_are_refused() {
    let master = Master::start(&[]);
    let worker = Worker::start(&master, &[]);
    let (status, html) = get(&master.page, "/");
    assert!(status.contains("200") && html.contains(&master.url), "{status} {html}");
    assert_eq!(get(&master.page, "/json").1, get(&master.page, "/json/").1);
    assert!(get(&worker.page, "/json/").1.contains(&master.url));
    assert!(get(&worker.page, "/").1.contains(&master.url));
    let post = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
    for (text, code) in [
        ("GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
        (post, "405"),
        ("garbage\r\n\r\n", "400"),
        (&format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(100_000)), "431"),
    ] {
        let (status, _) = request(&master.page, text);
        assert!(status.contains(code), "{status}");
    }
    assert_eq!(master.workers("ALIVE"), 1, "it still answers");
}

pub(crate) fn secret(directory: &TempDir, name: &str) -> PathBuf {
    let path = directory.path().join(name);
    std::fs::write(&path, format!("the secret of {name}, which is long enough")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

fn with_secret(path: &std::path::Path) -> Vec<String> {
    let file = format!("spark.authenticate.secret.file={}", path.display());
    ["--host", "127.0.0.1", "--conf", "spark.authenticate=true", "--conf", &file]
        .map(str::to_owned)
        .to_vec()
}

fn texts(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

#[test]
fn a_worker_without_the_secret_or_with_another_is_refused_and_both_sides_say_so() {
    let directory = tempfile::tempdir().unwrap();
    let (ours, theirs) = (secret(&directory, "ours"), secret(&directory, "theirs"));
    let (ours, theirs) = (with_secret(&ours), with_secret(&theirs));
    let work = directory.path().join("work");
    let open: Vec<String> = Vec::new();
    for (server, dialler) in [(&ours, &theirs), (&ours, &open), (&open, &ours)] {
        let master = Master::start(&texts(server));
        let mut worker = Daemon::start(Worker::command(&master.url, &work, &texts(dialler)));
        assert_eq!(worker.end().code(), Some(1), "waiting does not help");
        worker.wait_for_stderr("firesteel worker: 127.0.0.1");
        worker.wait_for_stderr("secret");
        worker.wait_for_stderr("spark.authenticate");
        master.daemon.wait_for_stderr("a connection was refused");
        assert_eq!((worker.stdout().as_str(), master.workers("ALIVE")), ("", 0));
    }
    let master = Master::start(&texts(&ours));
    Worker::start(&master, &texts(&ours));
}

#[test]
fn a_port_that_others_reach_needs_a_secret_or_a_deliberate_flag() {
    for command in [&["master"][..], &["worker", "spark://127.0.0.1:1"]] {
        let mut refused = firesteel(command);
        refused.args(["--host", "0.0.0.0", "--webui-port", "0", "--port", "0"]);
        refused.args(["--conf", "spark.authenticate=false"]);
        let output = refused.output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(error.contains("openssl rand -hex 32") && error.contains("--insecure"), "{error}");
    }
    let master = Master::start(&["--host", "0.0.0.0", "--insecure"]);
    assert!(!master.url.contains("0.0.0.0"), "others are told a name: {}", master.url);
}

#[test]
fn a_port_that_is_taken_is_skipped_up_to_a_limit() {
    let first = Master::start(&[]);
    let port: u16 = first.port().parse().unwrap();
    let second = Master::start_at(first.port(), &[]);
    let next: u16 = second.port().parse().unwrap();
    assert!((port + 1..=port + 16).contains(&next), "{port} {next}");

    let mut third = firesteel(&["master", "--port", first.port(), "--webui-port", "0"]);
    third.args(["--conf", "spark.port.maxRetries=0"]);
    let output = third.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && error.contains("choose another port"), "{error}");
}

#[test]
fn what_cannot_be_meant_is_refused_with_what_to_write() {
    for (arguments, needle) in [
        (&["master", "--prot", "1"][..], "--port"),
        (&["master", "extra"], "extra"),
        (&["master", "--port", "70777"], "70777"),
        (&["master", "--conf", "spark.worker.timeout=soon"], "spark.worker.timeout"),
        (&["master", "--conf", "nonsense"], "key=value"),
        (&["master", "--properties-file", "/nowhere/at/all"], "/nowhere/at/all"),
        (&["worker"], "MASTER"),
        (&["worker", "yarn"], "spark://host:port"),
        (&["worker", "local[2]"], "spark://host:7077"),
        (&["worker", "spark://h"], "spark://host:port"),
        (&["worker", "spark://h:1", "--memory", "lots"], "--memory 4g"),
        (&["worker", "spark://h:1", "--cores", "0"], "--cores 1"),
        (&["worker", "spark://h:1", "--work-dir", "/proc/nowhere"], "--work-dir"),
        (
            &["master", "--conf", "spark.deploy.recoveryMode=ZOOKEEPER"],
            "spark.deploy.zookeeper.url",
        ),
        (
            &["master", "--conf", "spark.deploy.recoveryMode=FILESYSTEM"],
            "spark.deploy.recoveryDirectory",
        ),
        (&["master", "--conf", "spark.deploy.recoveryMode=SOMEWHERE"], "spark.deploy.recoveryMode"),
        (
            &["master", "--conf", "spark.master.rest.filters=a.Filter"],
            "org.apache.spark.ui.JWSFilter",
        ),
        (&["master", "--conf", "spark.ssl.standalone.enabled=true"], "standalone.enabled=false"),
        (
            &["worker", "spark://h:1", "--conf", "spark.ssl.standalone.enabled=true"],
            "standalone.enabled=false",
        ),
        (
            &["worker", "spark://h:1", "--conf", "spark.io.encryption.enabled=true"],
            "not encrypted here",
        ),
        (&["werker"], "worker"),
    ] {
        let output = firesteel(arguments).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(needle), "{arguments:?}: {error}");
    }
    let mut bad = firesteel(&["master", "--webui-port", "0"]);
    let output = bad.env("SPARK_MASTER_PORT", "x").output().unwrap();
    assert!(String::from_utf8(output.stderr).unwrap().contains("SPARK_MASTER_PORT"));
}

#[test]
fn settings_without_effect_and_old_names_are_in_the_log() {
    let master = Master::start(&[
        "--conf",
        "spark.deploy.recoveryMode=NONE",
        "--conf",
        "spark.deploy.spreadOut=false",
        "--conf",
        "spark.deploy.maxDrivers=3",
        "--conf",
        "spark.ui.liveUpdate.period=1s",
    ]);
    let log = master.daemon.stderr();
    let lines = |part: &str| log.lines().filter(|line| line.contains(part)).count();
    let no_effect = "spark.deploy.maxDrivers and spark.ui.liveUpdate.period have no effect here";
    assert_eq!((lines(no_effect), lines("no effect")), (1, 1), "{log}");
    let old_name =
        "spark.deploy.spreadOut (from --conf) is an old name of spark.deploy.spreadOutApps";
    assert_eq!(lines(old_name), 1, "{log}");
}

#[test]
fn variables_say_what_flags_do_not() {
    let mut command = firesteel(&["master", "--webui-port", "0"]);
    command.env("SPARK_MASTER_PORT", "0").env("SPARK_MASTER_HOST", "127.0.0.2");
    let master = Daemon::start(command);
    wait_until("a master", || master.stdout().contains("spark://127.0.0.2:"));
    assert!(!master.stdout().contains(":7077"));
}

#[test]
fn what_is_bound_and_the_name_for_others_are_two_things() {
    let mut command = firesteel(&["master", "--host", "localhost", "--webui-port", "0"]);
    command.env("SPARK_MASTER_PORT", "0").env("SPARK_LOCAL_IP", "127.0.0.3");
    let master = Daemon::start(command);
    wait_until("a master", || master.stdout().contains("spark://localhost:"));
    let said = master.stdout();
    let port = said.split("spark://localhost:").nth(1).unwrap();
    let port: String = port.chars().take_while(char::is_ascii_digit).collect();
    let reached = |host: &str| std::net::TcpStream::connect(format!("{host}:{port}")).is_ok();
    assert!(reached("127.0.0.3") && !reached("127.0.0.1"), "{said}");
}

/// A worker's endpoint that keeps why it was refused.
struct Claimant(tokio::sync::mpsc::UnboundedSender<(String, bool)>);

impl Endpoint for Claimant {
    type Message = Stamped<ToWorker>;

    async fn receive(
        &mut self,
        stamped: Stamped<ToWorker>,
        _: Caller<()>,
        _: &Context<Stamped<ToWorker>>,
    ) -> Result<(), HandlerError> {
        if let ToWorker::RegisterWorkerFailed { reason, retry, .. } = stamped.message {
            self.0.send((reason, retry))?;
        }
        Ok(())
    }
}

#[test]
fn a_name_or_an_address_that_is_taken_is_refused_and_its_owner_stays() {
    let master = Master::start(&[]);
    let _worker = Worker::start(&master, &[]);
    let page = master.json();
    let taken = &page["workers"][0];
    let port = taken["port"].as_u64().unwrap() as u16;
    let address = Address { host: Host::new("127.0.0.1"), port };
    let id = taken["id"].as_str().unwrap();
    let elsewhere = Address { host: Host::new("h"), port: 1 };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (id, address, needle, may_retry) in [
        (id, elsewhere, "is taken by another worker", false),
        ("worker-new", address, "is still taken by", true),
    ] {
        let worker = WorkerDescription {
            id: WorkerId::new(id),
            incarnation: Incarnation(1),
            address,
            web_ui: String::new(),
            cores: 1,
            memory_mb: 1,
        };
        let state = WorkerState { number: 1, ..WorkerState::default() };
        let message = ToMaster::RegisterWorker { worker, state, newest: Term(0) };
        let (reason, retry) = runtime.block_on(claim(&master.url, message));
        assert!(reason.contains(needle) && retry == may_retry, "{reason}");
    }
    assert_eq!(master.workers("ALIVE"), 1);
    master.daemon.wait_for_stderr("refused a worker");
}

async fn claim(master: &str, message: ToMaster) -> (String, bool) {
    let env = RpcEnv::client(RpcOptions::default());
    let (sender, mut refusals) = tokio::sync::mpsc::unbounded_channel();
    env.register(WORKER, Claimant(sender)).unwrap();
    let address: RpcAddress = master.parse().unwrap();
    let to = env.endpoint_ref(&address.endpoint(MASTER)).unwrap();
    to.send(message).await.unwrap();
    let limit = std::time::Duration::from_secs(30);
    let refusal = tokio::time::timeout(limit, refusals.recv()).await.unwrap().unwrap();
    env.shutdown().await;
    refusal
}
