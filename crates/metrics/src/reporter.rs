//! The thread that tells sinks how things stand.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::sinks::Sink;
use crate::{Metrics, SinkOptions, Source};

/// A failing sink is told of so often.
const TOLD_EVERY: Duration = Duration::from_secs(600);

/// Who drops a reporter waits so long for its last report: a machine may not be found, and a source not answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reports until it is dropped, and once more then.
#[derive(Debug)]
pub struct Reporter {
    stop: Option<Sender<()>>,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
    thread: Option<JoinHandle<()>>,
    patience: Duration,
}

struct Due {
    sink: Sink,
    name: String,
    period: Duration,
    next: Instant,
    complained: Option<Instant>,
}

impl Due {
    fn report(&mut self, metrics: &Metrics) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Instant::now();
        if let Err(error) = self.sink.report(since.as_secs(), metrics)
            && self.complained.is_none_or(|before| now.duration_since(before) >= TOLD_EVERY)
        {
            self.complained = Some(now);
            tracing::warn!(%error, sink = self.name, "metrics could not be reported");
        }
    }
}

impl Reporter {
    /// Begins; without sinks there is nothing to do, and no thread.
    pub fn start(sinks: Vec<SinkOptions>, source: Source) -> Option<Self> {
        let begin = Instant::now();
        let mut sinks: Vec<Due> = sinks
            .into_iter()
            .map(|options| Due {
                sink: Sink::new(options.kind),
                name: options.name,
                period: options.period,
                next: begin + options.period,
                complained: None,
            })
            .collect();
        if sinks.is_empty() {
            return None;
        }
        let (stop, stopped) = channel::<()>();
        let (ending, ended) = channel::<()>();
        let thread = std::thread::Builder::new().name("firesteel-metrics".to_owned());
        let spawned = thread.spawn(move || {
            let _ending = ending;
            loop {
                let next = sinks.iter().map(|due| due.next).min().unwrap_or(begin);
                let wait = next.saturating_duration_since(Instant::now());
                match stopped.recv_timeout(wait) {
                    Err(RecvTimeoutError::Timeout) => report_due(&mut sinks, &source),
                    _ => break,
                }
            }
            let metrics = source();
            sinks.iter_mut().for_each(|due| due.report(&metrics));
        });
        match spawned {
            Ok(thread) => {
                let (stop, thread) = (Some(stop), Some(thread));
                Some(Reporter { stop, ended, thread, patience: PATIENCE })
            }
            Err(error) => {
                tracing::warn!(%error, "no metrics are reported: no thread for it");
                None
            }
        }
    }
}

fn report_due(sinks: &mut [Due], source: &Source) {
    let metrics = source();
    let now = Instant::now();
    for due in sinks.iter_mut().filter(|due| due.next <= now) {
        due.report(&metrics);
        due.next = Instant::now() + due.period;
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        drop(self.stop.take());
        let Some(thread) = self.thread.take() else { return };
        // The source may hold on to what holds this.
        if thread.thread().id() == std::thread::current().id() {
            return;
        }
        match self.ended.recv_timeout(self.patience) {
            Err(RecvTimeoutError::Timeout) => {
                tracing::warn!("the last metrics were not reported in time");
            }
            _ => drop(thread.join()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::SinkKind;

    #[test]
    fn a_report_that_never_ends_does_not_hold_up_the_end_of_the_process() {
        let directory = tempfile::tempdir().unwrap();
        let kind = SinkKind::Csv { directory: directory.path().to_owned() };
        let sink = SinkOptions { name: "s".to_owned(), period: Duration::from_secs(1000), kind };
        let (hold, held) = channel::<()>();
        let held = Mutex::new(held);
        let source = move || {
            let _ = held.lock().unwrap().recv();
            Metrics::new("")
        };
        let mut reporter = Reporter::start(vec![sink], Arc::new(source)).unwrap();
        reporter.patience = Duration::from_millis(10);
        drop(reporter);
        drop(hold);
    }
}
