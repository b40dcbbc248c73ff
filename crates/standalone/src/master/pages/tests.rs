//! Pages and forms of a master, without a socket: requests as the port hands them over.

use std::sync::Arc;
use std::time::Duration;

use firesteel_backend::Address;
use firesteel_backend::command::Command;
use firesteel_standalone_core::description::{
    ApplicationDescription, DriverDescription, WorkerDescription, WorkerState,
};
use firesteel_standalone_core::master::MasterOptions;
use firesteel_standalone_core::{Incarnation, Term, WorkerId};
use firesteel_types::{ExecutorId, Host};
use http_body_util::BodyExt;

use super::*;
use crate::web::Ends;

const EVIL: &str = "<script>alert(1)</script>\"'>";

/// Hands something to the core that it answers nobody.
async fn tell(shell: &Shell, message: ToMaster) {
    let _ = tokio::time::timeout(Duration::from_millis(1), shell.ask(message)).await;
}

fn application(web_ui: &str) -> Arc<ApplicationDescription> {
    Arc::new(ApplicationDescription {
        name: EVIL.to_owned(),
        user: "ada".to_owned(),
        max_cores: Some(1),
        memory_per_executor_mb: 512,
        cores_per_executor: None,
        initial_executor_limit: None,
        command: Command::default(),
        web_ui: web_ui.to_owned(),
    })
}

async fn add_application(shell: &Shell, number: u64, web_ui: &str) {
    let message = ToMaster::RegisterApplication {
        description: application(web_ui),
        incarnation: Incarnation(number),
        previous: None,
        first_executor: ExecutorId(0),
        newest: Term(0),
        executors: Vec::new(),
    };
    tell(shell, message).await;
}

async fn add_worker(shell: &Shell, web_ui: &str) {
    add_worker_of(shell, 1, web_ui, 8).await;
}

async fn add_worker_of(shell: &Shell, number: u16, web_ui: &str, cores: u32) {
    let worker = WorkerDescription {
        id: WorkerId(format!("worker-{number}").into()),
        incarnation: Incarnation(7),
        address: Address { host: Host::new("127.0.0.1"), port: 7000 + 9 - number },
        web_ui: web_ui.to_owned(),
        cores,
        memory_mb: 4096,
    };
    let state = WorkerState { number: 1, ..WorkerState::default() };
    tell(shell, ToMaster::RegisterWorker { worker, state, newest: Term(0) }).await;
}

async fn add_driver(shell: &Shell) -> String {
    let description = Arc::new(DriverDescription {
        name: EVIL.to_owned(),
        cores: 1,
        memory_mb: 100,
        supervise: false,
        command: Command::default(),
    });
    match shell.ask(ToMaster::RequestSubmitDriver { description }).await {
        Some(MasterReply::SubmitDriverResponse { result: Ok(id) }) => id.0.to_string(),
        other => panic!("{other:?}"),
    }
}

fn shell() -> Arc<Shell> {
    let shell = Arc::new(Shell::new(MasterOptions::default(), None));
    shell.lead_alone();
    shell
}

fn operating(settings: &[(&str, &str)]) -> Operating {
    let mut conf = Conf::default();
    for (key, value) in settings {
        conf.set(*key, *value);
    }
    Operating::from_conf(&conf).unwrap()
}

/// A connection of this process with itself, which stays.
fn here() -> Ends {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, peer) = listener.accept().unwrap();
    let own = server.local_addr().unwrap();
    std::mem::forget((client, server));
    Ends { peer, own }
}

fn request(method: Method, target: &str, body: &str) -> HttpRequest {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    HttpRequest {
        method,
        path: path.to_owned(),
        query: Query::parse(query),
        ends: Some(here()),
        context: None,
        by_a_page: false,
        authorization: None,
        body: Some(body.to_owned().into()),
    }
}

async fn answer(handler: &HttpHandler, request: HttpRequest) -> (u16, String, String) {
    let (head, body) = handler(request).await.into_parts();
    let text = body.collect().await.unwrap().to_bytes();
    let location = head.headers.get(LOCATION).map(|it| it.to_str().unwrap().to_owned());
    (head.status.as_u16(), String::from_utf8(text.to_vec()).unwrap(), location.unwrap_or_default())
}

async fn get(handler: &HttpHandler, target: &str) -> String {
    let (status, text, _) = answer(handler, request(Method::GET, target, "")).await;
    assert_eq!(status, 200, "{target}: {text}");
    text
}

fn token_of(page: &str) -> String {
    let behind = page.split("name=\"token\" value=\"").nth(1).expect("a form");
    behind.split('"').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_kill_needs_the_token_of_the_page_and_reaches_the_application_or_driver() {
    let shell = shell();
    add_application(&shell, 1, "http://127.0.0.1:4040").await;
    let driver = add_driver(&shell).await;
    let app = shell.view().0.active_apps[0].app.0.to_string();
    let handler = handler(shell.clone(), operating(&[]));
    let page = get(&handler, "/").await;
    let token = token_of(&page);
    assert_eq!(token.len(), 32);
    assert!(!page.contains("<script>") && !page.contains("\"'>"), "{page}");
    let post = |path: &str, form: String| answer(&handler, request(Method::POST, path, &form));
    for (path, form, status) in [
        ("/app/kill/", format!("id={app}&terminate=true"), 403),
        ("/app/kill/", format!("id={app}&token={}", "0".repeat(32)), 403),
        ("/app/kill/", format!("token={token}"), 400),
        ("/app/kill/", format!("id=app-nobody&token={token}"), 404),
        ("/driver/kill/", format!("id={app}&token={token}"), 404),
        ("/elsewhere/", format!("id={app}&token={token}"), 404),
    ] {
        assert_eq!(post(path, form).await.0, status, "{path}");
    }
    assert_eq!(shell.view().0.active_apps.len(), 1, "nothing so far");
    let (status, _, to) =
        post("/app/kill/", format!("id={app}&terminate=true&token={token}")).await;
    assert_eq!((status, &*to), (303, "/"));
    let (status, ..) = post("/driver/kill", format!("id={driver}&token={token}")).await;
    assert_eq!(status, 303);
    let view = shell.view().0;
    assert_eq!(
        (view.completed_apps[0].state.name(), view.completed_drivers[0].state.name()),
        ("KILLED", "KILLED")
    );
    let page = get(&handler, "/").await;
    assert!(page.contains("killed from the master&#39;s page"), "{page}");
    assert!(!page.contains("name=\"token\""), "nothing is left to kill");
}

#[tokio::test]
async fn a_worker_is_decommissioned_by_the_form_of_its_row() {
    let shell = shell();
    add_worker(&shell, "http://10.0.0.7:8081").await;
    let handler = handler(shell.clone(), operating(&[]));
    let page = get(&handler, "/").await;
    assert!(page.contains("action=\"/workers/kill/\"") && page.contains("Decommission worker"));
    let token = token_of(&page);
    let post = |form: String| answer(&handler, request(Method::POST, "/workers/kill/", &form));
    assert_eq!(post("id=worker-1".to_owned()).await.0, 403);
    assert_eq!(post(format!("id=worker-9&token={token}")).await.0, 404);
    assert_eq!(post(format!("id=worker-1&token={token}")).await.0, 303);
    let page = get(&handler, "/").await;
    assert!(page.contains("DECOMMISSIONED") && !page.contains("name=\"token\""), "{page}");
}

#[tokio::test]
async fn who_comes_from_elsewhere_kills_only_where_the_settings_say_so() {
    let shell = shell();
    add_application(&shell, 1, "").await;
    let app = shell.view().0.active_apps[0].app.0.to_string();
    let remote = |request: HttpRequest| HttpRequest { ends: None, ..request };
    for (settings, here, elsewhere) in [
        (&[][..], true, false),
        (&[("spark.ui.killEnabled", "true")][..], true, true),
        (&[("spark.ui.killEnabled", "false")][..], false, false),
    ] {
        let handler = handler(shell.clone(), operating(settings));
        for (is_here, may) in [(true, here), (false, elsewhere)] {
            let asked = request(Method::GET, "/", "");
            let asked = if is_here { asked } else { remote(asked) };
            let page = answer(&handler, asked).await.1;
            assert_eq!(page.contains("name=\"token\""), may, "{settings:?} {is_here}");
        }
        if !elsewhere {
            let form = format!("id={app}&token={}", "0".repeat(32));
            let (status, why, _) =
                answer(&handler, remote(request(Method::POST, "/app/kill/", &form))).await;
            assert!(status == 403 && why.contains("spark.ui.killEnabled"), "{why}");
        }
    }
    assert_eq!(shell.view().0.active_apps.len(), 1);
}

#[tokio::test]
async fn long_lists_are_paged_and_pages_link_to_workers_applications_and_logs() {
    let shell = shell();
    for number in 0..120 {
        add_application(&shell, number, "http://10.0.0.9:4040").await;
        let app = shell.view().0.active_apps[0].app.clone();
        if number < 119 {
            assert!(shell.ask(ToMaster::RequestKillApplication { app }).await.is_some());
        }
    }
    add_worker(&shell, "http://10.0.0.7:8081").await;
    let handler = handler(shell.clone(), operating(&[]));
    let first = get(&handler, "/").await;
    for wanted in [
        "http://10.0.0.7:8081",
        "http://10.0.0.9:4040",
        "Cores: 1 of 8 used",
        "Completed applications (119)",
        "Page 1 of 3",
        "completedApps=2",
    ] {
        assert!(first.contains(wanted), "{wanted}: {first}");
    }
    let last = get(&handler, "/?completedApps=3&workers=9").await;
    assert!(last.contains("Page 3 of 3") && last.matches("KILLED").count() == 19, "{last}");
    let beyond = get(&handler, "/?completedApps=4000000000").await;
    assert!(beyond.contains("Page 3 of 3"));
    let app = shell.view().0.active_apps[0].app.0.to_string();
    let page = get(&handler, &format!("/app/?appId={app}")).await;
    let log =
        format!("http://10.0.0.7:8081/logPage/?appId={app}&amp;executorId=0&amp;logType=stderr");
    assert!(page.contains(&log) && page.contains("Cores: 1 of 1 asked for"), "{page}");
    assert_eq!(answer(&handler, request(Method::GET, "/app/?appId=nobody", "")).await.0, 404);
    assert_eq!(answer(&handler, request(Method::PUT, "/", "")).await.0, 405);
}

#[tokio::test]
async fn a_proxy_in_front_is_linked_through_and_strange_addresses_are_no_links() {
    let shell = shell();
    add_worker(&shell, "javascript:alert(1)").await;
    add_application(&shell, 1, "data:text/html,<script>").await;
    let handler = handler(shell, operating(&[]));
    let asked = |context: &str| {
        let context = Some(context.to_owned());
        HttpRequest { context, ..request(Method::GET, "/", "") }
    };
    let page = answer(&handler, asked("/cluster/")).await.1;
    assert!(
        page.contains("href=\"/cluster/app/?appId=")
            && page.contains("action=\"/cluster/app/kill/\""),
        "{page}"
    );
    assert!(!page.contains("href=\"javascript") && !page.contains("href=\"data:"), "{page}");
    let page = answer(&handler, asked("//evil.org")).await.1;
    assert!(page.contains("href=\"/app/?appId="), "{page}");
}

/// What a table of a page says: what its headings sort by, and the words of its cells.
fn table(page: &str, heading: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let part = page.split(&format!("<h2>{heading} (")).nth(1).unwrap_or_else(|| panic!("{page}"));
    let part = part.split("</table>").next().unwrap();
    let sort = |part: &str| {
        let link = part.split("</th>").next().unwrap().split("-sort=").nth(1).unwrap_or_default();
        link.split(['&', '"']).next().unwrap().to_owned()
    };
    let text = |part: &str| {
        let part = part.split("</td>").next().unwrap().replace('>', "> ");
        part.split(' ').filter(|it| !it.contains(['<', '>', '='])).collect::<Vec<_>>().join(" ")
    };
    let rows = part.split("<tr>").skip(2);
    let rows = rows.map(|row| row.split("<td>").skip(1).map(text).collect());
    (part.split("<th>").skip(1).map(sort).collect(), rows.collect())
}

#[tokio::test]
async fn every_list_is_sorted_both_ways_searched_and_counted() {
    let shell = shell();
    for number in 1..=3 {
        add_application(&shell, number, "").await;
        let app = shell.view().0.active_apps.last().unwrap().app.clone();
        assert!(shell.ask(ToMaster::RequestKillApplication { app }).await.is_some());
        let driver = DriverId(add_driver(&shell).await.into());
        assert!(shell.ask(ToMaster::RequestKillDriver { driver }).await.is_some());
    }
    for number in 1..=3 {
        add_driver(&shell).await;
        add_application(&shell, 10 + number, "").await;
    }
    for (number, cores) in [(1, 8), (2, 1), (3, 2)] {
        add_worker_of(&shell, number, "", cores).await;
    }
    let view = shell.view().0;
    let app = view.active_apps.iter().find(|it| !it.executors.is_empty()).expect("it runs");
    let one = format!("/app/?appId={}&", app.app);
    let handler = handler(shell.clone(), operating(&[]));
    for (path, heading, name, found) in [
        ("/?", "Workers", "workers", "worker-2"),
        ("/?", "Running applications", "apps", &*view.active_apps[1].app.0),
        ("/?", "Completed applications", "completedApps", &*view.completed_apps[1].app.0),
        ("/?", "Running drivers", "drivers", &*view.active_drivers[1].driver.0),
        ("/?", "Completed drivers", "completedDrivers", &*view.completed_drivers[1].driver.0),
        (&*one, "Executors", "executors", "worker-1"),
    ] {
        let (keys, whole) = table(&get(&handler, path).await, heading);
        assert!(keys.iter().filter(|key| !key.is_empty()).count() > 4, "{heading}: {keys:?}");
        for (at, key) in keys.iter().enumerate().filter(|(_, key)| !key.is_empty()) {
            let mut columns = Vec::new();
            for order in ["asc", "desc"] {
                let asked = format!("{path}{name}-sort={key}&{name}-order={order}");
                let (_, rows) = table(&get(&handler, &asked).await, heading);
                assert_eq!(rows.len(), whole.len(), "{asked}");
                columns.push(rows.into_iter().map(|row| row[at].clone()).collect::<Vec<_>>());
            }
            let number = |text: &String| text.split(' ').next().unwrap_or_default().parse().ok();
            let numbers: Option<Vec<u64>> = columns[0].iter().map(number).collect();
            let is_sorted =
                numbers.map_or_else(|| columns[0].is_sorted(), |numbers| numbers.is_sorted());
            // Dates are words.
            assert!(is_sorted || key == "submitted", "{heading}: {key} up is {:?}", columns[0]);
            columns[1].reverse();
            assert_eq!(columns[0], columns[1], "{heading}: {key}");
        }
        let (_, rows) = table(&get(&handler, &format!("{path}{name}-q={found}")).await, heading);
        assert_eq!(rows.len(), 1, "{heading}: {rows:?}");
        let none = get(&handler, &format!("{path}{name}-q=not+to+be+found")).await;
        assert!(none.contains(&format!("<h2>{heading} (0)</h2>")), "{heading}: {none}");
    }
    let sorted = |order| format!("/?workers-sort=id&workers-order={order}");
    let (up, down) = (get(&handler, &sorted("asc")).await, get(&handler, &sorted("desc")).await);
    assert_ne!(table(&up, "Workers").1, table(&down, "Workers").1);
}

#[tokio::test]
async fn open_pages_hear_of_every_change_that_they_show() {
    let shell = shell();
    let fingerprint = || overview::fingerprint(&shell.view().0);
    let mut seen = vec![fingerprint()];
    assert_eq!(seen[0], fingerprint(), "nothing has happened");
    add_application(&shell, 1, "").await;
    seen.push(fingerprint());
    let driver = DriverId(add_driver(&shell).await.into());
    seen.push(fingerprint());
    add_worker(&shell, "http://10.0.0.7:8081").await;
    seen.push(fingerprint());
    let app = shell.view().0.active_apps[0].app.clone();
    assert!(shell.ask(ToMaster::RequestKillApplication { app }).await.is_some());
    seen.push(fingerprint());
    assert!(shell.ask(ToMaster::RequestKillDriver { driver }).await.is_some());
    seen.push(fingerprint());
    let name = "worker-1".to_owned();
    assert!(shell.ask(ToMaster::RequestDecommissionWorkers { name }).await.is_some());
    seen.push(fingerprint());
    let all: std::collections::BTreeSet<u64> = seen.iter().copied().collect();
    assert_eq!(all.len(), seen.len(), "{seen:?}");
}

#[tokio::test]
async fn who_may_not_look_is_told_of_no_change() {
    let shell = shell();
    let lists = [("spark.acls.enable", "true"), ("spark.ui.view.acls", "vic")];
    let handler = handler(shell, operating(&lists));
    let elsewhere = |path| HttpRequest { ends: None, ..request(Method::GET, path, "") };
    for path in ["/", "/events"] {
        assert_eq!(answer(&handler, elsewhere(path)).await.0, 401, "{path}");
        assert_eq!(answer(&handler, request(Method::GET, path, "")).await.0, 200, "{path}");
    }
    assert_eq!(answer(&handler, request(Method::HEAD, "/events", "")).await.0, 404);
}

#[tokio::test]
async fn every_answer_forbids_frames_scripts_of_others_and_referrers() {
    let handler = handler(shell(), operating(&[]));
    let paths = ["/", "/json/", "/nowhere/", "/app/?appId=nobody", "/metrics/json", "/events"];
    for path in paths {
        let head = handler(request(Method::GET, path, "")).await;
        let header = |name: &str| head.headers().get(name).map_or("", |it| it.to_str().unwrap());
        let policy = header("content-security-policy");
        for wanted in ["default-src 'none'", "frame-ancestors 'none'", "form-action 'self'"] {
            assert!(policy.contains(wanted), "{path}: {policy}");
        }
        assert!(!policy.contains("script-src"), "by hand, pages have no script: {policy}");
        let others = ["x-frame-options", "referrer-policy", "x-content-type-options"].map(header);
        assert_eq!(others, ["DENY", "same-origin", "nosniff"], "{path}");
    }
}
