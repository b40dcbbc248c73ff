//! Console progress: one line per running stage on the terminal, with tasks done, rate and time left.
//!
//! A thread looks at the application's status every so often. A stage is shown once it has run for half a second,
//! so that quick jobs leave the terminal alone; lines vanish when their stage ends. When a job ends, its insights are
//! printed, a line each; those of the whole application when it stops.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{
    HumanDuration, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle,
};

use firesteel_engine::Engine;
use firesteel_status::Insight;
use firesteel_types::{JobId, StageRef, Tick};

const FIRST_SHOWN_AFTER: Duration = Duration::from_millis(500);

/// The thread that draws stages on standard error.
pub(crate) struct ConsoleProgress(Mutex<Option<(Sender<()>, JoinHandle<()>)>>);

impl ConsoleProgress {
    /// For standard error, redrawn this often.
    pub(crate) fn start(engine: &Arc<Engine>, interval: Duration) -> Self {
        let (engine, (sender, ended)) = (Arc::downgrade(engine), channel());
        let thread = std::thread::Builder::new().name("firesteel-progress".into());
        let spawned = thread.spawn(move || {
            let (mut lines, mut jobs) = (Lines::new(interval), BTreeSet::new());
            while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                let Some(engine) = engine.upgrade() else { break };
                lines.show(active_stages(&engine));
                lines.print(job_insights(&engine, &mut jobs));
            }
            let _ = lines.bars.clear();
            if let Some(engine) = engine.upgrade() {
                lines.print(job_insights(&engine, &mut jobs));
                let now = engine.now();
                lines.print(engine.with_status(|status| status.application_insights(now)));
            }
        });
        match spawned {
            Ok(thread) => ConsoleProgress(Mutex::new(Some((sender, thread)))),
            Err(error) => {
                tracing::warn!(%error, "no progress is shown: no thread for it");
                ConsoleProgress(Mutex::new(None))
            }
        }
    }

    pub(crate) fn stop(&self) {
        let running = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        if let Some((sender, thread)) = running {
            drop(sender);
            // It may be the last that holds the engine, and stop it then.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

/// A stage that runs.
struct Stage {
    name: String,
    tasks: u32,
    done: u32,
    running: u32,
    failed: u32,
    runs_for: Duration,
}

fn active_stages(engine: &Engine) -> BTreeMap<StageRef, Stage> {
    let now = engine.now();
    engine.with_status(|status| {
        let stages = status.active_stages().map(|stage| {
            let began: Tick = stage.info.submitted.unwrap_or(now);
            let shown = Stage {
                name: stage.info.name.to_string(),
                tasks: stage.info.tasks,
                done: stage.tasks.completed,
                running: stage.tasks.active,
                failed: stage.tasks.failed + stage.tasks.killed,
                runs_for: Duration::from_millis(now.since_ms(began)),
            };
            (stage.info.stage, shown)
        });
        stages.collect()
    })
}

/// What the jobs show that were seen to run and are over.
fn job_insights(engine: &Engine, seen: &mut BTreeSet<JobId>) -> Vec<Insight> {
    let now = engine.now();
    engine.with_status(|status| {
        let running: BTreeSet<JobId> = status.active_jobs().map(|job| job.job).collect();
        let before = std::mem::replace(seen, running);
        let over = before.difference(seen);
        over.flat_map(|job| status.job_insights(*job, now)).collect()
    })
}

struct Lines {
    bars: MultiProgress,
    shown: BTreeMap<StageRef, ProgressBar>,
    interval: Duration,
}

impl Lines {
    fn new(interval: Duration) -> Self {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        Lines { bars, shown: BTreeMap::new(), interval }
    }

    /// Above the lines that are drawn.
    fn print(&self, insights: Vec<Insight>) {
        for insight in insights {
            let _ = self.bars.println(format!("insight: {insight}"));
        }
    }

    fn show(&mut self, stages: BTreeMap<StageRef, Stage>) {
        self.shown.retain(|stage, bar| {
            let runs = stages.contains_key(stage);
            if !runs {
                bar.finish_and_clear();
                self.bars.remove(bar);
            }
            runs
        });
        for (stage, state) in stages {
            if let Some(bar) = self.shown.get(&stage) {
                bar.set_position(state.done.into());
                bar.set_message(note(&state));
            } else if state.runs_for >= FIRST_SHOWN_AFTER {
                self.shown.insert(stage, start_bar(&self.bars, stage, &state, self.interval));
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
    let bar = ProgressBar::with_draw_target(Some(state.tasks.into()), ProgressDrawTarget::hidden())
        .with_style(style)
        .with_prefix(format!("Stage {stage}"))
        .with_message(note(state))
        .with_position(state.done.into())
        .with_elapsed(state.runs_for);
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
