//! How jobs, stages and executors stand: Spark's status tracker. Each answer has everything that has happened so far.

use std::sync::Arc;

use firesteel_engine::Engine;
use firesteel_status::{AppStatus, JobState, JobStatus, Order, Paging, StageStatus, TaskCounts};
use firesteel_types::{ExecutorId, Host, JobId, StageId, Tick};

/// Looks at how jobs, stages and executors stand. What is over is forgotten, the oldest first, beyond
/// `spark.ui.retainedJobs` and its like.
#[derive(Clone)]
pub struct StatusTracker {
    engine: Arc<Engine>,
}

/// A job as the tracker tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSummary {
    /// Counts from 0 within the application.
    pub job: JobId,
    /// Whether it runs or how it ended.
    pub state: JobState,
    /// Every stage it may need, parents first.
    pub stages: Vec<StageId>,
    /// Its tasks, attempts counted one by one.
    pub tasks: TaskCounts,
    /// Tasks of all stages it may need.
    pub tasks_total: u32,
}

/// A stage as the tracker tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageSummary {
    /// Counts from 0 within the application.
    pub stage: StageId,
    /// The number of its latest attempt, from 0.
    pub attempt: u32,
    /// The operation that made it and where the program called it: `reduce_by_key at src/main.rs:12`.
    pub name: String,
    /// When that attempt began, if it has.
    pub submitted: Option<Tick>,
    /// Tasks of that attempt.
    pub tasks_total: u32,
    /// How many of that attempt's tasks run, succeeded and failed.
    pub tasks: TaskCounts,
}

/// An executor as the tracker tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorSummary {
    /// Its id; in local mode the driver's.
    pub executor: ExecutorId,
    /// The name of the machine that it runs on.
    pub host: Host,
    /// How many tasks at once, if each takes one core.
    pub cores: u32,
    /// Tasks that run there.
    pub running_tasks: u32,
    /// Bytes of blocks in memory.
    pub memory_used: u64,
    /// Bytes of memory for blocks and running tasks.
    pub max_memory: u64,
}

impl StatusTracker {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        StatusTracker { engine }
    }

    fn ids(&self, wanted: impl Fn(&JobStatus) -> bool) -> Vec<JobId> {
        self.engine.with_status(|status| {
            let jobs = status.jobs(wanted, Order::Ascending, Paging::ALL).items;
            jobs.into_iter().map(|job| job.job).collect()
        })
    }

    /// The jobs of a group, running and over; `None`: those of no group.
    pub fn job_ids_for_group(&self, group: Option<&str>) -> Vec<JobId> {
        self.ids(|job| job.properties.group() == group)
    }

    /// The jobs that have a tag, running and over.
    pub fn job_ids_for_tag(&self, tag: &str) -> Vec<JobId> {
        self.ids(|job| job.properties.tags().contains(tag))
    }

    /// The jobs that run.
    pub fn active_job_ids(&self) -> Vec<JobId> {
        self.ids(|job| job.state == JobState::Running)
    }

    /// The stages that run.
    pub fn active_stage_ids(&self) -> Vec<StageId> {
        self.engine.with_status(|status| {
            let stages = status.active_stages().map(|stage| stage.info.stage.stage);
            stages.collect()
        })
    }

    /// A job, if it is remembered.
    pub fn job(&self, job: JobId) -> Option<JobSummary> {
        self.engine.with_status(|status| status.job(job).map(summary_of_job))
    }

    /// The latest attempt of a stage, if it is remembered.
    pub fn stage(&self, stage: StageId) -> Option<StageSummary> {
        self.engine.with_status(|status| status.last_attempt(stage).map(summary_of_stage))
    }

    /// The executors that live; in local mode the driver.
    pub fn executors(&self) -> Vec<ExecutorSummary> {
        self.engine.with_status(|status: &AppStatus| {
            let live = status.executors().filter(|executor| executor.is_active());
            let live = live.filter(|executor| executor.info.cores > 0);
            let summaries = live.map(|executor| ExecutorSummary {
                executor: executor.executor,
                host: executor.info.host.clone(),
                cores: executor.info.cores,
                running_tasks: executor.tasks.active,
                memory_used: executor.memory_used,
                max_memory: executor.max_memory,
            });
            summaries.collect()
        })
    }
}

fn summary_of_job(job: &JobStatus) -> JobSummary {
    JobSummary {
        job: job.job,
        state: job.state.clone(),
        stages: job.stages.clone(),
        tasks: job.tasks,
        tasks_total: job.tasks_total,
    }
}

fn summary_of_stage(stage: &StageStatus) -> StageSummary {
    StageSummary {
        stage: stage.info.stage.stage,
        attempt: stage.info.stage.attempt,
        name: stage.info.name.to_string(),
        submitted: stage.info.submitted,
        tasks_total: stage.info.tasks,
        tasks: stage.tasks,
    }
}
