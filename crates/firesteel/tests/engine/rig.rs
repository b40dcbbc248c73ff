//! Contexts for tests, shared contexts for some transports, and waiting for a condition. Whatever a test does, the log of its
//! context gives the status that the context had (S18).

use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use firesteel::status::{AppStatus, Retention};
use firesteel::types::Event;
use firesteel::{Builder, Context};
use firesteel_monitor::{Encoder, Extent, Replay};

/// No test waits longer than this for anything.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// How tasks travel: as they are, through their wire form, to a child process.
pub(crate) const TRANSPORTS: [&str; 3] = ["direct", "encoded", "process"];

/// Settings that read neither the test runner's arguments nor its terminal.
pub(crate) fn builder(master: &str) -> Builder {
    Context::builder()
        .app_name("engine-test")
        .master(master)
        .arguments([] as [String; 0])
        .config("spark.ui.showConsoleProgress", false)
        .config("spark.scheduler.listenerbus.eventqueue.capacity", 1_000_000)
}

/// A context whose status is compared with that of its log when it goes.
pub(crate) struct Logged {
    _heard: Heard,
    context: Context,
}

impl Deref for Logged {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

/// A context of one's own with two threads.
pub(crate) fn context() -> Logged {
    context_over("direct", "local[2]")
}

fn over(transport: &str, master: &str) -> Builder {
    builder(master).config("spark.firesteel.local.transport", transport)
}

/// A context of one's own in a transport.
pub(crate) fn context_over(transport: &str, master: &str) -> Logged {
    let (context, _heard) = Heard::attach(over(transport, master));
    Logged { _heard, context }
}

/// Runs a check in each transport. The contexts of those through which tasks go in their wire form are shared by all tests of this
/// process, which run at the same time: as good as a test of its own.
pub(crate) fn on_every_transport(check: impl Fn(&Context)) {
    static CONTEXTS: OnceLock<Vec<Context>> = OnceLock::new();
    let contexts = CONTEXTS.get_or_init(|| {
        let shared = TRANSPORTS.into_iter().skip(1);
        shared.map(|transport| over(transport, "local[2]").build().unwrap()).collect()
    });
    eprintln!("transport: {}", TRANSPORTS[0]);
    check(&context_over(TRANSPORTS[0], "local[2]"));
    for (transport, context) in TRANSPORTS.into_iter().skip(1).zip(contexts) {
        eprintln!("transport: {transport}");
        check(context);
    }
}

pub(crate) fn sorted<T: Ord>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut items: Vec<T> = items.into_iter().collect();
    items.sort();
    items
}

/// Waits until `condition` holds; fails the test after [`DEADLINE`].
#[track_caller]
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// Everything a context's listeners heard. When the last one goes, it is replayed, as it is and as an event log: the status that
/// comes out has to be the context's own.
#[derive(Clone)]
pub(crate) struct Heard(Arc<Inner>);

struct Inner {
    events: Arc<Mutex<Vec<Event>>>,
    status: Box<dyn Fn() -> AppStatus + Send + Sync>,
    retention: Retention,
}

impl Inner {
    /// The status that the events give, after each has been to JSON and back.
    fn replayed(&self) -> AppStatus {
        let mut status = AppStatus::new(self.retention);
        for event in self.events.lock().unwrap().iter() {
            let json = serde_json::to_string(event).unwrap();
            let read: Event = serde_json::from_str(&json).unwrap_or_else(|e| panic!("{e}: {json}"));
            assert_eq!(read, *event, "{json}");
            status.apply(&read);
        }
        status
    }

    /// The status that the lines of an event log give (S18).
    fn logged(&self) -> AppStatus {
        let extent = Extent { block_updates: true, executor_metrics: true };
        let (mut encoder, mut lines) = (Encoder::new(extent), Vec::new());
        self.events.lock().unwrap().iter().for_each(|event| encoder.encode(event, &mut lines));
        encoder.finish(&mut lines);
        let mut replay = Replay::new(self.retention);
        lines.split(|byte| *byte == b'\n').for_each(|line| replay.line(line));
        assert_eq!(replay.unreadable(), 0, "S18: {}", String::from_utf8_lossy(&lines));
        replay.status().clone()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // Jobs may still run: what has happened since is in one of them only.
            wait_until("a replay gives the status", || (self.status)() == self.replayed());
            wait_until("S18: the event log gives the status", || (self.status)() == self.logged());
        }
    }
}

impl Heard {
    /// Starts the context with this listener.
    pub(crate) fn attach(builder: Builder) -> (Context, Heard) {
        let events = Arc::new(Mutex::new(Vec::new()));
        let heard: Arc<Mutex<Vec<Event>>> = events.clone();
        let listener = move |event: &Event| heard.lock().unwrap().push(event.clone());
        let context = builder.listener(listener).build().unwrap();
        let retention = Retention::from_conf(context.conf()).unwrap();
        let status = Box::new(context.status_reader());
        (context, Heard(Arc::new(Inner { events, status, retention })))
    }

    /// What was heard so far.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.0.events.lock().unwrap().clone()
    }

    /// Waits for the listeners, then counts.
    pub(crate) fn count(&self, context: &Context, is: impl Fn(&Event) -> bool) -> usize {
        context.wait_for_listeners();
        self.0.events.lock().unwrap().iter().filter(|event| is(event)).count()
    }

    /// Stage attempts begun so far that write map outputs.
    pub(crate) fn map_stages(&self, context: &Context) -> usize {
        self.count(
            context,
            |event| matches!(event, Event::StageSubmitted { stage, .. } if stage.shuffle_map),
        )
    }

    /// Stage attempts begun so far.
    pub(crate) fn stages(&self, context: &Context) -> usize {
        self.count(context, |event| matches!(event, Event::StageSubmitted { .. }))
    }

    /// Tasks ended so far.
    pub(crate) fn tasks(&self, context: &Context) -> usize {
        self.count(context, |event| matches!(event, Event::TaskEnd { .. }))
    }
}
