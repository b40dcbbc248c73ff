//! Ctrl-C and termination: cancel the jobs, clean up, exit as a program killed by the signal would
//! (130, 143). A second signal exits at once; a task that does not notice holds up the exit for a few
//! seconds only.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, Once, Weak};
use std::time::Duration;

use firesteel_task::Environment;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::context::Inner;

/// How long running tasks and listeners may take to notice.
const PATIENCE: Duration = Duration::from_secs(5);

static CONTEXTS: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());

/// Set by the signal's handler itself, before anything that the signal leads to can be seen.
static TOLD_TO_END: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Stops this context when the process is told to end.
pub(crate) fn watch(context: Weak<Inner>) {
    let mut contexts = CONTEXTS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    contexts.retain(|context| context.strong_count() > 0);
    contexts.push(context);
    drop(contexts);
    static STARTED: Once = Once::new();
    STARTED.call_once(start);
}

/// Waits for the process's end if it was told to end. Called before a program hears that its job
/// failed: it would report the failure and exit with a status of its own.
pub(crate) fn wait_if_told_to_end() {
    while TOLD_TO_END.load(Ordering::SeqCst) {
        std::thread::park();
    }
}

fn start() {
    let started = Signals::new([SIGINT, SIGTERM]).and_then(|signals| {
        std::thread::Builder::new().name("firesteel-signals".into()).spawn(|| listen(signals))
    });
    let flagged = started.and_then(|_| {
        [SIGINT, SIGTERM].into_iter().try_for_each(|signal| {
            signal_hook::flag::register(signal, TOLD_TO_END.clone()).map(drop)
        })
    });
    if let Err(error) = flagged {
        tracing::warn!(%error, "signals are not handled: Ctrl-C ends without cleaning up");
    }
}

fn listen(mut signals: Signals) {
    let mut pending = signals.forever();
    let Some(signal) = pending.next() else { return };
    TOLD_TO_END.store(true, Ordering::SeqCst);
    let code = 128 + signal;
    std::thread::spawn(move || {
        // Whatever goes wrong in there, the process ends.
        let _ = std::panic::catch_unwind(|| clean_up(signal));
        std::process::exit(code);
    });
    // A user who asks twice does not want to wait.
    pending.next();
    std::process::exit(code);
}

fn clean_up(signal: i32) {
    let name = if signal == SIGINT { "interrupted" } else { "terminated" };
    say(&format!("{name}: cancelling jobs and cleaning up"));
    let contexts =
        std::mem::take(&mut *CONTEXTS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
    let contexts: Vec<Arc<Inner>> = contexts.iter().filter_map(Weak::upgrade).collect();
    let (stopping, stopped) = std::sync::mpsc::channel::<()>();
    let own = contexts.clone();
    std::thread::spawn(move || {
        let _stopping = stopping;
        own.iter().for_each(|context| context.interrupt(name, 128 + signal));
    });
    if stopped.recv_timeout(PATIENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
        say(&format!(
            "some tasks did not end within {} s: exiting without them",
            PATIENCE.as_secs()
        ));
    }
    contexts.iter().for_each(|context| {
        context.leftovers.remove();
        context.engine.environment().scratch().remove_files();
    });
}

/// Standard error may be closed already; that is no reason to stay.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
