//! Console progress: one line per running stage on the terminal, with tasks done, rate and time left.
//!
//! Lives on the listener bus like any listener. A stage is shown once it has run for half a second,
//! so that quick jobs leave the terminal alone; lines vanish when their stage ends.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use indicatif::{
    HumanDuration, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle,
};

use firesteel_types::{Event, StageRef};

use crate::Listener;

const FIRST_SHOWN_AFTER: Duration = Duration::from_millis(500);

/// Draws stages on standard error.
pub(crate) struct ConsoleProgress {
    lines: Arc<Lines>,
    /// Its end ends the thread that shows stages whose tasks are long and send no events.
    _thread: Sender<()>,
}

struct Lines {
    bars: MultiProgress,
    stages: Mutex<BTreeMap<StageRef, Stage>>,
    interval: Duration,
}

struct Stage {
    name: String,
    tasks: u64,
    done: u64,
    running: u64,
    failed: u64,
    since: Instant,
    bar: Option<ProgressBar>,
}

impl ConsoleProgress {
    /// For standard error, redrawn at most this often.
    pub(crate) fn new(interval: Duration) -> Self {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let lines = Arc::new(Lines { bars, stages: Mutex::default(), interval });
        let (sender, ended) = channel();
        let shown = lines.clone();
        let thread = std::thread::Builder::new().name("firesteel-progress".into());
        let spawned = thread.spawn(move || {
            while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                shown.show_those_that_run_long();
            }
        });
        if let Err(error) = spawned {
            tracing::warn!(%error, "stages of long tasks are shown late: no thread for them");
        }
        ConsoleProgress { lines, _thread: sender }
    }
}

impl Lines {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<StageRef, Stage>> {
        self.stages.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn update(&self, stage: StageRef, change: impl FnOnce(&mut Stage)) {
        let mut stages = self.lock();
        let Some(found) = stages.get_mut(&stage) else { return };
        change(found);
        if let Some(bar) = &found.bar {
            bar.set_position(found.done);
            bar.set_message(note(found));
        }
    }

    fn show_those_that_run_long(&self) {
        for (stage, state) in self.lock().iter_mut() {
            if state.bar.is_none() && state.since.elapsed() >= FIRST_SHOWN_AFTER {
                state.bar = Some(start_bar(&self.bars, *stage, state, self.interval));
            }
        }
    }
}

fn note(stage: &Stage) -> String {
    let failures = match stage.failed {
        0 => String::new(),
        failed => format!(", {failed} failed"),
    };
    format!("{} running{failures}  {}", stage.running, stage.name)
}

fn start_bar(
    bars: &MultiProgress,
    stage: StageRef,
    state: &Stage,
    interval: Duration,
) -> ProgressBar {
    let style = ProgressStyle::with_template(
        "{prefix} [{bar:24}] {pos}/{len} {rate:>9} eta {left}  {wide_msg}",
    )
    .expect("the template is a constant")
    .with_key("rate", write_rate)
    .with_key("left", write_time_left)
    .progress_chars("=> ");
    // Complete before it is added: that draws it for the first time.
    let bar = ProgressBar::with_draw_target(Some(state.tasks), ProgressDrawTarget::hidden())
        .with_style(style)
        .with_prefix(format!("Stage {stage}"))
        .with_message(note(state))
        .with_position(state.done)
        .with_elapsed(state.since.elapsed());
    let bar = bars.add(bar);
    bar.enable_steady_tick(interval);
    bar
}

// Since the stage began: indicatif's own estimate would count from when the line first appeared.

fn write_rate(state: &ProgressState, out: &mut dyn fmt::Write) {
    let _ = write!(out, "{:.1}/s", state.pos() as f64 / state.elapsed().as_secs_f64());
}

fn write_time_left(state: &ProgressState, out: &mut dyn fmt::Write) {
    let left = state.len().unwrap_or(0).saturating_sub(state.pos());
    let written = match state.pos() {
        0 => write!(out, "?"),
        done => {
            let left = state.elapsed().mul_f64(left as f64 / done as f64);
            write!(out, "{:#}", HumanDuration(left))
        }
    };
    let _ = written;
}

impl Listener for ConsoleProgress {
    fn on_event(&mut self, event: &Event) {
        match event {
            Event::StageSubmitted { stage, .. } => {
                let state = Stage {
                    name: stage.name.to_string(),
                    tasks: u64::from(stage.tasks),
                    done: 0,
                    running: 0,
                    failed: 0,
                    since: Instant::now(),
                    bar: None,
                };
                self.lines.lock().insert(stage.stage, state);
            }
            Event::TaskStart { task, .. } => {
                self.lines.update(task.stage, |stage| stage.running += 1);
            }
            Event::TaskEnd { task, failure, .. } => self.lines.update(task.stage, |stage| {
                stage.running = stage.running.saturating_sub(1);
                match failure {
                    None => stage.done += 1,
                    Some(_) => stage.failed += 1,
                }
            }),
            Event::StageCompleted { stage, .. } => {
                let ended = self.lines.lock().remove(&stage.stage);
                if let Some(Stage { bar: Some(bar), .. }) = ended {
                    bar.finish_and_clear();
                    self.lines.bars.remove(&bar);
                }
            }
            Event::ApplicationEnd { .. } => {
                let _ = self.lines.bars.clear();
            }
            _ => {}
        }
    }
}
