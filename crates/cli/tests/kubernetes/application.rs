//! The application of these tests: in the process of the test (client mode), or in a pod (cluster mode).

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use firesteel::prelude::*;
use firesteel::types::Event;
use firesteel::{Builder, Listener};

use crate::cluster::{HOST, IMAGE, Turn, URL, wait_for, wait_until};

/// What a driver saw of its executors.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Executors>>);

#[derive(Default)]
struct Executors {
    /// How long it took until the first ones were there.
    start: Duration,
    active: std::collections::BTreeSet<u32>,
    removed: Vec<(u32, String, Instant)>,
    /// Why executors are missing, as users hear it.
    missing: Vec<(String, Instant)>,
    failed_tasks: u32,
}

impl Listener for Seen {
    fn on_event(&mut self, event: &Event) {
        let seen = &mut *self.0.lock().unwrap();
        match event {
            Event::ExecutorAdded { executor, .. } => {
                seen.active.insert(executor.0);
            }
            Event::ExecutorRemoved { executor, reason, .. } => {
                seen.active.remove(&executor.0);
                seen.removed.push((executor.0, reason.clone(), Instant::now()));
            }
            Event::TaskEnd { failure: Some(_), .. } => seen.failed_tasks += 1,
            Event::ExecutorsMissing { shortage: Some(words), .. } => {
                seen.missing.push((words.clone(), Instant::now()));
            }
            _ => {}
        }
    }
}

/// How long the wanted executors may be missing after a pod, a process or its memory is gone.
const BAR: Duration = Duration::from_secs(5);
/// No job and no command of these tests takes longer.
const LONGEST: Duration = Duration::from_secs(300);
/// So long nothing may be heard of an executor before it is removed: what is on a node that dies has this time, and then the other.
pub(crate) const SILENCE: Duration = Duration::from_secs(10);

impl Seen {
    pub(crate) fn active(&self) -> Vec<u32> {
        self.0.lock().unwrap().active.iter().copied().collect()
    }

    pub(crate) fn wait_for(&self, count: usize) {
        wait_until(&format!("{count} executors"), || self.active().len() == count);
    }

    /// How long wanted executors may be missing. A machine on which the first ones took longer than that cannot do it: it has as long as
    /// they took, and half, and says so.
    pub(crate) fn bar(&self) -> Duration {
        let start = self.0.lock().unwrap().start;
        if start <= BAR { BAR } else { start * 3 / 2 }
    }

    /// How many tasks failed or were lost.
    pub(crate) fn failed_tasks(&self) -> u32 {
        self.0.lock().unwrap().failed_tasks
    }

    fn started(&self, start: Duration) {
        self.0.lock().unwrap().start = start;
        let judged = match start <= BAR {
            true => String::new(),
            // `./test k8s` counts these lines.
            false => format!(", the bar of {} s is not judged", BAR.as_secs()),
        };
        println!("executors started within {} ms{judged}", start.as_millis());
    }

    /// When users first heard that executors are missing for this reason.
    pub(crate) fn told(&self, words: &str) -> Instant {
        let heard = || {
            let seen = self.0.lock().unwrap();
            seen.missing.iter().find(|(said, _)| said.contains(words)).map(|(_, at)| *at)
        };
        wait_for(&format!("users are told of {words}"), heard)
    }

    /// Why an executor was removed, and when, once it was.
    pub(crate) fn removal(&self, executor: u32) -> Option<(String, Instant)> {
        let seen = self.0.lock().unwrap();
        let found = seen.removed.iter().find(|(removed, ..)| *removed == executor);
        found.map(|(_, reason, at)| (reason.clone(), *at))
    }
}

/// What every scenario prints: how long it took until the fault was noticed, and until all was well again, or over.
pub(crate) fn print_times(scenario: &str, noticed: Duration, recovered: Duration) {
    println!(
        "scenario {scenario}: noticed after {} ms, recovered after {} ms",
        noticed.as_millis(),
        recovered.as_millis()
    );
}

/// An application of two executors in a namespace, whose driver is this process.
pub(crate) fn builder(turn: &Turn) -> Builder {
    anonymous(turn).config("spark.kubernetes.authenticate.oauthToken", "admin-token")
}

/// The same, without what proves who asks.
pub(crate) fn anonymous(turn: &Turn) -> Builder {
    Context::builder()
        .master(&format!("k8s://{URL}"))
        .app_name("scenario")
        .arguments([] as [&str; 0])
        .config("spark.ui.showConsoleProgress", false)
        .config("spark.kubernetes.namespace", &turn.namespace)
        .config("spark.kubernetes.container.image", IMAGE)
        .config("spark.kubernetes.container.image.pullPolicy", "Never")
        .config("spark.kubernetes.authenticate.caCertFile", turn.cluster.file("pki/ca.crt"))
        .config("spark.kubernetes.executor.request.cores", "100m")
        .config("spark.kubernetes.executor.terminationGracePeriodSeconds", "5s")
        .config("spark.executor.instances", 2)
        .config("spark.executor.memory", "128m")
        .config("spark.executor.heartbeatInterval", "1s")
        .config("spark.network.timeout", format!("{}s", SILENCE.as_secs()))
        .config("spark.eventLog.enabled", false)
        .config("spark.ui.enabled", false)
}

pub(crate) fn start(builder: Builder, executors: usize) -> (Context, Seen) {
    let (seen, since) = (Seen::default(), Instant::now());
    let ctx = builder.listener(seen.clone()).build().unwrap();
    seen.wait_for(executors);
    seen.started(since.elapsed());
    (ctx, seen)
}

/// Sums up in tasks that take a while.
pub(crate) fn sum(ctx: &Context) -> u64 {
    let slow = ctx.parallelize_in(8, 0..800u64).map_partitions(|items| {
        std::thread::sleep(Duration::from_millis(50));
        items
    });
    let sums = slow.map(|x| (x % 5, x)).reduce_by_key_into(4, |a, b| a + b).map(|(_, sum)| sum);
    bounded("a sum", move || sums.sum().unwrap())
}

/// What may never come to its end if something is wrong.
pub(crate) fn bounded<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (sender, done) = channel();
    let thread = std::thread::spawn(move || drop(sender.send(work())));
    match done.recv_timeout(LONGEST) {
        Ok(done) => done,
        Err(RecvTimeoutError::Timeout) => panic!("it did not end within {LONGEST:?}: {what}"),
        Err(RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(thread.join().expect_err("it sent nothing"))
        }
    }
}

/// Where tasks connect to before they do what a test wants of them.
pub(crate) struct Tasks(TcpListener);

impl Tasks {
    pub(crate) fn listen() -> Self {
        let listener = TcpListener::bind((HOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        Tasks(listener)
    }

    pub(crate) fn address(&self) -> String {
        self.0.local_addr().unwrap().to_string()
    }

    pub(crate) fn next(&self) -> TcpStream {
        let (stream, _) = wait_for("a task", || self.0.accept().ok());
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(LONGEST)).unwrap();
        stream
    }

    /// When the process of the next task ends, which keeps its connection until then.
    pub(crate) fn next_ends(&self) -> Instant {
        let read = self.next().read(&mut [0]);
        let reset = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
        let ended = read.as_ref().map_or_else(reset, |bytes| *bytes == 0);
        assert!(ended, "a task writes nothing, and ends: {read:?}");
        Instant::now()
    }
}

pub(crate) const SUM: u64 = 799 * 800 / 2;

/// What pods run as drivers; on its own it is an application in local mode.
#[test]
#[ignore = "runs as the application of the other tests; part of ./test k8s"]
fn the_application_of_these_tests() {
    let ctx = Context::builder().arguments([] as [&str; 0]).build().unwrap();
    assert_eq!(sum(&ctx), SUM);
    println!("the sum is {SUM}");
    if std::env::var_os("TEST_STAYS").is_some() {
        loop {
            assert_eq!(sum(&ctx), SUM);
        }
    }
    ctx.stop();
    if let Some(code) = std::env::var("TEST_EXIT_CODE").ok().and_then(|code| code.parse().ok()) {
        std::process::exit(code);
    }
}
