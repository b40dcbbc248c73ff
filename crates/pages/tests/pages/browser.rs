//! Every page in a real Chromium, by `browser.mjs`. `./test` installs what it needs, or says that it did not run.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use firesteel_conf::Conf;
use firesteel_monitor::{History, HistoryOptions, Server, ServerOptions};
use firesteel_pages::{Pages, report};
use firesteel_types::{Event, ExecutorId, ExecutorInfo, Host, Tick};

use crate::made::{Fixed, Made, START};
use crate::serving::serve;

fn history() -> Server {
    let mut conf = Conf::default();
    conf.set("spark.history.fs.logDirectory", crate::spark("events").display());
    let history = History::open(HistoryOptions::from_conf(&conf).unwrap()).unwrap();
    let options = ServerOptions {
        host: "127.0.0.1".to_owned(),
        port: 0,
        retries: 0,
        allowed_hosts: Vec::new(),
        secrets: crate::secrets(),
    };
    Server::start_with(Arc::new(history), Arc::new(Pages::default()), options).unwrap()
}

/// Executors come to the running application, one after the other, until `stop`.
fn grow(served: &Fixed, stop: &AtomicBool) {
    let mut id = 100;
    while !stop.load(Ordering::Relaxed) {
        let info = ExecutorInfo::new(Host::new("late.example.org"), 2);
        let event = Event::ExecutorAdded {
            executor: ExecutorId(id),
            info,
            at: Tick(START + u64::from(id)),
        };
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
    let others = [
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
        "{{\"live\":\"http://{}/\",\"history\":[{}],\"docs\":\"http://{}/\",\"report\":\"file://{}\",\"modules\":\"{modules}\",\"chromium\":\"{chromium}\",\"shots\":\"{shots}\"}}",
        live.address(),
        others.join(","),
        clean.address(),
        file.display()
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
    println!("{said}");
}
