//! Ctrl-C and termination: cancel the jobs, clean up, exit as a program killed by the signal would
//! (130, 143). A second signal exits at once.

use std::sync::{Mutex, Once, Weak};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::context::Inner;

static CONTEXTS: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());

/// Stops this context when the process is told to end.
pub(crate) fn watch(context: Weak<Inner>) {
    let mut contexts = CONTEXTS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    contexts.retain(|context| context.strong_count() > 0);
    contexts.push(context);
    drop(contexts);
    static STARTED: Once = Once::new();
    STARTED.call_once(start);
}

fn start() {
    let started = Signals::new([SIGINT, SIGTERM]).and_then(|signals| {
        std::thread::Builder::new().name("firesteel-signals".into()).spawn(|| listen(signals))
    });
    if let Err(error) = started {
        tracing::warn!(%error, "signals are not handled: Ctrl-C ends without cleaning up");
    }
}

fn listen(mut signals: Signals) {
    let mut pending = signals.forever();
    let Some(signal) = pending.next() else { return };
    let code = 128 + signal;
    let cleaning = std::thread::spawn(move || {
        clean_up(signal);
        std::process::exit(code);
    });
    // A user who asks twice does not want to wait.
    pending.next();
    drop(cleaning);
    std::process::exit(code);
}

fn clean_up(signal: i32) {
    let name = if signal == SIGINT { "interrupted" } else { "terminated" };
    eprintln!("{name}: cancelling jobs and cleaning up");
    let contexts =
        std::mem::take(&mut *CONTEXTS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
    for context in contexts.iter().filter_map(Weak::upgrade) {
        context.interrupt(name);
    }
}
