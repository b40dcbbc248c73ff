//! What could be better, as the status says it: what was measured, what to try, and what that may gain.

use firesteel_status::{AppStatus, Insight, StageStatus};
use maud::{Markup, html};

use crate::frame::Frame;
use crate::text::millis;

/// Of a stage with more tasks its pictures have to do: another look at all of them takes too long.
const MOST_TASKS: u32 = 100_000;

/// Of the whole application, the costliest first.
pub(crate) fn of_application(frame: &Frame<'_>, status: &AppStatus) -> Markup {
    let all = frame.known.insights(status, frame.end);
    html! {
        @if !all.is_empty() {
            section aria-labelledby="insights" { h2 #insights { "What could be better" } (list(frame, &all)) }
        }
    }
}

/// Of one stage attempt.
pub(crate) fn of_stage(frame: &Frame<'_>, status: &AppStatus, stage: &StageStatus) -> Markup {
    match stage.info.tasks <= MOST_TASKS {
        true => list(frame, &status.stage_insights(stage, frame.end)),
        false => html! {},
    }
}

fn list(frame: &Frame<'_>, all: &[Insight]) -> Markup {
    html! {
        @if !all.is_empty() {
            ul.insights {
                @for insight in all {
                    li {
                        p {
                            strong { (capital(insight.kind.title())) } (place(frame, insight))
                            @if let Some(lost) = insight.lost_ms.filter(|lost| *lost > 0) { " · costs about " strong { (millis(lost)) } }
                        }
                        p { (insight.figure) "." }
                        p.dim { "Try: " (insight.advice) "." }
                    }
                }
            }
        }
    }
}

fn place(frame: &Frame<'_>, insight: &Insight) -> Markup {
    html! {
        @match (insight.stage, insight.job) {
            (Some(stage), _) => { " in " a href=(frame.stage(stage)) { "stage " (stage.stage) } },
            (None, Some(job)) => { " at " a href=(frame.job(job)) { "job " (job) } },
            (None, None) => {}
        }
        @if !insight.place.is_empty() { " " span.dim { (insight.place) } }
    }
}

fn capital(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}
