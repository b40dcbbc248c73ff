//! Pages that are left open on a busy application: neither what the server takes for them nor what a real Chromium does may grow. A
//! measurement for `./bench pages`.

use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use firesteel_status::{AppStatus, Retention};
use firesteel_types::event::Locality;
use firesteel_types::{
    Event, ExecutorId, ExecutorInfo, Host, JobId, StageId, StageInfo, StageRef, TaskId, TaskInfo,
    TaskMetrics, Tick,
};

use crate::flat::{self, Held, Left};
use crate::made::{Fixed, Made};
use crate::serving::{get, send, serve};

/// So many pages are open, each of which is asked for again when something changed, at most this often.
const PAGES: usize = 50;
const EVERY: Duration = Duration::from_secs(2);
/// So many tasks of a stage, and jobs of one stage a second.
const TASKS: u32 = 50;
const JOBS: u32 = 10;
/// Jobs, stages, tasks and executors that are remembered turn over so often before anything is measured.
const TURNS: u32 = 3;
const RETAINED: u32 = 100;
/// The stage that runs from the beginning to the end, so many tasks of which end with every job.
const LONG: u32 = 999;
const LONG_TASKS: u32 = 1_000_000;
const LONG_AT_ONCE: u32 = 10;
/// What is measured at the end takes at most this long.
const PATIENCE: Duration = Duration::from_secs(300);

fn resident_kb() -> u64 {
    let told = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    told.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

fn stage(id: u32, tasks: u32) -> StageInfo {
    StageInfo {
        stage: StageRef { stage: StageId(id), attempt: 0 },
        name: format!("map at src/main.rs:{}", id % 40).into(),
        tasks,
        parents: Vec::new(),
        rdds: Vec::new().into(),
        shuffle_map: false,
        submitted: None,
        completed: None,
        details: None,
        resource_profile: 0,
    }
}

fn begin(status: &mut AppStatus, job: u32, info: &StageInfo, at: u64) {
    let (stages, properties) = (vec![info.clone()], Arc::default());
    status.take(Event::JobStart { job: JobId(job), properties, stages, at: Tick(at) });
    let (stage, properties) = (info.clone(), Default::default());
    status.take(Event::StageSubmitted { stage, properties, at: Tick(at) });
}

/// The task of the stage at an index. Every task has a number of its own.
fn task(info: &StageInfo, task: u64, index: u32, at: u64) -> TaskInfo {
    TaskInfo {
        task: TaskId(task),
        stage: info.stage,
        partition: index,
        index,
        attempt: 0,
        executor: ExecutorId(index % 3),
        host: Host::new("node"),
        speculative: false,
        locality: Locality::Any,
        launched: Tick(at),
    }
}

fn ended(status: &mut AppStatus, task: TaskInfo, at: u64) {
    let run_time_us = at.saturating_sub(task.launched.0) * 1000;
    let metrics = TaskMetrics { run_time_us, input_bytes: 1 << 20, ..TaskMetrics::default() };
    status.take(Event::TaskEnd {
        task,
        failure: None,
        metrics: Some(Box::new(metrics)),
        at: Tick(at),
    });
}

/// One job from its submission to its end; tasks of the long stage end and others begin; an executor comes and is lost.
fn run(status: &mut AppStatus, number: u32, at: u64) {
    let (long, first) = (stage(LONG, LONG_TASKS), 1_000_000_000 + u64::from(number) * 1000);
    for task in 0..LONG_AT_ONCE {
        let index = |round: u32| (round * LONG_AT_ONCE + task) % LONG_TASKS;
        let id = |round: u32| 1_000_000_000 + u64::from(round) * 1000 + u64::from(task);
        if let Some(before) = number.checked_sub(1) {
            let task = self::task(&long, id(before), index(before), at.saturating_sub(100));
            ended(status, task, at);
        }
        let task = self::task(&long, id(number), index(number), at);
        status.take(Event::TaskStart { task, at: Tick(at) });
    }
    let (info, job) = (stage(1000 + number, TASKS), 1000 + number);
    begin(status, job, &info, at);
    for index in 0..TASKS {
        let task = task(&info, first + 100 + u64::from(index), index, at);
        status.take(Event::TaskStart { task: task.clone(), at: Tick(at) });
        ended(status, task, at + 60);
    }
    status.take(Event::StageCompleted { stage: info, failure: None, at: Tick(at + 70) });
    status.take(Event::JobEnd { job: JobId(job), result: Ok(()), at: Tick(at + 80) });
    let executor = ExecutorId(100 + number);
    let info = ExecutorInfo::new(Host::new("node"), 1);
    status.take(Event::ExecutorAdded { executor, info, at: Tick(at) });
    let reason = "it was idle".to_owned();
    status.take(Event::ExecutorRemoved { executor, reason, at: Tick(at + 90) });
}

/// An application that has forgotten its first jobs, and where it goes on.
fn warm() -> (AppStatus, u32) {
    let retained = RETAINED as usize;
    let retention = Retention { jobs: retained, stages: retained, tasks: 1000, dead_executors: 10 };
    let mut status = AppStatus::new(retention);
    let rounds = RETAINED * TURNS + 10;
    let start = now_ms() - u64::from(rounds) * 100 - 60_000;
    Made { start, tail: "", ..Made::SMALL }.events(&mut |event| status.take(event));
    begin(&mut status, LONG, &stage(LONG, LONG_TASKS), start + 50_000);
    (0..rounds)
        .for_each(|number| run(&mut status, number, start + 60_000 + u64::from(number) * 100));
    (status, rounds)
}

fn busy(served: &Fixed, from: u32, stop: &AtomicBool) {
    for number in from.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        run(&mut served.applications.lock().unwrap()[0], number, now_ms());
        std::thread::park_timeout(Duration::from_secs(1) / JOBS);
    }
}

/// A reader of updates, again and again, until `stop`: as browsers do. Counts what it was told.
fn follow(address: SocketAddr, stop: &AtomicBool, told: &AtomicU64) {
    let mut buffer = [0; 4096];
    while !stop.load(Ordering::Relaxed) {
        let mut stream = send(address, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        while !stop.load(Ordering::Relaxed) {
            match stream.read(&mut buffer) {
                Ok(read) if read > 0 => {
                    let text = String::from_utf8_lossy(&buffer[..read]);
                    told.fetch_add(
                        text.matches("event: changed").count() as u64,
                        Ordering::Relaxed,
                    );
                }
                _ => break,
            }
        }
    }
}

/// Ends the other threads, however this one ends: a scope waits for all of them.
struct Stop<'a>(&'a AtomicBool, Thread);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.unpark();
    }
}

/// A Chromium with pages open, which says itself what it takes.
struct Browser(Child);

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Browser {
    /// `None`: there is none.
    fn start(address: SocketAddr, lasts: Duration, paths: &[String]) -> Option<Self> {
        let chromium = std::env::var("FIRESTEEL_CHROMIUM").ok()?;
        let keeps = std::env::var_os("FIRESTEEL_OPEN_LEAKS").is_some();
        let paths: Vec<String> =
            paths.iter().map(|path| format!("\"{}\"", path.trim_start_matches('/'))).collect();
        let config = format!(
            "{{\"chromium\":\"{chromium}\",\"address\":\"http://{address}/\",\"paths\":[{}],\"seconds\":{},\"keeps\":{keeps}}}",
            paths.join(","),
            lasts.as_secs()
        );
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pages/open.mjs");
        let mut node = Command::new("node");
        let node = node.arg(script).arg(config).stdout(Stdio::piped());
        Some(Browser(node.spawn().expect("node runs")))
    }

    fn is_over(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    fn told(mut self) -> String {
        let mut text = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(self.0.wait().unwrap().success(), "the browser broke down: {text}");
        text
    }
}

/// What the server held, from the beginning to the end of the time.
fn watched(address: SocketAddr, lasts: Duration, paths: &[String]) -> (Vec<u64>, Option<String>) {
    let mut browser = Browser::start(address, lasts, paths);
    let (start, mut held) = (Instant::now(), Vec::new());
    while start.elapsed() < lasts || browser.as_mut().is_some_and(|it| !it.is_over()) {
        for path in paths {
            let page = get(address, path, "");
            assert!(page.starts_with("HTTP/1.1 200"), "{path}: {page}");
        }
        if start.elapsed() < lasts {
            held.push(resident_kb());
        }
        assert!(start.elapsed() < lasts + PATIENCE, "the browser does not end");
        std::thread::park_timeout(EVERY);
    }
    (held, browser.map(Browser::told))
}

#[test]
#[ignore = "a measurement of an hour: ./bench pages runs it optimised"]
fn pages_that_are_left_open_take_no_more_memory() {
    let told = std::env::var("FIRESTEEL_OPEN_SECONDS").ok().and_then(|text| text.parse().ok());
    let lasts = Duration::from_secs(told.unwrap_or(3600));
    let (status, rounds) = warm();
    let served = Arc::new(Fixed::new(vec![status], true));
    let server = serve(served.clone());
    let (address, stop, updates) = (server.address(), AtomicBool::new(false), AtomicU64::new(0));
    let paths = ["/", "/jobs/", "/stages/", "/executors/"].map(str::to_owned);
    let paths = [&paths[..], &[format!("/stages/stage/?id={LONG}")]].concat();
    let (server_kb, browser) = std::thread::scope(|scope| {
        let busy = scope.spawn(|| busy(&served, rounds, &stop));
        let _stop = Stop(&stop, busy.thread().clone());
        (0..PAGES).for_each(|_| drop(scope.spawn(|| follow(address, &stop, &updates))));
        watched(address, lasts, &paths)
    });
    let left = Left {
        seconds: lasts.as_secs(),
        server_kb,
        updates: updates.into_inner() / PAGES as u64,
        pages: paths.len(),
        browser: browser.map(|told| Held::read(&told)),
    };
    // libtest has begun a line.
    println!("\n{}", flat::lines(&left).join("\n"));
}

#[test]
fn what_is_followed_is_there_after_everything_was_forgotten() {
    let (status, rounds) = warm();
    assert!(status.stage(StageRef { stage: StageId(LONG), attempt: 0 }).is_some());
    assert!(status.stage(StageRef { stage: StageId(0), attempt: 0 }).is_none());
    assert!(status.totals().jobs_started >= u64::from(RETAINED * TURNS));
    let served = Fixed::new(vec![status], true);
    for number in rounds..rounds + 2 * RETAINED {
        run(&mut served.applications.lock().unwrap()[0], number, now_ms());
        let page = crate::get(&served, &format!("/stages/stage/?id={LONG}"));
        assert_eq!(page.status, 200, "after {number} jobs");
    }
}
