//! What tells open pages that something changed: an event per change, at most one a second. Pages ask for themselves again then.

use std::hash::{DefaultHasher, Hash, Hasher};

use firesteel_monitor::site::UpdateSource;
use firesteel_status::AppStatus;

/// After so many seconds without a change a comment is sent, to find out whether the reader is still there.
const SILENCE: u32 = 15;

/// Events for one browser: `changed` with a number that stands for the status and one that stands for the application, `over` when
/// it ended.
pub(crate) fn updates() -> UpdateSource {
    let (mut last, mut silent, mut is_over) = (None, 0, false);
    Box::new(move |served| {
        if is_over {
            return None;
        }
        let mut now = None;
        if let Some(entry) = served.list().first() {
            served.with_status(&entry.id, None, &mut |status| {
                now = Some((fingerprint(status), identity(status)));
            });
        }
        silent += 1;
        match now {
            None => {
                is_over = true;
                Some("event: over\ndata: 0\n\n".to_owned())
            }
            Some(now) if Some(now) != last => {
                // The first one is what the page shows already.
                let is_first = last.replace(now).is_none();
                silent = 0;
                let name = if is_first { "hello" } else { "changed" };
                Some(format!("event: {name}\ndata: {:016x} {:016x}\n\n", now.0, now.1))
            }
            _ if silent >= SILENCE => {
                silent = 0;
                Some(": still here\n\n".to_owned())
            }
            _ => Some(String::new()),
        }
    })
}

/// Another one for another application, or another run of the same name: a port is taken by one after the other.
pub(crate) fn identity(status: &AppStatus) -> u64 {
    let (mut hasher, application) = (DefaultHasher::new(), status.application());
    (&application.id, &application.attempt_id, application.started).hash(&mut hasher);
    hasher.finish()
}

/// Another one whenever something that pages show has changed, in time that grows with what runs, not with what ran.
pub(crate) fn fingerprint(status: &AppStatus) -> u64 {
    let mut hasher = DefaultHasher::new();
    (status.application().ended, status.shortage()).hash(&mut hasher);
    for job in status.active_jobs() {
        (job.job, job.completed_indices, job.tasks.active, job.tasks.failed).hash(&mut hasher);
    }
    for executor in status.executors() {
        let tasks = executor.tasks;
        (tasks.active, tasks.completed, tasks.failed, tasks.killed).hash(&mut hasher);
        (
            executor.memory_used,
            executor.disk_used,
            executor.removed.is_some(),
            executor.is_excluded,
            // With every heartbeat.
            executor.usage.samples().last().map(|sample| sample.at),
        )
            .hash(&mut hasher);
    }
    hasher.finish()
}
