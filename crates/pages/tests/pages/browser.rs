//! Every page in a real Chromium, by `browser.mjs`. `./test` installs what it needs, or says that it did not run.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use firesteel_conf::Conf;
use firesteel_monitor::rest::Applications;
use firesteel_monitor::site::{Asked, Shown, ShownBody, Site};
use firesteel_monitor::{Access, History, HistoryOptions, Server, ServerOptions};
use firesteel_pages::{
    Pages, SheetCell, SheetColumn, SheetKill, SheetLive, SheetOrder, SheetPage, SheetPages,
    SheetSearch, SheetTable, report, sheet,
};
use firesteel_types::{Event, ExecutorId, ExecutorInfo, Host, Tick};

use crate::made::{EVIL, Fixed, Made, START};
use crate::serving::serve;

fn history() -> Server {
    let mut conf = Conf::default();
    conf.set("spark.history.fs.logDirectory", crate::spark("events").display());
    let history = History::open(HistoryOptions::from_conf(&conf).unwrap()).unwrap();
    Server::start_with(Arc::new(history), Arc::new(Pages::default()), options()).unwrap()
}

fn options() -> ServerOptions {
    ServerOptions {
        host: "127.0.0.1".to_owned(),
        port: 0,
        retries: 0,
        allowed_hosts: Vec::new(),
        secrets: crate::secrets(),
        access: Access::default(),
    }
}

/// Pages of a master and a worker as their processes hand them over, with everything that they can have. Something changes on them
/// every second.
struct Sheets;

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// What they are told of: `firesteel-standalone` says the same.
fn told() -> Shown {
    let mut is_first = true;
    let next = move |_: &dyn Applications| {
        let name = if std::mem::take(&mut is_first) { "hello" } else { "changed" };
        Some(format!("event: {name}\ndata: {:016x} {PROCESS:016x}\n\n", seconds()))
    };
    let (content_type, body) = ("text/event-stream", ShownBody::Updates(Box::new(next)));
    Shown { status: 200, content_type, headers: Vec::new(), body }
}

const PROCESS: u64 = 7;

impl Site for Sheets {
    fn show(&self, asked: &Asked<'_>) -> Shown {
        let (content_type, text) = match firesteel_pages::asset(asked.path) {
            Some((content_type, text)) => (content_type, text.to_owned()),
            None if asked.path == "/events" => return told(),
            None if asked.path == "/worker/" => ("text/html;charset=utf-8", worker()),
            None if asked.path == "/log/" => ("text/html;charset=utf-8", log()),
            // For the guide.
            None if asked.path == "/clean/" => ("text/html;charset=utf-8", master("nightly join")),
            None => ("text/html;charset=utf-8", master(EVIL)),
        };
        let policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; form-action 'self'";
        let headers = vec![("content-security-policy", policy.to_owned())];
        let body = ShownBody::Whole(text.into_bytes());
        Shown { status: 200, content_type, headers, body }
    }
}

fn cell(text: &str) -> SheetCell<'_> {
    SheetCell { text, ..SheetCell::default() }
}

/// All but the last one sort the table, which is sorted by the first one.
fn columns(titles: &[&str]) -> Vec<SheetColumn> {
    let column = |(at, title): (usize, &&str)| SheetColumn {
        title: (*title).to_owned(),
        link: (!title.is_empty()).then(|| format!("/?list-sort={at}")),
        order: (at == 0).then_some(SheetOrder::Ascending),
    };
    titles.iter().enumerate().map(column).collect()
}

fn live() -> Option<SheetLive> {
    let now = seconds();
    Some(SheetLive { state: now, process: PROCESS, now: Tick(now * 1000) })
}

/// What its tables say adds up to its first lines: an application with an executor and a driver on the worker that is alive.
fn master(name: &str) -> String {
    let used = 3 + seconds() % 6;
    let lines = [
        "Status: ALIVE".to_owned(),
        "Workers: 1 alive".to_owned(),
        format!("Cores: {used} of 8 used"),
        "Memory: 6144 of 16384 MB used".to_owned(),
    ];
    let logs = ["stdout", "stderr"]
        .map(|it| (it.to_owned(), format!("http://10.0.0.7:8081/logPage/?logType={it}")));
    let (of_workers, of_apps) = (
        columns(&[
            "Id",
            "Address",
            "State",
            "Cores used",
            "Memory used (MB)",
            "Last heartbeat",
            "",
        ]),
        columns(&[
            "Id",
            "Name",
            "User",
            "Cores",
            "Memory per executor (MB)",
            "Submitted",
            "Duration",
            "State",
            "",
        ]),
    );
    let of_drivers =
        columns(&["Id", "Name", "Worker", "Submitted", "Cores", "Memory (MB)", "State", ""]);
    let linked =
        |text| SheetCell { text, link: Some("http://10.0.0.7:8081"), ..SheetCell::default() };
    let kill = |what, id| {
        let kill = Some(SheetKill {
            verb: if what == "worker" { "Decommission" } else { "Kill" },
            what,
            id,
            action: "/app/kill/",
            token: "0123",
        });
        SheetCell { kill, ..SheetCell::default() }
    };
    let cores_used = format!("{used} of 8");
    let workers = vec![
        vec![
            linked("worker-20261118061500-10.0.0.7-43477"),
            cell("10.0.0.7:43477"),
            cell("ALIVE"),
            cell(&cores_used),
            cell("6144 of 16384"),
            cell("3 s ago"),
            kill("worker", "worker-20261118061500-10.0.0.7-43477"),
        ],
        vec![
            linked("worker-20261118061459-10.0.0.8-38121"),
            cell("10.0.0.8:38121"),
            cell("DEAD"),
            cell("0 of 8"),
            cell("0 of 16384"),
            cell("74 s ago"),
            cell(""),
        ],
    ];
    let of_app = (used - 1).to_string();
    let submitted = "Wed Nov 18 06:15:00 UTC 2026";
    let app = |id, state, last| {
        let name = linked(name);
        vec![
            linked(id),
            name,
            cell("ada"),
            cell(if state == "RUNNING" { &of_app } else { "0" }),
            cell("5120"),
            cell(submitted),
            cell("3 min 12 s"),
            cell(state),
            last,
        ]
    };
    let named = SheetCell { links: &logs, ..linked("worker-20261118061500-10.0.0.7-43477") };
    let driver = vec![
        cell("driver-20261118061501-0000"),
        cell("join"),
        named,
        cell(submitted),
        cell("1"),
        cell("1024"),
        cell("RUNNING"),
        kill("driver", "driver-20261118061501-0000"),
    ];
    let others = [("workers".to_owned(), "2".to_owned())];
    let search = |name| Some(SheetSearch { action: "/", name, value: "", others: &others });
    let table = |heading, columns: &Vec<SheetColumn>, rows, pages| {
        let (columns, search) = (columns.clone(), search(heading));
        SheetTable { heading, columns, rows, pages, search }
    };
    let pages = Some(SheetPages { total: 119, page: 2, last: 3, link: "/?completedApps=" });
    let over = (0..12)
        .map(|_| {
            app("app-20261118061401-0000", "KILLED", cell("it was killed from the master's page"))
        })
        .collect();
    let tables = [
        table("Workers", &of_workers, workers, None),
        table(
            "Running applications",
            &of_apps,
            vec![
                app("app-20261118061502-0001", "RUNNING", kill("application", "app-1")),
                app("app-20261118061503-0002", "WAITING", kill("application", "app-2")),
            ],
            None,
        ),
        table("Running drivers", &of_drivers, vec![driver], None),
        table("Completed applications", &of_apps, over, pages),
        table("Completed drivers", &of_drivers, Vec::new(), None),
    ];
    sheet(&SheetPage {
        title: "Firesteel master at spark://10.0.0.7:7077",
        lines: &lines,
        tables: &tables,
        live: live(),
        ..SheetPage::default()
    })
}

/// What a process prints.
fn log() -> String {
    let links = ["all processes", "end"].map(|it| (it.to_owned(), "/".to_owned()));
    sheet(&SheetPage {
        title: "app-20261118061502-0001/0/stderr",
        links: &links,
        text: Some(&format!("{EVIL} {}\n", "x".repeat(500)).repeat(50)),
        ..SheetPage::default()
    })
}

fn worker() -> String {
    let lines =
        ["Master: spark://10.0.0.7:7077", "Cores: 5 of 8 used", "Memory: 6144 of 16384 MB used"];
    let columns = columns(&["What", "Name", "Cores", "Memory (MB)", "Output"]);
    let links = [("stdout".to_owned(), "/logPage/?logType=stdout".to_owned())];
    let output = SheetCell { links: &links, ..SheetCell::default() };
    let name = "executor app-20261118061502-0001/0";
    let rows = vec![vec![cell(name), cell(EVIL), cell("4"), cell("1024"), output]];
    let table = SheetTable { heading: "Processes", columns, rows, pages: None, search: None };
    sheet(&SheetPage {
        title: "Firesteel worker worker-20261118061500-10.0.0.7-43477",
        lines: &lines.map(str::to_owned),
        tables: &[table],
        live: live(),
        ..SheetPage::default()
    })
}

/// Executors come to the running application, one after the other, until `stop`.
fn grow(served: &Fixed, stop: &AtomicBool) {
    let mut id = 100;
    while !stop.load(Ordering::Relaxed) {
        let info = ExecutorInfo::new(Host::new("late.example.org"), 2);
        let event =
            Event::ExecutorAdded { executor: ExecutorId(id), info, at: Tick(seconds() * 1000) };
        served.applications.lock().unwrap()[0].take(event);
        id += 1;
        std::thread::park_timeout(Duration::from_secs(1));
    }
}

#[test]
#[ignore = "needs Chromium, node, playwright-core and axe-core: ./test installs them"]
fn every_page_works_in_a_real_browser() {
    let modules = std::env::var("FIRESTEEL_NODE_MODULES")
        .expect("FIRESTEEL_NODE_MODULES: where playwright-core and axe-core are");
    let chromium =
        std::env::var("FIRESTEEL_CHROMIUM").unwrap_or_else(|_| "/usr/bin/chromium".to_owned());
    let shots = std::env::var("FIRESTEEL_SCREENSHOTS").unwrap_or_default();
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let start = since.as_millis() as u64 - 60_000;
    let running = Arc::new(Fixed::new(vec![Made { start, ..Made::SMALL }.status()], true));
    let shown = Made { start, tail: "", ..Made::SMALL }.status();
    let clean = serve(Arc::new(Fixed::new(vec![shown], true)));
    let pictures = match std::env::var_os("UPDATE_EXPECT") {
        Some(_) => crate::pictures::folder().display().to_string(),
        None => String::new(),
    };
    let runs = ["first", "second"].map(|name| {
        Made { name, is_over: true, slower_ms: name.len() as u64 * 9, ..Made::SMALL }.status()
    });
    let (live, over, spark) =
        (serve(running.clone()), serve(Arc::new(Fixed::new(runs.into(), false))), history());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.html");
    std::fs::write(
        &file,
        report(&Made { is_over: true, ..Made::SMALL }.status(), &crate::secrets(), Tick(START)),
    )
    .unwrap();
    let of_spark =
        |title: &str, path: &str| format!("[\"{title}\",\"http://{}/{path}\"]", spark.address());
    let of_runs =
        |title: &str, path: &str| format!("[\"{title}\",\"http://{}/{path}\"]", over.address());
    let sheets =
        Server::start_with(Arc::new(Fixed::new(Vec::new(), false)), Arc::new(Sheets), options());
    let sheets = sheets.unwrap();
    let others = [
        format!("[\"master\",\"http://{}/\"]", sheets.address()),
        format!("[\"worker\",\"http://{}/worker/\"]", sheets.address()),
        format!("[\"log\",\"http://{}/log/\"]", sheets.address()),
        of_runs("list", ""),
        of_runs("compare", "compare/?app=app-first&app=app-second"),
        of_spark("spark-list", ""),
        of_spark("spark-overview", "history/app-20200706201101-0003/"),
        of_spark("spark-jobs", "history/app-20200706201101-0003/jobs/"),
        of_spark("spark-executors", "history/application_1555004656427_0144/executors/"),
        of_spark("spark-environment", "history/app-20200706201101-0003/environment/"),
        of_spark("spark-stage", "history/local-1642039451826/stages/stage/?id=2"),
        of_spark("spark-job", "history/local-1642039451826/jobs/job/?id=3"),
    ];
    let config = format!(
        "{{\"live\":\"http://{}/\",\"history\":[{}],\"docs\":\"http://{}/\",\"report\":\"file://{}\",\"modules\":\"{modules}\",\"chromium\":\"{chromium}\",\"shots\":\"{shots}\",\"pictures\":\"{pictures}\",\"master\":\"http://{}/\",\"large\":\"http://{}/history/app-first/stages/stage/?id=0\"}}",
        live.address(),
        others.join(","),
        clean.address(),
        file.display(),
        sheets.address(),
        over.address()
    );
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pages/browser.mjs");
    let stop = AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        let growing = scope.spawn(|| grow(&running, &stop));
        let output = Command::new("node").arg(script).arg(config).output();
        stop.store(true, Ordering::Relaxed);
        growing.thread().unpark();
        output
    });
    let output = output.expect("node runs");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{said}");
    let killed = running.killed.lock().unwrap();
    if std::env::var_os("FIRESTEEL_PAGES_ONLY").is_none() || !killed.is_empty() {
        let wanted = ["with", "without"].into_iter().flat_map(|script| {
            ["job 11", "stage 23"]
                .map(|what| format!("{what}: killed from its page: by a browser {script} script"))
        });
        assert_eq!(*killed, wanted.collect::<Vec<_>>());
    }
    println!("{said}");
}
