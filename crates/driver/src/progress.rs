//! Console progress: one line per running stage on the terminal, with tasks done, rate and time left.
//!
//! Lives on the listener bus like any listener. A stage is shown once it has run for half a second,
//! so that quick jobs leave the terminal alone; lines vanish when their stage ends.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use firesteel_types::{Event, StageRef};

use crate::Listener;

const FIRST_SHOWN_AFTER: Duration = Duration::from_millis(500);

/// Draws stages on standard error.
pub(crate) struct ConsoleProgress {
    bars: MultiProgress,
    stages: BTreeMap<StageRef, Stage>,
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
        Self::on(ProgressDrawTarget::stderr(), interval)
    }

    fn on(target: ProgressDrawTarget, interval: Duration) -> Self {
        let bars = MultiProgress::with_draw_target(target);
        ConsoleProgress { bars, stages: BTreeMap::new(), interval }
    }

    fn update(&mut self, stage: StageRef, change: impl FnOnce(&mut Stage)) {
        let Some(found) = self.stages.get_mut(&stage) else { return };
        change(found);
        if found.bar.is_none() && found.since.elapsed() >= FIRST_SHOWN_AFTER {
            found.bar = Some(start_bar(&self.bars, stage, found, self.interval));
        }
        if let Some(bar) = &found.bar {
            bar.set_position(found.done);
            bar.set_message(note(found));
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
        "{prefix} [{bar:24}] {pos}/{len} {per_sec:>9} eta {eta}  {wide_msg}",
    )
    .expect("the template is a constant")
    .progress_chars("=> ");
    let bar = bars.add(ProgressBar::new(state.tasks).with_style(style));
    bar.set_prefix(format!("Stage {stage}"));
    bar.set_elapsed(state.since.elapsed());
    bar.enable_steady_tick(interval);
    bar
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
                self.stages.insert(stage.stage, state);
            }
            Event::TaskStart { task, .. } => self.update(task.stage, |stage| stage.running += 1),
            Event::TaskEnd { task, failure, .. } => self.update(task.stage, |stage| {
                stage.running = stage.running.saturating_sub(1);
                match failure {
                    None => stage.done += 1,
                    Some(_) => stage.failed += 1,
                }
            }),
            Event::StageCompleted { stage, .. } => {
                if let Some(Stage { bar: Some(bar), .. }) = self.stages.remove(&stage.stage) {
                    bar.finish_and_clear();
                    self.bars.remove(&bar);
                }
            }
            Event::ApplicationEnd { .. } => {
                let _ = self.bars.clear();
            }
            _ => {}
        }
    }
}
