//! Over a socket: lists of users, tokens that say who asks, and what others get.

use std::sync::Arc;

use firesteel_conf::Conf;
use firesteel_jws::JwsKey;
use firesteel_monitor::{Access, Server, ServerOptions};
use firesteel_pages::Pages;

use crate::made::{Fixed, Made};
use crate::serving::{get, post, send};

const KEY: &str = "VmlzaXQgaHR0cHM6Ly9zcGFyay5hcGFjaGUub3JnIHRvIGRvd25sb2FkIEFwYWNoZSBTcGFyay4=";

fn conf(more: &[(&str, &str)]) -> Conf {
    let mut conf = Conf::new();
    conf.set("spark.ui.filters", "org.apache.spark.ui.JWSFilter")
        .set("spark.org.apache.spark.ui.JWSFilter.param.secretKey", KEY);
    more.iter().for_each(|(key, value)| {
        conf.set(*key, value);
    });
    conf
}

fn start(served: Arc<Fixed>, access: Access) -> Server {
    let options = ServerOptions {
        host: "127.0.0.1".to_owned(),
        port: 0,
        retries: 0,
        allowed_hosts: Vec::new(),
        secrets: crate::secrets(),
        access,
    };
    Server::start_with(served, Arc::new(Pages::default()), options).unwrap()
}

/// The header of a request that a user makes, or nobody in particular.
fn as_user(user: Option<&str>) -> String {
    let key = JwsKey::from_base64url(KEY).unwrap();
    format!("Authorization: Bearer {}\r\n", key.sign(user))
}

#[test]
fn a_running_application_is_shown_to_its_viewers_and_killed_by_its_modifiers() {
    let settings = [
        ("spark.acls.enable", "true"),
        ("spark.ui.view.acls", "vic,mod"),
        ("spark.modify.acls", "mod"),
    ];
    let served = Arc::new(Fixed::new(vec![Made::SMALL.status()], true));
    let server = start(served.clone(), Access::of_application(&conf(&settings)).unwrap());
    let ask = |path: &str, user: &str| get(server.address(), path, &as_user(Some(user)));
    let (job, api) = ("/jobs/job/?id=11", "/api/v1/applications/app-skewed-join/jobs");
    // Pages are handed out again for a second: not to somebody with other rights.
    let with_form = ask(job, "mod");
    let token = with_form.split("name=\"token\" value=\"").nth(1).unwrap();
    let token = token.split('"').next().unwrap().to_owned();
    let without = ask(job, "vic");
    assert!(without.starts_with("HTTP/1.1 200") && !without.contains(&token), "{without}");
    for path in ["/", job, "/environment/", "/events", "/metrics/json", "/nowhere/"] {
        let refused = ask(path, "eve");
        assert!(refused.starts_with("HTTP/1.1 403"), "{path}: {refused}");
        assert!(!refused.contains("skewed"), "{path}: {refused}");
    }
    let page = ask(job, "<eve>");
    assert!(page.contains("Not allowed") && page.contains("text/html"), "{page}");
    assert!(page.contains("User &lt;eve&gt; is not authorized to access this page."), "{page}");
    let style = page.split("rel=\"stylesheet\" href=\"").nth(1).unwrap();
    assert!(ask(style.split('"').next().unwrap(), "<eve>").starts_with("HTTP/1.1 200"));
    assert!(ask(api, "vic").starts_with("HTTP/1.1 200"));
    let refused = ask(api, "eve");
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    assert!(refused.ends_with("user \"eve\" is not authorized"), "{refused}");
    let kill = |user: &str| {
        let form = format!("id=11&reason=why&token={token}");
        post(server.address(), "/jobs/job/kill/", &as_user(Some(user)), &form)
    };
    for user in ["vic", "eve"] {
        assert!(kill(user).starts_with("HTTP/1.1 403"), "{user}");
    }
    assert!(kill("vic").contains("User vic is not authorized to kill jobs and stages."));
    assert!(served.killed.lock().unwrap().is_empty());
    assert!(kill("mod").starts_with("HTTP/1.1 303"));
    assert_eq!(served.killed.lock().unwrap().len(), 1);
}

/// What another user of the machine is answered with.
fn asked_by_nobody(address: std::net::SocketAddr, method: &str, path: &str, form: &str) -> String {
    let (ip, port, length) = (address.ip(), address.port(), form.len());
    let head =
        format!("{method} {path} HTTP/1.1\\r\\nHost: {address}\\r\\nContent-Length: {length}");
    let script = format!("exec 3<>/dev/tcp/{ip}/{port}; printf '%b' \"$0\" >&3; cat <&3");
    let mut command = std::process::Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "bash", "-c"]);
    let output = command.arg(script).arg(format!("{head}\\r\\n\\r\\n{form}")).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn another_user_of_the_machine_kills_no_job() {
    let served = Arc::new(Fixed::new(vec![Made::SMALL.status()], true));
    let server = start(served.clone(), Access::of_application(&Conf::new()).unwrap());
    let page = get(server.address(), "/jobs/job/?id=11", "");
    let token = page.split("name=\"token\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let form = format!("id=11&reason=why&token={token}");
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|it| {
        std::os::unix::fs::MetadataExt::uid(&it) == 0 // Only root can be somebody else.
    });
    if is_root {
        let page = asked_by_nobody(server.address(), "GET", "/jobs/job/?id=11", "");
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        assert!(!page.contains(token) && !page.contains("Kill this job"), "no form, no token");
        let refused = asked_by_nobody(server.address(), "POST", "/jobs/job/kill/", &form);
        assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
        assert!(refused.contains("Only the user who runs the application"), "{refused}");
        assert!(served.killed.lock().unwrap().is_empty());
    }
    let killed = post(server.address(), "/jobs/job/kill/", "", &form);
    assert!(killed.starts_with("HTTP/1.1 303"), "{killed}");
    assert_eq!(served.killed.lock().unwrap().len(), 1);
}

#[test]
fn what_a_proxy_of_the_owner_takes_along_kills_no_job() {
    let served = Arc::new(Fixed::new(vec![Made::SMALL.status()], true));
    let server = start(served.clone(), Access::of_application(&Conf::new()).unwrap());
    let page = get(server.address(), "/jobs/job/?id=11", "");
    let token = page.split("name=\"token\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let form = format!("id=11&reason=why&token={token}");
    for header in ["Forwarded: for=10.0.0.9\r\n", "X-Forwarded-For: 10.0.0.9\r\n"] {
        let page = get(server.address(), "/jobs/job/?id=11", header);
        assert!(page.starts_with("HTTP/1.1 200") && !page.contains(token), "{header}{page}");
        let refused = post(server.address(), "/jobs/job/kill/", header, &form);
        assert!(refused.starts_with("HTTP/1.1 403"), "{header}{refused}");
    }
    assert!(served.killed.lock().unwrap().is_empty());
    // Where everybody may, a proxy may take it along, and tells where it was asked.
    let mut everybody = Conf::new();
    everybody.set("spark.ui.killEnabled", true);
    let server = start(served.clone(), Access::of_application(&everybody).unwrap());
    let header = "X-Forwarded-Host: localhost:8443\r\n";
    let page = get(server.address(), "/jobs/job/?id=11", header);
    let token = page.split("name=\"token\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let form = format!("id=11&reason=why&token={token}");
    let posted = |origin: &str, more: &str| {
        let length = form.len();
        let request = format!(
            "POST /jobs/job/kill/ HTTP/1.1\r\nHost: 127.0.0.1:4040\r\nOrigin: {origin}\r\n{more}Content-Length: {length}\r\n\r\n{form}"
        );
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut send(server.address(), &request), &mut answer).unwrap();
        answer
    };
    for origin in ["http://127.0.0.1:9999", "http://localhost:4040", "https://localhost:8443"] {
        let refused = posted(origin, "");
        assert!(refused.starts_with("HTTP/1.1 421"), "{origin}: {refused}");
    }
    assert!(served.killed.lock().unwrap().is_empty(), "a page of another port made them");
    assert!(posted("https://localhost:8443", header).starts_with("HTTP/1.1 303"));
    assert!(posted("http://127.0.0.1:4040", "").starts_with("HTTP/1.1 303"));
}

#[test]
fn who_does_not_say_who_they_are_is_told_how() {
    let served = Arc::new(Fixed::new(vec![Made::SMALL.status()], true));
    let settings = conf(&[("spark.acls.enable", "true")]);
    let server = start(served.clone(), Access::of_application(&settings).unwrap());
    let missing = get(server.address(), "/", "");
    assert!(missing.starts_with("HTTP/1.1 403"), "{missing}");
    assert!(missing.ends_with("Authorization header is missing."), "{missing}");
    let wrong = get(server.address(), "/", "Authorization: Bearer a.b.c\r\n");
    assert!(wrong.ends_with("JWT Validate Fail"), "{wrong}");
    for path in ["/", "/api/v1/applications"] {
        let unnamed = get(server.address(), path, &as_user(None));
        assert!(unnamed.starts_with("HTTP/1.1 401"), "{unnamed}");
        assert!(unnamed.contains("www-authenticate: Bearer"), "{unnamed}");
        assert!(unnamed.contains("with the claim sub"), "{unnamed}");
    }
    // Lists without a filter.
    let mut plain = Conf::new();
    plain.set("spark.acls.enable", true);
    let server = start(served.clone(), Access::of_application(&plain).unwrap());
    let refused = get(server.address(), "/", &as_user(Some("ada")));
    assert!(refused.starts_with("HTTP/1.1 401") && !refused.contains("skewed"), "{refused}");
    // A filter without lists: a token is enough.
    let server = start(served, Access::of_application(&conf(&[])).unwrap());
    assert!(get(server.address(), "/", &as_user(None)).starts_with("HTTP/1.1 200"));
    assert!(get(server.address(), "/", "").starts_with("HTTP/1.1 403"));
}

#[test]
fn a_history_shows_its_list_to_all_users_and_applications_to_their_own() {
    let served = Arc::new(Fixed::new(vec![Made::SMALL.status()], false));
    let settings =
        [("spark.history.ui.acls.enable", "true"), ("spark.history.ui.admin.acls", "ops")];
    let server = start(served, Access::of_history(&conf(&settings)).unwrap());
    let ask = |path: &str, user| get(server.address(), path, &as_user(user));
    let home = "/history/app-skewed-join/";
    assert!(ask("/", Some("eve")).contains("app-skewed-join"));
    assert!(ask("/api/v1/applications", Some("eve")).contains("app-skewed-join"));
    assert!(ask("/", None).starts_with("HTTP/1.1 401"));
    assert!(ask(home, Some("ops")).starts_with("HTTP/1.1 200"));
    let compare = "/compare/?app=app-skewed-join&app=app-skewed-join";
    let resources = "/api/v1/applications/app-skewed-join/";
    let [jobs, environment] = ["jobs", "environment"].map(|it| format!("{resources}{it}"));
    for path in [home, compare, &*jobs, &*environment] {
        assert!(ask(path, Some("ops")).starts_with("HTTP/1.1 200"), "{path}");
        let refused = ask(path, Some("eve"));
        assert!(refused.starts_with("HTTP/1.1 403"), "{path}: {refused}");
    }
    assert!(ask("/history/other/", Some("eve")).starts_with("HTTP/1.1 404"));
}
