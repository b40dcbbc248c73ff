//! What executors and drivers print: on the worker's port, and with `firesteel logs`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::application::{Application, script, variables};
use crate::daemon::{Daemon, Master, Worker, file, firesteel, get, wait_for, wait_until};
use crate::rest::submit;

/// Prints on both streams, tells its log URLs, and prints more when there is a file `go`.
const TALKING: &str = "env | grep SPARK_LOG_URL > new; mv new urls; echo printed; echo 'trouble <b>' >&2; \
                       while [ ! -e go ]; do sleep 0.05; done; echo more >&2; exec sleep 1000";

/// The line that begins the answer, and the rest.
fn log(worker: &Worker, query: &str) -> (String, String) {
    let (status, body) = get(&worker.page, &format!("/log?{query}"));
    assert!(status.contains("200"), "{status} {body}");
    let (head, text) = body.split_once('\n').unwrap();
    (head.to_owned(), text.to_owned())
}

/// The server of a history that knows an application with one executor whose logs are there.
fn history(app: &str, urls: &[(&str, &str)]) -> (Daemon, String, TempDir) {
    history_with(app, urls, &[])
}

fn history_with(app: &str, urls: &[(&str, &str)], flags: &[&str]) -> (Daemon, String, TempDir) {
    history_of(app, &[urls], flags)
}

/// The same, of as many executors as there are lists.
fn history_of(
    app: &str,
    executors: &[&[(&str, &str)]],
    flags: &[&str],
) -> (Daemon, String, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let mut lines = vec![
        serde_json::json!({"Event": "SparkListenerLogStart", "Spark Version": "4"}),
        serde_json::json!({"Event": "SparkListenerApplicationStart", "App Name": "n", "App ID": app, "Timestamp": 5, "User": "u"}),
    ];
    for (id, urls) in executors.iter().enumerate() {
        let urls: serde_json::Map<_, _> =
            urls.iter().map(|(name, url)| ((*name).to_owned(), (*url).into())).collect();
        lines.push(serde_json::json!({"Event": "SparkListenerExecutorAdded", "Timestamp": 6, "Executor ID": id.to_string(),
            "Executor Info": {"Host": "h", "Total Cores": 1, "Log Urls": urls}}));
    }
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(directory.path().join(app), text).unwrap();
    let mut command = firesteel(&["history", "--port", "0", "--dir"]);
    command.arg(directory.path()).args(flags);
    let daemon = Daemon::start(command);
    let url = wait_for("the history server", || {
        let said = daemon.stdout();
        let url = said.split("firesteel history: ").nth(1)?.split("/ of").next()?;
        Some(url.to_owned())
    });
    (daemon, url, directory)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn an_executors_output_is_read_at_its_worker_and_nothing_else_is() {
    let master = Master::start(&[]);
    let worker = Worker::start(&master, &[]);
    let application = Application::register(&master, script(TALKING));
    let app = application.id();
    let directory = worker.directory(&app, 0);
    let urls = file(&directory.join("urls"));
    let query = format!("appId={app}&executorId=0&logType=stderr");
    let url = format!("http://{}/logPage/?{query}", worker.page);
    assert_eq!(variables(&urls)["SPARK_LOG_URL_STDERR"], url);
    wait_until("the trouble", || log(&worker, &query).1.contains("trouble <b>\n"));
    let (head, text) = log(&worker, &query);
    assert!(
        head.starts_with("==== Bytes 0-") && head.ends_with(&format!("of {app}/0/stderr ====")),
        "{head}"
    );
    assert!(text.starts_with("Spark Executor Command: \"/bin/sh\" \"-c\" \"env | grep"), "{text}");
    assert!(text.contains(&format!("\n{}\n\n", "=".repeat(40))), "{text}");
    let (head, text) = log(&worker, &format!("{query}&offset=6&byteLength=8"));
    assert!(head.contains("Bytes 6-14 of") && text == "Executor", "{head} {text}");
    assert_eq!(log(&worker, &query.replace("stderr", "stdout")).1, "printed\n");

    let (status, page) = get(&worker.page, &format!("/logPage/?{query}&byteLength=100"));
    assert!(
        status.contains("200") && page.contains("&lt;b&gt;") && !page.contains("<b>"),
        "{page}"
    );
    assert!(page.contains("offset=0") && page.contains("byteLength=100"), "{page}");
    let (_, overview) = get(&worker.page, "/");
    assert!(
        overview.contains(&format!("/logPage/?appId={app}&amp;executorId=0&amp;logType=stdout")),
        "{overview}"
    );

    symlink("/etc/passwd", directory.join("link")).unwrap();
    fs::write(worker.directory(&app, 0).join("../../stderr"), "not of a process").unwrap();
    let refused = |query: &str| {
        let (status, body) = get(&worker.page, &format!("/log?{query}"));
        assert!(status.contains("400") || status.contains("404"), "{query}: {status} {body}");
        assert!(!body.contains("root:") && !body.contains("not of a process"), "{query}: {body}");
    };
    for query in [
        "",
        "logType=stderr",
        "driverId=..&logType=stderr",
        "driverId=%2e%2e&logType=stderr",
        "driverId=.&logType=stderr",
        "driverId=%2fetc&logType=stderr",
        "driverId=driver-7&logType=stderr",
        &format!("appId={app}&executorId=..&logType=stderr"),
        &format!("appId={app}&executorId=0%2f..%2f..&logType=stderr"),
        &format!("appId={app}&executorId=0&logType=link"),
        &format!("appId={app}&executorId=0&logType=..%2f0%2fstderr"),
        &format!("appId={app}&executorId=9&logType=stderr"),
        &format!("{query}&offset=x"),
    ] {
        refused(query);
    }
    let (head, text) =
        log(&worker, &format!("{query}&offset=99999999999999999999&byteLength=99999999999"));
    assert!(text.is_empty() && head.starts_with("==== Bytes"), "{head} {text}");
}

#[test]
fn an_executors_output_is_read_through_the_master_where_only_that_is_reached() {
    let proxy = ["--conf", "spark.ui.reverseProxy=true"];
    let master = Master::start(&proxy);
    let worker = Worker::start(&master, &proxy);
    let application = Application::register(&master, script(TALKING));
    let app = application.id();
    let urls = file(&worker.directory(&app, 0).join("urls"));
    let path = variables(&urls)["SPARK_LOG_URL_STDERR"].to_owned();
    let behind = format!("/logPage/?appId={app}&executorId=0&logType=stderr");
    let base = path.strip_suffix(&behind).unwrap_or_else(|| panic!("{path}"));
    assert!(base.starts_with("/proxy/worker-"), "{base}");
    wait_until("the trouble", || get(&master.page, &path).1.contains("trouble &lt;b&gt;"));
    let (_, page) = get(&master.page, &path);
    assert!(page.contains(&format!("href=\"{base}/logPage/?appId={app}")), "{page}");
    let (_, overview) = get(&master.page, "/");
    assert!(overview.contains(&format!("href=\"{base}/\"")), "{overview}");
    let (_, own) = get(&master.page, &format!("{base}/"));
    assert!(own.contains("Firesteel worker") && own.contains(&format!("\"{base}/")), "{own}");
    let (status, why) = get(&master.page, &format!("/proxy/{app}/"));
    assert!(status.contains("404") && why.contains("spark.ui.reverseProxy=true"), "{why}");
}

#[test]
fn the_master_takes_the_proof_of_readers_to_its_workers_and_what_is_gone_is_named() {
    let home = tempfile::tempdir().unwrap();
    let of_user = |arguments: &[&str]| {
        let mut command = firesteel(arguments);
        command.env("XDG_CONFIG_HOME", home.path());
        command
    };
    let proxy = ["--conf", "spark.ui.reverseProxy=true"];
    let authenticates = ["--conf", "spark.firesteel.worker.logs.authenticate=true"];
    let master = of_user(&["master", "--port", "0", proxy[0], proxy[1]]);
    let master = Master::start_with(master, &[]);
    let work = tempfile::tempdir().unwrap();
    let mut command =
        of_user(&["worker", &master.url, "--webui-port", "0", "--cores", "2", "--memory", "1g"]);
    command.args(proxy).args(authenticates).arg("--work-dir").arg(work.path());
    let worker = Worker::start_with(command, work);
    let own = worker.directory("app-1", 0);
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("stderr"), "for few eyes\n").unwrap();
    let id = wait_for("the worker at the master", || {
        let state: serde_json::Value = serde_json::from_str(&get(&master.page, "/json/").1).ok()?;
        state["workers"][0]["id"].as_str().map(str::to_owned)
    });
    let url = format!(
        "http://{}/proxy/{id}/logPage/?appId=app-1&executorId=0&logType=stderr",
        master.page
    );
    // The first executor is on a machine that is gone, the second below a master that the history does not name.
    let gone = "http://127.0.0.1:9/logPage/?appId=a&executorId=0&logType=stderr";
    let below = "/proxy/worker-1/logPage/?appId=app-1&executorId=0&logType=stderr";
    let all = [gone, below, &url].map(|url| [("stderr", url)]);
    let (_history, history, _logs) = history_of("app-1", &[&all[0], &all[1], &all[2]], &[]);
    let output = of_user(&["logs", "app-1", "--url", &history]).output().unwrap();
    let text = said(&output);
    assert!(text.contains("==> executor 2 <==\nfor few eyes\n"), "{text}");
    assert!(text.contains("==> executor 0 <== cannot be read: "), "{text}");
    assert!(text.contains("==> executor 1 <== cannot be read: executor 1: HTTP 404"), "{text}");
    assert!(text.contains("below the pages of a master") && !output.status.success(), "{text}");
    let alone = of_user(&["logs", "app-1", "2", "--url", &history]).output().unwrap();
    assert_eq!(said(&alone), "for few eyes\n");
    assert!(alone.status.success());
    // Who proves something else is nobody, also as the master's user.
    let mut stranger = firesteel(&["logs", "app-1", "2", "--url", &history]);
    stranger.args(["--conf", "spark.authenticate=true", "--conf"]);
    stranger.arg("spark.authenticate.secret=of another cluster, and long enough");
    let stranger = stranger.output().unwrap();
    assert!(!said(&stranger).contains("few eyes"), "{}", said(&stranger));
    assert!(said(&stranger).contains("spark.authenticate"), "{}", said(&stranger));
    // Where nothing can be printed, no stream is to blame.
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = of_user(&["logs", "app-1", "--url", &history]);
    let output = command.stdout(full).stderr(std::process::Stdio::piped()).output().unwrap();
    let text = said(&output);
    assert!(!output.status.success() && !text.contains("executor 2"), "{text}");
}

#[test]
fn logs_of_executors_and_drivers_are_printed_and_followed() {
    let master = Master::start(&[]);
    let worker = Worker::start(&master, &[]);
    let application = Application::register(&master, script(TALKING));
    let (app, page) = (application.id(), worker.page.clone());
    let directory = worker.directory(&app, 0);
    file(&directory.join("urls"));
    let url =
        |stream: &str| format!("http://{page}/logPage/?appId={app}&executorId=0&logType={stream}");
    let (_history, history, _logs) =
        history(&app, &[("stdout", &url("stdout")), ("stderr", &url("stderr"))]);
    let logs = |more: &[&str]| {
        let mut command = firesteel(&["logs", "--url", &history]);
        command.args(more).output().unwrap()
    };
    wait_until("what it printed", || {
        said(&logs(&[&app, "0", "--stream", "stdout"])) == "printed\n"
    });
    wait_until("its trouble", || said(&logs(&[&app])).ends_with("trouble <b>\n"));
    assert!(
        said(&logs(&[&app, "--bytes", "4"])).ends_with("<b>\n")
            && said(&logs(&[&app, "--bytes", "4"])).len() == 4
    );
    assert_eq!(said(&logs(&[&app, "--urls"])), format!("executor 0\t{}\n", url("stderr")));
    let refused = logs(&[&app, "7"]);
    assert!(
        !refused.status.success() && said(&refused).contains("no executor 7"),
        "{}",
        said(&refused)
    );
    assert!(said(&logs(&["app-none"])).contains("knows the application app-none"));
    assert!(said(&logs(&["a/../b"])).contains("is no id of an application"));

    let following = firesteel(&["logs", "--url", &history, &app, "0", "-f"]);
    let mut following = Daemon::start(following);
    wait_until("the trouble", || following.stdout().ends_with("trouble <b>\n"));
    fs::write(directory.join("go"), "").unwrap();
    wait_until("more", || following.stdout().ends_with("trouble <b>\nmore\n"));
    assert!(following.terminate().success());

    let driver = submit(&master, "echo said; echo wrong >&2; exec sleep 1000");
    let of_driver = |stream: &str| {
        let mut command: Command = firesteel(&["logs", &driver, "--stream", stream, "--url"]);
        said(&command.arg(format!("http://{}", master.page)).output().unwrap())
    };
    wait_until("what the driver says", || of_driver("stdout") == "said\n");
    wait_until("what goes wrong there", || {
        let said = of_driver("stderr");
        said.starts_with("Launch Command: \"/bin/sh\"") && said.ends_with("\n\nwrong\n")
    });
}

#[test]
fn readers_prove_that_they_have_the_secret_where_that_is_asked_for() {
    let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let of_user = |home: &Path, arguments: &[&str]| {
        let mut command = firesteel(arguments);
        command.env("XDG_CONFIG_HOME", home);
        command
    };
    let master = Master::start_with(of_user(home.path(), &["master", "--port", "0"]), &[]);
    let work = tempfile::tempdir().unwrap();
    let mut command =
        of_user(home.path(), &["worker", &master.url, "--webui-port", "0", "--cores", "2"]);
    command.args([
        "--memory",
        "1g",
        "--conf",
        "spark.firesteel.worker.logs.authenticate=true",
        "--work-dir",
    ]);
    command.arg(work.path());
    let worker = Worker::start_with(command, work);
    let own = worker.directory("app-1", 0);
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("stderr"), "for few eyes\n").unwrap();
    let query = "appId=app-1&executorId=0&logType=stderr";
    for path in ["/log", "/logPage/"] {
        let (status, body) = get(&worker.page, &format!("{path}?{query}"));
        assert!(status.contains("401") && body.contains("firesteel logs"), "{status} {body}");
        assert!(!body.contains("few eyes"));
    }
    let url = format!("http://{}/logPage/?{query}", worker.page);
    let (_history, history, _logs) = history("app-1", &[("stderr", &url)]);
    let read =
        |home: &Path| said(&of_user(home, &["logs", "app-1", "--url", &history]).output().unwrap());
    assert_eq!(read(home.path()), "for few eyes\n");
    assert!(read(other.path()).contains("spark.authenticate"), "{}", read(other.path()));
}

#[test]
fn a_server_that_wants_to_know_who_asks_is_told_by_logs_and_top() {
    let key = "VmlzaXQgaHR0cHM6Ly9zcGFyay5hcGFjaGUub3JnIHRvIGRvd25sb2FkIEFwYWNoZSBTcGFyay4=";
    let key = format!("spark.org.apache.spark.ui.JWSFilter.param.secretKey={key}");
    let filter = ["--conf", "spark.ui.filters=org.apache.spark.ui.JWSFilter", "--conf", &key];
    let streams = [("stderr", "http://127.0.0.1:9/logPage/")];
    let (_history, url, _logs) = history_with("app-1", &streams, &filter);
    let own = tempfile::tempdir().unwrap();
    let token = own.path().join("token");
    fs::write(&token, "a.b.c").unwrap();
    let of_file = ["--token-file", token.to_str().unwrap()];
    for (command, wanted) in [
        (&["logs", "app-1", "--urls", "--url", &url][..], "executor 0\t"),
        (&["top", &url, "--app", "app-1", "--once"][..], "n  app-1"),
    ] {
        let run = |more: &[&str]| said(&firesteel(command).args(more).output().unwrap());
        for more in [&[][..], &of_file[..]] {
            let refused = run(more);
            assert!(refused.contains("403") && !refused.contains(wanted), "{refused}");
            assert!(refused.contains("--token-file"), "{refused}");
        }
        assert!(run(&filter).contains(wanted), "{}", run(&filter));
    }
}
