//! Contexts for tests, one shared context per transport, and waiting for a condition.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use firesteel::types::Event;
use firesteel::{Builder, Context};

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

/// A context of one's own with two threads.
pub(crate) fn context() -> Context {
    builder("local[2]").build().unwrap()
}

/// A context of one's own in a transport.
pub(crate) fn context_over(transport: &str, master: &str) -> Context {
    builder(master).config("spark.firesteel.local.transport", transport).build().unwrap()
}

/// Runs a check in each transport. The contexts are shared by all tests of this process, which run
/// at the same time: as good as a test of its own.
pub(crate) fn on_every_transport(check: impl Fn(&Context)) {
    static CONTEXTS: OnceLock<Vec<Context>> = OnceLock::new();
    let contexts = CONTEXTS.get_or_init(|| {
        TRANSPORTS.into_iter().map(|transport| context_over(transport, "local[2]")).collect()
    });
    for (transport, context) in TRANSPORTS.into_iter().zip(contexts) {
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

/// Everything a context's listeners heard.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Vec<Event>>>);

impl Heard {
    /// Starts the context with this listener.
    pub(crate) fn attach(builder: Builder) -> (Context, Heard) {
        let heard = Heard::default();
        let events = heard.0.clone();
        let listener = move |event: &Event| events.lock().unwrap().push(event.clone());
        (builder.listener(listener).build().unwrap(), heard)
    }

    /// What was heard so far.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }

    /// Waits for the listeners, then counts.
    pub(crate) fn count(&self, context: &Context, is: impl Fn(&Event) -> bool) -> usize {
        context.wait_for_listeners();
        self.0.lock().unwrap().iter().filter(|event| is(event)).count()
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
