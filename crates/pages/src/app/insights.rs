//! What could be better, as the status says it: what was measured, what to try, and what that may gain.

use firesteel_status::{AppStatus, Insight, StageStatus};
use maud::{Markup, html};

use super::named;
use crate::frame::{Frame, Tab};
use crate::text::{millis, short};

/// Of a stage with more tasks the pictures say how they differ: another look at all of them takes too long.
const MOST_TASKS: u32 = 100_000;

/// So many characters of what was measured are shown: some repeat why an executor was lost.
const LONGEST: usize = 2000;

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
        false => html! {
            (list(frame, &status.stage_insights_of_sums(stage, frame.end)))
            p.note { "Of so many tasks the pictures below say whether some took far longer, and the insights of "
                a href=(frame.tab(Tab::Overview)) { "the whole application" } " what that cost." }
        },
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
                        p { (short(&insight.figure, LONGEST)) "." }
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
        @if !insight.place.is_empty() { " " span.dim { (named(&insight.place)) } }
    }
}

fn capital(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}
