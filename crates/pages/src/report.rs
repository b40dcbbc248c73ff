//! One file with everything of an application: no script, nothing from a network.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use firesteel_conf::Redaction;
use firesteel_monitor::rest::Query;
use firesteel_status::{AppStatus, JobStatus, Order, Paging, StageState, StageStatus};
use firesteel_types::Tick;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::app::{
    environment, executors, job, jobs, named, overview, stage, stages, storage, task_time_ms,
};
use crate::assets;
use crate::frame::{self, Drawn, Frame, Place};
use crate::known::Known;
use crate::text::{counted, moment};

/// Of so many jobs the stages are drawn, and of so many stages the tasks: those that took longest.
const JOBS: usize = 20;
const STAGES: usize = 30;
/// So many rows a list has.
const ROWS: usize = 200;

/// The report of an application, as HTML.
pub fn report(status: &AppStatus, secrets: &Redaction, now: Tick) -> String {
    let known = Known::default();
    let frame = Frame {
        place: Place::Report,
        root: String::new(),
        home: String::new(),
        path: "/".to_owned(),
        query: Query::parse(&format!("size={ROWS}")),
        now,
        end: frame::end(Place::Report, status, now),
        known: &known,
        secrets,
        token: None,
        drawn: Drawn::default(),
    };
    let (jobs, stages) = (longest_jobs(&frame, status), longest_stages(status));
    let executors = status.executors().map(|it| it.executor);
    let drawn = Drawn {
        jobs: jobs.iter().map(|job| job.job).take(JOBS).collect(),
        stages: stages.iter().map(|stage| stage.info.stage).take(STAGES).collect(),
        // Of more, the table has only some.
        executors: if status.executors().count() <= ROWS {
            executors.collect()
        } else {
            BTreeSet::new()
        },
    };
    let frame = Frame { drawn, ..frame };
    let name = &named(&status.application().name);
    let tabs = ["Overview", "Jobs", "Stages", "Storage", "Environment", "Executors"];
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (name) " · Firesteel" }
                link rel="icon" href=(assets::ICON);
                // Our own, and no `<` in it.
                style { (PreEscaped(assets::STYLE)) }
            }
            body {
                a.skip href="#overview" { "Skip to content" }
                header {
                    div.top { span.brand { (assets::mark()) span { "Firesteel" } } span.app { (name) } span.live { "Report of " (moment(now)) } }
                    nav aria-label="Parts" { ul { @for tab in tabs { li { a href=(format!("#{}", tab.to_lowercase())) { (tab) } } } } }
                }
                main { (parts(&frame, status, &jobs, &stages)) }
                footer { "Firesteel " (env!("CARGO_PKG_VERSION")) " · all times are UTC" }
            }
        }
    }
    .into_string()
}

fn part(id: &str, content: &Markup) -> Markup {
    html! { section.part id=(id) { (content) } }
}

fn parts(
    frame: &Frame<'_>,
    status: &AppStatus,
    jobs: &[&JobStatus],
    stages: &[&StageStatus],
) -> Markup {
    html! {
        (part("overview", &overview::main(frame, status)))
        (part("jobs", &jobs::main(frame, status)))
        (job_parts(frame, status, jobs))
        (part("stages", &stages::main(frame, status)))
        (stage_parts(frame, status, stages))
        (part("storage", &storage::main(frame, status)))
        (part("environment", &environment::main(frame, status)))
        (part("executors", &executors::main(frame, status)))
    }
}

fn longest_jobs<'a>(frame: &Frame<'_>, status: &'a AppStatus) -> Vec<&'a JobStatus> {
    let mut all = status.jobs(|_| true, Order::Ascending, Paging::ALL).items;
    all.sort_by_key(|job| Reverse(frame.until(job.completed).since_ms(job.submitted)));
    all
}

fn job_parts(frame: &Frame<'_>, status: &AppStatus, all: &[&JobStatus]) -> Markup {
    html! {
        @for job in all.iter().take(JOBS) { (part(&format!("job-part-{}", job.job), &job::main(frame, status, job))) }
        @if all.len() > JOBS { p.dim { (counted((all.len() - JOBS) as u64, "shorter job")) " not drawn." } }
    }
}

fn longest_stages(status: &AppStatus) -> Vec<&StageStatus> {
    let ran =
        |stage: &StageStatus| !matches!(stage.state, StageState::Pending | StageState::Skipped);
    let mut all = status.stages(ran, Order::Ascending, Paging::ALL).items;
    all.sort_by_key(|stage| Reverse(task_time_ms(stage)));
    all
}

fn stage_parts(frame: &Frame<'_>, status: &AppStatus, all: &[&StageStatus]) -> Markup {
    html! {
        @for it in all.iter().take(STAGES) {
            @let id = it.info.stage;
            (part(&format!("stage-{}-{}", id.stage, id.attempt), &html! {
                h1 { "Stage " (id.stage) @if id.attempt > 0 { " (attempt " (id.attempt) ")" } ": " (named(&it.info.name)) }
                (stage::pictures(frame, status, it))
            }))
        }
        @if all.len() > STAGES { p.dim { (counted((all.len() - STAGES) as u64, "shorter stage")) " not drawn." } }
    }
}
