//! A directory for one test, contexts for it, and the looks at what must not be left behind.

#![allow(dead_code)] // no test file needs all of it

use std::fmt::Debug;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use firesteel::prelude::*;
use firesteel::{Builder, JobFuture};

/// Long enough for a loaded machine; a test that waits this long has failed.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// How tasks reach the threads or processes that run them.
pub(crate) const TRANSPORTS: [&str; 3] = ["direct", "encoded", "process"];

/// A directory that goes away with the test.
pub(crate) struct Scratch(tempfile::TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        Scratch(tempfile::Builder::new().prefix("firesteel-test-").tempdir().unwrap())
    }

    /// Something in it, as text.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = PathBuf::from(self.path(name));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        self.path(name)
    }

    /// All that is in it, hidden or not, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        names_in(self.0.path().to_str().unwrap())
    }
}

pub(crate) fn names_in(directory: &str) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Two threads, no retries, nothing read from the test's own arguments.
pub(crate) fn builder() -> Builder {
    Context::builder()
        .app_name("test")
        .master("local[2]")
        .config("spark.ui.showConsoleProgress", false)
        .config("spark.firesteel.handleInterrupt", false)
        .arguments([""; 0])
}

pub(crate) fn context() -> Context {
    builder().build().unwrap()
}

/// The error of something that must fail, which must contain these words.
#[track_caller]
pub(crate) fn fails_with<T: Debug>(result: Result<T>, words: &[&str]) -> Error {
    let error = result.expect_err("this should fail");
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{word:?} is missing in: {text}");
    }
    error
}

/// A context that has refused something runs the next job all the same.
#[track_caller]
pub(crate) fn assert_usable(ctx: &Context) {
    let pairs = ctx.range(0..100u64).map(|x| (x % 3, x)).reduce_by_key(|a, b| a + b);
    assert_eq!(pairs.values().reduce(|a, b| a + b).unwrap(), 4950);
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited {DEADLINE:?} in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The result of an action in the background, if it comes in time.
#[track_caller]
pub(crate) fn wait_for<T: Send + 'static>(future: JobFuture<T>) -> Result<T> {
    wait_until("the action ends", || future.is_finished());
    future.wait()
}
