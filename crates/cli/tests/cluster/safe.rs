//! A cluster that nobody has configured belongs to its user, and to nobody else on the machine.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::daemon::{Master, Worker, firesteel, get, request, wait_until};

/// The command of a user whose settings are in this directory.
fn of_user(home: &Path, arguments: &[&str]) -> Command {
    let mut command = firesteel(arguments);
    command.env("XDG_CONFIG_HOME", home);
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A cluster without a line of configuration.
fn cluster(home: &Path) -> (Master, Worker) {
    let master = Master::start_with(of_user(home, &["master", "--port", "0"]), &[]);
    let directory: TempDir = tempfile::tempdir().unwrap();
    let mut command = of_user(home, &["worker", &master.url, "--webui-port", "0", "--cores", "2"]);
    command.args(["--memory", "1g", "--work-dir"]).arg(directory.path());
    let worker = Worker::start_with(command, directory);
    (master, worker)
}

fn submit_true(mut command: Command, url: &str) -> Output {
    command.args(["--master", url, "--deploy-mode", "cluster", "local:/bin/true"]).output().unwrap()
}

#[test]
fn processes_of_one_user_find_the_secret_and_those_of_another_get_in_nowhere() {
    let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (master, _worker) = cluster(home.path());
    let secret = home.path().join("firesteel/secret");
    assert_eq!(std::fs::metadata(&secret).unwrap().mode() & 0o777, 0o600);
    assert!(master.url.contains("127.0.0.1"), "no other machine could join: {}", master.url);
    for url in [format!("spark://{}", master.rest), master.url.clone()] {
        let output = submit_true(of_user(home.path(), &["submit"]), &url);
        let told = said(&output);
        assert!(output.status.success() && told.contains("driver-"), "{told}");
        let driver = told.split("driver-").nth(1).unwrap().split(' ').next().unwrap();
        let driver = format!("driver-{driver}");
        wait_until("the end of the driver", || {
            let mut ask = of_user(home.path(), &["submit", "--master", &url, "--status", &driver]);
            said(&ask.output().unwrap()).contains("FINISHED")
        });
        let refused = submit_true(of_user(other.path(), &["submit"]), &url);
        assert!(
            !refused.status.success() && said(&refused).contains("spark.authenticate"),
            "{}",
            said(&refused)
        );
    }
    let (status, answer) = get(&master.rest, "/v1/submissions/readyz");
    assert!(
        status.contains("403") && answer.contains("Authorization header is missing."),
        "{status} {answer}"
    );
    let work = other.path().join("work");
    let mut stranger =
        of_user(other.path(), &["worker", &master.url, "--webui-port", "0", "--work-dir"]);
    let output = stranger.arg(&work).output().unwrap();
    assert!(!output.status.success() && said(&output).contains("secret"), "{}", said(&output));
    assert_eq!(master.workers("ALIVE"), 1);
}

#[test]
fn where_lists_of_users_count_and_no_secret_is_asked_for_nobody_ends_a_driver_by_either_gateway() {
    let master = Master::start(&["--conf", "spark.acls.enable=true"]);
    let submit = |url: &str, words: &[&str]| {
        let open = ["submit", "--conf", "spark.authenticate=false", "--master", url];
        said(&firesteel(&open).args(words).output().unwrap())
    };
    let drivers = || master.json()["activedrivers"].as_array().unwrap().len();
    for (at, url) in [format!("spark://{}", master.rest), master.url.clone()].iter().enumerate() {
        let told = submit(url, &["--deploy-mode", "cluster", "local:/bin/true"]);
        assert_eq!(drivers(), at + 1, "everybody may submit: {told}");
        let driver = told.split("driver-").nth(1).expect("it is named").split([' ', ':']).next();
        let driver = format!("driver-{}", driver.unwrap());
        for word in ["--kill", "--status"] {
            let refused = submit(url, &[word, &driver]);
            assert!(refused.contains("Only users in lists may do this"), "{refused}");
        }
        let mut decommission = firesteel(&["decommission", "--master", url]);
        decommission.args(["--conf", "spark.authenticate=false", "127.0.0.1"]);
        let refused = said(&decommission.output().unwrap());
        assert!(refused.contains("Only users in lists may do this"), "{refused}");
        assert_eq!(drivers(), at + 1, "as it was");
    }
}

#[test]
fn who_has_the_clusters_secret_ends_drivers_by_either_gateway_where_lists_of_users_count() {
    let home = tempfile::tempdir().unwrap();
    let lists = ["--conf", "spark.acls.enable=true"];
    let master = Master::start_with(of_user(home.path(), &["master", "--port", "0"]), &lists);
    for url in [format!("spark://{}", master.rest), master.url.clone()] {
        let told = said(&submit_true(of_user(home.path(), &["submit"]), &url));
        let driver = told.split("driver-").nth(1).expect("it is named").split(' ').next();
        let driver = format!("driver-{}", driver.unwrap());
        for (word, answer) in [("--status", "SUBMITTED"), ("--kill", "submitted")] {
            let mut ask = of_user(home.path(), &["submit", "--master", &url, word, &driver]);
            let output = ask.output().unwrap();
            assert!(output.status.success() && said(&output).contains(answer), "{}", said(&output));
        }
    }
}

#[test]
fn another_user_of_the_machine_can_neither_read_the_secret_nor_do_without() {
    if !rustix::process::geteuid().is_root() {
        return; // Only root can be somebody else.
    }
    let home = tempfile::tempdir().unwrap();
    let (master, _worker) = cluster(home.path());
    let public = tempfile::tempdir().unwrap();
    std::fs::set_permissions(public.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = public.path().join("firesteel");
    std::fs::copy(env!("CARGO_BIN_EXE_firesteel"), &program).unwrap();
    let rest = format!("spark://{}", master.rest);
    let mut tries = 0;
    for (settings, url) in [
        (home.path(), &rest),
        (public.path(), &rest),
        (home.path(), &master.url),
        (public.path(), &master.url),
    ] {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program);
        command
            .args(["submit", "--master", url, "--status", "driver-1"])
            .env("XDG_CONFIG_HOME", settings);
        let output = command.output().unwrap();
        let told = said(&output);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("secret") && !told.contains("knows no driver"), "{told}");
        tries += 1;
    }
    assert_eq!(tries, 4);
}

/// What another user of the machine is told over HTTP.
fn told_nobody(address: &str, asked: &str) -> String {
    let (host, port) = address.rsplit_once(':').unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "bash", "-c"]);
    let script = format!("exec 3<>/dev/tcp/{host}/{port}; printf '%b' \"$0\" >&3; cat <&3");
    let output = command.arg(script).arg(asked.replace("\r\n", "\\r\\n")).output().unwrap();
    let told = said(&output);
    assert!(told.starts_with("HTTP/1.1 "), "{told}");
    told
}

fn get_of_nobody(address: &str, path: &str) -> String {
    told_nobody(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n"))
}

#[test]
fn another_user_of_the_machine_kills_nothing_from_pages_and_reads_no_output() {
    if !rustix::process::geteuid().is_root() {
        return; // Only root can be somebody else.
    }
    let home = tempfile::tempdir().unwrap();
    let proxy = ["--conf", "spark.ui.reverseProxy=true"];
    let master = Master::start_with(of_user(home.path(), &["master", "--port", "0"]), &proxy);
    let work = tempfile::tempdir().unwrap();
    let mut command = of_user(home.path(), &["worker", &master.url, "--webui-port", "0"]);
    command.args(["--memory", "1g"]).args(proxy).arg("--work-dir").arg(work.path());
    let worker = Worker::start_with(command, work);
    wait_until("a worker", || master.workers("ALIVE") == 1);
    let (_, page) = get(&master.page, "/");
    let token = page.split("name=\"token\" value=\"").nth(1).expect("its user may decommission");
    let token = token.split('"').next().unwrap();
    assert!(!get_of_nobody(&master.page, "/").contains("name=\"token\""));
    let id = master.json()["workers"][0]["id"].as_str().unwrap().to_owned();
    let form = format!("id={id}&token={token}");
    let post = format!(
        "POST /workers/kill/ HTTP/1.1\r\nHost: {}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: {}\r\n\r\n{form}",
        master.page,
        form.len()
    );
    let refused = told_nobody(&master.page, &post);
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    assert_eq!(master.workers("ALIVE"), 1, "nobody decommissioned it");

    let own = worker.directory("app-1", 0);
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("stderr"), "for few eyes\n").unwrap();
    let log = "/log?appId=app-1&executorId=0&logType=stderr";
    for (address, path) in
        [(&worker.page, log.to_owned()), (&master.page, format!("/proxy/{id}{log}"))]
    {
        let (status, read) = get(address, &path);
        assert!(status.contains("200") && read.contains("for few eyes"), "{path}: {status} {read}");
        let refused = get_of_nobody(address, &path);
        assert!(refused.starts_with("HTTP/1.1 401"), "{path}: {refused}");
        assert!(!refused.contains("few eyes"));
    }
    let (status, _) = request(&master.page, &post);
    assert!(status.contains("303"), "its user does it: {status}");
    wait_until("it is decommissioned", || master.workers("DECOMMISSIONED") == 1);
}

#[test]
fn lists_of_users_say_who_sees_a_master_and_a_worker_and_who_decommissions() {
    const KEY: &str =
        "VmlzaXQgaHR0cHM6Ly9zcGFyay5hcGFjaGUub3JnIHRvIGRvd25sb2FkIEFwYWNoZSBTcGFyay4=";
    let key = format!("spark.org.apache.spark.ui.JWSFilter.param.secretKey={KEY}");
    let settings = [
        "spark.ui.filters=org.apache.spark.ui.JWSFilter",
        &key,
        "spark.acls.enable=true",
        "spark.ui.view.acls=vic,mod",
        "spark.modify.acls=mod",
        "spark.ui.reverseProxy=true",
    ];
    let flags: Vec<&str> = settings.iter().flat_map(|it| ["--conf", it]).collect();
    let master = Master::start(&flags);
    let worker = Worker::start(&master, &flags);
    let signed =
        |user: Option<&str>| firesteel_jws::JwsKey::from_base64url(KEY).unwrap().sign(user);
    let ask = |address: &str, head: &str, user: Option<&str>, body: &str| {
        let (token, length) = (signed(user), body.len());
        let text = format!(
            "{head} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        request(address, &text)
    };
    let seen = |user| ask(&master.page, "GET /json/", user, "").1;
    wait_until("a worker", || seen(Some("vic")).contains("\"aliveworkers\" : 1"));
    let json: serde_json::Value = serde_json::from_str(&seen(Some("vic"))).unwrap();
    let id = json["workers"][0]["id"].as_str().unwrap().to_owned();
    let behind = format!("GET /proxy/{id}/");
    for (address, path) in [
        (&master.page, "GET /"),
        (&master.page, "GET /json/"),
        (&master.page, "GET /metrics/master/json"),
        (&master.page, behind.as_str()),
        (&worker.page, "GET /"),
        (&worker.page, "GET /json/"),
        (&worker.page, "GET /log?driverId=none&logType=stdout"),
    ] {
        let told = [Some("vic"), Some("eve"), None].map(|user| ask(address, path, user, "").0);
        let found = if path.contains("/log") { "404" } else { "200" };
        let expected = [found, "403", "401"];
        let is_so = told.iter().zip(expected).all(|(told, status)| told.contains(status));
        assert!(is_so, "{path}: {told:?}");
        let (status, why) = get(address, path.trim_start_matches("GET "));
        assert!(
            status.contains("403") && why.contains("Authorization header is missing."),
            "{why}"
        );
    }
    let page = |user| ask(&master.page, "GET /", user, "").1;
    assert!(!page(Some("vic")).contains("name=\"token\""), "vic only looks");
    let with_form = page(Some("mod"));
    let token = with_form.split("name=\"token\" value=\"").nth(1).expect("a form");
    let form = format!("id={id}&token={}", token.split('"').next().unwrap());
    let decommission = |user| ask(&master.page, "POST /workers/kill/", Some(user), &form);
    let (status, why) = decommission("vic");
    assert!(status.contains("403") && why.contains("User vic is not authorized"), "{status} {why}");
    assert!(seen(Some("vic")).contains("\"aliveworkers\" : 1"));
    assert!(decommission("mod").0.contains("303"));
    wait_until("it is decommissioned", || seen(Some("vic")).contains("DECOMMISSIONED"));
}

#[test]
fn tokens_of_sparks_filter_are_taken_and_others_are_not() {
    const KEY: &str = "spark.org.apache.spark.ui.JWSFilter.param.secretKey=VmlzaXQgaHR0cHM6Ly9zcGFyay5hcGFjaGUub3JnIHRvIGRvd25sb2FkIEFwYWNoZSBTcGFyay4=";
    /// Made for that key by another program.
    const TOKEN: &str =
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.e30.4EKWlOkobpaAPR0J4BE0cPQ-ZD1tRQKLZp1vtE7upPw";
    let filter =
        ["--conf", "spark.master.rest.filters=org.apache.spark.ui.JWSFilter", "--conf", KEY];
    let flags =
        [&["--conf", "spark.firesteel.master.rest.authenticate=true"], &filter[..]].concat();
    let master = Master::start(&flags);
    let ask = |token: &str| {
        let (host, path) = (&master.rest, "/v1/submissions/readyz");
        request(
            host,
            &format!(
                "GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n"
            ),
        )
    };
    assert!(ask(TOKEN).0.contains("200"));
    let (status, answer) = ask(&TOKEN.replace("e30", "e31"));
    assert!(status.contains("403") && answer.contains("JWT Validate Fail"), "{status} {answer}");
    let url = format!("spark://{}", master.rest);
    let mut with = firesteel(&["submit", "--master", &url, "--status", "driver-1"]);
    assert!(said(&with.args(filter).output().unwrap()).contains("knows no driver"));
    let mut without = firesteel(&["submit", "--master", &url, "--status", "driver-1"]);
    assert!(said(&without.output().unwrap()).contains("spark.master.rest.filters"));
}

#[test]
fn a_rest_server_for_everybody_has_to_be_asked_for_in_so_many_words() {
    let flags = [
        "--port",
        "0",
        "--conf",
        "spark.authenticate=false",
        "--conf",
        "spark.master.rest.enabled=true",
    ];
    let output = firesteel(&["master"]).args(flags).output().unwrap();
    let told = said(&output);
    assert!(
        !output.status.success() && told.contains("spark.firesteel.master.rest.authenticate=false"),
        "{told}"
    );
    let without = Master::start_with(firesteel(&["master", "--port", "0"]), &flags[2..4]);
    assert_eq!(without.rest, "", "there is no secret, and nobody asked for it");
}

#[test]
fn pages_and_submissions_are_not_for_other_names_or_the_pages_of_others() {
    let master = Master::start(&[]);
    let worker = Worker::start(&master, &[]);
    for address in [&master.page, &master.rest, &worker.page] {
        for headers in [
            "Host: evil.org",
            "Host: 127.0.0.1.evil.org:8080",
            "Host: localhost\r\nOrigin: http://evil.org",
        ] {
            let (status, _) = request(address, &format!("GET / HTTP/1.1\r\n{headers}\r\n\r\n"));
            assert!(status.contains("421"), "{headers}: {status}");
        }
    }
    let named = Master::start(&["--conf", "spark.firesteel.http.allowedHosts=proxy.example.org"]);
    let (status, _) = request(&named.page, "GET / HTTP/1.1\r\nHost: proxy.example.org\r\n\r\n");
    assert!(status.contains("200"), "{status}");
}
