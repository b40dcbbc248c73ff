//! Contexts with executors in processes of their own, and what becomes of those.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use firesteel::prelude::*;
use firesteel::types::Event;
use firesteel::{Builder, Listener};

/// How long anything may take that happens at all.
pub(crate) const DEADLINE: Duration = Duration::from_secs(90);

/// So many executors of one core each.
pub(crate) fn builder(executors: u32) -> Builder {
    let master = format!("local-cluster[{executors},1,256]");
    let builder = Context::builder().master(&master).app_name("executors");
    builder.arguments([""; 0]).config("spark.ui.showConsoleProgress", false)
}

/// A context whose executors are registered.
pub(crate) fn started(builder: Builder, executors: usize) -> (Context, Seen) {
    let seen = Seen::default();
    let ctx = builder.listener(seen.clone()).build().unwrap();
    seen.wait(|events| alive(events) == executors);
    (ctx, seen)
}

/// How many executors came and are not gone.
pub(crate) fn alive(events: &[Event]) -> usize {
    let count = |wanted: fn(&Event) -> bool| events.iter().filter(|event| wanted(event)).count();
    count(|event| matches!(event, Event::ExecutorAdded { .. }))
        - count(|event| matches!(event, Event::ExecutorRemoved { .. }))
}

/// Everything that happened.
#[derive(Clone, Default)]
pub(crate) struct Seen(pub(crate) Arc<Mutex<Vec<Event>>>);

impl Listener for Seen {
    fn on_event(&mut self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

impl Seen {
    pub(crate) fn wait(&self, until: impl Fn(&[Event]) -> bool) {
        wait_until(|| until(&self.0.lock().unwrap()));
    }
}

pub(crate) fn wait_until(condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < DEADLINE, "it did not happen in time");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Takes long enough that no executor gets all of a job's tasks.
pub(crate) fn work() {
    let until = Instant::now() + Duration::from_millis(20);
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

/// The executors' processes.
#[allow(dead_code, reason = "not every test that has executors asks")]
pub(crate) fn processes(ctx: &Context) -> Vec<u32> {
    let ids = ctx.parallelize_in(8, 0..8u32).map(|_| {
        work();
        std::process::id()
    });
    distinct(ids.collect().unwrap())
}

#[allow(dead_code, reason = "not every test that has executors asks")]
pub(crate) fn distinct(mut ids: Vec<u32>) -> Vec<u32> {
    ids.sort_unstable();
    ids.dedup();
    ids
}

#[allow(dead_code, reason = "not every test that has executors asks")]
pub(crate) fn signal(name: &str, process: u32) {
    let status = std::process::Command::new("kill").args([name, &process.to_string()]).status();
    assert!(status.unwrap().success());
}

/// Whether a process has ended, even if nobody has asked how.
#[allow(dead_code, reason = "not every test that has executors asks")]
pub(crate) fn is_gone(process: u32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{process}/stat"));
    state.is_ok_and(|state| state.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")))
        || !std::path::Path::new(&format!("/proc/{process}")).exists()
}
