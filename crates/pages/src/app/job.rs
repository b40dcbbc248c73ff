//! One job: its stages as a picture and as a table.

use std::collections::BTreeSet;

use firesteel_status::{AppStatus, JobState, JobStatus, StageState, StageStatus};
use firesteel_types::StageId;
use maud::{Markup, html};

use super::{LONGEST, brief, facts, job_name, kill, named, said, stages, task_time_ms};
use crate::badge;
use crate::chart::dag::{self, Node};
use crate::chart::progress;
use crate::frame::Frame;
use crate::text::{bytes, counted, millis, short, time};

/// So many tags are named.
const TAGS: usize = 50;

pub(crate) fn main(frame: &Frame<'_>, status: &AppStatus, job: &JobStatus) -> Markup {
    let known = status.stages_of(job.job);
    let tasks = job.tasks_total.saturating_sub(job.skipped_tasks);
    let mut all = vec![
        ("State", badge::job(&job.state)),
        ("Duration", said(millis(frame.until(job.completed).since_ms(job.submitted)))),
        ("Submitted", time(job.submitted)),
        ("Stages", said(counted(job.stages.len() as u64, "stage"))),
        (
            "Tasks",
            progress(
                job.completed_indices.into(),
                job.tasks.active.into(),
                job.tasks.failed.into(),
                tasks.into(),
            ),
        ),
    ];
    all.extend(job.properties.group().map(|group| ("Group", said(named(group)))));
    all.extend(job.properties.get("spark.scheduler.pool").map(|pool| ("Pool", said(named(pool)))));
    if !job.properties.tags().is_empty() {
        let tags: Vec<String> =
            job.properties.tags().iter().take(TAGS).map(|tag| brief(tag)).collect();
        all.push(("Tags", said(tags.join(", "))));
    }
    html! {
        h1 #(format!("job-{}", job.job)) { "Job " (job.job) ": " (named(job_name(job))) }
        (facts(&all))
        @if job_name(job).len() > named(job_name(job)).len() { details data-key="description" { summary { "Its whole description" } pre tabindex="0" { (short(job_name(job), LONGEST)) } } }
        @if let JobState::Failed { reason } = &job.state { section.alert { h2 { "✕ Why it failed" } pre tabindex="0" { (short(reason, LONGEST)) } } }
        @if job.state == JobState::Running { (kill::form(frame, "job", job.job.0)) }
        h2 { "Stages" }
        @if known.len() < job.stages.len() { p.dim { (counted((job.stages.len() - known.len()) as u64, "stage")) " of it are forgotten: spark.ui.retainedStages." } }
        (picture(frame, &known))
        (stages::of_job(frame, &known))
    }
}

/// Its stages as boxes; nothing if there are none, a sentence if there are too many.
pub(crate) fn picture(frame: &Frame<'_>, stages: &[&StageStatus]) -> Markup {
    let most = stages.iter().map(|stage| task_time_ms(stage)).max().unwrap_or(0).max(1) as f64;
    match stages.len() {
        0 => html! {},
        1..=dag::AT_MOST => {
            let there: BTreeSet<StageId> = stages.iter().map(|it| it.info.stage.stage).collect();
            let nodes = stages.iter().map(|stage| node(frame, stage, most, &there));
            dag::draw(&nodes.collect::<Vec<_>>())
        }
        many => {
            html! { p.dim { "A picture of " (many) " stages would help nobody: see the table." } }
        }
    }
}

fn node(frame: &Frame<'_>, stage: &StageStatus, most: f64, there: &BTreeSet<StageId>) -> Node {
    let metrics = &stage.metrics;
    let read = metrics.input_bytes.saturating_add(metrics.shuffle_read_bytes());
    let written = metrics.output_bytes;
    let mut words = Vec::new();
    if stage.state == StageState::Skipped {
        words.push("skipped".to_owned());
    } else {
        words.push(counted(stage.info.tasks.into(), "task"));
    }
    if read > 0 {
        words.push(format!("in {}", bytes(read)));
    }
    if written > 0 {
        words.push(format!("out {}", bytes(written)));
    }
    Node {
        id: stage.info.stage.stage.0,
        title: format!("{}Stage {}", sign(stage.state), stage.info.stage.stage),
        duration: stages::duration(frame, stage).map_or_else(String::new, millis),
        name: named(&stage.info.name),
        bytes: words.join(" · "),
        part: task_time_ms(stage) as f64 / most,
        class: match stage.state {
            StageState::Pending => "pending",
            StageState::Active => "active",
            StageState::Complete => "complete",
            StageState::Failed => "failed",
            StageState::Skipped => "skipped",
        },
        link: frame.stage(stage.info.stage),
        parents: stage.info.parents.iter().filter(|it| there.contains(it)).map(|it| it.0).collect(),
        flows: (metrics.shuffle_write_bytes, bytes(metrics.shuffle_write_bytes)),
    }
}

fn sign(state: StageState) -> &'static str {
    match state {
        StageState::Active => "▶ ",
        StageState::Failed => "✕ ",
        _ => "",
    }
}
