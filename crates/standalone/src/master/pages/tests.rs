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
    let worker = WorkerDescription {
        id: WorkerId("worker-1".into()),
        incarnation: Incarnation(7),
        address: Address { host: Host::new("127.0.0.1"), port: 7000 },
        web_ui: web_ui.to_owned(),
        cores: 8,
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
