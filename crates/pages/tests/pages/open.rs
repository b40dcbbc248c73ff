//! Pages that are left open on a busy application: neither what the server takes for them nor what a real Chromium does may grow. A
//! measurement for `./bench pages`.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use firesteel_status::{AppStatus, Retention};
use firesteel_types::event::Locality;
use firesteel_types::{
    Event, ExecutorId, Host, StageId, StageInfo, StageRef, TaskId, TaskInfo, TaskMetrics, Tick,
};

use crate::made::{Fixed, Made, START};
use crate::serving::{get, send, serve};

/// So many pages are open, each of which is asked for again when something changed, at most this often.
const PAGES: usize = 50;
const EVERY: Duration = Duration::from_secs(2);
/// So many tasks of a stage, and stages a second.
const TASKS: u32 = 50;
const STAGES: u32 = 10;

fn resident_kb() -> u64 {
    let told = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    told.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4
}

fn stage(number: u32) -> StageInfo {
    StageInfo {
        stage: StageRef { stage: StageId(1000 + number), attempt: 0 },
        name: format!("map at src/main.rs:{}", number % 40).into(),
        tasks: TASKS,
        parents: Vec::new(),
        rdds: Vec::new().into(),
        shuffle_map: false,
        submitted: None,
        completed: None,
        details: None,
        resource_profile: 0,
    }
}

/// One stage from its submission to its end.
fn run(status: &mut AppStatus, number: u32, at: u64) {
    let info = stage(number);
    let properties = Default::default();
    status.take(Event::StageSubmitted { stage: info.clone(), properties, at: Tick(at) });
    for index in 0..TASKS {
        let task = TaskInfo {
            task: TaskId(1_000_000 + u64::from(number) * u64::from(TASKS) + u64::from(index)),
            stage: info.stage,
            partition: index,
            index,
            attempt: 0,
            executor: ExecutorId(index % 3),
            host: Host::new("node"),
            speculative: false,
            locality: Locality::Any,
            launched: Tick(at),
        };
        status.take(Event::TaskStart { task: task.clone(), at: Tick(at) });
        let metrics =
            TaskMetrics { run_time_us: 50_000, input_bytes: 1 << 20, ..TaskMetrics::default() };
        let metrics = Some(Box::new(metrics));
        status.take(Event::TaskEnd { task, failure: None, metrics, at: Tick(at + 60) });
    }
    status.take(Event::StageCompleted { stage: info, failure: None, at: Tick(at + 70) });
}

fn busy(served: &Fixed, stop: &AtomicBool) {
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let at = START + 60_000 + u64::from(number) * 100;
        run(&mut served.applications.lock().unwrap()[0], number, at);
        std::thread::park_timeout(Duration::from_secs(1) / STAGES);
    }
}

/// A reader of updates, again and again, until `stop`: as browsers do.
fn follow(address: std::net::SocketAddr, stop: &AtomicBool) {
    let mut buffer = [0; 4096];
    while !stop.load(Ordering::Relaxed) {
        let mut stream = send(address, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        while !stop.load(Ordering::Relaxed) && stream.read(&mut buffer).is_ok_and(|read| read > 0) {
        }
    }
}

/// A Chromium with pages open, which says itself what it takes; `None`: there is none.
fn browser(address: std::net::SocketAddr, lasts: Duration) -> Option<Child> {
    let told = |name: &str| std::env::var(name).ok();
    let (modules, chromium) = (told("FIRESTEEL_NODE_MODULES")?, told("FIRESTEEL_CHROMIUM")?);
    // It is over before the server is.
    let seconds = lasts.as_secs().saturating_sub(5);
    let config = format!(
        "{{\"modules\":\"{modules}\",\"chromium\":\"{chromium}\",\"address\":\"http://{address}/\",\"seconds\":{seconds}}}"
    );
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pages/open.mjs");
    Some(Command::new("node").arg(script).arg(config).spawn().expect("node runs"))
}

#[test]
#[ignore = "a measurement of an hour: ./bench pages runs it optimised"]
fn pages_that_are_left_open_take_no_more_memory() {
    let told = std::env::var("FIRESTEEL_OPEN_SECONDS").ok().and_then(|text| text.parse().ok());
    let lasts = Duration::from_secs(told.unwrap_or(3600));
    let retention = Retention { jobs: 100, stages: 100, tasks: 1000, dead_executors: 10 };
    let mut status = AppStatus::new(retention);
    Made { tail: "", ..Made::SMALL }.events(&mut |event| status.take(event));
    let served = Arc::new(Fixed::new(vec![status], true));
    let server = serve(served.clone());
    let (address, stop, start) = (server.address(), AtomicBool::new(false), Instant::now());
    let (mut first, mut asked) = (None, 0u64);
    let browser = browser(address, lasts);
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| busy(&served, &stop));
        (0..PAGES).for_each(|_| drop(scope.spawn(|| follow(address, &stop))));
        while start.elapsed() < lasts {
            for path in ["/", "/jobs/", "/stages/", "/executors/", "/stages/stage/?id=0"] {
                assert!(get(address, path, "").starts_with("HTTP/1.1 200"), "{path}");
                asked += 1;
            }
            // What is held for what is retained is there after a while.
            if first.is_none() && start.elapsed() > (lasts / 5).max(Duration::from_secs(20)) {
                first = Some(resident_kb());
            }
            std::thread::park_timeout(EVERY);
        }
        stop.store(true, Ordering::Relaxed);
        busy.thread().unpark();
    });
    let (first, last) = (first.unwrap_or(0), resident_kb());
    if let Some(mut browser) = browser {
        assert!(browser.wait().unwrap().success(), "the browser broke down");
    }
    println!("open {} s {first} kb {last} kb {asked} pages", lasts.as_secs());
}
