//! Heartbeats: what executors and the driver use, told to the status and to listeners, with the peaks of each stage.
//!
//! Executors of a cluster bring theirs over the network. The driver, which runs the tasks in local mode, looks at
//! itself on a thread of its own, every `spark.executor.heartbeatInterval`, and in local mode every
//! `spark.executor.metrics.pollingInterval` if that is set: never for each task.

use std::collections::BTreeMap;
use std::mem::take;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use firesteel_conf::{Conf, entries};
use firesteel_task::Environment;
use firesteel_types::{
    Event, ExecutorId, ExecutorMetrics, RunningTask, StagePeak, StageRef, TaskMetrics,
};

use crate::state::{Running, State};
use crate::{Engine, Error, Result, local};

/// What an executor told with a heartbeat.
pub(crate) struct Heartbeat {
    pub(crate) executor: ExecutorId,
    pub(crate) metrics: ExecutorMetrics,
    pub(crate) stages: Vec<StagePeak>,
    pub(crate) tasks: Vec<RunningTask>,
}

/// The most that executors used while the stages that run now did.
#[derive(Default)]
pub(crate) struct StagePeaks(BTreeMap<StageRef, BTreeMap<ExecutorId, ExecutorMetrics>>);

impl StagePeaks {
    fn note(&mut self, stage: StageRef, executor: ExecutorId, metrics: ExecutorMetrics) {
        if let Some(executors) = self.0.get_mut(&stage) {
            let peak = executors.entry(executor).or_default();
            *peak = peak.max(metrics);
        }
    }

    /// A task has ended: in this process, or in one that told what it used meanwhile.
    pub(crate) fn task_ended(&mut self, running: &mut Running, cost: &mut TaskMetrics) {
        cost.executor = running.peak.take().or(cost.executor.take());
        if let Some(peak) = &cost.executor {
            self.note(running.info.stage, running.info.executor, **peak);
        }
    }

    /// What listeners hear before they hear this.
    pub(crate) fn before(&mut self, event: &Event) -> Vec<Event> {
        match event {
            Event::StageSubmitted { stage, .. } => {
                self.0.insert(stage.stage, BTreeMap::new());
                Vec::new()
            }
            Event::StageCompleted { stage, .. } => {
                let stage = stage.stage;
                let peaks = self.0.remove(&stage).unwrap_or_default().into_iter();
                let told =
                    |(executor, metrics)| Event::StageExecutorMetrics { stage, executor, metrics };
                peaks.map(told).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// The thread that looks at what the driver uses; it ends when this is dropped or stopped.
#[derive(Default)]
pub(crate) struct Heartbeats(Mutex<Option<Sender<()>>>);

impl Heartbeats {
    pub(crate) fn start(&self, engine: &Arc<Engine>, runs_tasks: bool) -> Result<()> {
        let rhythm = Rhythm::of(engine.conf(), runs_tasks)?;
        let (sender, stop) = channel();
        let shared = engine.clone();
        let thread = std::thread::Builder::new().name("firesteel-heartbeat".into());
        let spawned = thread.spawn(move || {
            local::guarded_with(&shared, || beat(&shared, rhythm, &stop));
        });
        let thread = spawned.map_err(|source| Error::Start {
            what: "the heartbeat thread".to_owned(),
            source: Arc::new(source),
        })?;
        engine.lock().threads.push(thread);
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(sender);
        Ok(())
    }

    /// Ends the thread soon.
    pub(crate) fn stop(&self) {
        drop(self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take());
    }
}

/// How often to look, and how often to tell.
#[derive(Clone, Copy)]
struct Rhythm {
    poll: Duration,
    heartbeat: Duration,
}

impl Rhythm {
    fn of(conf: &Conf, runs_tasks: bool) -> Result<Self> {
        let heartbeat = conf.get(&entries::EXECUTOR_HEARTBEAT_INTERVAL)?;
        let poll = conf.get(&entries::EXECUTOR_METRICS_POLLING_INTERVAL)?;
        let polls = runs_tasks && !poll.is_zero();
        Ok(Rhythm { poll: if polls { poll.min(heartbeat) } else { heartbeat }, heartbeat })
    }
}

fn beat(engine: &Arc<Engine>, rhythm: Rhythm, stop: &Receiver<()>) {
    let (mut since, mut peak, mut stages) =
        (Instant::now(), ExecutorMetrics::default(), BTreeMap::new());
    while let Err(RecvTimeoutError::Timeout) = stop.recv_timeout(rhythm.poll) {
        let usage = firesteel_executor::usage(engine.environment.scratch());
        engine.lock().note_usage(usage, &mut stages);
        peak = peak.max(usage);
        if since.elapsed() + rhythm.poll > rhythm.heartbeat {
            since = Instant::now();
            let told = take(&mut stages).into_iter();
            engine.note_heartbeat(Heartbeat {
                executor: ExecutorId::DRIVER,
                metrics: take(&mut peak),
                stages: told.map(|(stage, metrics)| StagePeak { stage, metrics }).collect(),
                tasks: Vec::new(),
            });
        }
    }
}

impl State {
    /// Takes note of what this process uses, for each task that it runs.
    fn note_usage(
        &mut self,
        usage: ExecutorMetrics,
        stages: &mut BTreeMap<StageRef, ExecutorMetrics>,
    ) {
        let running = self.running.values_mut();
        for running in running.filter(|running| running.info.executor == ExecutorId::DRIVER) {
            let of_task = running.peak.get_or_insert_default();
            **of_task = of_task.max(usage);
            let of_stage = stages.entry(running.info.stage).or_default();
            *of_stage = of_stage.max(usage);
        }
    }
}

impl Engine {
    /// An executor, or the driver, told what it uses.
    pub(crate) fn note_heartbeat(&self, heartbeat: Heartbeat) {
        let Heartbeat { executor, metrics, stages, tasks } = heartbeat;
        // Posted under the lock: no stage ends between its peaks and this.
        let mut state = self.lock();
        for peak in &stages {
            state.peaks.note(peak.stage, executor, peak.metrics);
        }
        let at = Some(self.now());
        self.post(Event::ExecutorMetricsUpdate { executor, metrics, stages, tasks, at });
    }
}
