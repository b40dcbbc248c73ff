//! `firesteel submit --deploy-mode cluster`: what is uploaded, where it runs, what is told, and how it ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use crate::daemon::{Daemon, Master, Worker, file, firesteel, is_running, wait_until};

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn submit(url: &str, arguments: &[&str]) -> Output {
    let open = ["submit", "--conf", "spark.authenticate=false", "--master", url];
    firesteel(&open).args(arguments).output().unwrap()
}

/// Has the cluster run an executable; its id.
fn run_there(url: &str, flags: &[&str], executable: &Path, arguments: &[&str]) -> String {
    let mut all = vec!["--deploy-mode", "cluster", "--driver-memory", "100m"];
    all.extend(flags);
    all.push(executable.to_str().unwrap());
    all.extend(arguments);
    let output = submit(url, &all);
    let told = text(&output.stdout);
    assert!(output.status.success(), "{told}{}", text(&output.stderr));
    assert!(told.starts_with("driver-"), "{told}");
    told.split(' ').next().unwrap().to_owned()
}

/// The exit code of `--status`, and what it says.
fn status(url: &str, driver: &str) -> (Option<i32>, String) {
    let output = submit(url, &["--status", driver]);
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

fn wait_for_state(url: &str, driver: &str, state: &str) {
    wait_until(&format!("{driver} is {state}"), || status(url, driver).1.contains(state));
}

/// A program of a shell that is nowhere but here.
fn script(directory: &TempDir, name: &str, lines: &str) -> PathBuf {
    let path = directory.path().join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{lines}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn rest_url(master: &Master) -> String {
    format!("spark://{}", master.rest)
}

#[test]
fn an_executable_and_its_files_are_uploaded_and_run_on_a_worker_by_either_gateway() {
    let master = Master::start(&[]);
    let submitted = [(rest_url(&master), "by-rest"), (master.url.clone(), "by-messages")];
    let submitted = submitted.map(|(url, name)| {
        let here = tempfile::tempdir().unwrap();
        let lines = "cat words.txt > new; echo \"$@ $FIRESTEEL_CONF\" >> new; mv new told";
        let program = script(&here, name, lines);
        let words = here.path().join("words.txt");
        std::fs::write(&words, format!("words of {name}\n")).unwrap();
        let files = words.to_str().unwrap();
        let flags = ["--files", files, "--conf", "spark.driver.host=submitter", "--name", "mine"];
        (run_there(&url, &flags, &program, &["one", "--two"]), url, name)
    });
    // What was here is gone: the worker runs what was uploaded.
    let worker = Worker::start(&master, &[]);
    for (driver, url, name) in submitted {
        wait_for_state(&url, &driver, "FINISHED");
        let told = file(&worker.driver_directory(&driver).join("told"));
        assert!(told.starts_with(&format!("words of {name}\none --two ")), "{told}");
        assert!(told.contains("spark.files=words.txt"), "{told}");
        assert!(told.contains("spark.app.name=mine") && told.contains(master.port()), "{told}");
        assert!(!told.contains("submitter"), "{told}");
    }
}

/// A web server that has these files, for so many requests.
pub(crate) fn web(files: [(&'static str, &'static str); 2], requests: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for _ in 0..requests {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = BufReader::new(stream.try_clone().unwrap());
            let (mut first, mut line) = (String::new(), String::new());
            asked.read_line(&mut first).unwrap();
            while asked.read_line(&mut line).unwrap() > 2 {
                line.clear();
            }
            let found = files.iter().find(|(path, _)| first.starts_with(&format!("GET {path}")));
            let (status, body) = found.map_or(("404 Not Found", ""), |(_, body)| ("200 OK", *body));
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}");
            let answer = format!("{head}\r\nConnection: close\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    url
}

#[test]
fn an_executable_and_a_file_behind_urls_are_fetched_by_submit_and_run_on_a_worker() {
    let master = Master::start(&[]);
    let worker = Worker::start(&master, &[]);
    let script = "#!/bin/sh\ncat words.txt > told; echo \"$FIRESTEEL_CONF\" >> told\n";
    let web = web([("/app", script), ("/words.txt", "of the web\n")], 3);
    let url = rest_url(&master);
    let files = format!("{web}/words.txt?token=hush");
    let app = format!("{web}/app");
    let driver = run_there(&url, &["--files", &files], Path::new(&app), &[]);
    wait_for_state(&url, &driver, "FINISHED");
    let told = file(&worker.driver_directory(&driver).join("told"));
    assert!(told.starts_with("of the web\n") && told.contains("spark.files=words.txt"), "{told}");
    assert!(!told.contains("hush"), "{told}");
    let none = format!("{web}/none?token=hush");
    let refused = submit(&url, &["--deploy-mode", "cluster", &none]);
    let error = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{error}");
    let answer = format!("could not fetch {web}/none: the server answers 404 (Not Found)");
    assert!(error.contains(&answer) && !error.contains("hush"), "{error}");
    let here = text(&submit(&url, &[app.as_str()]).stderr);
    assert!(here.contains("is elsewhere, and this driver runs here: copy it here"), "{here}");
}

/// The leader may die as soon as it has taken a driver, and `submit` may be ended: then another master has to have what it needs.
#[test]
fn a_driver_is_created_only_after_every_master_was_offered_what_it_needs() {
    let (master, here) = (Master::start(&[]), tempfile::tempdir().unwrap());
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    other.set_nonblocking(true).unwrap();
    let url = format!("{},{}", rest_url(&master), other.local_addr().unwrap());
    let app = script(&here, "app", "exit 0");
    let mut command = firesteel(&["submit", "--conf", "spark.authenticate=false", "--master"]);
    command.args([&*url, "--deploy-mode", "cluster", "--driver-memory", "100m"]).arg(app);
    let mut submit = Daemon::start(command);
    let mut offered = None;
    wait_until("an offer", || {
        offered = offered.take().or_else(|| other.accept().ok());
        offered.is_some()
    });
    let drivers = || master.json()["activedrivers"].as_array().unwrap().len();
    assert_eq!(drivers(), 0, "the other master has no copy yet");
    drop((offered, other));
    assert!(submit.end().success(), "{}", submit.stderr());
    assert!(submit.stderr().contains("has no copy of what was uploaded"), "{}", submit.stderr());
    assert_eq!(drivers(), 1);
}

#[test]
fn an_address_without_a_rest_server_is_told_in_a_warning_and_nobody_there_in_an_error() {
    let master = Master::start(&[]);
    let output = submit(&master.url, &["--status", "driver-1"]);
    let told = text(&output.stderr);
    assert!(told.contains("is not a REST server: falling back to the RPC gateway"), "{told}");
    assert!(told.contains("knows no driver driver-1") && output.status.code() == Some(1), "{told}");
    let quiet = ["--conf", "spark.master.rest.enabled=false", "--status", "driver-1"];
    let told = text(&submit(&master.url, &quiet).stderr);
    assert!(!told.contains("falling back") && told.contains("knows no driver"), "{told}");
    let url = master.url.clone();
    drop(master);
    let told = text(&submit(&url, &["--status", "driver-1"]).stderr);
    assert!(
        told.contains("no master takes the request") && told.contains("cannot be reached"),
        "{told}"
    );
}

#[test]
fn status_and_kill_print_an_answer_and_set_the_exit_code() {
    let master = Master::start(&[]);
    let url = rest_url(&master);
    let waiting =
        run_there(&url, &["--driver-cores", "2"], Path::new("local:///bin/sleep"), &["1000"]);
    assert_eq!(status(&url, &waiting), (Some(0), format!("{waiting} SUBMITTED\n")));
    let _worker = Worker::start(&master, &[]);
    wait_for_state(&url, &waiting, "RUNNING on worker-");
    let second = run_there(&url, &[], Path::new("local:/bin/true"), &[]);
    assert!(status(&url, &second).1.contains("SUBMITTED"), "the first one has both cores");
    let killed = submit(&url, &["--kill", &waiting]);
    assert!(killed.status.success() && text(&killed.stdout).contains("submitted"), "{killed:?}");
    wait_for_state(&url, &waiting, "KILLED");
    assert_eq!(status(&url, &waiting).0, Some(1), "it ended without success");
    let again = submit(&url, &["--kill", &waiting]);
    assert!(text(&again.stderr).contains("has already finished or does not exist"), "{again:?}");
    assert_eq!(again.status.code(), Some(1));
    wait_for_state(&url, &second, "FINISHED");
    assert_eq!(status(&url, &second).0, Some(0));
    let (code, told) = status(&url, "../../x");
    assert!(code == Some(1) && told.contains("is no driver's id"), "{told}");
}

#[test]
fn the_status_of_a_driver_that_failed_says_why_by_either_gateway() {
    let master = Master::start(&[]);
    let url = rest_url(&master);
    let drivers = [
        ("local:///bin/false", "FAILED", "its process ended with exit code 1"),
        ("local:///nowhere/at/all", "ERROR", "its process could not be started: "),
    ];
    let drivers = drivers.map(|(program, state, reason)| {
        (run_there(&url, &[], Path::new(program), &[]), state, reason)
    });
    let large = run_there(&url, &["--driver-cores", "64"], Path::new("local:///bin/true"), &[]);
    let _worker = Worker::start(&master, &[]);
    wait_for_state(&url, &large, "no worker is large enough: it takes 64 core(s)");
    assert_eq!(status(&url, &large).0, Some(0), "it waits");
    for (driver, state, reason) in drivers {
        wait_for_state(&url, &driver, state);
        for url in [&url, &master.url] {
            let (code, told) = status(url, &driver);
            assert!(code == Some(1) && told.contains(&format!(": {reason}")), "{told}");
        }
    }
}

#[test]
fn a_submit_that_waits_ends_as_its_driver_does() {
    let master = Master::start(&[]);
    let _worker = Worker::start(&master, &[]);
    let wait = "spark.standalone.submit.waitAppCompletion=true";
    let cluster = ["--deploy-mode", "cluster", "--driver-memory", "100m", "--conf", wait];
    for (program, code, last) in
        [("local:/bin/true", Some(0), "FINISHED"), ("local:/bin/false", Some(1), "FAILED")]
    {
        let mut arguments = cluster.to_vec();
        arguments.push(program);
        let output = submit(&rest_url(&master), &arguments);
        let told = text(&output.stdout);
        assert_eq!(output.status.code(), code, "{told}");
        assert!(told.lines().last().unwrap().contains(last), "{told}");
    }
}

#[test]
fn a_supervised_driver_that_fails_is_started_again_and_one_that_is_not_is_failed() {
    let (master, here) = (Master::start(&[]), tempfile::tempdir().unwrap());
    let worker = Worker::start(&master, &[]);
    let url = rest_url(&master);
    let lines = "echo x >> starts; [ $(wc -l < starts) -ge 2 ] && exec sleep 1000; exit 3";
    let program = script(&here, "fails-once", lines);
    let supervised = run_there(&url, &["--supervise"], &program, &[]);
    let plain = run_there(&url, &[], &program, &[]);
    wait_for_state(&url, &plain, "FAILED");
    let starts = worker.driver_directory(&supervised).join("starts");
    wait_until("a second start", || file(&starts).lines().count() == 2);
    assert_eq!(file(&worker.driver_directory(&plain).join("starts")), "x\n");
    assert_eq!(status(&url, &supervised).0, Some(0), "it runs again");
    assert!(submit(&url, &["--kill", &supervised]).status.success());
}

/// The worker stands still, so it can neither say that it lives nor end what it runs.
#[test]
fn a_supervised_driver_is_started_elsewhere_only_when_the_one_before_it_has_ended() {
    let lease = ["--conf", "spark.firesteel.supervise.lease=4s"];
    let timeouts =
        ["--conf", "spark.worker.timeout=2s", "--conf", "spark.deploy.recoveryTimeout=1s"];
    let flags: Vec<&str> = lease.into_iter().chain(timeouts).collect();
    let (master, here) = (Master::start(&flags), tempfile::tempdir().unwrap());
    let stopped = Worker::start(&master, &[]);
    let starts = here.path().join("starts");
    let program =
        script(&here, "lives", &format!("echo $$ >> {}; exec sleep 1000", starts.display()));
    run_there(&rest_url(&master), &["--supervise"], &program, &[]);
    let pids = || -> Vec<Pid> {
        let lines = file(&starts);
        lines.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect()
    };
    wait_until("a driver", || starts.exists() && pids().len() == 1);
    let (first, other) = (pids()[0], Worker::start(&master, &[]));
    stopped.daemon.signal(Signal::STOP);
    wait_until("a dead worker", || master.workers("ALIVE") == 1);
    assert!(pids().len() == 1 || !is_running(first), "two at once");
    wait_until("another start", || pids().len() == 2);
    assert!(!is_running(first), "two at once");
    assert!(is_running(pids()[1]));
    drop(other);
    stopped.daemon.signal(Signal::CONT);
}

#[test]
fn an_upload_is_kept_by_its_hash_and_not_sent_twice() {
    let store = tempfile::tempdir().unwrap();
    let directory = store.path().join("store");
    let told = format!("spark.firesteel.master.store.dir={}", directory.display());
    let master = Master::start(&["--conf", &told]);
    let here = tempfile::tempdir().unwrap();
    let program = script(&here, "app", &format!("exit 0\n{}", "# long\n".repeat(400_000)));
    let [one, other] = [(); 2].map(|()| run_there(&rest_url(&master), &[], &program, &[]));
    assert_ne!(one, other);
    let names: Vec<_> =
        std::fs::read_dir(&directory).unwrap().map(|e| e.unwrap().file_name()).collect();
    let hash = blake3::hash(&std::fs::read(&program).unwrap()).to_hex().to_string();
    assert_eq!(names, [hash.as_str()]);
    let small = format!("{told}x");
    let full = ["--conf", &small, "--conf", "spark.firesteel.master.store.maxSize=1m"];
    let (full, program) = (Master::start(&full), program.to_str().unwrap());
    let output = submit(&rest_url(&full), &["--deploy-mode", "cluster", program]);
    let told = text(&output.stderr);
    assert!(!output.status.success() && told.contains("store.maxSize"), "{told}");
}

/// Passes connections on, but for this one, of which the other side gets so many bytes.
fn cutting(to: &str, which: usize, bytes: u64) -> (String, JoinHandle<u64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, to) = (listener.local_addr().unwrap().to_string(), to.to_owned());
    let (cut, was_cut) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for (number, client) in listener.incoming().enumerate() {
            let (mut client, mut server) = (client.unwrap(), TcpStream::connect(&to).unwrap());
            let mut asked =
                client.try_clone().unwrap().take(if number == which { bytes } else { u64::MAX });
            let mut asks = server.try_clone().unwrap();
            let cut = cut.clone();
            std::thread::spawn(move || {
                let copied = std::io::copy(&mut asked, &mut asks).unwrap_or_default();
                if number == which {
                    let _ = cut.send(copied);
                    let _ = asks.shutdown(Shutdown::Both);
                }
            });
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut server, &mut client);
                let _ = client.shutdown(Shutdown::Both);
            });
        }
    });
    (address, std::thread::spawn(move || was_cut.recv().unwrap()))
}

#[test]
fn an_upload_that_is_cut_in_the_middle_goes_on_and_the_driver_runs() {
    let (master, here) = (Master::start(&[]), tempfile::tempdir().unwrap());
    let worker = Worker::start(&master, &[]);
    let program = script(
        &here,
        "app",
        &format!("echo ran > new; mv new told; exit 0\n{}", "# long\n".repeat(400_000)),
    );
    // Whether it leads, how much of it is there, and then the first piece.
    let (address, cut) = cutting(&master.rest, 2, 100_000);
    let driver = run_there(&format!("spark://{address}"), &[], &program, &[]);
    assert_eq!(cut.join().unwrap(), 100_000, "it was in the middle");
    wait_for_state(&rest_url(&master), &driver, "FINISHED");
    assert_eq!(file(&worker.driver_directory(&driver).join("told")), "ran\n");
}

#[test]
fn all_masters_of_a_cluster_get_what_is_uploaded_and_one_that_is_not_there_is_named() {
    let (stores, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let program = script(&here, "app", "exit 0");
    let hash = blake3::hash(&std::fs::read(&program).unwrap()).to_hex().to_string();
    let [one, other, gone] = ["one", "other", "gone"].map(|name| {
        let told = format!("spark.firesteel.master.store.dir={}/{name}", stores.path().display());
        Master::start(&["--conf", &told])
    });
    let at = |master: &Master| master.url.trim_start_matches("spark://").to_owned();
    let url = format!("spark://{},{},{}", at(&one), at(&other), at(&gone));
    let missing = at(&gone);
    drop(gone);
    let arguments = ["--deploy-mode", "cluster", program.to_str().unwrap()];
    let output = submit(&url, &arguments);
    let told = text(&output.stderr);
    assert!(output.status.success() && text(&output.stdout).contains("SUBMITTED"), "{told}");
    assert!(told.contains(&format!("{missing} has no copy of what was uploaded")), "{told}");
    for name in ["one", "other"] {
        assert!(stores.path().join(name).join(&hash).exists(), "{name}");
    }
}

#[test]
fn a_driver_in_a_cluster_with_a_secret_is_submitted_by_messages_and_told_the_secret_by_its_worker()
{
    let directory = tempfile::tempdir().unwrap();
    let secret = crate::joining::secret(&directory, "cluster");
    let secret = format!("spark.authenticate.secret.file={}", secret.display());
    let flags = ["--conf", "spark.authenticate=true", "--conf", &secret];
    let daemons = [&["--host", "127.0.0.1"], &flags[..]].concat();
    let master = Master::start(&daemons);
    let worker = Worker::start(&master, &daemons);
    let program = script(
        &directory,
        "app",
        "echo \"$_SPARK_AUTH_SECRET $FIRESTEEL_CONF\" > new; mv new told",
    );
    let driver = run_there(&master.url, &flags, &program, &[]);
    let told = file(&worker.driver_directory(&driver).join("told"));
    assert!(told.starts_with("the secret of cluster"), "{told}");
    assert!(told.contains("spark.authenticate=true") && !told.contains("secret.file"), "{told}");
    let without = submit(&master.url, &["--status", &driver]);
    assert!(!without.status.success(), "{without:?}");
    let file = directory.path().join("cluster");
    for (mode, warnings) in [(0o600, 0), (0o644, 1)] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let told = submit(&master.url, &[&flags[..], &["--status", driver.as_str()]].concat());
        let told = (told.status.success(), text(&told.stderr).matches("chmod 600").count());
        assert_eq!(told, (true, warnings), "{mode:o}");
    }
}
