//! Pages of one application: functions of its status and of a request.
//!
//! | file | page |
//! |---|---|
//! | `overview` | state, progress, insights, where the time went |
//! | `jobs`, `job` | all jobs, one job with its stages |
//! | `stages`, `stage`, `tasks` | all stages, one stage attempt with its tasks |
//! | `storage` | cached RDDs |
//! | `environment` | settings |
//! | `executors`, `threads` | who runs it, who was lost and why; what the threads of one do |
//! | `insights` | what could be better |
//! | `times` | what tasks took, by what they did |
//! | `kill` | forms that end a job or a stage |

pub(crate) mod environment;
pub(crate) mod executors;
pub(crate) mod insights;
pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod kill;
pub(crate) mod overview;
pub(crate) mod stage;
pub(crate) mod stages;
pub(crate) mod storage;
pub(crate) mod tasks;
pub(crate) mod threads;
pub(crate) mod times;

use firesteel_status::{AppStatus, JobStatus, StageStatus};
use firesteel_types::{ExecutorId, TaskMetrics};
use maud::{Markup, html};

use crate::text::{bytes, short};

/// So many characters of what an application says are shown.
pub(crate) const LONGEST: usize = 20_000;
const NAME: usize = 300;
/// Of names of executors, hosts and devices: a picture or a row may have many.
const SHORT_NAME: usize = 100;

/// What a job is called: what the user says it does, or its last stage.
pub(crate) fn job_name(job: &JobStatus) -> &str {
    job.properties.description().filter(|text| !text.trim().is_empty()).unwrap_or(&job.name)
}

/// What a user called something, as far as it fits into a table: a description may be a whole program.
pub(crate) fn named(text: &str) -> String {
    short(text, NAME)
}

/// What a cluster manager called something.
pub(crate) fn brief(text: &str) -> String {
    short(text, SHORT_NAME)
}

pub(crate) fn executor_name(status: &AppStatus, executor: ExecutorId) -> String {
    brief(&status.executor_name(executor))
}

/// A term and what there is to say, beside others.
pub(crate) fn facts(all: &[(&str, Markup)]) -> Markup {
    html! { dl.facts { @for (name, value) in all { div { dt { (name) } dd { (value) } } } } }
}

pub(crate) fn said(text: impl Into<String>) -> Markup {
    let text = text.into();
    html! { (text) }
}

/// Bytes, or a dash where there are none.
pub(crate) fn size(number: u64) -> Markup {
    html! { @if number == 0 { span.dim { "–" } } @else { (bytes(number)) } }
}

/// What went in and out: those that are not zero.
pub(crate) fn volumes(metrics: &TaskMetrics) -> Vec<(&'static str, u64)> {
    let all = [
        ("Input", metrics.input_bytes),
        ("Output", metrics.output_bytes),
        ("Shuffle read", metrics.shuffle_read_bytes()),
        ("Shuffle write", metrics.shuffle_write_bytes),
        ("Spilled to disk", metrics.disk_bytes_spilled),
    ];
    all.into_iter().filter(|(_, bytes)| *bytes > 0).collect()
}

/// What went in and out of all of them.
pub(crate) fn sum<'a>(all: impl Iterator<Item = &'a TaskMetrics>) -> TaskMetrics {
    let mut sum = TaskMetrics::default();
    let add = |to: &mut u64, more: u64| *to = to.saturating_add(more);
    for one in all {
        add(&mut sum.input_bytes, one.input_bytes);
        add(&mut sum.output_bytes, one.output_bytes);
        add(&mut sum.shuffle_local_bytes, one.shuffle_read_bytes());
        add(&mut sum.shuffle_write_bytes, one.shuffle_write_bytes);
        add(&mut sum.disk_bytes_spilled, one.disk_bytes_spilled);
    }
    sum
}

/// What the tasks of a stage attempt took on all executors, milliseconds.
pub(crate) fn task_time_ms(stage: &StageStatus) -> u64 {
    stage.executors.values().fold(0, |sum, it| sum.saturating_add(it.task_time_ms))
}
