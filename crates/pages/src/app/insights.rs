//! What could be better, as the status says it: what was measured, what to try, and what that may gain.

use firesteel_status::{AppStatus, Insight, StageStatus};
use firesteel_types::StageRef;
use maud::{Markup, html};

use super::named;
use crate::frame::{Frame, Tab};
use crate::text::{counted, millis, short};

/// Of a stage with more tasks the pictures say how they differ: another look at all of them takes too long.
const MOST_TASKS: u32 = 100_000;

/// So many characters of what was measured are shown: some repeat why an executor was lost.
const LONGEST: usize = 2000;

/// Of the whole application, the costliest first.
pub(crate) fn of_application(frame: &Frame<'_>, status: &AppStatus) -> Markup {
    let all = frame.known.insights(status, frame.end);
    html! {
        @if !all.is_empty() {
            section aria-labelledby="insights" { h2 #insights { "What could be better" } (list(frame, &all, None)) }
        }
    }
}

/// Of one stage attempt.
pub(crate) fn of_stage(frame: &Frame<'_>, status: &AppStatus, stage: &StageStatus) -> Markup {
    match stage.info.tasks <= MOST_TASKS {
        true => list(frame, &status.stage_insights(stage, frame.end), Some(stage.info.stage)),
        false => html! {
            (list(frame, &status.stage_insights_of_sums(stage, frame.end), Some(stage.info.stage)))
            p.note { "Of so many tasks the pictures below say whether some took far longer, and the insights of "
                a href=(frame.tab(Tab::Overview)) { "the whole application" } " what that cost." }
        },
    }
}

/// Those of one kind with the same advice are one, at the place of the first. `own`: the stage whose page it is.
fn list(frame: &Frame<'_>, all: &[Insight], own: Option<StageRef>) -> Markup {
    let mut groups: Vec<Vec<&Insight>> = Vec::new();
    for insight in all {
        let is_alike =
            |other: &&Insight| other.kind == insight.kind && other.advice == insight.advice;
        match groups.iter_mut().find(|group| group.first().is_some_and(is_alike)) {
            Some(group) => group.push(insight),
            None => groups.push(vec![insight]),
        }
    }
    html! {
        @if !all.is_empty() { ul.insights { @for group in &groups { (one(frame, group, own)) } } }
    }
}

fn one(frame: &Frame<'_>, group: &[&Insight], own: Option<StageRef>) -> Markup {
    let [insight] = group else { return several(frame, group) };
    html! {
        li {
            p {
                strong { (capital(insight.kind.title())) }
                @if own.is_none() || insight.stage != own { (place(frame, insight)) }
                (cost(insight))
            }
            p { (short(&insight.figure, LONGEST)) "." }
            p.dim { "Try: " (insight.advice) "." }
        }
    }
}

/// `Skewed partitions in 2 stages`, each with what was measured, and the advice once.
fn several(frame: &Frame<'_>, group: &[&Insight]) -> Markup {
    let Some(first) = group.first() else { return html! {} };
    let noun = if group.iter().all(|it| it.stage.is_some()) { "stage" } else { "place" };
    html! {
        li {
            p { strong { (capital(first.kind.title())) } " in " (counted(group.len() as u64, noun)) }
            ul { @for insight in group {
                li { (place(frame, insight)) (cost(insight)) ": " (short(&insight.figure, LONGEST)) "." }
            } }
            p.dim { "Try: " (first.advice) "." }
        }
    }
}

fn cost(insight: &Insight) -> Markup {
    html! {
        @if let Some(lost) = insight.lost_ms.filter(|lost| *lost > 0) { " · costs about " strong { (millis(lost)) } }
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
