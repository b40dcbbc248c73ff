//! One file with everything of an application: no script, nothing from a network.

use firesteel_conf::Redaction;
use firesteel_monitor::rest::Query;
use firesteel_status::{AppStatus, JobStatus, Order, Paging, StageState, StageStatus};
use firesteel_types::Tick;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::app::{
    environment, executors, job, jobs, overview, stage, stages, storage, task_time_ms,
};
use crate::assets;
use crate::frame::{self, Frame, Place};
use crate::known::Known;
use crate::text::{counted, moment};

/// Of so many jobs the stages are drawn, and of so many stages the tasks: those that took longest.
const JOBS: usize = 20;
const STAGES: usize = 30;

/// The report of an application, as HTML.
pub fn report(status: &AppStatus, secrets: &Redaction, now: Tick) -> String {
    let known = Known::default();
    let frame = Frame {
        place: Place::Report,
        root: String::new(),
        home: String::new(),
        path: "/".to_owned(),
        query: Query::parse("size=200"),
        now,
        end: frame::end(Place::Report, status, now),
        known: &known,
        secrets,
        token: None,
    };
    let name = &status.application().name;
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
                main { (parts(&frame, status)) }
                footer { "Firesteel " (env!("CARGO_PKG_VERSION")) " · all times are UTC" }
            }
        }
    }
    .into_string()
}

fn part(id: &str, content: &Markup) -> Markup {
    html! { section.part id=(id) { (content) } }
}

fn parts(frame: &Frame<'_>, status: &AppStatus) -> Markup {
    html! {
        (part("overview", &overview::main(frame, status)))
        (part("jobs", &jobs::main(frame, status)))
        (longest_jobs(frame, status))
        (part("stages", &stages::main(frame, status)))
        (longest_stages(frame, status))
        (part("storage", &storage::main(frame, status)))
        (part("environment", &environment::main(frame, status)))
        (part("executors", &executors::main(frame, status)))
    }
}

fn longest_jobs(frame: &Frame<'_>, status: &AppStatus) -> Markup {
    let mut all: Vec<&JobStatus> = status.jobs(|_| true, Order::Ascending, Paging::ALL).items;
    all.sort_by_key(|job| std::cmp::Reverse(frame.until(job.completed).since_ms(job.submitted)));
    html! {
        @for job in all.iter().take(JOBS) { (part(&format!("job-part-{}", job.job), &job::main(frame, status, job))) }
        @if all.len() > JOBS { p.dim { (counted((all.len() - JOBS) as u64, "shorter job")) " not drawn." } }
    }
}

fn longest_stages(frame: &Frame<'_>, status: &AppStatus) -> Markup {
    let ran =
        |stage: &StageStatus| !matches!(stage.state, StageState::Pending | StageState::Skipped);
    let mut all = status.stages(ran, Order::Ascending, Paging::ALL).items;
    all.sort_by_key(|stage| std::cmp::Reverse(task_time_ms(stage)));
    html! {
        @for it in all.iter().take(STAGES) {
            @let id = it.info.stage;
            (part(&format!("stage-{}-{}", id.stage, id.attempt), &html! {
                h1 { "Stage " (id.stage) @if id.attempt > 0 { " (attempt " (id.attempt) ")" } ": " (it.info.name) }
                (stage::pictures(frame, status, it))
            }))
        }
        @if all.len() > STAGES { p.dim { (counted((all.len() - STAGES) as u64, "shorter stage")) " not drawn." } }
    }
}
